"""Lists, mappings and texts that stand in each other's place in a pod: ``env: {LR: "0.1"}``.

The API server refuses such an object, so that nobody knows what a person meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.inputs.pod_fields import Tree
    from allranks.convert.verdicts import FieldPath

# Whoever reads them says how words are written as a list.
_WORDS = ("command", "args")
_LIST, _MAPPING, _TEXT = "a list", "a mapping", "a text"
_HINTS = {
    _LIST: "begin each item with a dash",
    _MAPPING: "write KEY: VALUE, without a dash",
    _TEXT: "put quotes around what is meant",
    "env": "write each variable as an item: - {name: NAME, value: VALUE}",
}


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a field in one of its pod templates.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, value, shape in _in_pods(manifest):
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        raise InputError(
            f"it is {_shape(value)}, and Kubernetes takes {shape}",
            path=dotted(path),
            hint=_HINTS.get(name if isinstance(value, dict) else "", _HINTS[shape]),
        )


def _in_pods(manifest: Mapping[str, Any]) -> Iterator[tuple[FieldPath, Any, str]]:
    """The fields of an object's templates that have another shape, with their value and it."""
    for path, spec in pod_fields.pod_specs(manifest):
        yield from _in_pod(spec, pod_fields.tree()["spec"], path)


def _in_pod(node: Any, tree: Tree, path: FieldPath) -> Iterator[tuple[FieldPath, Any, str]]:
    is_blank = isinstance(node, str) and (not node or template_blanks.in_number(node))
    if not tree and path[-1] == "value" and isinstance(node, list | dict):
        yield path, node, _TEXT
    if not tree or node is None or is_blank or path[-1] in _WORDS:
        return
    shape = _LIST if "[]" in tree else _MAPPING
    if _shape(node) != shape:
        yield path, node, shape
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _in_pod(item, tree["[]"], (*path, index))
    else:
        for key, value in node.items():
            yield from _in_pod(value, tree.get(key) or tree.get("*") or {}, (*path, key))


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return _LIST
    if isinstance(value, dict):
        return _MAPPING
    return "a text" if isinstance(value, str) else "a boolean or a number"
