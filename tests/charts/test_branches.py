"""Every branch of every template is rendered by a ci file, or by values that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.yamlio.load import load
from tests.charts.shared import rendered
from tests.charts.shared.branches import Instrumented
from tests.charts.shared.refusals import refusal_cases

if TYPE_CHECKING:
    from pathlib import Path

# Values that only other tests give, for branches that no job needs in CI.
_TORCHRUN: list[dict[str, Any]] = [
    {"runPolicy": {"checkpointSignal": "SIGUSR1"}},
    {"runPolicy": {"diagnose": False, "stallSeconds": 0}},
    {
        "torchrun": {"preflight": {"level": "quick"}},
        "gpus": 2,
        "gpuResource": "nvidia.com/mig-3g.40gb",
    },
    {"nodes": 2, "storage": {"datasets": {"size": "1Gi", "accessModes": ["ReadWriteOnce"]}}},
    {"queueRef": {"revision": "0123456789ab"}},
    {"compat": "slurm", "resources": {"perPod": {"requests": {"cpu": "4000m"}}}},
    {"compat": "slurm", "gpusPerNode": 2},
    {"compat": "slurm", "gpusPerNode": 2, "gpuResource": "amd.com/gpu"},
    {"script": "x", "setup": "y" * 1_048_576, "command": []},
    {"torchrun": {"rdzvBackend": "static"}, "nodes": 2},
    {
        "torchrun": {"torchft": {"lighthouse": "l:1"}},
        "network": {"hostNetwork": True},
        "env": {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
    },
    {"storage": {"workspace": {"size": "1Gi", "azureFile": {"protocol": "nfs"}}}},
    {"torchrun": {"rdzvBackend": "static", "controller": "StatefulSet"}, "nodes": 2},
    {"gpus": 1, "resources": {"perGpu": {"memory": "lots"}}},
    {"gpus": 1, "resources": {"perGpu": {"memory": "1234567890123"}}},
    {"podTemplate": {"spec": {"volumes": [{"name": f"v{n}"} for n in range(101)]}}},
    {
        "scheduling": {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}},
                {"maxSkew": 1, "topologyKey": "rack"},
            ]
        }
    },
    {"podTemplate": {"spec": {"$retainKeys": []}}},
    {"podTemplate": {"spec": {"affinity": {"$patch": "drop"}}}},
    {"podTemplate": {"spec": {"securityContext": {"$patch": "delete"}, "containers": [None]}}},
    {
        "podTemplate": {
            "spec": {
                "securityContext": {"$patch": "replace", "runAsUser": 7},
                "volumes": [{"$patch": "replace"}],
                "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "x"}],
                "resourceClaims": [{"name": "gpu"}],
                "containers": [
                    {
                        "name": "trainer",
                        "volumeDevices": [{"name": "x", "devicePath": "/dev/x"}],
                        "ports": [{"containerPort": 1}],
                        "readinessGates": [{"conditionType": "a"}],
                    }
                ],
            },
            "metadata": {"ownerReferences": [{"uid": "1"}]},
        }
    },
]


_MPI: list[dict[str, Any]] = [
    {"nodes": 30000},
    {"runPolicy": {"checkpointSignal": "SIGUSR1"}},
    {"compat": "slurm", "mpi": {"implementation": "OpenMPI"}},
]
_ELASTIC: list[dict[str, Any]] = [
    {"runPolicy": {"checkpointSignal": "SIGUSR1"}},
    {"nodes": 9000},
    {"nodes": 2000, "script": "x" * 950_000, "command": []},
    {"nodeShape": {"gpus": 8}, "elastic": {"mode": "auto", "auto": {"limits": {"gpu": 12}}}},
    {"elastic": {"mode": "auto", "auto": {"minWorkers": 4}}},
]
_LONG = {"a": {"values": ["x" * 9000, *"abcdefghij"], "env": "A"}}
_SWEEP: list[dict[str, Any]] = [
    {"runPolicy": {"checkpointSignal": "SIGUSR1"}},
    {
        "nodes": 2,
        "sweep": {
            "trial": {
                "workload": "torchrun",
                "values": {"torchrun": {"preflight": {"level": "quick"}}},
            },
            "parameters": {"a": {"values": ["1"], "env": "A"}},
        },
    },
    {
        "sweep": {
            "parameters": {"a": {"values": [f"{n}" + "x" * 1500 for n in range(500)], "env": "A"}}
        }
    },
    {
        "sweep": {
            "parameters": _LONG | {"b": {"range": {"min": 1, "max": 100}, "env": "B"}},
            "trials": 100,
        }
    },
    # One trial of `helm sweep`, as the generator writes it.
    {
        "layout": {
            "nodes": 1,
            "procsPerNode": 1,
            "gpusPerNode": 0,
            "worldSize": 1,
            "minNodes": 1,
            "maxNodes": 1,
            "trial": {"sweep": "s", "number": 7, "name": "s-1a2b3c4d"},
        },
        "sweep": {"parameters": {"name": {"values": ["s-1a2b3c4d"], "env": "ALLRANKS_TRIAL_NAME"}}},
    },
]
_MORE = {"torchrun": _TORCHRUN, "mpi": _MPI, "elastic": _ELASTIC, "sweep": _SWEEP}
_OPERATOR: list[dict[str, Any]] = [
    {"watch": {"cluster": True, "namespaces": ["a"]}},
    {"serviceAccount": {"create": False}},
    {"labels": {"app.kubernetes.io/part-of": "allranks"}},
]
_RUNNER: list[dict[str, Any]] = [
    {"image": {"tag": "1"}},
    {"sweep": {"head": "aGVsbG8="}, "labels": {"allranks.dev/role": "x"}},
]
_QUEUE: list[dict[str, Any]] = [
    {
        "labels": {"app.kubernetes.io/name": "x"},
        "kai": {"enabled": True},
        "policy": {"forAll": False, "otherQueues": ["demo"]},
        "networkPolicy": {"from": [{"podSelector": {}}]},
        "rules": {"maxGpusInAll": 1},
        "quota": {"requests.nvidia.com/gpu": 1},
        "kueue": {
            "admin": True,
            "topology": ["host"],
            "resources": {"cpu": {"nominal": 1, "borrow": 1, "lend": 1}},
        },
    },
    {"kueue": {"enabled": True, "flavor": {"name": "a", "nodeLabels": {"a": "b"}}}},
    {"kueue": {"admin": True}},
    {"policy": {"enabled": True}, "rules": {"images": [f"example.com/{n}" for n in range(6)]}},
    {"imposed": {"preset": "h100-8x"}},
    {"kueue": {"admin": True, "topology": ["kubernetes.io/hostname", "rack"]}},
    {"storage": {"datasets": {"azureBlob": {"protocol": "nfs"}}}},
]
# The longest release name is another for a StatefulSet, and where a Service is named after it.
_STATEFUL = {
    "torchrun": {"torchrun": {"controller": "StatefulSet"}},
    "mpi": {"mpi": {"controller": "StatefulSet"}},
    "elastic": {"elastic": {"mode": "auto"}},
    "sweep": {
        "storage": {"workspace": {"size": "1Gi"}},
        "sweep": rendered.SWEEP | {"tensorboard": {"enabled": True}},
    },
}


def test_every_branch_is_rendered(repo: Path, helm4: Any, tmp_path: Path) -> None:
    """No template has a branch that no test renders."""
    charts = Instrumented(
        repo / "charts", tmp_path, ("library", "operator", "sweep-runner", "queue", *_MORE)
    )
    assert len(charts.unreached) > 400
    for chart, extra_values in _MORE.items():
        minimal = rendered.minimal(chart)
        for path in sorted((repo / f"charts/{chart}/ci").glob("*-values.yaml")):
            charts.reach_all(helm4, chart, load(path.read_bytes(), path.name).data)
        for values in [*(case["values"] for case in refusal_cases(chart)), *extra_values]:
            charts.reach(helm4, chart, minimal | values)
        charts.reach(helm4, chart, minimal, name="1x")
        charts.reach(helm4, chart, minimal | _STATEFUL[chart], name="a" * 53)
    # Open MPI 4 cannot shorten such a name.
    charts.reach(helm4, "mpi", rendered.minimal("mpi"), name="a" * 42)
    for chart in ("operator", "sweep-runner", "queue"):
        for path in sorted((repo / f"charts/{chart}/ci").glob("*-values.yaml")):
            charts.reach(helm4, chart, load(path.read_bytes(), path.name).data)
    for values in _RUNNER:
        charts.reach(helm4, "sweep-runner", values)
    for values in _QUEUE:
        charts.reach(helm4, "queue", values)
    charts.reach(helm4, "queue", {}, name="a.b")
    for values in _OPERATOR:
        charts.reach(helm4, "operator", values)
    charts.reach(helm4, "operator", {}, name="1x")
    assert not charts.where()
