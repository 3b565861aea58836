"""The parts of the pod and the controller that values ask for, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Render = Callable[..., dict[str, Any]]
Take = Callable[[dict[str, Any]], dict[str, Any]]


def test_resources_per_gpu(render: Render, pod: Take) -> None:
    """Shares are multiplied by the pod's GPUs; requests equal limits, so CPUs can be pinned."""
    manifests = render(
        gpus=16, gpusPerNode=8, resources={"perGpu": {"cpu": 12, "memory": "180Gi", "rdma/x": "1"}}
    )
    limits = {"cpu": "96", "memory": "1440Gi", "rdma/x": "8", "nvidia.com/gpu": "8"}
    resources = pod(manifests)["spec"]["containers"][0]["resources"]
    assert {"requests": limits, "limits": limits} == resources


def test_resources_per_pod(render: Render, pod: Take) -> None:
    """A pod's own requests and limits are taken as they are, with the GPUs beside them."""
    manifests = render(
        gpus=2,
        gpuResource="nvidia.com/mig-3g.40gb",
        resources={"perPod": {"requests": {"cpu": "500m"}, "limits": {"memory": "4Gi"}}},
    )
    assert {
        "requests": {"cpu": "500m", "nvidia.com/mig-3g.40gb": "2"},
        "limits": {"memory": "4Gi", "nvidia.com/mig-3g.40gb": "2"},
    } == pod(manifests)["spec"]["containers"][0]["resources"]


def test_gpu_type_selects_nodes(render: Render, pod: Take) -> None:
    """A GPU type is a node label, beside the user's own."""
    manifests = render(
        gpus=1, gpuType={"value": "A100"}, scheduling={"nodeSelector": {"pool": "train"}}
    )
    assert {"nvidia.com/gpu.product": "A100", "pool": "train"} == pod(manifests)["spec"][
        "nodeSelector"
    ]


@pytest.mark.parametrize(
    ("shm", "limit"),
    [({"size": "1Gi"}, "1Gi"), ({"sizePerGpu": "1.5Gi"}, "6Gi"), ({}, None)],
)
def test_shared_memory(shm: dict[str, str], limit: str | None, render: Render, pod: Take) -> None:
    """/dev/shm is memory of a size of its own, or the runtime's."""
    spec = pod(render(gpus=8, gpusPerNode=4, shm=shm))["spec"]
    volumes = [volume["emptyDir"] for volume in spec["volumes"] if volume["name"] == "shm"]
    assert ([{"medium": "Memory", "sizeLimit": limit}] if limit else []) == volumes
    mounts = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert (limit is not None) == ("/dev/shm" in mounts)


def test_claims(render: Render, pod: Take) -> None:
    """New claims are sized by all GPUs, kept where asked, and mounted as asked."""
    manifests = render(
        gpus=16,
        gpusPerNode=8,
        storage={
            "checkpoints": {"sizePerGpu": "12.5Gi", "storageClassName": "fast"},
            "datasets": {"size": "2Ti", "keep": False, "readOnly": True, "subPath": "a"},
            "workspace": {"existingClaim": "home"},
        },
    )
    claims = {
        name: manifest for name, manifest in manifests.items() if name.startswith("Persistent")
    }
    assert {f"PersistentVolumeClaim/demo-{claim}" for claim in ("checkpoints", "datasets")} == set(
        claims
    )
    checkpoints = claims["PersistentVolumeClaim/demo-checkpoints"]
    assert {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "200Gi"}},
        "storageClassName": "fast",
    } == checkpoints["spec"]
    assert {"helm.sh/resource-policy": "keep"} == checkpoints["metadata"]["annotations"]
    datasets = claims["PersistentVolumeClaim/demo-datasets"]
    assert "annotations" not in datasets["metadata"]
    assert "storageClassName" not in datasets["spec"]
    spec = pod(manifests)["spec"]
    sources = {
        volume["name"]: volume["persistentVolumeClaim"]["claimName"]
        for volume in spec["volumes"]
        if "persistentVolumeClaim" in volume
    }
    assert {
        "checkpoints": "demo-checkpoints",
        "datasets": "demo-datasets",
        "workspace": "home",
    } == sources
    mounts = {mount["name"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert {"name": "datasets", "mountPath": "/datasets", "subPath": "a", "readOnly": True} == (
        mounts["datasets"]
    )


def test_storage_of_an_elastic_job_is_sized_by_its_most_nodes(render: Render) -> None:
    """Space for every GPU that may ever join."""
    manifests = render(
        gpusPerNode=8,
        nodes=2,
        storage={"checkpoints": {"sizePerGpu": "1Gi"}},
        torchrun={"elastic": {"minNodes": 1, "maxNodes": 4}},
    )
    spec = manifests["PersistentVolumeClaim/demo-checkpoints"]["spec"]
    assert spec["resources"]["requests"]["storage"] == "32Gi"


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"repository": "a/b", "tag": "1"}, "a/b:1"),
        ({"repository": "a/b", "tag": ""}, "a/b"),
        (
            {"repository": "a/b", "tag": "1", "digest": "sha256:" + "0" * 64},
            "a/b@sha256:" + "0" * 64,
        ),
    ],
)
def test_image(image: dict[str, str], reference: str, render: Render, pod: Take) -> None:
    """A digest wins over a tag."""
    assert reference == pod(render(image=image))["spec"]["containers"][0]["image"]


def test_host_network_has_the_dns_of_the_cluster(render: Render, pod: Take) -> None:
    """With the node's network, pods still find Services."""
    spec = pod(render(nodes=2, network={"hostNetwork": True}))["spec"]
    assert (True, "ClusterFirstWithHostNet") == (spec["hostNetwork"], spec["dnsPolicy"])
    assert "dnsPolicy" not in pod(render())["spec"]


def test_spread_constraints_are_about_the_jobs_own_pods(render: Render, pod: Take) -> None:
    """Without a selector a constraint would match nothing; one that is given stays."""
    bare = {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}
    own = bare | {"labelSelector": {"matchLabels": {"a": "b"}}}
    constraints = [bare, own]
    template = pod(render(scheduling={"topologySpreadConstraints": constraints}))
    first, second = template["spec"]["topologySpreadConstraints"]
    assert own == second
    selector = first["labelSelector"]["matchLabels"]
    assert selector
    assert selector.items() <= template["metadata"]["labels"].items()


def test_run_policy(render: Render) -> None:
    """Each node has its retries; disruptions come first and cost none.

    One limit for all pods would let the back-off of a Job double with each pod that is lost.
    """
    manifests = render(
        runPolicy={
            "suspend": True,
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": 60,
            "activeDeadlineSeconds": 3600,
            "fatalExitCodes": [13, 42],
        }
    )
    spec = manifests["Job/demo"]["spec"]
    assert {
        "suspend": True,
        "backoffLimitPerIndex": 0,
        "maxFailedIndexes": 0,
        "ttlSecondsAfterFinished": 60,
        "activeDeadlineSeconds": 3600,
        "podReplacementPolicy": "Failed",
    }.items() <= spec.items()
    assert "backoffLimit" not in spec
    disruption, fatal = spec["podFailurePolicy"]["rules"]
    assert {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    } == disruption
    assert {
        "action": "FailJob",
        "onExitCodes": {"containerName": "trainer", "operator": "In", "values": [13, 42]},
    } == fatal
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_zero_is_not_set(render: Render) -> None:
    """No deadline, no removal, no rule of fatal codes by default."""
    spec = render()["Job/demo"]["spec"]
    assert not {"ttlSecondsAfterFinished", "activeDeadlineSeconds", "successPolicy"} & set(spec)
    assert len(spec["podFailurePolicy"]["rules"]) == 1


@pytest.mark.parametrize(("lighthouse", "action"), [("", "FailJob"), ("l:1", "FailIndex")])
def test_an_unfit_node_is_not_tried_again(render: Render, lighthouse: str, action: str) -> None:
    """A node that a preflight names fails the run; of replica groups, that group alone."""
    torchrun = {"preflight": {"level": "quick"}, "torchft": {"lighthouse": lighthouse}}
    rule = render(nodes=2, torchrun=torchrun)["Job/demo"]["spec"]["podFailurePolicy"]["rules"][-1]
    assert (action, [219]) == (rule["action"], rule["onExitCodes"]["values"])


def test_service_gives_rank_zero_its_name(render: Render, pod: Take) -> None:
    """The Service selects one pod unless every name is asked for; one node needs none."""
    (service,) = (
        manifest for manifest in render(nodes=2).values() if manifest["kind"] == "Service"
    )
    spec = service["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["selector"]["batch.kubernetes.io/job-completion-index"] == "0"
    every = render(nodes=2, network={"serviceAllPods": True})["Service/demo"]["spec"]
    assert "batch.kubernetes.io/job-completion-index" not in every["selector"]
    assert pod(render(nodes=2))["spec"]["subdomain"] == service["metadata"]["name"]
    assert "Service/demo" not in render()
    assert "subdomain" not in pod(render())["spec"]


def test_statefulset(render: Render, pod: Take, env: Take) -> None:
    """StatefulSet pods with rank 0 behind a ClusterIP Service, and a marker of the finished."""
    manifests = render(nodes=3, torchrun={"controller": "StatefulSet", "port": 29400})
    stateful, master = (
        manifests["StatefulSet/demo"]["spec"],
        manifests["Service/demo-master"]["spec"],
    )
    assert {"replicas": 3, "serviceName": "demo", "podManagementPolicy": "Parallel"}.items() <= (
        stateful.items()
    )
    assert {"type": "ClusterIP", "publishNotReadyAddresses": True}.items() <= master.items()
    assert master["selector"]["statefulset.kubernetes.io/pod-name"] == "demo-0"
    assert 29400 == master["ports"][0]["port"]
    assert pod(manifests)["spec"]["restartPolicy"] == "Always"
    variables = env(manifests)
    assert variables["ALLRANKS_FINISHED_MARKER"] == "/var/run/allranks/finished"
    assert {
        "fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}
    } == variables["ALLRANKS_NODE_RANK"]
    assert "PersistentVolumeClaim" not in str(manifests)


def test_entry_digest_follows_the_files(render: Render, pod: Take) -> None:
    """A StatefulSet's pods are replaced when the script changes, and only then."""
    digests = [
        pod(render(script=script, nodes=nodes))["metadata"]["annotations"]
        for script, nodes in (("print(1)", 1), ("print(1)", 2), ("print(2)", 1))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_render_is_deterministic(ci_file: Any, ci_text: str, torchrun: Any, helm4: Any) -> None:
    """The same values render to the same bytes, again and again."""
    assert ci_text == helm4.render(torchrun, "-f", ci_file)
