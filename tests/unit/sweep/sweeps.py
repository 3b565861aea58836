"""Sweeps of made-up trials, for the tests of results, pictures and the report."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from allranks.sweep.model import (
    FAILED,
    HALVING,
    MAXIMIZE,
    RUNNING,
    STOPPED,
    SUCCEEDED,
    TPE,
    UNMEASURED,
    Choice,
    EarlyStopping,
    LogUniform,
    Measure,
    Objective,
    Parameter,
    Reach,
    SweepSpec,
    Trial,
    TrialSpec,
    Values,
)
from allranks.sweep.reporting.results import Results, collect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BATCHES = (16, 32, 64, 128)
_STARTED = 1_700_000_000.0


def spec_of(
    *names: str,
    metric: str = "accuracy",
    direction: str = MAXIMIZE,
    goal: float | None = None,
    name: str = "s",
) -> SweepSpec:
    """A sweep of parameters of one value each; trials say what they really have."""
    space = Values((Choice("1", 1),))
    parameters = tuple(
        Parameter(parameter_name, space, (Reach("arg", f"--{parameter_name}"),))
        for parameter_name in names
    )
    return SweepSpec(name, parameters, Objective(metric, direction, goal), TrialSpec("torchrun"))


def trial_of(
    number: int,
    value: float | None = None,
    state: str = SUCCEEDED,
    *,
    assignment: Mapping[str, Choice] | None = None,
    reason: str = "",
    curve: Sequence[float] = (),
    cpu_seconds: float | None = None,
) -> Trial:
    """A trial that took ten seconds."""
    return Trial(
        number,
        f"s-{number:08x}",
        assignment or {},
        state,
        value,
        tuple(
            Measure("accuracy", accuracy, step, 0.0) for step, accuracy in enumerate(curve, start=1)
        ),
        attempts=1,
        started=_STARTED + number,
        ended=None if state == RUNNING else _STARTED + number + 10,
        reason=reason,
        cpu_seconds=cpu_seconds,
    )


def chance(seed: int) -> random.Random:
    """Chance that is the same each time."""
    return random.Random(seed)  # noqa: S311 - no secrets are made of it


def digits(count: int = 40, seed: int = 3) -> Results:
    """A sweep as they are: curves, trials in most states, one parameter that matters most."""
    draw = chance(seed)
    parameters = (
        Parameter("lr", LogUniform(1e-4, 1.0), (Reach("arg", "--lr"),)),
        Parameter("batchSize", Values(tuple(Choice(str(size), size) for size in _BATCHES))),
        Parameter("optimizer", Values((Choice("sgd", "sgd"), Choice("adam", "adam")))),
    )
    spec = SweepSpec(
        "digits",
        parameters,
        Objective("accuracy", MAXIMIZE, 0.98),
        TrialSpec("torchrun"),
        search=TPE,
        trials=count,
        parallel=2,
        early=EarlyStopping(HALVING, 3, 3),
    )
    return collect(spec, [_random_trial(number, count, draw) for number in range(count)])


def _random_trial(number: int, count: int, draw: random.Random) -> Trial:
    lr = 10 ** draw.uniform(-4, 0)
    batch, optimizer = draw.choice(_BATCHES), draw.choice(("sgd", "adam"))
    top = 0.985 - 0.12 * abs(math.log10(lr) + 1.2) + draw.gauss(0, 0.005)
    curve = [round(top * (1 - math.exp(-step / 4)), 4) for step in range(1, 28)]
    curve = curve[: 3 if top < 0.8 else 9 if top < 0.92 else 27]
    state, reason, value = SUCCEEDED, "", curve[-1]
    if len(curve) < 27:
        state, reason = STOPPED, f"stopped at step {len(curve)}: not among the best third"
    assignment = {
        "lr": Choice(repr(lr), lr),
        "batchSize": Choice(str(batch), batch),
        "optimizer": Choice(optimizer, optimizer),
    }
    spent = 3.4 + 0.15 * len(curve)
    if number == count - 1:
        return trial_of(number, value, RUNNING, assignment=assignment, curve=curve)
    if number == 7:
        return trial_of(
            number, None, FAILED, assignment=assignment, reason="exit code 1: loss is nan"
        )
    if number == 12:
        return trial_of(
            number, None, UNMEASURED, assignment=assignment, reason="no line with accuracy"
        )
    return trial_of(
        number, value, state, assignment=assignment, reason=reason, curve=curve, cpu_seconds=spent
    )
