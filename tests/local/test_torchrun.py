"""Real torchrun under the local runtime: our chart's manifests, and plain ones by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import control
from allranks.model.status import Phase
from allranks.yamlio.load import load_all

from .conftest import container, job, port_base, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine, Outcome

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Every rank adds its number; every rank must see the sum of all, and its node by its own address.
_ALL_REDUCE = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank())])
dist.all_reduce(total)
# In one write: processes of a pod share its log, and print() writes the line's end apart.
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} on node "
                 f"{os.environ['GROUP_RANK']} sum {total.item():g}\\n")
dist.barrier()
dist.destroy_process_group()
sys.stdout.flush()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""
_ALL_FOUR = [f"rank {rank} of 4 on node {rank // 2} sum 6" for rank in range(4)]


def _said(done: Outcome) -> list[str]:
    return sorted(text for text in done.texts if text.startswith("rank "))


@pytest.fixture
def trainer(machine: Machine) -> Path:
    """The training script, in the folder that runs start in."""
    path = machine.workdir / "train.py"
    path.write_text(_ALL_REDUCE)
    return path


def _chart(helm4: Any, repo: Path, name: str = "run", **values: Any) -> list[dict[str, Any]]:
    settings = {
        "image": {"repository": "any"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "procsPerNode": 2,
        "runPolicy": {"backoffLimit": 0},
        **values,
    }
    settings.setdefault("torchrun", {}).setdefault("port", control.free_port(port_base()))
    text = helm4.render(repo / "charts" / "torchrun", values=settings, name=name)
    return [one for one in load_all(text) if one]


@pytest.mark.parametrize(
    "torchrun",
    [{"rdzvBackend": "static"}, {}, {"elastic": {"minNodes": 1, "maxNodes": 2}}],
    ids=["static", "c10d", "elastic"],
)
def test_the_chart_trains(
    machine: Machine, trainer: Path, helm4: Any, repo: Path, torchrun: dict[str, Any]
) -> None:
    """Two nodes with two processes each meet and reduce, with every rendezvous of the chart."""
    assert trainer.is_file()
    values: dict[str, Any] = {"torchrun": {**torchrun, "rdzvConf": {"last_call_timeout": "2"}}}
    if "elastic" in torchrun:
        values["nodes"] = 0
    done = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.SUCCEEDED, 0) == (done.status.phase, done.status.exit_code), done.texts
    if "elastic" not in torchrun:
        assert _ALL_FOUR == _said(done)
    assert "torchrun" == done.status.workload


def test_the_charts_stateful_set_trains_and_ends(
    machine: Machine, trainer: Path, helm4: Any, repo: Path
) -> None:
    """Rank 0 is behind a ClusterIP Service, and the run ends though its pods would go on."""
    assert trainer.is_file()
    manifests = _chart(helm4, repo, torchrun={"controller": "StatefulSet"})
    done = machine.run(*manifests)
    assert (Phase.SUCCEEDED, _ALL_FOUR) == (done.status.phase, _said(done)), done.texts


def test_a_single_node_needs_no_rendezvous(machine: Machine, helm4: Any, repo: Path) -> None:
    """An inline script on one node runs standalone."""
    values = {"command": [], "script": _ALL_REDUCE, "nodes": 1}
    done = machine.run(*_chart(helm4, repo, **values))
    expected = [f"rank {rank} of 2 on node 0 sum 1" for rank in range(2)]
    assert (Phase.SUCCEEDED, expected) == (done.status.phase, _said(done)), done.texts


def test_a_job_that_fails_by_its_own_fault_ends_after_its_retries(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """With one retry it is tried twice in all, though another node's rank fails each time.

    The rank that waits for the one that failed fails as well, which costs its node a retry too.
    """
    notes = machine.workdir / "tries"
    script = f"""
import os
import sys
import torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
with open({str(notes)!r}, "a") as notes:
    notes.write("%d\\n" % rank)
dist.barrier()
tries = open({str(notes)!r}).read().split().count("0")
if rank == tries % 2:
    sys.exit(5)
dist.barrier()
"""
    values: dict[str, Any] = {
        "command": [],
        "script": script,
        "procsPerNode": 1,
        "runPolicy": {"backoffLimit": 1},
        "torchrun": {"maxRestarts": 0},
    }
    done = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.FAILED, "MaxFailedIndexesExceeded") == (done.status.phase, done.status.reason)
    assert "no retry is left (backoffLimit 1)" in done.status.message
    assert ["0", "0", "1", "1"] == sorted(notes.read_text().split())


def test_a_failing_rank_is_named(machine: Machine, helm4: Any, repo: Path) -> None:
    """A rank that fails with a fatal code fails the run at once, with its code and its words."""
    script = "import os, sys\nprint('rank', os.environ['RANK'])\n"
    script += "sys.exit(13 if os.environ['RANK'] == '1' else 0)\n"
    values: dict[str, Any] = {
        "command": [],
        "script": script,
        "nodes": 1,
        "runPolicy": {"backoffLimit": 3, "fatalExitCodes": [13]},
        "torchrun": {"maxRestarts": 0},
    }
    done = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.FAILED, 13, 0) == (
        done.status.phase,
        done.status.exit_code,
        done.status.restarts,
    ), done.texts
    assert done.status.failure is not None
    assert "rank 1" in done.status.failure.message


# Saves for longer than torchrun's own 30 s once it is told to end.
_SAVES = """
import os, signal, sys, time
name = os.environ["HOSTNAME"] + "." + os.environ["RANK"]
def save(*_):
    time.sleep(45)
    open("saved." + name, "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    time.sleep(1)
"""


def test_a_long_save_is_finished_when_a_run_is_stopped_or_deleted(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """Of a grace of 60 s there are 45 s for a checkpoint."""
    for name in _ENDS:
        machine.start(*_saving(helm4, repo, name), name=name)
    for name in _ENDS:
        until(lambda name=name: _ready(name) == {0, 1}, f"both ranks of {name}")
    with ThreadPoolExecutor() as pool:
        ends = [pool.submit(end, name, "lab") for name, end in _ENDS.items()]
        for end in ends:
            end.result(240)
    assert _saved(machine) == {f"saved.{name}-0.{rank}" for name in _ENDS for rank in range(2)}


_ENDS = {"ended": control.stop, "gone": control.delete}


def test_a_long_save_is_finished_after_the_deadline(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """A run that is ended at its deadline has its grace for a checkpoint, and has failed."""
    # Torch may take long to load: where the ranks had not begun, nothing is shown yet.
    for seconds in (15, 60, 180):
        name = f"late{seconds}"
        policy = {"activeDeadlineSeconds": seconds}
        status = machine.start(*_saving(helm4, repo, name, **policy), name=name).wait()
        assert (Phase.FAILED, "DeadlineExceeded") == (status.phase, status.reason)
        if _ready(name) == {0, 1}:
            break
    assert _saved(machine) >= {f"saved.{name}-0.{rank}" for rank in range(2)}


def _saving(helm4: Any, repo: Path, name: str, **policy: Any) -> list[dict[str, Any]]:
    grace = {"backoffLimit": 0, "terminationGracePeriodSeconds": 60, **policy}
    return _chart(helm4, repo, name, nodes=1, command=[], script=_SAVES, runPolicy=grace)


def _saved(machine: Machine) -> set[str]:
    return {path.name for path in machine.workdir.glob("saved.*")}


def _ready(name: str) -> set[int | None]:
    return {line.process for line in control.logs(name, "lab") if line.text == "ready"}


def test_lines_of_one_rank(machine: Machine, trainer: Path, helm4: Any, repo: Path) -> None:
    """Each line says which process wrote it, and one process alone can be read."""
    assert trainer.is_file()
    machine.run(*_chart(helm4, repo))
    lines = [line for line in control.logs("run", "lab") if line.text.startswith("rank ")]
    assert sorted((line.process, line.text) for line in lines) == list(enumerate(_ALL_FOUR))
    third = control.logs("run", "lab", 2)
    assert [line.text for line in third if line.text.startswith("rank ")] == [_ALL_FOUR[2]]


_STATIC = "--node-rank=$(JOB_COMPLETION_INDEX) --master-addr=run-0.run --master-port={port}"
_C10D = "--rdzv-backend=c10d --rdzv-endpoint=run-0.run:{port} --rdzv-id=run"


@pytest.mark.parametrize("options", [_STATIC, _C10D], ids=["static", "c10d"])
def test_plain_manifests_train(machine: Machine, trainer: Path, options: str) -> None:
    """An Indexed Job that calls torchrun by itself works as it does in a cluster."""
    assert trainer.is_file()
    port = control.free_port(port_base() + 200)
    words = ["--nnodes=2", "--nproc-per-node=2", *options.format(port=port).split()]
    plain = {"name": "t", "command": ["torchrun"], "args": [*words, "train.py"]}
    service = {
        "kind": "Service",
        "metadata": {"name": "run"},
        "spec": {
            "clusterIP": "None",
            "selector": {"job-name": "run"},
            "ports": [{"port": port}],
        },
    }
    done = machine.run(service, job("run", plain, nodes=2))
    assert Phase.SUCCEEDED is done.status.phase, done.texts
    assert ["sum 6"] * 4 == [text[-5:] for text in _said(done)]


def test_workers_of_a_killed_run_are_found(machine: Machine) -> None:
    """Torchrun starts its workers in sessions of their own; deleting the run ends them too."""
    (machine.workdir / "train.py").write_text(
        "import time\nprint('up', flush=True)\ntime.sleep(600)"
    )
    trainer = container("exec torchrun --standalone --nproc-per-node=2 train.py")
    handle = machine.start(job("run", trainer))
    machine.line("up")
    for process in machine.supervisors():
        process.kill()
    handle.wait()
    control.delete("run", "lab")
    assert machine.leftovers() == []
