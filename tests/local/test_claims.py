"""Ports, claimed across the state folders and the persons of one machine."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from allranks.local.host import addresses

from .conftest import Machine, container, until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

_OTHER = """
import sys
from allranks.local.host import addresses
print(addresses.free_port(int(sys.argv[1])), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def start() -> Iterator[int]:
    """A port that is free now, far from those that other tests ask for."""
    with addresses.drop_claims():
        port = addresses.free_port(41500)
    yield port
    with addresses.drop_claims():
        pass


def test_two_programs_that_choose_at_once_choose_different_ports(start: int) -> None:
    """A port is another's from when it was chosen, and free again with the end of who chose it."""
    words = [sys.executable, "-c", _OTHER, str(start)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert theirs >= start
        with addresses.drop_claims():
            assert theirs != addresses.free_port(theirs)
        assert not addresses.claim(theirs)
        other.kill()
    assert addresses.claim(theirs)


def test_a_claim_made_twice_is_one(start: int) -> None:
    """Who has a port may claim it again."""
    assert addresses.claim(start)
    assert addresses.claim(start)


def test_a_run_holds_its_port_before_its_program_listens(machine: Machine, start: int) -> None:
    """Another state folder's run does not get the port of one that has not opened it yet."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "quiet"},
        "spec": {
            "clusterIP": "None",
            "selector": {"app": "quiet"},
            "ports": [{"name": "rdzv", "port": start}],
        },
    }
    quiet = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "quiet"},
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "quiet"}},
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [container("echo up; sleep 600")],
                },
            }
        },
    }
    handle = machine.start(service, quiet)
    until(lambda: "Running" == handle.status().phase, "running")
    assert addresses.bindable("", start)
    assert not addresses.claim(start)
    handle.stop(at_once=True)
    handle.wait()
    assert addresses.claim(start)
