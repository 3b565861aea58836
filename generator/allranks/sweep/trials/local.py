"""Trials as local runs: each is a release whose pods are processes of this machine.

A trial outlives its runner, as on a cluster: the next runner finds it by its name and reads its log
from the beginning. One thread starts trials, since a chosen port has to be reserved until the run
has it; several threads stop them, since a stop may take a grace period.
"""

from __future__ import annotations

import queue
import re
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import names, postrender
from allranks.errors import AllranksError, InputError, RunError
from allranks.helm import driver
from allranks.local import runs as local_runs
from allranks.local import values as local_values
from allranks.local.host.poll import AT_ONCE
from allranks.local.state import logs as log_files
from allranks.local.state import records, store
from allranks.model.rank_lines import ALL, LineSelection
from allranks.model.status import Phase, PodStatus, RunStatus
from allranks.sweep import actions, metrics, ownership, workspace
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.trials.base import TrialOutput, last_line
from allranks.values.merge import merge
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from allranks.helm.binary import HelmBinary
    from allranks.sweep.model import Trial
    from allranks.sweep.spec.prepare import PreparedSweep

_STOPPED = "Stopped"  # the reason of a run that was stopped from outside
_ENDING = 4  # threads that stop trials
_POLL = 0.1  # seconds between two reads of the trials' folders
_LINE = 160  # characters of a log's last line in the reason of a failure
# The roles whose first pod has the output of a trial, in order of preference.
_LEADING_ROLES = (names.ROLE_LAUNCHER, names.ROLE_CHIEF, names.ROLE_NODE, names.ROLE_TRIAL)


@dataclass(frozen=True, slots=True)
class LocalTarget:
    """The namespace, working folder and helm of local trials.

    Attributes:
        namespace: the namespace of the runs.
        workdir: the working folder of programs.
        binary: the helm that renders; None if nothing will be started.
        withheld: environment variables that programs get only if their values name them.
    """

    namespace: str
    workdir: Path
    binary: HelmBinary | None
    withheld: Sequence[str] = ()


@dataclass(slots=True)
class _CachedRun:
    """The status of a run as it was last read, the mtime of its file, and whether it has ended."""

    stamp: int
    status: RunStatus
    tails: dict[int, log_files.Tail] = field(default_factory=dict)
    has_ended: bool = False


class LocalTrials:
    """The local runs of one sweep; see `allranks.sweep.trials.base.TrialReleases`."""

    def __init__(self, prepared: PreparedSweep, home: LocalTarget) -> None:
        """Remove the remains of starts that were killed; start nothing.

        Args:
            prepared: the sweep.
            home: where its trials run.
        """
        self._prepared = prepared
        self._home = home
        self._name = re.compile(
            re.escape(prepared.spec.name) + r"-(?:[0-9a-f]{12}|[0-9a-f]{8})(?![0-9a-f])"
        )
        self._starter = ThreadPoolExecutor(1, "sweep-start")
        self._enders = ThreadPoolExecutor(_ENDING, "sweep-end")
        self._starting: dict[str, Future[local_runs.Handle | None]] = {}
        self._ending: dict[str, Future[None]] = {}
        self._handles: dict[str, local_runs.Handle] = {}
        # The runs that this runner stops or removes.
        self._removed: set[str] = set()
        self._refused: dict[str, ObservedRelease] = {}
        self._runs: dict[str, _CachedRun] = {}
        # By the name of a run, the mtime of its record, and its labels.
        self._labels: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        for folder in self._folders():
            if _never_began(folder):
                with suppress(InputError):
                    local_runs.delete(folder.path.name, home.namespace)

    # --- observing --------------------------------------------------------------------------------

    def observe(self) -> Mapping[str, ObservedRelease]:
        """Return every run of the sweep, with starts and stops under way."""
        self._collect()
        observed: dict[str, ObservedRelease] = {}
        for folder in self._folders():
            if folder.path.name in self._starting:
                continue  # Its record is there before its supervisor: it would seem to be lost.
            status = self._status(folder)
            if status is None:
                continue
            if status.reason == _STOPPED and folder.path.name not in self._removed:
                # Stopped for an earlier runner, or by a person: it has not failed.
                self._begin_end(folder.path.name, forget=True)
            else:
                observed[folder.path.name] = self._observe(folder, status)
        for name in [name for name in self._runs if name not in observed]:
            del self._runs[name]
        observed.update(self._refused)
        observed.update(dict.fromkeys(self._starting, ObservedRelease(actions.STARTING)))
        observed.update(dict.fromkeys(self._ending, ObservedRelease(actions.REMOVING)))
        return observed

    def read(self, trial: Trial) -> TrialOutput:
        """Return the output of a trial since the last call."""
        run = self._runs.get(trial.name)
        if run is None:
            return TrialOutput()
        leading = _leading(run.status.pods)
        tail = run.tails.get(trial.attempts)
        if tail is None:
            folder = store.run_folder(trial.name, self._home.namespace)
            tail = run.tails[trial.attempts] = log_files.Tail(folder.logs, _selection(leading))
        has_ended = run.has_ended
        lines = [log_files.final_text(line.text) for line in tail.new(final=has_ended)]
        # The message of a failed trial may be the end of its log, which was read already.
        message = _message(leading) if run.status.phase is Phase.SUCCEEDED else ""
        return TrialOutput(lines, message if has_ended else None)

    def wait(self, seconds: float) -> None:
        """Wait until a start or a stop has finished, or it is time for the next read."""
        with suppress(queue.Empty):
            self._wakes.get(timeout=min(seconds, _POLL))
            while True:
                self._wakes.get_nowait()

    def wake(self) -> None:
        """Let `wait` return."""
        self._wakes.put(None)

    def _observe(self, folder: store.RunFolder, status: RunStatus) -> ObservedRelease:
        since = status.finished_at or status.started_at or time.time()
        handle = self._handles.get(folder.path.name)
        # Its processor time is known once its supervisor is gone, a moment after its last status.
        if not status.finished or (handle is not None and folder.alive()):
            return ObservedRelease(actions.RUNNING, since=since, is_over=status.finished)
        self._runs[folder.path.name].has_ended = True
        cpu = None if handle is None else handle.cpu_seconds()
        finished_at = status.finished_at or time.time()
        if status.phase is Phase.SUCCEEDED:
            return ObservedRelease(actions.SUCCEEDED, since=finished_at, cpu_seconds=cpu)
        return ObservedRelease(actions.FAILED, self._reason(status), finished_at, cpu_seconds=cpu)

    def _reason(self, status: RunStatus) -> str:
        """Return why a run failed, with equal text for equal failures."""
        failure = status.failure
        if failure is None:
            return status.message or status.reason or "it failed"
        line = last_line(failure.log)
        measured = False
        with suppress(
            InputError
        ):  # a pattern that cannot be used here, which is reported elsewhere
            measured = any(metrics.parse([line], self._prepared.spec.metrics))
        # The folder of the run is different for each trial.
        line = re.sub(rf"{re.escape(str(store.root()))}\S*?/mounts/[^/\s]+", "", line)
        code = f"exit code {failure.exit_code}"
        return code if measured or not line else f"{code}: {line[:_LINE]}"

    def foreign_releases(self) -> Mapping[str, str]:
        """Return the runs of another sweep of the same name, with their owners in words."""
        sweep = self._prepared.spec.name
        labels = {
            folder.path.name: self._labels_of(folder)
            for folder in self._all()
            if not self._owns(folder)
        }
        return {
            name: ownership.describe(own)
            for name, own in labels.items()
            if own.get(names.SWEEP) == sweep
        }

    def claims(self, trials: Collection[str]) -> Mapping[str, str]:
        """Return the volumes of trials that stay, with their folders."""
        folder = store.root() / "volumes" / self._home.namespace
        # A claim is named after its release: s-1234abcd-checkpoints.
        return {
            f"PersistentVolumeClaim/{path.name} ({path})": str(path)
            for path in store.entries(folder)
            if (match := self._name.match(path.name)) is not None and match[0] in trials
        }

    def _folders(self) -> list[store.RunFolder]:
        """Return the runs of this sweep."""
        return [folder for folder in self._all() if self._owns(folder)]

    def _all(self) -> list[store.RunFolder]:
        return [
            folder
            for folder in store.run_folders()
            if folder.path.parent.name == self._home.namespace
            and self._name.fullmatch(folder.path.name)
        ]

    def _owns(self, folder: store.RunFolder) -> bool:
        return self._prepared.owner.owns(self._labels_of(folder), self._prepared.spec.name)

    def _labels_of(self, folder: store.RunFolder) -> Mapping[str, str]:
        """Return the labels of a run's record; read again only if the file has changed."""
        try:
            stamp = (folder.path / "run.json").stat().st_mtime_ns
            cached = self._labels.get(folder.path.name)
            if cached is None or cached[0] != stamp:
                cached = self._labels[folder.path.name] = (stamp, folder.spec().labels)
        except (FileNotFoundError, RunError):  # it comes or goes, or is broken
            return {}
        return cached[1]

    def _status(self, folder: store.RunFolder) -> RunStatus | None:
        """Return the status of a run; read again only if the file has changed."""
        name = folder.path.name
        run = self._runs.get(name)
        try:
            stamp = (folder.path / "state.json").stat().st_mtime_ns
            if run is None or run.stamp != stamp:
                tails = {} if run is None else run.tails
                run = _CachedRun(stamp, records.read_status(folder), tails)
            elif not run.status.finished and not folder.alive():
                run.status = records.read_status(folder)
        except FileNotFoundError:
            return None
        self._runs[name] = run
        return run.status

    # --- acting -----------------------------------------------------------------------------------

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to start a run."""
        if trial.name in self._starting or trial.name in self._ending:
            return
        self._refused.pop(trial.name, None)
        self._removed.discard(trial.name)
        self._runs.pop(trial.name, None)
        self._starting[trial.name] = self._submit(self._starter, self._start, trial, values)

    def remove(self, name: str) -> None:
        """Begin to stop a run, or to remove the record of one that has ended."""
        if self._refused.pop(name, None) is None:
            self._removed.add(name)
            run = self._runs.get(name)
            # A run that has ended since the last read is observed once more before it is removed.
            self._begin_end(name, forget=run is None or run.has_ended)

    def close(self, *, at_once: bool = False) -> None:
        """Wait for work under way; or stop every run at once, and remove its record."""
        self._starter.shutdown(wait=True, cancel_futures=True)
        if at_once:
            for folder in self._folders():
                local_runs.signal_supervisor(folder, AT_ONCE)
        self._enders.shutdown(wait=True, cancel_futures=True)
        if at_once:
            for folder in self._folders():
                folder.wait_dead(local_runs.STOP_MARGIN)
                self._end(folder.path.name, forget=True)
        self._collect()
        for name, handle in self._handles.items():
            if not store.run_folder(name, self._home.namespace).alive():
                handle.wait()

    def _begin_end(self, name: str, *, forget: bool) -> None:
        if name not in self._ending:
            self._ending[name] = self._submit(self._enders, self._end, name, forget)

    def _submit(self, pool: ThreadPoolExecutor, call: Any, *arguments: Any) -> Future[Any]:
        future = pool.submit(call, *arguments)
        future.add_done_callback(lambda _: self.wake())
        return future

    def _collect(self) -> None:
        """Collect the results of the threads."""
        for name in [name for name, future in self._starting.items() if future.done()]:
            future = self._starting.pop(name)
            if future.cancelled():
                continue
            try:
                handle = future.result()
            except AllranksError as error:
                self._refused[name] = _refusal(error)
            else:
                if handle is not None:
                    self._handles[name] = handle
        for name in [name for name, future in self._ending.items() if future.done()]:
            ending = self._ending.pop(name)
            if ending.cancelled():
                continue
            ending.result()
            handle = self._handles.get(name)
            if handle is not None and not store.run_folder(name, self._home.namespace).exists():
                handle.wait()
                del self._handles[name]

    def _start(self, trial: Trial, values: Mapping[str, Any]) -> local_runs.Handle | None:
        """Render and start a run; return None if it runs already."""
        home, prepared, name = self._home, self._prepared, trial.name
        folder = store.run_folder(name, home.namespace)
        if folder.alive() and self._owns(folder):
            return None
        chart_values = dict(values)
        if prepared.workload:
            merged = {**merge(prepared.defaults, chart_values), "workload": prepared.workload}
            chart_values = local_values.values_for_this_machine(chart_values, merged).values
        if home.binary is None:
            raise ValueError("these trials are only ended")
        # Ctrl-C is for the runner: a helm that it kills would look like a failed trial.
        text = driver.template(
            home.binary, name, home.namespace, prepared.chart, chart_values, is_tied=True
        )
        if prepared.workload or f"\nkind: {names.SENTINEL_KIND}\n" in text:
            text = postrender.process(text)
        code = workspace.local_parts(chart_values, home.namespace)
        return local_runs.start(
            [*code, *(manifest for manifest in load.load_all(text) if manifest)],
            name=name,
            namespace=home.namespace,
            workdir=home.workdir,
            foreground=False,
            labels=prepared.owner.labels(prepared.spec.name, trial.number),
            withheld=home.withheld,
        )

    def _end(self, name: str, forget: bool) -> None:  # noqa: FBT001 - of a thread's call
        """Stop a run, or remove the record of one that has ended.

        A running one is not removed at once: its end and its processor time are observed first.
        """
        namespace = self._home.namespace
        folder = store.run_folder(name, namespace)
        with suppress(InputError, FileNotFoundError):  # it has gone
            if not self._owns(folder):
                return
            if folder.alive():
                local_runs.stop(name, namespace)
            elif forget:
                local_runs.delete(name, namespace)


def _never_began(folder: store.RunFolder) -> bool:
    """Whether a start was killed before any process of the run was started."""
    return (
        not folder.alive()
        and not log_files.files(folder.logs)
        and records.read_status(folder).reason == "SupervisorLost"
    )


def _refusal(error: AllranksError) -> ObservedRelease:
    """Return the failure of a run that cannot start; retryable unless its input is not valid."""
    reason = "; ".join(problem.message for problem in error.problems)
    return ObservedRelease(
        actions.FAILED, reason, time.time(), retryable=not isinstance(error, InputError)
    )


def _leading(pods: Iterable[PodStatus]) -> PodStatus | None:
    """Return the pod with the output of a trial."""
    first = [pod for pod in pods if pod.rank in (0, None)]
    for role in _LEADING_ROLES:
        for pod in first:
            if pod.role == role:
                return pod
    return first[0] if first else None


def _selection(pod: PodStatus | None) -> LineSelection:
    return ALL if pod is None else LineSelection(node=pod.rank, role=pod.role)


def _message(pod: PodStatus | None) -> str:
    """Return the termination message of the training container."""
    containers = () if pod is None else pod.containers
    messages = {
        container.name: container.message
        for container in containers
        if container.state == "terminated"
    }
    return messages.get("trainer") or next(reversed(messages.values()), "")
