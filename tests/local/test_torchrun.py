"""Real torchrun under the local runtime: our chart's manifests, and plain ones by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from allranks.local import runs as local_runs
from allranks.model.status import Phase
from allranks.yamlio.load import load_all

from .conftest import container, job, port_base, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Machine, Outcome

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

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


def _reports(outcome: Outcome) -> list[str]:
    return sorted(text for text in outcome.texts if text.startswith("rank "))


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
    settings.setdefault("torchrun", {}).setdefault("port", local_runs.free_port(port_base()))
    text = helm4.render(repo / "charts" / "torchrun", values=settings, name=name)
    return [document for document in load_all(text) if document]


@pytest.mark.parametrize(
    "torchrun",
    [{"rdzvBackend": "static"}, {}, {"elastic": {"minNodes": 1, "maxNodes": 2}}],
    ids=["static", "c10d", "elastic"],
)
def test_the_chart_trains(
    machine: Machine, trainer: Path, helm4: Any, repo: Path, torchrun: dict[str, Any]
) -> None:
    """Two nodes with two processes each meet and reduce, with every rendezvous of the chart.

    Each line says which process wrote it, and one process alone can be read.
    """
    assert trainer.is_file()
    values: dict[str, Any] = {"torchrun": {**torchrun, "rdzvConf": {"last_call_timeout": "2"}}}
    if "elastic" in torchrun:
        values["nodes"] = 0
    outcome = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.SUCCEEDED, 0) == (outcome.status.phase, outcome.status.exit_code), outcome.texts
    if "elastic" not in torchrun:
        assert _ALL_FOUR == _reports(outcome)
        lines = [line for line in local_runs.logs("run", "lab") if line.text in _ALL_FOUR]
        assert list(enumerate(_ALL_FOUR)) == sorted((line.process, line.text) for line in lines)
        third = [line.text for line in local_runs.logs("run", "lab", 2)]
        assert [_ALL_FOUR[2]] == [text for text in third if text.startswith("rank ")]
    assert "torchrun" == outcome.status.workload


def test_the_charts_stateful_set_trains_and_ends(
    machine: Machine, trainer: Path, helm4: Any, repo: Path
) -> None:
    """Rank 0 is behind a ClusterIP Service, and the run ends though its pods would go on."""
    assert trainer.is_file()
    manifests = _chart(helm4, repo, torchrun={"controller": "StatefulSet"})
    outcome = machine.run(*manifests)
    assert (Phase.SUCCEEDED, _ALL_FOUR) == (outcome.status.phase, _reports(outcome)), outcome.texts


def test_a_single_node_needs_no_rendezvous(machine: Machine, helm4: Any, repo: Path) -> None:
    """An inline script on one node runs standalone."""
    values = {"command": [], "script": _ALL_REDUCE, "nodes": 1}
    outcome = machine.run(*_chart(helm4, repo, **values))
    expected = [f"rank {rank} of 2 on node 0 sum 1" for rank in range(2)]
    assert (Phase.SUCCEEDED, expected) == (outcome.status.phase, _reports(outcome)), outcome.texts


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
    outcome = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.FAILED, "MaxFailedIndexesExceeded") == (
        outcome.status.phase,
        outcome.status.reason,
    )
    assert "no retry is left (backoffLimit 1)" in outcome.status.message
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
    outcome = machine.run(*_chart(helm4, repo, **values))
    assert (Phase.FAILED, 13, 0) == (
        outcome.status.phase,
        outcome.status.exit_code,
        outcome.status.restarts,
    ), outcome.texts
    assert outcome.status.failure is not None
    assert "rank 1" in outcome.status.failure.message


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


def test_a_long_save_is_finished_however_a_run_is_ended(
    machine: Machine, helm4: Any, repo: Path
) -> None:
    """Of a grace of 100 s there is more than torch's own 30 s for a checkpoint.

    It is so where the run is stopped, where it is deleted, and at its deadline, at which it fails.
    """
    for name in _ENDS:
        machine.start(*_saving(helm4, repo, name), name=name)
    with ThreadPoolExecutor() as pool:
        late = pool.submit(_end_at_its_deadline, machine, helm4, repo)
        for name in _ENDS:
            until(lambda name=name: _ready(name) == {0, 1}, f"both ranks of {name}")
        ends = [pool.submit(end, name, "lab") for name, end in _ENDS.items()]
        for end in ends:
            end.result(240)
        names = [*_ENDS, late.result(500)]
    assert {f"saved.{name}-0.{rank}" for name in names for rank in range(2)} <= _saved(machine)


_ENDS = {"ended": local_runs.stop, "gone": local_runs.delete}


def _end_at_its_deadline(machine: Machine, helm4: Any, repo: Path) -> str:
    """Run until a deadline; the name of the run."""
    # Torch may take long to load: where the ranks had not begun, nothing is shown yet.
    for seconds in (10, 40, 160):
        name = f"late{seconds}"
        policy = {"activeDeadlineSeconds": seconds}
        status = machine.start(*_saving(helm4, repo, name, **policy), name=name).wait()
        assert (Phase.FAILED, "DeadlineExceeded") == (status.phase, status.reason)
        if _ready(name) == {0, 1}:
            return name
    return pytest.fail("no rank began before its run's deadline")


def _saving(helm4: Any, repo: Path, name: str, **policy: Any) -> list[dict[str, Any]]:
    grace = {"backoffLimit": 0, "terminationGracePeriodSeconds": 100, **policy}
    return _chart(helm4, repo, name, nodes=1, command=[], script=_SAVES, runPolicy=grace)


def _saved(machine: Machine) -> set[str]:
    return {path.name for path in machine.workdir.glob("saved.*")}


def _ready(name: str) -> set[int | None]:
    return {line.process for line in local_runs.logs(name, "lab") if line.text == "ready"}


_STATIC = "--node-rank=$(JOB_COMPLETION_INDEX) --master-addr=run-0.run --master-port={port}"
_C10D = "--rdzv-backend=c10d --rdzv-endpoint=run-0.run:{port} --rdzv-id=run"


@pytest.mark.parametrize("options", [_STATIC, _C10D], ids=["static", "c10d"])
def test_plain_manifests_train(machine: Machine, trainer: Path, options: str) -> None:
    """An Indexed Job that calls torchrun by itself works as it does in a cluster."""
    assert trainer.is_file()
    port = local_runs.free_port(port_base() + 200)
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
    outcome = machine.run(service, job("run", plain, nodes=2))
    assert Phase.SUCCEEDED is outcome.status.phase, outcome.texts
    assert ["sum 6"] * 4 == [text[-5:] for text in _reports(outcome)]


def test_workers_of_a_killed_run_are_found(machine: Machine) -> None:
    """Torchrun starts its workers in sessions of their own; deleting the run ends them too."""
    (machine.workdir / "train.py").write_text(
        "import sys, time\nsys.stdout.write('up\\n')\nsys.stdout.flush()\ntime.sleep(600)"
    )
    trainer = container("exec torchrun --standalone --nproc-per-node=2 train.py")
    handle = machine.start(job("run", trainer))
    machine.line("up")
    for process in machine.supervisors():
        process.kill()
    handle.wait()
    local_runs.delete("run", "lab")
    assert machine.leftovers() == []
