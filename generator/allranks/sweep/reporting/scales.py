"""Linear and logarithmic scales, from values to positions in a picture, with readable ticks."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Positive values that span more than this are shown on a logarithmic scale.
_LOG_SPAN = 1000.0
# Values so many times further from the best than the better three quarters are outside of the
# scale.
_FAR = 3.0
# They stay outside if the others would otherwise have less than this part of the picture; more than
# a few of them only if that part is next to nothing.
_FLAT, _ALL_FLAT, _FEW = 0.1, 0.01, 0.1
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from values to positions from 0 to 1; `low` and `high` differ.

    Attributes:
        low: the value at 0.
        high: the value at 1.
        log: it is logarithmic; `low` is above 0 then.
    """

    low: float
    high: float
    log: bool = False

    def position(self, value: float) -> float:
        """Return the position of a value; values outside of the scale are at its ends."""
        low, high, value = (self._plain(number) for number in (self.low, self.high, value))
        return min(1.0, max(0.0, value / (high - low) - low / (high - low)))

    def holds(self, value: float) -> bool:
        """Whether a value lies within the scale."""
        return self.low <= value <= self.high

    def ticks(self, most: int = 6) -> tuple[tuple[float, str], ...]:
        """Return round values within the scale with their texts, about `most` at most."""
        values = _log_ticks(self.low, self.high, most) if self.log else []
        if len(values) < 2:  # noqa: PLR2004 - one tick is no scale
            values = _linear_ticks(self.low, self.high, most)
        return tuple((value, short(value)) for value in values)

    def _plain(self, value: float) -> float:
        if not self.log:
            return value
        return math.log10(value) if value > 0 else -math.inf


def scale_of(values: Sequence[float], *, log: bool | None = None, margin: float = 0.0) -> Scale:
    """Return a scale that contains values.

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
        return _widen(low, high, room)
    if log:
        room = (math.log10(high) - math.log10(low)) * margin
        ends = _power(math.log10(low) - room), _power(math.log10(high) + room)
        return Scale(min(low, ends[0]), max(high, ends[1]), log=True)
    return _widen(low, high, high * margin - low * margin)


def _widen(low: float, high: float, room: float) -> Scale:
    most = sys.float_info.max
    return Scale(max(-most, low - room), min(most, high + room))


def _power(exponent: float) -> float:
    """Return ten to a power, within the range of a float."""
    return math.pow(10.0, min(max(exponent, -307.0), 308.0))


def objective_scale(
    values: Sequence[float], *, maximize: bool, keep: Sequence[float] = ()
) -> Scale:
    """Return the scale for objectives, which may leave out values far worse than the others.

    Args:
        values: finite ones.
        maximize: whether more is better.
        keep: values that are within the scale in any case, such as the goal.
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
    # Halves, as the difference may be too large for a float.
    room = (scale.high / 2 - scale.low / 2) / (whole.high / 2 - whole.low / 2)
    return scale if room < (_FLAT if few else _ALL_FLAT) else whole


def short(value: float) -> str:
    """Return a number with four significant digits, without trailing zeros."""
    text = f"{value:.4g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    raw = high / most - low / most
    power = 10.0 ** math.floor(math.log10(raw)) if raw > 0 else 0.0
    if not power or math.isinf(raw):
        return [low, high]
    step = next(factor * power for factor in _STEPS if factor * power >= raw * (1 - 1e-9))
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
    powers = [10.0**power for power in range(first, last + 1, stride)]
    if len(powers) > 2:  # noqa: PLR2004 - enough of them
        return powers
    return [
        factor * 10.0**power
        for power in range(first - 1, last + 1)
        for factor in (1, 2, 5)
        if low * (1 - 1e-9) <= factor * 10.0**power <= high * (1 + 1e-9)
    ]
