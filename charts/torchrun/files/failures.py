"""Find the rank of a job that failed first, and tell every node of it.

torchrun knows the second in which it noticed an end, which says nothing: one rank's end takes its
peers with it, and torchrun ends the rest itself. What is true is kept here, per attempt:

* In a node, a thread per rank asks the kernel for its end (`os.waitid`), at once and in order. An
  end after torchrun began to stop the ranks is not a failure (`Attempt.stop`).
* Between nodes, each end is entered in the store of the rendezvous, which every agent is connected
  to anyway: no port, no listener, no clock of another machine. The store hands out the numbers of
  the entries, so their order is that of its arrivals. Keys carry the round of the rendezvous:
  an attempt that was restarted is not blamed for the next.
* A rank that lost the connection to a peer says so in its last lines. It is blamed only where no
  other rank failed, however late the first one's process was gone.
* A node that gives up says so there as well. The others then end too, with the same verdict, where
  they would wait for it for half an hour.
* A node whose ranks have all ended well says so there, and stays in torchrun's loop until those of
  the others have too: it ends with one that gives up, and starts its ranks again with one that
  does. torchrun itself hears nothing of the others then, and ends with 0 after five minutes.

It hooks three names of torch that are internal, and unchanged since 1.9: `_start_workers` and
`_monitor_workers` of the agent, and `close` of the processes' context. Where one is missing the
rest works with less truth. It is longer than most: what is seen of an attempt here, and what is
entered for the others, is one thing. Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import time

# What follows these words in a termination message is another pod's failure (see names.py).
FAILED_FIRST = "failed first: "
PEER_LOST = "lost a peer: "

AFTERMATH_SECONDS = 2.0  # a rank that failed may still be on its way out when its peers have gone
ENTER_SECONDS = 10.0  # for the entry of a rank that has ended; only a starved machine needs it
SETTLE_SECONDS = 5.0  # for the entries of all nodes to arrive
ENTRY_SECONDS = 3.0  # between an entry's number and its text
# For a node that may be missed to end its ranks too, as torchrun's own exit_barrier_timeout.
TOGETHER_SECONDS = 300.0
SAY_SECONDS = 5.0  # after which it says that it waits for them
TOGETHER_LOOK, TOGETHER_LOOKS = 0.1, 2000.0  # seconds between two looks; looks a second, of all
LINGER_SECONDS = 5.0  # rank 0's store stays for the others to read the verdict
YIELD_SECONDS = 1.0  # the pod that failed ends before those that follow it
ASK_SECONDS = 1.0  # between two looks at whether the job has ended elsewhere
MESSAGE_MAX = 1000  # characters: at most 4,000 bytes; Kubernetes keeps 4,096
ENTRIES_MAX = 64  # read of an attempt; the first are the ones that matter
ENTRY_MAX = 4000  # bytes

STORE_ERRORS = (RuntimeError, ValueError, OSError, LookupError)

# How gloo, NCCL and torch's store say that the other side is gone.
_PEER_LOST = re.compile(
    r"connection (was )?(closed|reset|refused)( by (remote )?peer)?"
    r"|broken pipe|socket timeout|connection timeout|failed to recv|failed to connect"
    r"|recvvalue|sendbytes|dist(network|store|backend)error|nccl.{0,40}(error|timeout|abort)"
    r"|watchdog|remote process (has )?exited|processgroup.{0,40}(timeout|abort|terminat)"
    r"|peer (closed|process|rank)|timed out (after )?waiting|no error message",
    re.IGNORECASE,
)


class Ending:
    """How a rank ended.

    Attributes:
        rank: its global rank.
        code: as a shell gives it; 0 for a good end.
        was_stopped: whether torchrun had begun to stop the ranks before.
        lines: its last lines.
        entered: whether the job's store has taken the entry; None while that is not known.
    """

    def __init__(self, rank, code, *, was_stopped, lines=""):
        """Take what is known."""
        self.rank = rank
        self.code = code if code >= 0 else 128 - code
        self.was_stopped = was_stopped
        self.lines = lines
        self.entered = None

    @property
    def follows(self):
        """Whether it fell with a peer, as far as its last lines tell."""
        return bool(_PEER_LOST.search("\n".join(self.lines.splitlines()[-6:])))


class FirstFailure:
    """What an attempt failed of.

    Attributes:
        rank, code, pod, lines: of the rank that failed first.
        node: the group rank of its node.
        follows: whether even that one fell with a peer, and the peer has said nothing.
    """

    def __init__(self, entry):
        """Read an entry of the store; a ValueError, KeyError or TypeError where it is none."""
        self.rank, self.code = int(entry["rank"]), int(entry["code"])
        self.node = int(entry["node"])
        self.pod, self.lines = str(entry["pod"])[:253], str(entry["lines"])
        self.follows = bool(entry["follows"])

    def message(self):
        """What another pod leaves as its reason."""
        sentence = "%srank %d in pod %s ended with exit code %d"
        return with_lines(sentence % (FAILED_FIRST, self.rank, self.pod, self.code), self.lines)


def describe(rank, code, others=(), lines=""):
    """One sentence on a failed rank, and its own last lines."""
    text = "rank %d ended with exit code %d" % (rank, code)
    others = sorted(set(others) - {rank})
    if others:
        text += " (and %d more on this node: %s)" % (len(others), ", ".join(map(str, others)))
    return with_lines(text, lines)


def with_lines(sentence, lines):
    """A sentence and the last lines of a rank, the last of them within a message's bound."""
    room = MESSAGE_MAX - len(sentence) - 1
    lines = lines.strip()
    if len(lines) > room:
        lines = "..." + lines[len(lines) - room + 3 :]
    return sentence + "\n" + lines if lines else sentence


def traceback_of(failure):
    """What a script decorated with torch's @record wrote down of its end; "" for others."""
    message = getattr(failure, "message", None)
    if not isinstance(message, dict):
        return ""
    stack = message.get("extraInfo", {}).get("py_callstack") or message.get("message", "")
    return str(stack).rstrip()


class Board:
    """The entries of one attempt, in the store of its rendezvous."""

    def __init__(self, store):
        """`store` is torch's, with the round in its prefix."""
        self.store = self._store = store
        self._verdicts = {}

    def enter(self, make):
        """Take a number at once, then write what `make` returns."""
        number = self._store.add("allranks/failures", 1)
        if number <= ENTRIES_MAX:
            self._store.set("allranks/failure/%d" % number, _packed(make()))

    def tell_steps(self, node, text):
        """Write how long the steps of a node take (progress.py)."""
        self._store.set("allranks/steps/%d" % node, text)

    def steps(self, nodes):
        """What the nodes have written of their steps, as far as they have."""
        keys = ["allranks/steps/%d" % node for node in range(nodes)]
        return [self._store.get(key) for key in keys if self._store.check([key])]

    def entries(self):
        """The verdict of each entry, in the order of their numbers."""
        count = min(self._store.add("allranks/failures", 0), ENTRIES_MAX)
        deadline = time.monotonic() + ENTRY_SECONDS
        for number in range(1, count + 1):
            key = "allranks/failure/%d" % number
            while number not in self._verdicts:
                if self._store.check([key]):
                    self._verdicts[number] = _unpacked(self._store.get(key))
                elif time.monotonic() > deadline:
                    break
                else:
                    time.sleep(0.02)
        verdicts = [self._verdicts.get(number) for number in range(1, count + 1)]
        return [verdict for verdict in verdicts if verdict is not None]

    def give_up(self):
        """Say that the job has ended, after the failure was entered."""
        self._store.set("allranks/over", "1")

    def is_over(self):
        """Whether a node has given up."""
        return self._store.check(["allranks/over"])

    def leave(self, node):
        """Say that a node was told to stop."""
        self._store.set("allranks/leaving/%d" % node, "1")

    def is_leaving(self, node):
        """Whether a node was told to stop."""
        return self._store.check(["allranks/leaving/%d" % node])

    def count_ended(self, more=1):
        """Count this node among those whose ranks have all ended well; return how many have."""
        return self._store.add("allranks/ended", more)

    def count_fine(self, more=1):
        """Count this node among those whose ranks all ran when another one gave up."""
        return self._store.add("allranks/fine", more)

    def count_informed(self, more=1):
        """Count this node among those that know the verdict; return how many do."""
        return self._store.add("allranks/heard", more)


def _packed(entry):
    """An entry within its bound: the last lines give way."""
    while True:
        text = json.dumps(entry)
        if len(text) <= ENTRY_MAX or not entry["lines"]:
            return text
        entry = dict(entry, lines=entry["lines"][len(entry["lines"]) // 4 + 1 :])


def _unpacked(content):
    try:
        return FirstFailure(json.loads(content[: 2 * ENTRY_MAX]))
    except (ValueError, KeyError, TypeError):
        return None  # not written by a launcher


class JobEnded(Exception):  # noqa: N818 - named for what has happened
    """Another node has given up: so does this one."""


class Attempt:
    """The ranks of this node, from one start to their end."""

    def __init__(self, pod, store, node, nodes):
        """Nothing has ended yet.

        Args:
            pod: this pod's name.
            store: of the rendezvous.
            node: this node's group rank.
            nodes: how many there are.
        """
        self.pod = pod
        self.node = node
        self.nodes = nodes
        self.rendezvous = None
        self.board = Board(store)
        self.verdict = None
        self.board_lost = False
        self._running = {}  # rank -> whether the kernel, or torch, has seen its end
        self._endings = []
        self._stopped = None  # the ranks that torchrun has stopped
        self._changed = threading.Condition()
        self._queried_at = 0.0
        self.success = None  # torchrun's own word that all ranks have ended well
        self._looked_at = self._ended_at = self._missing_since = 0.0
        self._is_announced = False  # that it waits for the others
        self.is_incomplete = False  # whether it has waited for them in vain

    def watch(self, rank, pid, lines, returncode):
        """Wait for the end of a process in a thread; `returncode` says it where torch took it."""
        self._running[rank] = lambda: returncode() is not None or _has_ended(pid)
        arguments = (rank, pid, lines, returncode)
        threading.Thread(target=self._wait, args=arguments, daemon=True).start()

    def _wait(self, rank, pid, lines, returncode):
        code = None
        try:
            end = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            code = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        except ChildProcessError:  # torch was faster
            code = returncode()
            while code is None:
                time.sleep(0.001)
                code = returncode()
        with self._changed:
            was_stopped = self._stopped is not None and rank in self._stopped
            ending = Ending(rank, code, was_stopped=was_stopped)
            self._endings.append(ending)  # before its lines are known: the order counts
        if ending.code and not ending.was_stopped:
            self._enter(ending, lines)
        with self._changed:
            del self._running[rank]
            self._changed.notify_all()

    def _enter(self, ending, lines):
        def entry():
            ending.lines = "\n".join(lines(ending.rank)) if lines else ""
            return {
                "rank": ending.rank,
                "code": ending.code,
                "pod": self.pod,
                "node": self.node,
                "lines": ending.lines,
                "follows": ending.follows,
            }

        try:
            self.board.enter(entry)
            ending.entered = True
        except STORE_ERRORS:
            entry()
            ending.entered = False

    def failures(self):
        """This node's own failures in order, those that only followed a peer last."""
        with self._changed:
            failed = [end for end in self._endings if end.code and not end.was_stopped]
        return sorted(failed, key=lambda ending: ending.follows)

    def stop(self):
        """Call before torchrun stops the ranks: what ends from here on was asked to.

        Where one has failed, the one that failed first may still be on its way to its end, and
        gets a moment for that: torchrun would overwrite its exit code.
        """
        if self._stopped is not None:
            return
        began = time.monotonic()
        while self._matters(time.monotonic() - began):
            with self._changed:
                self._changed.wait(0.05)
        with self._changed:
            self._stopped = [rank for rank, ended in self._running.items() if not ended()]
        while self._unentered() and time.monotonic() - began < ENTER_SECONDS:
            with self._changed:
                self._changed.wait(0.05)
        self._peek()

    def _matters(self, waited):
        """Whether another end of this node, or the end of its entry, is to be waited for."""
        with self._changed:
            entered = [end for end in self._endings if end.code and end.entered is not None]
            if any(not ending.follows for ending in entered):
                return False
            ended = [rank for rank, has_ended in self._running.items() if has_ended()]
            if not self._running or not (entered or ended):
                return False
        if ended:
            return waited < ENTER_SECONDS
        return waited < AFTERMATH_SECONDS and not self._peek()

    def _unentered(self):
        with self._changed:
            return [rank for rank in self._running if rank not in self._stopped]

    def _peek(self):
        """Keep the verdict where it is known by now."""
        if self.verdict is None and not self.board_lost:
            try:
                causes = [verdict for verdict in self.board.entries() if not verdict.follows]
            except STORE_ERRORS:
                self.board_lost = True
                return False
            self.verdict = causes[0] if causes else None
        return self.verdict is not None

    def ended_elsewhere(self):
        """Whether another node has given up; asks the store now and then."""
        now = time.monotonic()
        if self.board_lost or now - self._queried_at < ASK_SECONDS:
            return False
        self._queried_at = now
        try:
            over = self.board.is_over()
            if over and not self.failures():
                self.board.count_fine()
        except STORE_ERRORS:
            return False  # torchrun will notice
        return over

    def judge(self):
        """The verdict; None where no node has entered a failure, or the store is gone."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._peek() and not self.board_lost:
            try:
                verdicts = self.board.entries()
            except STORE_ERRORS:
                self.board_lost = True
                break
            try:
                fine = self.board.count_fine(0)
            except STORE_ERRORS:
                fine = 0
            failed_nodes = {verdict.node for verdict in verdicts}
            if verdicts and len(failed_nodes) + fine >= self.nodes:
                self.verdict = verdicts[0]
                self.verdict.follows = False  # everybody has spoken: nobody is missing
                break
            if time.monotonic() > deadline:
                self.verdict = verdicts[0] if verdicts else None
                break
            time.sleep(0.05)
        return self.verdict

    def has_lost_a_peer(self):
        """Whether a rank of the job has failed, or a node has left the rendezvous."""
        if self.board_lost or self.failures():
            return True
        members = self._count_members()
        return (members is not None and members < self.nodes) or self._peek()

    def _count_members(self):
        """How many nodes are in the rendezvous: internal to torch, and there since 1.9; or None."""
        state = getattr(getattr(self.rendezvous, "_state_holder", None), "state", None)
        members = getattr(state, "participants", None)
        return None if members is None else len(members)

    def ended(self):
        """The ranks of this node that have ended well, in order."""
        with self._changed:
            return sorted(end.rank for end in self._endings if not end.code)

    def awaits_others(self, say=None):
        """Whether ranks of other nodes still run, after all of this node's have ended well.

        It waits without a limit while each of these nodes is in the rendezvous, or has to come back
        for the job to go on. Where that is not known, or the job goes on without one, torchrun's
        own limit holds. A store that is gone is torchrun's to notice.

        Args:
            say: writes a line to the pod's log.
        """
        now = time.monotonic()
        if not self._looked_at:
            self._ended_at = self._missing_since = now
        elif now - self._looked_at < max(TOGETHER_LOOK, self.nodes / TOGETHER_LOOKS):
            return True
        is_first, self._looked_at = not self._looked_at, now
        try:
            count = self.board.count_ended(int(is_first))
            if count >= self.nodes:
                return False
            if say is not None and not self._is_announced and now - self._ended_at > SAY_SECONDS:
                self._is_announced = True
                say(
                    "all ranks of this pod have ended well; waiting for other pods (%d of %d)"
                    % (self.nodes - count, self.nodes)
                )
        except STORE_ERRORS:
            self.board_lost = True
        members = self._count_members()
        least = getattr(getattr(self.rendezvous, "_settings", None), "min_nodes", 0)
        if members is not None and (members >= self.nodes or members < least):
            self._missing_since = now
        self.is_incomplete = now - self._missing_since >= TOGETHER_SECONDS
        return not self.is_incomplete

    def give_up(self):
        """This node ends for good: so does the job."""
        try:
            self.board.give_up()
        except STORE_ERRORS:
            self.board_lost = True

    def leave(self):
        """This pod is told to stop: its ranks' ends are no failures."""
        try:
            self.board.leave(self.node)
        except STORE_ERRORS:
            self.board_lost = True

    def lead_is_lost(self):
        """Whether the node of group rank 0, with the store, is gone or about to go."""
        if self.board_lost or self.node == 0:
            return self.board_lost
        try:
            return self.board.is_leaving(0)
        except STORE_ERRORS:
            return True

    def part(self, seconds=LINGER_SECONDS):
        """Before this pod ends: the culprit's first, the one with the store last; all bounded."""
        own = self.verdict is not None and self.verdict.node == self.node
        try:
            count = self.board.count_informed()
            if not own:
                time.sleep(YIELD_SECONDS)
            deadline = time.monotonic() + seconds
            while self.node == 0 and count < self.nodes and time.monotonic() < deadline:
                time.sleep(0.05)
                count = self.board.count_informed(0)
        except STORE_ERRORS:
            return


class AttemptWatch:
    """What the hooks have seen: the newest attempt of this node."""

    def __init__(
        self,
        pod,
        fatal=frozenset(),
        *,
        lines=None,
        ends_together=True,
        stalled_ranks=None,
        say=None,
    ):
        """Of a pod.

        Args:
            pod: its name.
            fatal: the exit codes that no restart mends.
            lines: gives the last lines of a rank; None where they are not known.
            ends_together: whether this node ends when another one gives up; not where a master
                decides.
            stalled_ranks: looks at ranks that are told to end (stuck.py); None where nobody does.
            say: writes a line to the pod's log.
        """
        self.pod = pod
        self.fatal = fatal
        self.ends_together = ends_together
        self.lines = lines
        self.stalled_ranks, self.say = stalled_ranks, say
        self.attempt = None

    def hook(self):
        """Put the hooks into torch, each where its place is there."""
        from torch.distributed.elastic.agent.server.api import WorkerState
        from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
        from torch.distributed.elastic.multiprocessing.api import PContext, SignalException

        self._stopped, self._states = SignalException, WorkerState
        pass_through_logs(SignalException)
        _wrap(LocalElasticAgent, "_start_workers", self._around_start)
        _wrap(LocalElasticAgent, "_monitor_workers", self._around_monitor)
        _wrap(PContext, "close", self._around_close)

    def gave_up(self):
        """Whether a node has given up in the last attempt, as far as its store can still say."""
        if self.attempt is None:
            return False
        try:
            return self.attempt.board.is_over()
        except STORE_ERRORS:
            return False

    def _around_start(self, original, agent, group, *args, **options):
        self.attempt = None
        ranks = original(agent, group, *args, **options)
        context = getattr(agent, "_pcontext", None)
        if context is None or group.store is None:
            return ranks
        attempt = Attempt(self.pod, group.store, group.group_rank, group.group_world_size)
        attempt.rendezvous = getattr(group.spec, "rdzv_handler", None)
        for local, pid in context.pids().items():
            rank = group.workers[local].global_rank
            attempt.watch(rank, pid, self.lines, _returncode(context, local))
        self.attempt = attempt
        return ranks

    def _around_monitor(self, original, agent, group, *args, **options):
        attempt = self.attempt
        result = attempt.success if attempt is not None else None
        if result is None:
            result = original(agent, group, *args, **options)
        if attempt is None:
            codes = [failure.exitcode for failure in result.failures.values()]
        else:
            codes = [failure.code for failure in attempt.failures()]
        if result.is_failed():
            if self.fatal.intersection(codes):
                agent._remaining_restarts = 0
            if attempt is not None and agent._remaining_restarts <= 0:
                attempt.give_up()
        elif attempt is not None and self.ends_together and attempt.ended_elsewhere():
            attempt.judge()
            raise JobEnded
        elif attempt is not None and self.ends_together and result.state == self._states.SUCCEEDED:
            attempt.success = result
            if attempt.awaits_others(self.say):
                return type(result)(state=self._states.HEALTHY)
            if attempt.is_incomplete:  # torchrun would wait for them as long once more
                agent._exit_barrier_timeout = LINGER_SECONDS
        return result

    def _around_close(self, original, context, *args, **options):
        attempt = self.attempt
        if attempt is None:
            return original(context, *args, **options)
        is_signalled = isinstance(sys.exc_info()[1], self._stopped)
        if is_signalled:
            attempt.leave()
        attempt.stop()
        if is_signalled or self.stalled_ranks is None:
            return original(context, *args, **options)
        with self.stalled_ranks.watched(attempt.has_lost_a_peer):
            return original(context, *args, **options)


def pass_through_logs(kind):
    """Let an exception of a kind leave a call to log something.

    torch's signal handlers raise wherever Python is. Where that is in a handler of `logging`, which
    may load half of torch to format a line, `logging` prints the exception and goes on: the signal
    is lost, the ranks are not told to save, and the pod is killed at the end of its grace.
    """
    original = logging.Handler.handleError

    def handle(handler, record):
        if isinstance(sys.exc_info()[1], kind):
            raise  # noqa: PLE0704 - it is called where an exception is handled
        original(handler, record)

    logging.Handler.handleError = handle


def _wrap(kind, name, around):
    original = getattr(kind, name, None)
    if original is None:
        return

    def hooked(self, *args, **options):
        return around(original, self, *args, **options)

    setattr(kind, name, hooked)


def _has_ended(pid):
    """Whether a child has ended; it stays for torch to take."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True


def _returncode(context, local):
    """How a process ended, where torch has asked the kernel first."""

    def code():
        handlers = getattr(context, "subprocess_handlers", {})
        process = getattr(handlers.get(local), "proc", None)
        return getattr(process, "returncode", 1) if process is not None else 1

    return code
