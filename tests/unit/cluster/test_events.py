"""Which of a namespace's events are about one run."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.cluster import events as cluster_events
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError
from allranks.status.observation import Observation
from tests.unit.status.elasticsamples import elastic_job
from tests.unit.status.samples import NAMESPACE


class Lists:
    """A cluster of which only lists are asked: the answers by path."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def list(self, resource_path: str, **_: Any) -> list[dict[str, Any]]:
        """The answer that the test has given."""
        answer = self.answers.get(resource_path, [])
        if isinstance(answer, Exception):
            raise answer
        return list(answer)


def about(kind: str, name: str) -> dict[str, Any]:
    """An event."""
    return {"involvedObject": {"kind": kind, "name": name}, "reason": "PlanClamped"}


def plan(name: str, owner: str) -> dict[str, Any]:
    """A plan as a list gives it."""
    return {"metadata": {"name": name}, "spec": {"ownerJob": owner}}


def event_names(plans: list[dict[str, Any]] | Exception, *events: dict[str, Any]) -> list[str]:
    """The names that the events of the elastic job `demo` are about."""
    observation = Observation(
        "demo", NAMESPACE, objects=(elastic_job(),), pods=(), events=(), now=0.0
    )
    cluster = Lists({paths.SCALE_PLANS: plans, paths.EVENTS: list(events)})
    events_of_run = cluster_events.run_events(cluster, observation)
    return [event["involvedObject"]["name"] for event in events_of_run]


def test_a_plan_is_of_the_job_that_it_names() -> None:
    """Whatever its own name is; one that only looks like the job's is not."""
    plans = [plan("more-workers", "demo"), plan("demo-b-scale-1", "demo-b")]
    events = [about("ScalePlan", plan["metadata"]["name"]) for plan in plans]
    assert ["more-workers"] == event_names(plans, *events)


@pytest.mark.parametrize("plans", [[], ForbiddenError("no"), NotFoundError("no such kind")])
def test_a_plan_that_cannot_be_seen_is_known_by_its_name(plans: Any) -> None:
    """It is gone, or may not be read; pods of the job that are gone are known so, too."""
    events = [
        about("ScalePlan", "demo-scale-1"),
        about("ScalePlan", "other-scale-1"),
        about("Pod", "demo-edljob-worker-7"),
        about("Pod", "demo2-edljob-worker-7"),
    ]
    assert ["demo-scale-1", "demo-edljob-worker-7"] == event_names(plans, *events)
