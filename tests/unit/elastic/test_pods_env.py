"""What the processes of an elastic job are told: variables, and TF_CONFIG in both its forms."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from allranks.elastic import pods
from allranks.elastic.members import Member, MemberGroup
from tests.unit.elastic.podsamples import environment, job, target, template

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.target import DesiredState

PS = "ParameterServerStrategy"
MASTER = "elasticjob-jar-dlrover-master:50001"


def variables_of(
    elastic_job: ElasticJob | None = None,
    kind: str = "worker",
    member: Member | None = None,
    pods_of: DesiredState | None = None,
) -> dict[str, Any]:
    """The environment of a pod."""
    member, pods_of = member or Member(5, 2), pods_of or target(worker=3)
    return environment(pods.build_pod(elastic_job or job(), kind, member, pods_of))


def test_a_worker_is_told_who_it_is() -> None:
    """All that DLRover's agent, older scripts and ours read."""
    variables = variables_of()
    assert {
        "ELASTIC_JOB_NAME": "jar",
        "JOB_UID": "uid-jar",
        "NODE_TYPE": "worker",
        "NODE_ID": "5",
        "NODE_NUM": "3",
        "NODE_RANK": "2",
        "WORLD_SIZE": "3",
        "RANK": "2",
        "WORKER_TYPE": "worker",
        "WORKER_ID": "5",
        "WORKER_NUM": "3",
        "WORKER_RANK": "2",
        "DLROVER_MASTER_ADDR": MASTER,
        "DLROVER_MASTER_SERVICE_TYPE": "grpc",
        "DLROVER_TRAINING_ELASTIC_MODE": "base",
        "DLROVER_EXTENSION_DYNAMIC_FAILOVER": "",
        "GRPC_ENABLE_FORK_SUPPORT": "false",
        "MONITOR_ENABLED": "true",
        "ALLRANKS_MASTER_ADDR": MASTER,
        "ALLRANKS_ROLE": "worker",
        "ALLRANKS_ROLE_RANK": "2",
    }.items() <= variables.items()
    fields = {name: variables[name]["fieldRef"]["fieldPath"] for name in ("POD_NAME", "POD_IP")}
    assert {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"} == fields
    assert "status.hostIP" == variables["NODE_IP"]["fieldRef"]["fieldPath"]
    assert "TF_CONFIG" not in variables


def test_how_it_behaves_is_the_jobs_to_say() -> None:
    """Annotations that are options of the master are variables of its pods; a Brain too."""
    options = {"service_type": "http", "training_elastic_mode": "full"}
    variables = variables_of(job(annotations=options, brainService="brain.ns.svc:50001"))
    assert ("http", "full", "brain.ns.svc:50001") == (
        variables["DLROVER_MASTER_SERVICE_TYPE"],
        variables["DLROVER_TRAINING_ELASTIC_MODE"],
        variables["DLROVER_BRAIN_SERVICE_ADDR"],
    )


def test_a_template_says_how_it_behaves_and_never_who_it_is() -> None:
    """Its variables go before the job's, the job's before our defaults, identity before all."""
    env = [
        {"name": "MONITOR_ENABLED", "value": "no"},
        {"name": "NODE_RANK", "value": "7"},
        {"name": "MINE", "value": "template"},
        {"name": "DATA", "value": "$(POD_NAME)/$(MINE)"},
    ]
    envs = {
        "MINE": {"name": "MINE", "value": "job"},
        "KEY": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        "BAD": {"name": "BAD"},
    }
    elastic_job = job(specs={"worker": {"template": template({"env": env})}}, envs=envs)
    built = pods.build_pod(elastic_job, "worker", Member(5, 2), target(worker=3))
    variables = environment(built)
    assert ("no", "2", "template") == tuple(
        variables[name] for name in ("MONITOR_ENABLED", "NODE_RANK", "MINE")
    )
    assert {"secretKeyRef": {"name": "s", "key": "k"}} == variables["KEY"]
    assert "BAD" not in variables
    # A variable may refer to those that stand before it.
    order = [variable["name"] for variable in built["spec"]["containers"][0]["env"]]
    assert order.index("POD_NAME") < order.index("MINE") < order.index("DATA")


def test_a_value_arrives_as_it_was_written() -> None:
    """The kubelet would put a variable in the place of `$(NAME)`."""
    variables = variables_of(job(brainService="$(POD_IP):1"))
    assert "$$(POD_IP):1" == variables["DLROVER_BRAIN_SERVICE_ADDR"]


# ---------------------------------------------------------------- TF_CONFIG


def tf_config(
    kind: str, rank: int, elastic_job: ElasticJob, pods_of: DesiredState
) -> dict[str, Any]:
    """What TensorFlow is told, read."""
    member = next(member for member in pods_of.groups[kind].members if member.rank == rank)
    found_config: dict[str, Any] = json.loads(
        variables_of(elastic_job, kind, member, pods_of)["TF_CONFIG"]
    )
    return found_config


def host(kind: str, rank: int) -> str:
    """Where a rank is reached."""
    port = 2222 if kind == "ps" else 3333
    return f"jar-edljob-{kind}-{rank}.lab.svc:{port}"


def tensorflow(**worker: Any) -> ElasticJob:
    """A job with parameter servers."""
    specs = {kind: {"template": template()} for kind in ("ps", "chief", "evaluator")}
    return job(
        specs={**specs, "worker": {"template": template(), **worker}}, distributionStrategy=PS
    )


ALL = target(chief=1, ps=2, worker=3, evaluator=1)


def test_dynamic_workers_know_themselves_alone() -> None:
    """Sparse: others may come and go, and what a worker was told stays true."""
    config = tf_config("worker", 1, tensorflow(), ALL)
    assert {
        "cluster": {
            "chief": [host("chief", 0)],
            "ps": [host("ps", 0), host("ps", 1)],
            "worker": {"1": host("worker", 1)},
        },
        "task": {"type": "worker", "index": 1},
    } == config


@pytest.mark.parametrize("kind", ["ps", "chief", "evaluator"])
def test_others_are_told_of_the_workers_there_are(kind: str) -> None:
    """TensorFlow's chief connects to each of them, and does not start without any."""
    config = tf_config(kind, 0, tensorflow(), ALL)
    assert {
        "chief": [host("chief", 0)],
        "ps": [host("ps", 0), host("ps", 1)],
        "worker": [host("worker", rank) for rank in range(3)],
    } == config["cluster"]
    assert {"type": kind, "index": 0} == config["task"]


@pytest.mark.parametrize("kind", ["ps", "chief", "evaluator", "worker"])
def test_workers_whose_number_is_fixed_are_listed(kind: str) -> None:
    """Dense: every one of them in order; an evaluator is never in the cluster."""
    config = tf_config(kind, 0, tensorflow(autoScale=False, replicas=3), ALL)
    assert {
        "chief": [host("chief", 0)],
        "ps": [host("ps", 0), host("ps", 1)],
        "worker": [host("worker", rank) for rank in range(3)],
    } == config["cluster"]


@pytest.mark.parametrize(
    ("worker", "dynamic"),
    [
        ({}, True),
        ({"replicas": 2}, True),
        ({"replicas": 2, "autoScale": True}, True),
        ({"replicas": 2, "autoScale": False}, False),
        ({"autoScale": False}, True),
        ({"replicas": 2, "autoScale": False, "minReplicas": 1, "maxReplicas": 4}, True),
        ({"replicas": 2, "autoScale": False, "minReplicas": 2, "maxReplicas": 2}, False),
    ],
)
def test_which_workers_are_dynamic(worker: dict[str, Any], dynamic: bool) -> None:
    """Those whose number a master or a plan may change."""
    config = tf_config("worker", 0, tensorflow(**worker), ALL)
    assert isinstance(config["cluster"]["worker"], dict) is dynamic


def test_the_parameter_servers_are_those_that_the_master_named() -> None:
    """A plan's psHosts go before what follows from the ranks."""
    with_hosts = replace(ALL, ps_hosts=("a:1", "b:2", "c:3"))
    config = tf_config("worker", 0, tensorflow(), with_hosts)
    assert ["a:1", "b:2", "c:3"] == config["cluster"]["ps"]
    variables = variables_of(tensorflow(), "worker", Member(0, 0), with_hosts)
    assert "a:1,b:2,c:3" == variables["ALLRANKS_PS_HOSTS"]


def test_a_server_that_is_gone_is_told_to_nobody() -> None:
    """A chief would wait for it; the place in the list is the index of the task."""
    members = (Member(0, 0), Member(4, 2, service="other.lab.svc:9"))
    gaps = replace(ALL, groups={**ALL.groups, "ps": MemberGroup("ps", 2, members, 5)})
    hosts = [host("ps", 0), "other.lab.svc:9"]
    assert hosts == tf_config("chief", 0, tensorflow(), gaps)["cluster"]["ps"]
    with_hosts = replace(gaps, ps_hosts=(host("ps", 0), host("ps", 1), "other.lab.svc:9"))
    config = tf_config("ps", 2, tensorflow(), with_hosts)
    assert hosts == config["cluster"]["ps"]
    assert {"type": "ps", "index": 1} == config["task"]


def test_a_server_knows_of_itself() -> None:
    """Also where the plan that named the servers left it out; workers know those of the plan."""
    with_hosts = replace(ALL, ps_hosts=("jar-edljob-ps-0:2222",))
    config = tf_config("ps", 1, tensorflow(), with_hosts)
    assert ["jar-edljob-ps-0:2222", host("ps", 1)] == config["cluster"]["ps"]
    assert {"type": "ps", "index": 1} == config["task"]
    assert 1 == len(tf_config("ps", 0, tensorflow(), with_hosts)["cluster"]["ps"])
    assert ["jar-edljob-ps-0:2222"] == tf_config("worker", 0, tensorflow(), with_hosts)["cluster"][
        "ps"
    ]
    variables = variables_of(tensorflow(), "ps", Member(1, 1), with_hosts)
    assert f"jar-edljob-ps-0:2222,{host('ps', 1)}" == variables["ALLRANKS_PS_HOSTS"]


def test_ranks_of_parameter_servers_are_not_those_of_an_all_reduce() -> None:
    """`RANK` would make PyTorch join a group."""
    variables = variables_of(tensorflow(), "ps", Member(0, 0), ALL)
    assert not {"RANK", "WORLD_SIZE"} & variables.keys()


def test_a_worker_that_comes_is_told_as_much_as_there_were() -> None:
    """A thousand sparse workers cost no more than one each."""
    many = target(ps=1, worker=1000)
    assert 300 > len(variables_of(tensorflow(), "worker", Member(9, 9), many)["TF_CONFIG"])
