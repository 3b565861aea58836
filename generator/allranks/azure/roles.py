"""The roles that `up` does not give, since who makes a cluster need not be allowed to give roles.

Each is given by an owner, once, and named with the command that gives it. Sources of what each has
to be: Azure's "Authorize access to file data" and "blob data", and the documents of the drivers for
static volumes and workload identities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.settings import Settings

FILE_DATA = "Storage File Data Privileged Contributor"
BLOB_DATA = "Storage Blob Data Contributor"
ACCOUNT = "Storage Account Contributor"  # its holder may read the account's key, and mounts by it
# The ids of these roles, the same in every subscription.
IDS = {
    FILE_DATA: "69566ab7-960f-475b-8e7c-b3118f30c6bd",
    BLOB_DATA: "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    ACCOUNT: "17d1049b-9a84-46fb-8f53-869881c3d3ab",
}


@dataclass(frozen=True, slots=True)
class Grant:
    """A role that somebody needs for something.

    Attributes:
        purpose: what for, as a person would look for it.
        role: the role.
        commands: the commands of `az` that give it, for a POSIX shell.
    """

    purpose: str
    role: str
    commands: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """The grant as JSON-ready data."""
        return {"purpose": self.purpose, "role": self.role, "commands": list(self.commands)}


def grants(settings: Settings) -> tuple[Grant, ...]:
    """The roles that the storage account's users need, each with the commands that give it.

    Args:
        settings: the azure.yaml.
    """
    return tuple(_grants(settings))


def scope(settings: Settings) -> str:
    """The whole path of the storage account."""
    return (
        f"/subscriptions/{settings.subscription}/resourceGroups/{settings.group}"
        f"/providers/Microsoft.Storage/storageAccounts/{settings.account}"
    )


def _grants(settings: Settings) -> Iterator[Grant]:
    of_group = f"--subscription {settings.subscription} -g '{settings.group}'"
    cluster = f"$(az aks show {of_group} -n {settings.cluster} --query"

    def give(role: str, who: str, kind: str) -> str:
        return (
            f"az role assignment create --role '{role}' --assignee-object-id \"{who}\" "
            f"--assignee-principal-type {kind} --scope '{scope(settings)}'"
        )

    me = "$(az ad signed-in-user show --query id -o tsv)"
    if settings.shares:
        purpose = "who sends data to shares by their login"
        yield Grant(purpose, FILE_DATA, (give(FILE_DATA, me, "User"),))
    if settings.containers:
        purpose = "who sends data to blobs by their login"
        yield Grant(purpose, BLOB_DATA, (give(BLOB_DATA, me, "User"),))
    nodes = f"{cluster} identityProfile.kubeletidentity.objectId -o tsv)"
    yield Grant(
        "nodes that mount what exists, with neither secretName nor clientID",
        ACCOUNT,
        (give(ACCOUNT, nodes, "ServicePrincipal"),),
    )
    own = f"{cluster} identity.principalId -o tsv)"
    yield Grant(
        "the cluster, which makes new shares and containers in this account",
        ACCOUNT,
        (give(ACCOUNT, own, "ServicePrincipal"),),
    )
    identity = f"{settings.cluster}-storage"
    show = f"$(az identity show {of_group} -n {identity} --query"
    issuer = f"{cluster} oidcIssuerProfile.issuerUrl -o tsv)"
    federate = (
        f"az identity federated-credential create {of_group} --identity-name {identity} -n pods "
        f'--issuer "{issuer}" --audiences api://AzureADTokenExchange --subject '
        '"system:serviceaccount:${NAMESPACE:-default}:${SERVICE_ACCOUNT:-default}"'
    )
    yield Grant(
        "pods that mount by a workload identity (clientID)",
        ACCOUNT,
        (
            f"az identity create {of_group} -n {identity} --tags allranks-name={settings.name}",
            give(ACCOUNT, f"{show} principalId -o tsv)", "ServicePrincipal"),
            federate,
            f"az identity show {of_group} -n {identity} --query clientId -o tsv",
        ),
    )
