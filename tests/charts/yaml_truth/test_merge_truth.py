"""Merging files, flags and defaults gives what a chart's templates see in Helm."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.values.merge import merge, overlay
from allranks.values.sources import Sources, load_sources

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.charts.yaml_truth.conftest import Truth

    Dice = Callable[[object], random.Random]

KEYS = "abc"
LEAVES: tuple[Any, ...] = (None, None, 1, "x", True, 0, "", [1, None, {"a": None}], [], {})


def tree(draw: random.Random, depth: int = 0, *, nulls: bool = True) -> Any:
    """Random values over few keys, so that sources collide in every way."""
    if depth < 4 and (depth == 0 or draw.random() < 0.5):
        return {
            draw.choice(KEYS): tree(draw, depth + 1, nulls=nulls) for _ in range(draw.randint(0, 4))
        }
    leaf = draw.choice(LEAVES)
    return "d" if leaf is None and not nulls else leaf


@pytest.mark.parametrize("seed", range(10))
def test_files_over_defaults_merge_as_in_helm(truth: Truth, dice: Dice, seed: int) -> None:
    """Two files over a chart's defaults: maps merge, lists replace, a null removes a default."""
    draw = dice(seed)
    # Each case is a mapping of its own below, and the first one lies at the top.
    cases = [[tree(draw, nulls=layer > 0) for layer in range(3)] for _ in range(400)]
    layers = [
        {**cases[0][layer], **{f"case{i}": case[layer] for i, case in enumerate(cases)}}
        for layer in range(3)
    ]
    ours = merge(layers[0], overlay(layers[1], layers[2]))
    text = [json.dumps(layer) for layer in layers]
    assert truth.values(text[1], text[2], defaults=text[0]) == truth.same(ours)


leaves = st.none() | st.integers(0, 3) | st.text(KEYS, max_size=2) | st.lists(st.none(), max_size=2)
trees = st.recursive(
    leaves, lambda inner: st.dictionaries(st.sampled_from(KEYS), inner, max_size=3), max_leaves=8
)
values = st.dictionaries(st.sampled_from(KEYS), trees, max_size=3)


def _no_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _no_nulls(item) for key, item in value.items() if item is not None}
    return value


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(values.map(_no_nulls), values, values)
def test_any_values_merge_as_in_helm(
    truth: Truth, defaults: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    """Free search for sources that merge otherwise than in Helm finds none."""
    theirs = truth.values(json.dumps(first), json.dumps(second), defaults=json.dumps(defaults))
    assert theirs == truth.same(merge(defaults, overlay(first, second)))


def test_null_defaults_are_dropped_as_by_helm_4(truth: Truth) -> None:
    """Defaults of null go, as in Helm 4; Helm 3 keeps them, which is why our charts have none."""
    defaults = {"a": None, "b": {"c": None, "d": {"e": None}}, "f": [None], "g": None, "h": {}}
    user = {"b": {"x": 1, "c": None}, "g": None, "h": None}
    theirs = truth.values(json.dumps(user), defaults=json.dumps(defaults))
    ours = truth.same(merge(defaults, user))
    assert ours == {"b": {"d": {}, "x": 1.0, "c": None}, "f": [None]}
    if truth.helm.major == 4:
        assert theirs == ours
    else:
        assert theirs == {"a": None, "b": {"c": None, "d": {"e": None}, "x": 1.0}, "f": [None]}


FLAGS = [
    ("set", "k=set"),
    ("set-literal", "k=literal"),
    ("set-string", "k=string"),
    ("set-json", "k=1"),
    ("set-json", 'k="json2"'),
    ("set", "k=set2,m.a=1"),
    ("set-json", 'm={"b":2}'),
    ("set-string", "m.c=3"),
    ("set", "n[1].x=1"),
    ("set-string", "n[0]=y"),
    ("set", "o=null,p.q=null"),
]


@pytest.mark.parametrize("seed", range(8))
def test_sources_apply_in_helms_order(
    truth: Truth, dice: Dice, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files, then flags by kind, whatever their order on the command line, over the defaults."""
    draw = dice(seed)
    flags = draw.sample(FLAGS, draw.randint(0, len(FLAGS)))
    defaults = '{"preset": "", "k": "d", "o": {"x": 1}, "p": {"q": 1, "r": 2}}'
    chart = truth.chart(defaults)
    home = truth.folder / f"charts-{next(truth.serial)}"
    home.mkdir()
    (home / "torchrun").symlink_to(chart)
    monkeypatch.setenv("ALLRANKS_CHARTS", str(home))
    files = ['{"workload": "torchrun", "k": "file", "m": {"z": 1}}', '{"m": {"y": 2}, "n": [1]}']
    loaded = load_sources(Sources(tuple(str(truth.file(text)) for text in files), tuple(flags)))
    assert truth.values(*files, flags=flags, defaults=defaults) == truth.same(loaded.values)
    # What Helm is given, it turns into the same values.
    assert truth.values(json.dumps(loaded.user), defaults=defaults) == truth.same(loaded.values)
