"""Ways in which a rank fails first, in jobs of two pods with two ranks each, of any launcher."""

from __future__ import annotations

from dataclasses import dataclass

EXIT = "os._exit(37)"
SYS_EXIT = "sys.exit(37)"
EXCEPTION = "an uncaught exception"
KILLED = "SIGKILL"
CRASHED = "SIGSEGV"
OUT_OF_MEMORY = "SIGKILL with much memory"
ABORT = "MPI_Abort(37)"
_CODES = {EXCEPTION: 1, KILLED: 137, CRASHED: 139, OUT_OF_MEMORY: 137}


@dataclass(frozen=True, slots=True)
class Situation:
    """What happens in a job.

    Attributes:
        name: for a person.
        how: the way in which the ranks fail.
        ranks: which fail; any of them may be blamed where they are several.
        early: whether they do so while the others wait for them to make the group; else all others
            wait in a barrier.
        recovered: the rank that failed in an earlier attempt, with an exit code of its own; None
            where nothing is restarted.
    """

    name: str
    how: str
    ranks: tuple[int, ...]
    early: bool = False
    recovered: int | None = None

    @property
    def code(self) -> int:
        """The exit code that the job ends with."""
        return _CODES.get(self.how, 37)


def among(own: Situation) -> tuple[Situation, ...]:
    """The situations of every launcher, and one that only this launcher has, as the eleventh."""
    return (
        Situation("rank 3 in a barrier", EXIT, (3,)),
        Situation("rank 1 in a barrier, in rank 0's pod", EXIT, (1,)),
        Situation("rank 0 in a barrier", EXIT, (0,)),
        Situation("rank 2 in a barrier", SYS_EXIT, (2,)),
        Situation("rank 3 before init", SYS_EXIT, (3,), early=True),
        Situation("rank 1 before init, in rank 0's pod", EXIT, (1,), early=True),
        Situation("rank 3 raises in a barrier", EXCEPTION, (3,)),
        Situation("rank 0 is killed in a barrier", KILLED, (0,)),
        Situation("rank 2 crashes in a barrier", CRASHED, (2,)),
        Situation("rank 1 runs out of memory in a barrier", OUT_OF_MEMORY, (1,)),
        own,
        Situation("ranks 0 and 3 at once", EXIT, (0, 3)),
    )
