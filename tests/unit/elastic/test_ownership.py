"""What a job's author may not reach: nothing of another owner is ever deleted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.elastic.actions import Action, DeletePlan, DeletePod, DeleteService
from allranks.elastic.decide import decide
from allranks.elastic.observed_pods import is_owned
from allranks.elastic.snapshot import JobView
from tests.unit.elastic.simcluster import NAME, NAMESPACE, UID, SimCluster, job

pytestmark = pytest.mark.attack

PS = "ParameterServerStrategy"
_TYPES = ("worker", "ps", "chief", "evaluator", names.EDL_MASTER)
_OWNERS: tuple[dict[str, Any], ...] = (
    {},
    {"ownerReferences": []},
    {"ownerReferences": "odd"},
    {"ownerReferences": [{"kind": "ElasticJob", "name": NAME, "uid": UID}]},  # no controller
    {
        "ownerReferences": [
            {"kind": "ElasticJob", "name": NAME, "uid": "of-before", "controller": True}
        ]
    },
    {"ownerReferences": [{"kind": "Deployment", "name": NAME, "uid": "d", "controller": True}]},
)
_MINE = {"ownerReferences": [{"kind": "ElasticJob", "name": NAME, "uid": UID, "controller": True}]}


def test_a_service_of_another_owner_stays() -> None:
    """Its name is the one of a rank that is gone: it is no Service of this job's for that."""
    other = f"{NAME}-edljob-worker-7"
    cluster = SimCluster(
        job({"worker": {}, "ps": {}}, distributionStrategy=PS),
        services={other},
        others=frozenset({other}),
    )
    cluster.plan("p", worker=2, ps=1)
    cluster.settle()
    cluster.wait(1)
    cluster.plan("q", worker=1)
    cluster.settle()
    assert other in cluster.services


_strangers = st.builds(
    lambda kind, ident, owner, label, deleting: {
        "metadata": {
            "name": f"{NAME}-edljob-{kind}-{ident}",
            "namespace": NAMESPACE,
            "uid": f"other-{kind}-{ident}",
            "labels": {
                names.EDL_NAME: NAME,
                names.EDL_TYPE: kind,
                names.EDL_INDEX: str(ident),
                **({names.APP_PART_OF: names.PART_OF} if label else {}),
            },
            **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
            **owner,
        },
        "status": {"phase": "Running"},
    },
    st.sampled_from(_TYPES),
    st.integers(0, 4),
    st.sampled_from(_OWNERS),
    st.booleans(),
    st.booleans(),
)
_unlabelled = _strangers.map(
    lambda pod: {
        **pod,
        "metadata": {
            **pod["metadata"],
            **_MINE,
            "labels": {names.EDL_NAME: NAME},
        },
    }
)


@given(
    strangers=st.lists(_strangers | _unlabelled, max_size=8),
    counts=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=3),
    suspend=st.booleans(),
)
def test_only_own_objects_are_deleted(
    strangers: list[dict[str, Any]], counts: list[tuple[int, int]], *, suspend: bool
) -> None:
    """Whatever else stands in the namespace under the names that the job uses."""
    cluster = SimCluster(job({"worker": {}, "ps": {}}, distributionStrategy=PS))
    names_taken = {stranger["metadata"]["name"] for stranger in strangers}
    for number, (workers, servers) in enumerate(counts):
        cluster.wait(1)
        cluster.plan(f"p{number}", worker=workers, ps=servers)
        for _ in range(6):
            current = cluster.view()
            view = JobView(
                job={
                    **current.job,
                    "spec": {**current.job["spec"], "suspend": suspend and number > 0},
                },
                plans=current.plans,
                pods=(*current.pods, *copy.deepcopy(strangers)),
                services={**dict.fromkeys(names_taken, ""), **current.services},
                now=current.now,
                master_image=current.master_image,
            )
            decision = decide(view)
            for action in decision.then:
                assert _may(action, view), action
            if decision.commit is not None:
                cluster.carry_out(decision.commit)
            for action in decision.then:
                cluster.carry_out(action)
            cluster.kubelet()


def _may(action: Action, view: JobView) -> bool:
    """Whether what an action deletes is the job's."""
    match action:
        case DeletePod():
            pods = {pod["metadata"]["uid"]: pod["metadata"] for pod in view.pods}
            return pods[action.uid]["name"] == action.name and is_owned(UID, pods[action.uid])
        case DeleteService():
            return bool(action.uid) and view.services[action.name] == action.uid
        case DeletePlan():
            plans = {plan["metadata"]["uid"]: plan for plan in view.plans}
            return plans[action.uid]["spec"]["ownerJob"] == NAME
        case _:
            return True
