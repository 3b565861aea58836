"""The resources that the containers of an elastic job's pods ask for.

They come from three sources: the template; a plan (DLRover's master sends what it measured, or the
template's own amounts rounded to a tenth of a core and a whole MiB); and our own small requests
where both set nothing, because that master cannot read a pod without requests for CPU and memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.resources import ResourceAmounts
    from allranks.k8s.manifest import Manifest

_CPU, _MEMORY = "cpu", "memory"
DEFAULT_GPU = "nvidia.com/gpu"
_TENTH = 100  # millicores: what a plan rounds to
_MIB = 1024**2
# Small enough for every node; what a pod really needs is for its template to say.
SMALL = {_CPU: "100m", _MEMORY: "128Mi"}
_NONE: Mapping[str, Any] = {}


def container_resources(
    resources: Mapping[str, Any] | None,
    resource: ResourceAmounts | None,
    *,
    small: Mapping[str, str],
) -> Manifest:
    """Return the `resources` of a container.

    Args:
        resources: what the template says.
        resource: what a plan asks for; None for nothing.
        small: the requests where neither sets any.
    """
    form = resources or _NONE
    requests, limits = _amounts(form.get("requests")), _amounts(form.get("limits"))
    for name in (_CPU, _MEMORY):
        if name not in requests:
            requests[name] = limits.get(name, small[name])
    if resource is not None:
        _measure(requests, limits, _CPU, resource.cpu_millis)
        _measure(requests, limits, _MEMORY, resource.memory_bytes)
        _gpus(requests, limits, resource)
    result: Manifest = {**form, "requests": requests}
    return {**result, "limits": limits} if limits else result


def memory(resources: Mapping[str, Any] | None, resource: ResourceAmounts | None) -> int:
    """Return the memory limit of a container, in bytes.

    Args:
        resources: what its template says.
        resource: what a plan asks for; None for nothing.

    Returns:
        Its limit, or its request where it has none.
    """
    form = container_resources(resources, resource, small=SMALL)
    amounts = (form.get("limits", _NONE).get(_MEMORY), form["requests"][_MEMORY])
    return max(_units(_MEMORY, amount) or 0 for amount in amounts if amount is not None)


def _amounts(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, dict) else {}


def _measure(
    requests: dict[str, Any], limits: dict[str, Any], name: str, amount: int | None
) -> None:
    """Set an amount of CPU or memory; 0 means "not set"."""
    own = _units(name, requests[name])
    if not amount or (own is not None and _same(name, own, amount)):
        return
    quantity_text = quantity.format_cpu(amount) if name == _CPU else quantity.format_bytes(amount)
    limit = _units(name, limits.get(name))
    if limit is not None and (limit < amount or limit == own):
        limits[name] = quantity_text
    requests[name] = quantity_text


def _same(name: str, own: int, amount: int) -> bool:
    """Whether an amount is the template's own, exactly or as a plan rounds it."""
    if own == amount:
        return True
    if name == _CPU:
        # Python rounds halves to even, other masters round them up.
        return amount % _TENTH == 0 and abs(own - amount) * 2 <= _TENTH
    return amount % _MIB == 0 and abs(own - amount) < _MIB


def _gpus(requests: dict[str, Any], limits: dict[str, Any], resource: ResourceAmounts) -> None:
    """Set request and limit of the GPUs; 0 means "not set"."""
    if not resource.gpus:
        return
    key = resource.gpu_key if "/" in resource.gpu_key else ""
    if not key:
        keys = [name for name in (*limits, *requests) if name.partition("/")[2].endswith("gpu")]
        key = keys[0] if keys else DEFAULT_GPU
    requests[key] = limits[key] = str(resource.gpus)


@lru_cache(maxsize=1024)
def _read(name: str, text: str | float) -> int | None:
    try:
        return quantity.request_units(name, text)
    except InputError:
        return None  # the API server will say so


def _units(name: str, text: object) -> int | None:
    return _read(name, text) if isinstance(text, (str, int, float)) else None
