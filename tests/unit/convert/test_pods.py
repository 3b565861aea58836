from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.documents.context import Context
from allranks.convert.kinds import pytorch
from allranks.service import convert as service
from tests import converted
from tests.converted import text_as_jobs

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion

ABOVE = "spec.pytorchReplicaSpecs.Worker.template."


def convert(
    spec: dict[str, Any] | None = None,
    container: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Conversion:
    """A template as values; its only container runs `a`."""
    own = {"name": "pytorch", "image": "x:1", "command": ["a"], **(container or {})}
    template = {"metadata": metadata or {}, "spec": {"containers": [own], **(spec or {})}}
    source = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "x"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}},
    }
    return pytorch.convert(source, Context())


def lost(conversion: Conversion) -> list[str]:
    """The fields of the template that are not carried."""
    return [verdict.path.removeprefix(ABOVE) for verdict in conversion.lost]


SPECS: list[tuple[dict[str, Any], tuple[str, ...], Any]] = [
    ({"nodeSelector": {"a": "b"}}, ("scheduling", "nodeSelector"), {"a": "b"}),
    ({"priorityClassName": "p"}, ("scheduling", "priorityClassName"), "p"),
    ({"schedulerName": "volcano"}, ("scheduling",), {"dialect": "volcano"}),
    ({"schedulerName": "kai-scheduler"}, ("scheduling",), {"dialect": "kai"}),
    ({"schedulerName": "mine"}, ("scheduling",), {"schedulerName": "mine"}),
    ({"schedulerName": "default-scheduler"}, ("scheduling",), None),
    (
        {"tolerations": [{"operator": "Exists"}]},
        ("scheduling", "tolerations"),
        [{"operator": "Exists"}],
    ),
    ({"imagePullSecrets": [{"name": "a"}, {"name": "b"}]}, ("imagePullSecrets",), ["a", "b"]),
    ({"serviceAccountName": "s"}, ("serviceAccount",), {"name": "s", "automountToken": True}),
    ({"serviceAccountName": "default"}, ("serviceAccount",), None),
    ({"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, ("network",), {"hostNetwork": True}),
    ({"terminationGracePeriodSeconds": 90}, ("runPolicy",), {"terminationGracePeriodSeconds": 90}),
    ({"terminationGracePeriodSeconds": 0}, ("runPolicy",), {"terminationGracePeriodSeconds": 1}),
    ({"securityContext": {"fsGroup": 1}}, ("security", "podSecurityContext"), {"fsGroup": 1}),
    ({"hostIPC": True}, ("podTemplate", "spec", "hostIPC"), True),
    (
        {"hostAliases": [{"ip": "1.1.1.1"}]},
        ("podTemplate", "spec", "hostAliases"),
        [{"ip": "1.1.1.1"}],
    ),
    (
        {"volumes": [{"name": "state", "emptyDir": {}}]},
        ("podTemplate", "spec", "volumes"),
        [{"name": "state-volume", "emptyDir": {}}],
    ),
    (
        {"initContainers": [{"name": "i", "image": "y"}]},
        ("podTemplate", "spec", "initContainers"),
        [{"name": "i", "image": "y"}],
    ),
]


@pytest.mark.parametrize(("spec", "path", "expected"), SPECS)
def test_a_field_of_the_pod(spec: dict[str, Any], path: tuple[str, ...], expected: Any) -> None:
    """It stands where the values have a place for it, and in podTemplate otherwise."""
    conversion = convert(spec)
    value: Any = conversion.values
    for step in path:
        value = (value or {}).get(step)
    assert (expected, []) == (value, lost(conversion))


GPUS = [
    ({"limits": {"nvidia.com/gpu": 8}}, (8, None)),
    ({"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": 2}}, (2, None)),
    ({"limits": {"amd.com/gpu": 1}}, (1, "amd.com/gpu")),
    ({"limits": {"nvidia.com/mig-3g.40gb": 2}}, (2, "nvidia.com/mig-3g.40gb")),
    ({"limits": {"habana.ai/gaudi": 8}}, (8, "habana.ai/gaudi")),
    ({"limits": {"aws.amazon.com/neuron": 16}}, (16, "aws.amazon.com/neuron")),
    ({"limits": {"google.com/tpu": 4}}, (4, "google.com/tpu")),
    ({"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}, (1, None)),
    ({"limits": {"nvidia.com/gpu": 0}}, (None, None)),
    ({"limits": {"rdma/hca": 1}}, (None, None)),
]


@pytest.mark.parametrize(("resources", "expected"), GPUS)
def test_gpus_of_all_vendors(resources: Any, expected: tuple[int | None, str | None]) -> None:
    """Their number is the size of a node, and their name the resource that it asks by."""
    conversion = convert(container={"resources": resources})
    values = conversion.values
    assert (expected, []) == (
        (values.get("gpusPerNode"), values.get("gpuResource")),
        lost(conversion),
    )


def test_the_first_name_of_nvidias_gpus_is_said_to_be_changed() -> None:
    """A pod that asked for it would wait for ever: no node of today has it."""
    resources = {"limits": {"alpha.kubernetes.io/nvidia-gpu": 1}}
    conversion = convert(container={"resources": resources})
    assert any("nvidia.com/gpu since" in verdict.why for verdict in conversion.verdicts)


def test_amounts_are_text_and_devices_are_limits() -> None:
    """A fraction keeps its digits, and a device that is only requested becomes a limit."""
    requests = {
        "cpu": 0.5,
        "memory": "1Gi",
        "rdma/hca": 1,
        "rdma/ib": "1k",
        "x.io/y": "2e3",
        "x.io/z": "8G",
    }
    conversion = convert(container={"resources": {"requests": requests, "limits": {"cpu": 2}}})
    assert {
        "requests": {"cpu": "0.5", "memory": "1Gi"},
        "limits": {"cpu": "2", "rdma/hca": "1", "rdma/ib": "1000", "x.io/y": "2000"}
        | {"x.io/z": "8000000000"},
    } == conversion.values["resources"]["perPod"]


def test_processes_share_the_cores_of_a_neuron_device() -> None:
    """A device of Neuron has several cores, so that it may have more ranks than devices."""
    limits = {"cpu": 2, "aws.amazon.com/neuron": 16}
    command = ["torchrun", "--nproc_per_node=32", "t.py"]
    conversion = convert(container={"command": command, "resources": {"limits": limits}})
    values = conversion.values
    assert [] == lost(conversion)
    assert 32 == values["procsPerNode"]
    assert {"cpu": "2", "aws.amazon.com/neuron": "16"} == values["resources"]["perPod"]["limits"]
    assert not {"gpusPerNode", "gpuResource"} & set(values)


def test_what_no_chart_takes_is_said() -> None:
    """An amount of bytes that nobody means is left out, and its field is not carried."""
    conversion = convert(container={"resources": {"limits": {"memory": "180"}}})
    assert ["spec.containers[0].resources.limits.memory"] == lost(conversion)
    assert "resources" not in conversion.values
    conversion = convert(container={"resources": {"limits": {"nvidia.com/gpu": "${GPUS}"}}})
    assert ["spec.containers[0].resources.limits.nvidia.com/gpu"] == lost(conversion)


def test_variables() -> None:
    """The last of two wins, sources stay, what Kubernetes puts in stays with Kubernetes."""
    key = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [
        {"name": "A", "value": "1"},
        {"name": "A", "value": "2"},
        {"name": "B", "valueFrom": key},
        {"name": "C", "value": "$(A)/x"},
        {"name": "D", "value": "$$(A)"},
        {"name": "E"},
        {"name": "RANK", "value": "0"},
    ]
    conversion = convert(container={"env": env})
    assert {"A": "2", "B": {"valueFrom": key}, "D": "$(A)", "E": ""} == conversion.values["env"]
    trainer = conversion.values["podTemplate"]["spec"]["containers"][0]
    assert ({"name": "trainer", "env": [{"name": "C", "value": "$(A)/x"}]}, []) == (
        trainer,
        lost(conversion),
    )


def test_a_variable_of_a_later_one_stays_as_typed() -> None:
    """Kubernetes puts in what is above an entry alone, and the chart's order is another."""
    env = [
        {"name": "A", "value": "$(Z)/x"},
        {"name": "M", "value": "1"},
        {"name": "N", "value": "$(Z)/$(M)"},
        {"name": "Z", "value": "2"},
    ]
    values = convert(container={"env": env}).values
    assert {"A": "$(Z)/x", "M": "1", "Z": "2"} == values["env"]
    of_others = [{"name": "N", "value": "$$(Z)/$(M)"}]
    assert of_others == values["podTemplate"]["spec"]["containers"][0]["env"]


def test_shared_memory_is_a_size() -> None:
    """A volume in memory at /dev/shm is shm.size, where it has a size and no other user."""
    volume = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    mount = {"name": "dshm", "mountPath": "/dev/shm"}
    values = convert({"volumes": [volume]}, {"volumeMounts": [mount]}).values
    assert ({"size": "8Gi"}, None) == (values["shm"], values.get("podTemplate"))
    unbounded = {"name": "dshm", "emptyDir": {"medium": "Memory"}}
    values = convert({"volumes": [unbounded]}, {"volumeMounts": [mount]}).values
    assert [unbounded] == values["podTemplate"]["spec"]["volumes"]


SOURCES: list[dict[str, Any]] = [
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"hostPath": {"path": "/x"}},
    {"projected": {"sources": [{"secret": {"name": "s"}}]}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
    {"csi": {"driver": "d"}},
    {"nfs": {"server": "s", "path": "/"}},
    {"configMap": {"name": "c", "items": [{"key": "a", "path": "b"}]}},
    {"image": {"reference": "r:1"}},
]


@pytest.mark.parametrize("source", SOURCES)
def test_every_kind_of_volume_stays_as_it_is(source: dict[str, Any]) -> None:
    """A volume and each of its mounts are the pod's own."""
    mounts = [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b", "subPath": "c"}]
    conversion = convert({"volumes": [{"name": "v", **source}]}, {"volumeMounts": mounts})
    spec = conversion.values["podTemplate"]["spec"]
    assert ([{"name": "v", **source}], mounts, []) == (
        spec["volumes"],
        spec["containers"][0]["volumeMounts"],
        lost(conversion),
    )


IMAGES = [
    ("x:1", None, {"repository": "x", "tag": "1"}),
    ("x", None, {"repository": "x", "pullPolicy": "Always"}),
    ("x:latest", None, {"repository": "x", "tag": "latest", "pullPolicy": "Always"}),
    ("x:latest", "Never", {"repository": "x", "tag": "latest", "pullPolicy": "Never"}),
    (
        "h:5000/a/x@sha256:" + "0" * 64,
        None,
        {"repository": "h:5000/a/x", "digest": "sha256:" + "0" * 64},
    ),
]


@pytest.mark.parametrize(("image", "policy", "expected"), IMAGES)
def test_images_are_pulled_as_kubernetes_would(
    image: str, policy: str | None, expected: Any
) -> None:
    """Without a policy the latest is pulled each time."""
    container = {"image": image} if policy is None else {"image": image, "imagePullPolicy": policy}
    assert expected == convert(container=container).values["image"]


def test_a_pod_that_is_restricted_itself_stays_so() -> None:
    """Only a template that says nothing of it lets the image's user run."""
    own = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert "restricted" not in convert(container={"securityContext": own}).values["security"]
    assert {"restricted": False} == convert().values["security"]


def test_queues_that_labels_name() -> None:
    """A label of a queue's is the queue, in its dialect."""
    conversion = convert(metadata={"labels": {"kueue.x-k8s.io/queue-name": "lab", "a": "b"}})
    assert ("lab", {"dialect": "kueue"}, {"a": "b"}) == (
        conversion.values["queue"],
        conversion.values["scheduling"],
        conversion.values["podTemplate"]["metadata"]["labels"],
    )


def test_sidecars_and_probes_stay() -> None:
    """Other containers, and what the trainer has besides, are in podTemplate."""
    source = {
        "containers": [
            {"name": "side", "image": "y"},
            {
                "name": "pytorch",
                "image": "x:1",
                "command": ["a"],
                "tty": True,
                "startupProbe": {"exec": {"command": ["true"]}},
            },
        ]
    }
    conversion = convert(source)
    assert [
        {"name": "trainer", "tty": True, "startupProbe": {"exec": {"command": ["true"]}}},
        {"name": "side", "image": "y"},
    ] == sorted(
        conversion.values["podTemplate"]["spec"]["containers"], key=lambda item: -len(item["name"])
    )


LIMITS_OF_PYTORCH = {"resourceFieldRef": {"containerName": "pytorch", "resource": "limits.cpu"}}
LIMITS_OF_TRAINER = {"resourceFieldRef": {"containerName": "trainer", "resource": "limits.cpu"}}


def test_what_names_the_container_names_the_trainer() -> None:
    """The kubelet starts no pod that reads the limits of a container by a name that is gone."""
    conversion = convert(
        {"volumes": [{"name": "pod", "downwardAPI": {"items": [LIMITS_OF_PYTORCH]}}]},
        {"env": [{"name": "OMP_NUM_THREADS", "valueFrom": LIMITS_OF_PYTORCH}]},
        {"annotations": {"container.apparmor.security.beta.kubernetes.io/pytorch": "unconfined"}},
    )
    template = conversion.values["podTemplate"]
    assert (
        LIMITS_OF_TRAINER,
        [{"name": "pod", "downwardAPI": {"items": [LIMITS_OF_TRAINER]}}],
        {"container.apparmor.security.beta.kubernetes.io/trainer": "unconfined"},
    ) == (
        conversion.values["env"]["OMP_NUM_THREADS"]["valueFrom"],
        template["spec"]["volumes"],
        template["metadata"]["annotations"],
    )


def test_a_sidecar_that_was_called_trainer_is_named_by_its_new_name() -> None:
    """Only the container that trains is called trainer; who reads the other one's limits does."""
    conversion = convert(
        {
            "containers": [
                {
                    "name": "pytorch",
                    "image": "x:1",
                    "command": ["a"],
                    "env": [{"name": "CORES", "valueFrom": LIMITS_OF_TRAINER}],
                },
                {"name": "trainer", "image": "y:1"},
            ]
        }
    )
    own = conversion.values["env"]["CORES"]["valueFrom"]["resourceFieldRef"]
    assert own["containerName"] == "trainer-side"


def test_what_is_no_field_of_a_template_is_called_so() -> None:
    """A label that stands beside labels, or a request without its s, is nobody's to write."""
    conversion = convert({}, {"resources": {"request": {"cpu": 1}}}, {"app": "a"})
    reasons = {verdict.why for verdict in conversion.lost}
    assert {"a PyTorchJob has no such field"} == reasons
    assert ["metadata.app", "spec.containers[0].resources.request.cpu"] == lost(conversion)


def test_a_mount_of_a_volume_that_nobody_has_is_nobodys() -> None:
    """The operator of a PyTorchJob makes no volumes."""
    mount = "volumeMounts: [{name: ca, mountPath: /ca}]"
    conversion = converted.text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\n"
        "spec: {pytorchReplicaSpecs: {Worker: {template: {spec: {containers: "
        f"[{{name: a, image: i, command: [./a], {mount}}}]}}}}}}}}}}"
    ).conversions[0]
    assert {"there is no volume ca"} == {verdict.why for verdict in conversion.lost}


def test_a_command_that_reads_what_is_not_mounted_is_named() -> None:
    """A container that copies the key of mpi-operator's would end there: its command says so."""
    text = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {
  initContainers: [{name: keys, image: i, command: [sh, -c, "cp /mnt/ssh/* /k"],
    volumeMounts: [{name: ssh-auth, mountPath: /mnt/ssh}]}],
  containers: [{name: l, image: i, command: [mpirun, a]}]}}}}}
"""
    reasons = {verdict.why for verdict in converted.text_as_jobs(text).conversions[0].lost}
    why = "there is no volume ssh-auth: the old controller made it, and the command of keys reads "
    assert {f"{why}/mnt/ssh: take that out of it"} == reasons


QUEUES = [
    ("kueue.x-k8s.io/queue-name", "volcano", {"dialect": "kueue", "schedulerName": "volcano"}),
    ("kueue.x-k8s.io/queue-name", "default-scheduler", {"dialect": "kueue"}),
    ("kueue.x-k8s.io/queue-name", "mine", {"dialect": "kueue", "schedulerName": "mine"}),
    ("volcano.sh/queue-name", "volcano", {"dialect": "volcano"}),
]


@pytest.mark.parametrize(("label", "scheduler", "scheduling"), QUEUES)
def test_the_dialect_is_the_queues(label: str, scheduler: str, scheduling: dict[str, str]) -> None:
    """Kueue's queue is none of Volcano's, which places the pods that Kueue lets in."""
    conversion = converted.text_as_jobs(
        f"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {{name: a, labels: {{{label}: q"
        "}}\nspec: {pytorchReplicaSpecs: {Worker: {template: {spec: "
        f"{{schedulerName: {scheduler}, containers: [{{name: a, image: i, command: [./a]}}]}}"
        "}}}}"
    ).conversions[0]
    assert ("q", scheduling) == (conversion.values["queue"], conversion.values["scheduling"])
    is_noted = any("places the pods" in note for note in conversion.notes)
    assert is_noted == (scheduler == "volcano" and label.startswith("kueue"))


LABELS = [
    ("job-role", "not carried", "which none writes here"),
    ("replica-type", "not carried", "which none writes here"),
    ("controller-uid", "changed", "a controller or kubectl writes it"),
    ("training.kubeflow.org/job-role", "changed", "a controller or kubectl writes it"),
    ("role", "carried", ""),
]


@pytest.mark.parametrize(("key", "outcome", "why"), LABELS)
def test_a_label_of_the_old_operator_is_said_to_be_lost(key: str, outcome: str, why: str) -> None:
    """Nobody writes its keys on pods here, so what a person has written there is not carried."""
    conversion = text_as_jobs(
        "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: a}\nspec: "
        f"{{pytorchReplicaSpecs: {{Worker: {{template: {{metadata: {{labels: {{{key}: w}}}}, "
        "spec: {containers: [{name: pytorch, image: i, command: [torchrun, t.py]}]}}}}}"
    ).conversions[0]
    verdict = next(item for item in conversion.verdicts if item.path.endswith(f"labels.{key}"))
    assert outcome == verdict.outcome.value
    assert why in verdict.why


RIGHTS = [
    ({}, "lets its containers run as the image's own user"),
    ({"runAsUser": 0}, "runs its containers as root, user 0"),
    ({"runAsUser": 1000}, "its containers run as user 1000: set it to true where they need no"),
]


@pytest.mark.parametrize("is_of_pod", [True, False])
@pytest.mark.parametrize(("context", "words"), RIGHTS)
def test_the_user_of_containers_is_said(
    context: dict[str, Any], words: str, *, is_of_pod: bool
) -> None:
    """Restricted needs another user than root: who it is decides whether it can be set."""
    own = {"securityContext": context}
    conversion = convert(own) if is_of_pod else convert(container=own)
    assert False is conversion.values["security"]["restricted"]
    assert 1 == sum(words in note for note in conversion.notes)
    assert 1 == sum("security.restricted" in note for note in conversion.notes)


def test_an_empty_number_of_gpus_is_said() -> None:
    """To Kubernetes it is none, and a program that fills templates may have left it."""
    limits = {"nvidia.com/gpu": None, "vpc.amazonaws.com/efa": 4}
    conversion = convert(container={"resources": {"limits": limits, "requests": limits}})
    assert 1 == sum("which to Kubernetes is no GPU" in note for note in conversion.notes)


@pytest.mark.parametrize(("policy", "is_noted"), [({}, True), ({"dnsPolicy": "Default"}, False)])
def test_whose_names_pods_on_the_hosts_network_know_is_said(
    policy: dict[str, str], *, is_noted: bool
) -> None:
    """Without a policy they asked the node's resolver, and here the cluster's."""
    conversion = convert(spec={"hostNetwork": True, **policy})
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    path = next(path for path in whys if path.endswith("hostNetwork"))
    assert is_noted == ("the cluster's DNS, and not the node's" in whys[path])


_MPIJOB = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: m}}
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          initContainers:
          - name: order
            image: "a/b:1"
            volumeMounts:
            - {{name: mpi-job-config, mountPath: /etc/mpi}}
            - {{name: ssh-auth, mountPath: /root/.ssh}}
          containers: [{{name: l, image: "a/b:1", command: [mpirun, ./a]}}]
    Worker:
      replicas: 2
      {}
      template:
        spec:
          containers: [{{name: w, image: "a/b:1", volumeMounts: [{{name: shmm, mountPath: /s}}]}}]
          volumes: [{{name: shmem, emptyDir: {{}}}}]
"""


def test_a_volume_that_is_misspelt_is_asked_after() -> None:
    """Of those that the operator makes it is said that it makes them."""
    verdicts = text_as_jobs(_MPIJOB.format("restartPolicy: Never")).conversions[0].lost
    whys = {verdict.why for verdict in verdicts}
    assert "there is no volume shmm: did you mean shmem?" in whys
    assert "there is no volume ssh-auth: the old controller made it" in whys


@pytest.mark.parametrize(("policy", "is_noted"), [("restartPolicy: Never", False), ("", True)])
def test_workers_without_a_restart_policy_are_said_to_be_replaced(
    policy: str, *, is_noted: bool
) -> None:
    """The operator makes none anew; of a policy that is written its own verdict says so."""
    notes = text_as_jobs(_MPIJOB.format(policy)).conversions[0].notes
    assert is_noted == any("a worker without a restartPolicy in its" in note for note in notes)


def test_a_mount_that_is_not_compared_is_a_loss_beside_one_that_is(tmp_path: Path) -> None:
    """`--check` names both: that of /etc/mpi is none that pods are compared by."""
    file, values = tmp_path / "job.yaml", tmp_path / "values.yaml"
    file.write_text(_MPIJOB.format("restartPolicy: Never"))
    (conversion,) = service.convert((str(file),)).conversions
    values.write_text(service.values_file(conversion))
    check = service.check(str(values), (str(file),))
    assert any("mount /root/.ssh" in item.theirs for item in check.differences)
    assert any("no volume mpi-job-config" in item.why for item in check.losses)


def test_a_field_of_a_pod_that_is_misspelt_is_asked_after() -> None:
    """Of the fields that stand beside it."""
    text = _MPIJOB.format("restartPolicy: Never").replace("emptyDir", "emptydir")
    whys = [verdict.why for verdict in text_as_jobs(text).conversions[0].lost]
    assert "a pod has no such field, and nothing read it: did you mean emptyDir?" in whys


def test_a_manifest_that_a_program_submits_is_of_other_pods() -> None:
    """It may read the host name of its own."""
    pod = (
        "{{restartPolicy: Never, volumes: [{{name: c, configMap: {{name: cm}}}}], containers: "
        "[{{name: r, image: 'a/b:1', command: [bash, /c/{0}], volumeMounts: [{{name: c, mountPath: "
        "/c}}]}}]}}"
    )
    for name, line, is_noted in (("a.yaml", "kind: Job", False), ("a.sh", "true", True)):
        text = (
            "apiVersion: batch/v1\nkind: Job\nmetadata: {name: r}\nspec: {template: {spec: "
            f"{pod.format(name)}}}}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: "
            f"{{name: cm}}\ndata:\n  {name}: |\n    apiVersion: batch/v1\n    {line}\n"
            "    a: $(hostname)\n"
        )
        notes = text_as_jobs(text).conversions[0].notes
        assert is_noted == any("reads the pod's host name" in note for note in notes)


def test_more_processes_than_gpus_are_lost_by_their_word() -> None:
    """The rest of the command is carried, and each GPU has one process."""
    conversion = text_as_jobs(
        "apiVersion: batch/v1\nkind: Job\nmetadata: {name: p}\nspec: {template: {spec: "
        "{restartPolicy: Never, containers: [{name: r, image: 'a/b:1', command: "
        "[torchrun, --nproc_per_node=16, a.py], resources: {limits: {nvidia.com/gpu: 8}}}]}}}\n"
    ).conversions[0]
    (verdict,) = conversion.lost
    assert verdict.path.endswith("command[1]")
    assert verdict.why.endswith("it is left out, and each GPU has one")
    assert ["python3", "-u", "a.py"] == conversion.values["command"]
