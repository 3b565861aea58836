"""Workers of an elastic job: real torchrun on loopback, under a real master."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from allranks.elastic.pods import metadata as pod_metadata

from ..conftest import until  # noqa: TID252
from .stage import Stage, terminate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.local,
    pytest.mark.timeout(600),
    pytest.mark.usefixtures("warm_ranks"),
]

PATIENCE = 100.0

# Writes who it is at each start, then all-reduces until the file "go" appears.
STEADY = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
from allranks_report import Reporter
report = Reporter(interval=0.2)
with open("starts", "a") as out:
    out.write("%s:%d:%d " % (os.environ["ALLRANKS_GENERATION"], dist.get_rank(),
                             dist.get_world_size()))
while True:
    go = torch.tensor([float(os.path.exists("go"))])
    dist.all_reduce(go)
    if go.item() == dist.get_world_size():
        break
    report.step(samples=1)
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # without torch's teardown, which may abort on a busy machine
"""

# Rank 0 ends well at "go", the other never. Both have seen "go" in one all-reduce, and the other is
# through with it: none is left waiting there for a rank that looked a moment later.
UNEVEN = STEADY.replace(
    """    if go.item() == dist.get_world_size():
        break
""",
    """    if go.item():
        if dist.get_rank() == 1:
            open("waits", "w").close()
            time.sleep(1000)
        while not os.path.exists("waits"):
            time.sleep(0.01)
        os._exit(0)
""",
)


def result_pipe(agent: psutil.Process) -> Path:
    """Where torchrun's agent leaves word of how its ranks ended; it closes it with that word."""
    words = agent.cmdline()
    [script] = [place for place, word in enumerate(words) if word.endswith("elastic_agent.py")]
    return Path("/proc", str(agent.pid), "fd", words[script + 1])


def is_open(process: psutil.Process, pipe: Path) -> bool:
    """Whether a process holds this end of a pipe."""
    for file in Path("/proc", str(process.pid), "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since the listing
            if file.readlink() == pipe:
                return True
    return False


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Makes a job; ends its processes at the end, and shows their logs where the test failed."""
    stages: list[Stage] = []

    def make(**how: object) -> Stage:
        folder = tmp_path / str(len(stages))
        folder.mkdir()
        new_stage = Stage(folder, **how)  # type: ignore[arg-type]
        stages.append(new_stage)
        new_stage.start_master()
        return new_stage

    yield make
    for used_stage in stages:
        used_stage.close()
        print(used_stage.logs())  # noqa: T201 - pytest shows it where the test failed


def until_trains(stage: Stage, *numbers: str) -> None:
    """Wait until exactly these workers train together."""
    until(lambda: stage.training(*numbers), f"training of {numbers}", PATIENCE)


def finish(stage: Stage) -> int:
    """Let the training end; the master's exit code."""
    (stage.folder / "go").touch()
    until(stage.ended_well, "the end of the job", PATIENCE)
    assert stage.master is not None
    return stage.master.returncode


def test_two_train_a_third_joins_one_is_killed_and_the_master_too(
    stage: Callable[..., Stage],
) -> None:
    """The whole life of a job.

    It starts with two workers; a third joins by a new generation; one is killed, and the others
    train on without it; the master is killed and another one started, which disturbs nobody; all
    are done, and the master ends with 0.
    """
    job = stage(workers={"replicas": 2, "maxReplicas": 3}, script=STEADY)
    until_trains(job, "0", "1")
    assert ["FirstPlan", "Generation"] == job.reasons()[:2]

    job.grow(3)
    until_trains(job, "0", "1", "2")

    job.relaunch = False
    job.kill(pod_metadata.pod_name("demo", "worker", 1))
    until_trains(job, "0", "2")

    assert job.master is not None
    job.master.kill()
    job.master.wait()
    before = job.starts()
    job.start_master()
    until_trains(job, "0", "2")
    assert before == job.starts()
    assert 0 == finish(job)
    assert {"Succeeded", "Failed"} == set(job.ended.values())


def test_a_worker_whose_pod_is_taken_away_leaves_at_once(stage: Callable[..., Stage]) -> None:
    """SIGTERM ends the ranks and is told to the master; the others go on without a wait."""
    job = stage(
        workers={"replicas": 2}, script=STEADY, options={"gatherSeconds": 60, "lostSeconds": 600}
    )
    job.relaunch = False
    until_trains(job, "0", "1")
    assert 128 + signal.SIGTERM == terminate(
        job.running[pod_metadata.pod_name("demo", "worker", 1)]
    )
    until_trains(job, "0")
    assert 0 == finish(job)


def test_ranks_that_have_ended_well_are_not_started_anew(stage: Callable[..., Stage]) -> None:
    """Rank 0 is done, and its torchrun waits for the other's, whose pod is lost in this moment.

    The job has succeeded: nothing is left that another generation could train.
    """
    job = stage(workers={"replicas": 2, "minReplicas": 1}, script=UNEVEN)
    job.relaunch = False
    until_trains(job, "0", "1")
    first = psutil.Process(job.running[pod_metadata.pod_name("demo", "worker", 0)].pid)
    [agent] = first.children()
    pipe = result_pipe(agent).readlink()
    (job.folder / "go").touch()
    until(lambda: job.turn() and not is_open(agent, pipe), "the word of rank 0's end", PATIENCE)
    job.kill(pod_metadata.pod_name("demo", "worker", 1))
    assert 0 == finish(job)
    assert {"1:0:2", "1:1:2"} == set(job.starts())


def test_a_frozen_worker_is_replaced_whether_it_can_be_spared_or_not(
    stage: Callable[..., Stage],
) -> None:
    """All processes of a worker are stopped, while its pod goes on to run.

    One job needs both of its workers, and one could do with the other alone: in both the pod is
    replaced once `lostSeconds` are over, and in the first nobody waits for ever.
    """
    jobs = [
        stage(
            workers={"replicas": 2, "minReplicas": least},
            script=STEADY,
            options={"lostSeconds": 30, "gatherSeconds": 1},
        )
        for least in (1, 2)
    ]
    for job in jobs:
        until_trains(job, "0", "1")
    frozen = time.monotonic()
    for job in jobs:
        job.freeze(pod_metadata.pod_name("demo", "worker", 1))
    until(lambda: all("WorkerLost" in job.reasons() for job in jobs if job.turn()), "the word", 100)
    # Silence counts from its last question, which is at most 20 s old, and is never told too early.
    assert 30 - 20 <= time.monotonic() - frozen
    for job in jobs:
        until_trains(job, "0", "2")
        assert 1 == job.reasons().count("WorkerLost")
        assert 0 == finish(job)


def test_ranks_that_hang_are_started_anew(stage: Callable[..., Stage]) -> None:
    """The worker lives and its ranks do not come forward: the training is stopped and goes on."""
    job = stage(workers={"replicas": 1}, script=STEADY, options={"stallSeconds": 10})
    until_trains(job, "0")
    until(lambda: job.status().get("step", 0) > 0, "a step")
    worker = psutil.Process(job.running[pod_metadata.pod_name("demo", "worker", 0)].pid)
    for rank in worker.children(recursive=True):
        rank.suspend()
    until(lambda: job.status().get("generation", 0) >= 2, "another generation", PATIENCE)
    until_trains(job, "0")
    assert 0 == finish(job)


def test_a_failure_is_tried_again_and_a_lasting_one_ends_the_job(
    stage: Callable[..., Stage],
) -> None:
    """The exit code and the words of the rank that failed first reach the master's reason."""
    script = "import sys\nprint('trying')\nsys.exit(7)\n"
    job = stage(workers={"replicas": 1}, script=script, options={"maxRestarts": 1})
    until(job.ended_well, "the end of the job", PATIENCE)
    assert job.master is not None
    assert 1 == job.master.returncode
    log = (job.folder / "demo-edljob-worker-0.log").read_text()
    assert 2 == log.count("trying")
    reason = (job.folder / "reason").read_text()
    assert "failed 2 times in a row" in reason
    assert "rank 0 ended with exit code 7" in reason


@pytest.mark.parametrize(
    ("word", "code", "reason_of_end"),
    [
        ("tarin", 127, "cannot start 'tarin': No such file or directory"),
        ("./train.py", 126, "cannot start './train.py': Permission denied"),
    ],
)
def test_a_command_that_cannot_be_started_fails_the_job_at_once(
    stage: Callable[..., Stage], word: str, code: int, reason_of_end: str
) -> None:
    """Another try would end alike: one generation, and the code and words that a shell has."""
    job = stage(workers={"replicas": 1}, words=(word,), extra_env={"PET_NO_PYTHON": "1"})
    job.relaunch = False
    until(job.ended_well, "the end of the job", PATIENCE)
    worker = "demo-edljob-worker-0"
    assert code == job.running[worker].wait(timeout=240)
    assert 1 == job.reasons().count("Generation")
    reason = f"the job has failed: {worker}: {reason_of_end}"
    assert reason == (job.folder / "reason").read_text()
    assert reason == (job.folder / f"{worker}.reason").read_text()


def test_a_final_exit_code_is_not_tried_again(stage: Callable[..., Stage]) -> None:
    """What the values call final ends the job at the first failure, and the pod with that code."""
    script = "import sys\nprint('trying')\nsys.exit(13)\n"
    job = stage(workers={"replicas": 1}, script=script, options={"fatalExitCodes": [13]})
    job.relaunch = False
    until(job.ended_well, "the end of the job", PATIENCE)
    worker = job.running["demo-edljob-worker-0"]
    assert 13 == worker.wait(timeout=PATIENCE)
    assert 1 == (job.folder / "demo-edljob-worker-0.log").read_text().count("trying")
