"""What we write is what Helm reads: no text becomes a number, a boolean or a date."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.charts.yaml_truth.conftest import Truth

    Dice = Callable[[object], random.Random]

_WORDS = (
    "a b y n no on off true null ~ 1 0 1e-5 0x1f 0o17 .5 .inf - : , # { } [ ] & * ! | > % @ ` = "
    "<< --- ... é 😀 _ / x: 12:30 2026-01-02 $(A) $$ 1_000 inf NaN ? {{ }} ' \" \\ .. k-v 180Gi"
)
PIECES = _WORDS.split()
SPACES = (" ", "  ", "\n", "\n\n", "\t", "\r", "\r\n", " #", ": ", "- ")
ODD = ("\x00", "\x1b", "\x7f", "\x85", "\xa0", "\u2028", "\u2029", "\ufeff", "\ufffe", "\uffff")
NUMBERS = (0, 1, -5, 2**53, 1.5, 1e-5, 1e300, -0.0, 5e-324, 123456789012)


def value(draw: random.Random, depth: int = 0) -> Any:
    """Any plain data, made of what YAML has a meaning for."""
    kind = draw.random()
    if depth > 3 or kind < 0.6:
        count = draw.choice((0, 1, 1, 2, 3, 6))
        return "".join(
            draw.choice(draw.choice((PIECES, PIECES, SPACES, ODD))) for _ in range(count)
        )
    if kind < 0.7:
        return draw.choice((*NUMBERS, None, True, False))
    entries = range(draw.choice((0, 1, 2, 3)))
    if kind < 0.85:
        return {str(value(draw, 9)): value(draw, depth + 1) for _ in entries}
    return [value(draw, depth + 1) for _ in entries]


@pytest.mark.parametrize("seed", range(2))
def test_helm_reads_what_was_dumped(truth: Truth, dice: Dice, seed: int) -> None:
    """Thousands of adversarial values come back from Helm as they went in."""
    draw = dice(seed)
    values = [value(draw) for _ in range(4000)]
    theirs = truth.values(dump({"v": values}))["v"]
    wrong = [
        (ours, helm) for ours, helm in zip(truth.same(values), theirs, strict=True) if ours != helm
    ]
    assert [] == wrong


def test_helm_reads_every_word_and_number_as_the_text_it_was(truth: Truth, dice: Dice) -> None:
    """Every short text over the alphabet of numbers and booleans stays text."""
    draw = dice(11)
    letters = "0123456789_.eE+-xobBnNyYofFtrueasl~:"
    texts = ["".join(draw.choice(letters) for _ in range(draw.randint(1, 6))) for _ in range(8000)]
    assert {"v": texts, "k": dict.fromkeys(texts, "")} == truth.values(
        dump({"v": texts, "k": dict.fromkeys(texts, "")})
    )


data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data)
def test_helm_reads_any_data_back(truth: Truth, value: Any) -> None:
    """Free search for data that Helm reads otherwise than it was dumped finds none."""
    assert truth.values(dump({"v": value})) == {"v": truth.same(value)}


def test_a_stream_survives_being_printed_by_a_template(truth: Truth, dice: Dice) -> None:
    """A manifest dumped, put through a chart as its template, and loaded again is unchanged."""
    draw = dice(3)
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {f"k{i}": _no_braces(str(value(draw, 9))) for i in range(1000)},
        "last": "line\n",
    }
    chart = truth.chart("{}")
    (chart / "templates" / "truth.yaml").write_text(dump(manifest), encoding="utf-8", newline="")
    assert [manifest] == [document for document in load_all(truth.helm.render(chart)) if document]


def _no_braces(text: str) -> str:
    """Text that the template language leaves alone."""
    return text.replace("{{", "{").replace("}}", "}")
