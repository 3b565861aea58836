"""Who acts: judged by one's own clock alone, whatever times stand in the Lease."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.errors import BusyError, ConflictError, ExistsError, NotFoundError
from allranks_operator import leader_election
from allranks_operator.leader_election import Election, Terms

TERMS = Terms("lab", "allranks-watcher", "me")


class Leases:
    """A Lease on a server, and a clock."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.lease: dict[str, Any] | None = None
        self.fails = False
        self.races = 0

    def get(self, *_: str) -> dict[str, Any]:
        """Read it."""
        if self.fails:
            raise BusyError("no answer")
        if self.lease is None:
            raise NotFoundError("none")
        return {**self.lease, "spec": dict(self.lease["spec"])}

    def create(self, _path: str, _namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        """Make it."""
        if self.lease is not None:
            raise ExistsError("there")
        self.lease = {**body, "version": 0}
        return self.lease

    def replace(self, _path: str, _ns: str, _name: str, body: dict[str, Any]) -> dict[str, Any]:
        """Write it over the one that was read."""
        assert self.lease is not None
        if self.races or body["version"] != self.lease["version"]:
            self.races = max(0, self.races - 1)
            raise ConflictError("changed")
        self.lease = {**body, "version": body["version"] + 1}
        return self.lease

    def held_by(self, holder: str, renewed: str, seconds: Any = 15) -> None:
        """Somebody writes it."""
        version = self.lease["version"] + 1 if self.lease else 0
        spec = {
            "holderIdentity": holder,
            "renewTime": renewed,
            "leaseDurationSeconds": seconds,
            "leaseTransitions": 3,
        }
        self.lease = {"metadata": {"name": "allranks-watcher"}, "spec": spec, "version": version}


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> Leases:
    """A server and a clock."""
    fake_leases = Leases()
    monkeypatch.setattr(leader_election.time, "monotonic", lambda: fake_leases.now)
    return fake_leases


def election(leases: Leases, terms: Terms = TERMS) -> Election:
    """An election that tells nobody."""
    return Election(
        leases,  # type: ignore[arg-type]
        terms,
        gained=lambda: None,
        on_lost=lambda _: None,
        on_error=lambda _: None,
        resumed=lambda: None,
    )


def spec(leases: Leases) -> dict[str, Any]:
    """What stands in the Lease."""
    assert leases.lease is not None
    lease_spec: dict[str, Any] = leases.lease["spec"]
    return lease_spec


def test_a_lease_that_is_not_there_is_made(leases: Leases) -> None:
    """And is ours until it is not renewed in time."""
    elector = election(leases)
    assert ("", True) == (elector._try(), elector.leading)
    assert ("me", 15, 0) == tuple(
        spec(leases)[key] for key in ("holderIdentity", "leaseDurationSeconds", "leaseTransitions")
    )
    leases.now += 9.9
    assert elector.leading
    leases.now += 0.2
    assert not elector.leading


def test_it_is_renewed_without_a_change_of_hands(leases: Leases) -> None:
    """The time of its taking stays, and nobody counts a transition."""
    elector = election(leases)
    elector._try()
    acquire_time = spec(leases)["acquireTime"]
    leases.now += 5
    assert "" == elector._try()
    assert (acquire_time, 0) == (spec(leases)["acquireTime"], spec(leases)["leaseTransitions"])
    assert elector.leading


@pytest.mark.parametrize("renewed", ["2000-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "", "junk"])
def test_a_dead_holder_is_followed_by_our_own_clock(leases: Leases, renewed: str) -> None:
    """However old or new the time is that it wrote: from when we first saw it, as it said."""
    leases.held_by("other", renewed)
    elector = election(leases)
    assert "other holds it" == elector._try()
    leases.now += 15.0
    assert ("other holds it", False) == (elector._try(), elector.leading)
    leases.now += 0.1
    assert ("", True) == (elector._try(), elector.leading)
    assert 4 == spec(leases)["leaseTransitions"]


def test_a_holder_that_renews_is_left_alone(leases: Leases) -> None:
    """Even where its clock is an hour slow."""
    elector = election(leases)
    for number in range(30):
        leases.held_by("other", f"2000-01-01T00:00:{number:02}Z")
        assert "other holds it" == elector._try()
        leases.now += 10


def test_a_lease_that_was_let_go_is_taken_at_once(leases: Leases) -> None:
    """And so is our own from before a restart."""
    leases.held_by("", "2999-01-01T00:00:00Z")
    assert "" == election(leases)._try()
    leases.held_by("me", "2999-01-01T00:00:00Z")
    assert "" == election(leases)._try()


def test_of_two_that_write_one_wins(leases: Leases) -> None:
    """The other hears of it and waits."""
    elector, rival = election(leases), election(leases, Terms("lab", "allranks-watcher", "two"))
    leases.held_by("", "")
    leases.races = 1
    assert ("another was faster", False) == (elector._try(), elector.leading)
    assert ("", "me holds it") == (elector._try(), rival._try())
    assert (True, False) == (elector.leading, rival.leading)


def test_a_lease_that_is_stolen_is_given_up_at_once(leases: Leases) -> None:
    """Not only when it would have run out."""
    elector = election(leases)
    elector._try()
    leases.held_by("thief", "now")
    assert "thief holds it" == elector._try()
    assert not elector.leading


def test_without_an_answer_it_runs_out(leases: Leases) -> None:
    """A server that does not answer takes nothing away before its time."""
    elector = election(leases)
    elector._try()
    leases.fails = True
    leases.now += 5
    assert "no answer" == elector._try()
    assert elector.leading
    leases.now += 5.1
    assert not elector.leading


def test_it_is_let_go_at_the_end(leases: Leases) -> None:
    """So that another need not wait; a Lease of somebody else's stays."""
    elector = election(leases)
    elector._try()
    elector._release()
    assert "" == spec(leases)["holderIdentity"]
    leases.held_by("other", "now")
    elector._release()
    assert "other" == spec(leases)["holderIdentity"]


@pytest.mark.parametrize("seconds", [None, 0, -5, "x"])
def test_a_duration_that_makes_no_sense_is_ours(leases: Leases, seconds: Any) -> None:
    """A holder that says none holds it for as long as we would."""
    leases.held_by("other", "then", seconds)
    elector = election(leases)
    elector._try()
    leases.now += 14
    assert "other holds it" == elector._try()
    leases.now += 2
    assert "" == elector._try()


def test_rights_that_are_missing_stand_on_it(leases: Leases) -> None:
    """As long as they are, beside what others have written there."""
    lacks = ["in vision: create pods"]
    elector = Election(
        leases,  # type: ignore[arg-type]
        TERMS,
        gained=lambda: None,
        on_lost=lambda _: None,
        on_error=lambda _: None,
        resumed=lambda: None,
        lacks=lambda: "".join(lacks),
    )
    leases.held_by("", "")
    assert leases.lease is not None
    leases.lease["metadata"]["annotations"] = {"mine": "x"}
    elector._try()
    there = {"mine": "x", "allranks.dev/lacks": "in vision: create pods"}
    assert there == leases.lease["metadata"]["annotations"]
    lacks.clear()
    elector._try()
    assert {"mine": "x"} == leases.lease["metadata"]["annotations"]


def test_a_late_renewal_is_told(leases: Leases, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder did not act while its renewal was on the way, though it never lost the Lease."""
    terms = Terms("lab", "allranks-watcher", "me", duration=0.15)
    calls: list[str] = []
    elector = Election(
        leases,  # type: ignore[arg-type]
        terms,
        gained=lambda: calls.append("gained"),
        on_lost=calls.append,
        on_error=lambda _: None,
        resumed=lambda: calls.append("resumed"),
    )
    replace = leases.replace
    # Shares of the time within which the Lease is to be renewed; the last request gives it back.
    shares = [0.2, 0.85, 0.05, 0.05, 0.0]
    is_leading = []

    def slow(*arguments: Any) -> dict[str, Any]:
        leases.now += terms.renew_within * shares[len(is_leading)]
        is_leading.append(elector.leading)
        if len(is_leading) == len(shares) - 1:
            elector.stop()
        result: dict[str, Any] = replace(*arguments)
        return result

    monkeypatch.setattr(leases, "replace", slow)
    elector.run()
    assert [True, False, True, True, False] == is_leading
    assert ["gained", "resumed"] == calls
