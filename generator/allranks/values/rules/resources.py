"""Rules about a pod's resources: CPU, memory, shared memory, devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.k8s import quantity
from allranks.model.job_spec import READ, JobSpec
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.size import SIZE, asks_gpus, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.schema.paths import ValuesPath

_BYTES = ("memory", "ephemeral-storage")
_REQUIREMENTS = ("requests", "limits")
_VOLUMES = ("workspace", "datasets", "checkpoints")
_SIZES = (
    "shm.size",
    "shm.sizePerGpu",
    "nodeShape.memory",
    *(f"storage.{name}.{key}" for name in _VOLUMES for key in ("size", "sizePerGpu")),
)
_RESOURCE_MAPS = ("resources.perPod.requests", "resources.perPod.limits", "resources.perGpu")


def _per_pod_or_gpu(view: View) -> Iterator[Finding]:
    per_pod = view["resources.perPod.requests"] or view["resources.perPod.limits"]
    if view["resources.perGpu"] and per_pod:
        yield Finding(
            path("resources.perGpu"),
            "both perPod and perGpu are set; the one would hide the other",
            "keep perGpu where the share should grow with the GPUs, else perPod",
        )


def _shares_need_gpus(view: View) -> Iterator[Finding]:
    if asks_gpus(view):
        return
    shares = {"resources.perGpu": "resources.perPod", "shm.sizePerGpu": "shm.size"}
    shares |= {f"storage.{name}.sizePerGpu": f"storage.{name}.size" for name in _VOLUMES}
    for share, instead in shares.items():
        if view[share]:
            yield Finding(
                path(share),
                "is a share for each GPU, and the job has none",
                f"set gpus, or use {instead}",
            )


def _shm(view: View) -> Iterator[Finding]:
    if view["shm.size"] and view["shm.sizePerGpu"]:
        yield Finding(
            path("shm.sizePerGpu"), "both size and sizePerGpu are set", "remove one of them"
        )


def _gpus_by_size(view: View) -> Iterator[Finding]:
    name = view["gpuResource"]
    for dotted in _RESOURCE_MAPS:
        if name in view[dotted]:
            yield Finding(
                path(dotted, name),
                "GPUs come from the size of the job, not from resources",
                f"remove it, and set gpus, or gpusPerNode: {view[dotted][name]}",
            )


def _limits(view: View) -> Iterator[Finding]:
    requests, limits = view["resources.perPod.requests"], view["resources.perPod.limits"]
    for name, amount in requests.items():
        device = "/" in name or name.startswith("hugepages-")
        if name not in limits:
            if device and name != view["gpuResource"]:
                yield Finding(
                    path("resources.perPod.requests", name),
                    "a device is asked for by its limit; Kubernetes refuses a request alone",
                    f"move it to resources.perPod.limits: {{{name}: {amount}}}",
                )
            continue
        most = quantity.parse(limits[name])
        if quantity.parse(amount) > most:
            yield Finding(
                path("resources.perPod.limits", name),
                f"the limit {limits[name]} is below the request {amount}",
                f"set it to {amount} or more",
            )
        elif device and quantity.parse(amount) != most:
            yield Finding(
                path("resources.perPod.limits", name),
                f"the limit {limits[name]} is not the request {amount}; "
                "for a device they are equal",
                "remove the request",
            )


def _units(view: View) -> Iterator[Finding]:
    sizes = [(path(dotted), view[dotted]) for dotted in _SIZES]
    sizes += [
        (path(dotted, name), view[dotted][name])
        for dotted in _RESOURCE_MAPS
        for name in _BYTES
        if name in view[dotted]
    ]
    for location, text in sizes:
        yield from _unit(location, text)


def _own_units(view: View) -> Iterator[Finding]:
    for keys, text in _own_sizes(view["own"]):
        yield from _unit(view.path("own", *keys), text)


def _unit(location: ValuesPath, text: str | float) -> Iterator[Finding]:
    problem, fix = quantity.lacks_unit(text) if text != "" else ("", "")
    if problem:
        yield Finding(location, problem, fix)


def _own_sizes(values: Mapping[str, Any], *above: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The sizes of requests and limits in a workload's section, with their paths."""
    for key, value in values.items():
        if not isinstance(value, dict) or key == "podTemplate":
            continue
        if key in _REQUIREMENTS:
            sizes = ((name, value[name]) for name in _BYTES if name in value)
            yield from (((*above, key, name), size) for name, size in sizes)
        else:
            yield from _own_sizes(value, *above, key)


def _fits_shape(view: View) -> Iterator[Finding]:
    requested = size(view)
    if requested is None:
        return
    values = {key: view[key] for key in READ} | {view.workload: view["own"]}
    pod = JobSpec.from_values(values).requests(requested.gpus)
    for name in ("cpu", "memory"):
        capacity = view[f"nodeShape.{name}"]
        if capacity == "" or pod.get(name, 0) <= quantity.capacity_units(name, capacity):
            continue
        per_gpu = name in view["resources.perGpu"]
        most = quantity.capacity_units(name, capacity) // max(requested.gpus, 1)
        yield Finding(
            path("resources.perGpu", name) if per_gpu else path("resources.perPod"),
            f"a pod asks {name} {quantity.format_units(name, pod[name])}, and nodeShape.{name} "
            f"says a node has {capacity}",
            f"ask at most {quantity.show_units(name, most)} per GPU, or use fewer GPUs per node"
            if per_gpu
            else f"ask at most {capacity}, or correct nodeShape.{name}",
        )


def _rdma(view: View) -> Iterator[Finding]:
    if view["network.rdma.resources"] and not view["network.rdma.enabled"]:
        yield Finding(
            path("network.rdma.resources"),
            "devices are listed, and network.rdma.enabled is false, so none is asked for",
            "set network.rdma.enabled: true, or remove them",
        )


RULES = (
    ValuesRule(
        "per-pod-or-per-gpu",
        "`resources.perPod` and `resources.perGpu` exclude each other.",
        ("resources",),
        _per_pod_or_gpu,
    ),
    ValuesRule(
        "shares-need-gpus",
        "`resources.perGpu`, `shm.sizePerGpu` and `storage.*.sizePerGpu` need GPUs.",
        (*SIZE, "resources", "shm", "storage"),
        _shares_need_gpus,
    ),
    ValuesRule("shm", "`shm.size` and `shm.sizePerGpu` exclude each other.", ("shm",), _shm),
    ValuesRule(
        "gpus-by-size",
        "GPUs are asked for by the size of the job, never in `resources`.",
        ("gpuResource", "resources"),
        _gpus_by_size,
    ),
    ValuesRule(
        "limits",
        "A limit is not below its request; a device has a limit, and no other request.",
        ("resources", "gpuResource"),
        _limits,
    ),
    ValuesRule(
        "units",
        "Memory and storage are at least a mebibyte: `memory: 180` would be 180 bytes.",
        ("resources", "shm", "storage", "nodeShape.memory"),
        _units,
    ),
    ValuesRule(
        "own-units",
        "Memory in the workload's own section is at least a mebibyte, too.",
        ("own",),
        _own_units,
    ),
    ValuesRule(
        "node-shape",
        "A pod asks no more CPU and memory than `nodeShape` says a node has.",
        (*sorted(READ), "own"),
        _fits_shape,
    ),
    ValuesRule(
        "rdma", "`network.rdma.resources` need `network.rdma.enabled`.", ("network.rdma",), _rdma
    ),
)
