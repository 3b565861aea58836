"""With whose end a run is over is as before, or is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.convert.verdicts import Outcome
from tests.converted import refusal, text_as_jobs


def _template(container: str, command: list[str]) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "a/b:1", "command": command}]}}


def _xgboost(policy: dict[str, str], workers: int = 2) -> str:
    template = _template("xgboost", ["python", "t.py"])
    role = {"restartPolicy": "Never", "template": template}
    return json.dumps(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "XGBoostJob",
            "metadata": {"name": "x"},
            "spec": {
                "runPolicy": policy,
                "xgbReplicaSpecs": {
                    "Master": {**role, "replicas": 1},
                    **({"Worker": {**role, "replicas": workers}} if workers else {}),
                },
            },
        }
    )


@pytest.mark.parametrize(
    ("policy", "is_noted"), [({}, True), ({"cleanPodPolicy": "All"}, False)], ids=["none", "All"]
)
def test_an_xgboostjob_is_over_with_its_master(policy: dict[str, str], is_noted: bool) -> None:
    """Which is the first worker here; workers that still work are ended, as All ended them."""
    (conversion,) = text_as_jobs(_xgboost(policy)).conversions
    assert "lead" == conversion.values["elastic"]["successPolicy"]
    assert is_noted == any("with its first worker" in note for note in conversion.notes)


def test_an_xgboostjob_of_one_pod_is_over_with_it() -> None:
    """There is nothing to say."""
    (conversion,) = text_as_jobs(_xgboost({}, workers=0)).conversions
    assert "successPolicy" not in conversion.values["elastic"]


def _pytorch(policy: dict[str, Any], command: list[str], replicas: int = 2, **spec: Any) -> str:
    worker = {"replicas": replicas, "template": _template("pytorch", command)}
    return json.dumps(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "p"},
            "spec": {"runPolicy": policy, "pytorchReplicaSpecs": {"Worker": worker}, **spec},
        }
    )


@pytest.mark.parametrize("policy", [{}, {"cleanPodPolicy": "Running"}, {"cleanPodPolicy": "All"}])
def test_a_pytorchjob_without_a_master_was_done_with_all_workers(policy: dict[str, str]) -> None:
    """Whatever its policy, which found no pod that still worked; here rank 0 ends the run."""
    (conversion,) = text_as_jobs(_pytorch(policy, ["torchrun", "t.py"])).conversions
    assert any("done when all of its workers are" in note for note in conversion.notes)


def test_an_elastic_range_with_its_ends_exchanged_is_named() -> None:
    """It is no single size."""
    policy = {"rdzvBackend": "c10d", "minReplicas": 6, "maxReplicas": 4}
    text = _pytorch({}, ["torchrun", "t.py"], replicas=4, elasticPolicy=policy)
    (conversion,) = text_as_jobs(text).conversions
    assert 4 == conversion.values["nodes"]
    (why,) = {own.why for own in conversion.verdicts if own.path.endswith("minReplicas")}
    assert "minReplicas is more than maxReplicas" in why


@pytest.mark.parametrize(
    ("nnodes", "replicas", "training"),
    [
        ("4", 2, "each of 2 pods waited for 3 others"),
        ("1", 2, "each of 2 pods trained by itself"),
        ("1:2", 4, "2 of 4 pods trained together, and the rest had no part in it"),
        ("3:4", 2, "each of 2 pods waited for 2 others"),
    ],
)
def test_another_number_of_nodes_of_dlrover_is_said(
    nnodes: str, replicas: int, training: str
) -> None:
    """Its agents tell the master of --nnodes, by which it waits; all pods train here."""
    command = ["dlrover-run", f"--nnodes={nnodes}", "--nproc_per_node=1", "t.py"]
    spec = {
        "distributionStrategy": "AllreduceStrategy",
        "replicaSpecs": {"worker": {"replicas": replicas, "template": _template("main", command)}},
    }
    job = {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "d"},
        "spec": spec,
    }
    (conversion,) = text_as_jobs(json.dumps(job)).conversions
    verdicts = [own for own in conversion.verdicts if "--nnodes" in own.why]
    assert {Outcome.NOT_CARRIED} == {own.outcome for own in verdicts}
    assert all(training in own.why for own in verdicts)


@pytest.mark.parametrize(("nnodes", "replicas"), [("2", 2), ("1:4", 2), ("$NODES", 2)])
def test_a_number_of_nodes_of_dlrover_that_fits_is_not_spoken_of(
    nnodes: str, replicas: int
) -> None:
    """Also one that nobody knows."""
    command = ["dlrover-run", f"--nnodes={nnodes}", "t.py"]
    spec = {
        "replicaSpecs": {"worker": {"replicas": replicas, "template": _template("main", command)}}
    }
    job = {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "d"},
        "spec": {"distributionStrategy": "AllreduceStrategy", **spec},
    }
    (conversion,) = text_as_jobs(json.dumps(job)).conversions
    assert not [own for own in conversion.verdicts if "train together" in own.why]


def test_a_runtime_of_the_other_kind_is_named() -> None:
    """A TrainJob names a ClusterTrainingRuntime where it says no kind."""
    runtime = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainingRuntime",
        "metadata": {"name": "own"},
        "spec": {},
    }
    job = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "t"},
        "spec": {"runtimeRef": {"name": "own"}},
    }
    problem = refusal(f"{json.dumps(runtime)}\n---\n{json.dumps(job)}")
    assert "which has a TrainingRuntime of that name" in problem.message
    assert "runtimeRef.kind: TrainingRuntime" in problem.hint
