"""`allranks azure down`, `reap` and `cron`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.azure import shared
from allranks.errors import EXIT_FAILED

if TYPE_CHECKING:
    from allranks.azure.engine import Engine
    from allranks.azure.observed import Group, Observed
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

    \b
    Example:
      allranks azure down
      allranks azure down --keep-storage
    """
    from allranks.azure import diff
    from allranks.azure.engine import Engine, node_group_of
    from allranks.azure.observed import observe

    arm, waits = shared.connect(settings.where, console)

    def look() -> Observed:
        return observe(arm, settings, (), resources=True)

    observed = look()
    plan = diff.removal(
        settings.name, observed, keep_storage=keep_storage, group_name=settings.group
    )
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
    engine = Engine(arm, waits, console.note, timeout or shared.TIMEOUT)
    machines = node_group_of(observed, settings)
    with shared.working(console, engine, f"{shared.COMMAND} down"):
        engine.down(settings.name, look, keep_storage=keep_storage)
        if not engine.wait_for_node_group(machines):
            console.note(
                f"resource group {machines}, which AKS has made, is still there: look at it in "
                "the portal"
            )
    _forget(settings, kubeconfig)
    removed = [action.as_dict() for action in plan.actions]
    if output == "json":
        console.json({"ok": True, "name": settings.name, "removed": removed})
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
        rest = kubeconfig.without(data, settings.cluster, user)
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
        for group in groups:
            _reap(engine, arm, group, wait=not no_wait)
    gone = [{"name": group.tags[TAG_NAME], "resourceGroup": group.name} for group in groups]
    if output == "json":
        console.json({"ok": True, "removed": gone})
        return
    for item in gone:
        console.text(f"{item['name']} {'goes' if no_wait else 'is gone'}")


def _reap(engine: Engine, arm: Arm, group: Group, *, wait: bool) -> None:
    from allranks.azure.desired import TAG_NAME
    from allranks.azure.engine import look_by_group

    cluster = look_by_group(arm, group.name).cluster
    engine.down(group.tags[TAG_NAME], lambda: look_by_group(arm, group.name), wait=wait)
    if wait and cluster is not None and cluster.node_group:
        engine.wait_for_node_group(cluster.node_group)


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

    console.raw(cron.manifests(settings, None, image, client_id, namespace))
