"""Whether the report of a conversion has a word on a difference."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from allranks.convert.verdicts import Outcome
from tests.side_by_side.differences import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import Conversion
    from tests.side_by_side.differences import Difference

# What is said of nearly each script, and explains nothing by itself.
_OF_EACH = re.compile(
    r"the launcher (?:starts|lets)|the run's log(?!.*went on)|where the image has"
    r"|must be in the image"
)
_OF_MEETING = "the launcher lets"
_TOPICS = {
    Kind.COUNT: re.compile(r"ntasks|--nodes|\branks\b|procsPerNode|in each pod|only once"),
    Kind.FOLDER: re.compile(r"workingDir|folder|\bcd "),
    Kind.STDIN: re.compile(r"stdin|input|<"),
    Kind.STDOUT: re.compile(r"output|\blog\b|>|tee"),
    Kind.LIMITS: re.compile(r"ulimit|umask"),
    Kind.EXIT_CODE: re.compile(r"exit|status|goes on|went on|over when its ranks|stands behind"),
}
_SIZES = {
    "SLURM_NTASKS": ("ntasks", "--nodes"),
    "SLURM_NNODES": ("--nodes",),
    "WORLD_SIZE": ("the job has",),
}
_MOST_WORDS = 6
_LETTERS = re.compile(r"[A-Za-z]")
_SHORTEST = 4  # letters of a word that says what is meant


def explains(conversion: Conversion, text: str, difference: Difference) -> bool:
    """Whether a verdict or a note speaks of a difference, or of the line that it comes of.

    Args:
        conversion: what has the report.
        text: the batch script.
        difference: what differs.
    """
    verdicts = [item for item in conversion.verdicts if item.outcome != Outcome.CARRIED]
    whole = "\n".join((*map(str, verdicts), *conversion.notes))
    # What asks for the address or a port of rank 0 has no other line to be said on.
    is_missing = difference.kind == Kind.MISSING
    verdicts = [
        item
        for item in verdicts
        if not _OF_EACH.search(item.why) or (is_missing and _OF_MEETING in item.why)
    ]
    report = "\n".join((*map(str, verdicts), *conversion.notes))
    kind = difference.kind
    if kind in _TOPICS and not (kind == Kind.EXIT_CODE and not difference.name):
        return bool(_TOPICS[kind].search(whole if kind == Kind.STDOUT else report))
    if kind in (Kind.VARIABLE, Kind.RANK):
        options = _SIZES.get(difference.name, (difference.name,))
        is_named = f"a program that reads {difference.name} " in whole
        is_named = is_named or difference.name in report
        is_named = is_named or any(option in report for option in options)
        return is_named or "train together" in report
    if kind == Kind.WORDS:
        texts = [difference.slurm, difference.pods]
        changed = [word for text in texts for word in re.findall(r"[\w./-]+", text)]
        return any(_is_named(word, report) for word in changed if _LETTERS.search(word))
    if kind in (Kind.FILE, Kind.SHELL):
        parts = re.split(r"[, ;]+", difference.slurm)
        return any(_is_named(posixpath.basename(part), whole) for part in filter(None, parts))
    lines = [_command_line(text.split("\n"), item.line) for item in verdicts if item.line]
    words = [word for word in difference.words if len(word) >= _SHORTEST and _LETTERS.search(word)]
    pattern = "|".join(map(re.escape, words[:_MOST_WORDS]))
    return bool(words) and any(
        re.search(rf"(?<![\w-])(?:{pattern})(?![\w-])", text) for text in (report, *lines)
    )


def _is_named(word: str, report: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", report) is not None


def _command_line(rows: Sequence[str], number: int) -> str:
    """The line of a number, with those that a backslash continues it by."""
    end = number
    while end < len(rows) and rows[end - 1].endswith("\\"):
        end += 1
    return "\n".join(rows[number - 1 : end])
