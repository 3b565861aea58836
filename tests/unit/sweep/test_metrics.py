"""What is read of what trials say."""

from __future__ import annotations

import json
import math
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, MissingToolError
from allranks.sweep import metrics
from allranks.sweep.metrics import ObjectiveExtractor
from allranks.sweep.model import STDOUT, TERMINATION, Measure, MetricsSpec

PLAIN = MetricsSpec()


def read(*lines: str, **spec: str) -> list[tuple[str, float, int | None]]:
    """The measures of lines, without their time."""
    measures = metrics.parse(lines, MetricsSpec(**spec))
    return [(measure.name, measure.value, measure.step) for measure in measures]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("accuracy=0.93", [("accuracy", 0.93, None)]),
        ("  accuracy = 0.93  ", [("accuracy", 0.93, None)]),
        ("epoch 3: accuracy=0.93, loss=1e-3 step=3", [("accuracy", 0.93, 3), ("loss", 1e-3, 3)]),
        ("[INFO] val/accuracy=.5%", [("val/accuracy", 0.5, None)]),
        ("accuracy=0.93.", [("accuracy", 0.93, None)]),
        ("loss=-1.5E+2;", [("loss", -150.0, None)]),
        ("loss=inf", [("loss", math.inf, None)]),
        ("\x1b[32maccuracy=1\x1b[0m", [("accuracy", 1.0, None)]),
        ("step=3", []),
        ("x=1.2.3", []),
        ("t=10s", []),
        ("x=info", []),
        ("x=0x10", []),
        ("--lr=0.1", []),
        ("a==1", []),
        ("accuracy: 0.93", []),
        ("accuracy=", []),
        ("", []),
        ('{"accuracy": 0.93, "step": 4}', [("accuracy", 0.93, 4)]),
        ('{"accuracy": "0.93", "note": "x", "ok": true, "n": null}', [("accuracy", 0.93, None)]),
        ('{"loss": NaN, "step": 2.0}', [("loss", math.nan, 2)]),
        ('{"loss": 1e999}', [("loss", math.inf, None)]),
        ('{"loss": ' + "9" * 400 + "}", [("loss", math.inf, None)]),
        ('{"a": {"b": 1}}', []),
        ('{"accuracy": 0.5', []),
        ("{" * 3000 + "}" * 1000, []),
        ('["accuracy", 1]', []),
        ("a=1 step=-1", [("a", 1.0, None)]),
        ("a=1 step=1.5", [("a", 1.0, None)]),
        ("a=1 step=nan", [("a", 1.0, None)]),
        ("a=1 step=1e30", [("a", 1.0, None)]),
    ],
)
def test_the_known_forms(line: str, expected: list[Any]) -> None:
    """Pairs anywhere in a line, and lines of JSON; what is neither says nothing."""
    assert repr(expected) == repr(read(line))


def test_another_field_may_count_the_steps() -> None:
    """Such as the epoch; then `step` is a metric like others."""
    assert [("a", 1.0, 2), ("step", 9.0, 2)] == read("a=1 epoch=2 step=9", step="epoch")
    assert [("a", 1.0, 2)] == read('{"a": 1, "epoch": 2}', step="epoch")


def test_a_pattern_of_the_user_s_own() -> None:
    """Groups are metrics, and the known forms are not looked for."""
    own = r"epoch (?P<step>\d+): acc (?P<accuracy>\S+)"
    assert [("accuracy", 0.5, 3)] == read("epoch 3: acc 0.5", "accuracy=1", regex=own)
    regex = r"(?P<name>\w+) is (?P<value>\S+)"
    assert [("loss", 0.1, None), ("acc", 2.0, None)] == read("loss is 0.1 acc is 2", regex=regex)
    assert [] == read("epoch 3: acc none", regex=own)
    assert [("value", 5.0, None)] == read("v 5", regex=r"v (?P<value>\d+)")


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        (r"(?P<x>(a+)+)$", "a" * 4095 + "!"),
        (r"(?:\s*\w+\s*)+accuracy: (?P<accuracy>\S+)", "one two three " * 300),
        (r"(?P<x>(?:a?){1000}a{1000})b", "a" * 4096),
        (r"(?P<x>(.*a){20}).{200}b", "ab" * 2048),
    ],
)
def test_no_pattern_is_slow(regex: str, line: str) -> None:
    """Where an engine that goes back would not come to an end; here nothing is found, and soon."""
    assert [] == read(line, regex=regex)


def test_a_pattern_reads_any_text() -> None:
    """Letters beyond ASCII, bytes that are no text, and flags within the pattern."""
    assert [("größe", 1.5, None)] == read("größe→1.5", regex=r"(?P<name>\pL+)→(?P<value>\S+)")
    assert [("acc", 0.5, None)] == read("\udcff\ufffd ACC 0.5", regex=r"(?i)acc (?P<acc>\S+)")
    assert [] == read("x \u0661", "é=1", regex=r"x (?P<x>\d+)|^\w+=(?P<y>.+)")
    assert [] == read("é" * 9, regex="(?P<x>z*)")


def test_a_pattern_that_was_kept_may_be_none_here() -> None:
    """A journal may come from anywhere: what is wrong is said in place of a match."""
    with pytest.raises(InputError, match="knows no back-references"):
        read("aa", regex=r"(?P<x>a)\1")


def test_a_pattern_needs_re2(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only who writes one of their own; the extra is named."""
    monkeypatch.setitem(sys.modules, "re2", None)
    metrics.load.cache_clear()
    assert [("a", 1.0, None)] == read("a=1")
    with pytest.raises(MissingToolError) as error:
        read("a=1", regex="(?P<a>1)")
    assert "pip install 'allranks[regex]'" in str(error.value)


def test_where_metrics_are_read() -> None:
    """From the output, from the termination message, or from both."""
    both = [
        (list(metrics.parse(["a=1"], spec)), list(metrics.termination("a=2", spec)))
        for spec in (PLAIN, MetricsSpec(STDOUT), MetricsSpec(TERMINATION))
    ]
    first, second = Measure("a", 1.0), Measure("a", 2.0)
    assert [([first], [second]), ([first], []), ([], [second])] == both


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('{\n  "accuracy": 0.93,\n  "step": 7\n}\n', [("accuracy", 0.93, 7)]),
        ("done\naccuracy=0.93\n", [("accuracy", 0.93, None)]),
        ('log\n{"accuracy": 1}', [("accuracy", 1.0, None)]),
        ("", []),
        ("Error", []),
    ],
)
def test_a_termination_message(message: str, expected: list[Any]) -> None:
    """One JSON object on any number of lines, else lines as in the output."""
    measures = metrics.termination(message, PLAIN)
    assert expected == [(measure.name, measure.value, measure.step) for measure in measures]


@settings(max_examples=300)
@given(st.text(max_size=200) | st.text('=01.einfa{}": ,\\-+', max_size=200))
def test_no_line_is_too_strange(line: str) -> None:
    """Whatever a program prints, it is read without an error."""
    assert metrics.MEASURES_MAX >= len(read(line))
    assert metrics.MEASURES_MAX >= len(list(metrics.termination(line, PLAIN)))


@pytest.mark.parametrize(
    "part", ["a=1 ", "a", "a=", "=1", "{", '{"a":', "1e", "a=1.1", "-", "\x1b["]
)
def test_a_line_of_megabytes_is_read_at_once(part: str) -> None:
    """Only its beginning is looked at."""
    before = time.process_time()
    read(part * 1_000_000)
    assert time.process_time() - before < 0.5


@settings(max_examples=200)
@given(st.floats(), st.none() | st.integers(0, 2**53))
def test_what_is_written_is_read(value: float, step: int | None) -> None:
    """As a pair, and as JSON, to the last digit."""
    fields = {"m": value} if step is None else {"m": value, "step": step}
    expected = repr([("m", value, step)])
    assert expected == repr(read(json.dumps(fields)))
    assert expected == repr(read(" ".join(f"{key}={number}" for key, number in fields.items())))


def test_only_the_objective_is_collected_and_other_names_are_remembered() -> None:
    """For the message of a trial that never reports it."""
    collector = ObjectiveExtractor("accuracy", PLAIN)
    assert [(0, Measure("accuracy", 0.5, None, 7.0))] == collector.feed("loss=1 accuracy=0.5", 7.0)
    assert [] == collector.feed("lr=0.1", 8.0)
    assert ("loss", "lr") == collector.other_metrics
    assert [(1, Measure("accuracy", 0.75, 3, 9.0))] == collector.finish(
        '{"accuracy": 0.75, "step": 3}', 9.0
    )


def test_without_an_objective_nothing_is_collected() -> None:
    """A plain grid compares nothing."""
    assert [] == ObjectiveExtractor("", PLAIN).feed("accuracy=1", 0.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5000), st.integers(0, 5000))
def test_of_many_measures_few_are_kept_and_always_the_last(count: int, again: int) -> None:
    """Read again, they are the same with the same indices, however much was read before."""
    runs: list[list[tuple[int, Measure]]] = []
    fed: list[list[tuple[int, Measure]]] = []
    for lines in (count, count, min(again, count)):
        collector = ObjectiveExtractor("m", PLAIN)
        fed.append(
            [item for step in range(lines) for item in collector.feed(f"m={step} step={step}", 0.0)]
        )
        runs.append([*fed[-1], *collector.finish("", 0.0)])
    assert runs[0] == runs[1]
    assert [item for item in fed[0] if item[0] < again] == fed[2]
    indices = [index for index, _ in runs[0]]
    assert sorted(set(indices)) == indices
    assert count - 1 == indices[-1]
    assert all(index == measure.step for index, measure in runs[0])
    assert len(indices) <= min(
        count, metrics.KEPT_MAX * (2 + math.log2(1 + count / metrics.KEPT_MAX))
    )
    assert indices[: metrics.KEPT_MAX] == list(range(min(count, metrics.KEPT_MAX)))
