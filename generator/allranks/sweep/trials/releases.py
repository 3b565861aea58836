"""Install and remove the releases of trials, with several helm processes in the background.

The error of helm decides what becomes of a trial. An exceeded quota and a cluster that does not
answer are waited for; values that the chart refuses will never be valid. The remains of a failed
install are removed before the failure is reported.
"""

from __future__ import annotations

import base64
import fcntl
import gzip
import json
import os
import shutil
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import cleanup, paths
from allranks.errors import AllranksError, ForbiddenError, InputError, ReleaseTakenError, RunError
from allranks.helm import releases, slim_chart
from allranks.local.state import store
from allranks.sweep import actions, ownership
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.spec import external_chart
from allranks.sweep.workspace import ClusterCode
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.cluster.interface import KubeClient, Manifests
    from allranks.helm.releases import ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.sweep.model import Trial
    from allranks.sweep.spec.prepare import PreparedSweep


# How many helm processes run at a time: each needs a core most of the time, and some memory; the
# count of cores ignores the limits of a container.
AT_ONCE = min(16, max(4, 2 * (os.cpu_count() or 1)))
# How often the removal of a release may fail.
_REMOVALS = 10
# Texts of temporary failures, in our own messages (`allranks.helm.errors`).
_PASSING = (
    *("quota forbids", "does not answer", "exceeded quota", "too many requests"),
    "cannot be fetched",
)
# Texts of permanent failures.
_LASTING = ("is invalid", "is forbidden", "unknown field", "cluster refuses", "Kubernetes refuses")
_NEEDS_POST_RENDERER = "need the post-renderer"


class Releasing:
    """The helm work of one sweep.

    Attributes:
        failed: releases that could not be made, until they are removed or tried again.
    """

    def __init__(
        self,
        prepared: PreparedSweep,
        cluster: KubeClient,
        home: ReleaseRef,
        wake: Callable[[], None],
        *,
        is_inside: bool = False,
    ) -> None:
        """Create it without starting anything.

        Args:
            prepared: the sweep.
            cluster: the cluster of its releases.
            home: the cluster and namespace for helm; its name is not used.
            wake: called when work has finished, from any thread.
            is_inside: a pod runs the sweep.
        """
        self.failed: dict[str, ObservedRelease] = {}
        self._prepared = prepared
        self._cluster = cluster
        self._home = replace(home, is_tied=True)
        self._wake = wake
        self._pool = ThreadPoolExecutor(AT_ONCE, "sweep-helm")
        self._making: dict[str, Future[ObservedRelease | None]] = {}
        self._removing: dict[str, Future[str]] = {}
        self._troubles: dict[str, int] = {}
        # Whether the manifests need the post-renderer; the first trial finds out.
        self._post_render = False
        self._is_checked = prepared.layout is not None
        self._copy: ChartCopy | None = None
        self._chart = prepared.chart
        self._code = ClusterCode(cluster, home.namespace, is_inside=is_inside)

    def take_in(self) -> None:
        """Collect finished work; until then it counts as under way.

        Raises:
            RunError: a release cannot be removed after several tries.
        """
        for name in [name for name, future in self._making.items() if future.done()]:
            future = self._making.pop(name)
            refusal = None if future.cancelled() else future.result()
            if refusal is not None:
                self.failed[name] = refusal
        for name in [name for name, future in self._removing.items() if future.done()]:
            removal = self._removing.pop(name)
            self._count(name, "" if removal.cancelled() else removal.result())

    def under_way(self) -> dict[str, ObservedRelease]:
        """Return the releases that are being installed and removed."""
        now = time.time()
        return {
            **dict.fromkeys(self._making, ObservedRelease(actions.STARTING, since=now)),
            **dict.fromkeys(self._removing, ObservedRelease(actions.REMOVING, since=now)),
        }

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin to install a release."""
        if trial.name not in self._making and trial.name not in self._removing:
            self.failed.pop(trial.name, None)
            self._prepare_chart()
            self._making[trial.name] = self._submit(self._make, trial, dict(values))

    def remove(self, name: str) -> None:
        """Begin to remove a release, or forget its failed install."""
        if name not in self._removing and name not in self._making:
            self.failed.pop(name, None)
            self._removing[name] = self._submit(self._remove, name)

    def close(self, *, at_once: bool) -> None:
        """Cancel work that has not begun, and wait for the rest unless `at_once`."""
        self._pool.shutdown(wait=not at_once, cancel_futures=True)
        # Otherwise the folder is removed when the process exits, after the last helm that reads it.
        if self._copy is not None and not at_once:
            self._copy.close()
        if not at_once:
            self._code.close()

    def _prepare_chart(self) -> None:
        """Before the first install, copy the chart without the parts that were checked already."""
        chart = self._prepared.chart
        if self._copy is not None or not self._is_checked or not isinstance(chart, Path):
            return
        with suppress(OSError):  # no room for a copy: the chart itself does as well
            self._copy = ChartCopy(chart)
            self._chart = self._copy.chart

    def _count(self, name: str, trouble: str) -> None:
        """Count the failed removals of a release, which are tried again."""
        self._troubles[name] = self._troubles.get(name, 0) + 1 if trouble else 0
        if not trouble:
            del self._troubles[name]
        elif self._troubles[name] >= _REMOVALS:
            raise RunError(f"the release {name} cannot be removed: {trouble}")

    def _submit(self, call: Any, *arguments: Any) -> Future[Any]:
        future = self._pool.submit(call, *arguments)
        future.add_done_callback(lambda _: self._wake())
        return future

    def _make(self, trial: Trial, values: Mapping[str, Any]) -> ObservedRelease | None:
        """Install a release; return its failure, or None."""
        home = replace(self._home, name=trial.name)
        try:
            self._code.send(values)
            self._install(home, trial, values)
            with suppress(AllranksError):  # who looks next makes it an owner
                self._code.own(values, trial.name)
        except AllranksError as error:
            return self._failed_install(error, home)
        return None

    def _failed_install(self, error: AllranksError, home: ReleaseRef) -> ObservedRelease | None:
        """Return the failure of an install, and remove its remains; None if it is installed."""
        try:
            existing = records(self._cluster, home.namespace, home.name)
        except AllranksError:  # whose it is cannot be seen: nothing is removed
            return _refusal(error, home.name)
        if existing and not self._is_ours(existing):
            whose = ownership.describe(labels(existing[0]), chart(existing[0]))
            reason = (
                f"its name is taken by {whose}; remove that release, or give the sweep another name"
            )
            return ObservedRelease(actions.FAILED, reason, time.time(), retryable=False)
        if existing and isinstance(error, ReleaseTakenError):
            return None
        if isinstance(self._chart, str):
            error = external_chart.install_error(error, self._chart)
        if existing:
            with suppress(AllranksError):  # the first failure is the one to tell
                releases.uninstall(home)
        return _refusal(error, home.name)

    def _is_ours(self, helm_records: Manifests) -> bool:
        own = self._prepared.owner
        return all(own.owns(labels(record), self._prepared.spec.name) for record in helm_records)

    def _install(self, home: ReleaseRef, trial: Trial, values: Mapping[str, Any]) -> None:
        labels = self._prepared.owner.labels(self._prepared.spec.name, trial.number)
        while True:
            post_render = self._post_render
            try:
                releases.install(
                    home,
                    self._chart,
                    values,
                    post_render=post_render,
                    labels=labels,
                    is_checked=self._is_checked,
                )
            except InputError as error:
                if post_render or _NEEDS_POST_RENDERER not in error.problem.message:
                    raise
                self._post_render = True
            else:
                return

    def _remove(self, name: str) -> str:
        """Remove a release of this sweep; return the error, or ""."""
        namespace = self._home.namespace
        try:
            existing = records(self._cluster, namespace, name)
            if not self._is_ours(existing):
                return ""
            if not remove(self._cluster, namespace, existing):
                releases.uninstall(replace(self._home, name=name))
        except AllranksError as error:
            return error.problem.message
        return ""


def _refusal(error: AllranksError, name: str) -> ObservedRelease:
    """Return the failure of an install, with equal text for equal failures."""
    message = "; ".join(problem.message for problem in error.problems).replace(name, "<trial>")
    now = time.time()
    if any(words in message for words in _PASSING):
        return ObservedRelease(actions.BLOCKED, message, now)
    wrong = isinstance(error, InputError | ForbiddenError) or any(w in message for w in _LASTING)
    return ObservedRelease(actions.FAILED, message, now, retryable=not wrong)


# Kinds that can be deleted without helm, by API version and kind.
_PLAIN_KINDS = frozenset(
    {
        ("v1", "ConfigMap"),
        ("v1", "PersistentVolumeClaim"),
        ("v1", "Secret"),
        ("v1", "Service"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        (names.API_VERSION, "TrainingRun"),
        (names.ELASTIC_API_VERSION, names.ELASTIC_JOB),
    }
)
# Helm's statuses of a release whose only objects are those of its record.
_PLAIN = frozenset({"deployed", "pending-install"})


def records(cluster: KubeClient, namespace: str, release: str) -> Manifests:
    """List helm's records of a release; none if there is no such release.

    Raises:
        ToolError: the cluster does not answer, or forbids it.
    """
    return cluster.list(
        paths.SECRETS, namespace=namespace, label_selector=f"owner=helm,name={release}"
    )


def labels(record: Manifest) -> dict[str, str]:
    """Return the labels of a record."""
    return record["metadata"].get("labels") or {}


def chart(record: Manifest) -> str:
    """Return the name of a release's chart; "" if its record cannot be read."""
    try:
        return str(_unpack(record)["chart"]["metadata"]["name"])
    except (KeyError, TypeError, ValueError, OSError, EOFError):
        return ""


def remove(cluster: KubeClient, namespace: str, helm_records: Manifests) -> bool:
    """Remove a simple release without helm.

    Args:
        cluster: the cluster.
        namespace: the release's.
        helm_records: of `records`.

    Returns:
        Whether it was removed; if not, nothing was done, and helm has to do it.

    Raises:
        ToolError: the cluster does not answer, or forbids it; some of it may be removed.
    """
    if len(helm_records) != 1:
        return False
    manifests = _manifests(helm_records[0])
    if manifests is None or not all(_is_plain(manifest, namespace) for manifest in manifests):
        return False
    for manifest in manifests:
        if not cleanup.outlives_release(manifest):
            cluster.delete(
                paths.manifest_path(manifest), manifest["metadata"]["name"], namespace=namespace
            )
    cluster.delete(paths.SECRETS, helm_records[0]["metadata"]["name"], namespace=namespace)
    return True


def _manifests(record: Manifest) -> list[Manifest] | None:
    """Return the manifests of a release, controllers first; None if only helm can remove it."""
    if labels(record).get("status") not in _PLAIN:
        return None
    try:
        release = _unpack(record)
        manifests = [
            manifest for manifest in load.load_all(release["manifest"]) if manifest is not None
        ]
    except (KeyError, TypeError, ValueError, OSError, EOFError, InputError):
        return None
    if release.get("hooks"):
        return None
    if not all(isinstance(manifest, dict) for manifest in manifests):
        return None
    return sorted(
        manifests, key=lambda manifest: manifest.get("kind") not in ("Job", "StatefulSet")
    )


def _unpack(record: Manifest) -> dict[str, Any]:
    packed = base64.b64decode(base64.b64decode(record["data"]["release"]))
    release: dict[str, Any] = json.loads(gzip.decompress(packed))
    return release


def _is_plain(manifest: Manifest, namespace: str) -> bool:
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict):
        return False
    is_plain_kind = (manifest.get("apiVersion"), manifest.get("kind")) in _PLAIN_KINDS
    return (
        is_plain_kind
        and bool(metadata.get("name"))
        and metadata.get("namespace") in (None, namespace)
    )


_PREFIX = "allranks-chart-"
_LOCK = ".lock"
# A copy that a killed runner's helm still reads, or that is not locked yet, is younger than this.
_AGE_SECONDS = 60.0


class ChartCopy:
    """A copy of a chart in a temporary folder.

    Attributes:
        chart: its folder.
    """

    def __init__(self, chart: Path) -> None:
        """Create the copy, and remove others that nobody uses.

        Args:
            chart: the chart's folder.

        Raises:
            OSError: there is no room for it.
        """
        _remove_unused_copies()
        self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX)
        folder = Path(self._folder.name)
        self._lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self.chart = slim_chart.copy(chart, folder)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Remove the copy; otherwise it is removed when the process exits."""
        self._folder.cleanup()
        os.close(self._lock)


def _remove_unused_copies() -> None:
    """Remove this user's copies whose runner is gone."""
    young = time.time() - _AGE_SECONDS
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            status = path.lstat()
            if status.st_uid != os.geteuid() or status.st_mtime > young:
                continue
            if not store.is_locked(path / _LOCK):
                shutil.rmtree(path, ignore_errors=True)
        except OSError:  # another has removed it, or it is none of ours
            continue
