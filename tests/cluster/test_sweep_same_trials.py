"""A search that learns, and whose runner is killed: trials asked one at a time are the same trials.

The kills are spread over what the sweep records, so that they meet each part of it: a trial that is
proposed, begun, seen, measured, ended.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest
import yaml

from allranks.sweep import actions
from allranks.sweep.storage.journal import read_state
from tests.kube import kwok

from . import sweepfork
from .conftest import until
from .test_sweep_inside import Person

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

    from allranks.sweep.state import SweepState

    from .conftest import MakeNodes
    from .sweeping import Field

pytestmark = pytest.mark.timeout(600)

# Optuna's TPE draws ten trials by chance, and learns from then on.
_TRIALS, _KILLS, _KILLS_INSIDE = 18, 12, 3
_RECORDS = 5  # of a trial that ends well: proposed, begun, seen, measured, ended
_PATIENCE = 120.0
_LOOK = 0.02  # seconds: a later look would miss the record


@pytest.fixture(autouse=True)
def _node(make_nodes: MakeNodes) -> None:
    """One fake node runs the pods."""
    make_nodes(1)


def _write(field: Field) -> Path:
    """The values file: a trial measures the same each time, as follows from its parameter."""
    rungs = [f"0 {json.dumps({'accuracy': 1 - abs(rung - 29.3) / 50})}" for rung in range(50)]
    values, _ = field.write(
        [],
        search="tpe",
        seed=5,
        trials=_TRIALS,
        parallel=1,
        objective={"metric": "accuracy"},
        metrics={"from": "termination"},
        parameters={
            "rung": {"values": rungs, "env": kwok.ENDS_WITH},
            "lr": {"logUniform": {"min": 1e-5, "max": 1e-1}, "arg": "--lr"},
        },
    )
    content = yaml.safe_load(values.read_text())
    content["podTemplate"] = {"metadata": {"annotations": {kwok.ENDS_AFTER: "0.1s"}}}
    values.write_text(yaml.safe_dump(content))
    return values


def _sweep(field: Field, name: str, values: Path) -> sweepfork.Sweep:
    return sweepfork.of(
        *(name, values, field.helm, field.namespace),
        kubeconfig=field.cluster.kubeconfig,
        state=field.folder / "state",
        log=field.folder / f"{name}.log",
    )


def _ran(state: SweepState) -> list[tuple[dict[str, str], float | None]]:
    """The parameters and the measure of each trial, in the order in which they were proposed."""
    assert actions.COMPLETED == state.outcome, state.reasons()
    return [
        (
            {name: choice.text for name, choice in state.trials[number].assignment.items()},
            state.trials[number].value,
        )
        for number in range(len(state.trials))
    ]


def _leave_alone(field: Field, values: Path) -> ForkServerProcess:
    """Begin the same sweep, which nobody kills, beside the one that is killed."""
    return sweepfork.start(_sweep(field, "whole", values))


def _uninterrupted(
    field: Field, process: ForkServerProcess
) -> list[tuple[dict[str, str], float | None]]:
    """The trials of the sweep that was left alone, once it has ended."""
    process.join(_PATIENCE)
    assert "completed" in (field.folder / "whole.log").read_text()
    return _ran(field.look("whole"))


def _count(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def test_a_killed_runner_proposes_what_it_would_have(field: Field) -> None:
    """Twelve kills, and each trial is the one of the sweep that was left alone."""
    values = _write(field)
    alone = _leave_alone(field, values)
    sweep = _sweep(field, "killed", values)
    journal = field.folder / "state/sweeps/killed/journal.jsonl"
    chance = random.Random(3)  # noqa: S311 - no secret
    for moment in sorted(chance.sample(range(1, (_TRIALS - 1) * _RECORDS), _KILLS)):
        process = sweepfork.start(sweep)
        until(
            lambda moment=moment: _count(journal) >= moment,
            lambda moment=moment: f"record {moment}: {(field.folder / 'killed.log').read_text()}",
            _PATIENCE,
            poll=_LOOK,
        )
        process.kill()
        process.join()
    last = sweepfork.start(sweep)
    last.join(_PATIENCE)
    whole = _uninterrupted(field, alone)
    assert _TRIALS == len({json.dumps(trial) for trial, _ in whole})
    assert whole == _ran(field.look("killed"))


def test_a_killed_pod_of_the_runner_is_followed_by_the_same_trials(
    field: Field, tmp_path: Path
) -> None:
    """Likewise inside the cluster, where the journal is a Secret and the next pod's is another."""
    values = _write(field)
    alone = _leave_alone(field, values)
    person = Person(field, tmp_path / "laptop")
    where = ("-n", field.namespace, "--in-cluster", "--detach")
    person("run", "s", "-f", str(values), *where)
    journal = person.backend
    for kill in range(_KILLS_INSIDE):
        # In the trials by chance, and twice in those that follow from what was found.
        trials = 6 + 5 * kill
        pod = person.pod(f"pod-{kill}")
        until(lambda trials=trials: len(read_state(journal).trials) >= trials, f"{trials} trials")
        pod.kill()
        pod.communicate()
    last = person.pod("pod-last")
    out, err = last.communicate(timeout=_PATIENCE)
    assert 0 == last.returncode, out + err
    assert _uninterrupted(field, alone) == _ran(read_state(journal))
    person("delete", "s")
