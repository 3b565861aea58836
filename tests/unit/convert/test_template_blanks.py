"""Manifests that a program for templates has not filled in."""

from __future__ import annotations

import pytest

from tests.converted import lost, refusal, text_as_jobs

OF_MPI = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: a}
spec:
  slotsPerWorker: SLOTS
  mpiReplicaSpecs:
    Launcher: {template: {spec: {containers: [{name: l, image: i, command: [mpirun, ./a],
      env: [{name: SIZE, value: "VALUE"}]}]}}}
    Worker: {replicas: NUMBER, template: {spec: {containers: [{name: w, image: i}]}}}
"""
OF_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completionMode: Indexed, completions: NUMBER, parallelism: 2, template: {spec: {
  initContainers: [{name: before, image: b, env: [{name: SIZE, value: "VALUE"}]}],
  containers: [{name: c, image: i, command: [torchrun, --nnodes=2, t.py]}]}}}
"""
OF_SET = """\
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: a}
spec: {replicas: NUMBER, serviceName: a, template: {spec: {
  containers: [{name: c, image: i, command: [torchrun, --nnodes=2, t.py]}]}}}
"""


@pytest.mark.parametrize("count", ["${WORKER_COUNT}", "{{ workers }}", "<workers>"])
@pytest.mark.parametrize(
    ("text", "path"),
    [
        (OF_MPI, "spec.mpiReplicaSpecs.Worker.replicas"),
        (OF_JOB, "spec.completions"),
        (OF_SET, "spec.replicas"),
    ],
)
def test_a_number_that_is_to_be_filled_in_is_refused(text: str, path: str, count: str) -> None:
    """Kubernetes takes none; a number that somebody else makes up is no better."""
    problem = refusal(
        text.replace("SLOTS", "1").replace("VALUE", "1").replace("NUMBER", f"'{count}'")
    )
    assert (f"{count!r} is no number", path) == (problem.message, problem.path)
    assert "fill in what stands in its place first, as with envsubst" == problem.hint


def test_a_number_that_a_search_fills_in_is_not_refused() -> None:
    """Katib puts it in for each trial, and so it is said not to be carried."""
    text = OF_MPI.replace("NUMBER", "'${trialParameters.n}'").replace("SLOTS", "1")
    conversion = text_as_jobs(text.replace("VALUE", "1")).conversions[0]
    assert {"spec.mpiReplicaSpecs.Worker.replicas"} == lost(conversion)


@pytest.mark.parametrize(
    ("value", "is_lost"),
    [
        ("${WORKER_COUNT}", True),
        ("${WORKER_COUNT:-2}", True),
        ("$(WORKER_COUNT)", False),
        ("$${WORKER_COUNT}", False),
        ("/usr/lib:${LD_LIBRARY_PATH}", False),
        ("${workers}", False),
    ],
)
@pytest.mark.parametrize(
    ("text", "path"),
    [
        (OF_MPI, "spec.mpiReplicaSpecs.Launcher.template.spec.containers[0].env[0].value"),
        (OF_JOB, "spec.template.spec.initContainers[0].env[0].value"),
    ],
)
def test_a_variable_that_is_to_be_filled_in_is_lost(
    text: str, path: str, value: str, *, is_lost: bool
) -> None:
    """A container would have these letters; what Kubernetes puts in, and part of a text, stays."""
    text = text.replace("NUMBER", "2").replace("SLOTS", "1")
    conversion = text_as_jobs(text.replace("VALUE", value)).conversions[0]
    assert ({path} if is_lost else set()) == lost(conversion)
    assert is_lost == (value.replace("$$", "$") not in str(conversion.values).replace("$$", "$"))
