"""`allranks azure down`, `reap` and `cron`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.azure import shared
from allranks.errors import EXIT_FAILED, AllranksError, InputError

if TYPE_CHECKING:
    from allranks.azure.actions import Plan
    from allranks.azure.engine import Engine
    from allranks.azure.observed import Observed, ResourceGroup
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings, Subscription
    from allranks.cli.console import Console


@click.command("down", short_help="Remove what was made, and wait until it is gone.")
@shared.file_option
@click.option("--keep-storage", is_flag=True, help="Leave the storage account and its data.")
@shared.yes_option("Do not ask; data goes for good.")
@click.option("--kubeconfig", default=None, metavar="FILE", help="The kubeconfig to change.")
@options.timeout_option("How long to wait in all.", shared.TIMEOUT)
@options.output_option("text", "json")
@options.pass_console
def down_command(
    console: Console,
    /,
    *,
    settings: Settings,
    keep_storage: bool,
    yes: bool,
    kubeconfig: str | None,
    timeout: float | None,
    output: str,
) -> None:
    """Remove what carries our tag, and wait until it is gone.

    It is shown and asked for first. A resource group without our tag is never touched. Where all in
    the group is ours, the group goes in one request, which Azure carries out whatever becomes of
    this program; where something else stands in it, that and the group stay. The second group,
    MC_…, which AKS has made for the machines and disks, goes with the cluster and is waited for.

    Azure may not show at once what an `up` has made that was stopped a moment ago. So where there
    is nothing to remove, Azure is asked again for two minutes before that is said.

    \b
    Example:
      allranks azure down
      allranks azure down --keep-storage
    """
    from allranks.azure import diff
    from allranks.azure.engine import Engine, node_group_of
    from allranks.azure.observe import observe

    arm, waits = shared.connect(settings.where, console)

    def look() -> Observed:
        return observe(arm, settings, (), resources=True)

    def removal(observed: Observed) -> Plan:
        return diff.removal(
            settings.name, observed, keep_storage=keep_storage, group_name=settings.group
        )

    def is_something(observed: Observed) -> bool:
        plan = removal(observed)
        return bool(plan.actions or plan.refusals)

    engine = Engine(arm, waits, console.note, timeout or shared.TIMEOUT)
    with shared.working(console, engine, f"{shared.COMMAND} down"):
        observed = engine.find(look, is_something)
    plan = removal(observed)
    if output == "text" and plan.entries:
        shared.show(console, plan)
    elif output == "text":
        for note in plan.notes:
            console.note(note)
    shared.refuse(plan)
    if plan.removals and not shared.confirm(
        console, f"remove this from {settings.group}?", yes=yes
    ):
        raise click.exceptions.Exit(EXIT_FAILED)
    machines = node_group_of(observed, settings)
    with shared.working(console, engine, f"{shared.COMMAND} down"):
        if plan.actions:
            engine.down(settings.name, look, keep_storage=keep_storage)
        _forget(settings, kubeconfig)
        engine.wait_for_node_group(machines)
    actions = [action.as_dict() for action in plan.actions]
    if output == "json":
        console.json({"ok": True, "name": settings.name, "removed": actions})
    else:
        console.text(f"{settings.name} is gone" if plan.actions else "there was nothing to remove")


def _forget(settings: Settings, file: str | None) -> None:
    """Take the cluster's context out of the kubeconfig."""
    from allranks.azure import kubeconfig

    path = kubeconfig.path(file)
    user = kubeconfig.user_name(settings.group, settings.cluster)
    if not path.exists():
        return
    with kubeconfig.changing(path) as data:
        rest = kubeconfig.remove_context(data, settings.cluster, user)
        data.clear()
        data.update(rest)


@click.command("reap", short_help="Remove whatever is past its time.")
@shared.subscription_options
@click.option("--only", default="", metavar="NAME", help="Look at what is called so alone.")
@shared.yes_option("Do not ask; data goes for good.")
@click.option("--no-wait", is_flag=True, help="Return when Azure has begun; it goes on by itself.")
@options.timeout_option("How long to wait in all.", shared.TIMEOUT)
@options.output_option("text", "json")
@options.pass_console
def reap_command(
    console: Console,
    /,
    *,
    where: Subscription,
    only: str,
    yes: bool,
    no_wait: bool,
    timeout: float | None,
    output: str,
) -> None:
    """Remove whatever allranks has made in a subscription and whose time (maxHours) is over.

    The time is compared with Azure's own clock. What has no time, and what others have made, is
    never removed. `allranks azure cron` prints a CronJob that does this inside the cluster.

    \b
    Example:
      allranks azure reap
      allranks azure reap --subscription ID --yes
    """
    from allranks.azure import diff
    from allranks.azure.cost_guard import is_expired
    from allranks.azure.desired import TAG_NAME
    from allranks.azure.engine import Engine, look_by_group

    arm, waits = shared.connect(where, console)
    groups = [group for group in arm.groups() if is_expired(group, arm.now())]
    groups = [group for group in groups if only in ("", group.tags[TAG_NAME])]
    for group in groups:
        plan = diff.removal(group.tags[TAG_NAME], look_by_group(arm, group.name))
        if output == "text":
            shared.show(console, plan)
    if not groups:
        if output == "json":
            console.json({"ok": True, "removed": []})
        else:
            console.text("nothing is past its time")
        return
    if not shared.confirm(console, "remove this?", yes=yes):
        raise click.exceptions.Exit(EXIT_FAILED)
    engine = Engine(arm, waits, console.note, timeout or shared.TIMEOUT)
    with shared.working(console, engine, f"{shared.COMMAND} reap"):
        gone, failed = _reap(console, engine, arm, groups, wait=not no_wait)
    removed = [{"name": group.tags[TAG_NAME], "resourceGroup": group.name} for group in gone]
    problems = [problem for error in failed for problem in error.problems]
    if output == "json":
        failures = [problem.as_dict() for problem in problems]
        more = {"problems": failures} if failures else {}
        console.json({"ok": not failures, "removed": removed, **more})
    else:
        for item in removed:
            console.text(f"{item['name']} {'goes' if no_wait else 'is gone'}")
        for problem in problems:
            console.problem(problem)
    if failed:
        raise click.exceptions.Exit(EXIT_FAILED)


def _reap(
    console: Console, engine: Engine, arm: Arm, groups: list[ResourceGroup], *, wait: bool
) -> tuple[list[ResourceGroup], list[AllranksError]]:
    """Remove what has expired: all is begun before any of it is waited for.

    Returns:
        What goes or is gone, and why the others are not.
    """
    from allranks.azure.desired import TAG_NAME
    from allranks.azure.engine import look_by_group

    going: list[tuple[ResourceGroup, str]] = []
    gone: list[ResourceGroup] = []
    failed: list[AllranksError] = []

    def down(group: ResourceGroup, *, wait: bool) -> None:
        name = group.tags[TAG_NAME]
        engine.down(name, lambda: look_by_group(arm, group.name), wait=wait, is_begun=wait)

    for group in groups:
        try:
            observed = look_by_group(arm, group.name)
            if not _is_still_expired(observed):
                console.note(f"{group.tags[TAG_NAME]} has been given more time, and stays")
                continue
            down(group, wait=False)
        except AllranksError as error:
            failed.append(error)
        else:
            cluster = observed.cluster
            going.append((group, cluster.node_group if cluster is not None else ""))
    for group, machines in going:
        try:
            if wait:
                down(group, wait=True)
            if wait and machines:
                engine.wait_for_node_group(machines)
        except AllranksError as error:
            failed.append(error)
        else:
            gone.append(group)
    return gone, failed


def _is_still_expired(observed: Observed) -> bool:
    """Whether a group's time is over now: `up` may have given it more since it was asked for."""
    from allranks.azure.cost_guard import is_expired
    from allranks.azure.observed import DELETING

    group = observed.group
    return group is None or group.state == DELETING or is_expired(group, observed.now)


@click.command("cron", short_help="Print a CronJob that reaps inside the cluster.")
@shared.file_option
@click.option("--image", required=True, metavar="IMAGE", help="One with allranks[azure] in it.")
@click.option(
    "--client-id", default="", metavar="ID", help="Of the identity; the head says how to make it."
)
@options.namespace_option
@options.pass_console
def cron_command(
    console: Console, /, *, settings: Settings, image: str, client_id: str, namespace: str
) -> None:
    """Print a CronJob that removes the resource group when its time is over, from inside.

    It logs in as a workload identity: there is no key anywhere. The commands that make the
    identity, once, stand in the head of what is printed. Nothing is asked of Azure.

    \b
    Example:
      allranks azure cron --image IMAGE --client-id ID | kubectl apply -f -
    """
    from allranks.azure import cron

    try:
        client_id = str(uuid.UUID(client_id)) if client_id else ""
    except ValueError as error:
        raise InputError(
            f"{client_id!r} is not the client id of an identity",
            path="--client-id",
            hint="`az identity show --query clientId` prints it; without the flag the head of what "
            "is printed says how the identity is made",
        ) from error
    console.raw(cron.manifests(settings, None, image, client_id, namespace))
