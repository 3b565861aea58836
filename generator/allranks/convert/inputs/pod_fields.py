"""The fields that pod templates have, as a tree; `make gen-pod-fields` writes `pod_fields.txt`."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath

# The fields below each; ``[]`` for the items of a list, ``*`` for keys that a person makes up, and
# nothing below a text, a number and a boolean.
Tree = dict[str, Any]
# Mappings whose keys a person makes up, and none of them is a field.
OWN_KEYS = ("labels", "annotations", "data", "nodeSelector")
_OF_PEOPLE = (*OWN_KEYS, "matchLabels")


@functools.cache
def tree() -> Tree:
    """The fields of a template."""
    whole: Tree = {}
    text = Path(__file__).with_name("pod_fields.txt").read_text(encoding="utf-8")
    for path in text.split():
        node = whole
        for step in path.replace("[]", ".[]").split("."):
            node = node.setdefault(step, {})
    return whole


@functools.cache
def names() -> frozenset[str]:
    """The names of all fields, at whatever place."""
    return frozenset(_names(tree()))


def _names(node: Tree) -> Iterator[str]:
    for name, below in node.items():
        yield name
        yield from _names(below)


def texts(node: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """The fields below a node of an object that are one text, each with its path.

    Those whose keys a person makes up, as labels', are not among them.

    Args:
        node: the node.
        path: where it stands.
    """
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from texts(item, (*path, index))
    for key, value in node.items() if isinstance(node, dict) else ():
        if isinstance(value, str):
            yield (*path, key), value
        elif key not in _OF_PEOPLE:
            yield from texts(value, (*path, key))


def pod_specs(node: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    """The specs of the pod templates in a node of an object, each with its path.

    Args:
        node: the node.
        path: where it stands.
    """
    if is_template(node):
        yield (*path, "spec"), node["spec"]
    elif isinstance(node, dict | list):
        for step, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from pod_specs(value, (*path, step))


def is_template(node: Any) -> bool:
    """Whether a node of an object is a pod template."""
    spec = node.get("spec") if isinstance(node, dict) else None
    return isinstance(spec, dict) and isinstance(spec.get("containers"), list)
