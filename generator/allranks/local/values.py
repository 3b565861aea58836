"""Adapt a user's values to a run on this machine.

What only a cluster has (queues, gangs, topology, RDMA) is turned off, a port that is in use here
gives way, and no image is needed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.local import runs as local_runs

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a machine of its own has no use for, and what each is there.
_CLUSTER_ONLY: tuple[tuple[tuple[str, ...], Any], ...] = (
    (("queue",), ""),
    (("scheduling", "dialect"), "none"),
    (("scheduling", "topology", "mode"), "none"),
    (("network", "rdma", "enabled"), False),
)
_NO_IMAGE = "none"


@dataclass(frozen=True, slots=True)
class Local:
    """The values of a local run, and a note on each change."""

    values: dict[str, Any]
    notes: tuple[str, ...]


def values_for_this_machine(user: Mapping[str, Any], merged: Mapping[str, Any]) -> Local:
    """The values of a local run, from a user's values.

    Args:
        user: what they wrote.
        merged: the same over the chart's defaults.
    """
    values: dict[str, Any] = copy.deepcopy(dict(user))
    notes: list[str] = []
    for path, off in _CLUSTER_ONLY:
        if _get(merged, path) not in (off, None):
            _set(values, path, off)
            notes.append(f"{'.'.join(path)} is for a cluster; off in a local run")
    if _get(merged, ("image", "repository")) == "":
        # The charts want one, and nothing here looks at it.
        _set(values, ("image", "repository"), _NO_IMAGE)
    workload = str(merged.get("workload"))
    requested = _get(merged, (workload, "port"))
    if isinstance(requested, int) and not _get(merged, (workload, "rdzvEndpoint")):
        port = local_runs.free_port(requested)
        if port != requested:
            _set(values, (workload, "port"), port)
            # Who asked for none has nothing to be told.
            if _get(user, (workload, "port")) is not None:
                notes.append(
                    f"port {requested} is in use on this machine; {workload}.port is {port} here"
                )
    return Local(values, tuple(notes))


def _get(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = values
    for key in path:
        value = (value or {}).get(key)
    return value


def _set(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(values.get(key), dict):
            values[key] = {}
        values = values[key]
    values[path[-1]] = value
