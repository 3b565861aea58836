"""Lease objects: who holds one, how it is taken, and when it has expired."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from allranks.k8s import lease

NOW = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)


def test_a_new_lease_has_its_holder_and_no_transition() -> None:
    """As a controller of Kubernetes' own would create it."""
    manifest = lease.new("l", "lab", lease.held_spec({}, "me", 15.2, NOW))
    assert ("Lease", "lab") == (manifest["kind"], manifest["metadata"]["namespace"])
    assert "me" == lease.holder(manifest)
    assert NOW.timestamp() == pytest.approx(lease.renewed_at(manifest))
    assert (15.0, 0) == (lease.duration(manifest, 1.0), manifest["spec"]["leaseTransitions"])


def test_a_renewal_keeps_the_time_of_its_taking() -> None:
    """And a change of hands counts a transition."""
    first = {"spec": lease.held_spec({}, "me", 15, NOW)}
    renewed = {"spec": lease.held_spec(first, "me", 15, NOW + timedelta(seconds=9))}
    taken_lease = {"spec": lease.held_spec(renewed, "other", 15, NOW + timedelta(seconds=99))}
    assert first["spec"]["acquireTime"] == renewed["spec"]["acquireTime"]
    assert first["spec"]["renewTime"] != renewed["spec"]["renewTime"]
    assert [0, 0, 1] == [
        manifest["spec"]["leaseTransitions"] for manifest in (first, renewed, taken_lease)
    ]
    assert taken_lease["spec"]["acquireTime"] == taken_lease["spec"]["renewTime"]


def test_a_released_lease_keeps_all_but_its_holder() -> None:
    """Its version too, so that it is written over the one that was read."""
    held_lease = {"metadata": {"resourceVersion": "7"}, "spec": lease.held_spec({}, "me", 15, NOW)}
    free = lease.release(held_lease)
    assert ("", "7") == (lease.holder(free), free["metadata"]["resourceVersion"])
    assert held_lease["spec"]["renewTime"] == free["spec"]["renewTime"]


def test_a_lease_expires_when_it_was_not_seen_to_change() -> None:
    """Whatever time stands in it, as long as it says that it lasts."""
    expiry = lease.Expiry()
    first = {"spec": {"holderIdentity": "a", "renewTime": "2999", "leaseDurationSeconds": 5}}
    second = {"spec": {**first["spec"], "renewTime": "1999"}}
    observations = [(first, 0), (first, 5), (second, 9), (second, 14), (second, 14.1)]
    assert [False, False, False, False, True] == [
        expiry.has_passed(manifest, 15.0, now) for manifest, now in observations
    ]


@pytest.mark.parametrize("spec", [None, {}, {"leaseDurationSeconds": 0}, {"holderIdentity": 3}])
def test_what_makes_no_sense_is_read_as_nothing(spec: Any) -> None:
    """Anybody with the right may have written it."""
    manifest = {"spec": spec}
    assert ("", None, 15.0) == (
        lease.holder(manifest),
        lease.renewed_at(manifest),
        lease.duration(manifest, 15.0),
    )
    assert "me" == lease.held_spec(manifest, "me", 15, NOW)["holderIdentity"]
