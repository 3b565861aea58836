"""What becomes of a job's pods by a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.elastic.resources import ResourceAmounts
from tests.unit.elastic.simcluster import NAME, NAMESPACE, SimCluster, job, pod_meta

PS = "ParameterServerStrategy"


def running_cluster(
    spec: dict[str, Any] | None = None, /, *, of: Any = None, **replicas: int
) -> SimCluster:
    """A cluster whose job has taken a first plan."""
    cluster = SimCluster(of or job({"worker": {}, "ps": {}, "chief": {}}))
    cluster.plan(f"{NAME}-plan-0", spec=spec, **replicas)
    cluster.settle()
    cluster.wait(5)
    return cluster


def next_plan(cluster: SimCluster, spec: dict[str, Any] | None = None, **replicas: int) -> str:
    """A second plan, carried out; gives back what its status says."""
    name = cluster.plan(f"{NAME}-plan-1", spec=spec, **replicas)
    cluster.settle()
    return cluster.plan_message(name)


# ---------------------------------------------------------------- numbers


def test_the_first_plan_makes_the_pods() -> None:
    """No number stands in the job; its plan says it."""
    cluster = running_cluster(worker=3, ps=1)
    assert [0, 1, 2] == cluster.ids()
    assert [0] == cluster.ids("ps")
    assert {f"{NAME}-plan-0": "Succeeded"} == cluster.plan_phases()


@pytest.mark.parametrize(
    ("first", "then", "ids"),
    [
        (2, 4, [0, 1, 2, 3]),
        (4, 2, [0, 1]),
        (4, 0, []),
        (3, 3, [0, 1, 2]),
    ],
)
def test_a_type_goes_up_and_down(first: int, then: int, ids: list[int]) -> None:
    """The highest ranks go first, and an explicit 0 is none."""
    cluster = running_cluster(worker=first)
    next_plan(cluster, worker=then)
    assert ids == cluster.ids()


def test_an_id_is_not_given_again() -> None:
    """Who went down and up again has new ids on the old ranks."""
    cluster = running_cluster(worker=3)
    next_plan(cluster, worker=1)
    cluster.wait(5)
    cluster.plan(f"{NAME}-plan-2", worker=3)
    cluster.settle()
    assert [0, 3, 4] == cluster.ids()
    assert [0, 1, 2] == cluster.ranks()


def test_an_absent_number_stays_and_is_said() -> None:
    """A Go client drops zeros; nobody loses all pods by that."""
    cluster = running_cluster(worker=3)
    spec = {"replicaResourceSpecs": {"worker": {"resource": {"cpu": "2"}}}}
    message = next_plan(cluster, spec)
    assert [0, 1, 2] == cluster.ids()
    assert "replicaResourceSpecs.worker says no replicas; their number stays" in message


def test_a_type_that_is_not_named_stays() -> None:
    """A plan is about the types it names."""
    cluster = running_cluster(worker=2, ps=2)
    next_plan(cluster, worker=3)
    assert ([0, 1, 2], [0, 1]) == (cluster.ids(), cluster.ids("ps"))


@pytest.mark.parametrize("strategy", ["AllreduceStrategy", PS])
@pytest.mark.parametrize("kind", ["worker", "ps"])
def test_the_highest_rank_goes_first(kind: str, strategy: str) -> None:
    """Not the newest pod: one that replaced another has its rank, and ranks stay without holes."""
    cluster = running_cluster(
        of=job({"worker": {}, "ps": {}}, distributionStrategy=strategy), **{kind: 3}
    )
    cluster.delete(f"{NAME}-edljob-{kind}-0", at_once=True)
    cluster.settle()
    assert [1, 2, 0] == cluster.ranks(kind)
    next_plan(cluster, **{kind: 2})
    assert ([1, 0], [1, 3]) == (cluster.ranks(kind), cluster.ids(kind))


def test_a_worker_is_told_of_the_parameter_servers_that_are_left() -> None:
    """They have Services, and no other has one."""
    cluster = running_cluster(of=job({"worker": {}, "ps": {}}, distributionStrategy=PS), ps=3)
    cluster.delete(f"{NAME}-edljob-ps-0", at_once=True)
    cluster.settle()
    next_plan(cluster, ps=2)
    cluster.wait(5)
    cluster.plan(f"{NAME}-plan-2", worker=1)
    cluster.settle()
    env = cluster.pods[f"{NAME}-edljob-worker-0"]["spec"]["containers"][0]["env"]
    config = json.loads(
        next(variable["value"] for variable in env if variable["name"] == "TF_CONFIG")
    )
    servers = [address.partition(".")[0] for address in config["cluster"]["ps"]]
    assert [f"{NAME}-edljob-ps-{rank}" for rank in (0, 1)] == servers
    assert set(servers) == {service for service in cluster.services if "-ps-" in service}


def test_a_parameter_server_is_known_by_an_address_of_its_own() -> None:
    """The one that psHosts names stays, whatever it is called."""
    metas = [pod_meta("ps", 0), pod_meta("ps", 1, service="elsewhere:2222")]
    spec = {"createPods": metas, "psHosts": ["elsewhere:2222"]}
    cluster = running_cluster(spec, of=job({"worker": {}, "ps": {}}, distributionStrategy=PS))
    next_plan(cluster, ps=1)
    assert [1] == cluster.ids("ps")


@pytest.mark.parametrize(
    ("hosts", "replicas", "expected"),
    [
        ([], 0, [0]),
        ([], 1, [0]),
        ([0, 1, 2], 1, [0, 1, 2]),
        ([2], 1, [2]),
        ([0, 2], 1, [0, 2]),
    ],
)
def test_parameter_servers_stay_as_long_as_workers_use_them(
    hosts: list[int], replicas: int, expected: list[int]
) -> None:
    """At least one, and each that psHosts names."""
    addresses = [f"{NAME}-edljob-ps-{rank}.{NAMESPACE}.svc:2222" for rank in hosts]
    of = job({"worker": {}, "ps": {}}, distributionStrategy=PS)
    cluster = running_cluster({"psHosts": addresses}, of=of, ps=3)
    message = next_plan(cluster, ps=replicas)
    assert expected == cluster.ids("ps")
    assert ("kept (workers may use them; removePods takes one away)" in message) == (
        len(expected) > replicas
    )


@pytest.mark.parametrize(
    ("strategy", "workers", "suspended", "expected"),
    [
        (PS, 1, False, [0, 1]),
        (PS, 0, False, [0]),
        (PS, 1, True, [0]),
        ("CustomStrategy", 1, False, [0]),
    ],
)
def test_without_hosts_parameter_servers_stay_as_long_as_a_pod_was_told_of_them(
    strategy: str, workers: int, suspended: bool, expected: list[int]
) -> None:
    """The rule is one, whether a master named them in psHosts or the operator told its pods."""
    of = job({"worker": {}, "ps": {}}, distributionStrategy=strategy)
    cluster = running_cluster(of=of, ps=2, worker=workers)
    cluster.edit(suspend=suspended)
    cluster.settle()
    message = next_plan(cluster, ps=1)
    cluster.edit(suspend=False)
    cluster.settle()
    assert expected == sorted(cluster.ranks("ps"))
    assert ("ps: 1 pod asked for, 2 kept (workers may use them" in message) == (len(expected) > 1)


def test_a_plan_names_the_parameter_servers_anew() -> None:
    """With new psHosts the others may go."""
    addresses = [f"{NAME}-edljob-ps-{rank}:2222" for rank in range(3)]
    cluster = running_cluster({"psHosts": addresses}, ps=3)
    next_plan(cluster, {"psHosts": addresses[:1]}, ps=1)
    assert [0] == cluster.ids("ps")
    assert (addresses[0],) == cluster.target.ps_hosts


def servers_of(cluster: SimCluster, pod: str) -> list[str]:
    """The parameter servers that a pod was told of, in both ways."""
    env = cluster.pods[f"{NAME}-edljob-{pod}"]["spec"]["containers"][0]["env"]
    values = {variable["name"]: variable.get("value", "") for variable in env}
    hosts: list[str] = json.loads(values["TF_CONFIG"])["cluster"]["ps"]
    assert ",".join(hosts) == values["ALLRANKS_PS_HOSTS"]
    return [address.partition(".")[0].removeprefix(f"{NAME}-edljob-") for address in hosts]


def servers(count: int) -> SimCluster:
    """A job whose first plan named its parameter servers, as masters do."""
    addresses = [f"{NAME}-edljob-ps-{rank}.{NAMESPACE}.svc:2222" for rank in range(count)]
    of = job({"worker": {}, "ps": {}}, distributionStrategy=PS)
    return running_cluster({"psHosts": addresses}, of=of, ps=count, worker=1)


def test_a_server_more_is_told_to_itself_and_to_those_that_come() -> None:
    """The plan that asked for it names no addresses; those that run keep what they were told."""
    cluster = servers(1)
    next_plan(cluster, ps=2)
    assert ["ps-0", "ps-1"] == servers_of(cluster, "ps-1")
    cluster.wait(5)
    cluster.plan(f"{NAME}-plan-2", worker=2)
    cluster.settle()
    assert ["ps-0", "ps-1"] == servers_of(cluster, "worker-1")
    assert ["ps-0"] == servers_of(cluster, "worker-0")


def test_a_server_that_is_removed_by_name_is_told_to_nobody() -> None:
    """And where another takes its rank, it has its place in the list again."""
    cluster = servers(3)
    next_plan(cluster, {"removePods": [{"name": f"{NAME}-edljob-ps-1"}]}, worker=2)
    assert ["ps-0", "ps-2"] == servers_of(cluster, "worker-1")
    cluster.wait(5)
    cluster.plan(f"{NAME}-plan-2", ps=3, worker=3)
    cluster.settle()
    assert ["ps-0", "ps-1", "ps-2"] == servers_of(cluster, "worker-2")


def test_an_address_of_no_server_is_said_and_does_not_stay() -> None:
    """One of this job's form is of no use; one of another form is for who wrote it."""
    cluster = servers(2)
    addresses = [f"{NAME}-edljob-ps-{rank}:2222" for rank in (0, 7)]
    message = next_plan(cluster, {"psHosts": [*addresses, "elsewhere:1"]}, worker=2)
    assert f"psHosts names {NAME}-edljob-ps-7:2222, which is not there" in message
    assert ["ps-0:2222", "elsewhere:1"] == servers_of(cluster, "worker-1")
    cluster.wait(5)
    cluster.plan(f"{NAME}-plan-2", ps=3)
    cluster.settle()
    hosts = (addresses[0], "elsewhere:1", f"{NAME}-edljob-ps-2.{NAMESPACE}.svc:2222")
    assert hosts == cluster.target.ps_hosts


def test_a_failed_pod_does_not_count_to_the_number() -> None:
    """Where the master replaces pods, a plan that repeats the number makes up what is missing."""
    cluster = running_cluster(of=job({"worker": {}}, master="external"), worker=2)
    cluster.finish(f"{NAME}-edljob-worker-0", code=1)
    cluster.settle()
    assert [0, 1] == cluster.ids()  # the failed one stays for its log
    next_plan(cluster, worker=2)
    assert [1, 2] == [member.id for member in cluster.target.groups["worker"].members]


# ---------------------------------------------------------------- pods by name


def test_pods_are_made_as_they_are_named() -> None:
    """The id and the rank are the plan's."""
    cluster = running_cluster(worker=2)
    next_plan(cluster, {"createPods": [pod_meta("worker", 7, 2, resource={"cpu": "3"})]})
    assert ([0, 1, 7], [0, 1, 2]) == (cluster.ids(), cluster.ranks())
    member = cluster.target.groups["worker"].members[-1]
    assert ResourceAmounts(cpu_millis=3000) == member.resource
    assert "" == member.service


def test_a_pod_takes_the_place_of_its_rank() -> None:
    """So a master replaces what it lost: new id, same rank; what was before it goes."""
    cluster = running_cluster(worker=2)
    next_plan(cluster, {"createPods": [pod_meta("worker", 2, 1)]})
    assert ([0, 2], [0, 1]) == (cluster.ids(), cluster.ranks())
    labels = cluster.pods[f"{NAME}-edljob-worker-2"]["metadata"]["labels"]
    assert "1" == labels["elasticjob.dlrover/relaunch-count"]


def test_a_pod_that_is_there_is_not_made_again() -> None:
    """A plan that repeats what is true changes nothing."""
    cluster = running_cluster(worker=2)
    next_plan(cluster, {"createPods": [pod_meta("worker", 1)]})
    assert [0, 1] == cluster.ids()
    assert {1} == set(cluster.created.values())


@pytest.mark.parametrize("meta", [{"type": "worker"}, {"name": f"{NAME}-edljob-worker-0"}])
def test_zeros_that_were_dropped_are_zeros(meta: dict[str, Any]) -> None:
    """A Go client writes neither id 0 nor rank 0."""
    cluster = running_cluster({"createPods": [meta]})
    assert ([0], [0]) == (cluster.ids(), cluster.ranks())


def test_pods_that_name_no_rank_get_free_ones() -> None:
    """Each its own."""
    metas = [{"type": "worker", "id": ident} for ident in (4, 5, 6)]
    cluster = running_cluster({"createPods": metas})
    assert ([4, 5, 6], [0, 1, 2]) == (cluster.ids(), cluster.ranks())


@pytest.mark.parametrize("meta", [{"type": "worker"}, {"type": "worker", "rank": 1}])
def test_pods_that_name_no_rank_take_nobodys_place(meta: dict[str, Any]) -> None:
    """Three more are three more, though the rank is misspelt; and all of them are waited for."""
    cluster = running_cluster(worker=2)
    name = cluster.plan(f"{NAME}-plan-1", spec={"createPods": [meta] * 3})
    cluster.look()
    cluster.look()
    assert "2 of 5 worker pods run" in cluster.plan_message(name)
    cluster.settle()
    assert ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4]) == (cluster.ids(), cluster.ranks())


def test_a_pod_that_names_no_rank_fills_a_hole() -> None:
    """The lowest rank that no pod has."""
    cluster = running_cluster(worker=3)
    next_plan(cluster, {"removePods": [{"type": "worker", "id": 1}]})
    cluster.wait(1)
    cluster.plan(f"{NAME}-plan-2", spec={"createPods": [{"type": "worker", "id": 7}]})
    cluster.settle()
    assert ([0, 2, 7], [0, 2, 1]) == (cluster.ids(), cluster.ranks())


def test_a_rank_of_zero_that_a_go_client_dropped_stands_in_the_address() -> None:
    """So a master's replacement of rank 0 is one, though rank 0 still runs."""
    cluster = running_cluster(worker=2)
    service = f"{NAME}-edljob-worker-0.{NAMESPACE}.svc:3333"
    meta = {"type": "worker", "id": 5, "name": f"{NAME}-edljob-worker-5", "service": service}
    message = next_plan(cluster, {"createPods": [meta]})
    assert ([1, 5], [1, 0]) == (cluster.ids(), cluster.ranks())
    sentence = f"{NAME}-edljob-worker-5 takes rank 0 of {NAME}-edljob-worker-0, which had not ended"
    assert sentence in message


def test_a_rank_of_zero_whose_pod_failed_is_filled() -> None:
    """It is free, and nothing odd."""
    cluster = running_cluster(of=job({"worker": {}}, master="external"), worker=2)
    cluster.finish(f"{NAME}-edljob-worker-0", code=1)
    cluster.settle()
    message = next_plan(cluster, {"createPods": [{"type": "worker", "id": 2}]})
    assert [(1, 1), (2, 0)] == [
        (member.id, member.rank) for member in cluster.target.groups["worker"].members
    ]
    assert "takes rank" not in message


def test_an_address_of_its_own_is_kept() -> None:
    """One that is not the usual one of the rank stands in the target."""
    cluster = running_cluster({"createPods": [pod_meta("worker", 0, service="elsewhere:77")]})
    assert "elsewhere:77" == cluster.target.groups["worker"].members[0].service


@pytest.mark.parametrize(
    "meta",
    [
        {"name": f"{NAME}-edljob-worker-1"},
        {"type": "worker", "id": 1},
        {"name": f"{NAME}-edljob-worker-1", "type": "worker", "id": 1, "rankIndex": 1},
        {"name": f"{NAME}-edljob-worker-4-1"},  # a vendor writes the rank before the id
        {"type": "worker", "rankIndex": 1},
    ],
)
def test_pods_are_removed_as_they_are_named(meta: dict[str, Any]) -> None:
    """By their name, by type and id, or by type and rank."""
    cluster = running_cluster(worker=3)
    next_plan(cluster, {"removePods": [meta]})
    assert [0, 2] == cluster.ids()


@pytest.mark.parametrize(
    "meta",
    [
        {"name": "other-edljob-worker-1"},
        {"type": "worker", "id": 9},
        {"type": "worker", "rankIndex": 9},
        {"type": "chief", "id": 0},
    ],
)
def test_a_pod_that_is_not_there_is_not_removed(meta: dict[str, Any]) -> None:
    """Nor is one of another job whose name ends alike."""
    cluster = running_cluster(worker=2)
    next_plan(cluster, {"removePods": [meta]})
    assert [0, 1] == cluster.ids()


def test_a_pod_that_ended_is_removed_by_its_name() -> None:
    """It would stay for its log otherwise."""
    cluster = running_cluster(of=job({"worker": {}}, master="external"), worker=2)
    cluster.finish(f"{NAME}-edljob-worker-1", code=1)
    cluster.settle()
    spec = {"createPods": [pod_meta("worker", 2, 1)], "removePods": [pod_meta("worker", 1)]}
    next_plan(cluster, spec)
    assert [0, 2] == cluster.ids()


# ---------------------------------------------------------------- migration


def migrating() -> SimCluster:
    """A job whose first parameter server is being migrated; its new pod does not run yet."""
    cluster = running_cluster(ps=2, worker=1)
    meta = {"name": f"{NAME}-edljob-ps-0", "resource": {"cpu": "2", "memory": "512Mi"}}
    cluster.plan(f"{NAME}-plan-1", spec={"migratePods": [meta]})
    cluster.look()
    cluster.look()
    return cluster


def test_a_pod_is_migrated_to_one_of_its_rank() -> None:
    """The new one stands beside it, with what the plan gives it."""
    cluster = migrating()
    assert ([0, 1, 2], [0, 1, 0]) == (cluster.ids("ps"), cluster.ranks("ps"))
    amounts = cluster.pods[f"{NAME}-edljob-ps-2"]["spec"]["containers"][0]["resources"]["requests"]
    assert {"cpu": "2", "memory": "512Mi"} == amounts
    assert "Scaling" == cluster.plan_phases()[f"{NAME}-plan-1"]


def test_the_old_pod_goes_when_the_new_one_is_ready() -> None:
    """Not before; and then the plan is done."""
    cluster = migrating()
    cluster.kubelet()
    running = cluster.pods[f"{NAME}-edljob-ps-2"]["status"]
    running["conditions"][0]["status"] = "False"
    cluster.look()
    assert [0, 1, 2] == cluster.ids("ps")
    running["conditions"][0]["status"] = "True"
    cluster.settle()
    assert [1, 2] == cluster.ids("ps")
    assert "Succeeded" == cluster.plan_phases()[f"{NAME}-plan-1"]


def test_a_pod_that_leaves_and_is_lost_is_not_made_again() -> None:
    """Its successor is on the way already."""
    cluster = migrating()
    cluster.delete(f"{NAME}-edljob-ps-0", at_once=True)
    cluster.settle()
    assert [1, 2] == cluster.ids("ps")


def test_a_new_pod_that_fails_is_made_again_before_the_old_one_goes() -> None:
    """The rank is never without a pod."""
    cluster = migrating()
    cluster.kubelet()
    cluster.pods[f"{NAME}-edljob-ps-2"]["status"]["conditions"][0]["status"] = "False"
    cluster.look()
    cluster.finish(f"{NAME}-edljob-ps-2", code=137)
    cluster.look()
    assert [0, 1, 2, 3] == cluster.ids("ps")
    cluster.settle()
    assert [1, 3] == [member.id for member in cluster.target.groups["ps"].members]


@pytest.mark.parametrize("name", [f"{NAME}-edljob-ps-7", "nothing", "other-edljob-ps-0"])
def test_what_cannot_be_migrated_is_said(name: str) -> None:
    """The rest of the plan is done all the same."""
    cluster = running_cluster(ps=1)
    message = next_plan(cluster, {"migratePods": [{"name": name, "type": "ps"}]}, ps=1)
    assert f"{name} is no pod that could be migrated" in message
    assert [0] == cluster.ids("ps")


# ---------------------------------------------------------------- resources


def requests(cluster: SimCluster, ident: int) -> dict[str, str]:
    """What a worker's pod asks for."""
    pod = cluster.pods[f"{NAME}-edljob-worker-{ident}"]
    amounts: dict[str, str] = pod["spec"]["containers"][0]["resources"]["requests"]
    return amounts


def asking(count: int | None, **resource: str) -> dict[str, Any]:
    """The spec of a plan for workers with resources."""
    number = {} if count is None else {"replicas": count}
    return {"replicaResourceSpecs": {"worker": {**number, "resource": resource}}}


def test_a_masters_resources_are_for_new_pods() -> None:
    """Those that run are not disturbed."""
    cluster = running_cluster(worker=1)
    next_plan(cluster, asking(2, cpu="4", memory="2Gi"))
    assert ("1", "4") == (requests(cluster, 0)["cpu"], requests(cluster, 1)["cpu"])
    assert [0, 1] == cluster.ids()


def test_a_zero_is_not_set() -> None:
    """DLRover's master writes cpu "0.0" and memory "0Mi" where nothing was asked for."""
    cluster = running_cluster(asking(1, cpu="0.0", memory="0Mi"))
    assert {"cpu": "1", "memory": "1Gi"} == requests(cluster, 0)


def test_gpus_go_by_their_own_key() -> None:
    """The key of the plan is the resource that is asked for."""
    cluster = running_cluster(asking(1, **{"nvidia.com/gpu": "2"}))
    assert "2" == requests(cluster, 0)["nvidia.com/gpu"]


def test_a_persons_resources_are_for_all_pods() -> None:
    """Each gets a new pod beside it, and leaves when that is ready."""
    cluster = running_cluster(worker=2)
    cluster.plan("bigger", scale="manual", spec=asking(3, memory="16Gi"))
    cluster.settle()
    assert ["16Gi"] * 3 == [requests(cluster, ident)["memory"] for ident in cluster.ids()]
    assert [0, 1, 2] == sorted(cluster.ranks())
    assert "Succeeded" == cluster.plan_phases()["bigger"]


def test_pods_are_replaced_one_after_another() -> None:
    """A new one stands beside the old one, and only when it is ready comes the next."""
    cluster = running_cluster(worker=3)
    cluster.plan("bigger", scale="manual", spec=asking(None, memory="16Gi"))
    for ids in ([0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]):
        for _ in range(3):
            cluster.look()
        assert ids == cluster.ids()
        assert "1 of 3" not in cluster.plan_message("bigger")
        cluster.kubelet()
    cluster.settle()
    assert [3, 4, 5] == cluster.ids()
    assert [0, 1, 2] == cluster.ranks()
    assert ["16Gi"] * 3 == [requests(cluster, ident)["memory"] for ident in cluster.ids()]
    assert "Succeeded" == cluster.plan_phases()["bigger"]


def test_one_that_finds_no_room_costs_nobody_his_pod() -> None:
    """The old ones go on, and a plan with what they had takes it back."""
    cluster = running_cluster(worker=3)
    cluster.plan("bigger", scale="manual", spec=asking(None, memory="16Gi"))
    for _ in range(5):
        cluster.look()
    assert [0, 1, 2, 3] == cluster.ids()
    assert ("Scaling", "2 of 3 worker pods run") == (
        cluster.plan_phases()["bigger"],
        cluster.plan_message("bigger"),
    )
    cluster.wait(5)
    cluster.plan("back", scale="manual", spec=asking(None, memory="1Gi"))
    cluster.settle()
    assert {1, 2} < set(cluster.ids())
    assert ["1Gi"] * 3 == [requests(cluster, ident)["memory"] for ident in cluster.ids()]
    assert 3 == len(cluster.ids())
    assert "Succeeded" == cluster.plan_phases()["back"]


def test_pods_that_wait_for_room_are_replaced_at_once() -> None:
    """They have nothing to lose, and the new size may be what makes room."""
    cluster = SimCluster(job({"worker": {}}))
    cluster.plan(f"{NAME}-plan-0", worker=3)
    for _ in range(3):
        cluster.look()
    cluster.run_pod(f"{NAME}-edljob-worker-0")
    cluster.wait(5)
    cluster.plan("smaller", scale="manual", spec=asking(None, memory="512Mi"))
    for _ in range(3):
        cluster.look()
    assert [0, 3, 4, 5] == cluster.ids()
    cluster.settle()
    assert [3, 4, 5] == cluster.ids()


def test_one_that_fails_before_its_turn_gets_the_new_size() -> None:
    """It is not made as it was, to be replaced once more."""
    cluster = running_cluster(worker=2)
    cluster.plan("bigger", scale="manual", spec=asking(None, memory="16Gi"))
    cluster.look()
    cluster.finish(f"{NAME}-edljob-worker-1", code=137, reason="OOMKilled")
    cluster.settle()
    assert [2, 3] == [member.id for member in cluster.target.groups["worker"].members]
    assert ["16Gi"] * 2 == [requests(cluster, ident)["memory"] for ident in (2, 3)]


def test_the_same_resources_disturb_nobody() -> None:
    """A person who repeats what the template says changes nothing."""
    cluster = running_cluster(worker=2)
    cluster.plan("same", scale="manual", spec=asking(2, memory="1Gi"))
    cluster.settle()
    assert [0, 1] == cluster.ids()


def test_a_pod_that_a_plan_replaces_is_counted() -> None:
    """A master that finds a worker frozen has it removed and keeps the number: a restart."""
    cluster = SimCluster()
    cluster.plan("p", worker=2)
    cluster.settle()
    frozen = {"name": f"{NAME}-edljob-worker-1", "id": 1, "type": "worker", "rankIndex": 1}
    cluster.plan(
        "q", spec={"replicaResourceSpecs": {"worker": {"replicas": 2}}, "removePods": [frozen]}
    )
    cluster.settle()
    assert ([0, 2], [0, 1]) == (cluster.ids(), cluster.ranks())
    group = cluster.target.groups["worker"]
    assert (0, 1) == (group.failures, group.disruptions)
    cluster.plan("less", worker=1)
    cluster.settle()
    cluster.plan("more", worker=2)
    cluster.settle()
    assert 1 == cluster.target.groups["worker"].disruptions
