"""Names of a TrainJob's pods, and of their Service, in what its program runs."""

from __future__ import annotations

import pytest

from tests.converted import lost, text_as_jobs

_RUNTIME_OF_NAMES = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {{name: rt}}
spec:
  mlPolicy: {{numNodes: 2, torch: {{numProcPerNode: 1}}}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {{labels: {{trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}
          spec:
            template:
              spec:
                containers:
                - name: node
                  image: "a/b:1"
                  command: [bash, -c, "{}"]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {{name: sd}}
spec:
  runtimeRef: {{name: rt, kind: TrainingRuntime}}
"""


@pytest.mark.parametrize(
    ("script", "losses", "start"),
    [
        ("getent hosts sd.ml.svc; a", set(), "the command names the Service sd, and here"),
        ("getent hosts sd-node-0-1.sd.ml.svc; a", {"spec.runtimeRef.name"}, ""),
        ("HOST=sd-node-0-0.sd a", set(), "sd-node-0-0 in the command is MASTER_ADDR now"),
        ("getent hosts sd.py; a", set(), ""),
    ],
)
def test_names_of_its_pods_and_of_its_service_are_said(
    script: str, losses: set[str], start: str
) -> None:
    """JobSet called them after the TrainJob; here they are called after the release."""
    conversion = text_as_jobs(_RUNTIME_OF_NAMES.format(script)).conversions[0]
    assert losses == lost(conversion)
    notes = [note for note in conversion.notes if "Service sd" in note or "sd-node" in note]
    assert [start] * bool(start) == [note[: len(start)] for note in notes]
