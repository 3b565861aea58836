"""`allranks exec`: run a program in a pod of a run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import options, pod_choice
from allranks.cli.target import only_cluster_options, run_argument
from allranks.errors import NotFoundError

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import Target


@click.command(
    "exec",
    short_help="Run a program in a pod of a run.",
    context_settings={"ignore_unknown_options": False, "allow_interspersed_args": True},
)
@run_argument
@click.argument("command", nargs=-1, required=True)
@only_cluster_options
@pod_choice.RANK
@pod_choice.NODE
@pod_choice.ROLE
@click.option("-c", "--container", default="", help="The container. Default: the trainer.")
@click.option("-i", "--stdin", is_flag=True, help="Pass this program's input on.")
@click.option("-t", "--tty", is_flag=True, help="Give it this terminal.")
@options.pass_console
def exec_command(
    console: Console,
    *,
    name: str,
    command: tuple[str, ...],
    target: Target,
    rank: int | None,
    node: int | None,
    role: str,
    container: str,
    stdin: bool,
    tty: bool,
) -> None:
    """Run COMMAND in a pod of run NAME; its exit code is this program's.

    The pod is rank 0's or the launcher's unless a rank, a node or a role is named.

    \b
    Example:
      allranks exec demo -- nvidia-smi
      allranks exec demo --rank 1 -it -- sh
    """
    from allranks.cluster import pod_selection as podset
    from allranks.model.rank_lines import ALL, LineSelection

    cluster_target = target.on_cluster()
    selection = pod_choice.check_selection(LineSelection(rank, node, role))
    pods, ranks = pod_choice.select_pods(name, cluster_target, selection)
    if selection == ALL:
        pods = ranks.leading(pods)
    running = [pod for pod in pods if podset.is_running(pod)]
    if not running:
        raise NotFoundError(
            f"no pod of run {name!r} that was asked for is running",
            hint=f"`{names.CLI} status {name} -n {cluster_target.namespace}` shows them",
        )
    pod = running[-1]
    if tty and not (sys.stdin.isatty() and sys.stdout.isatty()):
        console.note("there is no terminal here; going on without one")
        tty = False
    code = cluster_target.cluster.exec(
        pod["metadata"]["name"],
        command,
        namespace=cluster_target.namespace,
        container=container or podset.main_container(pod),
        stdin=stdin,
        terminal=tty,
    )
    raise click.exceptions.Exit(code)
