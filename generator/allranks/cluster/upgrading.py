"""What an upgrade would meet on the cluster, found out before anything is sent.

Every rendered object that is there already is patched in a dry run: the API server's answer is the
truth, whatever version it has. What it refuses is named field by field (`immutable.changes`). One
thing it takes and we do not: another pod template of an elastic job that runs, whose pods would be
of the old one until they are lost, and then of the new.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import elasticjobs, immutable, paths, sizing
from allranks.errors import NotFoundError, RejectedError, RunError
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allranks.cluster.immutable import Change
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

HELM = "helm"
WORKLOADS = frozenset({"Job", "StatefulSet", names.ELASTIC_JOB})
# Data is lost with these; they are never replaced.
_KEPT = frozenset({"PersistentVolumeClaim"})
_KEEPS = "pods that run keep the old template"
_SUSPENDED = "Suspended"
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An object that cannot become what was rendered.

    Attributes:
        kind: its kind.
        name: its name.
        resource_path: where it is; see `allranks.cluster.paths`.
        changes: the fields that cannot change; () where the server alone knows.
        said: the server's own words.
        keeps: why the fields must not change though the server would let them; "" where it does
            not.
    """

    kind: str
    name: str
    resource_path: str
    changes: tuple[Change, ...]
    said: str
    keeps: str = ""

    @property
    def replaceable(self) -> bool:
        """Whether it can be deleted and made anew without losing data."""
        return self.kind not in _KEPT


@dataclass(frozen=True, slots=True)
class Outlook:
    """What an upgrade would do.

    Attributes:
        obstacles: objects that cannot become what was rendered.
        missing: workload objects that helm applied and that are gone (a Job after its TTL): an
            upgrade makes them anew.
    """

    obstacles: tuple[Obstacle, ...] = ()
    missing: tuple[str, ...] = ()


def look(
    cluster: Cluster, namespace: str, new: Iterable[Manifest], applied: Iterable[Manifest]
) -> Outlook:
    """Find out what an upgrade would meet; nothing is changed.

    Args:
        cluster: the cluster.
        namespace: the release's namespace.
        new: the objects as they are rendered now.
        applied: the objects as helm applied them last.

    Raises:
        ToolError: the cluster does not answer, or forbids to get or patch an object.
    """
    before = {_key(one): one for one in applied}
    obstacles: list[Obstacle] = []
    missing: list[str] = []
    new = tuple(new)
    for manifest in new:
        name = str(manifest["metadata"]["name"])
        kind = str(manifest["kind"])
        resource_path = paths.of_manifest(manifest)
        live = _find(cluster, resource_path, name, namespace)
        if live is None:
            if kind in WORKLOADS and _key(manifest) in before:
                missing.append(f"{kind}/{name}")
            continue
        changes = immutable.changes(manifest, live, before.get(_key(manifest)))
        said = _refused(cluster, namespace, resource_path, manifest)
        keeps = _keeps(live) if changes else ""
        # The dry run takes nothing away from an object that was not applied by the server, so a
        # field that is to go is only seen by the comparison.
        if said or keeps or (changes and _changes_count(live)):
            obstacles.append(Obstacle(kind, name, resource_path, changes, said, keeps))
    rendered = {_key(one) for one in new}
    obstacles += _dropped(
        cluster, namespace, (one for one in before.values() if _key(one) not in rendered)
    )
    return Outlook(tuple(obstacles), tuple(missing))


def _dropped(cluster: Cluster, namespace: str, old: Iterable[Manifest]) -> list[Obstacle]:
    """The controllers that the new values do not have: helm would delete them with their pods.

    A finished Job is no obstacle: nothing of it runs.
    """
    found: list[Obstacle] = []
    for manifest in old:
        kind, name = _key(manifest)
        if kind not in WORKLOADS:
            continue
        resource_path = paths.of_manifest(manifest)
        live = _find(cluster, resource_path, name, namespace)
        if live is not None and not sizing.ended(live):
            said = "the new values have no such object, so its pods would be deleted"
            found.append(Obstacle(kind, name, resource_path, (), said))
    return found


def recreate(
    cluster: Cluster,
    release: str,
    namespace: str,
    obstacles: Sequence[Obstacle],
    *,
    timeout: float,
    tell: Callable[[str], None],
) -> None:
    """Delete what cannot change, and all workload objects with it; wait until they are gone.

    All workers and the launcher go together: half of a job of the old kind cannot train with half
    of the new. Claims stay.

    Args:
        cluster: the cluster.
        release: the release.
        namespace: its namespace.
        obstacles: what cannot change.
        timeout: seconds to wait.
        tell: hears of each object that is deleted.

    Raises:
        RunError: pods are still there after the time.
        ToolError: the cluster does not answer, or forbids to delete.
    """
    selector = paths.selector(release)
    doomed = {
        (one.resource_path, one.name): one.kind for one in obstacles if one.kind not in WORKLOADS
    }
    for resource_path, kind in ((paths.JOBS, "Job"), (paths.STATEFUL_SETS, "StatefulSet")):
        for item in cluster.list(resource_path, namespace=namespace, label_selector=selector):
            doomed[resource_path, str(item["metadata"]["name"])] = kind
    for item in elasticjobs.of_run(cluster, release, namespace):
        doomed[paths.ELASTIC_JOBS, str(item["metadata"]["name"])] = names.ELASTIC_JOB
    for (resource_path, name), kind in doomed.items():
        tell(f"{kind}/{name}")
        cluster.delete(resource_path, name, namespace=namespace, foreground=True)
    deadline = time.monotonic() + timeout
    for resource_path, name in doomed:
        while _find(cluster, resource_path, name, namespace) is not None:
            _still_time(deadline, timeout, f"{paths.plural(resource_path)} {name}")
    wait_for_no_pods(cluster, release, namespace, timeout=max(0.0, deadline - time.monotonic()))


def wait_for_no_pods(cluster: Cluster, release: str, namespace: str, *, timeout: float) -> None:
    """Wait until no pod of a release is left.

    Raises:
        RunError: pods are still there after the time; they are named.
        ToolError: the cluster does not answer, or forbids to list pods.
    """
    deadline = time.monotonic() + timeout
    selector = paths.selector(release)
    while pods := cluster.list(
        paths.PODS, namespace=namespace, label_selector=selector, metadata_only=True
    ):
        left = some([pod["metadata"]["name"] for pod in pods], 1)
        _still_time(deadline, timeout, f"pod {left}")


def _still_time(deadline: float, timeout: float, what: str) -> None:
    """Wait a moment; an error where the time is over."""
    if time.monotonic() >= deadline:
        raise RunError(
            f"still there after {timeout:.0f} s: {what}",
            hint="its node may be gone: `kubectl get pods` shows where it is; give more time with "
            "--timeout, or delete the pod with `kubectl delete pod --force` if its node is lost",
        )
    time.sleep(_LOOK_SECONDS)


def _find(cluster: Cluster, resource_path: str, name: str, namespace: str) -> Manifest | None:
    try:
        return cluster.get(resource_path, name, namespace=namespace)
    except NotFoundError:
        return None


def _refused(cluster: Cluster, namespace: str, resource_path: str, manifest: Manifest) -> str:
    """What the server says against the change; "" where it would take it."""
    try:
        cluster.patch(
            resource_path,
            str(manifest["metadata"]["name"]),
            manifest,
            namespace=namespace,
            kind="apply",
            manager=HELM,
            dry_run=True,
        )
    except RejectedError as error:
        causes = "; ".join(f"{field}: {said.splitlines()[0]}" for field, said in error.causes)
        return causes or error.problem.message
    return ""


def _keeps(live: Manifest) -> str:
    """Why what would change in an elastic job must not; "" where it may, or is for the server."""
    if live.get("kind") != names.ELASTIC_JOB or sizing.ended(live):
        return ""
    return "" if (live.get("status") or {}).get("phase") == _SUSPENDED else _KEEPS


def _changes_count(live: Manifest) -> bool:
    """Whether the comparison decides where the server lets a change pass."""
    return live.get("kind") != names.ELASTIC_JOB and not _server_applied(live)


def _server_applied(live: Manifest) -> bool:
    entries = live["metadata"].get("managedFields") or ()
    return any(
        entry.get("manager") == HELM and entry.get("operation") == "Apply" for entry in entries
    )


def _key(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.get("kind")), str(manifest["metadata"]["name"])
