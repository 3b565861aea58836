"""Downward API: what ``fieldRef`` and ``resourceFieldRef`` stand for on this machine."""

from __future__ import annotations

import math
import os
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from allranks.errors import InputError
from allranks.model import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.local.plan import PodPlan

_KEYED = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")
_HOST_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod with what it only has once it runs: a uid and an address."""

    plan: PodPlan
    uid: str
    address: str


def field_value(pod: Placed, path: str) -> str:
    """What a ``fieldRef`` gives.

    Args:
        pod: the pod that refers to itself.
        path: the ``fieldPath``.

    Raises:
        InputError: there is no such field.
    """
    metadata = pod.plan.manifest["metadata"]
    keyed = _KEYED.fullmatch(path)
    if keyed:
        return str(metadata[keyed["map"]].get(keyed["key"], ""))
    value = _FIELDS.get(path)
    if value is None:
        raise InputError(
            f"fieldPath {path!r} is not known",
            path=f"Pod/{pod.plan.name}",
            hint=f"use one of {', '.join(sorted(_FIELDS))}",
        )
    return value(pod)


def _listed(pod: Placed, name: str) -> str:
    """Labels or annotations in the format of downward API files, sorted by key."""
    pairs: Mapping[str, str] = pod.plan.manifest["metadata"][name]
    return "\n".join(f"{key}={_quoted(str(pairs[key]))}" for key in sorted(pairs))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_FIELDS: dict[str, Callable[[Placed], str]] = {
    "metadata.name": lambda pod: pod.plan.name,
    "metadata.namespace": lambda pod: str(pod.plan.manifest["metadata"]["namespace"]),
    "metadata.uid": lambda pod: pod.uid,
    "metadata.labels": lambda pod: _listed(pod, "labels"),
    "metadata.annotations": lambda pod: _listed(pod, "annotations"),
    "spec.nodeName": lambda _pod: socket.gethostname(),
    "spec.serviceAccountName": lambda pod: str(
        pod.plan.spec.get("serviceAccountName") or "default"
    ),
    "status.hostIP": lambda _pod: _HOST_ADDRESS,
    "status.hostIPs": lambda _pod: _HOST_ADDRESS,
    "status.podIP": lambda pod: pod.address,
    "status.podIPs": lambda pod: pod.address,
}


def resource_value(pod: PodPlan, reference: Mapping[str, Any], container: str) -> str:
    """What a ``resourceFieldRef`` gives: the amount in units of its divisor, rounded up.

    A limit that is not set is what the machine has, as the kubelet takes what the node has; a
    request that is not set is the limit where there is one, else 0.

    Args:
        pod: the pod.
        reference: ``{resource, divisor, containerName}``.
        container: the container that refers, where the reference names none.

    Raises:
        InputError: the resource or the container is not known.
    """
    name = str(reference.get("containerName") or container)
    owner = next((one for one in pod.containers if one.name == name), None)
    side, _, resource = str(reference.get("resource", "")).partition(".")
    if owner is None or side not in {"limits", "requests"} or not resource:
        raise InputError(
            f"resourceFieldRef {dict(reference)!r} names nothing",
            path=f"Pod/{pod.name}",
            hint="write resource: limits.<name> or requests.<name>",
        )
    resources = owner.manifest.get("resources") or {}
    limits = resources.get("limits") or {}
    amount = (resources.get(side) or {}).get(resource, limits.get(resource))
    if amount is None:
        amount = _machine(resource) if side == "limits" else 0
    divisor = quantity.parse(str(reference.get("divisor") or "1")) or 1
    return str(math.ceil(quantity.parse(amount) / divisor))


def _machine(resource: str) -> int:
    if resource == "cpu":
        return os.cpu_count() or 1
    return psutil.virtual_memory().total if resource == "memory" else 0
