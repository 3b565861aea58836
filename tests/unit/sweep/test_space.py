"""Values of parameters, and grids that are never made into lists."""

from __future__ import annotations

import itertools
import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.sweep.model import (
    Choice,
    IntUniform,
    LogUniform,
    Parameter,
    Range,
    Space,
    Uniform,
    Values,
)
from allranks.sweep.search import space


def texts(space_of_values: Space) -> list[str]:
    """The texts of all values of a space."""
    return [
        space.choice(space_of_values, index).text
        for index in range(space.size(space_of_values) or 0)
    ]


def numbers(low: str, high: str, step: str) -> Range:
    """A range of numbers as typed."""
    return Range(Decimal(low), Decimal(high), Decimal(step))


def words(*choice_texts: str) -> Values:
    """A list of words."""
    return Values(tuple(Choice(text, text) for text in choice_texts))


@pytest.mark.parametrize(
    ("given_range", "expected"),
    [
        (numbers("0.1", "0.5", "0.1"), ["0.1", "0.2", "0.3", "0.4", "0.5"]),
        (numbers("0.10", "0.30", "0.1"), ["0.10", "0.20", "0.30"]),
        (numbers("16", "64", "16"), ["16", "32", "48", "64"]),
        (numbers("16", "70", "16"), ["16", "32", "48", "64"]),
        (numbers("-1", "1", "1"), ["-1", "0", "1"]),
        (numbers("-0.5", "0.5", "0.5"), ["-0.5", "0.0", "0.5"]),
        (numbers("1", "2", "0.5"), ["1.0", "1.5", "2.0"]),
        (numbers("1e-5", "3e-5", "1e-5"), ["0.00001", "0.00002", "0.00003"]),
        (numbers("1e6", "3e6", "1e6"), ["1000000", "2000000", "3000000"]),
        (numbers("0.1", "0.35", "0.1"), ["0.1", "0.2", "0.3"]),
        (numbers("-0.3", "-0.15", "0.1"), ["-0.3", "-0.2"]),
        (numbers("3", "3", "1"), ["3"]),
    ],
)
def test_a_range_has_no_noise_of_floats(given_range: Range, expected: list[str]) -> None:
    """Both ends are in it where steps reach them, and every text has the same decimal places."""
    assert expected == texts(given_range)


def test_whole_numbers_of_a_range_are_whole_to_the_search() -> None:
    """The data is of the type that the text reads as."""
    assert Choice("32", 32) == space.choice(numbers("16", "64", "16"), 1)
    assert Choice("0.3", 0.3) == space.choice(numbers("0.1", "0.5", "0.1"), 2)


@settings(max_examples=200)
@given(
    st.decimals(-1000, 1000, places=3),
    st.decimals("0.001", 10, places=3),
    st.integers(0, 10**9),
)
def test_any_value_of_a_range_is_minimum_and_steps(low: Decimal, step: Decimal, index: int) -> None:
    """Exactly, however far it is."""
    space_of_values = Range(low, low + step * index, step)
    assert index + 1 == space.size(space_of_values)
    assert low + step * index == Decimal(space.choice(space_of_values, index).text)


@settings(max_examples=100)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_a_grid_is_the_product_with_the_last_parameter_fastest(sizes: list[int]) -> None:
    """In the order of nested loops, each combination once."""
    parameters = [
        Parameter(f"p{place}", words(*(f"v{index}" for index in range(size))))
        for place, size in enumerate(sizes)
    ]
    expected = list(itertools.product(*([f"v{i}" for i in range(size)] for size in sizes)))
    assignments = [
        tuple(choice.text for choice in space.assignment(parameters, index).values())
        for index in range(space.grid_size(parameters))
    ]
    assert expected == assignments


def test_a_grid_of_ten_million_is_never_made() -> None:
    """Its size and any of its trials are had at once."""
    parameters = [Parameter(f"p{place}", numbers("1", "10", "1")) for place in range(7)]
    before = time.process_time()
    assert 10**7 == space.grid_size(parameters)
    last = space.assignment(parameters, 10**7 - 1)
    assignment = space.assignment(parameters, 1234567)
    assert time.process_time() - before < 0.5
    assert ["10"] * 7 == [choice.text for choice in last.values()]
    assert ["2", "3", "4", "5", "6", "7", "8"] == [choice.text for choice in assignment.values()]
    assert [item.name for item in parameters] == list(assignment)


def test_a_grid_counts_by_name_and_shows_in_the_order_typed() -> None:
    """A template sees a mapping sorted by name, and has to count the same trials."""
    parameters = [Parameter("b", words("x", "y")), Parameter("a", words("1", "2"))]
    assignments = [space.assignment(parameters, index) for index in range(4)]
    assert [("1", "x"), ("1", "y"), ("2", "x"), ("2", "y")] == [
        (item["a"].text, item["b"].text) for item in assignments
    ]
    assert ["b", "a"] == list(assignments[0])


def test_a_range_of_a_million_digits_is_still_counted() -> None:
    """Whole arithmetic has no largest number."""
    space_of_values = numbers("0", "1e300", "1e-300")
    assert 10**600 + 1 == space.size(space_of_values)
    assert space.choice(space_of_values, 10**600).text.startswith("1000")


@pytest.mark.parametrize("index", [-1, 6])
def test_a_trial_beyond_the_grid_is_refused(index: int) -> None:
    """There is none."""
    parameters = [Parameter("a", words("x", "y")), Parameter("b", words("1", "2", "3"))]
    with pytest.raises(IndexError):
        space.assignment(parameters, index)


def test_a_distribution_cannot_be_counted() -> None:
    """So it has no place in a grid, and the combinations have no number."""
    parameters = [Parameter("a", words("x")), Parameter("b", Uniform(0.0, 1.0))]
    assert space.combinations(parameters) is None
    assert not space.is_enumerable(LogUniform(0.1, 1.0))
    assert not space.is_enumerable(IntUniform(1, 2))
    with pytest.raises(TypeError):
        space.grid_size(parameters)


SPACES = st.one_of(
    st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6)).map(lambda p: Uniform(p[0], p[0] + p[1])),
    st.tuples(st.floats(1e-12, 1e6), st.floats(1, 1e6)).map(
        lambda p: LogUniform(p[0], p[0] * p[1])
    ),
    st.tuples(st.integers(-(10**20), 10**20), st.integers(0, 10**20)).map(
        lambda p: IntUniform(p[0], p[0] + p[1])
    ),
)


@settings(max_examples=300)
@given(SPACES, st.floats(0, 1, exclude_max=True))
def test_a_drawn_value_is_within_its_ends_and_its_text_reads_back(
    space_of_values: Uniform | LogUniform | IntUniform, fraction: float
) -> None:
    """The text is the shortest that does."""
    choice = space.choice_at(space_of_values, fraction)
    assert isinstance(choice.data, int | float)
    assert space_of_values.low <= choice.data <= space_of_values.high
    assert choice.data == type(choice.data)(choice.text)


def test_the_ends_of_an_interval_are_drawn() -> None:
    """And half of a logarithmic one is its geometric middle."""
    assert "0.5" == space.choice_at(Uniform(0.5, 0.99), 0.0).text
    assert 0.01 == pytest.approx(space.choice_at(LogUniform(1e-4, 1.0), 0.5).data)
    assert [1, 2, 3] == [space.choice_at(IntUniform(1, 3), part).data for part in (0.0, 0.34, 0.99)]
    assert "b" == space.choice_at(words("a", "b"), 0.5).text
