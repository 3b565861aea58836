"""What a pod's log may do to a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.cli import terminal
from allranks.cli.console import Console

pytestmark = pytest.mark.attack

_ALLOWED = re.compile(r"\x1b\[[0-9;:]{0,64}m")
_ORDERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),  # the clipboard
        ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x9b2J\x9d0;t\x9c", r"\x9b2J\x9d0;t\x9c"),  # the same in one character each
        ("\x1bP$q\x1b\\", "\\x1bP$q\\x1b\\"),
        # text that nobody would see: concealed, or on a ground of its own colour
        ("\x1b[8mrm -rf /\x1b[0m", "\\x1b[8mrm -rf /\x1b[0m\x1b[0m"),
        ("\x1b[1;08mx", "\\x1b[1;08mx"),
        ("\x1b[28mx", "\x1b[28mx\x1b[0m"),
        ("\x1b[38;5;8mgrey", "\x1b[38;5;8mgrey\x1b[0m"),
        ("\x1b[30;40mx", "\\x1b[30;40mx"),
        ("\x1b[41ma\x1b[31mb", "\x1b[41ma\\x1b[31mb\x1b[0m"),
        ("\x1b[38;5;16;48;2;1;2;3mx", "\\x1b[38;5;16;48;2;1;2;3mx"),
        ("\x1b[48:2::9:9:9;38:5:232mx", "\\x1b[48:2::9:9:9;38:5:232mx"),
        ("\x1b[37;44mx", "\x1b[37;44mx\x1b[0m"),
        ("\x1b[41m\x1b[0m\x1b[31mx", "\x1b[41m\x1b[0m\x1b[31mx\x1b[0m"),
        ("\x1b[58;5;8;4:3mx", "\x1b[58;5;8;4:3mx\x1b[0m"),
        ("\x1b[38;9;8mx", "\\x1b[38;9;8mx"),  # some read the 8 alone
        ("a\u202eb", r"a\u202eb"),
        ("\x1b[31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b[38;5;200m", "\x1b[38;5;200m\x1b[0m"),
        ("\x1b[", r"\x1b["),
        ("\tplain ä 👩\u200d🔬", "\tplain ä 👩\u200d🔬"),
    ],
)
def test_colours_pass_and_orders_are_shown(text: str, expected: str) -> None:
    """Nothing that a program prints is obeyed but its colours, which end with the line."""
    assert expected == terminal.line(text)


@given(st.text(st.sampled_from("\x1b[]0;:mJ\x07\x9b\x9dab\u202e"), max_size=30), st.data())
def test_a_sequence_may_be_split_anywhere(text: str, data: st.DataObject) -> None:
    """The parts show what the whole shows, and no order is in it."""
    cut = data.draw(st.integers(0, len(text)))
    terminal_filter = terminal.Filter()
    parts = (
        terminal_filter.feed(text[:cut]) + terminal_filter.feed(text[cut:]) + terminal_filter.end()
    )
    assert terminal.line(text) == parts
    assert not _ORDERS.search(_ALLOWED.sub("", parts))


def test_a_line_of_a_log_is_filtered(capsys: pytest.CaptureFixture[str]) -> None:
    """By whatever command shows it."""
    Console().log(0, "a\x1b]0;owned\x07b")
    assert r"a\x1b]0;owned\x07b" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("plain", ["plain"]),
        ("", [""]),
        ("\r\r", [""]),
        ("windows\r", ["windows"]),
        # a progress bar is what is left of it
        (
            "\r 0%|  | 0/9 [00:00<?, ?it/s]\r50%|#  | 4/9 [3.9s/it]\r100%|##| 9/9 [00:02, loss=1]",
            ["100%|##| 9/9 [00:02, loss=1]"],
        ),
        ("data: 900 kB\rdata: 1.2 MB", ["data: 1.2 MB"]),
        ("1/9 - ETA: 3s - loss: 3\r9/9 - 5s - loss: 1", ["9/9 - 5s - loss: 1"]),
        # no text is hidden by what is written over it
        ("rm -rf /\rall is well", ["rm -rf /", "all is well"]),
        ("loss 1\rerror\rloss 2", ["error", "loss 2"]),
    ],
)
def test_a_line_that_is_written_over_hides_no_word(text: str, rows: list[str]) -> None:
    """A progress bar is shown once, as a terminal would leave it; other text is a line each."""
    assert rows == terminal.rows(text)


def test_each_part_of_a_line_has_its_rank(capsys: pytest.CaptureFixture[str]) -> None:
    """As a line of the log has."""
    Console().log(3, "evil\rgood\r")
    assert "[3] evil\n[3] good\n" == capsys.readouterr().out


_SGR = st.lists(st.one_of(st.integers(0, 110), st.sampled_from([38, 48, 58, 2, 5, 8, 255])))


@given(st.lists(_SGR, max_size=6))
def test_no_colours_conceal(sequences: list[list[int]]) -> None:
    """Whatever a program asks for, what is obeyed has no 8 that stands alone."""
    text = "".join(f"\x1b[{';'.join(map(str, codes))}mx" for codes in sequences)
    for obeyed in _ALLOWED.findall(terminal.line(text)):
        codes = [int(code or 0) for code in obeyed[2:-1].split(";")]
        while codes:
            code = codes.pop(0)
            assert 8 != code
            if code in (38, 48, 58):
                del codes[: {5: 2, 2: 4}[codes[0]]]
