"""`allranks azure init`, `plan`, `up` and `kubeconfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.azure import shared, view
from allranks.errors import EXIT_FAILED, EXIT_INPUT, InvalidValues

if TYPE_CHECKING:
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings
    from allranks.cli.console import Console


@click.command("init", short_help="Print a commented azure.yaml to start from.")
@click.option("--name", default="", metavar="NAME", help="What the whole is called.")
@click.option("--subscription", default="", metavar="ID", help="The subscription's id.")
@click.option("--region", default="", metavar="REGION", help="Where, such as westeurope.")
@options.pass_console
def init_command(console: Console, /, *, name: str, subscription: str, region: str) -> None:
    """Print a commented azure.yaml to start from: its values are the defaults of all keys.

    \b
    Example:
      allranks azure init --name demo > azure.yaml
    """
    from allranks.azure import settings

    settings.check_starter(name, subscription, region)
    console.raw(settings.starter(name, subscription, region))


@click.command("plan", short_help="Show what is there, and what would be done.")
@shared.file_option
@options.output_option("text", "json", "bicep", "az")
@options.pass_console
def plan_command(console: Console, /, *, settings: Settings, output: str) -> None:
    """Show what is there, and what `up` would make, change and remove. Nothing is changed.

    Region, sizes of machines, version, quota of vCPUs and names are asked for, so that what Azure
    would refuse in ten minutes is refused now, with exit code 2. -o az prints the commands that do
    the same by hand, and -o bicep a file that deploys it; neither asks Azure anything. Both can
    give the roles on the storage account, too, which `up` does not.

    \b
    Example:
      allranks azure plan
      allranks azure plan -o bicep > main.bicep
    """
    if output in ("bicep", "az"):
        console.raw(_by_hand(settings, output))
        return
    from allranks.azure import plans

    plan = plans.up(shared.connect(settings.where, console)[0], settings)
    if output == "json":
        console.json({"ok": not plan.refusals, **plan.as_dict(), "roles": _roles(settings)})
    else:
        shared.show(console, plan)
        if plan.refusals:
            raise InvalidValues(plan.refusals)
    if plan.refusals:
        raise click.exceptions.Exit(EXIT_INPUT)


def _roles(settings: Settings) -> list[dict[str, object]]:
    """The roles that `up` does not give, as JSON-ready data."""
    from allranks.azure import roles

    return [grant.as_dict() for grant in roles.grants(settings)]


def _show_roles(console: Console, settings: Settings) -> None:
    """Write the commands that give the roles, for who needs them."""
    from allranks.azure import roles

    console.text("roles are given by an owner of the subscription, where they are needed:")
    for grant in roles.grants(settings):
        console.text(f"  {grant.purpose}: {grant.role}")
        for command in grant.commands:
            console.text(f"    {command}")


def _by_hand(settings: Settings, output: str) -> str:
    from allranks.azure import by_hand

    return by_hand.bicep(settings) if output == "bicep" else by_hand.az(settings)


@click.command("up", short_help="Make what is not there, and wait until it is.")
@shared.file_option
@shared.yes_option("Do not ask; machines cost money from then on.")
@click.option("--kubeconfig", default=None, metavar="FILE", help="The kubeconfig to change.")
@click.option("--overwrite", is_flag=True, help="Replace a context of another cluster.")
@options.timeout_option("How long to wait in all.", shared.TIMEOUT)
@options.output_option("text", "json")
@options.pass_console
def up_command(
    console: Console,
    /,
    *,
    settings: Settings,
    yes: bool,
    kubeconfig: str | None,
    overwrite: bool,
    timeout: float | None,
    output: str,
) -> None:
    """Make the resource group, the AKS cluster, its node pools and the storage; wait for all.

    The plan is shown and asked for first. Given again, it changes what differs; after a Ctrl-C or a
    kill it goes on where Azure is. The time after which `reap` removes it (maxHours) counts from
    when the group was made, by Azure's clock. At the end the cluster's context is in the
    kubeconfig. Roles are given by an owner: those that somebody may need are shown with their
    commands.

    \b
    Example:
      allranks azure up
      allranks azure up -f azure.yaml --yes -o json
    """
    from allranks.azure import plans
    from allranks.azure.actions import ResourceKind, Verb
    from allranks.azure.engine import Engine

    arm, waits = shared.connect(settings.where, console)
    plan = plans.up(arm, settings)
    if output == "text":
        shared.show(console, plan)
    shared.refuse(plan)
    if plan.actions and not shared.confirm(console, f"make this in {settings.group}?", yes=yes):
        raise click.exceptions.Exit(EXIT_FAILED)
    engine = Engine(arm, waits, console.note, timeout or shared.TIMEOUT)
    with shared.working(console, engine, f"{shared.COMMAND} up"):
        observed = engine.up(settings)
    context = _merge(arm, settings, kubeconfig, overwrite=overwrite, switch=True)
    if output == "json":
        status = view.status(settings, observed)
        console.json({"ok": True, **status, "context": context, "roles": _roles(settings)})
        return
    console.text(f"{settings.name} is there; the context is {context}")
    for line in (
        f"{shared.COMMAND} status",
        f"kubectl --context {context} get nodes",
        f"{shared.COMMAND} down",
    ):
        console.command(line)
    if any(
        action.kind is ResourceKind.ACCOUNT and action.verb is Verb.MAKE for action in plan.entries
    ):
        _show_roles(console, settings)


def _merge(arm: Arm, settings: Settings, file: str | None, *, overwrite: bool, switch: bool) -> str:
    """Put the cluster's context into the kubeconfig; return its name."""
    from allranks.azure import kubeconfig

    fresh = kubeconfig.parse(arm.kubeconfig(settings.group, settings.cluster))
    with kubeconfig.changing(kubeconfig.path(file)) as data:
        merged = kubeconfig.merge(data, fresh, overwrite=overwrite, switch=switch)
        data.clear()
        data.update(merged.data)
    return merged.context


@click.command("kubeconfig", short_help="Put the cluster's context into the kubeconfig.")
@shared.file_option
@click.option("--kubeconfig", default=None, metavar="FILE", help="The kubeconfig to change.")
@click.option("--overwrite", is_flag=True, help="Replace a context of another cluster.")
@click.option("--no-switch", is_flag=True, help="Leave the current context as it is.")
@click.option("--print", "to_print", is_flag=True, help="Print it, and change no file.")
@options.output_option("text", "json")
@options.pass_console
def kubeconfig_command(
    console: Console,
    /,
    *,
    settings: Settings,
    kubeconfig: str | None,
    overwrite: bool,
    no_switch: bool,
    to_print: bool,
    output: str,
) -> None:
    """Put the cluster's context into the kubeconfig, as `up` does at its end.

    The file is that of --kubeconfig, else the first of KUBECONFIG, else ~/.kube/config. It has the
    cluster's login in it, and is readable by its owner alone.

    \b
    Example:
      allranks azure kubeconfig
      allranks azure kubeconfig --print > demo.kubeconfig
    """
    arm, _ = shared.connect(settings.where, console)
    if to_print:
        console.raw(arm.kubeconfig(settings.group, settings.cluster).decode())
        return
    context = _merge(arm, settings, kubeconfig, overwrite=overwrite, switch=not no_switch)
    if output == "json":
        console.json({"ok": True, "context": context, "isCurrent": not no_switch})
        return
    console.text(f"context {context}{'' if no_switch else ', which is the current one now'}")
