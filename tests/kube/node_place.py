"""A place of its own for a node: namespaces that end together, and leave nothing.

A kubelet mounts, makes bridges and veth pairs, and writes iptables rules; containers outlive what
started them. Here all of that happens in a process, a mount and a network namespace of the run's
own. When their first process ends, in whatever way, the kernel kills every process in them and
drops their mounts, interfaces and rules. The machine itself gets one veth interface, which goes
with its other end, and cgroups, which are removed at the end, or by the next run.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kube.errors import BenchError
from tests.kube.image_programs import run

_CGROUPS = Path("/sys/fs/cgroup")
_DEVICES = Path("/sys/class/net")
_PREFIX = "allranks-"
_READY = "ready"


@dataclass(frozen=True, slots=True)
class Place:
    """The namespaces of one node.

    Attributes:
        name: unlike any other living place's: names its interface and its cgroups.
        pid: the first process in it, as this machine counts; its end is the end of the place.
        folder: the node's own files.
    """

    name: str
    pid: int
    folder: Path

    @property
    def cgroup(self) -> str:
        """The name of its cgroup, in each hierarchy."""
        return f"{_PREFIX}{self.name}"

    def command(self, *words: str | Path) -> list[str]:
        """A command line that runs in the place, started from outside of it."""
        entered = ("nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--")
        return [*entered, *map(str, words)]

    def host_path(self, path: str) -> Path:
        """Where this machine finds a file of the place, given the path it has there."""
        return Path(f"/proc/{self.pid}/root{path}")

    def run(self, *words: str | Path, purpose: str) -> str:
        """Run a program in the place to its end; see :func:`image_programs.run`."""
        return run(*self.command(*words), purpose=purpose)


def command(folder: Path) -> list[str]:
    """What starts a place and stays as long as it is to be there.

    Args:
        folder: for the node's own files; made where it is missing.

    Raises:
        BenchError: this is not root.
    """
    if os.geteuid():
        raise BenchError("a real node needs root", "run as root, or leave the node tier out")
    folder.mkdir(parents=True, exist_ok=True)
    namespaces = ("--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
    init = (sys.executable, "-u", str(Path(__file__).with_name("node_init.py")), str(folder))
    return ["unshare", *namespaces, *init]


def ready(folder: Path) -> bool:
    """Whether the place with these files can be entered."""
    return (folder / _READY).exists()


def enter(name: str, holder: int, folder: Path) -> Place:
    """A place that is ready.

    Args:
        name: see :class:`Place`.
        holder: the process that `command` became.
        folder: the one that `command` was given.
    """
    children = Path(f"/proc/{holder}/task/{holder}/children").read_text(encoding="ascii")
    return Place(name, int(children), folder)


def connect(place: Place, host: str, node: str, pods: str) -> None:
    """Join a place's network to this machine's, and give it cgroups.

    Args:
        place: the place.
        host: this machine's address, as the place will see it.
        node: the place's own address, as this machine will see it.
        pods: the range of addresses that pods have; they are seen in the place only.

    Raises:
        BenchError: this machine does not allow it, or a program is missing.
    """
    link = ("ip", "link", "add", place.name, "type", "veth", "peer", "name", "uplink")
    purpose = "join the node's network to this machine's"
    run(*link, "netns", str(place.pid), purpose=purpose)
    sweep()
    for hierarchy in _hierarchies():
        (hierarchy / place.cgroup).mkdir(exist_ok=True)
    run("ip", "addr", "add", f"{host}/30", "dev", place.name, purpose=purpose)
    run("ip", "link", "set", place.name, "up", purpose=purpose)
    script = f"""
        ip link set lo up
        ip addr add {node}/30 dev uplink
        ip link set uplink up
        ip route add default via {host}
        echo 1 > /proc/sys/net/ipv4/ip_forward
        PATH=$PATH:/usr/sbin:/sbin
        iptables --table nat --append POSTROUTING --source {pods} --out-interface uplink \
            --jump MASQUERADE
    """
    place.run("sh", "-euc", script, purpose="set up the node's network")


def leave(place: Place) -> None:
    """Remove what the end of a place's first process leaves for a moment, or for ever."""
    delete = ("ip", "link", "delete", place.name)  # it would go by itself, some time
    subprocess.run(delete, capture_output=True, check=False)
    sweep()


def sweep() -> None:
    """Remove the cgroups of places that are gone; the kernel does not."""
    for hierarchy in _hierarchies():
        for cgroup in hierarchy.glob(f"{_PREFIX}*/"):
            # A place has its interface before its cgroups.
            if (_DEVICES / cgroup.name.removeprefix(_PREFIX)).exists():
                continue
            # From the innermost; one that is in use says so and stays.
            for folder, _, _ in os.walk(cgroup, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()


def _hierarchies() -> list[Path]:
    """Where a cgroup of ours has a folder: one place in version 2, one per controller in 1."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    folders = [path for path in _CGROUPS.iterdir() if not path.is_symlink()]
    return [path for path in folders if (path / "cgroup.procs").exists()]
