"""A job's pods, as far as its master looks at them; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic import resource
from allranks.elastic.pods.templates import main_index
from allranks.status.fields import items, mapping, number, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.resource import Resource
    from allranks.model.manifest import Manifest

_OOM_REASON, _OOM = "OOMKilled", 247
_OVER = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod.

    Attributes:
        name: its name.
        type: its replica type.
        phase: as the kubelet says.
        leaving: whether it is being taken away.
        out_of_memory: whether it ended because its memory ran out.
        memory_bytes: what it asks for; None where it asks for none.
        addresses: where it is reached, as the kubelet says; none before it does.
        has_token: whether it was given what it is to show to its master.
    """

    name: str
    type: str
    phase: str
    leaving: bool = False
    out_of_memory: bool = False
    memory_bytes: int | None = None
    addresses: frozenset[str] = frozenset()
    has_token: bool = False

    @property
    def alive(self) -> bool:
        """Whether it trains, or will."""
        return not self.leaving and self.phase not in _OVER

    def is_at(self, address: str) -> bool:
        """Whether an address may be this pod's: one of its own, or a name that is the pod's."""
        is_own = address in self.addresses or address.partition(".")[0] == self.name
        return not self.addresses or is_own

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self.alive and self.phase == "Running"


def read(pods: Iterable[Manifest], uid: str) -> dict[str, PodView]:
    """The trainers among a job's pods, by name.

    Args:
        pods: pods that carry the job's name.
        uid: the job's; pods of an older job of the same name are not its own.
    """
    found = {}
    for pod in pods:
        view = _read(pod)
        if view.type and view.type != names.EDL_MASTER and _owned(pod, uid):
            found[view.name] = view
    return found


def asks(template: Any) -> Resource | None:
    """What the main container of a pod, or of a template, asks for."""
    containers = items(mapping(template, "spec"), "containers")
    if not containers:
        return None
    asked = mapping(containers[main_index(containers)], "resources")
    requests = resource.read(asked.get("requests"), "requests", [])
    limits = resource.read(asked.get("limits"), "limits", [])
    return requests.over(limits) if requests else limits


def _read(pod: Manifest) -> PodView:
    metadata, status = mapping(pod, "metadata"), mapping(pod, "status")
    asked = asks(pod)
    return PodView(
        name=text(metadata, "name"),
        type=text(metadata, "labels", names.EDL_TYPE),
        phase=text(status, "phase") or "Pending",
        leaving=bool(metadata.get("deletionTimestamp")),
        out_of_memory=any(_out_of_memory(one) for one in items(status, "containerStatuses")),
        memory_bytes=asked.memory_bytes if asked else None,
        addresses=frozenset(
            address
            for address in (
                text(status, "podIP"),
                *(text(one, "ip") for one in items(status, "podIPs")),
            )
            if address
        ),
        has_token=any(
            text(variable, "name") == names.ENV_MASTER_TOKEN
            for container in items(pod, "spec", "containers")
            for variable in items(container, "env")
        ),
    )


def _out_of_memory(container: Mapping[str, Any]) -> bool:
    ends = (mapping(container, state, "terminated") for state in ("state", "lastState"))
    return any(
        text(end, "reason") == _OOM_REASON or number(end, "exitCode") == _OOM for end in ends
    )


def _owned(pod: Manifest, uid: str) -> bool:
    owners = items(pod, "metadata", "ownerReferences")
    return not owners or any(text(owner, "uid") == uid for owner in owners)
