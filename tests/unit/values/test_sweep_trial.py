"""A sweep's trials are checked and laid out as the jobs that they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InvalidValues
from allranks.model.job_spec import JobSpec
from allranks.values import check, sweep_trial
from allranks.values.resolve import resolve
from allranks.values.sources import Sources, defaults, load_sources

if TYPE_CHECKING:
    from pathlib import Path

SWEEP = """
workload: sweep
image: {repository: my/trainer}
command: [python, train.py]
gpus: 16
sweep:
  parameters: {lr: {logUniform: {min: 1e-5, max: 0.1}, arg: --lr}}
  search: tpe
  trials: 40
"""


def values(**trial: Any) -> dict[str, Any]:
    """A sweep over the least that a trial needs."""
    return {
        "workload": "sweep",
        "gpus": 16,
        "setup": "x",
        "sweep": {"trial": {"workload": "", "values": {}} | trial},
    }


def test_other_workloads_are_their_own() -> None:
    """Values that are no sweep's are given back as they are."""
    user_values = {"workload": "mpi"}
    assert user_values is sweep_trial.of(user_values, defaults)
    assert ("a", 1) == sweep_trial.in_sweep(user_values, ("a", 1))
    assert ("a", 1) == sweep_trial.trial_path(user_values, ("a", 1))
    assert not sweep_trial.foreign(user_values)


@pytest.mark.parametrize("workload", ["torchrun", "mpi", "elastic"])
def test_a_trial_has_all_of_its_charts_values(workload: str) -> None:
    """The defaults are those of the trial's chart; the sweep's own section is gone."""
    trial_values = sweep_trial.of(values(workload=workload), defaults)
    assert workload == trial_values["workload"]
    assert set(defaults(workload)) == set(trial_values)
    assert (16, "x") == (trial_values["gpus"], trial_values["setup"])


def test_the_trials_values_win() -> None:
    """They are laid over those at the root, and over the chart's."""
    own = {"setup": "", "gpusPerNode": 8, "torchrun": {"port": 3000}}
    trial_values = sweep_trial.of(values(workload="torchrun", values=own), defaults)
    assert ("", 8, 3000) == (
        trial_values["setup"],
        trial_values["gpusPerNode"],
        trial_values["torchrun"]["port"],
    )
    assert (
        defaults("torchrun")["torchrun"]["rdzvBackend"] == trial_values["torchrun"]["rdzvBackend"]
    )
    assert 16 == JobSpec.from_values(trial_values).gpus


def test_a_place_in_a_trial_and_in_the_sweep() -> None:
    """What a trial says itself stands below `sweep.trial.values`, all else at the root."""
    user_values = values(values={"torchrun": {"port": 1}})
    below = ("sweep", "trial", "values")
    assert (*below, "torchrun", "port") == sweep_trial.in_sweep(user_values, ("torchrun", "port"))
    assert (*below, "torchrun", "role") == sweep_trial.in_sweep(user_values, ("torchrun", "role"))
    assert ("gpus",) == sweep_trial.in_sweep(user_values, ("gpus",))
    assert () == sweep_trial.in_sweep(user_values, ())
    assert ("torchrun", "port") == sweep_trial.trial_path(user_values, (*below, "torchrun", "port"))
    assert ("gpus",) == sweep_trial.trial_path(user_values, ("gpus",))


def test_a_foreign_chart_is_not_judged() -> None:
    """Of a chart that is not ours nothing is known, and so nothing is refused."""
    user_values = values(chart="./mine")
    assert sweep_trial.foreign(user_values)
    assert [] == check.check(user_values, lambda _: "")


def test_a_search_is_valid_though_no_grid_is(tmp_path: Path) -> None:
    """What only `allranks sweep` runs passes the checks of values; plain Helm refuses it itself."""
    path = tmp_path / "values.yaml"
    path.write_text(SWEEP)
    assert "sweep" == resolve(Sources((str(path),)), "demo").workload


def test_a_problem_is_placed_where_it_was_written(tmp_path: Path) -> None:
    """A rule between values names the path and the line in the sweep's file."""
    path = tmp_path / "values.yaml"
    path.write_text(SWEEP + "  trial: {workload: torchrun, values: {gpusPerNode: 7}}\n")
    with pytest.raises(InvalidValues) as excinfo:
        resolve(Sources((str(path),)), "demo")
    (problem,) = excinfo.value.problems
    assert ("gpus", f"{path}:5") == (problem.path, problem.source)


def test_how_a_number_was_written(tmp_path: Path) -> None:
    """The last file that has a value says how; a flag's text is what it is."""
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("workload: sweep\na: {b: [1e-5, 0.10, x], c: yes}\n")
    second.write_text("a: {b: [1e6]}\n")
    loaded = load_sources(Sources((str(first), str(second)), (("set", "d=8"),)))
    assert "1e6" == loaded.token(("a", "b", 0))
    assert "yes" == loaded.token(("a", "c"))
    assert [None, None] == [loaded.token(("d",)), loaded.token(("nowhere",))]
    alone = load_sources(Sources((str(first),)))
    assert ["1e-5", "0.10", None] == [alone.token(("a", "b", index)) for index in range(3)]
