"""How numbers and long lists are said in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMA = ", "


def plural(number: int, noun: str) -> str:
    """A number with its noun: ``1 pod``, ``3 pods``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(found: Sequence[str], most: int = 3, joint: str = _COMMA) -> str:
    """The first of many, and how many more there are: ``a, b and 7 more``.

    Args:
        found: the words or clauses.
        most: how many are shown.
        joint: what stands between two; clauses have ``"; "``, and it before the "and" as well.
    """
    shown, more = joint.join(found[:most]), len(found) - most
    if more <= 0:
        return shown
    return f"{shown}{'' if joint == _COMMA else joint.rstrip()} and {more:,} more"
