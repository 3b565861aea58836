from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert.kinds import torchrun
from allranks.convert.programs import preparation
from allranks.convert.verdicts import Outcome, leaves
from allranks.errors import InputError
from allranks.names import QUEUE_CHART
from allranks.schema.validate import validate
from allranks.values.merge import merge
from allranks.values.resolve import find_problems
from allranks.values.sources import Sources, defaults, load_sources
from allranks.yamlio.dump import dump

ETCD = "etcd.etcd-system.svc.cluster.local:2379"
METADATA = {
    "name": "demo",
    "namespace": "research",
    "uid": "1-2",
    "resourceVersion": "7",
    "labels": {"team": "a", "torchrun.ai/x": "y"},
    "annotations": {"note": "b"},
}
DISTRIBUTED = {"backend": "nccl", "rdzvBackend": "c10d", "rdzvEndpoint": ETCD, "port": 29500}
WORKSPACE = {
    "size": "10Gi",
    "image": "alpine/git:latest",
    "imagePullPolicy": "IfNotPresent",
    "mountPath": "/app",
    "source": "git",
    "url": "https://example.org/x.git",
    "storageClass": "fast",
}
RELIABILITY = {
    "maxRestarts": 3,
    "restartPolicy": "OnFailure",
    "ttlSecondsAfterFinished": 3600,
    "activeDeadlineSeconds": 60,
}
SHARED_JOB = {
    "setupCommand": "pip install -e .",
    "reliability": RELIABILITY,
    "env": [
        {"name": "A", "value": "1e-5"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "RANK", "value": "0"},
        {"name": "A", "value": "2"},
    ],
    "volumes": {
        "additionalMounts": [{"name": "d", "mountPath": "/d", "subPath": "x", "readOnly": True}],
        "additionalVolumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}],
    },
    "suspend": True,
    "labels": {"k": "v"},
    "annotations": {"l": "w"},
}
# Every field of the four dialects.
JOBS: dict[str, dict[str, Any]] = {
    "readme": {
        "jobQueue": "h100",
        "numGPUs": 16,
        "command": "python train.py --lr 1e-5",
        "distributed": {"backend": "nccl", "rdzvBackend": "c10d"},
        "minNodes": 1,
        "maxNodes": 2,
    },
    "chart": {
        "queue": "h100",
        "image": "hub.example:5000/team/x:1",
        "workers": 2,
        "script": "train.py",
        "args": ["--lr", "1e-5"],
        "workspace": {"size": "10Gi"},
        "resources": {
            "requests": {"cpu": 4, "memory": "8Gi"},
            "limits": {"nvidia.com/gpu": 8, "memory": "8Gi"},
        },
    },
    "f1058e8": {
        "jobQueue": "h100",
        "command": "python train.py && echo done",
        "numNodes": 2,
        "workspaceStorage": WORKSPACE,
        "workingDir": "/app",
        "distributed": {**DISTRIBUTED, "rdzvBackend": "etcd-v2"},
        **SHARED_JOB,
    },
    "c04eb4e": {
        "queue": "h100",
        "jobName": "demo",
        "jobID": "x-1",
        "command": "python train.py",
        "numNodes": 2,
        **SHARED_JOB,
    },
}
QUEUES: dict[str, dict[str, Any]] = {
    "readme": {
        "kaiQueue": "team",
        "parentKaiQueue": "root",
        "nodeResources": {"gpus": 8, "cpus": 96, "memory": "1Ti", "gpuType": "H100"},
        "image": "hub.example/x@sha256:" + "0" * 64,
        "storage": {
            "shmSizePerGPU": "8Gi",
            "workspace": {"enabled": True, "sizePerGPU": "50Gi"},
            "checkpoints": {"enabled": False, "sizePerGPU": "50Gi"},
            "datasets": "shared",
        },
        "scheduling": {
            "scheduler": "kai-scheduler",
            "priorityClassName": "train",
            "nodeSelector": {"pool": "h100"},
            "affinity": {"nodeAffinity": {}},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
    },
    "e96b7de": {"distributed": {**DISTRIBUTED, "rdzvBackend": "etcd-v2", "port": 29501}},
    "c04eb4e": {
        "queue": {
            "name": "team",
            "parentQueue": "default",
            "resources": {
                name: {"quota": -1, "limit": -1, "overQuotaWeight": 1}
                for name in ("cpu", "gpu", "memory")
            },
        },
        "distributed": DISTRIBUTED,
        "podTemplate": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "schedulerName": "kai-scheduler",
                "restartPolicy": "Never",
                "hostNetwork": False,
                "priorityClassName": "train",
                "nodeSelector": {"pool": "h100"},
                "terminationGracePeriodSeconds": 60,
                "volumes": [{"name": "d", "emptyDir": {}}],
                "containers": [
                    {
                        "name": "trainer",
                        "image": "hub.example/x:1",
                        "imagePullPolicy": "Always",
                        "command": ["sleep"],
                        "env": [{"name": "A", "value": "1"}],
                        "resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}},
                        "volumeMounts": [{"name": "d", "mountPath": "/d"}],
                    },
                    {"name": "side", "image": "hub.example/side:1"},
                ],
            },
        },
        "workspaceStorage": WORKSPACE,
        "serviceAccountName": "trainer",
        "resources": [
            {"name": "c", "nameMode": "prefix", "template": {"kind": "Secret"}, "immutable": True}
        ],
    },
}


def manifest(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """An object of the project."""
    return {
        "apiVersion": "torchrun.ai/v1alpha1",
        "kind": kind,
        "metadata": copy.deepcopy(METADATA),
        "spec": copy.deepcopy(spec),
        **more,
    }


ALL = [
    *((dialect, "TorchrunJob", spec) for dialect, spec in JOBS.items()),
    *((dialect, "TorchrunQueue", spec) for dialect, spec in QUEUES.items()),
]


@pytest.mark.parametrize(("dialect", "kind", "spec"), ALL)
def test_every_field_has_a_verdict(dialect: str, kind: str, spec: dict[str, Any]) -> None:
    """Each is carried, changed or not carried; what is not carried as it is says why."""
    source = manifest(kind, spec, status={"phase": "Running", "restarts": 1})
    convert = torchrun.job if kind == "TorchrunJob" else torchrun.queue
    conversion = convert(source)
    assert list(leaves(source)) == [verdict.path for verdict in conversion.verdicts], dialect
    changed = conversion.of(Outcome.CHANGED, Outcome.NOT_CARRIED)
    assert [] == [verdict.path for verdict in changed if not verdict.why]
    assert [] == [verdict.path for verdict in changed if "no dialect" in verdict.why]
    assert [] == [verdict.path for verdict in conversion.of(Outcome.CARRIED) if not verdict.to]


@pytest.mark.parametrize(
    ("kind", "convert"), [("TorchrunJob", torchrun.job), ("JobQueue", torchrun.queue)]
)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.text("ab.", max_size=3), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_an_unknown_field_is_never_dropped_in_silence(kind: str, convert: Any, value: Any) -> None:
    """Whatever stands where no dialect has a field, it is said."""
    conversion = convert(manifest(kind, {"unheardOf": value}))
    verdicts = [item for item in conversion.verdicts if item.path.startswith("spec.unheardOf")]
    assert verdicts
    assert all(item.why for item in verdicts)


def test_a_job_of_the_readme() -> None:
    """Its size is GPUs in all, its queue is -q, its command is a list of words."""
    conversion = torchrun.job(manifest("TorchrunJob", JOBS["readme"]))
    assert ("demo", "research", "h100") == (
        conversion.name,
        conversion.namespace,
        conversion.queue,
    )
    values = conversion.values
    assert (16, ["python", "train.py", "--lr", "1e-5"], "c10d") == (
        values["gpus"],
        values["command"],
        values["torchrun"]["rdzvBackend"],
    )
    assert {"minNodes": 1, "maxNodes": 2} == values["torchrun"]["elastic"]


SETUPS = [
    ("pip install -e .", "pip install -e ."),
    ("mkdir a; pip install b", f"{preparation.GOES_ON}mkdir a\nset -e\npip install b"),
    ("source /e/activate", ". /e/activate"),
    ("[[ -d a ]] || mkdir a", "#!/bin/bash\n[[ -d a ]] || mkdir a"),
    ("export A=$(cat <(echo 1))", None),
]


@pytest.mark.parametrize(("command", "setup"), SETUPS)
def test_a_setup_that_bash_ran(command: str, setup: str | None) -> None:
    """The chart's sh reads it as bash did; what bash alone reads and the program needs is lost."""
    spec = {"queue": "q", "jobName": "j", "jobID": "1", "command": "python t.py"}
    job = manifest("TorchrunJob", {**spec, "setupCommand": command})
    conversion = torchrun.job(job)
    assert setup == conversion.values.get("setup")
    assert ([] if setup else ["spec.setupCommand"]) == [item.path for item in conversion.lost]


def test_a_job_of_the_crd() -> None:
    """Shell stays shell, the last of two variables wins, what torchrun sets is left out."""
    values = torchrun.job(manifest("TorchrunJob", JOBS["f1058e8"])).values
    assert ["bash", "-c", "python train.py && echo done"] == values["command"]
    assert {"A": "2", "B": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}} == values[
        "env"
    ]
    assert {
        "backoffLimit": 3,
        "ttlSecondsAfterFinished": 3600,
        "activeDeadlineSeconds": 60,
        "suspend": True,
    } == values["runPolicy"]
    assert ETCD == values["torchrun"]["rdzvEndpoint"]
    assert {"k": "v", "team": "a"} == values["labels"]


def test_a_c10d_rendezvous_is_never_at_an_etcd() -> None:
    """The default of one dialect was an address that no c10d can use."""
    spec = {"command": "a", "distributed": DISTRIBUTED}
    conversion = torchrun.job(manifest("TorchrunJob", spec))
    assert "rdzvEndpoint" not in conversion.values["torchrun"]
    verdict = next(item for item in conversion.verdicts if item.path.endswith("rdzvEndpoint"))
    assert Outcome.NOT_CARRIED == verdict.outcome


def test_a_finished_job_that_goes_at_once_goes_after_a_second() -> None:
    """Here 0 keeps it for ever."""
    spec = {"command": "a", "reliability": {"ttlSecondsAfterFinished": 0}}
    assert (
        1
        == torchrun.job(manifest("TorchrunJob", spec)).values["runPolicy"][
            "ttlSecondsAfterFinished"
        ]
    )


IMAGES = [
    ("hub.example:5000/team/x:1", {"repository": "hub.example:5000/team/x", "tag": "1"}),
    ("hub.example:5000/x", {"repository": "hub.example:5000/x"}),
    ("x@sha256:00", {"repository": "x", "digest": "sha256:00"}),
    ("x:1@sha256:00", {"repository": "x", "tag": "1", "digest": "sha256:00"}),
]


@pytest.mark.parametrize(("image", "expected"), IMAGES)
def test_an_image_is_split_where_its_tag_begins(image: str, expected: dict[str, str]) -> None:
    """The port of a registry is no tag."""
    values = torchrun.job(manifest("TorchrunJob", {"image": image})).values
    assert expected == values["image"]


def test_a_queue_of_the_crd_is_one_of_kai() -> None:
    """Its KAI Queue is made by the chart, and named by its jobs."""
    values = torchrun.queue(manifest("TorchrunQueue", QUEUES["c04eb4e"])).values
    assert (True, "team", "default", -1) == (
        values["kai"]["enabled"],
        values["kai"]["queue"],
        values["kai"]["parentQueue"],
        values["kai"]["resources"]["gpu"]["quota"],
    )
    own = values["defaults"]
    assert ("team", "kai", 8, "trainer") == (
        own["queue"],
        own["scheduling"]["dialect"],
        own["gpusPerNode"],
        own["serviceAccount"]["name"],
    )
    assert [
        {"name": "trainer", "volumeMounts": [{"name": "d", "mountPath": "/d"}]},
        {"name": "side", "image": "hub.example/side:1"},
    ] == own["podTemplate"]["spec"]["containers"]


@pytest.mark.parametrize("spec", QUEUES.values(), ids=QUEUES)
def test_a_converted_queue_fits_the_chart(spec: dict[str, Any]) -> None:
    """The values have no problem that the chart's schema finds."""
    values = torchrun.queue(manifest("TorchrunQueue", spec)).values
    merged = merge(defaults(QUEUE_CHART), values)
    assert [] == validate(QUEUE_CHART, merged, lambda _: "")


@pytest.mark.parametrize("spec", JOBS.values(), ids=JOBS)
def test_a_converted_job_is_valid(spec: dict[str, Any]) -> None:
    """With an image, where a queue would give it, no check finds anything."""
    values = torchrun.job(manifest("TorchrunJob", spec)).values
    own = {"image": {"repository": "x"}} | values
    sources = Sources(("v",), contents={"v": dump(own).encode()})
    assert [] == [str(problem) for _, problem in find_problems(load_sources(sources), "demo")]


WRONG = [
    {"apiVersion": "v1", "kind": "Pod"},
    {"apiVersion": "torchrun.ai/v1", "kind": "TorchrunJob", "spec": {}},
    {"apiVersion": "torchrun.ai/v1", "kind": "TorchrunJob", "metadata": {"name": "x"}},
    {"apiVersion": "torchrun.ai/v1", "kind": "TorchrunJob", "metadata": {}, "spec": {}},
    {
        "apiVersion": "torchrun.ai/v1",
        "kind": "TorchrunQueue",
        "metadata": {"name": "x"},
        "spec": {},
    },
]


@pytest.mark.parametrize("source", WRONG)
def test_another_object_is_refused(source: dict[str, Any]) -> None:
    """What is no TorchrunJob, or half of one, is named."""
    with pytest.raises(InputError) as caught:
        torchrun.job(source)
    assert caught.value.problem.hint


def test_an_etcd_without_an_address_is_c10d() -> None:
    """As in the controller's own README; torchrun would ask for the address."""
    spec = {"command": "a", "distributed": {"rdzvBackend": "etcd-v2"}}
    conversion = torchrun.job(manifest("TorchrunJob", spec))
    assert "c10d" == conversion.values["torchrun"]["rdzvBackend"]
    verdict = next(item for item in conversion.verdicts if item.path.endswith("rdzvBackend"))
    assert (Outcome.CHANGED, True) == (verdict.outcome, "without an address" in verdict.why)


def test_what_the_pods_of_a_queue_have_is_allowed() -> None:
    """The rules allow by default neither; each is said."""
    container = {"name": "trainer", "securityContext": {"privileged": True}}
    volumes = [{"name": "d", "hostPath": {"path": "/data"}}]
    spec = {"hostNetwork": True, "containers": [container], "volumes": volumes}
    conversion = torchrun.queue(manifest("TorchrunQueue", {"podTemplate": {"spec": spec}}))
    rules = ("allowHostNetwork", "allowPrivileged", "allowHostPath")
    assert dict.fromkeys(rules, True) == conversion.values["rules"]
    changed = {verdict.why.split()[0] for verdict in conversion.of(Outcome.CHANGED)}
    assert {f"rules.{rule}" for rule in rules} <= changed
    assert True is conversion.values["defaults"]["network"]["hostNetwork"]
