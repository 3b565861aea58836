"""Sweeping over values files: each file, or each item of a list in one, is a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.errors import AllranksError, InputError
from allranks.sweep import serialize
from allranks.sweep.model import (
    OVERLAY,
    Choice,
    Objective,
    Parameter,
    Reach,
    SweepSpec,
    TrialSpec,
    Values,
)
from allranks.sweep.spec import apply, overlays
from allranks.sweep.spec import parse as reading

if TYPE_CHECKING:
    from pathlib import Path

DEFAULTS = {"args": [], "env": {}, "learning": {"rate": 0.1, "warmup": 5}, "model": {"size": "s"}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be called in, with a few files."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lr.yaml").write_text(
        "- learning: {rate: 1e-3}\n- learning: {rate: 0.10, warmup: 0}\n  args: [--fast]\n"
    )
    (tmp_path / "rates.yaml").write_text('[1e-5, 0.10, "08", true, plain]\n')
    models = tmp_path / "models"
    models.mkdir()
    (models / "small.yaml").write_text("model: {size: small}\n")
    (models / "large.yaml").write_text("model: {size: large}\n")
    return tmp_path


def bound(*parameters: Parameter, **shared: object) -> SweepSpec:
    """A sweep of parameters, bound to the chart."""
    spec = SweepSpec("s", parameters, Objective("acc"), TrialSpec(values=shared), trials=1)
    return apply.bind(spec, DEFAULTS).spec


@pytest.mark.usefixtures("folder")
def test_each_item_of_a_list_is_a_choice() -> None:
    """Choices are named after the file and their place, and keep their values as they are."""
    parameter = overlays.flag("learning=lr.yaml")
    assert Values((Choice("lr[0]", "lr[0]"), Choice("lr[1]", "lr[1]"))) == parameter.space
    assert (Reach(OVERLAY, "lr.yaml"),) == parameter.reaches
    assert {"learning": {"rate": 0.001}} == parameter.overlays["lr[0]"]


@pytest.mark.usefixtures("folder")
def test_each_file_is_a_choice() -> None:
    """Files by name in their order, and those of a pattern by their names."""
    parameter = overlays.flag("model=models/small.yaml,models/large.yaml")
    assert ["small", "large"] == list(parameter.overlays)
    assert ["large", "small"] == list(overlays.flag("model=models/*.yaml").overlays)


def test_files_of_one_name_are_told_apart(folder: Path) -> None:
    """Two folders may hold a file of the same name: then the choices are called by the path."""
    (folder / "small.yaml").write_text("model: {size: tiny}\n")
    parameter = overlays.flag("model=small.yaml,models/small.yaml")
    assert ["small.yaml", "models/small.yaml"] == list(parameter.overlays)


@pytest.mark.usefixtures("folder")
def test_a_choice_is_laid_over_the_values_of_all_trials() -> None:
    """As one more -f would be: mappings are merged, lists are replaced, options come after."""
    spec = bound(overlays.flag("learning=lr.yaml"), learning={"warmup": 9}, args=["--slow"])
    first, second = (
        apply.trial_values(spec, {"learning": Choice(f"lr[{at}]", f"lr[{at}]")}, DEFAULTS)
        for at in (0, 1)
    )
    assert {"learning": {"warmup": 9, "rate": 0.001}, "args": ["--slow"]} == first
    assert {"learning": {"warmup": 0, "rate": 0.1}, "args": ["--fast"]} == second


def test_a_choice_may_name_other_parameters(folder: Path) -> None:
    """A placeholder in a choice is replaced, and counts as the way of that parameter."""
    items = "- args: ['--lr=${sweep.lr}']\n- args: ['-l', '${sweep.lr}']\n"
    (folder / "one.yaml").write_text(items)
    lr = Parameter("lr", Values((Choice("1e-5", 1e-5),)))
    spec = bound(overlays.flag("how=one.yaml"), lr)
    assignment = {"how": Choice("one[0]", "one[0]"), "lr": Choice("1e-5", 1e-5)}
    assert {"args": ["--lr=1e-5"]} == apply.trial_values(spec, assignment, DEFAULTS)


@pytest.mark.usefixtures("folder")
def test_plain_values_are_a_parameter_like_others() -> None:
    """A list of numbers and texts is what `values` would be, each exactly as typed."""
    parameter = overlays.flag("learning.rate=rates.yaml")
    assert isinstance(parameter.space, Values)
    assert ["1e-5", "0.10", "08", "true", "plain"] == [
        str(choice) for choice in parameter.space.choices
    ]
    assert [1e-5, 0.1, "08", True, "plain"] == [choice.data for choice in parameter.space.choices]
    assert {} == parameter.overlays


@pytest.mark.usefixtures("folder")
def test_a_sweep_goes_on_without_its_files() -> None:
    """The journal keeps what the choices are."""
    spec = bound(overlays.flag("learning=lr.yaml"))
    assert spec == serialize.restore(serialize.dump(spec))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lr.yaml", "--over takes name=files"),
        ("=lr.yaml", "--over takes name=files"),
        ("x=", "--over takes name=files"),
        ("x=missing.yaml", "there is no file missing.yaml"),
        ("x=models/*.json", "no file is called like models/*.json"),
        ("a b=lr.yaml", "'a b' is no name of a parameter"),
        ("trial=lr.yaml", "'trial' is the trial's own name"),
        ("x=lr.yaml,lr.yaml", "lr.yaml[0] is given twice"),
        ("x=empty.yaml", "there is nothing to choose from"),
        ("x=mixed.yaml", "the choices are of different kinds: this one is a number"),
        ("x=hollow.yaml", "a choice without values changes nothing"),
        ("x=nested.yaml", "a value must be text, a number, or true or false, not a list"),
        ("x=own.yaml", "sweep is the same for all trials, and a choice cannot have another"),
        ("x=text.yaml", "the file holds text, neither a mapping nor a list"),
    ],
)
def test_what_cannot_be_tried_is_refused(folder: Path, text: str, message: str) -> None:
    """With the flag or the line at fault, and what to do."""
    for name, content in (
        ("empty", "[]"),
        ("mixed", "- a: 1\n- 2\n"),
        ("hollow", "- a: 1\n- {}\n"),
        ("nested", "- [1]\n"),
        ("own", "- a: 1\n- sweep: {}\n"),
        ("text", "hello\n"),
    ):
        (folder / f"{name}.yaml").write_text(content)
    with pytest.raises(AllranksError) as excinfo:
        overlays.flag(text)
    (problem,) = excinfo.value.problems
    assert message == problem.message
    assert problem.hint
    assert problem.source or "missing" in text


@pytest.mark.usefixtures("folder")
def test_a_value_that_the_chart_does_not_have_is_refused(folder: Path) -> None:
    """A typo in a choice would make trials that are all the same."""
    (folder / "typo.yaml").write_text("- learning: {rte: 1}\n- learning: {rate: 1}\n")
    with pytest.raises(InputError) as excinfo:
        bound(overlays.flag("x=typo.yaml"))
    (problem,) = excinfo.value.problems
    assert "the chart's values have no learning.rte" == problem.message
    assert "did you mean learning.rate?" == problem.hint


def test_one_file_is_no_choice(folder: Path) -> None:
    """It is said at once with what else is wrong; a pattern may find one file, and more later."""
    (folder / "one").mkdir()
    (folder / "one" / "typo.yaml").write_text("{nokey: 1, learning: {rte: 1}}\n")
    with pytest.raises(InputError) as excinfo:
        bound(overlays.flag("x=one/typo.yaml"), overlays.flag("y=models/small.yaml"))
    assert [
        "typo is the only choice, so no trial would differ by it",
        "the chart's values have no nokey",
        "the chart's values have no learning.rte",
        "small is the only choice, so no trial would differ by it",
    ] == [problem.message for problem in excinfo.value.problems]
    with pytest.raises(InputError) as excinfo:
        bound(overlays.flag("x=one/*.yaml"))
    assert 2 == len(excinfo.value.problems)


@pytest.mark.usefixtures("folder")
def test_two_parameters_may_not_have_one_place() -> None:
    """One of them would do nothing, whichever kind it is."""
    rate = Parameter("learning.rate", Values((Choice("1", 1),)))
    with pytest.raises(InputError) as excinfo:
        bound(overlays.flag("x=lr.yaml"), rate)
    assert ["learning.rate is set by the parameter x, too"] == [
        problem.message for problem in excinfo.value.problems
    ]


@pytest.mark.usefixtures("folder")
def test_choices_of_files_stand_beside_the_parameters_of_the_values() -> None:
    """They count in the grid, and take the place of a parameter of the same name."""
    parameter = overlays.flag("learning=lr.yaml")
    section = {"parameters": {"seed": {"values": [1, 2, 3]}, "learning": {"values": [1]}}}
    spec = reading.parse("s", section, more=(parameter,))
    assert ["seed", "learning"] == [parameter.name for parameter in spec.parameters]
    assert 6 == spec.trials
    assert 2 == reading.parse("s", {}, more=(parameter,)).trials


def test_a_whole_values_file_is_a_choice(folder: Path) -> None:
    """Its `workload` is that of all trials, and another one is refused."""
    (folder / "whole.yaml").write_text("workload: torchrun\nargs: [--fast]\n")
    parameter = overlays.flag("x=whole.yaml,models/small.yaml", "torchrun")
    assert {"args": ["--fast"]} == parameter.overlays["whole"]
    with pytest.raises(InputError, match="for the workload torchrun, and the trials are of mpi"):
        overlays.flag("x=whole.yaml,models/small.yaml", "mpi")
