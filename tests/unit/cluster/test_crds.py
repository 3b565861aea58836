"""The definitions of our kinds beside those of a cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allranks.cluster import crds, paths
from allranks.cluster.crds import CrdState
from allranks.errors import ForbiddenError, InputError, ToolError

RUNS = "trainingruns.allranks.dev"


def live(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition as a server keeps it: with a status and fields of its own."""
    definition_there = copy.deepcopy(definition)
    definition_there["spec"]["conversion"] = {"strategy": "None"}
    definition_there["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return definition_there


def cluster(fake: Any, *changes: str) -> Any:
    """A cluster with all definitions, one of which is changed in some way."""
    definitions = [live(our) for our in crds.ours() if "missing" not in changes]
    for live_definition in definitions:
        if live_definition["metadata"]["name"] != RUNS:
            continue
        version = live_definition["spec"]["versions"][0]
        if "column" in changes:
            version["additionalPrinterColumns"].pop()
        if "field" in changes:
            del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["phase"]
        if "foreign" in changes:
            del live_definition["metadata"]["labels"]
    return fake.FakeCluster(*definitions)


def state(client: Any) -> CrdState:
    """How the runs' definition is."""
    return next(comparison.state for comparison in crds.compare(client) if comparison.name == RUNS)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", CrdState.CURRENT),
        ("column", CrdState.OTHER),
        ("field", CrdState.OTHER),
        ("foreign", CrdState.FOREIGN),
        ("missing", CrdState.MISSING),
    ],
)
def test_each_difference_is_seen(fake: Any, change: str, expected: CrdState) -> None:
    """What the server adds is none; a field that it lost is one."""
    assert expected == state(cluster(fake, change))


def test_nothing_is_changed_where_one_is_somebody_elses(fake: Any) -> None:
    """Two operators on the same objects would be worse than none."""
    client = cluster(fake, "foreign")
    with pytest.raises(InputError, match=f"has {RUNS} of another operator"):
        crds.apply(client)
    assert "patch" not in {request[0] for request in client.requests}


def test_objects_are_listed_by_kind(fake: Any) -> None:
    """All that would go with their definitions."""
    run = {"apiVersion": "allranks.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "d"}}
    client = fake.FakeCluster(run)
    assert {"ElasticJob": [], "ScalePlan": [], "TrainingRun": [run]} == crds.objects(client)


def test_a_kind_is_served_or_not(fake: Any) -> None:
    """By what the server says of the group and version."""
    group = {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "metadata": {"name": "v1alpha1"},
        "resources": [{"name": "trainingruns"}, {"name": "trainingruns/status"}],
    }
    client = fake.FakeCluster()
    client.objects["apis/allranks.dev", "v1alpha1"] = group
    assert crds.serves(client, paths.TRAINING_RUNS)
    assert not crds.serves(client, paths.ELASTIC_JOBS)


def test_kinds_that_are_gone_are_seen(fake: Any) -> None:
    """Kubernetes' own are not asked for; each group once."""
    kinds = ("TrainingRun", "allranks.dev/v1alpha1"), ("Job", "batch/v1"), ("PodGroup", "x.sh/v1")
    manifests = [{"kind": kind, "apiVersion": of, "metadata": {"name": "d"}} for kind, of in kinds]
    client = fake.FakeCluster()
    assert ("TrainingRun/d", "PodGroup/d") == crds.unserved(client, manifests)
    assert 2 == len(client.requests)
    client.objects["apis/x.sh", "v1"] = {"resources": [{"name": "podgroups", "kind": "PodGroup"}]}
    assert ("TrainingRun/d",) == crds.unserved(client, manifests)


def test_a_newer_definition_is_left_as_it_is(fake: Any) -> None:
    """Objects that are kept in a version that ours does not know would be lost."""
    client = cluster(fake, "column")
    client.objects[paths.DEFINITIONS, RUNS]["status"]["storedVersions"] = ["v1alpha1", "v1beta1"]
    with pytest.raises(InputError, match=f"newer {RUNS}: it keeps objects as v1beta1"):
        crds.apply(client)
    assert "patch" not in {request[0] for request in client.requests}


def test_who_may_not_change_them_is_told_who_may() -> None:
    """The error stays what it was, with another way out."""
    error = crds.forbidden(ForbiddenError("no", hint="ask"))
    assert isinstance(error, ForbiddenError)
    assert isinstance(error, ToolError)
    assert "--crds-only" in error.problem.hint
