"""A job's pods as processes: each runs the wrapper of charts/elastic, on a loopback address."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from tests.local.conftest import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CHART = Path(__file__).parents[3] / "charts/elastic"
FILES = CHART / "files"
RECIPES: dict[str, Any] = yaml.safe_load((CHART / "frameworks.yaml").read_text("utf-8"))
FOR_EVER = "while :; do sleep 0.02; done"


@dataclass(slots=True)
class Pod:
    """A running pod.

    Attributes:
        name: role and index.
        process: its process 1.
        folder: what it writes.
    """

    name: str
    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def log(self) -> str:
        """What it has written, wrapper and program."""
        return (self.folder / "log").read_text("utf-8")

    @property
    def reason(self) -> str:
        """Its termination message."""
        return (self.folder / "reason").read_text("utf-8")

    def code(self, seconds: float = 120.0) -> int:
        """Its exit code, when it has ended."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} did not end within {seconds:g} s:\n{self.log}")

    def says(self, text: str) -> None:
        """Wait for a text in its log."""
        until(lambda: text in self.log, f"{text!r} in the log of {self.name}")

    def kill(self) -> None:
        """End it as a lost node does: with all its processes, and without a word."""
        own = psutil.Process(self.process.pid)
        for process in [*own.children(recursive=True), own]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Cast:
    """The pods of one job.

    Attributes:
        folder: where all is written.
        port: of the meeting.
        block: the loopback addresses are 127.BLOCK.x.y.
        framework: whose recipe counts.
        counts: pods by role.
        leads: which lead, and how many of each.
        lost: seconds after which a pod ends without a lead.
        waits: seconds for names.
    """

    folder: Path
    port: int
    framework: str = "tensorflow"
    counts: Mapping[str, int] = field(default_factory=lambda: {"chief": 1, "worker": 1, "ps": 1})
    leads: Sequence[tuple[str, int]] = (("chief", 1),)
    lost: float = 60.0
    waits: float = 10.0
    pods: list[Pod] = field(default_factory=list)

    def address(self, role: str, index: int) -> str:
        """The address of a pod."""
        return f"127.77.{1 + sorted(self.counts).index(role)}.{1 + index}"

    def plan(self, **other: Any) -> dict[str, Any]:
        """What the chart writes for the pods."""
        recipe = RECIPES[self.framework]
        return {
            "hosts": {
                role: [f"{self.address(role, index)}:2222" for index in range(count)]
                for role, count in self.counts.items()
            },
            "leads": [list(lead) for lead in self.leads],
            "optional": [role for role, about in recipe["roles"].items() if about.get("optional")],
            **{key: recipe[key] for key in ("needs", "ranks", "endsItself", "env")},
            **other,
        }

    def start(self, role: str, index: int, *program: str, **env: Any) -> Pod:
        """Start a pod; a program of one word is a shell script. `plan` changes the plan."""
        name = f"{role}-{index}"
        folder = self.folder / f"{name}.{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        plan = folder / "plan.json"
        plan.write_text(json.dumps(self.plan(**env.pop("plan", {}))))
        variables = {
            "ALLRANKS_ROLE": role,
            "JOB_COMPLETION_INDEX": index,
            "ALLRANKS_PLAN": plan,
            "ALLRANKS_POD_IP": self.address(role, index),
            "ALLRANKS_WAIT_SECONDS": self.waits,
            "ALLRANKS_FOLLOW_PORT": self.port,
            "ALLRANKS_LOST_SECONDS": self.lost,
            "ALLRANKS_FAILURES": "",
            "ALLRANKS_BACKOFF_LIMIT": 2,
            "ALLRANKS_TERMINATION_LOG": folder / "reason",
            **env,
        }
        words = program if len(program) > 1 else ("/bin/sh", "-c", *program)
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-B", "-u", FILES / "follow.py", *words],
                env=os.environ | {key: str(value) for key, value in variables.items()},
                stdout=log,
                stderr=log,
                cwd=folder,
            )
        self.pods.append(Pod(name, process, folder))
        return self.pods[-1]

    def close(self) -> None:
        """End what still runs."""
        for pod in self.pods:
            if pod.process.poll() is None:
                pod.kill()
