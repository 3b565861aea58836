"""Optuna's samplers by their names, each made from what a sweep says, or refused with the reason.

Most need a seed alone. Some need the search space besides: `GridSampler` and `BruteForceSampler` go
through it and never look at a result, `PartialFixedSampler` leaves parameters of one choice alone.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import optuna

from allranks.errors import InputError, MissingToolError
from allranks.schema import suggest
from allranks.sweep import space
from allranks.sweep.model import GRID, RANDOM, TPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.samplers import BaseSampler

    from allranks.sweep.model import SweepSpec

_SEEDS = 2**32
_SUFFIX = "Sampler"
_GRID, _ALL, _FIXED = "GridSampler", "BruteForceSampler", "PartialFixedSampler"
# They list what there is to try, and where they stand in it follows from what they proposed alone.
ENUMERATING = frozenset({_GRID, _ALL})
# So many combinations such a list may have; each is kept in memory.
LISTED_MAX = 100_000
# What samplers import when they are used, which may be late in a sweep.
_NEEDS = {
    "CmaEsSampler": ("cmaes",),
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
}


@dataclass(frozen=True, slots=True)
class Known:
    """What a sampler may be told of a sweep.

    Attributes:
        spec: the sweep.
        listed: the values of each parameter as the sampler sees them; called only where there are
            few enough.
        fixed: by name, the value of each parameter that has one choice only, as a sampler sees it.
    """

    spec: SweepSpec
    listed: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any]


def names() -> list[str]:
    """The samplers of the installed Optuna that can be made, by name, in alphabetical order."""
    found = ((item, getattr(optuna.samplers, item)) for item in optuna.samplers.__all__)
    return sorted(
        name
        for name, item in found
        if name.endswith(_SUFFIX) and inspect.isclass(item) and not inspect.isabstract(item)
    )


def resolve(search: str) -> str:
    """A sampler's own name from one without its ending, or in other letters: ``cmaes``.

    Raises:
        InputError: Optuna has none of that name.
    """
    usable = [item.removesuffix(_SUFFIX) for item in names()]
    bare = search[: -len(_SUFFIX)] if search.lower().endswith(_SUFFIX.lower()) else search
    own = {item.lower(): item for item in usable}.get(bare.lower())
    if own is not None:
        return own + _SUFFIX
    ours = [GRID, RANDOM, TPE]
    near = suggest.nearest(search, ours) or suggest.nearest(bare, usable)
    near = near if near in ours or not near else f"{near}{_SUFFIX}"
    listed = [*ours, *names()]
    hint = f"did you mean {near}?" if near else f"use one of {', '.join(listed)}"
    raise InputError(f"there is no search {search!r}", path="sweep.search", hint=hint)


def check(spec: SweepSpec) -> None:
    """Refuse a sampler that this sweep cannot have, before anything is begun.

    Raises:
        InputError: there is none of that name, or it does not fit the parameters.
        MissingToolError: it needs a library that is not installed.
    """
    name = resolve(spec.search)
    missing = [need for need in _NEEDS.get(name, ()) if find_spec(need) is None]
    if missing:
        raise MissingToolError(
            f"search: {name} needs {' and '.join(missing)}, which is not installed",
            path="sweep.search",
            hint=f"pip install {' '.join(missing)}, or use `search: tpe`",
        )
    if name in ENUMERATING:
        _check_listed(name, spec)
    elif name == _FIXED and not any(space.size(item.space) == 1 for item in spec.parameters):
        _refuse(
            f"{name} leaves parameters of one choice alone, and there is none",
            "give a parameter one value, or use `search: tpe`",
        )
    elif name != _FIXED and (needs := _required(name)):
        _refuse(f"{name} needs {', '.join(needs)}, which no sweep has", "use `search: tpe`")


def make(known: Known, seed: int) -> BaseSampler:
    """The sampler of a sweep that `check` has let pass.

    Args:
        known: the sweep.
        seed: what it draws from; taken as 32 bits.
    """
    seed %= _SEEDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if known.spec.search == TPE:
            return _tpe(seed)
        name = resolve(known.spec.search)
        if name == _GRID:
            return optuna.samplers.GridSampler(known.listed, seed=seed)
        if name == _FIXED:
            return optuna.samplers.PartialFixedSampler(dict(known.fixed), _tpe(seed))
        made: Any = getattr(optuna.samplers, name)
        seeded = "seed" in inspect.signature(made).parameters
        sampler: BaseSampler = made(seed=seed) if seeded else made()
        return sampler


def _tpe(seed: int) -> BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, constant_liar=True)


def _check_listed(name: str, spec: SweepSpec) -> None:
    loose = [item.name for item in spec.parameters if space.size(item.space) is None]
    if loose:
        _refuse(
            f"{name} lists all that there is to try, and {', '.join(loose)} has no end of values",
            "write values or range for it, or use `search: tpe`",
        )
    total = space.grid_size(spec.parameters)
    if total > LISTED_MAX:
        _refuse(
            f"{name} lists all {total:,} combinations, and at most {LISTED_MAX:,} are possible",
            "use `search: random` or `search: tpe`",
        )


def _required(name: str) -> list[str]:
    """What a sampler wants to be told that we know nothing of."""
    parameters = inspect.signature(getattr(optuna.samplers, name)).parameters.values()
    packed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        one.name
        for one in parameters
        if one.default is one.empty and one.kind not in packed and one.name != "seed"
    ]


def _refuse(message: str, hint: str) -> None:
    raise InputError(message, path="sweep.search", hint=hint)
