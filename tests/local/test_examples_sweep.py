"""What a trial of examples/sweep-digits does: it says each step, leaves its result, and repeats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import metrics

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

TRAIN = Path(__file__).parents[2] / "examples/sweep-digits/train.py"


def train(message: Path, *options: str) -> list[dict[str, float]]:
    """What a trial prints."""
    process = subprocess.run(
        [sys.executable, TRAIN, *options],
        env={**os.environ, "TERMINATION_LOG": str(message)},
        capture_output=True,
        text=True,
        check=True,
    )
    return metrics(process.stdout)


def test_a_trial_says_each_step_and_leaves_its_last_accuracy(tmp_path: Path) -> None:
    """The same options give the same numbers, and better ones are better."""
    message = tmp_path / "message"
    options = ("--epochs", "6", "--lr", "0.1", "--batch-size", "16", "--momentum", "0.25")
    first = train(message, *options)
    assert [1, 2, 3, 4, 5, 6] == [line["step"] for line in first]
    assert {"accuracy": first[-1]["accuracy"]} == json.loads(message.read_text())
    assert first[-1]["accuracy"] > 0.8
    again = train(message, *options, "--dropout", "0")
    assert [line["accuracy"] for line in first] == [line["accuracy"] for line in again]
    small = train(message, "--epochs", "2", "--lr", "1e-3")
    assert small[-1]["accuracy"] < first[1]["accuracy"]
