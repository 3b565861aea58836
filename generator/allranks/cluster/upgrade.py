"""Predict the effect of an upgrade on the cluster, before anything is sent.

Every rendered object that is there already is patched in a dry run: the API server's answer is the
truth, whatever version it has. What it refuses is named field by field (`immutable.changes`). One
thing it takes and we do not: another pod template of an elastic job that runs, whose pods would be
of the old one until they are lost, and then of the new.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from allranks import names, retry
from allranks.cluster import cleanup, paths, scale
from allranks.errors import InputError, NotFoundError, RejectedError, RunError
from allranks.humanize import list_some
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest


HELM = "helm"
WORKLOADS = frozenset({"Job", "StatefulSet", names.ELASTIC_JOB})
# Data is lost with these; they are never replaced.
_DATA_KINDS = frozenset({"PersistentVolume", "PersistentVolumeClaim"})
_KEEPS = "pods that run keep the old template"
_SUSPENDED = "Suspended"
_LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Obstacle:
    """An object that cannot be changed to what was rendered.

    Attributes:
        kind: its kind.
        name: its name.
        resource_path: where it is; see `allranks.cluster.paths`.
        changes: the fields that cannot change; () where the server alone knows.
        message: the server's own words.
        keeps: why the fields must not change though the server would let them; "" where it does
            not.
    """

    kind: str
    name: str
    resource_path: str
    changes: tuple[Change, ...]
    message: str
    keeps: str = ""

    @property
    def replaceable(self) -> bool:
        """Whether it can be deleted and created again without losing data."""
        return self.kind not in _DATA_KINDS


@dataclass(frozen=True, slots=True)
class Outlook:
    """The predicted effect of an upgrade.

    Attributes:
        obstacles: objects that cannot become what was rendered.
        missing: workload objects that helm applied and that are gone (a Job after its TTL): an
            upgrade makes them anew.
    """

    obstacles: tuple[Obstacle, ...] = ()
    missing: tuple[str, ...] = ()


def preview(
    cluster: KubeClient, namespace: str, new: Iterable[Manifest], applied: Iterable[Manifest]
) -> Outlook:
    """Predict the effect of an upgrade; nothing is changed.

    Args:
        cluster: the cluster.
        namespace: the release's namespace.
        new: the objects as they are rendered now.
        applied: the objects as helm applied them last.

    Raises:
        ToolError: the cluster does not answer, or forbids to get or patch an object.
    """
    before = {_key(manifest): manifest for manifest in applied}
    obstacles: list[Obstacle] = []
    missing: list[str] = []
    new = tuple(new)
    for manifest in new:
        name = str(manifest["metadata"]["name"])
        kind = str(manifest["kind"])
        resource_path = paths.manifest_path(manifest)
        live = _find(cluster, resource_path, name, namespace)
        if live is None:
            if kind in WORKLOADS and _key(manifest) in before:
                missing.append(f"{kind}/{name}")
            continue
        changes = immutable_changes(manifest, live, before.get(_key(manifest)))
        problem = _server_refusal(cluster, namespace, resource_path, manifest)
        keeps = _keeps(live) if changes else ""
        # The dry run takes nothing away from an object that was not applied by the server, so a
        # field that is to go is only seen by the comparison.
        if problem or keeps or (changes and _changes_count(live)):
            obstacles.append(Obstacle(kind, name, resource_path, changes, problem, keeps))
    rendered = {_key(manifest) for manifest in new}
    obstacles += _dropped_controllers(
        cluster,
        namespace,
        (manifest for manifest in before.values() if _key(manifest) not in rendered),
    )
    return Outlook(tuple(obstacles), tuple(missing))


def _dropped_controllers(
    cluster: KubeClient, namespace: str, old: Iterable[Manifest]
) -> list[Obstacle]:
    """The controllers missing from the new values: helm would delete them and their pods.

    A finished Job is no obstacle: nothing of it runs.
    """
    obstacles: list[Obstacle] = []
    for manifest in old:
        kind, name = _key(manifest)
        if kind not in WORKLOADS:
            continue
        resource_path = paths.manifest_path(manifest)
        live = _find(cluster, resource_path, name, namespace)
        if live is not None and not scale.has_ended(live):
            message = "the new values have no such object, so its pods would be deleted"
            obstacles.append(Obstacle(kind, name, resource_path, (), message))
    return obstacles


def recreate(
    cluster: KubeClient,
    release: str,
    namespace: str,
    obstacles: Sequence[Obstacle],
    *,
    timeout: float,
    tell: Callable[[str], None],
) -> None:
    """Delete the obstacles and all workload objects with them; wait until they are gone.

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
        (obstacle.resource_path, obstacle.name): obstacle.kind
        for obstacle in obstacles
        if obstacle.kind not in WORKLOADS
    }
    for resource_path, kind in ((paths.JOBS, "Job"), (paths.STATEFUL_SETS, "StatefulSet")):
        for item in cluster.list(resource_path, namespace=namespace, label_selector=selector):
            doomed[resource_path, str(item["metadata"]["name"])] = kind
    for item in cleanup.elastic_jobs(cluster, release, namespace):
        doomed[paths.ELASTIC_JOBS, str(item["metadata"]["name"])] = names.ELASTIC_JOB
    for (resource_path, name), kind in doomed.items():
        tell(f"{kind}/{name}")
        cluster.delete(
            resource_path, name, namespace=paths.scope(resource_path, namespace), foreground=True
        )
    deadline = time.monotonic() + timeout
    for resource_path, name in doomed:
        look = partial(_find, cluster, resource_path, name, namespace)
        seconds = deadline - time.monotonic()
        if retry.poll(look, seconds, _LOOK_SECONDS, until=lambda item: item is None):
            raise _still_there(timeout, f"{paths.plural(resource_path)} {name}")
    wait_for_no_pods(cluster, release, namespace, timeout=max(0.0, deadline - time.monotonic()))


def wait_for_no_pods(cluster: KubeClient, release: str, namespace: str, *, timeout: float) -> None:
    """Wait until no pod of a release is left.

    Raises:
        RunError: pods are still there after the time; they are named.
        ToolError: the cluster does not answer, or forbids to list pods.
    """
    selector = paths.selector(release)

    def pods() -> list[Manifest]:
        return cluster.list(
            paths.PODS, namespace=namespace, label_selector=selector, metadata_only=True
        )

    if remaining := retry.poll(pods, timeout, _LOOK_SECONDS, until=lambda pods: not pods):
        pod_names = list_some([pod["metadata"]["name"] for pod in remaining], 1)
        raise _still_there(timeout, f"pod {pod_names}")


def _still_there(timeout: float, thing: str) -> RunError:
    return RunError(
        f"still there after {timeout:.0f} s: {thing}",
        hint="its node may be gone: `kubectl get pods` shows where it is; give more time with "
        "--timeout, or delete the pod with `kubectl delete pod --force` if its node is lost",
    )


def _find(cluster: KubeClient, resource_path: str, name: str, namespace: str) -> Manifest | None:
    try:
        return cluster.get(resource_path, name, namespace=paths.scope(resource_path, namespace))
    except NotFoundError:
        return None


def _server_refusal(
    cluster: KubeClient, namespace: str, resource_path: str, manifest: Manifest
) -> str:
    """The server's refusal of a change; "" where it would accept it."""
    try:
        cluster.patch(
            resource_path,
            str(manifest["metadata"]["name"]),
            manifest,
            namespace=paths.scope(resource_path, namespace),
            kind="apply",
            manager=HELM,
            dry_run=True,
        )
    except RejectedError as error:
        causes = "; ".join(f"{field}: {message.splitlines()[0]}" for field, message in error.causes)
        return causes or error.problem.message
    return ""


def _keeps(live: Manifest) -> str:
    """The reason that an elastic job's fields must not change; "" where they may."""
    if live.get("kind") != names.ELASTIC_JOB or scale.has_ended(live):
        return ""
    return "" if (live.get("status") or {}).get("phase") == _SUSPENDED else _KEEPS


def _changes_count(live: Manifest) -> bool:
    """Whether the comparison decides where the server would accept a change."""
    return live.get("kind") != names.ELASTIC_JOB and not _is_server_applied(live)


def _is_server_applied(live: Manifest) -> bool:
    entries = live["metadata"].get("managedFields") or ()
    return any(
        entry.get("manager") == HELM and entry.get("operation") == "Apply" for entry in entries
    )


def _key(manifest: Manifest) -> tuple[str, str]:
    return str(manifest.get("kind")), str(manifest["metadata"]["name"])


_Path = tuple[str, ...]
_ABSENT: Any = object()
_SHOWN = 60
# What stays as it was created, by kind. Below a field all of it stays.
_FIXED: dict[str, tuple[_Path, ...]] = {
    "Job": tuple(
        ("spec", field)
        for field in (
            "completions",
            "completionMode",
            "selector",
            "template",
            "podFailurePolicy",
            "successPolicy",
            "backoffLimitPerIndex",
            "managedBy",
        )
    ),
    "StatefulSet": tuple(
        ("spec", field)
        for field in ("serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates")
    ),
    "PersistentVolumeClaim": tuple(
        ("spec", field)
        for field in (
            "accessModes",
            "storageClassName",
            "volumeMode",
            "volumeName",
            "selector",
            "dataSource",
            "dataSourceRef",
        )
    ),
    "PersistentVolume": (("spec", "csi"),),
    "StorageClass": (("parameters",), ("provisioner",), ("reclaimPolicy",)),
    "Service": (("spec", "clusterIP"),),
    "Secret": (("type",),),
    "RoleBinding": (("roleRef",),),
}
# No retry at all is not the same as no limit of this kind: the server tells 0 from nothing.
_RETRIES: _Path = ("spec", "backoffLimitPerIndex")
_CLAIM_SIZE: _Path = ("spec", "resources", "requests", "storage")
# An object that says so of itself keeps its content.
_CONTENT: tuple[_Path, ...] = (("data",), ("binaryData",))
# What the entries of a list are known by, where it is not `name`.
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort"}
_QUANTITIES = frozenset({"requests", "limits", "sizeLimit", "storage"})


@dataclass(frozen=True, slots=True)
class Change:
    """A field that would change.

    Attributes:
        path: where: ``spec.template.spec.containers[trainer].image``.
        old: the value on the cluster, as a person reads it; "" where it is not set.
        new: the rendered value; "" where it is no longer set.
    """

    path: str
    old: str
    new: str

    def __str__(self) -> str:
        """The change as a clause."""
        return f"{self.old or 'not set'} -> {self.new or 'not set'}"


def immutable_changes(
    new: Manifest, live: Manifest, applied: Manifest | None = None
) -> tuple[Change, ...]:
    """The immutable fields that the new object would change.

    Args:
        new: the object as rendered.
        live: the object on the cluster.
        applied: the object as helm applied it last; None where that is not known.
    """
    kind = str(new.get("kind"))
    changes: list[Change] = []
    for path in _fixed_paths(kind, live):
        before = _value_at(applied, path) if applied is not None else _ABSENT
        changes += _compare(
            path,
            _value_at(new, path),
            _value_at(live, path),
            before,
            is_complete=applied is not None,
        )
    if kind == "Job" and _elastic(new, live):
        changes = [change for change in changes if change.path != "spec.completions"]
    if kind == "PersistentVolumeClaim":
        changes += _shrinking(new, live)
    return tuple(changes)


def _fixed_paths(kind: str, live: Manifest) -> tuple[_Path, ...]:
    if kind == names.ELASTIC_JOB:
        roles = _value_at(live, ("spec", "replicaSpecs"))
        types = roles if isinstance(roles, dict) else ()
        return tuple(("spec", "replicaSpecs", role, "template") for role in types)
    fixed = _FIXED.get(kind, ())
    return (*fixed, *_CONTENT) if live.get("immutable") is True else fixed


def _elastic(new: Manifest, live: Manifest) -> bool:
    """Whether a Job changes its size as an Indexed Job may: completions with parallelism."""

    def sizes(job: Manifest) -> tuple[Any, Any]:
        return _value_at(job, ("spec", "completions")), _value_at(job, ("spec", "parallelism"))

    indexed = _value_at(live, ("spec", "completionMode")) == "Indexed"
    return indexed and all(size == other_size for size, other_size in (sizes(new), sizes(live)))


def _shrinking(new: Manifest, live: Manifest) -> Iterator[Change]:
    requested, there = _value_at(new, _CLAIM_SIZE), _value_at(live, _CLAIM_SIZE)
    if requested is _ABSENT or there is _ABSENT:
        return
    if quantity.parse(str(requested)) < quantity.parse(str(there)):
        yield Change(".".join(_CLAIM_SIZE), _short(there), _short(requested))


# --- comparing ------------------------------------------------------------------------------------


def _compare(
    path: _Path, new: Any, live: Any, applied: Any, *, is_complete: bool
) -> Iterator[Change]:
    """The fields that differ, leaf by leaf.

    What only the cluster has was set by the server or by something else there, and stays; it was
    ours, and goes, where we applied it last.
    """
    if new is _ABSENT:
        if live is not _ABSENT and applied is not _ABSENT:
            yield Change(_dotted_path(path), _short(live), "")
        return
    if isinstance(new, dict) and isinstance(live, dict):
        before = applied if isinstance(applied, dict) else {}
        for key in dict.fromkeys((*new, *(key for key in before if key in live))):
            step = (*path, key)
            yield from _compare(
                step,
                new.get(key, _ABSENT),
                live.get(key, _ABSENT),
                before.get(key, _ABSENT),
                is_complete=is_complete,
            )
        return
    if isinstance(new, list) and isinstance(live, list):
        yield from _compare_lists(path, new, live, applied, is_complete=is_complete)
        return
    if _empty(new) and live is _ABSENT and path != _RETRIES:
        return
    if not _same(path, new, live):
        yield Change(_dotted_path(path), "" if live is _ABSENT else _short(live), _short(new))


def _compare_lists(
    path: _Path, new: list[Any], live: list[Any], applied: Any, *, is_complete: bool
) -> Iterator[Change]:
    key = _KEYS.get(path[-1], "name")
    if not all(isinstance(item, dict) and key in item for item in (*new, *live)):
        if not _same(path, new, live):
            yield Change(_dotted_path(path), _short(live), _short(new))
        return
    desired = {str(item[key]): item for item in new}
    there = {str(item[key]): item for item in live}
    before = {
        str(item[key]): item
        for item in (applied if isinstance(applied, list) else ())
        if isinstance(item, dict) and key in item
    }
    # Where it is not known what we applied, an entry that is not rendered any more was ours.
    ours = (
        before
        if is_complete
        else {name: item for name, item in there.items() if name not in desired}
    )
    for name in dict.fromkeys((*desired, *(name for name in ours if name in there))):
        step = (*path[:-1], f"{path[-1]}[{name}]")
        yield from _compare(
            step,
            desired.get(name, _ABSENT),
            there.get(name, _ABSENT),
            ours.get(name, _ABSENT),
            is_complete=is_complete,
        )


def _same(path: _Path, new: Any, live: Any) -> bool:
    if new == live:
        return True
    if isinstance(new, list) and isinstance(live, list) and len(new) == len(live):
        return all(_same(path, first, second) for first, second in zip(new, live, strict=True))
    if isinstance(new, dict) and isinstance(live, dict):
        return all(_same((*path, key), new[key], live.get(key, _ABSENT)) for key in new)
    if _QUANTITIES.isdisjoint(path) or live is _ABSENT:
        return False
    try:
        return quantity.parse(str(new)) == quantity.parse(str(live))
    except InputError:
        return False


def _empty(value: Any) -> bool:
    """Whether the server leaves out such a value."""
    return value is None or value is False or value in ("", 0, [], {})


def _value_at(value: Any, path: _Path) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _dotted_path(path: _Path) -> str:
    return ".".join(path)


def _short(value: Any) -> str:
    """A value for a person, on one line and shortened."""
    if isinstance(value, dict) and {"name"} <= value.keys() <= {"name", "value"}:
        value = value.get("value", "")  # a variable; its name stands in the path
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
