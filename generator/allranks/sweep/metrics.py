r"""Read measures from what a trial says: its termination message, and the lines it prints.

Three forms are known, and a person's own pattern replaces them for lines:

    accuracy=0.93 step=4              anywhere in a line, several to a line
    {"accuracy": 0.93, "step": 4}     a line, or a whole termination message
    epoch 4: acc 0.93                 with regex: 'epoch (?P<step>\d+): acc (?P<accuracy>\S+)'

A value may be infinite or not a number, where the trial says so: that is news, too. A step is a
whole number from 0; anything else counts as no step.
"""

from __future__ import annotations

import json
import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

from allranks.sweep import pattern
from allranks.sweep.model import STDOUT, TERMINATION, Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.sweep.model import MetricsSpec

# Of a longer line only the beginning is looked at: a progress bar may print megabytes without end.
LINE_MAX = 4096
# The most measures of one line; no person reads more.
MEASURES_MAX = 64
# How many other metrics are remembered, for the message that the objective is not among them.
NAMES_MAX = 16
# All measures of a trial are kept up to this many, then every second one, then every fourth, …
KEPT_MAX = 256

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?"
_VALUE = re.compile(rf"{_NUMBER}|[-+]?(?:nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
# A name may not begin within a word, nor a value end within one: `x=1.2.3` and `lr=1e-5s` are none.
_PAIR = re.compile(
    r"(?<![\w./@%-])([A-Za-z_][\w./@%-]{0,99}) ?= ?"
    rf"({_NUMBER}|[-+]?(?:nan|inf(?:inity)?))(?![\w.+-]*[\w+-])",
    re.ASCII | re.IGNORECASE,
)
# Colours of a terminal.
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STEP_MAX = 2**53


def parse(lines: Iterable[str], spec: MetricsSpec, at: float = 0.0) -> Iterator[Measure]:
    """The measures of lines that a trial printed, in their order.

    Args:
        lines: with or without their line ends.
        spec: how they are read.
        at: when they were read, in seconds since 1970.

    Raises:
        InputError: the person's own pattern is none, or RE2 is not installed.
    """
    if spec.source == TERMINATION:
        return
    for line in lines:
        text = _ESCAPES.sub("", line[:LINE_MAX]).strip()
        if spec.regex:
            yield from _by_pattern(spec.regex, text, at)
        else:
            yield from _line(text, spec.step, at)


def termination(message: str, spec: MetricsSpec, at: float = 0.0) -> Iterator[Measure]:
    """The measures of a termination message: one JSON object, or lines as in the output."""
    if spec.source == STDOUT:
        return
    whole = _object(message.strip())
    if whole is not None:
        yield from _fields(whole, spec.step, at)
        return
    for line in message.splitlines():
        yield from _line(line[:LINE_MAX].strip(), spec.step, at)


class Collector:
    """Picks the objective from one attempt of a trial, line by line, and keeps few of many.

    Reading the same lines again gives the same measures with the same indices: that is how a
    runner that was killed knows which ones it has written down already.

    Args:
        metric: the objective's name.
        spec: how lines are read.
    """

    def __init__(self, metric: str, spec: MetricsSpec) -> None:
        self._metric = metric
        self._spec = spec
        self._count = 0
        self._held: tuple[int, Measure] | None = None
        self._others: dict[str, None] = {}

    @property
    def others(self) -> tuple[str, ...]:
        """The names of other metrics that were seen."""
        return tuple(self._others)

    def feed(self, line: str, at: float) -> list[tuple[int, Measure]]:
        """The measures of a line that are to be kept, each with its index in the attempt."""
        return [kept for found in parse([line], self._spec, at) for kept in self._take(found)]

    def finish(self, message: str, at: float) -> list[tuple[int, Measure]]:
        """What the termination message adds, and the last measure where it was not kept yet."""
        found = termination(message, self._spec, at)
        kept = [item for measure in found for item in self._take(measure)]
        if self._held is not None:
            kept.append(self._held)
            self._held = None
        return kept

    def _take(self, measure: Measure) -> Iterator[tuple[int, Measure]]:
        if self._metric not in (measure.name, ""):
            if len(self._others) < NAMES_MAX:
                self._others[measure.name] = None
            return
        if not self._metric:
            return
        index = self._count
        self._count += 1
        stride = 1 << max(0, (index // KEPT_MAX).bit_length() - 1)
        if index % stride:
            self._held = (index, measure)
        else:
            self._held = None
            yield index, measure


def _line(text: str, step: str, at: float) -> Iterator[Measure]:
    found = _object(text)
    if found is not None:
        yield from _fields(found, step, at)
        return
    if "=" not in text:
        return
    pairs = [(match[1], match[2]) for match in islice(_PAIR.finditer(text), MEASURES_MAX)]
    own = next((_step(value) for name, value in pairs if name == step), None)
    for name, value in pairs:
        if name != step:
            yield Measure(name, float(value), own, at)


def _by_pattern(regex: str, text: str, at: float) -> Iterator[Measure]:
    """Named groups are metrics; `value` is that of the metric that `name` names."""
    for groups in pattern.find(regex, text, MEASURES_MAX):
        step = _step(groups.pop("step", None))
        name = groups.pop("name", None)
        for key, value in groups.items():
            measured = _value(value)
            if measured is not None:
                yield Measure(name if key == "value" and name else key, measured, step, at)


def _object(text: str) -> dict[str, Any] | None:
    if not text.startswith("{") or not text.endswith("}"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _fields(found: dict[str, Any], step: str, at: float) -> Iterator[Measure]:
    own = _step(found.get(step))
    for name, given in islice(found.items(), MEASURES_MAX):
        value = None if name == step else _value(given)
        if value is not None:
            yield Measure(name, value, own, at)


def _value(given: Any) -> float | None:
    """A number, also one in quotes; None for anything else."""
    if isinstance(given, str) and _VALUE.fullmatch(given.strip()):
        return float(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        return float(given)
    except OverflowError:
        return math.inf if given > 0 else -math.inf


def _step(given: Any) -> int | None:
    value = _value(given)
    if value is None or not math.isfinite(value) or not value.is_integer():
        return None
    return int(value) if 0 <= value <= _STEP_MAX else None
