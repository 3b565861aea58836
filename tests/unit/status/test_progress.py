"""How far a training is, in whatever form its pods say it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.status import progress
from tests.unit.status.samples import pod, ready, terminated_container


def saying(annotation: str, index: int = 0, **fields: Any) -> dict[str, Any]:
    """A pod that says how far it is."""
    manifest = ready(index, **fields)
    manifest["metadata"]["annotations"] = {"allranks.dev/progress": annotation}
    return manifest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("37%", {"percent": 37.0, "text": "37%"}),
        (" 12.34 % ", {"percent": 12.3, "text": "12.3%"}),
        ("37", {"percent": 37.0, "text": "37%"}),
        ("140%", {"percent": 100.0, "text": "100%"}),
        ("-3", {"percent": 0.0, "text": "0%"}),
        ("nan", {"text": "nan"}),
        ("epoch 3 of 9", {"text": "epoch 3 of 9"}),
        ("x" * 900, {"text": "x" * 200}),
        ("{not json", {"text": "{not json"}),
        ("", None),
        ('{"percent": 5}', {"percent": 5.0, "text": "5%"}),
        (
            '{"step": 120, "total": 1000}',
            {"step": 120, "total": 1000, "percent": 12.0, "text": "step 120 of 1000 (12%)"},
        ),
        (
            '{"step": 10, "steps": 100}',
            {"step": 10, "steps": 100, "percent": 10.0, "text": "step 10 of 100 (10%)"},
        ),
        (
            '{"epoch": 3, "epochs": 4}',
            {"epoch": 3, "epochs": 4, "percent": 75.0, "text": "epoch 3 of 4 (75%)"},
        ),
        ('{"epoch": 3, "step": 9}', {"epoch": 3, "step": 9, "text": "step 9"}),
        ('{"step": 120}', {"step": 120, "text": "step 120"}),
        ('{"step": 1, "total": 0}', {"step": 1, "total": 0, "text": "step 1 of 0"}),
        (
            '{"percent": 5, "text": "nearly", "loss": 0.5, "deep": {"a": 1}}',
            {"percent": 5.0, "text": "nearly", "loss": 0.5},
        ),
        ('{"message": "warming up"}', {"message": "warming up", "text": "warming up"}),
        ('{"percent": NaN, "loss": Infinity}', None),
        ("{}", None),
    ],
)
def test_what_an_annotation_says(text: str, expected: dict[str, Any] | None) -> None:
    """A share of a hundred, a sentence, or an object; bounded, and with a text for people."""
    assert expected == progress.read([saying(text)])


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('{"progress": "80%"}', {"percent": 80.0, "text": "80%"}),
        ('{"progress": {"step": 8, "total": 10}, "loss": 1}', 80.0),
        ('{"progress": 80}', 80.0),
        ('{"loss": 1}', None),
        ("Traceback", None),
    ],
)
def test_last_words_may_say_it(message: str, expected: Any) -> None:
    """A termination message that is an object with `progress` in it."""
    result = progress.read([pod(0, "Succeeded", terminated_container(0, message=message))])
    assert expected == (result["percent"] if result and isinstance(expected, float) else result)


def test_the_newest_pod_counts_and_of_those_the_lowest_rank() -> None:
    """A replacement begins from its checkpoint; one that says nothing yet takes nothing back."""
    pods = [saying("10%", 1), saying("20%", 0), ready(2, created=50)]
    assert {"percent": 20.0, "text": "20%"} == progress.read(pods)
    assert {"percent": 5.0, "text": "5%"} == progress.read([*pods, saying("5%", 3, created=9)])
    assert progress.read([ready(0)]) is None


@settings(max_examples=80)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["percent", "step", "total", "text", "message", "x"]), inner
            )
        ),
        max_leaves=6,
    )
)
def test_whatever_is_said_fits_a_status(value: Any) -> None:
    """The API server takes JSON without NaN, and a percent that is a number."""
    for form in (progress.form(value), progress.read([saying(json.dumps(value))])):
        if form is not None:
            json.dumps(form, allow_nan=False)
            assert 0 <= form.get("percent", 0) <= 100
            assert isinstance(form.get("text", ""), str)
