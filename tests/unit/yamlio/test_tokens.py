"""How a number was written, which its value does not tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.yamlio import scalars
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from allranks.yamlio.document import ValuesDocument


def read(text: str) -> ValuesDocument:
    """A values file."""
    return load(text, "values.yaml")


@pytest.mark.parametrize(
    "token",
    ["1e-5", "0.10", "1e6", "+1", "true", "Yes", "off", "0x1F", "1_000", "0o17", ".5", "-0"],
)
def test_a_number_or_a_boolean_keeps_how_it_was_written(token: str) -> None:
    """In a list, in a mapping, and in a flow of either."""
    document = read(f"a:\n  b: {token}\n  c: [x, {token}]\n  d:\n    - {token}\n")
    assert token == document.token(("a", "b"))
    assert token == document.token(("a", "c", 1))
    assert token == document.token(("a", "d", 0))
    assert not isinstance(document.data["a"]["b"], str)


@pytest.mark.parametrize(
    "token", ['"08"', "'1e-5'", "adam", '"true"', "null", "~", "[]", "{}", "|\n    1"]
)
def test_text_and_nothing_have_no_token(token: str) -> None:
    """A text is its own token."""
    assert read(f"a:\n  b: {token}\n").token(("a", "b")) is None


@pytest.mark.parametrize("path", [(), ("b",), ("a", "x"), ("a", 0), ("a", "c", 7), ("a", "b", "c")])
def test_a_path_the_file_does_not_have_has_no_token(path: tuple[str | int, ...]) -> None:
    """Nor has the whole file."""
    assert read("a: {b: 1e-5, c: [1e-5]}\n").token(path) is None


def test_an_alias_is_written_as_its_anchor() -> None:
    """Be it a scalar or a part of what is repeated."""
    document = read("a: &one 1e-5\nb: *one\nc: &many {d: [0.10]}\ne: *many\n")
    assert "1e-5" == document.token(("b",))
    assert "0.10" == document.token(("e", "d", 0))


def test_a_merge_brings_its_tokens_and_takes_those_of_what_it_replaces() -> None:
    """As it does with the values."""
    document = read(
        "base: &base {a: 1e-5, b: text}\nuse: {a: 0.10, b: 1e6, <<: *base}\n"
        "after: {<<: *base, a: word, b: 0.50}\n"
    )
    assert "1e-5" == document.token(("use", "a"))
    assert document.token(("use", "b")) is None
    assert document.token(("after", "a")) is None
    assert "0.50" == document.token(("after", "b"))


def test_a_list_after_a_number_has_not_its_token() -> None:
    """A token belongs to one value."""
    document = read("a: 1e-5\nb: [x]\nc: {d: 2e6}\n")
    assert document.token(("b",)) is None
    assert document.token(("c",)) is None


@settings(max_examples=200)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.integers(0, 9))
)
def test_a_token_reads_back_as_its_value(values: list[float]) -> None:
    """What was written is what was read."""
    document = read("a: [" + ", ".join(str(value).lower() for value in values) + "]\n")
    for index, value in enumerate(document.data["a"]):
        token = document.token(("a", index))
        assert token is not None
        assert value == scalars.resolve(token)
