"""Losses of a conversion that values made of it still have, though their pods are the same."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.convert.reports import losses
from tests.converted import text_as_jobs

HOSTS = """\
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: gpt}
spec:
  slotsPerWorker: 8
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - {name: l, image: "i:1", command: [mpirun, -x, ADDR=gpt-worker-0, ./a]}
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: w, image: "i:1"}]}}
"""
VARIABLE = """\
apiVersion: kubeflow.org/v1
kind: XGBoostJob
metadata: {name: x}
spec:
  xgbReplicaSpecs:
    Master: &pods
      template: {spec: {containers: [
        {name: xgboost, image: "i:1", command: [sh, -c, "python m.py --to=$WORKER_ADDRS"]}]}}
    Worker: *pods
"""
POLICY = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: p}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template:
        spec:
          dnsPolicy: Default
          containers: [{name: pytorch, image: "i:1", command: [torchrun, --nnodes=2, t.py]}]
"""
TOPOLOGY = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: s, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicatedJobs:
  - name: w
    template:
      spec:
        parallelism: 2
        completions: 2
        completionMode: Indexed
        template: {spec: {containers: [{name: c, image: "i:1", command: [
          torchrun, --nnodes=2, --node_rank=$(JOB_COMPLETION_INDEX), t.py]}]}}
"""


def _remaining(
    text: str,
    settings: set[str] | None = None,
    differences: set[str] | None = None,
    values: dict[str, Any] | None = None,
) -> list[str]:
    conversion = text_as_jobs(text).conversions[0]
    changes = losses.Changes({**conversion.values, **(values or {})}, frozenset(settings or ()))
    return [str(loss) for loss in losses.remaining(conversion, changes, differences or set())]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HOSTS, "command[2]: not carried by convert: gpt-worker-0 is no name here"),
        (VARIABLE, "command: not carried by convert: it reads WORKER_ADDRS"),
        (POLICY, "spec.dnsPolicy: not carried by convert: network.dnsPolicy: Default asks"),
        (TOPOLOGY, "exclusive-topology: not carried by convert: the pods are kept together"),
    ],
)
def test_values_that_convert_made_have_its_losses(text: str, sentence: str) -> None:
    """Words that name what is not there are the same in the pods, and do not run."""
    [loss] = _remaining(text)
    assert sentence in loss
    assert loss.startswith("job.yaml:")


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        (HOSTS, "command"),
        (VARIABLE, "setup"),
        (VARIABLE, "env WORKER_ADDRS"),
        (POLICY, "dnsPolicy"),
        (TOPOLOGY, "affinity"),
    ],
)
def test_what_a_person_has_mended_is_no_loss(text: str, setting: str) -> None:
    """Values that have something else where a loss would be mended are compared by their pods."""
    assert [] == _remaining(text, {setting})
    assert [] != _remaining(text, {"image", "env OTHER", "pods"})


@pytest.mark.parametrize(
    ("text", "setting"), [(HOSTS, "command"), (POLICY, "dnsPolicy"), (TOPOLOGY, "affinity")]
)
def test_what_a_difference_says_is_not_said_twice(text: str, setting: str) -> None:
    """A difference of the pods in the setting of a field is what is lost of it."""
    assert [] == _remaining(text, differences={setting})


def test_a_value_that_was_mended_is_no_loss() -> None:
    """What a loss names as its place is looked at in the values, where no pod shows it."""
    assert [] == _remaining(TOPOLOGY, values={"scheduling": {"topology": {"mode": "preferred"}}})


def test_fields_of_one_reason_are_one_loss() -> None:
    """What all of them stand in is named, and roles of one reason are each a place to look at."""
    metrics = "metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization}}}]"
    policy = f"spec:\n  elasticPolicy: {{minReplicas: 1, maxReplicas: 2, {metrics}}}"
    [loss, _] = _remaining(POLICY.replace("spec:", policy, 1))
    assert " spec.elasticPolicy.metrics[0]: not carried by convert: no autoscaler" in loss
    tasks = [text for text in _remaining(TASKS) if "not carried by convert: it reads" in text]
    assert ["tasks[0]", "tasks[1]"] == [text.split(".")[2] for text in tasks]


TASKS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: t}
spec:
  plugins: {env: [], svc: []}
  tasks:
  - name: ps
    replicas: 1
    template: &pod {spec: {containers: [
      {name: c, image: "i:1", command: [
        sh, -c, "export TF_CONFIG=`cat /etc/volcano/ps.host`; python t.py"]}]}}
  - {name: worker, replicas: 2, template: *pod}
"""
