"""Null-safe reading of Kubernetes' JSON, where any field may be missing.

A status is written by several programs, one after the other, and Go leaves out what is empty: a pod
has no `containerStatuses` before a kubelet has seen it, an event no `lastTimestamp` where it has an
`eventTime`. Each function here returns the empty value of its type in place of an error, so that
its callers need not check what is absent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest

# The largest number of pods: it has 32 bits.
REPLICAS_MAX = 2**31 - 1
_NOTHING: Mapping[str, Any] = {}
# A sentence of Kubernetes' that is shown to a person is cut here.
_CLAUSE_MAX = 300
# Times have whole seconds, and the pods of a run share most of them.
_TIMES_KEPT = 4096
_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def at(value: Any, *path: str) -> Any:
    """Return the value at a path of keys; None where a key is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """Return an object; an empty one where there is none."""
    field = at(value, *path) if path else value
    return field if isinstance(field, dict) else _NOTHING


def items(value: Any, *path: str) -> list[Manifest]:
    """Return the objects of a list; [] where there is none."""
    field = at(value, *path) if path else value
    return [item for item in field if isinstance(item, dict)] if isinstance(field, list) else []


def numbered_items(value: Any, *path: str) -> list[tuple[int, Manifest]]:
    """Return the objects of a list, each with its place in it; [] where there is none."""
    field = at(value, *path) if path else value
    if not isinstance(field, list):
        return []
    return [(index, item) for index, item in enumerate(field) if isinstance(item, dict)]


def text(value: Any, *path: str) -> str:
    """Return a string; "" where there is none."""
    field = at(value, *path) if path else value
    return field if isinstance(field, str) else ""


def string(value: Any) -> str:
    """Return a string; "" for any other value. Faster than `text`, for many fields."""
    return value if isinstance(value, str) else ""


def number(value: Any, *path: str) -> int | None:
    """Return a whole number; None where there is none."""
    field = at(value, *path) if path else value
    return field if isinstance(field, int) and not isinstance(field, bool) else None


def numbers(value: Any, *path: str) -> list[int]:
    """Return the whole numbers of a list; [] where there is none."""
    field = at(value, *path)
    return [item for item in field if number(item) is not None] if isinstance(field, list) else []


def as_text(value: Any) -> str:
    """Return a value as the text that stands for it: null is an empty one, and true is "true"."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def texts(value: Any) -> list[str]:
    """Return the items of a list of texts, where null is an empty one; [] where there is none."""
    if not isinstance(value, list):
        return []
    return [as_text(item) for item in value]


def count(value: Any, *path: str) -> int:
    """Return a number of things; 0 where there is none."""
    return max(0, number(value, *path) or 0)


def digits(value: Any) -> int | None:
    """Return a whole number written as a string, as labels and annotations hold it."""
    # str.isdigit is true of digits that int does not read.
    plain = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(value) if plain and len(value) < len(str(2**63)) else None


def when(value: Any, *path: str) -> float | None:
    """Return a time, in seconds since the epoch; None where there is none."""
    field = at(value, *path) if path else value
    return _seconds(field) if isinstance(field, str) and field else None


@lru_cache(maxsize=_TIMES_KEPT)
def _seconds(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    seconds = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    # Go writes its zero time for "never", and container runtimes write 1970.
    return seconds if 0 < seconds < _LAST_SECOND else None


def condition(conditions: list[Manifest], kind: str) -> Mapping[str, Any]:
    """Return the condition of a type; an empty one where there is none."""
    for entry in conditions:
        if entry.get("type") == kind:
            return entry
    return _NOTHING


def holds(conditions: list[Manifest], kind: str) -> bool:
    """Whether the condition of a type is true."""
    return condition(conditions, kind).get("status") == "True"


def clause(sentence: str) -> str:
    """Return Kubernetes' message as a clause: one line, no full stop, at most 300 characters."""
    line = " ".join(sentence.split()).rstrip(".")
    return line if len(line) <= _CLAUSE_MAX else line[: _CLAUSE_MAX - 1].rstrip() + "…"
