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
    ("said", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),  # the clipboard
        ("\x1b]0;title\x1b\\", "\\x1b]0;title\\x1b\\"),
        ("\x1b[2J\x1b[H", r"\x1b[2J\x1b[H"),
        ("\x9b2J\x9d0;t\x9c", r"\x9b2J\x9d0;t\x9c"),  # the same in one character each
        ("\x1bP$q\x1b\\", "\\x1bP$q\\x1b\\"),
        ("100%\rdone", r"100%\x0ddone"),
        ("a\u202eb", r"a\u202eb"),
        ("\x1b[31mred", "\x1b[31mred\x1b[0m"),
        ("\x1b[38;5;200m", "\x1b[38;5;200m\x1b[0m"),
        ("\x1b[", r"\x1b["),
        ("\tplain ä 👩\u200d🔬", "\tplain ä 👩\u200d🔬"),
    ],
)
def test_colours_pass_and_orders_are_shown(said: str, shown: str) -> None:
    """Nothing that a program prints is obeyed but its colours, which end with the line."""
    assert shown == terminal.line(said)


@given(st.text(st.sampled_from("\x1b[]0;:mJ\x07\x9b\x9dab\u202e"), max_size=30), st.data())
def test_a_sequence_may_be_split_anywhere(text: str, data: st.DataObject) -> None:
    """The parts show what the whole shows, and no order is in it."""
    cut = data.draw(st.integers(0, len(text)))
    found = terminal.Filter()
    parts = found.feed(text[:cut]) + found.feed(text[cut:]) + found.end()
    assert terminal.line(text) == parts
    assert not _ORDERS.search(_ALLOWED.sub("", parts))


def test_a_line_of_a_log_is_filtered(capsys: pytest.CaptureFixture[str]) -> None:
    """By whatever command shows it."""
    Console().log(0, "a\x1b]0;owned\x07b")
    assert r"a\x1b]0;owned\x07b" in capsys.readouterr().out
