"""The plans that the master writes, as the operator reads them."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.elastic.api import job as jobs
from allranks.elastic.api import plan as plans
from allranks.elastic.plans import apply
from allranks.elastic.policy import initial_plan
from allranks.elastic.policy.history import JobRecord
from allranks.elastic.policy.observation import PolicyDecision
from allranks.elastic.policy.settings import PolicySettings
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.target import DesiredState
from allranks_operator.master import scaling

TEMPLATE = {
    "spec": {
        "containers": [
            {"name": "main", "image": "any", "resources": {"requests": {"memory": "1Gi"}}}
        ]
    }
}
LOST = "demo-edljob-worker-1"
DECISIONS = (
    PolicyDecision("Grow", "more", replicas={"worker": 4}),
    PolicyDecision("MoreMemory", "more", replicas={"worker": 4}, memory={"worker": 2 * 1024**3}),
    PolicyDecision("Straggler", "slow", replicas={"worker": 3}, remove=("demo-edljob-worker-2",)),
    PolicyDecision("WorkerLost", "frozen", replicas={"worker": 3}, remove=(LOST,)),
    PolicyDecision("WorkerLost", "frozen still", replicas={"worker": 3}, remove=(LOST,)),
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
    settings = PolicySettings(node_shape=ResourceAmounts(gpus=4))
    first = initial_plan.plan(scaling.outline(job, JobRecord()), settings)
    manifests = [
        scaling.first_plan(job, first, 0),
        *(
            scaling.scale_plan(job, decision, number)
            for number, decision in enumerate(DECISIONS, 1)
        ),
    ]
    target = DesiredState()
    for manifest in manifests:
        plan = plans.read(manifest)
        outcome = apply.apply_plan(target, plan, job)
        assert ((), ()) == (plan.problems, outcome.odd), manifest
        target = outcome.target
    ids = [member.id for member in target.groups["worker"].members]
    assert (3, True, True) == (len(ids), 1 not in ids, 2 not in ids)
