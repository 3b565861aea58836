"""`allranks top`: all runs in one table that is updated."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options, status_view
from allranks.cli.commands.runs import runs
from allranks.cli.target import target_options
from allranks.errors import AllranksError, InputError
from allranks.model.status import Phase
from allranks.status import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.model.status import RunStatus

_EVERY_SECONDS = 2.0
_SHORTEST = 0.5
# Reading ten thousand pods takes a while; the pause after it is so many times as long.
_REST_SHARE = 4
# The order of runs: failed ones first, then running ones.
_GOING = (Phase.RESTARTING, Phase.SCALING, Phase.RUNNING, Phase.ADMITTED, Phase.PENDING)
_ORDER = (Phase.FAILED, *_GOING, Phase.SUSPENDED, Phase.UNKNOWN)


@click.command("top", short_help="Watch all runs, as a table that keeps up.")
@target_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@click.option("--once", is_flag=True, help="Show the table once; so it is in a pipe.")
@click.option(
    "--every",
    type=options.Duration(),
    default=_EVERY_SECONDS,
    metavar="TIME",
    help="How often to look; a big cluster is looked at less often.  [default: 2s]",
)
@options.output_option("table", "json")
@options.pass_console
def top_command(
    console: Console,
    /,
    *,
    target: Target,
    all_namespaces: bool,
    once: bool,
    every: float,
    output: str,
) -> None:
    """Show the runs of a namespace, or of this machine, until Ctrl-C.

    What has failed comes first, then what goes on, then what has ended. Ctrl-C is how the table is
    left: the exit code is 0.

    \b
    Example:
      allranks top
      allranks top -A --every 10s
      allranks top -A -o json
    """
    if every < _SHORTEST:
        raise InputError(f"{every:g} s is too often", path="--every", hint="take 500ms or more")
    cluster_target = target.cluster_target(console)

    unread: dict[str, None] = {}

    def read() -> list[RunStatus]:
        statuses = runs(
            target,
            cluster_target,
            everywhere=all_namespaces,
            unread=unread.setdefault,
            with_progress=True,
        )
        return sorted(statuses, key=_place)

    statuses = read()
    for sentence in unread:
        console.note(sentence)
    if output == "json":
        console.json([run.as_dict() for run in statuses])
    elif console.at_terminal and not once:
        _keep_up(console, read, statuses, every, wide=all_namespaces)
    elif statuses:
        headings_rows = table(statuses, time.time(), wide=all_namespaces)
        console.table(*headings_rows, right=_RIGHT, spare=_SPARE, whole=_WHOLE)
    else:
        console.note("there are no runs")


_RIGHT = ("RESTARTS", "TIME")
_WHOLE = ("PHASE", "READY", "PROGRESS")
# Columns that a narrow terminal leaves out.
_SPARE = ("WORKLOAD", "TIME", "RESTARTS")


def table(
    statuses: Sequence[RunStatus], now: float, *, wide: bool
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the headings and rows of the table.

    Args:
        statuses: the runs, in their order.
        now: seconds since the epoch.
        wide: whether to show their namespaces.
    """
    columns = ["NAME", "NAMESPACE", "WORKLOAD", "PHASE", "READY", "RESTARTS", "TIME", "WHY"]
    rows = [_row(run, now) for run in statuses]
    if any(run.progress for run in statuses):
        columns.insert(-1, "PROGRESS")
        cells = [status_view.progress_cell(run) for run in statuses]
        rows = [(*row[:-1], cell, row[-1]) for row, cell in zip(rows, cells, strict=True)]
    if not wide:
        columns.remove("NAMESPACE")
        rows = [(row[0], *row[2:]) for row in rows]
    return columns, rows


def _row(run: RunStatus, now: float) -> tuple[Any, ...]:
    ready = sum(role.ready + role.succeeded for role in run.roles)
    wait = run.waiting_for and f"waits for {run.waiting_for}"
    return (
        run.name,
        run.namespace,
        status_view.workload(run),
        run.phase,
        f"{ready}/{sum(role.expected for role in run.roles)}",
        run.restarts,
        status_view.duration(run.started_at, run.finished_at, now) or "-",
        "" if run.phase is Phase.SUCCEEDED else wait or _slow(run) or run.message,
    )


def _slow(run: RunStatus) -> str:
    """Return which rank holds up the others; "" where none does."""
    if run.progress is None or run.finished:
        return ""
    sentences = progress.stragglers(run.progress, {pod.name: pod.node for pod in run.pods})
    return sentences[0] if sentences else ""


def _place(run: RunStatus) -> tuple[object, ...]:
    """Return the sort key of a run; the latest come first within a phase."""
    order = _ORDER.index(run.phase) if run.phase in _ORDER else len(_ORDER)
    return order, -(run.finished_at or run.started_at or 0.0), run.namespace, run.name


def _keep_up(
    console: Console,
    read: Callable[[], list[RunStatus]],
    statuses: list[RunStatus],
    every: float,
    *,
    wide: bool,
) -> None:
    trouble = ""
    # Ctrl-C is the way out, wherever it comes.
    with suppress(KeyboardInterrupt), console.board() as board:
        while True:
            visible = statuses[: board.rows]
            columns, rows = table(visible, time.time(), wide=wide)
            foot = _foot(statuses, len(visible), trouble)
            board.draw(columns, rows, right=_RIGHT, spare=_SPARE, whole=_WHOLE, foot=foot)
            start = time.monotonic()
            try:
                time.sleep(every)
                start = time.monotonic()
                statuses, trouble = read(), ""
                time.sleep(max(0.0, _REST_SHARE * (time.monotonic() - start) - every))
            except AllranksError as error:
                # The table shows the last statuses.
                trouble = error.problem.message


def _foot(statuses: Sequence[RunStatus], count: int, trouble: str) -> str:
    if trouble:
        return f"as it was: {trouble}"
    if not statuses:
        return f"there are no runs; `{names.CLI} run` starts one"
    going = sum(run.phase in _GOING for run in statuses)
    more = f", {len(statuses) - count} more below" if len(statuses) > count else ""
    return f"{going} of {len(statuses)} go on{more}; Ctrl-C ends this"
