"""Times that a person types: ``90``, ``30s``, ``10m``, ``1h30m``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_SHAPE = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_UNITS = (86_400, 3_600, 60, 1)


class Duration(click.ParamType[float]):
    """A length of time, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; a bare number is seconds."""
        if isinstance(value, (int, float)):
            return float(value)
        match = _SHAPE.fullmatch(str(value).strip())
        if match is None or not any(match.groups()):
            self.fail(f"{value!r} is not a length of time; write 90s, 10m or 1h30m", param, ctx)
        return sum(
            float(number) * unit
            for number, unit in zip(match.groups(), _UNITS, strict=True)
            if number
        )


def timeout_option(help_text: str, default: float | None = None) -> Callable[[F], F]:
    """Add --timeout.

    Args:
        help_text: what ends when the time is over.
        default: seconds; None is no limit.
    """
    return click.option(
        "--timeout",
        type=Duration(),
        default=default,
        metavar="TIME",
        help=f"{help_text} Such as 90s, 10m or 1h30m.",
    )
