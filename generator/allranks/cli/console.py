"""The output of commands: text, tables, JSON, errors and progress.

One object per call of the program. Results go to standard output, everything about them (notes,
progress, errors) to standard error, so that a pipe sees results only. rich is imported here and
nowhere else, and only when a table or a progress line is drawn: it costs 0.05 s.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import click

from allranks.cli import terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from allranks.errors import AllranksError, Problem


# Control characters, line separators of Unicode, and characters that change the reading direction.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNBOUND = 100_000  # the width of output that is not a terminal
_NUMBER = re.compile(r"[0-9]+$")
_RANK_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")
_DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_STATUS_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "error": "red", "note": "cyan"}


def clean(text: str) -> str:
    """Return text whose control characters are visible, so that a terminal does not obey them."""
    return _CONTROL.sub(_visible, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - two digits


def one_line(text: str) -> str:
    r"""Return text on one line: a line end is shown as ``\n``, a tab as ``\t``."""
    return clean(text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t"))


class Console:
    """The output of a command; with `-o json` errors are JSON as well."""

    def __init__(self) -> None:
        self.json_errors = False
        # Completes the commands in a message with the flags that the user typed; see `pasteable`.
        self.pasteable: Callable[[str], str] = str
        self._live: Any = None  # rich's console while a progress line is shown

    # --- results ----------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """Write a line of the result."""
        _write(sys.stdout, text + "\n")

    def command(self, line: str) -> None:
        """Write a command to go on with, with the flags of this one that it needs."""
        self.text(f"  {self.pasteable(f'`{line}`')[1:-1]}")

    def raw(self, text: str) -> None:
        """Write the result byte for byte; a terminal gets no control sequences but colours."""
        if sys.stdout.isatty():
            text = terminal.line(text)
        sys.stdout.flush()
        stream = sys.stdout.buffer
        stream.write(text.encode())
        stream.flush()

    def json(self, data: Any) -> None:
        """Write the result as JSON."""
        text = json.dumps(data, indent=2, ensure_ascii=False)
        # JSON does not escape all characters that a terminal obeys or reads in another order.
        _write(sys.stdout, _CONTROL.sub(_escape, text) + "\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        right: Sequence[str] = (),
        wrap: str = "",
        spare: Sequence[str] = (),
        whole: Sequence[str] = (),
    ) -> list[str]:
        """Write aligned columns; on a terminal they are fitted to its width, in a pipe never cut.

        The first column, which names the row, always stays whole, and so do numbers.

        Args:
            columns: the headings.
            rows: the cells, one sequence per row.
            right: headings of the columns that are aligned to the right: numbers.
            wrap: heading of the column whose text goes on in the next line where it is too long;
                else the longest columns are cut.
            spare: headings of columns that can be left out where there is no room.
            whole: headings of columns of text that stay whole, too.

        Returns:
            The headings that were left out.
        """
        from rich.console import Console as Rich

        tty = sys.stdout.isatty()
        rich = Rich(
            file=sys.stdout,
            width=None if tty else _UNBOUND,
            no_color=not _colour(sys.stdout),
            highlight=False,
            soft_wrap=False,
        )
        table, widths = _table(
            columns, rows, rich.width, right=right, wrap=wrap, spare=spare, whole=whole
        )
        # A row that is still too long goes on in the terminal's next line, and is not cut.
        rich.width = max(rich.width, sum(widths.values()) + GAP * len(widths))
        with rich.capture() as captured:
            rich.print(table)
        _write(sys.stdout, "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        return [column for at, column in enumerate(columns) if at not in widths]

    @property
    def at_terminal(self) -> bool:
        """Whether the result goes to a terminal that can redraw."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def board(self) -> Iterator[LiveTable]:
        """Return a table that is redrawn in place, on a terminal; the last state stays."""
        from rich.console import Console as Rich
        from rich.live import Live

        rich = Rich(no_color=not _colour(sys.stdout), highlight=False)
        with Live(console=rich, auto_refresh=False, vertical_overflow="crop") as live:
            yield LiveTable(live, rich)

    # --- about the result -------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Write a note to standard error; never part of the result."""
        _write(sys.stderr, f"{_word(sys.stderr, 'note')} {clean(self.pasteable(text))}\n")

    def report(self, text: str) -> None:
        """Write a document to standard error; its first line is the text's own."""
        _write(sys.stderr, f"{clean(self.pasteable(text))}\n")

    def check(self, status: str, name: str, detail: str, fix: str, width: int) -> None:
        """Write one line of a check list, and its fix."""
        word = click.style(f"{status:<4}", fg=_STATUS_COLOURS[status], bold=True)
        _write(sys.stdout, f"{word}  {name:<{width}}  {clean(detail)}\n")
        if fix:
            _write(sys.stdout, f"{'':<{width + 8}}fix: {clean(self.pasteable(fix))}\n")

    def diff(self, lines: Iterable[str]) -> None:
        """Write the lines of a unified diff, in colour on a terminal."""
        for line in lines:
            colour = _DIFF_COLOURS.get(line[:1], "") if _colour(sys.stdout) else ""
            text = one_line(line)
            _write(sys.stdout, (click.style(text, fg=colour) if colour else text) + "\n")

    def confirm(self, question: str) -> bool | None:
        """Ask a person at a terminal for a yes or a no; None where there is no terminal.

        Raises:
            Abort: the person has interrupted the question, or ended the input.
        """
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        try:
            return click.confirm(clean(question), err=True)
        except click.Abort:
            _write(sys.stderr, "\n")  # the question's line has no end yet
            raise

    def error(self, error: AllranksError, data: Mapping[str, Any] | None = None) -> None:
        """Write an error's problems, or its JSON.

        Args:
            error: the error.
            data: what the JSON has besides.
        """
        if self.json_errors:
            problems = [self._pasteable(problem).as_dict() for problem in error.problems]
            more = {"moreProblems": error.more} if error.more else {}
            self.json(
                {
                    "ok": False,
                    "exitCode": error.exit_code,
                    "problems": problems,
                    **more,
                    **(data or {}),
                }
            )
            return
        for problem in error.problems:
            self.problem(problem)
        count = len(error.problems) + error.more
        if error.more:
            least = "at least " if error.is_cut else ""
            _write(sys.stderr, f"{least}{count:,} problems: these, and {error.more:,} more\n")
        elif count > 1:
            _write(sys.stderr, f"{count} problems\n")

    def problem(self, problem: Problem) -> None:
        """Write one `error:` block: the place, the message, and the fix below it."""
        block = (
            str(self._pasteable(problem)).replace("\n", "\n  ").replace("\n    fix: ", "\n  fix: ")
        )
        _write(sys.stderr, f"{_word(sys.stderr, 'error')} {clean(block)}\n")

    def _pasteable(self, problem: Problem) -> Problem:
        """Return a problem whose commands can be pasted."""
        return problem.at(hint=self.pasteable(problem.hint)) if problem.hint else problem

    def crash(self, error: BaseException) -> None:
        """Write an unexpected error, a bug of ours, in one line."""
        message = clean(" ".join(str(error).split())) or "no message"
        if self.json_errors:
            problem = {
                "path": "",
                "message": f"bug in allranks: {type(error).__name__}: {message}",
                "hint": "",
                "source": "",
            }
            self.json({"ok": False, "exitCode": 1, "problems": [problem]})
            return
        _write(
            sys.stderr,
            f"{_word(sys.stderr, 'error')} this is a bug in allranks, not in your input: "
            f"{type(error).__name__}: {message}\n"
            "  fix: please report it with the output of the same command under ALLRANKS_DEBUG=1\n",
        )

    # --- logs and progress ------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether a progress line is shown."""
        return self._live is not None

    def log(self, who: int | str | None, text: str, *, result: bool = True) -> None:
        r"""Write one line of a pod's log, with its colours but no other control sequences.

        A line that was overwritten with ``\r`` becomes several lines if their words differ.

        Args:
            who: the pod's rank, with its role if there are several; None if it has none.
            text: the line.
            result: whether the log is the command's result, or information about it.
        """
        number = _NUMBER.search(str(who))
        colour = _RANK_COLOURS[int(number[0]) % len(_RANK_COLOURS) if number else 0]
        prefix = click.style(f"[{'-' if who is None else who}]", fg=colour)
        for row in map(terminal.line, terminal.rows(text)):
            if self._live is not None:
                from rich.text import Text

                # Not wrapped: a line that is copied from the terminal stays one line.
                self._live.print(Text.from_ansi(f"{prefix} {row}"), soft_wrap=True)
            else:
                _write(sys.stdout if result else sys.stderr, f"{prefix} {row}\n")

    @contextmanager
    def progress(self, line: Callable[[int], str]) -> Iterator[None]:
        """Show a progress line at the foot of the terminal; nothing in a pipe.

        Args:
            line: returns the line's text for a terminal's width; called a few times a second, from
                a thread.
        """
        if not (sys.stderr.isatty() and sys.stdout.isatty()):
            yield
            return
        from rich.console import Console as Rich
        from rich.live import Live
        from rich.text import Text

        rich = Rich(no_color=not _colour(sys.stdout), highlight=False)
        # While the line is shown, rich puts what is printed above it.
        with Live(
            console=rich,
            transient=True,
            refresh_per_second=4,
            get_renderable=lambda: Text(clean(line(rich.width)), style=_dim(), no_wrap=True),
        ):
            self._live = rich
            try:
                yield
            finally:
                self._live = None


class LiveTable:
    """A table on a terminal that is redrawn in place."""

    def __init__(self, live: Any, rich: Any) -> None:
        self._live = live
        self._rich = rich

    @property
    def rows(self) -> int:
        """The number of rows that fit the terminal, beside the headings and a line at the foot."""
        return max(1, int(self._rich.size.height) - 3)

    def draw(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        right: Sequence[str] = (),
        spare: Sequence[str] = (),
        whole: Sequence[str] = (),
        foot: str = "",
    ) -> None:
        """Redraw the table; no row is longer than a line.

        Args:
            columns: the headings.
            rows: the cells, one sequence per row.
            right: headings of the columns that are aligned to the right.
            spare: headings of columns that can be left out where there is no room.
            whole: headings of columns of text that stay whole.
            foot: a line below it.
        """
        from rich.console import Group
        from rich.text import Text

        room = self._rich.width
        table, _ = _table(
            columns, rows, room, right=right, spare=spare, whole=whole, names_give=True
        )
        line = Text(clean(foot), style=_dim(), no_wrap=True, overflow="ellipsis")
        self._live.update(Group(table, line), refresh=True)


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    room: int,
    *,
    right: Sequence[str] = (),
    wrap: str = "",
    spare: Sequence[str] = (),
    whole: Sequence[str] = (),
    names_give: bool = False,
) -> tuple[Any, dict[int, int]]:
    """Return rich's table of the rows, and the widths of its columns by index."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    heading = "bold" if _colour(sys.stdout) else ""
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style=heading)
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    titles = [one_line(column) for column in columns]
    widths = [
        max(cell_len(text) for text in (title, *(row[at] for row in cells)))
        for at, title in enumerate(titles)
    ]
    fitted = fit(
        [
            FittedColumn(column, width, firm=at == 0 or column in (*right, *whole))
            for at, (column, width) in enumerate(zip(columns, widths, strict=True))
        ],
        room,
        spare,
        names_give=names_give,
    )
    for at, width in fitted.items():
        column = columns[at]
        table.add_column(
            Text(titles[at]),
            justify="right" if column in right else "left",
            no_wrap=column != wrap,
            overflow="fold" if column == wrap else "ellipsis",
            width=width,
        )
    for row in cells:
        table.add_row(*(Text(row[at]) for at in fitted))
    return table, fitted


def facts(pairs: Mapping[str, str]) -> str:
    """Return aligned `name  value` lines, for a header above a table."""
    width = max((len(name) for name in pairs), default=0)
    return "\n".join(f"{name:<{width}}  {one_line(value)}" for name, value in pairs.items())


def _colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _dim() -> str:
    """Return the style of text beside the result; empty without colour."""
    return "dim" if _colour(sys.stdout) else ""


def _word(stream: TextIO, word: str) -> str:
    text = f"{word}:"
    return click.style(text, fg=_STATUS_COLOURS[word], bold=True) if _colour(stream) else text


def _write(stream: TextIO, text: str) -> None:
    click.echo(text, file=stream, nl=False, color=_colour(stream))


GAP = 2  # between two columns
# The width that cut text keeps before a column is left out, and its least width.
_READABLE, _LEAST = 12, 6
_NAME = 20  # of a name that is cut


@dataclass(frozen=True, slots=True)
class FittedColumn:
    """A column to fit into a width.

    Attributes:
        title: its heading.
        width: the width of its longest cell, or of its heading.
        firm: it is never cut.
    """

    title: str
    width: int
    firm: bool


def fit(
    columns: Sequence[FittedColumn],
    room: int,
    spare: Sequence[str] = (),
    *,
    names_give: bool = False,
) -> dict[int, int]:
    """Return the width of each visible column, by its index.

    Args:
        columns: from the left.
        room: the width of the table at most.
        spare: headings of columns that can be left out, in this order.
        names_give: whether the first column may be cut if nothing else can.
    """
    visible = dict(enumerate(columns))
    for title in spare:
        if _needed_width(visible.values(), _READABLE) <= room:
            break
        visible = {at: column for at, column in visible.items() if column.title != title}
    most = max((column.width for column in columns), default=0)
    while most > _LEAST and _needed_width(visible.values(), most) > room:
        most -= 1
    widths = {at: _width(column, most) for at, column in visible.items()}
    if names_give and widths:
        first, over = min(widths), max(0, _needed_width(visible.values(), most) - room)
        widths[first] = max(min(widths[first], _NAME), widths[first] - over)
    return widths


def _width(column: FittedColumn, most: int) -> int:
    return column.width if column.firm else min(column.width, most)


def _needed_width(columns: Iterable[FittedColumn], most: int) -> int:
    return sum(_width(column, most) + GAP for column in columns) - GAP


class _Lasting(io.RawIOBase):
    """A terminal, and /dev/null once it is closed."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._terminal

    def isatty(self) -> bool:
        """Whether the terminal is still open."""
        return os.isatty(self._terminal)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Write to the terminal, or to /dev/null after a hangup."""
        try:
            return os.write(self._terminal, data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._terminal)
        os.close(null)
        return len(data)


@contextmanager
def tolerate_hangup() -> Iterator[None]:
    """Ignore a closed terminal within the block; other outputs are unchanged."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (_lasting(stream) for stream in before)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def _lasting(stream: TextIO) -> TextIO:
    if not stream.isatty():
        return stream
    stream.flush()
    buffer = io.BufferedWriter(_Lasting(stream.fileno()))
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=True)
