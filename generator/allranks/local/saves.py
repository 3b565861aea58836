"""The pods of this machine whose ranks can be asked to save."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

from allranks import names
from allranks.errors import RunError
from allranks.resources import folder as resource_folder

if TYPE_CHECKING:
    from pathlib import Path

_END = b"allranks-save-done"
_FILE = "ALLRANKS_SAVE_FILE"


@dataclass(frozen=True, slots=True)
class LocalSavingPod:
    """A pod of this machine, known by the file that its ranks look at.

    Attributes:
        name: the pod's name.
        file: the path of the file.
        signal: what its ranks are to get, too; "" for none.
    """

    name: str
    file: str
    signal: str

    def ask_to_save(self, request: int, seconds: float) -> bytes:
        """See `allranks.workspace.saves.SavingPod`."""
        program = resource_folder("charts") / "library/files/save.sh"
        env = {
            "PATH": os.environ.get("PATH", os.defpath),
            "ALLRANKS_SAVE_ONLY": self.file,
            "ALLRANKS_CHECKPOINT_SIGNAL": self.signal,
        }
        try:
            result = subprocess.run(  # noqa: S603 - our own program
                ["/bin/sh", str(program), str(request)],
                capture_output=True,
                check=False,
                env=env,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise RunError(f"pod {self.name} has not answered within {seconds:.0f} s") from error
        return result.stdout.partition(_END)[0]


def saving_pods(folder: Path) -> list[LocalSavingPod]:
    """The pods of a run whose ranks have begun.

    Args:
        folder: of the run.
    """
    pods: dict[str, LocalSavingPod] = {}
    for process in psutil.process_iter():
        try:
            env = process.environ()
        except (psutil.Error, OSError):
            continue  # it has ended, or is another user's
        file = env.get(_FILE, "")
        if file and env.get(names.ENV_RUN) == str(folder):
            pod = env.get("HOSTNAME", file)
            pods[file] = LocalSavingPod(pod, file, env.get("ALLRANKS_CHECKPOINT_SIGNAL", ""))
    return list(pods.values())
