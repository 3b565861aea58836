"""The values that `allranks avoid` makes, and which objects may change under their pods."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.cli.commands import avoid
from allranks.cluster import paths
from allranks.cluster.scale import Controllers
from allranks.cluster.upgrade import Change, Obstacle
from allranks.errors import InputError
from allranks.model.job_spec import JobSpec

AFFINITY = Change("spec.replicaSpecs.worker.template.spec.affinity", "", "{}")
IMAGE = Change("spec.replicaSpecs.worker.template.spec.containers[trainer].image", "a", "b")


@pytest.mark.parametrize(
    ("obstacle", "expected"),
    [
        (Obstacle("ElasticJob", "a", "", (AFFINITY,), "", "pods keep it"), True),
        (Obstacle("ElasticJob", "a", "", (AFFINITY, IMAGE), "", "pods keep it"), False),
        (Obstacle("ElasticJob", "a", "", (AFFINITY,), "refused", "pods keep it"), False),
        (Obstacle("Job", "a", "", (AFFINITY,), "field is immutable"), False),
    ],
)
def test_an_elastic_job_takes_another_affinity_for_pods_to_come(
    obstacle: Obstacle, expected: bool
) -> None:
    """And nothing else, as its pods would be of two templates."""
    assert expected is avoid._is_for_new_pods(obstacle)


def test_a_stateful_set_with_pods_would_replace_them() -> None:
    """So it needs --recreate; a suspended one has none."""
    sets: list[dict[str, Any]] = [
        {"metadata": {"name": name}, "spec": {"replicas": size}}
        for name, size in (("runs", 2), ("rests", 0))
    ]
    assert ["runs"] == [item.name for item in avoid._rolling(Controllers((), tuple(sets)))]
    assert paths.STATEFUL_SETS == avoid._rolling(Controllers((), tuple(sets)))[0].resource_path
    assert avoid._is_suspended(Controllers((), (sets[1],)))
    assert not avoid._is_suspended(Controllers((), tuple(sets)))


def test_values_change_in_one_place_and_start_or_end_no_pods() -> None:
    """A run that was suspended since stays so; the last node that is let go takes the key along."""
    recorded = {"nodes": 2, "scheduling": {"avoidNodes": ["b1"], "nodeSelector": {"a": "b"}}}
    more = avoid._values(recorded, ["b1", "b2"], is_suspended=True)
    assert ["b1", "b2"] == more["scheduling"]["avoidNodes"]
    assert {"suspend": True} == more["runPolicy"]
    less = avoid._values(recorded, [], is_suspended=False)
    assert {"nodes": 2, "scheduling": {"nodeSelector": {"a": "b"}}} == less
    with pytest.raises(InputError, match="does not avoid 'b7'"):
        avoid._without(["b1"], ["b7"])


def test_a_layout_keeps_off_the_nodes_too() -> None:
    """Each alternative of the affinity gets the rule, as the chart gives it."""
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    scheduling = {"affinity": {"nodeAffinity": required}, "avoidNodes": ["b1"]}
    off = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["b1"]}
    values = {"workload": "torchrun", "nodes": 1, "scheduling": scheduling}
    (changed,) = JobSpec.from_values(values).node_terms
    assert [*term["matchExpressions"], off] == changed["matchExpressions"]
    values["scheduling"] = {"avoidNodes": ["b1"]}
    (alone,) = JobSpec.from_values(values).node_terms
    assert [off] == alone["matchExpressions"]
