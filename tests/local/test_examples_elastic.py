"""The elastic examples of fixed size, run as their READMEs say, by the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import CommandLine, metrics, one_by_one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# An environment of a framework is built where this is the first test to ask for it.
pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

REPO = Path(__file__).parents[2]
EXAMPLES = REPO / "examples"


def activate(framework: str) -> tuple[str, str]:
    """The option that starts each pod in the environment of a framework."""
    words = [sys.executable, REPO / "tools/env.py", framework]
    folder = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return "--set", f"setup=. {folder}/bin/activate"


def run(command_line: CommandLine, name: str, *options: str, code: int = 0) -> list[dict[str, Any]]:
    """Run an example and give the JSON lines that its pods wrote."""
    values = EXAMPLES / f"elastic-{name}/values.yaml"
    return metrics(
        command_line("run", name, "-f", values, "--on", "local", *options, code=code).stdout
    )


def losses(lines: Sequence[dict[str, Any]], worker: int | None = None) -> list[float]:
    """The loss of each epoch, of one worker where several tell."""
    return [line["loss"] for line in lines if "loss" in line and line.get("worker") == worker]


def pods(command_line: CommandLine, name: str) -> dict[str, str]:
    """The phase of each pod of a run."""
    text = command_line("status", name, "--on", "local", "-o", "json").stdout
    return {pod["name"]: pod["phase"] for pod in json.loads(text)["pods"]}


def test_asynchronous_parameter_servers(command_line: CommandLine) -> None:
    """Two servers and two workers reach 90 %, no worker waits for another, and all end well."""
    lines = run(command_line, "ps")
    for worker in (0, 1):
        mine = losses(lines, worker)
        assert 12 == len(mine)
        assert mine[-1] < mine[0] / 2
    (final,) = [line for line in lines if "final" in line]
    assert final["accuracy"] >= 0.9
    assert (552, 2, 2) == (final["updates"], final["servers"], final["workers"])
    assert any(line["staleness"] > 0 for line in lines if "staleness" in line)
    names = ("ps-ps-0", "ps-ps-1", "ps-worker-0", "ps-worker-1")
    assert dict.fromkeys(names, "Succeeded") == pods(command_line, "ps")


def test_an_accuracy_that_is_too_low_fails_at_once(command_line: CommandLine) -> None:
    """The exit code of the worker that says so is the run's, and nothing is tried again."""
    run(command_line, "ps", "--set-literal", "args[1]=1", code=3)
    lines = metrics(command_line("logs", "ps", "--on", "local").stdout)
    assert 1 == len([line for line in lines if "final" in line])


@pytest.fixture
def one_core() -> Iterator[None]:
    """What the test starts has a single core, as a pod of Kubernetes' static CPU policy may."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)


@one_by_one
@pytest.mark.usefixtures("one_core")
def test_tensorflows_parameter_servers(command_line: CommandLine) -> None:
    """Workers and servers that never end by themselves end with the chief, and end well.

    On one core as well, where TensorFlow has one thread by default for what waits for another.
    """
    lines = run(command_line, "tf", *activate("tensorflow"))
    assert 10 == len(losses(lines))
    assert losses(lines)[-1] < losses(lines)[0] / 2
    final = lines[-1]
    assert (True, 2, 1) == (final["final"], final["workers"], final["servers"])
    assert final["accuracy"] >= 0.9
    names = ("tf-chief-0", "tf-ps-0", "tf-worker-0", "tf-worker-1")
    assert dict.fromkeys(names, "Succeeded") == pods(command_line, "tf")


@one_by_one
def test_tensorflow_with_a_master(command_line: CommandLine) -> None:
    """The chief is told of the workers that its master has asked for; its end is the job's."""
    lines = run(command_line, "tf", *activate("tensorflow"), "--set", "elastic.mode=auto")
    (final,) = [line for line in lines if "final" in line]
    assert (2, 1) == (final["workers"], final["servers"])
    assert final["accuracy"] >= 0.9
    phases = pods(command_line, "tf")
    assert "Succeeded" == phases["tf-edljob-chief-0"]


def test_mxnets_parameter_server(command_line: CommandLine) -> None:
    """Scheduler and server end by themselves when both workers are done."""
    lines = run(command_line, "mxnet", *activate("mxnet"))
    assert 20 == len(losses(lines))
    assert losses(lines)[-1] < losses(lines)[0] / 2
    final = lines[-1]
    assert (True, 2) == (final["final"], final["workers"])
    assert final["accuracy"] >= 0.9
    names = ("mxnet-scheduler-0", "mxnet-server-0", "mxnet-worker-0", "mxnet-worker-1")
    assert dict.fromkeys(names, "Succeeded") == pods(command_line, "mxnet")
