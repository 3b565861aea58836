"""A TrainJob's runtime from the cluster: only where it is missing, and in one request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import ForbiddenError, InputError
from allranks.service import convert
from tests.unit.cluster.fake_cluster import FakeCluster

if TYPE_CHECKING:
    from pathlib import Path

JOB = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: tune, namespace: research}
spec:
  runtimeRef: {name: NAME, kind: KIND}
  trainer: {image: "x:1", command: [torchrun, t.py], numNodes: 3}
"""
RUNTIME = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "team"},
    "spec": {
        "mlPolicy": {"torch": {}},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {
                                    "spec": {
                                        "nodeSelector": {"pool": "gpu"},
                                        "containers": [{"name": "node", "image": "y"}],
                                    }
                                }
                            },
                        },
                    }
                ]
            }
        },
    },
}
PATH = "apis/trainer.kubeflow.org/v1alpha1/trainingruntimes"


class Runtimes(FakeCluster):
    """A cluster with a runtime."""

    def __init__(self) -> None:
        super().__init__()
        self.objects = {(PATH, "team"): RUNTIME}


def write(folder: Path, name: str, kind: str = "TrainingRuntime") -> tuple[str]:
    """A file with a TrainJob that names a runtime."""
    path = folder / "job.yaml"
    path.write_text(JOB.replace("NAME", name).replace("KIND", kind), encoding="utf-8")
    return (str(path),)


def test_a_missing_runtime_is_read_once(tmp_path: Path) -> None:
    """In the job's namespace; it is in the values, and the report says where it is from."""
    cluster: Any = Runtimes()
    result = convert.convert(write(tmp_path, "team"), cluster=lambda: cluster)
    assert [("get", PATH, "team", "research")] == cluster.requests
    conversion = result.conversions[0]
    assert {"pool": "gpu"} == conversion.values["scheduling"]["nodeSelector"]
    assert any("TrainingRuntime team of context fake" in note for note in conversion.notes)


def test_no_cluster_is_asked_without_need(tmp_path: Path) -> None:
    """Trainer's own runtimes are known."""

    def never() -> Any:
        raise AssertionError("it is asked")

    convert.convert(write(tmp_path, "torch-distributed", "ClusterTrainingRuntime"), cluster=never)


@pytest.mark.parametrize("error", [ForbiddenError("the cluster forbids to get it"), None])
def test_a_runtime_that_the_cluster_does_not_give(tmp_path: Path, error: Exception | None) -> None:
    """The reason is said, and how to give it; without a cluster as well."""
    cluster: Any = Runtimes()
    cluster.refuse = lambda *_: error
    with pytest.raises(InputError, match="is not in the input") as raised:
        convert.convert(write(tmp_path, "other"), cluster=lambda: cluster)
    assert (str(error) if error else "no other") in raised.value.problem.message
    assert "--runtime FILE" in raised.value.problem.hint
    with pytest.raises(InputError, match="is not in the input"):
        convert.convert(write(tmp_path, "other"))
