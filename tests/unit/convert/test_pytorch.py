"""PyTorchJobs: what each of their shapes becomes.

It is long, as each test has the job that it is about.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.convert import original
from allranks.convert.documents.context import Context
from allranks.convert.kinds import pytorch
from allranks.convert.verdicts import Conversion, Outcome
from allranks.errors import InputError
from allranks.service import convert as service
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load
from tests import converted


def job(container: dict[str, Any], spec: dict[str, Any] | None = None, **roles: Any) -> Any:
    """A PyTorchJob whose pods have one container."""
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x:1", **container}]}}
    roles = roles or {"Worker": {"replicas": 2}}
    specs = {role: {"template": template, **own} for role, own in roles.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {"pytorchReplicaSpecs": specs, **(spec or {})},
    }


def convert(
    container: dict[str, Any], spec: dict[str, Any] | None = None, **roles: Any
) -> Conversion:
    """It, converted."""
    return pytorch.convert(job(container, spec, **roles), Context())


def lost(conversion: Conversion) -> dict[str, str]:
    """What is not carried, and why."""
    return {verdict.path: verdict.why for verdict in conversion.lost}


def test_pods_whose_deepspeed_names_no_hosts_trained_alone() -> None:
    """They train together here, which is said; with a file of hosts, or as one pod, they did."""
    command = ["deepspeed", "--num_gpus=8", "t.py"]
    losses = lost(convert({"command": command, **GPUS}))
    assert {True} == {"each of 2 pods trained by itself" in why for why in losses.values()}
    assert not lost(convert({"command": command, **GPUS}, Worker={"replicas": 1}))
    mount = {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}
    hosts = convert({"command": [*command[:2], "--hostfile=/h/f", "t.py"], **GPUS, **mount})
    assert (2, 8, {}) == (hosts.values["nodes"], hosts.values["gpusPerNode"], lost(hosts))


@pytest.mark.parametrize(
    ("command", "path", "is_alone"),
    [
        (
            ["deepspeed", "--hostfile", "/etc/mpi/hostfile", "--launcher=openmpi", "t.py"],
            "/h",
            True,
        ),
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile", "t.py"], "/etc/mp", True),
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile", "t.py"], "/etc/mpi", False),
        (["deepspeed", "--hostfile", "/etc/mpi/hostfile", "t.py"], "/etc/mpi/hostfile", False),
        (["deepspeed", "-H", "/f", "--no_ssh", "--node_rank=$RANK", "t.py"], "/h", False),
        (["deepspeed", "-H", "$HOSTS", "t.py"], "/h", False),
        (["sh", "-c", "make-hosts > /f; deepspeed -H /f t.py"], "/h", False),
        (["sh", "-c", "deepspeed -H /f t.py"], "/h", True),
    ],
)
def test_pods_without_their_deepspeed_s_file_of_hosts_trained_alone(
    command: list[str], path: str, *, is_alone: bool
) -> None:
    """It goes on with its own machine, and only a volume or the command itself brings the file."""
    mount = {"volumeMounts": [{"name": "h", "mountPath": path}]}
    whys = lost(convert({"command": command, **GPUS, **mount})).values()
    assert is_alone == any("no volume has the file of hosts" in why for why in whys)


def test_a_number_of_processes_that_counted_pods_is_said() -> None:
    """The operator's WORLD_SIZE counts processes only where nprocPerNode is a number."""
    own = {"command": ["bash", "-c", "torchrun --nproc_per_node=2 t.py --world $WORLD_SIZE"]}
    for spec, is_noted in (None, True), ({"nprocPerNode": "2"}, False):
        notes = convert(own, spec, Master={"replicas": 1}, Worker={"replicas": 1}).notes
        assert is_noted == any("here it is 4, that of all processes" in note for note in notes)


def test_a_program_that_nobody_has_may_count_processes() -> None:
    """The operator's WORLD_SIZE was of all of them, and here each pod runs the script once."""
    own = {"command": ["/entrypoint.sh"]}
    for spec, is_noted in ((None, False), ({"nprocPerNode": "8"}, True)):
        notes = convert(own, spec, Master={"replicas": 1}, Worker={"replicas": 1}).notes
        assert is_noted == any("may read WORLD_SIZE, which counted 8" in note for note in notes)


def test_a_range_that_no_torchrun_reads_is_none() -> None:
    """The operator makes all pods, and a program of another launcher would begin with one."""
    policy = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 64}}
    values = convert({"command": ["python", "a.py", "--num-nodes=2"]}, policy).values
    assert (values["nodes"], "elastic" in values.get("torchrun", {})) == (2, False)
    values = convert({"command": ["torchrun", "a.py"]}, policy).values
    assert values["torchrun"]["elastic"] == {"minNodes": 1, "maxNodes": 64}


def test_python_that_runs_before_the_ranks_is_said_to_have_no_rank() -> None:
    """The operator told it to the container, and so to what ran before torchrun, too."""
    for line, is_noted in ("python prepare.py", True), ("python -m pip install x", False):
        conversion = convert({"command": ["bash", "-c", f"{line}\ntorchrun t.py"]})
        assert line in conversion.values["setup"]
        assert is_noted == any("finds no RANK" in note for note in conversion.notes)


def test_what_the_workers_alone_had_is_said_of_the_master() -> None:
    """All pods have the workers' template: one without GPUs has theirs."""
    source = job({"command": ["torchrun", "t.py"]}, None, Master={}, Worker={"replicas": 2})
    specs = source["spec"]["pytorchReplicaSpecs"]
    assert not any("had, too" in note for note in pytorch.convert(source, Context()).notes)
    worker = {**specs["Worker"]["template"]["spec"]["containers"][0], **GPUS}
    worker["env"] = [{"name": "DATA", "value": "/d"}]
    spec = {"nodeSelector": {"gpu": "a100"}, "containers": [worker]}
    specs["Worker"]["template"] = {"spec": spec}
    (note,) = (note for note in pytorch.convert(source, Context()).notes if "had, too" in note)
    assert note.endswith("alone had, too: env.DATA, gpusPerNode, scheduling.nodeSelector.gpu")


def test_workers_without_a_master_have_no_rank_there() -> None:
    """The pods that a conversion is compared with are those that the operator makes."""
    both = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}
    for roles, ranks in (both, ["0", "1"]), ({"Worker": {"replicas": 2}}, [None, None]):
        theirs = original.pods(job({"command": ["python", "t.py"]}, None, **roles)) or []
        assert ranks == [pod.env.get("RANK") for pod in theirs]
        assert {"2"} == {pod.env["PET_NNODES"] for pod in theirs}


def test_workers_without_a_master_were_told_nothing_of_each_other() -> None:
    """The operator sets RANK where there is a Master; an elasticPolicy is for torchrun."""
    own = {"command": ["python", "t.py"]}
    both = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}}
    ranked = {"env": [{"name": "WORLD_SIZE", "value": "2"}]}
    alone = [
        any("each of 2 pods ran by itself" in note for note in conversion.notes)
        for conversion in (
            convert(own),
            convert(own, None, **both),
            convert(own, None, Worker={"replicas": 1}),
            convert({**own, **ranked}),
            convert({"command": ["torchrun", "t.py"]}, {"elasticPolicy": {"maxReplicas": 2}}),
            convert(own, {"elasticPolicy": {"rdzvBackend": "c10d", "maxReplicas": 2}}),
        )
    ]
    assert [True, False, False, False, False, True] == alone


def test_processes_that_no_torchrun_reads_are_said_to_be_read_by_none() -> None:
    """A plain program starts no processes by itself; a launcher of its own does."""
    for command, why in (
        (["python", "t.py"], "no torchrun of the command's reads it"),
        (["accelerate", "launch", "t.py"], "the command starts its processes itself"),
    ):
        conversion = convert({"command": command}, {"nprocPerNode": "4"})
        whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
        assert why in whys["spec.nprocPerNode"]


GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}
PROCESSES = [
    ({"command": ["torchrun", "t.py"], **GPUS}, {}, None),
    ({"command": ["torchrun", "--nproc-per-node=4", "t.py"], **GPUS}, {}, 4),
    ({"command": ["torchrun", "t.py"], **GPUS}, {"nprocPerNode": "2"}, 2),
    ({"command": ["torchrun", "--nproc-per-node=8", "t.py"], **GPUS}, {"nprocPerNode": "2"}, None),
    (
        {"command": ["torchrun", "--nproc-per-node=${PET_NPROC_PER_NODE}", "t.py"], **GPUS},
        {"nprocPerNode": "4"},
        4,
    ),
    ({"command": ["python", "t.py"], **GPUS}, {"nprocPerNode": "8"}, 1),
    ({"command": ["python", "t.py"]}, {}, None),
    (
        {
            "command": ["torchrun", "--nproc-per-node=$N", "t.py"],
            "env": [{"name": "N", "value": "3"}],
        },
        {},
        3,
    ),
]


@pytest.mark.parametrize(("container", "spec", "expected"), PROCESSES)
def test_processes_of_a_pod(container: Any, spec: Any, expected: int | None) -> None:
    """They are the command's, then the object's; a plain program is one process in each pod."""
    assert expected == convert(container, spec).values.get("procsPerNode")


def test_processes_of_an_unknown_number_are_said() -> None:
    """A variable that is not in the manifest is named; what the operator says itself is known."""
    command = ["torchrun", "--nproc-per-node=$N", "t.py"]
    notes = convert({"command": command, **GPUS}).notes
    assert [True] == ["procsPerNode" in note for note in notes if "--nproc-per-node $N" in note]
    for count in ("$PET_NPROC_PER_NODE", "$(nvidia-smi -L | wc -l)"):
        script = ["sh", "-c", f"torchrun --nproc-per-node={count} t.py"]
        assert not [n for n in convert({"command": script, **GPUS}).notes if "nproc" in n]


def test_a_master_is_a_node() -> None:
    """It counts as the workers do."""
    conversion = convert({"command": ["a"]}, Master={"replicas": 1}, Worker={"replicas": 3})
    assert 4 == conversion.values["nodes"]


def test_a_master_of_its_own_is_said() -> None:
    """Where its template differs from the workers', what differs is not carried, with its field."""
    source = job({"command": ["a"]}, Master={}, Worker={})
    master = {"containers": [{"name": "pytorch", "image": "x:2", "command": ["b"]}]}
    source["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = {"spec": master}
    above = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0]"
    assert [f"{above}.image", f"{above}.command[0]"] == list(
        lost(pytorch.convert(source, Context()))
    )


COMMENTED = [
    ("# for all\ntrain\n\n", "train\n", True),
    ("train --lr 1", "train --lr 2", False),
    ("#1", "#2", False),
    ("cat <<E > a\n# 1\nE\ntrain", "cat <<E > a\nE\ntrain", False),
    ("train \\\n# 1\n --lr 1", "train \\\n --lr 1", False),
]


@pytest.mark.parametrize(("master", "worker", "is_same"), COMMENTED)
def test_a_master_s_script_that_differs_by_comments_is_the_workers(
    master: str, worker: str, *, is_same: bool
) -> None:
    """What does nothing is no loss; in a here-document it is text that the script writes."""
    source = job({"command": ["sh", "-c", worker]}, Master={}, Worker={})
    container = {"name": "pytorch", "image": "x:1", "command": ["sh", "-c", master]}
    source["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = {
        "spec": {"containers": [container]}
    }
    assert is_same == (not lost(pytorch.convert(source, Context())))


def test_of_a_list_only_what_the_workers_have_not_is_lost() -> None:
    """A master that mounts one volume more keeps the others; an order of its own is said."""
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in "abc"]
    volumes = [{"name": name, "emptyDir": {}} for name in "abc"]

    def of_master(*indexes: int) -> list[str]:
        source = job({"command": ["a"]}, Master={}, Worker={})
        for role, items in (("Master", indexes), ("Worker", (0, 2))):
            own = {"name": "c", "image": "x:1", "command": ["a"]}
            own["volumeMounts"] = [mounts[index] for index in items]
            spec = {"containers": [own], "volumes": volumes}
            source["spec"]["pytorchReplicaSpecs"][role]["template"] = {"spec": spec}
        return list(lost(pytorch.convert(source, Context())))

    above = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].volumeMounts"
    keys = ("name", "mountPath")
    assert [f"{above}[1].{key}" for key in keys] == of_master(0, 1, 2)
    assert [f"{above}[{index}].{key}" for index in (0, 1) for key in keys] == of_master(2, 0)


def test_an_elastic_job_is_a_range() -> None:
    """Least and most workers are torchrun's own range; one size is none."""
    policy = {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d", "rdzvPort": 1234}
    values = convert({"command": ["torchrun", "t.py"]}, {"elasticPolicy": policy}).values
    assert ({"minNodes": 1, "maxNodes": 4}, 1234, 2) == (
        values["torchrun"]["elastic"],
        values["torchrun"]["port"],
        values["nodes"],
    )
    fixed = convert({"command": ["a"]}, {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 2}})
    assert "elastic" not in fixed.values["torchrun"]


@pytest.mark.parametrize(
    ("nnodes", "is_elastic"),
    [("2", False), ("$NODES", False), ("1:4", True), ("$PET_NNODES", True)],
)
def test_a_number_of_nodes_in_the_command_wins(nnodes: str, *, is_elastic: bool) -> None:
    """The command's own --nnodes wins over elasticPolicy: a number is no range."""
    container = {
        "command": ["torchrun", f"--nnodes={nnodes}", "t.py"],
        "env": [{"name": "NODES", "value": "2"}],
    }
    policy = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}
    conversion = convert(container, policy)
    assert is_elastic is ("elastic" in conversion.values["torchrun"])
    assert (2, {}) == (conversion.values["nodes"], lost(conversion))


APART = [
    ("--nnodes=1", "trained by itself"),
    ("--standalone", "trained by itself"),
    ("--nnodes=$NODES", "waited for 3 others"),
    ("--nnodes=2", ""),
    ("--nnodes=1:4", ""),
    ("--nnodes=$WORLD_SIZE", ""),
]


@pytest.mark.parametrize(("flag", "how"), APART)
def test_a_torchrun_of_other_nodes_than_pods_is_said(flag: str, how: str) -> None:
    """Pods whose torchrun knows of fewer trained apart, and here all of them train together."""
    env = [{"name": "NODES", "value": "4"}]
    reasons = set(lost(convert({"command": ["torchrun", flag, "t.py"], "env": env})).values())
    assert bool(how) is bool(reasons)
    assert all(f"each of 2 pods {how}; here all" in why for why in reasons)


def test_a_range_of_nodes_is_said_where_the_command_s_number_is_not_known() -> None:
    """A variable that nobody sets here may be a number, which torchrun would keep to."""
    container = {"command": ["torchrun", "--nnodes=$NODES", "t.py"]}
    conversion = convert(container, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}})
    assert any("leave torchrun.elastic out for a number" in note for note in conversion.notes)


@pytest.mark.parametrize("has_master", [True, False])
def test_workers_alone_with_a_script_of_the_image_knew_nothing_of_each_other(
    *, has_master: bool
) -> None:
    """The operator sets RANK and the others beside a Master alone, whatever the script reads."""
    container = {"command": ["bash", "/scripts/run.sh"]}
    roles = {"Master": {"replicas": 1}, "Worker": {"replicas": 1}} if has_master else {}
    conversion = convert(container, **roles)
    notes = [note for note in conversion.notes if note.startswith("nothing set RANK")]
    assert len(notes) == (not has_master)
    assert any("that is told of the job's pods" in note for note in conversion.notes)


@pytest.mark.parametrize("command", [["torchrun", "t.py"], ["bash", "-c", "cd a; torchrun t.py"]])
@pytest.mark.parametrize("count", ["gpu2", "4x", ""])
def test_a_number_of_processes_that_torchrun_takes_none_for_is_lost(
    count: str, command: list[str]
) -> None:
    """It counted as carried, and a script's torchrun was given it."""
    conversion = convert({"command": command, **GPUS}, {"nprocPerNode": count})
    assert {"spec.nprocPerNode"} == converted.lost(conversion)
    assert f"PROC_PER_NODE={count};" not in str(conversion.values)


def test_a_request_of_gpus_without_a_limit_is_said_to_have_one() -> None:
    """Kubernetes takes none without; the report counted it as carried."""
    own = {"command": ["torchrun", "t.py"], "resources": {"requests": {"nvidia.com/gpu": 4}}}
    conversion = convert(own)
    assert 4 == conversion.values["gpusPerNode"]
    [verdict] = [own for own in conversion.verdicts if own.path.endswith("nvidia.com/gpu")]
    assert (Outcome.CHANGED, "gpusPerNode") == (verdict.outcome, verdict.to)


def test_a_run_of_one_node_needs_no_rendezvous() -> None:
    """Its values named an etcd that no pod asks."""
    policy = {"rdzvBackend": "etcd", "rdzvHost": "etcd", "rdzvPort": 2379, "maxRestarts": 2}
    own = {"command": ["torchrun", "t.py"]}
    conversion = convert(own, {"elasticPolicy": policy}, Worker={"replicas": 1})
    assert {"maxRestarts": 2} == conversion.values["torchrun"]
    whys = {v.path: v.why for v in conversion.verdicts if v.path.startswith("spec.elasticPolicy.r")}
    assert 3 == len(whys)
    assert {"a run of one node meets there, without a rendezvous"} == {*whys.values()}


def test_an_etcd_without_a_host_is_none() -> None:
    """The operator took the first worker for it; the ranks meet at rank 0, and that is said."""
    policy = {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "etcd-v2", "rdzvPort": 2379}
    conversion = convert({"command": ["torchrun", "t.py"]}, {"elasticPolicy": policy})
    assert "rdzvBackend" not in conversion.values["torchrun"]
    assert 2379 == conversion.values["torchrun"]["port"]
    assert {"spec.elasticPolicy.rdzvBackend"} == converted.lost(conversion)


def test_etcd_is_at_the_port_that_the_operator_gave_it() -> None:
    """Without rdzvPort it took that of the container, which is 23456 where none has its name."""
    policy = {"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "etcd-v2", "rdzvHost": "etcd"}
    ports = [{"name": "pytorchjob-port", "containerPort": 2379}]
    for container, port in ({}, 23456), ({"ports": ports}, 2379):
        own = {"command": ["torchrun", "t.py"], **container}
        values = convert(own, {"elasticPolicy": policy}).values
        assert f"etcd:{port}" == values["torchrun"]["rdzvEndpoint"]


def test_labels_of_the_old_controller_are_read_in_vain() -> None:
    """A variable made of one is not there here, in the program's container and in any other."""
    path = "metadata.labels['training.kubeflow.org/replica-index']"
    old = {"name": "INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    own = {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    source = job({"command": ["a"], "env": [old, own]})
    spec = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    spec["containers"].append({"name": "side", "image": "y:1", "env": [own, old]})
    conversion = pytorch.convert(source, Context())
    assert ["POD"] == list(conversion.values["env"])
    side = conversion.values["podTemplate"]["spec"]["containers"][0]
    assert [own] == side["env"]
    above = "spec.pytorchReplicaSpecs.Worker.template.spec.containers"
    assert {f"{above}[0].env[0]", f"{above}[1].env[1]"} == {
        path.partition(".name")[0].partition(".valueFrom")[0] for path in lost(conversion)
    }


def test_a_label_that_only_a_person_writes_stays_whatever_its_domain() -> None:
    """No operator writes it, so it is carried; that a controller writes it was said of it."""
    source = job({"command": ["a"]})
    source["metadata"]["labels"] = {"volcano.sh/job-type": "a", "volcano.sh/job-name": "b"}
    template = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    template["metadata"] = {"labels": {"training.kubeflow.org/team": "x"}}
    conversion = pytorch.convert(source, Context())
    assert {"volcano.sh/job-type": "a"} == conversion.values["labels"]
    own = conversion.values["podTemplate"]["metadata"]["labels"]
    assert {"training.kubeflow.org/team": "x"} == own
    assert not lost(conversion)


def test_labels_of_nodes_that_are_not_filled_in_are_left_out() -> None:
    """No API server takes such a value, in an affinity as little as in a node selector."""
    source = job({"command": ["a"]})
    spec = source["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    conditions = [
        {"key": "pool", "operator": "In", "values": ["${POOL}"]},
        {"key": "gpu", "operator": "Exists"},
    ]
    required = {"nodeSelectorTerms": [{"matchExpressions": conditions}]}
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    spec["affinity"] = {"nodeAffinity": {name: required}}
    spec["nodeSelector"] = {"pool": "${POOL}"}
    conversion = pytorch.convert(source, Context())
    assert {
        "nodeAffinity": {name: {"nodeSelectorTerms": [{"matchExpressions": conditions[1:]}]}}
    } == (conversion.values["scheduling"]["affinity"])
    above = f"affinity.nodeAffinity.{name}.nodeSelectorTerms[0].matchExpressions[0]"
    assert {
        "nodeSelector.pool",
        *(f"{above}.{key}" for key in ("key", "operator", "values[0]")),
    } == {path.partition("template.spec.")[2] for path in lost(conversion)}


POLICIES = [
    ("Never", {"backoffLimit": 0}),
    ("OnFailure", {}),
    ("Always", {}),
    ("ExitCode", {"fatalExitCodes": list(range(1, 128))}),
]


@pytest.mark.parametrize(("policy", "expected"), POLICIES)
def test_restart_policies(policy: str, expected: dict[str, Any]) -> None:
    """Never gives up at once; under ExitCode the codes below 128 do."""
    conversion = convert({"command": ["a"]}, Worker={"restartPolicy": policy})
    assert expected == conversion.values.get("runPolicy", {})


def test_an_image_that_decides_what_runs_is_refused() -> None:
    """Without a command nobody knows what runs, and the hint says how to name it."""
    with pytest.raises(InputError) as caught:
        convert({"args": ["--epochs", "1"]})
    assert "--entrypoint" in caught.value.problem.hint
    context = Context(entrypoint=("python", "t.py"))
    values = pytorch.convert(job({"args": ["--epochs", "1"]}), context).values
    assert ["python", "t.py", "--epochs", "1"] == values["command"]


def test_a_pod_of_the_old_controller_is_found() -> None:
    """A command or a variable with the name of one would look for it in vain."""
    command = ["bash", "-c", "for i in 1; do torchrun --master_addr bert-master-0 t.py; done"]
    variable = {"name": "ADDR", "value": "bert-worker-0:29500"}
    conversion = convert({"command": command, "env": [variable]})
    paths = [verdict.path.rpartition("containers[0].")[2] for verdict in conversion.lost]
    assert ["command[0]", "command[1]", "command[2]", "env[0].value"] == paths


def test_a_job_that_runs_mpirun_is_one_of_mpi() -> None:
    """The workload follows from what runs."""
    assert "mpi" == convert({"command": ["mpirun", "python", "t.py"]}).values["workload"]


def test_what_the_cluster_writes_is_no_loss() -> None:
    """An object as a cluster returns it is whole."""
    source = job({"command": ["a"]})
    source["metadata"] |= {"uid": "1", "managedFields": [{}], "resourceVersion": "2"}
    source["status"] = {"conditions": [{"type": "Created"}]}
    assert {} == lost(pytorch.convert(source, Context()))


def test_a_field_that_is_no_field_is_said() -> None:
    """A misspelled field is not carried."""
    conversion = convert({"command": ["a"]}, {"nprocPerNod": 8})
    assert [("spec.nprocPerNod", Outcome.NOT_CARRIED)] == [
        (verdict.path, verdict.outcome) for verdict in conversion.lost
    ]


ENTRY_POINTS = [
    ("kubeflow/xgboost-dist-iris:latest", ["--a"], ["python", "/opt/mlkube/main.py", "--a"]),
    ("docker.io/kubeflow/pytorch-dist-mnist", [], ["python", "/opt/mnist/src/mnist.py"]),
    ("nvcr.io/nvidia/pytorch:24.05", ["bash", "-c", "python t.py"], ["python", "t.py"]),
    ("x", ["/opt/run.sh", "a"], ["/opt/run.sh", "a"]),
]


@pytest.mark.parametrize(("image", "args", "command"), ENTRY_POINTS)
def test_entry_points_that_are_known(image: str, args: list[str], command: list[str]) -> None:
    """A public image's own, or one that runs its arguments; a note says so."""
    conversion = convert({"image": image, "args": args})
    assert command == conversion.values["command"][-len(command) :]
    assert [True] == ["entry point" in note for note in conversion.notes if image in note]


def test_a_script_among_args_is_an_entry_point_s_to_start() -> None:
    """Nobody can say whether python or torchrun starts it: an image's own program is no .py."""
    with pytest.raises(InputError, match="there is no command"):
        convert({"args": ["/app/train.py", "--epochs=1"]})


@pytest.mark.parametrize(
    "image",
    ["${IMAGE_URI}", "<account>.example/x", "{{ image }}", "", "V_IMAGE", "gcr.io/PROJECT_ID/x:1"],
)
def test_a_template_that_is_not_filled_in(image: str) -> None:
    """It is refused for what it is, and not for what it lacks."""
    with pytest.raises(InputError, match="is no name of an image"):
        convert({"image": image, "command": ["a"]})


def test_all_exit_codes_are_rows_and_no_page() -> None:
    """The file has the same values, in few lines."""
    command = {"command": ["torchrun", "t.py"], **GPUS}
    conversion = convert(command, None, Worker={"replicas": 2, "restartPolicy": "ExitCode"})
    text = service.values_file(conversion)
    assert conversion.values == load(text, "values").data
    assert 40 > len(text.splitlines())


@pytest.mark.parametrize(
    ("words", "is_wrapped"),
    [
        (["bash", "/fsx/train.sh", "--lr=1"], True),
        (["./train.sh"], True),
        (["bash", "-c", "echo a\npwd\nbash /fsx/train.sh \\\n"], True),
        (["bash", "-c", "for i in 1 2; do ./train.sh $i; done"], True),
        (["bash", "-c", "source /fsx/env.sh; for i in 1 2; do python t.py; done"], False),
        (["/fsx/train"], False),
        (["python", "train.py", "a.sh"], False),
    ],
)
def test_a_script_that_the_input_has_not_may_start_torchrun(
    words: list[str], is_wrapped: bool
) -> None:
    """A torchrun in it has the operator's variables, all devices, and a port of its own."""
    range_of_nodes = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4}}
    for spec in ({}, range_of_nodes):
        conversion = convert({"command": words, **GPUS}, spec)
        values = conversion.values
        assert (2, 1) == (values["nodes"], values["procsPerNode"])
        text = " ".join(values["command"])
        assert is_wrapped == ("PET_NPROC_PER_NODE=auto" in text)
        assert is_wrapped == any("runs is not in the input" in note for note in conversion.notes)
        assert (29501 if is_wrapped else None) == values["torchrun"].get("port")
        is_lost = any(path.startswith("spec.elasticPolicy") for path in lost(conversion))
        assert (is_wrapped and bool(spec)) == is_lost


def test_the_torchrun_of_the_resiliency_extension_is_a_torchrun() -> None:
    """It starts the processes of its pod itself, and meets at its own port."""
    words = ["bash", "-c", "RANK=0\nft_launcher --nnodes=2 --rdzv_endpoint=$HOST:29500 a.py\n"]
    values = convert({"command": words, **GPUS}).values
    assert "PET_NNODES" in values["command"][2]
    assert (1, 29501) == (values["procsPerNode"], values["torchrun"]["port"])


def test_what_a_torchrun_tells_its_processes_they_read_here_too() -> None:
    """Only what a shell in front of torchrun put in was the pod's number."""
    warning = "the command reads RANK, which was the pod's number there"
    for words, is_noted in (
        (["torchrun", "--no-python", "python3", "-c", "import os; os.environ['RANK']"], False),
        (["bash", "-c", "torchrun a.py --rank=$RANK"], True),
    ):
        notes = convert({"command": words, **GPUS}).notes
        assert is_noted == any(note.startswith(warning) for note in notes)


def test_a_script_of_a_configmap_that_starts_torchrun_is_run_once_in_each_pod() -> None:
    """Its torchrun is told what the old operator told it; a script that is one rank stays so."""
    text = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: scripts}
data:
  run.sh: |
    ARGS=(--nnodes $NODES)
    LINE
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {
  containers: [{name: pytorch, image: i, command: [bash, /s/run.sh], resources: {limits:
    {nvidia.com/gpu: 8}}, volumeMounts: [{name: s, mountPath: /s}]}],
  volumes: [{name: s, configMap: {name: scripts}}]}}}}}
"""
    lines = {
        'torchrun "${ARGS[@]}" a.py': True,
        "nsys profile torchrun a.py": True,
        "python a.py": False,
    }
    for line, is_wrapped in lines.items():
        conversion = converted.text_as_jobs(text.replace("LINE", line)).conversions[0]
        assert 1 == conversion.values["procsPerNode"]
        assert is_wrapped == ("PET_NNODES" in " ".join(conversion.values["command"]))
        assert is_wrapped == any("/s/run.sh of ConfigMap" in note for note in conversion.notes)
    own = text.replace("[bash, /s/run.sh]", "[bash, -c, 'date; pwd; echo $HOME; bash /s/run.sh']")
    conversion = converted.text_as_jobs(own.replace("LINE", "torchrun --rdzv-endpoint=$M:29500 a"))
    values = conversion.conversions[0].values
    assert ("PET_NNODES" in values["command"][2], 29501) == (True, values["torchrun"]["port"])
    job = text.partition("---")[0] + (
        "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {completions: 2, "
        "completionMode: Indexed, template: {spec: {containers: [{name: c, image: i, command: "
        "[bash, /s/run.sh], volumeMounts: [{name: s, mountPath: /s}]}], volumes: [{name: s, "
        "configMap: {name: scripts}}]}}}\n"
    )
    assert "starts torchrun itself" in converted.refusal(job.replace("LINE", "torchrun a")).message
    assert (
        "sweep"
        == (converted.text_as_jobs(job.replace("LINE", "./a")).conversions[0].values["workload"])
    )


def test_a_policy_that_is_not_there_restarted_for_ever() -> None:
    """That a pod has a number of tries now is said, where no other field says how many."""
    container = {"command": ["torchrun", "a.py"]}
    for spec, is_noted in (({}, True), ({"runPolicy": {"backoffLimit": 1}}, False)):
        notes = convert(container, spec).notes
        assert is_noted == any("restarted for ever" in note for note in notes)
    notes = convert(container, Worker={"restartPolicy": "OnFailure"}).notes
    assert not any("restarted for ever" in note for note in notes)


MEETING = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [
  {name: pytorch, image: i, command: [sh, -c, 'PROGRAM']}]}}}}}
"""


@pytest.mark.parametrize(
    ("program", "port"),
    [
        ("export MASTER_PORT=29500; python t.py", 29501),
        ("python t.py --dist-url tcp://$MASTER_ADDR:29500 --rank $RANK", 29501),
        ("MASTER_PORT=29500 python t.py --master-port 29501", 29502),
        ("python t.py --init_method=tcp://$MASTER_ADDR:23456", None),
        ("python t.py --dist-url tcp://$MASTER_ADDR:$MASTER_PORT", None),
        ("python t.py --log tcp://logs:29500", None),
        ("torchrun --master-port 29500 t.py", None),
    ],
)
def test_the_port_that_a_program_writes_out_is_left_to_its_ranks(
    program: str, port: int | None
) -> None:
    """Rank 0 opens a store there, where torchrun's own would be in its way."""
    conversion = converted.text_as_jobs(MEETING.replace("PROGRAM", program)).conversions[0]
    assert port == conversion.values["torchrun"].get("port")
    assert (port is None) == (not any("its ranks meet at port" in it for it in conversion.notes))


@pytest.mark.parametrize("host_network", [False, True])
def test_what_the_host_name_is_called_is_said(host_network: bool) -> None:
    """On the node's own network it is the node's name, here and there."""
    program = "python t.py --node ${HOSTNAME##*-}"
    text = MEETING.replace("PROGRAM", program)
    if host_network:
        text = text.replace("{spec: {containers", "{spec: {hostNetwork: true, containers")
    notes = converted.text_as_jobs(text).conversions[0].notes
    assert host_network == any("with network.hostNetwork that is the node's" in it for it in notes)
    assert host_network != any("a pod is called after the release" in it for it in notes)


def _with_config(data: str, source: str) -> Conversion:
    """A job whose torchrun takes its processes from what the container reads of a ConfigMap."""
    config = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {data}\n---\n"
    command = ["sh", "-c", "torchrun --nproc_per_node=${GPUS:-1} t.py"]
    container = {"command": command, "resources": {"limits": {"nvidia.com/gpu": 4}}}
    own = {"envFrom": [{"configMapRef": {"name": "c"}}]}
    if source == "env":
        key = {"configMapKeyRef": {"name": "c", "key": "GPUS"}}
        own = {"env": [{"name": "GPUS", "valueFrom": key}]}
    text = dump(job({**container, **own}))
    result = converted.text_as_jobs((config if data else "") + text)
    return result.conversions[0]


@pytest.mark.parametrize("source", ["envFrom", "env"])
def test_a_number_of_processes_that_a_config_map_says(source: str) -> None:
    """What the input has counts, and not the default; of what it lacks the number is not known."""
    assert 2 == _with_config("{GPUS: '2'}", source).values["procsPerNode"]
    if source == "envFrom":
        assert 1 == _with_config("{OTHER: '2'}", source).values["procsPerNode"]
    unknown = _with_config("", source)
    assert "procsPerNode" not in unknown.values
    assert any("is not known here" in note for note in unknown.notes)


@pytest.mark.parametrize("name", ["pytorch", "main"])
def test_a_job_that_its_operator_refuses_is_said(name: str) -> None:
    """It had no pods, whatever is said of them; of objects of other kinds nobody asks that."""
    text = json.dumps(job({"command": ["torchrun", "t.py"]})).replace('"pytorch"', f'"{name}"')
    notes = converted.text_as_jobs(text).conversions[0].notes
    assert (name == "main") == any("has no container named pytorch" in note for note in notes)


@pytest.mark.parametrize("replicas", [1, 2])
def test_pods_on_their_nodes_network_have_a_node_each(replicas: int) -> None:
    """Each opens the port of the rendezvous, which a node has once."""
    data = job({"command": ["torchrun", "t.py"]}, Worker={"replicas": replicas})
    data["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["hostNetwork"] = True
    notes = converted.text_as_jobs(json.dumps(data)).conversions[0].notes
    assert (replicas == 2) == any("each opens torchrun.port there" in note for note in notes)
