"""The operator on a cluster: its pods, its leader, and what it waits for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names, retry
from allranks.cluster import paths
from allranks.errors import ForbiddenError, NotFoundError, RunError
from allranks.humanize import plural
from allranks.k8s import lease as leases
from allranks.k8s.fields import condition, items, mapping, number, text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

_LOOK_SECONDS = 0.5
# What every start waits for, for a moment, is told to nobody.
_QUIET_LOOKS = 6
_HELD_SECONDS = 15.0
# A leader renews its Lease every two seconds.
PATIENCE = 6.0
_SPACES, _CLUSTER = "ALLRANKS_WATCH_NAMESPACES", "ALLRANKS_WATCH_CLUSTER"


@dataclass(frozen=True, slots=True)
class OperatorDeployment:
    """The operator of a release: its replicas, and which of them acts.

    Attributes:
        replicas: how many pods there are to be.
        ready: how many are ready, of the version that is wanted.
        image: their image.
        namespaces: what they watch; () is the whole cluster.
        leader: who acts; "" where nobody says it.
        renewed_at: when the leader last said so, in seconds since the epoch; None likewise.
        held_for: the seconds after which it must have said so again.
        lease_read: whether it may be seen who acts.
        lacks: the rights that who acts should have and has not; "" where it says none.
    """

    replicas: int
    ready: int
    image: str
    namespaces: tuple[str, ...]
    leader: str = ""
    renewed_at: float | None = None
    held_for: float = _HELD_SECONDS
    lease_read: bool = True
    lacks: str = ""

    @property
    def is_ready(self) -> bool:
        """Whether all pods are ready."""
        return self.ready == self.replicas


@dataclass(frozen=True, slots=True)
class OtherOperator:
    """Another release of the operator on the same cluster.

    Attributes:
        release: the release.
        namespace: where it is.
        namespaces: what it watches; () is the whole cluster.
    """

    release: str
    namespace: str
    namespaces: tuple[str, ...]

    def __str__(self) -> str:
        """The release and its namespace, for messages."""
        return f"release {self.release!r} in namespace {self.namespace}"


def name(release: str) -> str:
    """The Deployment, Lease and Service of a release of the operator chart."""
    return f"{release}-watcher"


def find(cluster: KubeClient, release: str, namespace: str) -> OperatorDeployment | None:
    """The operator of a release; None where it has no Deployment.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    try:
        deployment = cluster.get(paths.DEPLOYMENTS, name(release), namespace=namespace)
    except NotFoundError:
        return None
    lease = _lease(cluster, release, namespace)
    spec, status = mapping(deployment, "spec"), mapping(deployment, "status")
    container = (items(spec, "template", "spec", "containers") or ({},))[0]
    current = number(status, "observedGeneration") == number(deployment, "metadata", "generation")
    ready = min(number(status, "updatedReplicas") or 0, number(status, "availableReplicas") or 0)
    return OperatorDeployment(
        replicas=_replicas(spec),
        ready=ready if current else 0,
        image=text(container, "image"),
        namespaces=_watches(_settings(spec)),
        leader=leases.holder(lease or {}),
        renewed_at=leases.renewed_at(lease or {}),
        held_for=leases.duration(lease or {}, _HELD_SECONDS),
        lease_read=lease is not None,
        lacks=text(lease or {}, "metadata", "annotations", names.LACKS),
    )


def other_operators(cluster: KubeClient, release: str, namespace: str) -> tuple[OtherOperator, ...]:
    """The other operators of a cluster, or of the namespace where only that may be read.

    Raises:
        ToolError: the cluster does not answer.
    """
    selector = f"{names.APP_NAME}={names.OPERATOR},{names.APP_COMPONENT}=watcher"
    deployments: Iterable[Manifest] = ()
    for space in (None, namespace):
        try:
            deployments = cluster.list(paths.DEPLOYMENTS, namespace=space, label_selector=selector)
        except ForbiddenError:
            continue
        break
    operators = []
    for deployment in deployments:
        settings = _settings(mapping(deployment, "spec"))
        if _SPACES not in settings:
            continue  # another project's operator
        watches = _watches(settings)
        labels = mapping(deployment, "metadata", "labels")
        operator = OtherOperator(
            text(labels, names.APP_INSTANCE), text(deployment, "metadata", "namespace"), watches
        )
        if (operator.release, operator.namespace) != (release, namespace):
            operators.append(operator)
    return tuple(sorted(operators, key=str))


def account_holder(cluster: KubeClient, namespace: str) -> tuple[str, str] | None:
    """The release that created the masters' account of a namespace, and its namespace.

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


def holder(lease: Manifest) -> tuple[str, str]:
    """The helm release that an object belongs to, and its namespace; "" for none."""
    notes = mapping(lease, "metadata", "annotations")
    return text(notes, names.HELM_RELEASE), text(notes, names.HELM_NAMESPACE)


def acts(
    cluster: KubeClient,
    release: str,
    namespace: str,
    operator: OperatorDeployment,
    *,
    now: float,
    patience: float,
) -> bool | None:
    """Whether one of the operator's pods acts; None where that may not be read.

    Args:
        cluster: the cluster.
        release: the release.
        namespace: its namespace.
        operator: what was found before.
        now: seconds since the epoch, by a clock that may differ from the cluster's.
        patience: seconds for which to see whether a Lease that looks old, or that nobody holds yet,
            is renewed after all.

    Raises:
        ToolError: the cluster does not answer.
    """
    if not operator.lease_read:
        return None
    age = -1.0 if operator.renewed_at is None else now - operator.renewed_at
    if operator.leader and 0 <= age <= operator.held_for:
        return True

    def is_renewed() -> bool:
        lease = _lease(cluster, release, namespace) or {}
        renewed = leases.renewed_at(lease) not in (None, operator.renewed_at)
        return renewed and bool(leases.holder(lease))

    return retry.poll(is_renewed, patience, _LOOK_SECONDS)


def wait(
    cluster: KubeClient,
    release: str,
    namespace: str,
    *,
    timeout: float,
    tell: Callable[[str], None] = lambda _: None,
) -> OperatorDeployment:
    """The operator, once all its pods are ready.

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
        operator = find(cluster, release, namespace)
        if operator is not None and operator.is_ready:
            return operator
        looks += 1
        is_late = time.monotonic() >= deadline
        if looks <= _QUIET_LOOKS and not is_late:
            time.sleep(_LOOK_SECONDS)
            continue
        ready, replicas = (operator.ready, operator.replicas) if operator else (0, 0)
        standing = f"{ready} of {plural(replicas, 'replica')} ready"
        reason = holds_back(cluster, release, namespace)
        if is_late:
            raise RunError(
                f"{standing} after {timeout:.0f} s{': ' if reason else ''}{reason}",
                hint=f"`kubectl -n {namespace} describe pods -l {_selector(release)}` says more; "
                f"`{names.CLI} operator upgrade` with other values mends it",
            )
        if reason not in reasons:
            reasons.add(reason)
            tell(f"{standing}: {reason}")
        time.sleep(_LOOK_SECONDS)


def holds_back(cluster: KubeClient, release: str, namespace: str) -> str:
    """The reason that the operator's pods are not ready; "" where none can be read.

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


def forget(cluster: KubeClient, release: str, namespace: str) -> None:
    """Delete the objects that the operator created, which helm does not know.

    Raises:
        ToolError: the cluster does not answer.
    """
    try:
        cluster.delete(paths.LEASES, name(release), namespace=namespace)
    except ForbiddenError:
        return  # it runs out by itself, and the next release takes it over


def _settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """The operator's environment variables in its Deployment."""
    container = (items(spec, "template", "spec", "containers") or ({},))[0]
    return {text(variable, "name"): text(variable, "value") for variable in items(container, "env")}


def _watches(settings: Mapping[str, str]) -> tuple[str, ...]:
    spaces = tuple(space for space in settings.get(_SPACES, "").split(",") if space)
    return () if settings.get(_CLUSTER) == "true" else spaces


def _replicas(spec: Mapping[str, Any]) -> int:
    replicas = number(spec, "replicas")
    return 1 if replicas is None else replicas


def _lease(cluster: KubeClient, release: str, namespace: str) -> Manifest | None:
    """The operator's Lease; {} where there is none, None where it may not be read."""
    try:
        return cluster.get(paths.LEASES, name(release), namespace=namespace)
    except NotFoundError:
        return {}
    except ForbiddenError:
        return None


def _waits(pod: Manifest) -> Iterable[str]:
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    containers = items(pod, "status", "containerStatuses")
    node = text(pod, "spec", "nodeName")
    if scheduled.get("status") == "False":
        yield text(scheduled, "message")
    elif not containers and node:
        yield f"node {node} has not begun to start it"
    elif not containers:
        scheduler = text(pod, "spec", "schedulerName") or "default-scheduler"
        yield f"scheduler {scheduler} has not looked at it yet"
    for container in containers:
        waiting = mapping(container, "state", "waiting")
        termination = mapping(container, "lastState", "terminated") or mapping(
            container, "state", "terminated"
        )
        if waiting or termination:
            parts = [
                text(waiting, "reason"),
                text(termination, "message") or text(waiting, "message"),
            ]
            yield ": ".join(part.strip() for part in parts if part.strip())


def _selector(release: str) -> str:
    return f"{names.APP_NAME}={names.OPERATOR},{names.APP_INSTANCE}={release}"
