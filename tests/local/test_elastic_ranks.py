"""Whose lines a rank of an elastic job's are, where the framework gives its pods ranks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import CommandLine

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


# Says which rank it is, and whether `allranks why` could ask it; servers are ended when the workers
# are done, so that none of these is done before all have said it.
_SCRIPT = """
import os, pathlib, time
files = [os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
armed = any("allranks-why-state" in file for file in files)
print("rank", os.environ["RANK"], "armed" if armed else files, flush=True)
folder = pathlib.Path(os.environ["MET"])
(folder / ("rank" + os.environ["RANK"])).touch()
deadline = time.monotonic() + 120
while len(list(folder.glob("rank?"))) < 3 and time.monotonic() < deadline:
    time.sleep(0.1)
"""


def test_the_log_of_a_rank_is_that_of_the_pod_which_has_it(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """PyTorch's ranks begin with the servers; one beyond the last is refused with the last.

    Each of them can be asked what it does (`why`).
    """
    roles = {"ps": {"replicas": 1}, "worker": {"replicas": 2}}
    values = {
        "workload": "elastic",
        "image": {"repository": "any"},
        "script": _SCRIPT,
        "env": {"MET": str(tmp_path)},
        "elastic": {"framework": "pytorch", "mode": "static", "roles": roles},
    }
    path = tmp_path / "values.json"
    path.write_text(json.dumps(values))
    command_line("run", "ex", "--on", "local", "-f", path)
    for rank, pod in enumerate(("ps-0", "worker-0", "worker-1")):
        lines = command_line("logs", "ex", "--on", "local", "--rank", str(rank)).stdout
        assert f"[{pod}] rank {rank} armed\n" in lines
        assert 1 == lines.count(" rank ")
    process = command_line("logs", "ex", "--on", "local", "--rank", "3", code=2)
    assert "its ranks are 0 to 2" in process.stderr
