"""Edits: what is written, what is left, and that "changed" is true to it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.postrender.edit import Edit, clone, get, same, show_path


def test_maps_on_the_way_are_made_and_null_counts_as_absent() -> None:
    """`annotations:` with nothing under it is common, and takes an annotation."""
    manifest: dict[str, Any] = {"metadata": {"annotations": None}}
    edit = Edit(manifest)

    edit.put(("metadata", "annotations", "a/b"), "1")
    edit.default(("spec", "deep", "key"), {"x": 1})

    assert {
        "metadata": {"annotations": {"a/b": "1"}},
        "spec": {"deep": {"key": {"x": 1}}},
    } == manifest
    assert edit.changed


def test_what_is_there_is_no_change() -> None:
    """Writing what stands there, or a default over something explicit, leaves the document be."""
    manifest = {"a": {"b": "1", "c": [{"d": 1}], "e": False}}
    before = copy.deepcopy(manifest)
    edit = Edit(manifest)

    edit.put(("a", "b"), "1")
    edit.default(("a", "e"), value=True)
    edit.append(("a", "c"), {"d": 1})

    assert not edit.changed
    assert before == manifest


@pytest.mark.parametrize(
    ("old", "new"), [(1, "1"), (1, True), (0, False), (1, 1.0), ({"a": 1}, {"a": True}), ([], {})]
)
def test_values_of_another_type_differ(old: Any, new: Any) -> None:
    """1, "1", 1.0 and true are four values to the API server."""
    edit = Edit({"a": old})

    edit.put(("a",), new)

    assert edit.changed
    assert type(new) is type(edit.manifest["a"])


def test_a_scalar_in_the_way_is_named() -> None:
    """A list where a map must stand is the user's mistake, with its place."""
    edit = Edit({"spec": {"affinity": [1]}}, 'stdin:7, Job "x"')

    with pytest.raises(InputError) as excinfo:
        edit.put(("spec", "affinity", "podAffinity"), {})

    assert "spec.affinity" == excinfo.value.problem.path
    assert "is a list, expected a map" == excinfo.value.problem.message
    assert 'stdin:7, Job "x"' == excinfo.value.problem.source


@pytest.mark.parametrize("value", ["text", 3, True, {"a": 1}])
def test_a_list_must_be_a_list(value: Any) -> None:
    """Appending to something else is refused, not done somehow."""
    edit = Edit({"volumes": value})

    with pytest.raises(InputError, match="expected a list"):
        edit.append(("volumes",), {"name": "x"})
    with pytest.raises(InputError, match="expected a list"):
        edit.items(("volumes",))


def test_paths_read_as_users_write_them() -> None:
    """Indices stand in brackets."""
    assert "spec.containers[0].name" == show_path(("spec", "containers", 0, "name"))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "a", "true"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=10,
)
PATHS = st.lists(st.sampled_from(["a", "b", "c", 0, 1]), min_size=1, max_size=4).map(tuple)


@given(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3),
    PATHS,
    VALUES,
    st.sampled_from(["put", "default", "append"]),
)
def test_changed_is_a_fact(manifest: dict[str, Any], path: Any, value: Any, verb: str) -> None:
    """The flag is set when, and only when, the manifest is another one than before."""
    before = clone(manifest)
    edit = Edit(manifest)
    try:
        getattr(edit, verb)(path, value)
    except InputError:
        assert not edit.changed
        return

    assert edit.changed == (not same(before, manifest))
    if verb == "put":
        assert same(value, get(manifest, path))


@given(VALUES)
def test_a_clone_shares_nothing(value: Any) -> None:
    """No two places of a manifest are one object afterwards."""
    copied = clone(value)

    assert same(value, copied)
    if isinstance(value, dict | list):
        assert copied is not value
