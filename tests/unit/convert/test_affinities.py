from __future__ import annotations

from typing import Any

from allranks.convert.documents.context import Context
from allranks.convert.kinds import pytorch
from allranks.convert.pods import affinities
from allranks.convert.verdicts import Fields, Outcome

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _selector(key: str, value: str) -> dict[str, Any]:
    return {"topologyKey": "rack", "labelSelector": {"matchLabels": {key: value}}}


OWN = _selector("training.kubeflow.org/job-name", "bert")


def test_nothing_empty_stays() -> None:
    """Where each term of an affinity was such a one, there is no affinity."""
    values = {"scheduling": {"affinity": {"podAffinity": {REQUIRED: [OWN]}}}, "nodes": 2}
    fields = Fields({"metadata": {"name": "bert"}}, values)
    affinities.take_out(fields)
    assert {"nodes": 2} == fields.values


def test_keys_that_kubernetes_does_not_have_are_said() -> None:
    """An API server leaves them out or refuses them; a variable of that name is no affinity."""
    affinity = {"podAffinty": {REQUIRED: []}, "nodeAffinity": {"required": {}, PREFERRED: [1]}}
    values = {"scheduling": {"affinity": affinity}, "env": {"affinity": {"valueFrom": {}}}}
    fields = Fields({"metadata": {"name": "bert"}}, values)
    affinities.take_out(fields)
    assert {"nodeAffinity": {PREFERRED: [1]}} == fields.values["scheduling"]["affinity"]
    assert {"affinity": {"valueFrom": {}}} == fields.values["env"]


def test_terms_by_labels_of_the_old_controller_are_left_out() -> None:
    """A pod that waits for one with such a label waits for ever; terms for other pods stay."""
    name, role = "training.kubeflow.org/job-name", "training.kubeflow.org/replica-type"
    own, other = _selector(name, "bert"), _selector(name, "gpt")
    old = {"maxSkew": 1, **_selector("job-name", "bert")}
    spec = {
        "affinity": {
            "podAffinity": {REQUIRED: [own, _selector("app", "db")]},
            "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": other}]},
        },
        "topologySpreadConstraints": [{"maxSkew": 1, **_selector(role, "worker")}, old],
        "containers": [{"name": "pytorch", "image": "x:1", "command": ["torchrun", "a.py"]}],
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": spec}}}},
    }
    conversion = pytorch.convert(job, Context())
    assert {
        "affinity": {
            "podAffinity": {REQUIRED: [_selector("app", "db")]},
            "podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": other}]},
        }
    } == conversion.values["scheduling"]
    lost = {verdict.path for verdict in conversion.of(Outcome.NOT_CARRIED)}
    pod = "spec.pytorchReplicaSpecs.Worker.template.spec"
    assert {
        f"{pod}.affinity.podAffinity.{REQUIRED}[0].topologyKey",
        f"{pod}.affinity.podAffinity.{REQUIRED}[0].labelSelector.matchLabels.{name}",
        *(
            f"{pod}.topologySpreadConstraints[{index}].{key}"
            for index in (0, 1)
            for key in ("maxSkew", "topologyKey")
        ),
        f"{pod}.topologySpreadConstraints[0].labelSelector.matchLabels.{role}",
        f"{pod}.topologySpreadConstraints[1].labelSelector.matchLabels.job-name",
    } == lost


def test_a_term_by_a_label_of_the_chart_s_own_is_left_out() -> None:
    """The chart sets the pods' app.kubernetes.io/name: a term for other pods selects as before."""
    key = "app.kubernetes.io/name"
    own, other = _selector(key, "mine"), _selector(key, "db")
    spec = {
        "affinity": {"podAntiAffinity": {REQUIRED: [own, other]}},
        "containers": [{"name": "pytorch", "image": "x:1", "command": ["torchrun", "a.py"]}],
    }
    template = {"metadata": {"labels": {key: "mine"}}, "spec": spec}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}}},
    }
    conversion = pytorch.convert(job, Context())
    affinity = conversion.values["scheduling"]["affinity"]
    assert {"podAntiAffinity": {REQUIRED: [other]}} == affinity
    whys = {verdict.why for verdict in conversion.of(Outcome.NOT_CARRIED)}
    start = f"it selects pods by {key}, which the chart sets: select app.kubernetes.io/instance"
    assert {f"{start}, the release"} == whys


def test_a_term_by_the_label_of_all_the_operators_pods_is_left_out() -> None:
    """Kubeflow's operators gave each pod group-name: kubeflow.org, which no pod has here."""
    for key in ("group-name", "group_name"):
        values = {
            "scheduling": {"affinity": {"podAffinity": {REQUIRED: [_selector(key, "k.org")]}}}
        }
        fields = Fields({"metadata": {"name": "bert"}}, values)
        affinities.take_out(fields)
        assert {} == fields.values


def test_a_term_by_a_label_that_the_author_gave_is_left_out() -> None:
    """A Job gives job-name a value of its own, whatever the template's was: no pod has that."""
    term, other = _selector("job-name", "sft"), _selector("job-name", "etl")
    job = {
        "apiVersion": "sagemaker.amazonaws.com/v1",
        "kind": "HyperPodPyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {
            "replicaSpecs": [
                {
                    "template": {
                        "metadata": {"labels": {"job-name": "sft"}},
                        "spec": {"affinity": {"podAntiAffinity": {REQUIRED: [term, other]}}},
                    }
                }
            ]
        },
    }
    affinity = {"podAntiAffinity": {REQUIRED: [term, other]}}
    fields = Fields(job, {"scheduling": {"affinity": affinity}})
    affinities.take_out(fields)
    assert {"podAntiAffinity": {REQUIRED: [other]}} == fields.values["scheduling"]["affinity"]
