"""MPI jobs on one machine: the replacement of a cluster's network and ssh.

Each of its pods gets a host of its own where the machine allows it (`host.namespaces`), and
an sshd of its own on its address where one is installed. Where something of that is missing the
ranks are started all the same, through the chart's `local` transport: a file that says where each
pod is takes the place of ssh. `arrange` decides which, once per run; the rest follows from it.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import atomic, names
from allranks.local.host import enter, namespaces
from allranks.local.host.addresses import bindable
from allranks.local.host.namespaces import IsolationMethod
from allranks.local.plan.rewrite import hosts_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.local.host.addresses import Block
    from allranks.local.plan.model import PodPlan, ReleasePlan

# Where sshd stands on systems whose PATH for users does not lead there.
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
_NO_SHELL = frozenset({"nologin", "false"})
_KEY_PATH = "/etc/allranks-ssh"
_KEY = "ssh-privatekey"
# All hosts are this machine: to bind ranks to cores would bind those of each host to the same ones.
_SETTINGS = {
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "I_MPI_PIN": "off",
}
# What Open MPI keeps while it runs goes with the pod, whatever ends it.
_OWN_HOST_SETTINGS = {
    "PRTE_MCA_prte_tmpdir_base": namespaces.SHARED_MEMORY,
    "OMPI_MCA_orte_tmpdir_base": namespaces.SHARED_MEMORY,
}
# Pods of one host name are one host to Open MPI and several nodes to its daemons. Its shared memory
# names a segment by host and number on the node, so that two pods write into one file (exit code
# 139); its hierarchical collectives wait for ranks that are on no node. Open MPI 4 and 5 know both.
_SHARED_HOST_SETTINGS = {"OMPI_MCA_btl": "^vader", "OMPI_MCA_coll": "^han"}

_MAP = "map"
# How long pods that their lead has told to end may take before they are stopped.
_LEAVE_SECONDS = 15.0
_ALONE = "this machine gives a pod no host name of its own"


@dataclass(frozen=True, slots=True)
class PodEntry:
    """The way to enter a running pod.

    Attributes:
        hosts: what the launcher may call it.
        state: its state folder.
        pid: its container's first process.
        container: the mark of that container.
    """

    hosts: tuple[str, ...]
    state: str
    pid: int
    container: str


@dataclass(frozen=True, slots=True)
class Machine:
    """The features of this machine that an MPI job needs.

    Attributes:
        way: how a pod gets a host of its own.
        sshd: whether this user can run an sshd and log in to it.
        addresses: whether each pod has an address of its own.
    """

    way: IsolationMethod
    sshd: bool
    addresses: bool


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The way that the pods of a run reach each other.

    Attributes:
        way: how each gets a host of its own; `Way.NONE` where all share this machine's.
        direct: whether ranks on other pods are started without ssh or a cluster's API.
        note: what a person should know about it; "" for nothing.
    """

    way: IsolationMethod = IsolationMethod.NONE
    direct: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"way": str(self.way), "direct": self.direct, "note": self.note}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Arrangement:
        """Read `as_dict` back; of a record without one, the arrangement that changes nothing."""
        return cls(
            IsolationMethod(data.get("way", "")),
            bool(data.get("direct")),
            str(data.get("note", "")),
        )


def machine(block: Block) -> Machine:
    """Detect the features of this machine.

    Args:
        block: the addresses of the run.
    """
    return Machine(namespaces.way(), sshd=_has_sshd(), addresses=bindable(block.address(0)))


def _has_sshd() -> bool:
    """Whether this user can run an sshd, and has a shell that it could start."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), _SYSTEM_PATH))
    try:
        shell = Path(pwd.getpwuid(os.geteuid()).pw_shell).name
    except KeyError:
        return False
    return shell not in _NO_SHELL and None not in (
        shutil.which("sshd", path=path),
        shutil.which("ssh"),
    )


def arrange(release: ReleasePlan, machine: Machine) -> Arrangement:
    """The arrangement of a release's pods on a machine.

    Args:
        release: what is to run.
        machine: where.
    """
    transport = _transport(release)
    if not transport:
        return Arrangement()
    if machine.way is IsolationMethod.NONE or not machine.addresses:
        description = "ranks see this machine's name, and are started without ssh"
        return Arrangement(direct=True, note=f"{_ALONE}: {description}")
    if transport == "ssh" and machine.sshd and not _missing_keys(release):
        return Arrangement(way=machine.way)
    reason = "there is no sshd here that this user can log in to"
    if transport != "ssh":
        reason = f"mpi.transport {transport} needs the API of a cluster"
    elif machine.sshd:
        reason = f"the Secret {_missing_keys(release)[0]!r} is not on this machine"
    # Only root may go into a namespace that another process has made.
    way = machine.way if machine.way is IsolationMethod.ROOT else IsolationMethod.NONE
    return Arrangement(way, direct=True, note=f"{reason}: ranks are started without it")


def _transport(release: ReleasePlan) -> str:
    """The transport of a release's launcher; "" where it names none."""
    lead = release.launcher
    return _env(lead.pods[0], names.ENV_MPI_TRANSPORT) if lead and lead.pods else ""


def _env(pod: PodPlan, name: str) -> str:
    """The literal value of a pod's variable."""
    keys = (
        str(variable.get("value") or "")
        for container in pod.containers
        for variable in container.manifest.get("env") or ()
        if variable.get("name") == name
    )
    return next(keys, "")


def needs_mpirun(release: ReleasePlan) -> bool:
    """Whether the launcher puts mpirun before the command."""
    lead = release.launcher
    return bool(lead and lead.pods and _env(lead.pods[0], names.ENV_MPI_WRAP))


def listening(release: ReleasePlan, addresses: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses that an MPI job's pods listen on, where each has its own; else ()."""
    return tuple(dict.fromkeys(addresses.values())) if _transport(release) else ()


# ---------------------------------------------------------------- Secrets


def complete(release: ReleasePlan, arrangement: Arrangement) -> ReleasePlan:
    """The release with empty ssh keys, which ranks that are started directly do not need."""
    if not arrangement.direct:
        return release
    empty = {name: {_KEY: b""} for name in _missing_keys(release)}
    return replace(release, secrets={**release.secrets, **empty})


def _missing_keys(release: ReleasePlan) -> list[str]:
    """The Secrets of mounted ssh keys that are not among the manifests."""
    mounted = (name for pod in release.pods for name in _keys(pod))
    return [name for name in dict.fromkeys(mounted) if name not in release.secrets]


def _keys(pod: PodPlan) -> Iterator[str]:
    mounts = (
        mount
        for container in pod.containers
        for mount in container.manifest.get("volumeMounts") or ()
    )
    volumes = {str(volume.get("name")): volume for volume in pod.spec.get("volumes") or ()}
    for mount in mounts:
        volume = volumes.get(str(mount.get("name")), {})
        if str(mount.get("mountPath")) == _KEY_PATH and volume.get("secret"):
            yield str(volume["secret"].get("secretName", ""))


# ---------------------------------------------------------------- what the pods are given


def defaults(arrangement: Arrangement) -> dict[str, str]:
    """Variables of a pod unless its manifest or the caller's shell sets them."""
    if arrangement.way:
        return {**_SETTINGS, **_OWN_HOST_SETTINGS}
    return {**_SETTINGS, **(_SHARED_HOST_SETTINGS if arrangement.direct else {})}


def orders(arrangement: Arrangement, run: Path) -> dict[str, str]:
    """Variables of a pod that override its manifest.

    Args:
        arrangement: of the run.
        run: the run's folder.
    """
    if not arrangement.direct:
        return {}
    return {names.ENV_MPI_TRANSPORT: "local", names.ENV_MPI_LOCAL_MAP: str(run / _MAP)}


def names_in_text(
    release: ReleasePlan, addresses: Mapping[str, str], arrangement: Arrangement
) -> dict[str, str]:
    """The name of each pod in text: its host name where that resolves."""
    if not arrangement.way:
        return dict(addresses)
    return {pod.name: pod.hostname for pod in release.pods}


def write_hosts(
    run: Path, release: ReleasePlan, addresses: Mapping[str, str], arrangement: Arrangement
) -> Path:
    """Write ``/etc/hosts`` of the pods: the machine's own lines, and the release's names.

    Returns:
        The file; the machine's own where no pod has a host of its own.
    """
    own = Path(namespaces.HOSTS)
    if not arrangement.way:
        return own
    path = run / "hosts"
    path.write_text("\n".join((own.read_text().rstrip("\n"), *hosts_lines(release, addresses), "")))
    return path


def leave_seconds(release: ReleasePlan) -> float:
    """The seconds that the other pods may take to end after the lead.

    It has told them to, unless it is a launcher that is to leave its workers alone; then they are
    stopped at once, for here nothing goes on behind a run that has ended.
    """
    launcher = release.launcher
    if launcher is None:
        return _LEAVE_SECONDS
    policy = _env(launcher.pods[0], names.ENV_MPI_CLEAN)
    return 0.0 if policy in {"", "None"} else _LEAVE_SECONDS


class Directory:
    """The file with the location of each pod, updated as pods come and go.

    Args:
        run: the run's folder.
        arrangement: of the run.
    """

    def __init__(self, run: Path, arrangement: Arrangement) -> None:
        self._path = run / _MAP
        self._is_direct = arrangement.direct
        self._enter = run / "enter" if arrangement.way else None
        self._written = ""
        if self._is_direct:
            self._path.touch()
        if self._is_direct and self._enter is not None:
            words = (sys.executable, "-I", "-S", enter.__file__)
            self._enter.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            self._enter.chmod(0o700)

    def write(self, doors: Sequence[PodEntry]) -> None:
        """Write the file atomically.

        Each line, with tabs between: host, state folder, and each word that leads there before a
        command.
        """
        if not self._is_direct:
            return
        text = "".join(self._lines(doors))
        if text != self._written:
            atomic.write(self._path, text)
            self._written = text

    def _lines(self, doors: Sequence[PodEntry]) -> Iterator[str]:
        for door in doors:
            words = (str(self._enter), str(door.pid), door.container) if self._enter else ()
            for host in door.hosts:
                yield "\t".join((host, door.state, *words)) + "\n"
