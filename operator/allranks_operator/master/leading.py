"""The master of one job: what ties workers, policy and the job's pods together.

Workers' calls come from the server's threads and only touch memory, under one lock. Everything
that asks the API server is done by `tick`, in one thread, outside of the lock: an API server that
is slow or away stops no worker.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic import job as jobs
from allranks.elastic.policy.seen import WORKER, Decision
from allranks.errors import AllranksError, InputError, NotFoundError
from allranks_operator.master import endings, podviews, showing
from allranks_operator.master.endings import End
from allranks_operator.master.membership import Membership, World
from allranks_operator.master.seeing import Sights
from allranks_operator.master.silence import Silence
from allranks_operator.master.steering import Steering

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.elastic.job import ElasticJob
    from allranks_operator.master.backend import Backend
    from allranks_operator.master.log import Log
    from allranks_operator.master.options import Options
    from allranks_operator.master.podviews import PodView
    from allranks_operator.master.requests import Done, Join, Report

READ_SECONDS = 2.0
LOOK_SECONDS = 1.0
EXIT_TERMINATED = 143
# Ends that are their pod's: out of memory, killed, broken hardware. The watcher replaces the pod.
POD_CODES = frozenset({137, 247, 201, 202, 14})
# The program cannot be started, now or later.
FINAL_CODES = frozenset({126, 127})
Answer = dict[str, Any]


class NotKnown(Exception):  # noqa: N818 - an answer, not a fault
    """A worker that has not joined, or that is no pod of this job as far as is known yet."""

    def __init__(self, message: str, *, later: bool) -> None:
        super().__init__(message)
        self.later = later


class Master:
    """Leads one job."""

    def __init__(
        self,
        backend: Backend,
        options: Options,
        log: Log,
        clock: Callable[[], float],
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """Nothing is asked before the first tick.

        Args:
            backend: where the job is.
            options: the job's.
            log: where to write what happens.
            clock: seconds of a clock that never goes back.
            read_seconds: how often the job and its pods are read.
        """
        self._backend, self._options, self._log, self._clock = backend, options, log, clock
        self._read_seconds = read_seconds
        self._changed = threading.Condition()
        self._steering = Steering(backend, options, log)
        self._membership: Membership | None = None
        self._sights = Sights()
        self._job: ElasticJob | None = None
        self._pods: dict[str, PodView] = {}
        self._read_at = self._looked_at = float("-inf")
        self._failure, self._failed_with = "", 1
        self._failed_in = -1  # the generation that was of
        self._silence = Silence()
        self._said_failure = ""
        self._words: tuple[object, object] = (None, ())
        self.beat = clock()
        self.end: End | None = None
        # Set where something is to be read or decided before its turn.
        self.hurry = threading.Event()

    @property
    def pods(self) -> int:
        """How many pods the job is known to have."""
        return len(self._pods)

    @property
    def open(self) -> bool:
        """Whether a pod is left that was made before there were tokens, and can show none."""
        return any(pod.alive and not pod.has_token for pod in self._pods.values())

    # --- what workers say -------------------------------------------------------------------------

    def join(self, said: Join) -> Answer:
        """A worker is here.

        Raises:
            NotKnown: its pod is not known as the job's; to be asked again.
        """
        now = self._clock()
        with self._changed:
            if self.end is not None:
                return self._ended()
            name = said.node.pod
            pod = self._pods.get(name)
            if self._membership is None or pod is None or not pod.alive:
                self._read_at = float("-inf")
                self.hurry.set()
                raise _stranger(name)
            if not pod.is_at(said.node.address):
                raise InputError(
                    f"{said.node.address} is no address of pod {name}",
                    path="address",
                    hint=f"send {' or '.join(sorted(pod.addresses))}",
                )
            if said.training and not self._is_true(said.world):
                return {"state": "stop", "generation": self._membership.world.generation}
            if not self._membership.join(said.node, said.world, now, training=said.training):
                return {"state": "stop", "generation": self._membership.world.generation}
            self.hurry.set()
            return {"state": "wait", "generation": self._membership.world.generation}

    def _is_true(self, world: World) -> bool:
        """Whether the pods that are known are where a worker says that they are."""
        return all(
            node.pod not in self._pods or self._pods[node.pod].is_at(node.address)
            for node in world.nodes
        )

    def world(self, pod: str, after: int, seconds: float) -> Answer:
        """The generation after one, or what else a worker has to do; waits for it.

        Raises:
            NotKnown: the worker has to join first.
        """
        asked = self._clock()
        deadline = asked + seconds
        with self._changed:
            # Only the question is a sign of life: who waits for its answer may be frozen by now.
            if self._membership is not None:
                self._membership.hear(pod, asked)
            while True:
                answer = self._word(pod, after)
                left = deadline - self._clock()
                if answer is not None:
                    return answer
                if left <= 0:
                    return {"state": "wait", "generation": after}
                self._changed.wait(left)

    def report(self, said: Report) -> Answer:
        """A worker tells its speed.

        Raises:
            NotKnown: its pod is not known as the job's; to be told again.
        """
        now = self._clock()
        with self._changed:
            membership = self._membership
            if membership is None or said.pod not in self._pods:
                raise _stranger(said.pod)
            membership.hear(said.pod, now)
            if said.generation in (0, membership.world.generation):
                self._silence.end(now, first=not self._sights.reports.counts)
                if self._sights.reports.add(said):
                    membership.progressed = True
        return {}

    def done(self, said: Done) -> Answer:
        """A worker's training has ended, or it goes.

        Raises:
            NotKnown: the master does not know the job yet, which is to be told again; or it knows
                of no such pod.
        """
        now = self._clock()
        with self._changed:
            if self._membership is None:
                raise NotKnown("the master has only begun", later=True)
            known = said.pod in self._pods or said.pod in self._membership.members
            if not known and self.end is None:
                raise _stranger(said.pod, later=False)
            answer = self._judge(self._membership, said, now)
        self.hurry.set()
        return answer

    def _judge(self, membership: Membership, said: Done, now: float) -> Answer:
        if said.leaving:
            membership.lose(said.pod)
            return {"then": "exit", "code": said.code}
        if said.code == 0:
            membership.done(said.pod, now)
            return {"then": "exit", "code": 0}
        # A worker that fell with another one does not stand for it, whoever is heard first.
        follows = said.message.startswith((names.FAILED_FIRST, names.PEER_LOST))
        if not follows or self._failed_in != said.generation:
            self._failed_with, self._failed_in = said.code, said.generation
            self._failure = f"{said.pod}: {said.message or f'exit code {said.code}'}"
        if said.code in self._options.fatal_codes | FINAL_CODES:
            self.end = self.end or End(1, self._failure, said.code)
        if self.end is not None:
            told = {"message": self.end.verdict} if self.end.code else {}
            return {"then": "exit", "code": said.code, **told}
        if said.code in POD_CODES:
            membership.lose(said.pod)
            return {"then": "exit", "code": said.code}
        membership.fail(said.pod, said.generation, now)
        return {"then": "join"}

    def _word(self, pod: str, after: int) -> Answer | None:
        """What a worker has to do now; None where it has to wait."""
        if self.end is not None:
            return self._ended()
        membership = self._membership
        if membership is None or pod not in membership.members:
            raise NotKnown(f"{pod} has not joined", later=False)
        member, world = membership.members[pod], membership.world
        rank = world.rank(pod)
        if member.state == "training" and rank is not None:
            if world.generation > after:
                return _go(world, rank)
            if membership.forming is not None:
                return {"state": "stop", "generation": world.generation}
        return None

    def _ended(self) -> Answer:
        end = self.end or End(0, "")
        code = end.workers or end.code
        return {"state": "end", "code": code, "message": end.verdict}

    # --- what time brings -------------------------------------------------------------------------

    def tick(self) -> End | None:
        """Look at everything once; return the job's end where it has come."""
        now = self._clock()
        self.hurry.clear()
        try:
            if now - self._read_at >= self._read_seconds:
                self._read(now)
            self._turn(now)
            self._said_failure = ""
        except NotFoundError as error:
            self._log.fail("the job is gone", why=str(error))
            self.end = End(1, "the ElasticJob is gone")
        except AllranksError as error:
            if str(error) != self._said_failure:
                self._said_failure = str(error)
                self._log.warning("cannot go on for now", why=str(error))
        self.beat = self._clock()
        self._wake()
        return self.end

    def _wake(self) -> None:
        """Let those that wait look again, where there is something new: they may be a thousand."""
        with self._changed:
            job = self._membership
            words = (job.world.generation, job.forming is None, job.losses) if job else ()
            if (self.end, words) != self._words:
                self._words = (self.end, words)
                self._changed.notify_all()

    def finish(self) -> None:
        """Say and keep how the job ended."""
        if self._job is None or self.end is None:
            return
        if self.end.code:
            decision = Decision("TrainingFailed", self.end.message, warning=True)
            self._steering.say(self._job, decision)
        else:
            self._steering.say(self._job, Decision("TrainingEnded", self.end.message))
        self._keep("Failed" if self.end.code else "Succeeded")

    def _keep(self, end: str) -> None:
        if self._job is not None:
            self._steering.keep(self._job, self._clock(), end)

    def leave(self) -> str:
        """Keep what another master needs to go on; how the job goes on meanwhile, as a clause."""
        try:
            self._job = jobs.read(self._backend.job())
        except NotFoundError:
            return "the job is gone"
        except AllranksError:
            pass  # as it was known last
        job = self._job
        if job is None:
            return "nothing was decided yet"
        if job.target.end is not None:
            ended = job.target.end
            return f"the job has ended: {ended.message or ended.phase}"
        self._keep("")
        if job.suspend or job.deleting:
            return f"the job is {'being ended' if job.deleting else 'suspended'}"
        return "the job goes on without a master for now"

    def quiet(self) -> bool:
        """Whether no worker is left that has to be told of the end, or is on its way out.

        What runs when the master has ended is taken away, with its log.
        """
        with self._changed:
            membership = self._membership
            if membership is None:
                return True
            leaving = [name for name in membership.members if _alive(self._pods, name)]
            return not membership.live() and not leaving

    def _read(self, now: float) -> None:
        """Read the job and its pods."""
        job = jobs.read(self._backend.job())
        pods = podviews.read(self._backend.pods(), job.uid)
        if self._membership is None:
            self._steering.begin(job, now)
            timing = self._options.timing
            began = now if job.target.groups else now - timing.recover
            membership = Membership(timing, self._steering.least, began, self._options.max_restarts)
            # Where all workers are new, too, nobody else knows how far the numbers went.
            membership.world = World(self._steering.generation(job))
            self._log.info("leads", strategy=job.strategy, pods=len(pods))
        else:
            membership = self._membership
        with self._changed:
            self._membership, self._job, self._pods = membership, job, pods
            self._read_at = now
            for name in [name for name in membership.members if not _alive(pods, name)]:
                self._leave(membership, name, now)
            membership.forget([pod.name for pod in pods.values() if pod.alive])
            self._sights.note(pods.values())
            for pod in pods.values():
                if pod.phase == "Succeeded" and membership.world.rank(pod.name) is not None:
                    membership.done(pod.name, now)

    def _leave(self, membership: Membership, name: str, now: float) -> None:
        """A worker's pod has ended, or is no more."""
        pod = self._pods.get(name)
        if pod is not None and pod.phase == "Succeeded":
            membership.done(name, now)
        elif membership.members[name].state != "done":
            membership.lose(name)

    def _turn(self, now: float) -> None:
        """Form generations, decide, and see whether the job has ended."""
        job, membership = self._job, self._membership
        if job is None or membership is None:
            return
        begun = quiet = None
        with self._changed:
            if self.end is None:
                expected = [pod.name for pod in self._pods.values() if pod.alive and _trains(pod)]
                quiet = self._watch(membership, now)
                begun = membership.tick(expected, now)
                if begun is not None:
                    self._sights.reports.begin()
                self.end = self._over(job, membership)
            self._steering.begun = membership.world.generation
            over = self.end is not None
            seen = self._sights.seen(job, self._pods, membership, now, over=over)
        self._wake()  # before anything is asked of an API server that may not answer
        if begun is not None:
            self._steering.say(job, Decision("Generation", showing.begun(begun, membership.cause)))
        if quiet is not None:
            self._steering.say(job, quiet)
        if self.end is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._steering.look(job, seen, now)

    def _watch(self, membership: Membership, now: float) -> Decision | None:
        """See whether the training hangs, where it has said of steps before; what to say of it."""
        most = self._options.timing.stall if membership.world.nodes else None
        if membership.forming is not None or not self._sights.reports.counts:
            return None
        if self._silence.over(now, most):
            why = f"no step was reported for {most:g} s (stallSeconds)"
            self._failure, self._failed_with = why, 1
            membership.stall(why)
            return None
        return self._silence.word(now, most)

    def _over(self, job: ElasticJob, membership: Membership) -> End | None:
        if membership.exhausted:
            times = membership.max_restarts + 1
            told = f"the training failed {times} times in a row" if times > 1 else ""
            told = "; ".join(filter(None, (told, self._failure)))
            return End(1, told, self._failed_with)
        if membership.finished:
            return End(0, showing.done(membership))
        return endings.judge(job, self._pods, self._steering.least)

    def status(self) -> Answer:
        """Everything, for people and for tests."""
        with self._changed:
            found = showing.size(self._steering.state, self._steering.decisions)
            found |= showing.workers(self._membership, self._clock())
            end = None if self.end is None else {"code": self.end.code, "message": self.end.message}
            name = self._job.name if self._job is not None else ""
            return {"job": name, "step": self._sights.reports.furthest, **found, "end": end}


def _stranger(pod: str, *, later: bool = True) -> NotKnown:
    return NotKnown(f"{pod} is not known as a pod of this job{' yet' * later}", later=later)


def _go(world: World, rank: int) -> Answer:
    first = world.nodes[0]
    return {
        "state": "go",
        "generation": world.generation,
        "rank": rank,
        "nodes": [node.as_dict() for node in world.nodes],
        "masterAddr": first.address,
        "masterPort": first.port,
    }


def _alive(pods: dict[str, PodView], name: str) -> bool:
    return name in pods and pods[name].alive


def _trains(pod: PodView) -> bool:
    return pod.type in (WORKER, names.ROLE_CHIEF)
