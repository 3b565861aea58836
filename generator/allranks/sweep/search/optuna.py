"""Searches by Optuna's samplers, through its ask-and-tell interface.

The journal is ours, so Optuna's study is in memory only, and is rebuilt from the trials whenever it
is needed. TPE draws from a seed of its own for each trial: its k-th proposal follows from the
results by then, whether or not the runner was killed in between. Running trials are in the study,
too, so that TPE (constant liar) does not propose the same point to all of them.
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

from allranks.sweep import early_stopping, naming
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
from allranks.sweep.search import samplers, space
from allranks.sweep.search.base import DRAWS, free

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
        self._sampler_input = _sampler_input(spec)
        self._distributions = {item.name: _distribution(item.space) for item in spec.parameters}
        self._study = optuna.create_study(
            direction="maximize" if spec.objective.direction == MAXIMIZE else "minimize",
            sampler=samplers.make(self._sampler_input, spec.seed),
        )
        self._study.stop = _no_stop  # type: ignore[method-assign]
        # Proposals that are not trials yet: the study's number by parameters.
        self._proposed: dict[str, int] = {}
        # Running trials of the study: the study's number by ours.
        self._running: dict[int, int] = {}
        self._added = 0

    def propose(self, number: int, state: SweepState) -> Assignment | None:
        """Return the sampler's next proposal that was not tried before."""
        self._sync(state)
        for draw in range(DRAWS + (0 if self._reseeded else len(state.by_parameters))):
            if self._reseeded:
                self._study.sampler = samplers.make(
                    self._sampler_input, _seed(self._spec.seed, number, draw)
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                study_trial = self._study.ask(self._distributions)
            assignment = self._assignment(study_trial.params)
            parameters = naming.canonical(assignment)
            if parameters not in state.by_parameters:
                self._proposed[parameters] = study_trial.number
                return assignment
            # A failed trial tells the sampler nothing.
            self._study.tell(study_trial, state=TrialState.FAIL)
        return free(self._spec, number, state)

    @property
    def _reseeded(self) -> bool:
        return self._spec.search == TPE

    @property
    def _enumerates(self) -> bool:
        """Whether the sampler goes through a list, whatever the results."""
        return samplers.resolve(self._spec.search) in samplers.ENUMERATING

    def _sync(self, state: SweepState) -> None:
        """Bring the study up to date with the trials of the sweep."""
        for number in range(self._added, len(state.trials)):
            trial = state.trials[number]
            # Samplers leave attributes on their own proposals, so those trials are reused.
            study_number = self._proposed.pop(naming.canonical(trial.assignment), None)
            if study_number is not None:
                self._running[number] = study_number
            elif not self._enumerates:
                self._running[number] = self._add(trial)
        self._added = len(state.trials)
        for number in [own for own in self._running if state.trials[own].state not in OPEN]:
            self._end(self._running.pop(number), state.trials[number])

    def _add(self, trial: Trial) -> int:
        """Add the trial to the study as a running one; return its number there."""
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
        """Report the measures of a stopped trial: samplers compare such trials by their step."""
        storage = self._study._storage  # noqa: SLF001 - the only way to a trial that was not asked
        identifier = storage.get_trial_id_from_study_id_trial_number(
            self._study._study_id,  # noqa: SLF001
            number,
        )
        for index, measure in enumerate(trial.measures):
            if math.isfinite(measure.value):
                step = early_stopping.step_of(trial.measures, index)
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


def _sampler_input(spec: SweepSpec) -> samplers.SamplerInput:
    """Return the input of a sampler, with its list of values if it enumerates them."""
    choices_by_name: dict[str, list[Any]] = {}
    if samplers.resolve(spec.search) in samplers.ENUMERATING:
        for item in spec.parameters:
            choices = (space.choice(item.space, at) for at in range(space.size(item.space) or 0))
            choices_by_name[item.name] = [_internal(item.space, choice) for choice in choices]
    fixed = {
        item.name: _internal(item.space, space.choice(item.space, 0))
        for item in spec.parameters
        if space.size(item.space) == 1
    }
    return samplers.SamplerInput(spec, choices_by_name, fixed)


def _no_stop() -> None:
    """Do nothing: exhausted samplers stop the loop of a study, and ours has none."""


def _distribution(of: Space) -> BaseDistribution:
    """Return the distribution of a space for a sampler.

    For values that can be counted and have an order it is over their indices, so that no rounding
    is needed to find a value again.
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
            if _is_ordered(of):
                return IntDistribution(0, len(choices) - 1)
            return CategoricalDistribution([choice.text for choice in choices])


def _is_ordered(of: Values) -> bool:
    """Whether the values are numbers, each above the last."""
    data = [choice.data for choice in of.choices]
    if any(isinstance(value, bool | str) for value in data):
        return False
    numbers = [float(value) for value in data]
    return all(number < other for number, other in pairwise(numbers))


def _choice(of: Space, sampled: Any) -> Choice:
    match of:
        case Uniform() | LogUniform():
            return space.number(float(sampled))
        case IntUniform():
            return space.integer(int(sampled))
        case Values(choices) if not _is_ordered(of):
            return next(choice for choice in choices if choice.text == sampled)
        case _:
            # Beyond 2**53 a sampler's numbers are not exact, and may exceed the last index.
            return space.choice(of, min(int(sampled), (space.size(of) or 1) - 1))


def _internal(of: Space, choice: Choice) -> Any:
    match of:
        case Uniform() | LogUniform():
            return float(choice.data)
        case IntUniform():
            return int(choice.data)
        case Values(choices):
            return choices.index(choice) if _is_ordered(of) else choice.text
        case Range():
            return space.index(of, choice)
