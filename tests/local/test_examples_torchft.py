"""examples/torchrun-torchft, run as its README says: a real lighthouse, and a real kill."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from allranks import names
from allranks.local import runs as local_runs
from allranks.local.host import addresses, process_tree
from allranks.local.state import store
from allranks.model.status import Phase

from .conftest import CommandLine, metrics, port_base, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.model.status import RunStatus

# The environment of torchft is built where this is the first test to ask for it.
pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

REPO = Path(__file__).parents[2]
EXAMPLE = REPO / "examples/torchrun-torchft"


def _torchft(hold: Path) -> str:
    """The option that gives each pod torchft, beside the torch that is here.

    Group 1 does not start while `hold` is there.
    """
    words = [sys.executable, str(REPO / "tools/env.py"), "torchft"]
    folder = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    (packages,) = Path(folder).glob("lib/python*/site-packages")
    held = f'[ "$REPLICA_GROUP_ID" = 1 ] && [ -e {shlex.quote(str(hold))} ]'
    return (
        f"setup=export PATH={folder}/bin:$PATH PYTHONPATH={packages}:$PYTHONPATH; "
        f"while {held}; do sleep 0.1; done"
    )


def _launchers(state: Path, group: int) -> Iterator[psutil.Process]:
    """The launchers of a group, each of which all else in its pod ends with."""
    for process in psutil.process_iter():
        try:
            env, words = process.environ(), " ".join(process.cmdline())
        except psutil.Error:
            continue
        is_launcher = "launch.py" in words and "RANK" not in env
        group_of = env.get("REPLICA_GROUP_ID") if is_launcher else None
        if env.get(names.ENV_RUN, "").startswith(f"{state}/") and group_of == str(group):
            yield process


@pytest.fixture(autouse=True)
def _runs_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No run outlives a test that fails."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    yield
    for folder in store.run_folders():
        process_tree.kill(names.ENV_SUPERVISOR, [str(folder.path)])
        process_tree.kill(names.ENV_RUN, [str(folder.path)])


def _end(run: str) -> RunStatus | None:
    """The status of a run that is over."""
    status = local_runs.status(run, "default")
    return status if status.phase in {Phase.SUCCEEDED, Phase.FAILED} else None


def test_a_lost_group_heals_from_the_one_that_goes_on(
    command_line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two groups one is killed; the other goes on alone, and both end with the same weights.

    The run has succeeded, with the pod that was made again. `status` knows no rank of a group.
    """
    monkeypatch.setenv(names.ENV_BACKOFF_SCALE, "0.3")
    port = addresses.free_port(port_base() + 600)
    hold = tmp_path / "hold"
    torchft, here = _torchft(hold), ("--on", "local")
    lighthouse = ("--set", f"torchrun.port={port}", "--set-literal", f"args[1]=[::]:{port}")
    heartbeats = (
        "--set-literal",
        "args[2]=--heartbeat_timeout_ms",
        "--set-literal",
        "args[3]=5000",
    )
    command_line(
        *("run", "lighthouse", "-f", EXAMPLE / "lighthouse.yaml", *here, "--detach"),
        *("--set-literal", torchft, *lighthouse, *heartbeats),
    )
    checkpoints = tmp_path / "checkpoints"
    folder = (
        "--set-literal",
        "args[2]=--checkpoint-dir",
        "--set-literal",
        f"args[3]={checkpoints}",
    )
    command_line(
        *("run", "groups", "-f", EXAMPLE / "values.yaml", *here, "--detach"),
        *("--set-literal", torchft, "--set", f"torchrun.torchft.lighthouse=localhost:{port}"),
        *("--set-literal", "args[1]=1000000", *folder),
    )

    def lines(group: int) -> list[dict[str, Any]]:
        texts = [line.text for line in local_runs.logs("groups", "default")]
        return [line for line in metrics("\n".join(texts)) if line.get("group") == group]

    until(lambda: any(line.get("groups") == 2 for line in lines(1)), "two groups", 240)
    # A group that is back before the other has looked for it is not missed.
    hold.touch()
    together = lines(1)[-1]["step"]
    next(_launchers(tmp_path, 1)).kill()
    alone = until(
        lambda: [
            line["step"] for line in lines(0) if line.get("groups") == 1 and line["step"] > together
        ],
        "one group alone",
        240,
    )
    hold.unlink()
    until(
        lambda: any(line["step"] > alone[0] and line["groups"] == 2 for line in lines(1)),
        "the lost group to go on where the other is",
        240,
    )
    checkpoints.mkdir()
    (checkpoints / "stop").touch()
    final = until(lambda: _end("groups"), "the run to end", 240)
    assert (Phase.SUCCEEDED, [None, None]) == (final.phase, [pod.ranks for pod in final.pods])
    first, second = lines(0)[-1], lines(1)[-1]
    assert first["final"]
    assert {**first, "group": 1} == second
    assert (checkpoints / "model.pt").exists()
    command_line("delete", "groups", *here)
    command_line("delete", "lighthouse", *here)
