"""End ranks that wait for a peer that is gone, and so cannot end by themselves.

torchrun ends the ranks of a node by SIGTERM where a peer is lost or has failed, and gives them the
pod's grace period for a last checkpoint. A rank with a handler for that signal may not come to it:
it sits in a collective of the lost peer, a call of C that does not return (NCCL ends no rank whose
peer is gone), and Python runs no handler meanwhile. All of the grace is waited for nothing then.

A rank is killed where all of this holds:

* A peer is gone: a rank of the job has failed, or a node has left the rendezvous.
* It waits in a collective, the same as before it was told to end.
* Its main thread has not come one line further since, has written nothing, and the disk does not
  hold it up: it saves nothing.

This must have been so for some seconds since the signal; a rank that has moved after it has more
time. Where any of it cannot be seen (a rank that is not armed, a Python that answers nothing), the
grace is the rank's. Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

STALL_SECONDS = 5.0  # since the signal, for one that has not moved since before it
SETTLED_SECONDS = 15.0  # for one that has: what it does may be a save that nobody here can see
LOOK_SECONDS, ANSWER_SECONDS = 1.0, 1.0


class WaitingRank:
    """A rank that waits in a collective, at one moment.

    Attributes:
        rank, pid: whose.
        collective: the (group, number) that it waits in.
        name: of that collective, such as all_reduce.
        place: the innermost call of its program.
    """

    def __init__(self, rank, process, flight, stacks, why):
        """Take what it has answered.

        Raises:
            ValueError: It waits in no collective, or something of it cannot be seen.
            OSError: It has just ended.
        """
        self.rank, self.pid = rank, process.pid
        group, entry = why.waited_for((flight or {}).get("groups"))
        main = int(process.state.get("main", 0))
        self._frames = why.frames_of(stacks, main)
        if entry is None or not self._frames:
            raise ValueError("it waits in no collective, or does not answer")
        self.collective = group, entry["number"]
        self.name = entry["name"].rpartition(":")[2]
        self.place = why.place(stacks, main)
        self._written = _written(process)

    def is_as(self, before):
        """Whether it has done nothing since another look."""
        return (self.pid, self.collective, self._frames, self._written) == (
            before.pid,
            before.collective,
            before._frames,
            before._written,
        )


def _written(process):
    """How many characters its main thread has written; a ValueError where the disk holds it up."""
    if process.letter_of(process.pid) == "D":
        raise ValueError("it waits for a disk")
    lines = (process.path / "task" / str(process.pid) / "io").read_text().splitlines()
    return next(line for line in lines if line.startswith("wchar:"))


def _is_own(process, living):
    """Whether this process has started it, or what did: a pod may see the processes of others."""
    parent = process.parent
    while parent in living:
        parent = living[parent].parent
    return parent == os.getpid()


class RankStalls:
    """Since when ranks have done nothing."""

    def __init__(self, waiting_ranks, now):
        """Begin with where they stood before they were told to end."""
        self._waiting_ranks, self._began = waiting_ranks, now
        self._since = dict.fromkeys(waiting_ranks, now)

    def update(self, waiting_ranks, now):
        """Take another look; return the ranks that have stood where they are for too long.

        Args:
            waiting_ranks: by rank; one that is not there computes, saves, does not answer or has
                ended.
            now: the time.
        """
        for rank, waiting_rank in waiting_ranks.items():
            before = self._waiting_ranks.get(rank)
            if before is None or not waiting_rank.is_as(before):
                self._since[rank] = now
        self._waiting_ranks = waiting_ranks
        return [
            waiting_rank
            for rank, waiting_rank in waiting_ranks.items()
            if self._is_over(self._since[rank], now)
        ]

    def _is_over(self, since, now):
        return now - since >= (STALL_SECONDS if since == self._began else SETTLED_SECONDS)


class StalledRankKiller:
    """Looks at ranks that are told to end, and kills those that cannot."""

    def __init__(self, why, say):
        """Take the module why.py, and what writes a line to the pod's log."""
        self._why, self._say = why, say

    @contextlib.contextmanager
    def watched(self, is_peer_gone):
        """Look at them meanwhile: from before they are told, until torchrun has waited for them.

        Args:
            is_peer_gone: whether a peer of theirs is.
        """
        over = threading.Event()
        stalls = RankStalls(self._look(), time.monotonic())
        args = (stalls, over, is_peer_gone)
        threading.Thread(target=self._safely, args=args, daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def _safely(self, *args):
        try:
            self._follow(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the grace ends
            self._say("nobody looks whether the ranks can end any more: %r" % error)

    def _follow(self, stalls, over, is_peer_gone):
        while not over.wait(LOOK_SECONDS):
            stalled_ranks = stalls.update(self._look(), time.monotonic())
            if stalled_ranks and is_peer_gone() and not over.is_set():
                for waiting_rank in stalled_ranks:
                    self._kill(waiting_rank)

    def _kill(self, waiting_rank):
        words = "rank %d waits in %s #%d for a peer that is gone, and cannot end: killing it (%s)"
        facts = (
            waiting_rank.rank,
            waiting_rank.name,
            waiting_rank.collective[1],
            waiting_rank.place,
        )
        self._say(words % facts)
        with contextlib.suppress(OSError):
            os.kill(waiting_rank.pid, signal.SIGKILL)

    def _look(self):
        """The ranks of this pod that wait in a collective, by their numbers."""
        deadline, armed_ranks, waiting_ranks = time.monotonic() + ANSWER_SECONDS, [], {}
        living = self._why.processes()
        for rank, process in self._why.ranks(living).items():
            with contextlib.suppress(OSError, ValueError, IndexError):
                armed = self._why.ArmedProcess.of(process) if _is_own(process, living) else None
                if armed is not None and armed.ask_flight() and armed.ask_stacks():
                    armed_ranks.append((rank, process, armed))
        for rank, process, armed in armed_ranks:
            with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
                flight, stacks = armed.flight(deadline), armed.stacks(deadline)
                waiting_ranks[rank] = WaitingRank(rank, process, flight, stacks, self._why)
        return waiting_ranks
