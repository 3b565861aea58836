"""The definitions of our kinds beside those of a cluster."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allranks.cluster import definitions, paths
from allranks.cluster.definitions import State
from allranks.errors import ForbiddenError, InputError, ToolError

RUNS = "trainingruns.allranks.dev"


def live(definition: dict[str, Any]) -> dict[str, Any]:
    """A definition as a server keeps it: with a status and fields of its own."""
    found = copy.deepcopy(definition)
    found["spec"]["conversion"] = {"strategy": "None"}
    found["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return found


def cluster(fake: Any, *changes: str) -> Any:
    """A cluster with all definitions, one of which is changed in some way."""
    found = [live(one) for one in definitions.ours() if "missing" not in changes]
    for one in found:
        if one["metadata"]["name"] != RUNS:
            continue
        version = one["spec"]["versions"][0]
        if "column" in changes:
            version["additionalPrinterColumns"].pop()
        if "field" in changes:
            del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["phase"]
        if "foreign" in changes:
            del one["metadata"]["labels"]
    return fake.FakeCluster(*found)


def state(found: Any) -> State:
    """How the runs' definition is."""
    return next(one.state for one in definitions.compare(found) if one.name == RUNS)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("", State.CURRENT),
        ("column", State.OTHER),
        ("field", State.OTHER),
        ("foreign", State.FOREIGN),
        ("missing", State.MISSING),
    ],
)
def test_each_difference_is_seen(fake: Any, change: str, expected: State) -> None:
    """What the server adds is none; a field that it lost is one."""
    assert expected == state(cluster(fake, change))


def test_nothing_is_changed_where_one_is_somebody_elses(fake: Any) -> None:
    """Two operators on the same objects would be worse than none."""
    found = cluster(fake, "foreign")
    with pytest.raises(InputError, match=f"has {RUNS} of another operator"):
        definitions.apply(found)
    assert "patch" not in {one[0] for one in found.asked}


def test_objects_are_listed_by_kind(fake: Any) -> None:
    """All that would go with their definitions."""
    run = {"apiVersion": "allranks.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "d"}}
    found = fake.FakeCluster(run)
    assert {"ElasticJob": [], "ScalePlan": [], "TrainingRun": [run]} == definitions.objects(found)


def test_a_kind_is_served_or_not(fake: Any) -> None:
    """By what the server says of the group and version."""
    group = {
        "apiVersion": "v1",
        "kind": "APIResourceList",
        "metadata": {"name": "v1alpha1"},
        "resources": [{"name": "trainingruns"}, {"name": "trainingruns/status"}],
    }
    found = fake.FakeCluster()
    found.objects["apis/allranks.dev", "v1alpha1"] = group
    assert definitions.serves(found, paths.TRAINING_RUNS)
    assert not definitions.serves(found, paths.ELASTIC_JOBS)


def test_kinds_that_are_gone_are_seen(fake: Any) -> None:
    """Kubernetes' own are not asked for; each group once."""
    kinds = ("TrainingRun", "allranks.dev/v1alpha1"), ("Job", "batch/v1"), ("PodGroup", "x.sh/v1")
    held = [{"kind": kind, "apiVersion": of, "metadata": {"name": "d"}} for kind, of in kinds]
    found = fake.FakeCluster()
    assert ("TrainingRun/d", "PodGroup/d") == definitions.unserved(found, held)
    assert 2 == len(found.asked)
    found.objects["apis/x.sh", "v1"] = {"resources": [{"name": "podgroups", "kind": "PodGroup"}]}
    assert ("TrainingRun/d",) == definitions.unserved(found, held)


def test_a_newer_definition_is_left_as_it_is(fake: Any) -> None:
    """Objects that are kept in a version that ours does not know would be lost."""
    found = cluster(fake, "column")
    found.objects[paths.DEFINITIONS, RUNS]["status"]["storedVersions"] = ["v1alpha1", "v1beta1"]
    with pytest.raises(InputError, match=f"newer {RUNS}: it keeps objects as v1beta1"):
        definitions.apply(found)
    assert "patch" not in {one[0] for one in found.asked}


def test_who_may_not_change_them_is_told_who_may() -> None:
    """The error stays what it was, with another way out."""
    found = definitions.not_allowed(ForbiddenError("no", hint="ask"))
    assert isinstance(found, ForbiddenError)
    assert isinstance(found, ToolError)
    assert "--crds-only" in found.problem.hint
