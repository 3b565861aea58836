"""A sweep as a study of Optuna's, so that Optuna's own programs show it.

It is written by Optuna's public interface alone, and nothing of ours reads it. A state that Optuna
lacks is mapped to the nearest, with ours in the attributes.
"""

from __future__ import annotations

import math
import os
import warnings
from contextlib import ExitStack, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from allranks.errors import InputError, RunError
from allranks.sweep import early_stopping
from allranks.sweep.model import (
    MAXIMIZE,
    PENDING,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    IntUniform,
    LogUniform,
    Range,
    Space,
    Uniform,
    Values,
)
from allranks.sweep.reporting import optuna_database
from allranks.sweep.search import space

if TYPE_CHECKING:
    from collections.abc import Callable

    from optuna.storages import RDBStorage

    from allranks.sweep.model import Choice, SweepSpec, Trial
    from allranks.sweep.state import SweepState

# What a study that is written is known by, as its attribute.
EXPORT = "export"
# The attributes of our trials.
RELEASE, STATE, REASON, ATTEMPTS, CPU = "release", "state", "reason", "attempts", "cpu_seconds"

_STATES = {
    PENDING: TrialState.WAITING,
    RUNNING: TrialState.RUNNING,
    SUCCEEDED: TrialState.COMPLETE,
    STOPPED: TrialState.PRUNED,
}
# Databases have whole numbers of 32 bits for steps.
_STEP_MAX = 2**31 - 1
# So many trials are written between two calls of `on_written`.
_CHUNK = 20


def export(
    state: SweepState,
    url: str,
    study_name: str,
    *,
    overwrite: bool = False,
    on_written: Callable[[int], None] = lambda _count: None,
) -> None:
    """Write a sweep into a new study.

    Args:
        state: the sweep, which may be running: then it is written as it is now.
        url: the database, as SQLAlchemy takes it.
        study_name: what the study is called.
        overwrite: replace a study of that name.
        on_written: called with how many trials are written so far.

    Raises:
        InputError: there is a study of that name, the sweep has no objective, or the URL names no
            database that Optuna can use.
        MissingToolError: the database's driver is not installed.
        RunError: the database does not answer, or refuses, or another export replaces that study.
            What was written until then is removed, also after an interruption; or it is said that
            it is there.
    """
    objective = state.spec.objective
    if not objective.metric:
        raise InputError(
            f"the sweep {state.spec.name} has no metric, and a study of Optuna's is of its values",
            hint="`-o csv` of `sweep results` has all parameters and states",
        )
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    trials = [as_trial(state.spec, trial) for trial in state.trials.values()]
    is_max = objective.direction == MAXIMIZE
    direction = StudyDirection.MAXIMIZE if is_max else StudyDirection.MINIMIZE
    with ExitStack() as stack:
        storage = stack.enter_context(optuna_database.open_storage(url))
        if overwrite:
            stack.enter_context(optuna_database.alone(storage, study_name))
        is_replaced = overwrite and study_name in optuna.get_all_study_names(storage)
        note = ", and the one before it is gone" if is_replaced else ""
        study = _make(storage, study_name, direction, url, overwrite=overwrite)
        token = os.urandom(8).hex()
        try:
            _write(study, token, objective.metric, trials, on_written)
        except KeyError as error:
            raise _replaced_error(study_name) from error
        except optuna_database.ERRORS as error:
            refusal = optuna_database.refusal(error, url)
            remainder = _undone(storage, study, token)
            raise RunError(
                f"{refusal.problem.message}; {remainder}{note}",
                path="--optuna",
                hint=refusal.problem.hint,
            ) from error
        except (KeyboardInterrupt, SystemExit) as error:
            error.add_note(f"{_undone(storage, study, token)}{note}")
            raise


def _write(
    study: optuna.Study,
    token: str,
    metric: str,
    trials: list[FrozenTrial],
    on_written: Callable[[int], None],
) -> None:
    """Write trials into a study.

    Raises:
        KeyError: it is another one by now.
    """
    study.set_user_attr(EXPORT, token)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # names of metrics are new in Optuna
        study.set_metric_names([metric])
    for first in range(0, len(trials), _CHUNK):
        _require(study, token)
        study.add_trials(trials[first : first + _CHUNK])
        on_written(min(first + _CHUNK, len(trials)))
    _require(study, token)


def _require(study: optuna.Study, token: str) -> None:
    """Make sure that a study is the one that was made: SQLite gives the number of a removed one on.

    Raises:
        KeyError: it is another one.
    """
    if study.user_attrs.get(EXPORT) != token:
        raise KeyError(study.study_name)


def _replaced_error(name: str) -> RunError:
    """Return the error for a study that is another one's by now."""
    return RunError(
        f"another program has removed or replaced the study {name!r} meanwhile",
        path="--optuna",
        hint="see that nobody else writes it, then try again with --overwrite",
    )


def _make(
    storage: RDBStorage, name: str, direction: StudyDirection, url: str, *, overwrite: bool
) -> optuna.Study:
    """Make a study, in the place of one of that name where that is asked for.

    Raises:
        InputError: there is one of that name, or the database is none for studies.
        RunError: the database does not answer, or refuses.
    """
    try:
        if overwrite:
            with suppress(KeyError):
                optuna.delete_study(study_name=name, storage=storage)
        return optuna.create_study(study_name=name, storage=storage, direction=direction)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise InputError(
            f"there is a study {name!r} already",
            path="--optuna",
            hint="give this one another name with --study, or replace that one with --overwrite",
        ) from error
    except optuna_database.ERRORS as error:
        raise optuna_database.refusal(error, url) from error


def _undone(storage: RDBStorage, study: optuna.Study, token: str) -> str:
    """Remove a study that lacks trials; return what became of it.

    Args:
        storage: where it is.
        study: the study.
        token: what it is known by.
    """
    name = study.study_name
    try:
        _require(study, token)
        storage.delete_study(study._study_id)  # noqa: SLF001 - by its name it may be another's
    except KeyError:
        return f"another program has removed or replaced the study {name!r} meanwhile"
    except optuna_database.ERRORS:
        return f"the study {name!r} is there and lacks trials: replace it with --overwrite"
    return f"the study {name!r} was removed again, as it lacked trials"


def as_trial(spec: SweepSpec, trial: Trial) -> FrozenTrial:
    """Return a trial as Optuna's."""
    spaces = {parameter.name: parameter.space for parameter in spec.parameters}
    state = optuna_state(trial)
    now = datetime.now()  # noqa: DTZ005 - Optuna's own form
    start = None if trial.started is None else _local(trial.started)
    end = None if trial.ended is None else _local(trial.ended)
    return FrozenTrial(
        number=-1,  # Optuna numbers and identifies them as they are added
        trial_id=-1,
        state=state,
        value=trial.value if state == TrialState.COMPLETE else None,
        datetime_start=None if state == TrialState.WAITING else start or end or now,
        datetime_complete=(end or now) if state.is_finished() else None,
        params={
            name: show_choice(spaces[name], choice) for name, choice in trial.assignment.items()
        },
        distributions={name: distribution(spaces[name]) for name in trial.assignment},
        user_attrs=attributes(trial),
        system_attrs={},
        intermediate_values=_intermediate_values(trial),
    )


def optuna_state(trial: Trial) -> TrialState:
    """Return a trial's state in Optuna: a trial that ended without a value has failed."""
    state = _STATES.get(trial.state, TrialState.FAIL)
    has_value = trial.value is not None and not math.isnan(trial.value)
    return TrialState.FAIL if state == TrialState.COMPLETE and not has_value else state


def attributes(trial: Trial) -> dict[str, Any]:
    """Return the attributes of a trial in Optuna."""
    fields: dict[str, Any] = {RELEASE: trial.name, STATE: trial.state, ATTEMPTS: trial.attempts}
    if trial.reason:
        fields[REASON] = trial.reason
    if trial.cpu_seconds is not None:
        fields[CPU] = trial.cpu_seconds
    return fields


def distribution(of: Space) -> BaseDistribution:
    """Return the distribution of a space for the study, over its values, not their indices."""
    match of:
        case Uniform(low, high):
            return FloatDistribution(low, high)
        case LogUniform(low, high):
            return FloatDistribution(low, high, log=True)
        case IntUniform(low, high):
            return IntDistribution(low, high)
        case Values(choices):
            return CategoricalDistribution([_plain(of, choice) for choice in choices])
        case Range():
            last = space.choice(of, (space.size(of) or 1) - 1)
            first = space.choice(of, 0)
            if isinstance(first.data, int) and isinstance(last.data, int) and of.step % 1 == 0:
                return IntDistribution(first.data, last.data, step=int(of.step))
            return FloatDistribution(float(first.data), float(last.data), step=float(of.step))


def show_choice(of: Space, choice: Choice) -> Any:
    """Return a choice as a value of its distribution."""
    match of:
        case Values():
            return _plain(of, choice)
        case Uniform() | LogUniform():
            return float(choice.data)
        case IntUniform():
            return int(choice.data)
        case Range():
            return choice.data


def _intermediate_values(trial: Trial) -> dict[int, float]:
    """Return the reported values of a trial; of two values of a step the later one."""
    by_step = {
        early_stopping.step_of(trial.measures, index): measure.value
        for index, measure in enumerate(trial.measures)
    }
    return {step: value for step, value in by_step.items() if abs(step) <= _STEP_MAX}


def _plain(of: Values, choice: Choice) -> Any:
    """Return a listed value: as a number if all are distinct numbers, else as typed."""
    data = [value.data for value in of.choices]
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        for value in data
    )
    return choice.data if numbers and len(set(data)) == len(data) else choice.text


def _local(at: float) -> datetime:
    """Return a time as Optuna stores it: local time without a zone."""
    return datetime.fromtimestamp(at)  # noqa: DTZ006 - Optuna's own form
