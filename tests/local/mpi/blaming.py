"""Ways in which a rank of an MPI job fails first, on two pods with two ranks each.

The scripts are the chart's own, with a real mpirun and real sshd on pods made of namespaces. The
workers stay from one job to the next, as they do between the tries of a Job.
"""

from __future__ import annotations

import signal
import subprocess
from typing import TYPE_CHECKING

from tests.local import situations
from tests.local.situations import ABORT, EXCEPTION, SYS_EXIT, Situation

from . import implementations
from .pods import Lab, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

PROCS = 2
SECONDS_MAX = 90.0
BETWEEN_TRIES = {"ALLRANKS_MPI_BACKOFF_LIMIT": "1000000"}  # the workers stay

# Without `-m mpi4py` a rank that ends by itself waits in MPI_Finalize for the others.
_ABORTS = (SYS_EXIT, EXCEPTION)

_PROGRAM = """
import os, random, signal, sys, time
how, ranks, early, seed = sys.argv[1], eval(sys.argv[2]), sys.argv[3] == "early", int(sys.argv[4])
after = random.Random(seed).random() / 2

def fail():
    time.sleep(after)
    if how == "os._exit(37)":
        os._exit(37)
    if how == "sys.exit(37)":
        sys.exit(37)
    if how == "an uncaught exception":
        raise ValueError("last words")
    if how == "MPI_Abort(37)":
        world.Abort(37)
    if how == "SIGKILL with much memory":
        held = bytearray(100 << 20)
        held[:: 4 << 10] = b"x" * len(held[:: 4 << 10])
    os.kill(os.getpid(), signal.SIGSEGV if how == "SIGSEGV" else signal.SIGKILL)
    time.sleep(60)

number = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
if early and int(number) in ranks:
    fail()
from mpi4py import MPI
world = MPI.COMM_WORLD
world.Barrier()
if world.rank in ranks:
    fail()
while True:
    world.Barrier()
"""


SITUATIONS = situations.among(Situation("rank 3 aborts in a barrier", ABORT, (3,)))


def make_lab(family: str) -> Lab:
    """A lab of two workers with two ranks each, which are ready; the caller closes it."""
    job = Lab(make_folder(), implementations.find(family), env=BETWEEN_TRIES)
    job.open()
    job.all_workers()
    return job


def run(job: Lab, situation: Situation, seed: int) -> str:
    """Run a job to its end.

    Returns:
        What is wrong with how it ended; "" where the launcher tells the truth.
    """
    module = ("-m", "mpi4py") if situation.how in _ABORTS else ()
    program = job.folder / "program.py"
    program.write_text(_PROGRAM)
    when = "early" if situation.early else "late"
    words = (*module, str(program), situation.how, str(situation.ranks), when, str(seed))
    launcher = job.launcher(str(job.mpi.python), *words)
    try:
        launcher.outer.wait(SECONDS_MAX)
    except subprocess.TimeoutExpired:
        launcher.signal(signal.SIGTERM)
        try:
            launcher.outer.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            launcher.kill()
        return f"no end after {SECONDS_MAX:g} s"
    code = launcher.end()
    if code == situation.code and any(_names(launcher.message, situation)):
        return ""
    ends = (launcher.state / "ends").read_text()
    return (
        f"exit code {code}, expected {situation.code}; message {launcher.message!r}, ends {ends!r}"
    )


def _names(message: str, situation: Situation) -> Iterator[bool]:
    """Of each rank that may be named whether it is."""
    for rank in situation.ranks:
        sentence = f"failed first: rank {rank} in pod job-worker-{rank // PROCS} ended with exit "
        words = situation.how != EXCEPTION or "last words" in message
        yield message.startswith(f"{sentence}code {situation.code}") and words
