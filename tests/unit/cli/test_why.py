"""What `allranks why` and `checkpoint` say of a run whose pods have no rank."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from allranks.cli.commands import why
from allranks.cli.commands.checkpoint import checkpoint_command
from allranks.cli.console import Console
from allranks.errors import RunError
from allranks.local import runs as local_runs
from allranks.model.status import Phase, PodPhase, PodStatus, RunStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


class _PodsWithoutRanks:
    """Pods whose ranks have all ended."""

    def ask(self, pod: str, seconds: float) -> bytes:
        """No rank is there."""
        del pod, seconds
        return json.dumps({"ranks": [], "gpus": [], "killed": 0}).encode()

    def log(self, pod: str) -> Iterator[str]:
        """What their launchers say."""
        yield f"allranks: {pod} waits for the others"


def test_a_pod_without_a_rank_is_told_with_the_last_words_of_its_launcher() -> None:
    """Whoever asks learns what it waits for."""
    pods = tuple(PodStatus(f"demo-{n}", "node", n, PodPhase.RUNNING) for n in range(2))
    status = RunStatus("demo", "lab", Phase.RUNNING, pods=pods)
    diagnosis, _ = why.examine(Console(), status, _PodsWithoutRanks(), 5)
    assert "no rank runs in its pods: none has begun yet, or all have ended" == diagnosis.sentence
    assert "demo-1 has said last: demo-1 waits for the others" == diagnosis.remarks[-1]


def test_a_checkpoint_of_pods_without_ranks_says_that_no_rank_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their pods run, so that "no pod is running" would be wrong; the exit code is 1."""

    def no_pods(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(local_runs, "saving_pods", no_pods)
    monkeypatch.setattr(local_runs, "goes_on", lambda *_: True)
    result = CliRunner().invoke(checkpoint_command, ["demo", "--on", "local"], obj=Console())
    assert isinstance(result.exception, RunError)
    assert "no rank of run 'demo' runs: none has begun yet, or all" in str(result.exception)
