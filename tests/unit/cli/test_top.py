"""The table of all runs: its order, its rows, and what stands below it."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.cli.commands import top
from allranks.cli.console import Console
from allranks.errors import ToolError
from allranks.model.status import Phase, RoleStatus, RunStatus
from tests.unit.cli.test_console import Terminal

ROLES = (RoleStatus("worker", 4, running=3, ready=2, succeeded=1),)


def run(name: str, phase: Phase = Phase.RUNNING, **fields: Any) -> RunStatus:
    """A run of four workers."""
    return RunStatus(name, "lab", phase, workload="elastic", roles=ROLES, **fields)


def test_a_row_says_how_a_run_does_and_why() -> None:
    """Ready pods of all, and what it waits for rather than what it says."""
    status = run("demo", started_at=100.0, restarts=2, message="m", waiting_for="room")
    columns, rows = top.table([status], 160.0, wide=True)
    assert ["NAME", "NAMESPACE", "WORKLOAD", "PHASE", "READY", "RESTARTS", "TIME", "WHY"] == columns
    assert [("demo", "lab", "elastic", "Running", "3/4", 2, "1m00s", "waits for room")] == rows


def test_one_namespace_is_not_named() -> None:
    """It is the same in every row."""
    columns, rows = top.table([run("demo")], 0.0, wide=False)
    assert "NAMESPACE" not in columns
    assert len(columns) == len(rows[0])


def test_what_went_well_needs_no_word() -> None:
    """A reason stands only where something is to be known."""
    status = run("demo", Phase.SUCCEEDED, message="all pods succeeded")
    assert "" == top.table([status], 0.0, wide=True)[1][0][-1]


def test_what_went_wrong_stands_first() -> None:
    """Then what goes on, then what has ended; the latest first among its like."""
    runs = [
        run("done", Phase.SUCCEEDED, finished_at=9.0),
        run("old", started_at=1.0),
        run("new", started_at=2.0),
        run("bad", Phase.FAILED, finished_at=3.0),
        run("waits", Phase.PENDING),
    ]
    assert ["bad", "new", "old", "waits", "done"] == [
        run.name for run in sorted(runs, key=top._place)
    ]


def test_the_foot_says_what_is_not_seen() -> None:
    """How many go on, how many rows do not fit, and that the table is old."""
    runs = [run("a"), run("b", Phase.SUCCEEDED), run("c", Phase.PENDING)]
    assert "2 of 3 go on; Ctrl-C ends this" == top._foot(runs, 3, "")
    assert "2 of 3 go on, 1 more below; Ctrl-C ends this" == top._foot(runs, 2, "")
    assert "as it was: no answer" == top._foot(runs, 3, "no answer")
    assert "there are no runs" in top._foot([], 0, "")


def test_it_keeps_up_until_it_is_told_to_stop(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each look is drawn; a cluster that does not answer is told below the last table."""
    looks: list[Any] = [[run("second")], ToolError("no answer"), KeyboardInterrupt()]

    def look() -> list[RunStatus]:
        answer = looks.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        runs: list[RunStatus] = answer
        return runs

    monkeypatch.setattr("allranks.cli.commands.top.time.sleep", lambda _: None)
    top._keep_up(Console(), look, [run("first")], 2.0, wide=False)
    output = capsys.readouterr().out
    assert [] == looks
    assert "second" in output
    assert "as it was: no answer" in output


def test_ctrl_c_is_the_way_out_wherever_it_comes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While the table is drawn too: the command ends well."""

    def draw(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("allranks.cli.console.LiveTable.draw", draw)
    top._keep_up(Console(), list, [run("first")], 2.0, wide=False)
    assert "" == capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("live", [True, False])
def test_a_long_name_hides_nothing_else(
    monkeypatch: pytest.MonkeyPatch, width: int, *, live: bool
) -> None:
    """Phase and ready pods stay whole, what can be missed goes, and why is cut before that."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    name, reason = "a-name-of-just-thirty-seven-characters", "waits for a node for 2 pods"
    rows = top.table([run(name, Phase.RESTARTING, message=reason), run("b")], 0.0, wide=True)
    if live:
        with Console().board() as board:
            board.draw(*rows, right=top._RIGHT, spare=top._SPARE, whole=top._WHOLE)
    else:
        Console().table(*rows, right=top._RIGHT, spare=top._SPARE, whole=top._WHOLE)
    heading, row = stream.getvalue().replace("\x1b[?25l", "").splitlines()[:2]
    assert {"NAME", "PHASE", "READY", "WHY"} <= set(heading.split())
    assert {"Restarting", "3/4"} <= set(row.split())
    assert (width == 120) == ("WORKLOAD" in heading)
    assert row.startswith(name[:19])
    assert "waits" in row
    if live or width > 60:
        assert len(row.rstrip()) <= width
