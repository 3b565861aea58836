"""What is asked of a cluster to know how a run is doing, and what is made of the answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from allranks.cluster import paths
from allranks.cluster.observe import observe, observe_all
from allranks.errors import ForbiddenError, NotFoundError, ToolError
from allranks.model.status import Phase
from allranks.status.reduce import reduce
from tests.unit.status.elasticsamples import counted, elastic_job, up
from tests.unit.status.samples import (
    NAMESPACE,
    condition,
    event,
    failed,
    job,
    labels,
    pod,
    ready,
    stateful_set,
    succeeded,
    unscheduled,
    waiting,
    workload,
)

WORKLOADS = "apis/kueue.x-k8s.io/v1beta1/workloads"
NEWER_WORKLOADS = "apis/kueue.x-k8s.io/v1beta2/workloads"
POD_GROUPS = "apis/scheduling.volcano.sh/v1beta1/podgroups"
ALWAYS = [paths.JOBS, paths.STATEFUL_SETS, paths.PODS]


@dataclass
class Lists:
    """A cluster of which only lists are asked: the answers by path, and what was asked."""

    answers: dict[str, list[dict[str, Any]] | Exception] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    queries: dict[str, dict[str, Any]] = field(default_factory=dict)

    def list(self, resource_path: str, **query: Any) -> list[dict[str, Any]]:
        """The answer that the test has given; a list has no kinds in it."""
        self.requests.append(resource_path)
        self.queries[resource_path] = query
        answer = self.answers.get(resource_path, [])
        if isinstance(answer, Exception):
            raise answer
        return [
            {key: value for key, value in manifest.items() if key not in {"kind", "apiVersion"}}
            for manifest in answer
        ]


def forbidden() -> ForbiddenError:
    """What a cluster answers that does not allow it."""
    return ForbiddenError("context lab forbids to list it", hint="ask for a Role")


def unknown() -> NotFoundError:
    """What a cluster answers that has no such kind."""
    return NotFoundError("context lab has no such resource")


@pytest.mark.parametrize("size", [1, 2, 5000])
def test_a_run_that_goes_well_costs_three_lists(size: int) -> None:
    """However many pods it has, nothing else is asked."""
    pods = [ready(index) for index in range(size)]
    cluster = Lists({paths.JOBS: [job(pods=size)], paths.PODS: pods})
    observation = observe(cluster, "demo", NAMESPACE)
    assert ALWAYS == cluster.requests
    assert (Phase.RUNNING, size) == (reduce(observation).phase, reduce(observation).roles[0].ready)
    assert {"namespace": NAMESPACE, "label_selector": paths.selector("demo")}.items() <= (
        cluster.queries[paths.PODS].items()
    )


@pytest.mark.parametrize(
    ("kind", "objects"),
    [("Job", {paths.JOBS: [job()]}), ("StatefulSet", {paths.STATEFUL_SETS: [stateful_set()]})],
)
def test_objects_of_a_list_get_their_kind(
    kind: str, objects: dict[str, list[dict[str, Any]] | Exception]
) -> None:
    """A list names the type of its objects only once."""
    (manifest,) = observe(Lists(objects), "demo", NAMESPACE).objects
    assert kind == manifest["kind"]
    assert manifest["apiVersion"] in {"batch/v1", "apps/v1"}


@pytest.mark.parametrize(
    "pods",
    [[], [ready(0)], [ready(0), pod(1, "Pending", waiting("ContainerCreating"))]],
)
def test_events_are_asked_where_pods_are_missing_or_do_not_start(
    pods: list[dict[str, Any]],
) -> None:
    """Only an event may tell why; those that repeat what pods say themselves are left out."""
    warnings = [event("FailedCreate", "Error creating: exceeded")]
    cluster = Lists({paths.JOBS: [job()], paths.PODS: pods, paths.EVENTS: warnings})
    observation = observe(cluster, "demo", NAMESPACE)
    assert [*ALWAYS, paths.EVENTS] == cluster.requests
    assert 1 == len(observation.events)
    assert "type=Warning" in cluster.queries[paths.EVENTS]["field_selector"]


@pytest.mark.parametrize(
    ("manifest", "pods"),
    [
        (job(conditions=[condition("Complete")]), [succeeded(0)]),
        (job(conditions=[condition("Failed")]), []),
        (job(suspend=True), []),
    ],
)
def test_a_run_that_has_ended_or_is_suspended_needs_no_events(
    manifest: dict[str, Any], pods: list[dict[str, Any]]
) -> None:
    """Nothing is to start, so nothing can keep it from starting."""
    cluster = Lists({paths.JOBS: [manifest], paths.PODS: pods})
    observe(cluster, "demo", NAMESPACE)
    assert ALWAYS == cluster.requests


def test_claims_are_asked_where_one_is_not_bound() -> None:
    """The scheduler says that a claim is not bound, and not which."""
    unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    spec = {
        "containers": [{"name": "trainer"}],
        "volumes": [{"persistentVolumeClaim": {"claimName": name}} for name in ("a", "b")],
    }
    claims = [
        {"metadata": {"name": "a"}, "status": {"phase": "Bound"}},
        {"metadata": {"name": "b"}, "status": {"phase": "Pending"}},
    ]
    cluster = Lists(
        {
            paths.JOBS: [job(pods=1)],
            paths.PODS: [unscheduled(unbound, spec=spec)],
            paths.CLAIMS: claims,
        }
    )
    observation = observe(cluster, "demo", NAMESPACE)
    assert [*ALWAYS, paths.CLAIMS, paths.EVENTS] == cluster.requests
    assert "claim b for its pod: it has no volume yet" == reduce(observation).waiting_for


QUEUED = job(
    suspend=True,
    metadata={
        "labels": {**labels(), "kueue.x-k8s.io/queue-name": "research"},
        "uid": "uid-demo",
    },
)


@pytest.mark.parametrize(
    ("answers", "expected_lists"),
    [
        ({WORKLOADS: [workload(conditions=[])]}, [WORKLOADS]),
        ({WORKLOADS: unknown(), NEWER_WORKLOADS: []}, [WORKLOADS, NEWER_WORKLOADS]),
        ({WORKLOADS: unknown(), NEWER_WORKLOADS: unknown()}, [WORKLOADS, NEWER_WORKLOADS]),
    ],
)
def test_workloads_are_asked_of_jobs_in_a_queue(
    answers: dict[str, list[dict[str, Any]] | Exception], expected_lists: list[str]
) -> None:
    """In whatever version Kueue serves them, and by the uids of the Jobs."""
    cluster = Lists({paths.JOBS: [QUEUED], **answers})
    observation = observe(cluster, "demo", NAMESPACE)
    assert [*ALWAYS, *expected_lists] == cluster.requests
    assert "kueue.x-k8s.io/job-uid in (uid-demo)" == cluster.queries[WORKLOADS]["label_selector"]
    assert "Kueue to admit it to queue research" == reduce(observation).waiting_for


def test_a_pod_group_is_asked_where_a_gang_has_no_room() -> None:
    """Of the scheduler that the Job asks for, and of no other."""
    asks = {"annotations": {"allranks.dev/scheduling": '{"dialect":"volcano","queue":"q"}'}}
    group = {
        "metadata": {"name": "demo", "labels": labels()},
        "status": {"conditions": [condition("Unschedulable", message="2/2 tasks left")]},
    }
    cluster = Lists(
        {
            paths.JOBS: [job(metadata={**asks, "labels": labels()})],
            paths.PODS: [unscheduled("", 0), unscheduled("", 1)],
            POD_GROUPS: [group],
        }
    )
    observation = observe(cluster, "demo", NAMESPACE)
    assert [*ALWAYS, POD_GROUPS, paths.EVENTS] == cluster.requests
    assert reduce(observation).waiting_for.startswith("room for PodGroup demo: 2/2 tasks left")


# ---------------------------------------------------------------- elastic jobs

ELASTIC = [paths.JOBS, paths.STATEFUL_SETS, paths.PODS, paths.ELASTIC_JOBS]


@pytest.mark.parametrize("size", [2, 3000])
def test_an_elastic_run_costs_one_list_more(size: int) -> None:
    """However many pods it has; it is found by its name, for one made by hand has no labels."""
    pods = [up("dlrover-master", 0), *(up("worker", rank) for rank in range(size))]
    manifest = elastic_job(counts={"worker": counted(size)})
    del manifest["metadata"]["labels"]
    cluster = Lists({paths.ELASTIC_JOBS: [manifest], paths.PODS: pods})
    status = reduce(observe(cluster, "demo", NAMESPACE))
    assert ELASTIC == cluster.requests
    assert "metadata.name=demo" == cluster.queries[paths.ELASTIC_JOBS]["field_selector"]
    assert (Phase.RUNNING, size) == (status.phase, status.roles[-1].ready)


def test_an_elastic_run_without_pods_is_found() -> None:
    """Nobody has taken it up; only the job itself is there, and events may say why."""
    cluster = Lists({paths.ELASTIC_JOBS: [elastic_job("")]})
    status = reduce(observe(cluster, "demo", NAMESPACE))
    assert [*ELASTIC, paths.EVENTS] == cluster.requests
    assert "NoWatcher" == status.reason


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_an_elastic_run_that_has_ended_needs_no_events(phase: str) -> None:
    """Nothing is to start, so nothing can keep it from starting."""
    manifest = elastic_job(phase, conditions=[condition(phase)])
    cluster = Lists({paths.ELASTIC_JOBS: [manifest], paths.PODS: [up("worker", 0)]})
    assert phase == reduce(observe(cluster, "demo", NAMESPACE)).phase
    assert ELASTIC == cluster.requests


def test_elastic_jobs_that_pods_belong_to_must_be_allowed() -> None:
    """Without them the pods are nobody's; without pods, they are only one more place to look."""
    cluster = Lists({paths.PODS: [up("worker", 0)], paths.ELASTIC_JOBS: forbidden()})
    with pytest.raises(ForbiddenError, match="forbids"):
        observe(cluster, "demo", NAMESPACE)
    record = {"metadata": {"labels": {"owner": "helm", "status": "deployed", "version": "1"}}}
    cluster = Lists({paths.SECRETS: [record], paths.ELASTIC_JOBS: forbidden()})
    assert () == observe(cluster, "demo", NAMESPACE).notes


def test_a_cluster_that_knows_no_elastic_jobs_has_none() -> None:
    """The definition of the kind comes with the operator."""
    namespaces = [{"metadata": {"name": NAMESPACE}}]
    cluster = Lists({paths.ELASTIC_JOBS: unknown(), paths.NAMESPACES: namespaces})
    with pytest.raises(NotFoundError, match="there is no run 'demo'"):
        observe(cluster, "demo", NAMESPACE)


def test_all_elastic_runs_cost_one_list_more() -> None:
    """Those with labels, those made by hand, and one of which only a ConfigMap is there."""
    hand = elastic_job(counts={"worker": counted(1)})
    hand["metadata"] |= {"name": "hand", "labels": {}, "uid": "uid-hand"}
    mine = up("worker", 0)
    mine["metadata"] |= {
        "labels": mine["metadata"]["labels"] | {"app.kubernetes.io/instance": "hand"}
    }
    mine["metadata"]["ownerReferences"] = [
        {"kind": "ElasticJob", "name": "hand", "uid": "uid-hand", "controller": True}
    ]
    config_map = {"metadata": {"namespace": NAMESPACE, "labels": labels("worker", "elastic")}}
    cluster = Lists(
        {
            paths.ELASTIC_JOBS: [elastic_job(""), hand],
            paths.PODS: [mine],
            paths.CONFIG_MAPS: [config_map],
        }
    )
    statuses = {
        observation.release: reduce(observation) for observation in observe_all(cluster, None)
    }
    assert [*ALWAYS, paths.CONFIG_MAPS, paths.ELASTIC_JOBS, paths.EVENTS] == cluster.requests
    assert {"demo": "NoWatcher", "hand": "Creating"} == {
        name: status.reason for name, status in statuses.items()
    }
    assert Phase.RUNNING == statuses["hand"].phase


def test_an_elastic_job_made_by_hand_is_listed_without_pods() -> None:
    """Nothing but the job itself tells of it, and it says that it is of no release."""
    hand = elastic_job("")
    hand["metadata"] |= {"name": "hand", "labels": {}, "uid": "uid-hand"}
    observations = observe_all(Lists({paths.ELASTIC_JOBS: [hand, elastic_job("")]}), NAMESPACE)
    assert [("demo", False), ("hand", True)] == [
        (observation.release, reduce(observation).unreleased) for observation in observations
    ]
    observation = observe(Lists({paths.ELASTIC_JOBS: [hand]}), "hand", NAMESPACE)
    assert reduce(observation).unreleased


# ---------------------------------------------------------------- rights


@pytest.mark.parametrize("path", ALWAYS)
def test_what_must_be_seen_must_be_allowed(path: str) -> None:
    """Without the right to list Jobs, StatefulSets or pods there is no status."""
    with pytest.raises(ForbiddenError, match="forbids"):
        observe(Lists({paths.JOBS: [job()], path: forbidden()}), "demo", NAMESPACE)


def test_what_explains_may_be_forbidden() -> None:
    """The status stands without it, and says what could not be seen."""
    cluster = Lists({paths.JOBS: [QUEUED, job("demo-worker")]})
    cluster.answers |= {paths.EVENTS: forbidden(), WORKLOADS: forbidden()}
    status = reduce(observe(cluster, "demo", NAMESPACE))
    assert 2 == len(status.notes)
    assert (
        "what holds it back may be missing here: context lab forbids to list it"
        == (status.notes[0])
    )


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    """Nothing is known then, and that is not the same as nothing being there."""
    error = ToolError("context lab does not answer")
    for path in (paths.JOBS, paths.EVENTS):
        with pytest.raises(ToolError, match="does not answer"):
            observe(Lists({paths.JOBS: [job()], path: error}), "demo", NAMESPACE)


# ---------------------------------------------------------------- what is not there


def test_a_run_that_is_not_there() -> None:
    """The namespace is, so the name is wrong; the error says where to look."""
    cluster = Lists({paths.NAMESPACES: [{"metadata": {"name": NAMESPACE}}]})
    with pytest.raises(NotFoundError) as excinfo:
        observe(cluster, "demo", NAMESPACE)
    assert "there is no run 'demo' in namespace 'research'" == excinfo.value.problem.message
    assert "allranks list -n research" in excinfo.value.problem.hint


def test_a_namespace_that_is_not_there() -> None:
    """A list in a namespace that does not exist is empty, and no error."""
    with pytest.raises(NotFoundError, match="there is no namespace 'research'"):
        observe(Lists(), "demo", NAMESPACE)


def test_a_namespace_that_may_not_be_looked_at_is_taken_to_be_there() -> None:
    """Few people may list namespaces."""
    with pytest.raises(NotFoundError, match="there is no run 'demo'"):
        observe(Lists({paths.NAMESPACES: forbidden()}), "demo", NAMESPACE)


def test_a_release_whose_job_is_gone_is_still_one() -> None:
    """Helm's record is asked without what is in it, and the events for the Job's end."""
    record = {"metadata": {"labels": {"owner": "helm", "status": "deployed", "version": "1"}}}
    completion = event("Completed", "Job completed")
    cluster = Lists({paths.SECRETS: [record], paths.EVENTS: [completion]})
    status = reduce(observe(cluster, "demo", NAMESPACE))
    assert Phase.SUCCEEDED == status.phase
    assert [
        *ALWAYS,
        paths.ELASTIC_JOBS,
        paths.SECRETS,
        paths.JOBS,
        paths.EVENTS,
    ] == cluster.requests
    assert cluster.queries[paths.SECRETS]["metadata_only"] is True
    assert "involvedObject.kind=Job" == cluster.queries[paths.EVENTS]["field_selector"]


def test_a_config_map_shows_a_release_where_secrets_may_not_be_listed() -> None:
    """Who may not read Secrets sees by what else the release has that it is there."""
    config_map = {"metadata": {"namespace": NAMESPACE, "labels": labels()}}
    cluster = Lists({paths.SECRETS: forbidden(), paths.CONFIG_MAPS: [config_map]})
    status = reduce(observe(cluster, "demo", NAMESPACE))
    assert (Phase.UNKNOWN, "torchrun") == (status.phase, status.workload)


# ---------------------------------------------------------------- all releases


def renamed(manifest: dict[str, Any], release: str, namespace: str = NAMESPACE) -> dict[str, Any]:
    """An object of another release."""
    metadata = {
        **manifest["metadata"],
        "namespace": namespace,
        "labels": {**manifest["metadata"]["labels"], "app.kubernetes.io/instance": release},
    }
    return {**manifest, "metadata": metadata}


def test_all_releases_cost_as_many_lists_as_one() -> None:
    """Each gets its own objects and pods; the order is by namespace and name."""
    jobs = [renamed(job(), "b"), renamed(job(), "a"), renamed(job(), "a", "other")]
    pods = [
        renamed(ready(0), "a"),
        renamed(ready(1), "a"),
        renamed(failed(0), "b"),
        renamed(ready(0), "a", "other"),
    ]
    cluster = Lists({paths.JOBS: jobs, paths.PODS: pods})
    observations = observe_all(cluster, None)
    assert [("other", "a", 1), (NAMESPACE, "a", 2), (NAMESPACE, "b", 1)] == [
        (observation.namespace, observation.release, len(observation.pods))
        for observation in observations
    ]
    assert [*ALWAYS, paths.CONFIG_MAPS, paths.ELASTIC_JOBS, paths.EVENTS] == cluster.requests
    assert [Phase.RUNNING, Phase.RUNNING, Phase.RESTARTING] == [
        reduce(observation).phase for observation in observations
    ]


def test_releases_whose_jobs_are_gone_are_listed() -> None:
    """They are there until they are deleted, and their last events are asked for."""
    config_map = renamed({"metadata": {"labels": labels("node", "mpi")}}, "old")
    cluster = Lists(
        {paths.CONFIG_MAPS: [config_map], paths.EVENTS: [event("Completed", "", name="old")]}
    )
    (observation,) = observe_all(cluster, NAMESPACE)
    assert ("old", Phase.SUCCEEDED, "mpi") == (
        observation.release,
        reduce(observation).phase,
        reduce(observation).workload,
    )
    assert cluster.queries[paths.CONFIG_MAPS]["metadata_only"] is True


def kept_history() -> dict[str, Any]:
    """The ConfigMap that outlives an elastic job."""
    return {
        "metadata": {
            "name": "demo-history",
            "namespace": NAMESPACE,
            "labels": labels("master", "elastic"),
            "annotations": {"helm.sh/resource-policy": "keep"},
        }
    }


def test_what_was_kept_of_a_deleted_run_is_no_run() -> None:
    """It has the release's labels, and there is nothing to list, to show or to delete."""
    cluster = Lists({paths.CONFIG_MAPS: [kept_history()]})
    assert [] == observe_all(cluster, NAMESPACE)
    with pytest.raises(NotFoundError, match="there is no run 'demo'"):
        observe(
            Lists({paths.CONFIG_MAPS: [kept_history()], paths.NAMESPACES: [{}]}), "demo", NAMESPACE
        )


def test_a_run_with_a_history_is_listed_while_it_has_no_pods() -> None:
    """What is kept still tells that there are elastic jobs to look for."""
    cluster = Lists({paths.CONFIG_MAPS: [kept_history()], paths.ELASTIC_JOBS: [elastic_job("")]})
    (observation,) = observe_all(cluster, NAMESPACE)
    assert ("demo", Phase.PENDING) == (observation.release, reduce(observation).phase)


def test_objects_without_a_release_are_nobodys() -> None:
    """A label of ours alone makes no release."""
    stray = job()
    del stray["metadata"]["labels"]["app.kubernetes.io/instance"]
    assert [] == observe_all(Lists({paths.JOBS: [stray]}), NAMESPACE)
    assert [] == observe_all(Lists(), NAMESPACE)
