"""How setup ends: its last status is that of its file, which the pod's shell looks at."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement

_SWITCH = re.compile(r"^\s*set (?:[-+]\w+ )*?([-+])[a-df-zA-Z]*e", re.MULTILINE)
_DENIED = re.compile(r"(?:^|[\s;&|])!\s[^;&|\n]*$")
_GOES_ON = "true  # a condition that does not hold ends no script\n"
NO_STEP = "  # the step runs where this succeeds"


def goes_on(setup: str) -> bool:
    """Whether setup's shell goes on where a command fails, behind some lines of it.

    Args:
        setup: the lines.
    """
    return _SWITCH.findall(setup)[-1:] == ["+"]


def with_failure(setup: str) -> str:
    """Setup of a step's text that ends the pod where its last condition does not hold.

    ``cp a b && cd c && python d.py`` trains nothing where `cp` fails, and ``set -e`` does not see
    what fails before an ``&&``, or behind a ``!``.

    Args:
        setup: the lines of setup that stood before the program.
    """
    last = _last(setup)
    if last is None or goes_on(setup) or not (_is_condition(last) or _is_denied(setup, last)):
        return setup
    head, tail = setup[: last.end].rstrip(), setup[last.end :]
    if "<<" in head[last.start :]:  # the text of a document is its end
        return setup
    return f"{head} || exit $?{NO_STEP}{tail}"


def without_condition(setup: str) -> str:
    """Setup of which the last status is not that of a condition.

    Under ``set -e`` a shell goes on behind ``[ -f a ] && source a`` where there is no such file.
    The file that has this line as its last ends without success all the same, and with it the pod.

    Args:
        setup: the lines of setup.
    """
    if goes_on(setup):
        return setup
    last = _last(setup)
    if last is None or last.function or last.in_background or _exits(last):
        return setup
    return f"{setup}{_GOES_ON}" if _is_condition(last) or _is_denied(setup, last) else setup


def _last(setup: str) -> Statement | None:
    """The last statement of setup; None where it has none, or nobody can read it."""
    try:
        statements = scanner.parse(setup)
    except scanner.ScriptError:
        return None
    return statements[-1] if statements else None


def _is_condition(statement: Statement) -> bool:
    """Whether a statement has commands that run where the one before succeeds."""
    return any(command.after == "&&" for command in statement.commands)


def _is_denied(setup: str, statement: Statement) -> bool:
    """Whether a statement ends with a command that is to fail."""
    return _DENIED.search(setup[statement.start : statement.end]) is not None


def _exits(statement: Statement) -> bool:
    """Whether a statement ends the shell where it fails: ``a && b || exit $?``."""
    *earlier, last = statement.commands
    return bool(earlier) and earlier[-1].after == "||" and last.name == "exit"
