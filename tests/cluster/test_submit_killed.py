"""A submit that is cut off at any of its requests: nothing half starts, and the next one works.

The program is the real one with the real helm; both are killed at once, as with their machine. What
becomes of the cluster changes with the requests that write alone, so of the requests between two of
them the first stands for all.
"""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from . import cli_fork, front
from .program import Program, job, program
from .test_submit import COMMAND, parts

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes
    from .front import Front

pytestmark = pytest.mark.timeout(900)

_SECONDS = 120.0
_READING = frozenset({"GET", "HEAD"})
# They ask what somebody may do, and change nothing.
_REVIEWS = "/apis/authorization.k8s.io/"


@dataclass(slots=True)
class Sender:
    """Somebody whose requests are counted.

    Attributes:
        program: the command line, through the front.
        proxy: the front.
        code: the folder that is submitted.
    """

    program: Program
    proxy: Front
    code: Path

    def submit(
        self, *flags: str, kill_at: int = 0, dropped: range = range(0)
    ) -> tuple[int | None, str]:
        """Submit the folder as `demo`; the exit code, and what was printed.

        Args:
            flags: more of the command line.
            kill_at: the number of the request before which all is killed; 0 is none.
            dropped: the numbers of the requests that get no answer.
        """
        words = ("submit", "demo", "--detach", "--workspace", self.code, *flags, *COMMAND)
        return self.call(*words, kill_at=kill_at, dropped=dropped, values=job())

    def call(
        self,
        *words: str | Path,
        kill_at: int = 0,
        dropped: range = range(0),
        values: dict[str, Any] | None = None,
    ) -> tuple[int | None, str]:
        """Run a command; see `submit`."""
        log = self.program.home / "log"
        log.unlink(missing_ok=True)
        started = threading.Event()
        pids = []

        def before(number: int) -> bool:
            if not kill_at or number < kill_at:
                return number not in dropped
            started.wait(_SECONDS)
            if number == kill_at:
                os.killpg(pids[0], signal.SIGKILL)
            return False

        self.proxy.requests.clear()
        self.proxy.before = before
        line = self.program.line(*words, values=values)
        process = cli_fork.call(line, self.program.environment(), self.program.home, log)
        pids.append(process.pid or 0)
        started.set()
        process.join(_SECONDS)
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        assert "Traceback" not in text
        return process.exitcode, text

    def objects(self) -> list[str]:
        """All that there is of the run, its snapshots included."""
        return [*self.program.objects_of("demo"), *parts(self.program)]


@pytest.fixture
def sender(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Any:
    """Somebody with a folder to submit."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n", encoding="utf-8")
    home = program(cluster, namespace, helm4, tmp_path).home
    with front.stand(cluster, tmp_path) as proxy:
        yield Sender(Program(cluster, namespace, helm4.path, home, proxy.kubeconfig), proxy, code)


def _points(requests: list[tuple[str, str]]) -> list[int]:
    """The first request, and each that comes next after one that writes."""
    writes = [
        number
        for number, (method, path) in enumerate(requests, start=1)
        if method not in _READING and not path.startswith(_REVIEWS)
    ]
    return [1, *(number + 1 for number in writes if number < len(requests))]


def test_a_submit_that_is_killed_before_any_request(sender: Sender, make_nodes: MakeNodes) -> None:
    """No pod starts without all of its code; the same again works, and leaves nothing behind."""
    make_nodes(2)
    assert 0 == sender.submit()[0]
    requests = list(sender.proxy.requests)
    assert 0 == sender.call("delete", "demo")[0]
    assert [] == sender.objects()
    points = _points(requests)
    assert len(points) > 5, requests
    has_advice = False
    for point in points:
        place = f"before {point} of {len(requests)}: {requests[point - 1]}"
        code, _ = sender.submit(kill_at=point)
        assert -signal.SIGKILL == code, place
        objects = sender.program.objects_of("demo")
        jobs = [item for item in objects if item.startswith("jobs/")]
        assert bool(jobs) or not any(item.startswith("pods/") for item in objects), place
        assert bool(jobs) <= bool(parts(sender.program)), place
        records = [item for item in objects if item.startswith("secrets/")]
        if records and not has_advice:
            code, text = sender.submit()
            assert code == 2, (place, text)
            assert "release 'demo' was begun and is not finished (pending-install)" in text
            has_advice = True
        code, text = sender.submit(*(("--replace",) if records else ()))
        assert code == 0, (place, text)
        assert len(parts(sender.program)) == 1, place
        assert 0 == sender.call("delete", "demo")[0]
        assert [] == sender.objects(), place


def test_a_server_that_is_away_in_the_middle(sender: Sender, make_nodes: MakeNodes) -> None:
    """As while it is restarted: it is waited for, or said; nothing half starts, and again works."""
    make_nodes(2)
    assert 0 == sender.submit()[0]
    requests = list(sender.proxy.requests)
    assert 0 == sender.call("delete", "demo")[0]
    kinds = ("/configmaps", "/secrets", "/jobs")
    for point in [1, *(_first_write(requests, kind) for kind in kinds)]:
        place = f"at {point} of {len(requests)}: {requests[point - 1]}"
        code, text = sender.submit(dropped=range(point, point + 2))
        objects = sender.program.objects_of("demo")
        jobs = [item for item in objects if item.startswith("jobs/")]
        assert bool(jobs) <= bool(parts(sender.program)), place
        if code:
            assert (code, True) == (1, "error: " in text), (place, text)
            assert "fix: " in text, (place, text)
            records = [item for item in objects if item.startswith("secrets/")]
            code, text = sender.submit(*(("--replace",) if records else ()))
            assert code == 0, (place, text)
        assert len(parts(sender.program)) == 1, place
        assert 0 == sender.call("delete", "demo")[0]
        assert [] == sender.objects(), place


def _first_write(requests: list[tuple[str, str]], kind: str) -> int:
    """The number of the first request that makes such an object."""
    return next(
        number
        for number, (method, path) in enumerate(requests, start=1)
        if method not in _READING and kind in path
    )
