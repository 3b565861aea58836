"""Lease objects (coordination.k8s.io/v1): who holds one, until when, and how it is taken; pure.

The clocks of two machines differ, so the times in a Lease are never compared with a local clock to
take it from its holder. Who waits notes, by a monotonic clock of its own, when it saw the Lease
change, and takes it over when it has not changed for the Lease's duration (`Expiry`).
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

from allranks.k8s.fields import mapping, number, text, when

if TYPE_CHECKING:
    from datetime import datetime

    from allranks.k8s.manifest import Manifest


def holder(lease: Manifest) -> str:
    """The holder of a Lease; "" where it was released, or never taken."""
    return text(lease, "spec", "holderIdentity")


def renewed_at(lease: Manifest) -> float | None:
    """When its holder last renewed it, by the holder's clock, in seconds since 1970."""
    return when(lease, "spec", "renewTime")


def duration(lease: Manifest, default: float) -> float:
    """The seconds without a renewal after which a Lease expires.

    Args:
        lease: the Lease.
        default: where it says none that can be one.
    """
    seconds = number(lease, "spec", "leaseDurationSeconds")
    return float(seconds) if seconds is not None and seconds > 0 else default


def new(name: str, namespace: str, spec: Manifest) -> Manifest:
    """A Lease, as it is created.

    Args:
        name: its name.
        namespace: where.
        spec: see `held_spec`.
    """
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def held_spec(lease: Manifest, identity: str, seconds: float, now: datetime) -> Manifest:
    """The spec of a Lease that is acquired or renewed.

    Args:
        lease: the Lease as it was read; {} where there is none.
        identity: who holds it now.
        seconds: after which it expires unless it is renewed.
        now: an aware time.
    """
    spec = mapping(lease, "spec")
    stamp = now.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    renewed = holder(lease) == identity
    transitions = number(spec, "leaseTransitions") or 0
    return {
        **spec,
        "holderIdentity": identity,
        "leaseDurationSeconds": max(1, round(seconds)),
        "acquireTime": spec.get("acquireTime") if renewed else stamp,
        "renewTime": stamp,
        "leaseTransitions": transitions + (not renewed and bool(spec)),
    }


def release(lease: Manifest) -> Manifest:
    """The Lease without a holder, so that another can take it at once."""
    return {**lease, "spec": {**mapping(lease, "spec"), "holderIdentity": ""}}


class Expiry:
    """When a Lease that others hold has expired, by one's own clock."""

    def __init__(self) -> None:
        """Create it; no Lease was seen yet."""
        self._state: Any = None
        self._changed_at = 0.0

    def has_passed(self, lease: Manifest, default: float, now: float) -> bool:
        """Whether the Lease has not changed for as long as it lasts.

        Args:
            lease: the Lease as it was just read.
            default: the seconds that it lasts where it does not say.
            now: the time, by a monotonic clock in seconds.
        """
        spec = mapping(lease, "spec")
        state = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        if self._state != state:
            self._state, self._changed_at = state, now
        return now - self._changed_at > duration(lease, default)
