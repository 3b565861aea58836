"""Names of the old controller's pods that stand in the comments of scripts alone."""

from __future__ import annotations

import pytest

from tests.converted import lost, text_as_jobs

SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: w}
spec:
  replicas: 2
  serviceName: w
  template:
    spec:
      initContainers:
      - name: wait
        image: b
        command: [sh, -c, "IN_WAIT"]
      containers:
      - name: c
        image: i
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        command:
        - bash
        - -c
        - |
          IN_SCRIPT
          NODE_RANK=${POD_NAME##*-}
          cd /src
          accelerate launch --num_machines 2 --machine_rank $NODE_RANK train.py
          echo done
"""
COMMENT = "# rank from the pod's name (w-0 -> 0)"


@pytest.mark.parametrize(
    ("script", "wait", "losses"),
    [
        (COMMENT, COMMENT, set()),
        ("ping w-0.w", "true", {"containers[0].command[2]"}),
        ("true", "ping w-0.x # soon", {"initContainers[0].command[2]"}),
        ("echo 'at # w-0'", "true", {"containers[0].command[2]"}),
    ],
)
def test_a_comment_names_no_pod(script: str, wait: str, losses: set[str]) -> None:
    """Nothing reads it; the same name in a command, or between quotes, is one."""
    text = SET.replace("IN_SCRIPT", script).replace("IN_WAIT", wait)
    conversion = text_as_jobs(text).conversions[0]
    assert {f"spec.template.spec.{path}" for path in losses} == lost(conversion)


OF_KUBEFLOW = """\
apiVersion: kubeflow.org/KIND_VERSION
kind: KIND
metadata: {name: j}
spec: {SPECS: {FIRST: {template: &t {spec: {
  initContainers: [{name: wait, image: b, command: [sh, -c, "WORD"]}],
  containers: [{name: CONTAINER, image: i, command: [bash, -c, "WORD\\nRUN"]}]}}},
  Worker: {template: *t}}}
"""


BLANKS = ("KIND_VERSION", "SPECS", "FIRST", "CONTAINER", "POD", "RUN")
OLD_PODS = {
    "PyTorchJob": ("v1", "pytorchReplicaSpecs", "Master", "pytorch", "j-master-0", "torchrun a"),
    "MPIJob": ("v2beta1", "mpiReplicaSpecs", "Launcher", "c", "j-worker-0.j", "mpirun ./a"),
}
ON_NAMES = ("of the old controller", "give the release this name", "give it this name")


@pytest.mark.parametrize("kind", OLD_PODS)
def test_a_comment_names_no_pod_of_kubeflow_s(kind: str) -> None:
    """Neither in what trains nor in a container beside it."""
    for word, is_named in ("ping POD", True), ("# at POD", False):
        text = OF_KUBEFLOW.replace("WORD", word)
        for blank, value in zip((*BLANKS, "KIND"), (*OLD_PODS[kind], kind), strict=True):
            text = text.replace(blank, value)
        conversion = text_as_jobs(text).conversions[0]
        sentences = [*conversion.notes, *(verdict.why for verdict in conversion.verdicts)]
        assert is_named == any(word in text for text in sentences for word in ON_NAMES)
