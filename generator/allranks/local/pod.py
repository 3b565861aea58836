"""One attempt of a pod: its containers' processes, acted on as `allranks.local.podlife` decides."""

from __future__ import annotations

import os
import shutil
import signal
import uuid
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import InputError
from allranks.local import environ, logfiles, podlife, process, tree, volumes
from allranks.local.controller import PodView
from allranks.local.fields import Placed
from allranks.local.mpi import Door
from allranks.local.ownhost import Host, Way
from allranks.local.plan import ContainerPlan, Kind, PodPlan, Restart
from allranks.local.podlife import ContainerState, Life
from allranks.local.rewrite import Names, Rewriter, pod_names
from allranks.model.ranklines import Writers
from allranks.model.status import STOPPED, Failure, PodPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.local.backoff import Backoff
    from allranks.local.store import RunFolder

_START_ERROR = 128  # as containerd reports a program that is not there
_MESSAGE_MAX = 4096
_FALLBACK_LINES = 80
_FAILURE_LINES = 10
_DRAIN_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Context:
    """What all pods of a run share.

    Attributes:
        folder: the run's folder.
        surroundings: release, addresses and inherited environment.
        names: host names to addresses.
        gpus: ``CUDA_VISIBLE_DEVICES`` by pod.
        workdir: where containers start that name no folder.
        backoff: how long retries wait.
        way: how each pod gets a host of its own; `Way.NONE` where all share this machine's.
        hosts: what stands at ``/etc/hosts`` of a pod with a host of its own.
    """

    folder: RunFolder
    surroundings: environ.Surroundings
    names: Names
    gpus: Mapping[str, str]
    workdir: Path
    backoff: Backoff
    way: Way = Way.NONE
    hosts: Path = Path("/etc/hosts")


@dataclass(slots=True)
class _Process:
    """The process of a container that was started and is not quite gone."""

    container: ContainerPlan
    pid: int
    id: str
    log: Path
    state: str = ""  # its state folder, where its workload has one
    draining: bool = False  # its main process ended while stopping; others are still at it


@dataclass(slots=True)
class PodRun:
    """A pod that was created.

    Attributes:
        plan: the pod.
        attempt: which attempt of it, from 0.
        context: what the run shares.
        created_at: when it was created.
        phase: its phase.
        waiting: what it waits for, for people.
        wake_at: when `step` must be called though nothing happens; None for never.
        finished_at: when it ended; None before.
        reason: one word for its end, where its containers' exit codes do not say it.
        failures: containers that ended badly, in order.
        stopped: whether its controller (or a person) stopped it.
        done: whether it was stopped because nothing was left for it to do.
    """

    plan: PodPlan
    attempt: int
    context: Context
    created_at: float
    phase: PodPhase = PodPhase.PENDING
    waiting: str = ""
    wake_at: float | None = None
    finished_at: float | None = None
    reason: str = ""
    failures: list[Failure] = field(default_factory=list)
    stopped: bool = False
    done: bool = False
    uid: str = field(default_factory=lambda: str(uuid.uuid4()))
    states: dict[str, ContainerState] = field(default_factory=dict)
    _processes: dict[str, _Process] = field(default_factory=dict)
    _kill_at: float | None = None

    def __post_init__(self) -> None:
        """A container that has done nothing yet has a state all the same."""
        self.states = {one.name: ContainerState() for one in self.plan.containers}

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.finished_at is None

    @property
    def address(self) -> str:
        """Its address."""
        return self.context.surroundings.addresses[self.plan.name]

    @property
    def pids(self) -> dict[int, str]:
        """Container by the pid of its main process."""
        return {one.pid: name for name, one in self._processes.items() if not one.draining}

    @property
    def door(self) -> Door | None:
        """How its first main container is entered; None where it does not run."""
        main = next(one.name for one in self.plan.containers if one.kind is Kind.MAIN)
        found = self._processes.get(main)
        if found is None or not found.state or found.draining:
            return None
        hosts = (self.address, *pod_names(self.plan, self.context.surroundings.release.namespace))
        return Door(hosts, found.state, found.pid, found.id)

    @property
    def ended_well(self) -> bool:
        """Whether the last end of each main container was a good one, and none runs."""
        main = [self.states[one.name] for one in self.plan.containers if one.kind is Kind.MAIN]
        return all(state.ended and state.exit_code == 0 for state in main)

    @property
    def ready(self) -> bool:
        """Whether all its main containers run."""
        main = [self.states[one.name] for one in self.plan.containers if one.kind is Kind.MAIN]
        return self.phase is PodPhase.RUNNING and all(state.running for state in main)

    def view(self) -> PodView:
        """The pod as its controller sees it."""
        main = tuple(one.name for one in self.plan.containers if one.kind is Kind.MAIN)
        order = (*main, *(one.name for one in self.plan.containers if one.name not in main))
        retried = any(one.restart is Restart.ON_FAILURE for one in self.plan.containers)
        return PodView(
            name=self.plan.name,
            index=self.plan.index,
            phase=self.phase,
            finished_at=self.finished_at or 0.0,
            exits=tuple(
                (name, code) for name in order if (code := self.states[name].exit_code) is not None
            ),
            main=main,
            restarts=sum(one.restarts for one in self.states.values()) if retried else 0,
            ready=all(self.states[name].running for name in main),
            stopped=self.stopped,
        )

    # ------------------------------------------------------------ its life

    def step(self, now: float) -> None:
        """Do what is next: start, stop, or end."""
        if not self.active:
            return
        if self._kill_at is None and self._is_past_deadline(now):
            self.reason = "DeadlineExceeded"
            self._terminate(now, self._processes)
        if self._kill_at is not None:
            self._step_stopping(now)
            return
        life = self._decide(now)
        while life.start:  # a container that cannot start has ended at once: decide again
            for name in life.start:
                self._start(name, now)
            life = self._decide(now)
        self.phase, self.waiting, self.wake_at = life.phase, life.waiting, life.wake_at
        if self.plan.deadline is not None:
            deadline = self.created_at + self.plan.deadline
            self.wake_at = min(deadline, self.wake_at or deadline)
        if life.stop:
            self._terminate(now, life.stop)
        elif life.phase in {PodPhase.SUCCEEDED, PodPhase.FAILED}:
            self._finish(now)

    def ended(self, name: str, code: int, now: float) -> None:
        """The main process of a container has ended."""
        ended = self._processes[name]
        self._record_end(ended, code, now)
        if self._kill_at is None:
            # As in a container: nothing outlives its first process.
            tree.kill(names.ENV_CONTAINER_ID, [ended.id])
            del self._processes[name]
        else:
            ended.draining = True
            tree.send(tree.marked(names.ENV_CONTAINER_ID, [ended.id]), signal.SIGTERM)

    def stop(self, now: float, *, at_once: bool = False, done: bool = False) -> None:
        """Stop it for good: SIGTERM, and SIGKILL after its grace period.

        Args:
            now: the time.
            at_once: without the grace period.
            done: nothing is left for it to do: being stopped is a good end.
        """
        if not self.active:
            return
        self.stopped, self.done = True, self.done or done
        if self._kill_at is None:
            self.reason = "" if self.done and self.ended_well else STOPPED
            self._terminate(now, self._processes)
        if at_once:
            self._kill_at = now

    def _decide(self, now: float) -> Life:
        return podlife.decide(self.plan.containers, self.states, now, self.context.backoff)

    def _is_past_deadline(self, now: float) -> bool:
        return self.plan.deadline is not None and now >= self.created_at + self.plan.deadline

    def _terminate(self, now: float, chosen: Mapping[str, object] | tuple[str, ...]) -> None:
        """SIGTERM to the main process alone, which is what a cluster sends it to."""
        self._kill_at = now + self.plan.grace
        for name in chosen:
            with suppress(ProcessLookupError):
                os.kill(self._processes[name].pid, signal.SIGTERM)

    def _step_stopping(self, now: float) -> None:
        if self._kill_at is not None and now >= self._kill_at:
            tree.kill(names.ENV_CONTAINER_ID, [one.id for one in self._processes.values()])
            for name, one in tuple(self._processes.items()):
                if not one.draining and not process.is_child(one.pid):
                    # Its exit status went elsewhere; to wait for it would be to wait for ever.
                    self.ended(name, 128 + signal.SIGKILL, now)
        self._drain()
        if not self._processes:
            self.phase = self._final_phase()
            self._finish(now)
            return
        draining = any(one.draining for one in self._processes.values())
        self.waiting = "its processes to end"
        self.wake_at = now + _DRAIN_POLL if draining else self._kill_at

    def _drain(self) -> None:
        """Forget the containers of which no process is left."""
        draining = {one.id: name for name, one in self._processes.items() if one.draining}
        if draining:
            alive = tree.living(names.ENV_CONTAINER_ID, draining)
            for identity in draining.keys() - alive:
                del self._processes[draining[identity]]

    def _final_phase(self) -> PodPhase:
        if self.done:
            if self.ended_well:
                self.reason = ""  # it was ending by itself when it was told to
            return PodPhase.SUCCEEDED
        if self.stopped or self.reason:
            return PodPhase.FAILED
        main = [self.states[one.name] for one in self.plan.containers if one.kind is Kind.MAIN]
        ended_well = all(state.exit_code == 0 for state in main)
        return PodPhase.SUCCEEDED if ended_well else PodPhase.FAILED

    def _finish(self, now: float) -> None:
        self.finished_at = now
        self.waiting, self.wake_at = "", None
        shutil.rmtree(self._folders().pod, ignore_errors=True)

    # ------------------------------------------------------------ containers

    def _folders(self) -> volumes.Folders:
        folder = self.context.folder
        return volumes.Folders(pod=folder.pods / self.plan.name / self.uid, claims=folder.claims)

    def _start(self, name: str, now: float) -> None:
        container = next(one for one in self.plan.containers if one.name == name)
        state = self.states[name]
        log = logfiles.announce(
            self.context.folder.logs,
            logfiles.LogFile(
                pod=self.plan.name,
                rank=self.plan.rank,
                role=self.plan.role,
                container=name,
                attempt=self.attempt,
                start=state.starts,
                writers=Writers.of(container.manifest),
            ),
        )
        self.states[name] = replace(
            state, running=True, starts=state.starts + 1, started_at=now, message="", reason=""
        )
        identity = f"{self.uid}/{name}/{state.starts}"
        started = _Process(container, 0, identity, log)
        try:
            command = self._command(started)
            started.state = command.env.get(names.ENV_STATE, "")
            started.pid = process.spawn(command)
        except (process.StartError, InputError, OSError) as error:
            log.write_text(f"{error}\n")
            self._record_end(started, _START_ERROR, now, "StartError", str(error))
            return
        self._processes[name] = started

    def _command(self, started: _Process) -> process.Command:
        surroundings, container = self.context.surroundings, started.container
        pod = Placed(self.plan, self.uid, self.address)
        given = environ.variables(surroundings, pod, container)
        scope = {key: variable.value for key, variable in given.items()}
        mounts = volumes.Mounts(surroundings.release, pod, container, self._folders())
        rewriter = Rewriter(self.context.names, mounts.paths(scope))
        mounts.materialise(scope, rewriter)
        gpus = self.context.gpus.get(self.plan.name)
        env = environ.environment(surroundings, pod, given, rewriter, gpus)
        marks = {
            names.ENV_RUN: str(self.context.folder.path),
            names.ENV_POD_UID: self.uid,
            names.ENV_CONTAINER_ID: started.id,
        }
        env |= marks
        host = None
        if way := self.context.way:
            host = Host(way, self.plan.hostname, self.context.hosts, marks)
            env[names.ENV_MPI_ADDRESS] = self.address
        return process.Command(
            argv=environ.argv(container, given, rewriter),
            env=env,
            cwd=self._workdir(container, rewriter),
            log=started.log,
            host=host,
        )

    def _workdir(self, container: ContainerPlan, rewriter: Rewriter) -> Path:
        """The container's own folder where this machine has it, else the values file's."""
        asked = container.manifest.get("workingDir")
        path = Path(rewriter.text(str(asked))) if asked else self.context.workdir
        return path if path.is_dir() else self.context.workdir

    def _record_end(
        self, ended: _Process, code: int, now: float, reason: str = "", message: str = ""
    ) -> None:
        container = ended.container
        state = self.states[container.name]
        ran = now - state.started_at
        streak = 1 if self.context.backoff.forgets(ran) else state.streak + 1
        word = reason or ("Completed" if code == 0 else "Error")
        message = message or self._termination_message(ended, code)
        self.states[container.name] = replace(
            state,
            running=False,
            streak=streak,
            finished_at=now,
            exit_code=code,
            reason=word,
            message=message,
        )
        if code and not self.stopped and container.kind is not Kind.SIDECAR:
            failure = Failure(
                pod=self.plan.name,
                rank=self.plan.rank,
                container=container.name,
                exit_code=code,
                at=now,
                reason=self.reason or word,
                message=message,
                log=logfiles.tail(ended.log, _FAILURE_LINES),
            )
            self.failures.append(failure)

    def _termination_message(self, ended: _Process, code: int) -> str:
        path = self._folders().termination_log(ended.container.name)
        text = ""
        if path.is_file():
            with path.open("rb") as stream:
                text = stream.read(_MESSAGE_MAX).decode("utf-8", "replace")
            path.write_text("")  # a next start must not find it
        policy = ended.container.manifest.get("terminationMessagePolicy")
        if not text and code and policy == "FallbackToLogsOnError":
            text = "\n".join(logfiles.tail(ended.log, _FALLBACK_LINES))
        return text
