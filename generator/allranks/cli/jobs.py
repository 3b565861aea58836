"""`allranks status | list | delete | wait`: what runs, how it goes, and its end."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import durations, options, statusview
from allranks.cli.target import run_argument, target_options
from allranks.errors import EXIT_FAILED, EXIT_INTERRUPTED, InputError
from allranks.model.status import Phase

if TYPE_CHECKING:
    from allranks.cli.console import Console
    from allranks.cli.target import Site, Target
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation

_DELETE_SECONDS = 300.0
_POLL_SECONDS = 0.5


@click.command("status", short_help="Show how a run is doing.")
@run_argument
@target_options
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Show the phase of run NAME, its pods, what it waits for, and what failed first.

    \b
    Example:
      allranks status demo
      allranks status demo -n research -o json
      allranks status demo --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    site = target.site(console)
    status = _local_status(name, target) if site is None else cluster_status(name, site)
    if output == "json":
        console.json(status.as_dict())
    else:
        statusview.show(console, status, time.time())


def cluster_status(name: str, site: Site) -> RunStatus:
    """The status of a run on a cluster, with the last lines of what failed first.

    Raises:
        NotFoundError: there is no such run.
        AllranksError: the cluster does not answer, or forbids it.
    """
    return _look(name, site)[1]


def _look(name: str, site: Site) -> tuple[Observation, RunStatus]:
    from allranks.cli import following  # noqa: PLC0415 - only for a cluster
    from allranks.cluster.observe import observe  # noqa: PLC0415
    from allranks.status.reduce import reduce  # noqa: PLC0415

    seen = observe(site.cluster, name, site.namespace)
    return seen, following.explain(site.cluster, seen, reduce(seen))


def _local_status(name: str, target: Target) -> RunStatus:
    from allranks.local import control  # noqa: PLC0415 - only for this machine

    return control.status(name, target.local_namespace)


def _local_goes_on(name: str, target: Target) -> bool:
    from allranks.local import control  # noqa: PLC0415 - only for this machine

    return control.goes_on(name, target.local_namespace)


@click.command("list", short_help="List the runs.")
@target_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@options.output_option("table", "json")
@options.pass_console
def list_command(console: Console, *, target: Target, all_namespaces: bool, output: str) -> None:
    """List the runs of a namespace, or of this machine; the finished ones too.

    \b
    Example:
      allranks list
      allranks list -A -o json
      allranks list --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    found = runs(target, target.site(console), everywhere=all_namespaces)
    if output == "json":
        console.json([run.as_dict() for run in found])
    elif found:
        statusview.table(console, found, time.time())
    else:
        console.note("there are no runs")


def runs(target: Target, site: Site | None, *, everywhere: bool) -> list[RunStatus]:
    """The runs of a namespace or of all, or of this machine.

    Raises:
        NotFoundError: there is no such namespace.
        AllranksError: the cluster does not answer, or forbids it.
    """
    if site is None:
        from allranks.local import control  # noqa: PLC0415 - only for this machine

        here = control.list_runs()
        return [run for run in here if target.namespace in {"", run.namespace}]
    from allranks.cli import ending  # noqa: PLC0415 - only for a cluster
    from allranks.cluster.observe import observe_all  # noqa: PLC0415
    from allranks.cluster.refusals import namespace_missing  # noqa: PLC0415
    from allranks.status.reduce import reduce  # noqa: PLC0415

    seen = observe_all(site.cluster, None if everywhere else site.namespace)
    if not seen and not everywhere and not ending.namespace_there(site.cluster, site.namespace):
        raise namespace_missing(site.namespace)
    return [reduce(one) for one in seen]


@click.command("delete", short_help="Stop a run and remove it.")
@run_argument
@target_options
@options.helm_option
@durations.timeout_option("How long to wait until its pods are gone.", _DELETE_SECONDS)
@options.output_option("text", "json")
@options.pass_console
def delete_command(
    console: Console, *, name: str, target: Target, timeout: float, output: str
) -> None:
    """Stop run NAME, if it goes on, and remove all of it.

    Volumes whose values say `keep: true` stay; what stays is named, with how to remove it.

    \b
    Example:
      allranks delete demo
      allranks delete demo --on local
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    site = target.site(console)
    if site is None:
        from allranks.local import control  # noqa: PLC0415 - only for this machine

        deleted = control.delete(name, target.local_namespace)
        removed, kept = list(deleted.removed), list(deleted.kept)
        hint = shlex.join(["rm", "-r", *map(str, deleted.folders)]) if kept else ""
    else:
        from allranks.cli import ending  # noqa: PLC0415 - only for a cluster

        gone = ending.delete(site.cluster, site.home(name), timeout=timeout)
        removed, kept = list(map(str, gone.removed)), list(map(str, gone.kept))
        if gone.lost:
            console.note(
                f"the cluster no longer has the kind of {', '.join(gone.lost)}, and helm cannot "
                "remove such a release: its objects and helm's record were removed without helm"
            )
        hint = ending.how_to_remove(site.namespace, gone.kept) if kept else ""
    if output == "json":
        console.json({"removed": removed, "kept": kept})
        return
    console.text(f"deleted {name}")
    for one in kept:
        console.text(f"  kept {one}")
    if hint:
        console.text(f"  remove it with: {hint}")


@click.command("wait", short_help="Wait for a run to succeed or to fail.")
@run_argument
@target_options
@click.option(
    "--for",
    "phase",
    type=click.Choice(["succeeded", "failed"]),
    default="succeeded",
    show_default=True,
    help="The end that is waited for.",
)
@durations.timeout_option("Give up after this time.")
@options.output_option("text", "json")
@options.pass_console
def wait_command(
    console: Console, *, name: str, target: Target, phase: str, timeout: float | None, output: str
) -> None:
    """Wait until run NAME has succeeded, or has failed.

    Exit code: 0 when that end was reached, 1 when the run ended the other way or the time was over.

    \b
    Example:
      allranks wait demo --for succeeded --timeout 2h
      allranks wait demo --for failed --timeout 10m
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    site = target.site(console)
    try:
        status = (
            _local_end(name, target, timeout)
            if site is None
            else cluster_end(console, name, site, timeout)
        )
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    reached = status.phase is (Phase.SUCCEEDED if phase == "succeeded" else Phase.FAILED)
    if output == "json":
        console.json(status.as_dict())
    elif reached:
        console.text(f"{name} {phase}")
    else:
        statusview.show(console, status, time.time())
    raise click.exceptions.Exit(0 if reached else EXIT_FAILED)


def cluster_end(console: Console, name: str, site: Site, timeout: float | None) -> RunStatus:
    """Wait for the end of a run on a cluster.

    Raises:
        NotFoundError: there is no such run.
        RunError: the time is over, or the run was deleted meanwhile.
    """
    from allranks.cli import following  # noqa: PLC0415 - only for a cluster

    seen, status = _look(name, site)
    if status.finished:
        return status
    how = following.How(logs="none", timeout=timeout, quiet=True).of(seen)
    return following.follow(console, site.cluster, name, site.namespace, how)


def _local_end(name: str, target: Target, timeout: float | None) -> RunStatus:
    deadline = None if timeout is None else time.monotonic() + timeout
    while not (status := _local_status(name, target)).finished:
        if not _local_goes_on(name, target):
            raise InputError(
                f"run {name!r} was suspended from its start: no process of it is here",
                hint="run it again without runPolicy.suspend",
            )
        if deadline is not None and time.monotonic() >= deadline:
            from allranks.errors import RunError  # noqa: PLC0415

            raise RunError(
                f"{name} is {status.phase} after {statusview.length(timeout or 0)}; it goes on",
                hint=f"`{names.CLI} status {name} --on local` shows how it does",
            )
        time.sleep(_POLL_SECONDS)
    return status
