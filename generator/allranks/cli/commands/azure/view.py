"""What is there of an azure.yaml, as data and for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.cli.commands.azure import shared

if TYPE_CHECKING:
    from datetime import datetime

    from allranks.azure.actions import Plan
    from allranks.azure.observed import Observed
    from allranks.azure.settings import Settings
    from allranks.cli.console import Console


def status(settings: Settings, observed: Observed) -> dict[str, Any]:
    """The observed state as JSON-ready data."""
    from allranks.azure.desired import creation_time, expiry_time, time_text

    group, cluster, account = observed.group, observed.cluster, observed.account
    tags = group.tags if group is not None else {}

    def time(value: datetime | None) -> str | None:
        return time_text(value) if value is not None else None

    return {
        "name": settings.name,
        "subscription": settings.subscription,
        "region": settings.region,
        "resourceGroup": None if group is None else {"name": group.name, "state": group.state},
        "made": time(creation_time(tags)),
        "expires": time(expiry_time(tags)),
        "cluster": None
        if cluster is None
        else {
            "name": cluster.name,
            "state": cluster.state,
            "power": cluster.power,
            "kubernetes": cluster.kubernetes_now,
            "host": cluster.host,
            "nodeResourceGroup": cluster.node_group,
            "error": cluster.error or None,
            "pools": [
                {
                    "name": pool.name,
                    "vmSize": pool.vm_size,
                    "nodes": pool.nodes,
                    "minNodes": pool.min_nodes,
                    "maxNodes": pool.max_nodes,
                    "state": pool.state,
                }
                for pool in cluster.pools
            ],
        },
        "storage": None
        if account is None
        else {
            "account": account.name,
            "state": account.state,
            "shares": [{"name": name, "quotaGiB": size} for name, size in account.shares.items()],
            "containers": list(account.containers),
        },
    }


def show_status(console: Console, settings: Settings, observed: Observed, plan: Plan) -> None:
    """Write what is there, and whether it is as the file has it."""
    from allranks.azure.cost_guard import age
    from allranks.azure.desired import creation_time, expiry_time, time_text
    from allranks.cli.console import facts

    group, cluster, account = observed.group, observed.cluster, observed.account
    if group is None:
        console.text(f"there is nothing of {settings.name}: no resource group {settings.group}")
        return
    created_at, expires = creation_time(group.tags), expiry_time(group.tags)
    lines = {"name": settings.name, "group": f"{group.name} in {group.region}"}
    if created_at is not None:
        lines["made"] = f"{time_text(created_at)}, {age(observed.now - created_at)} ago"
    if expires is None:
        lines["expires"] = "never"
    elif expires > observed.now:
        lines["expires"] = f"{time_text(expires)}, in {age(expires - observed.now)}"
    else:
        lines["expires"] = f"{time_text(expires)}, {age(observed.now - expires)} ago"
    lines["cluster"] = "is not there"
    if cluster is not None:
        version = f", Kubernetes {cluster.kubernetes_now}" if cluster.kubernetes_now else ""
        lines["cluster"] = f"{cluster.name}, {cluster.state}, {cluster.power.lower()}{version}"
        if cluster.error:
            lines["error"] = cluster.error
    lines["storage"] = "is not there" if account is None else f"{account.name}, {account.state}"
    console.text(facts(lines))
    if cluster is not None:
        console.text("")
        console.table(
            ["POOL", "SIZE", "NODES", "FROM", "TO", "STATE"],
            [
                (
                    pool.name,
                    pool.vm_size,
                    pool.nodes,
                    pool.nodes if pool.min_nodes is None else pool.min_nodes,
                    pool.nodes if pool.max_nodes is None else pool.max_nodes,
                    pool.state,
                )
                for pool in cluster.pools
            ],
            right=["NODES", "FROM", "TO"],
        )
    if account is not None and (account.shares or account.containers):
        rows = [(name, "file share", f"{size} GiB") for name, size in account.shares.items()]
        rows += [(name, "blob container", "") for name in account.containers]
        console.text("")
        console.table(["STORE", "KIND", "QUOTA"], rows)
    for note in plan.notes:
        console.note(note)
    if plan.actions or plan.refusals:
        console.note(f"it differs from {settings.source}: `{shared.COMMAND} plan` says how")
