"""How many processes a worker has, where a plan gives it other GPUs than its template.

A template that has one process for each GPU means just that: with four GPUs in place of eight,
eight processes would share them, and with sixteen GPUs half would be idle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.elastic.resource import GPU
from allranks.status.fields import items, mapping

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.resource import Resource

_PROCESSES = "PET_NPROC_PER_NODE"


def per_gpu(container: Mapping[str, Any], resource: Resource | None) -> Mapping[str, Any]:
    """A template's container with a process for each GPU that its pod gets.

    Args:
        container: what the template says; one with another number of processes keeps it.
        resource: what a plan gives the pod; None for what the template says.
    """
    if resource is None or not resource.gpus:
        return container
    resources = mapping(container, "resources")
    amounts = {**mapping(resources, "requests"), **mapping(resources, "limits")}
    own = [str(each) for name, each in amounts.items() if name.partition("/")[2].endswith(GPU)]
    one_each = {"name": _PROCESSES, "value": own[0] if own else "1"}
    env = items(container, "env")
    if one_each not in env:
        return container
    given = {"name": _PROCESSES, "value": str(resource.gpus)}
    return {**container, "env": [given if entry == one_each else entry for entry in env]}
