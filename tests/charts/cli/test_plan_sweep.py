"""`plan` and `validate` say how many trials a sweep has, and what each of them needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.cli.pipeline import Trials

SWEEP = """
workload: sweep
image: {repository: x, tag: v1}
command: [python, train.py]
sweep:
  parallel: 2
  parameters:
    lr: {arg: --lr, values: [0.1, 0.01, 0.001]}
    size: {env: SIZE, values: [1, 2]}
"""


def test_a_sweep_is_counted(cli: Any) -> None:
    """Three rates and two sizes are six trials, of which two run at a time."""
    cli.write(SWEEP)
    shown = cli("plan", "-f", "values.yaml").stdout
    assert "6 trials, 2 at a time; each of them has:" in shown
    said = cli("validate", "-f", "values.yaml").stdout
    assert "ok  sweep: 6 trials, 2 at a time, each with 1 node, 1 process: python train.py" in said
    for command in ("plan", "validate"):
        data = json.loads(cli(command, "-f", "values.yaml", "-o", "json").stdout)
        assert (6, 2, 1) == (data["trials"], data["parallel"], data["processes"])


@pytest.mark.parametrize(
    ("trials", "text"),
    [
        (Trials(1, 4), "1 trial"),
        (Trials(3, 3), "3 trials, all at once"),
        (Trials(3, 1), "3 trials, 1 at a time"),
    ],
)
def test_trials_in_words(trials: Trials, text: str) -> None:
    """One has nothing beside it."""
    assert text == str(trials)
