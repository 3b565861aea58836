"""What a job allows of what a plan asks, and that the rest is said."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.elastic import events
from tests.unit.elastic.simcluster import NAME, SimCluster, job, pod_meta, template


def planned(of: dict[str, Any], spec: dict[str, Any] | None = None, **replicas: int) -> SimCluster:
    """A cluster whose job has taken a plan `p`."""
    cluster = SimCluster(of)
    cluster.plan("p", spec=spec, **replicas)
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("bounds", "replicas", "expected", "message"),
    [
        ({"maxReplicas": 3}, 5, 3, "worker: 5 pods asked for, 3 made (maxReplicas)"),
        ({"minReplicas": 2}, 1, 2, "worker: 1 pod asked for, 2 made (minReplicas)"),
        ({"minReplicas": 2}, 0, 2, "worker: 0 pods asked for, 2 made (minReplicas)"),
        ({"minReplicas": 2, "maxReplicas": 4}, 3, 3, ""),
        ({"minReplicas": 0, "maxReplicas": 0}, 3, 3, ""),
        ({"minReplicas": 5, "maxReplicas": 2}, 3, 2, "worker: 3 pods asked for, 2 made"),
    ],
)
def test_a_number_is_held_within_its_bounds(
    bounds: dict[str, int], replicas: int, expected: int, message: str
) -> None:
    """Zero is a bound that is not set, and of two that cross the upper one holds."""
    cluster = planned(job({"worker": bounds}), worker=replicas)
    assert expected == len(cluster.ids())
    assert message in cluster.plan_message("p")
    assert bool(message) == (events.PLAN_CLAMPED in cluster.event_reasons())


@pytest.mark.parametrize(
    ("limits", "replicas", "expected"),
    [
        ({"cpu": "4"}, 8, 4),
        ({"memory": "3Gi"}, 8, 3),
        ({"cpu": "4", "memory": "2Gi"}, 8, 2),
        ({"cpu": "3500m"}, 8, 3),
        ({"cpu": "0", "memory": ""}, 3, 3),
        ({"cpu": "100", "memory": "400Gi", "gpu": "8"}, 4, 4),
    ],
)
def test_all_pods_together_stay_within_the_limits(
    limits: dict[str, str], replicas: int, expected: int
) -> None:
    """Each pod counts with what its template asks for; zero is no limit."""
    cluster = planned(job(resourceLimits=limits), worker=replicas)
    assert expected == len(cluster.ids())
    assert (expected < replicas) == ("resourceLimits" in cluster.plan_message("p"))


def test_gpus_count_whatever_their_key() -> None:
    """The limit names no vendor."""
    worker = {"template": template(**{"amd.com/gpu": "2"})}
    cluster = planned(job({"worker": worker}, resourceLimits={"gpu": "5"}), worker=4)
    assert [0, 1] == cluster.ids()
    assert "resourceLimits.gpu 5" in cluster.plan_message("p")


def test_what_a_plan_gives_each_pod_counts() -> None:
    """Eight cores in all, three for each: two pods."""
    spec = {"replicaResourceSpecs": {"worker": {"replicas": 4, "resource": {"cpu": "3"}}}}
    cluster = planned(job(resourceLimits={"cpu": "8"}), spec)
    assert [0, 1] == cluster.ids()


def test_other_types_have_their_share_of_the_limits() -> None:
    """Parameter servers come first, then the chief, then the workers."""
    of = job({"ps": {}, "chief": {}, "worker": {}}, resourceLimits={"cpu": "6"})
    cluster = planned(of, worker=8, ps=2, chief=1)
    assert (2, 1, 3) == tuple(len(cluster.ids(kind)) for kind in ("ps", "chief", "worker"))


def test_what_shrinks_makes_room_for_what_grows() -> None:
    """In the same plan, whatever the order of types."""
    of = job({"ps": {}, "worker": {}}, resourceLimits={"cpu": "6"})
    cluster = planned(of, worker=5, ps=1)
    cluster.wait(1)
    cluster.plan("q", worker=2, ps=4)
    cluster.settle()
    assert (4, 2) == (len(cluster.ids("ps")), len(cluster.ids()))


def test_a_pod_that_is_too_large_gets_less() -> None:
    """One pod there must be, and it gets what the limits hold."""
    amounts = {"cpu": "16", "memory": "64Gi"}
    spec = {"replicaResourceSpecs": {"worker": {"replicas": 1, "resource": amounts}}}
    cluster = planned(job(resourceLimits={"cpu": "8", "memory": "100Gi"}), spec)
    container = cluster.pods[f"{NAME}-edljob-worker-0"]["spec"]["containers"][0]
    assert {"cpu": "8", "memory": "64Gi"} == container["resources"]["requests"]
    assert "worker: cpu 16 asked for, each gets 8 (resourceLimits)" in cluster.plan_message("p")


def test_the_fewest_pods_share_what_there_is() -> None:
    """Below minReplicas there is no job."""
    spec = {"replicaResourceSpecs": {"worker": {"replicas": 4, "resource": {"memory": "8Gi"}}}}
    of = job({"worker": {"minReplicas": 2}}, resourceLimits={"memory": "9Gi"})
    cluster = planned(of, spec)
    members = cluster.target.groups["worker"].members
    assert 2 == len(members)
    resource = cluster.target.groups["worker"].resource
    assert resource is not None
    assert {"memory": "4608Mi"} == resource.as_dict()


@pytest.mark.parametrize("scale", ["auto", "manual"])
@pytest.mark.parametrize(
    ("replicas", "expected", "cpu", "message"),
    [
        (3, 3, "1333m", "worker: cpu 5 asked for, each gets 1333m (resourceLimits)"),
        (None, 3, "1333m", "worker: cpu 5 asked for, each gets 1333m (resourceLimits)"),
        (4, 3, "1333m", "worker: 4 pods asked for, 3 made (resourceLimits.cpu 4)"),
        (1, 1, "4", "worker: cpu 5 asked for, each gets 4 (resourceLimits)"),
    ],
)
def test_no_pod_ends_so_that_others_may_be_larger(
    scale: str, replicas: int | None, expected: int, cpu: str, message: str
) -> None:
    """What each gets is clamped; only who asks for fewer pods gets fewer."""
    cluster = planned(job(resourceLimits={"cpu": "4"}), worker=3)
    cluster.wait(1)
    number = {} if replicas is None else {"replicas": replicas}
    spec = {"replicaResourceSpecs": {"worker": {**number, "resource": {"cpu": "5"}}}}
    cluster.plan("q", scale=scale, spec=spec)
    cluster.settle()
    assert expected == len(cluster.ids())
    assert message in cluster.plan_message("q")
    resource = cluster.target.groups["worker"].resource
    assert resource is not None
    assert {"cpu": cpu} == resource.as_dict()


def test_a_templates_own_amounts_are_not_made_smaller() -> None:
    """What a person wrote there is needed."""
    cluster = planned(job(resourceLimits={"cpu": "500m"}), worker=2)
    assert [0] == cluster.ids()
    assert cluster.target.groups["worker"].resource is None


@pytest.mark.parametrize("of", [{"maxReplicas": 2}, {}])
def test_pods_by_name_are_held_within_bounds_too(of: dict[str, int]) -> None:
    """One that takes another's place is no pod more."""
    cluster = planned(job({"worker": of}, resourceLimits={"cpu": "2"}), worker=2)
    cluster.wait(1)
    metas = [pod_meta("worker", 2, 1), pod_meta("worker", 3, 2)]
    cluster.plan("q", spec={"createPods": metas})
    cluster.settle()
    assert ([0, 2], [0, 1]) == (cluster.ids(), cluster.ranks())
    assert "sim-edljob-worker-3 was not made (" in cluster.plan_message("q")


def test_what_was_clamped_is_said_though_the_operator_was_killed() -> None:
    """It stands in the target until the plan's own status says it."""
    cluster = SimCluster(job({"worker": {"maxReplicas": 2}}))
    cluster.plan("p", worker=5)
    cluster.look(acts=0)
    cluster.settle()
    conditions = {
        condition["type"]: condition for condition in cluster.plans["p"]["status"]["conditions"]
    }
    assert "PlanClamped" == conditions["Clamped"]["reason"]
    assert {} == dict(cluster.target.notes)


def test_limits_of_garbage_limit_nothing() -> None:
    """What cannot be read is said in the job's problems, and stops no plan."""
    cluster = planned(job(resourceLimits={"cpu": "many"}), worker=2)
    assert [0, 1] == cluster.ids()


def test_a_template_of_garbage_counts_for_nothing() -> None:
    """The API server refuses its pods; the arithmetic does not fall over them."""
    worker = {"template": {"spec": {"containers": [{"name": "m", "resources": {"requests": 7}}]}}}
    cluster = planned(job({"worker": worker}, resourceLimits={"cpu": "2"}), worker=1)
    assert [0] == cluster.ids()


# ---------------------------------------------------------------- bounds that come later


def bounded(cluster: SimCluster, kind: str = "worker", **bounds: int) -> None:
    """Write other bounds into the job."""
    specs = cluster.job["spec"]["replicaSpecs"]
    cluster.edit(replicaSpecs={**specs, kind: {**specs[kind], **bounds}})


@pytest.mark.parametrize("suspended", [False, True])
def test_a_lower_bound_holds_for_the_pods_that_are_there(suspended: bool) -> None:
    """The highest ranks go, it is said once, and a higher bound brings none back."""
    cluster = planned(job(), worker=6)
    cluster.delete(f"{NAME}-edljob-worker-0", at_once=True)
    cluster.settle()
    if suspended:
        cluster.edit(suspend=True)
        cluster.settle()
    bounded(cluster, maxReplicas=4)
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert [0, 1, 2, 3] == sorted(cluster.ranks())
    assert ["worker: 2 of 6 pods go (maxReplicas 4)"] == [
        event.message for event in cluster.events if event.reason == events.PODS_BOUNDED
    ]
    bounded(cluster, maxReplicas=9)
    cluster.settle()
    assert 4 == len(cluster.ids())


def test_parameter_servers_that_workers_use_stay_above_a_bound() -> None:
    """Nothing is said where nothing can go."""
    hosts = [f"{NAME}-edljob-ps-{rank}" for rank in range(2)]
    cluster = planned(job({"worker": {}, "ps": {}}), {"psHosts": hosts}, ps=2, worker=1)
    bounded(cluster, "ps", maxReplicas=1)
    cluster.settle()
    assert [0, 1] == cluster.ids("ps")
    assert events.PODS_BOUNDED not in cluster.event_reasons()


def test_a_bound_and_a_number_that_come_together() -> None:
    """Whichever is seen first."""
    cluster = planned(job(), worker=6)
    cluster.wait(1)
    bounded(cluster, maxReplicas=4)
    cluster.plan("q", worker=8)
    cluster.settle()
    assert 4 == len(cluster.ids())
    assert "worker: 8 pods asked for, 4 made (maxReplicas)" in cluster.plan_message("q")


@pytest.mark.parametrize("suspended", [False, True])
def test_a_raised_bound_holds_for_the_pods_that_are_there(suspended: bool) -> None:
    """More are made at once, it is said once, and a lower bound takes none away."""
    cluster = planned(job(), worker=2)
    if suspended:
        cluster.edit(suspend=True)
        cluster.settle()
    bounded(cluster, minReplicas=4)
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert [0, 1, 2, 3] == sorted(cluster.ranks())
    assert ["worker: 2 more than 2 are made (minReplicas 4)"] == [
        event.message for event in cluster.events if event.reason == events.PODS_BOUNDED
    ]
    bounded(cluster, minReplicas=1)
    cluster.settle()
    assert 4 == len(cluster.ids())


def test_what_a_job_cannot_do_without_is_not_removed_by_name() -> None:
    """The last server, the chief and the fewest workers stay, in one plan or one after another."""
    of = job({"ps": {}, "chief": {}, "worker": {"minReplicas": 2}})
    cluster = planned(of, ps=2, chief=1, worker=3)
    cluster.wait(1)
    cluster.plan("q", spec={"removePods": [pod_meta("ps", 0), pod_meta("worker", 1)]})
    cluster.settle()
    assert ([1], [0], [0, 2]) == tuple(cluster.ids(kind) for kind in ("ps", "chief", "worker"))
    cluster.wait(1)
    metas = [pod_meta("ps", 1), pod_meta("chief", 0), pod_meta("worker", 0), pod_meta("worker", 2)]
    cluster.plan("r", spec={"removePods": metas})
    cluster.settle()
    assert ([1], [0], [0, 2]) == tuple(cluster.ids(kind) for kind in ("ps", "chief", "worker"))
    text = cluster.plan_message("r")
    for sentence in (
        f"{NAME}-edljob-ps-1 not removed (the last server)",
        f"{NAME}-edljob-chief-0 not removed (the training is led by it)",
        f"{NAME}-edljob-worker-0, {NAME}-edljob-worker-2 not removed (minReplicas 2)",
    ):
        assert sentence in text
    assert "PlanClamped" in {event.reason for event in cluster.events}


@pytest.mark.parametrize("spec", [{"createPods": [pod_meta("ps", 1, 0)]}, {"ps": 1}])
def test_a_last_server_that_its_plan_replaces_is_removed(spec: dict[str, Any]) -> None:
    """With a pod of its rank, as a master relaunches it, or with the number that holds."""
    cluster = planned(job({"ps": {}, "worker": {}}), ps=1, worker=1)
    cluster.wait(1)
    if "ps" in spec:
        spec = {"replicaResourceSpecs": {"ps": {"replicas": 1}}}
    cluster.plan("q", spec={"removePods": [pod_meta("ps", 0)], **spec})
    cluster.settle()
    assert ([1], [0]) == (cluster.ids("ps"), cluster.ranks("ps"))
    assert "not removed" not in cluster.plan_message("q")


def test_a_plan_of_no_servers_that_names_the_last_one_leaves_it() -> None:
    """A number of zero and a name together take no more than each alone."""
    cluster = planned(job({"ps": {}, "worker": {}}), ps=1, worker=1)
    cluster.wait(1)
    spec = {"replicaResourceSpecs": {"ps": {"replicas": 0}}, "removePods": [pod_meta("ps", 0)]}
    cluster.plan("q", spec=spec)
    cluster.settle()
    assert [0] == cluster.ids("ps")


def test_a_worker_that_failed_is_removed_below_a_bound() -> None:
    """It runs no more, and its master may have another made later."""
    cluster = planned(job({"worker": {"minReplicas": 2}}, master="external"), worker=2)
    cluster.finish(f"{NAME}-edljob-worker-0", code=1)
    cluster.settle()
    cluster.plan("q", spec={"removePods": [pod_meta("worker", 0)]})
    cluster.settle()
    assert ([1], 1) == (cluster.ids(), len(cluster.pods))


def test_the_bounds_of_workers_hold_for_the_chief_among_them() -> None:
    """A job with parameter servers that names no chief has one out of its workers."""
    of = job(
        {"worker": {"minReplicas": 2, "maxReplicas": 4}, "ps": {}},
        distributionStrategy="ParameterServerStrategy",
    )
    cluster = planned(of, ps=1, chief=1, worker=1)
    assert ([0], [0]) == (cluster.ids("chief"), cluster.ids())
    cluster.wait(1)
    cluster.plan("q", worker=4)
    cluster.settle()
    assert [0, 1, 2] == cluster.ids()
    assert "worker: 4 pods asked for, 3 made (maxReplicas)" in cluster.plan_message("q")


def test_a_training_keeps_its_chief() -> None:
    """Its end would be the job's; a plan of zero is clamped, and says so."""
    cluster = planned(job({"worker": {}, "chief": {}}), chief=1, worker=1)
    cluster.wait(1)
    cluster.plan("q", chief=0)
    cluster.settle()
    assert [0] == cluster.ids("chief")
    assert "chief: 0 pods asked for, 1 kept (the training is led by it)" in cluster.plan_message(
        "q"
    )


@pytest.mark.parametrize(("limits", "odd"), [({}, True), ({"gpu": "8"}, False)])
def test_gpus_that_a_job_knows_nothing_of_are_said(limits: dict[str, str], odd: bool) -> None:
    """They are given all the same: who writes a plan may know of the nodes."""
    spec = {"replicaResourceSpecs": {"worker": {"replicas": 1, "resource": {"gpu": "1"}}}}
    cluster = planned(job(resourceLimits=limits), spec)
    sentence = "worker: 1 GPU for each pod, and neither its template nor resourceLimits has any"
    assert (sentence in cluster.plan_message("p")) is odd
    assert (events.PLAN_ODD in cluster.event_reasons()) is odd
