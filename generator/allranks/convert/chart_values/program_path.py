"""A PATH of containers that has none of the folders of the system's own programs.

Kubernetes puts nothing in for ``$PATH`` in a variable's text, so that a PATH to which a person has
added is often that addition alone. A program that was started by its whole path ran all the same;
what the chart starts before it calls programs by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import FieldPath, Fields

_SYSTEM = ("/bin", "/usr/bin")
# As container runtimes set it where an image has none.
_USUAL = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_WHY = (
    f"{_USUAL} stands behind it: without /bin and /usr/bin the chart's own programs are not there "
    "(Kubernetes puts nothing in for $PATH)"
)


def complete(fields: Fields) -> None:
    """Put the usual folders behind each PATH that has none of the system's.

    Args:
        fields: the object, converted.
    """
    for env in _environments(fields.values):
        value = k8s.text(env, "PATH")
        if value and "$(" not in value and not set(_folders(value)) & set(_SYSTEM):
            env["PATH"] = f"{value}:{_USUAL}"
            for path in _places(fields.source, (), value):
                fields.change((*path, "value"), _WHY)


def _folders(path: str) -> Iterator[str]:
    return (folder.rstrip("/") or "/" for folder in path.split(":"))


def _environments(node: Any) -> Iterator[dict[str, Any]]:
    """The ``env`` of a job's values, and those of its roles; a template's is a list."""
    for key, value in node.items() if isinstance(node, dict) else ():
        if key == "env" and isinstance(value, dict):
            yield value
        elif key not in ("env", "podTemplate"):
            yield from _environments(value)


def _places(node: Any, path: FieldPath, value: str) -> Iterator[FieldPath]:
    """Where an object has a variable PATH of this text."""
    for step, item in node.items() if isinstance(node, dict) else enumerate(node):
        here: FieldPath = (*path, step)
        if isinstance(item, dict) and (item.get("name"), item.get("value")) == ("PATH", value):
            yield here
        elif isinstance(item, dict | list):
            yield from _places(item, here, value)
