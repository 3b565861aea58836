"""The definitions of our kinds on a cluster: put there, brought up to date, compared, taken away.

Helm installs what lies in a chart's `crds/` once and never touches it again, so a new version of
the chart would meet old definitions. Here they are applied server-side, before the release.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.cluster import paths
from allranks.errors import ForbiddenError, InputError, NotFoundError, RunError, ToolError
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

_LOOK_SECONDS = 0.1
_SECONDS = 30.0


class State(StrEnum):
    """How a definition on a cluster is, beside ours."""

    CURRENT = "current"
    OTHER = "another version"
    FOREIGN = "somebody else's"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Found:
    """A definition of ours, and what the cluster has of it.

    Attributes:
        name: as ``trainingruns.allranks.dev``.
        kind: the kind it defines.
        state: how the cluster's is.
    """

    name: str
    kind: str
    state: State


def ours() -> tuple[Manifest, ...]:
    """The definitions that this version brings, by name.

    Raises:
        InputError: this installation has no charts.
    """
    folder = resources.folder("charts") / names.OPERATOR / "crds"
    found = [load(path.read_bytes(), path.name).data for path in sorted(folder.glob("*.yaml"))]
    return tuple(sorted(found, key=lambda one: str(one["metadata"]["name"])))


def compare(cluster: Cluster) -> tuple[Found, ...]:
    """Each definition of ours, and how the cluster's is.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    return tuple(_found(wanted, live) for wanted, live in _read(cluster))


def apply(cluster: Cluster, *, adopt: bool = False) -> tuple[Found, ...]:
    """Bring every definition to this version, and wait until the cluster serves them.

    Args:
        cluster: the cluster.
        adopt: take over a definition that somebody else has put there.

    Returns:
        What was there before, in each case.

    Raises:
        InputError: a definition is somebody else's; nothing was changed.
        RunError: the cluster does not serve one of them in time.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    there = _read(cluster)
    before = tuple(_found(wanted, live) for wanted, live in there)
    foreign = [one for one in before if one.state is State.FOREIGN]
    if foreign and not adopt:
        named = ", ".join(one.name for one in foreign)
        raise InputError(
            f"{cluster.where} has {named} of another operator: two would act on the same objects",
            hint="remove that operator first; with --adopt its definition is replaced by ours, "
            "which takes all that it took",
        )
    for wanted, live in there:
        _check_age(cluster.where, wanted, live)
    for one, (wanted, _) in zip(before, there, strict=True):
        if one.state is not State.CURRENT:
            cluster.patch(
                paths.DEFINITIONS, one.name, wanted, kind="apply", manager=names.FIELD_MANAGER
            )
    for wanted, _ in there:
        _wait(cluster, wanted)
    return before


def _read(cluster: Cluster) -> list[tuple[Manifest, Manifest | None]]:
    """Each definition of ours, and what the cluster has under its name."""
    return [(one, _find(cluster, str(one["metadata"]["name"]))) for one in ours()]


def _check_age(where: str, wanted: Manifest, live: Manifest | None) -> None:
    """Refuse to replace a definition of a newer allranks, as the server would.

    Raises:
        InputError: objects may be kept in a version of the kind that ours does not have.
    """
    name = str(wanted["metadata"]["name"])
    status = (live or {}).get("status") or {}
    known = {one["name"] for one in wanted["spec"]["versions"]}
    newer = [one for one in status.get("storedVersions") or () if one not in known]
    if newer:
        raise InputError(
            f"{where} has a newer {name}: it keeps objects as {', '.join(newer)}, and this "
            f"version of {names.CLI} knows {', '.join(sorted(known))} alone; nothing was changed",
            hint=f"use the {names.CLI} that put it there; --skip-crds leaves it as it is",
        )


def serves(cluster: Cluster, resource_path: str) -> bool:
    """Whether a cluster has a kind of object, whatever the user may do with it.

    Raises:
        ToolError: the cluster does not answer.
    """
    version, _, plural = resource_path.rpartition("/")
    return any(one.get("name") == plural for one in _served(cluster, version))


def unserved(cluster: Cluster, manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Which of some objects are of kinds that the cluster does not have, as ``TrainingRun/demo``.

    Helm can neither upgrade nor uninstall a release that holds one.

    Raises:
        ToolError: the cluster does not answer.
    """
    served: dict[str, set[str]] = {}
    found = []
    for one in manifests:
        version = str(one.get("apiVersion") or "")
        group, _, _ = version.partition("/")
        if "." not in group or group.endswith(".k8s.io"):
            continue  # Kubernetes' own
        if version not in served:
            served[version] = {
                str(each.get("kind")) for each in _served(cluster, f"apis/{version}")
            }
        if one.get("kind") not in served[version]:
            found.append(f"{one.get('kind')}/{one['metadata']['name']}")
    return tuple(found)


def _served(cluster: Cluster, version: str) -> Sequence[Manifest]:
    """What a cluster has of a group and version, as ``apis/batch/v1``; nothing for none."""
    group, _, name = version.rpartition("/")
    try:
        return cluster.get(group, name).get("resources") or ()
    except NotFoundError:
        return ()


def remove(cluster: Cluster) -> tuple[str, ...]:
    """Delete every definition of ours, and with each all its objects; return their names.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    doomed = [one.name for one in compare(cluster) if one.state is not State.MISSING]
    return tuple(name for name in doomed if cluster.delete(paths.DEFINITIONS, name))


def objects(cluster: Cluster) -> dict[str, list[Manifest]]:
    """The metadata of all objects of each kind of ours that the cluster has, in all namespaces.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    found: dict[str, list[Manifest]] = {}
    for one in ours():
        try:
            kind = str(one["spec"]["names"]["kind"])
            found[kind] = list(cluster.list(_path(one), metadata_only=True))
        except NotFoundError:
            continue
    return found


def _found(wanted: Manifest, live: Manifest | None) -> Found:
    name, kind = wanted["metadata"]["name"], wanted["spec"]["names"]["kind"]
    return Found(str(name), str(kind), _state(wanted, live))


def _state(wanted: Manifest, live: Manifest | None) -> State:
    if live is None:
        return State.MISSING
    labels = live["metadata"].get("labels") or {}
    if labels.get(names.APP_PART_OF) != names.PART_OF:
        return State.FOREIGN
    return State.CURRENT if _holds(live["spec"], wanted["spec"]) else State.OTHER


def _find(cluster: Cluster, name: str) -> Manifest | None:
    try:
        return cluster.get(paths.DEFINITIONS, name)
    except NotFoundError:
        return None


def _holds(live: Any, wanted: Any) -> bool:
    """Whether the live value is the wanted one, but for what the server adds to maps.

    The schema itself is compared whole: a field that it lost must be lost on the cluster as well.
    """
    if isinstance(wanted, dict):
        if not isinstance(live, dict):
            return False
        whole = "openAPIV3Schema" in wanted
        if whole and live != wanted:
            return False
        return all(key in live and _holds(live[key], value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(_holds(*pair) for pair in zip(live, wanted, strict=True))
        )
    return bool(live == wanted)


def _wait(cluster: Cluster, wanted: Manifest) -> None:
    name = str(wanted["metadata"]["name"])
    deadline = time.monotonic() + _SECONDS
    while True:
        status = (_find(cluster, name) or {}).get("status") or {}
        conditions = _conditions(status.get("conditions") or ())
        if conditions.get("Established") == "True" and _answers(cluster, _path(wanted)):
            return
        if time.monotonic() >= deadline:
            taken = conditions.get("NamesAccepted") == "False"
            why = ": another definition has its names" if taken else ""
            raise RunError(f"{cluster.where} does not serve {name} after {_SECONDS:g} s{why}")
        time.sleep(_LOOK_SECONDS)


def _answers(cluster: Cluster, resource_path: str) -> bool:
    """Whether objects of a kind can be asked for: their storage comes after the definition."""
    if not serves(cluster, resource_path):
        return False
    try:
        cluster.get(resource_path, "none", namespace="default")
    except (NotFoundError, ForbiddenError):
        return True
    except ToolError:
        return False  # it is still being made
    return True


def _path(definition: Manifest) -> str:
    spec = definition["spec"]
    return f"apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"


def _conditions(found: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(one.get("type")): str(one.get("status")) for one in found}


def not_allowed(error: ToolError) -> ToolError:
    """The error for a person who may not change what belongs to the whole cluster."""
    return type(error)(
        error.problem.message,
        hint="definitions belong to the whole cluster: have an administrator give "
        f"`{names.CLI} operator install --crds-only`, then add --skip-crds here",
    )
