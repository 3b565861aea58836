"""How long pods wait for each other, where nothing has them start together."""

from __future__ import annotations

import pytest

from tests.converted import text_as_jobs

_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a, labels: {LABELS}}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {metadata: {annotations: {IN}}, spec: {
  SCHEDULER containers: [{name: c, image: i, command: [torchrun, t.py]}]}}}}}
"""


@pytest.mark.parametrize(
    ("place", "text", "is_noted"),
    [
        ("", "", True),
        ("SCHEDULER", "schedulerName: default-scheduler,", True),
        ("SCHEDULER", "schedulerName: volcano,", False),
        ("LABELS", "kueue.x-k8s.io/queue-name: q", False),
        ("IN", "scheduling.k8s.io/group-name: gang", False),
        ("replicas: 2", "replicas: 1", False),
        ("[torchrun, ", "[torchrun, --rdzv_backend=etcd-v2, --rdzv_endpoint=e:2379, ", False),
        ("[torchrun, ", "[torchrun, --rdzv_backend=c10d, ", True),
    ],
)
def test_pods_that_start_apart_are_said_to_wait_for_a_time(
    place: str, text: str, *, is_noted: bool
) -> None:
    """A pod whose rank 0 has no place yet fails here, and no scheduler holds it back for that."""
    job = _JOB.replace(place, text) if place else _JOB
    for other in ("LABELS", "IN", "SCHEDULER"):
        job = job.replace(other, "")
    [conversion] = text_as_jobs(job).conversions
    notes = [note for note in conversion.notes if "network.waitSeconds" in note]
    assert is_noted == (len(notes) == 1)
    assert not is_noted or "waits 300 s for rank 0" in notes[0]
    assert not conversion.lost


def test_a_gang_of_another_object_is_one() -> None:
    """A Volcano Job, which is read as a job of another kind, starts as a whole."""
    text = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: a}
spec: {tasks: [{name: w, replicas: 2, template: {spec: {containers: [
  {name: w, image: i, command: [torchrun, t.py]}]}}}]}
"""
    [conversion] = text_as_jobs(text).conversions
    assert not any("network.waitSeconds" in note for note in conversion.notes)
