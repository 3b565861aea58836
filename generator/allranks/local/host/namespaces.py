"""A host for each pod: a host name, names of other pods, and shared memory of its own.

In a cluster each pod is a host. Programs that run on several hosts, MPI above all, look at the
host's name to tell who is beside them and who is across the network, and ask for the addresses of
names. On Linux a process may have its own view of both without being another machine: a UTS
namespace holds the host name, and a mount namespace holds another ``/etc/hosts`` and an empty
``/dev/shm``. Nothing else is separated: files, network, users and processes are the machine's.

Root may do that at once; another user needs a user namespace first, which distributions and
containers may forbid. `way` tries it in a child and says how it can be done here.

The mount of ``/dev/shm`` also carries the marks that all processes of a run have (see
`host.process_tree`). A program that writes over its own environment, as sshd does to show what it
is doing, cannot lose those.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import sys
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psutil


# Flags of unshare.
NEW_MOUNTS = 0x0002_0000
NEW_HOST_NAME = 0x0400_0000
NEW_USER = 0x1000_0000
# Flags of mount.
BIND = 0x1000
RECURSIVE = 0x4000
SLAVE = 0x8_0000
NO_SUID = 0x2
NO_DEVICES = 0x4
# Options of prctl.
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

LINUX = sys.platform == "linux"
_LIBC = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the parent's namespaces for new ones.

    Raises:
        OSError: this process may not, or the kernel cannot.
    """
    _call("unshare", flags)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system.

    Raises:
        OSError: this process may not, or the kernel cannot.
    """
    words = (os.fsencode(text) for text in (source, target, kind))
    _call("mount", *words, ctypes.c_ulong(flags), data.encode())


def prctl(option: int, value: int) -> None:
    """Set one property of this process.

    Raises:
        OSError: the kernel does not know it.
    """
    _call("prctl", option, value, 0, 0, 0)


def _call(name: str, *arguments: object) -> None:
    if not LINUX:
        raise OSError(errno.ENOSYS, f"{name} is Linux's own")
    if getattr(_LIBC, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


SHARED_MEMORY = "/dev/shm"  # noqa: S108 (the one place that POSIX shared memory has)
HOSTS = "/etc/hosts"
_SOURCE = "allranks"
_NAMESPACES = NEW_HOST_NAME | NEW_MOUNTS


class IsolationMethod(StrEnum):
    """The method by which a process gets a host of its own."""

    ROOT = "root"  # it may do so at once
    USER = "user"  # in a user namespace
    NONE = ""  # it may not


@dataclass(frozen=True, slots=True)
class Host:
    """The host that a pod sees.

    Attributes:
        way: how it gets it.
        name: the host name.
        hosts: the file that stands at ``/etc/hosts``.
        marks: variables and values that its processes are found by.
    """

    way: IsolationMethod
    name: str
    hosts: Path
    marks: Mapping[str, str]


def become(host: Host) -> None:
    """Move this single-threaded process, and all that it starts, to a host of its own.

    Raises:
        OSError: it may not.
    """
    if host.way is IsolationMethod.USER:
        _enter_user_namespace()
    elif host.way is IsolationMethod.ROOT:
        unshare(_NAMESPACES)
    else:
        return
    # What is mounted here stays here; what the machine mounts later arrives.
    mount("none", "/", "", RECURSIVE | SLAVE)
    socket.sethostname(host.name)
    mount(str(host.hosts), HOSTS, "", BIND)
    marks = ",".join((_SOURCE, *(f"{key}={value}" for key, value in host.marks.items())))
    if Path(SHARED_MEMORY).is_dir():
        mount(marks, SHARED_MEMORY, "tmpfs", NO_SUID | NO_DEVICES, "mode=1777")


def _enter_user_namespace() -> None:
    """Stay the same user, in a namespace where that user may name hosts and mount."""
    user, group = os.geteuid(), os.getegid()
    unshare(NEW_USER | _NAMESPACES)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


@cache
def way() -> IsolationMethod:
    """The method that works for processes of this user, tried in a child."""
    if not LINUX:
        return IsolationMethod.NONE
    # Root in a user namespace could not become another user, which root's programs count on.
    possible = IsolationMethod.ROOT if os.geteuid() == 0 else IsolationMethod.USER
    return possible if _works(possible) else IsolationMethod.NONE


def _works(possible: IsolationMethod) -> bool:
    child = os.fork()
    if child == 0:
        try:
            become(Host(possible, "allranks", Path(HOSTS), {}))
        except OSError:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status == 0


def namespace(process: psutil.Process) -> int | None:
    """The id of a process's mount namespace; None where it cannot be read."""
    try:
        return Path(f"/proc/{process.pid}/ns/mnt").stat().st_ino
    except OSError:
        return None


def marks(process: psutil.Process) -> dict[str, str]:
    """The marks of the host that a process is in; {} where it is no host of ours."""
    try:
        lines = Path(f"/proc/{process.pid}/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    for line in lines:
        fields, _, filesystem = line.partition(" - ")
        source = filesystem.split(" ")[1:2]
        if source and source[0].startswith(f"{_SOURCE},") and fields.split(" ")[4] == SHARED_MEMORY:
            return dict(option.split("=", 1) for option in source[0].split(",")[1:])
    return {}
