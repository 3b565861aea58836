"""A deadline of no seconds, which ended a Job at once, and is none here."""

from __future__ import annotations

import pytest

from allranks.convert.verdicts import Outcome
from tests.converted import text_as_jobs

MPI = """\
apiVersion: kubeflow.org/VERSION
kind: MPIJob
metadata: {name: a}
spec: {POLICY, mpiReplicaSpecs: {
  Launcher: {template: {spec: {containers: [{name: l, image: i, command: [mpirun, ./a]}]}}},
  Worker: {replicas: 2, template: {spec: {containers: [{name: w, image: i}]}}}}}
"""
OBJECTS = {
    "MPIJob": (
        MPI.replace("VERSION", "v2beta1").replace(
            "POLICY", "runPolicy: {activeDeadlineSeconds: NUMBER}"
        ),
        "spec.runPolicy.activeDeadlineSeconds",
    ),
    "MPIJob of v1alpha2": (
        MPI.replace("VERSION", "v1alpha2").replace("POLICY", "activeDeadlineSeconds: NUMBER"),
        "spec.activeDeadlineSeconds",
    ),
    "Job of ranks": (
        """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completionMode: Indexed, completions: 2, parallelism: 2, activeDeadlineSeconds: NUMBER,
  template: {spec: {containers: [{name: c, image: i, command: [torchrun, --nnodes=2, t.py]}]}}}
""",
        "spec.activeDeadlineSeconds",
    ),
    "Job of trials": (
        """\
apiVersion: batch/v1
kind: Job
metadata: {name: a}
spec: {completions: 2, activeDeadlineSeconds: NUMBER,
  template: {spec: {containers: [{name: c, image: i, command: [./t]}]}}}
""",
        "spec.activeDeadlineSeconds",
    ),
}


@pytest.mark.parametrize("kind", OBJECTS)
@pytest.mark.parametrize(
    ("number", "outcome", "why"),
    [(0, Outcome.CHANGED, "0 is no deadline here"), (9, Outcome.CARRIED, "")],
)
def test_a_deadline_of_no_seconds_is_none(
    kind: str, number: int, outcome: Outcome, why: str
) -> None:
    """Kubernetes ends such a Job as it starts it; its author meant none."""
    text, path = OBJECTS[kind]
    conversion = text_as_jobs(text.replace("NUMBER", str(number))).conversions[0]
    verdict = next(item for item in conversion.verdicts if item.path == path)
    assert (outcome, why) == (verdict.outcome, verdict.why)
    assert number == conversion.values["runPolicy"]["activeDeadlineSeconds"]
