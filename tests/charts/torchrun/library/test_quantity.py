"""Quantities in templates: exact, in the user's unit, as the generator multiplies them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.k8s import quantity

_PROBE = """
{{- $products := list -}}
{{- range .Values.cases -}}
{{- $one := dict "quantity" .quantity "count" .count "path" "x" -}}
{{- $products = append $products (include "allranks.quantity.multiply" $one) -}}
{{- end -}}
{{ toJson $products }}
"""

_SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E2", "e-3", "e+03"]
_DIGITS = st.integers(0, 10**9).map(str)
_NUMBERS = st.one_of(
    _DIGITS,
    # Twelve digits are what a template multiplies exactly.
    st.tuples(st.integers(0, 10**6 - 1).map(str), st.integers(0, 10**6 - 1).map(str)).map(".".join),
    _DIGITS.map(lambda digits: f"{digits}."),
    _DIGITS.map(lambda digits: f".{digits}"),
    st.integers(0, 10**8).map(lambda number: f"00{number}.500"),
)
_QUANTITIES = st.tuples(st.sampled_from(["", "", "+"]), _NUMBERS, st.sampled_from(_SUFFIXES)).map(
    "".join
)
_CASES = st.fixed_dictionaries({"quantity": _QUANTITIES, "count": st.integers(1, 100_000)})


def _multiply(probe: Any, cases: list[dict[str, Any]]) -> list[str]:
    products: list[str] = probe(_PROBE, {"cases": cases})
    return products


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases=st.lists(_CASES, min_size=40, max_size=80))
def test_chart_and_generator_multiply_the_same(cases: list[dict[str, Any]], probe: Any) -> None:
    """For any quantity and count the product is the generator's, digit for digit."""
    expected = [quantity.multiply(case["quantity"], case["count"]) for case in cases]
    assert expected == _multiply(probe, cases)


@pytest.mark.parametrize(
    ("given_quantity", "count", "product"),
    [
        ("180Gi", 8, "1440Gi"),
        ("500m", 3, "1500m"),
        ("1.5Gi", 8, "12Gi"),
        ("1.5", 3, "4.5"),
        (12, 8, "96"),
        (0.5, 4, "2"),
        (1.25, 2, "2.5"),
        ("0", 8, "0"),
        ("0.10Gi", 1, "0.1Gi"),
        ("1e3", 2, "2e3"),
        (1_000_000, 8, "8000000"),
    ],
)
def test_known_products(given_quantity: str | float, count: int, product: str, probe: Any) -> None:
    """The unit is kept, and a number typed without quotes is a quantity too."""
    assert [product] == _multiply(probe, [{"quantity": given_quantity, "count": count}])


@pytest.mark.parametrize("wrong", ["lots", "8GB", "1 Gi", "", ".", "Gi", "1e", "0x10", "1.2.3"])
def test_what_is_no_quantity_is_refused(wrong: str, refusal: Any) -> None:
    """A wrong unit is named with its place."""
    message = refusal(gpus=2, resources={"perGpu": {"memory": wrong}})
    assert f'ERROR: resources.perGpu.memory: "{wrong}" is not a Kubernetes quantity' in message


def test_too_many_digits_are_refused(refusal: Any) -> None:
    """Rather than lose a digit the chart refuses."""
    message = refusal(gpus=2, resources={"perGpu": {"memory": "1234567890123"}})
    assert "more digits than a template can multiply exactly" in message
