"""Searches of Optuna's, asked through its ask-and-tell interface. Only here is Optuna imported.

The journal is ours, so Optuna's own study lives in memory only, and is made again from the trials
whenever it is needed. TPE draws from a seed of its own for each trial: its k-th proposal follows
from what had been found by then, whether or not the runner was killed in between. Trials that run
are in the study, too, so that TPE (constant liar) does not propose the same place to all of them.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import warnings
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from allranks.errors import InputError, MissingToolError
from allranks.schema import suggest
from allranks.sweep import naming, space, stopping
from allranks.sweep.model import (
    GRID,
    MAXIMIZE,
    OPEN,
    RANDOM,
    STOPPED,
    SUCCEEDED,
    TPE,
    Choice,
    IntUniform,
    LogUniform,
    Range,
    Space,
    Uniform,
    Values,
)
from allranks.sweep.sampling import DRAWS, free

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from allranks.sweep.model import Assignment, SweepSpec, Trial
    from allranks.sweep.state import SweepState

optuna.logging.set_verbosity(optuna.logging.ERROR)

_SEEDS = 2**32
_SUFFIX = "Sampler"
# No searches of their own, or those that we have ourselves: a grid, and all of it.
_UNUSABLE = frozenset({"BaseSampler", "BruteForceSampler", "GridSampler", "PartialFixedSampler"})
# What samplers import when they are used, which may be late in a sweep.
_NEEDS = {
    "CmaEsSampler": ("cmaes",),
    "GPSampler": ("scipy", "torch"),
    "QMCSampler": ("scipy",),
}


class OptunaSearch:
    """A sampler of Optuna's over the parameters of a sweep.

    Raises:
        InputError: Optuna has no sampler of that name.
        MissingToolError: it needs a library that is not installed.
    """

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec
        self._distributions = {item.name: _distribution(item.space) for item in spec.parameters}
        self._study = optuna.create_study(
            direction="maximize" if spec.objective.direction == MAXIMIZE else "minimize",
            sampler=_sampler(spec, spec.seed),
        )
        # What was proposed and is not known to be a trial yet: the study's number by parameters.
        self._asked: dict[str, int] = {}
        # Trials that the study knows as running: the study's number of each.
        self._running: dict[int, int] = {}
        self._added = 0

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """The sampler's next proposal that is new; what was tried before is asked for again."""
        self._tell(state)
        for draw in range(DRAWS + (0 if self._reseeded else len(state.known))):
            if self._reseeded:
                self._study.sampler = _sampler(self._spec, _seed(self._spec.seed, number, draw))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                asked = self._study.ask(self._distributions)
            found = self._assignment(asked.params)
            parameters = naming.canonical(found)
            if parameters not in state.known:
                self._asked[parameters] = asked.number
                return found
            # What a sampler is told of a trial that failed is nothing at all.
            self._study.tell(asked, state=TrialState.FAIL)
        return free(self._spec, number, state)

    @property
    def _reseeded(self) -> bool:
        return self._spec.search == TPE

    def _tell(self, state: SweepState) -> None:
        """Take into the study what it does not know yet."""
        for number in range(self._added, len(state.trials)):
            trial = state.trials[number]
            # Samplers leave marks on what they proposed, so that is kept where it is at hand.
            asked = self._asked.pop(naming.canonical(trial.assignment), None)
            self._running[number] = self._add(trial) if asked is None else asked
        self._added = len(state.trials)
        for number in [own for own in self._running if state.trials[own].state not in OPEN]:
            self._end(self._running.pop(number), state.trials[number])

    def _add(self, trial: Trial) -> int:
        """The trial as one that runs; its number in the study."""
        frozen = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=self._params(trial.assignment),
            distributions=self._distributions,
        )
        self._study.add_trial(frozen)
        return self._study._storage.get_n_trials(self._study._study_id) - 1  # noqa: SLF001

    def _end(self, number: int, trial: Trial) -> None:
        if trial.state == SUCCEEDED and trial.value is not None:
            self._study.tell(number, trial.value)
        elif trial.state == STOPPED and trial.measures:
            self._report(number, trial)
            self._study.tell(number, state=TrialState.PRUNED)
        else:
            self._study.tell(number, state=TrialState.FAIL)

    def _report(self, number: int, trial: Trial) -> None:
        """Where the trial was when it was stopped: samplers compare such trials by their step."""
        storage = self._study._storage  # noqa: SLF001 - the only way to a trial that was not asked
        identifier = storage.get_trial_id_from_study_id_trial_number(
            self._study._study_id,  # noqa: SLF001
            number,
        )
        for index, measure in enumerate(trial.measures):
            if math.isfinite(measure.value):
                step = stopping.step_of(trial.measures, index)
                storage.set_trial_intermediate_value(identifier, step, measure.value)

    def _assignment(self, params: dict[str, Any]) -> Assignment:
        return {item.name: _choice(item.space, params[item.name]) for item in self._spec.parameters}

    def _params(self, assignment: Assignment) -> dict[str, Any]:
        return {
            item.name: _internal(item.space, assignment[item.name])
            for item in self._spec.parameters
        }


def _seed(seed: int, number: int, draw: int) -> int:
    digest = hashlib.sha256(f"{seed}/{number}/{draw}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def _sampler(spec: SweepSpec, seed: int) -> BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if spec.search == TPE:
            return optuna.samplers.TPESampler(seed=seed % _SEEDS, constant_liar=True)
        return _named(spec.search, seed % _SEEDS)


def usable() -> list[str]:
    """The samplers of Optuna's that can be named."""
    return sorted(
        item for item in optuna.samplers.__all__ if item.endswith(_SUFFIX) and item not in _UNUSABLE
    )


def _named(name: str, seed: int) -> BaseSampler:
    """The sampler of a name as Optuna has it, or without its ending: ``CmaEs``."""
    known = [item.removesuffix(_SUFFIX) for item in usable()]
    bare = name[: -len(_SUFFIX)] if name.lower().endswith(_SUFFIX.lower()) else name
    own = {item.lower(): item for item in known}.get(bare.lower())
    if own is None:
        ours = [GRID, RANDOM, TPE]
        listed = [*ours, *(f"{item}{_SUFFIX}" for item in known)]
        near = suggest.nearest(name, ours) or suggest.nearest(bare, known)
        near = near if near in ours or not near else f"{near}{_SUFFIX}"
        hint = f"did you mean {near}?" if near else f"use one of {', '.join(listed)}"
        raise InputError(f"there is no search {name!r}", path="sweep.search", hint=hint)
    found = own + _SUFFIX
    missing = [need for need in _NEEDS.get(found, ()) if find_spec(need) is None]
    if missing:
        raise MissingToolError(
            f"search: {found} needs {' and '.join(missing)}, which is not installed",
            path="sweep.search",
            hint=f"pip install {' '.join(missing)}, or use `search: tpe`",
        )
    made: Any = getattr(optuna.samplers, found)
    seeded = "seed" in inspect.signature(made).parameters
    sampler: BaseSampler = made(seed=seed) if seeded else made()
    return sampler


def _distribution(of: Space) -> BaseDistribution:
    """What a sampler sees of a space.

    Of values that can be counted and have an order it sees the index, so that no rounding is ever
    needed to find one again.
    """
    match of:
        case Uniform(low, high):
            return FloatDistribution(low, high)
        case LogUniform(low, high):
            return FloatDistribution(low, high, log=True)
        case IntUniform(least, most):
            return IntDistribution(least, most)
        case Range():
            return IntDistribution(0, (space.size(of) or 1) - 1)
        case Values(choices):
            if _ordered(of):
                return IntDistribution(0, len(choices) - 1)
            return CategoricalDistribution([choice.text for choice in choices])


def _ordered(of: Values) -> bool:
    """Whether the values are numbers, each above the last."""
    data = [choice.data for choice in of.choices]
    if any(isinstance(value, bool | str) for value in data):
        return False
    numbers = [float(value) for value in data]
    return all(one < other for one, other in pairwise(numbers))


def _choice(of: Space, drawn: Any) -> Choice:
    match of:
        case Uniform() | LogUniform():
            return space.number(float(drawn))
        case IntUniform():
            return space.whole(int(drawn))
        case Values(choices) if not _ordered(of):
            return next(choice for choice in choices if choice.text == drawn)
        case _:
            # Beyond 2**53 a sampler's numbers are not exact, and may fall behind the last.
            return space.choice(of, min(int(drawn), (space.size(of) or 1) - 1))


def _internal(of: Space, choice: Choice) -> Any:
    match of:
        case Uniform() | LogUniform():
            return float(choice.data)
        case IntUniform():
            return int(choice.data)
        case Values(choices):
            return choices.index(choice) if _ordered(of) else choice.text
        case Range():
            return space.index(of, choice)
