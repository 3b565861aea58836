"""The story of a cluster on Azure, told by the cloud: `make azure-live`.

AZURE_FILE names an azure.yaml with a share called datasets; without it a small one is written.

It costs money for a quarter of an hour, and removes what it has made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from .settings import small_cluster
from .story import story

PROGRAM = Path(sys.executable).parent / "allranks"
_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended.

    Attributes:
        code: its exit code.
        out: its output.
        err: its errors.
    """

    code: int
    out: str
    err: str


@pytest.mark.timeout(2 * _HOUR)
def test_the_cloud_tells_the_story(tmp_path: Path) -> None:
    """As the fakes do."""
    file = os.environ.get("AZURE_FILE", "")
    if file:
        shutil.copy(file, tmp_path / "azure.yaml")
    else:
        (tmp_path / "azure.yaml").write_text(small_cluster(f"allranks-story-{int(time.time())}"))

    def call(*words: str) -> Ended:
        process = subprocess.run(
            [PROGRAM, "azure", *words],
            cwd=tmp_path,
            env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
            capture_output=True,
            text=True,
            check=False,
            timeout=_HOUR,
        )
        return Ended(process.returncode, process.stdout, process.stderr)

    story(call, tmp_path)
