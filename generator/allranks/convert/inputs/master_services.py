"""Trainings whose ranks are in several objects of the input, and meet by the Service of rank 0.

People without a controller for it write a Job for rank 0, a Service of its pod, and a StatefulSet
or a second Job whose MASTER_ADDR is that Service. Each would be a run of its own, and wait for the
other for ever, so that both are refused.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HINT = "write all ranks as one object, such as an Indexed Job, and convert that"


def refusals(manifests: Sequence[Mapping[str, Any]]) -> dict[int, InputError]:
    """The objects that find rank 0 by the Service of another's pods, and those others.

    Args:
        manifests: all objects of the input.

    Returns:
        Why each of them is no whole training, by the `id` of the manifest.
    """
    callers: dict[tuple[str, str], list[tuple[Mapping[str, Any], str]]] = defaultdict(list)
    for manifest in manifests:
        for host, path in _masters(manifest).items():
            callers[_namespace(manifest), host].append((manifest, path))
    errors: dict[int, InputError] = {}
    for service in manifests:
        selector = k8s.mapping(service, "spec", "selector")
        namespace, name = _namespace(service), k8s.text(service, "metadata", "name")
        if service.get("kind") != "Service" or not selector or (namespace, name) not in callers:
            continue
        owners = [
            other
            for other in manifests
            if _namespace(other) == namespace and selector.items() <= _labels(other).items()
        ]
        ids = {id(other) for other in owners}
        others = [entry for entry in callers[namespace, name] if id(entry[0]) not in ids]
        if not owners or not others:
            continue
        for manifest, path in others:
            error = InputError(
                f"MASTER_ADDR is {name}, the Service of the pods of {_title(owners[0])}: rank 0 is "
                "not in this object, and would not meet these",
                path=path,
                hint=_HINT,
            )
            errors.setdefault(id(manifest), error)
        for manifest in owners:
            error = InputError(
                f"MASTER_ADDR of {_title(others[0][0])} is {name}, the Service of these pods: its "
                "ranks are not in this object, and would not meet these",
                path="spec.template",
                hint=_HINT,
            )
            errors.setdefault(id(manifest), error)
    return errors


def _namespace(manifest: Mapping[str, Any]) -> str:
    return k8s.text(manifest, "metadata", "namespace")


def _title(manifest: Mapping[str, Any]) -> str:
    return f"{manifest.get('kind')} {k8s.text(manifest, 'metadata', 'name')}"


def _labels(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The labels of an object's pods."""
    return k8s.mapping(manifest, "spec", "template", "metadata", "labels")


def _masters(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The hosts at which an object's pods are told that rank 0 is, and where each is first."""
    hosts: dict[str, str] = {}
    containers = k8s.numbered_items(manifest, "spec", "template", "spec", "containers")
    for index, container in containers:
        for at, entry in k8s.numbered_items(container, "env"):
            if k8s.text(entry, "name") == "MASTER_ADDR":
                host = k8s.text(entry, "value").partition(".")[0]
                hosts.setdefault(host, f"spec.template.spec.containers[{index}].env[{at}].value")
    return hosts
