"""Variables that setup exports by their names, behind a build that reads its environment.

Setup exports what it sets as it sets it, since the command reads it. A make takes each variable
of its environment for one of its own, so that it would see what the script kept to its shell.
"""

from __future__ import annotations

import re

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

FOR_ALL = "set -a  # the command reads these variables, too\n"
BY_NAME = "  # the command reads these variables, too"
_BUILDING = frozenset({"make", "gmake", "cmake", "ninja", "meson", "scons", "configure"})
# What sets variables, or functions, that no line of setup names.
_SETS_OTHERS = frozenset(
    {"source", ".", "eval", "let", "getopts", "export", "declare", "typeset", "trap", "exit"}
    | {"spack", "set", "return", "exec", "activate"}
)
_OF_SUM = re.compile(r"\(\(|\bselect\b|\bcoproc\b|\$\{\w+:?=")
_OF_LOOP = re.compile(r"\bfor\s+([A-Za-z_]\w*)")


# An environment exports what programs read, and has functions, which a script may call.
_READING = ("source", ".")
_OF_ENVIRONMENT = re.compile(r".*/bin/activate")
_FUNCTION = re.compile(r"(?:^|[\s;&|(])(?:deactivate|module|ml|conda|mamba|micromamba)\b")


def by_name(setup: str, rest: str) -> str:
    """Setup that exports its variables at its end, where it builds and names all that it sets.

    Args:
        setup: the lines of setup.
        rest: what runs behind it.
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
    if _OF_SUM.search(lines) or any(map(_sets_others, texts)) or _FUNCTION.search(rest):
        return setup
    names = [name for command in commands for name, _ in shell_text.assigned_by(command)]
    names += [name for command in commands for name in shell_text.printed_into(command)]
    names += _OF_LOOP.findall(lines)
    exported = " ".join(dict.fromkeys(names))
    return f"{lines.rstrip()}\nexport {exported}{BY_NAME}\n" if exported else setup


def _sets_others(texts: list[str]) -> bool:
    """Whether a command may set what no line names; an export with a text names it."""
    is_switch = texts[:1] == ["set"] and texts[1:2] in (["+e"], ["-e"])
    is_environment = texts[:1] and texts[0] in _READING and _OF_ENVIRONMENT.fullmatch(texts[-1])
    is_named = texts[:1] == ["export"] and not any(text.startswith("-") for text in texts[1:])
    names_all = is_switch or is_named or is_environment
    return bool(texts) and words.base(texts[0]) in _SETS_OTHERS and not names_all
