"""`allranks azure deploy`: a job on the cluster of an azure.yaml, with its shares as volumes."""

from __future__ import annotations

import base64
import contextlib
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli.commands.azure.upload import needing_sdks
from allranks.cli.run_options import job_options
from allranks.cli.target import only_cluster_options
from allranks.errors import AllranksError, InputError
from allranks.k8s import fields

if TYPE_CHECKING:
    from allranks.azure.settings import Settings
    from allranks.cli.console import Console
    from allranks.cli.run_options import RunOptions
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cli.workspace import WorkspaceFlags
    from allranks.values.queue import Queue
    from allranks.values.sources import Sources

# Volumes that a share of the same name becomes.
_VOLUMES = ("datasets", "checkpoints")
_SECRET = "allranks-azure-"  # noqa: S105 - the beginning of a name


@click.command("deploy", short_help="Run a job on the cluster, with the shares as volumes.")
@job_options(only_cluster_options)
@click.option(
    "--azure-file",
    default="azure.yaml",
    show_default=True,
    metavar="FILE",
    type=click.Path(),
    help="Whose cluster and shares.",
)
@click.option("--operator", is_flag=True, help="Install the operator first, where there is none.")
@click.option(
    "-q",
    "--queue",
    default="",
    metavar="NAME",
    help="Take the settings of a queue of the namespace, and keep to its rules.",
)
@click.option(
    "--queue-values",
    default="",
    metavar="FILE",
    type=click.Path(),
    help="Install queue -q with these values first, or bring it to them.",
)
@options.pass_console
def deploy_command(
    console: Console,
    /,
    *,
    name: str,
    sources: Sources,
    workspace: WorkspaceFlags,
    target: Target,
    run_options: RunOptions,
    dry_run: bool,
    azure_file: str,
    operator: bool,
    queue: str,
    queue_values: str,
) -> None:
    """Run the job NAME on the cluster that `up` made, as `allranks run` does.

    Shares of azure.yaml that are called datasets and checkpoints become storage.datasets and
    storage.checkpoints, where the values say nothing of these. Their driver needs a key of the
    account: it is read from Azure, and written into the Secret allranks-azure-ACCOUNT of the
    namespace alone. All of the values is checked before anything is made.

    \b
    Example:
      allranks azure deploy mnist -f values.yaml
      allranks azure deploy mnist -f values.yaml --operator -q team --queue-values queue.yaml
    """
    from allranks.azure import settings as azure_settings
    from allranks.cli.commands import run
    from allranks.service import prepare
    from allranks.values.sources import load_sources

    settings = azure_settings.load(azure_file)
    target = _on_its_cluster(target, settings)
    cluster_target = target.on_cluster()
    space = cluster_target.namespace
    sources = _with_queue(sources, target, queue, queue_values)
    volumes = _volumes(settings, load_sources(sources).values)
    sources = _with_shares(sources, settings, volumes)
    prepared = prepare.prepare(sources, release=name, namespace=space)
    packed = workspace.pack(prepared.loaded.values, console=console)
    for volume in volumes:
        console.note(f"storage.{volume} is share {volume} of account {settings.account}")
    if dry_run:
        run.show_dry_run(
            console, prepared, packed, name=name, namespace=space, output=run_options.output
        )
        return
    if operator:
        _install_operator(console, target)
    if queue_values:
        _call(console, "queue", ["install", queue, "-f", queue_values], target)
    if volumes:
        _write_secret(cluster_target, settings)
    raise click.exceptions.Exit(
        run.run_on_cluster(
            console,
            prepared,
            name,
            cluster_target,
            run_options,
            workspace=packed,
        )
    )


def _on_its_cluster(target: Target, settings: Settings) -> Target:
    """The target with the context that `up` has made, where no other is named.

    Raises:
        InputError: there is no such context.
    """
    from allranks.cluster import kubeconfig

    if target.context:
        return target
    try:
        kubeconfig.find(target.kubeconfig or None, settings.cluster)
    except InputError as error:
        raise InputError(
            f"no kubeconfig has the context {settings.cluster} of this cluster",
            path="--context",
            hint=f"`{names.CLI} azure up` makes the cluster, and `{names.CLI} azure kubeconfig` "
            "fetches its context; or name another with --context",
        ) from error
    return replace(target, context=settings.cluster)


def _with_queue(sources: Sources, target: Target, name: str, values: str) -> Sources:
    from allranks.cli import queue_source
    from allranks.service import queues

    if values and not name:
        raise InputError("needs the queue's name", path="--queue-values", hint="add -q NAME")
    if not name:
        return sources
    queue: Queue
    if values:
        queues.check_name(name, "--queue")
        queue = queues.from_file(values, name)
    else:
        place = queue_source.QueueNamespace(target.namespace, target.context, target.kubeconfig)
        queue = queue_source.read(name, "", sources, place)
    return replace(sources, queue=queue)


def _volumes(settings: Settings, values: dict[str, Any]) -> list[str]:
    """The volumes that shares become, because the values, checked or not, say nothing of them."""
    from allranks.values.rules import azure

    shares = {share.name for share in settings.shares}
    keys = ("existingClaim", "size", "sizePerGpu", *azure.NAMES)
    return [
        name
        for name in _VOLUMES
        if name in shares
        and not any(fields.mapping(values, "storage", name).get(key) for key in keys)
    ]


def _with_shares(sources: Sources, settings: Settings, volumes: list[str]) -> Sources:
    flags = [
        ("set-string", f"storage.{volume}.azureFile.{key}={value}")
        for volume in volumes
        for key, value in {
            "shareName": volume,
            "storageAccount": settings.account,
            "resourceGroup": settings.group,
            "secretName": f"{_SECRET}{settings.account}",
        }.items()
    ]
    return replace(sources, sets=(*flags, *sources.sets))


def _install_operator(console: Console, target: Target) -> None:
    from allranks.cluster import operator

    cluster_target = target.on_cluster()
    if operator.find(cluster_target.cluster, names.CLI, cluster_target.namespace) is not None:
        console.note("there is an operator already")
        return
    _call(console, "operator", ["install"], target)


def _call(console: Console, group: str, words: list[str], target: Target) -> None:
    """Call another command of ours, at the same target; the output is the run's alone.

    Raises:
        AllranksError: as the command does.
    """
    from allranks.cli import main

    flags = {
        "-n": target.namespace,
        "--context": target.context,
        "--kubeconfig": target.kubeconfig,
        "--helm": target.helm,
    }
    arguments = [word for flag, value in flags.items() if value for word in (flag, value)]
    command = main.cli.get_command(click.get_current_context(), group)
    assert command is not None  # noqa: S101 - it is one of ours
    with contextlib.redirect_stdout(sys.stderr):
        command.main([*words, *arguments], standalone_mode=False, obj=console)


def _write_secret(cluster_target: ClusterTarget, settings: Settings) -> None:
    """Write the account's key where the driver reads it.

    Raises:
        MissingToolError: Azure's SDKs are not installed.
        AllranksError: Azure or the cluster forbids it.
    """
    with needing_sdks():
        from allranks.azure.sdk import keys
    from allranks.cluster import paths

    account = settings.account
    key = keys.account_key(settings.where, settings.group, account)
    name = f"{_SECRET}{account}"
    pairs = {"azurestorageaccountname": account, "azurestorageaccountkey": key}
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "labels": {names.APP_MANAGED_BY: names.CLI}},
        "type": "Opaque",
        "data": {item: base64.b64encode(text.encode()).decode() for item, text in pairs.items()},
    }
    space = cluster_target.namespace
    try:
        cluster_target.cluster.patch(
            paths.SECRETS, name, manifest, namespace=space, kind="apply", manager=names.CLI
        )
    except AllranksError as error:
        if error.problem.hint:
            raise
        raise InputError(
            error.problem.message, hint=f"`kubectl create namespace {space}` where there is none"
        ) from error
