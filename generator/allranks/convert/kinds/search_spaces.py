"""The spaces of an Experiment's parameters: ``feasibleSpace``, as a sweep has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from allranks.convert.chart_values import trials
from allranks.convert.inputs.misspelt_keys import nearest_or_all
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from allranks.convert.verdicts import FieldPath, Fields

# Source: pkg/apis/controller/experiments/v1beta1/experiment_types.go; its webhook refuses others.
_TYPES = ("double", "int", "discrete", "categorical")
_NO_STEP = (
    "Katib's search did not read it, and took any number between the ends, and here it is kept: "
    "leave it out for any number"
)
_BY_MAGNITUDE = (
    "Katib up to 0.18 drew numbers of this search by orders of magnitude: write logUniform, for "
    "uniform or range, where that is meant"
)


def of(fields: Fields, here: FieldPath, search: str, algorithm: str) -> dict[str, Any]:
    """The space of a parameter, in the form that a sweep has.

    Args:
        fields: the Experiment.
        here: the parameter.
        search: the sweep's search.
        algorithm: Katib's name of it.

    Raises:
        InputError: it has no ends, or no choices.
    """
    space: FieldPath = (*here, "feasibleSpace")
    place = f"spec.parameters[{here[-1]}].feasibleSpace"
    fields.keep(space, "sweep.parameters")
    kind, choices = _type(fields, here), fields.words(*space, "list")
    if choices:
        for index, choice in enumerate(choices):
            if choice in choices[:index]:
                fields.change((*space, "list", index), "it is given twice, and is tried once")
        return {"values": list(dict.fromkeys(choices))}
    if kind in ("discrete", "categorical"):
        raise InputError(
            "its feasibleSpace has no list", path=place, hint="write list: [...] with its choices"
        )
    ends = {key: trials.number(fields.get(*space, key)) for key in ("min", "max")}
    for key, end in ends.items():
        if end is None:
            raise InputError(
                f"{fields.get(*space, key)!r} is no number",
                path=f"{place}.{key}",
                hint="write a number in quotes",
            )
    is_whole = kind == "int"
    if is_whole:
        ends = {**whole_ends(ends, place)}
    step = trials.number(fields.get(*space, "step"))
    if search == "grid" and step is None and not is_whole:
        raise InputError(
            "a grid over numbers that are not whole needs a step",
            path=place,
            hint="write step, or search with random or tpe",
        )
    form, why = _form(fields, space, (search, is_whole, step), ends)
    if algorithm == "bayesianoptimization":
        _say_of_skopt(fields, space, form, is_whole=is_whole)
    if why:
        fields.change((*space, "distribution"), why, "sweep.parameters")
    return {form: {**ends, "step": step} if form == "range" and step is not None else ends}


def _type(fields: Fields, here: FieldPath) -> str:
    """The type of a parameter, which has to be one of Katib's."""
    kind = fields.get(*here, "parameterType")
    if kind in _TYPES:
        return str(kind)
    raise InputError(
        "it has no parameterType" if kind is None else f"{kind!r} is no type of a parameter",
        path=dotted((*here, "parameterType")),
        hint=nearest_or_all(kind, _TYPES),
    )


def whole_ends(ends: Mapping[str, float | None], place: str) -> dict[str, int]:
    """The ends of a space of whole numbers.

    Args:
        ends: the first and the last of the numbers, by the keys that they have.
        place: where they stand.

    Raises:
        InputError: one of them is no whole number.
    """
    whole: dict[str, int] = {}
    for key, end in ends.items():
        whole[key] = int(end or 0)
        if end is not None and end != whole[key]:
            nearest = math.ceil(end) if key == "min" else math.floor(end)
            raise InputError(
                f"{end} is no whole number, and the parameter has whole ones",
                path=f"{place}.{key}",
                hint=f'write "{nearest}", or give the parameter the type of other numbers',
            )
    return whole


def _form(
    fields: Fields,
    space: FieldPath,
    search: tuple[str, bool, int | float | None],
    ends: Mapping[str, int | float | None],
) -> tuple[str, str]:
    """The form of a space between two numbers, and what is other about its distribution.

    Args:
        fields: the Experiment.
        space: the space.
        search: the search, whether the numbers are whole, and the step between them.
        ends: the first and the last of them.
    """
    name, is_whole, step = search
    distribution = fields.text(*space, "distribution")
    is_even = distribution in ("", "uniform")
    if name == "grid" or (step is not None and not (is_whole and step == 1)):
        return "range", "" if is_even else "with a step all of its numbers are equally likely"
    if is_whole:
        return "intUniform", "" if is_even else "whole numbers are drawn evenly"
    if distribution in ("logUniform", "logNormal") and (ends["min"] or 0) > 0:
        is_log = distribution == "logUniform"
        return "logUniform", "" if is_log else "the orders of magnitude are drawn evenly"
    return "uniform", "" if is_even else "it is drawn evenly"


def _say_of_skopt(fields: Fields, space: FieldPath, form: str, *, is_whole: bool) -> None:
    """Say where Katib's Bayesian search has drawn from another space than the Experiment names.

    Source: pkg/suggestion/v1beta1/skopt/base_service.py, of releases up to 0.18.
    """
    if fields.get(*space, "step") is not None:
        fields.change((*space, "step"), _NO_STEP, "sweep.parameters")
    if form != "logUniform" and not is_whole:
        fields.change((*space, "min"), _BY_MAGNITUDE, "sweep.parameters")
