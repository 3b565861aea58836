"""An inventory from a file: a short form for people, or what kubectl prints.

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

import json
from pathlib import Path
from typing import Any

from allranks.errors import InputError
from allranks.layout import objects
from allranks.layout.inventory_form import read_nodes
from allranks.model.inventory import Inventory
from allranks.yamlio.document import Document
from allranks.yamlio.load import load as load_yaml

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


def _parse(text: bytes, source: str) -> Document:
    """JSON by the fast reader: kubectl's output of a large cluster has hundreds of megabytes."""
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
                return Document(data, source)
    return load_yaml(text, source)


def _from_kubectl(document: Document, gpu_resource: str) -> Inventory:
    data, source = document.data, document.source
    items = [data] if data.get("kind") == "Node" else data.get("items")
    if not isinstance(items, list) or not all(isinstance(each, dict) for each in items):
        raise InputError(
            "this is no inventory: it has neither `nodes` nor a list of Node objects",
            path="--inventory",
            hint=f"list the nodes under `nodes`, or make the file with `{_KUBECTL}`",
            source=f"{source}:1",
        )
    # The items of a NodeList, as the API itself answers, do not repeat their kind.
    fallback = str(data.get("kind") or "").removesuffix("List")
    kinds = [each.get("kind") or fallback for each in items]
    nodes = [each for each, kind in zip(items, kinds, strict=True) if kind == "Node"]
    pods = [each for each, kind in zip(items, kinds, strict=True) if kind == "Pod"]
    if not nodes:
        found = ", ".join(sorted({str(kind) for kind in kinds if kind})) or "nothing"
        raise InputError(
            f"the list holds no Node objects, but {found}",
            path="--inventory",
            hint=f"make the file with `{_KUBECTL}`",
            source=source,
        )
    _check_names(document, items, source)
    notes = () if pods else (f"{source} lists no pods, so every node counts as empty",)
    return objects.from_objects(nodes, pods, gpu_resource, source=source, notes=notes)


def _check_names(document: Document, items: list[dict[str, Any]], source: str) -> None:
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
