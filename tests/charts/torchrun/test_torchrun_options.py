"""Every option of torchrun, as torchrun's own parser reads it from the pod's environment."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from torch.distributed.run import get_args_parser

if TYPE_CHECKING:
    from pathlib import Path

Render = Callable[..., dict[str, Any]]
Env = Callable[[dict[str, Any]], dict[str, Any]]

# Options of torchrun that the chart has no value for, and why.
_NO_VALUE = {
    "help": "prints and ends",
    "print_completion": "prints and ends",
    "node_rank": "each pod's own",
    "master_addr": "rank 0",
    "no_python": "follows from command and script",
    "standalone": "follows from the size",
    "training_script": "command",
    "training_script_args": "args",
}


def parsed(env: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """What torchrun makes of the environment."""
    for name, value in env.items():
        if name.startswith("PET_") and isinstance(value, str):
            monkeypatch.setenv(name, value.replace("$$", "$"))
    return get_args_parser().parse_args(["--", "train.py", "--", "-x"])


def test_every_option_is_read(render: Render, env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value of `torchrun:` arrives in the option of the same name."""
    options = {
        "rdzvBackend": "etcd-v2",
        "rdzvEndpoint": "etcd.infra:2379",
        "rdzvId": "my-run",
        "maxRestarts": 5,
        "runPath": True,
        "monitorInterval": 0.5,
        "shutdownTimeout": 60,
        "startMethod": "forkserver",
        "role": "trainer",
        "logDir": "/logs",
        "redirects": "3",
        "tee": "0:3,1:1",
        "logLinePrefixTemplate": "[${hostname}:$$${rank}]: ",
        "localRanksFilter": "0,1",
        "localAddr": "10.0.0.1",
        "eventLogHandler": "console",
        "signalsToHandle": "SIGTERM,SIGUSR1",
        "virtualLocalRank": True,
    }
    lists = {"duplicateStdoutFilters": "a,b", "duplicateStderrFilters": "c,,d"}
    conf = {"rdzvConf": {"join_timeout": "900", "protocol": "https"}}
    manifests = render(command=["/x"], nodes=3, procsPerNode=2, torchrun=options | lists | conf)
    args = parsed(env(manifests), monkeypatch)
    for key, value in options.items():
        assert value == getattr(args, re.sub("([A-Z])", r"_\1", key).lower()), key
    assert ["a", "b"] == args.duplicate_stdout_filters
    assert ["c,d"] == args.duplicate_stderr_filters
    assert args.rdzv_conf == "join_timeout=900,protocol=https"
    assert (args.nnodes, args.nproc_per_node) == ("3", "2")


def test_every_option_of_torchrun_has_a_value(torchrun: Path) -> None:
    """Each option of torchrun is in values.yaml, or has a reason not to be."""
    text = (torchrun / "values.yaml").read_text()
    keys = set(re.findall(r"^  (\w+):", text.partition("\ntorchrun:")[2], re.MULTILINE))
    flags = {re.sub("([A-Z])", r"_\1", key).lower() for key in keys}
    flags |= {"nnodes", "nproc_per_node", "master_port"}  # nodes, procsPerNode, port
    options = {action.dest for action in get_args_parser()._actions}
    assert not options - flags - set(_NO_VALUE)
    launcher = (torchrun / "files/launch.py").read_text()
    for option in ("logs-specs", "numa-binding"):
        assert option in launcher, "torchrun reads it from no variable, so the launcher passes it"


def test_nothing_is_said_for_torchrun_by_default(render: Render, env: Env) -> None:
    """What is not set is left to torchrun's own defaults."""
    assert {
        "PYTHONUNBUFFERED",
        "ALLRANKS_GRACE_SECONDS",
        "ALLRANKS_PROGRESS",
        "ALLRANKS_NODE_RANK",
        "ALLRANKS_TERMINATION_LOG",
        "PET_NNODES",
        "PET_NPROC_PER_NODE",
        "PET_MAX_RESTARTS",
        "PET_NO_PYTHON",
        "PET_STANDALONE",
    } == set(env(render(trackers={"mode": "none"})))


def test_trackers_are_told_the_run_and_the_users_own_variables_win(
    render: Render, env: Env, pod: Any
) -> None:
    """Attempts of a Job have its uid, other pods a name of the release; env is never lost."""

    def tracker_variables(**values: Any) -> dict[str, Any]:
        names = ("WANDB_", "MLFLOW_", "ALLRANKS_RUN_UID")
        return {key: text for key, text in env(render(**values)).items() if key.startswith(names)}

    variables = pod(render())["spec"]["containers"][0]["env"]
    (uid,) = (item["valueFrom"] for item in variables if item["name"] == "ALLRANKS_RUN_UID")
    path = "metadata.labels['batch.kubernetes.io/controller-uid']"
    assert path == uid["fieldRef"]["fieldPath"]
    assert "$(ALLRANKS_RUN_UID)" == tracker_variables()["WANDB_RUN_ID"]
    assert "allow" == tracker_variables()["WANDB_RESUME"]
    own = tracker_variables(env={"WANDB_RUN_ID": "mine", "MLFLOW_RUN_NAME": "other"})
    assert ("mine", "other") == (own["WANDB_RUN_ID"], own["MLFLOW_RUN_NAME"])
    assert "WANDB_RESUME" not in own
    assert "seven" == tracker_variables(trackers={"id": "seven"})["WANDB_RUN_ID"]
    assert {"WANDB_RUN_GROUP", "WANDB_NAME", "MLFLOW_RUN_NAME"} == set(
        tracker_variables(trackers={"mode": "names"})
    )
    in_set = tracker_variables(torchrun={"controller": "StatefulSet"})["WANDB_RUN_ID"]
    assert in_set.rpartition("-")[0]
    assert "$" not in in_set


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({"command": ["x"]}, {"PET_NO_PYTHON"}),
        ({"script": "print(1)"}, set()),
        ({"script": "#!/bin/sh\nid"}, {"PET_NO_PYTHON"}),
        ({"torchrun": {"module": True}}, {"PET_MODULE"}),
        ({"command": ["/x"], "torchrun": {"runPath": True}}, {"PET_RUN_PATH"}),
        ({"torchrun": {"virtualLocalRank": True}}, {"PET_NO_PYTHON", "PET_VIRTUAL_LOCAL_RANK"}),
    ],
)
def test_flags(
    values: dict[str, Any],
    flags: set[str],
    render: Render,
    env: Env,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Python is put in front only of a Python script; flags are 1 or absent."""
    variables = env(render(**values))
    every = {"PET_NO_PYTHON", "PET_MODULE", "PET_RUN_PATH", "PET_VIRTUAL_LOCAL_RANK"}
    assert flags == every & set(variables)
    assert {"1"} >= {variables[flag] for flag in flags}
    args = parsed(variables, monkeypatch)
    assert ("PET_NO_PYTHON" in flags) == args.no_python


def test_c10d_meets_at_rank_zero(render: Render, env: Env) -> None:
    """Nodes meet at the name of rank 0, under the release's name as the id."""
    variables = env(render(nodes=2, torchrun={"port": 29400}))
    assert {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": "demo-0.demo:29400",
        "PET_RDZV_ID": "demo",
        "ALLRANKS_RANK0_HOST": "demo-0.demo",
        "ALLRANKS_RANK0_PORT": "29400",
        "ALLRANKS_WAIT_SECONDS": "300",
    }.items() <= variables.items()
    assert {
        "fieldRef": {
            "fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        }
    } == variables["ALLRANKS_NODE_RANK"]


def test_c10d_of_a_statefulset_meets_behind_the_service(render: Render, env: Env) -> None:
    """The store is behind the ClusterIP; the ranks' own is on the pod, on ports of its own."""
    variables = env(render(nodes=2, torchrun={"controller": "StatefulSet"}))
    assert variables["PET_RDZV_ENDPOINT"] == "demo-master:29500"
    assert variables["ALLRANKS_RANK0_HOST"] == "demo-0.demo"


@pytest.mark.parametrize(
    ("controller", "host"), [("Job", "demo-0.demo"), ("StatefulSet", "demo-master")]
)
def test_static(controller: str, host: str, render: Render, env: Env) -> None:
    """Static ranks know the master's address; no process restarts apart from the others."""
    manifests = render(nodes=2, torchrun={"rdzvBackend": "static", "controller": controller})
    variables = env(manifests)
    assert {
        "PET_RDZV_BACKEND": "static",
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": "29500",
        "PET_MAX_RESTARTS": "0",
        "ALLRANKS_RANK0_HOST": host,
    }.items() <= variables.items()
    assert variables["ALLRANKS_NODE_RANK"] == variables["PET_NODE_RANK"]
    assert "PET_RDZV_ENDPOINT" not in variables


def test_etcd(render: Render, env: Env) -> None:
    """With an etcd no pod is waited for, nodes tell their addresses, each revision has its id."""
    variables = env(
        render(nodes=2, torchrun={"rdzvBackend": "etcd", "rdzvEndpoint": "etcd.infra:2379"})
    )
    assert {
        "PET_RDZV_BACKEND": "etcd",
        "PET_RDZV_ENDPOINT": "etcd.infra:2379",
        "PET_RDZV_ID": "demo-1",
    }.items() <= variables.items()
    assert {"fieldRef": {"fieldPath": "status.podIP"}} == variables["PET_LOCAL_ADDR"]
    assert "ALLRANKS_RANK0_HOST" not in variables


def test_elastic(render: Render, env: Env) -> None:
    """A range of nodes, and a Job that is over when rank 0 is."""
    manifests = render(torchrun={"elastic": {"minNodes": 2, "maxNodes": 4}})
    assert env(manifests)["PET_NNODES"] == "2:4"
    spec = manifests["Job/demo"]["spec"]
    assert (4, 4) == (spec["completions"], spec["parallelism"])
    assert {"rules": [{"succeededIndexes": "0"}]} == spec["successPolicy"]


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ({"nodes": 2}, True),
        ({"nodes": 2, "torchrun": {"rdzvBackend": "c10d"}}, True),
        ({"nodes": 1}, False),
        ({"nodes": 2, "torchrun": {"rdzvBackend": "static"}}, False),
        ({"nodes": 2, "torchrun": {"rdzvBackend": "etcd", "rdzvEndpoint": "a:1"}}, False),
    ],
)
def test_c10d_ends_with_rank_zero(values: dict[str, Any], ends: bool, render: Render) -> None:
    """A rank that aborts in torch's teardown, when rank 0 is done, is not started again."""
    spec = render(**values)["Job/demo"]["spec"]
    policy = {"rules": [{"succeededIndexes": "0"}]} if ends else None
    assert policy == spec.get("successPolicy")


def test_fatal_codes_reach_the_launcher(render: Render, env: Env) -> None:
    """The launcher does not restart what the Job would fail at once."""
    assert env(render(runPolicy={"fatalExitCodes": [42, 3]}))["ALLRANKS_FATAL_EXIT_CODES"] == "3,42"


def test_options_without_a_variable(render: Render, env: Env) -> None:
    """Two options torchrun reads from no variable: the launcher is told to pass them."""
    variables = env(render(torchrun={"logsSpecs": "mine", "numaBinding": "node"}))
    assert (variables["ALLRANKS_LOGS_SPECS"], variables["ALLRANKS_NUMA_BINDING"]) == (
        "mine",
        "node",
    )


def test_user_env_comes_last(render: Render, pod: Callable[..., Any]) -> None:
    """The user's variables follow ours, sorted; PYTHONUNBUFFERED is theirs where they set it."""
    manifests = render(
        env={"Z": "1", "A": {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}}
    )
    names = [variable["name"] for variable in pod(manifests)["spec"]["containers"][0]["env"]]
    assert ["A", "Z"] == names[-2:]
    assert "PYTHONUNBUFFERED" in names
    theirs = [
        variable
        for variable in pod(render(env={"PYTHONUNBUFFERED": "0"}))["spec"]["containers"][0]["env"]
        if variable["name"] == "PYTHONUNBUFFERED"
    ]
    assert [{"name": "PYTHONUNBUFFERED", "value": "0"}] == theirs


@pytest.mark.parametrize(("fatal", "codes"), [([13], [137, 220]), ([13, 137], [220])])
def test_a_killed_container_starts_again_unless_that_is_fatal(
    render: Render,
    pod: Callable[[dict[str, Any]], dict[str, Any]],
    fatal: list[int],
    codes: list[int],
) -> None:
    """The rule names the launcher's own code, and that of a container which the kernel killed."""
    manifests = render(torchrun={"restartsInPlace": 2}, runPolicy={"fatalExitCodes": fatal})
    spec = pod(manifests)["spec"]
    (container,) = spec["containers"]
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": codes}}
    assert [rule] == container["restartPolicyRules"]
    assert "Never" == container["restartPolicy"] == spec["restartPolicy"]
