"""The example whose master decides how many workers there are, with real torchrun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import process_tree
from allranks.local.state import store
from allranks.model.status import Phase

from .conftest import first_process

if TYPE_CHECKING:
    import psutil

    from .conftest import CommandLine

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

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
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return [(record["reason"], record["message"]) for record in records]


def process(pod: str) -> psutil.Process:
    """The first process of a pod."""
    mark = [str(store.run_folder("auto", "default").path)]
    return first_process(lambda: process_tree.find_marked(names.ENV_RUN, mark), pod)


def specs() -> dict[str, Any]:
    """What the job's own spec says of each role but the master."""
    path = store.run_folder("auto", "default").path / "elastic/job.json"
    replica_specs: dict[str, Any] = json.loads(path.read_text())["spec"]["replicaSpecs"]
    return {
        role: replica_spec
        for role, replica_spec in replica_specs.items()
        if role != names.EDL_MASTER
    }


def test_a_job_grows_loses_a_worker_and_ends_with_a_trained_model(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without counts in its specs: two workers, four, one is killed, and four train to the end."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    command_line("run", "auto", "-f", VALUES, "--on", "local", "--detach", *SHORTER)
    try:
        reports: list[dict[str, Any]] = []
        killed = False
        for line in local_runs.logs("auto", "default", follow=True):
            if line.role != "worker" or not line.text.startswith("{"):
                continue
            reports.append(json.loads(line.text))
            if "epoch" in reports[-1] and reports[-1]["workers"] == 4 and not killed:
                process("auto-edljob-worker-1").kill()
                killed = True
        status = local_runs.status("auto", "default")
        assert (Phase.SUCCEEDED, 0, 1) == (status.phase, status.exit_code, status.restarts)
        starts = [report for report in reports if "begins" in report]
        sizes = [start["workers"] for start in starts]
        assert (2, True, 4) == (sizes[0], 4 in sizes[1:-1], sizes[-1]), events()
        assert (True, True) == (len(starts) > 2, starts[-1]["epoch"] > 0)
        (final,) = [report for report in reports if "final" in report]
        assert 4 == final["workers"]
        assert final["accuracy"] >= 0.9
        reasons = [reason for reason, _ in events()]
        assert ["FirstPlan", "Grow"] == [
            reason for reason in reasons if reason in {"FirstPlan", "Grow"}
        ]
        assert [None] == [spec.get("replicas") for spec in specs().values()]
    finally:
        deleted = command_line("delete", "auto", "--on", "local").stdout
    assert "kept ConfigMap/auto-history" in deleted
    assert "remove it with: rm -r " in deleted
