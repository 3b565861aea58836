"""`allranks sweep`: one values file becomes many trials, and the best of them is found."""

from __future__ import annotations

import click

from allranks.cli.command_groups import InOrder
from allranks.cli.commands.sweep import control, export, in_cluster, results, run

_HELP = "Try many settings of a job, and find the best."


@click.group(
    "sweep",
    cls=InOrder,
    short_help=_HELP,
    context_settings={"help_option_names": ["-h", "--help"]},
)
def sweep_command() -> None:
    """Run a job many times with different parameters, and find the best.

    What is tried stands in the values (`workload: sweep`, see `allranks init sweep`), or is given
    by flags for any chart. Everything that happens is kept in a journal, so that a sweep that was
    cut off goes on where it was. `helm sweep` is the same program.

    \b
    Example:
      allranks sweep run digits -f sweep.yaml
      allranks sweep run rates torchrun -f values.yaml --set-range lr=1e-5,1e-4 --metric accuracy
      allranks sweep results digits --best -o yaml > best.yaml
    """


for _command in (
    run.run_command,
    control.status_command,
    results.results_command,
    export.export_command,
    control.stop_command,
    run.resume_command,
    control.delete_command,
    in_cluster.stay_command,
):
    sweep_command.add_command(_command)
