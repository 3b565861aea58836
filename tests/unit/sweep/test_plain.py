"""What charts/sweep is given: every choice as the text that was typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.sweep.spec.export import as_typed
from allranks.values.sources import Sources, load_sources

if TYPE_CHECKING:
    from pathlib import Path


def chart_parameters(tmp_path: Path, parameters: str) -> dict[str, Any]:
    """The parameters that the chart gets of those in a values file."""
    path = tmp_path / "values.yaml"
    path.write_text(f"workload: sweep\nargs: [a]\nsweep:\n  seed: 1\n  parameters: {parameters}\n")
    loaded = load_sources(Sources((str(path),)))
    values = as_typed(loaded.user, loaded.token)
    assert (["a"], 1) == (values["args"], values["sweep"]["seed"])
    parameters_given: dict[str, Any] = values["sweep"]["parameters"]
    return parameters_given


def test_values_are_texts(tmp_path: Path) -> None:
    """Numbers and true become what was typed; how they reach the trial stays."""
    parameters = chart_parameters(
        tmp_path, '{p: {values: [1e-5, 0.10, yes, "08", -0], arg: --p, path: [a, b]}}'
    )
    texts = ["1e-5", "0.10", "yes", "08", "-0"]
    assert {"p": {"values": texts, "arg": "--p", "path": ["a", "b"]}} == parameters


@pytest.mark.parametrize("form", ["range", "quantized"])
def test_a_range_is_its_numbers(form: str, tmp_path: Path) -> None:
    """Decimals keep their places, and no noise of floats is added."""
    parameters = chart_parameters(
        tmp_path, f"{{p: {{{form}: {{min: 0.1, max: 0.35, step: 0.10}}, env: P}}}}"
    )
    assert {"p": {"values": ["0.10", "0.20", "0.30"], "env": "P"}} == parameters


@pytest.mark.parametrize(
    "form",
    [
        "{uniform: {min: 0, max: 1}, arg: --p}",
        "{values: [], arg: --p}",
        "{range: {min: 3, max: 1}, arg: --p}",
        "{range: {min: 1, max: 1000000}, arg: --p}",
        "7",
    ],
)
def test_what_the_chart_judges_itself_is_left(form: str, tmp_path: Path) -> None:
    """What is no grid, not good, or too long to write down reaches the chart as it is."""
    user_values = load_sources(Sources((str(_file(tmp_path, form)),))).user
    assert user_values["sweep"]["parameters"] == chart_parameters(tmp_path, f"{{p: {form}}}")


def _file(tmp_path: Path, form: str) -> Path:
    path = tmp_path / "read.yaml"
    path.write_text(f"workload: sweep\nsweep: {{parameters: {{p: {form}}}}}\n")
    return path


@pytest.mark.parametrize("user", [{}, {"sweep": None}, {"sweep": {"parameters": None}}])
def test_values_without_parameters(user: dict[str, Any]) -> None:
    """There is nothing to write."""
    assert user == as_typed(user, lambda _: None)
