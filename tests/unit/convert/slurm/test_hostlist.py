"""Slurm's host lists, written and read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert.slurm import hostlist

HOSTS = st.lists(st.from_regex(r"[a-z][a-z-]{0,4}[0-9]{0,4}(\.[a-z]{1,3})?", fullmatch=True))


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", []),
        ("node1", ["node1"]),
        ("gpu[1-3]", ["gpu1", "gpu2", "gpu3"]),
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
        ("a[8-11].b", ["a8.b", "a9.b", "a10.b", "a11.b"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
    ],
)
def test_a_list_names_its_hosts_in_their_order(text: str, hosts: list[str]) -> None:
    """What `scontrol show hostnames` prints, a range with the width of its first number."""
    assert hosts == hostlist.expand(text)


@pytest.mark.parametrize("text", ["a[1-2", "a[x]", "a]", "a[1-9999999]", "a,,b"])
def test_what_is_no_list_is_refused(text: str) -> None:
    """A bracket that is not closed, a range that is none, and more hosts than Slurm has."""
    with pytest.raises(ValueError, match=r"[a-z]"):
        hostlist.expand(text)


def test_hosts_that_follow_each_other_are_a_range() -> None:
    """One bracket for the names that differ in a number, and its width where it has zeros."""
    assert hostlist.compress(["a1", "a2", "a3", "b", "c07", "c08"]) == "a[1-3],b,c[07-08]"


@given(HOSTS)
def test_a_list_of_hosts_names_the_same_hosts(hosts: list[str]) -> None:
    """Whatever names hosts have, their list gives these in the same order."""
    assert hosts == hostlist.expand(hostlist.compress(hosts))
