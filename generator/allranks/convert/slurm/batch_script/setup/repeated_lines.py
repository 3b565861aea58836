"""Lines of setup that a later shell runs again, as what they set dies with the shell of setup.

Setup exports its variables, so that a line that adds to one would add twice:
``for x in a b; do ARGS="$ARGS --data $x"; FILES+=($x); done``. So such lines are run again from
where the variable had its first text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, substitutions, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

    # The numbers of the statements that set a variable, by its name.
    _Setters = dict[str, list[int]]

# An array that is read, whole or a part of it, or counted.
_OF_ARRAY = re.compile(r"\$\{[#!]?([A-Za-z_]\w*)\[")
_READ_AGAIN = (
    "it may set an array or define a function, which no other shell gets: it is read again behind "
    "setup, and what it activates is active again"
)
# Few programs are called so, and many functions of a project's own: `run_all`, `load_modules`.
_NAME_OF_FUNCTION = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CHANGED = re.compile(
    r"(?:\(\(|\blet\s+[\"']?)\s*([A-Za-z_]\w*)\s*(?:[-+*/%]=|\+\+|--)|\b([A-Za-z_]\w*)\+="
    r"|\b([A-Za-z_]\w*)=\S*\$\(\(\s*\$?\3\b"
)


# The options of a shell at the begin of setup.
_OPTIONS = re.compile(r"(?:#![^\n]*\n)?(?:set [-+][a-z]+\b[^\n]*\n)*")


def with_starts(script: Script, own: Mapping[int, str], end: int) -> dict[int, str]:
    """Some statements with those that set before them what they change, in the script's order.

    Args:
        script: the script.
        own: the texts of the statements that are run again, by their numbers.
        end: the number of the statement that reads what they set.

    Returns:
        The texts by the statements' numbers.
    """
    return _with(script, own, _setters_by(script, own, end), end)


def _with(script: Script, own: Mapping[int, str], setters: _Setters, end: int) -> dict[int, str]:
    numbers = {number for numbers in setters.values() for number in numbers} | {*own}
    numbers |= _set_arrays(script, numbers, end)
    rows = {n: own.get(n, script.slice(script.statements[n])) for n in numbers}
    return {number: rows[number] for number in sorted(rows)}


def _set_arrays(script: Script, numbers: Collection[int], end: int) -> set[int]:
    """The statements that give an array of some statements another first element: ``A=${A[2]}``.

    It stays an array, which no shell exports.

    Args:
        script: the script.
        numbers: the statements that are run again.
        end: the number of the statement that reads what they set.
    """
    arrays = {
        name
        for number in numbers
        for command in script.statements[number].commands
        for name in shell_text.arrays_of(command)
    }
    return {
        number
        for number in range(min(numbers, default=0), max(end, 0))
        if not script.statements[number].function
        and any(shell_text.assigns(script.statements[number], name) for name in arrays)
    }


def texts(script: Script, own: Mapping[int, str], end: int) -> list[str]:
    """The lines of some statements, with what sets before them what they change.

    Args:
        script: the script.
        own: the texts of the statements that are run again, by their numbers.
        end: the number of the statement that reads what they set.
    """
    setters = _setters_by(script, own, end)
    rows = _with(script, own, setters, end)
    later = _set_later(script, [n for n in rows if not script.statements[n].function], end)
    return [
        *(f"setup_{name}=${{{name}-}}" for name in later),
        *(f"unset {name}" for name in _begun_anew(script, setters)),
        *(
            f'[ -z "${{given_{name}+x}}" ] || {name}=$given_{name}'
            for name in _of_environment(script, setters)
        ),
        *rows.values(),
        *(f"{name}=$setup_{name}" for name in later),
    ]


def environment_names(script: Script, own: Mapping[int, str], end: int) -> list[str]:
    """The variables of such lines whose first text is that of who submits: ``A="${A:-} --x"``.

    Args:
        script: the script.
        own: the texts of the statements that are run again, by their numbers.
        end: the number of the statement that reads what they set.
    """
    return _of_environment(script, _setters_by(script, own, end))


def _of_environment(script: Script, setters: _Setters) -> list[str]:
    """Those that begin anew whose first line gives a text to none alone: ``A="${A:-}"``."""
    return [
        name
        for name in _begun_anew(script, setters)
        if re.search(rf"\$\{{{name}:?[-=]", script.slice(script.statements[setters[name][0]]))
    ]


def _begun_anew(script: Script, setters: _Setters) -> list[str]:
    """The variables whose first line makes a value of the one that they have, sorted."""
    return [
        name
        for name, numbers in sorted(setters.items())
        if numbers
        and name in _changed_by(script, script.statements[numbers[0]])
        and name not in words.ALWAYS
    ]


def with_environment(setup: str, names: Sequence[str]) -> str:
    """Setup that keeps what variables have before it, for lines that are run again.

    Args:
        setup: the lines.
        names: the variables.
    """
    rows = "".join(f'[ -z "${{{name}+x}}" ] || export given_{name}="${name}"\n' for name in names)
    head = _OPTIONS.match(setup)
    at = head.end() if head is not None else 0
    return f"{setup[:at]}{rows}{setup[at:]}"


def _set_later(script: Script, numbers: Sequence[int], end: int) -> list[str]:
    """The variables of some statements to which a later line of setup gives another text.

    That text is exported, and lines that are run again would put the earlier one in its place.

    Args:
        script: the script.
        numbers: the statements that are run again.
        end: the number of the statement that reads what they set.
    """
    names: dict[str, None] = {}
    for number in numbers:
        own = {name for name in shell_text.set_by(script.statements[number]) if name.isidentifier()}
        for other in range(number + 1, max(end, 0)):
            if other in numbers or script.statements[other].function:
                continue
            for command in script.statements[other].commands:
                arrays = shell_text.arrays_of(command)
                pairs = shell_text.assigned_by(command)
                names |= {name: None for name, _ in pairs if name in own and name not in arrays}
    return list(names)


def _has_default_alone(script: Script, name: str, numbers: Sequence[int]) -> bool:
    """Whether some lines give a variable a text where it has none: run again, they change nothing.

    ``A="${A:-x}"``
    """
    default = re.compile(rf"\"?\$\{{{name}:?[-=][^{{}}]*(?:\$\{{\w+\}}[^{{}}]*)*\}}\"?")
    values = [
        value
        for number in numbers
        for command in script.statements[number].commands
        for other, value in shell_text.assigned_by(command)
        if other == name
    ]
    code = "\n".join(script.slice(script.statements[number]) for number in numbers)
    changed = {other for match in _CHANGED.finditer(code) for other in match.groups() if other}
    return bool(values) and name not in changed and all(map(default.fullmatch, values))


def _setters_by(script: Script, own: Mapping[int, str], end: int) -> _Setters:
    """The statements that set the variables which some change, by the variable."""
    targets = {
        name
        for number in own
        if not script.statements[number].function
        for name in (
            _changed_by(script, script.statements[number])
            | _carried_round(script, script.statements[number])
        )
    }
    setters = {name: _setters(script, name, max(end, 0)) for name in targets}
    return {
        name: numbers
        for name, numbers in setters.items()
        if not _has_default_alone(script, name, numbers)
    }


def files_for_shell(reading: ScriptReading, text: str, end: int) -> set[int]:
    """The statements of setup that read files which a later shell has to read itself.

    No shell passes an array on: ``source args.sh`` in setup gives ``"${ARGS[@]}"`` of it nothing.
    Nor a function that a file defines behind its own ``set +a``. That they are read again is said.

    Args:
        reading: the script, and what is known of it.
        text: what the later shell runs.
        end: the number of the statement that it begins with.
    """
    code = shell_text.without_printing(words.without_comments(text))
    arrays = {*_OF_ARRAY.findall(code)} - reading.variables.set_names
    defined = {statement.function for statement in reading.script.statements}
    functions = {*filter(_NAME_OF_FUNCTION.fullmatch, _called(code))} - defined
    is_read = bool(arrays or functions)
    statements = reading.script.statements[: max(end, 0)] if is_read else []
    numbers = {
        number
        for number, statement in enumerate(statements)
        if statement.is_simple and any(map(shell_text.reads_file, statement.commands))
    }
    for number in sorted(numbers):
        path = reading.script.slice(statements[number])
        reading.body.say(statements[number].line, path, Outcome.CHANGED, "", _READ_AGAIN)
    return numbers


def _called(code: str) -> set[str]:
    """The names of the commands in a text of a shell, also of those whose output it takes."""
    inner = shell_text.substituted_commands(words.expanded_part(code))
    return {command.name for command in (*shell_text.commands_of(code), *inner)}


def _setters(script: Script, name: str, end: int) -> list[int]:
    """The numbers of the statements that set a variable, also by a function that they call."""
    functions = {
        other.function
        for other in script.statements
        if other.function and shell_text.assigns(other, name)
    }
    return [
        number
        for number, statement in enumerate(script.statements[:end])
        if not statement.function
        and (shell_text.assigns(statement, name) or shell_text.runs(statement, functions))
    ]


def _changed_by(script: Script, statement: Statement) -> set[str]:
    """The variables that a statement gives another value, made of the one they have."""
    changes = _CHANGED.finditer(script.slice(statement))
    added = {
        name
        for command in statement.commands
        for name, value in shell_text.assigned_by(command)
        if name in {other for other, _ in words.variables(value)}
    }
    return added | {name for match in changes for name in match.groups() if name}


def _carried_round(script: Script, statement: Statement) -> set[str]:
    """The variables by which a loop remembers what an earlier round has met: ``if …; behind=1``.

    Those whose first value is a text: what a program prints, it may print otherwise again.
    """
    own = {
        name
        for command in statement.commands
        if command.in_loop
        for name, _ in shell_text.assigned_by(command)
    }
    printed = {
        name
        for other in script.statements
        if other is not statement and substitutions.spans(script.slice(other))
        for name in own
        if shell_text.assigns(other, name)
    }
    return own & {name for name, _ in words.variables(script.slice(statement))} - printed
