"""What this machine must have for the tiers beyond Python, and what fails without it."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kube import binaries

# Programs that Debian keeps out of an ordinary user's PATH; of PostgreSQL it may have several.
_SYSTEM = os.pathsep.join(
    ("/usr/sbin", "/sbin", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"))))
)

CLUSTER, NODE, MPI, LOCAL = "test-cluster", "test-node", "test-mpi", "test-local"
BROWSER, AZURITE = "test-browser", "test-azurite"


@dataclass(frozen=True, slots=True)
class Need:
    """A program of this machine, or a library.

    Attributes:
        program: found on PATH; a library by its file's name.
        package: Debian's, that has it.
        tiers: what is not tested without it.
    """

    program: str
    package: str
    tiers: tuple[str, ...]


NEEDS = (
    Need("openssl", "openssl", (CLUSTER, NODE)),
    Need("setpriv", "util-linux", (CLUSTER, NODE, MPI)),
    Need("ip", "iproute2", (NODE, MPI)),
    Need("iptables", "iptables", (NODE,)),
    Need("conntrack", "conntrack", (NODE,)),
    Need("runc", "runc", (NODE,)),
    Need("debootstrap", "debootstrap", (NODE,)),
    Need("sshd", "openssh-server", (MPI,)),
    Need("mpirun.openmpi", "openmpi-bin", (MPI,)),
    Need("busybox", "busybox", (MPI,)),
    Need("shellcheck", "shellcheck", (MPI,)),
    Need("chromium", "chromium", (BROWSER,)),
    Need("npm", "npm", (AZURITE,)),
    Need("postgres", "postgresql", (LOCAL,)),
    Need("libquadmath.so.0", "libquadmath0", (LOCAL,)),  # MXNet's wheel expects it
)


def missing() -> list[Need]:
    """What is not there."""
    return [need for need in NEEDS if not _has(need.program)]


def _has(program: str) -> bool:
    if ".so." in program:
        name = program.removeprefix("lib").partition(".")[0]
        return ctypes.util.find_library(name) is not None
    return bool(find(program))


def find(program: str) -> str:
    """The path of a program of this machine; "" where it is not there."""
    path = f"{os.environ.get('PATH', os.defpath)}{os.pathsep}{_SYSTEM}"
    return shutil.which(program, path=path) or ""


def blocked() -> dict[str, list[str]]:
    """Tier -> why it, or some test of it, cannot run here; tiers that can are left out."""
    obstacles: dict[str, list[str]] = {}
    if os.geteuid():
        obstacles[NODE] = ["a real node needs root"]
        obstacles[MPI] = ["pods made of namespaces need root"]
    elif not _may_make_namespaces():
        obstacles[NODE] = ["root may not make namespaces here"]
        obstacles[MPI] = ["root may not make namespaces here"]
    if shutil.which("go") is None and not all(module.built for module in binaries.MODULES):
        for tier in (CLUSTER, NODE):
            obstacles.setdefault(tier, []).append("go, which builds Kubernetes, is not on PATH")
    for need in missing():
        for tier in need.tiers:
            reason = f"{need.program} is missing (Debian's {need.package})"
            obstacles.setdefault(tier, []).append(reason)
    return obstacles


def _may_make_namespaces() -> bool:
    """Whether this root is one: in many containers it is not."""
    unshare = shutil.which("unshare")
    command = (unshare or "unshare", "--mount", "--net", "--pid", "--fork", "true")
    return (
        bool(unshare) and not subprocess.run(command, check=False, capture_output=True).returncode
    )


def install_missing() -> bool:
    """Install the Debian packages that are missing.

    Returns:
        Whether all are there now.
    """
    packages = sorted({need.package for need in missing()})
    if not packages:
        return True
    if os.geteuid() or shutil.which("apt-get") is None:
        return False
    print(f"installing {', '.join(packages)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = ("apt-get", "-q=2", "-o", "Dpkg::Use-Pty=0")
    for arguments in (("update",), ("install", "--no-install-recommends", *packages)):
        process = subprocess.run(
            (*quiet, *arguments), env=environment, check=False, stdout=sys.stderr
        )
        if process.returncode:
            return False
    return not missing()


def report(tier: str = "") -> int:
    """Say what this machine lacks; a line for each tier that cannot run.

    Args:
        tier: look at this one alone; "" is all of them.

    Returns:
        0 where all that was asked for can run, else 1.
    """
    obstacles = {
        name: reasons_of_tier for name, reasons_of_tier in blocked().items() if tier in ("", name)
    }
    for name, reasons in obstacles.items():
        print(f"{name} cannot run here: {'; '.join(reasons)}")
    lacking = [need for need in missing() if tier in ("", *need.tiers)]
    if lacking:
        print(f"  fix: apt-get install {' '.join(sorted({need.package for need in lacking}))}")
    return 1 if obstacles else 0
