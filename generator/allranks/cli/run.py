"""`allranks run`: a job from its values file to its end, on a cluster or on this machine.

The exit code is the job's own, so that a script can go on from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import durations, options, pipeline
from allranks.cli.target import target_options
from allranks.errors import InputError

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.values.sources import Sources


@click.command("run", short_help="Run a job and follow it to its end.")
@options.release_argument
@options.values_options
@target_options
@options.helm_option
@click.option("--detach", is_flag=True, help="Return when it has started; it goes on by itself.")
@click.option("--replace", is_flag=True, help="Remove a run of the same name first.")
@click.option(
    "--logs",
    type=click.Choice(["lead", "all", "none"]),
    default="lead",
    show_default=True,
    help="Which logs to show: 'lead' is rank 0's or the launcher's. On a cluster.",
)
@durations.timeout_option("Stop following after this time; the job goes on. On a cluster.")
@click.option("--nodes-from-cluster", is_flag=True, help="Fit the job to the cluster's free nodes.")
@click.option(
    "--workdir",
    metavar="DIR",
    type=click.Path(),
    help="Where the programs start, with --on local. Default: the first values file's folder.",
)
@options.output_option("text", "json")
@options.pass_console
def run_command(
    console: Console,
    *,
    name: str,
    sources: Sources,
    target: Target,
    detach: bool,
    replace: bool,
    logs: str,
    timeout: float | None,
    nodes_from_cluster: bool,
    workdir: str | None,
    output: str,
) -> None:
    """Run the job NAME and follow it to its end.

    On a cluster it is a Helm release of this name. Ctrl-C leaves the job there and ends the
    following only; `allranks delete` ends the job.

    With --on local its pods are processes of this machine, with real torchrun or mpirun, and the
    image is not used. Ctrl-C stops the job.

    Each line of the log starts with its rank. The exit code is the job's own: 0, or that of the
    rank that failed first; 130 after Ctrl-C.

    \b
    Example:
      allranks run demo -f values.yaml
      allranks run demo -f values.yaml -n research --detach
      allranks run demo -f values.yaml --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    site = target.site(console)
    if site is None:
        from allranks.cli import localrun  # noqa: PLC0415 - a cluster's runs do not need it

        if nodes_from_cluster:
            raise InputError("is for a cluster", path="--nodes-from-cluster", hint="leave it out")
        folder = localrun.workdir(workdir, sources)
        prepared = pipeline.prepare(
            sources, release=name, namespace=target.local_namespace, is_local=True
        )
        raise click.exceptions.Exit(
            localrun.run(
                console,
                prepared,
                name,
                target,
                folder,
                detach=detach,
                replace=replace,
                output=output,
            )
        )
    from allranks.cli import clusterrun  # noqa: PLC0415 - local runs do not need it

    if workdir is not None:
        raise InputError(
            "is for --on local: a pod starts in its image's folder",
            path="--workdir",
            hint="set workingDir in the values",
        )
    fit = pipeline.Fit("", nodes_from_cluster, target.context, target.kubeconfig)
    prepared = pipeline.prepare(sources, release=name, namespace=site.namespace, fit=fit)
    plan = clusterrun.Plan(
        detach=detach, replace=replace, logs=logs, timeout=timeout, output=output
    )
    raise click.exceptions.Exit(clusterrun.run(console, prepared, site.home(name), site, plan))
