"""Azure Resource Manager through Azure's management SDKs.

No SDK retries or waits by itself here: each call is one request, so that what puts it off is said,
an interrupt ends it, and a long-running operation is followed by `provisioningState` alone.
"""

from __future__ import annotations

import email.utils
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.core.pipeline.policies import RetryPolicy, SansIOHTTPPolicy

from allranks.azure import observed as state
from allranks.azure.bodies import account_body, cluster_body, pool_body
from allranks.azure.desired import TAG_NAME
from allranks.azure.sdk import login
from allranks.azure.sdk.errors import parts, translated
from allranks.azure.settings import normal_region
from allranks.errors import RunError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from azure.mgmt.compute import ComputeManagementClient
    from azure.mgmt.containerservice import ContainerServiceClient
    from azure.mgmt.resource.resources import ResourceManagementClient
    from azure.mgmt.storage import StorageManagementClient

    from allranks.azure.desired import (
        DesiredAccount,
        DesiredCluster,
        DesiredGroup,
        DesiredPool,
    )
    from allranks.azure.settings import Subscription

_CONNECT_SECONDS, _READ_SECONDS = 10, 60
# Labels and taints below it are AKS's own.
_AZURE = "kubernetes.azure.com/"
_TYPES = {
    "Microsoft.ContainerService": "managedClusters",
    "Microsoft.Storage": "storageAccounts",
    "Microsoft.Compute": "virtualMachines",
}
_CONTAINER_SERVICE = "Microsoft.ContainerService"


def connect(where: Subscription) -> SdkArm:
    """Azure Resource Manager of a subscription.

    Args:
        where: which cloud, which subscription, and how to log in.
    """
    return SdkArm(where)


class _Clock(SansIOHTTPPolicy[Any, Any]):
    """Keeps the time of each answer, and lets a fake be spoken to without TLS."""

    def __init__(self, *, is_fake: bool) -> None:
        self.date: datetime | None = None
        self._is_fake = is_fake

    def on_request(self, request: Any) -> None:
        """Let plain HTTP pass to a fake."""
        if self._is_fake:
            request.context.options["enforce_https"] = False

    def on_response(self, request: Any, response: Any) -> None:  # noqa: ARG002 - azure-core's
        """Keep the server's time."""
        text = response.http_response.headers.get("Date", "")
        if text:
            self.date = email.utils.parsedate_to_datetime(text).astimezone(UTC)


class SdkArm:
    """`allranks.azure.ports.Arm`, by the SDKs.

    Args:
        where: whose Azure is asked.
    """

    def __init__(self, where: Subscription) -> None:
        self._subscription = where.id
        self._cloud = where.cloud
        self._way = where.login
        self._clock = _Clock(is_fake=login.is_fake())

    @cached_property
    def _credential(self) -> Any:
        return login.credential(self._way, self._cloud)

    def _options(self) -> dict[str, Any]:
        base = login.endpoint(self._cloud)
        return {
            "credential": self._credential,
            "subscription_id": self._subscription,
            "base_url": base,
            "credential_scopes": [f"{login.CLOUDS[self._cloud][0]}/.default"],
            "retry_policy": RetryPolicy.no_retries(),
            "per_call_policies": [self._clock],
            "connection_timeout": _CONNECT_SECONDS,
            "read_timeout": _READ_SECONDS,
            "logging_enable": False,
        }

    @cached_property
    def _groups(self) -> ResourceManagementClient:
        from azure.mgmt.resource.resources import ResourceManagementClient

        return ResourceManagementClient(**self._options())

    @cached_property
    def _aks(self) -> ContainerServiceClient:
        from azure.mgmt.containerservice import ContainerServiceClient

        return ContainerServiceClient(**self._options())

    @cached_property
    def _storage(self) -> StorageManagementClient:
        from azure.mgmt.storage import StorageManagementClient

        return StorageManagementClient(**self._options())

    @cached_property
    def _compute(self) -> ComputeManagementClient:
        from azure.mgmt.compute import ComputeManagementClient

        return ComputeManagementClient(**self._options())

    def now(self) -> datetime:
        """The time of Azure's clock, as of its last answer; of this machine where none came."""
        return (self._clock.date or datetime.now(UTC)).replace(microsecond=0)

    # --- the subscription -------------------------------------------------------------------------

    def provider(self, name: str) -> state.Provider:
        """A resource provider, and whether the subscription uses it."""
        with translated(f"look at the resource provider {name}"):
            answer = self._groups.providers.get(name)
        kinds = [item for item in answer.resource_types or () if item.resource_type == _TYPES[name]]
        regions = sorted({normal_region(place) for item in kinds for place in item.locations or ()})
        is_registered = answer.registration_state == "Registered"
        return state.Provider(name, is_registered, tuple(regions))

    def register(self, name: str) -> None:
        """Let the subscription use a resource provider."""
        with translated(f"register the resource provider {name}"):
            self._groups.providers.register(name)

    def catalog(self, region: str) -> state.Catalog:
        """The catalog of a region."""
        regions = self.provider(_CONTAINER_SERVICE).regions
        if regions and region not in regions:
            return state.Catalog(regions)
        with translated(f"list the sizes of machines of {region}"):
            skus = list(self._compute.resource_skus.list(filter=f"location eq '{region}'"))
        with translated(f"list the quotas of {region}"):
            usages = list(self._compute.usage.list(region))
        with translated(f"list the versions of Kubernetes of {region}"):
            versions = self._aks.managed_clusters.list_kubernetes_versions(region)
        return state.Catalog(
            regions,
            tuple(_vm_size(sku, region) for sku in skus if sku.resource_type == "virtualMachines"),
            tuple(
                state.VcpuQuota(
                    usage.name.value or "",
                    usage.name.localized_value or usage.name.value or "",
                    usage.current_value,
                    usage.limit,
                )
                for usage in usages
            ),
            tuple(_versions(versions)),
        )

    def account_refusal(self, name: str) -> str:
        """Why no account of this name can be made; "" where it can."""
        with translated(f"ask whether the name {name} is free"):
            answer = self._storage.storage_accounts.check_name_availability(
                {"name": name, "type": "Microsoft.Storage/storageAccounts"}
            )
        return "" if answer.name_available else (answer.message or "it is taken").rstrip(".")

    # --- groups -----------------------------------------------------------------------------------

    def group(self, name: str) -> state.ResourceGroup | None:
        """A resource group."""
        with translated(f"look at resource group {name}"):
            try:
                return _group(self._groups.resource_groups.get(name))
            except ResourceNotFoundError as error:
                _only_absent(error, "ResourceGroupNotFound")
                return None

    def groups(self) -> tuple[state.ResourceGroup, ...]:
        """All resource groups that carry our tag."""
        with translated("list the resource groups"):
            groups = map(_group, self._groups.resource_groups.list())
            return tuple(group for group in groups if TAG_NAME in group.tags)

    def put_group(self, group: DesiredGroup) -> None:
        """Make a resource group, or give it other tags."""
        with translated(f"make resource group {group.name}"):
            self._groups.resource_groups.create_or_update(
                group.name, {"location": group.region, "tags": dict(group.tags)}
            )

    def delete_group(self, name: str) -> None:
        """Remove a resource group with all that is in it."""
        with translated(f"remove resource group {name}"), _absent():
            self._groups.resource_groups.begin_delete(name, polling=False)

    def resources(self, group: str) -> tuple[state.Resource, ...]:
        """The resources of a group."""
        with translated(f"list what is in resource group {group}"):
            try:
                items = list(
                    self._groups.resources.list_by_resource_group(group, expand="provisioningState")
                )
            except ResourceNotFoundError:
                return ()
        return tuple(
            state.Resource(
                item.id or "",
                item.name or "",
                item.type or "",
                dict(item.tags or {}),
                item.provisioning_state or state.SUCCEEDED,
            )
            for item in items
        )

    # --- clusters ---------------------------------------------------------------------------------

    def clusters(self, group: str) -> tuple[state.Cluster, ...]:
        """The clusters of a group."""
        with translated(f"list the clusters of {group}"):
            try:
                return tuple(
                    map(_cluster, self._aks.managed_clusters.list_by_resource_group(group))
                )
            except ResourceNotFoundError:
                return ()

    def cluster(self, group: str, name: str) -> state.Cluster | None:
        """A cluster with its pools."""
        with translated(f"look at cluster {name}"):
            try:
                return _cluster(self._aks.managed_clusters.get(group, name))
            except ResourceNotFoundError:
                return None

    def put_cluster(self, group: str, cluster: DesiredCluster) -> None:
        """Make a cluster, or bring it to other settings; one that is stopped is started."""
        clusters = self._aks.managed_clusters
        with translated(f"make cluster {cluster.name}"):
            try:
                there: Any = clusters.get(group, cluster.name)
            except ResourceNotFoundError:
                clusters.begin_create_or_update(
                    group, cluster.name, cluster_body(cluster), polling=False
                )
                return
            power = there.properties.power_state
            if power is not None and power.code == "Stopped":
                clusters.begin_start(group, cluster.name, polling=False)
                return
            there.tags = dict(cluster.tags)
            there.sku = {"name": "Base", "tier": cluster.tier}
            if cluster.kubernetes:
                there.properties.kubernetes_version = cluster.kubernetes
            clusters.begin_create_or_update(group, cluster.name, there, polling=False)

    def tag_cluster(self, group: str, name: str, tags: dict[str, str]) -> None:
        """Give a cluster other tags."""
        with translated(f"tag cluster {name}"):
            self._aks.managed_clusters.begin_update_tags(group, name, {"tags": tags}, polling=False)

    def delete_cluster(self, group: str, name: str) -> None:
        """Remove a cluster, and the group of its machines with it."""
        with translated(f"remove cluster {name}"), _absent():
            self._aks.managed_clusters.begin_delete(group, name, polling=False)

    def put_pool(self, group: str, cluster: str, pool: DesiredPool) -> None:
        """Make a node pool, or bring it to other settings."""
        with translated(f"make node pool {pool.name}"):
            body: Any = {"properties": pool_body(pool)}
            self._aks.agent_pools.begin_create_or_update(
                group, cluster, pool.name, body, polling=False
            )

    def floor_pool(self, group: str, cluster: str, pool: str, most: int) -> None:
        """Let a node pool shrink to no node."""
        pools = self._aks.agent_pools
        with translated(f"scale node pool {pool} to 0"):
            there = pools.get(group, cluster, pool)
            assert there.properties is not None  # noqa: S101 - a pool has some
            there.properties.enable_auto_scaling = True
            there.properties.min_count = 0
            there.properties.max_count = max(1, most)
            pools.begin_create_or_update(group, cluster, pool, there, polling=False)

    def delete_pool(self, group: str, cluster: str, pool: str) -> None:
        """Remove a node pool."""
        with translated(f"remove node pool {pool}"), _absent():
            self._aks.agent_pools.begin_delete(group, cluster, pool, polling=False)

    def kubeconfig(self, group: str, cluster: str) -> bytes:
        """The kubeconfig of a cluster, with a login of its user."""
        with translated(f"fetch the kubeconfig of {cluster}"):
            answer = self._aks.managed_clusters.list_cluster_user_credentials(group, cluster)
        files = answer.kubeconfigs or ()
        for file in files:
            if file.value:
                return bytes(file.value)
        raise RunError(f"Azure gives no kubeconfig for {cluster}", hint="ask again in a minute")

    # --- storage ----------------------------------------------------------------------------------

    def account(self, group: str, name: str) -> state.StorageAccount | None:
        """A storage account with its shares and containers."""
        with translated(f"look at storage account {name}"):
            try:
                answer: Any = self._storage.storage_accounts.get_properties(group, name)
            except ResourceNotFoundError:
                return None
            base = state.StorageAccount(
                answer.id or "",
                answer.name or name,
                answer.type or "",
                dict(answer.tags or {}),
                _word(answer.properties.provisioning_state, state.SUCCEEDED),
                region=normal_region(answer.location or ""),
                sku=_word(answer.sku.name if answer.sku else None, ""),
            )
            return base if base.is_busy else self._inside(group, base)

    def _inside(self, group: str, base: state.StorageAccount) -> state.StorageAccount:
        from dataclasses import replace

        storage = self._storage
        try:
            shares = {
                item.name or "": int((item.properties.share_quota if item.properties else 0) or 0)
                for item in storage.file_shares.list(group, base.name)
            }
            files = storage.file_services.get_service_properties(group, base.name)
            days = _days(files.share_delete_retention_policy)
            if base.sku.startswith("Premium"):
                return replace(base, shares=shares, share_days=days)
            blobs = storage.blob_services.get_service_properties(group, base.name)
            return replace(
                base,
                shares=shares,
                share_days=days,
                containers=tuple(
                    item.name or "" for item in storage.blob_containers.list(group, base.name)
                ),
                blob_days=_days(blobs.delete_retention_policy),
                container_days=_days(blobs.container_delete_retention_policy),
            )
        except ResourceNotFoundError:  # it is going, or not known everywhere yet
            return base

    def put_account(self, group: str, account: DesiredAccount) -> None:
        """Make a storage account, or bring it to other settings."""
        with translated(f"make storage account {account.name}"):
            self._storage.storage_accounts.begin_create(
                group, account.name, account_body(account), polling=False
            )

    def delete_account(self, group: str, name: str) -> None:
        """Remove a storage account with all its data."""
        with translated(f"remove storage account {name}"), _absent():
            self._storage.storage_accounts.delete(group, name)

    def put_soft_delete(self, group: str, account: str, days: int, *, blobs: bool) -> None:
        """Keep what is removed from an account for some days."""
        policy = {"enabled": True, "days": days}
        files: Any = {"properties": {"shareDeleteRetentionPolicy": policy}}
        of_blobs: Any = {
            "properties": {
                "deleteRetentionPolicy": policy,
                "containerDeleteRetentionPolicy": policy,
            }
        }
        with translated(f"turn on soft delete of {account}"):
            if blobs:
                self._storage.blob_services.set_service_properties(group, account, of_blobs)
            else:
                self._storage.file_services.set_service_properties(group, account, files)

    def put_share(self, group: str, account: str, name: str, quota: int, *, is_new: bool) -> None:
        """Make a file share, or give it another quota in GiB."""
        body: Any = {"properties": {"shareQuota": quota}}
        shares = self._storage.file_shares
        with translated(f"make file share {name}"):
            if is_new:
                shares.create(group, account, name, body)
            else:
                shares.update(group, account, name, body)

    def put_container(self, group: str, account: str, name: str) -> None:
        """Make a blob container."""
        with translated(f"make blob container {name}"):
            body: Any = {"properties": {"publicAccess": "None"}}
            self._storage.blob_containers.create(group, account, name, body)


# --- what is read ---------------------------------------------------------------------------------


def _only_absent(error: HttpResponseError, code: str) -> None:
    """Let an answer 404 pass for "is not there" only where it says so of the thing itself."""
    answer = parts(error)[0]
    if answer and answer not in (code, "ResourceNotFound", "NotFound"):
        raise error


class _absent:  # noqa: N801 - a context manager, in use a word of a sentence
    """Treat a resource that is to be removed and is not there as removed."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        return isinstance(error, ResourceNotFoundError)


def _group(item: Any) -> state.ResourceGroup:
    return state.ResourceGroup(
        item.id or "",
        item.name or "",
        item.type or "",
        dict(item.tags or {}),
        (item.properties.provisioning_state if item.properties else "") or state.SUCCEEDED,
        region=normal_region(item.location or ""),
    )


def _cluster(item: Any) -> state.Cluster:
    about = item.properties
    return state.Cluster(
        item.id or "",
        item.name or "",
        item.type or "",
        dict(item.tags or {}),
        _word(about.provisioning_state, state.SUCCEEDED),
        region=normal_region(item.location or ""),
        dns_prefix=about.dns_prefix or "",
        kubernetes=about.kubernetes_version or "",
        kubernetes_now=about.current_kubernetes_version or about.kubernetes_version or "",
        tier=_word(item.sku.tier if item.sku else None, "Free"),
        node_group=about.node_resource_group or "",
        host=about.fqdn or "",
        issuer=(about.oidc_issuer_profile.issuer_url if about.oidc_issuer_profile else "") or "",
        power=_power(about),
        pools=tuple(_pool(pool) for pool in about.agent_pool_profiles or ()),
        error=_provisioning_error(about),
    )


def _word(value: Any, default: str) -> str:
    """A word of an enumeration of the SDK's, or the text itself where it does not know the word."""
    return str(getattr(value, "value", value) or default)


def _power(about: Any) -> str:
    return _word(about.power_state.code if about.power_state else None, "Running")


def _provisioning_error(about: Any) -> str:
    detail = about.status.provisioning_error if about.status else None
    return " ".join(str(getattr(detail, "message", "") or "").split()).rstrip(".")


def _pool(item: Any) -> state.ObservedPool:
    about = getattr(item, "properties", None) or item
    is_scaled = bool(about.enable_auto_scaling)
    return state.ObservedPool(
        name=item.name or "",
        vm_size=about.vm_size or "",
        nodes=about.count or 0,
        min_nodes=(about.min_count or 0) if is_scaled else None,
        max_nodes=(about.max_count or 0) if is_scaled else None,
        mode=_word(about.mode, "User"),
        state=_word(about.provisioning_state, state.SUCCEEDED),
        power=_power(about),
        labels=_own_labels(about.node_labels or {}),
        taints=tuple(text for text in about.node_taints or () if not text.startswith(_AZURE)),
        tags=dict(about.tags or {}),
        spot=_word(about.scale_set_priority, "") == "Spot",
        gpu_driver=_word(about.gpu_profile.driver if about.gpu_profile else None, "") != "None",
        error=_provisioning_error(about),
    )


def _own_labels(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted((name, value) for name, value in labels.items() if not name.startswith(_AZURE))
    )


def _days(policy: Any) -> int:
    return int(policy.days or 0) if policy is not None and policy.enabled else 0


def _vm_size(sku: Any, region: str) -> state.VmSize:
    about = {item.name: item.value for item in sku.capabilities or ()}
    return state.VmSize(
        sku.name or "",
        sku.family or "",
        int(about.get("vCPUs") or 0),
        int(about.get("GPUs") or 0),
        _refusal(sku, region),
    )


def _refusal(sku: Any, region: str) -> str:
    for item in sku.restrictions or ():
        places = [normal_region(place) for place in item.values_property or ()]
        if _word(item.type, "") == "Location" and region in places:
            if _word(item.reason_code, "") == "NotAvailableForSubscription":
                return "Azure has none of it for this subscription"
            return "the subscription's quota does not include it"
    return ""


def _versions(answer: Any) -> Iterator[str]:
    for item in answer.values_property or ():
        yield item.version
        yield from item.patch_versions or ()
