"""From values to a sweep, and what is said of values that are none."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, InvalidValues
from allranks.sweep import serialize
from allranks.sweep.model import (
    HALVING,
    MEDIAN,
    MINIMIZE,
    Choice,
    EarlyStopping,
    IntUniform,
    LogUniform,
    MetricsSpec,
    Objective,
    Parameter,
    Range,
    Reach,
    SweepSpec,
    TrialSpec,
    Uniform,
    Values,
)
from allranks.sweep.spec import parse as specs
from allranks.values.sources import defaults
from allranks.yamlio.load import load

WHOLE = """
sweep:
  parameters:
    lr: {values: [1e-5, 0.0001, 1e-3], arg: --lr}
    batchSize: {range: {min: 16, max: 256, step: 16}}
  search: grid
  objective: {metric: accuracy, direction: maximize, goal: 0.98}
  trials: 40
  parallel: 8
  maxFailedTrials: 3
  retries: 1
  seed: 7
  order: row-major
  earlyStopping: {kind: successiveHalving, minSteps: 2, reductionFactor: 4}
  metrics: {from: stdout, step: epoch}
  trial: {workload: torchrun, values: {nodes: 1}}
"""


def read(text: str, name: str = "s") -> SweepSpec:
    """The sweep of a values file."""
    document = load(text, "v.yaml")
    return specs.parse(name, document.data["sweep"], document.token, document.where)


def small(rest: str, parameters: str = "{lr: {values: [1, 2, 3]}}") -> SweepSpec:
    """A sweep of three trials, and what else is set."""
    return read(f"sweep:\n  parameters: {parameters}\n  {rest}\n")


def test_a_whole_sweep() -> None:
    """Every field is read."""
    expected = SweepSpec(
        name="s",
        parameters=(
            Parameter(
                "lr",
                Values((Choice("1e-5", 1e-5), Choice("0.0001", 1e-4), Choice("1e-3", 1e-3))),
                (Reach("arg", "--lr"),),
            ),
            Parameter("batchSize", Range(Decimal(16), Decimal(256), Decimal(16))),
        ),
        objective=Objective("accuracy", "maximize", 0.98),
        trial=TrialSpec("torchrun", "", {"nodes": 1}),
        search="grid",
        seed=7,
        trials=40,
        parallel=8,
        max_failed=3,
        retries=1,
        early=EarlyStopping(HALVING, 2, 4, 0),
        metrics=MetricsSpec("stdout", "", "epoch"),
    )
    assert expected == read(WHOLE)


def test_what_is_not_set_is_the_plainest() -> None:
    """A grid of all combinations, all of them at once, with nothing to compare."""
    spec = small("")
    assert ("grid", 0, 3, 3, None, 0) == (
        spec.search,
        spec.seed,
        spec.trials,
        spec.parallel,
        spec.max_failed,
        spec.retries,
    )
    assert Objective("") == spec.objective
    assert spec.early is None


def test_the_chart_s_whole_section_is_taken() -> None:
    """All of its defaults, with parameters in them, are the same as the parameters alone."""
    section = {**defaults("sweep")["sweep"], "parameters": {"lr": {"values": [1, 2, 3]}}}
    assert small("") == specs.parse("s", section)


@pytest.mark.parametrize(
    "rest",
    [
        'objective: {metric: "", direction: maximize, goal: "", missedExitCode: 0}',
        "earlyStopping: {kind: '', minSteps: 1, reductionFactor: 3, warmupTrials: 0}",
        "tensorboard: {enabled: true}",
        "trial: {workload: '', values: {}, file: '', chart: ''}",
        "trials: 0",
        "parallel: 0",
        "search: null",
    ],
)
def test_a_chart_s_own_defaults_are_the_same_as_nothing(rest: str) -> None:
    """Zero and empty mean not set."""
    assert small("") == small(rest)


@pytest.mark.parametrize(("text", "goal"), [("0.98", 0.98), ('"0.98"', 0.98), ("1e-3", 1e-3)])
def test_a_goal_may_be_text(text: str, goal: float) -> None:
    """Since nothing is the empty text there."""
    assert goal == small(f"objective: {{metric: loss, goal: {text}}}").objective.goal


def test_a_median_and_a_sampler() -> None:
    """Names of samplers are looked up where they are used."""
    spec = small(
        "search: CmaEsSampler\n  trials: 2\n  objective: {metric: loss, direction: minimize}\n"
        "  earlyStopping: {kind: median, warmupTrials: 5}"
    )
    assert EarlyStopping(MEDIAN, 1, 3, 5) == spec.early
    assert ("CmaEsSampler", MINIMIZE) == (spec.search, spec.objective.direction)


@pytest.mark.parametrize("rest", ["", "\n  trials: 3", "\n  objective: {metric: a}"])
def test_a_search_that_there_is_not_needs_nothing(rest: str) -> None:
    """That there is none of the name is said at once, and not after what it would need."""
    with pytest.raises(InvalidValues) as excinfo:
        small(f"search: BaseGASampler{rest}")
    assert [("sweep.search", "there is no search 'BaseGASampler'")] == [
        (problem.path, problem.message) for problem in excinfo.value.problems
    ]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("trials: 4", "sweep.trials: 4 trials are asked for, and there are only 3 combinations"),
        ("search: random\n  trials: 4", "there are only 3 combinations"),
        ("search: random", "search: random needs a number of trials"),
        ("search: tpe\n  trials: 3", "search: tpe needs a metric"),
        ("search: cmaes", "search: cmaes needs a number of trials"),
        ("search: cmaes\n  trials: 3", "search: cmaes needs a metric"),
        ("earlyStopping: {kind: median}", "earlyStopping needs a metric"),
        ("objective: {goal: 1}", "a goal needs a metric"),
        ("objective: {metric: a, goal: .5x}", "sweep.objective.goal: must be a number"),
        ("objective: {metric: a, direction: max}", "write maximize"),
        ("objective: {metric: a, direction: up}", "'up' is none of maximize, minimize"),
        ("objective: {metrics: a}", "write metric"),
        ("search: 'a b'", "'a b' is no search"),
        ("trials: -1", "sweep.trials: must be at least 0"),
        ("trials: 1.5", "sweep.trials: must be a whole number"),
        ("parallel: many", "sweep.parallel: must be a whole number"),
        ("seed: true", "sweep.seed: must be a whole number"),
        ("retries: 1001", "sweep.retries: must be at most 1000, not 1001"),
        ("order: column-major", "sweep.order"),
        ("keep: some", "'some' is none of none, failed, all"),
        ("trails: 3", "sweep.trails: there is no 'trails' here (v.yaml:3)\n  fix: write trials"),
        ("metrics: {from: log}", "sweep.metrics.from"),
        ("metrics: {regex: 'x('}", "sweep.metrics.regex: is no regular expression"),
        ("metrics: {regex: 'x=(.*)'}", "has no named group that holds a value"),
        ("metrics: {regex: '(?P<step>x)'}", "has no named group that holds a value"),
        ("metrics: {regex: 'a(?=b)'}", "has (?=, and RE2, which reads it, knows no lookahead"),
        ("metrics: {regex: '(?<!a)b'}", "fix: match what is around it as well"),
        (r"metrics: {regex: '(a)\1'}", r"has \1, and RE2, which reads it, knows no back-ref"),
        ("metrics: {regex: '(?P<a>x)(?P=a)'}", "has (?P=, and RE2, which reads it, knows no back"),
        ("metrics: {regex: 'a++'}", "knows no possessive repetitions, nor needs them"),
        (r"metrics: {regex: 'a\Z'}", r"fix: write $ or \z"),
        ("metrics: {regex: '(?x)a'}", "knows no flags but i, m, s and U"),
        (r"metrics: {regex: '\C'}", r"\C is half a character"),
        ("metrics: {regex: '(?P<a>x)|(?P<a>y)'}", "has two groups named a"),
        ("metrics: {regex: '(?P<a>.{1000}.{1000}.{1000})'}", "steps, 10,000 are allowed"),
        (r"metrics: {regex: '(?P<a>\pL{1000})'}", "is too large: it repeats too much"),
        ("earlyStopping: {kind: hyperband}", "sweep.earlyStopping.kind"),
        (
            "objective: {metric: a}\n  earlyStopping: {kind: median, reductionFactor: 1}",
            "sweep.earlyStopping.reductionFactor: must be at least 2",
        ),
        ("trial: {workload: tensorflow}", "sweep.trial.workload"),
        ("trial: {workload: mpi, chart: ./c}", "has both a workload and a chart"),
        ("trial: {values: [1]}", "sweep.trial.values: must be a mapping"),
        ("trial: torchrun", "sweep.trial: must be a mapping"),
    ],
)
def test_what_is_wrong_is_said_with_its_path(rest: str, message: str) -> None:
    """And with what would be right."""
    with pytest.raises(InvalidValues) as excinfo:
        small(rest)
    assert message in str(excinfo.value)


def test_a_pattern_may_have_the_text_of_a_group() -> None:
    """What stands in a class, behind a backslash or in a literal names no group."""
    regex = r"[(?P<a>]\Q(?P<a>\E\(?P<a>(?P<a>x)"
    spec = small(f"objective: {{metric: a}}\n  metrics: {{regex: '{regex}'}}")
    assert regex == spec.metrics.regex


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Sweep", "no name of a sweep"),
        ("1s", "no name of a sweep"),
        ("s-", "no name of a sweep"),
        ("", "no name of a sweep"),
        ("s" * 41, "41 characters long"),
    ],
)
def test_a_sweep_s_name_has_to_do_for_its_releases(name: str, message: str) -> None:
    """They are longer by a hash."""
    with pytest.raises(InvalidValues, match=message):
        read(WHOLE, name)
    assert read(WHOLE, "s" * 40)


@pytest.mark.parametrize("form", ["uniform", "logUniform", "intUniform"])
def test_a_distribution_has_no_place_in_a_grid(form: str) -> None:
    """The parameter is named, and what would do."""
    with pytest.raises(InvalidValues) as excinfo:
        small("", f"{{a: {{values: [1]}}, lr: {{{form}: {{min: 1, max: 2}}}}}}")
    assert "sweep.parameters.lr: a grid goes through values one by one" in str(excinfo.value)
    assert "search: random" in str(excinfo.value)


def test_ten_million_trials_want_a_bound_and_say_how_many_they_are() -> None:
    """At once; and with a bound there are as many as asked for."""
    parameters = "{" + ", ".join(f"p{i}: {{range: {{min: 1, max: 10}}}}" for i in range(7)) + "}"
    before = time.process_time()
    with pytest.raises(InvalidValues) as excinfo:
        small("", parameters)
    assert "sweep.trials: the grid has 10,000,000 trials" in str(excinfo.value)
    assert "set trials to how many of them to run" in str(excinfo.value)
    assert 500 == small("trials: 500", parameters).trials
    with pytest.raises(InvalidValues, match="at most 100,000 trials are possible"):
        small("trials: 100001", parameters)
    assert time.process_time() - before < 1


def test_a_parameter_that_is_refused_does_not_make_the_grid_look_small() -> None:
    """One mistake is one message."""
    with pytest.raises(InvalidValues) as excinfo:
        small("trials: 3", "{a: {values: [1]}, b: {values: []}}")
    assert 1 == len(excinfo.value.problems)


SPACES = st.one_of(
    st.lists(
        st.tuples(
            st.text(max_size=8), st.one_of(st.integers(), st.booleans(), st.text(max_size=5))
        ),
        min_size=1,
        max_size=4,
    ).map(lambda pairs: Values(tuple(Choice(text, data) for text, data in pairs))),
    st.tuples(
        st.decimals(-9, 9, places=3), st.decimals(10, 99, places=1), st.decimals("0.1", 9, places=2)
    ).map(lambda ends: Range(*ends)),
    st.tuples(st.floats(0, 1), st.floats(1, 2)).map(lambda ends: Uniform(*ends)),
    st.tuples(st.floats(1e-9, 1), st.floats(1, 2)).map(lambda ends: LogUniform(*ends)),
    st.tuples(st.integers(), st.integers()).map(lambda ends: IntUniform(*sorted(ends))),
)


@settings(max_examples=150)
@given(
    st.builds(
        SweepSpec,
        name=st.just("s"),
        parameters=st.lists(
            st.builds(
                Parameter,
                name=st.text(min_size=1, max_size=5),
                space=SPACES,
                reaches=st.lists(
                    st.builds(Reach, kind=st.just("arg"), to=st.text(max_size=5)), max_size=2
                ).map(tuple),
            ),
            max_size=3,
        ).map(tuple),
        objective=st.builds(
            Objective, metric=st.text(max_size=5), goal=st.none() | st.floats(-1, 1)
        ),
        trial=st.builds(TrialSpec, values=st.dictionaries(st.text(), st.integers())),
        early=st.none() | st.just(EarlyStopping(MEDIAN, 2, 3, 4)),
    )
)
def test_a_sweep_that_was_written_down_is_the_same(spec: SweepSpec) -> None:
    """To the type of each number and the digits of each decimal."""
    restored_spec = serialize.restore(json.loads(json.dumps(serialize.dump(spec))))
    assert spec == restored_spec
    assert repr(spec) == repr(restored_spec)


def test_a_sweep_may_be_resumed_with_more_of_the_same() -> None:
    """How many, how many at a time, and when to give up are free."""
    before = read(WHOLE)
    new_spec = replace(
        before,
        trials=48,
        parallel=2,
        max_failed=9,
        retries=0,
        early=None,
        objective=replace(before.objective, goal=0.99),
    )
    assert new_spec == serialize.resumed_spec(before, new_spec)


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ("1e-3]", "1e-2]", "parameters"),
        ("0.0001", "1e-4", "parameters"),
        ("accuracy", "loss", "objective"),
        ("nodes: 1", "nodes: 2", "trial"),
        ("seed: 7", "seed: 8", "seed"),
    ],
)
def test_another_sweep_by_the_same_name_is_refused(old: str, new: str, field: str) -> None:
    """Its finished trials would not belong to it."""
    with pytest.raises(InputError, match=f"was started with other {field}"):
        serialize.resumed_spec(read(WHOLE), read(WHOLE.replace(old, new)))
