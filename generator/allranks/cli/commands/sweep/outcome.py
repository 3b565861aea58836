"""The end of a sweep, whether it runs here or in the cluster: its results and its exit code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from allranks.cli.commands.sweep import view
from allranks.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_TERMINATED
from allranks.sweep import actions
from allranks.sweep.reporting import results
from allranks.sweep.search import space
from allranks.sweep.signals import BY_SIGTERM

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.sweep.model import SweepSpec
    from allranks.sweep.state import SweepState


def is_done(state: SweepState, spec: SweepSpec) -> bool:
    """Whether a sweep has completed, and no more trials are requested now.

    Args:
        state: the state of the sweep.
        spec: the sweep as it is requested now.
    """
    if state.outcome == actions.GOAL:
        return spec == state.spec
    return state.outcome == actions.COMPLETED and spec.trials <= state.spec.trials


def show_done(console: Console, state: SweepState, output: str, journal: str = "") -> int:
    """Show that nothing is left to resume; return the exit code."""
    total = space.combinations(state.spec.parameters)
    more = "; --trials has it try more" if total is None or total > len(state.trials) else ""
    console.note(f"the sweep {state.spec.name} has ended already, and nothing is left to do{more}")
    show_end(console, state, output, journal)
    return exit_code(state)


def exit_code(state: SweepState) -> int:
    """Return the program's exit code for a sweep's end."""
    if state.outcome in (actions.COMPLETED, actions.GOAL):
        return EXIT_OK
    if state.outcome == actions.BROKEN:
        return EXIT_FAILED
    return EXIT_TERMINATED if state.requested == BY_SIGTERM else EXIT_INTERRUPTED


def show_end(console: Console, state: SweepState, output: str, journal: str = "") -> None:
    """Show the results of a sweep at its end."""
    from allranks.sweep.reporting import tables

    sweep_results = results.collect(state.spec, state.trials.values(), journal)
    if output == "json":
        console.json(results.as_dict(sweep_results))
        return
    if output == "csv":
        console.raw(tables.as_csv(sweep_results))
        return
    console.text("")
    console.text(view.headline(state, time.time(), running=False, journal=journal))
    if sweep_results.trials:
        view.show(console, sweep_results, most=view.ROWS)
    if sweep_results.best is not None:
        command = sweep_results.command("--best", "-o", "yaml")
        console.text(f"the best as a values file: `{command}`")
