"""How numbers and long lists are said."""

from __future__ import annotations

import pytest

from allranks import words


def test_a_number_and_its_noun() -> None:
    """One is alone, none and many are not."""
    assert ["0 pods", "1 pod", "2 pods"] == [words.plural(number, "pod") for number in range(3)]


@pytest.mark.parametrize(
    ("count", "joint", "told"),
    [
        (0, ", ", ""),
        (1, ", ", "n0"),
        (3, ", ", "n0, n1, n2"),
        (4, ", ", "n0, n1, n2 and 1 more"),
        (4, "; ", "n0; n1; n2; and 1 more"),
        (2003, ", ", "n0, n1, n2 and 2,000 more"),
    ],
)
def test_the_first_of_many(count: int, joint: str, told: str) -> None:
    """Three are shown, and the others are counted."""
    assert told == words.some([f"n{number}" for number in range(count)], joint=joint)
