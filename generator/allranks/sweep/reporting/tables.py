"""Results as rows of text, for a terminal, a CSV file and the report.

A table is data; the caller that prints it decides on widths and colours.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.sweep.model import CANCELLED, LogUniform, Uniform
from allranks.sweep.reporting.results import finite, seconds, state_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.sweep.model import Choice, SweepSpec, Trial
    from allranks.sweep.reporting.results import Results

NONE = "\N{EM DASH}"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: its heading.
        numeric: its cells are numbers, aligned to the right.
        parameter: it is one of the sweep's parameters.
    """

    title: str
    numeric: bool = False
    parameter: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Columns, and rows of as many cells.

    Attributes:
        columns: from the left.
        rows: the text of each cell.
        keys: the sort key of each cell: a number, or text; None for an empty cell.
        trials: the trial of each row.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    keys: tuple[tuple[float | str | None, ...], ...]
    trials: tuple[Trial, ...]


def table(results: Results, *, most: int | None = None) -> Table:
    """Return the table of trials, the best first.

    Args:
        results: the sweep.
        most: the most rows; None for all.
    """
    spec = results.spec
    metric = spec.objective.metric
    names = [parameter.name for parameter in spec.parameters]
    columns = (
        Column("trial", numeric=True),
        Column("state"),
        *([Column(metric, numeric=True)] if metric else []),
        *(Column(name, numeric=_numeric(results, name), parameter=True) for name in names),
        Column("steps", numeric=True),
        Column("time", numeric=True),
        Column("CPU", numeric=True),
        Column("note"),
    )
    trials = results.trials if most is None else results.trials[:most]
    rows, keys = [], []
    for trial in trials:
        cells = list(_cells(trial, names, measured=bool(metric)))
        rows.append(tuple(text for text, _ in cells))
        keys.append(tuple(key for _, key in cells))
    return Table(columns, tuple(rows), tuple(keys), trials)


def _cells(
    trial: Trial, names: list[str], *, measured: bool
) -> Iterable[tuple[str, float | str | None]]:
    """Yield each cell's text and its sort key."""
    yield str(trial.number), trial.number
    yield state_of(trial), state_of(trial)
    if measured:
        yield value_text(trial.value), finite(trial.value)
    for name in names:
        choice = trial.assignment.get(name)
        if choice is None:
            yield NONE, None
        else:
            yield choice.text, choice.data if is_number(choice) else choice.text
    step = last_step(trial)
    yield (NONE, None) if step is None else (str(step), step)
    for spent in (seconds(trial), trial.cpu_seconds):
        yield (NONE, None) if spent is None else (duration(spent), spent)
    yield note(trial), note(trial) or None


def _numeric(results: Results, name: str) -> bool:
    choices = [trial.assignment[name] for trial in results.trials if name in trial.assignment]
    return bool(choices) and all(map(is_number, choices))


def is_number(choice: Choice) -> bool:
    """Whether YAML reads a choice as a number."""
    return isinstance(choice.data, int | float) and not isinstance(choice.data, bool)


def last_step(trial: Trial) -> int | None:
    """Return the last step at which a trial reported a value; None if there is none."""
    return max(
        (measure.step for measure in trial.measures if measure.step is not None), default=None
    )


def note(trial: Trial) -> str:
    """Return the note on a trial: why it is in its state, and how many attempts it took.

    The reason of a cancelled trial is left out: it is that of the end of the sweep.
    """
    reason = "" if trial.state == CANCELLED else trial.reason
    again = f"{trial.attempts} attempts" if trial.attempts > 1 else ""
    return "; ".join(part for part in (reason, again) if part)


def value_text(value: float | None) -> str:
    """Return a measured value with six significant digits."""
    return NONE if value is None else f"{value:.6g}"


def short(spec: SweepSpec, name: str, choice: Choice) -> str:
    """Return a choice as typed; a number that a search drew with six significant digits."""
    continuous = (Uniform, LogUniform)
    spaces = {item.name: item.space for item in spec.parameters}
    if isinstance(spaces.get(name), continuous) and isinstance(choice.data, float):
        return f"{choice.data:.6g}"
    return choice.text


def duration(spent: float) -> str:
    """Return seconds in readable units: ``8.5 s``, ``2 min 5 s``, ``1 h 3 min``, ``2 d 4 h``."""
    if spent < 9.95:  # noqa: PLR2004 - rounds to two digits
        return f"{spent:.1f} s"
    whole = round(spent)
    for unit, name, below, below_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit} {name}" + (f" {rest} {below_name}" if rest else "")
    return f"{whole} s"


# The characters that begin a formula in spreadsheets, as OWASP lists them: in either width, with
# the typographic minus, and after blanks, which some ignore.
_FORMULA = re.compile(r"\s*[=+@\uff1d\uff0b\uff0d\uff20\u2212-]|[\t\r\n]")


class _Lines:
    """Collects the rows of a CSV writer, with line feeds instead of CRLF.

    With line feeds as its own line ends, the writer would not quote a carriage return in a cell.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, row: str) -> None:
        """Add a row."""
        self.lines.append(row.removesuffix("\r\n") + "\n")


def as_csv(results: Results) -> str:
    """Return one line per trial, the best first, with parameters as they reached it.

    A parameter with the name of another column is called ``parameter.<name>``.
    """
    fixed = ("trial", "name", "state", "value")
    after = ("step", "attempts", "seconds", "cpu_seconds", "reason")
    names = [parameter.name for parameter in results.spec.parameters]
    titles = [f"parameter.{name}" if name in (*fixed, *after) else name for name in names]
    out = _Lines()
    writer = csv.writer(out)
    writer.writerow((*fixed, *map(_text, titles), *after))
    for trial in results.trials:
        texts = (trial.assignment[name].text if name in trial.assignment else "" for name in names)
        spent = (seconds(trial), trial.cpu_seconds)
        writer.writerow(
            (
                trial.number,
                trial.name,
                state_of(trial),
                "" if trial.value is None else repr(trial.value),
                *map(_text, texts),
                "" if (step := last_step(trial)) is None else step,
                trial.attempts,
                *(
                    "" if spent_seconds is None else f"{spent_seconds:.3f}"
                    for spent_seconds in spent
                ),
                _text(trial.reason),
            )
        )
    return "".join(out.lines)


def _text(text: str) -> str:
    """Return text that no spreadsheet takes for a formula; a number stays as it is."""
    if not _FORMULA.match(text):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def summary(results: Results) -> str:
    """Summarize a sweep in one line: ``40 trials: 12 succeeded, 27 stopped, 1 failed``."""
    total = len(results.trials)
    parts = ", ".join(f"{count} {state}" for state, count in results.counts.items())
    return plural(total, "trial") + (f": {parts}" if parts else "")
