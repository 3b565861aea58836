"""Whose a release is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.sweep.ownership import OwnerMark, describe

if TYPE_CHECKING:
    import pytest

_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def test_no_two_sweeps_have_one_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one person on one machine; whatever their names are, labels can say them."""
    monkeypatch.setattr("getpass.getuser", lambda: "-jö doe,x=")
    monkeypatch.setattr("socket.gethostname", lambda: "host" * 30)
    mark, other = OwnerMark.new(), OwnerMark.new()
    assert mark.identity != other.identity
    for label in mark.labels("s", 3).values():
        assert _LABEL.fullmatch(label), label
    assert mark.owns(mark.labels("s", 3), "s")
    assert not mark.owns(other.labels("s", 3), "s")
    assert not mark.owns(mark.labels("t", 3), "s")
    assert not mark.owns({"allranks.dev/sweep": "s"}, "s")
    assert mark == OwnerMark.of(mark.as_dict())


def test_a_user_without_a_name_may_begin_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user no list has."""

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("socket.gethostname", lambda: "pod-1")
    assert "pod-1" == OwnerMark.new().created_by


def test_who_it_is_is_told() -> None:
    """As far as it is known."""
    assert "something that is no trial" == describe({})
    assert "a release of chart foo" == describe({}, "foo")
    mark = OwnerMark("1", "jo.laptop")
    assert "another sweep s, begun by jo.laptop" == describe(mark.labels("s", 1), "foo")
