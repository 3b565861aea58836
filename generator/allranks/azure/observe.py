"""Ask Azure what is there of what an azure.yaml names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.azure.observed import Observed, Resource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.azure.ports import Arm
    from allranks.azure.settings import Settings

PROVIDERS = ("Microsoft.ContainerService", "Microsoft.Storage", "Microsoft.Compute")


def observe(
    arm: Arm,
    settings: Settings,
    providers: tuple[str, ...] = PROVIDERS,
    *,
    resources: bool = False,
) -> Observed:
    """Ask what is there of what an azure.yaml names.

    Args:
        arm: Azure Resource Manager.
        settings: the azure.yaml.
        providers: the resource providers that the subscription may not use yet.
        resources: whether all that is in the group is listed.

    Raises:
        AllranksError: Azure does not say.
    """
    unregistered = tuple(name for name in providers if not arm.provider(name).is_registered)
    group = arm.group(settings.group)
    if group is None:
        return Observed(arm.now(), unregistered=unregistered)
    cluster = arm.cluster(settings.group, settings.cluster)
    account = arm.account(settings.group, settings.account)
    listed = arm.resources(settings.group) if resources else ()
    own = (cluster, account) if resources else ()
    return Observed(arm.now(), group, cluster, account, add_named(listed, own), unregistered)


def add_named(listed: Sequence[Resource], named: Sequence[Resource | None]) -> tuple[Resource, ...]:
    """The resources of a group; those asked for by name count where the list lags behind.

    Args:
        listed: what Azure lists.
        named: what it gives when asked for by name.
    """
    names = {(item.type.lower(), item.name.lower()) for item in listed}
    missing = [
        Resource(item.id, item.name, item.type, item.tags, item.state)
        for item in named
        if item is not None and (item.type.lower(), item.name.lower()) not in names
    ]
    return (*listed, *missing)
