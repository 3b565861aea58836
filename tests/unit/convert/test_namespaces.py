"""An object takes nothing of another namespace: neither runtimes, queues nor what pods name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert import original, registry
from allranks.convert.documents.context import Context
from allranks.errors import InputError, InvalidValues
from allranks.service import convert
from tests.converted import documents, refusal, text_as_jobs

if TYPE_CHECKING:
    from pathlib import Path

_PODS = (
    "{template: {spec: {replicatedJobs: [{name: node, template: {metadata: {labels: "
    "{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: "
    '[{name: node, image: "of-PLACE:1", command: [torchrun, t.py]}]}}}}}]}}, '
    "mlPolicy: {numNodes: 1, torch: {numProcPerNode: 1}}}"
)


def _metadata(name: str, namespace: str) -> str:
    place = f", namespace: {namespace}" if namespace else ""
    return f"metadata: {{name: {name}{place}}}\n"


def _runtime(namespace: str, kind: str = "TrainingRuntime") -> str:
    return (
        f"---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: {kind}\n"
        f"{_metadata('rt', namespace)}spec: {_PODS.replace('PLACE', namespace or 'none')}\n"
    )


def _train_job(namespace: str, kind: str = "TrainingRuntime") -> str:
    return (
        "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\n"
        f"{_metadata('j', namespace)}spec: {{runtimeRef: {{name: rt, kind: {kind}}}}}\n"
    )


@pytest.mark.parametrize(
    ("runtimes", "job", "image"),
    [
        ("ab", "b", "of-b"),
        ("ab", "a", "of-a"),
        (["a", "", "b"], "b", "of-b"),
        (["a", ""], "b", "of-none"),
        ("ab", "", "of-a"),
    ],
)
def test_a_runtime_is_that_of_the_job_s_namespace(
    runtimes: list[str], job: str, image: str
) -> None:
    """One of none fits any job, and one of the job's own namespace is before it."""
    text = "".join(map(_runtime, runtimes)) + _train_job(job)
    (conversion,) = text_as_jobs(text).conversions
    assert image == conversion.values["image"]["repository"]
    *others, manifest = (item.data for item in documents(text))
    pods = original.pods(manifest, others)
    assert pods is not None
    assert f"{image}:1" == pods[0].main["image"]


def test_a_runtime_of_another_namespace_is_not_taken() -> None:
    """Trainer looks for it in the job's namespace alone; the message says where there is one."""
    problem = refusal(_runtime("a") + _runtime("b") + _train_job("c"))
    assert "spec.runtimeRef.name" == problem.path
    assert "for the namespace c" in problem.message
    assert "a or b" in problem.message
    assert "--runtime FILE" in problem.hint


def test_a_runtime_of_the_option_is_taken_from_anywhere() -> None:
    """A person has named it; of several that of the job's namespace is the one."""
    for namespaces, image in ("a", "of-a"), ("ac", "of-c"):
        runtimes = tuple(documents("".join(map(_runtime, namespaces))))
        context = Context(runtimes=runtimes)
        (conversion,) = registry.convert_all(documents(_train_job("c")), context).conversions
        assert image == conversion.values["image"]["repository"]


def test_a_runtime_of_the_cluster_is_of_no_namespace() -> None:
    """Whatever its metadata says: it fits the jobs of all."""
    kind = "ClusterTrainingRuntime"
    (conversion,) = text_as_jobs(_runtime("a", kind) + _train_job("c", kind)).conversions
    assert "of-a" == conversion.values["image"]["repository"]


def test_the_chosen_namespace_says_which_runtime_a_job_of_none_has() -> None:
    """With -n b a job without a namespace goes to b, and to the runtime there."""
    text = _runtime("a") + _runtime("b") + _train_job("")
    context = Context(namespace="b")
    (conversion,) = registry.convert_all(documents(text), context).conversions
    assert "of-b" == conversion.values["image"]["repository"]


def test_a_queue_is_that_of_the_job_s_namespace() -> None:
    """Of two queues of one name a job has the image of its own."""
    queue = (
        "---\napiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\n"
        "metadata: {name: a, namespace: PLACE}\n"
        'spec: {podTemplate: {spec: {containers: [{name: trainer, image: "of-PLACE:1"}]}}}\n'
    )
    job = (
        "---\napiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\n"
        "metadata: {name: j, namespace: PLACE}\nspec: {queue: a, command: train.py, numNodes: 1}\n"
    )
    text = "".join(part.replace("PLACE", name) for part in (queue, job) for name in "xz")
    images = [
        item.values["image"]["repository"]
        for item in text_as_jobs(text).conversions
        if item.kind == "TorchrunJob"
    ]
    assert ["of-x", "of-z"] == images
    with pytest.raises(InvalidValues, match="the job names no image"):
        text_as_jobs(queue.replace("PLACE", "x") + job.replace("PLACE", "z"))


_OF_PODS = "---\napiVersion: v1\nkind: Secret\nmetadata: {name: sec, namespace: PLACE}\n"
_JOB = """\
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: big, namespace: ml}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch,
  image: "a:1", command: [bash, /s/run.sh], volumeMounts: [{name: s, mountPath: /s}],
  env: [{name: S, valueFrom: {secretKeyRef: {name: sec, key: a}}}]}],
  volumes: [{name: s, configMap: {name: sc}}]}}}}}
"""


@pytest.mark.parametrize(
    ("namespace", "is_needed", "why"),
    [
        ("ml", True, "the job reads it"),
        ("other", False, "no job is in its namespace, other"),
    ],
)
def test_a_secret_of_another_namespace_is_none_of_the_job_s(
    namespace: str, why: str, *, is_needed: bool
) -> None:
    """Pods read those of their own namespace alone."""
    (secret,) = text_as_jobs(_OF_PODS.replace("PLACE", namespace) + _JOB).beside
    assert (is_needed, True) == (secret.is_needed, secret.why.startswith(why))


def test_a_script_is_read_in_the_map_of_the_job_s_namespace() -> None:
    """Of two maps of one name that of the other namespace says nothing of the job."""
    scripts = {"aa": "echo $PET_RDZV_ENDPOINT big-worker-7", "ml": "python3 plain.py"}
    maps = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: sc, namespace: {place}}}\n"
        f"data: {{run.sh: '{text}'}}\n"
        for place, text in scripts.items()
    )
    result = text_as_jobs(maps + _JOB)
    (conversion,) = result.conversions
    assert not any("run.sh" in note for note in conversion.notes)
    assert not any("big-worker-7" in verdict.why for verdict in conversion.verdicts)
    assert [False, True] == [item.is_needed for item in result.beside]


def test_a_job_is_part_of_an_owner_of_its_own_namespace() -> None:
    """An object of the owner's name elsewhere is another one."""
    part = _JOB.replace(
        "{name: big, ", "{name: part, ownerReferences: [{kind: PyTorchJob, name: big}], "
    )
    assert ["big"] == [item.name for item in text_as_jobs(_JOB + part).conversions]
    part = part.replace("namespace: ml", "namespace: other")
    assert ["big", "part"] == [item.name for item in text_as_jobs(_JOB + part).conversions]


def test_jobs_that_come_into_one_namespace_under_one_name_are_said() -> None:
    """With -n the namespaces of two are one, which has a release of a name once."""
    text = _JOB + _JOB.replace("namespace: ml", "namespace: other")
    for namespace, is_noted in ("", False), ("new", True):
        context = Context(namespace=namespace)
        first, second = registry.convert_all(documents(text), context).conversions
        note = "PyTorchJob big of the namespace ml (job.yaml:2) has this name as well"
        assert is_noted == any(note in own for own in second.notes)
        assert not any("this name as well" in own for own in first.notes)


def test_a_chosen_namespace_that_no_cluster_has_is_refused(tmp_path: Path) -> None:
    """The run could not be started there; the nearest name is the fix."""
    file = tmp_path / "job.yaml"
    file.write_text(_JOB, encoding="utf-8")
    with pytest.raises(InputError, match="no name of a namespace") as refused:
        convert.convert((str(file),), (), "Bad Name")
    assert "write -n bad-name" == refused.value.problem.hint
    assert "good" == convert.convert((str(file),), (), "good").conversions[0].namespace
