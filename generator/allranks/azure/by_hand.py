"""The same cluster without allranks: the commands of `az`, and a file of Bicep.

They are written from the same data as the requests, and know nothing of what is there.
"""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

from allranks.azure.bodies import account_body, cluster_body, pool_body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.desired import Desired, DesiredPool

Tags = tuple[tuple[str, str], ...]


def az(desired: Desired, subscription: str) -> str:
    """The commands that make all of it.

    Args:
        desired: what is to be there.
        subscription: the id of the subscription.
    """
    group, cluster, account = desired.group, desired.cluster, desired.account
    system = cluster.system
    lines = [
        "#!/bin/sh",
        "# What `allranks azure up` asks for, by hand. To take it away again:",
        f"#   az group delete --name {shlex.quote(group.name)}",
        "set -eu",
        _line("az account set", ("--subscription", subscription)),
        *(
            _line("az provider register --wait", ("--namespace", name))
            for name in ("Microsoft.ContainerService", "Microsoft.Storage", "Microsoft.Compute")
        ),
        _line(
            "az group create",
            ("--name", group.name),
            ("--location", group.region),
            tags=group.tags,
        ),
        _line(
            "az aks create --generate-ssh-keys --enable-managed-identity --enable-oidc-issuer "
            "--enable-workload-identity --enable-blob-driver --network-plugin azure "
            "--network-plugin-mode overlay",
            ("--resource-group", group.name),
            ("--name", cluster.name),
            ("--location", cluster.region),
            ("--dns-name-prefix", cluster.dns_prefix),
            *([("--kubernetes-version", cluster.kubernetes)] if cluster.kubernetes else []),
            ("--tier", cluster.tier.lower()),
            ("--nodepool-name", system.name),
            ("--node-vm-size", system.vm_size),
            ("--node-count", str(system.nodes)),
            tags=cluster.tags,
        ),
        *(_az_pool(desired, pool) for pool in desired.pools),
        _line(
            "az storage account create --min-tls-version TLS1_2 --allow-blob-public-access false "
            "--https-only true",
            ("--resource-group", group.name),
            ("--name", account.name),
            ("--location", account.region),
            ("--sku", account.sku),
            ("--kind", "FileStorage" if account.sku.startswith("Premium") else "StorageV2"),
            tags=account.tags,
        ),
        _line(
            "az storage account file-service-properties update --enable-delete-retention true",
            ("--delete-retention-days", str(desired.soft_delete_days)),
            ("--resource-group", group.name),
            ("--account-name", account.name),
        ),
        *_az_containers(desired),
        *(
            _line(
                "az storage share-rm create",
                ("--resource-group", group.name),
                ("--storage-account", account.name),
                ("--name", name),
                ("--quota", str(quota)),
            )
            for name, quota in desired.shares
        ),
        _line("az aks get-credentials", ("--resource-group", group.name), ("--name", cluster.name)),
    ]
    return "\n".join(lines) + "\n"


def _az_pool(desired: Desired, pool: DesiredPool) -> str:
    labels = [f"{name}={value}" for name, value in pool.labels]
    return _line(
        "az aks nodepool add --mode User --enable-cluster-autoscaler",
        ("--resource-group", desired.group.name),
        ("--cluster-name", desired.cluster.name),
        ("--name", pool.name),
        ("--node-vm-size", pool.vm_size),
        ("--node-count", str(pool.nodes)),
        ("--min-count", str(pool.min_nodes)),
        ("--max-count", str(pool.max_nodes)),
        *([("--priority", "Spot"), ("--eviction-policy", "Delete")] if pool.spot else []),
        *([("--spot-max-price", "-1")] if pool.spot else []),
        *([("--gpu-driver", "none")] if not pool.gpu_driver else []),
        *([("--labels", *labels)] if labels else []),
        *([("--node-taints", ",".join(pool.taints))] if pool.taints else []),
        tags=pool.tags,
    )


def _az_containers(desired: Desired) -> Iterator[str]:
    if not desired.containers:
        return
    days = str(desired.soft_delete_days)
    yield _line(
        "az storage account blob-service-properties update --enable-delete-retention true "
        "--enable-container-delete-retention true",
        ("--delete-retention-days", days),
        ("--container-delete-retention-days", days),
        ("--resource-group", desired.group.name),
        ("--account-name", desired.account.name),
    )
    for name in desired.containers:
        yield _line(
            "az storage container-rm create --public-access off",
            ("--resource-group", desired.group.name),
            ("--storage-account", desired.account.name),
            ("--name", name),
        )


def _line(command: str, *options: tuple[str, ...], tags: Tags = ()) -> str:
    """A command on lines of its own, quoted for a shell."""
    parts = [command, *(" ".join(map(shlex.quote, option)) for option in options)]
    if tags:
        words = " ".join(shlex.quote(f"{name}={value}") for name, value in tags)
        parts.append(f"--tags {words}")
    return " \\\n  ".join(parts)


# --- Bicep ----------------------------------------------------------------------------------------

# The API versions that the SDKs of the tests speak.
AKS_API = "2026-08-01"
STORAGE_API = "2026-09-01"


def bicep(desired: Desired) -> str:
    """A file that deploys all of it into the resource group.

    Args:
        desired: what is to be there.
    """
    group = desired.group
    make = _line(
        "az group create", ("--name", group.name), ("--location", group.region), tags=group.tags
    ).replace(" \\\n ", "")
    return "\n".join(
        [
            "// What `allranks azure up` asks for, but for the resource group itself:",
            f"//   {make}",
            f"//   az deployment group create -g {group.name} --template-file main.bicep",
            "",
            "\n\n".join(_resources(desired)),
            "",
        ]
    )


def _resources(desired: Desired) -> Iterator[str]:
    cluster, account = desired.cluster, desired.account
    days = {"enabled": True, "days": desired.soft_delete_days}
    clusters = "Microsoft.ContainerService/managedClusters"
    accounts = "Microsoft.Storage/storageAccounts"
    yield _resource(
        "cluster", f"{clusters}@{AKS_API}", {"name": cluster.name, **cluster_body(cluster)}
    )
    for at, pool in enumerate(desired.pools):
        yield _resource(
            f"pool{at}",
            f"{clusters}/agentPools@{AKS_API}",
            {"name": pool.name, "properties": pool_body(pool)},
            parent="cluster",
        )
    yield _resource(
        "account", f"{accounts}@{STORAGE_API}", {"name": account.name, **account_body(account)}
    )
    yield _resource(
        "files",
        f"{accounts}/fileServices@{STORAGE_API}",
        {"name": "default", "properties": {"shareDeleteRetentionPolicy": days}},
        parent="account",
    )
    for at, (name, quota) in enumerate(desired.shares):
        yield _resource(
            f"share{at}",
            f"{accounts}/fileServices/shares@{STORAGE_API}",
            {"name": name, "properties": {"shareQuota": quota}},
            parent="files",
        )
    if desired.containers:
        policies = {"deleteRetentionPolicy": days, "containerDeleteRetentionPolicy": days}
        yield _resource(
            "blobs",
            f"{accounts}/blobServices@{STORAGE_API}",
            {"name": "default", "properties": policies},
            parent="account",
        )
    for at, name in enumerate(desired.containers):
        yield _resource(
            f"container{at}",
            f"{accounts}/blobServices/containers@{STORAGE_API}",
            {"name": name, "properties": {"publicAccess": "None"}},
            parent="blobs",
        )


def _resource(symbol: str, kind: str, body: dict[str, Any], parent: str = "") -> str:
    text = _value(body)
    if parent:
        text = f"{{\n  parent: {parent}{text[1:]}"
    return f"resource {symbol} '{kind}' = {text}"


def _value(data: Any, indent: str = "") -> str:
    """A value as Bicep writes it."""
    inner = indent + "  "
    if isinstance(data, dict):
        if not data:
            return "{}"
        rows = [f"{inner}{_key(key)}: {_value(value, inner)}" for key, value in data.items()]
        return "{\n" + "\n".join(rows) + f"\n{indent}}}"
    if isinstance(data, list | tuple):
        if not data:
            return "[]"
        rows = [f"{inner}{_value(value, inner)}" for value in data]
        return "[\n" + "\n".join(rows) + f"\n{indent}]"
    if isinstance(data, str):
        return _text(data)
    return json.dumps(data)


def _key(text: str) -> str:
    return text if text.isidentifier() and text.isascii() else _text(text)


def _text(text: str) -> str:
    """A text in Bicep's quotes, in which a dollar before a brace begins an expression."""
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
    return "'" + text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + "'"
