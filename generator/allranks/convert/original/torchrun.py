"""The pods of torchrun-controller for a TorchrunJob, as far as the job itself describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import name_of
from allranks.k8s.fields import count, mapping

if TYPE_CHECKING:
    from allranks.convert.registry import Manifest


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of a TorchrunJob.

    Args:
        manifest: the object.
    """
    name, spec = name_of(manifest), mapping(manifest.get("spec"))
    nodes = count(spec.get("numNodes") or spec.get("workers") or 1)
    container: dict[str, Any] = {"name": "trainer", "command": ["bash", "-c", spec.get("command")]}
    for key in ("image", "env", "resources", "workingDir"):
        if spec.get(key):
            container[key] = spec[key]
    return [
        OriginalPod(
            f"{name}-{index}", "node", index, {"spec": {"containers": [container]}}, "trainer"
        )
        for index in range(nodes)
    ]
