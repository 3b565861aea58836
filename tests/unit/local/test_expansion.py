"""The kubelet's ``$(NAME)`` rules, case by case."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.local.pod.env import expand

_VARIABLES = {"A": "one", "B": "two", "EMPTY": "", "REF": "$(A)", "WITH SPACE": "odd"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("$(A)", "one"),
        ("$(A)$(B)", "onetwo"),
        ("x-$(A)-y", "x-one-y"),
        ("$(EMPTY)", ""),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$$$$(A)", "$$(A)"),
        ("$$", "$"),
        ("$$$", "$$"),
        ("$", "$"),
        ("cost: 5$", "cost: 5$"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$(A", "$(A"),
        ("$(A$(B)", "$(A$(B)"),
        ("$()", "$()"),
        ("$(WITH SPACE)", "odd"),
        ("$(A))", "one)"),
        ("((A))", "((A))"),
        ("$(REF)", "$(A)"),
        ("$\n(A)", "$\n(A)"),
        ("`$(A)`", "`one`"),
    ],
)
def test_references(text: str, expected: str) -> None:
    """Known names are replaced, ``$$`` is a dollar, and all else stays as typed."""
    assert expected == expand(text, _VARIABLES)


def test_first_scope_wins() -> None:
    """A container's own variable hides a Service's of the same name."""
    assert expand("$(A)", {"A": "own"}, {"A": "service", "B": "b"}) == "own"
    assert expand("$(B)", {"A": "own"}, {"A": "service", "B": "b"}) == "b"


@given(st.text())
def test_doubled_dollars_arrive_as_typed(text: str) -> None:
    """A string whose dollars are all doubled, as charts write it, arrives as the user typed it."""
    assert text == expand(text.replace("$", "$$"), _VARIABLES)


@given(st.text(alphabet="$(){}AB x\n"))
def test_agrees_with_a_literal_reading(text: str) -> None:
    """The pattern gives what reading the text character by character gives."""
    assert _by_hand(text) == expand(text, _VARIABLES)


def _by_hand(text: str) -> str:
    out, position = "", 0
    while position < len(text):
        rest = text[position:]
        if rest.startswith("$$"):
            out, position = out + "$", position + 2
        elif rest.startswith("$(") and ")" in rest:
            name = rest[2 : rest.index(")")]
            out += _VARIABLES.get(name, f"$({name})")
            position += len(name) + 3
        else:
            out, position = out + rest[0], position + 1
    return out
