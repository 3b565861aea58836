"""What a trial can read about itself: the same in a grid of plain Helm and under `helm sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.helm import binary as helm_binary
from allranks.helm import driver
from allranks.sweep.model import Trial
from allranks.sweep.search import space
from allranks.sweep.spec import prepare
from allranks.values.sources import Sources
from allranks.yamlio.load import load_all
from tests.charts.shared.rendered import MINIMAL, by_name, templates
from tests.charts.sweep.pods import TELL
from tests.conftest import exact

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.shared.rendered import Render
    from tests.charts.sweep.pods import Pods

GRID = {"parameters": {"lr": {"values": ["0.1", "0.2"], "arg": "--lr"}}}
OWN = {
    "mpi": {"gpus": 2, "gpusPerNode": 1},
    "elastic": {"elastic": {"framework": "pytorch", "roles": {"worker": {"replicas": 2}}}},
}
NAMES = (names.ENV_SWEEP, names.ENV_TRIAL, names.ENV_TRIAL_NAME)


def rendered(folder: Path, helm: Any, workload: str, **values: Any) -> dict[str, Any]:
    """The manifests of trial 1 of sweep ``s``, whose name is ``s-1a2b3c4d``, as it is installed."""
    sweep = {**GRID, "trial": {"workload": workload, "values": OWN.get(workload, {})}}
    file = folder / "sweep.yaml"
    file.write_text(exact({"workload": "sweep", **MINIMAL, **values, "sweep": sweep}), "utf-8")
    prepared = prepare.prepare(prepare.SweepFlags("s", Sources((str(file),))))
    trial = Trial(1, "s-1a2b3c4d", space.assignment(prepared.spec.parameters, 1))
    binary = helm_binary.inspect(helm.path)
    text = driver.template(binary, trial.name, "", prepared.chart, prepared.values(trial))
    return by_name([document for document in load_all(text) if document])


def trial_names(env: dict[str, str]) -> tuple[str, ...]:
    """The sweep, the number and the name that a trial finds."""
    return tuple(env.get(name, "") for name in NAMES)


def test_a_trial_of_plain_helm(render: Render, pods: Pods) -> None:
    """Its sweep is the release, its number the index, its name what ${sweep.trial} stands for."""
    manifests = render(command=TELL, args=["${sweep.trial}"], sweep=GRID)
    of = pods.start(manifests, 1)
    assert ("demo", "1", "demo-1") == trial_names(of.env)
    assert "demo-1" == of.argv[0]


def test_a_set_of_plain_helm(render: Render, pods: Pods) -> None:
    """A trial that is a Job of its own finds the same, whatever the index of its pod."""
    sweep = {"parameters": {"lr": {"values": ["0.1", "0.2"], "path": "labels.lr"}}}
    manifests = render(command=TELL, sweep=sweep)
    assert ("demo", "1", "demo-1") == trial_names(pods.start(manifests, 0, "Job/demo-1").env)


def test_a_trial_that_is_a_release(helm4: Any, pods: Pods, tmp_path: Path) -> None:
    """Under `helm sweep` a trial of one pod finds its number in the sweep, not in its release."""
    manifests = rendered(tmp_path, helm4, "", command=TELL)
    of = pods.start(manifests, 0, "Job/s-1a2b3c4d")
    assert ("s", "1", "s-1a2b3c4d") == trial_names(of.env)
    assert ["--lr", "0.2"] == of.argv
    assert "trial 1: s-1a2b3c4d" in of.log


@pytest.mark.parametrize("workload", ["torchrun", "mpi", "elastic"])
def test_a_trial_of_any_workload(workload: str, helm4: Any, tmp_path: Path) -> None:
    """Every pod of such a trial finds the same."""
    pod_templates = templates(rendered(tmp_path, helm4, workload))
    assert pod_templates
    for name, template in pod_templates.items():
        (container,) = template["spec"]["containers"]
        env = {variable["name"]: variable.get("value", "") for variable in container["env"]}
        assert ("s", "1", "s-1a2b3c4d") == trial_names(env), name
