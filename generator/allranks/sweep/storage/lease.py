"""Who writes a journal: a lease in a database, and a Lease of Kubernetes.

Both expire unless their holder renews them: a lease in a database by the database's clock, a Lease
by the clock of whoever waits for it. A process of the holder's machine need not wait for that: it
sees that the process is gone. A process number alone is not enough for that, as it may be reused,
or be of another machine or container.

The Lease is for people: a second runner is told who runs the sweep, instead of finding out at its
first write. That two can never both write is not its business, but that of the segments' resource
versions (`secrets`), so that clocks which differ do no harm here. A request to end is an annotation
of the Lease. Its holder sees it in the answer to each renewal, so that looking out for one costs no
request.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.errors import AllranksError, ConflictError, InputError
from allranks.k8s import lease as leases

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest

# How long a lease in a database lasts that is not renewed, and how often it is, in seconds.
SECONDS = 15.0
RENEWED_EVERY = 4.0
# The duration of a Lease of Kubernetes, and the time between two renewals, in seconds.
DURATION = 12
EVERY = 3.0
_POLL = 0.5
_STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"

# --- processes ------------------------------------------------------------------------------------


def kernel() -> str:
    """Return the identity of the running kernel and of this container's process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


def start_ticks(pid: int) -> str:
    """Return when a process began, in ticks; "" if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in ("Z", "X") else rest[18]


def process_mark() -> str:
    """Return the mark of this process, for `is_gone`; "" if it is unknown."""
    where = kernel()
    return f"{where} {os.getpid()} {start_ticks(os.getpid())}" if where else ""


def is_gone(mark: str) -> bool:
    """Whether a process was one of this machine's, and is gone.

    Args:
        mark: of `process_mark`, maybe of another machine; "" if it is unknown.
    """
    where, _, rest = mark.partition(" ")
    pid, _, ticks = rest.partition(" ")
    return pid.isdecimal() and has_ended(where, int(pid), ticks)


def has_ended(where: str, pid: int, ticks: str) -> bool:
    """Whether a process of this machine is gone, by its `kernel`, number and `start_ticks`."""
    return where == kernel() != "" and start_ticks(pid) != ticks


# --- a lease in a database ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write a journal.

    Attributes:
        holder: a name that no other writer has; "" of a lease that was given back.
        until: when it ends, in seconds since 1970 by the database's clock.
        host: the holder's machine, for a person.
        pid: the holder's process.
        kernel: which running kernel and which process numbers `pid` is of.
        begun: when the process began, in the kernel's ticks: a number may be another's by now.
    """

    holder: str = ""
    until: float = 0.0
    host: str = ""
    pid: int = 0
    kernel: str = ""
    begun: str = ""

    @classmethod
    def mine(cls) -> Lease:
        """Create a lease for this process, not in force yet."""
        pid = os.getpid()
        return cls(
            uuid.uuid4().hex,
            0.0,
            socket.gethostname(),
            pid,
            kernel(),
            start_ticks(pid),
        )

    @classmethod
    def parse(cls, text: str | None) -> Lease:
        """Parse the text of `text`; a released lease if it is not valid."""
        try:
            fields: dict[str, Any] = json.loads(text or "{}")
            texts = {key: str(fields.get(key, "")) for key in ("holder", "host", "kernel", "begun")}
            return cls(
                until=float(fields.get("until", 0.0)), pid=int(fields.get("pid", 0)), **texts
            )
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return cls()

    def text(self) -> str:
        """Return the lease as text for `parse`."""
        return json.dumps(asdict(self), sort_keys=True)

    def renew(self, now: float) -> Lease:
        """Return the lease, in force from now on."""
        return replace(self, until=now + SECONDS)

    def is_held(self, now: float) -> bool:
        """Whether the lease is in force.

        Args:
            now: by the database's clock.
        """
        return bool(self.holder) and now < self.until and not self.is_orphan()

    def is_orphan(self) -> bool:
        """Whether its process was one of this machine's, and is gone."""
        return has_ended(self.kernel, self.pid, self.begun)

    def is_near(self) -> bool:
        """Whether its process is one of this machine's, so that it can be seen."""
        return self.kernel == kernel() != ""

    def __str__(self) -> str:
        """Describe the holder."""
        return f"process {self.pid} on {self.host}"


# --- a Lease of Kubernetes ------------------------------------------------------------------------


def identity() -> str:
    """Return the identity of this process: the pod, or the machine and the process number."""
    return os.environ.get(names.ENV_IDENTITY) or f"{socket.gethostname()}:{os.getpid()}"


def annotation(item: Manifest, name: str) -> str:
    """Return an annotation of an object; "" if there is none."""
    return str((item["metadata"].get("annotations") or {}).get(name) or "")


def holder(lease: Manifest) -> str:
    """Return the current holder of a Lease, as far as this machine can tell; "" for none."""
    who = leases.holder(lease)
    return who if who and not _is_dead(lease) and _time_left(lease) > 0 else ""


def _time_left(lease: Manifest) -> float:
    """Return the seconds until it expires, by this machine's clock."""
    renewed = leases.renewed_at(lease)
    return 0.0 if renewed is None else renewed + leases.duration(lease, 0.0) - time.time()


def _seconds_left(lease: Manifest) -> int:
    """Return the whole seconds until it expires; a clock that is ahead makes them no more."""
    return math.ceil(min(_time_left(lease), leases.duration(lease, 0.0)))


def _is_dead(lease: Manifest) -> bool:
    """Whether its holder was a process of this machine, and is gone."""
    return is_gone(annotation(lease, names.SWEEP_HOLDER))


class LeaseHolder:
    """A Lease that this process holds until `release`, or until another takes it.

    Attributes:
        lost: the new holder; "" while it is ours.
    """

    def __init__(self, cluster: KubeClient, namespace: str, name: str) -> None:
        """Create it without any request.

        Args:
            cluster: the cluster.
            namespace: the Lease's.
            name: the Lease's.
        """
        self.lost = ""
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._who = identity()
        self._version = ""
        self._request = ""
        self._delivered_request = ""
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None

    def acquire(self, *, wait: bool) -> None:
        """Acquire the Lease, and renew it in the background.

        Args:
            wait: wait until its holder releases it, or lets it expire.

        Raises:
            InputError: another holds it, or there is none.
            AllranksError: the cluster does not answer, or forbids it.
        """
        expiry = leases.Expiry()
        while True:
            lease = self._get()
            who = leases.holder(lease)
            if not wait and holder(lease) not in ("", self._who):
                raise InputError(
                    f"another process runs this sweep: {who}",
                    hint="watch it with `allranks sweep status`, or end it with `stop`; if that "
                    f"process is dead, try again in {_seconds_left(lease)} s",
                )
            silent = expiry.has_passed(lease, 0.0, time.monotonic())
            if not wait or who in ("", self._who) or silent or _is_dead(lease):
                with suppress(ConflictError):
                    self._renew(lease["metadata"]["resourceVersion"], acquired=True)
                    break
            time.sleep(_POLL)
        self._beat = threading.Thread(
            target=self._renew_until_released, name="sweep-lease", daemon=True
        )
        self._beat.start()

    def take_request(self) -> str:
        """Return the reason of a stop request since the last call; "" for none."""
        reason = "" if self._request == self._delivered_request else self._request
        self._delivered_request = self._request
        return reason

    def release(self) -> None:
        """Release the Lease."""
        self._ended.set()
        if self._beat is None:
            return
        self._beat.join()
        self._beat = None
        if self.lost:
            return
        body: dict[str, Any] = {"spec": {"holderIdentity": ""}}
        if self._delivered_request:
            body["metadata"] = {"annotations": {names.SWEEP_STOP: None}}
        with suppress(AllranksError):  # it runs out by itself
            self._patch(body)

    def _renew_until_released(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                self._renew(self._version)
            except ConflictError:
                with suppress(AllranksError):
                    self._read_again()
            except AllranksError:
                continue  # the cluster may answer the next time
            if self.lost:
                return

    def _read_again(self) -> None:
        """Read the Lease after a conflict: another process requested a stop, or took it."""
        lease = self._get()
        who = leases.holder(lease)
        if who != self._who:
            self.lost = who or "nobody"
            return
        self._renew(lease["metadata"]["resourceVersion"])

    def _renew(self, version: str, *, acquired: bool = False) -> None:
        now = datetime.now(UTC).strftime(_STAMP)
        spec: dict[str, Any] = {"renewTime": now}
        metadata: dict[str, Any] = {"resourceVersion": version}
        if acquired:
            metadata["annotations"] = {names.SWEEP_HOLDER: process_mark()}
            spec |= {
                "holderIdentity": self._who,
                "leaseDurationSeconds": DURATION,
                "acquireTime": now,
            }
        lease = self._patch({"metadata": metadata, "spec": spec})
        self._version = lease["metadata"]["resourceVersion"]
        self._request = annotation(lease, names.SWEEP_STOP)
        if not self._request:
            self._delivered_request = ""

    def _get(self) -> Manifest:
        return self._cluster.get(paths.LEASES, self._name, namespace=self._namespace)

    def _patch(self, body: Manifest) -> Manifest:
        return self._cluster.patch(paths.LEASES, self._name, body, namespace=self._namespace)
