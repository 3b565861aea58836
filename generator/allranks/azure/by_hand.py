"""The same cluster without allranks: the commands of `az`, and a file of Bicep.

They are written from the same data as the requests, and know nothing of what is there. When it was
made and until when it may live is worked out when they are run, which may be long after.
"""

from __future__ import annotations

import json
import shlex
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks.azure import roles
from allranks.azure.bodies import account_body, cluster_body, pool_body
from allranks.azure.desired import TAG_EXPIRES, TAG_MADE, desired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.desired import Desired, DesiredPool
    from allranks.azure.settings import Settings

Tags = tuple[tuple[str, str], ...]
_CLOUDS = {"usGovernment": "AzureUSGovernment", "china": "AzureChinaCloud"}
# Times as our tags have them, when the commands are run.
_FORMAT = "+%Y-%m-%dT%H:%M:%SZ"
_TIMES = {TAG_MADE: '"$made"', TAG_EXPIRES: '"$expires"'}


def _desired_state(settings: Settings) -> Desired:
    """The desired state, with placeholders for its times."""
    return desired(settings, None, datetime.fromtimestamp(0, UTC))


def _subscription_flags(settings: Settings) -> tuple[str, str]:
    return "--subscription", settings.subscription


def _times(settings: Settings) -> Iterator[str]:
    yield f"made=$(date -u {_FORMAT})"
    if settings.max_hours:
        end = f"$(($(date +%s) + {settings.max_hours} * 3600))"
        yield f'expires=$(date -u -d "@{end}" {_FORMAT})'


def az(settings: Settings) -> str:
    """The commands that make all of it.

    Args:
        settings: the azure.yaml.
    """
    desired = _desired_state(settings)
    group, cluster, account = desired.group, desired.cluster, desired.account
    system = cluster.system
    lines = [
        "#!/bin/sh",
        "# What `allranks azure up` asks for, by hand. To take it away again:",
        "#   az group delete "
        + " ".join((*_subscription_flags(settings), "--name", shlex.quote(group.name))),
        "# Beginning with ROLES=yes it also gives the roles that stand at its end.",
        "set -eu",
        *_times(settings),
        *(
            [_line("az cloud set", ("--name", _CLOUDS[settings.cloud]))]
            if settings.cloud in _CLOUDS
            else []
        ),
        _line("az account set", ("--subscription", settings.subscription)),
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
            ("--nodepool-tags", *(f"{name}={value}" for name, value in system.tags)),
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
        *_az_roles(settings),
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


def _az_roles(settings: Settings) -> Iterator[str]:
    """The roles, which only an owner may give: each for who needs it."""
    yield 'if [ "${ROLES:-}" = yes ]; then'
    for grant in roles.grants(settings):
        yield f"  # {grant.purpose}"
        yield from (f"  {command}" for command in grant.commands)
    yield "fi"


def _line(command: str, *options: tuple[str, ...], tags: Tags = ()) -> str:
    """A command on lines of its own, quoted for a shell."""
    parts = [command, *(" ".join(map(shlex.quote, option)) for option in options)]
    if tags:
        words = " ".join(
            f"{name}={_TIMES[name]}" if name in _TIMES else shlex.quote(f"{name}={value}")
            for name, value in tags
        )
        parts.append(f"--tags {words}")
    return " \\\n  ".join(parts)


# --- Bicep ----------------------------------------------------------------------------------------

# The API versions that the SDKs of the tests speak.
AKS_API = "2026-08-01"
STORAGE_API = "2026-09-01"
ROLES_API = "2022-04-01"


class _Expression(str):
    """Text that goes into a file of Bicep as it is."""

    __slots__ = ()


# Those of the group: so all has the time at which the group was made, also when deployed again.
_GROUP_TAGS = _Expression("resourceGroup().tags")


def bicep(settings: Settings) -> str:
    """A file that deploys all of it into the resource group.

    Args:
        settings: the azure.yaml.
    """
    desired = _desired_state(settings)
    group = desired.group
    where = _subscription_flags(settings)
    commands = [
        *_times(settings),
        _line(
            "az group create",
            where,
            ("--name", group.name),
            ("--location", group.region),
            tags=group.tags,
        ),
        _line(
            "az deployment group create",
            where,
            ("-g", group.name),
            ("--template-file", "main.bicep"),
        ),
    ]
    return "\n".join(
        [
            "// What `allranks azure up` asks for, but for the resource group itself:",
            *(f"//   {command}".replace(" \\\n ", "") for command in commands),
            "",
            "@description('Give the roles, too: only an owner may.')",
            "param giveRoles bool = false",
            "@description('The object id of who sends data by their login; empty for nobody.')",
            "param sender string = ''",
            "",
            "\n\n".join([*_resources(desired), *_bicep_roles(desired)]),
            "",
        ]
    )


def _resources(desired: Desired) -> Iterator[str]:
    cluster, account = desired.cluster, desired.account
    days = {"enabled": True, "days": desired.soft_delete_days}
    clusters = "Microsoft.ContainerService/managedClusters"
    accounts = "Microsoft.Storage/storageAccounts"
    yield _resource(
        "cluster",
        f"{clusters}@{AKS_API}",
        {"name": cluster.name, **cluster_body(cluster), "tags": _GROUP_TAGS},
    )
    for at, pool in enumerate(desired.pools):
        # AKS refuses to make two pools at once.
        after = {"dependsOn": [_Expression(f"pool{at - 1}")]} if at else {}
        yield _resource(
            f"pool{at}",
            f"{clusters}/agentPools@{AKS_API}",
            {"name": pool.name, "properties": pool_body(pool), **after},
            parent="cluster",
        )
    yield _resource(
        "account",
        f"{accounts}@{STORAGE_API}",
        {"name": account.name, **account_body(account), "tags": _GROUP_TAGS},
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


def _bicep_roles(desired: Desired) -> Iterator[str]:
    """The roles on the account: of the cluster, of its nodes, and of who sends data."""
    ours = "giveRoles"
    theirs = "giveRoles && !empty(sender)"
    own, nodes = "cluster.identity.principalId", "cluster.properties.identityProfile"
    assignments = [
        ("roleOfCluster", roles.ACCOUNT, own, "ServicePrincipal", ours),
        (
            "roleOfNodes",
            roles.ACCOUNT,
            f"{nodes}.kubeletidentity.objectId",
            "ServicePrincipal",
            ours,
        ),
    ]
    if desired.shares:
        assignments.append(("roleForShares", roles.FILE_DATA, "sender", "User", theirs))
    if desired.containers:
        assignments.append(("roleForBlobs", roles.BLOB_DATA, "sender", "User", theirs))
    for symbol, role, principal, kind, condition in assignments:
        whose = "sender" if principal == "sender" else f"cluster.id, {_text(symbol)}"
        definition = _text(roles.IDS[role])
        of_roles = _text("Microsoft.Authorization/roleDefinitions")
        body = {
            "name": _Expression(f"guid(account.id, {whose}, {definition})"),
            "scope": _Expression("account"),
            "properties": {
                "principalId": _Expression(principal),
                "principalType": kind,
                "roleDefinitionId": _Expression(
                    f"subscriptionResourceId({of_roles}, {definition})"
                ),
            },
        }
        kind_of_all = f"Microsoft.Authorization/roleAssignments@{ROLES_API}"
        yield f"// {role}\n" + _resource(symbol, kind_of_all, body, condition=condition)


def _resource(
    symbol: str, kind: str, body: dict[str, Any], parent: str = "", condition: str = ""
) -> str:
    text = _value(body)
    if parent:
        text = f"{{\n  parent: {parent}{text[1:]}"
    when = f"if ({condition}) " if condition else ""
    return f"resource {symbol} '{kind}' = {when}{text}"


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
        return str(data) if isinstance(data, _Expression) else _text(data)
    return json.dumps(data)


def _key(text: str) -> str:
    return text if text.isidentifier() and text.isascii() else _text(text)


def _text(text: str) -> str:
    """A text in Bicep's quotes, in which a dollar before a brace begins an expression."""
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
    return "'" + text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + "'"
