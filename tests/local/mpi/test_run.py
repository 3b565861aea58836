"""Real mpirun across the job's hosts, through the chart's own host file, scripts and sshd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks.local import addresses, control, mpi, ownhost
from allranks.model.status import Phase, PodPhase
from allranks.yamlio.load import load_all

from ..conftest import one_by_one, until  # noqa: TID252 (tests are no package that has a name)
from . import implementations

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..conftest import Machine, Outcome  # noqa: TID252

    Chart = Callable[..., list[dict[str, Any]]]

pytestmark = [pytest.mark.local, pytest.mark.timeout(600), one_by_one]

# Every rank adds its number; every rank must see the sum of all.
_ALL_REDUCE = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
name = MPI.Get_processor_name()
# In one write: ranks share the launcher's log, and print() writes the line's end apart.
sys.stdout.write(f"rank {world.rank} of {world.size} on {name} sum {total}\\n")
sys.stdout.flush()
"""
# Rank 1 waits to be killed, the others wait for it; a second try finds the mark of the first.
_WAIT = """
import os, pathlib, sys, time
from mpi4py import MPI
world = MPI.COMM_WORLD
mark = pathlib.Path("tried")
again = world.bcast(mark.exists())
if world.rank == 0:
    mark.touch()
    print("again" if again else "up", flush=True)
if not again:
    time.sleep(1000)
world.Barrier()
"""


@pytest.fixture
def chart(helm4: Any, repo: Path) -> Chart:
    """The chart's manifests for a job of two workers with two ranks each, unless told otherwise."""

    def render(script: str = _ALL_REDUCE, **values: Any) -> list[dict[str, Any]]:
        told = {"numWorkers": 2, **values.pop("mpi", {})}
        if "gpus" in values or "nodes" in values:
            del told["numWorkers"]
        else:
            values.setdefault("procsPerNode", 2)
        settings = {
            "workload": "mpi",
            "image": {"repository": "any"},
            "script": script,
            "mpi": told,
            "runPolicy": {"backoffLimit": 0, **values.pop("runPolicy", {})},
            "network": {"waitSeconds": 20},
            **values,
        }
        text = helm4.render(repo / "charts" / "mpi", "-n", "lab", values=settings, name="run")
        return [one for one in load_all(text) if one]

    return render


def _said(done: Outcome) -> list[str]:
    """What the ranks said, with what stands around it in the log left out."""
    return sorted(text for text in done.texts if text.startswith("rank "))


def _expected(*hosts: str, own: bool | None = None) -> list[str]:
    """What ranks on these hosts say, in their order; where hosts are no one's own, this machine."""
    size = len(hosts)
    total = size * (size - 1) // 2
    apart = bool(ownhost.way()) if own is None else own
    where = hosts if apart else (os.uname().nodename,) * size
    return [f"rank {i} of {size} on {host} sum {total}" for i, host in enumerate(where)]


def _codes(done: Outcome, role: str) -> list[int | None]:
    return [pod.containers[0].exit_code for pod in done.status.pods if pod.role == role]


def _succeeded(done: Outcome) -> bool:
    return (Phase.SUCCEEDED, 0) == (done.status.phase, done.status.exit_code)


def test_ranks_meet_over_ssh(machine: Machine, chart: Chart) -> None:
    """Two workers of two ranks each; when all is done the workers have ended well by themselves."""
    done = machine.run(*chart())
    assert _succeeded(done), done.texts
    assert _expected("run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1") == _said(done)
    assert [0, 0] == _codes(done, "worker")
    assert {"launcher": 1, "worker": 2} == {one.role: one.succeeded for one in done.status.roles}
    assert "mpi" == done.status.workload


@pytest.mark.parametrize("family", ["mpich", "intel"])
def test_other_mpis(machine: Machine, chart: Chart, family: str) -> None:
    """An MPI in a virtual environment of its own is the one that setup activates."""
    found = implementations.find(family)
    setup = f". {found.python.parent}/activate"
    done = machine.run(*chart(setup=setup, mpi={"implementation": found.implementation}))
    assert _succeeded(done), done.texts
    assert _expected("run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1") == _said(done)


def test_a_last_worker_has_fewer_slots(machine: Machine, chart: Chart) -> None:
    """What is left over is a worker of its own, the last of the ranks' order."""
    done = machine.run(*chart(gpus=3, gpusPerNode=2, mpi={"cleanPodPolicy": "All"}))
    assert _succeeded(done), done.texts
    assert _expected("run-worker-0", "run-worker-0", "run-worker-last-0") == _said(done)
    assert [(0, 0), (1, 0)] == [
        (pod.rank, pod.containers[0].exit_code) for pod in done.status.pods if pod.role == "worker"
    ]


def test_the_launcher_may_have_ranks(machine: Machine, chart: Chart) -> None:
    """It is the first host; with fewer ranks than slots the last slots stay empty."""
    told = {"runLauncherAsWorker": True, "np": 3, "cleanPodPolicy": "None"}
    done = machine.run(*chart(nodes=2, procsPerNode=2, mpi=told))
    assert _succeeded(done), done.texts
    assert _expected("run-launcher-0", "run-launcher-0", "run-worker-0") == _said(done)
    # No one has told the worker to end; it was stopped, which is no failure.
    assert [143] == _codes(done, "worker")
    assert {PodPhase.SUCCEEDED} == {pod.phase for pod in done.status.pods}


def test_without_ssh(machine: Machine, chart: Chart) -> None:
    """A transport that needs a cluster's API gives way to one that does not, and a note says so."""
    done = machine.run(*chart(mpi={"transport": "exec"}))
    assert _succeeded(done), done.texts
    hosts = ("run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1")
    # Only root may go into a host that another process has made.
    assert _expected(*hosts, own=ownhost.way() is ownhost.Way.ROOT) == _said(done)
    assert any("ranks are started without" in note for note in done.status.notes)


def test_the_exit_code_of_a_rank_is_the_runs(machine: Machine, chart: Chart) -> None:
    """The launcher ends with it, a fatal one is not tried again, and the rank's host is named."""
    script = "import sys\nfrom mpi4py import MPI\n"
    script += "sys.stdout.flush()\nsys.exit(7 if MPI.COMM_WORLD.rank == 3 else 0)\n"
    done = machine.run(*chart(script, runPolicy={"backoffLimit": 3, "fatalExitCodes": [7]}))
    assert (Phase.FAILED, 7, 0) == (
        done.status.phase,
        done.status.exit_code,
        done.status.restarts,
    ), done.texts
    assert done.status.failure is not None
    assert "run-worker-1" == done.status.failure.pod
    expected = "rank 3 ended with exit code 7, which is fatal: no retry"
    assert expected == done.status.failure.message.splitlines()[0]
    assert [0, 0] == _codes(done, "worker")


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_a_rank_that_ends_while_others_wait_in_init(
    machine: Machine, chart: Chart, transport: str
) -> None:
    """MPICH's mpirun would wait for ever: the report ends the run, with and without ssh."""
    script = "import os\nif os.environ['PMI_RANK'] == '3':\n    os._exit(37)\n"
    script += "from mpi4py import MPI\n"
    mpich = implementations.find("mpich")
    told = {"implementation": "MPICH", "transport": transport}
    setup = f"PATH={mpich.python.parent}:$PATH"
    done = machine.run(*chart(script, setup=setup, mpi=told))
    assert (Phase.FAILED, 37) == (done.status.phase, done.status.exit_code), done.texts
    assert done.status.failure is not None
    assert "run-worker-1" == done.status.failure.pod
    assert done.status.failure.message.startswith("rank 3 ended with exit code 37")


def test_a_lost_worker_costs_a_try(machine: Machine, chart: Chart) -> None:
    """The launcher ends within seconds, both are replaced, and the second try ends well."""
    handle = machine.start(*chart(_WAIT, runPolicy={"backoffLimit": 2}))
    machine.line("up")
    _main_process(machine, "run-worker-1").kill()
    texts = [line.text for line in handle.follow()]
    status = handle.wait()
    assert (Phase.SUCCEEDED, 0) == (status.phase, status.exit_code), texts
    assert "again" in texts
    restarts = {pod.name: pod.restarts for pod in status.pods}
    assert {"run-launcher-0": 1, "run-worker-0": 0, "run-worker-1": 1} == restarts


def _main_process(machine: Machine, pod: str) -> psutil.Process:
    """The first process of a pod's container: all others of the pod end with it."""
    _, supervisor = machine.supervisors()
    return next(one for one in supervisor.children() if _hostname(one) == pod)


def _hostname(process: psutil.Process) -> str:
    try:
        return process.environ().get("HOSTNAME", "")
    except psutil.Error:
        return ""


def test_suspended(machine: Machine, chart: Chart) -> None:
    """Neither launcher nor workers start."""
    done = machine.run(*chart(runPolicy={"suspend": True}))
    assert Phase.SUSPENDED is done.status.phase
    assert [] == done.texts


def test_the_deadline_ends_all(machine: Machine, chart: Chart) -> None:
    """The launcher's deadline is the run's; nothing of the workers is left."""
    done = machine.run(*chart(_WAIT, runPolicy={"activeDeadlineSeconds": 8}))
    assert (Phase.FAILED, "DeadlineExceeded") == (done.status.phase, done.status.reason)
    assert "up" in done.texts
    assert [] == machine.processes()


def test_after_everything_was_killed(machine: Machine, chart: Chart) -> None:
    """Kill -9 of supervisor and guardian at once: delete ends ranks, daemons and sshd.

    While the job runs its key is in folders of its user's alone, and afterwards nowhere.
    """
    manifests = chart(_WAIT)
    machine.start(*manifests, foreground=False)
    machine.line("up")
    ports = [(pod.address, 2222) for pod in control.status("run", "lab").pods]
    if _over_ssh():
        assert [True, False, False] == [addresses.bindable(*one) for one in ports]
    keys = machine.folder().pods.glob("*/*/mounts/trainer/ssh")
    assert [0o700] * 3 == [one.stat().st_mode & 0o777 for one in keys]
    for process in machine.supervisors():
        process.kill()
    until(lambda: not machine.folder().alive(), "the supervisor's end")
    control.delete("run", "lab")
    assert [] == machine.leftovers()
    assert [] == list(machine.state.rglob("*ssh*"))
    assert [True, True, True] == [addresses.bindable(*one) for one in ports]


def _over_ssh() -> bool:
    block = addresses.Block(0, 1)
    here = mpi.machine(block)
    return bool(here.way) and here.sshd and here.addresses
