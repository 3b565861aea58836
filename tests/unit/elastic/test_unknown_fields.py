"""Fields that nobody reads are said, in the conditions of the job or the plan that has them."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.elastic import events
from tests.unit.elastic.simcluster import NAME, SimCluster, job


def conditions(manifest: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of an object, by type."""
    return {condition["type"]: condition for condition in manifest["status"]["conditions"]}


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"replicaResourceSpec": {"worker": {"replicas": 3}}},
            "replicaResourceSpec is no field that is read; is replicaResourceSpecs meant?",
        ),
        ({"replicas": 3}, "replicas is no field that is read"),
    ],
)
def test_a_plan_of_unknown_fields_alone_has_failed(spec: dict[str, Any], sentence: str) -> None:
    """Who wrote it did not mean to ask for nothing."""
    cluster = SimCluster()
    cluster.put_plan({"metadata": {"name": "p"}, "spec": {"ownerJob": NAME, **spec}})
    cluster.settle()
    condition = conditions(cluster.plans["p"])["Failed"]
    assert (events.INVALID, True) == (condition["reason"], sentence in cluster.plan_message("p"))
    assert events.PLAN_FAILED in cluster.event_reasons()


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}, "the spec has 2 more fields"),
        ({"psHost": ["a"]}, "psHost is no field that is read; is psHosts meant?"),
        (
            {"replicaResourceSpecs": {"worker": {"replicas": 1, "resources": {"cpu": "1"}}}},
            "replicaResourceSpecs.worker.resources is no field that is read; is resource meant?",
        ),
        (
            {"createPods": [{"type": "worker", "id": 0, "rank": 2}]},
            "createPods[0].rank is no field that is read; is rankIndex meant?",
        ),
    ],
)
def test_an_unknown_field_of_a_plan_is_said(spec: dict[str, Any], sentence: str) -> None:
    """The rest of the plan is done."""
    cluster = SimCluster()
    cluster.plan("p", spec={"replicaResourceSpecs": {"worker": {"replicas": 1}}, **spec})
    cluster.settle()
    assert [0] == cluster.ids()
    assert sentence in cluster.plan_message("p")
    odd = conditions(cluster.plans["p"])["Odd"]
    assert (events.PLAN_ODD, True) == (odd["reason"], sentence in odd["message"])


def test_a_field_that_holds_nothing_is_as_good_as_absent() -> None:
    """Tools write what they do not use."""
    cluster = SimCluster()
    cluster.plan("p", spec={"later": [], "note": "", "flag": False}, worker=1)
    cluster.plan("q", scale="manual", spec={"replicaResourceSpecs": {}, "later": None})
    cluster.settle()
    assert {"p": "Succeeded", "q": "Succeeded"} == cluster.plan_phases()
    assert "the pods are as it asks" == cluster.plan_message("p")


@pytest.mark.parametrize(
    ("spec", "specs", "sentence"),
    [
        (
            {"replicaSpec": {"x": 1}},
            {},
            "replicaSpec is no field that is read; is replicaSpecs meant?",
        ),
        (
            {},
            {"maxReplica": 4},
            "replicaSpecs.worker.maxReplica is no field that is read; is maxReplicas meant?",
        ),
        (
            {"distributionStrategy": "Nonsense"},
            {},
            "distributionStrategy 'Nonsense' is not known here",
        ),
        (
            {"resourceLimits": {"cpu": "foo"}},
            {},
            "resourceLimits.cpu is 'foo', not a quantity such as 500m or 16Gi",
        ),
    ],
)
def test_what_a_job_says_in_vain_stands_in_its_conditions(
    spec: dict[str, Any], specs: dict[str, Any], sentence: str
) -> None:
    """Until it is mended; its time stays, so that a job at rest is not written."""
    cluster = SimCluster(job({"worker": specs}, **spec))
    cluster.settle()
    condition = conditions(cluster.job)["Odd"]
    assert ("True", "JobOdd", sentence) == (
        condition["status"],
        condition["reason"],
        condition["message"],
    )
    cluster.wait(60)
    cluster.plan("p", worker=1)
    cluster.settle()
    assert condition == conditions(cluster.job)["Odd"]
    right = {"worker": {"template": cluster.job["spec"]["replicaSpecs"]["worker"]["template"]}}
    cluster.job["spec"].pop("replicaSpec", None)
    cluster.edit(replicaSpecs=right, distributionStrategy="AllreduceStrategy", resourceLimits={})
    cluster.settle()
    assert "Odd" not in conditions(cluster.job)


def test_the_fields_of_dlrovers_programs_are_not_odd() -> None:
    """They are read by others."""
    specs = {"worker": {"BatchScheduler": "default", "criticalNodes": "all", "restartTimeout": 3}}
    cluster = SimCluster(job(specs, enableElasticScheduling=True, brainService="a:1"))
    cluster.settle()
    assert "Odd" not in conditions(cluster.job)
