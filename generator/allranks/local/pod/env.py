"""The environment and the argv of a container.

The kubelet's order: all of `envFrom`, then `env` from top to bottom (each value may refer to what
stands above it, to `envFrom` and to Services), then the Services' own variables. Command and args
refer to all of it. Only then are names and mount paths rewritten, and only in text that a manifest
spelled out: what came from a field or a Secret arrives as it is.

Around it stands the caller's own environment, so that PATH, HOME and a CUDA installation are what
they are in the shell, without what would make torchrun believe it is part of another job.
"""

from __future__ import annotations

import math
import os
import re
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from allranks import names
from allranks.errors import InputError
from allranks.k8s import quantity
from allranks.local.plan.addresses import service_address
from allranks.local.pod.gpus import VARIABLE as VISIBLE_GPUS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.local.plan.model import ContainerPlan, PodPlan, ReleasePlan
    from allranks.local.plan.rewrite import Rewriter


# All ranks are on this machine, whatever its other interfaces are called; and what a rank prints
# is seen when it prints it.
_LOOPBACK = "lo"
_DEFAULTS = {
    "PYTHONUNBUFFERED": "1",
    "GLOO_SOCKET_IFNAME": _LOOPBACK,
    "NCCL_SOCKET_IFNAME": _LOOPBACK,
    "TP_SOCKET_IFNAME": _LOOPBACK,
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The settings shared by all containers of a release.

    Attributes:
        release: the release.
        addresses: the address of each pod, by its name.
        inherited: the environment of whoever started the run.
        defaults: variables of a container that neither its manifest nor the caller has.
        orders: variables that it has whatever its manifest says.
        withheld: variables of `inherited` that only a container gets whose manifest names them.
    """

    release: ReleasePlan
    addresses: Mapping[str, str]
    inherited: Mapping[str, str]
    defaults: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable before rewriting; `literal` where the manifest has its text."""

    value: str
    literal: bool


def variables(
    surroundings: Surroundings, pod: PlacedPod, container: ContainerPlan
) -> dict[str, Variable]:
    """The variables that the manifests give a container, in the kubelet's order.

    Raises:
        InputError: a ConfigMap, Secret, key or field it needs is not there.
    """
    resolved: dict[str, Variable] = {}
    for source in container.manifest.get("envFrom") or ():
        resolved.update(_env_from(surroundings, pod, source))
    services = service_variables(surroundings)
    for item in container.manifest.get("env") or ():
        name = str(item["name"])
        if item.get("value"):
            scope = {key: variable.value for key, variable in resolved.items()}
            resolved[name] = Variable(expand(str(item["value"]), scope, services), literal=True)
        elif item.get("valueFrom"):
            variable = _value_from(surroundings, pod, container, item)
            if variable is not None:
                resolved[name] = variable
        else:
            resolved[name] = Variable("", literal=True)
    for name, value in services.items():
        resolved.setdefault(name, Variable(value, literal=False))
    return resolved


def environment(
    surroundings: Surroundings,
    pod: PlacedPod,
    variables: Mapping[str, Variable],
    rewriter: Rewriter,
    gpus: str | None = None,
) -> dict[str, str]:
    """The whole environment of a container's process.

    Args:
        surroundings: what the release shares.
        pod: the pod.
        variables: what `variables` found.
        rewriter: of this container.
        gpus: the GPUs that the pod sees; None where the machine has none to hide.
    """
    inherited = surroundings.inherited.items()
    result = dict(surroundings.defaults)
    held_back = surroundings.withheld
    result |= {key: text for key, text in inherited if not _is_reserved(key, held_back)}
    result |= _DEFAULTS
    result["HOSTNAME"] = pod.plan.hostname
    if gpus is not None:
        result[VISIBLE_GPUS] = gpus
    for name, variable in variables.items():
        result[name] = rewriter.text(variable.value) if variable.literal else variable.value
    result["PATH"] = search_path(result.get("PATH", ""))
    result |= surroundings.orders
    return result


def argv(
    container: ContainerPlan, variables: Mapping[str, Variable], rewriter: Rewriter
) -> tuple[str, ...]:
    """The command and args of a container, with references and names replaced."""
    scope = {name: variable.value for name, variable in variables.items()}
    words = (*container.manifest["command"], *(container.manifest.get("args") or ()))
    return tuple(rewriter.text(expand(str(word), scope)) for word in words)


def search_path(path: str) -> str:
    """`path` after the running Python's own programs, such as ``torchrun``.

    Its path is taken as it was called: resolving the link would leave a virtual environment.
    """
    own = str(Path(sys.executable).parent)
    return os.pathsep.join((own, path or os.defpath))


def _is_reserved(name: str, withheld: frozenset[str]) -> bool:
    reserved = name in names.RESERVED_ENV or name.startswith(names.RESERVED_ENV_PREFIXES)
    return reserved or name in withheld


# ---------------------------------------------------------------- sources of variables


def _env_from(
    surroundings: Surroundings, pod: PlacedPod, source: Mapping[str, Any]
) -> Iterator[tuple[str, Variable]]:
    prefix = source.get("prefix") or ""
    secret = source.get("secretRef")
    reference = secret or source.get("configMapRef") or {}
    kind = "Secret" if secret else "ConfigMap"
    data = _data(surroundings.release, kind, str(reference.get("name", "")))
    if data is None:
        if reference.get("optional"):
            return
        raise InputError(
            f"envFrom needs the {kind} {reference.get('name')!r}, which is not in the manifests",
            path=f"Pod/{pod.plan.name}",
            hint="mark it optional and export its variables in your shell",
        )
    for key, content in data.items():
        name = f"{prefix}{key}"
        # A name that no process can carry is skipped, as the kubelet skips it.
        if "=" not in name and b"\0" not in content:
            yield name, Variable(_text(content), literal=not secret)


def _value_from(
    surroundings: Surroundings, pod: PlacedPod, container: ContainerPlan, item: Mapping[str, Any]
) -> Variable | None:
    source = item["valueFrom"]
    if source.get("fieldRef"):
        value = field_value(pod, str(source["fieldRef"].get("fieldPath", "")))
        return Variable(value, literal=False)
    if source.get("resourceFieldRef"):
        value = resource_value(pod.plan, source["resourceFieldRef"], container.name)
        return Variable(value, literal=False)
    for key, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if source.get(key):
            return _from_key(surroundings, pod, item, source[key], kind)
    raise InputError(
        f"env {item['name']!r} comes from {', '.join(source) or 'nowhere'}, "
        "which this machine does not have",
        path=f"Pod/{pod.plan.name}",
        hint="use value, fieldRef, resourceFieldRef, secretKeyRef or configMapKeyRef",
    )


def _from_key(
    surroundings: Surroundings,
    pod: PlacedPod,
    item: Mapping[str, Any],
    reference: Mapping[str, Any],
    kind: str,
) -> Variable | None:
    """The value of a key of a ConfigMap or Secret.

    A Secret that only the cluster has may be given by the shell: a variable of the same name that
    is exported there is taken instead.
    """
    data = _data(surroundings.release, kind, str(reference.get("name", "")))
    content = (data or {}).get(str(reference.get("key", "")))
    if content is not None:
        return Variable(_text(content), literal=kind == "ConfigMap")
    if item["name"] in surroundings.withheld & surroundings.inherited.keys():
        return Variable(surroundings.inherited[item["name"]], literal=False)
    if reference.get("optional") or item["name"] in surroundings.inherited:
        return None
    raise InputError(
        f"env {item['name']!r} needs key {reference.get('key')!r} of the {kind} "
        f"{reference.get('name')!r}, which is not in the manifests",
        path=f"Pod/{pod.plan.name}",
        hint=f"export {item['name']} in your shell before you run it here",
    )


def _data(release: ReleasePlan, kind: str, name: str) -> Mapping[str, bytes] | None:
    return (release.secrets if kind == "Secret" else release.configmaps).get(name)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def service_variables(surroundings: Surroundings) -> dict[str, str]:
    """``<SERVICE>_SERVICE_HOST`` and ``_PORT`` of each Service with an address of its own."""
    variables = {}
    for service in surroundings.release.services:
        address = service_address(surroundings.release, surroundings.addresses, service)
        if service.headless or address is None:
            continue
        prefix = service.name.upper().replace("-", "_") + "_SERVICE"
        variables[f"{prefix}_HOST"] = address
        for position, (name, port) in enumerate(service.ports):
            if position == 0:
                variables[f"{prefix}_PORT"] = str(port)
            if name:
                variables[f"{prefix}_PORT_{name.upper().replace('-', '_')}"] = str(port)
    return variables


# A `$` at the very end, before anything but `$` and `(`, or before an unclosed `(` matches nothing
# here and so stays; `.` must match newlines, since a name runs up to the next `)` wherever it is.
_REFERENCE = re.compile(r"\$(?:(?P<escaped>\$)|\((?P<name>[^)]*)\))")


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """`text` with its references replaced.

    Args:
        text: an env value, or a word of a command.
        scopes: known names; the first scope that has one wins.
    """

    def value(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        name = match["name"]
        return next((scope[name] for scope in scopes if name in scope), match[0])

    return _REFERENCE.sub(value, text)


_KEYED = re.compile(r"metadata\.(?P<map>labels|annotations)\['(?P<key>[^']+)'\]")
_HOST_ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class PlacedPod:
    """A pod with the uid and address it gets when it runs."""

    plan: PodPlan
    uid: str
    address: str


def field_value(pod: PlacedPod, path: str) -> str:
    """The value of a ``fieldRef``.

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


def _list_pairs(pod: PlacedPod, name: str) -> str:
    """Labels or annotations in the format of downward API files, sorted by key."""
    pairs: Mapping[str, str] = pod.plan.manifest["metadata"][name]
    return "\n".join(f"{key}={_quote(str(pairs[key]))}" for key in sorted(pairs))


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_FIELDS: dict[str, Callable[[PlacedPod], str]] = {
    "metadata.name": lambda pod: pod.plan.name,
    "metadata.namespace": lambda pod: str(pod.plan.manifest["metadata"]["namespace"]),
    "metadata.uid": lambda pod: pod.uid,
    "metadata.labels": lambda pod: _list_pairs(pod, "labels"),
    "metadata.annotations": lambda pod: _list_pairs(pod, "annotations"),
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
    """The value of a ``resourceFieldRef``, in units of its divisor, rounded up.

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
    owner = next((container for container in pod.containers if container.name == name), None)
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
