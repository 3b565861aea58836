r"""Parse measures from the output of a trial: its termination message, and the lines it prints.

There are four forms; the first two can be replaced by the user's own pattern:

    accuracy=0.93 step=4              anywhere in a line, several to a line
    {"accuracy": 0.93, "step": 4}     a line, or a whole termination message
    allranks: progress {…}            the metrics of a progress that the trial reports
    epoch 4: acc 0.93                 with regex: 'epoch (?P<step>\d+): acc (?P<accuracy>\S+)'

A value may be infinite or NaN, if the trial reports it so. A step is a whole number from 0;
anything else counts as no step.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from allranks import names
from allranks.errors import InputError, MissingToolError
from allranks.sweep.model import STDOUT, TERMINATION, Measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from allranks.sweep.model import MetricsSpec


# Only so many characters of a line are parsed: a progress bar may print megabytes without a line
# end.
LINE_MAX = 4096
# The most measures of one line; no person reads more.
MEASURES_MAX = 64
# How many names of other metrics are remembered, for the message that the objective is missing.
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
    """Yield the measures of lines that a trial printed, in their order.

    Args:
        lines: with or without their line ends.
        spec: how to parse them.
        at: when they were read, in seconds since 1970.

    Raises:
        InputError: the user's pattern is not valid, or RE2 is not installed.
    """
    if spec.source == TERMINATION:
        return
    for line in lines:
        text = _ESCAPES.sub("", line[:LINE_MAX]).strip()
        if names.PROGRESS_LINE in text:
            yield from _progress(text.partition(names.PROGRESS_LINE)[2], at)
        elif spec.regex:
            yield from _match_measures(spec.regex, text, at)
        else:
            yield from _line(text, spec.step, at)


def termination(message: str, spec: MetricsSpec, at: float = 0.0) -> Iterator[Measure]:
    """Yield the measures of a termination message: one JSON object, or lines.

    The lines have the first two forms: the user's own pattern is for printed lines only.
    """
    if spec.source == STDOUT:
        return
    whole = _object(message.strip())
    if whole is not None:
        yield from _fields(whole, spec.step, at)
        return
    for line in message.splitlines():
        yield from _line(line[:LINE_MAX].strip(), spec.step, at)


class ObjectiveExtractor:
    """Picks the objective from the lines of one attempt of a trial, and thins out long series.

    Parsing the same lines again gives the same measures with the same indices, so that the
    successor of a killed runner can tell which ones are in the journal already.

    Args:
        metric: the objective's name.
        spec: how to parse lines.
    """

    def __init__(self, metric: str, spec: MetricsSpec) -> None:
        self._metric = metric
        self._spec = spec
        self._count = 0
        self._held: tuple[int, Measure] | None = None
        self._others: dict[str, None] = {}

    @property
    def other_metrics(self) -> tuple[str, ...]:
        """The names of other metrics in the output."""
        return tuple(self._others)

    def feed(self, line: str, at: float) -> list[tuple[int, Measure]]:
        """Return the measures of a line to record, each with its index in the attempt."""
        return [item for measure in parse([line], self._spec, at) for item in self._take(measure)]

    def finish(self, message: str, at: float) -> list[tuple[int, Measure]]:
        """Return the measures of the termination message, and the last one if it was skipped."""
        measures = termination(message, self._spec, at)
        items = [item for measure in measures for item in self._take(measure)]
        if self._held is not None:
            items.append(self._held)
            self._held = None
        return items

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
    fields = _object(text)
    if fields is not None:
        yield from _fields(fields, step, at)
        return
    if "=" not in text:
        return
    pairs = [(match[1], match[2]) for match in islice(_PAIR.finditer(text), MEASURES_MAX)]
    own = next((_step(value) for name, value in pairs if name == step), None)
    for name, value in pairs:
        if name != step:
            yield Measure(name, float(value), own, at)


def _progress(text: str, at: float) -> Iterator[Measure]:
    """Yield the metrics of a line of progress, which a launcher has written."""
    fields = _object(text) or {}
    metrics = fields.get("metrics")
    if isinstance(metrics, dict):
        own = _step(fields.get("step"))
        for name, content in islice(metrics.items(), MEASURES_MAX):
            value = _value(content)
            if value is not None:
                yield Measure(name, value, own, at)


def _match_measures(regex: str, text: str, at: float) -> Iterator[Measure]:
    """Yield the measures of named groups; the group `value` belongs to the metric in `name`."""
    for groups in find(regex, text, MEASURES_MAX):
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
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _fields(fields: dict[str, Any], step: str, at: float) -> Iterator[Measure]:
    own = _step(fields.get(step))
    for name, content in islice(fields.items(), MEASURES_MAX):
        value = None if name == step else _value(content)
        if value is not None:
            yield Measure(name, value, own, at)


def _value(content: Any) -> float | None:
    """Return a number, also of one in quotes; None for anything else."""
    if isinstance(content, str) and _VALUE.fullmatch(content.strip()):
        return float(content)
    if isinstance(content, bool) or not isinstance(content, int | float):
        return None
    try:
        return float(content)
    except OverflowError:
        return math.inf if content > 0 else -math.inf


def _step(content: Any) -> int | None:
    value = _value(content)
    if value is None or not math.isfinite(value) or not value.is_integer():
        return None
    return int(value) if 0 <= value <= _STEP_MAX else None


EXAMPLE = r"such as 'epoch (?P<step>\d+) acc (?P<accuracy>[0-9.]+)'"

# The largest size of a compiled pattern, which bounds the time per line; common ones have some
# tens.
STEPS_MAX = 10_000
_PATH = "sweep.metrics.regex"
# Constructs that RE2 lacks: a pattern for the text of its error, their name, and what to write
# instead.
_ALONE = "match what is around it as well: the value is what the named group holds"
_GROUPS = "write the group's own pattern once more"
_UNSUPPORTED = (
    (r"\(\?<?[=!]", "lookahead or lookbehind", _ALONE),
    (r"\(\?P=|\\[1-9]", "back-references", _GROUPS),
    (r"\(\?\(", "conditions", "write both, as (?:one|other)"),
    (r"\(\?#", "comments", "leave it out"),
    (r"\(\?>", "atomic groups, nor needs them", "write (?:…)"),
    (r".*[*+?}]\+", "possessive repetitions, nor needs them", "leave out the last +"),
    (r"\\Z", r"\Z", r"write $ or \z"),
    (r"\\[uUN]", "characters by such a name", r"write the character itself, or \x{20AC}"),
    (r"\(\?[aiLmsux]+", "flags but i, m, s and U", "leave out others; (?i) ignores case"),
)
# How RE2's errors about constructs that it lacks begin.
_UNKNOWN = ("invalid perl operator", "invalid escape sequence", "bad repetition operator")
# The parts of a valid pattern that matter here: named groups, \C, and text that hides either.
_PARTS = re.compile(
    r"(?s:\\Q.*?(?:\\E|\Z))|(?P<byte>\\C)|(?s:\\.)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\(\?P?<(?P<name>\w+)>"
)


class Match(Protocol):
    """The part of `re2.Match` that is used here."""

    def groupdict(self) -> Mapping[str, str | None]:
        """Return the text of each named group; None for a group that is not in the match."""


class CompiledPattern(Protocol):
    """The part of a compiled RE2 pattern that is used here."""

    def finditer(self, text: str) -> Iterable[Match]:
        """Return the matches in a text, in order."""

    @property
    def groupindex(self) -> Mapping[str, int]:
        """The named groups."""

    @property
    def programsize(self) -> int:
        """The number of instructions that it was compiled to."""


def find(text: str, line: str, most: int) -> list[dict[str, str | None]]:
    """Return the named groups of the first matches in a line.

    Args:
        text: the pattern.
        line: the line; a character that cannot be encoded counts as a question mark.
        most: how many matches at most.

    Raises:
        InputError: as `load`.
    """
    clean = line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")
    return [dict(match.groupdict()) for match in islice(load(text).finditer(clean), most)]


@lru_cache(maxsize=8)
def load(text: str) -> CompiledPattern:
    """Compile a pattern.

    Raises:
        InputError: it is not valid, or uses what RE2 does not support, which the message names.
        MissingToolError: RE2 is not installed.
    """
    try:
        import re2
    except ModuleNotFoundError as error:
        if error.name != "re2":
            raise
        raise MissingToolError(
            "a pattern of one's own needs google-re2, which is not installed",
            path=_PATH,
            hint="pip install 'allranks[regex]', or have trials print accuracy=0.93",
        ) from error
    options = re2.Options()
    options.log_errors = False  # to stderr, past us
    try:
        pattern: CompiledPattern = re2.compile(text, options)
    except UnicodeEncodeError as error:
        raise InputError("holds what is no character", path=_PATH, hint=EXAMPLE) from error
    except re2.error as error:
        raise _refusal(text, error) from None
    _check_parts(text)
    if pattern.programsize > STEPS_MAX:
        raise _too_large(f"it compiles to {pattern.programsize:,} steps, {STEPS_MAX:,} are allowed")
    return pattern


def _refusal(text: str, error: Exception) -> InputError:
    """Return the error for a pattern that RE2 refuses, in words of our own."""
    cause = error.args[0] if error.args else ""
    message = cause.decode("utf-8", "replace") if isinstance(cause, bytes) else str(cause)
    if "too large" in message:
        return _too_large("it repeats too much")
    near = message.partition(": ")[2]
    if near == "(?P" and "(?P=" in text:
        near = "(?P="
    for form, feature, instead in _UNSUPPORTED:
        if message.startswith(_UNKNOWN) and re.fullmatch(form, near):
            return InputError(
                f"has {near}, and RE2, which reads it, knows no {feature}", path=_PATH, hint=instead
            )
    return InputError(f"is no regular expression: {message}", path=_PATH, hint=EXAMPLE)


def _check_parts(text: str) -> None:
    r"""Refuse two groups of one name, and ``\C``: RE2 accepts both, and would lose text."""
    groups = set()
    for part in _PARTS.finditer(text):
        if part["byte"]:
            raise InputError(r"\C is half a character", path=_PATH, hint="write . for a whole one")
        name = part["name"]
        if name and name in groups:
            raise InputError(
                f"has two groups named {name}, and one would be lost",
                path=_PATH,
                hint=f"write the two as one group, (?P<{name}>one|other)",
            )
        groups.add(name)


def _too_large(reason: str) -> InputError:
    return InputError(
        f"is too large: {reason}", path=_PATH, hint=r"repeat less, and less of such as \pL"
    )
