"""`allranks sweep run | resume`: a sweep to its end, with its trials as they end.

This process is the sweep's runner: it proposes trials, starts and ends their releases, reads what
they say and writes all of it into the sweep's journal. It may be killed at any moment, and `resume`
goes on.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allranks import names
from allranks.cli import hangup, options, sweepinside, sweepoptions, sweepview
from allranks.cli.sweepplace import Place, chosen, find, journal_of, journal_option, sweep_argument
from allranks.cli.target import LOCAL, target_options
from allranks.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TERMINATED,
    InputError,
)
from allranks.sweep import actions, space
from allranks.sweep.interrupts import BY_SIGTERM
from allranks.sweep.reporting import results
from allranks.words import plural

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.sweep.model import SweepSpec
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.journals import Journal, Keeper
    from allranks.sweep.values.prepare import Prepared
    from allranks.values.sources import Sources

_DRY_TRIALS = 20


def _complete_chart(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    """Our charts by name, and the shell's own files and folders."""
    ours = [name for name in names.WORKLOADS if name != names.SWEEP_PLUGIN]
    found = [CompletionItem(name) for name in ours if name.startswith(start)]
    return found or [CompletionItem(start, type="file")]


@click.command("run", short_help="Run a sweep and follow it to its end.")
@options.release_argument
@click.argument("chart", default="", shell_complete=_complete_chart)
@options.optional_values_options
@sweepoptions.search_options
@sweepoptions.bounds_options
@target_options
@sweepinside.inside_options
@options.helm_option
@click.option(
    "--workdir",
    metavar="DIR",
    type=click.Path(),
    help="Where the programs start, with --on local. Default: the first values file's folder.",
)
@journal_option
@click.option("--replace", "replace_", is_flag=True, help="Remove a sweep of the same name first.")
@click.option("--dry-run", is_flag=True, help="Check all of it and show the trials; run none.")
@options.output_option("text", "json", "csv")
@options.pass_console
def run_command(
    console: Console,
    /,
    *,
    name: str,
    chart: str,
    sources: Sources,
    target: Target,
    workdir: str | None,
    journal: str,
    replace_: bool,
    dry_run: bool,
    in_cluster: bool,
    output: str,
    **flags: Any,
) -> None:
    """Run the sweep NAME to its end, and follow it.

    Each trial is a release NAME-1a2b3c4d, named after its parameters. What is tried stands in the
    values (`workload: sweep`); or CHART, one of ours (torchrun, mpi, elastic), a folder or a
    reference, is run with its own values and what --set-range and --over try.

    Ctrl-C ends the sweep in order: its trials are cancelled and their releases removed, and
    `allranks sweep resume` goes on. A second Ctrl-C leaves at once.

    Exit code: 0 when all trials were tried or the goal was reached, 1 when too many failed or none
    was measured, 130 when it was stopped.

    \b
    Example:
      allranks sweep run digits -f sweep.yaml --on local
      allranks sweep run rates torchrun -f v.yaml --set-range lr=1e-5,1e-4 --set-range seed=1..3
      allranks sweep run sizes ./chart --over model=small.yaml,large.yaml --metric loss --minimize
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.sweep import runner  # noqa: PLC0415 - `--help` needs none
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - `--help` needs none
    from allranks.sweep.values import prepare  # noqa: PLC0415 - `--help` needs none

    first = next((file for file in sources.files if file != "-"), "")
    place = chosen(target, console, workdir, first)
    sweepinside.check(in_cluster=in_cluster, flags=flags | {"journal": journal}, place=place)
    request = prepare.Request(
        name=name,
        sources=sources,
        chart=chart,
        ranges=flags["ranges"],
        overs=flags["overs"],
        section=sweepoptions.section_of(flags),
        flags=sweepoptions.typed(flags),
        namespace=place.namespace,
        helm=place.helm,
        # A cluster has a scheduler; this machine would begin all of them at once.
        parallel=_cores() if place.on == LOCAL else 0,
        is_local=place.on == LOCAL,
    )
    prepared = prepare.prepare(request)
    for note in prepared.notes:
        console.note(note)
    prepare.check_job(prepared, place.namespace, place.helm)
    if dry_run:
        # Inside a cluster nothing is looked at: a plan needs none that answers.
        if not in_cluster:
            check_new(shelf.begin(name, journal), replace_=replace_)
        _show_plan(console, prepared, output)
        return
    if in_cluster:
        journal = sweepinside.keeper(name, place).where
    if replace_:
        from allranks.cli import sweepcontrol  # noqa: PLC0415 - only where it is asked

        sweepcontrol.remove(name, journal, missing_ok=True)
    if in_cluster:
        raise click.exceptions.Exit(sweepinside.run(console, prepared, place, flags, output))
    kept = shelf.begin(name, journal)
    if not kept.exists():
        place.refuse_others(prepared)
    with runner.begin(prepared, kept, place.as_dict()) as opened:
        raise click.exceptions.Exit(to_its_end(console, prepared, opened, place, output))


def _cores() -> int:
    """How many cores this process may use, which can be fewer than the machine has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def check_new(kept: Keeper, *, replace_: bool = False) -> None:
    """Refuse a plan whose sweep could not be kept where it is to be.

    Args:
        kept: where it is to be.
        replace_: a sweep that is there is removed first.

    Raises:
        InputError: it was begun already, or there is something else.
        RunError: that cannot be seen.
    """
    from allranks.sweep import taken  # noqa: PLC0415 - as in the commands
    from allranks.sweep.storage.lines import EmptyError  # noqa: PLC0415 - as in the commands

    if not kept.exists():
        return
    with suppress(EmptyError):
        state = kept.read()
        if not replace_:
            raise taken.begun_already(kept, state.spec.name)


@click.command("resume", short_help="Go on with a sweep that was stopped or cut off.")
@sweep_argument()
@sweepoptions.new_bounds_options
@options.helm_option
@journal_option
@options.output_option("text", "json", "csv")
@options.pass_console
def resume_command(
    console: Console, /, *, name: str, helm: str | None, journal: str, output: str, **flags: Any
) -> None:
    """Go on with the sweep NAME where it was, and follow it to its end.

    Its journal has all that is needed: the values files are not read again. No trial that has ended
    is repeated; those that were cancelled run after all, and with --trials there may be more. It
    works after `allranks sweep stop`, and after its process was killed at any moment.

    \b
    Example:
      allranks sweep resume digits
      allranks sweep resume digits --trials 80 --parallel 4
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.sweep import runner  # noqa: PLC0415 - `--help` does not need it

    kept = find(name, journal)
    if sweepinside.is_inside(kept):
        raise click.exceptions.Exit(sweepinside.resume(console, kept, flags, helm, output))
    prepared, opened = runner.open_sweep(kept)
    with opened:
        spec = changed(prepared.spec, flags, len(opened.state.trials))
        if is_done(opened.state, spec):
            where = journal_of(spec.name, kept.where)
            raise click.exceptions.Exit(show_done(console, opened.state, output, where))
        place = Place.of(opened.state.place, helm, opened.where)
        place.refuse_others(prepared)
        # A stop that its process did not live to carry out is not what is wanted any more.
        if spec != prepared.spec or opened.state.outcome or opened.state.requested:
            prepared = runner.resume(opened, spec)
        raise click.exceptions.Exit(to_its_end(console, prepared, opened, place, output))


def changed(spec: SweepSpec, flags: dict[str, Any], begun: int = 0) -> SweepSpec:
    """A sweep with what flags of `sweepoptions.bounds_options` set anew.

    Args:
        spec: the sweep as it was.
        flags: by name, None where one was not given.
        begun: how many trials there are already.

    Raises:
        InputError: there are not so many trials, or more have begun already.
    """
    given = {key: value for key, value in flags.items() if value is not None}
    total = space.combinations(spec.parameters)
    if total is not None and given.get("trials", 0) > total:
        raise InputError(
            f"there {'is' if total == 1 else 'are'} only {total:,} combination{'s' * (total != 1)}",
            path="--trials",
            hint=f"give at most {total}",
        )
    if "trials" in given and given["trials"] < begun:
        raise InputError(
            f"{begun:,} trial{'s' * (begun != 1)} of the sweep {'have' if begun != 1 else 'has'} "
            "begun already",
            path="--trials",
            hint=f"give at least {begun}; `{names.CLI} sweep stop {spec.name}` ends it as it is",
        )
    if given.get("parallel") == 0:
        given["parallel"] = given.get("trials", spec.trials)
    return replace(spec, **given)


def is_done(state: SweepState, spec: SweepSpec) -> bool:
    """Whether a sweep has ended as it was to, and is not asked for more trials now.

    Args:
        state: how it does.
        spec: the sweep as it is asked for now.
    """
    if state.outcome == actions.GOAL:
        return spec == state.spec
    return state.outcome == actions.COMPLETED and spec.trials <= state.spec.trials


def show_done(console: Console, state: SweepState, output: str, journal: str = "") -> int:
    """Say that nothing is left to resume; what `resume` returns."""
    total = space.combinations(state.spec.parameters)
    more = "; --trials has it try more" if total is None or total > len(state.trials) else ""
    console.note(f"the sweep {state.spec.name} has ended already, and nothing is left to do{more}")
    show_end(console, state, output, journal)
    return exit_code(state)


def to_its_end(
    console: Console, prepared: Prepared, journal: Journal, place: Place, output: str
) -> int:
    """Run a sweep that has been begun; return the exit code.

    Args:
        console: where to show it.
        prepared: the sweep.
        journal: its journal; the caller closes it.
        place: where its trials run.
        output: text, json or csv.
    """
    from allranks.sweep import runner  # noqa: PLC0415 - `--help` does not need it

    state = journal.state
    progress = sweepview.Progress(state, time.time())

    asked: list[str] = []

    def tell(state: SweepState) -> None:
        if state.requested and not state.outcome and not asked:
            asked.append(state.requested)
            again = "another SIGTERM" if state.requested == BY_SIGTERM else "Ctrl-C once more"
            console.note(f"{state.requested}: ending its trials; {again} leaves at once")
        sweepview.news(console, progress, result=output == "text")

    trials = place.trials(prepared, journal.where)
    with hangup.outlived():
        with console.progress(lambda room: progress.line(time.time(), room)):
            state = runner.run(prepared, trials, journal, tell, tell=console.note)
        show_end(console, state, output, journal_of(state.spec.name, journal.where))
    return exit_code(state)


def exit_code(state: SweepState) -> int:
    """The program's exit code for a sweep's end."""
    if state.outcome in (actions.COMPLETED, actions.GOAL):
        return EXIT_OK
    if state.outcome == actions.BROKEN:
        return EXIT_FAILED
    return EXIT_TERMINATED if state.requested == BY_SIGTERM else EXIT_INTERRUPTED


def show_end(console: Console, state: SweepState, output: str, journal: str = "") -> None:
    """What a sweep has found, when its following ends."""
    from allranks.sweep.reporting import tables  # noqa: PLC0415 - `--help` does not need it

    found = results.collect(state.spec, state.trials.values(), journal)
    if output == "json":
        console.json(results.as_dict(found))
        return
    if output == "csv":
        console.raw(tables.as_csv(found))
        return
    console.text("")
    console.text(sweepview.headline(state, time.time(), running=False, journal=journal))
    if found.trials:
        sweepview.show(console, found, most=sweepview.ROWS)
    if found.best is not None:
        command = found.command("--best", "-o", "yaml")
        console.text(f"the best as a values file: `{command}`")


def _show_plan(console: Console, prepared: Prepared, output: str) -> None:
    """What would run."""
    from allranks.sweep import naming  # noqa: PLC0415 - only where it is asked

    spec = prepared.spec
    count = spec.trials
    shown = []
    if spec.search == "grid":
        shown = [
            space.assignment(spec.parameters, index) for index in range(min(count, _DRY_TRIALS))
        ]
    if output == "json":
        console.json(
            {
                "sweep": spec.name,
                "search": spec.search,
                "trials": count,
                "parallel": spec.parallel,
                "first": [
                    {
                        "name": naming.trial_name(spec.name, one),
                        "parameters": {key: choice.text for key, choice in one.items()},
                    }
                    for one in shown
                ],
            }
        )
        return
    console.text(f"{spec.name}  {plural(count, 'trial')}, none was started")
    console.text(sweepview.plan(spec))
    if shown:
        console.text("")
        sweepview.first(console, spec, shown)
    if len(shown) < count and shown:
        console.text(f"… {count - len(shown)} more")
