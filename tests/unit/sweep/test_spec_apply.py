"""How parameters get to a trial: words, variables, values paths and placeholders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InvalidValues
from allranks.schema import paths
from allranks.sweep import naming
from allranks.sweep.model import Choice, Objective, Parameter, Reach, SweepSpec, TrialSpec, Values
from allranks.sweep.search import space
from allranks.sweep.spec import apply
from allranks.sweep.spec.apply import bind, trial_values

DEFAULTS: dict[str, Any] = {
    "command": [],
    "args": [],
    "env": {},
    "gpus": 0,
    "torchrun": {"port": 29500, "backend": "nccl", "debug": False, "extra": None},
    "labels": {},
    "hosts": ["a", "b"],
}


_LONG = "9007199254740993"


def sweep(*parameters: Parameter, **values: Any) -> SweepSpec:
    """A sweep of a torchrun job."""
    return SweepSpec("s", parameters, Objective(""), TrialSpec("torchrun", "", values))


def parameter_of(name: str, *reaches: Reach, text: str = "1e-5", data: Any = 1e-5) -> Parameter:
    """A parameter with one value."""
    return Parameter(name, Values((Choice(text, data),)), reaches)


def values_for(spec: SweepSpec, defaults: dict[str, Any] | None = None) -> dict[str, Any]:
    """The values of its only trial."""
    chart = DEFAULTS if defaults is None else defaults
    bound = bind(spec, chart).spec
    return trial_values(bound, space.assignment(bound.parameters, 0), chart)


def refusal(spec: SweepSpec, defaults: dict[str, Any] | None = None) -> str:
    """What is said of a sweep that cannot be bound."""
    with pytest.raises(InvalidValues) as excinfo:
        bind(spec, DEFAULTS if defaults is None else defaults)
    return str(excinfo.value)


def test_an_option_is_two_words_behind_the_others() -> None:
    """In the order of the parameters."""
    spec = sweep(
        parameter_of("lr", Reach("arg", "--lr")),
        parameter_of("n", Reach("arg", "-n"), text="08", data="08"),
        command=["train"],
        args=["--fast"],
    )
    assert {"command": ["train"], "args": ["--fast", "--lr", "1e-5", "-n", "08"]} == values_for(
        spec
    )


def test_a_variable_of_the_job_s_own_is_refused() -> None:
    """Where it was written, and before anything of the trial's values is looked at."""
    message = refusal(sweep(parameter_of("lr", Reach("env", "ALLRANKS_TRIAL"))))
    assert "sweep.parameters.lr.env: the job sets ALLRANKS_TRIAL itself" in message


def test_an_option_that_ends_with_an_equals_sign_is_one_word() -> None:
    """As some programs want it."""
    assert ["--lr=1e-5"] == values_for(sweep(parameter_of("lr", Reach("arg", "--lr="))))["args"]


def test_the_chart_s_own_args_stay() -> None:
    """Helm replaces a list as a whole."""
    chart = {**DEFAULTS, "args": ["--verbose"]}
    assert ["--verbose", "--lr", "1e-5"] == values_for(
        sweep(parameter_of("lr", Reach("arg", "--lr"))), chart
    )["args"]


def test_a_variable() -> None:
    """In a mapping, and in a list of a foreign chart."""
    spec = sweep(parameter_of("lr", Reach("env", "LR")), env={"A": "b"})
    assert {"env": {"A": "b", "LR": "1e-5"}} == values_for(spec)
    foreign = {"env": [{"name": "A", "value": "b"}, {"name": "LR", "value": "0"}]}
    assert [{"name": "A", "value": "b"}, {"name": "LR", "value": "1e-5"}] == values_for(
        sweep(parameter_of("lr", Reach("env", "LR"))), foreign
    )["env"]


@pytest.mark.parametrize(
    ("path", "choice", "expected"),
    [
        ("torchrun.port", Choice("1e3", 1000.0), {"torchrun": {"port": 1000.0}}),
        ("torchrun.port", Choice("29501", 29501), {"torchrun": {"port": 29501}}),
        # Helm would read another number.
        ("torchrun.port", Choice(_LONG, int(_LONG)), {"torchrun": {"port": _LONG}}),
        ("torchrun.port", Choice("true", True), {"torchrun": {"port": "true"}}),
        ("torchrun.backend", Choice("1e3", 1000.0), {"torchrun": {"backend": "1e3"}}),
        ("torchrun.debug", Choice("yes", True), {"torchrun": {"debug": True}}),
        ("torchrun.debug", Choice("1", 1), {"torchrun": {"debug": "1"}}),
        ("torchrun.extra", Choice("0.10", 0.1), {"torchrun": {"extra": "0.10"}}),
        ("env.LR", Choice("0.10", 0.1), {"env": {"LR": "0.10"}}),
        ('labels["my.org/team"]', Choice("08", "08"), {"labels": {"my.org/team": "08"}}),
        (r"labels.my\.org/team", Choice("08", "08"), {"labels": {"my.org/team": "08"}}),
        ("hosts[1]", Choice("c", "c"), {"hosts": ["a", "c"]}),
    ],
)
def test_a_values_path_gets_a_number_where_the_chart_has_one(
    path: str, choice: Choice, expected: dict[str, Any]
) -> None:
    """And the text anywhere else."""
    parameter = Parameter("x", Values((choice,)), (Reach("path", path),))
    values_of_trial = values_for(sweep(parameter))
    assert expected == values_of_trial
    assert repr(expected) == repr(values_of_trial)


def test_a_path_beside_what_all_trials_share() -> None:
    """The shared values stay, and are not changed themselves."""
    shared = {"torchrun": {"backend": "gloo"}, "hosts": ["x", "y"]}
    spec = sweep(
        parameter_of(
            "p", Reach("path", "torchrun.port"), Reach("path", "hosts[0]"), text="5", data=5
        ),
        **shared,
    )
    assert {"torchrun": {"backend": "gloo", "port": 5}, "hosts": ["5", "y"]} == values_for(spec)
    assert {"torchrun": {"backend": "gloo"}, "hosts": ["x", "y"]} == shared


def test_placeholders_in_any_text() -> None:
    """Alone it is of the chart's type, within a text it is text; the trial's name is known."""
    spec = sweep(
        parameter_of("lr"),
        parameter_of("port", text="5", data=5),
        args=["--lr=${sweep.lr}", "${sweep.lr}", "--log", "/logs/${sweep.trial}"],
        torchrun={"port": "${sweep.port}"},
        env={"X": "${sweep.lr}-${sweep.port}"},
    )
    name = naming.trial_name("s", {"lr": Choice("1e-5", 1e-5), "port": Choice("5", 5)})
    assert {
        "args": ["--lr=1e-5", "1e-5", "--log", f"/logs/{name}"],
        "torchrun": {"port": 5},
        "env": {"X": "1e-5-5"},
    } == values_for(spec)


def test_what_a_value_holds_is_not_looked_at_again() -> None:
    """A value that looks like a placeholder is a value."""
    spec = sweep(
        parameter_of("a", text="${sweep.b}", data="${sweep.b}"),
        parameter_of("b"),
        args=["${sweep.a} ${sweep.b}"],
    )
    assert ["${sweep.b} 1e-5"] == values_for(spec)["args"]


def test_a_parameter_named_as_a_values_path_goes_there() -> None:
    """Where nothing else is said of it."""
    bound = bind(sweep(parameter_of("torchrun.port", text="5", data=5)), DEFAULTS)
    assert (Reach("path", "torchrun.port"),) == bound.spec.parameters[0].reaches
    assert {"torchrun": {"port": 5}} == values_for(
        sweep(parameter_of("torchrun.port", text="5", data=5))
    )
    assert {"torchrun": {"extra": "1e-5"}} == values_for(sweep(parameter_of("torchrun.extra")))


def test_shorthand_that_is_no_path_is_an_option_and_that_is_said() -> None:
    """Of a parameter that is a path nothing is said."""
    bound = bind(
        sweep(parameter_of("lr"), parameter_of("gpus", text="2", data=2)), DEFAULTS, {"lr", "gpus"}
    )
    assert (Reach("arg", "--lr"),) == bound.spec.parameters[0].reaches
    assert (Reach("path", "gpus"),) == bound.spec.parameters[1].reaches
    assert ("lr is no values path of the chart; the command gets it as --lr",) == bound.notes


@pytest.mark.parametrize(
    "name", ["env.S", "labels.team", 'labels["my.org/team"]', "torchrun.extra.x"]
)
def test_a_name_within_an_open_mapping_is_a_place(name: str) -> None:
    """A mapping that is empty in the chart has room for keys; in a file as on the command line."""
    for shorthand in ((), (name,)):
        bound = bind(sweep(parameter_of(name)), DEFAULTS, shorthand)
        assert ((Reach("path", name),), ()) == (bound.spec.parameters[0].reaches, bound.notes)


def test_a_name_that_is_a_mapping_of_the_chart() -> None:
    """A key in it is meant, or an option of the command, where it has any."""
    foreign = {"empty": {}, "hosts": ["a"], "full": {"a": 1}}
    for name, message in (
        ("empty", "empty is a mapping in the chart's values, and a parameter is one value"),
        ("empty", "name what is to change in it, such as empty.key"),
        ("full", "such as full.a"),
        ("hosts", "such as hosts[0]"),
    ):
        with pytest.raises(InvalidValues) as excinfo:
            bind(sweep(parameter_of(name)), foreign, {name})
        assert message in str(excinfo.value)
        assert "did you mean" not in str(excinfo.value)
        assert f"the values path {name}?" not in refusal(sweep(parameter_of(name)), foreign)
    bound = bind(sweep(parameter_of("labels")), DEFAULTS, {"labels"})
    assert (Reach("arg", "--labels"),) == bound.spec.parameters[0].reaches
    assert ("labels is a mapping in the chart's values; the command gets it as --labels",) == (
        bound.notes
    )


def test_a_path_that_the_chart_does_not_have_is_no_option() -> None:
    """No program has an option with brackets or quotes in it."""
    for name in ("opt[0]", 'opt["a"]', r"opt\.a", "opt/a"):
        with pytest.raises(InvalidValues) as excinfo:
            bind(sweep(parameter_of(name)), DEFAULTS, {name})
        assert f"the chart's values have no {name}" in str(excinfo.value)


def test_binding_twice_is_binding_once() -> None:
    """A sweep that is resumed is bound already."""
    spec = sweep(
        parameter_of("lr"),
        parameter_of("gpus"),
        parameter_of("x", Reach("arg", "-x")),
        args=["${sweep.lr}"],
    )
    once = bind(spec, DEFAULTS).spec
    assert once == bind(once, DEFAULTS).spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            sweep(parameter_of("batchSize")),
            (
                "sweep.parameters.batchSize: batchSize reaches nothing: no trial would differ "
                "by it\n"
                "  fix: add `arg: --batchSize`, `env: BATCH_SIZE` or `path: …` to it, or write "
                "${sweep.batchSize} in the trial's values"
            ),
        ),
        (sweep(parameter_of("port")), "did you mean the values path torchrun.port?"),
        (sweep(parameter_of("torchrun")), "torchrun reaches nothing"),
        (
            sweep(parameter_of("x", Reach("path", "torchrun.prot"))),
            (
                "sweep.parameters.x.path: the chart's values have no torchrun.prot\n"
                "  fix: did you mean torchrun.port?"
            ),
        ),
        (
            sweep(parameter_of("x", Reach("path", "torchrun"))),
            "torchrun is a mapping in the chart's values",
        ),
        (sweep(parameter_of("x", Reach("path", "hosts"))), "such as hosts[0]"),
        (
            sweep(parameter_of("x", Reach("path", "hosts[2]"))),
            "the chart's values have no hosts[2]",
        ),
        (sweep(parameter_of("x", Reach("path", "a..b"))), "is no values path"),
        (sweep(parameter_of("x", Reach("path", "gpus.x"))), "the chart's values have no gpus.x"),
        (
            sweep(parameter_of("lr"), args=["${sweep.lrr}", "${sweep.lr}"]),
            (
                "sweep.trial.values.args[0]: ${sweep.lrr} names no parameter of the sweep\n"
                "  fix: write ${sweep.lr}"
            ),
        ),
        (
            sweep(parameter_of("lr"), env={"${sweep.lr}": "x"}),
            "${sweep.lr} is a key",
        ),
        (
            sweep(parameter_of("a", Reach("arg", "--x")), parameter_of("b", Reach("arg", "--x"))),
            "sweep.parameters.b.arg: --x is set by the parameter a, too",
        ),
        (
            sweep(parameter_of("a", Reach("path", "gpus")), parameter_of("gpus")),
            "sweep.parameters.gpus.path: gpus is set by the parameter a, too",
        ),
    ],
)
def test_what_reaches_nothing_is_refused(spec: SweepSpec, message: str) -> None:
    """With the nearest thing that would."""
    assert message in refusal(spec)


def test_a_foreign_chart_without_args_says_so() -> None:
    """An option needs a list to stand in."""
    assert "the chart's values have no list `args`" in refusal(
        sweep(parameter_of("lr", Reach("arg", "--lr"))), {"image": "x"}
    )
    assert "have no `env`" in refusal(sweep(parameter_of("lr", Reach("env", "LR"))), {"image": "x"})


STEPS = st.lists(
    st.one_of(st.text(min_size=1, max_size=6), st.integers(0, 99)), min_size=1, max_size=4
).filter(lambda steps: isinstance(steps[0], str))


@settings(max_examples=200)
@given(STEPS)
def test_a_path_is_read_as_it_is_shown(steps: list[str | int]) -> None:
    """Messages and values say the same paths."""
    text = paths.show(tuple(steps))
    if text[0] != "[":
        assert tuple(steps) == apply.parse(text)


@settings(max_examples=200)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    st.sampled_from(["arg", "env", "placeholder", "path"]),
)
def test_any_text_arrives_as_it_is(text: str, kind: str) -> None:
    """By every way that a text can go."""
    reach = {
        "arg": Reach("arg", "--x"),
        "env": Reach("env", "X"),
        "path": Reach("path", "torchrun.backend"),
    }
    values = {"args": ["${sweep.x}"]} if kind == "placeholder" else {}
    parameter = parameter_of("x", *([reach[kind]] if kind in reach else []), text=text, data=text)
    values_of_trial = values_for(sweep(parameter, **values))
    expected = {
        "arg": {"args": ["--x", text]},
        "env": {"env": {"X": text}},
        "path": {"torchrun": {"backend": text}},
        "placeholder": {"args": [text]},
    }
    assert expected[kind] == values_of_trial


def test_a_name_follows_from_the_texts_alone() -> None:
    """Not from their order, nor from what they are to the search; as Helm's templates make it."""
    one_way = {"lr": Choice("1e-5", 1e-5), "b": Choice("é<", "é<")}
    other = {"b": Choice("é<", 5), "lr": Choice("1e-5", "1e-5")}
    assert '{"b":"é<","lr":"1e-5"}' == naming.canonical(one_way)
    assert naming.trial_name("s", one_way) == naming.trial_name("s", other)
    assert naming.trial_name("s", one_way) != naming.trial_name(
        "s", {**other, "lr": Choice("0.00001", 1e-5)}
    )


def test_a_name_that_is_taken_by_others_gets_more_digits() -> None:
    """The same ones each time."""
    assignment = {"lr": Choice("1e-5", 1e-5)}
    short = naming.trial_name("s", assignment)
    longer = naming.trial_name("s", assignment, {short})
    assert (len("s-") + 8, len("s-") + 12) == (len(short), len(longer))
    assert longer.startswith(short)
