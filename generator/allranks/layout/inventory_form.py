"""The short inventory form, read strictly: every mistake is named with its line.

`inventory_file` documents the form and opens the file; this module turns its `nodes` into `Node`
values. Unknown keys are refused with the nearest known one, because a mistyped ``fre:`` would
otherwise silently count busy GPUs as free.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.model import quantity
from allranks.model.inventory import NOTHING, Amount, Node, Taint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.yamlio.document import Document

_TOP = ("gpuResource", "nodes")
_AMOUNTS = ("gpus", "cpu", "memory", "resources")
_NODE = (
    *("name", "count", "gpus", "cpu", "memory", "resources", "free", "gpuType"),
    *("rack", "block", "labels", "taints", "schedulable"),
)
_TAINT = ("key", "value", "effect")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# A slip of the keyboard in `count` should not fill the memory.
_MOST_NODES = 100_000

Path = tuple[str | int, ...]


def read_nodes(document: Document) -> tuple[Node, ...]:
    """The nodes of a file in the short form.

    Args:
        document: the file; its `nodes` is a list.

    Raises:
        InputError: something in it is not as documented; `source` is ``file:line``.
    """
    top = _Reader(document, (), document.data)
    top.known(_TOP)
    top.text("gpuResource")
    entries = document.data["nodes"]
    if not isinstance(entries, list):
        raise top.wrong("nodes", "a list of nodes", "start each node with `- name:`")
    names: dict[str, int] = {}
    found: list[Node] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise top.wrong("nodes", "a list of mappings", "start each node with `- name:`", index)
        reader = _Reader(document, ("nodes", index), entry)
        for node in _nodes(reader):
            if node.name in names:
                raise reader.error(
                    "name",
                    f"{node.name!r} is the name of nodes[{names[node.name]}] already",
                    "give every node a name of its own",
                )
            names[node.name] = index
            found.append(node)
        if len(found) > _MOST_NODES:
            raise reader.error("count", f"more than {_MOST_NODES} nodes", "check the count")
    return tuple(found)


def _nodes(entry: _Reader) -> Iterator[Node]:
    """The node of an entry, or all nodes of a group."""
    entry.known(_NODE)
    name = entry.text("name")
    if not name:
        raise entry.error("", "the node has no name", "add `name:`")
    count = entry.number("count", least=1) if "count" in entry.data else None
    if count is not None and count > _MOST_NODES:
        raise entry.error("count", f"{count} is more than {_MOST_NODES} nodes", "check the count")
    free = entry.child("free")
    free.known(_AMOUNTS)
    node = Node(
        name=name,
        gpus=_amount(entry, free, "gpus") or NOTHING,
        cpu=_amount(entry, free, "cpu"),
        memory=_amount(entry, free, "memory"),
        other=_others(entry.child("resources"), free.child("resources")),
        gpu_type=entry.text("gpuType"),
        labels=entry.child("labels").texts(),
        taints=tuple(_taints(entry)),
        rack=entry.text("rack"),
        block=entry.text("block"),
        blocked="" if entry.flag("schedulable", default=True) else "not schedulable",
    )
    if count is None:
        yield node
        return
    rest = {name: getattr(node, name) for name in Node.__slots__ if name != "name"}
    for number in range(count):
        yield Node(name=f"{name}-{number}", **rest)


def _amount(entry: _Reader, free: _Reader, key: str) -> Amount | None:
    total, left = entry.units(key), free.units(key)
    if total is None and left is None:
        return None
    if total is None or left is None:
        known = left if total is None else total
        return Amount(known or 0, known or 0)
    if left > total:
        raise free.error(
            key,
            f"{free.data[key]} is free of {entry.data[key]}",
            "free is at most what the node has",
        )
    return Amount(total, left)


def _others(entry: _Reader, free: _Reader) -> dict[str, Amount]:
    found = {}
    for key in [*entry.data, *(key for key in free.data if key not in entry.data)]:
        amount = _amount(entry, free, str(key))
        if amount is not None:
            found[str(key)] = amount
    return found


def _taints(entry: _Reader) -> Iterator[Taint]:
    taints = entry.data.get("taints") or []
    if not isinstance(taints, list):
        raise entry.wrong("taints", "a list of taints", "write `taints: [{key: …, effect: …}]`")
    for index, taint in enumerate(taints):
        if not isinstance(taint, dict):
            raise entry.wrong("taints", "a list of mappings", "write `- key: …`", index)
        reader = _Reader(entry.document, (*entry.path, "taints", index), taint)
        reader.known(_TAINT)
        key, effect = reader.text("key"), reader.text("effect") or _EFFECTS[0]
        if not key:
            raise reader.error("", "the taint has no key", "add `key:`")
        if effect not in _EFFECTS:
            raise reader.error(
                "effect", f"{effect!r} is no taint effect", f"use {', '.join(_EFFECTS)}"
            )
        yield Taint(key, reader.text("value"), effect)


@dataclass(frozen=True, slots=True)
class _Reader:
    """A mapping of the file, with its place in it."""

    document: Document
    path: Path
    data: dict[str, Any]

    def error(self, key: str, message: str, hint: str, *more: int) -> InputError:
        path = (*self.path, key, *more) if key else self.path
        return InputError(message, path=_spoken(path), hint=hint, source=self.document.where(path))

    def wrong(self, key: str, wanted: str, hint: str, *more: int) -> InputError:
        found: Any = self.data[key]
        for index in more:
            found = found[index]
        return self.error(key, f"must be {wanted}, got {found!r:.60}", hint, *more)

    def known(self, keys: tuple[str, ...]) -> None:
        for key in self.data:
            if key in keys:
                continue
            near = difflib.get_close_matches(str(key), keys, n=1)
            fix = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(keys)}"
            raise self.error(str(key), "unknown key", fix)

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.wrong(key, "a string", f'quote it: "{value}"')
        return value

    def number(self, key: str, least: int) -> int:
        value = self.data[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.wrong(key, f"a whole number from {least}", "write it without a unit")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.data.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false", "write true or false")
        return value

    def units(self, key: str) -> int | None:
        """An amount in the scheduler's units; None where the file has none."""
        if self.data.get(key) is None:
            return None
        if key == "gpus":
            return self.number(key, least=0)
        try:
            units = quantity.capacity_units(key, self.data[key])
        except InputError as error:
            raise self.error(key, error.problem.message, error.problem.hint) from error
        if units < 0:
            raise self.error(key, f"{self.data[key]} is negative", "use 0 or more")
        return units

    def child(self, key: str) -> _Reader:
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "a mapping", "write `key: value` lines")
        return _Reader(self.document, (*self.path, key), value or {})

    def texts(self) -> dict[str, str]:
        return {str(key): self.text(key) for key in self.data}


def _spoken(path: Path) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
