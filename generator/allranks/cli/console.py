"""All that a command shows: text, tables, JSON, errors and progress.

One object per call of the program. Results go to standard output, everything about them (notes,
progress, errors) to standard error, so that a pipe sees results only. rich is imported here and
nowhere else, and only when a table or a progress line is drawn: it costs 0.05 s.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

import click

from allranks.cli import fitting, terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from allranks.errors import AllranksError, Problem

# Control characters, what some programs end a line at, and what turns the order of reading.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_UNBOUND = 100_000  # the width of what is no terminal
_NUMBER = re.compile(r"[0-9]+$")
_RANK_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red")
_STATUS_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "error": "red", "note": "cyan"}


def clean(text: str) -> str:
    """Text of a person's as it may be shown: control characters made visible, not obeyed."""
    return _CONTROL.sub(_visible, text)


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"  # noqa: PLR2004 - two digits


def one_line(text: str) -> str:
    r"""Text of a person's where it has one line: a line end is shown as ``\n``, a tab as ``\t``."""
    return clean(text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t"))


class Console:
    """Where a command writes; `-o json` makes errors JSON as well."""

    def __init__(self) -> None:
        self.json_errors = False
        # Makes what a message names a command that leads to where the person was; see `typed`.
        self.pasteable: Callable[[str], str] = str
        self._live: Any = None  # rich's console while a progress line is shown

    # --- results ----------------------------------------------------------------------------------

    def text(self, text: str) -> None:
        """A line of the result."""
        _write(sys.stdout, text + "\n")

    def command(self, line: str) -> None:
        """A command to go on with, with what leads to where the person is now."""
        self.text(f"  {self.pasteable(f'`{line}`')[1:-1]}")

    def raw(self, text: str) -> None:
        """The result as it is, byte for byte; a terminal gets its colours and no other orders."""
        if sys.stdout.isatty():
            text = terminal.line(text)
        sys.stdout.flush()
        stream = sys.stdout.buffer
        stream.write(text.encode())
        stream.flush()

    def json(self, data: Any) -> None:
        """The result for a program."""
        text = json.dumps(data, indent=2, ensure_ascii=False)
        # JSON leaves some as they are that a terminal obeys, or reads in another order.
        _write(sys.stdout, _CONTROL.sub(_escaped, text) + "\n")

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
        """Aligned columns; on a terminal they are fitted to its width, in a pipe never cut.

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
        from rich.console import Console as Rich  # noqa: PLC0415 - costs 0.05 s

        tty = sys.stdout.isatty()
        rich = Rich(
            file=sys.stdout,
            width=None if tty else _UNBOUND,
            no_color=not _colour(sys.stdout),
            highlight=False,
            soft_wrap=False,
        )
        table, shown = _table(
            columns, rows, rich.width, right=right, wrap=wrap, spare=spare, whole=whole
        )
        # What is too long even so goes on in the terminal's next line, and is not cut.
        rich.width = max(rich.width, sum(shown.values()) + fitting.GAP * len(shown))
        with rich.capture() as captured:
            rich.print(table)
        _write(sys.stdout, "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))
        return [column for at, column in enumerate(columns) if at not in shown]

    @property
    def at_terminal(self) -> bool:
        """Whether a person looks at the result as it comes."""
        return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"

    @contextmanager
    def board(self) -> Iterator[Board]:
        """A table that is drawn anew in its place, for a terminal; the last one stays."""
        from rich.console import Console as Rich  # noqa: PLC0415 - costs 0.05 s
        from rich.live import Live  # noqa: PLC0415

        rich = Rich(no_color=not _colour(sys.stdout), highlight=False)
        with Live(console=rich, auto_refresh=False, vertical_overflow="crop") as live:
            yield Board(live, rich)

    # --- about the result -------------------------------------------------------------------------

    def note(self, text: str) -> None:
        """Something a person should know; never part of the result."""
        _write(sys.stderr, f"{_word(sys.stderr, 'note')} {clean(self.pasteable(text))}\n")

    def check(self, status: str, name: str, detail: str, fix: str, width: int) -> None:
        """One line of a check list, and what to do about it."""
        word = click.style(f"{status:<4}", fg=_STATUS_COLOURS[status], bold=True)
        _write(sys.stdout, f"{word}  {name:<{width}}  {clean(detail)}\n")
        if fix:
            _write(sys.stdout, f"{'':<{width + 8}}fix: {clean(self.pasteable(fix))}\n")

    def error(self, error: AllranksError) -> None:
        """The error block a person reads, or its JSON."""
        if self.json_errors:
            problems = [self._pasteable(problem).as_dict() for problem in error.problems]
            more = {"moreProblems": error.more} if error.more else {}
            self.json({"ok": False, "exitCode": error.exit_code, "problems": problems, **more})
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
        """One `error:` block: the place, what is wrong, and the fix below it."""
        block = (
            str(self._pasteable(problem)).replace("\n", "\n  ").replace("\n    fix: ", "\n  fix: ")
        )
        _write(sys.stderr, f"{_word(sys.stderr, 'error')} {clean(block)}\n")

    def _pasteable(self, problem: Problem) -> Problem:
        """The same problem with commands that can be pasted."""
        return problem.at(hint=self.pasteable(problem.hint)) if problem.hint else problem

    def crash(self, error: BaseException) -> None:
        """An error that is ours to mend, in one line."""
        said = clean(" ".join(str(error).split())) or "no message"
        if self.json_errors:
            problem = {
                "path": "",
                "message": f"bug in allranks: {type(error).__name__}: {said}",
                "hint": "",
                "source": "",
            }
            self.json({"ok": False, "exitCode": 1, "problems": [problem]})
            return
        _write(
            sys.stderr,
            f"{_word(sys.stderr, 'error')} this is a bug in allranks, not in your input: "
            f"{type(error).__name__}: {said}\n"
            "  fix: please report it with the output of the same command under ALLRANKS_DEBUG=1\n",
        )

    # --- logs and progress ------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        """Whether a progress line is shown."""
        return self._live is not None

    def log(self, who: int | str | None, text: str, *, result: bool = True) -> None:
        """One line of a pod's log; of what it orders a terminal to do, its colours alone are kept.

        Args:
            who: the pod's rank, with its role where there are several; None where it has none.
            text: the line.
            result: whether the log is the command's result, or what is told about it.
        """
        text = terminal.line(text)
        number = _NUMBER.search(str(who))
        colour = _RANK_COLOURS[int(number[0]) % len(_RANK_COLOURS) if number else 0]
        prefix = click.style(f"[{'-' if who is None else who}]", fg=colour)
        if self._live is not None:
            from rich.text import Text  # noqa: PLC0415 - loaded with the progress line

            # Not wrapped: a line that is copied from the terminal stays one line.
            self._live.print(Text.from_ansi(f"{prefix} {text}"), soft_wrap=True)
            return
        _write(sys.stdout if result else sys.stderr, f"{prefix} {text}\n")

    @contextmanager
    def progress(self, line: Callable[[int], str]) -> Iterator[None]:
        """A line at the foot of the terminal that says how far a run is; nothing in a pipe.

        Args:
            line: gives the line's text for a terminal so wide; called a few times a second, from a
                thread.
        """
        if not (sys.stderr.isatty() and sys.stdout.isatty()):
            yield
            return
        from rich.console import Console as Rich  # noqa: PLC0415 - costs 0.05 s
        from rich.live import Live  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

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


class Board:
    """A table on a terminal that keeps up."""

    def __init__(self, live: Any, rich: Any) -> None:
        self._live = live
        self._rich = rich

    @property
    def rows(self) -> int:
        """How many rows the terminal has room for, beside the headings and a line at the foot."""
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
        """Show a table in the place of the last one; nothing of it is longer than a line.

        Args:
            columns: the headings.
            rows: the cells, one sequence per row.
            right: headings of the columns that are aligned to the right.
            spare: headings of columns that can be left out where there is no room.
            whole: headings of columns of text that stay whole.
            foot: a line below it.
        """
        from rich.console import Group  # noqa: PLC0415 - loaded with the board
        from rich.text import Text  # noqa: PLC0415

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
    """The library's own table for a list of rows, and the widths of its columns by place."""
    from rich.cells import cell_len  # noqa: PLC0415 - costs 0.05 s
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    heading = "bold" if _colour(sys.stdout) else ""
    table = Table(box=None, pad_edge=False, padding=(0, fitting.GAP, 0, 0), header_style=heading)
    cells = [[one_line(str(cell)) for cell in row] for row in rows]
    titles = [one_line(column) for column in columns]
    widths = [
        max(cell_len(text) for text in (title, *(row[at] for row in cells)))
        for at, title in enumerate(titles)
    ]
    shown = fitting.fit(
        [
            fitting.Column(column, width, firm=at == 0 or column in (*right, *whole))
            for at, (column, width) in enumerate(zip(columns, widths, strict=True))
        ],
        room,
        spare,
        names_give=names_give,
    )
    for at, width in shown.items():
        column = columns[at]
        table.add_column(
            Text(titles[at]),
            justify="right" if column in right else "left",
            no_wrap=column != wrap,
            overflow="fold" if column == wrap else "ellipsis",
            width=width,
        )
    for row in cells:
        table.add_row(*(Text(row[at]) for at in shown))
    return table, shown


def facts(pairs: Mapping[str, str]) -> str:
    """Aligned `name  value` lines, for a header above a table."""
    width = max((len(name) for name in pairs), default=0)
    return "\n".join(f"{name:<{width}}  {one_line(value)}" for name, value in pairs.items())


def _colour(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _dim() -> str:
    """The style of what is beside the result; none where a person wants no colour."""
    return "dim" if _colour(sys.stdout) else ""


def _word(stream: TextIO, word: str) -> str:
    text = f"{word}:"
    return click.style(text, fg=_STATUS_COLOURS[word], bold=True) if _colour(stream) else text


def _write(stream: TextIO, text: str) -> None:
    click.echo(text, file=stream, nl=False, color=_colour(stream))
