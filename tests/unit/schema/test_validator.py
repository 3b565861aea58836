"""The schema is judged here as Go's RE2 and Helm judge it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.schema.validator import engine, regex


@given(st.text("ab\n$", max_size=4))
def test_dollar_is_the_very_end(text: str) -> None:
    """`$` does not match before a last newline, as in RE2."""
    assert bool(regex("^a*$").search(text)) == (set(text) <= {"a"})


def test_dollar_in_a_class_or_escaped_is_itself() -> None:
    """Only the anchor is levelled."""
    assert regex(r"^[$]$").search("$")
    assert regex(r"^\$$").search("$")
    assert not regex(r"^[^\]$]$").search("$")


def test_digits_are_ascii() -> None:
    """Classes hold ASCII characters, as in RE2."""
    assert not regex(r"^[0-9]+$").search("\N{ARABIC-INDIC DIGIT ONE}")


def test_the_engine_is_compiled_once() -> None:
    """A second look at the same schema costs a file's read."""
    assert engine("torchrun") is engine("torchrun")


def test_a_chart_without_a_schema_is_named() -> None:
    """A workload that has no chart is the user's mistake, told in words."""
    with pytest.raises(InputError, match=r"'nothing' has no values\.schema\.json"):
        engine("nothing")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (("torchrun", "port"), "integer"),
        (("args", 0), "string"),
        (("env", "ANY"), ["string", "object"]),
        (("nowhere", "at", "all"), None),
    ],
)
def test_a_node_is_found_by_path(path: tuple[str | int, ...], kind: object) -> None:
    """The node behind a values path is found through references, items and free keys."""
    assert kind == engine("torchrun").at(path).get("type")
