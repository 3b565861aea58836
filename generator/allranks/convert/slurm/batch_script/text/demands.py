"""What a script says as it ends for want of a variable: ``${DATA:?set DATA=/path/to/data}``."""

from __future__ import annotations

import re

_DEMAND = re.compile(
    r"(?P<name>\$\{[A-Za-z_]\w*(?:\[[^\]]*\])?|\$\{[1-9])"
    r":?\?(?:[^{}\\]|\\.|\{(?:[^{}]|\{[^{}]*\})*+\})*+\}",
    re.DOTALL,
)


def without_texts(text: str) -> str:
    """A text of a shell with such variables alone, and without what is printed for want of them.

    Args:
        text: shell, whose lines stay where they are.
    """
    return _DEMAND.sub(_alone, text) if "?" in text else text


def _alone(match: re.Match[str]) -> str:
    """The variable of a demand, and the ends of its lines."""
    return f"{match['name']}}}" + "\n" * match[0].count("\n")
