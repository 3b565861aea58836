"""The example whose master decides how many workers there are, with real torchrun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.local import control, store, tree
from allranks.model.status import Phase

from .conftest import first_process

if TYPE_CHECKING:
    import psutil

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

VALUES = Path(__file__).parents[2] / "examples/elastic-auto/values.yaml"

# As many epochs as the proof needs. Four workers stay whatever they bring: on a busy machine they
# may be no faster than two, and the master would rightly go back.
SHORTER = (
    "--set-literal=args[1]=16",
    "--set=elastic.auto.policy.measureSeconds=2",
    "--set=elastic.auto.policy.growThreshold=0",
    "--set=elastic.auto.policy.hysteresis=1",
)


def events() -> list[tuple[str, str]]:
    """What happened, in order: reasons and messages."""
    path = store.run_folder("auto", "default").path / "elastic/events.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    return [(one["reason"], one["message"]) for one in found]


def process(pod: str) -> psutil.Process:
    """The first process of a pod."""
    found = tree.marked(names.ENV_RUN, [str(store.run_folder("auto", "default").path)])
    return first_process(found, pod)


def specs() -> dict[str, Any]:
    """What the job's own spec says of each role but the master."""
    path = store.run_folder("auto", "default").path / "elastic/job.json"
    found: dict[str, Any] = json.loads(path.read_text())["spec"]["replicaSpecs"]
    return {role: one for role, one in found.items() if role != names.EDL_MASTER}


def test_a_job_grows_loses_a_worker_and_ends_with_a_trained_model(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without counts in its specs: two workers, four, one is killed, and four train to the end."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    command_line("run", "auto", "-f", VALUES, "--on", "local", "--detach", *SHORTER)
    try:
        told: list[dict[str, Any]] = []
        killed = False
        for line in control.logs("auto", "default", follow=True):
            if line.role != "worker" or not line.text.startswith("{"):
                continue
            told.append(json.loads(line.text))
            if "epoch" in told[-1] and told[-1]["workers"] == 4 and not killed:
                process("auto-edljob-worker-1").kill()
                killed = True
        status = control.status("auto", "default")
        assert (Phase.SUCCEEDED, 0, 1) == (status.phase, status.exit_code, status.restarts)
        begun = [one for one in told if "begins" in one]
        sizes = [one["workers"] for one in begun]
        assert (2, True, 4) == (sizes[0], 4 in sizes[1:-1], sizes[-1]), events()
        assert (True, True) == (len(begun) > 2, begun[-1]["epoch"] > 0)
        (final,) = [one for one in told if "final" in one]
        assert 4 == final["workers"]
        assert final["accuracy"] >= 0.9
        reasons = [reason for reason, _ in events()]
        assert ["FirstPlan", "Grow"] == [one for one in reasons if one in {"FirstPlan", "Grow"}]
        assert [None] == [one.get("replicas") for one in specs().values()]
    finally:
        deleted = command_line("delete", "auto", "--on", "local").stdout
    assert "kept ConfigMap/auto-history" in deleted
    assert "remove it with: rm -r " in deleted
