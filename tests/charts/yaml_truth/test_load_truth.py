"""What our loader reads is what Helm reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.yamlio.load import load, load_all

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.charts.yaml_truth.conftest import Truth

    Dice = Callable[[object], random.Random]

# What numbers, booleans, nulls, dates and near misses of all of them are made of.
ALPHABETS = (
    "0123456789_.eE+-",
    "0b1o7xfF_+-9",
    "yYnNoOeEsSfFtTrRuUlLaA~",
    "0123456789:-.TZ",
    "._infaINFA+-0",
    "0123456789",
)
_SPECIAL = (
    "1e-5 1e5 1E+3 0777 0o17 0O17 0x1F -0x1f 0b101 -0b11 0b-101 0b+1 089 1_000 _1 1__0 .5 5. .5_5 "
    "._5 12:30 12:30:45 2026-01-02 2026-01-02T10:00:00Z = y Y yes YES yEs on ON n N no off OFF "
    "true True TRUE tRue false null Null NULL nULL ~ 1e400 -1e400 1e-400 .inf. inf NaN nan + - . "
    ".. 0 -0 +0 00 0_0 0. 0.0 -0.0 1.5.5 1e 1e+ 9007199254740992 1.7976931348623157e308 "
    "18446744073709551615x 0x 0b 0o 0xg 0b2 0o8 1.e5 +.5 -.5e-3 infinity 1d 1f 0x1p3 << <<< "
)
SPECIAL = _SPECIAL.split()


def scalars(count: int, draw: random.Random) -> list[str]:
    """Plain scalars that look like something, none of which YAML reads as syntax."""
    texts = list(SPECIAL)
    while len(texts) < count:
        alphabet = draw.choice(ALPHABETS)
        length = draw.randint(1, draw.choice((3, 6, 20)))
        text = "".join(draw.choice(alphabet) for _ in range(length))
        if text not in ("-", "---", "...") and not text.endswith(":"):
            texts.append(text)
    return texts


def readable(texts: list[str]) -> list[str]:
    """Those that the loader takes one by one: no infinities, no numbers that lose digits."""
    plain = []
    for text in texts:
        try:
            load(f"v: {text}\n", "v")
        except InputError:
            continue
        plain.append(text)
    return plain


@pytest.mark.parametrize("seed", range(2))
def test_plain_scalars_are_what_helm_reads(truth: Truth, dice: Dice, seed: int) -> None:
    """Thousands of adversarial scalars have the same type and value for Helm and for us."""
    texts = readable(scalars(6000, dice(seed)))
    assert len(texts) > 5000
    content = "v:\n" + "".join(f"- {text}\n" for text in texts)
    ours = truth.same(load(content, "v").data["v"])
    theirs = truth.values(content)["v"]
    wrong = [
        (text, helm, our)
        for text, helm, our in zip(texts, theirs, ours, strict=True)
        if helm != our
    ]
    assert [] == wrong


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text("0123456789_.eExobynYNtTfF+-:~", min_size=1, max_size=9), max_size=80))
def test_any_plain_scalar_is_what_helm_reads(truth: Truth, texts: list[str]) -> None:
    """Free search for a scalar that Helm and we read differently finds none."""
    content = "v: [" + "".join(f"'x', {text}, " for text in _flow_safe(readable(texts))) + "]\n"
    assert truth.values(content) == truth.same(load(content, "v").data)


def _flow_safe(texts: list[str]) -> list[str]:
    return [text for text in texts if not text.startswith(("-", ":")) and not text.endswith(":")]


# No key can be null; and of the two zeros Go takes the second for the first.
NO_KEYS = ("<<", "~", "null", "Null", "NULL", "-0.0")


def test_keys_become_the_text_that_helm_makes_of_them(truth: Truth, dice: Dice) -> None:
    """A key that is a number or a boolean is the same text for Helm and in a manifest of ours."""
    distinct: dict[str, str] = {}
    for text in scalars(1000, dice(7)):
        if text in NO_KEYS:
            continue
        content = f"? {text}\n: 1\n"
        try:
            distinct.setdefault(next(iter(load_all(content)[0])), text)
        except InputError:
            continue
    content = "v:\n" + "".join(f"  ? {text}\n  : {text!r}\n" for text in distinct.values())
    assert truth.values(content) == truth.same(load_all(content)[0])


DOCUMENTS = [
    "a: 1\n<<: {a: 2}\n",
    "<<: {a: 2}\na: 1\n",
    "x: &x {a: 2}\na: 1\n<<: [*x, {a: 3, b: 4}]\nb: 9\n",
    "x: &x {a: {b: 1}}\ny:\n  <<: *x\n  c: 1\nz: {<<: *x, a: 2}\n",
    "'<<': {a: 2}\n",
    "!!merge <<: {a: 2}\n",
    "a: &x [1, 2]\nb: *x\nc: {d: *x}\n",
    "a: &x 1\nb: &x 2\nc: *x\n",
    "a: &x [&x 1, *x]\nb: *x\n",
    'a: !foo 3\nb: !!binary aGk=\nc: !!set {a}\nd: !!float 3\ne: !!str 3\nf: !!int "3"\ng: ! 3\n',
    "a: !!str\nb: !!null ''\nc: !!bool yes\nd: !!timestamp 2001-01-01\ne: !x {a: 1}\nf: !y [1]\n",
    "a: |\n  x\n\n  y\n\nb: |-\n  x\nc: |+\n  x\n\nd: >\n  x\n  y\n\n  z\ne: |2\n    x\n",
    "a: 'it''s'\nb: \"\\x41\\u00e9\\n\\t\\\\\"\nc: \"a\n  b\"\nd: 'a\n\n  b'\ne: a\n  b\n",
    'a: "x\u0085y"\nb: "x\u2028y"\nc: x\u00a0y\nd: é😀\n',
    "\ufeffa: 1\n",
    "---\na: 1\n",
    "# only a comment first\n---\na: 1\n...\n",
    "a: 1\n---\n",
    "a: 1\r\nb:\r\n  - 2\r\n  - |\r\n    x\r\n    y\r\n",
    "a: \tb\nc: d\t# e\nf: g #h\ni: j#k\n",
    "{a: 1, b: [x, y: z], c: {d}, 'e': \"f\"}\n",
    '{"a": 1, "b": [true, null, 1.5e3], "c": "\\u00e9"}\n',
    "? a\n: - b\n  - c: d\n",
    "a:\n- - 1\n  - 2\n-  - 3\n",
    "a: {{b: 1}: 2}\n",
    "1: a\n1.5: b\nyes: c\n1e6: d\n123456789.123: e\n1e-5: f\n0777: g\n-0.0: h\n1234567.5: i\n",
    "~: a\n",
    "[a]: b\n",
    "a: !!int x\n",
    "a: !!int 1.5\n",
    "a: !!float abc\n",
    "a: !!bool 1\n",
    "a: !!binary '@'\n",
    "a: &a [*a]\n",
    "a: *b\n",
    "a: <<\n",
    "<<: 1\n",
    "<<: [1]\n",
    "a: .inf\n",
    "a: [-.INF, .nan]\n",
    "a:\n\tb: 1\n",
    "a: b: c\n",
    "a: 'x\n",
    'a: "\\q"\n',
    "a: @x\n",
    "a: %x\n",
    "a: [1\nb: 1\n",
    "a: 1\n b: 2\n",
    "%YAML 1.2\n---\na: 1\n",
    "- 1\n",
    "text\n",
    "a: \x01\n",
    "k" * 1100 + ": 1\n",
]


@pytest.mark.parametrize("content", DOCUMENTS)
def test_documents_are_read_or_refused_as_by_helm(truth: Truth, content: str) -> None:
    """Anchors, merges, tags, blocks, quotes and mistakes: same values, or refused by both."""
    ours: Any
    try:
        ours = load_all(content)[0]
    except InputError:
        ours = None
    if not isinstance(ours, dict):
        ours = None
    if ours is not None and "1.2" not in content and not _infinite(ours):
        assert truth.values(content) == truth.same(ours)
    else:
        assert truth.values(content) is None
        with pytest.raises(InputError):
            load(content, "v")


def _infinite(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_infinite, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and (value != value or abs(value) == float("inf"))  # noqa: PLR0124
