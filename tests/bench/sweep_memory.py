"""What the runner of 10,000 trials has in memory, in a process of its own.

    .venv/bin/python -m tests.bench.sweep_memory TRIALS

The runner, its search, its journal and all libraries that a sweep on a cluster loads are the real
ones. Only the releases are not: each trial ends as soon as it begins, after some measures, because
10,000 real ones take a quarter of an hour and are gone from memory once they have ended. Prints the
number of trials that ended well, and the most memory that the process had, in MiB.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

# What a sweep on a cluster loads besides is part of what the program has in memory.
import kubernetes.dynamic  # noqa: F401
import yaml

from allranks import names
from allranks.cli.commands.sweep import (
    view,  # noqa: F401
)
from allranks.sweep import actions, model, runner
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.spec import prepare
from allranks.sweep.trials import cluster  # noqa: F401
from allranks.sweep.trials.base import TrialOutput
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.sweep.model import Trial

_MEASURES = 5
_PARALLEL = 200
_SIDE = 100


class AtOnce:
    """Trials that end when they begin; see `allranks.sweep.trials.base.TrialReleases`."""

    def __init__(self) -> None:
        """None runs."""
        self._there: dict[str, ObservedRelease] = {}
        self._unread: set[str] = set()

    def observe(self) -> Mapping[str, ObservedRelease]:
        """All have ended well."""
        return dict(self._there)

    def foreign_releases(self) -> Mapping[str, str]:
        """None."""
        return {}

    def claims(self, _trials: object) -> Mapping[str, str]:
        """None."""
        return {}

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Begin and end."""
        if not values:
            raise ValueError(trial.name)
        self._there[trial.name] = ObservedRelease(actions.SUCCEEDED)
        self._unread.add(trial.name)

    def remove(self, name: str) -> None:
        """Forget one."""
        self._there.pop(name, None)

    def read(self, trial: Trial) -> TrialOutput:
        """A measure for each step, once."""
        if trial.name not in self._unread:
            return TrialOutput()
        self._unread.remove(trial.name)
        value = (trial.number * 7919 % 10_007) / 10_007
        lines = [
            f'{{"step": {step}, "accuracy": {value * step / _MEASURES}}}'
            for step in range(1, _MEASURES + 1)
        ]
        return TrialOutput(lines, "")

    def wait(self, seconds: float) -> None:
        """There is nothing to wait for."""

    def wake(self) -> None:
        """Nobody waits."""

    def close(self, *, at_once: bool = False) -> None:
        """Nothing is under way."""


def main() -> None:
    """Run a sweep of so many trials; print what is left of it."""
    trials = int(sys.argv[1])
    side = [str(number) for number in range(_SIDE)]
    rows = [str(number) for number in range(-(-trials // _SIDE))]
    content = {
        "workload": "sweep",
        "image": {"repository": "my/trainer", "tag": "1"},
        "command": ["python", "train.py"],
        "sweep": {
            "parameters": {
                "seed": {"values": rows, "arg": "--seed"},
                "lr": {"values": side, "arg": "--lr"},
            },
            "trials": trials,
            "parallel": _PARALLEL,
            "objective": {"metric": "accuracy"},
        },
    }
    with tempfile.TemporaryDirectory() as folder:
        os.environ[names.ENV_STATE] = folder
        values = Path(folder) / "values.yaml"
        values.write_text(yaml.safe_dump(content), encoding="utf-8")
        prepared = prepare.prepare(prepare.SweepFlags("big", Sources(files=(str(values),))))
        with runner.begin(prepared, runner.locate("big"), {"on": "cluster"}) as journal:
            state = runner.run(prepared, AtOnce(), journal)
    fields = Path("/proc/self/status").read_text(encoding="ascii").split()
    print(state.counts[model.SUCCEEDED], int(fields[fields.index("VmHWM:") + 1]) / 1024)


if __name__ == "__main__":
    main()
