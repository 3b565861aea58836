"""Limits on objects: their depth, their size, and the total of a namespace; pure.

Our kinds keep unknown fields, so their authors can write anything. Of an object beyond these limits
only a stub with its name is kept, and its author is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.k8s.manifest import Manifest

# A pod's template in a job is some fifteen deep.
DEPTH_MAX = 64
TOO_DEEP = "it is nested too deep to be read"
# All that etcd takes (1.5 MiB), but no list of a hundred thousand nothings.
WEIGHT_MAX = 2 << 20
# Of the objects of one kind in one namespace together.
SPACE_MAX = 32 << 20
# What a value costs beside its text.
_VALUE = 16
KINDS = frozenset({names.ELASTIC_JOB, names.SCALE_PLAN, names.TRAINING_RUN})


class UnreadObject(dict[str, Any]):
    """A stub with the name of an object that is not read; a class, so no object can pose as it.

    Attributes:
        reason: why it is not read, as a clause.
    """

    __slots__ = ("reason",)

    reason: str


class WeighedObject(dict[str, Any]):
    """An object with its size.

    Attributes:
        weight: about how many bytes it takes.
    """

    __slots__ = ("weight",)

    weight: int


def bound(manifest: Manifest) -> Manifest:
    """The object with its size; a stub where it is beyond the limits."""
    weight, level = 0, [manifest]
    for _ in range(DEPTH_MAX):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
                weight += sum(map(len, value))
            elif isinstance(value, list):
                inner.extend(value)
            elif isinstance(value, str):
                weight += len(value)
        weight += _VALUE * len(inner)
        if weight > WEIGHT_MAX:
            return unread(manifest, f"it has more than {WEIGHT_MAX >> 20} MiB")
        if not inner:
            weighed = WeighedObject(manifest)
            weighed.weight = weight
            return weighed
        level = inner
    return unread(manifest, f"it is nested more than {DEPTH_MAX} levels deep")


def unread(manifest: Mapping[str, Any], reason: str) -> UnreadObject:
    """The stub of an object that is not read.

    Args:
        manifest: the object, or as much of it as names it.
        reason: a clause.
    """
    metadata = manifest.get("metadata") or {}
    known_metadata = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion")
        if isinstance(metadata.get(key), str)
    }
    stub = UnreadObject(
        kind=manifest.get("kind"), apiVersion=manifest.get("apiVersion"), metadata=known_metadata
    )
    stub.reason = reason
    return stub


def weight(manifest: Manifest | None) -> int:
    """The size of an object in bytes; 0 for a stub."""
    return manifest.weight if isinstance(manifest, WeighedObject) else 0
