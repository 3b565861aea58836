from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.values.merge import copy as fast_copy
from allranks.values.merge import merge, overlay

VALUES = st.dictionaries(
    st.sampled_from("abc"),
    st.recursive(
        st.none() | st.integers(0, 2) | st.lists(st.none() | st.just({"a": None}), max_size=2),
        lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        max_leaves=10,
    ),
    max_size=3,
)

OVERLAYS = [
    ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": {"x": 1}}, {"a": None}, {"a": None}),
    ({"a": {"x": 1}}, {"a": {"x": None}}, {"a": {"x": None}}),
    ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ({"a": {"x": 1}}, {"a": 1}, {"a": 1}),
    ({"a": {"x": 1}}, {"a": {}}, {"a": {"x": 1}}),
    ({"a": None}, {"a": {"x": None}}, {"a": {"x": None}}),
]


@pytest.mark.parametrize(("base", "over", "expected"), OVERLAYS)
def test_a_later_source_wins_and_nulls_stay(
    base: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Among files: maps merge, all else replaces, and a null is a value."""
    assert expected == overlay(base, over)


MERGES = [
    ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
    ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    ({"a": [1, 2]}, {"a": [None]}, {"a": [None]}),
    ({"a": {"x": 1}, "b": 2}, {"a": None}, {"b": 2}),
    ({"a": {"x": 1, "y": 2}}, {"a": {"x": None}}, {"a": {"y": 2}}),
    ({"a": 1}, {"b": None, "c": {"x": None}}, {"a": 1, "b": None, "c": {"x": None}}),
    ({"a": {"x": 1}}, {"a": 1}, {"a": 1}),
    ({"a": 1}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ({"a": {}}, {"a": {"x": 1}}, {"a": {"x": 1}}),
    ({"a": None, "b": {"c": None, "d": 1}}, {}, {"b": {"d": 1}}),
    ({"a": None}, {"a": None}, {}),
    ({"a": {"b": None}}, {"a": {"b": None}}, {"a": {"b": None}}),
]


@pytest.mark.parametrize(("base", "override", "expected"), MERGES)
def test_a_null_removes_a_default(
    base: dict[str, Any], override: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Over defaults: maps merge, lists replace, a null removes what it finds and else stays."""
    assert expected == merge(base, override)


def test_the_order_of_the_defaults_is_kept() -> None:
    """Values come in the order of the chart's file, what is new after them."""
    merged = merge({"a": 1, "b": {"c": 1, "d": 2}}, {"z": 1, "b": {"y": 1, "d": 3}, "a": 2})
    assert list(merged) == ["a", "b", "z"]
    assert list(merged["b"]) == ["c", "d", "y"]


@given(VALUES, VALUES)
def test_the_later_source_is_found_whole_in_the_result(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """All that the later file says holds, and merging it once more changes nothing."""
    merged = overlay(first, second)
    assert merged == overlay(merged, second)
    assert set(merged) == set(first) | set(second)
    assert all(merged[key] == first[key] for key in first if key not in second)
    assert all(merged[key] == second[key] for key in second if not isinstance(second[key], dict))


@given(VALUES)
def test_nothing_over_values_changes_nothing(values: dict[str, Any]) -> None:
    """An empty file, or the same file twice, changes nothing."""
    assert values == overlay(values, {}) == overlay({}, values) == overlay(values, values)
    assert values == merge({}, values)


@given(VALUES, VALUES)
def test_what_is_merged_is_left_alone(base: dict[str, Any], override: dict[str, Any]) -> None:
    """Neither side is changed, and the result shares nothing with them."""
    before = copy.deepcopy((base, override))
    for merged in (overlay(base, override), merge(base, override)):
        _spoil(merged)
        assert before == (base, override)


@given(VALUES)
def test_a_copy_is_equal_and_apart(values: dict[str, Any]) -> None:
    """The fast copy is a deep one."""
    copied = fast_copy(values)
    assert values == copied
    before = copy.deepcopy(values)
    _spoil(copied)
    assert before == values


def _spoil(value: Any) -> None:
    """Change every mapping and list in a value."""
    if isinstance(value, dict):
        for item in value.values():
            _spoil(item)
        value["spoiled"] = True
    elif isinstance(value, list):
        for item in value:
            _spoil(item)
        value.append("spoiled")
