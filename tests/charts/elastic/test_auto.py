"""Mode auto: the ElasticJob, and what its master may do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.elastic.policy import settings
from allranks.values.sources import defaults
from allranks_operator.master import options as master_options
from tests.charts.shared.rendered import variables

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Render

JOB = "ElasticJob/demo"


def auto(framework: str = "pytorch", **own: Any) -> dict[str, Any]:
    """The values of a job whose master decides."""
    return {"elastic": {"mode": "auto", "framework": framework, **own}}


def spec_of_master(manifests: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec of the master's template."""
    return dict(manifests[JOB]["spec"]["replicaSpecs"][names.EDL_MASTER]["template"]["spec"])


def master(manifests: dict[str, Any]) -> dict[str, Any]:
    """The container of the master's template."""
    (container,) = spec_of_master(manifests)["containers"]
    return dict(container)


def test_no_replicas_are_needed(render: Render) -> None:
    """The master decides; with `nodes` the job begins with so many. Bounds are ours."""
    worker = render(**auto())[JOB]["spec"]["replicaSpecs"]["worker"]
    assert not {"replicas", "minReplicas", "maxReplicas"} & set(worker)
    bounded = render(nodes=3, **auto(auto={"minWorkers": 2, "maxWorkers": 4}))[JOB]["spec"]
    role_spec = bounded["replicaSpecs"]["worker"]
    assert (3, 2, 4) == tuple(
        role_spec[f"{key}"] for key in ("replicas", "minReplicas", "maxReplicas")
    )
    assert "resourceLimits" not in bounded


@pytest.mark.parametrize(
    ("framework", "strategy", "expected", "roles"),
    [
        ("pytorch", "", "AllreduceStrategy", {"worker"}),
        ("tensorflow", "", "ParameterServerStrategy", {"worker", "ps"}),
        ("pytorch", "ParameterServerStrategy", "ParameterServerStrategy", {"worker", "ps"}),
        ("tensorflow", "AllreduceStrategy", "AllreduceStrategy", {"worker"}),
    ],
)
def test_strategies(
    framework: str, strategy: str, expected: str, roles: set[str], render: Render
) -> None:
    """A ring has workers alone, which run torchrun; with servers each runs its program."""
    job = render(**auto(framework, strategy=strategy))[JOB]["spec"]
    assert expected == job["distributionStrategy"]
    assert roles | {names.EDL_MASTER} == set(job["replicaSpecs"])
    (container,) = job["replicaSpecs"]["worker"]["template"]["spec"]["containers"]
    ring = expected == "AllreduceStrategy"
    assert ["elastic_worker" if ring else "exec", "python", "train.py"] == container["args"]


@pytest.mark.parametrize(
    ("values", "no_python"),
    [({}, "1"), ({"script": "print(1)"}, None), ({"script": "#!/bin/sh\nid"}, "1")],
)
def test_workers_of_torchrun(values: dict[str, Any], no_python: str | None, render: Render) -> None:
    """It is told how many processes each has, and whether the program brings its interpreter."""
    manifests = render(procsPerNode=2, **values, **auto())
    env = variables(manifests[JOB]["spec"]["replicaSpecs"]["worker"]["template"])
    assert "2" == env["PET_NPROC_PER_NODE"]
    assert no_python == env.get("PET_NO_PYTHON")


def test_workers_have_the_grace_period_of_their_own_pods(render: Render) -> None:
    """Torchrun's ranks are killed a little before the pod, whoever set the pod's time."""
    own = {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 300}}}
    manifests = render(**auto(roles={"worker": own}))
    template = manifests[JOB]["spec"]["replicaSpecs"]["worker"]["template"]
    assert 300 == template["spec"]["terminationGracePeriodSeconds"]
    assert "295" == variables(template)["ALLRANKS_GRACE_SECONDS"]


def test_a_limit_of_gpus_is_split_over_nodes(render: Render) -> None:
    """12 GPUs on nodes of 8: a worker asks for six, and runs a process for each."""
    job = render(nodeShape={"gpus": 8}, **auto(auto={"maxWorkers": 8, "limits": {"gpu": 12}}))[JOB]
    template = job["spec"]["replicaSpecs"]["worker"]["template"]
    (container,) = template["spec"]["containers"]
    assert "6" == variables(template)["PET_NPROC_PER_NODE"]
    assert "6" == container["resources"]["limits"]["nvidia.com/gpu"]


def test_limits_and_tries(render: Render) -> None:
    """What all pods may ask for, how often one is replaced, and a suspended job."""
    limits = {"cpu": 32, "memory": "64Gi", "gpu": 8}
    manifests = render(
        runPolicy={"suspend": True, "backoffLimit": 7}, **auto(auto={"limits": limits})
    )
    job = manifests[JOB]["spec"]
    assert {"cpu": "32", "memory": "64Gi", "gpu": "8"} == job["resourceLimits"]
    assert job["suspend"] is True
    assert {7} == {spec["restartCount"] for spec in job["replicaSpecs"].values()}


def test_our_master(render: Render) -> None:
    """It has our image, unless another is named, and its settings; the operator knows the rest."""
    manifests = render(nodeShape={"cpu": "8", "memory": "32Gi"}, **auto())
    assert "own" == manifests[JOB]["metadata"]["annotations"][names.MASTER]
    assert names.RELAUNCH not in manifests[JOB]["metadata"]["annotations"]
    container = master(manifests)
    assert not {"image", "command"} & set(container)
    (env,) = container["env"]
    options = json.loads(env["value"])
    assert {"cpu": "8", "memory": "32Gi"} == options["nodeShape"]
    assert 3 == options["maxRestarts"]
    assert [2] == list(master_options.read(_fatal(render)).fatal_codes)
    others = render(**auto(auto={"master": {"image": "mine:1"}, "relaunch": "master"}))
    assert "mine:1" == master(others)["image"]
    annotations = others[JOB]["metadata"]["annotations"]
    assert ("own", "master") == (annotations[names.MASTER], annotations[names.RELAUNCH])


def test_the_master_runs_where_the_job_may(render: Render) -> None:
    """It tolerates and chooses as the other pods do, but no GPU type, and beside nobody."""
    near = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    scheduling = {
        "schedulerName": "second",
        "priorityClassName": "high",
        "runtimeClassName": "nvidia",
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": near, "podAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
    }
    values = {
        "image": {"repository": "x", "pullPolicy": "Never"},
        "imagePullSecrets": ["registry"],
        "scheduling": scheduling,
        "gpuType": {"value": "H100"},
    }
    spec = spec_of_master(render(**values, **auto()))
    expected = {**scheduling, "affinity": {"nodeAffinity": near}}
    del expected["runtimeClassName"], expected["topologySpreadConstraints"]
    assert expected == {key: spec[key] for key in scheduling if key in spec}
    assert ([{"name": "registry"}], "Never") == (
        spec["imagePullSecrets"],
        spec["containers"][0]["imagePullPolicy"],
    )


def test_the_masters_template_comes_last(render: Render) -> None:
    """Its lists replace the job's, its container merges by the name `main`, null takes away."""
    own = {
        "metadata": {"labels": {"of": "master"}},
        "spec": {
            "tolerations": [{"key": "masters"}],
            "nodeSelector": None,
            "containers": [{"name": "main", "workingDir": "/tmp"}],
        },
    }
    scheduling = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "gpu"}]}
    manifests = render(
        labels={"team": "a"}, scheduling=scheduling, **auto(auto={"master": {"podTemplate": own}})
    )
    spec = spec_of_master(manifests)
    assert ([{"key": "masters"}], None) == (spec["tolerations"], spec.get("nodeSelector"))
    assert "/tmp" == master(manifests)["workingDir"]
    template = manifests[JOB]["spec"]["replicaSpecs"][names.EDL_MASTER]["template"]
    assert {"team": "a", "of": "master"} == template["metadata"]["labels"]
    worker = manifests[JOB]["spec"]["replicaSpecs"]["worker"]["template"]
    assert "of" not in worker["metadata"]["labels"]


def _fatal(render: Render) -> str:
    """The settings of a job with an exit code that no restart can mend."""
    manifests = render(runPolicy={"fatalExitCodes": [2]}, **auto())
    (env,) = master(manifests)["env"]
    return str(env["value"])


def test_the_charts_policy_is_the_masters(render: Render) -> None:
    """Every setting is one that the master has, with the default that it has itself."""
    policy = defaults("elastic")["elastic"]["auto"]["policy"]
    waits = {"gatherSeconds", "lostSeconds", "stopSeconds", "stallSeconds"}
    assert set(policy) == set(settings.NAMES) - {"nodeShape"} | waits
    (env,) = master(render(**auto()))["env"]
    assert master_options.MasterOptions() == master_options.read(env["value"])


def test_rights_of_our_master(render: Render) -> None:
    """It reads its own job and the pods, writes plans and events, and its history by name."""
    manifests = render(**auto())
    rules = {
        resource: (rule.get("resourceNames"), rule["verbs"])
        for rule in manifests["Role/demo-master"]["rules"]
        for resource in rule["resources"]
    }
    assert {
        "elasticjobs": (["demo"], ["get"]),
        "scaleplans": (None, ["get", "list", "create"]),
        "pods": (None, ["list"]),
        "events": (None, ["create"]),
        "configmaps": (["demo-history"], ["get", "patch"]),
    } == rules
    spec = manifests[JOB]["spec"]["replicaSpecs"][names.EDL_MASTER]["template"]["spec"]
    assert ("demo-master", True) == (
        spec["serviceAccountName"],
        spec["automountServiceAccountToken"],
    )
    (subject,) = manifests["RoleBinding/demo-master"]["subjects"]
    assert {"kind": "ServiceAccount", "name": "demo-master", "namespace": "default"} == subject


def test_history_outlives_the_release(render: Render) -> None:
    """Its ConfigMap is kept, has no data of the chart's, and is absent where none is wanted."""
    history = render(**auto())["ConfigMap/demo-history"]
    assert "keep" == history["metadata"]["annotations"][names.HELM_RESOURCE_POLICY]
    assert "data" not in history
    manifests = render(**auto(auto={"history": False}))
    assert "ConfigMap/demo-history" not in manifests
    resources = [rule["resources"] for rule in manifests["Role/demo-master"]["rules"]]
    assert ["configmaps"] not in resources


def test_another_master(render: Render) -> None:
    """It brings its image and command, may make pods itself, and has none of our settings."""
    own = {"image": "dlrover:1", "command": ["python", "$(X)"], "env": {"A": "$b"}}
    manifests = render(**auto(auto={"master": own}))
    assert "given" == manifests[JOB]["metadata"]["annotations"][names.MASTER]
    container = master(manifests)
    assert ("dlrover:1", ["python", "$$(X)"]) == (container["image"], container["command"])
    worker = manifests[JOB]["spec"]["replicaSpecs"]["worker"]["template"]
    assert ["exec", "python", "train.py"] == worker["spec"]["containers"][0]["args"]
    assert "PET_NO_PYTHON" not in variables(worker)
    assert [{"name": "A", "value": "$$b"}] == container["env"]
    verbs = {
        tuple(rule["resources"]): rule["verbs"] for rule in manifests["Role/demo-master"]["rules"]
    }
    assert {"create", "delete", "watch"} <= set(verbs["pods", "services"])
    assert ["get", "list", "watch"] == verbs["elasticjobs",]
    assert "ConfigMap/demo-history" not in manifests
    existing = render(**auto(auto={"master": own | {"serviceAccountName": "mine"}}))
    assert not [name for name in existing if name.startswith(("Role", "ServiceAccount"))]


def test_pods_of_an_elastic_job_are_no_gang(render: Render) -> None:
    """They come and go; the queue and the priority are asked all the same."""
    manifests = render(queue="q", scheduling={"dialect": "kai", "priorityClassName": "p"}, **auto())
    scheduling = json.loads(manifests[JOB]["metadata"]["annotations"][names.SCHEDULING])
    assert {"dialect": "kai", "gang": False, "queue": "q", "priorityClass": "p"} == scheduling
