"""What is asked of Azure: the ports behind which its SDKs stand, in `sdk`.

A call that makes or removes something returns when Azure has taken it, not when it is done: what
became of it is read from `provisioningState`, by the command that began it or by another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from datetime import datetime

    from allranks.azure.desired import (
        DesiredAccount,
        DesiredCluster,
        DesiredGroup,
        DesiredPool,
    )
    from allranks.azure.observed import (
        Catalog,
        Cluster,
        Provider,
        Resource,
        ResourceGroup,
        StorageAccount,
    )


class Arm(Protocol):
    """Azure Resource Manager, of one subscription.

    Each method raises `BusyError` where the same may succeed later, `ConflictError` where something
    else goes on with the resource, `ForbiddenError` where a right is missing, and `RefusedError`
    where Azure does not take it. What is not there is None.
    """

    def now(self) -> datetime:
        """The time of Azure's clock, as of its last answer."""

    def provider(self, name: str) -> Provider:
        """A resource provider, and whether the subscription uses it."""

    def register(self, name: str) -> None:
        """Let the subscription use a resource provider."""

    def catalog(self, region: str) -> Catalog:
        """The catalog of a region."""

    def account_refusal(self, name: str) -> str:
        """Why no account of this name can be made; "" where it can."""

    def group(self, name: str) -> ResourceGroup | None:
        """A resource group."""

    def groups(self) -> tuple[ResourceGroup, ...]:
        """All resource groups that carry our tag."""

    def put_group(self, group: DesiredGroup) -> None:
        """Make a resource group, or give it other tags."""

    def delete_group(self, name: str) -> None:
        """Remove a resource group with all that is in it."""

    def resources(self, group: str) -> tuple[Resource, ...]:
        """The resources of a group."""

    def clusters(self, group: str) -> tuple[Cluster, ...]:
        """The clusters of a group."""

    def cluster(self, group: str, name: str) -> Cluster | None:
        """A cluster with its pools."""

    def put_cluster(self, group: str, cluster: DesiredCluster) -> None:
        """Make a cluster, or bring it to other settings."""

    def tag_cluster(self, group: str, name: str, tags: dict[str, str]) -> None:
        """Give a cluster other tags."""

    def delete_cluster(self, group: str, name: str) -> None:
        """Remove a cluster, and the group of its machines with it."""

    def put_pool(self, group: str, cluster: str, pool: DesiredPool) -> None:
        """Make a node pool, or bring it to other settings."""

    def floor_pool(self, group: str, cluster: str, pool: str, most: int) -> None:
        """Let a node pool shrink to no node: scaled from 0 to `most` by what pods ask."""

    def delete_pool(self, group: str, cluster: str, pool: str) -> None:
        """Remove a node pool."""

    def account(self, group: str, name: str) -> StorageAccount | None:
        """A storage account with its shares and containers."""

    def put_account(self, group: str, account: DesiredAccount) -> None:
        """Make a storage account, or bring it to other settings."""

    def delete_account(self, group: str, name: str) -> None:
        """Remove a storage account with all its data."""

    def put_soft_delete(self, group: str, account: str, days: int, *, blobs: bool) -> None:
        """Keep what is removed from an account for some days."""

    def put_share(self, group: str, account: str, name: str, quota: int, *, is_new: bool) -> None:
        """Make a file share, or give it another quota in GiB."""

    def put_container(self, group: str, account: str, name: str) -> None:
        """Make a blob container."""

    def kubeconfig(self, group: str, cluster: str) -> bytes:
        """The kubeconfig of a cluster, with a login of its user."""
