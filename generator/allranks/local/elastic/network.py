"""Addresses, names and ports of an elastic job's pods.

A Service of an elastic job leads to the pod of a rank, whichever that is. Names are written into a
process when it starts, and it keeps them for its life; so what stays is the address: the pod that
takes the place of another one has its address, once that is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.errors import RunError
from allranks.local.host import addresses
from allranks.local.plan.rewrite import service_names

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from allranks.local.host.addresses import Block
    from allranks.local.plan.model import ServicePlan
    from allranks.local.plan.rewrite import Names

_ONLY_ADDRESS = "127.0.0.1"
# Where a run looks for its ports: below those that the kernel gives away, each at a place of its
# own, because other runs look at the same time.
_FIRST_PORT = 10_000
_PORTS = 20_000
_PORTS_EACH = 64


class RoleRank(NamedTuple):
    """A rank of a replica type."""

    type: str
    rank: int


def place_of(labels: Mapping[str, str]) -> RoleRank:
    """The role and rank that a pod's labels, or a Service's selector, name."""
    return RoleRank(labels.get(names.EDL_TYPE, ""), int(labels.get(names.EDL_RANK, "0")))


class NetworkAddresses:
    """The addresses of a run's roles and ranks.

    Args:
        block: the addresses of the run.
    """

    def __init__(self, block: Block) -> None:
        self._block = block
        self._own = addresses.bindable(block.address(0))
        self._first_port = _FIRST_PORT + block.first * _PORTS_EACH % _PORTS
        self._addresses: dict[RoleRank, str] = {}
        self._ports: dict[tuple[RoleRank, int], int] = {}
        self._services: dict[str, ServicePlan] = {}
        self.by_pod: dict[str, str] = {}

    def settle(self, pod: str, place: RoleRank, living: Collection[str]) -> str:
        """Give a pod its address.

        Args:
            pod: its name.
            place: the place that it takes.
            living: the pods that still have theirs.

        Raises:
            RunError: there is no address left.
        """
        living_addresses = {self.by_pod[pod] for pod in living if pod in self.by_pod}
        address = self._addresses.get(place)
        if address is None or (address in living_addresses and self._own):
            address = self._free(living_addresses)
            self._addresses[place] = address
        self.by_pod[pod] = address
        return address

    def serve(self, service: ServicePlan) -> None:
        """Give a Service its address, whether its pod exists yet or not."""
        place = place_of(service.selector)
        self._services[service.name] = service
        if place not in self._addresses:
            self._addresses[place] = self._free(set(self.by_pod.values()))
        for _, port in service.ports:
            self.port(place, port)

    def close(self, service: str) -> None:
        """Remove a Service."""
        self._services.pop(service, None)

    @property
    def services(self) -> dict[str, str]:
        """The Services that exist; on this machine a name serves as the uid."""
        return {name: name for name in self._services}

    def port(self, place: RoleRank, port: int) -> int:
        """The local port that stands for a port of a pod."""
        if (place, port) not in self._ports:
            own = addresses.free_port(self._first_port, self._ports.values())
            self._ports[place, port] = own
        return self._ports[place, port]

    def names(self, base: Names, namespace: str) -> Names:
        """The names of all Services, added to those that the run has anyway.

        Args:
            base: those.
            namespace: of the job.
        """
        plain: dict[str, str] = {}
        ports: dict[tuple[str, int], int] = {}
        for service in self._services.values():
            place = place_of(service.selector)
            for name in service_names(service.name, namespace):
                plain[name] = self._addresses[place]
                ports |= {(name, port): self.port(place, port) for _, port in service.ports}
        return base.with_more(plain, ports)

    def _free(self, living_addresses: Collection[str]) -> str:
        if not self._own:
            return _ONLY_ADDRESS
        occupied = {*living_addresses, *self._addresses.values()}
        for position in range(self._block.size):
            address = self._block.address(position)
            if address not in occupied:
                return address
        raise RunError(f"this run has no address left: all {self._block.size} are in use")
