"""`allranks checkpoint`: have the ranks of a run save now, and go on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import InputError, RunError
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.workspace.saves import SavingPod

_SECONDS = 30.0


@click.command("checkpoint", short_help="Have the ranks of a run save now, and go on.")
@run_argument
@target_options
@options.timeout_option("How long each pod may take to answer.", _SECONDS)
@options.output_option("text", "json")
@options.pass_console
def checkpoint_command(
    console: Console, *, name: str, target: Target, timeout: float, output: str
) -> None:
    """Ask every rank of run NAME to save a checkpoint now; the training goes on.

    A training hears of it by `should_save()` of allranks_progress, by the file that
    ALLRANKS_SAVE_FILE names, or by the signal of runPolicy.checkpointSignal. When it has saved, and
    says so, `allranks status` shows the step.

    \b
    Example:
      allranks checkpoint demo
      allranks checkpoint demo --on local -o json
    """
    from allranks.workspace.saves import ask_all

    cluster_target = target.cluster_target(console)
    pods: Sequence[SavingPod]
    if cluster_target is None:
        from allranks.local import runs as local_runs

        pods = local_runs.saving_pods(name, target.local_namespace)
        is_running = bool(pods) or local_runs.goes_on(name, target.local_namespace)
    else:
        from allranks.cluster.saves import saving_pods

        pods = saving_pods(cluster_target.cluster, cluster_target.namespace, name)
        is_running = bool(pods)
    if not is_running:
        raise InputError(
            f"no pod of run {name!r} is running, so nothing can be saved",
            hint=f"`{names.CLI} status {name}` shows how it is doing",
        )
    answers = ask_all(pods, time.time_ns(), seconds=timeout)
    ranks = sum(answer.ranks for answer in answers)
    signalled = sum(answer.signalled for answer in answers)
    problems = [f"{answer.pod}: {answer.problem}" for answer in answers if answer.problem]
    if output == "json":
        console.json(
            {"pods": len(answers), "ranks": ranks, "signalled": signalled, "problems": problems}
        )
    elif ranks:
        by_signal = f", {signalled} of them by the signal" if signalled else ""
        console.text(
            f"asked {plural(ranks, 'rank')} in {plural(len(answers), 'pod')} to save{by_signal}"
        )
    if problems:
        raise RunError(
            f"{plural(len(problems), 'pod')} of {len(answers)} could not be asked: "
            f"{list_some(problems, joint='; ')}",
            hint="if a right is missing, ask for a Role with get and create on pods/exec",
        )
    if not ranks:
        raise RunError(
            f"no rank of run {name!r} runs: none has begun yet, or all have ended",
            hint="ask again once they train; a run of an earlier version cannot be asked",
        )
