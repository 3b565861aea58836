"""Reading Kubernetes' JSON, where any field may be missing.

A status is written by several programs, one after the other, and Go leaves out what is empty: a pod
has no `containerStatuses` before a kubelet has seen it, an event no `lastTimestamp` where it has an
`eventTime`. Each function here gives the empty value of its type in place of an error, so that the
modules beside it say what they look for and not what may be absent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.manifest import Manifest

_NOTHING: Mapping[str, Any] = {}
# A sentence of Kubernetes' that is shown to a person is cut here.
_SAID_MAX = 300
# Times have whole seconds, and the pods of a run share most of them.
_TIMES_KEPT = 4096
_LAST_SECOND = datetime(9999, 12, 31, tzinfo=UTC).timestamp()


def at(value: Any, *path: str) -> Any:
    """What lies under a path of keys; None where a step of it is missing."""
    for key in path:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """An object; an empty one where there is none."""
    found = at(value, *path) if path else value
    return found if isinstance(found, dict) else _NOTHING


def items(value: Any, *path: str) -> list[Manifest]:
    """The objects of a list; [] where there is none."""
    found = at(value, *path) if path else value
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def text(value: Any, *path: str) -> str:
    """A string; "" where there is none."""
    found = at(value, *path) if path else value
    return found if isinstance(found, str) else ""


def string(value: Any) -> str:
    """`text` of what is at hand; a pod has many such fields, and a run many pods."""
    return value if isinstance(value, str) else ""


def number(value: Any, *path: str) -> int | None:
    """A whole number; None where there is none."""
    found = at(value, *path) if path else value
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def numbers(value: Any, *path: str) -> list[int]:
    """The whole numbers of a list; [] where there is none."""
    found = at(value, *path)
    return [one for one in found if number(one) is not None] if isinstance(found, list) else []


def count(value: Any, *path: str) -> int:
    """A number of things; 0 where there is none."""
    return max(0, number(value, *path) or 0)


def digits(value: Any) -> int | None:
    """A whole number written as a string, as labels and annotations hold it."""
    # str.isdigit is true of digits that int does not read.
    plain = isinstance(value, str) and value.isascii() and value.isdigit()
    return int(value) if plain and len(value) < len(str(2**63)) else None


def when(value: Any, *path: str) -> float | None:
    """A time, in seconds since the epoch; None where there is none."""
    found = at(value, *path) if path else value
    return _seconds(found) if isinstance(found, str) and found else None


@lru_cache(maxsize=_TIMES_KEPT)
def _seconds(text: str) -> float | None:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    # Go writes its zero time for "never", and container runtimes write 1970.
    return found if 0 < found < _LAST_SECOND else None


def condition(conditions: list[Manifest], kind: str) -> Mapping[str, Any]:
    """The condition of a type; empty where there is none."""
    for one in conditions:
        if one.get("type") == kind:
            return one
    return _NOTHING


def holds(conditions: list[Manifest], kind: str) -> bool:
    """Whether the condition of a type is true."""
    return condition(conditions, kind).get("status") == "True"


def said(sentence: str) -> str:
    """Kubernetes' words as a clause of ours: one line, no full stop, not endless."""
    line = " ".join(sentence.split()).rstrip(".")
    return line if len(line) <= _SAID_MAX else line[: _SAID_MAX - 1].rstrip() + "…"
