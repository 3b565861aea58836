"""`allranks attach`: follow a run that goes on, to its end."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options, pod_choice, status_view
from allranks.cli.target import only_cluster_options, run_argument
from allranks.errors import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.follow import FollowOptions
    from allranks.cli.target import ClusterTarget, Target


@click.command("attach", short_help="Follow a run that goes on.")
@run_argument
@only_cluster_options
@pod_choice.RANK
@pod_choice.NODE
@pod_choice.ROLE
@options.timeout_option("Stop following after this time; the job goes on.")
@options.output_option("text", "json")
@options.pass_console
def attach_command(
    console: Console,
    *,
    name: str,
    target: Target,
    rank: int | None,
    node: int | None,
    role: str,
    timeout: float | None,
    output: str,
) -> None:
    """Follow run NAME to its end, as `run` does: its state, and the log of one rank.

    The log is rank 0's or the launcher's unless a rank, a node or a role is named. Ctrl-C leaves
    the job as it is. The exit code is the job's own.

    \b
    Example:
      allranks attach demo
      allranks attach demo --rank 3
    """
    from allranks.cli.follow import FollowOptions
    from allranks.model.rank_lines import LineSelection

    selection = pod_choice.check_selection(LineSelection(rank, node, role))
    how = FollowOptions(selection=selection, timeout=timeout, json=output == "json")
    status = follow(console, name, target.on_cluster(), how)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        status_view.show(console, status, time.time())
    raise click.exceptions.Exit(status_view.exit_code(status))


def follow(console: Console, name: str, cluster_target: ClusterTarget, how: FollowOptions) -> Any:
    """Follow a run to its end, and return its status.

    Raises:
        NotFoundError: there is no such run.
        click.exceptions.Exit: Ctrl-C; the run goes on.
    """
    from allranks.cli import follow as cli_follow
    from allranks.cluster.observe import observe
    from allranks.model.rank_lines import about_mpi

    # Fail at once if there is no such run.
    observation = observe(cluster_target.cluster, name, cluster_target.namespace)
    selection = pod_choice.locate(cluster_target, observation, how.selection, by_line=True)
    if selection.rank is not None and selection.role == names.ROLE_LAUNCHER:
        console.note(about_mpi(selection.rank))
    how = replace(how.of(observation), selection=selection)
    try:
        return cli_follow.follow(
            console, cluster_target.cluster, name, cluster_target.namespace, how
        )
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
