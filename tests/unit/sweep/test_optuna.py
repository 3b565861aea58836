"""Searches: the same seed gives the same trials, and no trial comes twice."""

from __future__ import annotations

import builtins
import math
import sys
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, MissingToolError
from allranks.sweep import naming, records
from allranks.sweep.model import (
    FAILED,
    MINIMIZE,
    STOPPED,
    SUCCEEDED,
    UNMEASURED,
    Assignment,
    Choice,
    IntUniform,
    LogUniform,
    Measure,
    Objective,
    Parameter,
    Range,
    SweepSpec,
    TrialSpec,
    Uniform,
    Values,
)
from allranks.sweep.search import factory, samplers
from allranks.sweep.state import SweepState

MIXED = (
    Parameter("lr", LogUniform(1e-5, 1.0)),
    Parameter("momentum", Uniform(0.5, 0.99)),
    Parameter("layers", IntUniform(1, 8)),
    Parameter("batch", Range(Decimal(16), Decimal(256), Decimal(16))),
    Parameter("decay", Values((Choice("1e-5", 1e-5), Choice("0.10", 0.1)))),
    Parameter("optimizer", Values((Choice("sgd", "sgd"), Choice("adam", "adam")))),
)
SMALL = (
    Parameter("a", Values((Choice("x", "x"), Choice("y", "y")))),
    Parameter("b", Range(Decimal(1), Decimal(3), Decimal(1))),
)


def sweep(search: str, parameters: tuple[Parameter, ...] = MIXED, **changes: Any) -> SweepSpec:
    """A sweep with a search."""
    fields: dict[str, Any] = {"trials": 40, "search": search, "seed": 1}
    objective = Objective("loss", MINIMIZE)
    return SweepSpec("s", parameters, objective, TrialSpec("torchrun"), **{**fields, **changes})


def loss(assignment: Assignment) -> float:
    """What a trial measures: least for lr 0.01 and momentum 0.9."""
    lr, momentum = assignment.get("lr"), assignment.get("momentum")
    if lr is None or momentum is None:
        return 0.0
    return (math.log10(float(lr.data)) + 2) ** 2 + (float(momentum.data) - 0.9) ** 2


class Study:
    """A sweep that is searched step by step."""

    def __init__(self, spec: SweepSpec) -> None:
        self.state = SweepState(spec, 0.0)
        self.search = factory.make(spec)

    def ask(self) -> Assignment | None:
        """The next trial, which is written down."""
        number = len(self.state.trials)
        assignment = self.search.propose(number, self.state)
        if assignment is not None:
            name = naming.trial_name("s", assignment, self.state.names())
            self.state.apply(records.trial(number, name, assignment, 0.0))
            self.state.apply({"t": "start", "n": number, "attempt": 1, "at": 0.0})
        return assignment

    def tell(self, number: int, state: str = SUCCEEDED) -> None:
        """How a trial ended."""
        value = loss(self.state.trials[number].assignment)
        for record in records.measures(number, [(0, Measure("loss", value, 1))]):
            self.state.apply(record)
        final_value = value if state == SUCCEEDED else None
        end = {
            "t": "end",
            "n": number,
            "state": state,
            "v": final_value,
            "why": "",
            "cpu": None,
            "at": 0.0,
        }
        self.state.apply(end)

    def restart(self) -> None:
        """Forget everything that is not written down."""
        self.search = factory.make(self.state.spec)

    def run(self, count: int, *, restart: bool = False) -> list[str]:
        """So many trials, one after the other."""
        for number in range(count):
            if restart:
                self.restart()
            assert self.ask() is not None
            self.tell(number)
        return list(self.state.by_parameters)


@pytest.mark.parametrize("search", ["random", "tpe"])
def test_a_seed_decides_every_trial_and_a_restart_none(search: str) -> None:
    """The k-th proposal follows from what was found by then."""
    spec = sweep(search)
    whole = Study(spec).run(16)
    assert whole == Study(spec).run(16)
    assert whole == Study(spec).run(16, restart=True)
    assert whole != Study(sweep(search, seed=2)).run(16)


@pytest.mark.parametrize("search", ["random", "tpe", "qmc", "NSGAIISampler"])
def test_every_value_is_one_of_its_space(search: str) -> None:
    """Its text is one that was typed, or the shortest that reads back."""
    study = Study(sweep(search))
    study.run(12)
    for trial in study.state.trials.values():
        assignment = trial.assignment
        assert [item.name for item in MIXED] == list(assignment)
        assert 1e-5 <= float(assignment["lr"].data) <= 1.0
        assert assignment["lr"].text == repr(assignment["lr"].data)
        assert assignment["layers"].data in range(1, 9)
        assert assignment["batch"].text in {str(size) for size in range(16, 257, 16)}
        assert assignment["decay"].text in {"1e-5", "0.10"}
        assert assignment["optimizer"].text in {"sgd", "adam"}


@pytest.mark.parametrize("search", ["grid", "random", "tpe", "QMC"])
def test_each_combination_comes_once_and_then_there_is_none(search: str) -> None:
    """However a search repeats itself."""
    study = Study(sweep(search, SMALL))
    assert 6 == len(study.run(6))
    assert study.ask() is None
    assert study.ask() is None


def test_tpe_finds_better_than_chance() -> None:
    """After thirty trials, in the median of several seeds."""
    best: dict[str, list[float]] = {"random": [], "tpe": []}
    for seed in range(5):
        for search, losses in best.items():
            study = Study(sweep(search, MIXED[:2], seed=seed))
            study.run(30)
            losses.append(min(loss(trial.assignment) for trial in study.state.trials.values()))
    assert sorted(best["tpe"])[2] < sorted(best["random"])[2]


@pytest.mark.parametrize("search", samplers.names())
def test_every_sampler_of_optuna_runs_a_sweep(search: str) -> None:
    """Each one that can be made, over all that it can search, with a restart on the way."""
    fixed = Parameter("optimizer", Values((Choice("sgd", "sgd"),)))
    parameters = (*(MIXED[3:5] if search in samplers.ENUMERATING else MIXED[:5]), fixed)
    study = Study(sweep(search, parameters))
    for _ in range(2):
        study.ask()
    for number in range(12):
        study.tell(number, STOPPED if number == 3 else SUCCEEDED)
        if number == 8:
            study.restart()
        assert study.ask() is not None
    assert {"sgd"} == {trial.assignment["optimizer"].text for trial in study.state.trials.values()}


@pytest.mark.parametrize("search", sorted(samplers.ENUMERATING))
def test_samplers_that_list_go_through_all_of_it(search: str) -> None:
    """Each combination once, whatever became of the others, and a restart forgets none."""
    study = Study(sweep(search, SMALL))
    for number in range(6):
        assert study.ask() is not None
        study.tell(number, [SUCCEEDED, FAILED, UNMEASURED][number % 3])
        if number == 2:
            study.restart()
    assert study.ask() is None


def test_a_sampler_that_lists_is_not_given_more_than_memory_holds() -> None:
    """A grid of ours counts, and needs no list."""
    wide = tuple(Parameter(name, IntUniform(1, 10**6)) for name in "ab")
    with pytest.raises(InputError, match="lists all 1,000,000,000,000 combinations"):
        factory.make(sweep("GridSampler", wide))


@pytest.mark.parametrize("search", ["tpe", "NSGAIIISampler", "RandomSampler"])
def test_trials_end_in_every_way(search: str) -> None:
    """Several at a time, and in another order than they began."""
    study = Study(sweep(search))
    for _ in range(4):
        assert study.ask() is not None
    ways = [SUCCEEDED, FAILED, STOPPED, UNMEASURED]
    for number in range(12):
        study.tell((number // 2) * 2 + 1 - number % 2, ways[number % 4])
        if number % 5 == 0:
            study.restart()
        assert study.ask() is not None


def test_trials_that_run_at_a_time_are_different_places() -> None:
    """TPE is told of those that run."""
    study = Study(sweep("tpe", MIXED[:2]))
    study.run(15)
    together = [study.ask() for _ in range(6)]
    rates = [
        math.log10(float(assignment["lr"].data))
        for assignment in together
        if assignment is not None
    ]
    assert max(rates) - min(rates) > 0.1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 5))
def test_random_trials_are_a_permutation_of_a_small_grid(
    seed: int, width: int, height: int
) -> None:
    """None is missing and none comes twice."""
    parameters = (
        Parameter("a", Range(Decimal(1), Decimal(width), Decimal(1))),
        Parameter("b", Range(Decimal(1), Decimal(height), Decimal(1))),
    )
    study = Study(sweep("random", parameters, seed=seed))
    assert width * height == len(set(study.run(width * height)))
    assert study.ask() is None


def test_random_trials_do_not_depend_on_the_order_of_parameters() -> None:
    """A file that was sorted is the same sweep."""
    runs = [Study(sweep("random", order)).run(5) for order in (MIXED, MIXED[::-1])]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("CmaES2", "did you mean CmaEsSampler?"),
        ("tpee", "did you mean tpe?"),
        ("nothing", "there is no search 'nothing'"),
        ("BaseGASampler", "there is no search 'BaseGASampler'"),
        ("GridSampler", "GridSampler lists all that there is to try, and lr, momentum has no end"),
        ("BruteForce", "BruteForceSampler lists all that there is to try"),
        ("PartialFixed", "leaves parameters of one choice alone, and there is none"),
        ("BaseSampler", "there is no search 'BaseSampler'"),
    ],
)
def test_a_search_that_there_is_not(search: str, message: str) -> None:
    """Names those that there are."""
    with pytest.raises(InputError) as excinfo:
        factory.make(sweep(search))
    assert message in str(excinfo.value)
    assert "sweep.search" in str(excinfo.value)


def test_a_sampler_that_needs_a_library_says_so_before_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not after hours, when it would import it."""
    monkeypatch.setattr(samplers, "find_spec", lambda _name: None)
    with pytest.raises(MissingToolError, match="CmaEsSampler needs cmaes, which is not installed"):
        factory.make(sweep("CmaEs"))


def test_without_optuna_two_searches_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others say what to install."""
    real = builtins.__import__

    def without(name: str, *rest: Any, **options: Any) -> Any:
        if name.partition(".")[0] == "optuna":
            raise ModuleNotFoundError(name="optuna")
        return real(name, *rest, **options)

    monkeypatch.delitem(sys.modules, "allranks.sweep.search.optuna", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    assert Study(sweep("random")).ask() is not None
    with pytest.raises(MissingToolError, match="pip install 'allranks\\[search\\]'"):
        factory.make(sweep("tpe"))
