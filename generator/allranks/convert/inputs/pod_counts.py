"""Numbers of pods below zero, which no controller makes: totals would be less by them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

# What the kinds call them.
_NUMBERS = frozenset(
    (
        *("replicas", "minReplicas", "maxReplicas", "num_replicas"),
        *("completions", "parallelism", "numNodes", "numWorkers"),
    )
)


def refuse(manifest: Mapping[str, Any]) -> None:
    """Refuse an object with such a number.

    Args:
        manifest: the object.

    Raises:
        InputError: it has one.
    """
    for path, number in _negative(manifest, ()):
        raise InputError(
            f"{number} is less than the least number, which is 0",
            path=dotted(path),
            hint="write how many there are to be",
        )


def _negative(node: Any, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    if pod_fields.is_template(node) or not isinstance(node, dict | list):
        return
    for step, value in node.items() if isinstance(node, dict) else enumerate(node):
        if step in _NUMBERS and isinstance(value, int) and value < 0:
            yield (*path, step), value
        else:
            yield from _negative(value, (*path, step))
