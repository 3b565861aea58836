"""A run's status as a person reads it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from allranks.cli import status_view
from allranks.cli.console import Console
from allranks.model.status import (
    STOPPED,
    ContainerStatus,
    Failure,
    NodeFaults,
    Phase,
    PodPhase,
    PodStatus,
    RunStatus,
    count_roles,
)

PODS = (
    PodStatus(
        "demo-0",
        "node",
        0,
        PodPhase.SUCCEEDED,
        started_at=100.0,
        finished_at=172.0,
        containers=(ContainerStatus("trainer", "terminated", "Completed", 0),),
        ranks=range(2),
    ),
    PodStatus(
        "demo-1",
        "node",
        1,
        PodPhase.FAILED,
        restarts=2,
        started_at=100.0,
        finished_at=130.0,
        containers=(
            ContainerStatus("setup", "terminated", "Completed", 0),
            ContainerStatus("trainer", "terminated", "Error", 3),
        ),
        ranks=range(2, 4),
    ),
)


def run(**changes: object) -> RunStatus:
    """A run of two pods."""
    facts: dict[str, object] = {
        "name": "demo",
        "namespace": "default",
        "phase": Phase.FAILED,
        "workload": "torchrun",
        "started_at": 100.0,
        "finished_at": 172.0,
        "exit_code": 3,
        "roles": count_roles(PODS),
        "pods": PODS,
        "failure": Failure(
            "demo-1", 1, "trainer", 3, 130.0, log=("Traceback", "ValueError: x"), process=3
        ),
    }
    return RunStatus(**{**facts, **changes})  # type: ignore[arg-type]


def test_a_failed_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    """The headline, one line per pod, and what failed first with its last lines."""
    status_view.show(Console(), run(), 999.0)
    assert capsys.readouterr().out == (
        "demo  Failed, 1 done, 1 failed, took 1m12s, exit code 3\n"
        "NODE  RANKS  POD     PHASE      EXIT  RESTARTS   TIME\n"
        "   0    0-1  demo-0  Succeeded     0         0  1m12s\n"
        "   1    2-3  demo-1  Failed        3         2    30s\n"
        "failed first: rank 3 (pod demo-1): Error, exit code 3\n"
        "  | Traceback\n"
        "  | ValueError: x\n"
    )


def test_a_known_error_in_the_last_lines_is_put_into_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Below the lines, and in `-o json`."""
    line = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    failed = run(failure=Failure("demo-1", 1, "trainer", 1, 130.0, log=("step 3", line)))
    status_view.show(Console(), failed, 999.0)
    meaning = "a GPU has a memory error (ECC): leave its node out"
    assert capsys.readouterr().out.endswith(f"  | {line}\n  in words: {meaning}\n")
    assert [meaning] == status_view.form(failed)["failure"]["meanings"]


@pytest.mark.parametrize(
    ("message", "log", "last_words"),
    [
        ("no data", ("a", "b"), [": no data", "  | a", "  | b"]),
        ("no data", (), [": no data"]),
        ("b\n", ("a", "b"), ["", "  | a", "  | b"]),
        ("x\na\nb", ("a", "b"), ["", "  | a", "  | b"]),
        ("t of a long line\nb", ("the cut of a long line", "b", ""), None),
        ("two\nlines", ("a",), ["", "  | two", "  | lines", "  | a"]),
        (
            "\n".join(str(line) for line in range(80)),
            (),
            ["", *(f"  | {n}" for n in range(60, 80))],
        ),
    ],
)
def test_last_words_are_told_once(
    message: str,
    log: tuple[str, ...],
    last_words: list[str] | None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A pod that leaves no message of its own leaves the end of its log."""
    failure = Failure("demo-1", 1, "trainer", 3, 130.0, message=message, log=log)
    status_view.show(Console(), run(failure=failure), 999.0)
    _, _, words = capsys.readouterr().out.partition("exit code 3\nNODE")[2].partition("exit code 3")
    expected = ["", *(f"  | {line}".rstrip() for line in log)] if last_words is None else last_words
    assert expected == [line.rstrip() for line in words.rstrip("\n").split("\n")]


def test_of_several_ranks_only_those_lines_are_told_that_the_failed_one_wrote(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What a message has told is not told again after its rank, nor what a sibling said."""
    failure = Failure(
        "demo-1",
        1,
        "trainer",
        37,
        130.0,
        message="rank 3 ended with exit code 37\ndying",
        log=(
            "[3] dying",
            "[2] connection closed",
            "torch: 3 failed",
            "allranks: rank 3 ended with exit code 37",
            "[9] is no rank of this pod",
        ),
        process=3,
    )
    status_view.show(Console(), run(failure=failure), 999.0)
    assert capsys.readouterr().out.partition("failed first: ")[2].split("\n") == [
        "rank 3 (pod demo-1): Error, exit code 37",
        "  | rank 3 ended with exit code 37",
        "  | dying",
        "  | torch: 3 failed",
        "  | [9] is no rank of this pod",
        "",
    ]


def test_of_several_roles_each_counts_its_own_pods(capsys: pytest.CaptureFixture[str]) -> None:
    """Their numbers are no ranks; the column stays where one role is all that is left."""
    pods = (PodStatus("demo-ps-0", "ps", 0, PodPhase.RUNNING), replace(PODS[1], role="worker"))
    failure = Failure("demo-1", 1, "trainer", 3, 130.0)
    status_view.show(Console(), run(pods=pods, roles=count_roles(pods), failure=failure), 999.0)
    output = capsys.readouterr().out
    assert ["ROLE", "INDEX", "POD"] == output.splitlines()[1].split()[:3]
    assert "failed first: worker 1 (pod demo-1): Error, exit code 3\n" in output
    # What is still there after the end only has to go.
    assert "ps 1 ending" in output
    assert ["ps", "0", "demo-ps-0", "Ending"] == output.splitlines()[2].split()[:4]
    status_view.show(Console(), run(pods=pods[:1], roles=count_roles(pods[:1])), 999.0)
    assert "ROLE" == capsys.readouterr().out.splitlines()[1].split()[0]


def test_a_running_run_says_what_it_waits_for() -> None:
    """While it runs the time goes on, and what is missing stands below."""
    status = run(
        phase=Phase.PENDING,
        finished_at=None,
        exit_code=None,
        failure=None,
        waiting_for="rank 1",
    )
    assert status_view.headline(status, 160.0) == (
        "demo  Pending, 1 done, 1 failed, for 1m00s\n  waits for rank 1"
    )


def test_a_reason_is_shown() -> None:
    """Why a run ended as it did stands below its line."""
    status = run(reason="DeadlineExceeded", message="ran longer than 60 s")
    assert status_view.headline(status, 0.0).endswith("\n  DeadlineExceeded: ran longer than 60 s")


def test_a_suspended_run_is_not_said_to_be_so_since_its_start() -> None:
    """When it was suspended nothing says; when it was started is known."""
    status = RunStatus("demo", "ml", Phase.SUSPENDED, started_at=3.0)
    assert "demo  Suspended, started 2m37s ago" == status_view.headline(status, 160.0)


def test_the_list_has_a_line_per_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Runs in a table, with how many of their pods run or are done."""
    status_view.table(Console(), [run(), run(name="b", started_at=None, workload="")], 999.0)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["demo", "default", "torchrun", "Failed", "1/2", "0", "1m12s"]
    assert lines[2] == ["b", "default", "-", "Failed", "1/2", "0", "-"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.4, "59s"),
        (60, "1m00s"),
        (3599, "59m59s"),
        (3600, "1h00m"),
        (86399, "23h59m"),
        (90000, "1d01h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    """A duration has two units, and only the first below a minute."""
    assert text == status_view.duration(0.0, seconds, 0.0)


def test_training_progress_reads_json_lines() -> None:
    """Epoch or step with their totals are progress; anything else changes nothing."""
    progress = status_view.TrainingProgress()
    for line in ("hello", "{", "{}", '{"epoch": 1}', '{"epoch": "1", "epochs": "2"}', "[1]"):
        progress.read(line)
        assert progress.text == ""
    progress.read('{"epoch": 3, "epochs": 10, "loss": 0.1}')
    assert progress.text == "epoch 3/10"
    progress.read('  {"step": 5, "steps": 50}')
    assert progress.text == "step 5/50"


def test_a_pod_missing_at_the_end_is_not_pending(capsys: pytest.CaptureFixture[str]) -> None:
    """It was stopped with its run, and comes no more."""
    pods = (PodStatus("demo-0", "node", 0, PodPhase.PENDING), PODS[1])
    status_view.show(Console(), run(pods=pods, roles=count_roles(pods)), 999.0)
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("demo  Failed, 1 gone, 1 failed,")
    assert output[2].split()[:4] == ["0", "-", "demo-0", "Gone"]


def test_a_pod_that_was_stopped_at_a_good_end_is_not_called_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It was still ending when the run was done: the first line and the table say the same."""
    exit_code = ContainerStatus("trainer", "terminated", exit_code=143)
    pods = (
        PodStatus("demo-0", "node", 0, PodPhase.SUCCEEDED),
        PodStatus("demo-1", "node", 1, PodPhase.SUCCEEDED, STOPPED, containers=(exit_code,)),
    )
    status = run(phase=Phase.SUCCEEDED, pods=pods, roles=count_roles(pods), failure=None)
    status_view.show(Console(), status, 999.0)
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("demo  Succeeded, 1 done, 1 stopped,")
    assert output[3].split()[:4] == ["1", "demo-1", "Stopped", "143"]


LEAVING = (
    replace(PODS[0], phase=PodPhase.RUNNING, reason="Terminating", finished_at=None),
    replace(PODS[1], phase=PodPhase.RUNNING, reason="Terminating", finished_at=None),
)


def test_a_pod_that_has_been_told_to_end_is_not_said_to_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither the line above nor the list counts it with those that run."""
    facts = {"finished_at": None, "exit_code": None, "failure": None, "pods": LEAVING}
    status = run(
        **facts,
        phase=Phase.RESTARTING,
        roles=count_roles(LEAVING),
        waiting_for="the end of 2 pods",
    )
    assert "demo  Restarting, 2 ending, for 1m00s\n  waits for the end of 2 pods" == (
        status_view.headline(status, 160.0)
    )
    status_view.table(Console(), [status], 160.0)
    assert "0/2" == capsys.readouterr().out.splitlines()[1].split()[4]


def test_an_end_that_is_certain_is_told_with_what_it_waits_for() -> None:
    """Why a run is about to fail stands above what its end waits for."""
    status = run(
        phase=Phase.RUNNING,
        finished_at=None,
        exit_code=None,
        failure=None,
        pods=LEAVING,
        roles=count_roles(LEAVING),
        reason="BackoffLimitExceeded",
        message="no retry is left (backoffLimit 0); its last pods are being ended",
        waiting_for="the end of 2 pods",
        ending=True,
    )
    assert (
        "demo  Running, 2 ending, for 1m00s\n"
        "  BackoffLimitExceeded: no retry is left (backoffLimit 0); its last pods are being "
        "ended\n"
        "  waits for the end of 2 pods"
    ) == status_view.headline(status, 160.0)


def unfit() -> RunStatus:
    """A run that its preflight has ended."""
    message = "preflight: node b2 (pod demo-1): free disk 0 MiB, at least 9\n"
    message += "keep the job off it: scheduling.avoidNodes: [b2]"
    return run(failure=Failure("demo-1", 1, "trainer", 219, 130.0, message=message))


def test_the_command_that_keeps_a_run_off_a_node_takes_effect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With --recreate: the pods of a Job that runs, or has ended, stay where they are without."""
    status_view.show(Console(), unfit(), 999.0)
    assert capsys.readouterr().out.endswith("[b2]\n  allranks avoid demo b2 --recreate\n")
    faulty = run(
        phase=Phase.RUNNING,
        failure=None,
        node_faults=(NodeFaults("b1", ("cordoned",), ("demo-1",)),),
    )
    status_view.show(Console(), faulty, 999.0)
    assert capsys.readouterr().out.endswith("cordoned\n  allranks avoid demo b1 --recreate\n")


def test_a_run_of_this_machine_is_not_told_to_leave_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Where a preflight finds this machine unfit, no other node is there to take."""
    status_view.show(Console(), unfit(), 999.0, here=True)
    output = capsys.readouterr().out
    assert "free disk 0 MiB, at least 9\nthis machine is the only node of the run: " in output
    assert "avoid" not in output


def test_a_rank_that_is_killed_was_not_told_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    """The pods of its peers are told to stop because of it, and their ranks report that."""
    killed = Failure("demo-1", 1, "trainer", 137, 100.0, message="rank 1 ended with exit code 137")
    report = {"text": "step 12 of 90", "step": 12, "saved": 10, "stopping": True}
    status = RunStatus("demo", "lab", Phase.FAILED, failure=killed, progress=report)
    status_view.show(Console(), status, 200.0)
    words = "progress: step 12 of 90; saved at step 10; killed before it had saved again"
    assert words in capsys.readouterr().out
