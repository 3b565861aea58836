"""The account of the operator itself, which no pod of a job may have in its namespace."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.elastic.events import POD_WITHHELD
from tests.unit.elastic.simcluster import MASTER, NAME, SimCluster, job, template

pytestmark = pytest.mark.attack

ACCOUNT = "allranks-watcher"
FIELD = "spec.replicaSpecs.{}.template.spec.{}"


def running_as(**spec: Any) -> dict[str, Any]:
    """A replica spec whose template says more than its container."""
    pod_template = template()
    return {"template": {**pod_template, "spec": {**pod_template["spec"], **spec}}}


def condition(cluster: SimCluster, kind: str) -> dict[str, Any]:
    """A condition of the job."""
    conditions = cluster.job["status"]["conditions"]
    result: dict[str, Any] = next(
        condition for condition in conditions if condition["type"] == kind
    )
    return result


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_no_trainer_runs_as_the_operator(field: str) -> None:
    """No pod is made, by either of the two names of the field; the other roles go on."""
    specs = {"worker": running_as(**{field: ACCOUNT}), "ps": {}}
    cluster = SimCluster(job(specs, master="external"), operator_account=ACCOUNT)
    cluster.plan("p", worker=2, ps=1)
    cluster.settle()
    assert [f"{NAME}-edljob-ps-0"] == [*cluster.pods]
    stalled = condition(cluster, "Stalled")
    assert ("True", POD_WITHHELD) == (stalled["status"], stalled["reason"])
    sentence = f"{FIELD.format('worker', field)} is {ACCOUNT!r}, the operator's own account"
    assert sentence in stalled["message"]
    cluster.wait(60)
    cluster.settle()
    assert sentence in cluster.plans["p"]["status"]["message"]
    assert (1, None) == (cluster.event_reasons().count(POD_WITHHELD), cluster.look().requeue_after)


def test_it_is_made_when_another_account_is_named() -> None:
    """An edit mends it, and nothing has to be started again."""
    specs = {"worker": running_as(serviceAccountName=ACCOUNT)}
    cluster = SimCluster(job(specs, master="external"), operator_account=ACCOUNT)
    cluster.plan("p", worker=2)
    cluster.settle()
    assert {} == cluster.pods
    cluster.edit(replicaSpecs={"worker": running_as(serviceAccountName="trainer")})
    cluster.settle()
    assert (2, "False") == (len(cluster.pod_names()), condition(cluster, "Stalled")["status"])


def test_an_evaluator_that_is_like_a_worker_is_none_either() -> None:
    """The field that is named is the one that was written."""
    specs = {"worker": running_as(serviceAccountName=ACCOUNT), "evaluator": {"template": {}}}
    cluster = SimCluster(job(specs, master="external"), operator_account=ACCOUNT)
    cluster.plan("p", evaluator=1)
    cluster.settle()
    assert {} == cluster.pods
    field = FIELD.format("worker", "serviceAccountName")
    assert f"no evaluator pod is made: {field}" in condition(cluster, "Ready")["message"]


@pytest.mark.parametrize("kind", ["own", "given"])
def test_no_master_runs_as_the_operator(kind: str) -> None:
    """Neither ours nor one that the job brings; the Event says so once."""
    spec = {"serviceAccountName": ACCOUNT, "containers": [{"name": "main", "image": "m:1"}]}
    specs = {"worker": {}, MASTER: {"template": {"spec": spec}}}
    cluster = SimCluster(job(specs, master=kind), operator_account=ACCOUNT)
    cluster.settle()
    assert {} == cluster.pods
    stalled = condition(cluster, "Stalled")
    assert ("True", POD_WITHHELD) == (stalled["status"], stalled["reason"])
    assert FIELD.format(MASTER, "serviceAccountName") in stalled["message"]
    assert 1 == cluster.event_reasons().count(POD_WITHHELD)


def test_a_template_that_names_none_has_the_namespaces_default() -> None:
    """An operator that runs as `default` keeps that for itself."""
    cluster = SimCluster(job({"worker": {}}, master="external"), operator_account="default")
    cluster.plan("p", worker=1)
    cluster.settle()
    assert {} == cluster.pods
    field = FIELD.format("worker", "serviceAccountName")
    assert f"{field} is not set, and 'default' is" in condition(cluster, "Ready")["message"]


@pytest.mark.parametrize(
    ("spec", "account"),
    [
        ({"serviceAccountName": ACCOUNT}, ""),
        ({"serviceAccountName": "trainer", "serviceAccount": ACCOUNT}, ACCOUNT),
        (
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}]}}]},
            ACCOUNT,
        ),
    ],
)
def test_pods_of_other_accounts_are_made(spec: dict[str, Any], account: str) -> None:
    """Elsewhere the name is any name; and a token that a pod projects is of its own account."""
    specs = {"worker": running_as(**spec)}
    cluster = SimCluster(job(specs, master="external"), operator_account=account)
    cluster.plan("p", worker=1)
    cluster.settle()
    assert ([f"{NAME}-edljob-worker-0"], []) == ([*cluster.pods], cluster.event_reasons())


def test_a_job_of_thousands_is_not_looked_at_again_at_once() -> None:
    """What is not made is no reason to come back."""
    specs = {"worker": running_as(serviceAccountName=ACCOUNT)}
    manifest = job(specs, master="external", annotations={names.RELAUNCH: "watcher"})
    cluster = SimCluster(manifest, operator_account=ACCOUNT)
    cluster.plan("p", worker=3000)
    cluster.settle()
    assert cluster.look().requeue_after is None


def test_many_types_are_few_events() -> None:
    """Whatever an author makes up, what is told stays short, and is told once."""
    kinds = [f"t{number}" for number in range(30)]
    specs = {kind: running_as(serviceAccountName=ACCOUNT) for kind in kinds}
    cluster = SimCluster(job(specs, master="external"), operator_account=ACCOUNT)
    cluster.plan("p", **dict.fromkeys(kinds, 1))
    cluster.settle()
    cluster.wait(60)
    cluster.settle()
    assert ({}, 3) == (cluster.pods, cluster.event_reasons().count(POD_WITHHELD))
