"""Whose a release is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.sweep.owner import Owner, told

if TYPE_CHECKING:
    import pytest

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def test_no_two_sweeps_have_one_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one person on one machine; whatever their names are, labels can say them."""
    monkeypatch.setattr("getpass.getuser", lambda: "-jö doe,x=")
    monkeypatch.setattr("socket.gethostname", lambda: "host" * 30)
    one, other = Owner.new(), Owner.new()
    assert one.identity != other.identity
    for label in one.labels("s", 3).values():
        assert _LABEL.fullmatch(label), label
    assert one.owns(one.labels("s", 3), "s")
    assert not one.owns(other.labels("s", 3), "s")
    assert not one.owns(one.labels("t", 3), "s")
    assert not one.owns({"allranks.dev/sweep": "s"}, "s")
    assert one == Owner.of(one.as_dict())


def test_a_user_without_a_name_may_begin_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user no list has."""

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    assert "pod-1" == Owner.new().by


def test_who_it_is_is_told() -> None:
    """As far as it is known."""
    assert "something that is no trial" == told({})
    assert "a release of chart foo" == told({}, "foo")
    mark = Owner("1", "jo.laptop")
    assert "another sweep s, begun by jo.laptop" == told(mark.labels("s", 1), "foo")
