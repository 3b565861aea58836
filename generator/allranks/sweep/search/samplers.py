"""Create Optuna's samplers by name, or refuse one that a sweep cannot have, with the reason.

Most samplers need a seed alone. Some need the search space, too: `GridSampler` and
`BruteForceSampler` go through it and never look at a result, `PartialFixedSampler` leaves
parameters of one choice alone.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import optuna

from allranks.errors import InputError, MissingToolError
from allranks.schema import suggestions
from allranks.sweep.model import GRID, RANDOM, TPE
from allranks.sweep.search import space

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optuna.samplers import BaseSampler

    from allranks.sweep.model import SweepSpec

_SEEDS = 2**32
_SUFFIX = "Sampler"
_GRID, _ALL, _FIXED = "GridSampler", "BruteForceSampler", "PartialFixedSampler"
# Samplers that go through a list of combinations; their position follows from their proposals
# alone.
ENUMERATING = frozenset({_GRID, _ALL})
# The most combinations of such a list, which is in memory.
LISTED_MAX = 100_000
# The modules that samplers import only when they are used, which may be late in a sweep.
_NEEDS = {
    "CmaEsSampler": ("cmaes",),
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
}


@dataclass(frozen=True, slots=True)
class SamplerInput:
    """The input of a sampler.

    Attributes:
        spec: the sweep.
        listed: the internal values of each parameter, by name; empty unless the sampler enumerates.
        fixed: the internal value of each parameter that has one choice only, by name.
    """

    spec: SweepSpec
    listed: Mapping[str, Sequence[Any]]
    fixed: Mapping[str, Any]


def names() -> list[str]:
    """Return the names of the samplers of the installed Optuna, in alphabetical order."""
    classes = ((item, getattr(optuna.samplers, item)) for item in optuna.samplers.__all__)
    return sorted(
        name
        for name, item in classes
        if name.endswith(_SUFFIX) and inspect.isclass(item) and not inspect.isabstract(item)
    )


def resolve(search: str) -> str:
    """Return a sampler's full name, also from one in other case or without its ending: ``cmaes``.

    Raises:
        InputError: Optuna has none of that name.
    """
    usable = [item.removesuffix(_SUFFIX) for item in names()]
    bare = search[: -len(_SUFFIX)] if search.lower().endswith(_SUFFIX.lower()) else search
    own = {item.lower(): item for item in usable}.get(bare.lower())
    if own is not None:
        return own + _SUFFIX
    ours = [GRID, RANDOM, TPE]
    near = suggestions.nearest(search, ours) or suggestions.nearest(bare, usable)
    near = near if near in ours or not near else f"{near}{_SUFFIX}"
    choices = [*ours, *names()]
    hint = f"did you mean {near}?" if near else f"use one of {', '.join(choices)}"
    raise InputError(f"there is no search {search!r}", path="sweep.search", hint=hint)


def check(spec: SweepSpec) -> None:
    """Refuse a sampler that this sweep cannot have, before anything starts.

    Raises:
        InputError: there is no such sampler, or it does not fit the parameters.
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
    elif name != _FIXED and (needs := _required_arguments(name)):
        _refuse(
            f"{name} needs {', '.join(needs)}, which a sweep cannot give it", "use `search: tpe`"
        )


def make(inputs: SamplerInput, seed: int) -> BaseSampler:
    """Create the sampler of a sweep that has passed `check`.

    Args:
        inputs: the sweep and its values.
        seed: of its random numbers; the lower 32 bits are used.
    """
    seed %= _SEEDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if inputs.spec.search == TPE:
            return _tpe(seed)
        name = resolve(inputs.spec.search)
        if name == _GRID:
            return optuna.samplers.GridSampler(inputs.listed, seed=seed)
        if name == _FIXED:
            return optuna.samplers.PartialFixedSampler(dict(inputs.fixed), _tpe(seed))
        sampler_class: Any = getattr(optuna.samplers, name)
        seeded = "seed" in inspect.signature(sampler_class).parameters
        sampler: BaseSampler = sampler_class(seed=seed) if seeded else sampler_class()
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


def _required_arguments(name: str) -> list[str]:
    """Return the required arguments of a sampler that we cannot give."""
    parameters = inspect.signature(getattr(optuna.samplers, name)).parameters.values()
    packed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind not in packed
        and parameter.name != "seed"
    ]


def _refuse(message: str, hint: str) -> None:
    raise InputError(message, path="sweep.search", hint=hint)
