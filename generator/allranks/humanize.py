"""How numbers and long lists are said in a sentence."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMA = ", "
_SHOWN_MAX = 40
_FLOW_MAX = 80


# Endings whose plural has a vowel more: process, index, match, batch.
_HISSING = ("s", "x", "z", "ch", "sh")


def plural(number: int, noun: str) -> str:
    """A number with its noun: ``1 pod``, ``3 pods``, ``2 processes``, ``2 retries``."""
    return f"{number} {noun if number == 1 else plurals(noun)}"


def plurals(noun: str) -> str:
    """A noun for more than one."""
    if noun.endswith(_HISSING):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in {"a", "e", "o", "u"}:
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def number_of(number: int, singular: str, many: str) -> str:
    """The word that goes with a number: ``is``, ``are``; ``was``, ``were``."""
    return singular if number == 1 else many


def shorten(value: object) -> str:
    """A value as Python writes it, cut to a length that fits a sentence."""
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"


def flow(value: object) -> str:
    """A value of a values file in one line, as YAML takes it; a text in quotes.

    It is cut to a length that fits a sentence.
    """
    if isinstance(value, str):
        return shorten(value)
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _FLOW_MAX else f"{text[: _FLOW_MAX - 1]}…"


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def span(seconds: float) -> str:
    """A length of time: ``42s``, ``3m10s``, ``2h05m``, ``1d03h``."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{whole % _DAY // _HOUR:02d}h"


def list_some(items: Sequence[str], most: int = 3, joint: str = _COMMA) -> str:
    """The first of many, and how many more there are: ``a, b and 7 more``.

    Args:
        items: the words or clauses.
        most: how many are shown.
        joint: what stands between two; clauses have ``"; "``, and it before the "and" as well.
    """
    text, more = joint.join(items[:most]), len(items) - most
    if more <= 0:
        return text
    return f"{text}{'' if joint == _COMMA else joint.rstrip()} and {more:,} more"
