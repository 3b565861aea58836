"""Variables that setup exports by their names, behind a build that reads its environment.

Setup exports what it sets as it sets it, since the command reads it. A make takes each variable
of its environment for one of its own, so that it would see what the script kept to its shell.
"""

from __future__ import annotations

import re

from allranks.convert import scanner
from allranks.convert.slurm.batch_script import shell_text, words

FOR_ALL = "set -a  # the command reads these variables, too\n"
BY_NAME = "  # the command reads these variables, too"
_BUILDING = frozenset({"make", "gmake", "cmake", "ninja", "meson", "scons", "configure"})
# What sets variables, or functions, that no line of setup names.
_SETS_OTHERS = frozenset(
    {"source", ".", "eval", "let", "getopts", "export", "declare", "typeset", "trap", "exit"}
    | {"module", "ml", "conda", "mamba", "micromamba", "spack", "set", "return", "exec", "activate"}
)
_OF_SUM = re.compile(r"\(\(|\bselect\b|\bcoproc\b|\$\{\w+:?=")
_OF_LOOP = re.compile(r"\bfor\s+([A-Za-z_]\w*)")


def by_name(setup: str) -> str:
    """Setup that exports its variables at its end, where it builds and names all that it sets.

    Args:
        setup: the lines of setup.
    """
    lines = setup.replace(FOR_ALL, "", 1)
    try:
        statements = scanner.parse(lines)
    except scanner.ScriptError:
        return setup
    commands = [command for statement in statements for command in statement.commands]
    texts = [[token.text for token in command.words] for command in commands]
    builds = any(words.any_of(text, _BUILDING) for text in texts)
    if lines == setup or not builds or any(statement.function for statement in statements):
        return setup
    if _OF_SUM.search(lines) or any(_sets_others(text) for text in texts):
        return setup
    names = [name for command in commands for name, _ in shell_text.assigned_by(command)]
    names += [name for command in commands for name in shell_text.printed_into(command)]
    names += _OF_LOOP.findall(lines)
    exported = " ".join(dict.fromkeys(names))
    return f"{lines.rstrip()}\nexport {exported}{BY_NAME}\n" if exported else setup


def _sets_others(texts: list[str]) -> bool:
    """Whether a command may set what no line names; an export with a text names it."""
    is_switch = texts[:1] == ["set"] and texts[1:2] in (["+e"], ["-e"])
    is_named = texts[:1] == ["export"] and not any(text.startswith("-") for text in texts[1:])
    return bool(texts) and words.base(texts[0]) in _SETS_OTHERS and not (is_switch or is_named)
