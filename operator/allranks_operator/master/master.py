"""The master of one job: connects its workers, its policy and its pods.

Workers' calls come from the server's threads and only touch memory, under one lock. Everything
that asks the API server is done by `tick`, in one thread, outside of the lock: an API server that
is slow or away stops no worker.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.api import job as jobs
from allranks.elastic.policy.observation import WORKER, PolicyDecision
from allranks.errors import AllranksError, InputError, NotFoundError
from allranks.humanize import plural
from allranks_operator.master import job_end, observation
from allranks_operator.master.job_end import JobResult, StallDetector
from allranks_operator.master.observation import PolicyObserver
from allranks_operator.master.rendezvous import Generation, Rendezvous
from allranks_operator.master.scaling import Scaler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.policy.state import PolicyState
    from allranks_operator.master.backend import MasterBackend
    from allranks_operator.master.log import Log
    from allranks_operator.master.observation import PodView
    from allranks_operator.master.options import MasterOptions
    from allranks_operator.master.protocol import Done, Join, WorkerReport


READ_SECONDS = 2.0
LOOK_SECONDS = 1.0
EXIT_TERMINATED = 143
# Exit codes of a broken pod: out of memory, killed, bad hardware. The operator replaces the pod.
POD_CODES = frozenset({137, 247, 201, 202, 14})
# The program cannot be started, now or later.
FINAL_CODES = frozenset({126, 127})
Answer = dict[str, Any]


class NotKnown(Exception):  # noqa: N818 - an answer, not a fault
    """A worker that has not joined, or whose pod does not belong to the job as far as known."""

    def __init__(self, message: str, *, later: bool) -> None:
        super().__init__(message)
        self.later = later


class Master:
    """Manages one job."""

    def __init__(
        self,
        backend: MasterBackend,
        options: MasterOptions,
        log: Log,
        clock: Callable[[], float],
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """Create it; nothing is requested before the first tick.

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
        self._scaler = Scaler(backend, options, log)
        self._rendezvous: Rendezvous | None = None
        self._observer = PolicyObserver()
        self._job: ElasticJob | None = None
        self._pods: dict[str, PodView] = {}
        self._read_at = self._looked_at = float("-inf")
        self._failure, self._failed_with = "", 1
        self._failed_generation = -1  # the one in which the failure happened
        self._stall = StallDetector()
        self._last_error = ""
        self._last_state: tuple[object, object] = (None, ())
        self.beat = clock()
        self.end: JobResult | None = None
        # Set where something is to be read or decided before its turn.
        self.hurry = threading.Event()

    @property
    def pods(self) -> int:
        """The number of the job's pods, as last read."""
        return len(self._pods)

    @property
    def open(self) -> bool:
        """Whether a pod is left that was created before tokens existed, and can show none."""
        return any(pod.alive and not pod.has_token for pod in self._pods.values())

    # --- what workers say -------------------------------------------------------------------------

    def join(self, request: Join) -> Answer:
        """Let a worker join.

        Raises:
            NotKnown: its pod is not known as the job's; to be asked again.
        """
        now = self._clock()
        with self._changed:
            if self.end is not None:
                return self._end_answer()
            name = request.node.pod
            pod = self._pods.get(name)
            if self._rendezvous is None or pod is None or not pod.alive:
                self._read_at = float("-inf")
                self.hurry.set()
                raise _unknown_pod(name)
            if not pod.is_at(request.node.address):
                raise InputError(
                    f"{request.node.address} is no address of pod {name}",
                    path="address",
                    hint=f"send {' or '.join(sorted(pod.addresses))}",
                )
            if request.training and not self._matches_pods(request.world):
                return {"state": "stop", "generation": self._rendezvous.world.generation}
            if not self._rendezvous.join(
                request.node, request.world, now, training=request.training
            ):
                return {"state": "stop", "generation": self._rendezvous.world.generation}
            self.hurry.set()
            return {"state": "wait", "generation": self._rendezvous.world.generation}

    def _matches_pods(self, world: Generation) -> bool:
        """Whether a generation's addresses agree with the pods that are known."""
        return all(
            node.pod not in self._pods or self._pods[node.pod].is_at(node.address)
            for node in world.nodes
        )

    def world(self, pod: str, after: int, seconds: float) -> Answer:
        """The next generation, or another instruction for a worker; waits for it.

        Raises:
            NotKnown: the worker has to join first.
        """
        start = self._clock()
        deadline = start + seconds
        with self._changed:
            # Only the question is a sign of life: who waits for its answer may be frozen by now.
            if self._rendezvous is not None:
                self._rendezvous.hear(pod, start)
            while True:
                answer = self._instruction(pod, after)
                remaining = deadline - self._clock()
                if answer is not None:
                    return answer
                if remaining <= 0:
                    return {"state": "wait", "generation": after}
                self._changed.wait(remaining)

    def report(self, request: WorkerReport) -> Answer:
        """Take a worker's report of its speed.

        Raises:
            NotKnown: its pod is not known as the job's; to be told again.
        """
        now = self._clock()
        with self._changed:
            rendezvous = self._rendezvous
            if rendezvous is None or request.pod not in self._pods:
                raise _unknown_pod(request.pod)
            rendezvous.hear(request.pod, now)
            if request.generation in (0, rendezvous.world.generation):
                self._stall.record_step(now, first=not self._observer.reports.counts)
                if self._observer.reports.add(request):
                    rendezvous.progressed = True
        return {}

    def done(self, request: Done) -> Answer:
        """Take the end of a worker's training, or of the worker.

        Raises:
            NotKnown: the master does not know the job yet, which is to be told again; or it knows
                of no such pod.
        """
        now = self._clock()
        with self._changed:
            if self._rendezvous is None:
                raise NotKnown("the master has only begun", later=True)
            is_member = request.pod in self._pods or request.pod in self._rendezvous.members
            if not is_member and self.end is None:
                raise _unknown_pod(request.pod, later=False)
            answer = self._answer_end(self._rendezvous, request, now)
        self.hurry.set()
        return answer

    def _answer_end(self, rendezvous: Rendezvous, request: Done, now: float) -> Answer:
        if request.leaving:
            rendezvous.lose(request.pod)
            return {"then": "exit", "code": request.code}
        if request.code == 0:
            rendezvous.done(request.pod, now)
            return {"then": "exit", "code": 0}
        # A worker that fell with another one does not stand for it, whoever is heard first.
        follows = request.message.startswith((names.FAILED_FIRST, names.PEER_LOST))
        if not follows or self._failed_generation != request.generation:
            self._failed_with, self._failed_generation = request.code, request.generation
            self._failure = f"{request.pod}: {request.message or f'exit code {request.code}'}"
        if request.code in self._options.fatal_codes | FINAL_CODES:
            self.end = self.end or JobResult(1, self._failure, request.code)
        if self.end is not None:
            extra = {"message": self.end.verdict} if self.end.code else {}
            return {"then": "exit", "code": request.code, **extra}
        if request.code in POD_CODES:
            rendezvous.lose(request.pod)
            return {"then": "exit", "code": request.code}
        rendezvous.fail(request.pod, request.generation, now)
        return {"then": "join"}

    def _instruction(self, pod: str, after: int) -> Answer | None:
        """The instruction for a worker; None where it has to wait."""
        if self.end is not None:
            return self._end_answer()
        rendezvous = self._rendezvous
        if rendezvous is None or pod not in rendezvous.members:
            raise NotKnown(f"{pod} has not joined", later=False)
        member, world = rendezvous.members[pod], rendezvous.world
        rank = world.rank(pod)
        if member.state == "training" and rank is not None:
            if world.generation > after:
                return _go(world, rank)
            if rendezvous.forming is not None:
                return {"state": "stop", "generation": world.generation}
        return None

    def _end_answer(self) -> Answer:
        end = self.end or JobResult(0, "")
        code = end.workers or end.code
        return {"state": "end", "code": code, "message": end.verdict}

    # --- what time brings -------------------------------------------------------------------------

    def tick(self) -> JobResult | None:
        """Read, decide and act once; return the job's result where it has ended."""
        now = self._clock()
        self.hurry.clear()
        try:
            if now - self._read_at >= self._read_seconds:
                self._read(now)
            self._step(now)
            self._last_error = ""
        except NotFoundError as error:
            self._log.fail("the job is gone", why=str(error))
            self.end = JobResult(1, "the ElasticJob is gone")
        except AllranksError as error:
            if str(error) != self._last_error:
                self._last_error = str(error)
                self._log.warning("cannot go on for now", why=str(error))
        self.beat = self._clock()
        self._wake()
        return self.end

    def _wake(self) -> None:
        """Wake the waiting workers, only where something is new: they may be a thousand."""
        with self._changed:
            job = self._rendezvous
            words = (job.world.generation, job.forming is None, job.losses) if job else ()
            if (self.end, words) != self._last_state:
                self._last_state = (self.end, words)
                self._changed.notify_all()

    def finish(self) -> None:
        """Record and save how the job ended."""
        if self._job is None or self.end is None:
            return
        if self.end.code:
            decision = PolicyDecision("TrainingFailed", self.end.message, warning=True)
            self._scaler.record(self._job, decision)
        else:
            self._scaler.record(self._job, PolicyDecision("TrainingEnded", self.end.message))
        self._save("Failed" if self.end.code else "Succeeded")

    def _save(self, end: str) -> None:
        if self._job is not None:
            self._scaler.save(self._job, self._clock(), end)

    def leave(self) -> str:
        """Save what the next master needs; return how the job goes on meanwhile, as a clause."""
        try:
            self._job = jobs.read(self._backend.job())
        except NotFoundError:
            return "the job is gone"
        except AllranksError:
            pass  # the job as last read
        job = self._job
        if job is None:
            return "nothing was decided yet"
        if job.target.end is not None:
            result = job.target.end
            return f"the job has ended: {result.message or result.phase}"
        self._save("")
        if job.suspend or job.deleting:
            return f"the job is {'being ended' if job.deleting else 'suspended'}"
        return "the job goes on without a master for now"

    def quiet(self) -> bool:
        """Whether every worker knows of the end and has left.

        What runs when the master has ended is taken away, with its log.
        """
        with self._changed:
            rendezvous = self._rendezvous
            if rendezvous is None:
                return True
            leaving = [name for name in rendezvous.members if _alive(self._pods, name)]
            return not rendezvous.live() and not leaving

    def _read(self, now: float) -> None:
        """Read the job and its pods."""
        job = jobs.read(self._backend.job())
        pods = observation.read(self._backend.pods(), job.uid)
        if self._rendezvous is None:
            self._scaler.begin(job, now)
            timing = self._options.timing
            began = now if job.target.groups else now - timing.recover
            rendezvous = Rendezvous(timing, self._scaler.minimum, began, self._options.max_restarts)
            # Where all workers are new, too, nobody else knows how far the numbers went.
            rendezvous.world = Generation(self._scaler.generation(job))
            self._log.info("leads", strategy=job.strategy, pods=len(pods))
        else:
            rendezvous = self._rendezvous
        with self._changed:
            self._rendezvous, self._job, self._pods = rendezvous, job, pods
            self._read_at = now
            for name in [name for name in rendezvous.members if not _alive(pods, name)]:
                self._leave(rendezvous, name, now)
            rendezvous.forget([pod.name for pod in pods.values() if pod.alive])
            self._observer.note(pods.values())
            for pod in pods.values():
                if pod.phase == "Succeeded" and rendezvous.world.rank(pod.name) is not None:
                    rendezvous.done(pod.name, now)

    def _leave(self, rendezvous: Rendezvous, name: str, now: float) -> None:
        """Remove a worker whose pod has ended or is gone."""
        pod = self._pods.get(name)
        if pod is not None and pod.phase == "Succeeded":
            rendezvous.done(name, now)
        elif rendezvous.members[name].state != "done":
            rendezvous.lose(name)

    def _step(self, now: float) -> None:
        """Form generations, decide, and check whether the job has ended."""
        job, rendezvous = self._job, self._rendezvous
        if job is None or rendezvous is None:
            return
        generation = quiet = None
        with self._changed:
            if self.end is None:
                expected = [pod.name for pod in self._pods.values() if pod.alive and _trains(pod)]
                quiet = self._check_stall(rendezvous, now)
                generation = rendezvous.tick(expected, now)
                if generation is not None:
                    self._observer.reports.begin()
                self.end = self._result(job, rendezvous)
            self._scaler.begun = rendezvous.world.generation
            over = self.end is not None
            observation = self._observer.observe(job, self._pods, rendezvous, now, over=over)
        self._wake()  # before any request to an API server that may not answer
        if generation is not None:
            self._scaler.record(
                job, PolicyDecision("Generation", generation_message(generation, rendezvous.cause))
            )
        if quiet is not None:
            self._scaler.record(job, quiet)
        if self.end is None and now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._scaler.decide(job, observation, now)

    def _check_stall(self, rendezvous: Rendezvous, now: float) -> PolicyDecision | None:
        """Fail a training that hangs, where it has reported steps; return a warning, or None."""
        stall_seconds = self._options.timing.stall if rendezvous.world.nodes else None
        if rendezvous.forming is not None or not self._observer.reports.counts:
            return None
        if self._stall.is_stalled(now, stall_seconds):
            message = f"no step was reported for {stall_seconds:g} s (stallSeconds)"
            self._failure, self._failed_with = message, 1
            rendezvous.stall(message)
            return None
        return self._stall.event(now, stall_seconds)

    def _result(self, job: ElasticJob, rendezvous: Rendezvous) -> JobResult | None:
        if rendezvous.exhausted:
            times = rendezvous.max_restarts + 1
            message = f"the training failed {times} times in a row" if times > 1 else ""
            message = "; ".join(filter(None, (message, self._failure)))
            return JobResult(1, message, self._failed_with)
        if rendezvous.finished:
            return JobResult(0, end_message(rendezvous))
        return job_end.judge(job, self._pods, self._scaler.minimum)

    def status(self) -> Answer:
        """The master's whole state, for people and tests."""
        with self._changed:
            status = size(self._scaler.state, self._scaler.decisions)
            status |= workers(self._rendezvous, self._clock())
            end = None if self.end is None else {"code": self.end.code, "message": self.end.message}
            name = self._job.name if self._job is not None else ""
            return {"job": name, "step": self._observer.reports.furthest, **status, "end": end}


def _unknown_pod(pod: str, *, later: bool = True) -> NotKnown:
    return NotKnown(f"{pod} is not known as a pod of this job{' yet' * later}", later=later)


def _go(world: Generation, rank: int) -> Answer:
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


def workers(rendezvous: Rendezvous | None, now: float) -> dict[str, Any]:
    """The workers of a job and their generation, for the status.

    Args:
        rendezvous: what is known of it.
        now: seconds of the master's clock.
    """
    if rendezvous is None:
        return {"generation": 0, "forming": False, "why": "", "workers": []}
    world = rendezvous.world
    return {
        "generation": world.generation,
        "forming": rendezvous.forming is not None,
        "why": rendezvous.reason,
        "workers": [
            {
                "pod": pod,
                "state": member.state,
                "rank": world.rank(pod),
                "address": member.node.address,
                "silentSeconds": round(now - member.last_heard, 1),
            }
            for pod, member in sorted(rendezvous.members.items())
        ],
    }


def size(state: PolicyState | None, decisions: Iterable[PolicyDecision]) -> dict[str, Any]:
    """The number of workers and the reasons for it, for the status."""
    events = [{"reason": decision.reason, "message": decision.message} for decision in decisions]
    if state is None:
        return {"decisions": events}
    return {
        "wanted": state.desired,
        "least": state.minimum,
        "most": state.maximum,
        "fixed": state.fixed,
        "speeds": {str(count): speed for count, speed in sorted(state.speeds.items())},
        "decisions": events,
    }


def generation_message(world: Generation, reason: str) -> str:
    """The message of a generation that begins.

    Args:
        world: the generation.
        reason: it does.
    """
    size = len(world.nodes)
    return f"generation {world.generation} of {plural(size, 'worker')} begins: {reason}"


def end_message(rendezvous: Rendezvous) -> str:
    """The message of a training that has succeeded."""
    size, missing = len(rendezvous.world.nodes), len(rendezvous.broken)
    if missing:
        return f"{size - missing} of {plural(size, 'worker')} finished, and the others are gone"
    return f"all {plural(size, 'worker')} are done" if size > 1 else "the worker is done"
