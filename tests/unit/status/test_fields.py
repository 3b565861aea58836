"""Reading JSON in which any field may be missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.k8s import fields
from allranks.k8s.ranges import Indexes

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=8,
)


@given(JUNK)
def test_whatever_is_there_each_reader_gives_its_type(value: Any) -> None:
    """No reader fails, and each gives the type that it promises."""
    assert isinstance(fields.mapping(value, "a"), dict)
    assert all(isinstance(item, dict) for item in fields.items(value, "a"))
    assert isinstance(fields.text(value, "a", "b"), str)
    assert fields.count(value, "a") >= 0
    assert all(isinstance(number, int) for number in fields.numbers(value, "a"))
    assert fields.number(value, "a") is None or not isinstance(fields.number(value, "a"), bool)
    assert fields.digits(value) is None or fields.digits(value) >= 0
    seconds = fields.when(value, "a")
    assert seconds is None or seconds > 0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T00:00:01.5Z", 1.5),
        ("1970-01-01T01:00:01.000250+01:00", 1.00025),
        ("1970-01-01T00:00:02", 2.0),
        ("1970-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-23:00", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times(text: str, at: float | None) -> None:
    """Times in UTC or with an offset; zero times and broken ones are none."""
    assert at == fields.when({"t": text}, "t")


def test_a_sentence_becomes_a_clause() -> None:
    """One line, without its full stop, and not endless."""
    assert "a b" == fields.clause(" a\n  b. ")
    assert 300 == len(fields.clause("x" * 999))
    assert fields.clause("x" * 999).endswith("…")


@given(st.frozensets(st.integers(0, 40)))
def test_indexes_read_back_what_a_job_writes(numbers: frozenset[int]) -> None:
    """Ranges and single indexes, as the Job controller compresses them."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    indexes = Indexes.parse(",".join(parts))
    assert len(numbers) == len(indexes)
    assert numbers == {number for number in range(50) if number in indexes}
    assert {number for number in numbers if number < 20} == {
        number for number in range(50) if number in indexes.below(20)
    }


@given(st.text(alphabet="0123456789-, x", max_size=20))
def test_indexes_that_cannot_be_read_are_left_out(text: str) -> None:
    """A broken list never fails, and never counts an index twice."""
    indexes = Indexes.parse(text)
    assert len(indexes) >= 0
    assert all(first <= last for first, last in indexes.ranges)
    assert list(indexes.ranges) == sorted(indexes.ranges)


@given(st.frozensets(st.integers(0, 30)), st.frozensets(st.integers(0, 30)))
def test_indexes_without_others(some: frozenset[int], others: frozenset[int]) -> None:
    """What is left of a set when another is taken out of it."""
    indexes, other = (
        Indexes.parse(",".join(map(str, sorted(numbers)))) for numbers in (some, others)
    )
    assert some - others == {number for number in range(40) if number in indexes.without(other)}
    assert len(some - others) == len(indexes.without(other))
