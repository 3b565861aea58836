"""Keys of an object that are meant to be others, where without those it is no job."""

from __future__ import annotations

import re

import pytest

from tests.converted import refusal

_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          initContainers: [{name: i, image: "a/b:1", imagePullPolicy: Always}]
          containers:
          - {name: pytorch, image: "a/b:1", imagePullPolicy: Always, command: [torchrun, t.py]}
"""
_OF_MPI = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec: {mpiReplicaSpecs: {
  Launcher: {template: {spec: {containers: [{name: l, image: "a/b:1", command: [mpirun, ./a]}]}}},
  Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: "a/b:1"}]}}}}}
"""
_OF_TF = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: a}
spec: {tfReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [
  {name: w, image: "a/b:1", command: [python, t.py]}]}}}}}
"""


@pytest.mark.parametrize(
    ("text", "key", "slip"),
    [
        (_JOB, "image", "imagee"),
        (_JOB, "image", "imag"),
        (_JOB, "command", "comand"),
        (_JOB, "containers", "container"),
        (_JOB, "template", "tempalte"),
        (_JOB, "Worker", "Workers"),
        (_JOB, "pytorchReplicaSpecs", "pytorchReplicaSpec"),
        (_OF_MPI, "Launcher", "launcher"),
        (_OF_MPI, "mpiReplicaSpecs", "mpiReplicaSpec"),
        (_OF_MPI, "containers", "container"),
        (_OF_TF, "Worker", "Woker"),
    ],
)
def test_a_key_that_is_like_the_missing_one_is_asked_about(text: str, key: str, slip: str) -> None:
    """What a job is refused for lacking stands there under a name that is nearly its own."""
    misspelt = re.sub(rf"\b{key}:", f"{slip}:", text)
    assert f"there is {slip}: did you mean {key}?" == refusal(misspelt).hint


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (
            _JOB.replace("          containers:\n", "").partition("          - {")[0],
            "the whole object",
        ),
        (_JOB.replace('pytorch, image: "a/b:1", ', "pytorch, "), "name the image"),
    ],
)
def test_a_field_of_pods_is_no_slip_for_another(text: str, rest: str) -> None:
    """Those of initContainers are no containers, and an imagePullPolicy is no image."""
    assert rest in refusal(text).hint
