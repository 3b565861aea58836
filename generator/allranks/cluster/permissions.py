"""The permissions that a run needs, and those that a user lacks; pure.

The API server is asked once for all that the user may do in the namespace, before anything is
sent: a run must not fail half-way for want of a right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.cluster import paths
from allranks.errors import ForbiddenError
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cluster.interface import Rules
    from allranks.k8s.manifest import Manifest

_ALL = "*"
_SHOWN = 4
# Helm keeps the record of a release in Secrets.
_HELM = ("list", "get", "create", "update")
_HELM_DELETES = ("list", "get", "update", "delete")
_APPLY = ("get", "create", "patch")
_FOLLOW = ("list", "watch")


@dataclass(frozen=True, slots=True)
class Need:
    """A permission that is needed.

    Attributes:
        verb: as a rule names it.
        resource_path: see `allranks.cluster.paths`.
        granted: whether it is not for us, but is granted to others by a Role of the run: Kubernetes
            lets nobody grant what they do not hold.
    """

    verb: str
    resource_path: str
    granted: bool = False

    def __str__(self) -> str:
        """The permission for a person: ``create jobs.batch``."""
        return f"{self.verb} {paths.kubectl_name(self.resource_path)}"


_TO_GRANT_ANY = Need("escalate", paths.ROLES)
# What helm does with the TrainingRun that a chart renders where the cluster knows the kind.
TO_HAVE_A_STATUS = tuple(Need(verb, paths.TRAINING_RUNS) for verb in _APPLY)


def install_needs(manifests: Iterable[Manifest], *, follow: bool) -> tuple[Need, ...]:
    """The permissions needed to install manifests as a release.

    Args:
        manifests: the rendered objects.
        follow: whether the run is followed.
    """
    manifests = tuple(manifests)
    permissions = [Need(verb, paths.SECRETS) for verb in _HELM]
    for manifest in manifests:
        permissions += [Need(verb, paths.manifest_path(manifest)) for verb in _APPLY]
    if follow:
        watched = [paths.JOBS, paths.STATEFUL_SETS, paths.PODS]
        if any(permission.resource_path == paths.ELASTIC_JOBS for permission in permissions):
            watched.append(paths.ELASTIC_JOBS)
        permissions += [Need(verb, path) for path in watched for verb in _FOLLOW]
    permissions += _granted_permissions(manifests)
    return tuple(dict.fromkeys(permissions))


def uninstall_needs(manifests: Iterable[Manifest]) -> tuple[Need, ...]:
    """The permissions needed to uninstall a release.

    Args:
        manifests: its objects.
    """
    permissions = [Need(verb, paths.SECRETS) for verb in _HELM_DELETES]
    permissions += [need for manifest in manifests for need in removal_needs(manifest)]
    return tuple(dict.fromkeys(permissions))


def removal_needs(manifest: Manifest) -> tuple[Need, ...]:
    """The permissions needed to remove an object."""
    return tuple(Need(verb, paths.manifest_path(manifest)) for verb in ("get", "delete"))


def _granted_permissions(manifests: Iterable[Manifest]) -> Iterator[Need]:
    """The permissions that the Roles among the manifests grant."""
    roles = (manifest for manifest in manifests if manifest.get("kind") == "Role")
    for rule in (rule for role in roles for rule in role.get("rules") or ()):
        for group in rule["apiGroups"]:
            # A rule is about all versions of a group; no request is made with this one.
            root = f"apis/{group}/v1" if group else "api/v1"
            for resource in rule["resources"]:
                yield from (Need(verb, f"{root}/{resource}", True) for verb in rule["verbs"])


def missing(
    rules: Rules, permissions: Iterable[Need], *, are_there: bool = False
) -> tuple[Need, ...]:
    """The permissions that no rule grants.

    Args:
        rules: all that the user may do in the namespace.
        permissions: what is needed there.
        are_there: the objects are there already, so that a rule for objects by name may be theirs.
    """

    def held(permission: Need) -> bool:
        return any(
            _gives(rule, permission) for rule in rules if are_there or not rule.get("resourceNames")
        )

    may_grant = held(_TO_GRANT_ANY)
    return tuple(
        permission
        for permission in permissions
        if not (held(permission) or (permission.granted and may_grant))
    )


def refusal(
    server: str, namespace: str, lacking: Sequence[Need], *, done: str = "nothing was sent"
) -> ForbiddenError:
    """The error for missing permissions.

    Args:
        server: who refuses.
        namespace: where.
        lacking: the permissions.
        done: what became of the command.
    """
    # What is needed here and granted to others is one right to ask for.
    lines = list(dict.fromkeys(map(str, lacking)))
    if any(need.resource_path in paths.OF_CLUSTER for need in lacking):
        return ForbiddenError(
            f"{server} does not let you {list_some(lines, _SHOWN)}; {done}",
            hint="volumes and storage classes belong to the whole cluster: have who may make them "
            "install this, or name a claim that is there, such as a queue's, as existingClaim",
        )
    return ForbiddenError(
        f"{server} does not let you {list_some(lines, _SHOWN)} in namespace {namespace}; {done}",
        hint="ask for a Role there with these rights; docs/guides/cluster.md has a whole one",
    )


def _gives(rule: dict[str, list[str]], permission: Need) -> bool:
    pairs = (
        ("verbs", permission.verb),
        ("apiGroups", paths.group(permission.resource_path)),
        ("resources", paths.plural(permission.resource_path)),
    )
    return all(
        _ALL in (rule.get(key) or ()) or value in (rule.get(key) or ()) for key, value in pairs
    )
