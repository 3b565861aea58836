"""Searches of Optuna's, asked through its ask-and-tell interface. Only here is Optuna imported.

The journal is ours, so Optuna's own study lives in memory only, and is made again from the trials
whenever it is needed. TPE draws from a seed of its own for each trial: its k-th proposal follows
from what had been found by then, whether or not the runner was killed in between. Trials that run
are in the study, too, so that TPE (constant liar) does not propose the same place to all of them.
"""

from __future__ import annotations

import hashlib
import math
import warnings
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

from allranks.sweep import naming, samplers, space, stopping
from allranks.sweep.model import (
    MAXIMIZE,
    OPEN,
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
    from allranks.sweep.model import Assignment, SweepSpec, Trial
    from allranks.sweep.state import SweepState

optuna.logging.set_verbosity(optuna.logging.ERROR)


class OptunaSearch:
    """A sampler of Optuna's over the parameters of a sweep.

    Raises:
        InputError: Optuna has no sampler of that name.
        MissingToolError: it needs a library that is not installed.
    """

    def __init__(self, spec: SweepSpec) -> None:
        self._spec = spec
        samplers.check(spec)
        self._known = _known(spec)
        self._distributions = {item.name: _distribution(item.space) for item in spec.parameters}
        self._study = optuna.create_study(
            direction="maximize" if spec.objective.direction == MAXIMIZE else "minimize",
            sampler=samplers.make(self._known, spec.seed),
        )
        self._study.stop = _no_stop  # type: ignore[method-assign]
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
                self._study.sampler = samplers.make(
                    self._known, _seed(self._spec.seed, number, draw)
                )
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

    @property
    def _enumerates(self) -> bool:
        """Whether the sampler goes through a list, as it did before, whatever was found since."""
        return samplers.resolve(self._spec.search) in samplers.ENUMERATING

    def _tell(self, state: SweepState) -> None:
        """Take into the study what it does not know yet."""
        for number in range(self._added, len(state.trials)):
            trial = state.trials[number]
            # Samplers leave marks on what they proposed, so that is kept where it is at hand.
            asked = self._asked.pop(naming.canonical(trial.assignment), None)
            if asked is not None:
                self._running[number] = asked
            elif not self._enumerates:
                self._running[number] = self._add(trial)
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


def _known(spec: SweepSpec) -> samplers.Known:
    """What a sampler is told: its values as it sees them, where it lists them."""
    listed: dict[str, list[Any]] = {}
    if samplers.resolve(spec.search) in samplers.ENUMERATING:
        for item in spec.parameters:
            choices = (space.choice(item.space, at) for at in range(space.size(item.space) or 0))
            listed[item.name] = [_internal(item.space, one) for one in choices]
    fixed = {
        item.name: _internal(item.space, space.choice(item.space, 0))
        for item in spec.parameters
        if space.size(item.space) == 1
    }
    return samplers.Known(spec, listed, fixed)


def _no_stop() -> None:
    """What Optuna's samplers that have nothing more to say stop: a loop of Optuna's own."""


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
