"""Leader election: several replicas share one Lease, and the holder acts.

No time in the Lease is compared with a local clock (`allranks.k8s.lease` says why). A holder that
cannot renew in time stops acting well before others take the Lease over.

Even two at once would do no harm: pods have fixed names, and a status is written only over the one
that was read.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from allranks import names, retry
from allranks.errors import ApiError, ConflictError, ExistsError, NotFoundError
from allranks.k8s import lease as leases
from allranks_operator.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api


@dataclass(frozen=True, slots=True)
class Terms:
    """The Lease and its timing.

    Attributes:
        namespace: where it lies.
        name: its name.
        identity: the name of this operator; no other has the same.
        duration: the seconds after which a Lease that is not renewed expires.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0

    @property
    def renew_within(self) -> float:
        """The seconds without a renewal after which the holder stops acting."""
        return self.duration * 2 / 3

    @property
    def every(self) -> float:
        """The seconds between two tries."""
        return self.duration * 2 / 15


class Election:
    """Acquires and renews the Lease."""

    def __init__(
        self,
        api: Api,
        terms: Terms,
        *,
        gained: Callable[[], None],
        on_lost: Callable[[str], None],
        on_error: Callable[[ApiError], None],
        resumed: Callable[[], None],
        lacks: Callable[[], str] = str,
    ) -> None:
        """Create it; nothing is requested before `run`.

        Args:
            api: the API server.
            terms: the Lease.
            gained: called when this operator becomes the holder.
            on_lost: called with the reason when it is the holder no more.
            on_error: called with each failure to read or write the Lease.
            resumed: called when a late renewal succeeds: the holder did not act for a moment, and
                what it was to do then is still to be done.
            lacks: which rights we should have and have not, for who reads the Lease; "" for none.
        """
        self._api = api
        self._terms = terms
        self._gained = gained
        self._on_lost = on_lost
        self._on_error = on_error
        self._resumed = resumed
        self._lacks = lacks
        self._stopping = threading.Event()
        self._renewed: float | None = None
        self._expiry = leases.Expiry()

    @property
    def leading(self) -> bool:
        """Whether this operator holds the Lease and may act."""
        renewed = self._renewed
        return renewed is not None and not self._is_late(renewed)

    def _is_late(self, renewed: float) -> bool:
        """Whether a renewal is so long ago that the holder stops acting."""
        return time.monotonic() - renewed >= self._terms.renew_within

    def run(self) -> None:
        """Hold the Lease, or try to acquire it, until `stop`."""
        leading = False
        while not self._stopping.is_set():
            renewed = self._renewed
            reason = self._try()
            now = self.leading
            if now and not leading:
                self._gained()
            elif leading and not now:
                self._renewed = None
                self._on_lost(reason or "it could not be renewed in time")
            elif now and renewed is not None and self._is_late(renewed):
                self._resumed()
            leading = now
            # Two that wait do not try in the same moment.
            self._stopping.wait(retry.spread(self._terms.every, 0.8, 1.2))
        if leading:
            self._renewed = None
            self._release()

    def stop(self) -> None:
        """Release the Lease, so that another operator can take it at once."""
        self._stopping.set()

    def _try(self) -> str:
        """Acquire or renew the Lease; return the reason where that failed, "" else."""
        start = time.monotonic()
        terms = self._terms
        try:
            lease = self._api.get(LEASES, terms.namespace, terms.name)
        except NotFoundError:
            return self._create(start)
        except ApiError as error:
            self._on_error(error)
            return error.problem.message
        holder = leases.holder(lease)
        if holder not in ("", terms.identity) and not self._expiry.has_passed(
            lease, terms.duration, start
        ):
            self._renewed = None
            return f"{holder} holds it"
        return self._write(lease, start)

    def _create(self, start: float) -> str:
        terms = self._terms
        body = leases.new(terms.name, terms.namespace, self._spec({}))
        return self._send(lambda: self._api.create(LEASES, terms.namespace, body), start)

    def _write(self, lease: Manifest, start: float) -> str:
        """Write the Lease over the version that was read; the fastest writer wins."""
        terms = self._terms
        metadata = lease.get("metadata") or {}
        notes = dict(metadata.get("annotations") or {})
        notes.pop(names.LACKS, None)
        if lacks := self._lacks():
            notes[names.LACKS] = lacks
        body = {
            **lease,
            "metadata": {**metadata, "annotations": notes},
            "spec": self._spec(lease),
        }
        return self._send(
            lambda: self._api.replace(LEASES, terms.namespace, terms.name, body), start
        )

    def _send(self, request: Callable[[], object], start: float) -> str:
        """Send a request that acquires the Lease; return the reason where it failed, "" else."""
        try:
            request()
        except (ConflictError, ExistsError):
            return "another was faster"
        except ApiError as error:
            self._on_error(error)
            return error.problem.message
        self._renewed = start
        return ""

    def _spec(self, lease: Manifest) -> Manifest:
        terms = self._terms
        return leases.held_spec(lease, terms.identity, terms.duration, datetime.now(UTC))

    def _release(self) -> None:
        terms = self._terms
        try:
            lease = self._api.get(LEASES, terms.namespace, terms.name)
            if leases.holder(lease) == terms.identity:
                self._api.replace(LEASES, terms.namespace, terms.name, leases.release(lease))
        except ApiError as error:
            self._on_error(error)  # it runs out by itself
