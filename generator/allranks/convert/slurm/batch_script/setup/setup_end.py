"""How setup ends: its last status is that of its file, which the pod's shell looks at."""

from __future__ import annotations

import re

from allranks.convert import scanner

_SWITCH = re.compile(r"^\s*set (?:[-+]\w+ )*?([-+])[a-df-zA-Z]*e", re.MULTILINE)
_DENIED = re.compile(r"(?:^|[\s;&|])!\s[^;&|\n]*$")
_GOES_ON = "true  # a condition that does not hold ends no script\n"


def goes_on(setup: str) -> bool:
    """Whether setup's shell goes on where a command fails, behind some lines of it.

    Args:
        setup: the lines.
    """
    return _SWITCH.findall(setup)[-1:] == ["+"]


def without_condition(setup: str) -> str:
    """Setup of which the last status is not that of a condition.

    Under ``set -e`` a shell goes on behind ``[ -f a ] && source a`` where there is no such file.
    The file that has this line as its last ends without success all the same, and with it the pod.

    Args:
        setup: the lines of setup.
    """
    if goes_on(setup):
        return setup
    try:
        statements = scanner.parse(setup)
    except scanner.ScriptError:
        return setup
    last = statements[-1] if statements else None
    if last is None or last.function or last.in_background:
        return setup
    is_condition = any(command.after == "&&" for command in last.commands)
    is_denied = _DENIED.search(setup[last.start : last.end]) is not None
    return f"{setup}{_GOES_ON}" if is_condition or is_denied else setup
