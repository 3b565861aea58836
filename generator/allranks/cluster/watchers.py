"""The watcher on a cluster: whether it runs, who of several acts, and what holds it back."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError, RunError
from allranks.status.fields import condition, items, mapping, number, text, when
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

_LOOK_SECONDS = 0.5
# What every start waits for, for a moment, is told to nobody.
_QUIET_LOOKS = 6
_HELD_SECONDS = 15.0
# A leader renews its Lease every two seconds.
PATIENCE = 6.0
_SPACES, _CLUSTER = "ALLRANKS_WATCH_NAMESPACES", "ALLRANKS_WATCH_CLUSTER"


@dataclass(frozen=True, slots=True)
class Watchers:
    """The watchers of a release.

    Attributes:
        wanted: how many pods there are to be.
        ready: how many are ready, of the version that is wanted.
        image: their image.
        namespaces: what they watch; () is the whole cluster.
        leader: who acts; "" where nobody says it.
        renewed_at: when the leader last said so, in seconds since the epoch; None likewise.
        held_for: the seconds after which it must have said so again.
        seen: whether it may be seen who acts.
        lacks: the rights that who acts should have and has not; "" where it says none.
    """

    wanted: int
    ready: int
    image: str
    namespaces: tuple[str, ...]
    leader: str = ""
    renewed_at: float | None = None
    held_for: float = _HELD_SECONDS
    seen: bool = True
    lacks: str = ""

    @property
    def whole(self) -> bool:
        """Whether all of them are ready."""
        return self.ready == self.wanted


@dataclass(frozen=True, slots=True)
class Other:
    """Another release of the watcher on the same cluster.

    Attributes:
        release: the release.
        namespace: where it is.
        namespaces: what it watches; () is the whole cluster.
    """

    release: str
    namespace: str
    namespaces: tuple[str, ...]

    def __str__(self) -> str:
        """The release, for a message."""
        return f"release {self.release!r} in namespace {self.namespace}"


def name(release: str) -> str:
    """The Deployment, Lease and Service of a release of the operator chart."""
    return f"{release}-watcher"


def find(cluster: Cluster, release: str, namespace: str) -> Watchers | None:
    """The watchers of a release; None where it has no Deployment.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    try:
        deployment = cluster.get(paths.DEPLOYMENTS, name(release), namespace=namespace)
    except NotFoundError:
        return None
    lease = _lease(cluster, release, namespace)
    held = number(lease or {}, "spec", "leaseDurationSeconds")
    spec, status = mapping(deployment, "spec"), mapping(deployment, "status")
    container = (items(spec, "template", "spec", "containers") or ({},))[0]
    current = number(status, "observedGeneration") == number(deployment, "metadata", "generation")
    ready = min(number(status, "updatedReplicas") or 0, number(status, "availableReplicas") or 0)
    return Watchers(
        wanted=_wanted(spec),
        ready=ready if current else 0,
        image=text(container, "image"),
        namespaces=_watches(_told(spec)),
        leader=text(lease or {}, "spec", "holderIdentity"),
        renewed_at=_renewed_at(lease),
        held_for=_HELD_SECONDS if held is None else float(held),
        seen=lease is not None,
        lacks=text(lease or {}, "metadata", "annotations", names.LACKS),
    )


def others(cluster: Cluster, release: str, namespace: str) -> tuple[Other, ...]:
    """The other watchers of a cluster, or of the namespace where one may not see more.

    Raises:
        ToolError: the cluster does not answer.
    """
    selector = f"{names.APP_NAME}={names.OPERATOR},{names.APP_COMPONENT}=watcher"
    found: Iterable[Manifest] = ()
    for where in (None, namespace):
        try:
            found = cluster.list(paths.DEPLOYMENTS, namespace=where, label_selector=selector)
        except ForbiddenError:
            continue
        break
    seen = []
    for one in found:
        told = _told(mapping(one, "spec"))
        if _SPACES not in told:
            continue  # another project's operator
        watches = _watches(told)
        labels = mapping(one, "metadata", "labels")
        other = Other(text(labels, names.APP_INSTANCE), text(one, "metadata", "namespace"), watches)
        if (other.release, other.namespace) != (release, namespace):
            seen.append(other)
    return tuple(sorted(seen, key=str))


def account_holder(cluster: Cluster, namespace: str) -> tuple[str, str] | None:
    """The release, and its namespace, that made the account of masters in a namespace.

    Both are "" where no release of helm's made it; None is of no account, or of one that may not
    be seen.

    Raises:
        ToolError: the cluster does not answer.
    """
    try:
        account = cluster.get(paths.SERVICE_ACCOUNTS, names.MASTER_ACCOUNT, namespace=namespace)
    except (ForbiddenError, NotFoundError):
        return None
    return holder(account)


def holder(found: Manifest) -> tuple[str, str]:
    """The helm release that holds an object, and its namespace; "" where none does."""
    notes = mapping(found, "metadata", "annotations")
    return text(notes, names.HELM_RELEASE), text(notes, names.HELM_NAMESPACE)


def acts(
    cluster: Cluster, release: str, namespace: str, found: Watchers, *, now: float, patience: float
) -> bool | None:
    """Whether one of the watchers acts; None where that may not be seen.

    Args:
        cluster: the cluster.
        release: the release.
        namespace: its namespace.
        found: what was found before.
        now: seconds since the epoch, by a clock that may differ from the cluster's.
        patience: seconds for which to see whether a Lease that looks old, or that nobody holds yet,
            is renewed after all.

    Raises:
        ToolError: the cluster does not answer.
    """
    if not found.seen:
        return None
    age = -1.0 if found.renewed_at is None else now - found.renewed_at
    if found.leader and 0 <= age <= found.held_for:
        return True
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        lease = _lease(cluster, release, namespace) or {}
        renewed = _renewed_at(lease) not in (None, found.renewed_at)
        if renewed and text(lease, "spec", "holderIdentity"):
            return True
        time.sleep(_LOOK_SECONDS)
    return False


def wait(
    cluster: Cluster,
    release: str,
    namespace: str,
    *,
    timeout: float,
    tell: Callable[[str], None] = lambda _: None,
) -> Watchers:
    """The watchers once all of them are ready.

    Args:
        cluster: the cluster.
        release: the release.
        namespace: its namespace.
        timeout: seconds to wait.
        tell: hears once of each thing that holds them back.

    Raises:
        RunError: they are not ready in time; what holds them back is named.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    deadline = time.monotonic() + timeout
    reasons = {""}
    looks = 0
    while True:
        found = find(cluster, release, namespace)
        if found is not None and found.whole:
            return found
        looks += 1
        is_late = time.monotonic() >= deadline
        if looks <= _QUIET_LOOKS and not is_late:
            time.sleep(_LOOK_SECONDS)
            continue
        ready, wanted = (found.ready, found.wanted) if found else (0, 0)
        standing = f"{ready} of {plural(wanted, 'watcher')} ready"
        why = holds_back(cluster, release, namespace)
        if is_late:
            raise RunError(
                f"{standing} after {timeout:.0f} s{': ' if why else ''}{why}",
                hint=f"`kubectl -n {namespace} describe pods -l {_selector(release)}` says more; "
                f"`{names.CLI} operator upgrade` with other values mends it",
            )
        if why not in reasons:
            reasons.add(why)
            tell(f"{standing}: {why}")
        time.sleep(_LOOK_SECONDS)


def holds_back(cluster: Cluster, release: str, namespace: str) -> str:
    """What the watchers' pods wait for; "" where nothing is known, or may be seen.

    Raises:
        ToolError: the cluster does not answer.
    """
    try:
        pods = cluster.list(paths.PODS, namespace=namespace, label_selector=_selector(release))
    except ForbiddenError:
        return ""
    if not pods:
        return "it has no pods yet"
    return "; ".join(dict.fromkeys(reason for pod in pods for reason in _waits(pod)))


def forget(cluster: Cluster, release: str, namespace: str) -> None:
    """Delete what the watchers have made for themselves, which helm does not know.

    Raises:
        ToolError: the cluster does not answer.
    """
    try:
        cluster.delete(paths.LEASES, name(release), namespace=namespace)
    except ForbiddenError:
        return  # it runs out by itself, and the next release takes it over


def _told(spec: Mapping[str, Any]) -> dict[str, str]:
    """What the watchers of a Deployment are told, by their variables."""
    container = (items(spec, "template", "spec", "containers") or ({},))[0]
    return {text(one, "name"): text(one, "value") for one in items(container, "env")}


def _watches(told: Mapping[str, str]) -> tuple[str, ...]:
    spaces = tuple(one for one in told.get(_SPACES, "").split(",") if one)
    return () if told.get(_CLUSTER) == "true" else spaces


def _wanted(spec: Mapping[str, Any]) -> int:
    wanted = number(spec, "replicas")
    return 1 if wanted is None else wanted


def _lease(cluster: Cluster, release: str, namespace: str) -> Manifest | None:
    """The Lease of who acts; {} where there is none, None where it may not be seen."""
    try:
        return cluster.get(paths.LEASES, name(release), namespace=namespace)
    except NotFoundError:
        return {}
    except ForbiddenError:
        return None


def _renewed_at(lease: Manifest | None) -> float | None:
    return when(lease or {}, "spec", "renewTime")


def _waits(pod: Manifest) -> Iterable[str]:
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    if scheduled.get("status") == "False":
        yield text(scheduled, "message")
    for one in items(pod, "status", "containerStatuses"):
        waiting = mapping(one, "state", "waiting")
        ended = mapping(one, "lastState", "terminated") or mapping(one, "state", "terminated")
        if waiting or ended:
            parts = [text(waiting, "reason"), text(ended, "message") or text(waiting, "message")]
            yield ": ".join(part.strip() for part in parts if part.strip())


def _selector(release: str) -> str:
    return f"{names.APP_NAME}={names.OPERATOR},{names.APP_INSTANCE}={release}"
