"""Where an object has containers, whatever its kind: below each key of a pod that lists some."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath
    from allranks.k8s.manifest import Manifest

KINDS = ("initContainers", "containers")


def of(node: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, Manifest, Manifest]]:
    """All containers of an object: where each stands, the spec of its pod, and itself.

    Args:
        node: the object, or a part of it.
        path: where the part stands.
    """
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from of(item, (*path, index))
    elif isinstance(node, dict):
        for key, value in node.items():
            if key not in KINDS:
                yield from of(value, (*path, key))
                continue
            for index, container in k8s.numbered_items(node, key):
                yield (*path, key, index), node, container
