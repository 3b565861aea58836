"""The records of a journal, as JSON-ready dicts; `state` folds them into a sweep again.

Every effect that would be missed after a crash is recorded before it begins: a trial before it is
started, and a stop before anything is ended.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from allranks.sweep import actions, serialize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import Assignment, Measure, SweepSpec
    from allranks.sweep.ownership import OwnerMark
    from allranks.sweep.state import SweepState

Record = dict[str, Any]

# The version of the records; raised when an older reader would misread a newer journal.
SCHEMA = 1


def head(
    spec: SweepSpec,
    at: float,
    defaults: Mapping[str, Any] | None = None,
    place: Mapping[str, str] | None = None,
    owner: OwnerMark | None = None,
) -> Record:
    """Return the first record, which describes the sweep.

    Args:
        spec: the sweep, bound to its chart.
        at: now, in seconds since 1970, here and in all functions below.
        defaults: the values of the trials' chart. They decide what is a number and what is text,
            so that each trial's values can be made again whatever becomes of the chart.
        place: where its trials run, for a later resume.
        owner: the mark of its releases.
    """
    record: Record = {"t": "sweep", "schema": SCHEMA, "spec": serialize.dump(spec), "at": at}
    if place:
        record["place"] = dict(place)
    if owner is not None:
        record["owner"] = owner.as_dict()
    return record if defaults is None else {**record, "defaults": dict(defaults)}


def resume(spec: SweepSpec, at: float) -> Record:
    """Return the record that the sweep goes on: cancelled trials run after all."""
    return {"t": "resume", "spec": serialize.dump(spec), "at": at}


def runner(at: float) -> Record:
    """Return the record that a process begins to run the sweep."""
    return {"t": "runner", "at": at}


def request_stop(reason: str, at: float) -> Record:
    """Return the record that a person asks the sweep to end."""
    return {"t": "request", "why": reason, "at": at}


def trial(number: int, name: str, assignment: Assignment, at: float) -> Record:
    """Return the record of a proposed trial."""
    return {
        "t": "trial",
        "n": number,
        "name": name,
        "p": serialize.dump_assignment(assignment),
        "at": at,
    }


def search_end(reason: str, at: float) -> Record:
    """Return the record that the search has nothing more to propose."""
    return {"t": "exhausted", "why": reason, "at": at}


def measures(number: int, indexed: Iterable[tuple[int, Measure]]) -> list[Record]:
    """Return the records of a trial's measures, with the extractor's indices of them."""
    return [
        {
            "t": "m",
            "n": number,
            "i": index,
            "v": number_text(measure.value),
            "s": measure.step,
            "at": measure.at,
        }
        for index, measure in indexed
    ]


def record_of_action(action: actions.Action, state: SweepState, at: float) -> Record | None:
    """Return the record to append before an action is carried out; None if it is recorded already.

    Args:
        action: an action of `decide`; the answer to `Propose` is recorded by `trial` or
            `search_end`.
        state: the state of the sweep that was decided on.
        at: now.
    """
    record: Record | None = None
    match action:
        case actions.Start(number, _, attempt):
            if state.trials[number].attempts != attempt:
                record = {"t": "start", "n": number, "attempt": attempt}
        case actions.Wait(number, reason):
            record = {"t": "wait", "n": number, "why": reason}
        case actions.RecordRelease(number, began):
            record = {"t": "seen", "n": number}
            if began is not None:
                record["began"] = began
        case actions.Stop(number, _, to, reason):
            if not state.trials[number].stopping:
                record = {"t": "stop", "n": number, "to": to, "why": reason}
        case actions.Retry(number, reason):
            record = {"t": "retry", "n": number, "why": reason}
        case actions.RecordEnd(number, ending, value, reason, cpu, ended_at):
            record = {
                "t": "end",
                "n": number,
                "state": ending,
                "v": value,
                "why": reason,
                "cpu": cpu,
            }
            if ended_at is not None:
                record["ended"] = ended_at
        case actions.Finish(outcome, reason):
            record = {"t": "finish", "outcome": outcome, "why": reason}
        case actions.Propose() | actions.Remove():
            pass
    return None if record is None else {**record, "at": at}


def number_text(value: float) -> float | str:
    """Return a number for JSON: as text if it is infinite or NaN."""
    return value if math.isfinite(value) else str(value)
