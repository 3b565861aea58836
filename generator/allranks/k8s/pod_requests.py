"""The resources that a pod requests, as the scheduler counts them.

The rule is Kubernetes' own: the containers run together, so their requests add up; plain init
containers run one after the other before them, so only the largest counts; an init container with
`restartPolicy: Always` is a sidecar, runs beside everything that starts after it and counts with
the containers too. A resource with a limit and no request is requested at its limit. Requests of
the pod as a whole stand in place of the sum, and the runtime's overhead comes on top.

Not counted: devices asked through ResourceClaims, and a resize that is still under way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.k8s import quantity

if TYPE_CHECKING:
    from collections.abc import Mapping

Units = dict[str, int]


def effective(spec: Mapping[str, Any]) -> Units:
    """Return the requests of a PodSpec, in the units of `quantity.request_units`.

    Args:
        spec: a PodSpec; only containers, initContainers, resources and overhead are read.

    Raises:
        InputError: a quantity in it is invalid.
    """
    running: Units = {}
    for container in spec.get("containers") or ():
        _add(running, _requests(container))
    sidecars: Units = {}
    starting: Units = {}
    for container in spec.get("initContainers") or ():
        requests = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _add(running, sidecars)
    _raise_to(running, starting)
    running.update(_requests(spec))
    _add(running, _units(spec.get("overhead")))
    return running


def _requests(owner: Mapping[str, Any]) -> Units:
    resources = owner.get("resources") or {}
    return _units(resources.get("limits")) | _units(resources.get("requests"))


def _units(amounts: Mapping[str, Any] | None) -> Units:
    return {name: quantity.request_units(name, text) for name, text in (amounts or {}).items()}


def _add(into: Units, more: Units) -> None:
    for name, units in more.items():
        into[name] = into.get(name, 0) + units


def _raise_to(into: Units, floor: Units) -> None:
    for name, units in floor.items():
        into[name] = max(into.get(name, 0), units)
