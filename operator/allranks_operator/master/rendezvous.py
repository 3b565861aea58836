"""The rendezvous: generations of workers that train together.

A generation is a fixed set of workers with ranks. Where the set has to change (a worker is new, was
lost, or failed) a new generation is formed: those that train are told to stop, and when all have
stopped and joined again the new one begins, so that never two generations train, or write a
checkpoint, at the same time.

Pure but for its own fields: times come in as arguments, and nothing here waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# A generation is a matter of seconds at least: no worker was in so many that a master missed.
_AHEAD_MAX = 10_000
State = Literal["waiting", "training", "done"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Timeouts, in seconds.

    Attributes:
        gather: for workers that are expected, before a generation begins without them.
        recover: the same after this master was started for a job that may be training already.
        lost: without a word of a worker, before it is lost.
        stop: for a worker that was told to stop, before the generation begins without it.
        stall: for a step of anybody, where steps are reported, before the training hangs; 0 is for
            ever.
    """

    gather: float = 10.0
    recover: float = 30.0
    lost: float = 45.0
    stop: float = 60.0
    stall: float = 1800.0


@dataclass(frozen=True, slots=True)
class PeerNode:
    """A worker, as the other workers know it.

    Attributes:
        pod: its pod's name.
        address: where the others reach it.
        port: a port that is free there, for the generation that it has rank 0 of.
        procs: its processes.
    """

    pod: str
    address: str
    port: int = 0
    procs: int = 1

    def as_dict(self) -> dict[str, Any]:
        """The worker as JSON."""
        return {
            "pod": self.pod,
            "address": self.address,
            "port": self.port,
            "procs": self.procs,
        }


@dataclass(frozen=True, slots=True)
class JoinedWorker:
    """A worker that has joined.

    Attributes:
        node: the worker.
        state: ``waiting`` for a generation, ``training`` in one, or ``done``.
        last_heard: when it was heard of last.
    """

    node: PeerNode
    state: State
    last_heard: float


@dataclass(frozen=True, slots=True)
class Generation:
    """A fixed set of workers with ranks.

    Attributes:
        generation: its number, from 1; 0 is none.
        nodes: its workers in the order of their ranks.
    """

    generation: int = 0
    nodes: tuple[PeerNode, ...] = ()

    @property
    def pods(self) -> frozenset[str]:
        """The names of the workers' pods."""
        return frozenset(node.pod for node in self.nodes)

    def rank(self, pod: str) -> int | None:
        """The rank of a worker; None where it is not in this generation."""
        return next((rank for rank, node in enumerate(self.nodes) if node.pod == pod), None)


@dataclass(slots=True)
class Rendezvous:
    """The workers of a job and their generations.

    Attributes:
        timing: how long things are waited for.
        minimum: the fewest workers of a generation, with those that are done.
        now: when this began.
        max_restarts: failures of the training in a row that are tried again.
        members: the workers that have joined and are not lost, by pod.
        world: the generation that trains, or trained last.
        forming: since when its workers are told to stop; None while it trains.
        needed_since: since when another generation is needed; None where none is.
        reason: why it is.
        cause: why the generation that trains began.
        broken: workers of this generation that were lost in it.
        failed: workers of it whose training failed.
        progressed: whether the training did a step that was never done before, in this generation.
        restarts: failures in a row.
        exhausted: whether there were too many of them.
        losses: workers that were lost so far.
        silent: workers that were lost though nobody knows their pods to have ended: from when on
            such a pod is given up, and why.
        stalled: why this generation hangs; "" where it does not.
        formed: whether this master has formed a generation itself.
        ahead: the highest number that was told of a generation which is not this one.
    """

    timing: Timing
    minimum: int
    now: float
    max_restarts: int = 3
    members: dict[str, JoinedWorker] = field(default_factory=dict)
    world: Generation = Generation()
    forming: float | None = None
    needed_since: float | None = None
    reason: str = ""
    cause: str = ""
    broken: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    progressed: bool = False
    restarts: int = 0
    exhausted: bool = False
    losses: int = 0
    silent: dict[str, tuple[float, str]] = field(default_factory=dict)
    stalled: str = ""
    formed: bool = False
    ahead: int = 0

    # --- what workers say -------------------------------------------------------------------------

    def join(self, node: PeerNode, world: Generation, now: float, *, training: bool) -> bool:
        """Let a worker join.

        Args:
            node: the worker.
            world: the generation it trains in, or trained in last; its number is what counts.
            now: the time in seconds.
            training: whether it trains in that generation while it asks; so it does when this
                master is new and the worker is not.

        Returns:
            False where it trains in a generation that is over: it has to stop, and join again.
        """
        self.silent.pop(node.pod, None)
        has_generation = self.world.generation + bool(self.world.nodes)
        if world.generation >= max(1, has_generation):
            taking_over = now - self.now <= self.timing.recover or not self.world.nodes
            if taking_over and not self.formed:
                # From before this master was started: numbers only go up, and who trains goes on.
                self.world = world if training else Generation(world.generation)
            elif world.generation <= has_generation + _AHEAD_MAX:
                # This master's own generation stands; the next number is above the one reported.
                self.ahead = max(self.ahead, world.generation)
        if training:
            current = world.generation == self.world.generation and self.forming is None
            rank = self.world.rank(node.pod)
            if not current or rank is None:
                return False
            # The node as the other workers know it stays valid as long as it trains.
            self.members[node.pod] = JoinedWorker(self.world.nodes[rank], "training", now)
            self.broken.discard(node.pod)
            return True
        self.members[node.pod] = JoinedWorker(node, "waiting", now)
        return True

    def hear(self, pod: str, now: float) -> None:
        """Record a sign of life."""
        if pod in self.members:
            self.members[pod] = replace(self.members[pod], last_heard=now)

    def done(self, pod: str, now: float) -> None:
        """Record that a worker's training has succeeded."""
        if pod in self.members:
            self.members[pod] = replace(self.members[pod], state="done", last_heard=now)
        elif (rank := self.world.rank(pod)) is not None:
            self.members[pod] = JoinedWorker(self.world.nodes[rank], "done", now)
            self.broken.discard(pod)

    def fail(self, pod: str, generation: int, now: float) -> None:
        """Record that a worker's training has failed; the worker lives and joins again."""
        self.hear(pod, now)
        if generation == self.world.generation and pod in self.world.pods:
            self.failed.add(pod)

    def lose(self, pod: str) -> None:
        """Remove a worker whose pod has ended, or is being deleted."""
        member = self.members.pop(pod, None)
        self.losses += member is not None
        if member is not None and member.state != "done" and pod in self.world.pods:
            self.broken.add(pod)

    def stall(self, reason: str) -> None:
        """Fail a generation that makes no progress though all its workers live."""
        self.stalled = reason
        self.failed |= {pod for pod in self.world.pods if self._trains(pod)}

    def doubtful_pods(self, now: float) -> dict[str, str]:
        """The silent workers whose pods may still run, with the reason, by pod."""
        return {pod: reason for pod, (since, reason) in self.silent.items() if since <= now}

    def forget(self, pods: Collection[str]) -> None:
        """Drop pods that no longer exist."""
        for pod in [pod for pod in self.silent if pod not in pods]:
            del self.silent[pod]

    # --- what time brings -------------------------------------------------------------------------

    def tick(self, expected: Collection[str], now: float) -> Generation | None:
        """Form a generation where one is needed and possible; return it when it begins.

        Args:
            expected: the pods that are alive, whether they have joined or not.
            now: the time in seconds.
        """
        self._listen(now)
        self._miss(now)
        self._want(now)
        if self.needed_since is None:
            return None
        live = self.live()
        if self.forming is None:
            enough = len(live) >= self._fewest
            # Where they are too few, those that are left stop at once if they wait for one that
            # will not come back: so they are there when another has taken its place.
            if not (self._is_complete(expected, live, now) if enough else self.broken):
                return None
            self.forming = now
        return self._begin(live, now)

    def live(self) -> dict[str, JoinedWorker]:
        """The workers that train, or could, by pod."""
        return {pod: member for pod, member in self.members.items() if member.state != "done"}

    def counts(self, state: State) -> int:
        """The number of workers in each state."""
        return sum(member.state == state for member in self.members.values())

    @property
    def ending(self) -> bool:
        """Whether a worker of this generation is done."""
        return any(self._is_done(pod) for pod in self.world.pods)

    @property
    def finished(self) -> bool:
        """Whether all workers of this generation are done."""
        return (
            bool(self.world.nodes)
            and all(self._is_done(pod) or pod in self.broken for pod in self.world.pods)
            and self.ending
        )

    @property
    def _fewest(self) -> int:
        """The fewest workers that can form a generation.

        Those that are done need nobody beside them any more, and no pods come in their places: what
        is left to train at the end, fewer do.
        """
        return max(1, self.minimum - self.counts("done"))

    def _is_done(self, pod: str) -> bool:
        member = self.members.get(pod)
        return member is not None and member.state == "done"

    def _trains(self, pod: str) -> bool:
        member = self.members.get(pod)
        return member is not None and member.state == "training"

    def _listen(self, now: float) -> None:
        """Lose the workers that are silent: their machine is gone, or their processes hang."""
        for pod, member in list(self.members.items()):
            # A worker that has to stop is busy, and has `stop` seconds for it.
            stopping = self.forming is not None and member.state == "training"
            if member.state == "done" or stopping or now - member.last_heard <= self.timing.lost:
                continue
            self.lose(pod)
            self.silent[pod] = (now, f"said nothing for {self.timing.lost:g} s (lostSeconds)")

    def _miss(self, now: float) -> None:
        """Lose workers of an inherited generation that did not report in time."""
        if now - self.now <= self.timing.recover:
            return
        missing = {pod for pod in self.world.pods if pod not in self.members} - self.broken
        self.broken |= missing
        for pod in missing:
            self.silent[pod] = (now, f"said nothing to a new master for {self.timing.recover:g} s")

    def _want(self, now: float) -> None:
        """Check whether another generation is needed."""
        reason = self._reason()
        if not reason:
            self.needed_since, self.reason, self.forming = None, "", None
        elif reason != self.reason:
            self.needed_since, self.reason = now, reason

    def _reason(self) -> str:
        live = self.live()
        if not live:
            return ""
        if not self.world.nodes:
            return f"{len(live)} joined"
        parts = []
        if broken := self.broken & self.world.pods:
            parts.append(f"{_names(broken)} lost")
        if self.stalled:
            parts.append(self.stalled)
        elif self.failed:
            parts.append(f"training failed on {_names(self.failed)}")
        new = {pod for pod, member in live.items() if member.state == "waiting"} - self.world.pods
        if new and not self.ending:
            parts.append(f"{_names(new)} joined")
        back = {pod for pod, member in live.items() if member.state == "waiting"} & self.world.pods
        if back - self.failed and not parts:
            parts.append(f"{_names(back)} joined again")
        return ", ".join(parts)

    def _is_complete(
        self, expected: Collection[str], live: Mapping[str, JoinedWorker], now: float
    ) -> bool:
        """Whether all expected workers have joined, or had their time to."""
        finished = {pod for pod, member in self.members.items() if member.state == "done"}
        missing = set(expected) - set(live) - finished - set(self.silent)
        if missing and now - self.now < self.timing.recover:
            return False
        since = now if self.needed_since is None else self.needed_since
        return not missing or now - since >= self.timing.gather

    def _begin(self, live: Mapping[str, JoinedWorker], now: float) -> Generation | None:
        """Begin the generation when all workers of the last one have stopped."""
        began = now if self.forming is None else self.forming
        for pod in [pod for pod, member in live.items() if member.state == "training"]:
            if now - began < self.timing.stop:
                return None
            self.lose(pod)
            # It may only be slow to stop, and join again after all.
            reason = f"did not stop in {now - began:.0f} s, nor join again"
            self.silent[pod] = (now + self.timing.lost, reason)
        waiting = [member.node for member in self.members.values() if member.state == "waiting"]
        if len(waiting) < self._fewest:
            return None
        if not self._may_restart():
            return None
        order = sorted(waiting, key=lambda node: _order(self.world, node))
        self.world = Generation(max(self.world.generation, self.ahead) + 1, tuple(order))
        self.formed = True
        for node in order:
            self.members[node.pod] = replace(self.members[node.pod], state="training")
        self.broken, self.failed, self.progressed, self.stalled = set(), set(), False, ""
        self.forming = self.needed_since = None
        self.cause, self.reason = self.reason, ""
        return self.world

    def _may_restart(self) -> bool:
        """Whether a failure is retried; a lost worker is no failure of the training."""
        if not self.failed or self.broken:
            return True
        if self.progressed:
            self.restarts = 0
        self.restarts += 1
        self.exhausted = self.restarts > self.max_restarts
        return not self.exhausted


def _order(world: Generation, node: PeerNode) -> tuple[int, int, str]:
    """Workers in order of rank: those of the last generation first, then new ones by pod number."""
    rank = world.rank(node.pod)
    stem, _, last = node.pod.rpartition("-")
    number = int(last) if last.isascii() and last.isdigit() else 0
    return (len(world.nodes) if rank is None else rank, number, stem)


def _names(pods: Collection[str]) -> str:
    """The pods' names; only the first of many."""
    return list_some(sorted(pods))
