"""Trials as local runs: each is a release whose pods are processes of this machine.

A trial outlives its runner, as on a cluster: the next runner finds it by its name and goes on
reading where its log begins. Trials are started by one thread, since whatever chooses a port has to
claim it until the run has it, and are ended by several, since an end may take a grace period.
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
from allranks.local import control, ending, localising, logfiles, records, store
from allranks.local.events import AT_ONCE
from allranks.model.ranklines import ALL, Wanted
from allranks.model.status import Phase, PodStatus, RunStatus
from allranks.sweep import actions, metrics, owner
from allranks.sweep.actions import Observed
from allranks.sweep.trials.ports import Said
from allranks.values.merge import merge
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from allranks.helm.locate import HelmBinary
    from allranks.sweep.model import Trial
    from allranks.sweep.values.prepare import Prepared

_STOPPED = "Stopped"  # the reason of a run that was ended from outside
_ENDING = 4  # threads that end trials
_POLL = 0.1  # seconds between two looks at the trials' folders
_LINE = 160  # characters of a log's last line in the reason of a failure
# Whose first pod tells how a trial goes, the first of these that there is.
_TELLING = (names.ROLE_LAUNCHER, names.ROLE_CHIEF, names.ROLE_NODE, names.ROLE_TRIAL)


@dataclass(frozen=True, slots=True)
class Home:
    """Where local trials run.

    Attributes:
        namespace: of the runs.
        workdir: where programs start.
        binary: the helm that renders; None where nothing is started.
        withheld: variables of this process that programs get only where their values name them.
    """

    namespace: str
    workdir: Path
    binary: HelmBinary | None
    withheld: Sequence[str] = ()


@dataclass(slots=True)
class _Known:
    """What was read of a run, the version of its record, and whether its end was told."""

    stamp: int
    status: RunStatus
    tails: dict[int, logfiles.Tail] = field(default_factory=dict)
    has_ended: bool = False


class LocalTrials:
    """The local runs of one sweep; see `allranks.sweep.trials.ports.Trials`."""

    def __init__(self, prepared: Prepared, home: Home) -> None:
        """Nothing is started; what a killed start has left is cleared away.

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
        self._starting: dict[str, Future[control.Handle | None]] = {}
        self._ending: dict[str, Future[None]] = {}
        self._handles: dict[str, control.Handle] = {}
        # What this runner has asked to end.
        self._asked: set[str] = set()
        self._refused: dict[str, Observed] = {}
        self._known: dict[str, _Known] = {}
        # By the name of a run, the version of its record, and the labels on it.
        self._labels: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        for folder in self._folders():
            if _never_began(folder):
                with suppress(InputError):
                    control.delete(folder.path.name, home.namespace)

    # --- looking ----------------------------------------------------------------------------------

    def observe(self) -> Mapping[str, Observed]:
        """Every run of the sweep, and the runner's own work."""
        self._collect()
        found: dict[str, Observed] = {}
        for folder in self._folders():
            if folder.path.name in self._starting:
                continue  # Its record is there before its supervisor: it would seem to be lost.
            status = self._status(folder)
            if status is None:
                continue
            if status.reason == _STOPPED and folder.path.name not in self._asked:
                # Ended for a runner before this one, or by a person: it has neither failed nor run.
                self._begin_end(folder.path.name, forget=True)
            else:
                found[folder.path.name] = self._observed(folder, status)
        for name in [name for name in self._known if name not in found]:
            del self._known[name]
        found.update(self._refused)
        found.update(dict.fromkeys(self._starting, Observed(actions.STARTING)))
        found.update(dict.fromkeys(self._ending, Observed(actions.REMOVING)))
        return found

    def read(self, trial: Trial) -> Said:
        """What a trial has said since the last call."""
        known = self._known.get(trial.name)
        if known is None:
            return Said()
        leading = _leading(known.status.pods)
        tail = known.tails.get(trial.attempts)
        if tail is None:
            folder = store.run_folder(trial.name, self._home.namespace)
            tail = known.tails[trial.attempts] = logfiles.Tail(folder.logs, _wanted(leading))
        ended = known.has_ended
        lines = [line.text for line in tail.new(ended=ended)]
        # Of a trial that failed it may be the end of its log, which was read already.
        message = _message(leading) if known.status.phase is Phase.SUCCEEDED else ""
        return Said(lines, message if ended else None)

    def wait(self, seconds: float) -> None:
        """Return when a start or an end is done, or it is time for the next look."""
        with suppress(queue.Empty):
            self._wakes.get(timeout=min(seconds, _POLL))
            while True:
                self._wakes.get_nowait()

    def wake(self) -> None:
        """Let `wait` return."""
        self._wakes.put(None)

    def _observed(self, folder: store.RunFolder, status: RunStatus) -> Observed:
        since = status.finished_at or status.started_at or time.time()
        handle = self._handles.get(folder.path.name)
        # What it has cost is known once its supervisor has gone, a moment after its last word.
        if not status.finished or (handle is not None and folder.alive()):
            return Observed(actions.RUNNING, since=since, is_over=status.finished)
        self._known[folder.path.name].has_ended = True
        cpu = None if handle is None else handle.cpu_seconds()
        ended = status.finished_at or time.time()
        if status.phase is Phase.SUCCEEDED:
            return Observed(actions.SUCCEEDED, since=ended, cpu_seconds=cpu)
        return Observed(actions.FAILED, self._reason(status), ended, cpu_seconds=cpu)

    def _reason(self, status: RunStatus) -> str:
        """Why a run failed, in words that are the same for trials that failed alike."""
        failure = status.failure
        if failure is None:
            return status.message or status.reason or "it failed"
        line = next((text.strip() for text in reversed(failure.log) if text.strip()), "")
        measured = False
        with suppress(InputError):  # a pattern that cannot be used here; whoever measures says so
            measured = any(metrics.parse([line], self._prepared.spec.metrics))
        # Where the run stands on this machine is of no matter, and another for each trial.
        line = re.sub(rf"{re.escape(str(store.root()))}\S*?/mounts/[^/\s]+", "", line)
        code = f"exit code {failure.exit_code}"
        return code if measured or not line else f"{code}: {line[:_LINE]}"

    def others(self) -> Mapping[str, str]:
        """Runs of another sweep of the same name, with whose they are."""
        sweep = self._prepared.spec.name
        labels = {one.path.name: self._labels_of(one) for one in self._all() if not self._owns(one)}
        return {
            name: owner.told(own) for name, own in labels.items() if own.get(names.SWEEP) == sweep
        }

    def claims(self, trials: Collection[str]) -> Mapping[str, str]:
        """Volumes of trials that stay, with their folders."""
        folder = store.root() / "volumes" / self._home.namespace
        # A claim is named after its release: s-1234abcd-checkpoints.
        return {
            f"PersistentVolumeClaim/{path.name} ({path})": str(path)
            for path in store.entries(folder)
            if (known := self._name.match(path.name)) is not None and known[0] in trials
        }

    def _folders(self) -> list[store.RunFolder]:
        """The runs of this sweep; others, of whatever name, are as if they were not there."""
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
        """The labels on a run's record; read again only where it is another run's."""
        try:
            stamp = (folder.path / "run.json").stat().st_mtime_ns
            known = self._labels.get(folder.path.name)
            if known is None or known[0] != stamp:
                known = self._labels[folder.path.name] = (stamp, folder.spec().labels)
        except (FileNotFoundError, RunError):  # it comes or goes, or is broken
            return {}
        return known[1]

    def _status(self, folder: store.RunFolder) -> RunStatus | None:
        """The status of a run; read again only where its record has changed."""
        name = folder.path.name
        known = self._known.get(name)
        try:
            stamp = (folder.path / "state.json").stat().st_mtime_ns
            if known is None or known.stamp != stamp:
                tails = {} if known is None else known.tails
                known = _Known(stamp, records.read_status(folder), tails)
            elif not known.status.finished and not folder.alive():
                known.status = records.read_status(folder)
        except FileNotFoundError:
            return None
        self._known[name] = known
        return known.status

    # --- doing ------------------------------------------------------------------------------------

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to start a run."""
        if trial.name in self._starting or trial.name in self._ending:
            return
        self._refused.pop(trial.name, None)
        self._asked.discard(trial.name)
        self._known.pop(trial.name, None)
        self._starting[trial.name] = self._submit(self._starter, self._start, trial, values)

    def remove(self, name: str) -> None:
        """Begin to end a run, or to remove the record of one that has ended."""
        if self._refused.pop(name, None) is None:
            self._asked.add(name)
            known = self._known.get(name)
            # One that has ended since the last look, perhaps well, is to be looked at once more.
            self._begin_end(name, forget=known is None or known.has_ended)

    def close(self, *, at_once: bool = False) -> None:
        """Wait for what is under way; or end every run at once, and keep no record of it."""
        self._starter.shutdown(wait=True, cancel_futures=True)
        if at_once:
            for folder in self._folders():
                ending.signal_supervisor(folder, AT_ONCE)
        self._enders.shutdown(wait=True, cancel_futures=True)
        if at_once:
            for folder in self._folders():
                folder.wait_dead(ending.STOP_MARGIN)
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
        """Take in what the threads have done."""
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
            ended = self._ending.pop(name)
            if ended.cancelled():
                continue
            ended.result()
            handle = self._handles.get(name)
            if handle is not None and not store.run_folder(name, self._home.namespace).exists():
                handle.wait()
                del self._handles[name]

    def _start(self, trial: Trial, values: Mapping[str, Any]) -> control.Handle | None:
        """Render and start a run; None where it goes on already."""
        home, prepared, name = self._home, self._prepared, trial.name
        folder = store.run_folder(name, home.namespace)
        if folder.alive() and self._owns(folder):
            return None
        given = dict(values)
        if prepared.workload:
            merged = {**merge(prepared.defaults, given), "workload": prepared.workload}
            given = localising.localise(given, merged).values
        if home.binary is None:
            raise ValueError("these trials are only ended")
        # Ctrl-C is for the runner: a helm that it ended would be a trial that has failed.
        text = driver.template(
            home.binary, name, home.namespace, prepared.chart, given, is_tied=True
        )
        if prepared.workload or f"\nkind: {names.SENTINEL_KIND}\n" in text:
            text = postrender.process(text)
        return control.start(
            [one for one in load.load_all(text) if one],
            name=name,
            namespace=home.namespace,
            workdir=home.workdir,
            foreground=False,
            labels=prepared.owner.labels(prepared.spec.name, trial.number),
            withheld=home.withheld,
        )

    def _end(self, name: str, forget: bool) -> None:  # noqa: FBT001 - of a thread's call
        """End a run, or remove the record of one that has ended.

        One that goes on is not removed at once: how it ended and what it has cost is told first.
        """
        namespace = self._home.namespace
        folder = store.run_folder(name, namespace)
        with suppress(InputError, FileNotFoundError):  # it has gone
            if not self._owns(folder):
                return
            if folder.alive():
                control.stop(name, namespace)
            elif forget:
                control.delete(name, namespace)


def _never_began(folder: store.RunFolder) -> bool:
    """Whether a start was killed before anything of the run was started."""
    return (
        not folder.alive()
        and not logfiles.files(folder.logs)
        and records.read_status(folder).reason == "SupervisorLost"
    )


def _refusal(error: AllranksError) -> Observed:
    """A run that cannot be started: what is wrong with its input is wrong the next time, too."""
    why = "; ".join(problem.message for problem in error.problems)
    return Observed(actions.FAILED, why, time.time(), retryable=not isinstance(error, InputError))


def _leading(pods: Iterable[PodStatus]) -> PodStatus | None:
    """The pod that tells how a trial goes."""
    first = [pod for pod in pods if pod.rank in (0, None)]
    for role in _TELLING:
        for pod in first:
            if pod.role == role:
                return pod
    return first[0] if first else None


def _wanted(pod: PodStatus | None) -> Wanted:
    return ALL if pod is None else Wanted(node=pod.rank, role=pod.role)


def _message(pod: PodStatus | None) -> str:
    """The termination message of the container that trains."""
    containers = () if pod is None else pod.containers
    said = {one.name: one.message for one in containers if one.state == "terminated"}
    return said.get("trainer") or next(reversed(said.values()), "")
