"""What would be done: all that is asked before anything is made."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.azure import checks, diff
from allranks.azure.desired import desired
from allranks.azure.observe import observe
from allranks.errors import Problem

if TYPE_CHECKING:
    from allranks.azure.actions import Plan
    from allranks.azure.observed import Observed
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings


def up(arm: Arm, settings: Settings) -> Plan:
    """The plan of `up`, and the reasons why it cannot be carried out.

    Args:
        arm: Azure Resource Manager.
        settings: the azure.yaml.

    Raises:
        AllranksError: Azure does not answer, or refuses the login.
    """
    catalog = arm.catalog(settings.region)
    observed = observe(arm, settings)
    plan = diff.plan(desired(settings, observed.group, observed.now), observed)
    refusals = (*plan.refusals, *checks.check(settings, catalog, observed))
    refusals = (*refusals, *_account(arm, settings, observed))
    notes = (*plan.notes, *checks.quota_notes(settings, catalog, observed))
    if observed.account is None:
        note = (
            f"no role on {settings.account} is given: an owner does, where data is sent by a login "
            "or mounted without its key; `allranks azure plan -o az` ends with the commands"
        )
        notes = (*notes, note)
    return replace(plan, refusals=refusals, notes=notes)


def _account(arm: Arm, settings: Settings, observed: Observed) -> tuple[Problem, ...]:
    # In a group of ours the name may be taken by our own account, which Azure does not show yet.
    if observed.group is not None or "Microsoft.Storage" in observed.unregistered:
        return ()
    reason = arm.account_refusal(settings.account)
    if not reason:
        return ()
    # Or the group was made a moment ago, and is not shown each time: then the account may be ours.
    if arm.account(settings.group, settings.account) or arm.group(settings.group):
        return ()
    hint = (
        f"write another name, such as {settings.account[:20]}2; or ask again, if an `up` has made "
        "it a moment ago"
    )
    return (Problem("storage.account", f"{settings.account!r} cannot be made: {reason}", hint),)
