"""`allranks sweep export`: a sweep as a study of Optuna's, for Optuna's own programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.sweep.sweep_target import find, journal_option, sweep_argument
from allranks.errors import InputError, MissingToolError
from allranks.humanize import number_of, plural
from allranks.sweep.storage.journal import read_state

if TYPE_CHECKING:
    from allranks.cli.console import Console


@click.command("export", short_help="Write a sweep into a study of Optuna's.")
@sweep_argument()
@click.option(
    "--optuna",
    "url",
    required=True,
    metavar="URL",
    help="The database of the study, such as sqlite:///optuna.db or postgresql://user@host/database.",
)
@click.option(
    "--study", metavar="NAME", help="What the study is called. Default: NAME of the sweep."
)
@click.option("--overwrite", is_flag=True, help="Replace a study of that name.")
@journal_option
@options.output_option("text", "json")
@options.pass_console
def export_command(
    console: Console,
    *,
    name: str,
    url: str,
    study: str | None,
    overwrite: bool,
    journal: str,
    output: str,
) -> None:
    """Write the sweep NAME into a study of Optuna's, as it is now; also while it runs.

    Its trials become Optuna's, with parameters, distributions, reported values, their value and
    state; the release, our state, the reason and the attempts stand in user attributes. Nothing of
    ours reads the study: run the command again, with --overwrite, to bring it up to date.

    \b
    Example:
      allranks sweep export digits --optuna sqlite:///optuna.db
      optuna-dashboard sqlite:///optuna.db
    """
    from allranks.sweep.storage import database_url

    if not database_url.is_url(url):
        raise InputError(
            f"{url!r} is no URL of a database",
            path="--optuna",
            hint="give sqlite:///optuna.db or postgresql://user@host/database",
        )
    settled = database_url.settle(url, "--optuna")
    state = read_state(find(name, journal))
    try:
        from allranks.sweep.reporting import optuna_study
    except ModuleNotFoundError as error:
        if error.name not in ("optuna", "sqlalchemy"):
            raise
        raise MissingToolError(
            "a study of Optuna's needs Optuna, which is not installed",
            path="--optuna",
            hint="pip install 'allranks[search]'",
        ) from error
    study_name = study or state.spec.name
    total = len(state.trials)
    counts = [0]
    try:
        with console.progress(lambda _room: f"{counts[0]:,} of {plural(total, 'trial')} written"):
            optuna_study.export(
                state,
                database_url.for_driver(settled),
                study_name,
                overwrite=overwrite,
                on_written=lambda count: counts.__setitem__(0, count),
            )
    except KeyboardInterrupt as interruption:
        for note in getattr(interruption, "__notes__", ()):
            console.note(note)
        raise
    if output == "json":
        console.json(
            {"name": state.spec.name, "study": study_name, "optuna": settled, "trials": total}
        )
    else:
        verb = number_of(total, "is", "are")
        trials = plural(total, "trial")
        console.text(f"{trials} of {name} {verb} in the study {study_name}: {settled}")
