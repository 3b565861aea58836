from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.k8s import quantity

SUFFIXES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "": Fraction(1),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "Pi": Fraction(2**50), "Ei": Fraction(2**60),
    "e3": Fraction(1000), "E-3": Fraction(1, 1000), "e+2": Fraction(100), "e0": Fraction(1),
}  # fmt: skip
numbers = st.from_regex(r"(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?|\.[0-9]{1,6}", fullmatch=True)
suffixes = st.sampled_from(sorted(SUFFIXES))


@given(numbers, suffixes)
def test_every_suffix_has_its_exact_value(number: str, suffix: str) -> None:
    """A quantity is its decimal number times its suffix, without any rounding."""
    expected = Fraction(number if number[0] != "." else f"0{number}") * SUFFIXES[suffix]
    assert expected == quantity.parse(number + suffix)


@given(numbers, suffixes, st.integers(0, 100_000))
def test_multiplying_is_exact_and_keeps_the_unit(number: str, suffix: str, count: int) -> None:
    """The product has count times the value, and ends in the suffix that was given."""
    product = quantity.multiply(number + suffix, count)
    assert quantity.parse(number + suffix) * count == quantity.parse(product)
    assert product.endswith(suffix)
    assert not product.removesuffix(suffix).endswith(".")


@given(numbers, suffixes, st.integers(1, 1000), st.integers(1, 1000))
def test_multiplying_twice_is_multiplying_by_the_product(
    number: str, suffix: str, first: int, second: int
) -> None:
    """Shares may be multiplied per GPU and then per node in either order."""
    text = number + suffix
    once = quantity.multiply(text, first * second)
    assert once == quantity.multiply(quantity.multiply(text, first), second)


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("180Gi", 8, "1440Gi"),
        ("500m", 3, "1500m"),
        ("1.5Gi", 8, "12Gi"),
        ("0.5", 3, "1.5"),
        ("0.1", 3, "0.3"),
        (12, 8, "96"),
        (0.5, 4, "2"),
        ("1e3", 8, "8e3"),
        ("1E", 2, "2E"),
        ("2Ei", 2, "4Ei"),
        ("007", 2, "14"),
        ("1.50", 1, "1.5"),
        ("1.", 3, "3"),
        ("8Gi", 0, "0Gi"),
        ("-1.25k", 2, "-2.5k"),
    ],
)
def test_products_as_people_write_them(text: str | float, count: int, expected: str) -> None:
    """The number is multiplied, the suffix stays, zeros at the end go."""
    assert expected == quantity.multiply(text, count)


@pytest.mark.parametrize(
    "text",
    ["", " ", "Gi", ".", "1 Gi", "1gi", "1KI", "0x10", "1e", "1e3Gi", "1,5", "--1", "1Gi\n", "٣",
     "1e99999999999", "NaN", "inf", True, None, [], 1e300],
)  # fmt: skip
def test_what_is_no_quantity_is_refused(text: Any) -> None:
    """The kubelet's grammar decides, and nothing else is guessed."""
    with pytest.raises(InputError, match="quantity"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "fix"),
    [("180 GiB", "write 180Gi"), ("8gb", "write 8G"), ("1.5 TIB", "write 1.5Ti"), ("64K", "64k")],
)
def test_the_hint_is_the_nearest_spelling(text: str, fix: str) -> None:
    """A unit as people write it elsewhere is turned into the one Kubernetes has."""
    with pytest.raises(InputError) as excinfo:
        quantity.parse(text)
    assert fix in excinfo.value.problem.hint


def test_a_negative_count_is_a_bug_of_ours() -> None:
    """Counts come from our own arithmetic, so a negative one is no user's mistake."""
    with pytest.raises(ValueError, match="-1"):
        quantity.multiply("1Gi", -1)


def test_requests_round_up_and_capacity_rounds_down() -> None:
    """The scheduler's arithmetic: millicores for CPU, whole units for all else."""
    assert quantity.request_units("cpu", "100u") == 1
    assert quantity.capacity_units("cpu", "1.9999") == 1999
    assert quantity.request_units("memory", "1500m") == 2
    assert quantity.capacity_units("memory", "1500m") == 1
    assert quantity.request_units("nvidia.com/gpu", 8) == 8


@given(st.integers(0, 2**70))
def test_formatted_sizes_are_exact(count: int) -> None:
    """What is formatted parses back to the same number of bytes or millicores."""
    assert count == quantity.parse(quantity.format_bytes(count))
    assert count == quantity.parse(quantity.format_cpu(count)) * 1000


@given(st.integers(0, 2**62))
def test_shown_sizes_never_promise_too_much(count: int) -> None:
    """A size for people is rounded down, by less than a tenth of its unit."""
    size = quantity.parse(quantity.show_bytes(count))
    assert size <= count
    assert count - size <= max(count // 10, 0)


def test_units_are_formatted_by_their_resource() -> None:
    """CPU in cores, sizes in binary units, devices as numbers."""
    assert quantity.format_units("cpu", 1500) == "1500m"
    assert quantity.format_units("memory", 1536 * 2**20) == "1536Mi"
    assert quantity.format_units("rdma/hca", 2048) == "2048"
    assert quantity.show_units("memory", 1536 * 2**20) == "1.5Gi"
    assert quantity.show_units("cpu", 96000) == "96"
