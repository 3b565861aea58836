"""The values of parameters, and their combinations, without a list of them.

A trial of a grid is an index into a product: the choice of each parameter is a digit of the index,
the last parameter's digit the lowest. So any trial is made from its number alone. Parameters are
ordered by name: Helm knows no other order of a mapping, and both ways of running a sweep agree.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING

from allranks.sweep.model import Choice, IntUniform, LogUniform, Range, Uniform, Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.sweep.model import Assignment, Parameter, Space


def is_enumerable(space: Space) -> bool:
    """Whether a grid can enumerate the values of a space."""
    return isinstance(space, Values | Range)


def size(space: Space) -> int | None:
    """Return how many values a space has; None if they cannot be counted."""
    match space:
        case Values(choices):
            return len(choices)
        case Range():
            low, high, step, _ = _scale(space)
            return (high - low) // step + 1
        case IntUniform(low, high):
            return high - low + 1
        case Uniform(lowest, highest) | LogUniform(lowest, highest):
            return 1 if lowest == highest else None


def choice(space: Space, place: int) -> Choice:
    """Return a value of a countable space by its index, from 0.

    Raises:
        IndexError: the space has no such value.
    """
    count = size(space)
    if count is None or not 0 <= place < count:
        raise IndexError(f"there is no value {place} in {space}")
    match space:
        case Values(choices):
            return choices[place]
        case Range():
            low, _, step, exponent = _scale(space)
            return _decimal(low + place * step, exponent)
        case IntUniform(lowest, _):
            return integer(lowest + place)
        case Uniform(lowest, _) | LogUniform(lowest, _):
            return number(lowest)


def index(space: Range, value: Choice) -> int:
    """Return the index of a choice in a range, from 0."""
    low, _, step, exponent = _scale(space)
    return (_units(Decimal(value.text), exponent) - low) // step


def choice_at(space: Space, fraction: float) -> Choice:
    """Return the value of a space at a fraction of its probability, from 0 to below 1."""
    count = size(space)
    if count is not None:
        # A float would lose the highest of many values; integers lose none.
        numerator, denominator = fraction.as_integer_ratio()
        return choice(space, min(count * numerator // denominator, count - 1))
    match space:
        case LogUniform(low, high):
            value = math.exp(math.log(low) + fraction * (math.log(high) - math.log(low)))
        case Uniform(low, high):
            value = low + fraction * (high - low)
        case _:
            raise TypeError(f"{space} has no values between its values")
    return number(min(max(value, low), high))


def grid_size(parameters: Sequence[Parameter]) -> int:
    """Return how many combinations there are of countable parameters.

    Raises:
        TypeError: a parameter cannot be counted.
    """
    total = combinations(parameters)
    if total is None:
        raise TypeError("a parameter has more values than can be counted")
    return total


def combinations(parameters: Sequence[Parameter]) -> int | None:
    """Return how many combinations there are; None if they cannot be counted."""
    total = 1
    for parameter in parameters:
        count = size(parameter.space)
        if count is None:
            return None
        total *= count
    return total


def assignment(parameters: Sequence[Parameter], place: int) -> Assignment:
    """Return the parameters of one trial of a grid; the last one by name changes fastest.

    Args:
        parameters: those of the sweep, all of them countable.
        place: the index of the trial, from 0.

    Raises:
        IndexError: the grid has no such trial.

    Returns:
        The choices, in the order of the parameters.
    """
    if not 0 <= place < grid_size(parameters):
        raise IndexError(f"the grid has no trial {place}")
    choices: dict[str, Choice] = {}
    for parameter in sorted(parameters, key=lambda item: item.name, reverse=True):
        count = size(parameter.space) or 1
        place, digit = divmod(place, count)
        choices[parameter.name] = choice(parameter.space, digit)
    return {parameter.name: choices[parameter.name] for parameter in parameters}


def integer(value: int) -> Choice:
    """Return the choice for a whole number that a search drew."""
    return Choice(str(value), value)


def number(value: float) -> Choice:
    """Return the choice for a number that a search drew, with the shortest text that reads back."""
    return Choice(repr(value), value)


def _scale(space: Range) -> tuple[int, int, int, int]:
    """Return minimum, maximum and step in units of a power of ten, and its exponent.

    The unit is the finer of those of minimum and step, of which all values are multiples. A finer
    maximum is rounded down, since no value lies between.
    """
    exponent = min(_exponent(space.minimum), _exponent(space.step), 0)
    low, step = (_units(value, exponent) for value in (space.minimum, space.step))
    return low, _units(space.maximum, exponent), step, exponent


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int):
        raise TypeError(f"{value} is no number")
    return exponent


def _units(value: Decimal, exponent: int) -> int:
    """Return a decimal in units of ten to the `exponent`, rounded down, in exact arithmetic."""
    sign, digits, own = value.as_tuple()
    if not isinstance(own, int):
        raise TypeError(f"{value} is no number")
    magnitude = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    shift = own - exponent
    scale = int(10 ** abs(shift))
    return magnitude * scale if shift >= 0 else magnitude // scale


def _decimal(units: int, exponent: int) -> Choice:
    if exponent >= 0:
        return integer(units * 10**exponent)
    digits = tuple(map(int, str(abs(units))))
    text = format(Decimal((1 if units < 0 else 0, digits, exponent)), "f")
    return Choice(text, float(text))
