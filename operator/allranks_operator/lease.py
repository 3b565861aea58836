"""Which of several watchers acts: one Lease, held by whoever renews it.

The clocks of two machines differ. So nobody compares the times that another wrote into the Lease
with a clock of its own: a watcher notes when, by its own monotonic clock, it saw the Lease change,
and takes it over when it has not changed for as long as its holder said it would hold it. A holder
that cannot renew in time stops acting well before that.

Even two at once would do no harm: pods have fixed names, and a status is written only over the one
that was read.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks_operator.kube.errors import ApiError, ConflictError, ExistsError, GoneError
from allranks_operator.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.model.manifest import Manifest
    from allranks_operator.kube.api import Api


@dataclass(frozen=True, slots=True)
class Terms:
    """The Lease, and how it is held.

    Attributes:
        namespace: where it lies.
        name: its name.
        identity: who we are; unlike any other watcher's.
        duration: seconds for which it is held without being renewed.
    """

    namespace: str
    name: str
    identity: str
    duration: float = 15.0

    @property
    def renew_within(self) -> float:
        """Seconds without a renewal after which its holder stops acting."""
        return self.duration * 2 / 3

    @property
    def every(self) -> float:
        """Seconds between two tries."""
        return self.duration * 2 / 15


class Election:
    """Takes the Lease, and says whether we have it."""

    def __init__(
        self,
        api: Api,
        terms: Terms,
        *,
        gained: Callable[[], None],
        lost: Callable[[str], None],
        told: Callable[[ApiError], None],
        lacks: Callable[[], str] = str,
    ) -> None:
        """Nothing is asked before `run`.

        Args:
            api: the API server.
            terms: the Lease.
            gained: called when it becomes ours.
            lost: called when it is ours no more, with the reason.
            told: called with each failure to read or write it.
            lacks: which rights we should have and have not, for who reads the Lease; "" for none.
        """
        self._api = api
        self._terms = terms
        self._gained = gained
        self._lost = lost
        self._told = told
        self._lacks = lacks
        self._stopping = threading.Event()
        self._renewed: float | None = None
        self._seen: tuple[Any, float] = (None, 0.0)

    @property
    def leading(self) -> bool:
        """Whether we may act now."""
        renewed = self._renewed
        return renewed is not None and time.monotonic() - renewed < self._terms.renew_within

    def run(self) -> None:
        """Hold the Lease, or wait for it, until `stop`."""
        leading = False
        while not self._stopping.is_set():
            why = self._try()
            now = self.leading
            if now and not leading:
                self._gained()
            elif leading and not now:
                self._renewed = None
                self._lost(why or "it could not be renewed in time")
            leading = now
            # Two that wait do not try in the same moment.
            self._stopping.wait(self._terms.every * (0.8 + 0.4 * random.random()))  # noqa: S311
        if leading:
            self._renewed = None
            self._release()

    def stop(self) -> None:
        """Let it go, so that another may take it at once."""
        self._stopping.set()

    def _try(self) -> str:
        """Renew or take it; return why it is not ours."""
        started = time.monotonic()
        terms = self._terms
        try:
            found = self._api.get(LEASES, terms.namespace, terms.name)
        except GoneError:
            return self._create(started)
        except ApiError as error:
            self._told(error)
            return error.problem.message
        spec = found.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        if holder not in ("", terms.identity) and not self._expired(spec, started):
            self._renewed = None
            return f"{holder} holds it"
        return self._write(found, holder, started)

    def _expired(self, spec: Manifest, now: float) -> bool:
        """Whether its holder has let it run out, as we have seen with our own clock."""
        state = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._seen[0] != state:
            self._seen = (state, now)
        held = spec.get("leaseDurationSeconds")
        duration = float(held) if isinstance(held, int) and held > 0 else self._terms.duration
        return now - self._seen[1] > duration

    def _create(self, started: float) -> str:
        terms = self._terms
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": terms.name, "namespace": terms.namespace},
            "spec": self._spec({}, ""),
        }
        return self._sent(lambda: self._api.create(LEASES, terms.namespace, body), started)

    def _write(self, found: Manifest, holder: str, started: float) -> str:
        """Write ourselves into the Lease that was read; whoever was faster wins."""
        terms = self._terms
        metadata = found.get("metadata") or {}
        notes = dict(metadata.get("annotations") or {})
        notes.pop(names.LACKS, None)
        if lacks := self._lacks():
            notes[names.LACKS] = lacks
        body = {
            **found,
            "metadata": {**metadata, "annotations": notes},
            "spec": self._spec(found.get("spec") or {}, holder),
        }
        return self._sent(
            lambda: self._api.replace(LEASES, terms.namespace, terms.name, body), started
        )

    def _sent(self, request: Callable[[], object], started: float) -> str:
        """Make a request that makes the Lease ours; return why it does not."""
        try:
            request()
        except (ConflictError, ExistsError):
            return "another was faster"
        except ApiError as error:
            self._told(error)
            return error.problem.message
        self._renewed = started
        return ""

    def _spec(self, spec: Manifest, holder: str) -> Manifest:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        mine = holder == self._terms.identity
        transitions = spec.get("leaseTransitions")
        count = transitions if isinstance(transitions, int) else 0
        return {
            **spec,
            "holderIdentity": self._terms.identity,
            "leaseDurationSeconds": max(1, round(self._terms.duration)),
            "acquireTime": spec.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": count + (not mine and bool(spec)),
        }

    def _release(self) -> None:
        terms = self._terms
        try:
            found = self._api.get(LEASES, terms.namespace, terms.name)
            if (found.get("spec") or {}).get("holderIdentity") == terms.identity:
                body = {**found, "spec": {**found["spec"], "holderIdentity": ""}}
                self._api.replace(LEASES, terms.namespace, terms.name, body)
        except ApiError as error:
            self._told(error)  # it runs out by itself
