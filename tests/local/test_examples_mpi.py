"""The MPI examples, run as their READMEs say, by the real command line with real mpirun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allranks.local.host import addresses, namespaces

from .conftest import CommandLine, metrics, one_by_one, port_base

pytestmark = [pytest.mark.local, pytest.mark.timeout(600), one_by_one]

EXAMPLES = Path(__file__).parents[2] / "examples"
PI = EXAMPLES / "mpi-pi/values.yaml"
DDP = EXAMPLES / "mpi-ddp/values.yaml"


def test_pi(command_line: CommandLine) -> None:
    """Two hosts with two ranks each are exact to 1e-6; what no rank can reach is exit code 3."""
    (result,) = metrics(command_line("run", "pi", "-f", PI, "--on", "local").stdout)
    assert abs(result["pi"] - 3.141592653589793) < 1e-6
    status = json.loads(command_line("status", "pi", "--on", "local", "-o", "json").stdout)
    assert ("Succeeded", 0, "mpi") == (status["phase"], status["exitCode"], status["workload"])
    assert ["launcher", "worker", "worker"] == [pod["role"] for pod in status["pods"]]
    assert ["Succeeded"] * 3 == [pod["phase"] for pod in status["pods"]]
    # Without root and ssh, ranks see this machine's name, and each pod has as many (local.md).
    direct = any("ranks are started without" in note for note in status["notes"])
    shared = namespaces.way() is not namespaces.IsolationMethod.ROOT and direct
    assert (4, 1 if shared else 2) == (result["ranks"], result["hosts"])

    ranks = 4 if shared else 3
    less = ("--set", f"mpi.np={ranks}", "--set-literal", "args[3]=0", "--replace")
    process = command_line("run", "pi", "-f", PI, "--on", "local", *less, code=3)
    assert ranks == metrics(process.stdout)[0]["ranks"]
    assert "exit code 3" in process.stdout
    command_line("delete", "pi", "--on", "local")
    command_line("status", "pi", "--on", "local", code=2)


def test_digits_under_mpirun_train_and_resume(command_line: CommandLine, tmp_path: Path) -> None:
    """Ranks that mpirun started reach 95 %, save each epoch, and go on from what was saved."""
    port = ("--set-literal", f"args[6]=--master-port={addresses.free_port(port_base() + 700)}")
    words = ("run", "ddp", "-f", DDP, "--on", "local", *port)
    short = ("--set-literal", "args[1]=1", "--set-literal", "args[5]=0")
    first = metrics(command_line(*words, *short).stdout)
    assert [1] == [line["epoch"] for line in first if "loss" in line]

    second = metrics(command_line(*words, "--set-literal", "args[1]=18", "--replace").stdout)
    assert {"resumed": True, "epoch": 1, "epochs": 18} == second[0]
    final = second[-1]
    assert (True, 4, "gloo") == (final["final"], final["world_size"], final["backend"])
    assert final["accuracy"] >= 0.95

    deleted = command_line("delete", "ddp", "--on", "local").stdout
    assert "kept PersistentVolumeClaim/ddp-checkpoints" in deleted
    (checkpoint,) = tmp_path.rglob("checkpoint.pt")
    assert "volumes" in checkpoint.parts
