"""The pods of an elastic job by role, in the layout and in the table that people see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.layout import render
from allranks.layout.compute import compute
from allranks.model.job_spec import JobSpec
from allranks.values import frameworks
from allranks.values.merge import merge
from allranks.values.sources import defaults

if TYPE_CHECKING:
    from allranks.model.layout import Layout


def layout(**user_values: Any) -> Layout:
    """The layout of an elastic job, as the command line computes it."""
    values = merge(defaults("elastic"), user_values)
    return compute(JobSpec.from_values(values, frameworks.fewest(values)))


def pods(**user_values: Any) -> dict[str, int]:
    """How many pods each role has."""
    return {role.role: role.pods for role in layout(**user_values).roles}


def auto(framework: str, **bounds: Any) -> dict[str, Any]:
    """The section of a job whose master decides its size."""
    return {"elastic": {"mode": "auto", "framework": framework, "auto": bounds}}


def test_every_role_has_its_row() -> None:
    """Pods, GPUs, CPU and memory: of each pod, of the role, and of all."""
    result = layout(
        nodes=2,
        gpusPerNode=4,
        resources={"perGpu": {"cpu": "2", "memory": "8Gi"}},
        elastic={
            "roles": {
                "chief": {"replicas": 1, "resources": {"requests": {"cpu": "500m"}}},
                "ps": {"replicas": 3, "resources": {"limits": {"memory": "1Gi"}}},
                "evaluator": {"replicas": 1, "gpusPerPod": 1},
            }
        },
    )
    rows = {row["role"]: list(row.values())[1:] for row in render.role_rows(result)}
    assert {
        "worker": [2, 8, "8", "32Gi", "16", "64Gi"],
        "chief": [1, 0, "500m", "", "500m", ""],
        "ps": [3, 0, "", "1Gi", "", "3Gi"],
        "evaluator": [1, 1, "2", "8Gi", "2", "8Gi"],
        "all": [7, 9, "", "", "18500m", "75Gi"],
    } == rows


def test_what_the_framework_cannot_do_without_is_counted() -> None:
    """MXNet has a scheduler and a server though the values have none."""
    assert {"worker": 1, "scheduler": 1, "server": 1} == pods(elastic={"framework": "mxnet"})
    assert {"worker": 1} == pods()


def test_a_master_is_a_pod_too() -> None:
    """In mode auto it stands beside the workers, and servers go with those to begin with."""
    assert {"worker": 4, "master": 1} == pods(**auto("pytorch", minWorkers=4))
    assert {"worker": 8, "ps": 2, "master": 1} == pods(
        **auto("tensorflow", minWorkers=5, maxWorkers=8)
    )
    assert {"worker": 8, "ps": 3, "master": 1} == pods(
        nodes=8,
        elastic=auto("tensorflow", maxWorkers=8)["elastic"] | {"roles": {"ps": {"replicas": 3}}},
    )


def test_a_limit_of_gpus_says_what_each_worker_gets() -> None:
    """12 GPUs on nodes of 8 are two workers with six processes each, in the plan as in the pods."""
    result = layout(nodeShape={"gpus": 8}, **auto("pytorch", maxWorkers=8, limits={"gpu": 12}))
    assert (2, 6, 6) == (result.nodes, result.gpus_per_node, result.procs_per_node)
    assert (1, 2) == (result.min_nodes, result.max_nodes)


def test_a_job_of_one_role_needs_no_table() -> None:
    """Its pods are rows already; other workloads have no roles at all."""
    assert [] == render.role_rows(layout(nodes=2))
    values = merge(defaults("torchrun"), {"nodes": 2})
    assert () == compute(JobSpec.from_values(values, frameworks.fewest(values))).roles
