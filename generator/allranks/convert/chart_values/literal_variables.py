"""Variables of containers whose text a program for templates is still to fill in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert import template_blanks
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath, Fields


def take_out(fields: Fields) -> None:
    """Take such variables out of the values.

    Args:
        fields: the object, converted.
    """
    for path, entry in _entries(fields.get(), ()):
        name, value = k8s.text(entry, "name"), k8s.text(entry, "value")
        if template_blanks.is_variable(value) and _is_removed(fields.values, name, value):
            why = f"Kubernetes puts nothing in for {value}: {template_blanks.HINT}"
            fields.leave((*path, "value"), why)


def _entries(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    """The entries of ``env`` below a place of an object."""
    for step, value in node.items() if isinstance(node, dict) else enumerate(node):
        here: FieldPath = (*path, step)
        if path[-1:] == ("env",) and isinstance(node, list):
            yield here, value
        elif isinstance(value, dict | list):
            yield from _entries(value, here)


def _is_removed(node: Any, name: str, value: str) -> bool:
    """Take a variable of this value out of each ``env``, and say whether one had it."""
    is_removed = False
    for key, below in list(node.items()) if isinstance(node, dict) else enumerate(node):
        if key == "env" and isinstance(below, dict) and below.get(name) == value:
            del below[name]
            is_removed = True
        elif key == "env" and isinstance(below, list):
            others = [item for item in below if item != {"name": name, "value": value}]
            is_removed |= len(others) < len(below)
            below[:] = others
        if isinstance(below, dict | list):
            is_removed |= _is_removed(below, name, value)
    return is_removed
