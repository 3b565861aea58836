"""`allranks sweep run | resume`: run a sweep to its end, and show its trials as they end.

This process is the sweep's runner: it proposes trials, installs and removes their releases, reads
their output and records all of it in the sweep's journal. It may be killed at any moment, and
`resume` goes on.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from allranks import names
from allranks.cli import console as cli_console
from allranks.cli import options
from allranks.cli.commands.sweep import control, outcome, view
from allranks.cli.commands.sweep import in_cluster as sweep_in_cluster
from allranks.cli.commands.sweep import options as sweep_options
from allranks.cli.commands.sweep.sweep_target import (
    SweepTarget,
    find,
    from_flags,
    journal_of,
    journal_option,
    sweep_argument,
)
from allranks.cli.target import LOCAL, target_options
from allranks.cli.workspace import workspace_options
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.sweep.search import space
from allranks.sweep.signals import BY_SIGTERM
from allranks.sweep.storage.journal import read_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.service.workspace import PackedWorkspace
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.sweep.spec.request import SweepFlags
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.base import Backend
    from allranks.sweep.storage.journal import Journal
    from allranks.values.sources import Sources

_DRY_TRIALS = 20
_OF_INSIDE = {"detach": False, "runner": None, "image": ""}


def _complete_chart(_: click.Context, __: click.Parameter, start: str) -> list[CompletionItem]:
    """Return our charts by name, else files and folders, for shell completion."""
    ours = [name for name in names.WORKLOADS if name != names.SWEEP_PLUGIN]
    matches = [CompletionItem(name) for name in ours if name.startswith(start)]
    return matches or [CompletionItem(start, type="file")]


@click.command("run", short_help="Run a sweep and follow it to its end.")
@options.release_argument
@click.argument("chart", default="", shell_complete=_complete_chart)
@options.optional_values_options
@workspace_options()
@sweep_options.search_options
@sweep_options.bounds_options
@target_options
@sweep_in_cluster.inside_options
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
@options.queue_options
@options.pass_console
def run_command(
    console: Console,
    /,
    *,
    name: str,
    chart: str,
    sources: Sources,
    workspace: WorkspaceFlags,
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

    With --workspace the folder of code is sent once, as it is now, and all trials run that.

    Exit code: 0 when all trials were tried or the goal was reached, 1 when too many failed or none
    was measured, 130 when it was stopped.

    \b
    Example:
      allranks sweep run digits -f sweep.yaml --on local
      allranks sweep run rates torchrun -f v.yaml --set-range lr=1e-5,1e-4 --set-range seed=1..3
      allranks sweep run sizes ./chart --over model=small.yaml,large.yaml --metric loss --minimize
    """
    first = next((file for file in sources.files if file != "-"), "")
    place = from_flags(target, console, workdir, first)
    code = run_sweep(
        console,
        name,
        sources,
        workspace,
        place,
        chart=chart,
        journal=journal,
        replace_=replace_,
        dry_run=dry_run,
        in_cluster=in_cluster,
        output=output,
        flags=flags,
    )
    raise click.exceptions.Exit(code)


def run_sweep(
    console: Console,
    name: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    place: SweepTarget,
    *,
    chart: str = "",
    journal: str = "",
    replace_: bool = False,
    dry_run: bool = False,
    in_cluster: bool = False,
    output: str = "text",
    flags: Mapping[str, Any] | None = None,
) -> int:
    """Run a sweep to its end; return the exit code.

    Args:
        console: where to show it.
        name: the sweep's name.
        sources: values files and the `--set` family.
        workspace: the folder of code that all trials run; none where it names none.
        place: where its trials run.
        chart: the chart of its trials; "" where the values are those of a sweep.
        journal: the value of ``--journal``; "" for none.
        replace_: remove a sweep of the same name first.
        dry_run: check all of it and show the trials; run none.
        in_cluster: let a pod run it.
        output: text, json or csv.
        flags: the other options, by name; one that is missing was not given.

    Raises:
        InputError: the flags, the values or the folder are wrong, or the name is taken.
        AllranksError: the cluster does not answer, or forbids it.
    """
    from allranks.local import cores
    from allranks.sweep import runner
    from allranks.sweep.spec import prepare
    from allranks.sweep.storage import catalog

    options_of: dict[str, Any] = {"ranges": (), "overs": (), **_OF_INSIDE, **(flags or {})}
    sweep_in_cluster.check(
        in_cluster=in_cluster, flags=options_of | {"journal": journal}, place=place
    )
    request = prepare.SweepFlags(
        name=name,
        sources=sources,
        chart=chart,
        ranges=options_of["ranges"],
        overs=options_of["overs"],
        section=sweep_options.section_of(options_of),
        flags=sweep_options.flags_by_path(options_of),
        namespace=place.namespace,
        helm=place.helm,
        # A cluster has a scheduler; this machine would begin all of them at once.
        parallel=cores.usable() if place.on == LOCAL else 0,
        is_local=place.on == LOCAL,
    )
    packed, request = _with_workspace(workspace, request, place)
    prepared = prepare.prepare(request)
    for note in prepared.notes:
        console.note(note)
    prepare.check_job(prepared, place.namespace, place.helm)
    if dry_run:
        # Inside a cluster nothing is looked at: a plan needs none that answers.
        if not in_cluster:
            check_new(catalog.begin(name, journal, place.as_dict()), replace_=replace_)
        _show_plan(console, prepared, output)
        if packed is not None:
            console.note(packed.sentence)
        return 0
    if packed is not None:
        nodes = prepared.layout.max_nodes if prepared.layout is not None else 1
        together = nodes * max(1, prepared.spec.parallel)
        _send(console, packed, place, nodes=together)
    if in_cluster:
        journal = sweep_in_cluster.backend_of(name, place).where
    else:
        store = catalog.begin(name, journal, place.as_dict())
        other_name = store.name if store.name != name else ""
        name = other_name or name
    if replace_:
        control.remove(name, journal, missing_ok=True)
    if in_cluster:
        return sweep_in_cluster.run(
            console, prepared, place, options_of, output=output, workspace=packed
        )
    if other_name:
        console.note(
            f"a sweep in another place has the name {prepared.spec.name}: to the commands of "
            f"`{names.CLI} sweep` this one is {other_name}"
        )
    store = catalog.begin(name, journal)
    if not store.exists():
        place.refuse_others(prepared)
    with runner.begin(prepared, store, place.as_dict()) as open_journal:
        return to_its_end(console, prepared, open_journal, place, output)


def _with_workspace(
    workspace: WorkspaceFlags, request: SweepFlags, place: SweepTarget
) -> tuple[PackedWorkspace | None, SweepFlags]:
    """Return the packed workspace of all trials, and the request with where it will be.

    Raises:
        InputError: the folder cannot be sent, the chart is not ours, or the values are wrong.
    """
    if not workspace.folder:
        workspace.pack({})  # refuses --include alone
        return None, request
    from dataclasses import replace

    from allranks.sweep.spec import prepare
    from allranks.values import sources as gathering

    chart = request.chart
    if chart and chart not in names.WORKLOADS:
        raise InputError(
            f"{chart} is a chart of your own, and mounts no workspace",
            path="--workspace",
            hint="leave it out, or use one of our charts",
        )
    sources = gathering.read_once(request.sources)
    request = replace(request, sources=sources)
    prepare.prepare(request)  # before the folder is packed, which may take long
    values = gathering.load_sources(sources, chart or None).values
    packed = workspace.pack(values, is_local=place.on == LOCAL)
    assert packed is not None  # noqa: S101 - there is a folder
    path = ("workspace", "snapshot")
    option = gathering.ValueOption("workspace", workspace.folder, path, packed.transport.values())
    sources = replace(sources, options=(*sources.options, option))
    return packed, replace(request, sources=sources)


def _send(console: Console, packed: PackedWorkspace, place: SweepTarget, *, nodes: int) -> None:
    """Keep the code of a sweep, and send it where its trials will look for it.

    Raises:
        AllranksError: the cluster does not answer, forbids it, or has no room for it.
    """
    from allranks.sweep import workspace as sweep_workspace

    if parts := packed.transport.manifests(place.namespace):
        sweep_workspace.keep(parts)
    if place.on != LOCAL:
        packed.transport.send(place.cluster(), place.namespace, nodes=nodes)
    console.note(packed.sentence)


def check_new(store: Backend, *, replace_: bool = False) -> None:
    """Refuse a sweep whose journal exists already.

    Args:
        store: the store of the new sweep.
        replace_: an existing sweep is removed first.

    Raises:
        InputError: it was begun already, or something else is there.
        RunError: the journal cannot be read.
    """
    from allranks.sweep import name_conflicts
    from allranks.sweep.storage.base import EmptyError

    if not store.exists():
        return
    with suppress(EmptyError):
        state = read_state(store)
        if not replace_:
            raise name_conflicts.begun_already(store, state.spec.name)


@click.command("resume", short_help="Go on with a sweep that was stopped or cut off.")
@sweep_argument()
@sweep_options.new_bounds_options
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
    """
    from allranks.sweep import runner

    store = find(name, journal)
    if sweep_in_cluster.is_inside(store):
        raise click.exceptions.Exit(sweep_in_cluster.resume(console, store, flags, helm, output))
    prepared, open_journal = runner.open_sweep(store)
    with open_journal:
        spec = sweep_options.apply_new_bounds(prepared.spec, flags, len(open_journal.state.trials))
        if outcome.is_done(open_journal.state, spec):
            where = journal_of(spec.name, store.where)
            raise click.exceptions.Exit(
                outcome.show_done(console, open_journal.state, output, where)
            )
        place = SweepTarget.of(open_journal.state.place, helm, open_journal.where)
        place.refuse_others(prepared)
        # A stop request that a killed process did not carry out is void now.
        if spec != prepared.spec or open_journal.state.outcome or open_journal.state.requested:
            prepared = runner.resume(open_journal, spec)
        raise click.exceptions.Exit(to_its_end(console, prepared, open_journal, place, output))


def to_its_end(
    console: Console, prepared: PreparedSweep, journal: Journal, place: SweepTarget, output: str
) -> int:
    """Run a sweep that has been begun; return the exit code.

    Args:
        console: where to show it.
        prepared: the sweep.
        journal: its journal; the caller closes it.
        place: where its trials run.
        output: text, json or csv.
    """
    from allranks.sweep import runner
    from allranks.sweep.storage import exposure

    state = journal.state
    for remark in exposure.remarks(journal.where):
        console.note(remark)
    progress = view.SweepProgress(state, time.time())

    requests: list[str] = []

    def report(state: SweepState) -> None:
        if state.requested and not state.outcome and not requests:
            requests.append(state.requested)
            again = "another SIGTERM" if state.requested == BY_SIGTERM else "Ctrl-C once more"
            console.note(f"{state.requested}: ending its trials; {again} leaves at once")
        view.news(console, progress, result=output == "text")

    trials = place.trials(prepared, journal.where)
    with cli_console.tolerate_hangup():
        with console.progress(lambda room: progress.line(time.time(), room)):
            state = runner.run(prepared, trials, journal, report, notify=console.note)
        outcome.show_end(console, state, output, journal_of(state.spec.name, journal.where))
    return outcome.exit_code(state)


def _show_plan(console: Console, prepared: PreparedSweep, output: str) -> None:
    """Show the trials that would run."""
    from allranks.sweep import naming

    spec = prepared.spec
    count = spec.trials
    assignments = []
    if spec.search == "grid":
        assignments = [
            space.assignment(spec.parameters, index) for index in range(min(count, _DRY_TRIALS))
        ]
    if output == "json":
        console.json(
            {
                "sweep": spec.name,
                "search": spec.search,
                "trials": count,
                "parallel": spec.parallel_max,
                "first": [
                    {
                        "name": naming.trial_name(spec.name, assignment),
                        "parameters": {key: choice.text for key, choice in assignment.items()},
                    }
                    for assignment in assignments
                ],
            }
        )
        return
    console.text(f"{spec.name}  {plural(count, 'trial')}, none was started")
    console.text(view.plan(spec))
    if assignments:
        console.text("")
        view.first(console, spec, assignments)
    if len(assignments) < count and assignments:
        console.text(f"… {count - len(assignments)} more")
