"""Describe a sweep in words: its search, its space and its parameters, for reports and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from allranks.humanize import list_some, plural
from allranks.sweep.model import (
    ARG,
    ENV,
    GRID,
    HALVING,
    OVERLAY,
    PATH,
    IntUniform,
    LogUniform,
    Range,
    Uniform,
    Values,
)
from allranks.sweep.search import space as spaces

if TYPE_CHECKING:
    from allranks.sweep.model import Parameter, Space, SweepSpec

_MOST_VALUES = 8


def search(spec: SweepSpec) -> str:
    """Describe the search and early stopping: ``tpe, seed 0, 40 trials, 8 at a time; …``."""
    parts = [spec.search]
    if spec.search != GRID:
        parts.append(f"seed {spec.seed}")
    if spec.trials:
        parts.append(plural(spec.trials, "trial"))
    parts.append(f"{spec.parallel_max} at a time")
    text = f"Search: {', '.join(parts)}"
    early = spec.early
    if early is None:
        return text
    if early.kind == HALVING:
        rule = f"the best 1/{early.reduction_factor} go on at each rung from step {early.min_steps}"
    else:
        rule = f"below the median of the others from step {early.min_steps}"
    return f"{text}. Early stopping: {early.kind}, {rule}"


def space(space_: Space) -> str:
    """Describe the values of a parameter."""
    match space_:
        case Values():
            texts = [choice.text for choice in space_.choices]
            return list_some(texts, _MOST_VALUES)
        case Range():
            # The last value is below the maximum if no step meets it.
            last = spaces.choice(space_, (spaces.size(space_) or 1) - 1).text
            return f"{space_.minimum} to {last} by {space_.step}"
        case Uniform():
            return f"{space_.low!r} to {space_.high!r}"
        case LogUniform():
            return f"{space_.low!r} to {space_.high!r}, logarithmic"
        case IntUniform():
            return f"{space_.low} to {space_.high}, whole numbers"
    assert_never(space_)


def reaches(parameter: Parameter) -> str:
    """Describe how a parameter reaches the trial."""
    words = {ARG: "argument", ENV: "variable", PATH: "values", OVERLAY: "values of"}
    return ", ".join(
        f"{words.get(reach.kind, reach.kind)} {reach.to}" for reach in parameter.reaches
    )
