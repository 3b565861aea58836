"""Lines of a log that tell of a moment: our launchers' own, and steps that a training prints.

Steps are those of our launchers' lines of progress, and of lines with an object in it (JSON, or a
Python dict as Hugging Face's Trainer prints it) that has a `global_step`, a `step` or an `epoch`.
When a line was written the cluster tells; of a line without such a time the object's own `time`
counts. A line of progress and one of a preflight bear the time of what they tell.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from allranks import names
from allranks.timeline.model import (
    FIRST_STEP,
    PREFLIGHT,
    PREFLIGHT_FAILED,
    RENDEZVOUS,
    RESTART,
    SAVED,
    Moment,
    TrainingStep,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.model.rank_lines import LogWriters

_LINE_MAX, _STEPS_MAX = 4096, 100_000
# The words of our launchers (charts/*/files), and of torchrun where its log is asked for.
_WORDS = (
    (RENDEZVOUS, re.compile(r"allranks: (?:generation \d+: rank |rendezvous\b)")),
    (RENDEZVOUS, re.compile(r"allranks: .* answers?; starting$")),
    (RENDEZVOUS, re.compile(r".*\bRendezvous complete for workers\b")),
    (PREFLIGHT, re.compile(r"allranks: preflight\b")),
    (SAVED, re.compile(r"allranks: (?:saved|checkpoint saved)\b")),
    (RESTART, re.compile(r"allranks: rank 0 at \S+ is gone")),
)
_STEP = re.compile(r"""["'](global_step|step|epoch)["']: ?["']?(\d+(?:\.\d+)?)""")
_SAVE = re.compile(r"""["'](?:saved|checkpoint)["']: ?(?!false|False|null|None|0[,}])""")
_TIME = re.compile(r"""["'](?:time|timestamp)["']: ?["']?([-0-9T:.+Z]+)""")
_SAVED_STEP = re.compile(r'"saved": ?(\d+)')
_TIME_OF_PROGRESS = re.compile(r'"at": ?(\d+(?:\.\d+)?)')
_UNITS = ("global_step", "step", "epoch")


class LogMarks(NamedTuple):
    """The marks in a log: moments and steps.

    Attributes:
        moments: rendezvous, preflight, saves, and what the launcher says of a restart.
        steps: the steps.
    """

    moments: tuple[Moment, ...] = ()
    steps: tuple[TrainingStep, ...] = ()


def read(lines: Iterable[str], writers: LogWriters, pod: str, *, stamped: bool) -> LogMarks:
    """Return what the lines of a pod's log tell.

    Args:
        lines: the lines.
        writers: the processes that write it; of several ranks the lowest counts.
        pod: the pod.
        stamped: whether each line begins with the time at which it was written.
    """
    moments: list[Moment] = []
    steps: list[tuple[int, str, TrainingStep]] = []
    last_save: str | None = None
    for line in lines:
        stamp, _, written = line.partition(" ") if stamped else ("", "", line)
        rank, text = writers.split(written[:_LINE_MAX])
        is_progress = text.startswith(names.PROGRESS_LINE)
        if is_progress or text.startswith("{"):
            counted = {match[1]: match[2] for match in _STEP.finditer(text)}
            if is_progress:
                at, save = _time_of_progress(text), _SAVED_STEP.search(text)
                # Each line tells of the last save again.
                is_save, last_save = save is not None and save[1] != last_save, save and save[1]
            else:
                at = _seconds(stamp) if stamped else _own_time(text)
                is_save = _SAVE.search(text) is not None
            if at is None or not (counted or is_save):
                continue
            unit = next((unit for unit in _UNITS if unit in counted), "")
            if is_save:
                number = f"{unit} {last_save if is_progress else counted[unit]}" if unit else ""
                moments.append(Moment(at, SAVED, number, pod))
            if counted and (is_progress or not is_save):
                epoch = float(counted.get("epoch", -1)) if unit == "step" else -1.0
                steps.append((rank or 0, unit, TrainingStep(at, float(counted[unit]), epoch)))
                if len(steps) > _STEPS_MAX:
                    del steps[1::2]  # a log may have millions; the time between two stays told
        elif "allranks: " in text[:10] or "Rendezvous complete" in text:
            word = next((name for name, pattern in _WORDS if pattern.match(text)), "")
            detail = text.partition("allranks: ")[2]
            report = _preflight(detail) if word == PREFLIGHT else {}
            at = _seconds(stamp) if stamped and word else _number(report.get("at"))
            if at is not None:
                moments.append(Moment(at, word, (_preflight_words(report) or detail)[:200], pod))
    return LogMarks(tuple(moments), _of_lowest(steps))


def _preflight(detail: str) -> Mapping[str, Any]:
    """Return the JSON of a preflight's line; {} of a line that is cut off."""
    try:
        report = json.loads(detail.partition("{")[1] + detail.partition("{")[2])
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


def _preflight_words(report: Mapping[str, Any]) -> str:
    """Return what a preflight's line says, in a clause; "" where it does not say it."""
    seconds = _number(report.get("seconds"))
    if seconds is None or "passed" not in report:
        return ""
    return f"{'passed in' if report['passed'] is True else PREFLIGHT_FAILED} {seconds:g} s"


def _number(value: Any) -> float | None:
    """Return a finite number as one; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 2**53 else None


def merge(marks: Iterable[LogMarks]) -> tuple[tuple[TrainingStep, ...], list[Moment]]:
    """Return the steps that several logs tell, in order, and their moments, with the first step."""
    logs = list(marks)
    steps = sorted((step for log in logs for step in log.steps), key=lambda step: step.at)
    moments = [moment for log in logs for moment in log.moments]
    if steps:
        moments.append(Moment(steps[0].at, FIRST_STEP, f"{steps[0].number:g}"))
    return tuple(steps), moments


def _of_lowest(steps: list[tuple[int, str, TrainingStep]]) -> tuple[TrainingStep, ...]:
    """Return the steps of the lowest rank, in one unit: steps, where it counts these at all."""
    if not steps:
        return ()
    lowest = min(rank for rank, _, _ in steps)
    units = {unit for rank, unit, _ in steps if rank == lowest}
    finest = next(unit for unit in _UNITS if unit in units)
    chosen = [step for rank, unit, step in steps if rank == lowest and unit == finest]
    # Steps are counted anew in each epoch only where each line says which epoch it is.
    counted_through = any(step.epoch < 0 for step in chosen)
    return tuple(replace(step, epoch=0.0) if counted_through else step for step in chosen)


def _time_of_progress(text: str) -> float | None:
    times = _TIME_OF_PROGRESS.findall(text)
    return float(times[-1]) if times else None  # a metric may have the same name


def _own_time(text: str) -> float | None:
    match = _TIME.search(text)
    if match is None:
        return None
    try:
        return float(match[1])
    except ValueError:
        return _seconds(match[1])


def _seconds(stamp: str) -> float | None:
    try:
        time = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
