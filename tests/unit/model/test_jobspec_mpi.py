"""An MPI job's values as a spec."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.model import job_spec
from allranks.model.job_spec import JobSpec
from allranks.values.merge import merge
from allranks.values.sources import defaults


def spec(**user: Any) -> JobSpec:
    """The spec of the MPI chart's defaults with a person's values over them."""
    return JobSpec.from_values(merge(defaults("mpi"), user))


def test_every_top_level_key_is_read_or_left_to_the_chart_on_purpose() -> None:
    """The two lists hold for this workload's keys as well."""
    assert job_spec.READ | job_spec.CHART_ONLY | {"mpi"} == set(defaults("mpi"))


@pytest.mark.parametrize(
    ("own", "nodes"),
    [
        ({"numWorkers": 3}, 3),
        ({"numWorkers": 3, "runLauncherAsWorker": True}, 4),
        ({"runLauncherAsWorker": True}, 0),
    ],
)
def test_nodes_are_the_hosts_with_ranks(own: dict[str, Any], nodes: int) -> None:
    """The workers, and a launcher that has ranks; nothing is made up where nothing is said."""
    assert nodes == spec(mpi=own).nodes


def test_slots_are_processes() -> None:
    """`slotsPerWorker` is another word for `procsPerNode`, which is looked at first."""
    assert 4 == spec(mpi={"slotsPerWorker": 4}).procs_per_node
    assert 2 == spec(procsPerNode=2, mpi={"slotsPerWorker": 2}).procs_per_node


def test_the_workers_template_is_over_the_shared_one() -> None:
    """What a worker asks is what the layout counts; containers are merged by their name."""
    shared = {"nodeSelector": {"a": "1"}, "containers": [{"name": "log", "resources": {}}]}
    limits = {"requests": {"cpu": "7"}}
    own = {
        "nodeSelector": {"b": "2"},
        "containers": [
            {"name": "trainer", "resources": limits},
            {"name": "log", "resources": {"requests": {"cpu": "1"}}},
        ],
    }
    job = spec(podTemplate={"spec": shared}, mpi={"worker": {"podTemplate": {"spec": own}}})
    assert {"a": "1", "b": "2"} == job.node_selector
    assert {"cpu": 8000} == job.requests(0)


def test_a_launcher_without_ranks_asks_for_its_own_alone() -> None:
    """Neither the job's shares nor its GPU type; the shared template and its own count."""
    launcher = spec(
        gpuType={"value": "H100"},
        resources={"perPod": {"requests": {"cpu": "64"}}},
        podTemplate={"spec": {"tolerations": [{"key": "x", "operator": "Exists"}]}},
        mpi={"launcher": {"resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}},
    ).launcher
    assert launcher is not None
    assert {"cpu": 2000, "memory": 2**30} == launcher.requests(0)
    assert ("", "") == launcher.gpu_type
    assert ({"key": "x", "operator": "Exists"},) == launcher.tolerations


def test_a_launcher_with_ranks_is_one_of_the_nodes() -> None:
    """It has no spec of its own; neither has a workload without a launcher."""
    job = spec(mpi={"runLauncherAsWorker": True})
    assert (None, True) == (job.launcher, job.launcher_first)
    other = JobSpec.from_values(defaults("torchrun"))
    assert (None, False) == (other.launcher, other.launcher_first)


@pytest.mark.parametrize(
    ("own", "uneven"),
    [({}, True), ({"elastic": {"minNodes": 1, "maxNodes": 2}}, False)],
)
def test_a_fixed_mpi_job_may_have_a_smaller_last_node(*, own: dict[str, Any], uneven: bool) -> None:
    """An elastic one keeps its pods' size, and so does every other workload."""
    assert uneven is spec(mpi=own).uneven
    assert not JobSpec.from_values(defaults("torchrun")).uneven
