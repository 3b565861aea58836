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


class _PodsStartedAgain(_PodsWithoutRanks):
    """Pods that were started again after a peer was lost."""

    def log(self, pod: str) -> Iterator[str]:
        """The end of the attempt before, and a start."""
        del pod
        yield "RuntimeError: Connection closed by peer [10.0.0.2]:4711"
        yield "allranks: this is restart 1 of 3 in place"


def test_an_error_of_an_earlier_attempt_is_told_as_that(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whoever is woken by the run learns that it was before its ranks started again."""
    pods = (PodStatus("demo-0", "node", 0, PodPhase.RUNNING),)
    status = RunStatus("demo", "lab", Phase.RUNNING, pods=pods)
    console = Console()
    diagnosis, _ = why.examine(console, status, _PodsStartedAgain(), 5)
    why._show(console, diagnosis, stacks=False)
    words = "in the log of demo-0, before the last start of its ranks: a peer is gone, or the"
    assert words in capsys.readouterr().out


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
