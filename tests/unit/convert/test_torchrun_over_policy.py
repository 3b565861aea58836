"""What a command's own torchrun is told wins over what its job says, as PET_* lose to options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert import original
from allranks.convert.documents.context import Context
from allranks.convert.kinds import pytorch
from allranks.convert.programs import commands
from allranks.convert.reports import compare

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion


def _convert(flags: list[str], policy: dict[str, Any] | None) -> Conversion:
    return pytorch.convert(_job(flags, policy), Context())


def _job(flags: list[str], policy: dict[str, Any] | None) -> Any:
    gpus = {"limits": {"nvidia.com/gpu": 4}}
    container = {"name": "pytorch", "image": "x:1", "resources": gpus}
    worker = {
        "replicas": 4,
        "template": {
            "spec": {"containers": [container | {"command": ["torchrun", *flags, "a.py"]}]}
        },
    }
    spec = {"pytorchReplicaSpecs": {"Worker": worker}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "f"},
        "spec": spec | ({} if policy is None else {"elasticPolicy": policy}),
    }


def _whys(conversion: Conversion) -> dict[str, str]:
    paths = "spec.elasticPolicy."
    return {
        verdict.path.removeprefix(paths): verdict.why
        for verdict in conversion.verdicts
        if verdict.path.startswith(paths)
    }


_WINS = "the command's --nnodes wins"
RANGES = [
    ("3:4", (1, 4), {"minNodes": 3, "maxNodes": 4}, {"minReplicas": _WINS, "maxReplicas": ""}),
    ("1:3", (1, 8), {"minNodes": 1, "maxNodes": 3}, {"minReplicas": "", "maxReplicas": _WINS}),
    ("3:5", (2, 4), {"minNodes": 3, "maxNodes": 4}, {"minReplicas": _WINS, "maxReplicas": ""}),
    ("4:5", (2, 4), None, {"minReplicas": _WINS, "maxReplicas": ""}),
    ("2:4", None, {"minNodes": 2, "maxNodes": 4}, {}),
]


@pytest.mark.parametrize(("nnodes", "policy", "elastic", "whys"), RANGES)
def test_a_range_of_nodes_in_the_command_wins(
    nnodes: str,
    policy: tuple[int, int] | None,
    elastic: dict[str, int] | None,
    whys: dict[str, str],
) -> None:
    """It is the run's, up to the pods that there are; the object's own is said to lose."""
    ends = (
        None if policy is None else dict(zip(("minReplicas", "maxReplicas"), policy, strict=True))
    )
    conversion = _convert([f"--nnodes={nnodes}"], ends)
    assert (elastic, whys) == (conversion.values["torchrun"].get("elastic"), _whys(conversion))
    is_larger = int(nnodes[-1]) > max(4, (policy or (0, 4))[1])
    assert is_larger == any("pods at most, as here" in note for note in conversion.notes)


def test_the_ranks_of_a_range_are_compared_up_to_the_pods_that_there_were() -> None:
    """`--nnodes=3:5` of four pods trains with four."""
    pods = original.pods(_job(["--nnodes=3:5"], {"minReplicas": 2, "maxReplicas": 4})) or []
    assert not list(compare._ranks("node", [pods], {}, 16))
    assert list(compare._ranks("node", [pods], {}, 20))


def test_settings_of_the_rendezvous_in_the_command_replace_those_of_the_job() -> None:
    """Torchrun reads PET_RDZV_CONF only without --rdzv-conf, and merges nothing."""
    policy = {
        "minReplicas": 2,
        "maxReplicas": 4,
        "rdzvBackend": "c10d",
        "rdzvConf": [{"key": "timeout", "value": "900"}],
    }
    conversion = _convert(["--rdzv_conf=join_timeout=1200"], policy)
    assert conversion.values["torchrun"]["rdzvConf"] == {"join_timeout": "1200"}
    assert "the command's --rdzv-conf wins" in _whys(conversion).values()
    conversion = _convert(["--rdzv_conf=is_host=1"], policy)
    assert not conversion.values["torchrun"].get("rdzvConf")
    assert any("is_host of --rdzv-conf is left out" in item.why for item in conversion.verdicts)
    conversion = _convert(["--rdzv_conf=$PET_RDZV_CONF"], policy)
    assert conversion.values["torchrun"]["rdzvConf"] == {"timeout": "900"}


def test_a_backend_and_an_endpoint_in_the_command_win() -> None:
    """They are options like the others, and PET_RDZV_BACKEND is read only without them."""
    policy = {"minReplicas": 2, "maxReplicas": 4, "rdzvBackend": "etcd-v2", "rdzvHost": "old"}
    flags = ["--rdzv-backend=etcd", "--rdzv-endpoint=new:1"]
    conversion = _convert(flags, policy)
    values = conversion.values["torchrun"]
    assert ("etcd", "new:1") == (values["rdzvBackend"], values["rdzvEndpoint"])
    assert _whys(conversion)["rdzvHost"] == "the command's --rdzv-endpoint wins"
    flags = ["--rdzv-backend=$PET_RDZV_BACKEND", "--rdzv-endpoint=$PET_RDZV_ENDPOINT"]
    values = _convert(flags, policy).values["torchrun"]
    assert ("etcd-v2", "old:23456") == (values["rdzvBackend"], values["rdzvEndpoint"])


OMISSIONS = [
    (["torchrun", "--local-addr=1.2.3.4", "a.py"], "--local-addr is left out"),
    (["tini", "--", "torchrun", "a.py"], "tini is left out"),
    (["tini", "-g", "--", "bash", "-c", "torchrun a.py"], "tini is left out"),
    (["sh", "-c", "exec dumb-init torchrun a.py"], "dumb-init is left out"),
    (["torchrun", "--run-path", "a.py"], "--run-path is left out: it wants an absolute path"),
]


@pytest.mark.parametrize(("words", "why"), OMISSIONS)
def test_what_goes_with_torchrun_is_named(words: list[str], why: str) -> None:
    """That torchrun is the chart's says nothing of an address, or of an init."""
    program = commands.read(words)
    assert program.command == ("python3", "-u", "a.py")
    assert any(change.startswith(why) for change in program.changes)


def test_a_script_that_torchrun_runs_in_its_own_interpreter_has_an_absolute_path() -> None:
    """--run-path is a flag, and no value stands behind it."""
    program = commands.read(["torchrun", "--run-path", "/w/a.py", "--x"])
    assert (("/w/a.py", "--x"), True) == (program.command, program.values["runPath"])
