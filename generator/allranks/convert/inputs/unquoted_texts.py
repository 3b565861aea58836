"""Booleans and numbers where Kubernetes takes a text: a label `spot: yes`, a variable of `1.10`.

YAML 1.1 reads y, n, yes, no, on and off as booleans, and 1.10 as 1.1. Kubernetes refuses such an
object, so that what a person meant is not known; the values have what YAML reads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import dotted
from allranks.k8s.fields import as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

_MAPPINGS = ("labels", "annotations", "nodeSelector", "matchLabels")
_LISTS = ("command", "args")


def notes(
    manifest: Mapping[str, Any],
    token_of: Callable[[FieldPath], str],
    place_of: Callable[[FieldPath], str],
) -> Iterator[str]:
    """A sentence for each boolean and number that stands where Kubernetes takes a text.

    Args:
        manifest: the object.
        token_of: how the value of a field is written; "" where that is not known.
        place_of: the file of a field, and its line where that is known.
    """
    for path, value in _plain(manifest, ()):
        token = token_of(path) or json.dumps(value)
        kind = "a boolean" if isinstance(value, bool) else "a number"
        yield (
            f"{dotted(path)}: {token} is {kind} without quotes, and Kubernetes takes a text: it is "
            f'"{as_text(value)}" here; put quotes around what is meant ({place_of(path)})'
        )


def _plain(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, bool | float]]:
    """The booleans and numbers below a node that ought to be texts, with their paths."""
    if isinstance(node, list):
        for index, item in enumerate(node):
            yield from _plain(item, (*path, index))
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        here: FieldPath = (*path, key)
        if key in _MAPPINGS and isinstance(value, dict):
            entries = [((*here, name), item) for name, item in value.items()]
        elif key in _LISTS and isinstance(value, list):
            entries = [((*here, index), item) for index, item in enumerate(value)]
        elif key == "value" and path[-2:-1] == ("env",):
            entries = [(here, value)]
        else:
            yield from _plain(value, here)
            continue
        for place, item in entries:
            if isinstance(item, bool | int | float):
                yield place, item
