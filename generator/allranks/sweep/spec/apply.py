"""Put parameters into the values of trials, and check that each of them reaches a trial.

A parameter that nothing reads makes a sweep of equal trials, and costs days before somebody
notices. So `bind` decides once, against the chart's own values, where each parameter goes, and
refuses a parameter that goes nowhere, a path that the chart does not have and a placeholder that
names no parameter. `trial_values` then makes the values of any trial.
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
from allranks.schema import paths, suggestions
from allranks.sweep import naming
from allranks.sweep.model import ARG, ENV, OVERLAY, PATH, PLACEHOLDER, Parameter, Reach, SweepSpec
from allranks.sweep.spec import overlays
from allranks.sweep.spec.parameters import TRIAL, ParameterReader, is_plain
from allranks.values.merge import copy, merge, overlay
from allranks.yamlio.load import MAX_EXACT_INT
from allranks.yamlio.mistakes import kind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Assignment, Choice
    from allranks.sweep.spec.parameters import Where


_HOLDER = re.compile(r"\$\{sweep\.([^}]*)\}")
_VALUES: ValuesPath = ("sweep", "trial", "values")
# The texts that charts/sweep reads as a number, and as a boolean, where the default is one.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,18})([.][0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_FLAG = re.compile(r"true|false")
_MANY = 5  # parameters that a message lists


@dataclass(frozen=True, slots=True)
class Bound:
    """A sweep whose parameters all reach their trials.

    Attributes:
        spec: the sweep; `reaches` of every parameter is complete.
        notes: decisions that the user should know, as sentences.
    """

    spec: SweepSpec
    notes: tuple[str, ...] = ()


def bind(
    spec: SweepSpec,
    defaults: Mapping[str, Any],
    shorthand: Collection[str] = (),
    where: Where | None = None,
    full_path: Callable[[ValuesPath], ValuesPath] = lambda path: (*_VALUES, *path),
) -> Bound:
    """Decide where each parameter goes.

    Args:
        spec: the sweep; the values of its trial are complete.
        defaults: the values of the trial's chart.
        shorthand: names of parameters given by ``--set-range``: one that is not a values path
            becomes an option of the command.
        where: returns ``file:line`` of a path.
        full_path: returns the path from the root for a path of the trial's values.

    Raises:
        InvalidValues: a parameter reaches nothing; it lists every problem.
    """
    reading = ParameterReader(where=where or (lambda _path: ""))
    placeholders = _placeholders(reading, spec, full_path)
    base = merge(defaults, spec.trial.values)
    notes: list[str] = []
    bound: list[Parameter] = []
    for parameter in spec.parameters:
        explicit = tuple(reach for reach in parameter.reaches if reach.kind != PLACEHOLDER)
        reaches = (*explicit, *placeholders.get(parameter.name, ()))
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
    """Return the values of one trial for its chart: those of all trials, with its parameters.

    Args:
        spec: a sweep of `bind`.
        assignment: the trial's parameters.
        defaults: the values of the trial's chart; their types decide what is text and what a
            number.
        name: the trial's name; "" for the one that follows from its parameters.
    """
    shared = spec.trial.values
    for parameter in spec.parameters:
        if parameter.overlays:
            shared = overlay(shared, parameter.overlays[assignment[parameter.name].text])
    base = merge(defaults, shared)
    texts = {key: choice.text for key, choice in assignment.items()}
    texts[TRIAL] = name or naming.trial_name(spec.name, assignment)
    out: dict[str, Any] = _fill(copy(dict(shared)), texts, assignment, defaults, ())
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
                path = parse(reach.to)
                put(out, path, fit(choice, get(base, path)), base)
    if words:
        before = out["args"] if isinstance(out.get("args"), list) else copy(base.get("args") or [])
        out["args"] = [*before, *words]
    return out


def fit(choice: Choice, default: Any) -> Any:
    """Return a choice as a number or a boolean if the chart's default is one, else its text.

    Text arrives as typed; a schema asks for a number where the default is one.
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
    """Return a quoted choice as charts/sweep reads it, by the type of the default."""
    form = _FLAG if isinstance(default, bool) else _NUMBER
    if isinstance(default, bool | int | float) and form.fullmatch(text):
        data = json.loads(text)
        lossy = isinstance(data, int) and abs(data) > MAX_EXACT_INT
        return text if lossy or data in (math.inf, -math.inf) else data
    return text


def _placeholders(
    reading: ParameterReader, spec: SweepSpec, full_path: Callable[[ValuesPath], ValuesPath]
) -> dict[str, tuple[Reach, ...]]:
    """Return the placeholders of each parameter in the trial's values, by its name."""
    reaches: dict[str, tuple[Reach, ...]] = {}
    declared = [parameter.name for parameter in spec.parameters]
    for path, text, is_key in _strings(spec):
        for match in _HOLDER.finditer(text):
            name = match[1]
            if is_key:
                reading.refuse(
                    full_path(path), f"{match[0]} is a key", "put it into a value instead"
                )
            elif name not in (*declared, TRIAL):
                near = suggestions.nearest(name, [*declared, TRIAL])
                hint = f"write ${{sweep.{near}}}" if near else _parameters_hint(declared)
                reading.refuse(full_path(path), f"{match[0]} names no parameter of the sweep", hint)
            else:
                reach = Reach(PLACEHOLDER, paths.show(path))
                if reach not in reaches.get(name, ()):
                    reaches[name] = (*reaches.get(name, ()), reach)
    return reaches


def _strings(spec: SweepSpec) -> Iterator[tuple[ValuesPath, str, bool]]:
    yield from strings(spec.trial.values)
    for parameter in spec.parameters:
        for values in parameter.overlays.values():
            yield from strings(dict(values))


def _parameters_hint(names: list[str]) -> str:
    more = ", …" if len(names) > _MANY else ""
    return f"the parameters are {', '.join(names[:_MANY])}{more}"


def _implicit(
    name: str,
    defaults: Mapping[str, Any],
    base: Mapping[str, Any],
    shorthand: Collection[str],
    notes: list[str],
) -> tuple[Reach, ...]:
    """Return the reach of a parameter without an explicit one: the values path of its name."""
    path = _parse(name)
    current = get(base, path)
    # A default of null counts as well, although Helm leaves it out; and an empty mapping in the
    # chart has room for any key.
    is_place = (
        is_open(defaults, path) if current is MISSING else not isinstance(current, dict | list)
    )
    if is_place:
        return (Reach(PATH, name),)
    # A name of several steps, of which the chart has the first, is meant as a path.
    within = len(path) > 1 and path[0] in base
    if name in shorthand and is_plain(name) and not within and isinstance(base.get("args"), list):
        is_present = current is not MISSING
        description = (
            f"{kind(current)} in the chart's values"
            if is_present
            else "no values path of the chart"
        )
        notes.append(f"{name} is {description}; the command gets it as --{name}")
        return (Reach(ARG, f"--{name}"),)
    return ()


def _parse(text: str) -> ValuesPath:
    """Return the path that a name means; if it means none, a path that no chart has."""
    try:
        return parse(text)
    except ValueError:
        return (text,)


def _refuse_lost(
    reading: ParameterReader, name: str, base: Mapping[str, Any], shorthand: Collection[str]
) -> None:
    place = ("sweep", "parameters", name)
    if name in shorthand:
        current = get(base, _parse(name))
        if isinstance(current, dict | list):
            _refuse_many(reading, place, name, current)
        else:
            _refuse_missing(reading, place, name, base)
        return
    # A search for similar names costs time, and nobody reads so many problems.
    near = _nearest_path(name, base) if len(reading.problems) < PROBLEMS_MAX else ""
    suggestion = f"; or did you mean the values path {near}?" if near else ""
    reading.refuse(
        place,
        f"{name} reaches nothing: no trial would differ by it",
        f"add `arg: --{name}`, `env: {_variable(name)}` or `path: …` to it, or write "
        f"${{sweep.{name}}} in the trial's values{suggestion}",
    )


def _variable(name: str) -> str:
    return re.sub(r"[^A-Z0-9]", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper())


def _nearest_path(text: str, base: Mapping[str, Any]) -> str:
    """Return the nearest values path: with the same last key, else with a similar spelling."""
    candidates = [candidate for path in leaves(base) if (candidate := paths.show(path)) != text]
    last = [path for path in candidates if path.rpartition(".")[2] == text]
    return last[0] if len(last) == 1 else suggestions.nearest(text, candidates)


def _check(
    reading: ParameterReader,
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
        if only := overlays.only_choice(parameter):
            reading.refuse(
                place,
                f"{only} is the only choice, so no trial would differ by it",
                "name several files, or write the choices into it as `- item` lines",
            )
        for path in _leaves(parameter):
            if get(base, path) is MISSING and not is_open(defaults, path):
                _refuse_missing(reading, place, paths.show(path), base)


def _leaves(parameter: Parameter) -> Iterator[ValuesPath]:
    """Yield the values paths that the choices of a parameter set, each once."""
    all_paths = (path for values in parameter.overlays.values() for path in leaves(dict(values)))
    yield from dict.fromkeys(all_paths)


def _check_path(
    reading: ParameterReader,
    place: ValuesPath,
    text: str,
    defaults: Mapping[str, Any],
    base: Mapping[str, Any],
) -> None:
    try:
        path = parse(text)
    except ValueError as error:
        reading.refuse(place, str(error), "write it as in --set: torchrun.port, args[0]")
        return
    current = get(base, path)
    if isinstance(current, dict | list):
        _refuse_many(reading, place, text, current)
    elif current is MISSING and not is_open(defaults, path):
        _refuse_missing(reading, place, text, base)


def _refuse_many(
    reading: ParameterReader, place: ValuesPath, text: str, current: dict[str, Any] | list[Any]
) -> None:
    step: str | int = 0 if isinstance(current, list) else next(iter(current), "key")
    reading.refuse(
        place,
        f"{text} is {kind(current)} in the chart's values, and a parameter is one value",
        f"name what is to change in it, such as {paths.show((*parse(text), step))}",
    )


def _refuse_missing(
    reading: ParameterReader, place: ValuesPath, text: str, base: Mapping[str, Any]
) -> None:
    near = _nearest_path(text, base)
    hint = f"did you mean {near}?" if near else "`helm show values` lists what the chart has"
    reading.refuse(place, f"the chart's values have no {text}", hint)


def _check_meetings(reading: ParameterReader, parameters: list[Parameter]) -> None:
    """Refuse two parameters with the same target: one of them would do nothing."""
    owners: dict[tuple[str, ValuesPath | str], str] = {}
    for parameter in parameters:
        for kind_, to in _targets(parameter):
            other = owners.setdefault((PATH if kind_ == OVERLAY else kind_, to), parameter.name)
            if other != parameter.name:
                reading.refuse(
                    ("sweep", "parameters", parameter.name, kind_),
                    f"{to if isinstance(to, str) else paths.show(to)} is set by the parameter "
                    f"{other}, too",
                    "give one of them another place",
                )


def _targets(parameter: Parameter) -> Iterator[tuple[str, ValuesPath | str]]:
    """Yield the targets that no other parameter may have."""
    for reach in parameter.reaches:
        if reach.kind == PATH:
            with contextlib.suppress(ValueError):  # Refused already.
                yield reach.kind, parse(reach.to)
        elif reach.kind == OVERLAY:
            for path in _leaves(parameter):
                yield reach.kind, path
        elif reach.kind != PLACEHOLDER:
            yield reach.kind, reach.to


def _fill(
    value: Any,
    texts: Mapping[str, str],
    assignment: Assignment,
    defaults: Mapping[str, Any],
    path: ValuesPath,
) -> Any:
    """Return values with their placeholders replaced; the replacements are not expanded."""
    if isinstance(value, dict):
        return {
            key: _fill(item, texts, assignment, defaults, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [
            _fill(item, texts, assignment, defaults, (*path, index))
            for index, item in enumerate(value)
        ]
    if not isinstance(value, str) or "${sweep." not in value:
        return value
    alone = _HOLDER.fullmatch(value)
    if alone is not None and alone[1] in assignment:
        return fit(assignment[alone[1]], get(defaults, path))
    return _HOLDER.sub(lambda match: texts[match[1]], value)


def _put_env(out: dict[str, Any], base: Mapping[str, Any], name: str, text: str) -> None:
    """Set an environment variable, in a mapping or in a list as a pod has it."""
    if isinstance(base.get("env"), list):
        items = out["env"] if isinstance(out.get("env"), list) else copy(base["env"])
        others = [
            item for item in items if not (isinstance(item, dict) and item.get("name") == name)
        ]
        out["env"] = [*others, {"name": name, "value": text}]
    else:
        put(out, ("env", name), text, base)


MISSING = object()

# A key in quotes, an index, or a key in which a backslash takes the next character as it is.
_STEP = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d{1,5})\]|\.?((?:[^.\[\]\\]|\\.)+)', re.DOTALL)


def parse(text: str) -> ValuesPath:
    """Parse a values path as `--set` writes it: ``torchrun.port``, ``args[0]``.

    Raises:
        ValueError: it is not a values path.
    """
    steps: list[str | int] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or (at == 0 and (text[0] == "." or match[2])):
            raise ValueError(f"{text!r} is no values path")
        if match[3] is not None and at > 0 and text[at] != ".":
            raise ValueError(f"{text!r} is no values path")
        if match[1] is not None:
            steps.append(json.loads(match[1]))
        elif match[2] is not None:
            steps.append(int(match[2]))
        else:
            steps.append(re.sub(r"\\(.)", r"\1", match[3], flags=re.DOTALL))
        at = match.end()
    if not steps:
        raise ValueError("an empty text is no values path")
    return tuple(steps)


def get(values: Any, path: ValuesPath) -> Any:
    """Return the value at a path, or `MISSING`."""
    for step in path:
        is_present = isinstance(values, dict) and step in values
        if not is_present:
            is_present = isinstance(values, list) and isinstance(step, int) and step < len(values)
        if not is_present:
            return MISSING
        values = values[step]
    return values


def is_open(defaults: Mapping[str, Any], path: ValuesPath) -> bool:
    """Whether a chart allows any value at a path: the default there or above is null or empty."""
    if get(defaults, path) is None:
        return True
    above = (get(defaults, path[:end]) for end in range(1, len(path)))
    keys = all(isinstance(step, str) for step in path)
    return keys and any(value is None or value == {} for value in above)


def put(target: dict[str, Any], path: ValuesPath, value: Any, base: Mapping[str, Any]) -> None:
    """Set a value at a path, in place; missing mappings are created, lists are copied from `base`.

    Args:
        target: the values to change.
        path: where.
        value: the new value.
        base: the same values over the chart's defaults: Helm replaces a list as a whole, so that
            a changed item needs the others beside it.
    """
    node: Any = target
    for depth, step in enumerate(path[:-1], start=1):
        below = get(node, (step,))
        if not isinstance(below, dict | list):
            default = get(base, path[:depth])
            below = copy(default) if isinstance(default, list) else {}
            node[step] = below
        node = below
    node[path[-1]] = value


def strings(value: Any, path: ValuesPath = ()) -> Iterator[tuple[ValuesPath, str, bool]]:
    """Yield every text in values with its path, and whether it is a key of a mapping."""
    if isinstance(value, str):
        yield path, value, False
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key), key, True
            yield from strings(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from strings(item, (*path, index))


def leaves(value: Any, path: ValuesPath = ()) -> Iterator[ValuesPath]:
    """Yield the path of every value that is not a mapping with content."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, (*path, key))
    else:
        yield path
