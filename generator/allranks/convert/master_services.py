"""Trainings whose ranks are in several objects of the input, and meet by the Service of rank 0.

People without a controller for it write a Job for rank 0, a Service of its pod, and a StatefulSet
or a second Job whose MASTER_ADDR is that Service. Each would be a run of its own, and wait for the
other for ever, so that both are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HINT = "write all ranks as one object, such as an Indexed Job, and convert that"


def refuse(manifest: Mapping[str, Any], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Refuse objects of which some find rank 0 by the Service of another's pods, and that other.

    Args:
        manifest: the object.
        manifests: all of the input.

    Raises:
        InputError: its ranks are not all of their training.
    """
    namespace = k8s.text(manifest, "metadata", "namespace")
    near = [other for other in manifests if k8s.text(other, "metadata", "namespace") == namespace]
    for service in near:
        selector = k8s.mapping(service, "spec", "selector")
        if service.get("kind") != "Service" or not selector:
            continue
        name = k8s.text(service, "metadata", "name")
        owners = [other for other in near if selector.items() <= _labels(other).items()]
        callers = [other for other in near if _master(other, name) and other not in owners]
        if not owners or not callers:
            continue
        if manifest in callers:
            raise InputError(
                f"MASTER_ADDR is {name}, the Service of the pods of {_title(owners[0])}: rank 0 is "
                "not in this object, and would not meet these",
                path=_master(manifest, name),
                hint=_HINT,
            )
        if manifest in owners:
            raise InputError(
                f"MASTER_ADDR of {_title(callers[0])} is {name}, the Service of these pods: its "
                "ranks are not in this object, and would not meet these",
                path="spec.template",
                hint=_HINT,
            )


def _title(manifest: Mapping[str, Any]) -> str:
    return f"{manifest.get('kind')} {k8s.text(manifest, 'metadata', 'name')}"


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The labels of an object's pods."""
    return k8s.mapping(manifest, "spec", "template", "metadata", "labels")


def _master(manifest: Mapping[str, Any], service: str) -> str:
    """Where an object's pods are told that rank 0 is at a Service; "" for nowhere."""
    containers = k8s.items(manifest, "spec", "template", "spec", "containers")
    for index, container in enumerate(containers):
        for at, entry in enumerate(k8s.items(container, "env")):
            host = k8s.text(entry, "value").partition(".")[0]
            if k8s.text(entry, "name") == "MASTER_ADDR" and host == service:
                return f"spec.template.spec.containers[{index}].env[{at}].value"
    return ""
