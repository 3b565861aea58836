"""Who writes a journal in Secrets, and what it was asked: one Lease.

The Lease is for people: a second runner is told who runs the sweep, instead of finding out at its
first write. That two can never both write is not its business, but that of the segments' resource
versions (`secretjournal`), so that clocks which differ do no harm here. Whoever waits for the Lease
goes by its own clock: it takes it when nothing has renewed it for as long as its holder said. Where
the holder was a process of the same machine, and is gone, there is nothing to wait for.

A request to end is an annotation of the Lease. Its holder sees it in the answer to each renewal, so
that looking out for one costs no request.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.errors import AllranksError, ConflictError, InputError
from allranks.sweep.storage import processes
from allranks.sweep.storage.segments import annotation

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

# Seconds for which it is held without being renewed, and between two renewals.
DURATION = 12
EVERY = 3.0
_LOOK = 0.5
_STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"


def identity() -> str:
    """Who we are, for a person: the pod, or the machine and the process."""
    return os.environ.get(names.ENV_IDENTITY) or f"{socket.gethostname()}:{os.getpid()}"


def holder(lease: Manifest) -> str:
    """Who holds a Lease now, as far as this machine can tell; "" where nobody does."""
    who = _named(lease)
    return who if who and not _is_dead(lease) and _left(lease) > 0 else ""


def _named(lease: Manifest) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _left(lease: Manifest) -> float:
    """Seconds until it runs out, by this machine's clock."""
    spec = lease.get("spec") or {}
    try:
        renewed = datetime.strptime(str(spec.get("renewTime")), _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    return renewed.timestamp() + float(spec.get("leaseDurationSeconds") or 0) - time.time()


def _is_dead(lease: Manifest) -> bool:
    """Whether its holder was a process of this machine, and is gone."""
    return processes.is_gone(annotation(lease, names.SWEEP_HOLDER))


class Hold:
    """A Lease that is ours until `let_go`, or until another has it.

    Attributes:
        lost: who has it now; "" while it is ours.
    """

    def __init__(self, cluster: Cluster, namespace: str, name: str) -> None:
        """Nothing is asked yet.

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
        self._taken = ""
        self._ended = threading.Event()
        self._beat: threading.Thread | None = None

    def take(self, *, wait: bool) -> None:
        """Have it, and keep it.

        Args:
            wait: until its holder lets go of it, or has not renewed it for long enough.

        Raises:
            InputError: another holds it, or there is none.
            AllranksError: the cluster does not answer, or forbids it.
        """
        seen, since = "", time.monotonic()
        while True:
            lease = self._get()
            who = _named(lease)
            lasts = float((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
            if not wait and holder(lease) not in ("", self._who):
                raise InputError(
                    f"another process runs this sweep: {who}",
                    hint="watch it with `allranks sweep status`, or end it with `stop`; if that "
                    f"process is dead, try again in {math.ceil(min(_left(lease), lasts))} s",
                )
            if seen != lease["metadata"]["resourceVersion"]:
                seen, since = lease["metadata"]["resourceVersion"], time.monotonic()
            silent = time.monotonic() - since > lasts
            if not wait or who in ("", self._who) or silent or _is_dead(lease):
                with suppress(ConflictError):
                    self._renew(seen, acquired=True)
                    break
            time.sleep(_LOOK)
        self._beat = threading.Thread(target=self._keep, name="sweep-lease", daemon=True)
        self._beat.start()

    def take_request(self) -> str:
        """Why the sweep was asked to end since the last call; "" where it was not."""
        why = "" if self._request == self._taken else self._request
        self._taken = self._request
        return why

    def let_go(self) -> None:
        """Let the next one have it at once."""
        self._ended.set()
        if self._beat is None:
            return
        self._beat.join()
        self._beat = None
        if self.lost:
            return
        body: dict[str, Any] = {"spec": {"holderIdentity": ""}}
        if self._taken:
            body["metadata"] = {"annotations": {names.SWEEP_STOP: None}}
        with suppress(AllranksError):  # it runs out by itself
            self._patch(body)

    def _keep(self) -> None:
        while not self._ended.wait(EVERY):
            try:
                self._renew(self._version)
            except ConflictError:
                with suppress(AllranksError):
                    self._look_again()
            except AllranksError:
                continue  # the cluster may answer the next time
            if self.lost:
                return

    def _look_again(self) -> None:
        """Somebody has changed it: to ask for an end, or to have it."""
        lease = self._get()
        who = _named(lease)
        if who != self._who:
            self.lost = who or "nobody"
            return
        self._renew(lease["metadata"]["resourceVersion"])

    def _renew(self, version: str, *, acquired: bool = False) -> None:
        now = datetime.now(UTC).strftime(_STAMP)
        spec: dict[str, Any] = {"renewTime": now}
        metadata: dict[str, Any] = {"resourceVersion": version}
        if acquired:
            metadata["annotations"] = {names.SWEEP_HOLDER: processes.mine()}
            spec |= {
                "holderIdentity": self._who,
                "leaseDurationSeconds": DURATION,
                "acquireTime": now,
            }
        found = self._patch({"metadata": metadata, "spec": spec})
        self._version = found["metadata"]["resourceVersion"]
        self._request = annotation(found, names.SWEEP_STOP)
        if not self._request:
            self._taken = ""

    def _get(self) -> Manifest:
        return self._cluster.get(paths.LEASES, self._name, namespace=self._namespace)

    def _patch(self, body: Manifest) -> Manifest:
        return self._cluster.patch(paths.LEASES, self._name, body, namespace=self._namespace)
