"""A sweep of 500 trials (in CI 200) whose runner is killed again and again, at any moment.

The kills are spread over what the sweep records, not over time: on every machine they meet the same
parts of it, and a slow one needs no longer for each.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import pytest
import yaml

from allranks.sweep import actions, model
from allranks.sweep.reporting import results
from allranks.sweep.trials import releases
from tests.amounts import amount
from tests.kube import kwok

from . import sweepfork
from .conftest import until

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from .conftest import MakeNodes
    from .sweeping import Field

pytestmark = pytest.mark.timeout(600)

_TRIALS, _BAD, _KILLS = amount(500, ci=200), 25, amount(20, ci=10)
_PARALLEL = 24
# What is recorded of a trial that ends well: proposed, begun, seen, measured, ended.
_RECORDS = 5
_PATIENCE = 120.0
_LOOK = 0.02  # seconds: a later look would miss the record


@pytest.fixture(autouse=True)
def _node(make_nodes: MakeNodes) -> None:
    """One fake node runs the pods."""
    make_nodes(1)


def _value(number: int) -> float:
    """What a trial measures: none like another, and in no order."""
    return (number * 37 + 11) % 499 / 1000 + number / 1_000_000


def _write(field: Field, bad: set[int]) -> Path:
    """The values file of trials that differ in a variable alone, which says how each ends."""
    ends = [
        f"{int(number in bad)} {json.dumps({'accuracy': _value(number)})}"
        for number in range(_TRIALS)
    ]
    values, _ = field.write(
        [],
        objective={"metric": "accuracy"},
        metrics={"from": "termination"},
        parallel=_PARALLEL,
        parameters={"ends": {"values": ends, "env": kwok.ENDS_WITH}},
    )
    template = {"podTemplate": {"metadata": {"annotations": {kwok.ENDS_AFTER: "0.2s"}}}}
    values.write_text(yaml.safe_dump(yaml.safe_load(values.read_text()) | template))
    return values


def _kill_at(process: ForkServerProcess, journal: Path, records: int, log: Path) -> None:
    """Kill a runner once so many lines stand in the journal."""

    def is_written() -> bool:
        assert process.is_alive(), log.read_text()
        return journal.exists() and journal.read_bytes().count(b"\n") >= records

    until(is_written, f"record {records}", _PATIENCE, poll=_LOOK)
    process.kill()
    process.join()


def _creations(field: Field) -> dict[str, list[float]]:
    """When the Job of each trial was made, by the API server's own log, in seconds since 1970."""
    times: dict[str, list[float]] = {}
    field.cluster.audit.read()  # all that was asked stands in the log
    own = field.namespace.encode()
    for line in field.cluster.run.audit_log.read_bytes().splitlines():
        if own not in line or b'"jobs"' not in line:
            continue
        event = json.loads(line)
        if event["responseStatus"]["code"] == 201 and "subresource" not in event["objectRef"]:
            at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            times.setdefault(event["objectRef"]["name"], []).append(at)
    return times


def test_kills_lose_nothing_and_repeat_nothing(field: Field) -> None:
    """Each trial ends once, as it should; none begins again once it has ended, and none stays."""
    chance = random.Random(6)  # noqa: S311 - no secret
    bad = set(chance.sample(range(_TRIALS), _BAD))
    values = _write(field, bad)
    journal = field.folder / "state/sweeps/s/journal.jsonl"
    moments = sorted(chance.sample(range(1, (_TRIALS - _PARALLEL) * _RECORDS), _KILLS))
    log = field.folder / "log"
    sweep = sweepfork.of(
        *("s", values, field.helm, field.namespace),
        kubeconfig=field.cluster.kubeconfig,
        state=field.folder / "state",
        log=log,
    )
    for moment in moments:
        _kill_at(sweepfork.start(sweep), journal, moment, log)
    last = sweepfork.start(sweep)
    last.join(_PATIENCE)
    assert f"completed {_TRIALS} trials have ended\n" == log.read_text()

    state = field.look()
    counts = {state_: count for state_, count in state.counts.items() if count}
    assert {model.SUCCEEDED: _TRIALS - _BAD, model.FAILED: _BAD} == counts, state.reasons()
    assert actions.COMPLETED == state.outcome
    assert bad == {n for n, trial in state.trials.items() if trial.state == model.FAILED}
    measured = {n: trial.value for n, trial in state.trials.items() if n not in bad}
    assert {n: _value(n) for n in range(_TRIALS) if n not in bad} == measured
    assert {1} == {trial.attempts for trial in state.trials.values()}
    results_of_sweep = results.collect(state.spec, state.trials.values())
    assert results_of_sweep.best is not None
    assert max(measured, key=lambda number: measured[number] or 0.0) == results_of_sweep.best.number

    creations = _creations(field)
    assert {trial.name for trial in state.trials.values()} == creations.keys()
    again = [
        trial.name
        for trial in state.trials.values()
        if max(creations[trial.name]) > (trial.ended or 0.0)
    ]
    assert [] == again
    # What was made twice is what a kill has met while helm was making it.
    twice = Counter({name: len(times) - 1 for name, times in creations.items()})
    assert twice.total() <= _KILLS * releases.AT_ONCE
    assert [] == field.releases()
    assert [] == field.items("batch/v1/jobs")
