"""Ask the pods of a run on this machine; of a cluster nobody imports the local runtime for it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.diagnosis.pods import CONTAINER, END, LINES, OLDER, PROGRAM, STARTING_SECONDS
from allranks.errors import NotFoundError, RunError
from allranks.local import runs as local_runs
from allranks.local.state import store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class LocalPods:
    """The pods of a run on this machine: processes, and a folder of each."""

    name: str
    namespace: str

    def _attempt(self, pod: str) -> Path:
        folder = store.run_folder(self.name, self.namespace).pods / pod
        try:
            return max(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        except (FileNotFoundError, ValueError) as error:
            raise NotFoundError(f"pod {pod} has ended") from error

    def ask(self, pod: str, seconds: float) -> bytes:
        """See `PodSource`."""
        attempt = self._attempt(pod)
        program = attempt / "mounts" / CONTAINER / "entry" / PROGRAM
        if not program.exists():
            raise RunError(OLDER)
        command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(program), f"{seconds:g}"]
        env = {names.ENV_POD_UID: attempt.name, "POD_NAME": pod, "PATH": "/usr/bin:/bin"}
        limit = seconds + STARTING_SECONDS
        try:
            result = subprocess.run(  # noqa: S603 - our own program, in the folder of the run
                command, capture_output=True, check=False, env=env, timeout=limit
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"it has not answered within {limit:.0f} s") from error
        answer, end, _ = result.stdout.partition(f"\n{END}".encode())
        if not end:
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            raise RunError((lines or ["it gave no answer"])[-1])
        return answer

    def log(self, pod: str) -> Iterator[str]:
        """See `PodSource`."""
        lines = local_runs.logs(self.name, self.namespace, tail=LINES)
        return (line.text for line in lines if line.pod == pod)
