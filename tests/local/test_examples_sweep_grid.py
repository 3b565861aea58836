"""The grid of examples/sweep-mnist-grid, run as its README says: real trials on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import CommandLine, metrics

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

GRID = Path(__file__).parents[2] / "examples/sweep-mnist-grid/values.yaml"


def test_a_grid_trains_every_choice(command_line: CommandLine, tmp_path: Path) -> None:
    """Each trial has its own choices, in its words and in the name of its folder; each succeeds."""
    words = ("run", "grid", "-f", GRID, "--on", "local", "--set", "sweep.trials=4")
    process = command_line(*words, "--set-json", 'args[2]="--epochs"', "--set-json", 'args[3]="1"')
    assert "Succeeded, 4 done" in process.stdout
    for index, choice in enumerate(("1 0.001", "1 0.01", "1 0.1", "2 0.001")):
        assert f"trial {index}: {choice}\n" in process.stdout

    status = json.loads(command_line("status", "grid", "--on", "local", "-o", "json").stdout)
    assert ("Succeeded", "sweep") == (status["phase"], status["workload"])
    assert 4 == len(status["pods"])

    folders = {path.parent.name: path for path in tmp_path.rglob("metrics.jsonl")}
    pairs = {("0.001", "1"), ("0.01", "1"), ("0.1", "1"), ("0.001", "2")}
    assert {f"tf-paint-lr{rate}-d-{depth}" for rate, depth in pairs} == set(folders)
    for path in folders.values():
        (line,) = metrics(path.read_text())
        assert 0 < line["accuracy"] <= 1
