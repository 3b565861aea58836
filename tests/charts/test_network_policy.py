"""Who reaches the pods of a release: these themselves, and whom the values name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.elastic import pods
from allranks.elastic.job import read
from allranks.elastic.members import Member
from allranks.elastic.target import Target
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

Manifest = dict[str, Any]
WORKLOADS = ("torchrun", "mpi", "elastic", "sweep")
ASKED = {"networkPolicy": {"enabled": True}}


def render(template: Any, repo: Path, workload: str, file: str, over: Manifest) -> list[Manifest]:
    """What a chart makes of one of its own files of values, with some over it."""
    path = repo / f"charts/{workload}/ci/{file}-values.yaml"
    values = {**load(path.read_bytes(), path.name).data, **over}
    made: list[Manifest] = template(repo / f"charts/{workload}", values=values, name="demo")
    return made


def templates_of(manifests: list[Manifest]) -> list[Manifest]:
    """The labels of the pods that the manifests make."""
    found = [each["spec"].get("template") for each in manifests if "spec" in each]
    return [template["metadata"]["labels"] for template in found if template]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_there_is_none_unless_it_is_asked_for(template: Any, repo: Path, workload: str) -> None:
    """A cluster's network may have rules of its own."""
    made = render(template, repo, workload, "minimal", {})
    assert "NetworkPolicy" not in {each["kind"] for each in made}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_pods_of_a_release_reach_each_other(template: Any, repo: Path, workload: str) -> None:
    """All of them, whatever their role; what they ask of others is left alone."""
    made = render(template, repo, workload, "minimal", ASKED)
    (policy,) = (each for each in made if each["kind"] == "NetworkPolicy")
    spec = policy["spec"]
    own = spec["podSelector"]["matchLabels"]
    assert {"app.kubernetes.io/instance": "demo", "app.kubernetes.io/name": workload} == own
    assert (["Ingress"], [{"from": [{"podSelector": {"matchLabels": own}}]}]) == (
        spec["policyTypes"],
        spec["ingress"],
    )
    labels = templates_of(made)
    assert labels
    assert all(own.items() <= each.items() for each in labels)


def test_the_pods_that_the_watcher_makes_are_among_them(template: Any, repo: Path) -> None:
    """A master and its workers carry the labels of their release."""
    made = render(template, repo, "elastic", "auto", ASKED)
    (policy,) = (each for each in made if each["kind"] == "NetworkPolicy")
    own = policy["spec"]["podSelector"]["matchLabels"]
    (manifest,) = (each for each in made if each["kind"] == "ElasticJob")
    manifest["metadata"]["uid"] = "u-demo"
    job = read(manifest)
    for pod in (pods.master(job, 0, "i"), pods.build(job, "worker", Member(0, 0), Target())):
        assert own.items() <= pod["metadata"]["labels"].items()


def test_others_are_let_in_by_name(template: Any, repo: Path) -> None:
    """As NetworkPolicy peers, beside the release's own pods."""
    made = render(template, repo, "torchrun", "network-policy", {})
    (policy,) = (each for each in made if each["kind"] == "NetworkPolicy")
    (rule,) = policy["spec"]["ingress"]
    assert ["podSelector", "namespaceSelector", "ipBlock"] == [
        next(iter(peer)) for peer in rule["from"]
    ]
