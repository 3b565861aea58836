"""Pods that stand by: the chart's manifests and real torchrun under the local runtime."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from allranks.local import runs as local_runs
from allranks.model.status import Phase, PodPhase
from tests.modules import load

from .conftest import Machine, first_process, two_nodes_with_spares, until

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
]

# Goes on from its checkpoint, and ends once a pod of another index trains and all know of it.
_TRAINING = """
import os, pathlib, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, pod = dist.get_rank(), int(os.environ["ALLRANKS_NODE_RANK"])
checkpoint = pathlib.Path("checkpoint")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
sys.stdout.write(f"rank {rank} in pod {pod} starts at step {step}\\n")
sys.stdout.flush()
spare = torch.tensor([float(pod > 1)])
dist.all_reduce(spare)
while step < 3 or not spare.item():
    dist.barrier()
    step += 1
    if rank == 0:
        checkpoint.with_suffix(".new").write_text(str(step))
        checkpoint.with_suffix(".new").replace(checkpoint)
    time.sleep(0.02)
dist.barrier()
sys.stdout.write(f"rank {rank} ends\\n")
sys.stdout.flush()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""


@pytest.mark.usefixtures("warm_ranks")
def test_a_spare_takes_the_place_of_a_lost_pod(machine: Machine, helm4: Any, repo: Any) -> None:
    """Training goes on from its checkpoint with one of two spares, before the pod is made again.

    The other spare stands by to the end, and has succeeded then. A run says that pods stand by.
    """
    (machine.workdir / "train.py").write_text(_TRAINING)
    manifests = two_nodes_with_spares(helm4, repo, 2)
    # A pod is made again long after the spare is there.
    handle = machine.start(*manifests, backoff_scale=60)
    machine.line("rank 1 in pod 1 starts at step 0")
    until((machine.workdir / "checkpoint").exists, "a checkpoint", 60)
    for pod in ("run-2", "run-3"):
        until(
            lambda pod=pod: any("standing by" in line.text for line in _lines() if line.pod == pod),
            f"{pod} to stand by",
            60,
        )
    remarks = local_runs.status("run", "lab").remarks
    assert "2 of 4 pods train and 2 stand by for one that is lost; " in "".join(remarks), remarks
    first_process(machine.processes, "run-1").kill()
    status = handle.wait()
    texts = [line.text for line in _lines()]
    assert (Phase.SUCCEEDED, 0) == (status.phase, status.exit_code), texts
    (resumed,) = [text for text in texts if text.startswith("rank 1 in ") and "pod 1" not in text]
    assert 0 < int(resumed.rpartition(" ")[2])
    phases = {pod.name: pod.phase for pod in status.pods}
    assert phases["run-2"] is phases["run-3"] is PodPhase.SUCCEEDED, phases


def _lines() -> list[Any]:
    return list(local_runs.logs("run", "lab"))


class _Node(NamedTuple):
    addr: str


LEAD, PEER, OWN = _Node("run-0"), _Node("run-0-00001"), _Node("run-0-00002")
ACTIONS = SimpleNamespace(SYNC="look", REMOVE_FROM_WAIT_LIST="step out")


@pytest.fixture
def spare(repo: Path) -> Any:
    """The module of a pod that stands by, with no time to wait."""
    module = load(repo / "charts/torchrun/files/spare.py")
    module.START_SECONDS, module.SETTLE_SECONDS, module.LEARN_SECONDS = 1000.0, 0.0, 0.0
    return module


@pytest.mark.parametrize(
    ("index", "state", "step"),
    [
        (2, {"participants": [LEAD, PEER], "complete": True}, "look"),
        (1, {"participants": [LEAD, PEER], "complete": True}, "look"),
        (1, {"participants": [LEAD, PEER], "complete": True, "wait_list": [OWN]}, "step out"),
        (2, {"participants": [PEER], "wait_list": [LEAD], "complete": True}, "look"),
        (2, {"participants": [LEAD], "round": 0}, "look"),
        (2, {"participants": [LEAD]}, None),
        (2, {"participants": [LEAD], "complete": True}, None),
        (2, {"participants": [PEER]}, "look"),
        (1, {"participants": [LEAD], "round": 0}, None),
        (2, {"participants": [LEAD, OWN]}, None),
    ],
)
def test_a_pod_joins_in_turn(
    spare: Any, index: int, state: dict[str, Any], step: str | None
) -> None:
    """A pod joins where a place is free that is not rank 0's, and at the start not before its turn.

    Where all places are taken it is in no list for which others would restart their ranks.
    """
    full = {"wait_list": [], "closed": False, "complete": False, "round": 1} | state
    settings = SimpleNamespace(
        max_nodes=2, timeout=SimpleNamespace(join=SimpleNamespace(total_seconds=lambda: 600.0))
    )
    context = SimpleNamespace(node=OWN, state=SimpleNamespace(**full), settings=settings)
    pod = spare.Spares(index, 2, "run-0", lambda _: None)
    assert pod._next(context, ACTIONS) == step


def test_a_pod_that_stood_by_ends_well_only_with_the_training(spare: Any) -> None:
    """Where the training has not succeeded, the pod waits for the next attempt and joins again."""
    lines: list[str] = []
    pod = spare.Spares(2, 2, "run-0", lines.append)
    state = SimpleNamespace(closed=True)
    context = SimpleNamespace(node=OWN, state=state, settings=None)
    train = partial(pod._next, context, ACTIONS)
    assert (1, True) == pod.attend(train, lambda: True)
    pod._store = SimpleNamespace(check=lambda keys: keys == [spare.SUCCEEDED])
    spare.LEARN_SECONDS = 10.0
    assert (0, False) == pod.attend(train, lambda: True)
