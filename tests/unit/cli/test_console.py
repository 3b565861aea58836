"""What a person sees: clean, aligned, coloured only where that is wanted."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.cli import console
from allranks.cli.console import Console
from allranks.errors import InputError, InvalidValues, Problem


def test_an_error_block_has_place_message_source_and_fix(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One block per problem, on standard error, and how many there are."""
    error = InvalidValues(
        [
            Problem("gpus", "must be at least 0, not -1", "use 0 for CPUs", "values.yaml:3"),
            Problem("", "no values"),
        ]
    )
    Console().error(error)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "error: gpus: must be at least 0, not -1 (values.yaml:3)\n"
        "  fix: use 0 for CPUs\n"
        "error: no values\n"
        "2 problems\n"
    )


def test_lines_of_a_fix_stay_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A message or a fix of several lines is indented as a whole."""
    Console().error(InputError("first\nsecond", hint="do\nthis"))
    assert capsys.readouterr().err == "error: first\n  second\n  fix: do\n  this\n"


def test_errors_are_json_where_json_was_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """With -o json an error is data on standard output, and nothing else is printed."""
    view = Console()
    view.json_errors = True
    view.error(InputError("no", path="a.b", hint="yes", source="f:1"))
    out, err = capsys.readouterr()
    assert err == ""
    assert {
        "ok": False,
        "exitCode": 2,
        "problems": [{"path": "a.b", "message": "no", "hint": "yes", "source": "f:1"}],
    } == json.loads(out)


# Separators of lines and paragraphs, and what changes the direction of the text behind it.
ORDERING = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


@given(st.text())
def test_control_characters_are_shown_not_obeyed(text: str) -> None:
    """No escape sequence of a person's values reaches the terminal."""
    text_shown = console.clean(text)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text_shown)
    assert "\x1b" not in text_shown
    assert "\x9b" not in text_shown
    assert not set(text_shown) & set(ORDERING)


@pytest.mark.parametrize("character", ORDERING)
def test_what_ends_or_turns_a_line_is_shown(
    character: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of a table stays one line, and is read in the order that it has; scripts are kept."""
    Console().table(["NAME", "VALUE"], [(f"a{character}b", "שלום"), ("c", "👩\u200d🔬")])
    escaped = f"a\\u{ord(character):04x}b"
    assert ["NAME", escaped, "c"] == [
        line.split()[0] for line in capsys.readouterr().out.splitlines()
    ]
    assert escaped == console.clean(f"a{character}b") == console.one_line(f"a{character}b")
    assert "👩\u200d🔬" == console.clean("👩\u200d🔬")


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns are aligned and long cells stay whole where no terminal sets a width."""
    Console().table(["NAME", "N"], [("a" * 300, 1), ("b", 22)], right=["N"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["a" * 300, "1"]
    assert len(lines[1]) == len(lines[2])


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too narrow: the first column stays whole, long text goes on in the next line or is cut."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    for wrap, words in (("B", 8), ("", 2)):
        stream = Terminal()
        monkeypatch.setattr("sys.stdout", stream)
        Console().table(["A", "B"], [("a" * 12, "word " * 8)], wrap=wrap)
        text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
        assert all(len(line) <= 30 for line in text.splitlines())
        assert "a" * 12 in text
        assert words <= text.count("word") < words + 2


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_numbers_are_never_cut(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Long text gives way first, then what can be missed; no number is cut at any width."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    missed = Console().table(
        ["TRIAL", "STATE", "accuracy", "lr", "opt", "CPU", "NOTE"],
        [(17, "succeeded", "0.95123", "0.000123457", "long " * 20, "2 min 5 s", "again")],
        right=["TRIAL", "accuracy", "lr", "CPU"],
        spare=["CPU", "NOTE"],
    )
    heading, row = stream.getvalue().splitlines()
    assert {"17", "0.95123", "0.000123457"} <= set(row.split())
    assert (["CPU", "NOTE"], ["CPU"], [], [])[(40, 60, 80, 100).index(width)] == missed
    assert ("2 min 5 s" in row) == ("CPU" not in missed)
    assert len(heading) <= len(row) <= max(width, 50)
    assert "long" in row


def test_no_colour_is_no_style_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """With NO_COLOR neither a table nor the line of progress is bold, dim or coloured."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("sys.stderr", stream)
    view = Console()
    with view.progress(lambda room: f"room {room}"):
        view.table(["A"], [("b",)])
    with view.board() as board:
        board.draw(["A"], [("b",)], foot="more")
    assert "room 40" in stream.getvalue()
    assert [] == re.findall(r"\x1b\[[0-9;]*m", stream.getvalue())


def test_a_line_end_in_a_cell_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """A row stays one line, whatever is in its cells and headings; so does a fact."""
    Console().table(["A\nB"], [("one\ntwo\r\n\tthree",)])
    assert ["A\\nB", r"one\ntwo\r\n\tthree"] == capsys.readouterr().out.splitlines()
    assert r"a  x\ny" == console.facts({"a": "x\ny"})


def test_a_log_line_is_not_wrapped_by_the_progress_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a progress line is shown, log lines go above it, whole and with their colours."""
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setattr("sys.stderr", stream)
    view = Console()
    with view.progress(lambda _: "2 running"):
        view.log(0, "x" * 50)
    assert "x" * 50 in stream.getvalue()
    assert "2 running" in stream.getvalue()
    assert "[0]" in stream.getvalue()


def test_markup_in_a_cell_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Square brackets of a person's are shown, not read as style."""
    Console().table(["A"], [("[bold]x[/bold]",), ("\x1b[31mred",)])
    out = capsys.readouterr().out
    assert "[bold]x[/bold]" in out
    assert "\\x1b[31mred" in out


def test_logs_have_their_rank(capsys: pytest.CaptureFixture[str]) -> None:
    """Each line starts with its rank; in a pipe there is no colour."""
    view = Console()
    view.log(0, "a")
    view.log(11, "b")
    view.log(None, "c", result=False)
    out, err = capsys.readouterr()
    assert (out, err) == ("[0] a\n[11] b\n", "[-] c\n")


def test_no_color_wins(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """FORCE_COLOR colours a pipe, NO_COLOR turns it off again."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    Console().note("x")
    assert "\x1b[" in capsys.readouterr().err
    monkeypatch.setenv("NO_COLOR", "1")
    Console().note("x")
    assert capsys.readouterr().err == "note: x\n"


def test_a_crash_is_one_honest_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A bug of ours is called one, and how to report it stands below."""
    Console().crash(ValueError("a\nb"))
    err = capsys.readouterr().err
    assert "error: this is a bug in allranks, not in your input: ValueError: a b\n" in err
    assert "ALLRANKS_DEBUG=1" in err


def test_progress_is_silent_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """No progress line is drawn, and none is asked for, where no terminal shows it."""
    with Console().progress(lambda _: pytest.fail("asked for a line")):
        pass
    assert capsys.readouterr() == ("", "")


class Screen(io.TextIOWrapper):
    """A terminal that keeps what it gets."""

    def __init__(self) -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, "utf-8", write_through=True)

    def isatty(self) -> bool:
        """Yes."""
        return True


# Sets the clipboard, clears, the same by characters of C1, and turns the order of reading.
_ORDERS = "a\x1b]52;c;aGk=\x07\x1b[2J\u009b2J\u009d0;x\u009c\u202eb"


@pytest.mark.attack
def test_data_gives_a_terminal_no_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of values, a manifest or a table may hold what a pod or a stranger wrote."""
    screen = Screen()
    monkeypatch.setattr("sys.stdout", screen)
    Console().raw(f"{_ORDERS}\n")
    Console().json({_ORDERS: [_ORDERS]})
    screen_text = screen.bytes.getvalue().decode()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", screen_text)


@pytest.mark.attack
def test_data_in_a_pipe_is_as_it_is(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """Byte for byte; JSON says the same in other words."""
    Console().raw(_ORDERS)
    assert _ORDERS.encode() == capsysbinary.readouterr().out
    Console().json({"a": _ORDERS})
    assert {"a": _ORDERS} == json.loads(capsysbinary.readouterr().out)
