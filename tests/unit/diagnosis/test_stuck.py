"""Which ranks that are told to end cannot (files/stuck.py), and what of them why.py sees."""

from __future__ import annotations

from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.modules import CHARTS, load

if TYPE_CHECKING:
    from pathlib import Path

_MAIN, _PID = 1, 7
_STACKS = (
    "Thread 0x0000000000000002 (most recent call first):\n"
    '  File "/app/other.py", line 1 in other\n\n'
    "Thread 0x0000000000000001 (most recent call first):\n"
    '  File "/usr/lib/python3.11/threading.py", line 5 in wait\n'
    '  File "/app/train.py", line 88 in load\n'
)


@pytest.fixture(scope="module")
def stuck() -> Any:
    """The module."""
    return load(CHARTS / "torchrun/files/stuck.py")


@pytest.fixture(scope="module")
def why() -> Any:
    """The module that asks the ranks."""
    return load(CHARTS / "torchrun/files/why.py")


def test_the_place_is_the_programs_own(why: Any) -> None:
    """The innermost call of the main thread that is not of a library."""
    assert "train.py:88 in load" == why.place(_STACKS, _MAIN)
    assert "" == why.place("", _MAIN)


@pytest.fixture
def waiting_rank(stuck: Any, why: Any, tmp_path: Path) -> Any:
    """Where a rank stands, by the collective, its stacks, characters written and state."""
    task = tmp_path / "task" / str(_PID)
    task.mkdir(parents=True)

    def make(
        number: int = 4,
        stacks: str = _STACKS,
        written: int = 9,
        state: str = "S",
        *,
        done: bool = False,
    ) -> Any:
        (task / "stat").write_text(f"{_PID} (a )b) {state} 1 1\n")
        (task / "io").write_text(f"rchar: 1\nwchar: {written}\nsyscr: {number}\n")
        entry = {"number": number, "name": "nccl:all_reduce", "done": done, "between": False}
        process = SimpleNamespace(pid=_PID, path=tmp_path, state={"main": str(_MAIN)})
        process.letter_of = MethodType(why.LinuxProcess.letter_of, process)
        return stuck.WaitingRank(0, process, {"groups": {"0": {"last": [entry]}}}, stacks, why)

    return make


def test_a_rank_that_has_done_anything_has_moved(waiting_rank: Any) -> None:
    """Another collective, another line of the main thread, and characters that it wrote."""
    before = waiting_rank()
    assert (0, ("0", 4), "all_reduce", "train.py:88 in load") == (
        before.rank,
        before.collective,
        before.name,
        before.place,
    )
    assert waiting_rank().is_as(before)
    assert waiting_rank(stacks=_STACKS.replace("other.py", "more.py")).is_as(before)
    for change in ({"number": 5}, {"stacks": _STACKS.replace("88", "89")}, {"written": 10}):
        assert not waiting_rank(**change).is_as(before), change


@pytest.mark.parametrize("change", [{"done": True}, {"stacks": ""}, {"state": "D"}])
def test_what_cannot_be_seen_is_no_waiting_rank(waiting_rank: Any, change: dict[str, Any]) -> None:
    """Of a rank in no collective, one without stacks, and one that the disk holds up."""
    with pytest.raises(ValueError, match=r"disk|collective"):
        waiting_rank(**change)


def test_a_rank_that_moved_after_the_signal_has_more_time(stuck: Any, waiting_rank: Any) -> None:
    """One that stands since before it is stalled after seconds; a missing answer is a move."""
    before, later = waiting_rank(), waiting_rank(stacks=_STACKS.replace("88", "89"))

    def stalled_at(*looks: tuple[float, Any]) -> list[float]:
        stalls = stuck.RankStalls({0: before}, 0.0)
        return [now for now, place in looks if stalls.update({0: place} if place else {}, now)]

    assert [5.0, 9.0] == stalled_at((1.0, before), (4.9, before), (5.0, before), (9.0, before))
    assert [16.0] == stalled_at((1.0, later), (15.9, later), (16.0, later))
    assert [17.0] == stalled_at((1.0, None), (2.0, before), (7.0, before), (17.0, before))
    assert [] == stalled_at((1.0, later), (9.0, before), (23.9, before))


def test_a_rank_is_not_what_starts_it(why: Any) -> None:
    """A pod of an elastic job has the number of its rank: its worker and its agent have it, too."""

    def process(pid: int, parent: int, *, local: bool = False, armed: bool = False) -> Any:
        return SimpleNamespace(
            pid=pid,
            parent=parent,
            rank=3,
            words=["python3"],
            env={"LOCAL_RANK": "0"} if local else {},
            state={"pid": str(pid)} if armed else {},
        )

    worker, agent = process(1, 0), process(2, 1, armed=True)
    rank, loader = (process(pid, pid - 1, local=True, armed=True) for pid in (3, 4))
    for living in ((worker, agent, rank, loader), (worker, rank, loader)):
        assert {3: rank} == why.ranks({process.pid: process for process in living})
    program = process(2, 1, armed=True)
    assert {3: program} == why.ranks({1: worker, 2: program, 5: process(5, 2, armed=True)})
    assert {3: worker} == why.ranks({1: worker, 2: process(2, 1)})
