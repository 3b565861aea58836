"""A trial's values as a values file that runs it once more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from allranks import names
from allranks.sweep.model import Trial
from allranks.sweep.reporting.results import collect, values_file
from allranks.sweep.search import space
from allranks.sweep.spec import apply, export, parse
from allranks.yamlio.load import load
from tests.unit.sweep.sweeps import spec_of

# What a choice may hold: all that a placeholder is made of, and what YAML and a shell read.
PARTS = st.sampled_from(
    [
        "${sweep.",
        "${",
        "$$",
        "$(A)",
        "}",
        "trial",
        "open",
        "of",
        ".",
        "'",
        '"',
        "\\",
        "\n",
        "\u2028",
        "é",
    ]
)
TEXTS = st.lists(PARTS, max_size=6).map("".join)
NAME = "s-1a2b3c4d"


def helm_values(workload: str = "sweep", **fields: Any) -> dict[str, Any]:
    """What helm is given for trial 1 of sweep ``s``."""
    trial = {"sweep": "s", "number": 1, "name": NAME}
    values = {**fields, "workload": workload, "layout": {"nodes": 1, "trial": trial}}
    if workload == "sweep":
        alone = {"name": {"values": [NAME], "env": names.ENV_TRIAL_NAME}}
        values["sweep"] = {"parameters": alone}
    return values


def header(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The comments of the values file, on one line, and what YAML reads in it."""
    text = values_file(collect(spec_of("lr"), []), Trial(1, NAME, {}), values)
    lines = [line[2:] for line in text.splitlines() if line.startswith("# ")]
    return " ".join(lines), load(text, "again.yaml").data


@example(text="${sweep.trial}", other="$${sweep.${sweep.open}")
@given(text=TEXTS, other=TEXTS)
def test_what_a_trial_had_is_what_it_gets(text: str, other: str) -> None:
    """A choice that looks like a placeholder, or a part of one, is none in the file."""
    env = {"A": text, "B": f"{other}{text}"}
    shared = {"command": ["python"], "args": ["-x", text], "script": other, "env": env}
    _, document = header(export.values_to_run(helm_values(**shared)))
    assert "layout" not in document
    parsed = parse.parse("again", document.pop("sweep"))
    document.pop("workload")
    parsed = replace(parsed, trial=replace(parsed.trial, values=document))
    bound = apply.bind(parsed, {"args": [], "env": {}}).spec
    values = apply.trial_values(bound, space.assignment(bound.parameters, 0), {}, "again-0")
    assert NAME == values["env"].pop("OF_TRIAL")
    assert shared == values


def test_the_file_says_what_stands_for_a_placeholder() -> None:
    """Only where one does."""
    comment, _ = header(export.values_to_run(helm_values(args=["${sweep.x}"])))
    assert "${sweep.open} is where the trial had the characters ${sweep. as text" in comment
    comment, document = header(export.values_to_run(helm_values(args=["x"])))
    assert "${sweep." not in comment
    assert ["of"] == list(document["sweep"]["parameters"])


def test_a_trial_of_such_a_file() -> None:
    """It has the variable of the first one already, so that this one has another."""
    document = export.values_to_run(helm_values(env={"OF_TRIAL": "r-12345678"}))
    assert "OF_TRIAL_2" == document["sweep"]["parameters"]["of"]["env"]


def test_what_helm_was_given_says_so() -> None:
    """It is another file than the one to go on with, and a run of it has the trial's name."""
    for workload in ("sweep", "torchrun"):
        comment, document = header(helm_values(workload))
        assert "All that helm was given." in comment
        assert f"ALLRANKS_TRIAL_NAME is {NAME}" in comment
        assert "changes nothing" not in comment
        assert helm_values(workload) == document


def test_a_chart_that_is_not_ours_keeps_all_values() -> None:
    """A value of its own may be called as one of ours is."""
    values = {"layout": {"grid": 2}, "sweep": 1, "a": "${sweep.x}"}
    assert values == export.values_to_run(values)
    assert "helm was given" not in header(values)[0]
