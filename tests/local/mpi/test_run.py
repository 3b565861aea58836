"""Real mpirun across the job's hosts, through the chart's own host file, scripts and sshd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks import names
from allranks.diagnosis import pods, report, verdict
from allranks.diagnosis.local_pods import LocalPods
from allranks.local import mpi
from allranks.local import runs as local_runs
from allranks.local.host import addresses, namespaces
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
        mpi = {"numWorkers": 2, **values.pop("mpi", {})}
        if "gpus" in values or "nodes" in values:
            del mpi["numWorkers"]
        else:
            values.setdefault("procsPerNode", 2)
        settings = {
            "workload": "mpi",
            "image": {"repository": "any"},
            "script": script,
            "mpi": mpi,
            "runPolicy": {"backoffLimit": 0, **values.pop("runPolicy", {})},
            "network": {"waitSeconds": 120},
            **values,
        }
        text = helm4.render(repo / "charts" / "mpi", "-n", "lab", values=settings, name="run")
        return [document for document in load_all(text) if document]

    return render


def _reports(outcome: Outcome) -> list[str]:
    """What the ranks said, with what stands around it in the log left out."""
    return sorted(text for text in outcome.texts if text.startswith("rank "))


def _expected(outcome: Outcome, *hosts: str) -> list[str]:
    """What ranks on these hosts say, in their order.

    Pods without a host name of their own run on this machine's. Without ssh only root may go into
    a host that another process has made; that there is no ssh is said by a note of the run.
    """
    size = len(hosts)
    total = size * (size - 1) // 2
    has_ssh = not any("ranks are started without" in note for note in outcome.status.notes)
    way = namespaces.way()
    own = way is namespaces.IsolationMethod.ROOT or (
        way is namespaces.IsolationMethod.USER and has_ssh
    )
    host_names = hosts if own else (os.uname().nodename,) * size
    return [f"rank {i} of {size} on {name} sum {total}" for i, name in enumerate(host_names)]


def _codes(outcome: Outcome, role: str) -> list[int | None]:
    return [pod.containers[0].exit_code for pod in outcome.status.pods if pod.role == role]


def _succeeded(outcome: Outcome) -> bool:
    return (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code)


def test_ranks_meet_over_ssh(machine: Machine, chart: Chart) -> None:
    """Two workers of two ranks each; when all is done the workers have ended well by themselves."""
    outcome = machine.run(*chart())
    assert _succeeded(outcome), outcome.texts
    assert _expected(
        outcome, "run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1"
    ) == _reports(outcome)
    assert [0, 0] == _codes(outcome, "worker")
    assert {"launcher": 1, "worker": 2} == {
        role.role: role.succeeded for role in outcome.status.roles
    }
    assert "mpi" == outcome.status.workload


@pytest.mark.parametrize("family", ["mpich", "intel"])
def test_other_mpis(machine: Machine, chart: Chart, family: str) -> None:
    """An MPI in a virtual environment of its own is the one that setup activates."""
    installation = implementations.find(family)
    setup = f". {installation.python.parent}/activate"
    outcome = machine.run(*chart(setup=setup, mpi={"implementation": installation.implementation}))
    assert _succeeded(outcome), outcome.texts
    assert _expected(
        outcome, "run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1"
    ) == _reports(outcome)


@pytest.mark.parametrize("family", implementations.FAMILIES)
def test_no_mpi_takes_a_pod_for_a_node_of_slurms(
    machine: Machine, chart: Chart, family: str
) -> None:
    """Open MPI calls srun where it finds SLURM_JOBID, and takes its hosts from SLURM_NODELIST."""
    installation = implementations.find(family)
    setup = f"PATH={installation.python.parent}:/usr/bin:$PATH"
    values = {"mpi": {"implementation": installation.implementation}, "compat": "slurm"}
    outcome = machine.run(*chart(setup=setup, **values))
    assert _succeeded(outcome), outcome.texts
    assert not [text for text in outcome.texts if "srun" in text]
    assert _expected(
        outcome, "run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1"
    ) == _reports(outcome)


def _uneven(**settings: Any) -> dict[str, Any]:
    """Values for pods with different numbers of ranks.

    Open MPI 5 refuses these where pods share the machine's name (docs/guides/local.md).
    """
    if namespaces.way() is namespaces.IsolationMethod.ROOT or _over_ssh():
        return {"mpi": settings}
    mpich = implementations.find("mpich")
    setup = f"PATH={mpich.python.parent}:$PATH"
    return {"setup": setup, "mpi": {"implementation": "MPICH", **settings}}


def test_a_last_worker_has_fewer_slots(machine: Machine, chart: Chart) -> None:
    """What is left over is a worker of its own, the last of the ranks' order."""
    values = _uneven(cleanPodPolicy="All")
    outcome = machine.run(*chart(gpus=3, gpusPerNode=2, **values))
    assert _succeeded(outcome), outcome.texts
    assert _expected(outcome, "run-worker-0", "run-worker-0", "run-worker-last-0") == _reports(
        outcome
    )
    assert [(0, 0), (1, 0)] == [
        (pod.rank, pod.containers[0].exit_code)
        for pod in outcome.status.pods
        if pod.role == "worker"
    ]


def test_the_launcher_may_have_ranks(machine: Machine, chart: Chart) -> None:
    """It is the first host; with fewer ranks than slots the last slots stay empty."""
    values = _uneven(runLauncherAsWorker=True, np=3, cleanPodPolicy="None")
    outcome = machine.run(*chart(nodes=2, procsPerNode=2, **values))
    assert _succeeded(outcome), outcome.texts
    assert _expected(outcome, "run-launcher-0", "run-launcher-0", "run-worker-0") == _reports(
        outcome
    )
    # No one has told the worker to end; it was stopped, which is no failure.
    assert [143] == _codes(outcome, "worker")
    assert {PodPhase.SUCCEEDED} == {pod.phase for pod in outcome.status.pods}


def test_without_ssh(machine: Machine, chart: Chart) -> None:
    """A transport that needs a cluster's API gives way to one that does not, and a note says so."""
    outcome = machine.run(*chart(mpi={"transport": "exec"}))
    assert _succeeded(outcome), outcome.texts
    hosts = ("run-worker-0", "run-worker-0", "run-worker-1", "run-worker-1")
    assert _expected(outcome, *hosts) == _reports(outcome)
    assert any("ranks are started without" in note for note in outcome.status.notes)


def test_pods_may_share_the_machines_host_name(
    machine: Machine, chart: Chart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no pod gets a host of its own: a collective of ranks that are one host to MPI ends."""
    monkeypatch.setattr(namespaces, "way", lambda: namespaces.IsolationMethod.NONE)
    outcome = machine.run(*chart(_ALL_REDUCE.replace("total =", "world.Barrier()\ntotal =")))
    assert _succeeded(outcome), outcome.texts
    assert _expected(outcome, *("run-worker-0",) * 2, *("run-worker-1",) * 2) == _reports(outcome)


def test_the_exit_code_of_a_rank_is_the_runs(machine: Machine, chart: Chart) -> None:
    """The launcher ends with it, a fatal one is not tried again, and the rank's host is named."""
    script = "import sys\nfrom mpi4py import MPI\n"
    script += "sys.stdout.flush()\nsys.exit(7 if MPI.COMM_WORLD.rank == 3 else 0)\n"
    outcome = machine.run(*chart(script, runPolicy={"backoffLimit": 3, "fatalExitCodes": [7]}))
    assert (Phase.FAILED, 7, 0) == (
        outcome.status.phase,
        outcome.status.exit_code,
        outcome.status.restarts,
    ), outcome.texts
    assert outcome.status.failure is not None
    assert "run-worker-1" == outcome.status.failure.pod
    expected = "rank 3 ended with exit code 7, which is fatal: no retry"
    assert expected == outcome.status.failure.message.splitlines()[0]
    assert [0, 0] == _codes(outcome, "worker")


@pytest.mark.parametrize("transport", ["ssh", "exec"])
def test_a_rank_that_ends_while_others_wait_in_init(
    machine: Machine, chart: Chart, transport: str
) -> None:
    """MPICH's mpirun would wait for ever: the report ends the run, with and without ssh."""
    script = "import os\nif os.environ['PMI_RANK'] == '3':\n    os._exit(37)\n"
    script += "from mpi4py import MPI\n"
    mpich = implementations.find("mpich")
    mpi = {"implementation": "MPICH", "transport": transport}
    setup = f"PATH={mpich.python.parent}:$PATH"
    outcome = machine.run(*chart(script, setup=setup, mpi=mpi))
    assert (Phase.FAILED, 37) == (outcome.status.phase, outcome.status.exit_code), outcome.texts
    assert outcome.status.failure is not None
    assert "run-worker-1" == outcome.status.failure.pod
    assert outcome.status.failure.message.startswith("rank 3 ended with exit code 37")


def test_a_lost_worker_costs_a_try(machine: Machine, chart: Chart) -> None:
    """The launcher ends within seconds, both are replaced, and a later try ends well.

    While its ranks sleep `why` says where, in all pods: mpirun's ranks are armed as torchrun's are.
    """
    values = {"runPolicy": {"backoffLimit": 2}, "network": {"waitSeconds": 120}}
    handle = machine.start(*chart(_WAIT, **values))
    machine.line("up")
    asleep = ("sleeps", "script:11 in <module>")
    assert dict.fromkeys(range(4), asleep) == _whereabouts(handle)
    _main_process(machine, "run-worker-1").kill()
    texts = [line.text for line in handle.follow()]
    status = handle.wait()
    assert (Phase.SUCCEEDED, 0) == (status.phase, status.exit_code), texts
    assert "again" in texts
    restarts = {pod.name: pod.restarts for pod in status.pods}
    # On a busy machine the second try may still meet the sshd of the pod that goes.
    assert restarts.pop("run-launcher-0") in {1, 2}, texts
    assert {"run-worker-0": 0, "run-worker-1": 1} == restarts, texts


def _whereabouts(handle: local_runs.Handle) -> dict[int, tuple[str, str]]:
    """What each rank does, and where, once all have come there."""

    def look() -> dict[int, tuple[str, str]] | None:
        of_run = [pod.name for pod in handle.status().pods]
        answers = pods.ask(LocalPods("run", "lab"), of_run, seconds=3, limit=60, logs=())
        assert {} == answers.silent
        reports = [report.read(name, "", text) for name, text in answers.texts.items()]
        groups = verdict.diagnose([pod for pod in reports if pod], {}, {}).groups
        ranks = {rank: (group.does, group.where) for group in groups for rank in group.ranks}
        return ranks if len(set(ranks.values())) == 1 else None

    whereabouts: dict[int, tuple[str, str]] = until(look, "all ranks to be at one line", 60)
    return whereabouts


def _main_process(machine: Machine, pod: str) -> psutil.Process:
    """The first process of a pod's container: all others of the pod end with it."""
    _, supervisor = machine.supervisors()
    return next(process for process in supervisor.children() if _hostname(process) == pod)


def _hostname(process: psutil.Process) -> str:
    try:
        return process.environ().get("HOSTNAME", "")
    except psutil.Error:
        return ""


def test_suspended(machine: Machine, chart: Chart) -> None:
    """Neither launcher nor workers start."""
    outcome = machine.run(*chart(runPolicy={"suspend": True}))
    assert Phase.SUSPENDED is outcome.status.phase
    assert [] == outcome.texts


def test_the_deadline_ends_all(machine: Machine, chart: Chart) -> None:
    """The launcher's deadline is the run's; nothing of the workers is left."""
    outcome = machine.run(*chart(_WAIT, runPolicy={"activeDeadlineSeconds": 25}))
    assert (Phase.FAILED, "DeadlineExceeded") == (outcome.status.phase, outcome.status.reason)
    assert "up" in outcome.texts
    assert [] == machine.processes()


def test_a_stall_is_told_and_ended(machine: Machine, chart: Chart) -> None:
    """The launcher asks its hosts once mpirun is silent, says where all ranks are, and ends it."""
    policy = {"stallSeconds": 10, "onStall": "end"}
    outcome = machine.run(*chart(_WAIT, mpi={"numWorkers": 1}, runPolicy=policy))
    assert (Phase.FAILED, names.EXIT_STALLED) == (outcome.status.phase, outcome.status.exit_code)
    places = [text for text in outcome.texts if "no progress: rank" in text]
    where = "is at script:11 in <module>, in no collective"
    assert [f"allranks: no progress: rank {rank} {where}" for rank in range(2)] == sorted(places)
    assert outcome.status.failure is not None
    assert outcome.status.failure.message.startswith("no progress for 10 s: no rank computes")


def test_after_everything_was_killed(machine: Machine, chart: Chart) -> None:
    """Kill -9 of supervisor and guardian at once: delete ends ranks, daemons and sshd.

    While the job runs its key is in folders of its user's alone, and afterwards nowhere.
    """
    manifests = chart(_WAIT)
    machine.start(*manifests, foreground=False)
    machine.line("up")
    ports = [(pod.address, 2222) for pod in local_runs.status("run", "lab").pods]
    if _over_ssh():
        assert [True, False, False] == [addresses.bindable(*port) for port in ports]
    keys = machine.folder().pods.glob("*/*/mounts/trainer/ssh")
    assert [0o700] * 3 == [key.stat().st_mode & 0o777 for key in keys]
    for process in machine.supervisors():
        process.kill()
    until(lambda: not machine.folder().alive(), "the supervisor's end")
    local_runs.delete("run", "lab")
    assert [] == machine.leftovers()
    assert [] == list(machine.state.rglob("*ssh*"))
    assert [True, True, True] == [addresses.bindable(*port) for port in ports]


def _over_ssh() -> bool:
    block = addresses.Block(0, 1)
    here = mpi.machine(block)
    return bool(here.way) and here.sshd and here.addresses
