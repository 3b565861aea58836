"""Which names Kubernetes accepts, as its API server does."""

from __future__ import annotations

import pytest

from allranks.k8s.object_names import (
    has_dns_1035_form,
    is_dns_1123_label,
    is_dns_1123_subdomain,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a", (True, True, True)),
        ("team-a", (True, True, True)),
        ("2fast", (True, True, False)),
        ("gpu-1.rack-2.example", (False, True, False)),
        ("a" * 63, (True, True, True)),
        ("a" * 64, (False, True, True)),
        ("a" * 253, (False, True, True)),
        ("a" * 254, (False, False, True)),
        ("", (False, False, False)),
        ("-a", (False, False, False)),
        ("a-", (False, False, False)),
        ("Team", (False, False, False)),
        ("a_b", (False, False, False)),
        ("a..b", (False, False, False)),
        ("a.-b", (False, False, False)),
        ("a\n", (False, False, False)),
        ("\u0661", (False, False, False)),
    ],
)
def test_which_objects_may_have_a_name(name: str, expected: tuple[bool, bool, bool]) -> None:
    """A namespace is a label, a node a subdomain, and a Service's name begins with a letter."""
    actual = (is_dns_1123_label(name), is_dns_1123_subdomain(name), has_dns_1035_form(name))
    assert expected == actual


def test_what_is_made_of_a_name_makes_it_shorter() -> None:
    """Where something is put behind a name, or it is a label's value, it may be no longer."""
    assert is_dns_1123_label("a" * 53, longest=53)
    assert not is_dns_1123_label("a" * 54, longest=53)
    assert is_dns_1123_subdomain("a.b", longest=3)
    assert not is_dns_1123_subdomain("a.bc", longest=3)
