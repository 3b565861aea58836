"""Edits of manifests; every write goes through here, so that changes are known.

A document is printed anew only when something in it changed; anything else leaves as it came.
Null counts as absent, as it does for the API server: charts that render ``annotations:`` with
nothing under it are common.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Path = tuple[str | int, ...]


class Edit:
    """Edits one manifest, and records whether anything changed.

    Attributes:
        manifest: the object that is written to.
        where: how to name it to a user, ``stdin:12, Job "train"``.
        changed: whether any write made a difference.
        notes: what was not written, and why; for a person, who may want to change it.
    """

    __slots__ = ("changed", "manifest", "notes", "where")

    def __init__(self, manifest: dict[str, Any], location: str = "") -> None:
        self.manifest = manifest
        self.where = location
        self.changed = False
        self.notes: list[str] = []

    def get(self, path: Path) -> Any:
        """The value at a path; None where it is absent."""
        return get(self.manifest, path)

    def put(self, path: Path, value: Any) -> None:
        """Set the value at a path; missing maps are created."""
        if same(get(self.manifest, path), value):
            return
        holder = self._holder(path)
        holder[path[-1]] = value
        self.changed = True

    def default(self, path: Path, value: Any) -> None:
        """Set the value at a path, unless there is one."""
        if get(self.manifest, path) is None:
            self.put(path, value)

    def append(self, path: Path, item: Any) -> None:
        """Append an item to the list at a path, unless an equal one is in it."""
        items = get(self.manifest, path)
        if items is None:
            self.put(path, [item])
            return
        if not isinstance(items, list):
            self.refuse(path, f"is {kind_of(items)}, expected a list")
        if not any(same(item, present) for present in items):
            items.append(item)
            self.changed = True

    def drop(self, path: Path) -> None:
        """Remove the value at a path, where there is one."""
        if get(self.manifest, path) is not None:
            del self._holder(path)[path[-1]]
            self.changed = True

    def note(self, message: str, hint: str) -> None:
        """Add a note on what was left out, and how to change it."""
        self.notes.append(f"{self.where}: {message}; {hint}")

    def items(self, path: Path) -> list[Any]:
        """The list at a path, empty where it is absent."""
        items = get(self.manifest, path)
        if items is None:
            return []
        if not isinstance(items, list):
            self.refuse(path, f"is {kind_of(items)}, expected a list")
        return items

    def refuse(self, path: Path, message: str, hint: str = "") -> NoReturn:
        """Raise an `InputError` about a path of this manifest."""
        from allranks.errors import InputError

        raise InputError(message, path=show_path(path), hint=hint, source=self.where)

    def _holder(self, path: Path) -> Any:
        node: Any = self.manifest
        for depth, key in enumerate(path[:-1]):
            if isinstance(node, list) and isinstance(key, int) and key < len(node):
                node = node[key]
            elif isinstance(node, dict):
                if node.get(key) is None:
                    node[key] = {}
                node = node[key]
            else:
                self.refuse(path[:depth], f"is {kind_of(node)}, expected a map")
        if not isinstance(node, dict):
            self.refuse(path[:-1], f"is {kind_of(node)}, expected a map")
        return node


def get(node: Any, path: Path) -> Any:
    """The value at a path; None where it is absent."""
    for key in path:
        if isinstance(node, dict):
            node = node.get(key)
        elif isinstance(node, list) and isinstance(key, int) and key < len(node):
            node = node[key]
        else:
            return None
    return node


def same(first: Any, second: Any) -> bool:
    """Whether values are equal and of one type: ``1``, ``1.0``, ``True`` and ``"1"`` differ."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second)


def clone(value: Any) -> Any:
    """A deep copy of plain data, so that no two places of a manifest are one object."""
    if isinstance(value, dict):
        return {key: clone(item) for key, item in value.items()}
    return [clone(item) for item in value] if isinstance(value, list) else value


def show_path(path: Path) -> str:
    """A path as a user writes it: ``spec.containers[0].name``."""
    text = ""
    for key in path:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def kind_of(value: Any) -> str:
    """The type of a value, in a user's words."""
    names = {dict: "a map", list: "a list", str: "a string", bool: "a boolean"}
    return names.get(type(value), "nothing" if value is None else "a number")
