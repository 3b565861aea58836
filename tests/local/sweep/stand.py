"""A sweep of tiny trials on this machine, run in this process or in one that can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from allranks import names
from allranks.helm.binary import inspect
from allranks.sweep import runner
from allranks.sweep.spec.prepare import PreparedSweep, SweepFlags, prepare
from allranks.sweep.storage.journal import read_state
from allranks.sweep.trials import local
from allranks.sweep.trials.local import LocalTrials
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from allranks.sweep.state import SweepState

# Runs a sweep, beginning it where there is none yet.
_RUNNER = """
import sys
from pathlib import Path
from allranks.helm.binary import inspect
from allranks.sweep import runner
from allranks.sweep.trials import local
from allranks.sweep.spec import prepare
from allranks.values.sources import Sources

name, values, helm, workdir = sys.argv[1:]
path = runner.locate(name)
if path.exists():
    prepared, journal = runner.open_sweep(path)
else:
    prepared = prepare.prepare(prepare.SweepFlags(name, Sources(files=(values,))))
    journal = runner.begin(prepared, path, {"on": "local"})
home = local.LocalTarget("lab", Path(workdir), inspect(Path(helm)))
with journal:
    state = runner.run(prepared, local.LocalTrials(prepared, home), journal)
print(state.outcome, state.reason)
"""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where one test's sweep runs.

    Attributes:
        state: the state folder.
        workdir: where trials start; what they leave is found here.
        helm: the program.
    """

    state: Path
    workdir: Path
    helm: Path

    def values(self, script: str, sweep: dict[str, Any], **fields: Any) -> Path:
        """A values file whose trials run a shell script, with the folder for notes in $OUT."""
        content = {
            "workload": "sweep",
            "image": {"repository": "any"},
            "script": "#!/bin/sh\n" + textwrap.dedent(script) if script else "",
            "env": {"OUT": str(self.workdir)},
            "runPolicy": {"backoffLimit": 0, "terminationGracePeriodSeconds": 1},
            "sweep": sweep,
            **fields,
        }
        path = self.workdir / "values.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

    def prepare(self, values: Path, name: str = "s", **flags: Any) -> PreparedSweep:
        """The sweep of a values file."""
        return prepare(SweepFlags(name, Sources(files=(str(values),)), **flags))

    def trials(self, prepared: PreparedSweep, kind: type[LocalTrials] = LocalTrials) -> LocalTrials:
        """What its trials run on."""
        home = local.LocalTarget("lab", self.workdir, inspect(self.helm))
        return kind(prepared, home)

    def run(self, prepared: PreparedSweep, kind: type[LocalTrials] = LocalTrials) -> SweepState:
        """Run it to its end, in this process."""
        path = runner.locate(prepared.spec.name)
        with runner.begin(prepared, path, {"on": "local"}) as journal:
            return runner.run(prepared, self.trials(prepared, kind), journal)

    def process(self, values: Path, name: str = "s") -> subprocess.Popen[str]:
        """Run it, or go on with it, in a process of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", _RUNNER, name, values, self.helm, self.workdir],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, names.ENV_STATE: str(self.state)},
        )

    def look(self, name: str = "s") -> SweepState:
        """The sweep as its journal tells it now."""
        return read_state(runner.locate(name))

    def notes(self, file: str) -> list[str]:
        """The lines that trials have left in a file of the working folder."""
        path = self.workdir / file
        return path.read_text().splitlines() if path.exists() else []

    def records(self, name: str = "s") -> list[dict[str, Any]]:
        """The records of the journal."""
        lines = Path(runner.locate(name).where).read_text().splitlines()
        return [json.loads(line) for line in lines]
