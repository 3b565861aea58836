"""The plan that a person's wish for another size becomes, and what is refused before."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.cluster import paths, scale
from allranks.elastic.api import plan as reading
from allranks.elastic.plans.status import HELD, Answer
from allranks.elastic.scale_request import ScaleRequest, check
from allranks.errors import InputError


def elastic_job(**spec: Any) -> dict[str, Any]:
    """An ElasticJob of a release, of one to six workers."""
    containers = [{"name": "main", "resources": {"limits": {"amd.com/gpu": "1"}}}]
    worker = {"minReplicas": 1, "maxReplicas": 6, "template": {"spec": {"containers": containers}}}
    labels = {names.APP_INSTANCE: "demo", names.APP_PART_OF: names.PART_OF, "team": "vision"}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {"name": "demo", "uid": "u-1", "labels": labels},
        "spec": {"replicaSpecs": {"worker": worker, "dlrover-master": {}}, **spec},
    }


def test_a_wish_becomes_a_manual_plan() -> None:
    """It is of the run, is owned by the job, and says what is to change and nothing else."""
    manifest = scale.plan(
        elastic_job(), ScaleRequest({"worker": 4}, {"memory": "16Gi", "gpu": "2"})
    )
    labels = manifest["metadata"]["labels"]
    assert {
        names.APP_INSTANCE: "demo",
        names.APP_PART_OF: names.PART_OF,
        names.EDL_NAME: "demo",
        names.SCALE_TYPE: "manual",
    } == labels
    (owner,) = manifest["metadata"]["ownerReferences"]
    assert (names.ELASTIC_JOB, "demo", "u-1") == (owner["kind"], owner["name"], owner["uid"])
    worker = {"replicas": 4, "resource": {"memory": "16Gi", "amd.com/gpu": "2"}}
    assert {"worker": worker} == manifest["spec"]["replicaResourceSpecs"]


def test_the_operator_reads_what_was_wished() -> None:
    """The same reader as the operator's finds nothing odd about it."""
    manifest = scale.plan(elastic_job(), ScaleRequest({"worker": 0, "ps": 2}))
    plan = reading.read({**manifest, "metadata": {**manifest["metadata"], "name": "demo-scale-x"}})
    assert ("demo", "manual", "", ()) == (
        plan.owner_job,
        plan.scale_type,
        plan.invalid,
        plan.problems,
    )
    assert {"worker": 0, "ps": 2} == {kind: group.replicas for kind, group in plan.groups.items()}


def test_memory_alone_is_the_workers() -> None:
    """Their number stays: it is not in the plan."""
    manifest = scale.plan(elastic_job(), ScaleRequest(resource={"memory": "2Gi"}))
    assert {"worker": {"resource": {"memory": "2Gi"}}} == manifest["spec"]["replicaResourceSpecs"]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (ScaleRequest({"worker": 7}), "7 is outside of 1 to 6"),
        (ScaleRequest({"worker": 0}), "0 is outside of 1 to 6"),
        (ScaleRequest({"ps": 1}), "elastic job demo has no role ps"),
        (ScaleRequest({"chief": 0}), "0 would end elastic job demo: the chief leads"),
        (
            ScaleRequest({"evaluator": 1}, {"gpu": "1"}),
            "the evaluator pods of elastic job demo have no",
        ),
    ],
)
def test_what_the_job_does_not_allow_is_refused(wish: ScaleRequest, message: str) -> None:
    """With the flag and the range, before anything is sent."""
    job = elastic_job()
    job["spec"]["replicaSpecs"] |= {
        "chief": {"replicas": 1},
        "evaluator": {"template": {"spec": {}}},
    }
    with pytest.raises(InputError, match=message) as excinfo:
        check(job, wish)
    path = "--gpus" if wish.resource else f"--{next(iter(wish.replicas))}"
    assert path == excinfo.value.problem.path


@pytest.mark.parametrize(
    ("wish", "message", "fix"),
    [
        (
            ScaleRequest({"chief": 0}),
            "0 would end elastic job demo: the chief leads",
            "suspend demo",
        ),
        (
            ScaleRequest({"chief": 2}),
            "demo has one chief, which is one of its",
            "--worker sets how many",
        ),
        (
            ScaleRequest({"evaluator": 1}),
            "has no role evaluator",
            "its roles are chief, ps, worker",
        ),
    ],
)
def test_a_chief_out_of_the_workers_is_a_role(wish: ScaleRequest, message: str, fix: str) -> None:
    """A job with parameter servers that names no chief has one all the same, and one alone."""
    job = elastic_job(distributionStrategy="ParameterServerStrategy")
    job["spec"]["replicaSpecs"] |= {"ps": {"replicas": 1}}
    with pytest.raises(InputError, match=message) as excinfo:
        check(job, wish)
    assert fix in excinfo.value.problem.hint
    check(job, ScaleRequest({"chief": 1}))


def test_a_job_without_specs_takes_any_role() -> None:
    """Its master's first plan makes the roles; so may a person's."""
    check(elastic_job(replicaSpecs={}), ScaleRequest({"worker": 3, "ps": 1}))


def test_an_ended_job_is_not_scaled() -> None:
    """It has no pods to scale."""
    ended_job = elastic_job() | {"status": {"phase": "Succeeded"}}
    with pytest.raises(InputError, match="has ended"):
        check(ended_job, ScaleRequest({"worker": 3}))


def planned(fake: Any, **status: Any) -> Any:
    """A cluster with a plan that has a status."""
    plan = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {"name": "p"},
        "status": status,
    }
    return fake.FakeCluster(plan)


def test_what_became_of_a_plan_is_told(fake: Any) -> None:
    """The operator's own words, from the message or the latest condition."""
    cluster = planned(fake, phase="Succeeded", conditions=[{"message": "a"}, {"message": "b"}])
    answer = scale.plan_answer(cluster, "lab", "p")
    assert Answer("p", "Succeeded", "b") == answer
    assert (True, False) == (answer.over, answer.refused)
    assert [("get", paths.SCALE_PLANS, "p", "lab")] == cluster.requests


def test_a_plan_that_nobody_has_seen_says_nothing(fake: Any) -> None:
    """It has no status yet."""
    assert Answer("p") == scale.plan_answer(planned(fake), "lab", "p")


@pytest.mark.parametrize("phase", ["Failed", "Superseded"])
def test_a_plan_that_was_not_carried_out_is_refused(fake: Any, phase: str) -> None:
    """With the reason."""
    answer = scale.plan_answer(planned(fake, phase=phase, message="no room"), "lab", "p")
    assert ("no room", True, True) == (answer.message, answer.over, answer.refused)


def test_a_plan_of_a_suspended_job_is_held(fake: Any) -> None:
    """Its job has no pods before it is resumed."""
    conditions = [{"type": "Scaling", "reason": HELD}]
    answer = scale.plan_answer(planned(fake, phase="Scaling", conditions=conditions), "lab", "p")
    assert (True, False) == (answer.held, answer.over)
