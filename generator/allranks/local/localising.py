"""A person's values as a run on this machine needs them.

What only a cluster has (queues, gangs, topology, RDMA) is turned off, a port that is in use here
gives way, and no image is needed.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.local import control

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
    """A person's values with what a local run changes, and a note on each change."""

    values: dict[str, Any]
    notes: tuple[str, ...]


def localise(user: Mapping[str, Any], merged: Mapping[str, Any]) -> Local:
    """A person's values as a local run needs them.

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
    asked = _get(merged, (workload, "port"))
    if isinstance(asked, int) and not _get(merged, (workload, "rdzvEndpoint")):
        port = control.free_port(asked)
        if port != asked:
            _set(values, (workload, "port"), port)
            # Who asked for none has nothing to be told.
            if _get(user, (workload, "port")) is not None:
                notes.append(
                    f"port {asked} is in use on this machine; {workload}.port is {port} here"
                )
    return Local(values, tuple(notes))


def _get(values: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = values
    for key in path:
        found = (found or {}).get(key)
    return found


def _set(values: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        if not isinstance(values.get(key), dict):
            values[key] = {}
        values = values[key]
    values[path[-1]] = value
