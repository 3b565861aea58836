"""Variables of who submits without which a script ends: ``A="${A:-}"; [ -n "$A" ] || exit 1``.

An empty text stands in their place, so that only the test behind it shows that they are needed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.convert.slurm.batch_script.text.script import Script

# What an environment sets as it is activated: nobody has before, in a pod.
_OF_ENVIRONMENT = frozenset({"VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV"})
_VARIABLE = r"\"?\$(?:(?P<name>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)(?::?-)?\})\"?"
_EMPTY = rf"\[\[?[ \t]+(?:-z|![ \t]+-n)[ \t]+{_VARIABLE}[ \t]+\]\]?"
_SET = rf"\[\[?[ \t]+(?:-n[ \t]+|![ \t]+-z[ \t]+)?{_VARIABLE}[ \t]+\]\]?"
_THEN = r"[ \t]*[;\n]\s*then\b"
# Lines up to another branch, or the end of this one.
_BLOCK = r"(?:(?!\b(?:fi|else|elif|if)\b)[\s\S])*?"
_GROUP = r"\s*(?:\{(?:[^{}]|\$\{[^{}]*\})*?)?"
# The tests by which a script ends, in lines of their own, which always run.
_TESTS = (
    rf"{_EMPTY}[ \t]*&&{_GROUP}",
    rf"{_SET}[ \t]*\|\|{_GROUP}",
    rf"if[ \t]+{_EMPTY}{_THEN}{_BLOCK}",
    rf"if[ \t]+{_SET}{_THEN}{_BLOCK}\belse\b{_BLOCK}",
)
# A text that a program gives, or does not, and none that looks for a program on PATH.
_OF_PROGRAM = re.compile(r"[\"']?(?:\$\((?!\()|`)(?!\s*(?:command\s+-[vV]|which|type)\b)")
# What a variable is where nobody has set another one, and that one alone.
_WITH_DEFAULT = re.compile(r"\"?\$\{([A-Za-z_]\w*):?-(.*)\}\"?", re.DOTALL)


def names(script: Script, code: str, is_set: Callable[[str], bool]) -> set[str]:
    """The variables without which the script ends, and which it takes from its environment.

    Args:
        script: the script.
        code: what runs, without its comments and the lines that only print.
        is_set: whether a pod, or the script itself, sets a variable.
    """
    functions = [
        own.function
        for own in script.statements
        if own.function and any(command.name == "exit" for command in own.commands)
    ]
    ending = "|".join(map(re.escape, ("exit", *functions)))
    needed = {
        match["name"] or match["braced"]
        for test in _TESTS
        for match in re.finditer(rf"^{test}\b(?:{ending})\b", code, re.MULTILINE)
    }
    values: dict[str, list[str]] = {name: [] for name in needed}
    active: set[str] = set()
    before: set[str] = set()
    for statement in script.statements:
        tested = _tested_by(script.slice(statement))
        for command in statement.commands:
            if words.activates([scanner.unquote(word.text) for word in command.words]):
                active |= _OF_ENVIRONMENT
            is_conditional = shell_text.is_conditional(statement, command)
            for name, value in shell_text.assigned_by(command):
                # A file that is tried where nobody has set it may have nothing.
                is_tried = is_conditional and name in tested and _OF_PROGRAM.match(value)
                values.setdefault(name, []).append(f"${name}" if is_tried else value)
                before |= {*_sources(value)} & _OF_ENVIRONMENT - active
    missing = set()
    # What is set otherwise, by `read` or a loop, may have any text.
    for name in (own for own in needed if values[own] or not is_set(own)):
        sources = [_sources(value) for value in values[name]] or [[name]]
        others = {other for own in sources for other in own} - {name}
        if all(sources) and not any(map(is_set, others - before)):
            missing.add(sources[0][0])
    return missing


def line_that_tries(script: Script, name: str) -> int:
    """The line that looks for the text of a variable where nobody has set it; 0 for none.

    Args:
        script: the script.
        name: the variable.
    """
    for statement in script.statements:
        text = script.slice(statement)
        if name not in text or name not in _tested_by(text):
            continue
        for command in statement.commands:
            values = [value for own, value in shell_text.assigned_by(command) if own == name]
            if any(map(_OF_PROGRAM.match, values)):
                return command.line
    return 0


def _tested_by(text: str) -> set[str]:
    """The variables whose emptiness the beginning of a statement tests.

    Args:
        text: the statement: ``if [ -z "$A" ]; then A=$(cat key); fi``.
    """
    return {
        match["name"] or match["braced"]
        for test in (rf"if[ \t]+{_EMPTY}", rf"{_EMPTY}[ \t]*&&", rf"{_SET}[ \t]*\|\|")
        for match in re.finditer(rf"\A{test}", text)
    }


def _sources(value: str) -> list[str]:
    """The variables that may give a value its text, where nothing else does.

    Args:
        value: what is assigned: ``${A:-${B:-}}``.
    """
    sources: list[str] = []
    while (match := _WITH_DEFAULT.fullmatch(value)) is not None:
        sources.append(match[1])
        value = match[2]
    own = shell_text.variable_alone(value.strip('"'))
    return [*sources, own] if own else [] if value.strip("\"'") else sources
