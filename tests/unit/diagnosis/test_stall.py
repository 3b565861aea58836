"""When the launcher says that a run stands still, and what it says (files/stall.py)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.modules import CHARTS, load
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_FILE = CHARTS / "torchrun/files/stall.py"


@pytest.fixture(scope="module")
def stall() -> Any:
    """The module."""
    return load(_FILE)


_WHY = load(CHARTS / "torchrun/files/why.py")
_FAILURES = load(CHARTS / "torchrun/files/failures.py")


@contextmanager
def _sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing, and ends with the test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            yield process
        finally:
            process.kill()


def _view(stall: Any, rank: int, groups: Any, cpu_seconds: float = 0.0) -> Any:
    return stall.RankView(rank, 7, groups, cpu_seconds, waits_in=_WHY.waited_for(groups))


@pytest.fixture(scope="module")
def standstill() -> Any:
    """The module of MPI's launcher, which asks the hosts."""
    return load(CHARTS / "mpi/files/standstill.py")


def _group(entered: int, completed: int) -> dict[str, Any]:
    last = {"number": entered, "done": entered == completed, "between": False}
    entry = {**last, "name": "nccl:all_reduce"}
    return {"0": {"enqueued": entered, "completed": completed, "last": [entry]}}


def _watcher(
    stall: Any, observer: Any, *, ends: bool, say: Callable[[str], None] = lambda _: None
) -> Any:
    """One that keeps no reports, with a limit of ten minutes."""
    return stall.StallWatcher(
        600,
        ends=ends,
        observer=observer,
        output=None,
        say=say,
        record=lambda _: None,
        reports=stall.StallReports({}, "big-0", None),
    )


def _stall_after(stall: Any, *looks: tuple[float, Any, float, float]) -> Any:
    """After looks at one rank: (time, its groups, seconds of processor time, last line)."""
    pod_stall = stall.PodStall(0.0)
    for now, groups, cpu_seconds, wrote_at in looks:
        pod_stall.update([_view(stall, 3, groups, cpu_seconds)], wrote_at, now)
    return pod_stall


def test_steps_and_lines_are_progress(stall: Any) -> None:
    """A collective that begins or ends, and a line of output, begin the time anew."""
    assert not _stall_after(stall, (10, _group(4, 4), 9, 0), (20, _group(5, 4), 18, 0)).lasts(
        10, 20
    )
    waits = _stall_after(stall, (10, _group(5, 4), 9, 0), (20, _group(5, 4), 18, 0))
    assert waits.lasts(10, 20)
    assert waits.waits
    assert not _stall_after(stall, (10, _group(5, 4), 9, 0), (20, _group(5, 4), 18, 15)).lasts(
        10, 20
    )


def test_a_rank_that_moved_and_then_waits_stands_still_since_it_moved(stall: Any) -> None:
    """Of a rank that moves there are no numbers: the first ones after it are no news."""
    pod_stall = _stall_after(stall, (10, _group(4, 4), 9, 0))
    pod_stall.update([stall.RankView(3, 7, None, 18, moves=True)], 0.0, 20)
    assert not pod_stall.lasts(1, 20)
    pod_stall.update([_view(stall, 3, _group(9, 8), 27)], 0.0, 30)
    assert pod_stall.lasts(10, 30)
    assert pod_stall.waits


def test_what_computes_without_a_recorder_goes_on(stall: Any) -> None:
    """Without torch only ranks that do nothing stand still."""
    assert not _stall_after(stall, (10, None, 9, 0), (20, None, 18, 0)).lasts(5, 20)
    idle = _stall_after(stall, (10, None, 9, 0), (20, None, 9.01, 0))
    assert idle.lasts(10, 20)
    assert idle.idles


def test_no_rank_yet_is_no_stall(stall: Any) -> None:
    """While the nodes meet nothing stands still."""
    pod_stall = stall.PodStall(0.0)
    pod_stall.update([], 0.0, 100.0)
    assert not pod_stall.lasts(10, 100)


def test_a_pod_whose_ranks_have_ended_is_no_progress(stall: Any) -> None:
    """It is quiet, so that rank 0's pod can judge those that wait for a rank of it."""
    pod_stall = _stall_after(stall, (10, _group(5, 4), 9, 0))
    pod_stall.update([], 0.0, 20, has_ended=True)
    pod_stall.update([], 0.0, 30, has_ended=True)
    assert pod_stall.lasts(20, 30)
    assert stall.StallBoard.IDLE == pod_stall.state


def test_what_a_rank_has_left_behind_is_no_rank(stall: Any) -> None:
    """A process that outlives its parent still has the rank's number in its environment."""
    attempt = _FAILURES.Attempt("big-0", _Store(), 0, 1)
    attempt._endings = [_FAILURES.Ending(1, 0, was_stopped=False)]
    views = [_view(stall, 0, _group(5, 4)), _view(stall, 1, None)]
    observer = SimpleNamespace(look=lambda **_: views, places=dict, ranks_seen=[])
    watcher = _watcher(stall, observer, ends=False)
    assert [0] == [view.rank for view in watcher._look(attempt)]
    assert [0] == [view.rank for view in watcher._look(attempt, closely=True)]


def test_a_rank_that_has_ended_while_others_wait_for_it_is_blamed(stall: Any) -> None:
    """A rank with fewer batches than the others ends well, and never enters their collective."""
    ended = stall.report("big-0", 0, [], {}, 600.0, ended=[0, 1])
    waiting = stall.report("big-1", 1, [_view(stall, 2, _group(5, 4))], {2: "train.py:9"}, 600.0)
    sentence = (
        "no progress for 600 s: rank 0 (and 1 more) (pod big-0) has ended with exit code 0 and has "
        "not entered all_reduce #5; 1 rank waits"
    )
    assert (0, "big-0", 0, sentence) == stall.verdict([ended, waiting], 600)
    assert "no rank runs any more" in stall.verdict([ended], 600)[3]


def test_the_rank_that_keeps_the_others_is_blamed(stall: Any) -> None:
    """The sentence names the rank, its pod and its place; a rank that cannot answer is absent."""

    def pod(node: int, groups: Any) -> dict[str, Any]:
        view = _view(stall, node, groups)
        report: dict[str, Any] = stall.report(
            f"big-{node}", node, [view], {node: f"train.py:{node} in step"}, 600.0
        )
        return report

    reports = [pod(0, _group(5, 4)), pod(1, _group(4, 4)), pod(2, _group(5, 4))]
    sentence = (
        "no progress for 600 s: rank 1 (pod big-1) has not entered all_reduce #5; it is at "
        "train.py:1 in step; 2 ranks wait"
    )
    assert (1, "big-1", 1, sentence) == stall.verdict(reports, 600)
    assert 1 == stall.verdict([reports[0], pod(1, None)], 600)[0]
    everybody = stall.verdict([pod(0, _group(5, 4)), pod(1, _group(5, 4))], 600)[3]
    assert "all ranks that answer have entered all_reduce #5" in everybody
    nobody = stall.verdict([pod(0, _group(5, 5))], 600)[3]
    assert "none waits in a collective; rank 0 is at train.py:0 in step" in nobody


def test_a_rank_that_is_stopped_is_named_as_such(stall: Any) -> None:
    """By the kernel's own word, whatever it had entered before; it is the cause of what waits."""
    ranks = [{"rank": 1, "state": "T"}, {"rank": 2, "state": "S"}]
    why = SimpleNamespace(look=lambda _: {"ranks": ranks}, place=lambda *_: "train.py:9")
    places = stall.RankObserver(why).places()
    assert {1: stall.STOPPED, 2: "train.py:9"} == places
    stopped = stall.report("big-0", 0, [_view(stall, 1, None)], places, 600.0)
    waiting = stall.report("big-1", 1, [_view(stall, 2, _group(5, 4))], places, 600.0)
    beginning = "no progress for 600 s: rank 1 (pod big-0) is stopped, by SIGSTOP or a debugger"
    assert (1, "big-0", 0, f"{beginning}; 1 rank waits") == stall.verdict([waiting, stopped], 600)
    assert (1, "big-0", 0, beginning) == stall.verdict([stopped], 600)
    line = "no progress: rank 1 is stopped, by SIGSTOP or a debugger, in no collective"
    assert [line] == list(stall.lines(stopped))
    assert stall.is_certain([stopped])


def test_a_gpu_that_has_not_begun_what_the_others_are_in_is_blamed(stall: Any) -> None:
    """All ranks have entered a collective, and NCCL tells which GPUs have begun it."""

    def pod(node: int, state: str) -> dict[str, Any]:
        groups = _group(5, 4)
        groups["0"]["last"][0]["state"] = state
        view = _view(stall, node, groups)
        report = stall.report(f"big-{node}", node, [view], {node: f"train.py:{node} in step"}, 600)
        answer: dict[str, Any] = json.loads(json.dumps(report))
        return answer

    reports = [pod(0, "started"), pod(1, "scheduled"), pod(2, "started")]
    sentence = (
        "no progress for 600 s: rank 1 (pod big-1) has given all_reduce #5 to its GPU, which is "
        "still busy with what came before it; it is at train.py:1 in step; 2 ranks wait"
    )
    assert (1, "big-1", 1, sentence) == stall.verdict(reports, 600)
    untold = stall.verdict([pod(node, "scheduled") for node in range(3)], 600)[3]
    assert "all ranks that answer have entered all_reduce #5" in untold


def test_a_report_that_cannot_be_kept_is_told_once(stall: Any, tmp_path: Path) -> None:
    """Storage that takes no file costs a line; without checkpoints there is nothing to say."""
    lines: list[str] = []
    (tmp_path / stall.StallReports.FOLDER).write_text("a file in its place")
    reports = stall.StallReports({"ALLRANKS_STALL_REPORTS": str(tmp_path)}, "big-0", lines.append)
    reports.keep("no progress for 600 s", [])
    reports.keep("no progress for 600 s", [])
    assert 1 == len(lines)
    assert lines[0].startswith("this is not kept beside the checkpoints: ")
    stall.StallReports({}, "big-0", lines.append).keep("no progress for 600 s", [])
    assert 1 == len(lines)


class _Store(dict[str, Any]):
    """The store of a rendezvous, as far as stalls are written there."""

    set = dict.__setitem__

    def check(self, keys: list[str]) -> bool:
        return all(key in self for key in keys)

    def add(self, key: str, more: int) -> int:
        self[key] = self.get(key, 0) + more
        return int(self[key])


class _Pod:
    """The watcher of a pod of a run, with a limit of 600 s, whose looks the test makes.

    Attributes:
        views: its ranks.
        lines: of its log.
        places: where its ranks are, of those that say so.
    """

    def __init__(
        self,
        stall: Any,
        store: _Store,
        node: int,
        views: Any,
        *,
        ends: bool = False,
        nodes: int = 2,
    ) -> None:
        """A pod whose ranks were just seen to go on."""
        self.views, self.lines = views, list[str]()
        self.places = {node: f"train.py:{node}"} if views[0].groups is not None else {}
        observer = SimpleNamespace(
            look=lambda **_: self.views, places=lambda: self.places, ranks_seen=[]
        )
        self.watcher = _watcher(stall, observer, ends=ends, say=self.lines.append)
        self.board = stall.StallBoard(store, node)
        self._attempt = _FAILURES.Attempt(f"big-{node}", store, node, nodes)
        self._stall = stall

    def idle(self, now: float, other: _Pod | None = None) -> None:
        """None of its ranks has done anything for the limit."""
        self._look(now - 600, now, "idles", other)

    def wait(self, now: float, other: _Pod | None = None) -> None:
        """They have stood still for the limit, and one of them waits in a collective."""
        self._look(now - 600, now, "waits", other)

    def judge(self) -> None:
        """They go on."""
        self._look(1.0, 1.0, "", None)

    def _look(self, since: float, now: float, state: str, other: _Pod | None) -> None:
        """Look; another pod answers, where there is one, while this one waits for it."""
        pod_stall = self._stall.PodStall(since)
        if state:
            setattr(pod_stall, state, True)
        args = (self._attempt, self.board, pod_stall, self.views, now)
        look = threading.Thread(target=self.watcher._judge, args=args)
        look.start()
        if other is not None:
            until(other.board.has_question, "a question")
            other.judge()
        look.join(60)
        assert not look.is_alive()


def test_a_frozen_rank_is_ended_with_the_others(stall: Any) -> None:
    """It hears no SIGTERM: torchrun's agent of its pod would wait for most of the grace."""
    with _sleeper() as rank:
        rank.send_signal(signal.SIGSTOP)
        view = stall.RankView(1, rank.pid, None, 0.0)
        store = _Store()
        pod = _Pod(stall, store, 1, [view], ends=True)
        rank0 = stall.StallBoard(store, 0)
        rank0.ask()
        rank0.answer({})
        rank0.end()
        pod.judge()
        assert -signal.SIGKILL == rank.wait(timeout=60)
    assert 2 == rank0.answers()


def test_ranks_that_nobody_can_ask_are_reported_and_not_ended(stall: Any) -> None:
    """A step may take longer than the limit, without a line: that they stand still is a guess."""
    with _sleeper() as rank:
        view = stall.RankView(0, rank.pid, None, 0.0)
        pod = _Pod(stall, _Store(), 0, [view], ends=True, nodes=1)
        pod.idle(601.0)
        assert stall.NOT_ENDED == pod.lines[-1]
        assert rank.poll() is None
    assert not pod.board.is_ended()


def test_ranks_that_answer_later_are_ended_then(stall: Any) -> None:
    """A busy node may give a rank no processor for as long as one look waits."""
    with _sleeper() as rank:
        pod = _Pod(stall, _Store(), 0, [stall.RankView(0, rank.pid, None, 0.0)], ends=True, nodes=1)
        pod.idle(601.0)
        lines = list(pod.lines)
        pod.idle(602.0)
        assert lines == pod.lines  # nothing new is known
        pod.places = {0: "train.py:7"}
        pod.idle(603.0)
        assert -signal.SIGKILL == rank.wait(timeout=60)
    assert "rank 0 is at train.py:7" in pod.lines[-3]
    assert pod.board.is_ended()


def test_ranks_that_sleep_while_another_pod_computes_are_no_stall(stall: Any) -> None:
    """Rank 1 may still load torch while rank 0 waits for it to meet, in no collective yet."""
    store = _Store()
    views = [stall.RankView(rank, 7, {}, 0.0) for rank in range(2)]
    sleeping, computing = (_Pod(stall, store, node, [views[node]]) for node in range(2))
    computing.judge()
    sleeping.idle(601.0)
    assert [] == sleeping.lines
    computing.idle(1202.0)
    assert ["no progress: rank 1 is at train.py:1, in no collective"] == computing.lines
    sleeping.idle(1203.0, other=computing)
    assert "no progress for 600 s: no rank computes" in sleeping.lines[-2]


def test_an_answer_counts_for_its_question_alone(stall: Any) -> None:
    """A pod that answers no more is missing, and not where it was an hour ago."""
    store = _Store()
    rank0, other = (stall.StallBoard(store, node) for node in range(2))
    for answering in ((rank0, other), (rank0,)):
        rank0.ask()
        for board in answering:
            board.answer({"pod": f"big-{(rank0, other).index(board)}"})
        assert len(answering) == len(rank0.reports(2)) == rank0.answers()


def test_a_pod_that_goes_on_takes_back_that_it_stood_still(stall: Any) -> None:
    """What it saw an hour ago is not held against the run now; it is asked anew."""
    store = _Store()
    views = [stall.RankView(rank, 7, {}, 0.0) for rank in range(2)]
    rank0, other = (_Pod(stall, store, node, [views[node]]) for node in range(2))
    other.idle(601.0)
    other.judge()
    rank0.idle(601.0)
    assert [] == rank0.lines
    views[0] = _view(stall, 0, _group(5, 4))
    rank0.views = views[:1]
    other.views = [_view(stall, 1, _group(4, 4))]
    rank0.wait(1300.0, other=other)
    assert "rank 1 (pod big-1) has not entered all_reduce #5" in rank0.lines[-2]
    # The run goes on, and stands still for another reason.
    rank0.watcher._is_reported = False
    other.views = [_view(stall, 1, _group(9, 8))]
    rank0.views = [_view(stall, 0, _group(8, 8))]
    other.wait(2600.0)
    rank0.idle(2600.0, other=other)
    assert "rank 0 (pod big-0) has not entered all_reduce #9" in rank0.lines[-2]


def test_a_rank_computes_where_what_it_has_started_does(
    stall: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for its loaders of data."""
    monkeypatch.setenv("ALLRANKS_POD_UID", "computes-below")
    with subprocess.Popen(
        ["sh", "-c", "while :; do :; done & wait"],
        env={**os.environ, "RANK": "0", "LOCAL_RANK": "0"},
        start_new_session=True,
    ) as rank:
        observer = stall.RankObserver(_WHY)
        until(
            lambda: [view.cpu_seconds > 0.2 for view in observer.look()] == [True],
            "what the child uses",
        )
        os.killpg(rank.pid, signal.SIGKILL)


class _Hosts:
    """Hosts of an MPI job that answer what each tells of its ranks (standstill.Hosts)."""

    def __init__(self, standstill: Any, answers: dict[str, list[dict[str, Any]]]) -> None:
        """By their pods."""
        self.questions: list[str] = []
        self._standstill, self._answers = standstill, answers

    def ask(self, word: str, *, again: bool = False) -> list[tuple[str, list[Any]]]:
        """Through JSON, as rsh.sh brings it; all of them answer, so that none is asked again."""
        assert (word == "where") == again
        self.questions.append(word)
        return [
            (pod, [self._standstill.HostRank(json.loads(json.dumps(rank))) for rank in ranks])
            for pod, ranks in self._answers.items()
        ]


def test_a_host_that_was_there_is_asked_again_where_its_ranks_are(standstill: Any) -> None:
    """On a busy machine its ranks' places take long; one that was not there is not waited for."""
    silent = {("where", "a"): 1, ("look", "c"): 1, ("where", "c"): 9}
    questions: list[tuple[str, str]] = []

    class Hosts(standstill.Hosts):
        def _ask(self, name: str, word: str) -> Any:
            questions.append((word, name))
            return (
                None if questions.count((word, name)) <= silent.get((word, name), 0) else (name, [])
            )

    hosts = Hosts(["a", "b", "c"], {})
    assert ["a", "b"] == [pod for pod, _ in hosts.ask("look")]
    assert ["a", "b"] == [pod for pod, _ in hosts.ask("where", again=True)]
    assert [2, 1, 1] == [questions.count(("where", name)) for name in "abc"]


def test_ranks_of_mpi_stand_still_where_their_hosts_say_so(standstill: Any, tmp_path: Path) -> None:
    """What hosts tell is read as what a launcher of torchrun sees of its own ranks."""

    def rank(number: int, entered: int) -> dict[str, Any]:
        pending = ["0", 7, "all_reduce"] if entered == 7 else None
        numbers = {"0": [entered, 6]}
        content = {"rank": number, "numbers": numbers, "pending": pending, "used": 5.0}
        return {**content, "begun": None, "at": f"train.py:{number} in step"}

    hosts = _Hosts(standstill, {"run-worker-0": [rank(0, 7)], "run-worker-1": [rank(1, 6)]})
    lines: list[str] = []
    sentence, is_certain = standstill.watch(1, hosts, tmp_path, lines.append)
    assert is_certain
    assert sentence.startswith("no progress for 1 s: rank 1 (pod run-worker-1) has not entered")
    assert "all_reduce #7; it is at train.py:1 in step; 1 rank waits" in sentence
    assert [
        "no progress: rank 0 is at train.py:0 in step, in all_reduce #7",
        "no progress: rank 1 is at train.py:1 in step, in no collective",
    ] == lines
    assert "where" == hosts.questions[-1]
    assert "look" in hosts.questions
    silent = {**rank(0, 7), "numbers": None, "pending": None, "at": ""}
    answers = [("run-worker-0", [standstill.HostRank(silent)])]
    assert not standstill.sentence(answers, 1, 1.0, lines.append)[1]


def test_hosts_that_say_later_where_their_ranks_are_end_the_attempt_then(
    standstill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """On a busy host no rank may answer in time; the launcher goes on to ask."""
    (tmp_path / "hostlist").write_text("a\n")
    verdicts = iter([("nobody answers", False), ("rank 0 is at train.py:7", True)])
    monkeypatch.setattr(standstill, "watch", lambda *_: next(verdicts))
    monkeypatch.setenv("ALLRANKS_STATE", str(tmp_path))
    monkeypatch.setenv("ALLRANKS_STALL_ENDS", "1")
    assert 0 == standstill.main(["watch", "1"])
    assert "rank 0 is at train.py:7\n" == (tmp_path / "stalled").read_text()
    assert "once one does" in capsys.readouterr().err
