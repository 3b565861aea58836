"""Runs on this machine whose pods have a workspace, by the chart's own manifests and ConfigMaps."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.model.status import Phase
from allranks.yamlio.load import load_all
from tests import workspaces

from .conftest import container, job, port_base

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Machine, Outcome

    Chart = Callable[..., list[dict[str, Any]]]

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Each rank says what it found beside itself.
_TRAIN = """
import os, sys
import model
here = os.path.dirname(os.path.abspath(__file__))
rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or "?"
same = os.path.samefile(here, os.getcwd())
sys.stdout.write(f"rank {rank} has {model.NAME} here {same} {sys.argv[1:]}\\n")
sys.stdout.flush()
"""
# Imports only when it is told to.
_LATE = """
import pathlib, time
print("up", flush=True)
while not pathlib.Path("{mark}").exists():
    time.sleep(0.01)
import model
print("late", model.NAME, flush=True)
"""
_FILES = {
    "train.py": _TRAIN,
    "model.py": "NAME = 'sent'\n",
    "bin/hello.sh": "#!/bin/sh\necho hello",
}


def _sent(**files: str) -> workspaces.Sent:
    data = workspaces.pack({**_FILES, **files}, [workspaces.folder("empty")])
    return workspaces.Sent(data)


@pytest.fixture
def chart(helm4: Any, repo: Path) -> Chart:
    """The manifests of a chart for a job with a workspace, and the workspace's own."""

    def render(workload: str, sent: workspaces.Sent, **values: Any) -> list[dict[str, Any]]:
        workspace = sent.values(**values.pop("snapshot", {}))["workspace"]
        settings = {
            "image": {"repository": "any"},
            "command": ["python", "train.py"],
            "runPolicy": {"backoffLimit": 0},
            "workspace": workspace | values.pop("workspace", {}),
            **values,
        }
        text = helm4.render(repo / "charts" / workload, "-n", "lab", values=settings, name="run")
        return [*load_all(text), *sent.manifests()]

    return render


def _rank_lines(outcome: Outcome) -> list[str]:
    return sorted(text for text in outcome.texts if text.startswith("rank "))


@pytest.mark.usefixtures("warm_ranks")
def test_torchrun_trains_what_was_sent(machine: Machine, chart: Chart) -> None:
    """Every node has a copy, and starts in it and not in the folder of the values."""
    (machine.workdir / "train.py").write_text("raise SystemExit('the wrong one')")
    port = local_runs.free_port(port_base())
    manifests = chart(
        "torchrun",
        _sent(),
        nodes=2,
        args=["/app/empty"],
        torchrun={"port": port},
        setup="cat model.py && ls -d /app/empty >/dev/null",
    )
    outcome = machine.run(*manifests)
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)
    words = [line.rsplit(" ", 1) for line in _rank_lines(outcome)]
    assert ["rank 0 has sent here True", "rank 1 has sent here True"] == [line for line, _ in words]
    assert all(folder.endswith("/code/empty']") for _, folder in words)
    assert outcome.texts.count("NAME = 'sent'") == 2


def test_a_change_of_the_folder_changes_nothing(machine: Machine, chart: Chart) -> None:
    """What is imported late is what was sent, whatever is edited meanwhile."""
    mark = machine.workdir / "go"
    source = machine.workdir / "model.py"
    source.write_text("NAME = 'sent'")
    sent = _sent(**{"late.py": _LATE.format(mark=mark)})
    handle = machine.start(
        *chart("elastic", sent, command=["python", "late.py"], elastic={"framework": "pytorch"})
    )
    machine.line("up")
    source.write_text("NAME = 'edited'")
    mark.touch()
    lines = [line.text for line in handle.follow()]
    assert "late sent" in lines
    assert handle.wait().phase is Phase.SUCCEEDED


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_mpi_ranks_start_in_the_workspace(machine: Machine, chart: Chart, transport: str) -> None:
    """Ranks that the launcher starts on other hosts find the code, and are in it."""
    manifests = chart(
        "mpi",
        _sent(),
        procsPerNode=2,
        command=[sys.executable, "train.py"],
        network={"waitSeconds": 60},
        mpi={"numWorkers": 2, "transport": transport},
    )
    outcome = machine.run(*manifests)
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code), outcome.texts
    expected = [f"rank {rank} has sent here True []" for rank in range(4)]
    assert expected == _rank_lines(outcome)


def test_every_role_of_an_elastic_job_has_it(machine: Machine, chart: Chart) -> None:
    """Parameter servers and workers each unpack their own."""
    manifests = chart(
        "elastic",
        _sent(),
        command=["bin/hello.sh"],
        elastic={
            "framework": "tensorflow",
            "roles": {"worker": {"replicas": 2}, "ps": {"replicas": 1}},
        },
    )
    outcome = machine.run(*manifests)
    hello = [line.pod for line in outcome.lines if line.text == "hello"]
    assert {"run-worker-0", "run-worker-1", "run-ps-0"} >= set(hello) >= {"run-worker-0"}
    assert Phase.SUCCEEDED == outcome.status.phase


def test_trials_of_a_sweep_have_it(machine: Machine, chart: Chart) -> None:
    """Each trial starts in a copy of its own."""
    manifests = chart(
        "sweep",
        _sent(),
        sweep={"parameters": {"lr": {"values": ["1", "2"], "arg": "--lr"}}},
    )
    outcome = machine.run(*manifests)
    expected = [f"rank ? has sent here True ['--lr', '{lr}']" for lr in "12"]
    assert expected == _rank_lines(outcome)


def test_a_working_folder_inside(machine: Machine, chart: Chart) -> None:
    """The workingDir may be a folder of the workspace, which is there only when it is unpacked."""
    manifests = chart(
        "elastic",
        _sent(),
        workingDir="/app/bin",
        command=["./hello.sh"],
        elastic={"framework": "pytorch"},
    )
    assert "hello" in machine.run(*manifests).texts


def test_a_working_folder_elsewhere(machine: Machine, chart: Chart) -> None:
    """A workingDir elsewhere holds, and the workspace is at its place all the same."""
    (machine.workdir / "there").mkdir()
    manifests = chart(
        "elastic",
        _sent(),
        workingDir=str(machine.workdir / "there"),
        command=["sh", "-c", "pwd; exec /app/bin/hello.sh"],
        elastic={"framework": "pytorch"},
    )
    outcome = machine.run(*manifests)
    assert {"hello", str(machine.workdir / "there")} <= set(outcome.texts)


def test_a_broken_archive_ends_the_run_at_once(machine: Machine, chart: Chart) -> None:
    """No retry is spent on a workspace that is not what was sent; why is the pod's last word."""
    sent = _sent()
    manifests = chart(
        "elastic",
        workspaces.Sent(sent.data[:-1]),
        snapshot={"archiveDigest": sent.digest},
        runPolicy={"backoffLimit": 3},
        elastic={"framework": "pytorch"},
    )
    outcome = machine.run(*manifests, backoff_scale=0.0)
    assert (Phase.FAILED, names.EXIT_WORKSPACE) == (
        outcome.status.phase,
        outcome.status.exit_code,
    )
    failure = outcome.status.failure
    assert failure is not None
    assert "is not what was sent" in failure.message
    assert sum("error: the workspace" in text for text in outcome.texts) == 1


def test_a_container_that_starts_again_keeps_its_copy(machine: Machine, chart: Chart) -> None:
    """A StatefulSet's container finds the marker, and what it has written."""
    script = "test -e tried && echo again && exec sleep 1000; touch tried; exit 3"
    manifests = chart(
        "torchrun",
        _sent(**{"run.sh": script}),
        setup="sh run.sh",
        torchrun={"controller": "StatefulSet", "port": local_runs.free_port(port_base())},
    )
    machine.start(*manifests)
    machine.line("again")
    unpacked = [log.text for log in local_runs.logs("run", "lab") if "unpacked" in log.text]
    assert len(unpacked) == 1
    local_runs.stop("run", "lab")


def test_binary_files_of_a_configmap_stay_as_they_are(machine: Machine) -> None:
    """Text that is given as binaryData is not searched for names and paths of this machine."""
    pod = {
        "volumes": [
            {"name": "given", "projected": {"sources": [{"configMap": {"name": "files"}}]}},
        ]
    }
    mounts = [{"name": "given", "mountPath": "/given"}]
    files = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "files"},
        "data": {"text": "/given"},
        "binaryData": {"binary": "L2dpdmVu"},
    }
    script = "cd /given; cat binary; echo; cat text; echo"
    outcome = machine.run(job("run", container(script, volumeMounts=mounts), pod=pod), files)
    assert "/given" == outcome.texts[0]
    assert outcome.texts[1].endswith("/mounts/trainer/given")


@pytest.mark.usefixtures("warm_ranks")
def test_workers_of_a_master_have_it(machine: Machine, chart: Chart) -> None:
    """So do workers that a master asks for, which no chart has written down one by one."""
    manifests = chart(
        "elastic",
        _sent(),
        nodes=2,
        elastic={"mode": "auto", "framework": "pytorch", "auto": {"maxWorkers": 2}},
    )
    outcome = machine.run(*manifests)
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code), outcome.texts
    assert {"rank 0 has sent here True []", "rank 1 has sent here True []"} == set(
        _rank_lines(outcome)
    )
