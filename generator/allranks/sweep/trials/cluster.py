"""Trials as Helm releases on a cluster.

Helm's own records tell which releases there are: a label names their sweep, and a record is written
before anything else of a release. So one list is complete, whatever has happened to an earlier
runner. The progress of trials is read from their Jobs and pods, in the same number of requests for
one trial or a hundred; a trial that has ended is not read again.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import cleanup, paths
from allranks.cluster import pod_selection as reading
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import condition, holds, items, text, when
from allranks.model.status import Phase, RunStatus
from allranks.status.observation import Observation
from allranks.status.reduce import reduce
from allranks.sweep import actions, ownership
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.model import TERMINATION
from allranks.sweep.trials.base import TrialOutput, last_line
from allranks.sweep.trials.logs import MOST, PodLog
from allranks.sweep.trials.releases import Releasing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from allranks.cluster.interface import KubeClient, Manifests
    from allranks.helm.releases import ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.spec.prepare import PreparedSweep


# The shortest time between two reads of the cluster, in seconds. The runner observes again whenever
# it has recorded something, several times in a row, and then gets the last result.
_LOOK = 0.5
# The most names in one selector, as the length of a URL is limited.
_NAMES = 60
_MANAGED = "app.kubernetes.io/managed-by=Helm"
_JOB_NAME = "batch.kubernetes.io/job-name"
# Helm's statuses of a release that is installed.
_INSTALLED = frozenset({"deployed", "pending-upgrade", "pending-rollback"})
_ENDED = frozenset({actions.SUCCEEDED, actions.FAILED})


class ClusterTrials:
    """The releases of one sweep; see `allranks.sweep.trials.base.TrialReleases`."""

    def __init__(
        self,
        prepared: PreparedSweep,
        cluster: KubeClient,
        home: ReleaseRef,
        *,
        is_inside: bool = False,
    ) -> None:
        """Create it without any request.

        Args:
            prepared: the sweep.
            cluster: the cluster of its releases.
            home: the cluster and namespace for helm; its name is not used.
            is_inside: a pod runs the sweep.
        """
        self._prepared = prepared
        self._cluster = cluster
        self._namespace = home.namespace
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._helm = Releasing(prepared, cluster, home, self.wake, is_inside=is_inside)
        self._slots = threading.Semaphore(MOST)
        self._pods: dict[str, TrialPods] = {}
        self._ended: dict[str, ObservedRelease] = {}
        self._looked = -math.inf
        # The result of the last read: the names of all releases, and their states.
        self._there: frozenset[str] = frozenset()
        self._observed: dict[str, ObservedRelease] = {}

    # --- observing --------------------------------------------------------------------------------

    def observe(self) -> Mapping[str, ObservedRelease]:
        """Return every release of the sweep, with installs and removals under way."""
        if time.monotonic() - self._looked >= _LOOK:
            # Before the list: work that finishes after this still counts as under way.
            self._helm.take_in()
            # A read that fails does not count: the next call tries again.
            now, self._looked = time.monotonic(), -math.inf
            self._read()
            self._looked = now
        failed = {
            name: failure for name, failure in self._helm.failed.items() if name not in self._there
        }
        return {**failed, **self._observed, **self._helm.under_way()}

    def _read(self) -> None:
        """Read which releases there are, and the state of those without work under way."""
        under_way = self._helm.under_way()
        records = self._records()
        observed: dict[str, ObservedRelease] = {}
        live: list[str] = []
        for name, status in records.items():
            if name in under_way:
                continue
            if status not in _INSTALLED:
                # Its helm was killed, or has failed: nobody else installs or removes it now.
                self._helm.remove(name)
                observed[name] = ObservedRelease(actions.REMOVING)
            elif name in self._ended:
                observed[name] = self._ended[name]
            else:
                live.append(name)
        observed.update(self._progress(live))
        for cache in (self._pods, self._ended):
            for name in [name for name in cache if name not in records]:
                self._forget(name)
        self._there, self._observed = frozenset(records), observed

    def read(self, trial: Trial) -> TrialOutput:
        """Return the output of a trial since the last call."""
        pods = self._pods.get(trial.name)
        if pods is None:
            return TrialOutput()
        message = pods.message if trial.name in self._ended else None
        return TrialOutput(pods.take(), message)

    def wait(self, seconds: float) -> None:
        """Wait until a helm process has finished, or it is time for the next read."""
        with suppress(queue.Empty):
            self._wakes.get(timeout=seconds)
        rest = _LOOK - (time.monotonic() - self._looked)
        if rest > 0:
            time.sleep(rest)
        with suppress(queue.Empty):
            while True:
                self._wakes.get_nowait()

    def wake(self) -> None:
        """Let `wait` return."""
        self._wakes.put(None)

    def _records(self) -> dict[str, str]:
        """Return helm's newest status of each release of this sweep."""
        return _newest(record for record in self._list_records() if self._is_ours(record))

    def foreign_releases(self) -> Mapping[str, str]:
        """Return the releases of another sweep of the same name, with their owners in words."""
        foreign = [record for record in self._list_records() if not self._is_ours(record)]
        whose = {
            _labels(record).get("name", ""): ownership.describe(_labels(record))
            for record in foreign
        }
        return {name: whose[name] for name in sorted(_newest(foreign))}

    def claims(self, trials: Collection[str]) -> Mapping[str, str]:
        """Return the claims that the charts of trials keep, by their name for kubectl."""
        ours = set(trials) - set(self.foreign_releases())
        claim_names: list[str] = []
        with suppress(ForbiddenError):  # a user who cannot list claims has created none
            claims = self._cluster.list(
                paths.CLAIMS,
                namespace=self._namespace,
                label_selector=_MANAGED,
                metadata_only=True,
            )
            claim_names = [
                f"{paths.plural(paths.CLAIMS)}/{claim['metadata']['name']}"
                for claim in claims
                if text(claim, "metadata", "annotations", names.HELM_RELEASE) in ours
                and cleanup.outlives_release(claim)
                and not claim["metadata"].get("deletionTimestamp")
            ]
        return {name: name for name in sorted(claim_names)}

    def _is_ours(self, record: Manifest) -> bool:
        return self._prepared.owner.owns(_labels(record), self._prepared.spec.name)

    def _list_records(self) -> Manifests:
        """List helm's records of all releases of sweeps of this name."""
        selector = f"owner=helm,{names.SWEEP}={self._prepared.spec.name}"
        return self._cluster.list(
            paths.SECRETS,
            namespace=self._namespace,
            label_selector=selector,
            metadata_only=True,
        )

    def _progress(self, live: list[str]) -> Iterator[tuple[str, ObservedRelease]]:
        """Yield the state of each installed release."""
        if not live:
            return
        own = bool(self._prepared.workload)
        by_release = self._own_objects(live) if own else self._foreign_objects(live)
        for name in live:
            objects, pods = by_release[name][0], _owned_pods(*by_release[name])
            trial = self._pods.setdefault(name, self._trial_pods())
            trial.update(objects, pods)
            observed = self._judge(name, objects, pods) if own else _verdict(objects)
            if observed.phase in _ENDED:
                if not trial.is_read():
                    observed = replace(observed, phase=actions.RUNNING, reason="", is_over=True)
                else:
                    self._ended[name] = observed
            yield name, observed

    def _trial_pods(self) -> TrialPods:
        spec = self._prepared.spec
        return TrialPods(self._cluster, self._namespace, spec, self._slots)

    def _own_objects(self, live: list[str]) -> Mapping[str, tuple[Manifests, Manifests]]:
        """Return controllers and pods by release, for our charts."""
        kinds = {"Job": paths.JOBS, "StatefulSet": paths.STATEFUL_SETS, "Pod": paths.PODS}
        if self._prepared.workload == "elastic":
            kinds[names.ELASTIC_JOB] = paths.ELASTIC_JOBS
        elif self._prepared.workload != "mpi":
            del kinds["StatefulSet"]
        by_release: defaultdict[str, tuple[Manifests, Manifests]] = defaultdict(lambda: ([], []))
        for kind, path in kinds.items():
            for manifest in self._list_labelled(path, names.APP_INSTANCE, live):
                name = text(manifest, "metadata", "labels", names.APP_INSTANCE)
                by_release[name][kind == "Pod"].append({**manifest, "kind": kind})
        return by_release

    def _foreign_objects(self, live: list[str]) -> Mapping[str, tuple[Manifests, Manifests]]:
        """Return Jobs and pods by release, for an external chart, by helm's annotations."""
        releases, owners = set(live), {}
        by_release: defaultdict[str, tuple[Manifests, Manifests]] = defaultdict(lambda: ([], []))
        jobs = self._cluster.list(paths.JOBS, namespace=self._namespace, label_selector=_MANAGED)
        for job in jobs:
            name = text(job, "metadata", "annotations", names.HELM_RELEASE)
            if name in releases:
                by_release[name][0].append({**job, "kind": "Job"})
                owners[text(job, "metadata", "name")] = name
        for pod in self._list_labelled(paths.PODS, _JOB_NAME, list(owners)):
            by_release[owners[text(pod, "metadata", "labels", _JOB_NAME)]][1].append(pod)
        return by_release

    def _list_labelled(self, path: str, label: str, values: list[str]) -> Iterator[Manifest]:
        """Yield all objects whose label has one of these values."""
        for start in range(0, len(values), _NAMES):
            chunk = ",".join(values[start : start + _NAMES])
            selector = f"{label} in ({chunk})"
            with suppress(NotFoundError):  # the cluster has no such kind
                yield from self._cluster.list(
                    path, namespace=self._namespace, label_selector=selector
                )

    def _judge(
        self, name: str, objects: Iterable[Manifest], pods: Iterable[Manifest]
    ) -> ObservedRelease:
        now = time.time()
        observation = Observation(name, self._namespace, tuple(objects), tuple(pods), now=now)
        status = reduce(observation)
        since, began = status.finished_at or status.started_at or now, status.started_at or 0.0
        if status.phase is Phase.SUCCEEDED:
            return ObservedRelease(actions.SUCCEEDED, since=status.finished_at or now, began=began)
        if status.finished and observation.objects:
            reason, since = _reason(status), status.finished_at or now
            return ObservedRelease(actions.FAILED, reason, since, began=began)
        if status.finished and name in self._pods and self._pods[name].has_appeared:
            return ObservedRelease(
                actions.FAILED, "its job was removed before its end was seen", since
            )
        return ObservedRelease(actions.RUNNING, since=since, began=began)

    # --- acting -----------------------------------------------------------------------------------

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to install a release."""
        self._forget(trial.name)
        self._helm.start(trial, values)

    def remove(self, name: str) -> None:
        """Begin to remove a release."""
        self._helm.remove(name)

    def close(self, *, at_once: bool = False) -> None:
        """Wait for helm processes, and stop reading logs."""
        self._helm.close(at_once=at_once)
        for name in list(self._pods):
            self._forget(name)

    def _forget(self, name: str) -> None:
        self._ended.pop(name, None)
        pods = self._pods.pop(name, None)
        if pods is not None:
            pods.close()


def _labels(record: Manifest) -> dict[str, str]:
    return record["metadata"].get("labels") or {}


def _newest(records: Iterable[Manifest]) -> dict[str, str]:
    """Return the status of each release's newest record."""
    newest: dict[str, tuple[int, str]] = {}
    for record in records:
        labels = _labels(record)
        name, version = str(labels.get("name")), str(labels.get("version") or "0")
        number = int(version) if version.isdecimal() else 0
        if name not in newest or number > newest[name][0]:
            newest[name] = (number, str(labels.get("status")))
    return {name: status for name, (_, status) in newest.items() if status != "uninstalled"}


def _owned_pods(objects: Manifests, pods: Manifests) -> Manifests:
    """Return the pods of existing controllers; pods of an earlier attempt may still terminate."""
    uids = {text(item, "metadata", "uid") for item in objects}
    return [
        pod
        for pod in pods
        if any(text(item, "uid") in uids for item in items(pod, "metadata", "ownerReferences"))
    ]


def _reason(status: RunStatus) -> str:
    """Return why a trial failed, with equal text for equal failures."""
    failure = status.failure
    if failure is None:
        return status.reason or "it failed"
    reason = failure.reason if failure.reason not in ("", "Error") else ""
    last = last_line(failure.message.splitlines())
    parts = (f"exit code {failure.exit_code}", reason, last)
    return ": ".join(part for part in parts if part)


def _verdict(jobs: Iterable[Manifest]) -> ObservedRelease:
    """Return the state of an external chart's release: it ends with all its Jobs or a failure."""
    jobs = list(jobs)
    starts = [start for job in jobs if (start := when(job, "status", "startTime"))]
    began = min(starts, default=0.0)
    states = [items(job, "status", "conditions") for job in jobs]
    now = time.time()
    if not states:
        reason = "its chart makes no Job, so that nothing says when a trial ends"
        return ObservedRelease(actions.FAILED, reason, now, retryable=False)
    for conditions in states:
        if holds(conditions, "Failed"):
            failure = condition(conditions, "Failed")
            reason = text(failure, "reason") or "its job failed"
            since = when(failure, "lastTransitionTime") or now
            return ObservedRelease(actions.FAILED, reason, since, began=began)
    if all(holds(conditions, "Complete") for conditions in states):
        ends = (
            when(condition(conditions, "Complete"), "lastTransitionTime") for conditions in states
        )
        return ObservedRelease(
            actions.SUCCEEDED, since=max(end or now for end in ends), began=began
        )
    return ObservedRelease(actions.RUNNING, since=now, began=began)


# How long reading a log may take after its trial has ended, in seconds.
_PATIENCE = 20.0


class TrialPods:
    """The output of the pods of a trial.

    Attributes:
        message: the termination message of the newest pod that succeeded.
        has_appeared: a pod or a controller was observed.
    """

    def __init__(
        self, cluster: KubeClient, namespace: str, spec: SweepSpec, slots: threading.Semaphore
    ) -> None:
        """Create it without reading anything.

        Args:
            cluster: the cluster.
            namespace: the namespace of the pods.
            spec: the sweep, whose objective decides whether to read logs.
            slots: limits how many logs are read at a time, of all trials.
        """
        self.message = ""
        self.has_appeared = False
        self._cluster = cluster
        self._namespace = namespace
        self._slots = slots
        self._reads_logs = bool(spec.objective.metric) and spec.metrics.source != TERMINATION
        # By the pod's uid, in the order in which they were created.
        self._logs: dict[str, PodLog] = {}
        self._over: set[str] = set()
        self._ended_at: float | None = None

    def update(self, objects: Iterable[Manifest], pods: Iterable[Manifest]) -> None:
        """Update it with the trial's current controllers and pods."""
        objects, pods = list(objects), list(pods)
        self.has_appeared = self.has_appeared or bool(objects or pods)
        leading = reading.PodRanks(objects).leading(pods) or pods
        for pod in sorted(leading, key=reading.creation_time):
            container = reading.main_container(pod)
            state = reading.container_status(pod, container).get("state") or {}
            terminated = state.get("terminated")
            uid = str(pod["metadata"]["uid"])
            if terminated is not None:
                self._over.add(uid)
                if terminated.get("exitCode") == 0:
                    self.message = str(terminated.get("message") or "")
            if self._reads_logs and uid not in self._logs and reading.has_started(pod):
                self._logs[uid] = self._log(uid, pod, container)

    def take(self) -> list[str]:
        """Return the lines since the last call, one pod after the other."""
        lines: list[str] = []
        for log in self._logs.values():
            lines += log.take()
            if not (log.done and log.is_empty):
                break
        return lines

    def is_read(self) -> bool:
        """Whether all output of the ended trial is read, or the time for that is over."""
        now = time.monotonic()
        if self._ended_at is None:
            self._ended_at = now
            self._over |= set(self._logs)
        return all(log.done for log in self._logs.values()) or now > self._ended_at + _PATIENCE

    def close(self) -> None:
        """Stop reading logs."""
        for log in self._logs.values():
            log.close()

    def _log(self, uid: str, pod: Manifest, container: str) -> PodLog:
        place = (self._namespace, str(pod["metadata"]["name"]), container)
        writers = reading.writers(pod)
        return PodLog(self._cluster, place, lambda: uid in self._over, self._slots, writers)
