"""What Azure Resource Manager says is there: frozen data, read by the adapters in `sdk`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

# Words of ARM's `provisioningState`; the others mean that something is still done.
SUCCEEDED, FAILED, CANCELED = "Succeeded", "Failed", "Canceled"
DELETING = "Deleting"
_ENDS = (SUCCEEDED, FAILED, CANCELED, "")


@dataclass(frozen=True, slots=True)
class Resource:
    """Anything in a resource group.

    Attributes:
        id: the whole path of ARM.
        name: its name.
        type: as ``Microsoft.Storage/storageAccounts``.
        tags: its tags.
        state: the word of `provisioningState`; "" where there is none.
    """

    id: str
    name: str
    type: str
    tags: Mapping[str, str] = field(default_factory=dict)
    state: str = SUCCEEDED

    @property
    def is_busy(self) -> bool:
        """Whether an operation on it goes on."""
        return self.state not in _ENDS


@dataclass(frozen=True, slots=True)
class ResourceGroup(Resource):
    """A resource group.

    Attributes:
        region: where it is.
    """

    region: str = ""


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """A node pool.

    Attributes:
        name: its name.
        vm_size: the size of its machines.
        nodes: how many there are.
        min_nodes: how many at least; None where nothing scales it.
        max_nodes: how many at most; None likewise.
        mode: System or User.
        state: `provisioningState`.
        power: Running or Stopped.
        labels: of its nodes, without those of AKS.
        taints: of its nodes, without those of AKS.
        tags: its tags.
        spot: whether its machines may be taken away.
        gpu_driver: whether AKS installs the driver of GPUs.
        error: why its last operation failed.
    """

    name: str
    vm_size: str
    nodes: int
    min_nodes: int | None = None
    max_nodes: int | None = None
    mode: str = "User"
    state: str = SUCCEEDED
    power: str = "Running"
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    spot: bool = False
    gpu_driver: bool = True
    error: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether an operation on it goes on."""
        return self.state not in _ENDS


@dataclass(frozen=True, slots=True)
class Cluster(Resource):
    """An AKS cluster.

    Attributes:
        region: where it is.
        dns_prefix: of its API server.
        kubernetes: the version that was asked for.
        kubernetes_now: the version that runs.
        tier: what is paid for the control plane.
        node_group: the resource group of its machines, which AKS made.
        host: of its API server.
        issuer: the URL of its OIDC issuer, for workload identities; "" for none.
        power: Running or Stopped.
        pools: its node pools.
        error: why its last operation failed.
    """

    region: str = ""
    dns_prefix: str = ""
    kubernetes: str = ""
    kubernetes_now: str = ""
    tier: str = "Free"
    node_group: str = ""
    host: str = ""
    issuer: str = ""
    power: str = "Running"
    pools: tuple[ObservedPool, ...] = ()
    error: str = ""

    def pool(self, name: str) -> ObservedPool | None:
        """Its pool of a name; None where there is none."""
        return next((pool for pool in self.pools if pool.name == name), None)


@dataclass(frozen=True, slots=True)
class StorageAccount(Resource):
    """A storage account.

    Attributes:
        region: where it is.
        sku: its kind.
        shares: by its name, the quota of each file share in GiB.
        containers: the names of its blob containers.
        share_days: for how many days a share that was removed can be had back; 0 for none.
        blob_days: for how many days a blob can be.
        container_days: for how many days a container can be.
    """

    region: str = ""
    sku: str = ""
    shares: Mapping[str, int] = field(default_factory=dict)
    containers: tuple[str, ...] = ()
    share_days: int = 0
    blob_days: int = 0
    container_days: int = 0


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of all that an azure.yaml names.

    Attributes:
        now: the time of Azure's own clock.
        group: the resource group; None where there is none.
        cluster: the cluster.
        account: the storage account.
        resources: all that is in the group, whoever made it.
        unregistered: the resource providers that the subscription does not use yet.
    """

    now: datetime
    group: ResourceGroup | None = None
    cluster: Cluster | None = None
    account: StorageAccount | None = None
    resources: tuple[Resource, ...] = ()
    unregistered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider of a subscription.

    Attributes:
        name: as ``Microsoft.ContainerService``.
        is_registered: whether the subscription uses it.
        regions: where it makes what we need.
    """

    name: str
    is_registered: bool
    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VmSize:
    """A size of machines in a region.

    Attributes:
        name: as ``Standard_D8s_v5``.
        family: whose quota it is counted to.
        cores: vCPUs.
        gpus: GPUs.
        refusal: why this subscription may have none; "" where it may.
    """

    name: str
    family: str
    cores: int
    gpus: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class VcpuQuota:
    """A quota of vCPUs in a region.

    Attributes:
        name: of a family, or ``cores`` for all.
        title: how a person knows it.
        used_vcpus: how many are.
        limit: how many may be.
    """

    name: str
    title: str
    used_vcpus: int
    limit: int

    @property
    def free(self) -> int:
        """The number of vCPUs that are left."""
        return max(0, self.limit - self.used_vcpus)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The catalog of a region: machines, versions of Kubernetes, and the subscription's quotas.

    Attributes:
        regions: where there is AKS.
        sizes: the sizes of machines of the region.
        usages: the quotas of the region.
        versions: the versions of Kubernetes of the region, as ``1.34`` and ``1.34.2``.
    """

    regions: tuple[str, ...] = ()
    sizes: tuple[VmSize, ...] = ()
    usages: tuple[VcpuQuota, ...] = ()
    versions: tuple[str, ...] = ()

    def size(self, name: str) -> VmSize | None:
        """A size by its name, whatever its case; None where there is none."""
        return next((size for size in self.sizes if size.name.lower() == name.lower()), None)

    def usage(self, name: str) -> VcpuQuota | None:
        """A quota by its name, whatever its case."""
        return next((usage for usage in self.usages if usage.name.lower() == name.lower()), None)
