"""The settings in which the pods of a release are compared with those of the original."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from allranks.convert import original
from allranks.convert.reports import compare
from allranks.errors import InputError
from tests.converted import samples


def _spec(pod: dict[str, Any], **container: Any) -> dict[str, Any]:
    return {"containers": [{"name": "trainer", "image": "x:1", **container}], **pod}


def _differences(
    theirs: dict[str, Any], ours: dict[str, Any], role: str = "node", **pod: Any
) -> list[str]:
    """What two PodSpecs have otherwise, as sentences."""
    template = {"metadata": {"labels": {"allranks.dev/role": role}}, "spec": ours}
    release = {"kind": "Job", "spec": {"completions": 1, "template": template}}
    own = original.OriginalPod("j-0", role, 0, {"spec": theirs}, pod.pop("main", "trainer"), **pod)
    return [str(item) for item in compare.differences([own], [release])]


@pytest.mark.parametrize(
    ("theirs", "ours", "sentences"),
    [
        ({"dnsPolicy": "Default"}, {}, ["dnsPolicy: Default there, ClusterFirst here"]),
        ({"dnsPolicy": "None"}, {"dnsPolicy": "None"}, []),
        ({}, {"dnsPolicy": "ClusterFirst"}, []),
        ({"hostNetwork": True}, {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, []),
        ({}, {"dnsPolicy": "Default"}, ["dnsPolicy: ClusterFirst there, Default here"]),
        ({"setHostnameAsFQDN": True}, {}, ["setHostnameAsFQDN: True there, nothing here"]),
        ({"overhead": {"cpu": 1}}, {"overhead": {"cpu": "1"}}, []),
        ({"hostUsers": False}, {}, ["hostUsers: False there, nothing here"]),
        ({}, {"enableServiceLinks": False, "automountServiceAccountToken": False}, []),
        (
            {"enableServiceLinks": True},
            {"enableServiceLinks": False},
            ["enableServiceLinks: True there, False here"],
        ),
    ],
)
def test_the_fields_of_a_pod_are_compared(
    theirs: dict[str, Any], ours: dict[str, Any], sentences: list[str]
) -> None:
    """What the charts have a default of their own for is compared where the original says it."""
    differences = _differences(_spec(theirs), _spec(ours))
    assert [f"node: {sentence}" for sentence in sentences] == differences


@pytest.mark.parametrize(
    ("theirs", "ours", "is_same"),
    [
        ({"tcpSocket": {"port": 1}}, {"tcpSocket": {"port": 1}, "periodSeconds": 5}, True),
        ({"tcpSocket": {"port": 1}}, {"tcpSocket": {"port": 2}}, False),
        (None, {"tcpSocket": {"port": 2}}, True),
        ({"tcpSocket": {"port": 1}}, None, False),
    ],
)
def test_a_probe_is_compared_in_what_the_original_says_of_it(
    theirs: dict[str, Any] | None, ours: dict[str, Any] | None, *, is_same: bool
) -> None:
    """The charts have probes of their own, into which the values' are merged."""
    key = "readinessProbe"
    specs = [_spec({}, **({key: probe} if probe else {})) for probe in (theirs, ours)]
    assert is_same == (not _differences(*specs))


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_another_container_called_trainer_is_compared_by_its_name_here(kind: str) -> None:
    """The name is that of the container that trains, and the other has one that begins with it."""
    other = {"name": "trainer", "image": "b:1", "command": ["sleep", "9"]}
    theirs: dict[str, Any] = {"containers": [{"name": "main", "image": "x:1"}]}
    theirs[kind] = [*theirs.get(kind, []), other]
    ours = _spec({})
    ours[kind] = [*ours.get(kind, []), {**other, "name": "trainer-side"}]
    assert [] == _differences(theirs, ours, main="main")
    ours[kind][-1]["image"] = "b:2"
    [difference] = _differences(theirs, ours, main="main")
    assert "container trainer-side: " in difference


def test_an_init_container_called_trainer_is_seen() -> None:
    """Where nothing else has the name, it has kept its own."""
    theirs = {"initContainers": [{"name": "trainer", "image": "b:1"}]}
    assert [] == _differences(_spec(theirs), _spec(theirs))


def test_no_command_is_called_nothing() -> None:
    """A worker that ran a program waits here: there is no text to show."""
    theirs, ours = _spec({}, command=["python", "server.py"]), _spec({})
    assert ["worker: command: python server.py there, nothing here"] == _differences(
        theirs, ours, "worker"
    )


def _job(replicas: dict[str, tuple[int, list[str]]]) -> list[original.OriginalPod]:
    """The pods of a PyTorchJob, by the number and the command of each role."""
    specs = {
        role: {
            "replicas": number,
            "template": {"spec": {"containers": [{"name": "pytorch", "image": "x", "command": c}]}},
        }
        for role, (number, c) in replicas.items()
    }
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j"}}
    return original.pods({**job, "spec": {"pytorchReplicaSpecs": specs}}) or []


def _release(pods: int, nodes: str, per_pod: str, command: list[str]) -> dict[str, Any]:
    env = [{"name": "PET_NNODES", "value": nodes}, {"name": "PET_NPROC_PER_NODE", "value": per_pod}]
    spec = _spec({}, args=command, env=env, image="x")
    return {"kind": "Job", "spec": {"completions": pods, "template": {"spec": spec}}}


def test_ranks_are_those_of_all_pods() -> None:
    """A master with more ranks than its workers has its own."""
    words = ["torchrun", "--nnodes=4", "--rdzv-backend=c10d"]
    pods = _job(
        {
            "Master": (1, [*words, "--nproc_per_node=8", "t.py"]),
            "Worker": (3, [*words, "--nproc_per_node=4", "t.py"]),
        }
    )
    release = _release(4, "4", "4", ["python3", "-u", "t.py"])
    ranks = [str(item) for item in compare.differences(pods, [release]) if "ranks" in item.setting]
    assert ["node: ranks of a training: 20 there, 16 here"] == ranks


@pytest.mark.parametrize(
    ("words", "nodes", "sentences"),
    [
        (["torchrun", "--nnodes=2"], "1:2", ["2 there, 1 to 2 here"]),
        (["torchrun", "--nnodes=1:2"], "1:2", []),
        (["torchrun", "--nnodes=1:2"], "2", ["1 to 2 there, 2 here"]),
        (["torchrun", "--nnodes=2"], "2", []),
        (["python"], "1:2", ["2 there, 1 to 2 here"]),
        (["python"], "2", []),
    ],
)
def test_a_range_of_nodes_is_compared(words: list[str], nodes: str, sentences: list[str]) -> None:
    """A training that goes on with fewer pods is another than one that needs all of them."""
    pods = _job({"Worker": (2, [*words, "t.py"])})
    args = ["python3", "-u", "t.py"] if "torchrun" in words else ["python", "t.py"]
    result = compare.differences(pods, [_release(2, nodes, "1", args)])
    own = [f"{item.theirs} there, {item.ours} here" for item in result if "nodes" in item.setting]
    assert sentences == own


_SIZES = ("replicas", "numNodes", "completions", "parallelism", "num_replicas", "size", "workers")


def _sized(node: Any, number: int) -> Any:
    """An object with another number of pods, wherever it has one."""
    if isinstance(node, dict):
        return {
            key: number
            if key in (*_SIZES, "numWorkers") and isinstance(value, int)
            else _sized(value, number)
            for key, value in node.items()
        }
    return [_sized(item, number) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", ["plain", "horovod", "pretrain", "gang", "group", "ctr", "demo"])
def test_more_pods_than_values_may_have_are_refused(name: str) -> None:
    """Before any is made: a number may be a slip of millions."""
    objects = samples()
    with pytest.raises(InputError, match="1000000000 pods are more than values may have"):
        original.pods(_sized(objects[name].data, 10**9), [item.data for item in objects.values()])


def test_pods_that_are_alike_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand of them take no longer than their names."""
    looks = 0
    compared = compare._of_templates

    def counted(*arguments: Any) -> Any:
        nonlocal looks
        looks += 1
        return compared(*arguments)

    monkeypatch.setattr(compare, "_of_templates", counted)
    number = 100_000
    pods = _job({"Worker": (number, ["torchrun", f"--nnodes={number}", "t.py"])})
    release = _release(number, str(number), "1", ["python3", "-u", "t.py"])
    assert [] == compare.differences(pods, [release])
    assert 1 == looks
    other = [replace(pods[0], template={**pods[0].template, "metadata": {"labels": {"a": "b"}}})]
    assert 1 == len(compare.differences([*other, *pods[1:]], [release]))


def test_the_claims_of_a_statefulsets_pods_stay_when_these_are_gone() -> None:
    """A claim that goes with its pod is another volume."""
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    mount = {"name": "data", "mountPath": "/data"}
    container = {"name": "trainer", "image": "x:1", "volumeMounts": [mount]}
    job = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s"}}
    spec = {"template": {"spec": {"containers": [container]}}, "volumeClaimTemplates": [template]}
    [pod] = original.pods({**job, "spec": spec}) or []
    own = {"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": template["spec"]}}}
    [difference] = _differences(dict(pod.spec), _spec({"volumes": [own]}, volumeMounts=[mount]))
    assert difference.startswith(
        'node: mount /data: {"persistentVolumeClaim": {"claimName": "data-s-N"}} there, '
    )


@pytest.mark.parametrize(
    ("is_group", "label"),
    [(False, "jobset.sigs.k8s.io/job-key"), (True, "leaderworkerset.sigs.k8s.io/group-key")],
)
def test_a_set_with_a_domain_for_itself_is_placed_by_its_first_pod(
    label: str, *, is_group: bool
) -> None:
    """It has affinities, and the others select the domain of its node."""
    template = {"spec": {"containers": [{"name": "c", "image": "x:1", "command": ["a"]}]}}
    of_kind = ("leaderworkerset.sigs.k8s.io", "alpha.jobset.sigs.k8s.io")[not is_group]
    metadata = {"name": "s", "annotations": {f"{of_kind}/exclusive-topology": "rack"}}
    jobs = [{"name": "w", "template": {"spec": {"completions": 3, "template": template}}}]
    manifest: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "spec": {"replicatedJobs": jobs},
    }
    if is_group:
        manifest = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
        manifest["spec"] = {"leaderWorkerTemplate": {"size": 3, "workerTemplate": template}}
    first, *others = original.pods({**manifest, "metadata": metadata}) or []
    affinity = first.spec["affinity"]
    assert {"podAffinity", "podAntiAffinity"} == set(affinity)
    [term] = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert "rack" == term["topologyKey"]
    assert label == term["labelSelector"]["matchExpressions"][0]["key"]
    assert [{"rack": "that of the first pod"}] * 2 == [pod.spec["nodeSelector"] for pod in others]
    assert not any("affinity" in pod.spec for pod in others)
