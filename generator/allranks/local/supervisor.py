"""The supervisor: the process that runs one release.

It is a single thread around one loop: collect ended processes, decide, act, write the state down,
wait for the next event. It runs in a session of its own, apart from the command line that started
it, and ends with it where it was started in the foreground: the command line holds the other end
of a pipe, and whatever ends it, kill -9 included, closes that.

A guardian stands above it, which does nothing but wait: should the supervisor itself be killed, the
guardian ends what it leaves behind and records that. Should the guardian be killed, the supervisor
ends the run in order. Should both be killed at the same instant, the kernel kills the containers'
main processes with them, and the next ``delete`` of the run ends the rest.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import EXIT_OK
from allranks.local import controller, mpi, run_status
from allranks.local.backoff import JobBackoff
from allranks.local.host import process, process_tree
from allranks.local.host.poll import SIGNALS, Events
from allranks.local.plan import addresses as plan_addresses
from allranks.local.plan.expand import expand
from allranks.local.plan.rewrite import release_names
from allranks.local.pod import gpus
from allranks.local.pod.env import Surroundings
from allranks.local.pod.runner import PodRun, RunSettings
from allranks.local.run_events import EventLog
from allranks.local.state import records, store
from allranks.local.state.store import RunFolder, Spec
from allranks.status.controllers import ControllerOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.local.controller import ControllerEnd
    from allranks.local.elastic.run import ElasticRun
    from allranks.local.host.poll import Interruption
    from allranks.local.plan.model import Controller, ReleasePlan

# How often the state is written at most; its last change always is.
_SAVE_EVERY = 0.05
# How long leads may take to end when a follower has failed for good.
_LEADS_END_SECONDS = 30.0


@dataclass(slots=True)
class _Managed:
    """A controller and its state."""

    plan: Controller
    pods: list[PodRun] = field(default_factory=list)
    verdict: ControllerEnd | None = None
    waiting: str = ""
    wake_at: float | None = None
    failed_indexes: frozenset[int] = frozenset()


class Supervisor:
    """Runs a release to its end.

    Args:
        folder: of the run.
        parent: read end of the pipe that the command line holds open; None when detached.
    """

    def __init__(self, folder: RunFolder, parent: int | None) -> None:
        spec = folder.spec()
        self._folder = folder
        self._notes = spec.notes
        arrangement = spec.arrangement
        release = expand(spec.manifests, name=spec.name, namespace=spec.namespace)
        self._release = mpi.complete(release, arrangement)
        self._pod_directory = mpi.Directory(folder.path, arrangement)
        self._backoff = JobBackoff(spec.backoff_scale)
        self._context = _context(folder, self._release, spec)
        self._pods: list[PodRun] = []
        self._elastic: ElasticRun | None = None
        if self._release.elastic is not None:
            from allranks.local.elastic.run import ElasticRun

            self._elastic = ElasticRun(self._release, self._context, spec.block, self._pods.append)
        self._journal = EventLog(folder.events)
        self._started_at = time.time()
        self._leads = frozenset(controller.name for controller in self._release.leads)
        # A lead's end is seen before what it does to the others.
        plans = sorted(
            self._release.controllers, key=lambda controller: controller.name not in self._leads
        )
        self._managed = [_Managed(plan) for plan in plans]
        self._leave_at: float | None = None  # the leads have ended: who still runs is stopped then
        self._stop_at: float | None = None  # what the leads wait for has failed, and they are told
        self._interruption: Interruption | None = None
        self._ending = False  # no controller decides any more
        self._stopping = False  # what runs is being stopped
        self._events = Events(parent)
        self._last_fingerprint: object = None  # of the state when it was last looked at
        self._dirty = True
        self._saved_at = 0.0

    def run(self) -> None:
        """Run the release; returns when no process of it is left."""
        while True:
            now = time.time()
            self._collect(now)
            self._advance(now)
            verdict = self._verdict()
            over = verdict is not None or self._interruption is not None
            if over and not any(pod.active for pod in self._pods):
                self._finish(verdict)
                return
            wake_at = self._save(now, verdict)
            self._interrupt(self._events.wait(wake_at))

    # ------------------------------------------------------------ acting

    def _advance(self, now: float) -> None:
        """Decide and act until nothing changes any more."""
        before = None
        while before != (after := self._fingerprint()):
            before = after
            if self._elastic is not None and not self._ending:
                self._elastic.step(now)
            for managed in self._managed:
                self._control(managed, now)
            self._let_go(now)
            for pod in self._pods:
                pod.step(now)
        self._pod_directory.write([door for pod in self._pods if (door := pod.door)])
        self._journal.update(self._pods, now)
        self._dirty |= before != self._last_fingerprint
        self._last_fingerprint = before

    def _verdict(self) -> ControllerEnd | None:
        verdicts = [controller.verdict for controller in self._managed]
        if self._elastic is not None:
            verdicts.append(self._elastic.verdict)
        return run_status.overall(verdicts, self._leads)

    def _fingerprint(self) -> tuple[object, ...]:
        pods = tuple(
            (pod.phase, pod.active, pod.ending, pod.waiting, tuple(pod.states.values()))
            for pod in self._pods
        )
        managed = tuple(
            (controller.verdict, controller.waiting, controller.failed_indexes)
            for controller in self._managed
        )
        return (pods, managed, self._elastic and self._elastic.fingerprint)

    def _control(self, managed: _Managed, now: float) -> None:
        if managed.verdict is not None or self._ending:
            managed.wake_at, managed.waiting = None, ""
            return
        views = [pod.view() for pod in managed.pods]
        decision = controller.decide(managed.plan, views, now, self._started_at, self._backoff)
        managed.wake_at, managed.waiting = decision.wake_at, decision.waiting
        managed.failed_indexes = decision.failed_indexes
        for index in decision.create:
            self._create(managed, index, now)
        if decision.verdict is not None:
            self._conclude(managed, decision.verdict, now)

    def _conclude(self, managed: _Managed, verdict: ControllerEnd, now: float) -> None:
        """Record the end of a controller, which may end the run."""
        managed.verdict = replace(verdict, controller=managed.plan.name)
        if verdict.outcome is ControllerOutcome.FAILED and not self._have_leads_ended():
            self._miss(managed, now)
        else:
            for pod in managed.pods:
                pod.stop(now, done=verdict.outcome is ControllerOutcome.COMPLETE)

    def _miss(self, managed: _Managed, now: float) -> None:
        """End the run where a controller has failed for good that others wait for.

        Leads that know of it end by themselves, with what is to be said of it.
        """
        is_expected = self._release.launcher is None and managed.plan.name not in self._leads
        if self._leads and is_expected:
            self._stop_at = now + _LEADS_END_SECONDS
        else:
            self._stop(now)

    def _have_leads_ended(self) -> bool:
        """Whether the run has leads, and all of them have ended."""
        leads = [controller for controller in self._managed if controller.plan.name in self._leads]
        return bool(leads) and not any(
            controller.verdict is None or any(pod.active for pod in controller.pods)
            for controller in leads
        )

    def _stop(self, now: float, *, at_once: bool = False) -> None:
        """Stop the pods: first the leads, which end their ranks on the others in order."""
        self._ending = self._stopping = True
        lead = [pod for pod in self._lead_pods() if pod.active and not at_once]
        for pod in lead or self._pods:
            pod.stop(now, at_once=at_once)

    def _lead_pods(self) -> list[PodRun]:
        return [
            pod
            for controller in self._managed
            if controller.plan.name in self._leads
            for pod in controller.pods
        ]

    def _let_go(self, now: float) -> None:
        """Stop the pods that do not end by themselves after the leads."""
        if self._stop_at is not None and now >= self._stop_at and not self._ending:
            self._stop(now)
        if self._leave_at is None and not self._stopping and self._have_leads_ended():
            self._ending = True
            self._leave_at = now + mpi.leave_seconds(self._release)
        stopping = self._stopping and not any(pod.active for pod in self._lead_pods())
        for pod in self._pods:
            if stopping:
                pod.stop(now)
            if self._leave_at is not None and (pod.ended_well or now >= self._leave_at):
                pod.stop(now, done=True)

    def _create(self, managed: _Managed, index: int, now: float) -> None:
        plan = next(pod for pod in managed.plan.pods if pod.index == index)
        views = [pod.view() for pod in managed.pods]
        annotations = controller.index_annotations(managed.plan, views, index)
        attempt = sum(pod.plan.index == index for pod in managed.pods)
        pod = PodRun(plan.with_annotations(annotations), attempt, self._context, created_at=now)
        managed.pods.append(pod)
        self._pods.append(pod)

    def _collect(self, now: float) -> None:
        """Reap ended processes; adopted orphans belong to no pod."""
        pids = {pid: (pod, name) for pod in self._pods for pid, name in pod.pids.items()}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in pids:
                pod, name = pids[pid]
                pod.ended(name, exit_code(status), now)

    def _interrupt(self, interruption: Interruption | None) -> None:
        if interruption is None:
            return
        if self._verdict() is None:
            self._interruption = self._interruption or interruption  # else it had its end before
        now = time.time()
        if self._elastic is not None:
            self._elastic.end(now)
        self._stop(now, at_once=interruption.at_once)

    # ------------------------------------------------------------ telling

    def _save(self, now: float, verdict: ControllerEnd | None) -> float | None:
        """Write the state, at most so often; return the latest time to wake up."""
        wakes = [pod.wake_at for pod in self._pods if pod.active and pod.wake_at is not None]
        wakes += [
            controller.wake_at for controller in self._managed if controller.wake_at is not None
        ]
        times = (self._leave_at, self._stop_at)
        wakes += [at for at in times if at is not None and now < at]
        if self._elastic is not None and self._elastic.wake_at is not None and not self._ending:
            wakes.append(self._elastic.wake_at)
        if self._dirty and now >= self._saved_at + _SAVE_EVERY:
            self._folder.write_status(run_status.report(self._progress(verdict)))
            self._saved_at, self._dirty = now, False
        elif self._dirty:
            wakes.append(self._saved_at + _SAVE_EVERY)
        return min(wakes, default=None)

    def _progress(self, verdict: ControllerEnd | None) -> run_status.RunProgress:
        elastic = self._elastic
        return run_status.RunProgress(
            release=self._release if elastic is None else elastic.current_release(),
            pods=self._pods,
            addresses=self._context.surroundings.addresses,
            started_at=self._started_at,
            verdict=verdict,
            interruption=self._interruption,
            waiting=[controller.waiting for controller in self._managed if controller.waiting],
            failed_pods=frozenset(
                pod.plan.name
                for managed in self._managed
                for pod in managed.pods
                if pod.plan.index in managed.failed_indexes
            ),
            notes=self._notes,
            phase=None if elastic is None else elastic.phase,
            message="" if elastic is None else elastic.message,
        )

    def _finish(self, verdict: ControllerEnd | None) -> None:
        process_tree.kill(names.ENV_RUN, [str(self._folder.path)])
        now = time.time()
        last = run_status.report(replace(self._progress(verdict), finished_at=now))
        self._journal.update(self._pods, now)
        self._journal.end(last, now)
        self._folder.write_status(last)


def _context(folder: RunFolder, release: ReleasePlan, spec: Spec) -> RunSettings:
    by_pod = plan_addresses.by_pod(release, spec.block)
    visible, _ = gpus.share(release.pods, gpus.present(os.environ))
    hosts = mpi.write_hosts(folder.path, release, by_pod, spec.arrangement)
    return RunSettings(
        folder=folder,
        surroundings=Surroundings(
            release,
            by_pod,
            dict(os.environ),
            defaults=mpi.defaults(spec.arrangement),
            orders=mpi.orders(spec.arrangement, folder.path),
            withheld=frozenset(spec.withheld),
        ),
        names=release_names(
            release, mpi.names_in_text(release, by_pod, spec.arrangement), spec.own_ports
        ),
        gpus=visible,
        workdir=Path(spec.workdir),
        backoff=JobBackoff(spec.backoff_scale),
        way=spec.arrangement.way,
        hosts=hosts,
    )


def exit_code(status: int) -> int:
    """A container's exit code from a wait status: 128 + n after signal n."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _guard(child: int, folder: RunFolder) -> int:
    """Wait for the supervisor, forward signals to it, and clean up after it."""

    def pass_on(number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    status = None
    while status is None:
        pid, wait_status = os.waitpid(-1, 0)
        if pid == child:
            status = wait_status
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    process_tree.kill(names.ENV_RUN, [str(folder.path)])
    last = folder.status()
    if not records.is_over(folder, last):
        code = exit_code(status)
        message = f"its supervisor ended with exit code {code}; see {folder.supervisor_log}"
        final_status = store.lost_status(last, message, time.time())
        EventLog(folder.events).end(final_status, time.time())
        folder.write_status(final_status)
    return EXIT_OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the release of a folder; started by `allranks.local.runs`."""
    parser = argparse.ArgumentParser(description="Run one local release.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lock", type=int, required=True, help="descriptor of the held lock")
    parser.add_argument("--parent", type=int, help="descriptor whose end ends the run")
    options = parser.parse_args(arguments)
    for descriptor in (options.lock, options.parent):
        if descriptor is not None:
            os.set_inheritable(descriptor, False)
    folder = RunFolder(options.folder)
    process.adopt_orphans()
    guardian = os.getpid()
    child = os.fork()
    if child:
        if options.parent is not None:
            os.close(options.parent)
        return _guard(child, folder)
    process.adopt_orphans()
    process.die_with_parent(signal.SIGTERM)
    supervisor = Supervisor(folder, options.parent)
    if os.getppid() == guardian:
        supervisor.run()
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
