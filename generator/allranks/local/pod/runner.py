"""Run one attempt of a pod: start and stop its processes as `lifecycle` decides."""

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
from allranks.local.host import process, process_tree
from allranks.local.host.namespaces import Host, IsolationMethod
from allranks.local.mpi import PodEntry
from allranks.local.plan.model import ContainerKind, ContainerPlan, PodPlan, Restart
from allranks.local.plan.rewrite import Names, Rewriter, pod_names
from allranks.local.pod import env as pod_env
from allranks.local.pod import lifecycle, volumes
from allranks.local.pod.env import PlacedPod
from allranks.local.pod.lifecycle import ContainerState, PodAttempt, PodLifecycle
from allranks.local.state import logs as log_files
from allranks.model.rank_lines import LogWriters
from allranks.model.status import STOPPED, Failure, PodPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.local.backoff import JobBackoff
    from allranks.local.state.store import RunFolder

_START_ERROR = 128  # as containerd reports a program that is not there
_MESSAGE_MAX = 4096
_FALLBACK_LINES = 80
_FAILURE_LINES = 10
_DRAIN_POLL = 0.05


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The settings shared by all pods of a run.

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
    surroundings: pod_env.Surroundings
    names: Names
    gpus: Mapping[str, str]
    workdir: Path
    backoff: JobBackoff
    way: IsolationMethod = IsolationMethod.NONE
    hosts: Path = Path("/etc/hosts")


@dataclass(slots=True)
class _Process:
    """The process of a container, until all of it is gone."""

    container: ContainerPlan
    pid: int
    id: str
    log: Path
    state: str = ""  # its state folder, where its workload has one
    draining: bool = False  # its main process ended while stopping; others are still at it


@dataclass(slots=True)
class PodRun:
    """A running pod.

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
    context: RunSettings
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
        """Create the state of each container."""
        self.states = {container.name: ContainerState() for container in self.plan.containers}

    @property
    def active(self) -> bool:
        """Whether the pod has not ended."""
        return self.finished_at is None

    @property
    def ending(self) -> bool:
        """Whether the pod was told to end, and has not ended yet."""
        return self.active and self._kill_at is not None and (self.stopped or bool(self.reason))

    @property
    def address(self) -> str:
        """Its address."""
        return self.context.surroundings.addresses[self.plan.name]

    @property
    def pids(self) -> dict[int, str]:
        """The containers by the pid of their main process."""
        return {
            process.pid: name for name, process in self._processes.items() if not process.draining
        }

    @property
    def door(self) -> PodEntry | None:
        """The process to enter the pod by; None where its main container does not run."""
        main = next(
            container.name
            for container in self.plan.containers
            if container.kind is ContainerKind.MAIN
        )
        process = self._processes.get(main)
        if process is None or not process.state or process.draining:
            return None
        hosts = (self.address, *pod_names(self.plan, self.context.surroundings.release.namespace))
        return PodEntry(hosts, process.state, process.pid, process.id)

    @property
    def ended_well(self) -> bool:
        """Whether all main containers last ended with success, and none runs."""
        main = [
            self.states[container.name]
            for container in self.plan.containers
            if container.kind is ContainerKind.MAIN
        ]
        return all(state.ended and state.exit_code == 0 for state in main)

    @property
    def ready(self) -> bool:
        """Whether all its main containers run."""
        main = [
            self.states[container.name]
            for container in self.plan.containers
            if container.kind is ContainerKind.MAIN
        ]
        return self.phase is PodPhase.RUNNING and all(state.running for state in main)

    def view(self) -> PodAttempt:
        """The pod for its controller's decisions."""
        main = tuple(
            container.name
            for container in self.plan.containers
            if container.kind is ContainerKind.MAIN
        )
        order = (
            *main,
            *(container.name for container in self.plan.containers if container.name not in main),
        )
        retried = any(container.restart is Restart.ON_FAILURE for container in self.plan.containers)
        return PodAttempt(
            name=self.plan.name,
            index=self.plan.index,
            phase=self.phase,
            finished_at=self.finished_at or 0.0,
            exits=tuple(
                (name, code) for name in order if (code := self.states[name].exit_code) is not None
            ),
            main=main,
            restarts=sum(state.restarts for state in self.states.values()) if retried else 0,
            ready=all(self.states[name].running for name in main),
            stopped=self.stopped,
        )

    # ------------------------------------------------------------ its life

    def step(self, now: float) -> None:
        """Do the next steps: start, stop, or end."""
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
        """Record the end of a container's main process."""
        process = self._processes[name]
        self._record_end(process, code, now)
        if self._kill_at is None:
            # As in a container: nothing outlives its first process.
            process_tree.kill(names.ENV_CONTAINER_ID, [process.id])
            del self._processes[name]
        else:
            process.draining = True
            process_tree.send(
                process_tree.find_marked(names.ENV_CONTAINER_ID, [process.id]), signal.SIGTERM
            )

    def stop(self, now: float, *, at_once: bool = False, done: bool = False) -> None:
        """Stop the pod for good: SIGTERM, then SIGKILL after the grace period.

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

    def _decide(self, now: float) -> PodLifecycle:
        return lifecycle.decide(self.plan.containers, self.states, now, self.context.backoff)

    def _is_past_deadline(self, now: float) -> bool:
        return self.plan.deadline is not None and now >= self.created_at + self.plan.deadline

    def _terminate(
        self, now: float, container_names: Mapping[str, object] | tuple[str, ...]
    ) -> None:
        """Send SIGTERM to the main process alone, as a cluster does."""
        self._kill_at = now + self.plan.grace
        for name in container_names:
            with suppress(ProcessLookupError):
                os.kill(self._processes[name].pid, signal.SIGTERM)

    def _step_stopping(self, now: float) -> None:
        if self._kill_at is not None and now >= self._kill_at:
            process_tree.kill(
                names.ENV_CONTAINER_ID, [process.id for process in self._processes.values()]
            )
            for name, container in tuple(self._processes.items()):
                if not container.draining and not process.is_child(container.pid):
                    # Its exit status went elsewhere; to wait for it would be to wait for ever.
                    self.ended(name, 128 + signal.SIGKILL, now)
        self._drain()
        if not self._processes:
            self.phase = self._final_phase()
            self._finish(now)
            return
        draining = any(process.draining for process in self._processes.values())
        self.waiting = "its processes to end"
        self.wake_at = now + _DRAIN_POLL if draining else self._kill_at

    def _drain(self) -> None:
        """Drop the containers that have no process left."""
        draining = {
            process.id: name for name, process in self._processes.items() if process.draining
        }
        if draining:
            alive = process_tree.living(names.ENV_CONTAINER_ID, draining)
            for identity in draining.keys() - alive:
                del self._processes[draining[identity]]

    def _final_phase(self) -> PodPhase:
        if self.done:
            if self.ended_well:
                self.reason = ""  # it was ending by itself when it was told to
            return PodPhase.SUCCEEDED
        if self.stopped or self.reason:
            return PodPhase.FAILED
        main = [
            self.states[container.name]
            for container in self.plan.containers
            if container.kind is ContainerKind.MAIN
        ]
        ended_well = all(state.exit_code == 0 for state in main)
        return PodPhase.SUCCEEDED if ended_well else PodPhase.FAILED

    def _finish(self, now: float) -> None:
        self.finished_at = now
        self.waiting, self.wake_at = "", None
        shutil.rmtree(self._folders().pod, ignore_errors=True)

    # ------------------------------------------------------------ containers

    def _folders(self) -> volumes.VolumeFolders:
        folder = self.context.folder
        return volumes.VolumeFolders(
            pod=folder.pods / self.plan.name / self.uid,
            claims=folder.claims,
            config_maps=folder.config_maps,
        )

    def _start(self, name: str, now: float) -> None:
        container = next(container for container in self.plan.containers if container.name == name)
        state = self.states[name]
        log = log_files.announce(
            self.context.folder.logs,
            log_files.LogFile(
                pod=self.plan.name,
                rank=self.plan.rank,
                role=self.plan.role,
                container=name,
                attempt=self.attempt,
                start=state.starts,
                writers=LogWriters.of(container.manifest),
            ),
        )
        # Its last end stays as it was: nobody may have looked at it yet.
        self.states[name] = replace(state, running=True, starts=state.starts + 1, started_at=now)
        identity = f"{self.uid}/{name}/{state.starts}"
        container_process = _Process(container, 0, identity, log)
        try:
            command = self._command(container_process)
            container_process.state = command.env.get(names.ENV_STATE, "")
            container_process.pid = process.spawn(command)
        except (process.StartError, InputError, OSError) as error:
            log.write_text(f"{error}\n")
            self._record_end(container_process, _START_ERROR, now, "StartError", str(error))
            return
        self._processes[name] = container_process

    def _command(self, container_process: _Process) -> process.ProcessSpec:
        surroundings, container = self.context.surroundings, container_process.container
        pod = PlacedPod(self.plan, self.uid, self.address)
        variables = pod_env.variables(surroundings, pod, container)
        scope = {key: variable.value for key, variable in variables.items()}
        mounts = volumes.ContainerMounts(surroundings.release, pod, container, self._folders())
        rewriter = Rewriter(self.context.names, mounts.paths(scope))
        mounts.materialise(scope, rewriter)
        gpus = self.context.gpus.get(self.plan.name)
        env = pod_env.environment(surroundings, pod, variables, rewriter, gpus)
        marks = {
            names.ENV_RUN: str(self.context.folder.path),
            names.ENV_POD_UID: self.uid,
            names.ENV_CONTAINER_ID: container_process.id,
        }
        env |= marks
        if env.get(names.ENV_PROGRESS, "").startswith("/"):
            # Pods of this machine have one /dev/shm in common.
            env[names.ENV_PROGRESS] = str(self._folders().pod / "progress")
        host = None
        if way := self.context.way:
            host = Host(way, self.plan.hostname, self.context.hosts, marks)
            env[names.ENV_MPI_ADDRESS] = self.address
        return process.ProcessSpec(
            argv=pod_env.argv(container, variables, rewriter),
            env=env,
            cwd=self._workdir(container, rewriter),
            log=container_process.log,
            host=host,
        )

    def _workdir(self, container: ContainerPlan, rewriter: Rewriter) -> Path:
        """The container's own folder where this machine has it, else the values file's."""
        workdir = container.manifest.get("workingDir")
        path = Path(rewriter.text(str(workdir))) if workdir else self.context.workdir
        return path if path.is_dir() else self.context.workdir

    def _record_end(
        self, process: _Process, code: int, now: float, reason: str = "", message: str = ""
    ) -> None:
        container = process.container
        state = self.states[container.name]
        ran = now - state.started_at
        streak = 1 if self.context.backoff.forgets(ran) else state.streak + 1
        word = reason or ("Completed" if code == 0 else "Error")
        message = message or self._termination_message(process, code)
        self.states[container.name] = replace(
            state,
            running=False,
            streak=streak,
            finished_at=now,
            exit_code=code,
            reason=word,
            message=message,
        )
        if code and not self.stopped and container.kind is not ContainerKind.SIDECAR:
            failure = Failure(
                pod=self.plan.name,
                rank=self.plan.rank,
                container=container.name,
                exit_code=code,
                at=now,
                reason=self.reason or word,
                message=message,
                log=log_files.tail(process.log, _FAILURE_LINES),
            )
            self.failures.append(failure)

    def _termination_message(self, process: _Process, code: int) -> str:
        path = self._folders().termination_log(process.container.name)
        text = ""
        if path.is_file():
            with path.open("rb") as stream:
                text = stream.read(_MESSAGE_MAX).decode("utf-8", "replace")
            path.write_text("")  # a next start must not find it
        policy = process.container.manifest.get("terminationMessagePolicy")
        if not text and code and policy == "FallbackToLogsOnError":
            text = "\n".join(log_files.tail(process.log, _FALLBACK_LINES))
        return text
