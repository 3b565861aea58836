"""A sweep in words: what is searched, where, and how, for heads of reports and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from allranks.sweep import space as spaces
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
from allranks.words import plural, some

if TYPE_CHECKING:
    from allranks.sweep.model import Parameter, Space, SweepSpec

_MOST_VALUES = 8


def search(spec: SweepSpec) -> str:
    """How trials are chosen and ended: ``tpe, seed 0, 40 trials, 8 at a time; …``."""
    parts = [spec.search]
    if spec.search != GRID:
        parts.append(f"seed {spec.seed}")
    if spec.trials:
        parts.append(plural(spec.trials, "trial"))
    parts.append(f"{spec.parallel} at a time")
    said = f"Search: {', '.join(parts)}"
    early = spec.early
    if early is None:
        return said
    if early.kind == HALVING:
        rule = f"the best 1/{early.reduction_factor} go on at each rung from step {early.min_steps}"
    else:
        rule = f"below the median of the others from step {early.min_steps}"
    return f"{said}. Early stopping: {early.kind}, {rule}"


def space(found: Space) -> str:
    """Where a parameter is looked for."""
    match found:
        case Values():
            texts = [choice.text for choice in found.choices]
            return some(texts, _MOST_VALUES)
        case Range():
            # Where no step meets the maximum, the last value is below it.
            last = spaces.choice(found, (spaces.size(found) or 1) - 1).text
            return f"{found.minimum} to {last} by {found.step}"
        case Uniform():
            return f"{found.low!r} to {found.high!r}"
        case LogUniform():
            return f"{found.low!r} to {found.high!r}, logarithmic"
        case IntUniform():
            return f"{found.low} to {found.high}, whole numbers"
    assert_never(found)


def reaches(parameter: Parameter) -> str:
    """How a parameter gets to the trial."""
    words = {ARG: "argument", ENV: "variable", PATH: "values", OVERLAY: "values of"}
    return ", ".join(f"{words.get(each.kind, each.kind)} {each.to}" for each in parameter.reaches)
