"""The forms in which parameters are written: in values, and on the command line.

    lr: {values: [1e-5, 1e-4]}
    batchSize: {range: {min: 16, max: 256, step: 16}, env: BATCH}
    momentum: {uniform: {min: 0.5, max: 0.99}, arg: --momentum}
    --set-range lr=1e-5,1e-4 --set-range seed=1..10

Everything is checked here once, so that a space, once made, has values and every one can be tried.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
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
from allranks.sweep.values.reading import Reading
from allranks.yamlio import scalars

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Space

# A placeholder of this name is the trial's own name.
TRIAL = "trial"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,199}", re.ASCII)
# The name that a flag gives is a values path as well, which may lead into a list, `args[1]`, or to
# any key: `labels["my.org/team"]`, `labels.my\.org/team`.
_FLAG_NAME = re.compile(
    r'[A-Za-z_](?:[A-Za-z0-9_./-]|\\.|\[[0-9]{1,5}\]|\["(?:[^"\\\x00-\x1f]|\\.){1,99}"\]){0,199}',
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_FORMS = ("values", "range", "quantized", "uniform", "logUniform", "intUniform")
_REACHES = {"arg": ARG, "env": ENV, "path": PATH}
# `1..10` and `0.1..0.5..0.1`, as a shell writes a range, but with any decimals.
_DOTS = re.compile(r"([-+0-9.eE]+?)\.\.([-+0-9.eE]+?)(?:\.\.([-+0-9.eE]+))?", re.ASCII)


def parameters(reading: Reading, path: ValuesPath, section: Any) -> tuple[Parameter, ...]:
    """The parameters of a sweep, in the order typed; those that are refused are left out.

    Args:
        reading: takes the problems.
        path: where the section stands.
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
        found = _parameter(reading, (*path, name), name, form)
        if found is not None:
            out.append(found)
    return tuple(out)


def flag(text: str) -> Parameter:
    """The parameter of ``--set-range``: ``lr=1e-5,1e-4``, ``seed=1..10``, ``x=0.1..0.5..0.1``.

    Args:
        text: the flag's value; a backslash takes the next character as it is.

    Raises:
        InvalidValues: it names no parameter, or no values that can be tried.
        InputError: it is not of the form ``name=values``.
    """
    source = f"--set-range {text}"
    name, equals, written = text.partition("=")
    if not equals or not name:
        raise InputError(
            "--set-range takes name=values", hint="write lr=1e-5,1e-4 or seed=1..10", source=source
        )
    tokens: dict[ValuesPath, str] = {}
    reading = Reading(tokens.get, lambda _path: source)
    dots = _DOTS.fullmatch(written)
    form: dict[str, Any]
    if dots is not None:
        _check_ends(reading, name, dots)
        ends = {"min": dots[1], "max": dots[2], **({"step": dots[3]} if dots[3] else {})}
        form = {"range": {key: scalars.resolve(end) for key, end in ends.items()}}
        tokens.update({(name, "range", key): end for key, end in ends.items()})
    else:
        items = split(written)
        tokens.update({(name, "values", index): item for index, item in enumerate(items)})
        form = {"values": [_typed(item) for item in items]}
    found = _parameter(reading, (name,), name, form, _FLAG_NAME)
    reading.done()
    if found is None:
        raise InputError("--set-range names nothing that can be tried", source=source)
    return found


def _check_ends(reading: Reading, name: str, dots: re.Match[str]) -> None:
    """Refuse what is no range, in the words of the command line."""
    given = [end for end in dots.groups() if end]
    for end in given:
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
    if not dots[3] and not all(isinstance(scalars.resolve(end), int) for end in given):
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
    reading: Reading, path: ValuesPath, name: str, pattern: re.Pattern[str] = _NAME
) -> None:
    """Refuse what is no name of a parameter."""
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
    """Whether a name is one that an option of a program may have: no brackets, no quotes."""
    return _NAME.fullmatch(name) is not None


def _parameter(
    reading: Reading,
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
    given = reading.mapping(path, form, (*_FORMS, *_REACHES))
    if given is None:
        return None
    chosen = [key for key in _FORMS if key in given]
    if len(chosen) != 1:
        said = f"has {' and '.join(chosen)}" if chosen else "has no values"
        reading.refuse(path, said, f"give it one of {', '.join(_FORMS)}")
        return None
    space = _space(reading, (*path, chosen[0]), chosen[0], given[chosen[0]])
    reaches = _reaches(reading, path, given)
    if space is None or len(reading.problems) > before:
        return None
    return Parameter(name, space, reaches)


def _space(reading: Reading, path: ValuesPath, form: str, given: Any) -> Space | None:
    if form == "values":
        return _values(reading, path, given)
    with_step = form in ("range", "quantized")
    ends = reading.mapping(path, given, ("min", "max", "step") if with_step else ("min", "max"))
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


def _values(reading: Reading, path: ValuesPath, given: Any) -> Space | None:
    if not isinstance(given, list):
        reading.refuse(path, "must be a list", "write values: [1e-4, 1e-3]")
        return None
    if not given:
        reading.refuse(path, "the list is empty", "give it a value, or remove the parameter")
        return None
    found: dict[str, Choice] = {}
    for index, value in enumerate(given):
        choice = reading.choice((*path, index), value)
        if choice is None:
            continue
        if choice.text in found:
            reading.refuse((*path, index), f"{choice.text!r} is given twice", "keep one of the two")
        found[choice.text] = choice
    return Values(tuple(found.values())) if len(found) == len(given) else None


def _range(reading: Reading, path: ValuesPath, ends: Mapping[str, Any]) -> Space | None:
    low = reading.decimal((*path, "min"), ends["min"])
    high = reading.decimal((*path, "max"), ends["max"])
    step = None if low is None or high is None else _step(reading, path, ends)
    if low is None or high is None or step is None:
        return None
    if low > high:
        _crossed(reading, path, low, high)
        return None
    if (high - low) / step >= VALUES_MAX:
        reading.refuse(
            path, "there are more than 10^30 values", "take a larger step, or give the values"
        )
        return None
    return Range(low, high, step)


def _step(reading: Reading, path: ValuesPath, ends: Mapping[str, Any]) -> Decimal | None:
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
    reading: Reading, path: ValuesPath, form: str, ends: Mapping[str, Any]
) -> Space | None:
    found = [reading.decimal((*path, key), ends[key]) for key in ("min", "max")]
    if found[0] is None or found[1] is None:
        return None
    low, high = float(found[0]), float(found[1])
    if low > high:
        _crossed(reading, path, found[0], found[1])
        return None
    if form == "logUniform":
        if low <= 0:
            reading.refuse(
                (*path, "min"),
                f"a logarithmic range must be above 0, and {found[0]} is not",
                "start at a small number such as 1e-6, or use uniform",
            )
            return None
        return LogUniform(low, high)
    if not math.isfinite(high - low):
        reading.refuse(path, "the range is too wide for a number", "take nearer ends")
        return None
    return Uniform(low, high)


def _int_uniform(reading: Reading, path: ValuesPath, ends: Mapping[str, Any]) -> Space | None:
    low = reading.whole((*path, "min"), ends["min"])
    high = reading.whole((*path, "max"), ends["max"])
    if low is None or high is None:
        return None
    if low > high:
        _crossed(reading, path, low, high)
        return None
    return IntUniform(low, high)


def _crossed(reading: Reading, path: ValuesPath, low: object, high: object) -> None:
    reading.refuse(path, f"min is {low}, above max, which is {high}", "exchange the two")


def _reaches(reading: Reading, path: ValuesPath, given: Mapping[str, Any]) -> tuple[Reach, ...]:
    out = []
    for key, kind in _REACHES.items():
        if given.get(key) is None:
            continue
        listed = given[key] if isinstance(given[key], list) else [given[key]]
        for index, item in enumerate(listed):
            place = (*path, key, index) if isinstance(given[key], list) else (*path, key)
            to = reading.text(place, item)
            if to is not None and _reachable(reading, place, key, to):
                out.append(Reach(kind, to))
    return tuple(out)


def _reachable(reading: Reading, path: ValuesPath, key: str, to: str) -> bool:
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
    """The parts between commas; a backslash takes the next character as it is."""
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
    """What a value on the command line is to the search: what YAML would read, but no nothing."""
    if not text or text[0] not in scalars.HINTS:
        return text
    value = scalars.resolve(text)
    plain = isinstance(value, bool | int | float) and math.isfinite(value)
    return value if plain else text
