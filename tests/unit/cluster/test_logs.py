"""Logs that are followed through restarts and lost connections, each line once."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from allranks.cluster import logs as module
from allranks.cluster.logs import PodLogLine, Tails
from allranks.cluster.pod_selection import PodRanks, RankIdentity
from allranks.errors import ToolError
from allranks.model.rank_lines import ALL, LineSelection

RUNNING: dict[str, Any] = {"running": {}}
ENDED: dict[str, Any] = {"terminated": {"exitCode": 0}}


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost stream is opened again at once."""
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)


def pod(fake: Any, name: str, state: dict[str, Any], restarts: int = 0, rank: str = "0") -> Any:
    """A pod whose trainer is in a state."""
    status = {"name": "trainer", "state": state, "restartCount": restarts}
    return fake.manifest(
        "Pod",
        name,
        labels={"batch.kubernetes.io/job-completion-index": rank},
        metadata={"uid": name, "creationTimestamp": f"2026-{name}"},
        spec={"containers": [{"name": "trainer"}]},
        status={"containerStatuses": [status]},
    )


class Follower:
    """Tails on a pretended cluster, and what they said."""

    def __init__(self, fake: Any, tail: int | None = None, selection: LineSelection = ALL) -> None:
        self.cluster = fake.FakeCluster()
        self.lines: queue.SimpleQueue[PodLogLine] = queue.SimpleQueue()
        self.notices: list[str] = []
        put, tell = self.lines.put, self.notices.append
        self.tails = Tails(self.cluster, "lab", sink=put, tell=tell, tail=tail, selection=selection)

    def look(self, *pods: Any) -> None:
        """One look."""
        self.tails.look(pods, PodRanks(()))

    def printed_lines(self) -> list[tuple[str, int, str]]:
        """Who, attempt and text of each line so far, once all streams have ended."""
        self.tails.drain(10)
        result = []
        while not self.lines.empty():
            line = self.lines.get()
            result.append((str(line.identity), line.attempt, line.text))
        return result


@pytest.fixture
def follower(fake: Any) -> Follower:
    """On an empty cluster."""
    return Follower(fake)


def test_a_log_that_broke_off_goes_on_and_no_line_comes_twice(
    fake: Any, follower: Follower
) -> None:
    """The server repeats what was written in the same second; that is left out."""
    follower.cluster.streams["p"] = [
        fake.FakeStream("2026-01-01T00:00:01.1Z one", "2026-01-01T00:00:01.2Z two"),
        fake.FakeStream("2026-01-01T00:00:01.2Z two", "2026-01-01T00:00:03.0Z three", end=False),
    ]
    last = follower.cluster.streams["p"][1]
    follower.look(pod(fake, "p", RUNNING))
    first = [follower.lines.get(timeout=10) for _ in range(3)]
    assert ["one", "two", "three"] == [line.text for line in first]
    follower.look(pod(fake, "p", ENDED))
    last.feed(None)
    assert [] == follower.printed_lines()
    since = [request[2]["since"] for request in follower.cluster.requests]
    assert ["", "2026-01-01T00:00:01.2Z"] == since


def test_a_restart_and_a_new_pod_are_further_attempts(fake: Any, follower: Follower) -> None:
    """Of one rank; each start of the container is followed once."""
    follower.cluster.streams = {
        "p": [fake.FakeStream("1 a"), fake.FakeStream("2 b")],
        "q": [fake.FakeStream("3 c")],
    }
    follower.look(pod(fake, "p", ENDED))
    assert [("0", 0, "a")] == follower.printed_lines()
    follower.look(pod(fake, "p", ENDED))
    follower.look(pod(fake, "p", ENDED, restarts=1))
    assert [("0", 1, "b")] == follower.printed_lines()
    follower.look(pod(fake, "p", ENDED, restarts=1), pod(fake, "q", ENDED))
    assert [("0", 2, "c")] == follower.printed_lines()


def test_only_what_was_there_is_cut_to_its_last_lines(fake: Any) -> None:
    """A stream that is opened again, and a pod that starts later, are read whole."""
    follower = Follower(fake, tail=1)
    broken = fake.FakeStream("2026-01-01T00:00:01Z a")
    follower.cluster.streams = {"p": [broken, fake.FakeStream()], "q": [fake.FakeStream("1 b")]}
    follower.look(pod(fake, "p", RUNNING))
    assert "a" == follower.lines.get(timeout=10).text
    follower.look(pod(fake, "p", ENDED), pod(fake, "q", ENDED, rank="1"))
    follower.printed_lines()
    tails = [(request[1], request[2]["tail"]) for request in follower.cluster.requests]
    assert ("p", 1) == tails[0]
    assert {("p", None), ("q", None)} >= set(tails[1:])


def test_the_start_before_the_last_one_belongs_to_the_log(fake: Any, follower: Follower) -> None:
    """A StatefulSet starts a container again that has ended: what it trained comes first."""
    follower.cluster.streams["p"] = [fake.FakeStream("1 trained"), fake.FakeStream("2 waiting")]
    follower.look(pod(fake, "p", ENDED, restarts=1))
    assert [("0", 0, "trained"), ("0", 1, "waiting")] == follower.printed_lines()
    assert [True, False] == [request[2]["previous"] for request in follower.cluster.requests]


def test_the_lines_of_several_processes_of_a_pod(fake: Any) -> None:
    """Bear the rank of the process, and one rank alone has its own lines only."""
    env = [{"name": "PET_NPROC_PER_NODE", "value": "2"}]
    env.append({"name": "ALLRANKS_RANK_PREFIX", "value": "1"})
    two = pod(fake, "p", ENDED, rank="1")
    two["spec"]["containers"][0]["env"] = env
    lines = ("1 [2] a", "2 [3] b", "3 allranks: c")
    for selection, expected in (
        (ALL, [("2", "a", 2), ("3", "b", 3), ("node-1", "allranks: c", None)]),
        (LineSelection(rank=3), [("3", "b", 3)]),
    ):
        follower = Follower(fake, selection=selection)
        follower.cluster.streams["p"] = [fake.FakeStream(*lines)]
        follower.look(two)
        follower.tails.drain(10)
        log_lines = [follower.lines.get() for _ in range(follower.lines.qsize())]
        assert expected == [(line.writer, line.text, line.as_dict()["rank"]) for line in log_lines]
        assert {1} == {line.as_dict()["node"] for line in log_lines}


def test_what_has_not_started_has_no_log(fake: Any, follower: Follower) -> None:
    """Nothing is asked for a pod that waits for its image."""
    follower.look(pod(fake, "p", {"waiting": {"reason": "ContainerCreating"}}))
    assert [] == follower.printed_lines()
    assert [] == follower.cluster.requests


def test_a_log_that_cannot_be_read_is_told_once(fake: Any, follower: Follower) -> None:
    """A node that does not answer is asked twice, and the run is followed all the same."""
    follower.cluster.refuse = lambda *_: ToolError("the node is gone")
    follower.look(pod(fake, "p", RUNNING))
    assert [] == follower.printed_lines()
    assert ["the log of pod p cannot be read: the node is gone"] == follower.notices
    assert 2 == len(follower.cluster.requests)


def test_only_so_many_logs_are_followed_at_once(
    fake: Any, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand pods are not a thousand connections; what is left out is told."""
    monkeypatch.setattr(module, "MOST", 1)
    follower.cluster.streams["p"] = [fake.FakeStream(end=False)]
    follower.look(pod(fake, "p", RUNNING), pod(fake, "q", RUNNING, rank="1"))
    assert ["only 1 logs are followed at once; `logs --node N` shows another"] == follower.notices
    follower.tails.close()
    assert [] == follower.printed_lines()


def test_a_line_is_data_too() -> None:
    """With the names that a local run's lines have."""
    line = PodLogLine("p", RankIdentity("worker", 3), "trainer", 0, "x")
    assert {
        "who": "worker-3",
        "pod": "p",
        "role": "worker",
        "node": 3,
        "rank": 3,
        "container": "trainer",
        "attempt": 0,
        "text": "x",
    } == line.as_dict()
