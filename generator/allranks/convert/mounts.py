"""Mounts of volumes that are not there: the old controller made them, or nobody did.

An API server refuses a pod whose containers mount what is no volume of it, so that such a mount is
taken out, and said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import Outcome
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath


def checked(conversion: Conversion, source: Mapping[str, Any]) -> Conversion:
    """A conversion whose containers mount what their pods have.

    Args:
        conversion: the conversion; its values are changed.
        source: the object that was converted.
    """
    shared = _volumes(k8s.mapping(conversion.values, "podTemplate", "spec"))
    missing: dict[str, None] = {}
    for spec in _pod_specs(conversion.values):
        missing |= dict.fromkeys(_take_out(spec, shared | _volumes(spec)))
    verdicts, notes = list(conversion.verdicts), list(conversion.notes)
    for name in missing:
        why = f"there is no volume {name}: the old controller made it"
        paths = list(_mounts(source, name, ()))
        for index, verdict in enumerate(verdicts):
            if any(verdict.keys[: len(path)] == path for path in paths):
                verdicts[index] = replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=why)
        if not paths:
            notes.append(
                f"a container mounts the volume {name}, which is not there: the old controller "
                "made it"
            )
    return replace(conversion, verdicts=tuple(verdicts), notes=tuple(notes))


def _pod_specs(node: Any) -> Iterator[Mapping[str, Any]]:
    """The spec of each pod template among values: the job's, and those of its roles."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "podTemplate":
            yield k8s.mapping(value, "spec")
        elif key != "env":
            yield from _pod_specs(value)


def _volumes(spec: Mapping[str, Any]) -> set[str]:
    return {k8s.text(volume, "name") for volume in k8s.items(spec, "volumes")}


def _take_out(spec: Mapping[str, Any], volumes: set[str]) -> Iterator[str]:
    """Take mounts of other volumes than these out of a pod's containers; their names."""
    for key in ("initContainers", "containers"):
        for container in k8s.items(spec, key):
            mounts = k8s.items(container, "volumeMounts")
            kept = [mount for mount in mounts if mount.get("name") in volumes]
            yield from (k8s.text(mount, "name") for mount in mounts if mount not in kept)
            if kept:
                container["volumeMounts"] = kept
            else:
                container.pop("volumeMounts", None)


def _mounts(node: Any, name: str, path: FieldPath) -> Iterator[FieldPath]:
    """Where a structure mounts a volume."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "volumeMounts" and isinstance(value, list):
                yield from (
                    (*path, key, index)
                    for index, mount in enumerate(value)
                    if isinstance(mount, dict) and mount.get("name") == name
                )
            else:
                yield from _mounts(value, name, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _mounts(value, name, (*path, index))
