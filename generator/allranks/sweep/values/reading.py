"""Read the values of a sweep field by field, and collect all that is wrong with them.

A person should see every mistake at once, each at its path and line. So a reader here refuses a
field by writing the problem down and returning None, and the whole is refused at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from allranks.errors import PROBLEMS_MAX, InvalidValues, Problem
from allranks.schema import paths, suggest
from allranks.schema.paths import ValuesPath
from allranks.sweep.model import Choice
from allranks.yamlio import scalars
from allranks.yamlio.mistakes import kind

# The most digits, and places before or behind the point, that a number is taken with as typed.
_LONGEST = 400

# How a value was written, and where; both by its path from the root of the values.
TokenOf = Callable[[ValuesPath], str | None]
Where = Callable[[ValuesPath], str]


def _nothing(_path: ValuesPath) -> None:
    return None


def _nowhere(_path: ValuesPath) -> str:
    return ""


class Reading:
    """The problems found so far, and how to look closer at a value.

    Args:
        token: how a number or a boolean at a path was written; None where that is not known.
        where: ``file:line`` of a path; "" where it is not known.
    """

    def __init__(self, token: TokenOf = _nothing, where: Where = _nowhere) -> None:
        self._token = token
        self._where = where
        self.problems: list[Problem] = []

    def refuse(self, path: ValuesPath, message: str, hint: str = "") -> None:
        """Write a problem down."""
        # To look for the place costs time; a problem beyond those that are told is only counted.
        where = self._where(path) if len(self.problems) < 4 * PROBLEMS_MAX else ""
        self.problems.append(Problem(paths.show(path), message, hint, where))

    def done(self) -> None:
        """Raise all problems, if there are any.

        Raises:
            InvalidValues: there are.
        """
        if self.problems:
            raise InvalidValues(self.problems)

    def mapping(self, path: ValuesPath, value: Any, known: Iterable[str]) -> dict[str, Any] | None:
        """A mapping that has known keys only; null is an empty one."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(path, f"must be a mapping, not {kind(value)}", "write `key: value` lines")
            return None
        names = sorted(known)
        for key in value:
            if key not in names:
                near = suggest.nearest(str(key), names)
                hint = f"write {near}" if near else f"use one of {', '.join(names)}"
                self.refuse((*path, key), f"there is no {key!r} here", hint)
        return dict(value)

    def choice(self, path: ValuesPath, value: Any) -> Choice | None:
        """A value of a parameter: its text as it was typed, and its data."""
        if isinstance(value, str):
            if "\0" in value:
                self.refuse(path, "a value holds a NUL character", "no argument can hold one")
                return None
            return Choice(value, value)
        if not isinstance(value, bool | int | float):
            self.refuse(
                path,
                f"a value must be text, a number, or true or false, not {kind(value)}",
                'quote it: "null"' if value is None else "give it as text: '[1, 2]'",
            )
            return None
        if not math.isfinite(value):
            self.refuse(path, f"{value} is no number that can be tried", "give a finite one")
            return None
        token = self._token(path)
        if token is not None and _same(scalars.resolve(token), value):
            return Choice(token, value)
        return Choice(_plain(value), value)

    def decimal(self, path: ValuesPath, value: Any) -> Decimal | None:
        """A number, with exactly the digits that were typed."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            fix = "remove the quotes" if isinstance(value, str) else "give a number"
            self.refuse(path, f"must be a number, not {_short(value)}", fix)
            return None
        typed = self.choice(path, value)
        if typed is None:
            return None
        if isinstance(value, int):
            return Decimal(value)
        written = Decimal(typed.text.replace("_", ""))
        # A thousand zeros would cost more than they say: they are what a float makes of them.
        plain = len(typed.text) <= _LONGEST and abs(written.adjusted()) <= _LONGEST
        return written if plain and float(written) == value else Decimal(repr(value))

    def whole(self, path: ValuesPath, value: Any, least: int | None = None) -> int | None:
        """A whole number, at least so large; also one written as ``1e3``."""
        exact = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not exact:
            self.refuse(path, f"must be a whole number, not {_short(value)}", "such as 8")
            return None
        if least is not None and value < least:
            self.refuse(path, f"must be at least {least}, not {_short(value)}", f"write {least}")
            return None
        return int(value)

    def text(self, path: ValuesPath, value: Any, allowed: Iterable[str] = ()) -> str | None:
        """Text; null is the empty one. One of those allowed, where some are named."""
        if value is None:
            value = ""
        choices = list(allowed)
        if not isinstance(value, str):
            self.refuse(path, f"must be text, not {kind(value)}", "put it in quotes")
            return None
        if choices and value not in choices:
            near = suggest.nearest(value, choices)
            known = ", ".join(name for name in choices if name)
            hint = f"write {near}" if near else f"use one of {known}"
            self.refuse(path, f"{value!r} is none of {known}", hint)
            return None
        return value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def _plain(value: float) -> str:
    """The text of a number or a boolean whose token is not known, as JSON writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) else kind(value)
