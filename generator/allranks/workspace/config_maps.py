"""Send a snapshot to a namespace of a cluster, and remove it when no run uses it any more.

A snapshot lies in ConfigMaps of its own (parts), outside of the Helm release. Nothing holds state
but the cluster: the parts are known by their labels, and who uses them by the annotation that each
run's controllers have. So whoever sends may be killed at any moment.

The order is: the parts, then the release, then its controllers become owners of the parts. Before
that the parts have no owner, and nothing starts; after it Kubernetes' own garbage collector removes
them with their last owner. In between somebody else may remove a part: it is made again, and the
pods that wait for it go on.

Whoever looks at a part makes all living controllers owners that have its snapshot's annotation, not
only those of their own release: one whose sender was killed, or whose parts somebody deleted, has
no other way to become an owner, and the part would go under it with the last of the others.

An owner is added by a strategic merge, which knows the entries of `ownerReferences` by their uid:
two runs that add themselves at the same moment do not overwrite each other.

It is longer than most: each step is right only beside the others.
"""

from __future__ import annotations

import functools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names, retry
from allranks.cluster import paths, permissions
from allranks.cluster.errors import namespace_missing
from allranks.errors import (
    AllranksError,
    ApiError,
    BusyError,
    ConflictError,
    ExistsError,
    ForbiddenError,
    InputError,
    NotFoundError,
    QuotaError,
    RejectedError,
    RunError,
    TerminatingError,
)
from allranks.humanize import list_some
from allranks.k8s.fields import when

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allranks.cluster.interface import KubeClient, Manifests
    from allranks.k8s.manifest import Manifest

# So long one part may take, whatever the API server does meanwhile.
PATIENCE = 60.0
# Parts without an owner are somebody's who is about to install a release, for so long.
UNOWNED_SECONDS = 3600.0

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_TOO_LARGE = 413
_ETCD_FULL = "database space exceeded"
# The controllers that own snapshots, by kind.
_PATHS = {
    "Job": paths.JOBS,
    "StatefulSet": paths.STATEFUL_SETS,
    names.ELASTIC_JOB: paths.ELASTIC_JOBS,
}
_SHOWN = 4
_LABEL_DIGITS = 12
# What sending needs; the charts' own ConfigMap needs the same.
NEEDS = tuple(permissions.Need(verb, paths.CONFIG_MAPS) for verb in ("get", "create", "patch"))


@dataclass(frozen=True, slots=True)
class Sent:
    """The ConfigMaps of a snapshot in a namespace, and whether they were new there.

    Attributes:
        names: its ConfigMaps, in the order of the archive's parts.
        created: those that were not there before.
    """

    names: tuple[str, ...]
    created: tuple[str, ...] = ()


def send(
    cluster: KubeClient, parts: Sequence[Manifest], namespace: str, *, seconds: float = PATIENCE
) -> Sent:
    """Send the parts of a snapshot that are not there.

    Args:
        cluster: where to.
        parts: its ConfigMaps.
        namespace: their namespace.
        seconds: how long each may take.

    Raises:
        InputError: an object of that name is not ours, or the namespace is not there.
        AllranksError: the cluster does not answer, forbids it, or has no room for it.
    """
    created = []
    for part in parts:
        try:
            if _ensure(cluster, part, namespace, seconds):
                created.append(_name(part))
        except AllranksError as error:
            withdraw(cluster, Sent((), tuple(created)), namespace)
            if isinstance(error, ApiError):
                raise _in_words(cluster, error, part, namespace) from error
            raise
    return Sent(tuple(map(_name, parts)), tuple(created))


def own(
    cluster: KubeClient,
    parts: Iterable[Manifest],
    namespace: str,
    controllers: Iterable[Manifest],
    *,
    seconds: float = PATIENCE,
) -> tuple[str, ...]:
    """Add controllers to the owners of each part; a part that is gone meanwhile is made again.

    All others of the namespace that run the snapshot become owners by the same request.

    Args:
        cluster: where they are.
        parts: the ConfigMaps of the snapshot.
        namespace: their namespace.
        controllers: what runs it: Jobs, StatefulSets, ElasticJobs, as the server stores them.
        seconds: how long each part may take.

    Returns:
        The names of the parts that were made again.

    Raises:
        AllranksError: the cluster does not answer, or forbids it.
    """
    owners = {manifest["metadata"]["uid"]: owner(manifest) for manifest in controllers}
    if not owners:
        return ()
    parts = list(parts)
    digests = {_digest(part["metadata"]) for part in parts}
    use = _use(cluster, namespace)
    others = [item for digest in digests for item in use.by_digest.get(digest, ())]
    owners = {item["metadata"]["uid"]: owner(item) for item in others} | owners
    again = []
    for part in parts:
        deadline = time.monotonic() + seconds
        try:
            while not _add_owners(cluster, _name(part), namespace, [*owners.values()], deadline):
                seconds_left = deadline - time.monotonic()
                if _ensure(cluster, part, namespace, seconds_left, [*owners.values()]):
                    again.append(_name(part))
                    break
        except ApiError as error:
            raise _in_words(cluster, error, part, namespace) from error
    return tuple(again)


def withdraw(cluster: KubeClient, sent: Sent, namespace: str) -> None:
    """Remove what was sent for a release that does not come; what another run uses stays."""
    parts = []
    for name in sent.created:
        with suppress(ApiError):
            metadata = _metadata(cluster, name, namespace)
            if not metadata.get("ownerReferences"):
                parts.append(metadata)
    use = _use(cluster, namespace) if parts else _Use(frozenset(), {})
    for metadata in parts:
        with suppress(ApiError):
            _judge(cluster, namespace, metadata, use)


def controllers(
    cluster: KubeClient, manifests: Iterable[Manifest], namespace: str
) -> tuple[Manifest, ...]:
    """The controllers among the manifests of a release, as the cluster has them.

    Args:
        cluster: where they are.
        manifests: what was installed.
        namespace: its namespace.

    Raises:
        AllranksError: the cluster does not answer, or forbids it.
    """
    objects = []
    for manifest in manifests:
        path = _PATHS.get(str(manifest.get("kind")))
        if path is None:
            continue
        get = functools.partial(
            cluster.get, path, _name(manifest), namespace=namespace, metadata_only=True
        )
        with suppress(NotFoundError):  # it has ended and was removed, or somebody deleted it
            item = _patiently(get, time.monotonic() + PATIENCE)
            kind = {key: manifest[key] for key in ("apiVersion", "kind")}
            objects.append({**item, **kind})
    return tuple(objects)


def of_release(cluster: KubeClient, release: str, namespace: str) -> tuple[Manifest, ...]:
    """The controllers of a release, found by their labels.

    Args:
        cluster: where they are.
        release: the release's name.
        namespace: its namespace.

    Raises:
        AllranksError: the cluster does not answer, or forbids it.
    """
    objects: list[Manifest] = []
    for kind, path in _PATHS.items():
        ask = functools.partial(
            cluster.list,
            path,
            namespace=namespace,
            label_selector=paths.selector(release),
            metadata_only=True,
        )
        with suppress(NotFoundError, ForbiddenError):  # no elastic jobs, or none of this user's
            items = _patiently(ask, time.monotonic() + PATIENCE)
            head = {"kind": kind, "apiVersion": _version(path)}
            objects += [{**item, **head} for item in items]
    return tuple(objects)


@dataclass(frozen=True, slots=True)
class _Use:
    """The users of snapshots in a namespace.

    Attributes:
        alive: the uids of all controllers that are there and not being deleted.
        by_digest: the controllers that run a snapshot, by its digest.
        is_whole: no kind of controllers was hidden from this user.
    """

    alive: frozenset[str]
    by_digest: dict[str, list[Manifest]]
    is_whole: bool = True


def collect(
    cluster: KubeClient,
    namespace: str,
    *,
    digest: str = "",
    owned: Iterable[str] = (),
    now: float | None = None,
) -> tuple[str, ...]:
    """Remove the parts of snapshots that no run of the namespace uses.

    A part whose owners are all gone goes; so does one without an owner that is older than an hour.
    A run whose owner's mark is missing, because its sender was killed, gets it now.

    Args:
        cluster: where they are.
        namespace: which namespace.
        digest: of the snapshot of a run that has just been deleted: its parts need no age.
        owned: the names of the parts that `own` has just seen to: they need not be looked at.
        now: seconds since the epoch; None is the clock's.

    Returns:
        The names of those that were removed; () where the user may not look.
    """
    try:
        parts = cluster.list(
            paths.CONFIG_MAPS,
            namespace=namespace,
            label_selector=names.WORKSPACE,
            metadata_only=True,
        )
        moment = time.time() if now is None else now
        settled = frozenset(owned)
        there = [
            part["metadata"]
            for part in parts
            if not part["metadata"].get("deletionTimestamp")
            and part["metadata"]["name"] not in settled
        ]
        if not there:
            return ()
        use = _use(cluster, namespace)
        deleted_names = []
        for metadata in there:
            may_go = use.is_whole and _is_doubtful(metadata, digest, moment)
            if _judge(cluster, namespace, metadata, use, may_go=may_go):
                deleted_names.append(str(metadata["name"]))
        return tuple(deleted_names)
    except ApiError:
        return ()  # the garbage collector does the same, and so does the next who looks


def missing(
    cluster: KubeClient, namespace: str, digest: str, parts: Iterable[str]
) -> tuple[str, ...]:
    """The ConfigMaps of a run's code that are not there; () where the user may not look.

    Args:
        cluster: where they are.
        namespace: their namespace.
        digest: of the snapshot.
        parts: the names of those that the run's pods mount.
    """
    try:
        items = cluster.list(
            paths.CONFIG_MAPS,
            namespace=namespace,
            label_selector=f"{names.WORKSPACE}={label(digest)}",
            metadata_only=True,
        )
    except ApiError:
        return ()
    there = set(map(_name, items))
    return tuple(part for part in parts if part not in there)


def find(cluster: KubeClient, namespace: str, digest: str) -> Manifests:
    """The parts of a snapshot with their data, as they were sent.

    Args:
        cluster: where they are.
        namespace: their namespace.
        digest: of the snapshot.

    Raises:
        NotFoundError: there are none.
        AllranksError: the cluster does not answer, or forbids it.
    """
    parts = cluster.list(
        paths.CONFIG_MAPS,
        namespace=namespace,
        label_selector=f"{names.WORKSPACE}={label(digest)}",
    )
    ours = [part for part in parts if _digest(part["metadata"]) in {"", digest}]
    # The same snapshot, packed by another zlib, lies beside it: any of them will do.
    packed: dict[str, Manifests] = {_archive(part): [] for part in ours}
    for part in ours:
        packed[_archive(part)].append(part)
    ours = packed[min(packed)] if packed else []
    if not ours:
        raise NotFoundError(
            f"the snapshot {label(digest)} is no longer in namespace {namespace}",
            hint="it went with the last run that used it; the digest and the commit are still "
            "recorded",
        )
    return sorted(map(_as_sent, ours), key=_name)


def _as_sent(part: Manifest) -> Manifest:
    """A part without what the server has added."""
    keys = ("name", "namespace", "labels", "annotations")
    metadata = {key: part["metadata"][key] for key in keys if key in part["metadata"]}
    return {**part, "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def _archive(part: Manifest) -> str:
    """The digest of the archive that a part is of."""
    return str((part["metadata"].get("annotations") or {}).get(names.WORKSPACE_ARCHIVE) or "")


def label(digest: str) -> str:
    """The value of the label of a snapshot's parts: the first digits of its digest."""
    return digest.removeprefix("sha256:")[:_LABEL_DIGITS]


# --- one part -------------------------------------------------------------------------------------


def _ensure(
    cluster: KubeClient,
    part: Manifest,
    namespace: str,
    seconds: float,
    owners: Sequence[Manifest] = (),
) -> bool:
    """Make a part where it is not there; return whether it was made.

    Raises:
        InputError: an object of its name is not ours.
        ApiError: the cluster refuses, or does not answer in time.
    """
    deadline = time.monotonic() + seconds
    name = _name(part)
    body = part
    if owners:
        body = {**part, "metadata": {**part["metadata"], "ownerReferences": list(owners)}}
    failures = 0
    while True:
        try:
            metadata = _patiently(lambda: _metadata(cluster, name, namespace), deadline)
        except NotFoundError:
            with suppress(ExistsError):  # somebody sends the same, or the answer got lost
                _patiently(
                    lambda: cluster.create(paths.CONFIG_MAPS, body, namespace=namespace), deadline
                )
                return True
            continue
        if not metadata.get("deletionTimestamp"):
            _check_ours(part, metadata, namespace)
            return False
        failures = _pause(failures, deadline, BusyError(_still_there(name, namespace)))


def _add_owners(
    cluster: KubeClient,
    name: str,
    namespace: str,
    owners: Sequence[Manifest],
    deadline: float,
) -> bool:
    """Add owners to a part; False where it is not there, or is about to go."""
    body = {"metadata": {"ownerReferences": list(owners)}}
    try:
        item = _patiently(
            lambda: cluster.patch(
                paths.CONFIG_MAPS, name, body, namespace=namespace, kind="strategic"
            ),
            deadline,
        )
    except NotFoundError:
        return False
    return not item["metadata"].get("deletionTimestamp")


def _check_ours(part: Manifest, metadata: Manifest, namespace: str) -> None:
    """Refuse an object that has the name of a part and is none, or is another snapshot's."""
    label = (metadata.get("labels") or {}).get(names.WORKSPACE)
    is_ours = label == (part["metadata"].get("labels") or {}).get(names.WORKSPACE)
    if is_ours and _digest(metadata) == _digest(part["metadata"]):
        return
    obstacle = "holds another snapshot" if is_ours else f"was not made by {names.CLI}"
    raise InputError(
        f"ConfigMap {_name(part)} in namespace {namespace} {obstacle}",
        hint=f"look at it, and remove it: kubectl delete configmap {_name(part)} -n {namespace}",
    )


def _patiently(call: Callable[[], Any], deadline: float) -> Any:
    """Make a request again while the API server gives no verdict, until a deadline."""
    failures = 0
    while True:
        try:
            return call()
        except ExistsError:
            raise
        except (BusyError, ConflictError) as error:
            if _ETCD_FULL in error.detail:
                raise  # a person has to make room first
            failures = _pause(failures, deadline, error)


def _pause(failures: int, deadline: float, error: ApiError) -> int:
    """Wait until the next try; raise the error where there is no time for another."""
    retry_after = getattr(error, "retry_after", 0.0)
    seconds = retry.pause(failures + 1, _FIRST_PAUSE, _LONGEST_PAUSE, retry_after)
    if time.monotonic() + seconds >= deadline:
        raise error
    time.sleep(seconds)
    return failures + 1


def _metadata(cluster: KubeClient, name: str, namespace: str) -> Manifest:
    item = cluster.get(paths.CONFIG_MAPS, name, namespace=namespace, metadata_only=True)
    metadata: Manifest = item["metadata"]
    return metadata


def _delete(cluster: KubeClient, metadata: Manifest, namespace: str) -> bool:
    """Delete a part unless somebody has changed it since it was read."""
    try:
        return cluster.delete(
            paths.CONFIG_MAPS,
            str(metadata["name"]),
            namespace=namespace,
            version=str(metadata.get("resourceVersion") or ""),
        )
    except ConflictError:
        return False


# --- who uses it ----------------------------------------------------------------------------------


def _is_doubtful(metadata: Manifest, digest: str, now: float) -> bool:
    """Whether a part may be nobody's; one with an owner is looked at with a deleted run only."""
    if digest and _digest(metadata) == digest:
        return True
    if metadata.get("ownerReferences"):
        return bool(digest)
    created = when(metadata, "creationTimestamp")
    return created is not None and now - created > UNOWNED_SECONDS


def _judge(
    cluster: KubeClient, namespace: str, metadata: Manifest, use: _Use, *, may_go: bool = True
) -> bool:
    """See to it that all who use a part are its owners; remove one that nobody does, if it may."""
    owners = metadata.get("ownerReferences") or ()
    alive = [
        owner for owner in owners if owner.get("kind") not in _PATHS or owner["uid"] in use.alive
    ]
    users = [owner(item) for item in use.by_digest.get(_digest(metadata), ())]
    listed = {owner["uid"] for owner in owners}
    missing = [user for user in users if user["uid"] not in listed]
    if missing:
        _add_owners(cluster, str(metadata["name"]), namespace, missing, time.monotonic() + PATIENCE)
    if users or alive or not may_go:
        return False
    return _delete(cluster, metadata, namespace)


def _use(cluster: KubeClient, namespace: str) -> _Use:
    """Look at all controllers of a namespace; a kind that cannot be looked at has none."""
    is_whole = True
    alive: set[str] = set()
    by_digest: dict[str, list[Manifest]] = {}
    for kind, path in _PATHS.items():
        try:
            items = cluster.list(path, namespace=namespace, metadata_only=True)
        except NotFoundError:
            continue  # the cluster has no elastic jobs
        except ApiError:
            is_whole = False
            continue
        for item in items:
            metadata = item["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            alive.add(str(metadata["uid"]))
            if digest := (metadata.get("annotations") or {}).get(names.WORKSPACE_DIGEST):
                controller = {"apiVersion": _version(path), "kind": kind, "metadata": metadata}
                by_digest.setdefault(str(digest), []).append(controller)
    return _Use(frozenset(alive), by_digest, is_whole)


def _version(path: str) -> str:
    return "/".join(path.split("/")[1:3])


def owner(manifest: Manifest) -> Manifest:
    """The entry of `ownerReferences` for a controller."""
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "name": manifest["metadata"]["name"],
        "uid": manifest["metadata"]["uid"],
        "blockOwnerDeletion": False,
    }


def _digest(metadata: Manifest) -> str:
    return str((metadata.get("annotations") or {}).get(names.WORKSPACE_DIGEST) or "")


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])


# --- words ----------------------------------------------------------------------------------------


def _still_there(name: str, namespace: str) -> str:
    return f"ConfigMap {name} in namespace {namespace} is being deleted, and does not go"


def _in_words(
    cluster: KubeClient, error: ApiError, part: Manifest, namespace: str
) -> AllranksError:
    """Explain why a part could not be sent; the error itself where it says all."""
    detail = f"{error.detail} {error}"
    if isinstance(error, TerminatingError):
        return error
    if isinstance(error, ForbiddenError):
        return ForbiddenError(
            f"the snapshot cannot be sent: {error.problem.message}",
            hint="ask for a Role with get, list, create, patch and delete on configmaps in "
            f"namespace {namespace}; docs/guides/cluster.md has a whole one",
            status=error.status,
        )
    if isinstance(error, QuotaError):
        return _over_quota(cluster, error, namespace)
    if isinstance(error, NotFoundError) and "namespace" in error.problem.message:
        return namespace_missing(namespace)
    return _no_room(cluster, error, part, detail) or error


def _over_quota(cluster: KubeClient, error: QuotaError, namespace: str) -> RunError:
    holders = _holders(cluster, namespace)
    return RunError(
        f"the snapshot does not fit the quota of namespace {namespace}: {error.detail}"
        + (f"; snapshots there: {holders}" if holders else ""),
        # Without NAME, which would be completed to that of the run that was refused.
        hint=f"end another run that is no longer needed (`{names.CLI} list` shows them), or have "
        "the quota on configmaps raised",
    )


def _no_room(cluster: KubeClient, error: ApiError, part: Manifest, detail: str) -> RunError | None:
    """The error for a cluster that cannot store a part; None where it is another error."""
    if _ETCD_FULL in detail:
        return RunError(
            f"the snapshot cannot be stored: the etcd of {cluster.where} is full",
            hint="whoever runs the cluster has to make room in etcd; nothing was started",
        )
    if _is_too_large(error, detail):
        return RunError(
            f"{cluster.where} does not take ConfigMap {_name(part)}: it is too large for this "
            f"cluster: {error.detail or error.problem.message}",
            hint="leave files out with .allranksignore (`--dry-run` names the largest), or send "
            "it another way with workspace.via",
        )
    return None


def _is_too_large(error: ApiError, detail: str) -> bool:
    words = ("request is too large", "request entity too large", "Too long")
    too_long = isinstance(error, RejectedError) and "must have at most" in detail
    return error.status == _TOO_LARGE or too_long or any(word in detail for word in words)


def _holders(cluster: KubeClient, namespace: str) -> str:
    """The snapshots of a namespace with the runs that hold them, for a message."""
    with suppress(ApiError):
        parts = cluster.list(
            paths.CONFIG_MAPS,
            namespace=namespace,
            label_selector=names.WORKSPACE,
            metadata_only=True,
        )
        lines = []
        for metadata in (part["metadata"] for part in parts):
            owners = [str(owner["name"]) for owner in metadata.get("ownerReferences") or ()]
            who = f" ({list_some(owners, _SHOWN)})" if owners else " (no run)"
            lines.append(f"{metadata['name']}{who}")
        return list_some(lines, _SHOWN)
    return ""
