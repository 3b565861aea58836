"""Addresses and ports."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.errors import RunError
from allranks.local.host.addresses import (
    Block,
    allocate,
    bindable,
    busy_ports,
    free_port,
)
from allranks.local.plan.addresses import by_pod, own_ports, served_ports
from allranks.local.plan.expand import expand

if TYPE_CHECKING:
    from conftest import Manifests

_NAME = st.text(alphabet="abc-", min_size=1, max_size=5)


@given(st.lists(st.tuples(_NAME, _NAME, st.integers(1, 3000)), max_size=12))
def test_live_runs_never_share_an_address(runs: list[tuple[str, str, int]]) -> None:
    """Whatever the names, blocks that are live together do not meet, and stay in 127/8."""
    blocks: list[Block] = []
    for name, namespace, pods in runs:
        block = allocate(name, namespace, pods, blocks)
        assert not any(block.meets(other) for other in blocks)
        for position in (0, pods - 1):
            address = ipaddress.ip_address(block.address(position))
            assert address.is_loopback
            assert address not in ipaddress.ip_network("127.0.0.0/16")
        blocks.append(block)


def test_a_name_has_the_same_addresses_each_time() -> None:
    """The block comes from the name alone where nothing is in the way."""
    assert allocate("train", "lab", 4, []) == allocate("train", "lab", 4, [])
    assert allocate("train", "lab", 4, []) != allocate("train", "other", 4, [])
    assert allocate("train", "lab", 4, [], "me") != allocate("train", "lab", 4, [], "you")


def test_positions_have_distinct_addresses() -> None:
    """Pods beyond one block go on in the next, and no address ends in 0 or 255."""
    block = Block(255, 3)
    addresses = [block.address(position) for position in range(600)]
    assert len(set(addresses)) == 600
    assert (addresses[0], addresses[254]) == ("127.64.255.1", "127.65.0.1")
    assert not any(address.endswith((".0", ".255")) for address in addresses)


def test_more_pods_than_addresses_are_refused() -> None:
    """The refusal says what to do."""
    with pytest.raises(RunError, match="delete runs"):
        allocate("train", "lab", 64 * 256 * 254 + 1, [])


def test_each_pod_has_its_own_address(manifests: Manifests) -> None:
    """All of a release's pods differ."""
    release = expand([manifests.job(nodes=3)], name="train", namespace="lab")
    assert {"train-0": "127.64.7.1", "train-1": "127.64.7.2", "train-2": "127.64.7.3"} == by_pod(
        release, Block(7, 1)
    )


def test_a_listening_port_is_busy() -> None:
    """A port that something listens on, on any address, is not free."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not bindable("", port)
        assert (port,) == busy_ports([port])
        assert port != free_port(port)


def test_claimed_ports_are_passed_over() -> None:
    """A port that a live run will open is not offered, though nobody listens yet."""
    first = free_port(29500)
    assert first != free_port(first, [first])


def test_served_ports_are_the_services(manifests: Manifests) -> None:
    """Ports are those behind the Services, each once."""
    ports = [{"name": "a", "port": 80, "targetPort": 8080}, {"name": "b", "port": 29500}]
    documents = [manifests.job(), manifests.service(), manifests.service("x", ports=ports)]
    assert served_ports(expand(documents, name="train", namespace="lab")) == (29500, 8080)


def test_pods_of_an_elastic_job_have_ports_of_their_own(manifests: Manifests) -> None:
    """All listen on one number in a cluster; here each has another, which no live run has."""
    port = free_port(42000)
    service = manifests.service("j", selector={"app": "j"}, ports=[{"port": port}])
    job = manifests.job("j", 3, labels={"app": "j"})
    plain = expand([job, service], name="j", namespace="lab")
    assert {} == own_ports(plain, [port])
    job["metadata"]["labels"] = {names.WORKLOAD: "elastic"}
    ports = own_ports(expand([job, service], name="j", namespace="lab"), [port])
    assert [("j-0", port), ("j-1", port), ("j-2", port)] == list(ports)
    assert 4 == len({port, *ports.values()})
    assert all(bindable("", port) for port in ports.values())
