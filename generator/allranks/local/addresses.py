"""Which loopback address each pod has, and which ports are free.

All of 127.0.0.0/8 leads to this machine, so each pod gets an address of its own without any
privilege. A release takes one or more blocks of 254 addresses; where they begin comes from its
name, so that a run has the same addresses each time, and moves on past blocks that live runs hold.

Ports are another matter: a server that listens on the wildcard address (torchrun's does) takes its
port on all of them. `free_port` finds one that nobody holds, and claims it
(see `allranks.local.claims`).
"""

from __future__ import annotations

import errno
import hashlib
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import RunError
from allranks.local import claims
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from allranks.local.plan import Release, ServicePlan

_PER_BLOCK = 254
_FIRST_OCTET = 64  # 127.64.0.0 to 127.127.255.0: away from 127.0.0.1 and 127.0.1.1
_BLOCKS = 64 * 256
_LAST_PORT = 65535
# The workload whose pods may all listen on one port; of others only one pod does, or each does on
# its own address.
_OWN_PORTS = "elastic"


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive blocks of addresses."""

    first: int
    count: int

    def meets(self, other: Block) -> bool:
        """Whether the two share an address."""
        return self.first < other.first + other.count and other.first < self.first + self.count

    @property
    def size(self) -> int:
        """How many addresses it has."""
        return self.count * _PER_BLOCK

    def address(self, position: int) -> str:
        """The address at a position."""
        block, host = divmod(position, _PER_BLOCK)
        high, low = divmod(self.first + block, 256)
        return f"127.{_FIRST_OCTET + high}.{low}.{host + 1}"


def allocate(
    name: str, namespace: str, pods: int, taken: Collection[Block], owner: str = ""
) -> Block:
    """The block of a run: the first from its name's place on that meets no other.

    Args:
        name: the release.
        namespace: its namespace.
        pods: how many addresses it needs.
        taken: the blocks of live runs.
        owner: whose run it is: runs of one name of several users do not meet.

    Raises:
        RunError: there is no room left.
    """
    count = max(1, -(-pods // _PER_BLOCK))
    digest = hashlib.sha256(f"{owner}/{namespace}/{name}".encode()).digest()
    start = int.from_bytes(digest[:4], "big")
    for step in range(_BLOCKS):
        block = Block((start + step) % _BLOCKS, count)
        if block.first + count <= _BLOCKS and not any(block.meets(other) for other in taken):
            return block
    raise RunError(
        f"there are too few free loopback addresses for {plural(pods, 'pod')}: other runs "
        "hold them",
        hint="delete runs that are no longer needed",
    )


def by_pod(release: Release, block: Block) -> dict[str, str]:
    """The address of each pod.

    Where only 127.0.0.1 is up (as on macOS), all pods share it.
    """
    if not bindable(block.address(0)):
        return {pod.name: "127.0.0.1" for pod in release.pods}
    return {pod.name: block.address(position) for position, pod in enumerate(release.pods)}


def service_address(
    release: Release, addresses: Mapping[str, str], service: ServicePlan
) -> str | None:
    """Where a Service leads: the first pod that it selects; None when it selects none."""
    pod = service_pod(release, service)
    return None if pod is None else addresses[pod]


def service_pod(release: Release, service: ServicePlan) -> str | None:
    """The first pod that a Service selects; None when it selects none."""
    return next((pod.name for pod in release.pods if service.selects(pod)), None)


def served_ports(release: Release) -> tuple[int, ...]:
    """The ports that the release's Services name, each once."""
    return tuple(dict.fromkeys(port for one in release.services for _, port in one.ports))


def own_ports(release: Release, taken: Iterable[int]) -> dict[tuple[str, int], int]:
    """A port of its own for each pod of a job whose pods all listen on the same one.

    TensorFlow's server takes its port on all addresses of the machine, so two pods cannot have one
    number, other than in a cluster. Where such a port stands behind a pod's name it is replaced
    with the name (see `allranks.local.rewrite`).

    Args:
        release: the release.
        taken: ports that live runs will listen on.

    Returns:
        The port of this machine, by the pod's name and the port that its manifest has.

    Raises:
        RunError: there are not as many free ports.
    """
    found: dict[tuple[str, int], int] = {}
    if release.workload != _OWN_PORTS:
        return found
    for pod in release.pods:
        served = (one.ports for one in release.services if one.selects(pod))
        for port in dict.fromkeys(number for ports in served for _, number in ports):
            found[pod.name, port] = free_port(port, (*taken, *found.values()))
    return found


def bindable(address: str, port: int = 0) -> bool:
    """Whether a server could listen there now; "" is the wildcard address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            if error.errno in {errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES}:
                return False
            raise
    return True


def free_port(start: int, taken: Iterable[int] = ()) -> int:
    """Claim the first port from `start` on that no one listens on and no live run has claimed.

    Args:
        start: the port to try first.
        taken: ports that live runs will listen on.

    Raises:
        RunError: all ports up to the last are taken.
    """
    claimed = frozenset(taken)
    for port in range(start, _LAST_PORT + 1):
        if port not in claimed and bindable("", port) and claims.claim(port):
            return port
    raise RunError(f"no port from {start} to {_LAST_PORT} is free", hint="start lower")


def busy_ports(ports: Sequence[int], hosts: Sequence[str] = ("",)) -> tuple[int, ...]:
    """Those of `ports` that something already listens on.

    Args:
        ports: the ports.
        hosts: the addresses that count; "" is any of this machine.
    """
    return tuple(port for port in ports if not all(bindable(host, port) for host in hosts))
