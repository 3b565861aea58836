"""Where a pod template names one of its containers, by the name that this container has here.

The container that trains is called trainer, whatever it was called. A variable that reads its
limits by the old name would keep the pod from starting, and so would an annotation of AppArmor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

REASON = "the container that it names is called trainer here"

# Annotations whose keys end with the name of a container.
_ANNOTATIONS = (
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
)


def renamed(value: Any, new_names: Mapping[str, str]) -> Any:
    """A piece of a pod template, with the new names of containers where it reads their resources.

    Args:
        value: the piece.
        new_names: the new names, by the old ones.
    """
    if isinstance(value, list):
        return [renamed(item, new_names) for item in value]
    if not isinstance(value, dict):
        return value
    piece = {key: renamed(item, new_names) for key, item in value.items()}
    reference = piece.get("resourceFieldRef")
    if isinstance(reference, dict):
        name = reference.get("containerName")
        if isinstance(name, str) and name in new_names:
            piece["resourceFieldRef"] = {**reference, "containerName": new_names[name]}
    return piece


def places(value: Any, new_names: Mapping[str, str], path: FieldPath = ()) -> Iterator[FieldPath]:
    """Where a piece of a pod template has the old name of a container.

    Args:
        value: the piece, as the object has it.
        new_names: the new names, by the old ones.
        path: its path, which the places begin with.
    """
    if path[-2:] == ("resourceFieldRef", "containerName"):
        if isinstance(value, str) and value in new_names:
            yield path
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, new_names, (*path, key))


def renamed_key(key: str, new_names: Mapping[str, str]) -> str:
    """An annotation's key, with the new name of the container that it is for."""
    prefix = next((prefix for prefix in _ANNOTATIONS if key.startswith(prefix)), "")
    return prefix + new_names.get(key[len(prefix) :], key[len(prefix) :]) if prefix else key
