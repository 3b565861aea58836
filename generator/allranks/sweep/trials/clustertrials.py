"""Trials as Helm releases on a cluster.

Helm's own records say which releases there are: a label names their sweep, and a record is written
before anything else of a release. So one list is complete whatever has happened to the runner
before. How a trial does is read from its Jobs and pods, in as many requests whether one runs or a
hundred; a trial that has ended is not looked at again.
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
from allranks.cluster import paths, removal
from allranks.errors import ForbiddenError, NotFoundError
from allranks.model.status import Phase, RunStatus
from allranks.status.fields import condition, holds, items, text, when
from allranks.status.observation import Observation
from allranks.status.reduce import reduce
from allranks.sweep import actions, owner
from allranks.sweep.actions import Observed
from allranks.sweep.trials.podlogs import MOST
from allranks.sweep.trials.ports import Said
from allranks.sweep.trials.releasing import Releasing
from allranks.sweep.trials.trialpods import TrialPods

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from allranks.cluster.port import Cluster, Manifests
    from allranks.helm.releases import Home
    from allranks.model.manifest import Manifest
    from allranks.sweep.model import Trial
    from allranks.sweep.values.prepare import Prepared

# The shortest time between two looks at the cluster, in seconds. The runner asks again whenever it
# has recorded something, several times in a row: between two looks it is told the last one.
_LOOK = 0.5
# So many names go into one selector; a request's line has a bound.
_NAMES = 60
_MANAGED = "app.kubernetes.io/managed-by=Helm"
_JOB_NAME = "batch.kubernetes.io/job-name"
# Helm's words for a release that it has made.
_MADE = frozenset({"deployed", "pending-upgrade", "pending-rollback"})
_ENDED = frozenset({actions.SUCCEEDED, actions.FAILED})


class ClusterTrials:
    """The releases of one sweep; see `allranks.sweep.trials.ports.Trials`."""

    def __init__(self, prepared: Prepared, cluster: Cluster, home: Home) -> None:
        """Nothing is sent.

        Args:
            prepared: the sweep.
            cluster: where its releases are.
            home: the same for helm; its name is of no matter.
        """
        self._prepared = prepared
        self._cluster = cluster
        self._namespace = home.namespace
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._helm = Releasing(prepared, cluster, home, self.wake)
        self._slots = threading.Semaphore(MOST)
        self._pods: dict[str, TrialPods] = {}
        self._ended: dict[str, Observed] = {}
        self._looked = -math.inf
        # What the last look has found: the names of all releases, and how they do.
        self._there: frozenset[str] = frozenset()
        self._found: dict[str, Observed] = {}

    # --- looking ----------------------------------------------------------------------------------

    def observe(self) -> Mapping[str, Observed]:
        """Every release of the sweep, and the runner's own work."""
        if time.monotonic() - self._looked >= _LOOK:
            # Before the list: what is done after this is still under way as far as we know.
            self._helm.take_in()
            # One that fails is none: it is tried again, or the failure told again.
            started, self._looked = time.monotonic(), -math.inf
            self._look()
            self._looked = started
        failed = {name: one for name, one in self._helm.failed.items() if name not in self._there}
        return {**failed, **self._found, **self._helm.under_way()}

    def _look(self) -> None:
        """See which releases there are, and how each does that nobody makes or removes now."""
        under_way = self._helm.under_way()
        records = self._records()
        found: dict[str, Observed] = {}
        live: list[str] = []
        for name, status in records.items():
            if name in under_way:
                continue
            if status not in _MADE:
                # Its helm was killed, or has failed: nobody makes or removes it now but us.
                self._helm.remove(name)
                found[name] = Observed(actions.REMOVING)
            elif name in self._ended:
                found[name] = self._ended[name]
            else:
                live.append(name)
        found.update(self._progress(live))
        for known in (self._pods, self._ended):
            for name in [name for name in known if name not in records]:
                self._forget(name)
        self._there, self._found = frozenset(records), found

    def read(self, trial: Trial) -> Said:
        """What a trial has said since the last call."""
        pods = self._pods.get(trial.name)
        if pods is None:
            return Said()
        message = pods.message if trial.name in self._ended else None
        return Said(pods.take(), message)

    def wait(self, seconds: float) -> None:
        """Return when helm is done with something, or it is time for the next look."""
        with suppress(queue.Empty):
            self._wakes.get(timeout=seconds)
        left = _LOOK - (time.monotonic() - self._looked)
        if left > 0:
            time.sleep(left)
        with suppress(queue.Empty):
            while True:
                self._wakes.get_nowait()

    def wake(self) -> None:
        """Let `wait` return."""
        self._wakes.put(None)

    def _records(self) -> dict[str, str]:
        """Helm's newest word on each release of this sweep; those of others are as if not there."""
        return _newest(one for one in self._listed_records() if self._is_ours(one))

    def others(self) -> Mapping[str, str]:
        """Releases of another sweep of the same name, with whose they are."""
        listed = [one for one in self._listed_records() if not self._is_ours(one)]
        whose = {_labels(one).get("name", ""): owner.told(_labels(one)) for one in listed}
        return {name: whose[name] for name in sorted(_newest(listed))}

    def claims(self, trials: Collection[str]) -> Mapping[str, str]:
        """Claims of trials that their charts keep, as kubectl names them."""
        wanted = set(trials) - set(self.others())
        found: list[str] = []
        with suppress(ForbiddenError):  # who may not see them has made none
            listed = self._cluster.list(
                paths.CLAIMS,
                namespace=self._namespace,
                label_selector=_MANAGED,
                metadata_only=True,
            )
            found = [
                f"{paths.plural(paths.CLAIMS)}/{one['metadata']['name']}"
                for one in listed
                if text(one, "metadata", "annotations", names.HELM_RELEASE) in wanted
                and removal.is_kept(one)
                and not one["metadata"].get("deletionTimestamp")
            ]
        return {name: name for name in sorted(found)}

    def _is_ours(self, one: Manifest) -> bool:
        return self._prepared.owner.owns(_labels(one), self._prepared.spec.name)

    def _listed_records(self) -> Manifests:
        """Helm's records of all releases of sweeps of this name."""
        selector = f"owner=helm,{names.SWEEP}={self._prepared.spec.name}"
        return self._cluster.list(
            paths.SECRETS,
            namespace=self._namespace,
            label_selector=selector,
            metadata_only=True,
        )

    def _progress(self, live: list[str]) -> Iterator[tuple[str, Observed]]:
        """How each release that was made does."""
        if not live:
            return
        own = bool(self._prepared.workload)
        seen = self._of_ours(live) if own else self._of_foreign(live)
        for name in live:
            objects, pods = seen[name][0], _owned(*seen[name])
            trial = self._pods.setdefault(name, self._trial_pods())
            trial.look(objects, pods)
            there = self._judge(name, objects, pods) if own else _verdict(objects)
            if there.phase in _ENDED:
                if not trial.is_read():
                    there = replace(there, phase=actions.RUNNING, reason="", is_over=True)
                else:
                    self._ended[name] = there
            yield name, there

    def _trial_pods(self) -> TrialPods:
        spec = self._prepared.spec
        return TrialPods(self._cluster, self._namespace, spec, self._slots)

    def _of_ours(self, live: list[str]) -> Mapping[str, tuple[Manifests, Manifests]]:
        """Controllers and pods of releases of our charts."""
        kinds = {"Job": paths.JOBS, "StatefulSet": paths.STATEFUL_SETS, "Pod": paths.PODS}
        if self._prepared.workload == "elastic":
            kinds[names.ELASTIC_JOB] = paths.ELASTIC_JOBS
        elif self._prepared.workload != "mpi":
            del kinds["StatefulSet"]
        found: defaultdict[str, tuple[Manifests, Manifests]] = defaultdict(lambda: ([], []))
        for kind, path in kinds.items():
            for one in self._listed(path, names.APP_INSTANCE, live):
                name = text(one, "metadata", "labels", names.APP_INSTANCE)
                found[name][kind == "Pod"].append({**one, "kind": kind})
        return found

    def _of_foreign(self, live: list[str]) -> Mapping[str, tuple[Manifests, Manifests]]:
        """Jobs of a foreign chart's releases, by what helm writes on each object; their pods."""
        wanted, owners = set(live), {}
        found: defaultdict[str, tuple[Manifests, Manifests]] = defaultdict(lambda: ([], []))
        jobs = self._cluster.list(paths.JOBS, namespace=self._namespace, label_selector=_MANAGED)
        for job in jobs:
            name = text(job, "metadata", "annotations", names.HELM_RELEASE)
            if name in wanted:
                found[name][0].append({**job, "kind": "Job"})
                owners[text(job, "metadata", "name")] = name
        for pod in self._listed(paths.PODS, _JOB_NAME, list(owners)):
            found[owners[text(pod, "metadata", "labels", _JOB_NAME)]][1].append(pod)
        return found

    def _listed(self, path: str, label: str, values: list[str]) -> Iterator[Manifest]:
        """All objects whose label has one of many values."""
        for start in range(0, len(values), _NAMES):
            some = ",".join(values[start : start + _NAMES])
            selector = f"{label} in ({some})"
            with suppress(NotFoundError):  # the cluster has no such kind
                yield from self._cluster.list(
                    path, namespace=self._namespace, label_selector=selector
                )

    def _judge(self, name: str, objects: Iterable[Manifest], pods: Iterable[Manifest]) -> Observed:
        now = time.time()
        seen = Observation(name, self._namespace, tuple(objects), tuple(pods), now=now)
        status = reduce(seen)
        since, began = status.finished_at or status.started_at or now, status.started_at or 0.0
        if status.phase is Phase.SUCCEEDED:
            return Observed(actions.SUCCEEDED, since=status.finished_at or now, began=began)
        if status.finished and seen.objects:
            why, since = _reason(status), status.finished_at or now
            return Observed(actions.FAILED, why, since, began=began)
        if status.finished and name in self._pods and self._pods[name].was_seen:
            return Observed(actions.FAILED, "its job was removed before its end was seen", since)
        return Observed(actions.RUNNING, since=since, began=began)

    # --- doing ------------------------------------------------------------------------------------

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to make a release."""
        self._forget(trial.name)
        self._helm.start(trial, values)

    def remove(self, name: str) -> None:
        """Begin to remove a release."""
        self._helm.remove(name)

    def close(self, *, at_once: bool = False) -> None:
        """Wait for helm, and stop reading."""
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


def _newest(listed: Iterable[Manifest]) -> dict[str, str]:
    """The status of each release's newest record."""
    newest: dict[str, tuple[int, str]] = {}
    for one in listed:
        labels = _labels(one)
        name, version = str(labels.get("name")), str(labels.get("version") or "0")
        number = int(version) if version.isdecimal() else 0
        if name not in newest or number > newest[name][0]:
            newest[name] = (number, str(labels.get("status")))
    return {name: status for name, (_, status) in newest.items() if status != "uninstalled"}


def _owned(objects: Manifests, pods: Manifests) -> Manifests:
    """The pods of controllers that are there: those of an earlier attempt may still be going."""
    uids = {text(one, "metadata", "uid") for one in objects}
    return [
        pod
        for pod in pods
        if any(text(one, "uid") in uids for one in items(pod, "metadata", "ownerReferences"))
    ]


def _reason(status: RunStatus) -> str:
    """Why a trial failed, in words that are the same for trials that failed alike."""
    failure = status.failure
    if failure is None:
        return status.reason or "it failed"
    said = failure.reason if failure.reason not in ("", "Error") else ""
    last = failure.message.strip().rpartition("\n")[2].strip()
    parts = (f"exit code {failure.exit_code}", said, last)
    return ": ".join(part for part in parts if part)


def _verdict(jobs: Iterable[Manifest]) -> Observed:
    """How a release of a foreign chart does: it ends when all its Jobs have, or one has failed."""
    jobs = list(jobs)
    starts = [start for job in jobs if (start := when(job, "status", "startTime"))]
    began = min(starts, default=0.0)
    states = [items(job, "status", "conditions") for job in jobs]
    now = time.time()
    if not states:
        why = "its chart makes no Job, so that nothing says when a trial ends"
        return Observed(actions.FAILED, why, now, retryable=False)
    for one in states:
        if holds(one, "Failed"):
            found = condition(one, "Failed")
            why = text(found, "reason") or "its job failed"
            since = when(found, "lastTransitionTime") or now
            return Observed(actions.FAILED, why, since, began=began)
    if all(holds(one, "Complete") for one in states):
        ends = (when(condition(one, "Complete"), "lastTransitionTime") for one in states)
        return Observed(actions.SUCCEEDED, since=max(end or now for end in ends), began=began)
    return Observed(actions.RUNNING, since=now, began=began)
