"""Whatever mpirun says, the launcher names the rank that failed first, its code and its pod."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING

import pytest

from . import blaming
from .forks import HeldForks, ignores, name_of, pending
from .implementations import FAMILIES
from .pods import SAVES

if TYPE_CHECKING:
    from .conftest import MakeLab

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Of `make blame-mpi`: those that at least one mpirun tells wrong, or does not end by itself.
_TELLING = (2, 5, 8, 9)
_OWN = """
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 1:
    os._exit(37)
while True:
    world.Barrier()
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rank_that_failed_first(family: str) -> None:
    """In a collective, before MPI_Init while the others wait there, by a code or by a signal."""
    job = blaming.make_lab(family)
    try:
        wrong = {
            number: blaming.run(job, blaming.SITUATIONS[number - 1], number) for number in _TELLING
        }
        assert dict.fromkeys(_TELLING, "") == wrong
    finally:
        job.close()
        shutil.rmtree(job.folder, ignore_errors=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_rank_in_the_launchers_own_pod(lab: MakeLab, family: str) -> None:
    """With runLauncherAsWorker its ranks are no other pod's, and report without a connection."""
    job = lab(family, leads=True, workers=1)
    job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", _OWN)
    assert 37 == launcher.end(), launcher.log
    assert launcher.message.startswith(
        "failed first: rank 1 in pod job-launcher-0 ended with exit code 37"
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_an_mpirun_of_the_users_own(lab: MakeLab, family: str) -> None:
    """Its ranks report as those of the chart's mpirun do: the right one is named, with its code."""
    job = lab(family)
    job.all_workers()
    own = ("mpirun", "-np", "4", str(job.mpi.python), "-c", _OWN)
    launcher = job.launcher(*own, ALLRANKS_MPI_WRAP="")
    assert 37 == launcher.end(), launcher.log
    first = "failed first: rank 1 in pod job-worker-0 ended with exit code 37"
    assert launcher.message.startswith(first)


_ABORTED = (
    "Abort(37) on node 3 (rank 3 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 37)"
)
# An mpirun of MPICH that ends before its daemon has read what a rank wrote.
_HASTY = """#!/bin/sh
[ $# -gt 1 ] || exit 0
shift 2
cd {folder}
mkfifo unread
exec 8<>unread
PMI_RANK=3 setsid "$@" 2>unread 8>&- &
until [ -e written ]; do sleep 0.02; done
kill -s KILL -- "-$!"
exit 37
"""


def test_mpich_ends_before_it_has_said_who_called_abort(lab: MakeLab) -> None:
    """The rank is named all the same, with its last lines, which are in the log too."""
    job = lab("mpich", workers=1, leads=True)
    job.all_workers()
    folder = job.folder / "bin"
    folder.mkdir(mode=0o755)
    (folder / "mpirun").write_text(_HASTY.format(folder=folder))
    (folder / "mpirun").chmod(0o755)
    words = f"last words\n{_ABORTED}\n"
    program = f"printf '%s' '{words}' >&2; : >{folder}/written; sleep 60"
    launcher = job.launcher("sh", "-c", program, PATH=f"{folder}:{job.mpi.path}")
    assert 37 == launcher.end(), launcher.log
    first = "failed first: rank 3 in pod job-worker-0 ended with exit code 37"
    assert f"{first}\nlast words" == launcher.message.strip()
    assert words in launcher.log


def test_a_program_that_no_worker_has(lab: MakeLab) -> None:
    """127, and whose it is; its name is in the log."""
    job = lab("openmpi4", workers=1, slots=1)
    job.all_workers()
    launcher = job.launcher("no-such-program")
    assert 127 == launcher.end(), launcher.log
    first = "failed first: rank 0 in pod job-worker-0 ended with exit code 127\n"
    assert launcher.message.startswith(first)
    assert "no-such-program" in launcher.message


def test_an_image_without_named_pipes(lab: MakeLab) -> None:
    """Nothing is reported: mpirun's own code is the launcher's, and the ranks run all the same."""
    job = lab("openmpi4")
    job.lay_over("/usr/bin/mkfifo", "")
    job.all_workers()
    launcher = job.launcher("sh", "-c", 'exit "$((OMPI_COMM_WORLD_RANK > 2 ? 37 : 0))"')
    assert (37, "mpirun ended with exit code 37") == (launcher.end(), launcher.message)


# An mpirun whose rank 1 fails at once, and which goes on for a while without it.
_GOES_ON = """#!/bin/sh
[ $# -gt 1 ] || exit 0
shift 3
trap 'kill $!; exit 0' TERM
OMPI_COMM_WORLD_RANK=1 "$@" & wait
sleep {seconds} & wait
"""


@pytest.mark.parametrize(
    ("option", "seconds", "code"), [("-disable-auto-cleanup", 8, 0), ("-v", 120, 1)]
)
def test_a_job_that_goes_on_without_a_rank(
    lab: MakeLab, option: str, seconds: int, code: int
) -> None:
    """An mpirun that is told to go on is left to; else it has five seconds to end the others.

    One that is ended then has failed with its rank's code, also where it ends with 0.
    """
    job = lab("openmpi4", workers=1, leads=True)
    job.all_workers()
    folder = job.folder / "bin"
    folder.mkdir()
    program = folder / "mpirun"
    program.write_text(_GOES_ON.format(seconds=seconds))
    program.chmod(0o755)
    path = f"{folder}:{job.mpi.path}"
    launcher = job.launcher("false", mpirun_args=(option,), PATH=path)
    assert code == launcher.end(), launcher.log
    assert ("has not ended the others" in launcher.log) == (code != 0)
    assert (launcher.message == "") == (code == 0)


# An mpirun of one rank that writes down when it begins, and ends when it is told to. What it waits
# with may be ended before it.
_WATCHED = """#!/bin/sh
[ $# -gt 1 ] || exit 0
shift 2
trap 'kill $!; : >{folder}/told; exit 1' TERM
: >{folder}/begun
OMPI_COMM_WORLD_RANK=1 "$@" & wait
while :; do sleep 120 & wait; done
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_that_comes_as_the_command_begins(lab: MakeLab, number: signal.Signals) -> None:
    """The pod's end, a lost worker, a failed rank: none goes by because mpirun was just begun."""
    job = lab("openmpi4", workers=1, leads=True)
    folder = job.folder / "bin"
    folder.mkdir(mode=0o755)
    program = folder / "mpirun"
    program.write_text(_WATCHED.format(folder=job.folder))
    program.chmod(0o755)
    job.folder.chmod(0o777)
    path = f"{folder}:{job.mpi.path}"
    command = "false" if number == signal.SIGUSR2 else "true"
    launcher = job.launcher(command, PATH=path)
    launcher.says("waiting for 1 of 2 hosts")
    shell = HeldForks(launcher.pid)
    worker = job.worker(0)

    def is_mpirun(pid: int) -> bool:
        if not (launcher.state / "ends").exists():
            return False
        while (name := name_of(pid)) not in ("", "mpirun"):
            # Those that pass its output on wait for it, and ignore signals meanwhile.
            if name in ("tee", "tail") or ignores(pid, signal.SIGTERM):
                return False
            time.sleep(0.005)
        return name == "mpirun"

    def signalled() -> bool:
        if not (job.folder / "begun").exists():
            return False
        if number == signal.SIGTERM:
            launcher.signal()
        elif number == signal.SIGUSR1:  # as rsh.sh does
            worker.kill()
            (launcher.state / "lost" / worker.host).touch()
            launcher.signal(number)
        return pending(launcher.pid, number)

    shell.hold(is_mpirun, signalled)
    code = launcher.end()
    assert (job.folder / "told").exists(), launcher.log
    assert {signal.SIGTERM: 1, signal.SIGUSR1: 214, signal.SIGUSR2: 1}[number] == code, launcher.log


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_of_the_launchers_own_pod_may_save(lab: MakeLab, family: str) -> None:
    """They are told with those of the workers, before mpirun is, and have the same grace."""
    job = lab(family, leads=True, workers=1, env={"ALLRANKS_GRACE_SECONDS": "60"})
    job.all_workers()
    launcher = job.launcher(str(job.mpi.python), "-c", SAVES, str(job.folder))
    launcher.says("all ranks are up")
    launcher.signal(signal.SIGTERM)
    launcher.end()
    saved = sorted(path.name for path in job.folder.glob("saved.*"))
    assert [f"saved.{rank}.1" for rank in range(4)] == saved, launcher.log
