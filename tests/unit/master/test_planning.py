"""The plans that the master writes, as the watcher reads them."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.elastic import apply
from allranks.elastic import job as jobs
from allranks.elastic import plan as plans
from allranks.elastic.policy import first
from allranks.elastic.policy.history import Record
from allranks.elastic.policy.seen import Decision
from allranks.elastic.policy.settings import Settings
from allranks.elastic.resource import Resource
from allranks.elastic.target import Target
from allranks_operator.master import planning

TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "main", "image": "any", "resources": {"requests": {"memory": "1Gi"}}}
        ]
    }
}
LOST = "demo-edljob-worker-1"
DECISIONS = (
    Decision("Grow", "more", replicas={"worker": 4}),
    Decision("MoreMemory", "more", replicas={"worker": 4}, memory={"worker": 2 * 1024**3}),
    Decision("Straggler", "slow", replicas={"worker": 3}, remove=("demo-edljob-worker-2",)),
    Decision("WorkerLost", "frozen", replicas={"worker": 3}, remove=(LOST,)),
    Decision("WorkerLost", "frozen still", replicas={"worker": 3}, remove=(LOST,)),
)


@pytest.mark.parametrize("strategy", ["AllreduceStrategy", "ParameterServerStrategy"])
def test_nothing_in_a_plan_of_ours_is_odd(strategy: str) -> None:
    """First plan and every kind of decision: taken as they stand, without a word about them."""
    types: dict[str, Any] = {"worker": {"template": TEMPLATE, "minReplicas": 2, "maxReplicas": 8}}
    if strategy == "ParameterServerStrategy":
        types |= {"ps": {"template": TEMPLATE}, "chief": {"template": TEMPLATE}}
    spec = {
        "distributionStrategy": strategy,
        "resourceLimits": {"gpu": "32"},
        "replicaSpecs": types,
    }
    metadata = {"name": "demo", "namespace": "lab", "uid": "u-1"}
    job = jobs.read({"metadata": metadata, "spec": spec})
    settings = Settings(node_shape=Resource(gpus=4))
    begun = first.plan(planning.asked(job, Record()), settings)
    made = [
        planning.first_plan(job, begun, 0),
        *(planning.scale_plan(job, one, number) for number, one in enumerate(DECISIONS, 1)),
    ]
    target = Target()
    for each in made:
        found = plans.read(each)
        taken = apply.apply(target, found, job)
        assert ((), ()) == (found.problems, taken.odd), each
        target = taken.target
    ids = [one.id for one in target.groups["worker"].members]
    assert (3, True, True) == (len(ids), 1 not in ids, 2 not in ids)
