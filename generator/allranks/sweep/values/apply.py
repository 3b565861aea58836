"""How parameters get into a trial's values, and that each one gets there.

A parameter that nothing reads makes a sweep of equal trials, and costs days before somebody sees
it. So `bind` settles once, against the chart's own values, where each parameter goes; a parameter
that goes nowhere, a path that the chart does not have and a placeholder that names nothing are
refused. `trial_values` then makes the values of any trial.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import PROBLEMS_MAX
from allranks.schema import paths, suggest
from allranks.sweep import naming
from allranks.sweep.model import (
    ARG,
    ENV,
    OVERLAY,
    PATH,
    PLACEHOLDER,
    Parameter,
    Reach,
    SweepSpec,
)
from allranks.sweep.values import over, places
from allranks.sweep.values.forms import TRIAL, is_plain
from allranks.sweep.values.reading import Reading
from allranks.values.merge import copy, merge, overlay
from allranks.yamlio.load import MAX_EXACT_INT
from allranks.yamlio.mistakes import kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Assignment, Choice
    from allranks.sweep.values.reading import Where

_HOLDER = re.compile(r"\$\{sweep\.([^}]*)\}")
_VALUES: ValuesPath = ("sweep", "trial", "values")
# What charts/sweep takes for a number, and for a boolean, at a place that has one.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})([.][0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_FLAG = re.compile(r"true|false")
_MANY = 5  # parameters that a message lists


@dataclass(frozen=True, slots=True)
class Bound:
    """A sweep whose parameters all reach their trials.

    Attributes:
        spec: the sweep; every parameter has the ways in which it reaches a trial.
        notes: what was decided for the person, as sentences.
    """

    spec: SweepSpec
    notes: tuple[str, ...] = ()


def bind(
    spec: SweepSpec,
    defaults: Mapping[str, Any],
    shorthand: Collection[str] = (),
    where: Where | None = None,
    written: Callable[[ValuesPath], ValuesPath] = lambda path: (*_VALUES, *path),
) -> Bound:
    """Settle where each parameter goes.

    Args:
        spec: the sweep; the values of its trial are complete.
        defaults: the values of the trial's chart.
        shorthand: parameters given as ``--set-range``: one that is no values path is an option of
            the command.
        where: ``file:line`` of a path.
        written: the path, from the root, of a path of the trial's values.

    Raises:
        InvalidValues: something reaches nothing; every problem is in it.
    """
    reading = Reading(where=where or (lambda _path: ""))
    held = _placeholders(reading, spec, written)
    base = merge(defaults, spec.trial.values)
    notes: list[str] = []
    bound: list[Parameter] = []
    for parameter in spec.parameters:
        explicit = tuple(reach for reach in parameter.reaches if reach.kind != PLACEHOLDER)
        reaches = (*explicit, *held.get(parameter.name, ()))
        if not reaches:
            reaches = _implicit(parameter.name, defaults, base, shorthand, notes)
        if not reaches:
            _refuse_lost(reading, parameter.name, base, shorthand)
        for reach in reaches:
            _check(reading, parameter, reach, defaults, base)
        bound.append(replace(parameter, reaches=reaches))
    _check_meetings(reading, bound)
    reading.done()
    return Bound(replace(spec, parameters=tuple(bound)), tuple(notes))


def trial_values(
    spec: SweepSpec, assignment: Assignment, defaults: Mapping[str, Any], name: str = ""
) -> dict[str, Any]:
    """The values of one trial, for its chart: those of all trials, with its parameters in them.

    Args:
        spec: a sweep of `bind`.
        assignment: the trial's parameters.
        defaults: the values of the trial's chart; they decide what is text and what a number.
        name: the trial's name; "" for the one that follows from its parameters.
    """
    shared = spec.trial.values
    for parameter in spec.parameters:
        if parameter.overlays:
            shared = overlay(shared, parameter.overlays[assignment[parameter.name].text])
    base = merge(defaults, shared)
    texts = {key: choice.text for key, choice in assignment.items()}
    texts[TRIAL] = name or naming.trial_name(spec.name, assignment)
    out: dict[str, Any] = _filled(copy(dict(shared)), texts, assignment, defaults, ())
    words: list[str] = []
    for parameter in spec.parameters:
        choice = assignment[parameter.name]
        for reach in parameter.reaches:
            if reach.kind == ARG:
                words += (
                    [reach.to + choice.text] if reach.to[-1] == "=" else [reach.to, choice.text]
                )
            elif reach.kind == ENV:
                _put_env(out, base, reach.to, choice.text)
            elif reach.kind == PATH:
                path = places.parse(reach.to)
                places.put(out, path, fitted(choice, places.get(base, path)), base)
    if words:
        before = out["args"] if isinstance(out.get("args"), list) else copy(base.get("args") or [])
        out["args"] = [*before, *words]
    return out


def fitted(choice: Choice, default: Any) -> Any:
    """A value for a place: a number or a boolean where the chart has one there, else the text.

    Text is what arrives as typed; a number is what a schema asks for where the default is one.
    """
    data = choice.data
    if isinstance(data, str):
        return _read_as(data, default)
    if isinstance(default, bool) and isinstance(data, bool):
        return data
    number = isinstance(default, int | float) and not isinstance(default, bool)
    if number and not isinstance(data, bool):
        # Helm would read it as another number.
        lossy = isinstance(data, int) and abs(data) > MAX_EXACT_INT
        return choice.text if lossy else data
    return choice.text


def _read_as(text: str, default: Any) -> Any:
    """A quoted choice at the place of a number or a boolean, as charts/sweep reads it there."""
    form = _FLAG if isinstance(default, bool) else _NUMBER
    if isinstance(default, bool | int | float) and form.fullmatch(text):
        data = json.loads(text)
        lossy = isinstance(data, int) and abs(data) > MAX_EXACT_INT
        return text if lossy or data in (math.inf, -math.inf) else data
    return text


def _placeholders(
    reading: Reading, spec: SweepSpec, written: Callable[[ValuesPath], ValuesPath]
) -> dict[str, tuple[Reach, ...]]:
    """Where each parameter is named in the trial's values."""
    found: dict[str, tuple[Reach, ...]] = {}
    known = [parameter.name for parameter in spec.parameters]
    for path, text, is_key in _strings(spec):
        for match in _HOLDER.finditer(text):
            name = match[1]
            if is_key:
                reading.refuse(written(path), f"{match[0]} is a key", "put it into a value instead")
            elif name not in (*known, TRIAL):
                near = suggest.nearest(name, [*known, TRIAL])
                hint = f"write ${{sweep.{near}}}" if near else _known(known)
                reading.refuse(written(path), f"{match[0]} names no parameter of the sweep", hint)
            else:
                reach = Reach(PLACEHOLDER, paths.show(path))
                if reach not in found.get(name, ()):
                    found[name] = (*found.get(name, ()), reach)
    return found


def _strings(spec: SweepSpec) -> Iterator[tuple[ValuesPath, str, bool]]:
    yield from places.strings(spec.trial.values)
    for parameter in spec.parameters:
        for values in parameter.overlays.values():
            yield from places.strings(dict(values))


def _known(names: list[str]) -> str:
    more = ", …" if len(names) > _MANY else ""
    return f"the parameters are {', '.join(names[:_MANY])}{more}"


def _implicit(
    name: str,
    defaults: Mapping[str, Any],
    base: Mapping[str, Any],
    shorthand: Collection[str],
    notes: list[str],
) -> tuple[Reach, ...]:
    """Where a parameter goes of which nothing is said: to the place it is named after."""
    path = _parsed(name)
    there = places.get(base, path)
    if there is places.MISSING:
        # A default that is null is a place, too, although Helm leaves it out; and a mapping that is
        # empty in the chart has room for any key.
        is_place = places.is_open(defaults, path)
    else:
        is_place = not isinstance(there, dict | list)
    if is_place:
        return (Reach(PATH, name),)
    # Several steps, of which the chart has the first, are meant as a path.
    within = len(path) > 1 and path[0] in base
    if name in shorthand and is_plain(name) and not within and isinstance(base.get("args"), list):
        known = there is not places.MISSING
        is_what = f"{kind(there)} in the chart's values" if known else "no values path of the chart"
        notes.append(f"{name} is {is_what}; the command gets it as --{name}")
        return (Reach(ARG, f"--{name}"),)
    return ()


def _parsed(text: str) -> ValuesPath:
    """The path that a name means; where it means none, one that no chart has."""
    try:
        return places.parse(text)
    except ValueError:
        return (text,)


def _refuse_lost(
    reading: Reading, name: str, base: Mapping[str, Any], shorthand: Collection[str]
) -> None:
    place = ("sweep", "parameters", name)
    if name in shorthand:
        there = places.get(base, _parsed(name))
        if isinstance(there, dict | list):
            _refuse_many(reading, place, name, there)
        else:
            _refuse_missing(reading, place, name, base)
        return
    # To look for a like name costs time, and nobody reads so many problems.
    near = _near(name, base) if len(reading.problems) < PROBLEMS_MAX else ""
    meant = f"; or did you mean the values path {near}?" if near else ""
    reading.refuse(
        place,
        f"{name} reaches nothing: no trial would differ by it",
        f"add `arg: --{name}`, `env: {_variable(name)}` or `path: …` to it, or write "
        f"${{sweep.{name}}} in the trial's values{meant}",
    )


def _variable(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper())


def _near(text: str, base: Mapping[str, Any]) -> str:
    """The values path most like a text: the same last key elsewhere, else nearly the same path."""
    known = [shown for path in places.leaves(base) if (shown := paths.show(path)) != text]
    last = [path for path in known if path.rpartition(".")[2] == text]
    return last[0] if len(last) == 1 else suggest.nearest(text, known)


def _check(
    reading: Reading,
    parameter: Parameter,
    reach: Reach,
    defaults: Mapping[str, Any],
    base: Mapping[str, Any],
) -> None:
    place: ValuesPath = ("sweep", "parameters", parameter.name, reach.kind)
    if reach.kind == ARG and not isinstance(base.get("args"), list):
        reading.refuse(
            place,
            "the chart's values have no list `args`",
            "use path, or a placeholder in the trial's values",
        )
    elif reach.kind == ENV and reach.to.startswith(names.ENV_PREFIX):
        reading.refuse(place, f"the job sets {reach.to} itself", "use another name")
    elif reach.kind == ENV and not isinstance(base.get("env"), dict | list):
        reading.refuse(
            place, "the chart's values have no `env`", "use path, or a placeholder in its values"
        )
    elif reach.kind == PATH:
        _check_path(reading, place, reach.to, defaults, base)
    elif reach.kind == OVERLAY:
        if only := over.alone(parameter):
            reading.refuse(
                place,
                f"{only} is the only choice, so no trial would differ by it",
                "name several files, or write the choices into it as `- item` lines",
            )
        for path in _leaves(parameter):
            if places.get(base, path) is places.MISSING and not places.is_open(defaults, path):
                _refuse_missing(reading, place, paths.show(path), base)


def _leaves(parameter: Parameter) -> Iterator[ValuesPath]:
    """The values that the choices of a parameter set, each once."""
    found = (path for values in parameter.overlays.values() for path in places.leaves(dict(values)))
    yield from dict.fromkeys(found)


def _check_path(
    reading: Reading,
    place: ValuesPath,
    text: str,
    defaults: Mapping[str, Any],
    base: Mapping[str, Any],
) -> None:
    try:
        path = places.parse(text)
    except ValueError as error:
        reading.refuse(place, str(error), "write it as in --set: torchrun.port, args[0]")
        return
    there = places.get(base, path)
    if isinstance(there, dict | list):
        _refuse_many(reading, place, text, there)
    elif there is places.MISSING and not places.is_open(defaults, path):
        _refuse_missing(reading, place, text, base)


def _refuse_many(
    reading: Reading, place: ValuesPath, text: str, there: dict[str, Any] | list[Any]
) -> None:
    step: str | int = 0 if isinstance(there, list) else next(iter(there), "key")
    reading.refuse(
        place,
        f"{text} is {kind(there)} in the chart's values, and a parameter is one value",
        f"name what is to change in it, such as {paths.show((*places.parse(text), step))}",
    )


def _refuse_missing(
    reading: Reading, place: ValuesPath, text: str, base: Mapping[str, Any]
) -> None:
    near = _near(text, base)
    hint = f"did you mean {near}?" if near else "`helm show values` lists what the chart has"
    reading.refuse(place, f"the chart's values have no {text}", hint)


def _check_meetings(reading: Reading, parameters: list[Parameter]) -> None:
    """Refuse two parameters at one place: one of them would do nothing."""
    taken: dict[tuple[str, ValuesPath | str], str] = {}
    for parameter in parameters:
        for kind_, to in _taken(parameter):
            other = taken.setdefault((PATH if kind_ == OVERLAY else kind_, to), parameter.name)
            if other != parameter.name:
                reading.refuse(
                    ("sweep", "parameters", parameter.name, kind_),
                    f"{to if isinstance(to, str) else paths.show(to)} is set by the parameter "
                    f"{other}, too",
                    "give one of them another place",
                )


def _taken(parameter: Parameter) -> Iterator[tuple[str, ValuesPath | str]]:
    """The places that a parameter has for itself."""
    for reach in parameter.reaches:
        if reach.kind == PATH:
            with contextlib.suppress(ValueError):  # Refused already.
                yield reach.kind, places.parse(reach.to)
        elif reach.kind == OVERLAY:
            for path in _leaves(parameter):
                yield reach.kind, path
        elif reach.kind != PLACEHOLDER:
            yield reach.kind, reach.to


def _filled(
    value: Any,
    texts: Mapping[str, str],
    assignment: Assignment,
    defaults: Mapping[str, Any],
    path: ValuesPath,
) -> Any:
    """Values with their placeholders replaced, in one go: what a value holds is not looked at."""
    if isinstance(value, dict):
        return {
            key: _filled(item, texts, assignment, defaults, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _filled(item, texts, assignment, defaults, (*path, index))
            for index, item in enumerate(value)
        ]
    if not isinstance(value, str) or "${sweep." not in value:
        return value
    alone = _HOLDER.fullmatch(value)
    if alone is not None and alone[1] in assignment:
        return fitted(assignment[alone[1]], places.get(defaults, path))
    return _HOLDER.sub(lambda match: texts[match[1]], value)


def _put_env(out: dict[str, Any], base: Mapping[str, Any], name: str, text: str) -> None:
    """Set a variable: in a mapping by its name, or in a list as a pod has it."""
    if isinstance(base.get("env"), list):
        listed = out["env"] if isinstance(out.get("env"), list) else copy(base["env"])
        others = [
            item for item in listed if not (isinstance(item, dict) and item.get("name") == name)
        ]
        out["env"] = [*others, {"name": name, "value": text}]
    else:
        places.put(out, ("env", name), text, base)
