"""The report of a conversion: what became of each field, as text, Markdown or data."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.verdict_groups import grouped, with_whole_losses
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.convert.registry import Result
    from allranks.convert.reports.compare import Difference
    from allranks.convert.reports.losses import Loss
    from allranks.convert.verdicts import Conversion, Verdict


def text(result: Result, paths: Sequence[str]) -> Iterator[str]:
    """Texts for a person, of a line each: the counts, and all that is not carried as it is.

    What stands in them of the object may hold line ends, which whoever prints them makes visible.

    Args:
        result: the conversions.
        paths: the file of each; "" where its values went to standard output.
    """
    for conversion, path in zip(result.conversions, paths, strict=True):
        yield conversion.summary() + (f" ({path})" if path else "")
        yield from _lines(conversion)
        if conversion.runtime is not None:
            yield conversion.runtime.summary()
            yield from _lines(conversion.runtime)
        yield from conversion.notes
    for item in result.beside:
        yield str(item)


def lost_lines(conversion: Conversion) -> Iterator[str]:
    """A line for each field, or for neighbours that say the same, that is not carried.

    Args:
        conversion: of an object.
    """
    verdicts = with_whole_losses(conversion.verdicts)
    for verdict in grouped([own for own in verdicts if own.outcome is Outcome.NOT_CARRIED]):
        yield _line(conversion, verdict)


def _lines(conversion: Conversion) -> Iterator[str]:
    """A line for each field, or for neighbours that say the same, that is not carried as it is.

    What is lost stands first.
    """
    verdicts = with_whole_losses(conversion.verdicts)
    lines = grouped([own for own in verdicts if own.outcome is not Outcome.CARRIED])
    for verdict in sorted(lines, key=lambda verdict: verdict.outcome is Outcome.CHANGED):
        if verdict.to != "workload":
            yield _line(conversion, verdict)


def _line(conversion: Conversion, verdict: Verdict) -> str:
    where = conversion.where(verdict)
    shown = replace(verdict, path=_path(conversion, verdict))
    return f"{where}: {shown}" if where else str(shown)


_NUMBERED = re.compile(r"(?P<path>.+) \(\d+\)", re.DOTALL)


def _path(conversion: Conversion, verdict: Verdict) -> str:
    """A field as its source has it: a number behind it keeps two verdicts of one apart."""
    match = _NUMBERED.fullmatch(verdict.path)
    if match is None or all(other.path != match["path"] for other in conversion.verdicts):
        return verdict.path
    return match["path"]


def markdown(result: Result) -> str:
    """A document: a table of fields for each job, and a list of the objects beside them."""
    parts = []
    for conversion in result.conversions:
        notes = "".join(f"\n- {_on_one_line(note)}" for note in conversion.notes)
        parts.append(_table(conversion) + (f"{notes}\n" if notes else ""))
        if conversion.runtime is not None:
            parts.append(_table(conversion.runtime))
    if result.beside:
        items = "\n".join(f"- {_cell(str(item))}" for item in result.beside)
        parts.append(f"## Objects beside the jobs\n\n{items}\n")
    return "\n".join(parts)


def _table(conversion: Conversion) -> str:
    """A section with a table of an object's fields."""
    rows = "\n".join(
        f"| `{_cell(_path(conversion, verdict))}` | {verdict.outcome} | {_code(verdict.to)} "
        f"| {_cell(verdict.why)} | {verdict.line or ''} |"
        for verdict in conversion.verdicts
    )
    title = _on_one_line(f"{conversion.kind} {conversion.name}")
    return (
        f"## {title}\n\n{_on_one_line(conversion.summary())}.\n\n"
        f"| field | outcome | value | why | line |\n| --- | --- | --- | --- | --- |\n{rows}\n"
    )


def _code(value: str) -> str:
    return f"`{_cell(value)}`" if value else ""


def _cell(value: str) -> str:
    return _on_one_line(value.replace("|", "\\|"))


def _on_one_line(text: str) -> str:
    """A text of which no part begins a row, a heading or an item of its own."""
    return " ".join(text.split())


def comparison(differences: Sequence[Difference], losses: Sequence[Loss] = ()) -> str:
    """A Markdown table of what two kinds of pods do not have alike, and a list of what is lost.

    Args:
        differences: what differs, in the order of the rows.
        losses: what a conversion loses besides.
    """
    rows = "".join(
        f"| {' | '.join(map(_cell, (item.role, item.setting, item.theirs, item.ours)))} |\n"
        for item in differences
    )
    table = f"| role | what | there | here |\n| --- | --- | --- | --- |\n{rows}".rstrip()
    return "\n".join(
        [table, *([""] if losses else []), *(f"- {_cell(str(item))}" for item in losses)]
    )


def as_json(result: Result, paths: Sequence[str]) -> dict[str, Any]:
    """The report as data, with the values.

    Args:
        result: the conversions.
        paths: the file of each; "" for none.
    """
    return {
        "ok": result.is_whole,
        "jobs": [
            {**conversion.as_dict(), "file": path}
            for conversion, path in zip(result.conversions, paths, strict=True)
        ],
        "beside": [item.as_dict() for item in result.beside],
    }
