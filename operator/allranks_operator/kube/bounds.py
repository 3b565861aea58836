"""How much of an object is taken: depth, size, and what a namespace's objects take together; pure.

Kinds of ours keep fields that no schema knows, so that their authors may write what they like. An
object beyond these bounds is kept by its name alone, and said to be so: nothing else of it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.manifest import Manifest

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


class Unread(dict[str, Any]):
    """The name of an object that is not read; a class, so that no object can say it of itself.

    Attributes:
        why: why not, a clause.
    """

    __slots__ = ("why",)

    why: str


class Kept(dict[str, Any]):
    """An object that was weighed.

    Attributes:
        weight: about how many bytes it takes.
    """

    __slots__ = ("weight",)

    weight: int


def bounded(found: Manifest) -> Manifest:
    """The object with its weight, or its name alone where it is beyond the bounds."""
    weight, level = 0, [found]
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
            return unread(found, f"it has more than {WEIGHT_MAX >> 20} MiB")
        if not inner:
            kept = Kept(found)
            kept.weight = weight
            return kept
        level = inner
    return unread(found, f"it is nested more than {DEPTH_MAX} levels deep")


def unread(found: Mapping[str, Any], why: str) -> Unread:
    """What is kept of an object that is not read.

    Args:
        found: the object, or as much of it as names it.
        why: a clause.
    """
    metadata = found.get("metadata") or {}
    named = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion")
        if isinstance(metadata.get(key), str)
    }
    kept = Unread(kind=found.get("kind"), apiVersion=found.get("apiVersion"), metadata=named)
    kept.why = why
    return kept


def weight(found: Manifest | None) -> int:
    """What an object takes, as it was weighed; 0 for one that is kept by its name alone."""
    return found.weight if isinstance(found, Kept) else 0
