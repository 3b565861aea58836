"""A child that ends with its parent, however that ends."""

from __future__ import annotations

import subprocess
import sys

import psutil

from allranks.helm import driver

_PARENT = """
import subprocess, sys
from allranks.helm import driver
child = subprocess.Popen(["sleep", "600"], **driver.options())
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_with_a_parent_that_is_killed() -> None:
    """SIGKILL leaves the parent no moment to end it: the kernel does."""
    parent = subprocess.Popen([sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    assert "sleep" == child.name()
    parent.kill()
    parent.communicate()
    child.wait(60)
    assert not child.is_running()


def test_a_childs_garbage_collector_is_not_in_a_hurry() -> None:
    """Unless a person has said how it is to be."""
    assert {"GOGC": "off", "GOMEMLIMIT": "192MiB", "A": "1"} == driver.tied_environment({"A": "1"})
    assert "50" == driver.tied_environment({"GOGC": "50"})["GOGC"]
