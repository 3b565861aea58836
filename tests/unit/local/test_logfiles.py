"""Reading logs that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.local import logfiles
from allranks.local.logfiles import LogFile
from allranks.model.ranklines import Wanted, Writers

if TYPE_CHECKING:
    from pathlib import Path


def _open(folder: Path, rank: int, attempt: int = 0) -> Path:
    return logfiles.announce(folder, LogFile(f"t-{rank}", rank, "node", "trainer", attempt, 0))


def test_lines_come_as_they_are_written(tmp_path: Path) -> None:
    """A follower sees lines of all pods as they come, new files too, and a last open line."""
    first = _open(tmp_path, 0)
    first.write_text("a0\n")
    writes = iter(
        [
            lambda: _open(tmp_path, 1).write_text("b0\nb1\npart"),
            lambda: first.write_text("a0\na1\n"),
            lambda: (tmp_path / "t-1.0.trainer.0.log").write_text("b0\nb1\npartial\nend"),
        ]
    )

    def finished() -> bool:
        write = next(writes, None)
        if write is not None:
            write()
        return write is None

    seen = [(line.rank, line.text) for line in logfiles.follow(tmp_path, finished)]
    assert [(0, "a0"), (1, "b0"), (1, "b1"), (0, "a1"), (1, "partial"), (1, "end")] == seen


def test_one_rank_alone(tmp_path: Path) -> None:
    """A follower or reader of one rank sees no other."""
    for rank in (0, 1):
        _open(tmp_path, rank).write_text(f"rank {rank}\n")
    first, second = Wanted(rank=0), Wanted(rank=1)
    assert ["rank 1"] == [one.text for one in logfiles.follow(tmp_path, lambda: True, second)]
    assert ["rank 0"] == [one.text for one in logfiles.read(tmp_path, first)]


def test_a_process_among_several_of_a_pod(tmp_path: Path) -> None:
    """Its lines alone, without the rank before them; the pod's own words are the node's."""
    writers = Writers(count=2, prefixed=True)
    for node, text in ((0, "[0] a\n"), (1, "allranks: up\n[3] b\n[2] [3] c\n[3] \n[3] 10%\r[3] d")):
        file = logfiles.LogFile(f"t-{node}", node, "node", "trainer", 0, 0, writers)
        logfiles.announce(tmp_path, file).write_text(text)

    seen = [(line.rank, line.process, line.text) for line in logfiles.read(tmp_path)]
    third = [line.text for line in logfiles.read(tmp_path, Wanted(rank=3), tail=2)]

    assert seen == [
        (0, 0, "a"),
        (1, None, "allranks: up"),
        (1, 3, "b"),
        (1, 2, "[3] c"),
        (1, 3, ""),
        (1, 3, "[3] d"),
    ]
    assert third == ["", "[3] d"]
    assert len(list(logfiles.read(tmp_path, Wanted(node=1)))) == 5
    assert list(logfiles.read(tmp_path, Wanted(rank=4))) == []


def test_the_last_lines_of_each_file(tmp_path: Path) -> None:
    """Of what is there; a follower sees all that comes."""
    for rank in (0, 1):
        _open(tmp_path, rank).write_text("one\ntwo\nthree")
    assert ["two", "three"] * 2 == [one.text for one in logfiles.read(tmp_path, tail=2)]
    assert [] == list(logfiles.read(tmp_path, tail=0))
    ends = iter([False, True])

    def finished() -> bool:
        if not (end := next(ends)):
            return end
        (tmp_path / "t-0.0.trainer.0.log").write_text("one\ntwo\nthree\nfour\nfive\n")
        return end

    chosen = Wanted(rank=0)
    lines = logfiles.follow(tmp_path, finished, chosen, tail=1)
    assert ["two", "three", "four", "five"] == [one.text for one in lines]


def test_reading_is_in_the_order_of_ranks(tmp_path: Path) -> None:
    """What is there is shown pod by pod, the attempts of each in their order."""
    for rank, attempt in ((1, 0), (0, 0), (1, 1)):
        _open(tmp_path, rank, attempt).write_text(f"{rank}.{attempt}\n")
    lines = list(logfiles.read(tmp_path))
    assert ["0.0", "1.0", "1.1"] == [line.text for line in lines]
    assert [0, 0, 1] == [line.attempt for line in lines]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"10%\r50%\r100%\n", ["100%"]),
        (b"windows\r\n", ["windows"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
        (b"\n\n", ["", ""]),
        ("ünïcode\n".encode(), ["ünïcode"]),
    ],
)
def test_lines_as_a_terminal_leaves_them(tmp_path: Path, written: bytes, shown: list[str]) -> None:
    """A progress bar is its last state, and bytes that are no text do no harm."""
    _open(tmp_path, 0).write_bytes(written)
    assert shown == [line.text for line in logfiles.read(tmp_path)]


def test_a_line_without_an_end_has_a_bound(tmp_path: Path) -> None:
    """Output without a line end does not pile up in the reader's memory."""
    _open(tmp_path, 0).write_bytes(b"x" * (3 << 20))
    lines = list(logfiles.follow(tmp_path, lambda: True))
    assert 3 << 20 == sum(len(line.text) for line in lines)
    assert len(lines) > 1


def test_the_tail_of_a_file(tmp_path: Path) -> None:
    """The last lines, without empty ones; of a file that is not there, none."""
    path = tmp_path / "log"
    path.write_text("".join(f"{number}\n\n" for number in range(50_000)))
    assert logfiles.tail(path, 3) == ("49997", "49998", "49999")
    assert logfiles.tail(tmp_path / "none", 3) == ()


def test_no_logs_are_no_lines(tmp_path: Path) -> None:
    """A run that has not started a container has no lines, and that is no error."""
    assert list(logfiles.read(tmp_path)) == []
    assert list(logfiles.follow(tmp_path, lambda: True)) == []
