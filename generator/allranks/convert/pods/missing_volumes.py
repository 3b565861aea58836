"""Mounts of volumes that are not there: the old controller made them, or nobody did.

An API server refuses a pod whose containers mount what is no volume of it, so that such a mount is
taken out, and said.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from allranks.convert import near_words
from allranks.convert.pods.pod_template import templates_of
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
    volume_owners = _take_out_volumes(conversion.values, _of_controller(source))
    shared = _volumes(k8s.mapping(conversion.values, "podTemplate", "spec"))
    missing_volumes: dict[str, None] = {}
    for spec in _pod_specs(conversion.values):
        missing_volumes |= dict.fromkeys(_take_out(spec, shared | _volumes(spec)))
    verdicts, notes = list(conversion.verdicts), list(conversion.notes)
    for index, verdict in enumerate(verdicts):
        owner = next(
            (
                volume_owners[item]
                for item in volume_owners
                if _is_volume(source, verdict.keys, item)
            ),
            "",
        )
        if owner:
            why = f"{owner} was the old controller's, and is not there"
            verdicts[index] = replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=why)
    for name in missing_volumes:
        near = near_words.nearest_word(name, sorted(_declared(source)))
        maker = ": the old controller made it" if _is_controllers(source, name) else ""
        cause = maker or (f": did you mean {near}?" if near else "")
        why = f"there is no volume {name}{cause}"
        if name in volume_owners:
            why = f"the volume {name} is not there, as {volume_owners[name]} is not"
        elif name in _declared(source):
            why = f"the volume {name} is not carried"
        paths = list(_mounts(source, name, ()))
        for index, verdict in enumerate(verdicts):
            path = next((path for path in paths if verdict.keys[: len(path)] == path), None)
            if path is not None:
                reader = _reader(source, path)
                verdicts[index] = replace(
                    verdict, outcome=Outcome.NOT_CARRIED, to="", why=f"{why}{reader}"
                )
        if not paths:
            volume_is = "which the old controller made" if maker else f"which is not there{cause}"
            notes.append(f"a container mounts the volume {name}, {volume_is}")
    return replace(conversion, verdicts=tuple(verdicts), notes=tuple(notes))


def _reader(source: Mapping[str, Any], path: FieldPath) -> str:
    """What to add of a mount that is not there, where its container's command reads its folder."""
    node: Any = source
    for step in path[:-2]:
        node = node[step]
    folder = k8s.text(node[path[-2]][path[-1]], "mountPath")
    words = [word for key in ("command", "args") for word in k8s.texts(node.get(key))]
    if folder and re.search(
        rf"(?<![\w/.-]){re.escape(folder.rstrip('/'))}(?![\w.-])", " ".join(words)
    ):
        return f", and the command of {k8s.text(node, 'name')} reads {folder}: take that out of it"
    return ""


def _of_controller(source: Mapping[str, Any]) -> set[str]:
    """The Secrets and ConfigMaps that the old controller made for a job, by their names."""
    name = k8s.text(source, "metadata", "name")
    ends = _OBJECT_SUFFIXES.get(_key(source), ())
    return {f"{name}-{end}" for end in ends} if name else set()


def _key(source: Mapping[str, Any]) -> tuple[str, str]:
    """An object's API group and kind."""
    return str(source.get("apiVersion")).partition("/")[0], str(source.get("kind"))


# What a controller calls the objects that it makes: the job's name, and this.
_OBJECT_SUFFIXES = {
    ("kubeflow.org", "MPIJob"): ("ssh", "config"),
    ("batch.volcano.sh", "Job"): ("svc",),
    ("trainer.kubeflow.org", "TrainJob"): ("mpi-ssh-auth", "mpi-hostfile"),
}


# The volumes that mpi-operator puts into a launcher. Source: pkg/controller/mpi_job_controller.go.
_OF_MPI = ("mpi-job-config", "mpi-job-kubectl", "ssh-auth", "ssh-home")


def _is_controllers(source: Mapping[str, Any], name: str) -> bool:
    """Whether a volume is one that the object's controller makes."""
    ends = _OBJECT_SUFFIXES.get(_key(source), ())
    return bool(ends) and (
        name in (*_OF_MPI, *ends) or name.endswith(tuple(f"-{end}" for end in ends))
    )


def _holder(volume: Any) -> str:
    """The Secret or ConfigMap that a volume is made of; "" for none."""
    return k8s.text(volume, "secret", "secretName") or k8s.text(volume, "configMap", "name")


def _pod_specs(values: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The spec of each pod template among values: the job's, and those of its roles."""
    return (k8s.mapping(template, "spec") for template in templates_of(values))


def _take_out_volumes(values: Any, objects: set[str]) -> dict[str, str]:
    """Take volumes of these objects out of the pods; the object of each, by the volume's name."""
    owners: dict[str, str] = {}
    for spec in _pod_specs(values) if objects else ():
        volumes = k8s.items(spec, "volumes")
        owners |= {
            k8s.text(item, "name"): _holder(item) for item in volumes if _holder(item) in objects
        }
        if len(remaining := [item for item in volumes if _holder(item) not in objects]) < len(
            volumes
        ):
            cast("dict[str, Any]", spec)["volumes"] = remaining
    return owners


def _is_volume(source: Any, keys: FieldPath, name: str) -> bool:
    """Whether a path is of the volume of this name, or of what is below it."""
    node = source
    for depth, step in enumerate(keys):
        if isinstance(node, list):
            if not isinstance(step, int) or step >= len(node):
                return False
            node = node[step]
            if keys[depth - 1] == "volumes":
                return k8s.text(node, "name") == name
        else:
            node = k8s.mapping(node).get(str(step))
    return False


def _declared(node: Any) -> set[str]:
    """The names of all volumes that a structure has."""
    if isinstance(node, dict):
        own = {k8s.text(item, "name") for item in k8s.items(node, "volumes")}
        return own.union(*(_declared(value) for value in node.values()))
    return set().union(*map(_declared, node)) if isinstance(node, list) else set()


def _volumes(spec: Mapping[str, Any]) -> set[str]:
    return {k8s.text(volume, "name") for volume in k8s.items(spec, "volumes")}


def _take_out(spec: Mapping[str, Any], volumes: set[str]) -> Iterator[str]:
    """Take mounts of other volumes than these out of a pod's containers; their names."""
    for key in ("initContainers", "containers"):
        for container in k8s.items(spec, key):
            mounts = k8s.items(container, "volumeMounts")
            remaining = [mount for mount in mounts if k8s.text(mount, "name") in volumes]
            yield from (
                k8s.text(mount, "name") or str(mount.get("name"))
                for mount in mounts
                if mount not in remaining
            )
            if remaining:
                container["volumeMounts"] = remaining
            else:
                container.pop("volumeMounts", None)


_MOUNTS = ("volumeMounts", "additionalMounts")  # the latter are a TorchrunJob's


def _mounts(node: Any, name: str, path: FieldPath) -> Iterator[FieldPath]:
    """Where a structure mounts a volume."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in _MOUNTS and isinstance(value, list):
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
