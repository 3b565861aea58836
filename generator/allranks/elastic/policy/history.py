"""The record of a job, for the next job of its name and for its master's own restart.

One small JSON object: the best size, the speeds that showed it, and the memory that was enough. A
broken or newer record is read as far as it is understood.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks.k8s.fields import mapping, number, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.policy.state import PolicyState

_MOST = 100_000


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of a job.

    Attributes:
        uid: the job's; another one of the same name has another.
        good: the largest size that was worth its workers; 0 where nothing was measured.
        bad: the smallest size that was not; 0 where there was none.
        speeds: samples per second of the whole job by size.
        memory: bytes that pods of a type were given, where it was raised.
        generation: the number of its last generation of workers; they are never used twice.
        end: ``Succeeded`` or ``Failed``; "" while it runs, or where its end was not seen.
    """

    uid: str = ""
    good: int = 0
    bad: int = 0
    speeds: Mapping[int, float] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)
    generation: int = 0
    end: str = ""


def of(state: PolicyState, uid: str, generation: int, end: str = "") -> JobRecord:
    """Return the record of a job in this state."""
    measured = state.good in state.speeds
    return JobRecord(
        uid=uid,
        good=state.good if measured else 0,
        bad=state.bad if measured and state.bad <= state.maximum else 0,
        speeds={size: float(f"{speed:.6g}") for size, speed in state.speeds.items()},
        memory=dict(state.memory),
        generation=generation,
        end=end,
    )


def resume(state: PolicyState, record: JobRecord) -> PolicyState:
    """Return a state completed by the record from before the master's restart."""
    memory = {**record.memory, **state.memory}
    state = replace(state, speeds=dict(record.speeds), memory=memory)
    if not 0 < record.good <= state.desired:
        return state
    bad = record.bad if record.good < record.bad <= state.maximum else state.maximum + 1
    # A size that was being tried when the master went is judged by the one before it.
    bad = max(bad, state.desired + (state.desired > record.good))
    return replace(state, good=record.good, bad=bad)


def write(record: JobRecord) -> str:
    """Return the record as text; equal records give equal text."""
    form = {
        "uid": record.uid,
        "good": record.good,
        "bad": record.bad,
        "speeds": {str(size): record.speeds[size] for size in sorted(record.speeds)},
        "memory": dict(sorted(record.memory.items())),
        "generation": record.generation,
        "end": record.end,
    }
    return json.dumps({key: value for key, value in form.items() if value}, sort_keys=True)


def read(content: str) -> JobRecord:
    """Return the record in a text; an empty one where it cannot be read."""
    try:
        form = json.loads(content or "{}")
    except ValueError:
        return JobRecord()
    speeds = mapping(form, "speeds")
    return JobRecord(
        uid=text(form, "uid"),
        good=_size(form, "good"),
        bad=_size(form, "bad"),
        speeds={
            int(size): float(speed)
            for size, speed in speeds.items()
            if size.isdecimal() and 0 < int(size) <= _MOST and _positive(speed)
        },
        memory={kind: size for kind, size in mapping(form, "memory").items() if _positive(size)},
        generation=max(0, number(form, "generation") or 0),
        end=text(form, "end"),
    )


def _size(form: Any, name: str) -> int:
    value = number(form, name)
    return value if value is not None and 0 < value <= _MOST else 0


def _positive(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 2**60
