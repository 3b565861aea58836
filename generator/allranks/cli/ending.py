"""The end of a run on a cluster: everything of it goes, but what was asked to be kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import definitions, paths, removal, upgrading
from allranks.cluster.refusals import namespace_missing
from allranks.errors import ForbiddenError, InputError, NotFoundError
from allranks.helm import releases

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.cluster.removal import Left
    from allranks.helm.releases import Home

TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class Removed:
    """What was done.

    Attributes:
        release: whether helm knew the run.
        removed: what helm did not know and was deleted.
        kept: what stays, as it was asked to be.
        lost: what the release held of kinds that the cluster no longer has; it went without helm.
    """

    release: bool
    removed: tuple[Left, ...]
    kept: tuple[Left, ...]
    lost: tuple[str, ...] = ()


def delete(cluster: Cluster, home: Home, *, timeout: float) -> Removed:
    """Remove a run in whatever state it is, and wait until its pods are gone.

    Raises:
        NotFoundError: there is no such run.
        InputError: the name is that of a release that is none of ours.
        RunError: pods are still there after the time.
        AllranksError: the cluster does not answer, or forbids it.
    """
    before = removal.left(cluster, home.name, home.namespace)
    release = releases.find(home)
    if release is None and not before:
        raise missing(cluster, home)
    if release is not None and not before and not release.ours:
        raise InputError(
            f"release {home.name!r} in namespace {home.namespace} is not a run of {names.CLI}",
            hint=f"`helm uninstall {home.name} -n {home.namespace}` removes it all the same",
        )
    lost: tuple[str, ...] = ()
    known = False
    if release is not None:
        lost = definitions.unserved(cluster, release.manifests)
        if lost:
            removal.remove_release(cluster, home.name, home.namespace, release.manifests)
        known = bool(lost) or releases.uninstall(home)
    after = removal.left(cluster, home.name, home.namespace)
    removed = removal.remove(cluster, home.namespace, after)
    upgrading.wait_for_no_pods(cluster, home.name, home.namespace, timeout=timeout)
    if not known and not removed:
        # All that is left was asked to be kept: there was nothing to do.
        raise missing(cluster, home, kept=tuple(one for one in after if one.kept))
    return Removed(known, removed, tuple(one for one in after if one.kept), lost)


def remove(cluster: Cluster, home: Home) -> None:
    """Remove a run of this name, where there is one."""
    try:
        delete(cluster, home, timeout=TIMEOUT)
    except NotFoundError:
        return


def missing(cluster: Cluster, home: Home, kept: tuple[Left, ...] = ()) -> NotFoundError:
    """The error for a run that is not there; the namespace itself may be what is missing."""
    if not kept and not namespace_there(cluster, home.namespace):
        return namespace_missing(home.namespace)
    stays = f"; kept of an earlier one: {', '.join(map(str, kept))}" if kept else ""
    return NotFoundError(
        f"there is no run {home.name!r} in namespace {home.namespace}{stays}",
        hint=how_to_remove(home.namespace, kept)
        if kept
        else f"`{names.CLI} list -A` shows the runs of every namespace; one of this machine needs "
        "--on local",
    )


def namespace_there(cluster: Cluster, namespace: str) -> bool:
    """Whether a namespace is there, as far as the user may know."""
    try:
        cluster.get(paths.NAMESPACES, namespace)
    except NotFoundError:
        return False
    except ForbiddenError:
        return True
    return True


def how_to_remove(namespace: str, kept: tuple[Left, ...]) -> str:
    """The command that removes what was kept."""
    return f"kubectl delete -n {namespace} {' '.join(map(str, kept))}"
