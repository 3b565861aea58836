"""From values to places on a picture: linear and logarithmic scales with ticks that read well."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Positive values that span more than this are shown on a logarithmic scale.
_LOG_SPAN = 1000.0
# Values so many times further from the best than the better three quarters lie past the edge.
_FAR = 3.0
# They are left there where the others would have less than this part of the picture without; more
# than a few of them only where it is as good as nothing.
_FLAT, _ALL_FLAT, _FEW = 0.1, 0.01, 0.1
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high`, which differ, as places from 0 to 1.

    Attributes:
        low: the value at 0.
        high: the value at 1.
        log: each order of magnitude takes the same room; `low` is above 0 then.
    """

    low: float
    high: float
    log: bool = False

    def at(self, value: float) -> float:
        """The place of a value; those past an end are at it."""
        low, high, value = (self._plain(each) for each in (self.low, self.high, value))
        return min(1.0, max(0.0, value / (high - low) - low / (high - low)))

    def holds(self, value: float) -> bool:
        """Whether a value lies within the scale."""
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> tuple[tuple[float, str], ...]:
        """Round values in the scale with their texts, at most about so many."""
        found = _log_ticks(self.low, self.high, most) if self.log else []
        if len(found) < 2:  # noqa: PLR2004 - one tick is no scale
            found = _linear_ticks(self.low, self.high, most)
        return tuple((value, short(value)) for value in found)

    def _plain(self, value: float) -> float:
        if not self.log:
            return value
        return math.log10(value) if value > 0 else -math.inf


def scale_of(values: Sequence[float], *, log: bool | None = None, margin: float = 0.0) -> Scale:
    """The scale that holds values.

    Args:
        values: finite ones; none make a scale from 0 to 1.
        log: whether to make it logarithmic; None decides by how far the values span.
        margin: room left at both ends, in parts of the scale.
    """
    if not values:
        return Scale(0.0, 1.0)
    low, high = float(min(values)), float(max(values))
    if log is None:
        log = low > 0 and high / low > _LOG_SPAN
    log = log and low > 0
    if low == high:
        room = abs(low) * 0.1 or 1.0
        return _widened(low, high, room)
    if log:
        room = (math.log10(high) - math.log10(low)) * margin
        ends = _power(math.log10(low) - room), _power(math.log10(high) + room)
        return Scale(min(low, ends[0]), max(high, ends[1]), log=True)
    return _widened(low, high, high * margin - low * margin)


def _widened(low: float, high: float, room: float) -> Scale:
    most = sys.float_info.max
    return Scale(max(-most, low - room), min(most, high + room))


def _power(exponent: float) -> float:
    """Ten to a power, within what a number can be."""
    return math.pow(10.0, min(max(exponent, -307.0), 308.0))


def objective_scale(
    values: Sequence[float], *, maximize: bool, keep: Sequence[float] = ()
) -> Scale:
    """The scale for objectives: the good values get the room, far worse ones end at the edge.

    Args:
        values: finite ones.
        maximize: whether more is better.
        keep: values that are within the scale in any case, as the goal.
    """
    whole = scale_of([*values, *keep], margin=0.05)
    if whole.log or not values:
        return whole
    ordered = sorted(values, reverse=maximize)
    best, usual = ordered[0], ordered[(len(ordered) * 3 - 1) // 4]
    edge = best + _FAR * (usual - best)
    worst = ordered[-1]
    if usual == best or (worst >= edge if maximize else worst <= edge):
        return whole
    near = [value for value in values if (value >= edge if maximize else value <= edge)]
    scale = scale_of([*near, *keep], log=False, margin=0.05)
    few = len(values) - len(near) <= max(1, _FEW * len(values))
    # Halves, as the whole may be wider than a number can be.
    room = (scale.high / 2 - scale.low / 2) / (whole.high / 2 - whole.low / 2)
    return scale if room < (_FLAT if few else _ALL_FLAT) else whole


def short(value: float) -> str:
    """A number in four digits, without those that say nothing."""
    text = f"{value:.4g}"
    mantissa, found, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if found else text


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    raw = high / most - low / most
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    if not power or math.isinf(raw):
        return [low, high]
    step = next(each * power for each in _STEPS if each * power >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    if last - first > 2 * most:  # the ends are too close for the digits of a float
        return [low, high]
    return [
        round(count * step, 12 - math.floor(math.log10(step))) for count in range(first, last + 1)
    ]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / most))
    found = [10.0**power for power in range(first, last + 1, stride)]
    if len(found) > 2:  # noqa: PLR2004 - enough of them
        return found
    return [
        factor * 10.0**power
        for power in range(first - 1, last + 1)
        for factor in (1, 2, 5)
        if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
    ]
