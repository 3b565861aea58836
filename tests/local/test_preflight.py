"""A preflight in real gangs: the chart's launchers, with store, gloo and torchrun's agents."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from allranks import names
from allranks.local.host import addresses
from allranks.model.rank_lines import SINGLE_WRITER
from allranks.timeline import log_marks

from . import launchers
from .conftest import CommandLine, port_base, status_of_failed_run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


def test_gangs(tmp_path: Path) -> None:
    """A node that is fit trains; one that is not is named by all pods, and nothing trains with it.

    A pod that never comes is named as well, and may be tried again; so may all where a pod was lost
    meanwhile, whose node is not at fault. A pod that comes to a training that goes on already does
    not wait for a preflight.
    """
    words = [sys.executable, launchers.__file__, str(tmp_path)]
    result = subprocess.run(words, stdout=subprocess.PIPE, check=True, timeout=240)
    codes = json.loads(result.stdout)
    logs = {
        path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.glob("*/log.*")
    }
    assert {"0": 0, "1": 0, "2": 0} == codes["healthy"], logs
    trained = "".join(logs[f"healthy/log.{node}"] for node in range(3))
    assert all(f"trained as {rank} of 3" in trained for rank in range(3))
    (line,) = [
        line for line in logs["healthy/log.1"].splitlines() if line.startswith(names.PREFLIGHT_LINE)
    ]
    report = json.loads(line.removeprefix(names.PREFLIGHT_LINE))
    assert (True, "b1", {"0", "2"}) == (report["passed"], report["node"], set(report["pairs"]))
    (moment,) = log_marks.read([line], SINGLE_WRITER, "big-1", stamped=False).moments
    assert ("preflight", True) == (moment.name, moment.detail.startswith("passed in "))

    assert dict.fromkeys("012", names.EXIT_PREFLIGHT) == codes["limited"], logs
    assert "trained" not in "".join(logs[f"limited/log.{node}"] for node in range(3))
    sentence = (
        "preflight: node b2 (pod big-2): "
        "free /dev/shm 0 MiB, at least 1 (torchrun.preflight.shmMiB), "
        "free disk 0 MiB, at least 1 (torchrun.preflight.diskMiB)\n"
        "keep the job off it: scheduling.avoidNodes: [b2]"
    )
    messages = [(tmp_path / f"limited/message.{node}").read_text() for node in range(3)]
    first = f"failed first: rank 2 in pod big-2 ended with exit code {names.EXIT_PREFLIGHT}\n"
    assert [first + sentence, first + sentence, sentence] == messages

    assert {"0": 1} == codes["absent"], logs
    absent = (tmp_path / "absent/message.0").read_text()
    assert absent == "preflight: pod big-1: did not come within 3 s"

    assert dict.fromkeys("012", 1) == codes["replaced"], logs
    replaced = (tmp_path / "replaced/message.0").read_text()
    assert replaced == "preflight: node b1 (pod big-1): was lost meanwhile, and came again"

    assert "no preflight: the training goes on already" in logs["training/log.1"]


def test_a_run_of_this_machine_is_not_sent_to_another_node(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """Its status names what this machine lacks, and no command that is for a cluster.

    Its timeline has the preflight, too.
    """
    values = {
        "workload": "torchrun",
        "command": ["true"],
        "nodes": 1,
        "runPolicy": {"backoffLimit": 0},
        "torchrun": {
            "port": addresses.free_port(port_base() + 420),
            "preflight": {"level": "quick", "diskMiB": 1_000_000_000},
        },
    }
    status = status_of_failed_run(command_line, tmp_path, values, names.EXIT_PREFLIGHT)
    assert "PreflightFailed" == status["failure"]["reason"]
    output = command_line("status", "ex", "--on", "local").stdout
    assert "at least 1000000000 (torchrun.preflight.diskMiB)" in output
    assert "this machine is the only node of the run" in output
    assert "avoid" not in output
    moments = command_line("timeline", "ex", "--on", "local").stdout.splitlines()
    assert [True] == ["failed in " in line for line in moments if " preflight " in line]
