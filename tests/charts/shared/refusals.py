"""What each chart refuses, and in which words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from allranks.schema.validate import validate
from allranks.values import check, sources
from allranks.values.merge import merge
from tests.charts.shared.rendered import SWEEP

_CHARTS = Path(__file__).parents[1]


def refusal_cases(chart: str) -> list[dict[str, Any]]:
    """The cases of a chart: those of every chart, then its own."""
    files = (_CHARTS / "shared/refused.yaml", _CHARTS / chart / "refused.yaml")
    cases: list[dict[str, Any]] = []
    for path in files:
        cases += yaml.safe_load(path.read_text(encoding="utf-8"))
    for case in cases:
        if chart == "elastic" and "procsPerNode" in case["values"]:
            # Elsewhere each pod has one process, whatever the layout says.
            case["values"].setdefault("elastic", {"mode": "auto", "framework": "pytorch"})
        if chart == "sweep":
            case["values"].setdefault("sweep", SWEEP)
    return cases


def names(cases: list[dict[str, Any]]) -> list[str]:
    """What the cases are called."""
    return [case["name"] for case in cases]


def for_command_line(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that the command line refuses too.

    Presets and layouts are its own doing; it takes the chart from the workload.
    """
    return [case for case in cases if not {"workload", "preset", "layout"} & set(case["values"])]


def check_words(message: str, problem: str) -> None:
    """The problem is told as "ERROR: path: what; fix", whatever else the chart says."""
    (line,) = (line for line in message.splitlines() if problem in line)
    assert f"ERROR: {problem}" in line
    assert re.search(r"; [a-z].*[^.]$", line), "no fix is named"


def check_command_line(chart: str, values: dict[str, Any]) -> None:
    """What the chart refuses, the command line refuses before Helm runs."""
    user_values = {"image": {"repository": "x"}, "command": ["x"]} | values
    full = merge(sources.defaults(chart), user_values)
    assert validate(chart, full, lambda _: "") or check.check(full, lambda _: "")
