"""Sets of whole numbers written as ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.k8s.ranges import Indexes


@given(st.frozensets(st.integers(0, 60)))
def test_a_set_is_read_back_as_it_was_written(numbers: frozenset[int]) -> None:
    """In order, and each number once."""
    indexes = Indexes.of(numbers)
    assert indexes == Indexes.parse(str(indexes))
    assert sorted(numbers) == list(indexes)
    assert len(numbers) == len(indexes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3,1,2", "1-3"),
        ("0-5,2-3", "0-5"),
        ("4-6,0-2,3", "0-6"),
        ("7,7", "7"),
        ("5-3,x,01,8", "8"),
        ("", ""),
    ],
)
def test_what_a_hand_has_written_is_put_in_order(text: str, expected: str) -> None:
    """Overlaps and neighbours are one range, and what is no range is left out."""
    assert expected == str(Indexes.parse(text))


@pytest.mark.attack
def test_a_huge_range_costs_nothing_until_it_is_walked() -> None:
    """Who may write a status cannot fill the memory of who reads it."""
    indexes = Indexes.parse("0-9999999999,20")
    assert 9_999_999_999 in indexes
    assert 10_000_000_000 not in indexes
    assert 10_000_000_000 == len(indexes)
    assert [0, 1] == list(indexes.below(2))
