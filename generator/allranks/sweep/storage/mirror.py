"""The trials of a sweep as Optuna's own, so that its programs show the sweep as any study.

They are written in the same transaction as the records that they follow from, so that the two never
disagree. Nothing of ours reads them: whatever becomes of them, they are made again from the
records. Of what Optuna knows no state for, the nearest stands there, and ours in the attributes.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.storages._rdb import models
from optuna.trial import TrialState

from allranks.sweep import space, stopping
from allranks.sweep.model import (
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.orm import Session

    from allranks.sweep.model import Choice, SweepSpec, Trial
    from allranks.sweep.state import SweepState

# What a trial of ours is marked with, and by what its number is found again.
RELEASE, STATE, REASON, ATTEMPTS, CPU = "release", "state", "reason", "attempts", "cpu_seconds"
NUMBER = "allranks:trial"

_STATES = {
    PENDING: TrialState.WAITING,
    RUNNING: TrialState.RUNNING,
    SUCCEEDED: TrialState.COMPLETE,
    STOPPED: TrialState.PRUNED,
}
# Databases have whole numbers of 32 bits for steps.
_STEP_MAX = 2**31 - 1


class Mirror:
    """The trials of one study, kept like those of a sweep."""

    def __init__(self, study: int, spec: SweepSpec) -> None:
        """Know nothing yet of what is there.

        Args:
            study: Optuna's number of the study.
            spec: the sweep.
        """
        self._study = study
        self._distributions = {item.name: distribution(item.space) for item in spec.parameters}
        self._spaces = {item.name: item.space for item in spec.parameters}
        # By our number: Optuna's own, and what was written of it.
        self._known: dict[int, tuple[int, Trial]] = {}

    def write(self, session: Session, state: SweepState, numbers: Iterable[int]) -> None:
        """Bring some trials up to date.

        Args:
            session: the transaction.
            state: the sweep.
            numbers: the trials that have changed.
        """
        for number in sorted(set(numbers)):
            trial = state.trials[number]
            identifier, before = self._known.get(number, (0, None))
            if identifier == 0:
                identifier = self._add(session, trial)
            self._update(session, identifier, trial, before)
            self._known[number] = identifier, trial

    def remake(self, session: Session, state: SweepState) -> None:
        """Make whatever is missing or otherwise than the records have it, when a writer begins."""
        own, marks = models.TrialModel, models.TrialSystemAttributeModel
        query = (
            session.query(marks.value_json, own.trial_id, own.state)
            .join(own, own.trial_id == marks.trial_id)
            .filter(own.study_id == self._study, marks.key == NUMBER)
        )
        found = {int(mark): (identifier, is_in) for mark, identifier, is_in in query}
        for number, trial in state.trials.items():
            identifier, is_in = found.get(number, (0, None))
            if identifier and is_in == optuna_state(trial) and number not in state.open:
                self._known[number] = identifier, trial
                continue
            identifier = identifier or self._add(session, trial)
            self._update(session, identifier, trial, None)
            self._known[number] = identifier, trial

    def _add(self, session: Session, trial: Trial) -> int:
        """A new trial with its parameters; Optuna's number of it."""
        # Who else adds trials waits for this lock, too; so the number is this one's alone.
        models.StudyModel.find_or_raise_by_id(self._study, session, for_update=True)
        row = models.TrialModel(study_id=self._study, number=None, state=TrialState.WAITING)
        session.add(row)
        session.flush()
        row.number = row.count_past_trials(session)
        identifier = int(row.trial_id)
        mark = models.TrialSystemAttributeModel(
            trial_id=identifier, key=NUMBER, value_json=str(trial.number)
        )
        session.add(mark)
        for name, chosen in trial.assignment.items():
            of = self._distributions[name]
            session.add(
                models.TrialParamModel(
                    trial_id=identifier,
                    param_name=name,
                    param_value=of.to_internal_repr(shown(self._spaces[name], chosen)),
                    distribution_json=distribution_to_json(of),
                )
            )
        session.flush()
        return identifier

    def _update(
        self, session: Session, identifier: int, trial: Trial, before: Trial | None
    ) -> None:
        row = session.get_one(models.TrialModel, identifier)
        row.state = optuna_state(trial)
        row.datetime_start = None if trial.started is None else _local(trial.started)
        row.datetime_complete = None if trial.ended is None else _local(trial.ended)
        _replace(session, models.TrialUserAttributeModel, identifier, attributes(trial))
        done = () if before is None else before.measures
        if before is None or trial.measures[: len(done)] != done:
            table = models.TrialIntermediateValueModel
            session.query(table).filter(table.trial_id == identifier).delete()
            done = ()
        self._measured(session, identifier, trial, len(done))
        values = models.TrialValueModel
        session.query(values).filter(values.trial_id == identifier).delete()
        if row.state == TrialState.COMPLETE and trial.value is not None:
            stored, kind = values.value_to_stored_repr(trial.value)
            session.add(values(trial_id=identifier, objective=0, value=stored, value_type=kind))

    def _measured(self, session: Session, identifier: int, trial: Trial, first: int) -> None:
        """What the trial has reported; of two values of a step the later one."""
        table = models.TrialIntermediateValueModel
        found = {
            stopping.step_of(trial.measures, index): trial.measures[index].value
            for index in range(first, len(trial.measures))
        }
        kept = {step: value for step, value in found.items() if abs(step) <= _STEP_MAX}
        if kept and first:
            session.query(table).filter(
                table.trial_id == identifier, table.step.in_(sorted(kept))
            ).delete()
        for step, value in kept.items():
            stored, kind = table.intermediate_value_to_stored_repr(value)
            session.add(
                table(
                    trial_id=identifier,
                    step=step,
                    intermediate_value=stored,
                    intermediate_value_type=kind,
                )
            )


def optuna_state(trial: Trial) -> TrialState:
    """A trial's state as Optuna has it: whatever has ended without a value has failed."""
    return _STATES.get(trial.state, TrialState.FAIL)


def attributes(trial: Trial) -> dict[str, Any]:
    """What a person reads of a trial besides, as its attributes in Optuna."""
    found: dict[str, Any] = {RELEASE: trial.name, STATE: trial.state, ATTEMPTS: trial.attempts}
    if trial.reason:
        found[REASON] = trial.reason
    if trial.cpu_seconds is not None:
        found[CPU] = trial.cpu_seconds
    return found


def distribution(of: Space) -> BaseDistribution:
    """What a space is to a person who looks at the study: with its own values, not their places."""
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


def shown(of: Space, choice: Choice) -> Any:
    """A choice as the distribution has it."""
    match of:
        case Values():
            return _plain(of, choice)
        case Uniform() | LogUniform():
            return float(choice.data)
        case IntUniform():
            return int(choice.data)
        case Range():
            return choice.data


def _plain(of: Values, choice: Choice) -> Any:
    """A value of a list: a number where all are, and none twice; else as it was typed."""
    data = [each.data for each in of.choices]
    numbers = all(
        isinstance(each, int | float) and not isinstance(each, bool) and math.isfinite(each)
        for each in data
    )
    return choice.data if numbers and len(set(data)) == len(data) else choice.text


def _replace(session: Session, table: Any, identifier: int, wanted: Mapping[str, Any]) -> None:
    """Give a trial these attributes, and no others."""
    there = {row.key: row for row in session.query(table).filter(table.trial_id == identifier)}
    for key, value in wanted.items():
        text = json.dumps(value)
        if key not in there:
            session.add(table(trial_id=identifier, key=key, value_json=text))
        elif there[key].value_json != text:
            there[key].value_json = text
    for key in there.keys() & {REASON, CPU} - wanted.keys():
        session.execute(
            sqlalchemy.delete(table).where(table.trial_id == identifier, table.key == key)
        )


def _local(at: float) -> datetime:
    """A time as Optuna takes it: without a zone, as a clock on this machine's wall shows it."""
    return datetime.fromtimestamp(at)  # noqa: DTZ006 - Optuna's own form
