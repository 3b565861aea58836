from __future__ import annotations

import copy
from typing import Any

import pytest

from allranks import resources
from allranks.model import job_spec
from allranks.model.job_spec import JobSpec, Topology
from allranks.model.layout import Share
from allranks.yamlio.load import load

GIB = 2**30


def defaults() -> dict[str, Any]:
    """The torchrun chart's own defaults."""
    path = resources.folder("charts") / "torchrun" / "values.yaml"
    return load(path.read_bytes(), str(path)).data


def spec(**changes: Any) -> JobSpec:
    """The spec of the defaults with some top-level keys merged over them."""
    values = copy.deepcopy(defaults())
    return JobSpec.from_values(job_spec._merged(values, changes))


def test_every_top_level_key_is_read_or_left_to_the_chart_on_purpose() -> None:
    """A new key of the values is put in one of the two lists, and a removed one leaves both."""
    assert job_spec.READ | job_spec.CHART_ONLY | {"torchrun"} == set(defaults())
    assert job_spec.READ & job_spec.CHART_ONLY == set()


def test_the_defaults_ask_for_nothing() -> None:
    """Zero and empty are not set, so that a new user's file decides everything."""
    expected = JobSpec(
        workload="torchrun",
        gpu_resource="nvidia.com/gpu",
        gpu_type=("nvidia.com/gpu.product", ""),
        topology=Topology(
            "none",
            "rack",
            {
                "host": "kubernetes.io/hostname",
                "rack": "topology.kubernetes.io/rack",
                "block": "topology.kubernetes.io/block",
            },
        ),
    )
    assert expected == spec()
    assert spec().requests(0) == {}
    assert Share() == spec().share(0)


def test_sizes_and_the_elastic_range_are_read() -> None:
    """All numbers that decide the split arrive."""
    job = spec(
        gpus=16,
        nodes=2,
        gpusPerNode=8,
        procsPerNode=4,
        nodeShape={"gpus": 8, "cpu": 96, "memory": "1Ti"},
        torchrun={"elastic": {"minNodes": 1, "maxNodes": 4}},
    )
    numbers = (job.gpus, job.nodes, job.gpus_per_node, job.procs_per_node)
    assert numbers == (16, 2, 8, 4)
    assert (job.min_nodes, job.max_nodes, job.elastic) == (1, 4, True)
    assert (job.node_shape.gpus, job.node_shape.cpu, job.node_shape.memory) == (
        8,
        "96",
        "1Ti",
    )


def test_shares_per_gpu_are_multiplied_and_keep_their_unit() -> None:
    """What a pod gets is told in the unit the user wrote, and counted exactly."""
    job = spec(
        resources={"perGpu": {"cpu": 12, "memory": "180Gi", "ephemeral-storage": "50G"}},
        shm={"sizePerGpu": "8Gi"},
    )
    assert Share("96", "1440Gi", "64Gi") == job.share(8)
    expected = {"cpu": 96_000, "memory": 1440 * GIB, "ephemeral-storage": 400 * 10**9}
    assert expected == job.requests(8)
    assert job.requests(0) == {}


def test_a_limit_without_a_request_is_a_request() -> None:
    """The API server fills requests from limits, so the plan counts them too."""
    per_pod = {"requests": {"cpu": "500m"}, "limits": {"cpu": 4, "memory": "8Gi"}}
    job = spec(resources={"perPod": per_pod}, shm={"size": "1Gi"})
    assert {"cpu": 500, "memory": 8 * GIB} == job.requests(0)
    assert Share("500m", "8Gi", "1Gi") == job.share(0)


def test_rdma_devices_count_only_where_they_are_enabled() -> None:
    """Adapters are part of what a node must have free."""
    rdma = {"enabled": True, "resources": {"rdma/hca": 2}}
    assert spec(network={"rdma": rdma}).requests(8) == {"rdma/hca": 2}
    assert spec(network={"rdma": rdma | {"enabled": False}}).requests(8) == {}


def test_the_pod_template_changes_what_a_pod_asks() -> None:
    """Containers of the user's own count, and what it sets on the trainer wins."""
    template = {
        "spec": {
            "containers": [
                {"name": "trainer", "resources": {"requests": {"cpu": "10"}}},
                {"name": "proxy", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            ],
            "initContainers": [{"name": "fetch", "resources": {"requests": {"memory": "9Gi"}}}],
            "nodeSelector": {"disk": "nvme"},
            "tolerations": [{"operator": "Exists"}],
        }
    }
    job = spec(
        podTemplate=template,
        resources={"perPod": {"requests": {"cpu": "2", "memory": "4Gi"}}},
        scheduling={"nodeSelector": {"pool": "train"}, "tolerations": [{"key": "a"}]},
    )
    assert {"cpu": 11_000, "memory": 9 * GIB} == job.requests(0)
    assert Share("10", "4Gi", "") == job.share(0)
    assert {"pool": "train", "disk": "nvme"} == job.node_selector
    assert ({"operator": "Exists"},) == job.tolerations


def test_affinity_is_split_into_what_is_planned_and_what_is_not() -> None:
    """Required node affinity is a filter; what depends on other pods is only named."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    job = spec(
        scheduling={
            "affinity": {
                "nodeAffinity": {required: {"nodeSelectorTerms": [term]}},
                "podAntiAffinity": {required: [{"topologyKey": "kubernetes.io/hostname"}]},
            },
            "topologySpreadConstraints": [{"maxSkew": 1}],
        }
    )
    assert (term,) == job.node_terms
    expected = ("scheduling.affinity.podAntiAffinity", "scheduling.topologySpreadConstraints")
    assert expected == job.unplanned


@pytest.mark.parametrize("key", sorted(job_spec.READ))
def test_a_key_removed_with_null_counts_as_not_set(key: str) -> None:
    """Helm drops a key that a user sets to null; reading the rest goes on."""
    values = defaults()
    del values[key]
    assert isinstance(JobSpec.from_values(values), JobSpec)
    values[key] = None
    assert isinstance(JobSpec.from_values(values), JobSpec)
