"""The spaces of an OptimizationJob's parameters: ``searchSpace``, as a sweep has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.chart_values import trials
from allranks.convert.kinds import search_spaces
from allranks.convert.verdicts import Rule, carried, dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from typing import Any

    from allranks.convert.verdicts import FieldPath, Fields

_TO = "sweep.parameters.NAME"
# What is said of the fields of a space, below it.
FIELDS: tuple[Rule, ...] = (
    carried("categorical.choices[]", _TO),
    *(
        carried(f"{kind}.{key}", _TO)
        for kind in ("uniform", "logUniform")
        for key in ("min", "max", "type", "step")
    ),
)
_CATEGORICAL = "categorical"
_WHOLE, _DECIMAL = "Int", "Double"


def of(fields: Fields, here: FieldPath, search: str, to: str) -> dict[str, Any]:
    """The space of a parameter, in the form that a sweep has.

    Args:
        fields: the OptimizationJob.
        here: the parameter.
        search: the sweep's search.
        to: the value that it becomes.

    Raises:
        InputError: it has no space that a sweep can have, or several.
    """
    space: FieldPath = (*here, "searchSpace")
    kinds = [
        kind for kind in ("uniform", "logUniform", _CATEGORICAL) if fields.mapping(*space, kind)
    ]
    if fields.get(*space, _CATEGORICAL, "choices") == []:
        kinds.remove(_CATEGORICAL)
    if len(kinds) > 1:
        raise InputError(
            f"it has {len(kinds)} spaces, {' and '.join(kinds)}, and a parameter has one",
            path=dotted(space),
            hint=f"leave {kinds[0]} or the others out",
        )
    if kinds == [_CATEGORICAL]:
        return {"values": _choices(fields, (*space, _CATEGORICAL, "choices"), to)}
    return _between(fields, space, kinds[0] if kinds else "uniform", search, to)


def _choices(fields: Fields, path: FieldPath, to: str) -> list[str]:
    """The choices, as the texts that Kubernetes takes them for."""
    choices = fields.get(*path)
    texts: list[str] = []
    for index, choice in enumerate(choices if isinstance(choices, list) else ()):
        text = str(choice).lower() if isinstance(choice, bool) else str(choice)
        here: FieldPath = (*path, index)
        fields.keep(here, to)
        if not isinstance(choice, str):
            fields.change(here, f'a choice is a text, and this is taken for "{text}"', to)
        if text in texts:
            fields.change(here, "it is given twice, and is tried once", to)
        else:
            texts.append(text)
    if not texts:
        raise InputError("it has no choices", path=dotted(path), hint="write choices: [a, b]")
    return texts


def _between(fields: Fields, space: FieldPath, kind: str, search: str, to: str) -> dict[str, Any]:
    """A space between two numbers."""
    place = dotted(space)
    here: FieldPath = (*space, kind)
    ends = {key: trials.number(fields.get(*here, key)) for key in ("min", "max")}
    if None in ends.values():
        raise InputError(
            "its space has no numbers as min and max",
            path=place,
            hint='write uniform: {min: "0.1", max: "0.9"}, or categorical',
        )
    is_whole = _is_whole(fields, (*here, "type"))
    if is_whole:
        ends = dict(search_spaces.whole_ends(ends, dotted(here)))
    step = _step(fields, (*here, "step"), is_whole=is_whole)
    for key in ("min", "max", "type", "step"):
        fields.keep((*here, key), to)
    if search == "grid" and step is None and not is_whole:
        raise InputError(
            "a grid over numbers that are not whole needs a step",
            path=place,
            hint="write categorical with the numbers to try, or search at random",
        )
    if step is not None and not (is_whole and step == 1):
        if kind == "logUniform":
            fields.change((*here, "step"), "with a step all numbers are equally likely", to)
        return {"range": {**ends, "step": step}}
    if is_whole and kind == "logUniform":
        for key in ends:
            fields.change((*here, key), "whole numbers are drawn evenly", to)
    form = "range" if search == "grid" else "intUniform" if is_whole else kind
    return {form: ends}


def _is_whole(fields: Fields, path: FieldPath) -> bool:
    """Whether a space is one of whole numbers."""
    kind = fields.get(*path)
    name = str(_DECIMAL if kind is None else kind).lower()
    if name not in (_WHOLE.lower(), _DECIMAL.lower()):
        raise InputError(
            f"{kind!r} is no type of a parameter",
            path=dotted(path),
            hint=f"write {_WHOLE} or {_DECIMAL}",
        )
    return name == _WHOLE.lower()


def _step(fields: Fields, path: FieldPath, *, is_whole: bool) -> int | float | None:
    """The step between the numbers; None for none."""
    own = fields.get(*path)
    step = trials.number(own)
    if own is None:
        return None
    if step is None or step <= 0 or (is_whole and step != int(step)):
        raise InputError(
            f"{own!r} is no step between {'whole numbers' if is_whole else 'numbers'}",
            path=dotted(path),
            hint=f"write a {'whole ' if is_whole else ''}number above 0, or leave it out",
        )
    return int(step) if is_whole else step
