"""The forms in which parameters are written: in values, and on the command line.

    lr: {values: [1e-5, 1e-4]}
    batchSize: {range: {min: 16, max: 256, step: 16}, env: BATCH}
    momentum: {uniform: {min: 0.5, max: 0.99}, arg: --momentum}
    --set-range lr=1e-5,1e-4 --set-range seed=1..10

Everything is checked here once, so that every value of a space can be tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from allranks.errors import PROBLEMS_MAX, InputError, InvalidValues, Problem
from allranks.schema import paths, suggestions
from allranks.schema.paths import ValuesPath
from allranks.sweep.model import (
    ARG,
    ENV,
    PATH,
    VALUES_MAX,
    Choice,
    IntUniform,
    LogUniform,
    Parameter,
    Range,
    Reach,
    Uniform,
    Values,
)
from allranks.yamlio import scalars
from allranks.yamlio.mistakes import kind

if TYPE_CHECKING:
    from allranks.sweep.model import Space


# The placeholder for the trial's own name.
TRIAL = "trial"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}", re.ASCII)
# The name in a flag may be a values path, which may lead into a list, `args[1]`, or to any key:
# `labels["my.org/team"]`, `labels.my\.org/team`.
_FLAG_NAME = re.compile(
    r'[A-Za-z_](?:[A-Za-z0-9_./-]|\\.|\[[0-9]{1,5}\]|\["(?:[^"\\\x00-\x1f]|\\.){1,99}"\]){0,199}',
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_FORMS = ("values", "range", "quantized", "uniform", "logUniform", "intUniform")
_REACHES = {"arg": ARG, "env": ENV, "path": PATH}
# `1..10` and `0.1..0.5..0.1`, as a shell writes a range, but with any decimals.
_DOTS = re.compile(r"([-+0-9.eE]+?)\.\.([-+0-9.eE]+?)(?:\.\.([-+0-9.eE]+))?", re.ASCII)


def parameters(reading: ParameterReader, path: ValuesPath, section: Any) -> tuple[Parameter, ...]:
    """Parse the parameters of a sweep, in the order typed; invalid ones are left out.

    Args:
        reading: collects the problems.
        path: the path of the section.
        section: ``name: form`` for each.
    """
    if not isinstance(section, dict) or not section:
        reading.refuse(
            path,
            "a sweep needs parameters",
            "name what differs between trials, such as `lr: {values: [1e-4, 1e-3]}`",
        )
        return ()
    out = []
    for name, form in section.items():
        parameter = _parameter(reading, (*path, name), name, form)
        if parameter is not None:
            out.append(parameter)
    return tuple(out)


def flag(text: str) -> Parameter:
    """Parse the text of ``--set-range``: ``lr=1e-5,1e-4``, ``seed=1..10``, ``x=0.1..0.5..0.1``.

    Args:
        text: the flag's value; a backslash takes the next character as it is.

    Raises:
        InvalidValues: its name or its values are not valid.
        InputError: it is not of the form ``name=values``.
    """
    source = f"--set-range {text}"
    name, equals, content = text.partition("=")
    if not equals or not name:
        raise InputError(
            "--set-range takes name=values", hint="write lr=1e-5,1e-4 or seed=1..10", source=source
        )
    tokens: dict[ValuesPath, str] = {}
    reading = ParameterReader(tokens.get, lambda _path: source)
    dots = _DOTS.fullmatch(content)
    form: dict[str, Any]
    if dots is not None:
        _check_ends(reading, name, dots)
        ends = {"min": dots[1], "max": dots[2], **({"step": dots[3]} if dots[3] else {})}
        form = {"range": {key: scalars.resolve(end) for key, end in ends.items()}}
        tokens.update({(name, "range", key): end for key, end in ends.items()})
    else:
        items = split(content)
        tokens.update({(name, "values", index): item for index, item in enumerate(items)})
        form = {"values": [_typed(item) for item in items]}
    parameter = _parameter(reading, (name,), name, form, _FLAG_NAME)
    reading.done()
    if parameter is None:
        raise InputError("--set-range names nothing that can be tried", source=source)
    return parameter


def _check_ends(reading: ParameterReader, name: str, dots: re.Match[str]) -> None:
    """Refuse an invalid range, in the words of the command line."""
    ends = [end for end in dots.groups() if end]
    for end in ends:
        if isinstance(scalars.resolve(end), int | float):
            continue
        if _overflows(end):
            reading.refuse(
                (name, "range"), f"{end} is more than a number can be", "take an end within 1e308"
            )
        else:
            text = dots[0].replace("..", r"\..", 1)
            reading.refuse(
                (name, "range"),
                f"{end} is no number, and a range has two",
                f"write 1..10 or 0.1..0.5..0.1; where it is text, {name}={text}",
            )
    reading.done()
    if not dots[3] and not all(isinstance(scalars.resolve(end), int) for end in ends):
        reading.refuse(
            (name, "range"),
            "step is missing",
            f"write how far apart the values are behind the ends: {name}={dots[0]}..STEP",
        )
    reading.done()


def _overflows(text: str) -> bool:
    try:
        return math.isinf(float(text))
    except ValueError:
        return False


def check_name(
    reading: ParameterReader, path: ValuesPath, name: str, pattern: re.Pattern[str] = _NAME
) -> None:
    """Refuse an invalid name of a parameter."""
    if not pattern.fullmatch(name):
        quoted = ', or a values path such as labels["my.org/team"]' if pattern is _FLAG_NAME else ""
        reading.refuse(
            path,
            f"{name!r} is no name of a parameter",
            f"use letters, digits, _, - and points{quoted}",
        )
    if name == TRIAL:
        reading.refuse(path, f"{name!r} is the trial's own name", "give it another name")


def is_plain(name: str) -> bool:
    """Whether an option of a program may have this name: no brackets, no quotes."""
    return _NAME.fullmatch(name) is not None


def _parameter(
    reading: ParameterReader,
    path: ValuesPath,
    name: str,
    form: Any,
    pattern: re.Pattern[str] = _NAME,
) -> Parameter | None:
    before = len(reading.problems)
    check_name(reading, path, name, pattern)
    if isinstance(form, list):
        reading.refuse(path, "must be a mapping, not a list", f"write {name}: {{values: [...]}}")
        return None
    fields = reading.mapping(path, form, (*_FORMS, *_REACHES))
    if fields is None:
        return None
    forms = [key for key in _FORMS if key in fields]
    if len(forms) != 1:
        message = f"has {' and '.join(forms)}" if forms else "has no values"
        reading.refuse(path, message, f"give it one of {', '.join(_FORMS)}")
        return None
    space = _space(reading, (*path, forms[0]), forms[0], fields[forms[0]])
    reaches = _reaches(reading, path, fields)
    if space is None or len(reading.problems) > before:
        return None
    return Parameter(name, space, reaches)


def _space(reading: ParameterReader, path: ValuesPath, form: str, content: Any) -> Space | None:
    if form == "values":
        return _values(reading, path, content)
    with_step = form in ("range", "quantized")
    ends = reading.mapping(path, content, ("min", "max", "step") if with_step else ("min", "max"))
    if ends is None:
        return None
    missing = [key for key in ("min", "max") if ends.get(key) is None]
    for key in missing:
        reading.refuse(path, f"{key} is missing", f"write {form}: {{min: …, max: …}}")
    if missing:
        return None
    if with_step:
        return _range(reading, path, ends)
    if form == "intUniform":
        return _int_uniform(reading, path, ends)
    return _uniform(reading, path, form, ends)


def _values(reading: ParameterReader, path: ValuesPath, content: Any) -> Space | None:
    if not isinstance(content, list):
        reading.refuse(path, "must be a list", "write values: [1e-4, 1e-3]")
        return None
    if not content:
        reading.refuse(path, "the list is empty", "give it a value, or remove the parameter")
        return None
    choices: dict[str, Choice] = {}
    numbers: dict[Any, Choice] = {}
    for index, value in enumerate(content):
        choice = reading.choice((*path, index), value)
        if choice is None:
            continue
        number = choice.data if type(choice.data) in {int, float} else None
        twin = numbers.setdefault(number, choice) if number is not None else choice
        if choice.text in choices:
            reading.refuse((*path, index), f"{choice.text!r} is given twice", "keep one of the two")
        elif twin is not choice:  # Helm has one kind of number, and writes both alike
            reading.refuse(
                (*path, index),
                f"{choice} is the same number as {twin}",
                f'keep one of the two, or quote both: "{twin}", "{choice}"',
            )
        choices[choice.text] = choice
    return Values(tuple(choices.values())) if len(choices) == len(content) else None


def _range(reading: ParameterReader, path: ValuesPath, ends: Mapping[str, Any]) -> Space | None:
    low = reading.decimal((*path, "min"), ends["min"])
    high = reading.decimal((*path, "max"), ends["max"])
    step = None if low is None or high is None else _step(reading, path, ends)
    if low is None or high is None or step is None:
        return None
    if low > high:
        _refuse_crossed(reading, path, low, high)
        return None
    if (high - low) / step >= VALUES_MAX:
        reading.refuse(
            path, "there are more than 10^30 values", "take a larger step, or give the values"
        )
        return None
    return Range(low, high, step)


def _step(reading: ParameterReader, path: ValuesPath, ends: Mapping[str, Any]) -> Decimal | None:
    if ends.get("step") is None and not all(
        float(ends[key]).is_integer() for key in ("min", "max")
    ):
        reading.refuse(path, "step is missing", "write how far apart the values are: step: 0.1")
        return None
    step = reading.decimal((*path, "step"), 1 if ends.get("step") is None else ends["step"])
    if step is not None and step <= 0:
        reading.refuse((*path, "step"), f"must be above 0, not {step}", "write a step above 0")
        return None
    return step


def _uniform(
    reading: ParameterReader, path: ValuesPath, form: str, ends: Mapping[str, Any]
) -> Space | None:
    decimals = [reading.decimal((*path, key), ends[key]) for key in ("min", "max")]
    if decimals[0] is None or decimals[1] is None:
        return None
    low, high = float(decimals[0]), float(decimals[1])
    if low > high:
        _refuse_crossed(reading, path, decimals[0], decimals[1])
        return None
    if form == "logUniform":
        if low <= 0:
            reading.refuse(
                (*path, "min"),
                f"a logarithmic range must be above 0, and {decimals[0]} is not",
                "start at a small number such as 1e-6, or use uniform",
            )
            return None
        return LogUniform(low, high)
    if not math.isfinite(high - low):
        reading.refuse(path, "the range is too wide for a number", "take nearer ends")
        return None
    return Uniform(low, high)


def _int_uniform(
    reading: ParameterReader, path: ValuesPath, ends: Mapping[str, Any]
) -> Space | None:
    low = reading.integer((*path, "min"), ends["min"])
    high = reading.integer((*path, "max"), ends["max"])
    if low is None or high is None:
        return None
    if low > high:
        _refuse_crossed(reading, path, low, high)
        return None
    return IntUniform(low, high)


def _refuse_crossed(reading: ParameterReader, path: ValuesPath, low: object, high: object) -> None:
    reading.refuse(path, f"min is {low}, above max, which is {high}", "exchange the two")


def _reaches(
    reading: ParameterReader, path: ValuesPath, fields: Mapping[str, Any]
) -> tuple[Reach, ...]:
    out = []
    for key, reach in _REACHES.items():
        if fields.get(key) is None:
            continue
        items = fields[key] if isinstance(fields[key], list) else [fields[key]]
        for index, item in enumerate(items):
            place = (*path, key, index) if isinstance(fields[key], list) else (*path, key)
            to = reading.text(place, item)
            if to is not None and _reachable(reading, place, key, to):
                out.append(Reach(reach, to))
    return tuple(out)


def _reachable(reading: ParameterReader, path: ValuesPath, key: str, to: str) -> bool:
    problem = ""
    if not to or "\0" in to:
        problem = "is empty" if not to else "holds a NUL character"
    elif key == "env" and not _VARIABLE.fullmatch(to):
        problem = f"{to!r} is no name of a variable"
    if problem:
        example = {"arg": "--lr", "env": "LR", "path": "torchrun.port"}[key]
        reading.refuse(path, problem, f"write {key}: {example}")
    return not problem


def split(text: str) -> list[str]:
    """Return the parts between commas; a backslash takes the next character as it is."""
    parts = [""]
    characters = iter(text)
    for character in characters:
        if character == "\\":
            parts[-1] += next(characters, "")
        elif character == ",":
            parts.append("")
        else:
            parts[-1] += character
    return parts if text else []


def _typed(text: str) -> Any:
    """Return the data of a value on the command line: as YAML reads it, but null is text."""
    if not text or text[0] not in scalars.HINTS:
        return text
    value = scalars.resolve(text)
    plain = isinstance(value, bool | int | float) and math.isfinite(value)
    return value if plain else text


# A number with more digits, or more places before or after the point, is not kept as typed.
_LONGEST = 400

# Return how a value was written, and where, by its path from the root of the values.
TokenOf = Callable[[ValuesPath], str | None]
Where = Callable[[ValuesPath], str]


def _nothing(_path: ValuesPath) -> None:
    return None


def _nowhere(_path: ValuesPath) -> str:
    return ""


class ParameterReader:
    """Converts values, and collects the problems.

    Args:
        token: returns how a number or a boolean at a path was written; None if that is unknown.
        where: returns ``file:line`` of a path; "" if it is unknown.
    """

    def __init__(self, token: TokenOf = _nothing, where: Where = _nowhere) -> None:
        self._token = token
        self._where = where
        self.problems: list[Problem] = []

    def refuse(self, path: ValuesPath, message: str, hint: str = "") -> None:
        """Add a problem."""
        # Finding the line costs time; problems beyond those that are shown are only counted.
        where = self._where(path) if len(self.problems) < 4 * PROBLEMS_MAX else ""
        self.problems.append(Problem(paths.show(path), message, hint, where))

    def done(self) -> None:
        """Raise all problems, if there are any.

        Raises:
            InvalidValues: there are some.
        """
        if self.problems:
            raise InvalidValues(self.problems)

    def mapping(
        self, path: ValuesPath, value: Any, allowed: Iterable[str]
    ) -> dict[str, Any] | None:
        """Return a mapping with allowed keys only; an empty one for null, None for no mapping."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.refuse(path, f"must be a mapping, not {kind(value)}", "write `key: value` lines")
            return None
        names = sorted(allowed)
        for key in value:
            if key not in names:
                near = suggestions.nearest(str(key), names)
                hint = f"write {near}" if near else f"use one of {', '.join(names)}"
                self.refuse((*path, key), f"there is no {key!r} here", hint)
        return dict(value)

    def choice(self, path: ValuesPath, value: Any) -> Choice | None:
        """Return a value of a parameter: its text as it was typed, and its data."""
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
        """Return a number with exactly the digits that were typed."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            fix = "remove the quotes" if isinstance(value, str) else "give a number"
            self.refuse(path, f"must be a number, not {_short(value)}", fix)
            return None
        choice = self.choice(path, value)
        if choice is None:
            return None
        if isinstance(value, int):
            return Decimal(value)
        exact = Decimal(choice.text.replace("_", ""))
        # A number with a thousand zeros is read as a float.
        plain = len(choice.text) <= _LONGEST and abs(exact.adjusted()) <= _LONGEST
        return exact if plain and float(exact) == value else Decimal(repr(value))

    def integer(self, path: ValuesPath, value: Any, least: int | None = None) -> int | None:
        """Return a whole number of at least `least`; also one written as ``1e3``."""
        exact = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not exact:
            self.refuse(path, f"must be a whole number, not {_short(value)}", "such as 8")
            return None
        if least is not None and value < least:
            self.refuse(path, f"must be at least {least}, not {_short(value)}", f"write {least}")
            return None
        return int(value)

    def text(self, path: ValuesPath, value: Any, allowed: Iterable[str] = ()) -> str | None:
        """Return text, one of `allowed` if there are any; "" for null."""
        if value is None:
            value = ""
        choices = list(allowed)
        if not isinstance(value, str):
            self.refuse(path, f"must be text, not {kind(value)}", "put it in quotes")
            return None
        if choices and value not in choices:
            near = suggestions.nearest(value, choices)
            choices_text = ", ".join(name for name in choices if name)
            hint = f"write {near}" if near else f"use one of {choices_text}"
            self.refuse(path, f"{value!r} is none of {choices_text}", hint)
            return None
        return value


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


def _plain(value: float) -> str:
    """Return the text of a number or a boolean as JSON writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) else kind(value)
