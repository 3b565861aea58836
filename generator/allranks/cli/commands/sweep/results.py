"""`allranks sweep results`: the results as a table, as data, as pictures, and as values to run.

Only the journal is read, so that there are results while the sweep runs, and after its values files
have changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import files, options
from allranks.cli.commands.sweep import view
from allranks.cli.commands.sweep.sweep_target import (
    SweepTarget,
    find,
    journal_of,
    journal_option,
    sweep_argument,
)
from allranks.cli.target import LOCAL
from allranks.errors import InputError
from allranks.sweep.storage.journal import read_state

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.sweep.model import Trial
    from allranks.sweep.reporting.results import Results
    from allranks.sweep.state import SweepState


@click.command("results", short_help="Show what a sweep has found.")
@sweep_argument()
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="COUNT",
    help="Show so many of the best. Default: all.",
)
@click.option("--best", is_flag=True, help="The best trial alone; -o yaml is a values file to run.")
@click.option("--trial", metavar="NUMBER", help="One trial alone, by its number or its name.")
@click.option("--values", is_flag=True, help="The exact values that the trial's chart was given.")
@click.option("--manifest", is_flag=True, help="The trial's manifests, as they were applied.")
@click.option(
    "--plot",
    metavar="DIR",
    type=click.Path(),
    help="Draw pictures into a folder: history, parallel, importance and curves, as PNG and SVG.",
)
@click.option(
    "--report",
    metavar="FILE",
    type=click.Path(),
    help="Write all of it as one HTML file that opens without a network; '-' is standard output.",
)
@options.helm_option
@journal_option
@options.output_option("table", "json", "csv", "yaml")
@options.pass_console
def results_command(
    console: Console,
    *,
    name: str,
    top: int | None,
    best: bool,
    trial: str | None,
    values: bool,
    manifest: bool,
    plot: str | None,
    report: str | None,
    helm: str | None,
    journal: str,
    output: str,
) -> None:
    """Show the trials of the sweep NAME, the best first; also while it runs.

    A trial that ended well comes before one that was stopped early. Parameters are shown as they
    reached the trial.

    \b
    Example:
      allranks sweep results digits
      allranks sweep results digits --report digits.html --plot pictures
      allranks sweep results digits --trial 7 --manifest
      allranks sweep results digits --best -o yaml > best.yaml && allranks run digits -f best.yaml
    """
    is_single = best or trial is not None
    if report == files.STDOUT and (is_single or output != "table"):
        raise InputError(
            "standard output has room for one thing", path="--report -", hint="name a file for one"
        )
    _check(
        output, single=is_single, both=best and trial is not None, values=values, manifest=manifest
    )
    if top is not None and is_single:
        raise InputError("is for the table of all trials", path="--top", hint="leave it out")
    from allranks.sweep.reporting import results

    store = find(name, journal)
    state = read_state(store)
    sweep_results = results.collect(
        state.spec, state.trials.values(), journal_of(state.spec.name, store.where)
    )
    _draw(console, sweep_results, plot, report)
    if report == files.STDOUT:
        return
    if is_single:
        selected = sweep_results.require_best() if best else sweep_results.find(trial or "")
        if manifest:
            console.raw(manifests(state, selected, helm, store.where))
        else:
            _show_trial(console, state, sweep_results, selected, output, exact=values)
    elif output == "json":
        console.json(results.as_dict(sweep_results))
    elif output == "csv":
        from allranks.sweep.reporting import tables

        console.raw(tables.as_csv(sweep_results))
    elif sweep_results.trials:
        view.show(console, sweep_results, most=top)
    else:
        console.note(f"sweep {name} has no trials yet")


def _check(output: str, *, single: bool, both: bool, values: bool, manifest: bool) -> None:
    """Refuse flags that exclude each other.

    Raises:
        InputError: there are such flags.
    """
    if both:
        raise InputError("--best and --trial exclude each other", hint="give one of them")
    if values and manifest:
        raise InputError("--values and --manifest exclude each other", hint="give one of them")
    for flag, is_set in (
        ("--values", values),
        ("--manifest", manifest),
        ("-o yaml", output == "yaml"),
    ):
        if is_set and not single:
            raise InputError(
                f"{flag} is of one trial", hint="name it: --best, or --trial with its number"
            )
    if single and output == "csv":
        raise InputError("-o csv is of all trials", hint="use -o json or -o yaml for one")


def _show_trial(
    console: Console,
    state: SweepState,
    sweep_results: Results,
    trial: Trial,
    output: str,
    *,
    exact: bool,
) -> None:
    from allranks.sweep.reporting import results
    from allranks.sweep.spec import export, prepare

    if exact or output == "yaml":
        chart_values = prepare.restore(state).values(trial)
        if not exact:
            chart_values = export.values_to_run(chart_values)
        if output == "json":
            console.json(chart_values)
        else:
            console.raw(results.values_file(sweep_results, trial, chart_values))
    elif output == "json":
        trials = results.as_dict(sweep_results)["trials"]
        console.json(next(item for item in trials if item["number"] == trial.number))
    else:
        for line in view.details(sweep_results, trial):
            console.text(line)


def manifests(state: SweepState, trial: Trial, helm: str | None, where: str) -> str:
    """Return the manifests of a trial's release, as they were applied.

    Args:
        state: the sweep.
        trial: one of its trials.
        helm: the path of --helm; None for none.
        where: the journal, for `SweepTarget.of`.

    Raises:
        AllranksError: the chart does not exist any more, or helm or the post-renderer refused.
    """
    from allranks import postrender
    from allranks.helm import binary as helm_binary
    from allranks.helm import driver
    from allranks.local import values as local_values
    from allranks.sweep.spec import prepare
    from allranks.values.merge import merge

    prepared = prepare.restore(state)
    place = SweepTarget.of(state.place, helm, where)
    chart_values = prepared.values(trial)
    ours_here = place.on == LOCAL and bool(prepared.workload)
    if ours_here:
        merged = {**merge(prepared.defaults, chart_values), "workload": prepared.workload}
        chart_values = local_values.values_for_this_machine(chart_values, merged).values
    binary = helm_binary.find(place.helm or None)
    text = driver.template(binary, trial.name, place.namespace, prepared.chart, chart_values)
    needed = f"\nkind: {names.SENTINEL_KIND}\n" in text
    return postrender.process(text) if needed or ours_here else text


def _draw(console: Console, sweep_results: Results, plot: str | None, report: str | None) -> None:
    if plot == files.STDOUT:
        raise InputError(
            "there are several pictures", path="--plot -", hint="name a folder for them"
        )
    if plot is not None:
        from allranks.sweep.reporting import plot as plotting

        pictures = plotting.pictures(sweep_results)
        folder = Path(plot)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for picture in pictures:
                files.write(folder / picture.name, picture.content)
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror or error}",
                path=str(error.filename or folder),
                hint="name another folder",
            ) from error
        console.note(f"{folder}: {', '.join(picture.name for picture in pictures)}")
    if report is not None:
        from allranks.sweep.reporting import report as reporting

        files.write(Path(report), reporting.html(sweep_results))
    if report not in (None, files.STDOUT):
        console.note(f"{report}: open it in a browser")
