"""Importance of parameters: the share of the objective's variance that each one explains.

The measure is a one-way analysis of variance on ranks, with the share corrected for chance
(epsilon squared): trials are ranked by their objective, grouped by the values of one parameter, and
what the groups' means explain of the ranks' variance counts, less what as many groups of pure noise
would explain. It was chosen over Optuna's evaluators because it needs no library (a grid has none),
is the same for the same trials without a seed, works alike for words, lists and continuous numbers,
finds an optimum in the middle of a range, where a rank correlation sees nothing, and lets a single
diverged trial weigh no more than a bad one.

What it does not see is an interaction: a parameter that matters only together with another one
shows less than it should. Where a search looked at good values more often than at others, as TPE
does, shares say what made the difference between those trials, not over the whole space.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from allranks.humanize import plural
from allranks.sweep.model import STOPPED, SUCCEEDED
from allranks.sweep.reporting.results import finite

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from allranks.sweep.model import Scalar, Trial
    from allranks.sweep.reporting.results import Results

# Below this, chance alone explains a third of the differences every now and then.
FEWEST = 10
# Groups of numbers that nearly all differ hold about this many trials each.
_PER_GROUP = 4
_MOST_GROUPS = 8


@dataclass(frozen=True, slots=True)
class Importance:
    """The importance of a parameter.

    Attributes:
        name: the parameter.
        share: of the objective's differences, 0 to 1; None where it cannot be computed.
        reason: why there is no share; "" where there is.
    """

    name: str
    share: float | None
    reason: str = ""


def importances(results: Results) -> tuple[Importance, ...]:
    """Return the importance of all parameters, the largest first, those without a share last.

    A trial that was stopped early counts with the last value it reported: leaving it out would hide
    the very parameters that make trials bad.
    """
    measured = [
        trial
        for trial in results.trials
        if trial.state in (SUCCEEDED, STOPPED) and finite(trial.value) is not None
    ]
    names = [parameter.name for parameter in results.spec.parameters]
    if len(measured) < FEWEST:
        reason = f"{plural(len(measured), 'trial')} with a value, {FEWEST} needed"
        return tuple(Importance(name, None, reason) for name in names)
    ranks = _ranks([finite(trial.value) or 0.0 for trial in measured])
    if len(set(ranks)) == 1:
        return tuple(Importance(name, None, "all trials have the same value") for name in names)
    entries = [_importance(name, measured, ranks) for name in names]
    return tuple(
        sorted(
            entries, key=lambda importance: 1.0 if importance.share is None else -importance.share
        )
    )


def _importance(name: str, trials: Sequence[Trial], ranks: Sequence[float]) -> Importance:
    pairs = [
        (trial.assignment[name].data, rank)
        for trial, rank in zip(trials, ranks, strict=True)
        if name in trial.assignment
    ]
    levels = _levels([data for data, _ in pairs])
    groups: dict[Hashable, list[float]] = defaultdict(list)
    for level, (_, rank) in zip(levels, pairs, strict=True):
        groups[level].append(rank)
    if len(groups) < 2:  # noqa: PLR2004 - a comparison needs two
        return Importance(name, None, "it had one value only")
    if len(pairs) < 2 * len(groups):
        return Importance(name, None, "nearly every trial had another value")
    return Importance(name, _share(list(groups.values())))


def _share(groups: Sequence[Sequence[float]]) -> float:
    """Return epsilon squared: the explained part of the variance, less what chance explains."""
    ranks = [rank for group in groups for rank in group]
    mean = fmean(ranks)
    total = sum((rank - mean) ** 2 for rank in ranks)
    between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups)
    within = (total - between) / (len(ranks) - len(groups))
    return max(0.0, (between - (len(groups) - 1) * within) / total) if total else 0.0


def _ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    places: dict[float, list[int]] = defaultdict(list)
    for place, value in enumerate(sorted(values), start=1):
        places[value].append(place)
    mean = {value: fmean(ranks) for value, ranks in places.items()}
    return [mean[value] for value in values]


def _levels(values: Sequence[Scalar]) -> list[Hashable]:
    """Return each value's group: the value if values repeat, else a bin of neighbouring numbers."""
    counts = Counter((type(value) is bool, value) for value in values)
    if len(values) >= 2 * len(counts):
        return [(type(value) is bool, value) for value in values]
    numbers = [value for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        return list(values)
    count = max(2, min(_MOST_GROUPS, len(values) // _PER_GROUP))
    return [int((place - 1) * count // len(values)) for place in _ranks(numbers)]
