"""`allranks validate --fix`: show what the fixes change, ask, and write it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from allranks.cli import files
from allranks.errors import AllranksError
from allranks.humanize import list_some, plural
from allranks.service import fix as service_fix

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from allranks.cli.console import Console
    from allranks.service.fix import FixedFile, FixPlan
    from allranks.values.sources import Sources

    # Checks values and shows what they give, with the fixes as further data.
    Validate = Callable[[Sources, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class FixRequest:
    """The flags of `validate` that are about fixes.

    Attributes:
        release: the release's name; "" if there is none yet.
        namespace: its namespace.
        with_unsafe: whether fixes that are a guess are written too.
        only_diff: whether the changes are shown and not written.
        yes: whether nobody is asked.
    """

    release: str
    namespace: str
    with_unsafe: bool
    only_diff: bool
    yes: bool


def fix(console: Console, sources: Sources, request: FixRequest, validate: Validate) -> None:
    """Fix the files that the values come from, and check what they then say.

    Args:
        console: gets the diff, the question and the result.
        sources: the files and flags.
        request: how it was asked for.
        validate: checks the values that are there at the end.

    Raises:
        InputError: a source cannot be read, or a file has changed or cannot be written to.
        Exit: problems are left, and were shown.
    """
    plan = service_fix.plan(
        sources,
        release=request.release,
        namespace=request.namespace,
        with_unsafe=request.with_unsafe,
    )
    if not console.json_errors:
        for changed in plan.files:
            console.diff(_diff(changed))
            _tell_of_other_names(console, changed)
    is_written = bool(plan.files) and _is_confirmed(console, plan, request)
    if is_written:
        _write(console, plan)
    _tell(console, plan, is_written=is_written)
    data = _as_data(plan, {item.name for item in plan.files} if is_written else set())
    try:
        validate(plan.after if is_written else plan.before, data)
    except AllranksError as error:
        console.error(error, data)
        raise click.exceptions.Exit(error.exit_code) from error
    except OSError:
        # The output that tells of it has failed.
        if is_written and console.json_errors:
            console.note(_summary(plan))
        raise


def _summary(plan: FixPlan) -> str:
    return f"wrote {plural(len(plan.applied), 'fix')} to {_names(plan)}"


def _write(console: Console, plan: FixPlan) -> None:
    """Write the files of a plan.

    Raises:
        Exit: one cannot be written to, so that none or not all are written, which was shown.
    """
    try:
        files.rewrite({Path(item.name): (item.before, item.after) for item in plan.files})
    except files.PartlyWrittenError as error:
        written = {item.name for item in plan.files if Path(item.name) in error.written}
        console.error(error, _as_data(plan, written))
        raise click.exceptions.Exit(error.exit_code) from error
    except AllranksError as error:
        console.error(error, _as_data(plan, set()))
        raise click.exceptions.Exit(error.exit_code) from error


def _is_confirmed(console: Console, plan: FixPlan, request: FixRequest) -> bool:
    """Whether to write: as the flags say, else as a person does."""
    if request.only_diff or request.yes or console.json_errors:
        return request.yes
    fixes, where = plural(len(plan.applied), "fix"), _names(plan)
    try:
        answer = console.confirm(f"write {fixes} to {where}?")
    except click.Abort:
        console.note(f"nothing was written to {where}")
        raise
    if not answer:
        reason = ": there is no terminal to ask at; add --yes" if answer is None else ""
        console.note(f"nothing was written to {where}{reason}")
    return bool(answer)


def _tell_of_other_names(console: Console, changed: FixedFile) -> None:
    """Say that a file has other names, which go on to name the old text."""
    if changed.other_names:
        console.note(
            f"{changed.name} has {plural(changed.other_names, 'other name')} (hard links); they "
            "keep the old text where this is written"
        )


def _tell(console: Console, plan: FixPlan, *, is_written: bool) -> None:
    if console.json_errors:
        return
    for note in plan.omissions:
        console.note(f"{note.problem.path}: not fixed: {note.reason}")
    if is_written:
        console.note(_summary(plan))


def _names(plan: FixPlan) -> str:
    return list_some([changed.name for changed in plan.files])


def _as_data(plan: FixPlan, written: Collection[str]) -> dict[str, Any]:
    """The plan as JSON-ready data.

    Args:
        plan: the plan.
        written: the names of the files that were written.
    """
    return {
        "fixes": [note.as_dict() for note in plan.applied],
        "notFixed": [note.as_dict() for note in plan.omissions],
        "files": [
            {
                "file": changed.name,
                "diff": "".join(f"{line}\n" for line in _diff(changed)),
                "written": changed.name in written,
                "otherNames": changed.other_names,
            }
            for changed in plan.files
        ],
        "written": bool(plan.files) and len(written) == len(plan.files),
    }


def _diff(changed: FixedFile) -> Iterator[str]:
    """The lines of a unified diff, without their ends."""
    before, after = _lines(changed.before), _lines(changed.after)
    for line in difflib.unified_diff(before, after, changed.name, changed.name):
        text = line.removesuffix("\n").removesuffix("\r")
        yield text
        if not line.endswith("\n") and line[:1] in " +-":
            yield "\\ No newline at end of file"


def _lines(content: bytes) -> list[str]:
    """The lines with their ends; only a line feed ends one."""
    text = content.decode("utf-8").removeprefix("\ufeff")
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines
