"""`plan` and `validate` say how many trials a sweep has, and what each of them needs."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from allranks.service.prepare import TrialCounts

pytestmark = pytest.mark.usefixtures("forked")

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
    output = cli("plan", "-f", "values.yaml").stdout
    assert "6 trials, 2 at a time; each of them has:" in output
    verdict = cli("validate", "-f", "values.yaml").stdout
    assert (
        "ok  sweep: 6 trials, 2 at a time, each with 1 node, 1 process: python train.py" in verdict
    )
    for command in ("plan", "validate"):
        data = json.loads(cli(command, "-f", "values.yaml", "-o", "json").stdout)
        assert 2 == data["parallelLocal"]
        assert (6, 2, 1) == (data["trials"], data["parallel"], data["processes"])


@pytest.mark.parametrize(
    ("trials", "text"),
    [
        (TrialCounts(1, 4), "1 trial"),
        (TrialCounts(3, 3), "3 trials, all at once"),
        (TrialCounts(3, 1), "3 trials, 1 at a time"),
    ],
)
def test_trials_in_words(trials: TrialCounts, text: str) -> None:
    """One has nothing beside it."""
    assert text == str(trials)


_FREE = SWEEP.replace("  parallel: 2\n", "")


@pytest.mark.parametrize("command", ["plan", "validate"])
def test_the_cores_of_this_machine_are_the_limit_of_local_trials(cli: Any, command: str) -> None:
    """As `sweep run --on local` runs them where nothing says how many; a cluster runs them all."""
    cli.write(_FREE)
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:1])
    try:
        data = json.loads(cli(command, "-f", "values.yaml", "-o", "json").stdout)
        output = cli(command, "-f", "values.yaml").stdout
    finally:
        os.sched_setaffinity(0, before)
    assert (6, 6, 1) == (data["trials"], data["parallel"], data["parallelLocal"])
    assert "6 trials, all at once on a cluster and 1 at a time on this machine" in output


@pytest.mark.parametrize("command", ["plan", "validate", "sweep run s --on local --dry-run"])
def test_no_more_trials_run_at_a_time_than_there_are(cli: Any, command: str) -> None:
    """Whatever number was typed, the one that is said is the one that runs."""
    cli.write(SWEEP.replace("parallel: 2", "parallel: 100000"))
    data = json.loads(cli(*command.split(), "-f", "values.yaml", "-o", "json").stdout)
    assert 6 == data["parallel"]
    assert "100000" not in cli(*command.split(), "-f", "values.yaml").stdout
