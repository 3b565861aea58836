"""Reading logs that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.local.state import logs as log_files
from allranks.local.state.logs import LogFile
from allranks.model.rank_lines import LineSelection, LogWriters

if TYPE_CHECKING:
    from pathlib import Path


def _open(folder: Path, rank: int, attempt: int = 0) -> Path:
    return log_files.announce(folder, LogFile(f"t-{rank}", rank, "node", "trainer", attempt, 0))


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

    lines = [(line.rank, line.text) for line in log_files.follow(tmp_path, finished)]
    assert [(0, "a0"), (1, "b0"), (1, "b1"), (0, "a1"), (1, "partial"), (1, "end")] == lines


def test_one_rank_alone(tmp_path: Path) -> None:
    """A follower or reader of one rank sees no other."""
    for rank in (0, 1):
        _open(tmp_path, rank).write_text(f"rank {rank}\n")
    first, second = LineSelection(rank=0), LineSelection(rank=1)
    assert ["rank 1"] == [line.text for line in log_files.follow(tmp_path, lambda: True, second)]
    assert ["rank 0"] == [line.text for line in log_files.read(tmp_path, first)]


def test_a_process_among_several_of_a_pod(tmp_path: Path) -> None:
    """Its lines alone, without the rank before them; the pod's own words are the node's."""
    writers = LogWriters(count=2, prefixed=True)
    for node, text in ((0, "[0] a\n"), (1, "allranks: up\n[3] b\n[2] [3] c\n[3] \n[3] 10%\r[3] d")):
        file = log_files.LogFile(f"t-{node}", node, "node", "trainer", 0, 0, writers)
        log_files.announce(tmp_path, file).write_text(text)

    lines = [(line.rank, line.process, line.text) for line in log_files.read(tmp_path)]
    third = [line.text for line in log_files.read(tmp_path, LineSelection(rank=3), tail=2)]

    assert lines == [
        (0, 0, "a"),
        (1, None, "allranks: up"),
        (1, 3, "b"),
        (1, 2, "[3] c"),
        (1, 3, ""),
        (1, 3, "10%\r[3] d"),
    ]
    assert third == ["", "10%\r[3] d"]
    assert len(list(log_files.read(tmp_path, LineSelection(node=1)))) == 5
    assert list(log_files.read(tmp_path, LineSelection(rank=4))) == []


def test_the_last_lines_of_each_file(tmp_path: Path) -> None:
    """Of what is there; a follower sees all that comes."""
    for rank in (0, 1):
        _open(tmp_path, rank).write_text("one\ntwo\nthree")
    assert ["two", "three"] * 2 == [line.text for line in log_files.read(tmp_path, tail=2)]
    assert [] == list(log_files.read(tmp_path, tail=0))
    ends = iter([False, True])

    def finished() -> bool:
        if not (end := next(ends)):
            return end
        (tmp_path / "t-0.0.trainer.0.log").write_text("one\ntwo\nthree\nfour\nfive\n")
        return end

    selection = LineSelection(rank=0)
    lines = log_files.follow(tmp_path, finished, selection, tail=1)
    assert ["two", "three", "four", "five"] == [line.text for line in lines]


def test_reading_is_in_the_order_of_ranks(tmp_path: Path) -> None:
    """What is there is shown pod by pod, the attempts of each in their order."""
    for rank, attempt in ((1, 0), (0, 0), (1, 1)):
        _open(tmp_path, rank, attempt).write_text(f"{rank}.{attempt}\n")
    lines = list(log_files.read(tmp_path))
    assert ["0.0", "1.0", "1.1"] == [line.text for line in lines]
    assert [0, 0, 1] == [line.attempt for line in lines]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"10%\r50%\r100%\n", ["10%\r50%\r100%"]),
        (b"windows\r\n", ["windows"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
        (b"\n\n", ["", ""]),
        ("ünïcode\n".encode(), ["ünïcode"]),
    ],
)
def test_lines_are_whole(tmp_path: Path, content: bytes, expected: list[str]) -> None:
    """Also what was written over, as in a cluster's logs; bytes that are no text do no harm."""
    _open(tmp_path, 0).write_bytes(content)
    assert expected == [line.text for line in log_files.read(tmp_path)]
    final = [text.rsplit("\r", 1)[-1] for text in expected]
    assert final == [log_files.final_text(line.text) for line in log_files.read(tmp_path)]


def test_a_line_without_an_end_has_a_bound(tmp_path: Path) -> None:
    """Output without a line end does not pile up in the reader's memory."""
    _open(tmp_path, 0).write_bytes(b"x" * (3 << 20))
    lines = list(log_files.follow(tmp_path, lambda: True))
    assert 3 << 20 == sum(len(line.text) for line in lines)
    assert len(lines) > 1


def test_the_tail_of_a_file(tmp_path: Path) -> None:
    """The last lines, without empty ones; of a file that is not there, none."""
    path = tmp_path / "log"
    path.write_text("".join(f"{number}\n\n" for number in range(50_000)))
    assert log_files.tail(path, 3) == ("49997", "49998", "49999")
    assert log_files.tail(tmp_path / "none", 3) == ()


def test_no_logs_are_no_lines(tmp_path: Path) -> None:
    """A run that has not started a container has no lines, and that is no error."""
    assert list(log_files.read(tmp_path)) == []
    assert list(log_files.follow(tmp_path, lambda: True)) == []
