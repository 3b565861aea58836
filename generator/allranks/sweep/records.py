"""What is written down of a sweep, one record after another; `state` makes a sweep of them again.

A record is JSON-ready. Every effect that would be missed after a crash is written down before it is
begun: a trial is recorded before it is started, and a stop before anything is ended.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from allranks.sweep import actions, written

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import Assignment, Measure, SweepSpec
    from allranks.sweep.owner import Owner
    from allranks.sweep.state import SweepState

Record = dict[str, Any]

# Changes when a reader of today would misread a journal of tomorrow.
SCHEMA = 1


def head(
    spec: SweepSpec,
    at: float,
    defaults: Mapping[str, Any] | None = None,
    place: Mapping[str, str] | None = None,
    owner: Owner | None = None,
) -> Record:
    """The first record: which sweep this is.

    Args:
        spec: the sweep, bound to its chart.
        at: now, in seconds since 1970; so everywhere here.
        defaults: the values of the trials' chart. They decide what is a number and what is text,
            so that with them each trial's values can be made again whatever becomes of the chart.
        place: where its trials run, for whoever goes on with it.
        owner: what marks its releases.
    """
    made: Record = {"t": "sweep", "schema": SCHEMA, "spec": written.dump(spec), "at": at}
    if place:
        made["place"] = dict(place)
    if owner is not None:
        made["owner"] = owner.as_dict()
    return made if defaults is None else {**made, "defaults": dict(defaults)}


def resume(spec: SweepSpec, at: float) -> Record:
    """The sweep goes on, perhaps with more trials: what was cancelled is to run after all."""
    return {"t": "resume", "spec": written.dump(spec), "at": at}


def runner(at: float) -> Record:
    """A process begins to run the sweep: whatever it sees now, nobody may have seen before."""
    return {"t": "runner", "at": at}


def request_stop(why: str, at: float) -> Record:
    """A person wants the sweep to end."""
    return {"t": "request", "why": why, "at": at}


def trial(number: int, name: str, assignment: Assignment, at: float) -> Record:
    """A trial was proposed."""
    return {
        "t": "trial",
        "n": number,
        "name": name,
        "p": written.dump_assignment(assignment),
        "at": at,
    }


def exhausted(why: str, at: float) -> Record:
    """The search has nothing more to propose."""
    return {"t": "exhausted", "why": why, "at": at}


def measures(number: int, found: Iterable[tuple[int, Measure]]) -> list[Record]:
    """What a trial reported, with the indices that `metrics.Collector` gave."""
    return [
        {
            "t": "m",
            "n": number,
            "i": index,
            "v": number_text(measure.value),
            "s": measure.step,
            "at": measure.at,
        }
        for index, measure in found
    ]


def of(action: actions.Action, state: SweepState, at: float) -> Record | None:
    """The record to write before an action is carried out; None where it is written already.

    Args:
        action: one of `decide`'s; what a `Propose` proposes is recorded by `trial` or `exhausted`.
        state: the sweep as it was decided about.
        at: now.
    """
    made: Record | None = None
    match action:
        case actions.Start(number, _, attempt):
            if state.trials[number].attempts != attempt:
                made = {"t": "start", "n": number, "attempt": attempt}
        case actions.Wait(number, why):
            made = {"t": "wait", "n": number, "why": why}
        case actions.Seen(number, began):
            made = {"t": "seen", "n": number}
            if began is not None:
                made["began"] = began
        case actions.Stop(number, _, to, why):
            if not state.trials[number].stopping:
                made = {"t": "stop", "n": number, "to": to, "why": why}
        case actions.Retry(number, why):
            made = {"t": "retry", "n": number, "why": why}
        case actions.End(number, ending, value, why, cpu, ended):
            made = {"t": "end", "n": number, "state": ending, "v": value, "why": why, "cpu": cpu}
            if ended is not None:
                made["ended"] = ended
        case actions.Finish(outcome, why):
            made = {"t": "finish", "outcome": outcome, "why": why}
        case actions.Propose() | actions.Remove():
            pass
    return None if made is None else {**made, "at": at}


def number_text(value: float) -> float | str:
    """A number for JSON, which has no infinities: those are text."""
    return value if math.isfinite(value) else str(value)
