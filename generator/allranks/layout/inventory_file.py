"""Read an inventory from a file: a short form, or kubectl's output.

The short form names only what matters; an amount that is left out is unknown and limits nothing::

    gpuResource: nvidia.com/gpu          # optional: what `gpus` counts
    nodes:
      - name: gpu-01
        gpus: 8
        cpu: 96                          # as the node's allocatable
        memory: 1Ti
        free: {gpus: 6, cpu: 40}         # what no pod has asked yet; all of it where left out
        gpuType: NVIDIA-H100-80GB-HBM3
        rack: r1                         # or by the labels of scheduling.topology.labels
        block: b1
        labels: {team: vision}
        taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
        resources: {rdma/hca: 8}         # further resources, also under `free`
        schedulable: true
      - name: a100                       # a100-0 … a100-31
        count: 32
        gpus: 8
        rack: r2

From a cluster: ``kubectl get nodes,pods -A -o json > inventory.json`` (or yaml). Without the pods
every node counts as empty, and a note says so.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.k8s import quantity
from allranks.layout import inventory_objects
from allranks.model.inventory import NOTHING, Amount, Inventory, Node, Taint
from allranks.yamlio.document import ValuesDocument
from allranks.yamlio.load import load as load_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator


_DEFAULT_GPU = "nvidia.com/gpu"
_KUBECTL = "kubectl get nodes,pods -A -o json"


def load(path: str | Path, gpu_resource: str = _DEFAULT_GPU) -> Inventory:
    """Read an inventory file, in either form.

    Args:
        path: the file.
        gpu_resource: the resource that counts as a GPU, where the file holds Kubernetes objects.

    Raises:
        InputError: the file is missing or is no inventory; `source` is ``file:line``.
    """
    source = str(path)
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        raise InputError(
            f"the inventory cannot be read: {error.strerror or error}",
            path="--inventory",
            hint=f"check the name, or make it with `{_KUBECTL}`",
            source=source,
        ) from error
    if not text.strip():
        raise InputError(
            "the inventory is empty",
            path="--inventory",
            hint=f"list the nodes, or make it with `{_KUBECTL}`",
            source=source,
        )
    document = _parse(text, source)
    data = document.data
    if "nodes" in data and "items" not in data:
        return Inventory(
            read_nodes(document),
            str(data.get("gpuResource") or ""),
            source,
            partial=True,
        )
    return _from_kubectl(document, gpu_resource)


def _parse(text: bytes, source: str) -> ValuesDocument:
    """Parse JSON with the fast reader: kubectl's output may have hundreds of megabytes."""
    if text.lstrip()[:1] == b"{":
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            # Flow-style YAML starts with a brace too, and YAML's own errors name the line.
            if b'"items"' in text:
                raise InputError(
                    f"not valid JSON: {error.msg}",
                    hint="write the file again; it may have been cut off",
                    source=f"{source}:{error.lineno}",
                ) from error
        except UnicodeDecodeError:
            pass  # the YAML reader says where
        else:
            if isinstance(data, dict) and "items" in data:
                return ValuesDocument(data, source)
    return load_yaml(text, source)


def _from_kubectl(document: ValuesDocument, gpu_resource: str) -> Inventory:
    data, source = document.data, document.source
    items = [data] if data.get("kind") == "Node" else data.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise InputError(
            "this is no inventory: it has neither `nodes` nor a list of Node objects",
            path="--inventory",
            hint=f"list the nodes under `nodes`, or make the file with `{_KUBECTL}`",
            source=f"{source}:1",
        )
    # The items of a NodeList, as the API itself answers, do not repeat their kind.
    fallback = str(data.get("kind") or "").removesuffix("List")
    kinds = [item.get("kind") or fallback for item in items]
    nodes = [item for item, kind in zip(items, kinds, strict=True) if kind == "Node"]
    pods = [item for item, kind in zip(items, kinds, strict=True) if kind == "Pod"]
    if not nodes:
        kinds_text = ", ".join(sorted({str(kind) for kind in kinds if kind})) or "nothing"
        raise InputError(
            f"the list holds no Node objects, but {kinds_text}",
            path="--inventory",
            hint=f"make the file with `{_KUBECTL}`",
            source=source,
        )
    _check_names(document, items, source)
    notes = () if pods else (f"{source} lists no pods, so every node counts as empty",)
    return inventory_objects.from_objects(nodes, pods, gpu_resource, source=source, notes=notes)


def _check_names(document: ValuesDocument, items: list[dict[str, Any]], source: str) -> None:
    for index, item in enumerate(items):
        metadata = item.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            line = document.line(("items", index))
            raise InputError(
                f"items[{index}] has no metadata.name",
                path="--inventory",
                hint=f"make the file with `{_KUBECTL}`",
                source=f"{source}:{line}" if line else source,
            )


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

ItemPath = tuple[str | int, ...]


def read_nodes(document: ValuesDocument) -> tuple[Node, ...]:
    """The nodes of a file in the short form.

    Args:
        document: the file; its `nodes` is a list.

    Raises:
        InputError: something in it is not as documented; `source` is ``file:line``.
    """
    top = _MappingReader(document, (), document.data)
    top.allow_only(_TOP)
    top.text("gpuResource")
    entries = document.data["nodes"]
    if not isinstance(entries, list):
        raise top.wrong("nodes", "a list of nodes", "start each node with `- name:`")
    names: dict[str, int] = {}
    nodes: list[Node] = []
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise top.wrong("nodes", "a list of mappings", "start each node with `- name:`", index)
        reader = _MappingReader(document, ("nodes", index), entry)
        for node in _nodes(reader):
            if node.name in names:
                raise reader.error(
                    "name",
                    f"{node.name!r} is the name of nodes[{names[node.name]}] already",
                    "give every node a name of its own",
                )
            names[node.name] = index
            nodes.append(node)
        if len(nodes) > _MOST_NODES:
            raise reader.error("count", f"more than {_MOST_NODES} nodes", "check the count")
    return tuple(nodes)


def _nodes(entry: _MappingReader) -> Iterator[Node]:
    """The node of an entry, or all nodes of a group."""
    entry.allow_only(_NODE)
    name = entry.text("name")
    if not name:
        raise entry.error("", "the node has no name", "add `name:`")
    count = entry.number("count", least=1) if "count" in entry.data else None
    if count is not None and count > _MOST_NODES:
        raise entry.error("count", f"{count} is more than {_MOST_NODES} nodes", "check the count")
    free = entry.child("free")
    free.allow_only(_AMOUNTS)
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


def _amount(entry: _MappingReader, free: _MappingReader, key: str) -> Amount | None:
    total, available = entry.units(key), free.units(key)
    if total is None and available is None:
        return None
    if total is None or available is None:
        amount = available if total is None else total
        return Amount(amount or 0, amount or 0)
    if available > total:
        raise free.error(
            key,
            f"{free.data[key]} is free of {entry.data[key]}",
            "free is at most what the node has",
        )
    return Amount(total, available)


def _others(entry: _MappingReader, free: _MappingReader) -> dict[str, Amount]:
    amounts = {}
    for key in [*entry.data, *(key for key in free.data if key not in entry.data)]:
        amount = _amount(entry, free, str(key))
        if amount is not None:
            amounts[str(key)] = amount
    return amounts


def _taints(entry: _MappingReader) -> Iterator[Taint]:
    taints = entry.data.get("taints") or []
    if not isinstance(taints, list):
        raise entry.wrong("taints", "a list of taints", "write `taints: [{key: …, effect: …}]`")
    for index, taint in enumerate(taints):
        if not isinstance(taint, dict):
            raise entry.wrong("taints", "a list of mappings", "write `- key: …`", index)
        reader = _MappingReader(entry.document, (*entry.path, "taints", index), taint)
        reader.allow_only(_TAINT)
        key, effect = reader.text("key"), reader.text("effect") or _EFFECTS[0]
        if not key:
            raise reader.error("", "the taint has no key", "add `key:`")
        if effect not in _EFFECTS:
            raise reader.error(
                "effect", f"{effect!r} is no taint effect", f"use {', '.join(_EFFECTS)}"
            )
        yield Taint(key, reader.text("value"), effect)


@dataclass(frozen=True, slots=True)
class _MappingReader:
    """A mapping of the file, with its position for errors."""

    document: ValuesDocument
    path: ItemPath
    data: dict[str, Any]

    def error(self, key: str, message: str, hint: str, *more: int) -> InputError:
        path = (*self.path, key, *more) if key else self.path
        return InputError(
            message, path=_path_text(path), hint=hint, source=self.document.where(path)
        )

    def wrong(self, key: str, allowed: str, hint: str, *more: int) -> InputError:
        value: Any = self.data[key]
        for index in more:
            value = value[index]
        return self.error(key, f"must be {allowed}, got {value!r:.60}", hint, *more)

    def allow_only(self, keys: tuple[str, ...]) -> None:
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
        """An amount in the scheduler's units; None where it is missing."""
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

    def child(self, key: str) -> _MappingReader:
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "a mapping", "write `key: value` lines")
        return _MappingReader(self.document, (*self.path, key), value or {})

    def texts(self) -> dict[str, str]:
        return {str(key): self.text(key) for key in self.data}


def _path_text(path: ItemPath) -> str:
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text
