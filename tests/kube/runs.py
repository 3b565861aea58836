"""What one run of the bench is called, where it lives, and which addresses are its own.

Two runs at once never meet: each claims a slot, which the kernel gives back when its guardian ends,
and everything that could clash (ports, CIDRs, names of network devices) follows from the slot.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube.errors import BenchError
from tests.kube.processes import Identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SLOTS = 100
# Below the ports that the kernel gives to connections (32768 and up), above those of other tests.
_FIRST_PORT = 26000
_PORTS = (
    "etcd",
    "etcd-peer",
    "api",
    "kwok",
    "kubelet",
    "kubelet-healthz",
    "kube-proxy-healthz",
    "kube-proxy-metrics",
    "dns",
)

STARTING, READY, FAILED = "starting", "ready", "failed"


def home() -> Path:
    """The folder of all runs of this user; `ALLRANKS_KUBE_RUNS` names another.

    Raises:
        BenchError: it belongs to somebody else.
    """
    default = Path(tempfile.gettempdir()) / f"allranks-kube-{os.getuid()}"
    folder = Path(os.environ.get("ALLRANKS_KUBE_RUNS") or default)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise BenchError(f"{folder} belongs to another user", "name one with ALLRANKS_KUBE_RUNS")
    return folder


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for.

    Attributes:
        kwok: fake nodes.
        node: one real node.
        controller_qps: requests per second that kube-controller-manager may make; 0 is its own
            default of 20.
        held: the run ends when the last process that holds it has ended.
    """

    kwok: bool = False
    node: bool = False
    controller_qps: int = 0
    held: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Attributes:
        name: unlike any other run's.
        options: what was asked for.
        slot: a number from 0 that no other living run has; -1 before it is claimed.
    """

    name: str
    options: Options
    slot: int = -1

    @property
    def folder(self) -> Path:
        """Where all of it lies."""
        return home() / self.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def hold(self) -> Path:
        """The pipe that every process keeps open for writing that needs the run."""
        return self.folder / "hold"

    @property
    def ending(self) -> Path:
        """There once nobody holds the run any more."""
        return self.folder / "ending"

    @property
    def audit_log(self) -> Path:
        """One line of JSON for each request that the API server has answered."""
        return self.folder / "audit.log"

    @property
    def node_ip(self) -> str:
        """The real node's address."""
        return f"10.88.{self.slot}.1"

    @property
    def pod_cidr(self) -> str:
        """The real node's pods."""
        return f"10.244.{self.slot}.0/24"

    @property
    def service_cidr(self) -> str:
        """The Services: 4,094 addresses."""
        block, part = divmod(self.slot, 16)
        return f"10.{96 + block}.{16 * part}.0/20"

    @property
    def dns_ip(self) -> str:
        """The Service address of the cluster's DNS."""
        return self.service_cidr.replace(".0/20", ".10")

    def device(self, name: str) -> str:
        """The name of a network device of this run; `name` has at most nine letters."""
        return f"ark{self.slot}{name}"

    def port(self, name: str) -> int:
        """The port on this machine of a part of the cluster."""
        return _FIRST_PORT + self.slot * len(_PORTS) + _PORTS.index(name)

    def claim(self) -> tuple[Run, int]:
        """This run with a slot of its own.

        Returns:
            The run, and the open lock file: the slot is free again when it is closed.

        Raises:
            BenchError: no slot is free.
        """
        for slot in range(SLOTS):
            lock = os.open(home() / f".slot-{slot}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lock)
                continue
            claimed = replace(self, slot=slot)
            if all(_free(claimed.port(name)) for name in _PORTS):
                return claimed, lock
            os.close(lock)
        raise BenchError(f"all {SLOTS} slots for clusters are taken", "python -m tests.kube status")


def listens(port: int) -> bool:
    """Whether a program of this machine takes connections on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - is it free on every address?
        except OSError:
            return False
    return True


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Alone with what decides whether a run is there: its start, and the end of a held one."""
    with (home() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class Record:
    """What a guardian says about its run, in `run.json`.

    Attributes:
        run: the run.
        state: starting, ready or failed.
        message: why it failed.
        guardian: the process that ends all others.
        processes: the others.
    """

    run: Run
    state: str
    guardian: Identity
    message: str = ""
    processes: Mapping[str, Identity] | None = None

    @property
    def alive(self) -> bool:
        """Whether its guardian still runs."""
        return self.guardian.alive

    def write(self) -> None:
        """Write it in one step: a reader never sees half of it."""
        partial = self.run.folder / f".run.json.{os.getpid()}"
        partial.write_text(json.dumps(asdict(self)), encoding="utf-8")
        partial.replace(self.run.folder / "run.json")


def read(name: str) -> Record | None:
    """The record of a run; None where it has none yet."""
    try:
        text = (home() / name / "run.json").read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    content = json.loads(text)
    run = Run(content["run"]["name"], Options(**content["run"]["options"]), content["run"]["slot"])
    return Record(
        run=run,
        state=content["state"],
        guardian=Identity(**content["guardian"]),
        message=content["message"],
        processes={
            name: Identity(**fields) for name, fields in (content["processes"] or {}).items()
        },
    )


def records() -> Iterator[Record]:
    """The records of all runs, also of dead ones."""
    for folder in sorted(home().iterdir()):
        if not folder.name.startswith(".") and (record := read(folder.name)) is not None:
            yield record


def sweep() -> None:
    """Remove what killed guardians have left: data, and a process should there be one."""
    for record in records():
        if not record.alive:
            for identity in (record.processes or {}).values():
                identity.end()
            shutil.rmtree(record.run.folder, ignore_errors=True)
