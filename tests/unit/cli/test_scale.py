"""How long `allranks scale` waits for a plan, and what it says at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest

from allranks.cli.commands import scale
from allranks.cli.console import Console
from allranks.elastic.plans.status import Answer
from allranks.errors import InputError, RunError
from tests.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Sequence

_STARTING = Answer("p", "Scaling", "1 of 3 worker pods run")
_DONE = Answer("p", "Succeeded", "the pods are as the job allows; worker: 9 asked, 3 made")
_HELD = Answer("p", "Scaling", "the job is suspended", held=True)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The command's own clock."""
    stopped_clock = FakeClock(0.0)
    monkeypatch.setattr(scale, "time", stopped_clock)
    return stopped_clock


def pending_plan(*answers: Answer) -> scale._PendingPlan:
    """A plan of which these answers come, the last again and again."""
    remaining = list(answers)
    return scale._PendingPlan(
        "p", lambda: remaining.pop(0) if len(remaining) > 1 else remaining[0], "`watch`", "`look`"
    )


def carried(answers: Sequence[Answer], timeout: float = 300.0) -> Answer:
    """What becomes of it."""
    return scale._wait_for_plan(Console(), pending_plan(*answers), timeout)


def test_it_waits_until_the_pods_run() -> None:
    """However often they do not yet; what was clamped is in the last answer."""
    assert _DONE == carried([Answer("p"), _STARTING, _STARTING, _DONE])


def test_what_is_waited_for_is_told_while_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """When it changes, and not more often than a person can read; nothing where nothing is new."""
    two = Answer("p", "Scaling", "2 of 3 worker pods run")
    carried([Answer("p"), *[_STARTING] * 3, *[two] * 30, _DONE])
    assert [
        "note: plan p: 1 of 3 worker pods run",
        "note: plan p: 2 of 3 worker pods run",
    ] == capsys.readouterr().err.splitlines()


def test_a_suspended_job_is_not_waited_for(clock: FakeClock) -> None:
    """Its pods come when a person resumes it."""
    assert _HELD == carried([_HELD])
    assert 0.0 == clock.now


def test_nothing_is_waited_for_where_that_was_asked(clock: FakeClock) -> None:
    """Not even for somebody to see it."""
    assert Answer("p") == carried([Answer("p")], timeout=0.0)
    assert 0.0 == clock.now


def test_a_plan_that_is_late_goes_on() -> None:
    """The error says what is missing, and where to look."""
    with pytest.raises(RunError, match="after 5m00s: 1 of 3 worker pods run") as error:
        carried([_STARTING])
    assert "it goes on: `watch` shows how" in str(error.value)


def test_a_plan_that_nobody_sees_is_not_waited_for_so_long(clock: FakeClock) -> None:
    """It may be that no operator is there at all."""
    with pytest.raises(RunError, match="has seen plan p in 30s") as error:
        carried([Answer("p")])
    assert "`look`" in str(error.value)
    assert 40 > clock.now


@pytest.mark.parametrize("phase", ["Failed", "Superseded"])
def test_a_plan_that_is_not_carried_out_is_an_error(phase: str) -> None:
    """With the reason."""
    with pytest.raises(RunError, match="plan p was not carried out: no room"):
        carried([_STARTING, Answer("p", phase, "no room")])


def test_ctrl_c_leaves_the_plan_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Only the waiting ends."""

    def interrupt() -> Answer:
        if answers:
            return answers.pop()
        raise KeyboardInterrupt

    answers = [_STARTING]
    with pytest.raises(click.exceptions.Exit) as excinfo:
        scale._wait_for_plan(Console(), scale._PendingPlan("p", interrupt, "`watch`", ""), 300.0)
    assert 130 == excinfo.value.exit_code
    assert "plan p goes on: `watch` shows how" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("quantity", "says"),
    [("16", "16 is 16 bytes"), ("512Ki", "512Ki is 524288 bytes"), ("100m", "a part of a byte")],
)
def test_memory_without_a_unit_is_refused(quantity: str, says: str) -> None:
    """Pods of 16 bytes were not meant; the fix names the units, and nothing is sent."""
    option = click.Option(["--memory"])
    with pytest.raises(InputError) as excinfo:
        scale._quantity(click.Context(scale.scale_command), option, quantity)
    assert says in excinfo.value.problem.message
    assert "--memory" == excinfo.value.problem.path
    assert quantity.rstrip("mKi") + "Gi" in excinfo.value.problem.hint


def test_cpus_need_no_unit() -> None:
    """`--cpu 16` is what it says, and so is `--memory 16Gi`."""
    context = click.Context(scale.scale_command)
    for name, quantity in (("--cpu", "16"), ("--memory", "16Gi"), ("--memory", "1Mi")):
        assert quantity == scale._quantity(context, click.Option([name]), quantity)
