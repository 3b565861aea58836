"""`allranks azure status` and `cost-guard`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.azure import shared, view
from allranks.errors import EXIT_FAILED

if TYPE_CHECKING:
    from allranks.azure.settings import Settings, Subscription
    from allranks.cli.console import Console


@click.command("status", short_help="Show what is there, and until when.")
@shared.file_option
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, /, *, settings: Settings, output: str) -> None:
    """Show what is there of an azure.yaml: the cluster, its pools, the storage, and until when.

    Exit code 1 means that something of it is not there or has failed.

    \b
    Example:
      allranks azure status
      allranks azure status -o json
    """
    from allranks.azure import diff
    from allranks.azure.desired import desired
    from allranks.azure.observe import observe
    from allranks.azure.observed import FAILED

    arm, _ = shared.connect(settings.where, console)
    observed = observe(arm, settings, ())
    plan = diff.plan(desired(settings, observed.group, observed.now), observed)
    is_well = observed.cluster is not None and observed.account is not None
    is_well = is_well and FAILED not in (observed.cluster.state, observed.account.state)  # type: ignore[union-attr]
    if output == "json":
        console.json({"ok": is_well, **view.status(settings, observed), "notes": list(plan.notes)})
    else:
        view.show_status(console, settings, observed, plan)
    if not is_well:
        raise click.exceptions.Exit(EXIT_FAILED)


@click.command("cost-guard", short_help="Show what runs, since when, and what need not.")
@shared.subscription_options
@shared.yes_option("Scale GPU pools to 0 without asking.")
@options.output_option("table", "json")
@options.pass_console
def cost_guard_command(console: Console, /, *, where: Subscription, yes: bool, output: str) -> None:
    """Show all that allranks has made in a subscription: since when, until when, which machines.

    Named apart is what need not be: what has expired, what never does, and pools of GPUs that never
    shrink to 0. With --yes, or when asked, such pools are scaled from 0 on; a node that a pod uses
    stays, so no run is ended. Exit code 1 means that something was found, and not mended.

    \b
    Example:
      allranks azure cost-guard
      allranks azure cost-guard -f azure.yaml --yes
    """
    from allranks.azure import cost_guard
    from allranks.azure.desired import time_text

    arm, _ = shared.connect(where, console)
    bills = [cost_guard.bill(group, arm.clusters(group.name), arm.now()) for group in arm.groups()]
    if output == "json":
        console.json([item.as_dict() for item in bills])
    elif bills:
        console.table(
            ["NAME", "GROUP", "SINCE", "EXPIRES", "MACHINES"],
            [
                (
                    item.name,
                    item.group,
                    f"{cost_guard.age(arm.now() - item.created_at)} ago"
                    if item.created_at
                    else "?",
                    time_text(item.expires) if item.expires else "never",
                    ", ".join(text for _, text in item.pools) or "none",
                )
                for item in bills
            ],
            wrap="MACHINES",
        )
    else:
        console.note("allranks has made nothing in this subscription")
    findings = [finding for item in bills for finding in item.findings]
    for finding in findings:
        console.note(f"{finding.name}: {finding.words}: {finding.remedy}")
    pools = [finding for finding in findings if finding.pool]
    mended = bool(pools) and (yes or bool(console.confirm("scale these pools to 0?")))
    if mended:
        for finding in pools:
            arm.floor_pool(finding.group, finding.cluster, finding.pool, finding.most)
            console.note(f"node pool {finding.pool} of {finding.cluster} is scaled from 0 on")
    if len(findings) > (len(pools) if mended else 0):
        raise click.exceptions.Exit(EXIT_FAILED)
