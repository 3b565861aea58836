"""Who reaches the pods of a release: these themselves, and whom the values name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.elastic import pods
from allranks.elastic.api.job import read
from allranks.elastic.members import Member
from allranks.elastic.target import DesiredState
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.attack

Manifest = dict[str, Any]
WORKLOADS = ("torchrun", "mpi", "elastic", "sweep")
POLICY_VALUES = {"networkPolicy": {"enabled": True}}


def render(template: Any, repo: Path, workload: str, file: str, over: Manifest) -> list[Manifest]:
    """What a chart makes of one of its own files of values, with some over it."""
    path = repo / f"charts/{workload}/ci/{file}-values.yaml"
    values = {**load(path.read_bytes(), path.name).data, **over}
    manifests: list[Manifest] = template(repo / f"charts/{workload}", values=values, name="demo")
    return manifests


def templates_of(manifests: list[Manifest]) -> list[Manifest]:
    """The labels of the pods that the manifests make."""
    templates = [manifest["spec"].get("template") for manifest in manifests if "spec" in manifest]
    return [template["metadata"]["labels"] for template in templates if template]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_there_is_none_unless_it_is_asked_for(template: Any, repo: Path, workload: str) -> None:
    """A cluster's network may have rules of its own."""
    manifests = render(template, repo, workload, "minimal", {})
    assert "NetworkPolicy" not in {manifest["kind"] for manifest in manifests}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_pods_of_a_release_reach_each_other(template: Any, repo: Path, workload: str) -> None:
    """All of them, whatever their role; what they ask of others is left alone."""
    manifests = render(template, repo, workload, "minimal", POLICY_VALUES)
    (policy,) = (manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy")
    spec = policy["spec"]
    own = spec["podSelector"]["matchLabels"]
    assert {"app.kubernetes.io/instance": "demo", "app.kubernetes.io/name": workload} == own
    assert (["Ingress"], [{"from": [{"podSelector": {"matchLabels": own}}]}]) == (
        spec["policyTypes"],
        spec["ingress"],
    )
    labels = templates_of(manifests)
    assert labels
    assert all(own.items() <= label.items() for label in labels)


def test_the_pods_that_the_operator_makes_are_among_them(template: Any, repo: Path) -> None:
    """A master and its workers carry the labels of their release."""
    manifests = render(template, repo, "elastic", "auto", POLICY_VALUES)
    (policy,) = (manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy")
    own = policy["spec"]["podSelector"]["matchLabels"]
    (manifest,) = (manifest for manifest in manifests if manifest["kind"] == "ElasticJob")
    manifest["metadata"]["uid"] = "u-demo"
    job = read(manifest)
    for pod in (
        pods.master(job, 0, "i"),
        pods.build_pod(job, "worker", Member(0, 0), DesiredState()),
    ):
        assert own.items() <= pod["metadata"]["labels"].items()


def test_others_are_let_in_by_name(template: Any, repo: Path) -> None:
    """As NetworkPolicy peers, beside the release's own pods."""
    manifests = render(template, repo, "torchrun", "network-policy", {})
    (policy,) = (manifest for manifest in manifests if manifest["kind"] == "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert ["podSelector", "namespaceSelector", "ipBlock"] == [
        next(iter(peer)) for peer in rule["from"]
    ]
