"""The whole life of a cluster, in Azure itself: `make azure-live` runs it, where a subscription is.

It is in no tier, because it costs money. What it makes has a name of its own and an hour to live.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from .settings import small_cluster

_PROGRAM = Path(sys.executable).with_name("allranks")
_KILLED_SECONDS = (20, 90)


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [_PROGRAM, "azure", *words],
        cwd=folder,
        env={**os.environ, "KUBECONFIG": str(folder / "kubeconfig")},
        text=True,
        capture_output=True,
        check=False,
    )


def _entries(folder: Path) -> set[str]:
    plan = _run(folder, "plan", "-o", "json")
    assert 0 == plan.returncode, plan.stderr
    return {entry["action"] for entry in json.loads(plan.stdout)["entries"]}


def test_from_nothing_and_away_again(tmp_path: Path) -> None:
    """Planned, made with kills in between, the same again, and removed without a rest."""
    name = f"allranks-live-{int(time.time())}"
    (tmp_path / "azure.yaml").write_text(small_cluster(name))
    assert {"make"} == _entries(tmp_path)
    try:
        for seconds in _KILLED_SECONDS:
            program = subprocess.Popen(
                [_PROGRAM, "azure", "up", "--yes"],
                cwd=tmp_path,
                env={**os.environ, "KUBECONFIG": str(tmp_path / "kubeconfig")},
            )
            try:
                program.wait(seconds)
            except subprocess.TimeoutExpired:
                program.send_signal(signal.SIGKILL)
                program.wait()
        up = _run(tmp_path, "up", "--yes", "-o", "json")
        assert 0 == up.returncode, up.stdout + up.stderr
        assert {"exists"} == _entries(tmp_path)
        assert 0 == _run(tmp_path, "status").returncode
    finally:
        down = _run(tmp_path, "down", "--yes")
    assert 0 == down.returncode, down.stderr
    assert {"make"} == _entries(tmp_path)
