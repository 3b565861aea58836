"""The pods of torchrun-controller for a TorchrunJob, as far as the job and its queue's size say."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING, Any

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import check_count, main, name_of, replica_count
from allranks.k8s.fields import count, items, mapping, text, texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.convert.documents.document import Manifest

_GPU = "nvidia.com/gpu"
_SHORT = ("gpu", "gpus")  # what two dialects call it
_QUEUES = ("TorchrunQueue", "JobQueue")
_OF_QUEUE = ("image", "imagePullPolicy")


def pods(manifest: Manifest, others: Iterable[Manifest] = ()) -> list[OriginalPod]:
    """The pods of a TorchrunJob.

    Args:
        manifest: the object.
        others: the objects beside it; its queue, whose image and GPUs it may have.
    """
    name, spec = name_of(manifest), mapping(manifest.get("spec"))
    queue = _queue(str(spec.get("queue") or spec.get("jobQueue") or ""), others)
    trainer = _trainer(queue)
    total, shape = replica_count(spec.get("numGPUs")), count(queue, "nodeResources", "gpus")
    nodes = replica_count(spec.get("numNodes") or spec.get("workers"))
    nodes = nodes or (math.ceil(total / shape) if shape else 0) or 1
    check_count(nodes)
    image = spec.get("image") or queue.get("image")
    container: dict[str, Any] = {key: trainer[key] for key in _OF_QUEUE if trainer.get(key)}
    container |= {"name": "trainer", "command": _command(spec)}
    container |= {"image": image} if image else {}
    if spec.get("image"):
        container.pop("imagePullPolicy", None)
    for key in ("env", "workingDir"):
        if spec.get(key):
            container[key] = spec[key]
    resources = _resources(spec)
    gpus = _gpus(spec) or math.ceil(total / nodes) or _gpus(trainer)
    if gpus:
        resources.setdefault("limits", {})[_GPU] = gpus
    container["resources"] = resources
    template = {"spec": {"containers": [container]}}
    return [
        OriginalPod(f"{name}-{index}", "node", index, template, "trainer") for index in range(nodes)
    ]


def _queue(name: str, others: Iterable[Manifest]) -> Mapping[str, Any]:
    """The spec of the queue of this name; an empty one where nobody gives it."""
    own = (mapping(item, "spec") for item in others if _is_queue(item) and name_of(item) == name)
    return next(own, {})


def _is_queue(manifest: Manifest) -> bool:
    return manifest.get("kind") in _QUEUES


def _trainer(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container of a queue's template that trains; an empty one where there is none."""
    template = mapping(queue, "podTemplate")
    name = main(template, "trainer")
    containers = items(template, "spec", "containers")
    return next((item for item in containers if text(item, "name") == name), {})


def _command(spec: Mapping[str, Any]) -> list[str]:
    """What bash ran: the command, or else the script, with the args behind it."""
    command, script, args = spec.get("command"), spec.get("script"), spec.get("args")
    if isinstance(command, list):
        return [*texts(command), *texts(args)]
    line = command or (f"python {script}" if script else None)
    behind = args if isinstance(args, str) else shlex.join(texts(args))
    return ["bash", "-c", f"{line} {behind}" if line and behind else line or ""]


def _resources(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The requests and limits without GPUs; what is neither is limits."""
    own = mapping(spec, "resources")
    kinds = {"requests", "limits"} & set(own)
    blocks = {kind: mapping(own, kind) for kind in sorted(kinds)} if kinds else {"limits": own}
    return {
        kind: {key: amount for key, amount in block.items() if key not in (_GPU, *_SHORT)}
        for kind, block in blocks.items()
    }


def _gpus(owner: Mapping[str, Any]) -> int:
    """The GPUs that a job or a container asks for: a pod's limit is its request as well."""
    own = mapping(owner, "resources")
    for key in (_GPU, *_SHORT):
        for block in (mapping(own, "limits"), mapping(own, "requests"), own):
            if number := replica_count(block.get(key)):
                return number
    return 0
