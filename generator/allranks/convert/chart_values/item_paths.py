"""Paths of items in structures: of one with a name, and of what was made of another item."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from allranks.convert.verdicts import FieldPath, Named

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def place_of(values: Mapping[str, Any], to: FieldPath) -> FieldPath:
    """A path with the places of named items in their lists; () where there is no such item.

    Args:
        values: the values.
        to: the path.
    """
    node: Any = values
    place: list[str | int] = []
    for step in to:
        if isinstance(step, Named):
            items = node if isinstance(node, list) else []
            index = next(
                (
                    number
                    for number, item in enumerate(items)
                    if isinstance(item, dict) and item.get("name") == step
                ),
                None,
            )
            if index is None:
                return ()
            place.append(index)
            node = items[index]
        else:
            place.append(step)
            node = node.get(step) if isinstance(node, dict) else None
    return tuple(place)


def same_place(node: Any, other: Any, path: FieldPath) -> FieldPath | None:
    """Where one of two structures has what the other has at a place: one was made of the other.

    An item is at the same index of lists of the same length. In others it is looked for, by its
    name at last.

    Args:
        node: the structure in which the place is known.
        other: the one in which it is looked for.
        path: the place.

    Returns:
        The place; None where there is none.
    """
    place: list[str | int] = []
    for step in path:
        if isinstance(node, list) and isinstance(other, list) and isinstance(step, int):
            if step >= len(node):
                return None
            has_all = len(node) == len(other)
            index = step if has_all else _index_of(node[step], other)
            if index is None:
                return None
            node, other = node[step], other[index]
            place.append(index)
        elif isinstance(node, dict) and isinstance(other, dict) and step in node and step in other:
            node, other = node[step], other[step]
            place.append(step)
        else:
            return None
    return tuple(place)


def _index_of(item: Any, items: Sequence[Any]) -> int | None:
    """The index of an item among others: of the same, or else of one with its name."""
    name = _name(item)
    same = (index for index, other in enumerate(items) if other == item)
    namesakes = (index for index, other in enumerate(items) if name and _name(other) == name)
    return next(itertools.chain(same, namesakes), None)


def _name(item: Any) -> Any:
    """The name of an item, which may be a name alone, as those of pull secrets are here."""
    return item.get("name") if isinstance(item, dict) else item
