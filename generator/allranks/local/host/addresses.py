"""The loopback addresses of pods, and free ports.

All of 127.0.0.0/8 leads to this machine, so each pod gets an address of its own without any
privilege. A release takes one or more blocks of 254 addresses; where they begin comes from its
name, so that a run has the same addresses each time, and moves on past blocks that live runs hold.

Ports are another matter: a server that listens on the wildcard address (torchrun's does) takes its
port on all of them. `free_port` finds one that nobody holds, and claims it.
"""

from __future__ import annotations

import errno
import hashlib
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.errors import RunError
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence


_PER_BLOCK = 254
_FIRST_OCTET = 64  # 127.64.0.0 to 127.127.255.0: away from 127.0.0.1 and 127.0.1.1
_BLOCKS = 64 * 256
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive blocks of loopback addresses."""

    first: int
    count: int

    def meets(self, block: Block) -> bool:
        """Whether two blocks share an address."""
        return self.first < block.first + block.count and block.first < self.first + self.count

    @property
    def size(self) -> int:
        """The number of addresses."""
        return self.count * _PER_BLOCK

    def address(self, position: int) -> str:
        """The address at a position."""
        block, host = divmod(position, _PER_BLOCK)
        high, low = divmod(self.first + block, 256)
        return f"127.{_FIRST_OCTET + high}.{low}.{host + 1}"


def allocate(
    name: str, namespace: str, pods: int, blocks: Collection[Block], owner: str = ""
) -> Block:
    """The block of a run: from the position of its name on, the first that is free.

    Args:
        name: the release.
        namespace: its namespace.
        pods: how many addresses it needs.
        blocks: the blocks of live runs.
        owner: whose run it is: runs of one name of several users do not meet.

    Raises:
        RunError: there is no room left.
    """
    count = max(1, -(-pods // _PER_BLOCK))
    digest = hashlib.sha256(f"{owner}/{namespace}/{name}".encode()).digest()
    start = int.from_bytes(digest[:4], "big")
    for step in range(_BLOCKS):
        block = Block((start + step) % _BLOCKS, count)
        if block.first + count <= _BLOCKS and not any(block.meets(other) for other in blocks):
            return block
    raise RunError(
        f"there are too few free loopback addresses for {plural(pods, 'pod')}: other runs "
        "hold them",
        hint="delete runs that are no longer needed",
    )


def bindable(address: str, port: int = 0) -> bool:
    """Whether a server could listen on the address and port; "" is the wildcard address."""
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


def free_port(start: int, claimed_ports: Iterable[int] = ()) -> int:
    """Claim the first port from `start` on that no one listens on and no live run has claimed.

    Args:
        start: the port to try first.
        claimed_ports: ports that live runs will listen on.

    Raises:
        RunError: all ports up to the last are taken.
    """
    claimed = frozenset(claimed_ports)
    for port in range(start, _LAST_PORT + 1):
        if port not in claimed and bindable("", port) and claim(port):
            return port
    raise RunError(f"no port from {start} to {_LAST_PORT} is free", hint="start lower")


def busy_ports(ports: Sequence[int], hosts: Sequence[str] = ("",)) -> tuple[int, ...]:
    """Those of `ports` that something already listens on.

    Args:
        ports: the ports.
        hosts: the addresses that count; "" is any of this machine.
    """
    return tuple(port for port in ports if not all(bindable(host, port) for host in hosts))


_HOST = "127.0.0.1"

# Of this process: what it has claimed, and has neither handed on nor given up.
_held: dict[int, socket.socket] = {}


def claim(port: int) -> bool:
    """Claim a port for this process.

    Args:
        port: its number.

    Returns:
        Whether it is this process's now; it may have been before.
    """
    if port in _held:
        return True
    mine = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mine.bind((_HOST, port))
    except OSError:  # somebody else's, or not for us to have
        mine.close()
        return False
    _held[port] = mine
    return True


def descriptors(ports: Iterable[int]) -> list[int]:
    """The file descriptors that a child inherits to own the claims on `ports`."""
    return [_held[port].fileno() for port in ports if port in _held]


@contextmanager
def drop_claims() -> Iterator[None]:
    """Drop all claims of this process at the end; what a child has inherited stays the child's."""
    try:
        yield
    finally:
        while _held:
            _, mine = _held.popitem()
            mine.close()
