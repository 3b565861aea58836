"""The definitions of our kinds on a cluster: apply, compare and remove them.

Helm installs what lies in a chart's `crds/` once and never touches it again, so a new version of
the chart would meet old definitions. Here they are applied server-side, before the release.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks import names, resources, retry
from allranks.cluster import paths
from allranks.errors import ForbiddenError, InputError, NotFoundError, RunError, ToolError
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

_LOOK_SECONDS = 0.1
_SECONDS = 30.0


class CrdState(StrEnum):
    """The state of a definition on a cluster, compared with ours."""

    CURRENT = "current"
    OTHER = "another version"
    FOREIGN = "somebody else's"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class InstalledCrd:
    """One of our definitions, and its state on the cluster.

    Attributes:
        name: as ``trainingruns.allranks.dev``.
        kind: the kind it defines.
        state: how the cluster's is.
    """

    name: str
    kind: str
    state: CrdState


def ours() -> tuple[Manifest, ...]:
    """The definitions of this version, by name.

    Raises:
        InputError: this installation has no charts.
    """
    folder = resources.folder("charts") / names.OPERATOR / "crds"
    definitions = [
        load(path.read_bytes(), path.name).data for path in sorted(folder.glob("*.yaml"))
    ]
    return tuple(sorted(definitions, key=lambda crd: str(crd["metadata"]["name"])))


def compare(cluster: KubeClient) -> tuple[InstalledCrd, ...]:
    """Each of our definitions with its state on the cluster.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    return tuple(_installed_crd(crd, live) for crd, live in _read(cluster))


def apply(cluster: KubeClient, *, adopt: bool = False) -> tuple[InstalledCrd, ...]:
    """Bring every definition to this version, and wait until the cluster serves it.

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
    before = tuple(_installed_crd(crd, live) for crd, live in there)
    foreign = [report for report in before if report.state is CrdState.FOREIGN]
    if foreign and not adopt:
        crds = ", ".join(report.name for report in foreign)
        raise InputError(
            f"{cluster.where} has {crds} of another operator: two would act on the same objects",
            hint="remove that operator first; with --adopt its definition is replaced by ours, "
            "which takes all that it took",
        )
    for crd, live in there:
        _check_age(cluster.where, crd, live)
    for report, (crd, _) in zip(before, there, strict=True):
        if report.state is not CrdState.CURRENT:
            cluster.patch(
                paths.DEFINITIONS, report.name, crd, kind="apply", manager=names.FIELD_MANAGER
            )
    for crd, _ in there:
        _wait(cluster, crd)
    return before


def _read(cluster: KubeClient) -> list[tuple[Manifest, Manifest | None]]:
    """Each of our definitions, and the cluster's definition of that name."""
    return [(crd, _find(cluster, str(crd["metadata"]["name"]))) for crd in ours()]


def _check_age(location: str, crd: Manifest, live: Manifest | None) -> None:
    """Refuse to replace the definition of a newer version, as the server would.

    Raises:
        InputError: objects may be kept in a version of the kind that ours does not have.
    """
    name = str(crd["metadata"]["name"])
    status = (live or {}).get("status") or {}
    versions = {version["name"] for version in crd["spec"]["versions"]}
    newer = [version for version in status.get("storedVersions") or () if version not in versions]
    if newer:
        raise InputError(
            f"{location} has a newer {name}: it keeps objects as {', '.join(newer)}, and this "
            f"version of {names.CLI} knows {', '.join(sorted(versions))} alone; "
            "nothing was changed",
            hint=f"use the {names.CLI} that put it there; --skip-crds leaves it as it is",
        )


def serves(cluster: KubeClient, resource_path: str) -> bool:
    """Whether a cluster serves a kind, whatever the user may do with it.

    Raises:
        ToolError: the cluster does not answer.
    """
    version, _, plural = resource_path.rpartition("/")
    return any(resource.get("name") == plural for resource in _served_resources(cluster, version))


def unserved(cluster: KubeClient, manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """The objects whose kinds the cluster does not serve, as ``TrainingRun/demo``.

    Helm can neither upgrade nor uninstall a release that holds one.

    Raises:
        ToolError: the cluster does not answer.
    """
    served: dict[str, set[str]] = {}
    problems = []
    for manifest in manifests:
        version = str(manifest.get("apiVersion") or "")
        group, _, _ = version.partition("/")
        if "." not in group or group.endswith(".k8s.io"):
            continue  # Kubernetes' own
        if version not in served:
            served[version] = {
                str(resource.get("kind"))
                for resource in _served_resources(cluster, f"apis/{version}")
            }
        if manifest.get("kind") not in served[version]:
            problems.append(f"{manifest.get('kind')}/{manifest['metadata']['name']}")
    return tuple(problems)


def _served_resources(cluster: KubeClient, version: str) -> Sequence[Manifest]:
    """The resources of a group and version, as ``apis/batch/v1``; () for none."""
    group, _, name = version.rpartition("/")
    try:
        return cluster.get(group, name).get("resources") or ()
    except NotFoundError:
        return ()


def remove(cluster: KubeClient) -> tuple[str, ...]:
    """Delete our definitions and all their objects; return the definitions' names.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    doomed = [report.name for report in compare(cluster) if report.state is not CrdState.MISSING]
    return tuple(name for name in doomed if cluster.delete(paths.DEFINITIONS, name))


def objects(cluster: KubeClient) -> dict[str, list[Manifest]]:
    """The metadata of all objects of our kinds, in all namespaces, by kind.

    Raises:
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    objects: dict[str, list[Manifest]] = {}
    for crd in ours():
        try:
            kind = str(crd["spec"]["names"]["kind"])
            objects[kind] = list(cluster.list(_path(crd), metadata_only=True))
        except NotFoundError:
            continue
    return objects


def _installed_crd(crd: Manifest, live: Manifest | None) -> InstalledCrd:
    name, kind = crd["metadata"]["name"], crd["spec"]["names"]["kind"]
    return InstalledCrd(str(name), str(kind), _state(crd, live))


def _state(crd: Manifest, live: Manifest | None) -> CrdState:
    if live is None:
        return CrdState.MISSING
    labels = live["metadata"].get("labels") or {}
    if labels.get(names.APP_PART_OF) != names.PART_OF:
        return CrdState.FOREIGN
    return CrdState.CURRENT if _holds(live["spec"], crd["spec"]) else CrdState.OTHER


def _find(cluster: KubeClient, name: str) -> Manifest | None:
    try:
        return cluster.get(paths.DEFINITIONS, name)
    except NotFoundError:
        return None


def _holds(live: Any, expected: Any) -> bool:
    """Whether the live value equals the expected one, but for what the server adds to maps.

    The schema itself is compared whole: a field that it lost must be lost on the cluster as well.
    """
    if isinstance(expected, dict):
        if not isinstance(live, dict):
            return False
        whole = "openAPIV3Schema" in expected
        if whole and live != expected:
            return False
        return all(key in live and _holds(live[key], value) for key, value in expected.items())
    if isinstance(expected, list):
        return (
            isinstance(live, list)
            and len(live) == len(expected)
            and all(_holds(*pair) for pair in zip(live, expected, strict=True))
        )
    return bool(live == expected)


def _wait(cluster: KubeClient, crd: Manifest) -> None:
    name = str(crd["metadata"]["name"])

    def look() -> tuple[bool, dict[str, str]]:
        status = (_find(cluster, name) or {}).get("status") or {}
        conditions = _conditions(status.get("conditions") or ())
        established = conditions.get("Established") == "True"
        return established and _answers(cluster, _path(crd)), conditions

    is_served, conditions = retry.poll(look, _SECONDS, _LOOK_SECONDS, until=lambda state: state[0])
    if not is_served:
        name_conflict = conditions.get("NamesAccepted") == "False"
        reason = ": another definition has its names" if name_conflict else ""
        raise RunError(f"{cluster.where} does not serve {name} after {_SECONDS:g} s{reason}")


def _answers(cluster: KubeClient, resource_path: str) -> bool:
    """Whether objects of a kind can be listed: storage is ready only after the definition."""
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


def _conditions(entries: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {str(condition.get("type")): str(condition.get("status")) for condition in entries}


def forbidden(error: ToolError) -> ToolError:
    """The error for a user who may not change cluster-wide objects."""
    return type(error)(
        error.problem.message,
        hint="definitions belong to the whole cluster: have an administrator give "
        f"`{names.CLI} operator install --crds-only`, then add --skip-crds here",
    )
