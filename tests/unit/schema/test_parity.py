"""Schema and values.yaml name the same keys, and each key is described."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.model import job_spec
from allranks.schema import bundle
from allranks.schema.validate import validate
from allranks.sweep.model import (
    HALVING,
    MEDIAN,
    EarlyStopping,
    Objective,
    SweepSpec,
    TrialSpec,
)
from allranks.sweep.spec import parse
from allranks.values.merge import overlay
from allranks.values.sources import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

REPO = Path(__file__).parents[3]


@pytest.fixture(params=names.WORKLOADS)
def workload(request: pytest.FixtureRequest) -> str:
    """Each workload in turn."""
    return str(request.param)


def described(workload: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of the hand-written schema: its path, and its node with references merged."""
    node, base = bundle.source(workload)
    yield from _described(node, base, "")


def _described(node: dict[str, Any], base: str, above: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for key, node_of_key in node.get("properties", {}).items():
        target_node, home = node_of_key, base
        while "$ref" in target_node:
            target, home = bundle.target(target_node["$ref"], home)
            own = {name: value for name, value in target_node.items() if name != "$ref"}
            target_node = {**target, **own}
        path = f"{above}.{key}" if above else key
        yield path, target_node
        yield from _described(target_node, home, path)
        yield from _described(target_node.get("items", {}), home, f"{path}[]")


def leaves(values: dict[str, Any], above: str = "") -> Iterator[str]:
    """Every key of values.yaml."""
    for key, value in values.items():
        path = f"{above}.{key}" if above else key
        yield path
        if isinstance(value, dict):
            yield from leaves(value, path)


def test_every_default_is_in_the_schema(workload: str) -> None:
    """No key of values.yaml is unknown to the schema."""
    paths = {path for path, _ in described(workload)}
    free = {path for path, node in described(workload) if "properties" not in node}
    unknown = {
        path
        for path in leaves(defaults(workload))
        if path not in paths and path.rpartition(".")[0] not in free
    }
    assert set() == unknown


def test_every_key_of_the_schema_has_a_default(workload: str) -> None:
    """No key of the schema is missing from values.yaml, where a user looks for it."""
    keys = set(leaves(defaults(workload)))
    # Maps that are empty until a user fills them: what may stand in them has no default.
    empty = [path for path, value in _maps(defaults(workload)) if not value]
    missing = {
        path
        for path, _ in described(workload)
        if path not in keys
        and "[]" not in path
        and not any(path.startswith(f"{above}.") for above in empty)
    }
    assert set() == missing


def _maps(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            path = f"{above}.{key}" if above else key
            yield path, value
            yield from _maps(value, path)


def test_every_key_is_described(workload: str) -> None:
    """Each property has a description of one or two plain sentences."""
    for path, node in described(workload):
        text = node.get("description", "")
        assert text, f"{path} has no description"
        assert text.rstrip("`})").endswith((".", ".'")) or text.endswith("`."), f"{path}: {text}"
        assert len(text) < 200, f"{path}: {text}"


def test_the_schema_has_no_defaults(workload: str) -> None:
    """values.yaml is the only place of defaults."""
    assert [] == [path for path, node in described(workload) if "default" in node]


def test_the_defaults_satisfy_the_schema(workload: str) -> None:
    """What a chart ships with has no problem of its own."""
    assert [] == validate(workload, defaults(workload), lambda _: "")


@pytest.mark.parametrize("kind", ["", HALVING, MEDIAN])
def test_what_a_sweep_does_not_say_is_what_its_values_say(kind: str) -> None:
    """Neither the model nor its reader has a default of its own: values.yaml's is the only one."""
    least: dict[str, Any] = {
        "parameters": {"lr": {"values": ["0.1"], "arg": "--lr"}},
        "objective": {"metric": "accuracy"},
        "earlyStopping": {"kind": kind},
    }
    spec = parse.parse("s", overlay(defaults("sweep")["sweep"], least))
    assert spec == parse.parse("s", least)
    expected = SweepSpec(
        name="s",
        parameters=spec.parameters,
        objective=Objective("accuracy"),
        trial=TrialSpec(),
        trials=1,
        early=EarlyStopping(kind) if kind else None,
    )
    assert expected == spec


@pytest.mark.parametrize("key", ["minSteps", "reductionFactor", "warmupTrials"])
def test_the_least_that_the_schema_allows_is_taken_as_it_is(key: str) -> None:
    """A number that a person gives is never taken for one that is not given."""
    node, _ = bundle.source("sweep")
    least = node["$defs"]["earlyStopping"]["properties"][key]["minimum"]
    early = {"kind": MEDIAN, "minSteps": 7, "reductionFactor": 7, "warmupTrials": 7, key: least}
    section = {
        "parameters": {"lr": {"values": ["0.1"], "arg": "--lr"}},
        "objective": {"metric": "accuracy"},
        "earlyStopping": early,
    }
    settings = parse.parse("s", section).early
    assert settings is not None
    assert {"minSteps": 7, "reductionFactor": 7, "warmupTrials": 7, key: least} == {
        "minSteps": settings.min_steps,
        "reductionFactor": settings.reduction_factor,
        "warmupTrials": settings.warmup_trials,
    }


def test_the_job_spec_knows_every_top_level_key(workload: str) -> None:
    """A new key is put on purpose among those that decide the layout, or those that do not."""
    node, _ = bundle.source(workload)
    assert set(node["properties"]) == (job_spec.READ | job_spec.CHART_ONLY) | {workload}
