"""The values of examples/sweep-digits: what they ask for is what train.py understands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allranks.sweep import metrics
from allranks.sweep.model import ARG, GRID, HALVING, TPE, SweepSpec
from allranks.sweep.search import space
from allranks.sweep.spec import parse as specs
from allranks.yamlio.load import load

FOLDER = Path(__file__).parents[3] / "examples" / "sweep-digits"


def read(name: str) -> SweepSpec:
    """One of the two sweeps."""
    document = load((FOLDER / name).read_text(encoding="utf-8"), name)
    return specs.parse("digits", document.data["sweep"], document.token, document.where)


def test_the_grid_has_24_trials_that_get_what_was_typed() -> None:
    """All of them, and 3e-3 stays 3e-3."""
    spec = read("grid.yaml")
    assert (GRID, 24, 2) == (spec.search, spec.trials, spec.parallel)
    first = space.assignment(spec.parameters, 0)
    assert ["3e-3", "0.5", "16"] == [choice.text for choice in first.values()]


def test_the_search_has_40_trials_and_stops_bad_ones_early() -> None:
    """At a rung before their end: epochs 3 and 9 of 24."""
    spec = read("tpe.yaml")
    assert spec.early is not None
    assert (TPE, 40, HALVING, 3) == (
        spec.search,
        spec.trials,
        spec.early.kind,
        spec.early.min_steps,
    )


@pytest.mark.parametrize("name", ["grid.yaml", "tpe.yaml"])
def test_every_parameter_is_an_option_of_the_program(name: str) -> None:
    """A name that it does not know would end each trial at once."""
    options = re.findall(r'add_argument\("(--[a-z-]+)"', (FOLDER / "train.py").read_text())
    reaches = [reach for parameter in read(name).parameters for reach in parameter.reaches]
    assert {ARG} == {reach.kind for reach in reaches}
    assert {reach.to for reach in reaches} <= set(options)


def test_what_the_program_prints_is_measured() -> None:
    """A line per epoch, with the step it belongs to."""
    line = '{"step": 3, "accuracy": 0.3917, "loss": 2.2117, "seconds": 0.1}'
    spec = read("tpe.yaml")
    measures = [
        (measure.step, measure.value)
        for measure in metrics.parse([line], spec.metrics)
        if measure.name == spec.objective.metric
    ]
    assert [(3, 0.3917)] == measures
