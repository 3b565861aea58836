"""`allranks sweep results`: what was found, as a table, as data, as pictures, and as values to run.

The journal alone is read, so that results can be had while the sweep runs, and after its values
files have changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import files, options, sweepview
from allranks.cli.sweepplace import Place, find, journal_of, journal_option, sweep_argument
from allranks.cli.target import LOCAL
from allranks.errors import InputError

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
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    one = best or trial is not None
    if report == files.STDOUT and (one or output != "table"):
        raise InputError(
            "standard output has room for one thing", path="--report -", hint="name a file for one"
        )
    _check(output, one=one, both=best and trial is not None, values=values, manifest=manifest)
    if top is not None and one:
        raise InputError("is for the table of all trials", path="--top", hint="leave it out")
    from allranks.sweep.reporting import results  # noqa: PLC0415 - `--help` does not need it

    kept = find(name, journal)
    state = kept.read()
    found = results.collect(
        state.spec, state.trials.values(), journal_of(state.spec.name, kept.where)
    )
    _draw(console, found, plot, report)
    if report == files.STDOUT:
        return
    if one:
        chosen = found.require_best() if best else found.find(trial or "")
        if manifest:
            console.raw(manifests(state, chosen, helm, kept.where))
        else:
            _show_one(console, state, found, chosen, output, exact=values)
    elif output == "json":
        console.json(results.as_dict(found))
    elif output == "csv":
        from allranks.sweep.reporting import tables  # noqa: PLC0415 - only where it is asked

        console.raw(tables.as_csv(found))
    elif found.trials:
        sweepview.show(console, found, most=top)
    else:
        console.note(f"sweep {name} has no trials yet")


def _check(output: str, *, one: bool, both: bool, values: bool, manifest: bool) -> None:
    """Refuse flags that ask for what there is not.

    Raises:
        InputError: they do.
    """
    if both:
        raise InputError("--best and --trial exclude each other", hint="give one of them")
    if values and manifest:
        raise InputError("--values and --manifest exclude each other", hint="give one of them")
    for flag, given in (
        ("--values", values),
        ("--manifest", manifest),
        ("-o yaml", output == "yaml"),
    ):
        if given and not one:
            raise InputError(
                f"{flag} is of one trial", hint="name it: --best, or --trial with its number"
            )
    if one and output == "csv":
        raise InputError("-o csv is of all trials", hint="use -o json or -o yaml for one")


def _show_one(
    console: Console, state: SweepState, found: Results, trial: Trial, output: str, *, exact: bool
) -> None:
    from allranks.sweep.reporting import results  # noqa: PLC0415 - only where it is asked
    from allranks.sweep.values import again, prepare  # noqa: PLC0415 - only where it is asked

    if exact or output == "yaml":
        given = prepare.restore(state).values(trial)
        if not exact:
            given = again.to_run(given)
        if output == "json":
            console.json(given)
        else:
            console.raw(results.values_file(found, trial, given))
    elif output == "json":
        listed = results.as_dict(found)["trials"]
        console.json(next(each for each in listed if each["number"] == trial.number))
    else:
        for line in sweepview.details(found, trial):
            console.text(line)


def manifests(state: SweepState, trial: Trial, helm: str | None, where: str) -> str:
    """What a trial's release consists of, as it was applied.

    Args:
        state: the sweep.
        trial: one of its trials.
        helm: the helm that was named; None for none.
        where: the journal, for `Place.of`.

    Raises:
        AllranksError: the chart is not there any more, or helm or the post-renderer refused.
    """
    from allranks import postrender  # noqa: PLC0415 - helm costs 0.2 s
    from allranks.helm import driver, locate  # noqa: PLC0415
    from allranks.local import localising  # noqa: PLC0415
    from allranks.sweep.values import prepare  # noqa: PLC0415
    from allranks.values.merge import merge  # noqa: PLC0415

    prepared = prepare.restore(state)
    place = Place.of(state.place, helm, where)
    given = prepared.values(trial)
    ours_here = place.on == LOCAL and bool(prepared.workload)
    if ours_here:
        merged = {**merge(prepared.defaults, given), "workload": prepared.workload}
        given = localising.localise(given, merged).values
    binary = locate.find(place.helm or None)
    text = driver.template(binary, trial.name, place.namespace, prepared.chart, given)
    needed = f"\nkind: {names.SENTINEL_KIND}\n" in text
    return postrender.process(text) if needed or ours_here else text


def _draw(console: Console, found: Results, plot: str | None, report: str | None) -> None:
    if plot == files.STDOUT:
        raise InputError(
            "there are several pictures", path="--plot -", hint="name a folder for them"
        )
    if plot is not None:
        from allranks.sweep.reporting import plot as plotting  # noqa: PLC0415 - matplotlib costs 0.4 s

        pictures = plotting.pictures(found)
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
        from allranks.sweep.reporting import report as reporting  # noqa: PLC0415

        files.write(Path(report), reporting.html(found))
    if report not in (None, files.STDOUT):
        console.note(f"{report}: open it in a browser")
