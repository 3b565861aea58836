"""`allranks top`: all runs in one table that keeps up with them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import durations, options, statusview
from allranks.cli.jobs import runs
from allranks.cli.target import target_options
from allranks.errors import AllranksError, InputError
from allranks.model.status import Phase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.model.status import RunStatus

_EVERY_SECONDS = 2.0
_SHORTEST = 0.5
# A look at ten thousand pods takes a while; it must not become all that the API server does.
_REST_SHARE = 4
# Who looks at the table wants to know first of what goes wrong, then of what goes on.
_GOING = (Phase.RESTARTING, Phase.SCALING, Phase.RUNNING, Phase.ADMITTED, Phase.PENDING)
_ORDER = (Phase.FAILED, *_GOING, Phase.SUSPENDED, Phase.UNKNOWN)


@click.command("top", short_help="Watch all runs, as a table that keeps up.")
@target_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@click.option("--once", is_flag=True, help="Show the table once; so it is in a pipe.")
@click.option(
    "--every",
    type=durations.Duration(),
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
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    if every < _SHORTEST:
        raise InputError(f"{every:g} s is too often", path="--every", hint="take 500ms or more")
    site = target.site(console)

    def look() -> list[RunStatus]:
        return sorted(runs(target, site, everywhere=all_namespaces), key=_place)

    found = look()
    if output == "json":
        console.json([run.as_dict() for run in found])
    elif console.at_terminal and not once:
        _keep_up(console, look, found, every, wide=all_namespaces)
    elif found:
        shown = table(found, time.time(), wide=all_namespaces)
        console.table(*shown, right=_RIGHT, spare=_SPARE, whole=_WHOLE)
    else:
        console.note("there are no runs")


_RIGHT = ("RESTARTS", "TIME")
_WHOLE = ("PHASE", "READY")
# What a narrow terminal does without, so that who it is, how it does and why can be read.
_SPARE = ("WORKLOAD", "TIME", "RESTARTS")


def table(
    found: Sequence[RunStatus], now: float, *, wide: bool
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The headings and rows of the table.

    Args:
        found: the runs, in their order.
        now: seconds since the epoch.
        wide: whether they are of several namespaces.
    """
    columns = ["NAME", "NAMESPACE", "WORKLOAD", "PHASE", "READY", "RESTARTS", "TIME", "WHY"]
    rows = [_row(run, now) for run in found]
    if not wide:
        columns.remove("NAMESPACE")
        rows = [(row[0], *row[2:]) for row in rows]
    return columns, rows


def _row(run: RunStatus, now: float) -> tuple[Any, ...]:
    ready = sum(role.ready + role.succeeded for role in run.roles)
    why = run.waiting_for and f"waits for {run.waiting_for}"
    return (
        run.name,
        run.namespace,
        run.workload or "-",
        run.phase,
        f"{ready}/{sum(role.expected for role in run.roles)}",
        run.restarts,
        statusview.duration(run.started_at, run.finished_at, now) or "-",
        "" if run.phase is Phase.SUCCEEDED else why or run.message,
    )


def _place(run: RunStatus) -> tuple[object, ...]:
    """Where a run stands in the table; the latest first among its like."""
    order = _ORDER.index(run.phase) if run.phase in _ORDER else len(_ORDER)
    return order, -(run.finished_at or run.started_at or 0.0), run.namespace, run.name


def _keep_up(
    console: Console,
    look: Callable[[], list[RunStatus]],
    found: list[RunStatus],
    every: float,
    *,
    wide: bool,
) -> None:
    trouble = ""
    # Ctrl-C is the way out, wherever it comes.
    with suppress(KeyboardInterrupt), console.board() as board:
        while True:
            shown = found[: board.rows]
            columns, rows = table(shown, time.time(), wide=wide)
            foot = _foot(found, len(shown), trouble)
            board.draw(columns, rows, right=_RIGHT, spare=_SPARE, whole=_WHOLE, foot=foot)
            started = time.monotonic()
            try:
                time.sleep(every)
                started = time.monotonic()
                found, trouble = look(), ""
                time.sleep(max(0.0, _REST_SHARE * (time.monotonic() - started) - every))
            except AllranksError as error:
                # What was seen last is still the best there is.
                trouble = error.problem.message


def _foot(found: Sequence[RunStatus], shown: int, trouble: str) -> str:
    if trouble:
        return f"as it was: {trouble}"
    if not found:
        return f"there are no runs; `{names.CLI} run` starts one"
    going = sum(run.phase in _GOING for run in found)
    more = f", {len(found) - shown} more below" if len(found) > shown else ""
    return f"{going} of {len(found)} go on{more}; Ctrl-C ends this"
