"""The scripts of charts/mpi under every MPI: real mpirun, real sshd, pods made of namespaces."""

from __future__ import annotations

import json
import pwd
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .implementations import FAMILIES
from .pods import RANKS, SHELLS

if TYPE_CHECKING:
    from .conftest import MakeLab
    from .pods import Lab

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Open MPI 5 may hang at the end of a program that ends at once and is none of MPI's.
_EXIT = "import sys; from mpi4py import MPI; MPI.COMM_WORLD.Barrier(); sys.exit(3)"
# What one rank was given, in one write: ranks share a log.
_REPORT = """
import json, os, socket, sys
found = {"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}
os.write(1, ("REPORT" + json.dumps(found) + "\\n").encode())
"""
_WEIRD = [
    "a b",
    "*",
    "$HOME",
    "$(id)",
    "`id`",
    'say "hi"',
    "it's",
    "\\",
    "",
    "x\ny",
    "é→🚂",
    "a;b&c|d",
    "~",
    "#",
    "{{ x }}",
    "tab\there",
]


def _ranks(log: str) -> list[str]:
    return sorted(re.findall(r"rank \d+ of \d+ on \S+", log))


def _script(job: Lab, text: str) -> Path:
    """A program of the user's, where every pod sees it."""
    path = job.folder / "program.py"
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_run_on_all_hosts_in_order(lab: MakeLab, family: str) -> None:
    """Ranks fill the slots of each host in the host file's order; then the job ends everywhere."""
    job = lab(family)
    workers = job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", RANKS)
    assert launcher.end() == 0, launcher.log
    hosts = ["job-worker-0", "job-worker-0", "job-worker-1", "job-worker-1"]
    assert [f"rank {rank} of 4 on {host}" for rank, host in enumerate(hosts)] == _ranks(
        launcher.log
    )
    assert [0, 0] == [worker.end() for worker in workers]
    assert launcher.message == ""


# As long as Kubernetes takes them: the launcher's pod has a name of 63 characters.
_LONG = "r" * 52
_DATED = "run-20241122123456"


@pytest.mark.parametrize(
    ("family", "release"),
    [*((family, _LONG) for family in FAMILIES), ("openmpi4", _DATED)],
)
def test_names_of_every_length_and_date(lab: MakeLab, family: str, release: str) -> None:
    """The longest names, and ones that begin with many digits; Open MPI 4 as the chart sets it."""
    domain = f"{release}.{'n' * 63}.svc"
    job = lab(family, release=release, domain=domain, env={"OMPI_MCA_regx": "naive"})
    workers = job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", RANKS)
    assert launcher.end() == 0, launcher.log
    hosts = [f"{release}-worker-{index}" for index in (0, 0, 1, 1)]
    assert [f"rank {rank} of 4 on {host}" for rank, host in enumerate(hosts)] == _ranks(
        launcher.log
    )
    assert [0, 0] == [worker.end() for worker in workers]


@pytest.mark.parametrize("family", FAMILIES)
def test_launcher_has_ranks_too(lab: MakeLab, family: str) -> None:
    """With runLauncherAsWorker the first ranks are the launcher's, which no MPI asks over ssh."""
    job = lab(family, leads=True, workers=1)
    (worker,) = job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", RANKS)
    assert launcher.end() == 0, launcher.log
    hosts = ["job-launcher-0", "job-launcher-0", "job-worker-0", "job-worker-0"]
    assert [f"rank {rank} of 4 on {host}" for rank, host in enumerate(hosts)] == _ranks(
        launcher.log
    )
    assert worker.end() == 0


@pytest.mark.parametrize("family", FAMILIES)
def test_own_mpirun_uses_all_slots(lab: MakeLab, family: str) -> None:
    """A command that is an mpirun itself needs no host file, no number of ranks, no agent."""
    job = lab(family)
    job.all_workers()
    command = ["mpirun", str(job.mpi.python), "-c", RANKS]
    launcher = job.launcher(*command, ALLRANKS_MPI_WRAP="")
    assert launcher.end() == 0, launcher.log
    assert len(_ranks(launcher.log)) == 4


@pytest.mark.parametrize("family", ["openmpi4", "openmpi5", "mpich", "intel"])
def test_last_host_may_have_fewer_slots(lab: MakeLab, family: str) -> None:
    """Ranks fill the hosts in order, and the last one takes what is left."""
    job = lab(family)
    lines = job.hostfile.read_text().splitlines()
    lines[-1] = lines[-1][:-1] + "1"
    job.hostfile.write_text("\n".join(lines) + "\n")
    job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", RANKS, ALLRANKS_MPI_NP="3")
    assert launcher.end() == 0, launcher.log
    hosts = ["job-worker-0", "job-worker-0", "job-worker-1"]
    assert [f"rank {rank} of 3 on {host}" for rank, host in enumerate(hosts)] == _ranks(
        launcher.log
    )


def test_fewer_ranks_than_slots_and_flags_of_mpirun(lab: MakeLab) -> None:
    """ALLRANKS_MPI_NP and mpirunArgs reach mpirun as they are."""
    job = lab("openmpi4")
    job.all_workers()
    command = [str(job.mpi.python), "-c", RANKS]
    launcher = job.launcher(*command, mpirun_args=("--map-by", "node"), ALLRANKS_MPI_NP="2")
    assert launcher.end() == 0, launcher.log
    assert ["rank 0 of 2 on job-worker-0", "rank 1 of 2 on job-worker-1"] == _ranks(launcher.log)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("family", ["openmpi4", "mpich"])
def test_strings_reach_the_ranks_as_typed(lab: MakeLab, family: str, shell: str) -> None:
    """Arguments and environment arrive exactly, whatever /bin/sh is, and setup's exports hold."""
    job = lab(family, shell=shell, workers=1, slots=1)
    setup = job.mount / "setup.sh"
    setup.write_text("export FROM_SETUP='it'\"'\"'s $x'\nPATH=/opt/venv/bin:$PATH\ncd /opt\n")
    weird = {f"WEIRD_{index}": text for index, text in enumerate(_WEIRD)}
    job.all_workers(**weird, ON_WORKER="yes")
    program = _script(job, _REPORT)
    launcher = job.launcher(str(job.mpi.python), str(program), *_WEIRD, **weird)
    assert launcher.end() == 0, launcher.log
    (line,) = [line for line in launcher.log.splitlines() if line.startswith("REPORT")]
    report = json.loads(line.removeprefix("REPORT"))
    assert report["argv"] == _WEIRD
    assert weird == {name: report["env"].get(name) for name in weird}
    assert "it's $x" == report["env"]["FROM_SETUP"]
    assert "yes" == report["env"]["ON_WORKER"]
    assert "/opt/venv/bin" in report["env"]["PATH"].split(":")
    assert report["cwd"] == "/opt"


@pytest.mark.parametrize("shell", SHELLS)
def test_any_user_without_capabilities(lab: MakeLab, shell: str) -> None:
    """Pod Security "restricted": sshd and mpirun run as a user without a home or a capability."""
    job = lab("openmpi4", user=12345, shell=shell)
    job.all_workers()
    launcher = job.launcher("sh", "-c", 'echo "$(id -u) on $(uname -n)"')
    assert launcher.end() == 0, launcher.log
    expected = {"12345 on job-worker-0", "12345 on job-worker-1"}
    assert expected == set(re.findall(r"\d+ on \S+", launcher.log))


@pytest.mark.parametrize("family", FAMILIES)
def test_exit_code_of_a_rank_is_the_jobs(lab: MakeLab, family: str) -> None:
    """A rank's exit code is the launcher's, with a reason; this was the last try: workers end."""
    job = lab(family)
    workers = job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", _EXIT)
    assert launcher.end() == 3, launcher.log
    assert "ended with exit code 3" in launcher.message
    assert [0, 0] == [worker.end() for worker in workers]


# Rank 3 ends while the others wait for it.
_RANK_3 = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 3:
    sys.stderr.write("disk of rank 3 is full\\n")
    sys.stderr.flush()
    os._exit(37)
while True:
    world.Barrier()
"""


def test_the_rank_that_failed_first_is_named(lab: MakeLab) -> None:
    """Its number, its pod, its exit code and the last lines, in the form of every workload."""
    job = lab("openmpi4")
    job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", _RANK_3)
    assert launcher.end() == 37, launcher.log
    summary = "failed first: rank 3 in pod job-worker-1 ended with exit code 37"
    assert launcher.message == f"{summary}\ndisk of rank 3 is full"


# What mpirun of each MPI wrote, and its exit code, in runs of two workers with two ranks each.
_OPENMPI4 = """mpirun noticed that process rank 3 with PID 51 on node job-worker-1.job.lab.svc \
exited on signal 9 (Killed)."""
_OPENMPI4_ABORT = """MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD
with errorcode 37."""
_OPENMPI5 = """prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-job-launcher-0-57@1,3]
   Exit code:    37"""
_OPENMPI5_CRASH = """prterun noticed that process rank 3 with PID 65 on node job-worker-1 exited on
signal 11 (Segmentation fault)."""
_OPENMPI5_ABORT = """MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD
  Proc: [[60494,1],3]
  Errorcode: 37"""
_OPENMPI5_PEER = """prterun has exited due to process rank 1 with PID 0 on node job-worker-0 calling
"abort". This may have caused other processes in the application to be"""
_MPICH_ABORT = """Abort(37) on node 3 (rank 3 in comm 0): application called \
MPI_Abort(MPI_COMM_WORLD, 37) - process 3"""
_MPICH_KILLED = """=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 52 RUNNING AT job-worker-1.job.lab.svc
=   EXIT CODE: 9"""
_INTEL_KILLED = """=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   RANK 2 PID 55 RUNNING AT job-worker-1.job.lab.svc
=   KILLED BY SIGNAL: 9 (Killed)"""


@pytest.mark.parametrize("shell", SHELLS)
def test_what_each_mpirun_says_of_the_first_rank(lab: MakeLab, shell: str) -> None:
    """Recorded words of each MPI; one that names only whom it killed itself is not believed."""
    job = lab("openmpi4", shell=shell, env={"ALLRANKS_MPI_CLEAN": "None"})
    job.all_workers()
    summary = "failed first: rank {} in pod job-worker-1 ended with exit code {}"
    for words, code, expected, message in (
        (_OPENMPI4, 137, 137, summary.format(3, 137)),
        (_OPENMPI4_ABORT, 37, 37, "mpirun ended with exit code 37: rank 2 ended with exit code 37"),
        (_OPENMPI5, 37, 37, "mpirun ended with exit code 37: rank 3 ended with exit code 37"),
        (_OPENMPI5_CRASH, 139, 139, summary.format(3, 139)),
        (_OPENMPI5_ABORT, 37, 37, "mpirun ended with exit code 37: rank 3 ended with exit code 37"),
        (_OPENMPI5_PEER, 14, 14, "mpirun ended with exit code 14"),
        (_MPICH_ABORT, 37, 37, "mpirun ended with exit code 37: rank 3 ended with exit code 37"),
        (_MPICH_KILLED, 255, 255, "mpirun ended with exit code 255"),
        (_INTEL_KILLED, 255, 255, "mpirun ended with exit code 255"),
        (_INTEL_KILLED.replace("9 (Killed)", "11"), 255, 139, summary.format(2, 139)),
        (_INTEL_KILLED.replace("KILLED BY SIGNAL: 9 (Killed)", "EXIT STATUS: 37"), 255, 37, ""),
    ):
        (job.folder / "words").write_text(words + "\n")
        program = job.folder / "mpirun"
        program.write_text(f"#!/bin/sh\ncat '{job.folder}/words'\nexit {code}\n")
        program.chmod(0o755)
        launcher = job.launcher(str(program), ALLRANKS_MPI_WRAP="")
        assert (expected, message or summary.format(2, 37)) == (launcher.end(), launcher.message)


def test_ssh_on_path_reaches_workers(lab: MakeLab) -> None:
    """A launcher that calls ssh by itself, as horovodrun does, needs no settings of its own."""
    job = lab("openmpi4", workers=1)
    (worker,) = job.all_workers()
    first = f"ssh -o StrictHostKeyChecking=no {worker.host} -p 22 -i /nowhere 'uname -n; id -un'"
    script = f"{first}; echo through | ssh root@job-worker-0 cat; ssh job-worker-0 exit 7"
    launcher = job.launcher("sh", "-c", script, ALLRANKS_MPI_WRAP="")
    assert launcher.end() == 7, launcher.log
    assert ["job-worker-0", "root", "through"] == [
        line for line in launcher.log.splitlines() if not line.startswith("allranks: ")
    ]


def test_command_that_is_missing(lab: MakeLab) -> None:
    """Neither mpirun nor the user's program is there: 127, and the name of what is missing."""
    job = lab("openmpi4", workers=1)
    job.all_workers()
    keep = {"ALLRANKS_MPI_CLEAN": "None"}
    launcher = job.launcher("no-such-program", ALLRANKS_MPI_WRAP="", **keep)
    assert 127 == launcher.end()
    summary, last = launcher.message.splitlines()
    assert "no-such-program ended with exit code 127" == summary
    assert "no-such-program: not found" in last
    job.lay_over("/usr/bin/orterun", "")
    launcher = job.launcher("true", **keep)
    assert launcher.end() == 127
    assert "no mpirun on PATH" in launcher.message


def test_a_bashrc_of_this_machine_is_nothing_to_a_local_rank(lab: MakeLab) -> None:
    """Where pods share a machine with a person, their bash does not read that person's settings."""
    job = lab("openmpi4", workers=1)
    mark = job.folder / "read"
    job.lay_over(str(Path(pwd.getpwuid(0).pw_dir, ".bashrc")), f"echo >>{mark}\n")
    job.all_workers(ALLRANKS_MPI_ADDRESS="0.0.0.0")  # noqa: S104 - of the pod's own network
    launcher = job.launcher("true")
    assert launcher.end() == 0, launcher.log
    assert not mark.exists()
