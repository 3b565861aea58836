"""What an azure.yaml wants to be there, as data."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from allranks.azure import naming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.azure.observed import ResourceGroup
    from allranks.azure.settings import Pool, Settings

# Tags of ours. Azure forbids "/" in the names of tags, so they are no labels of Kubernetes' kind.
TAG_NAME = f"{naming.OWN_PREFIX}name"  # what the whole is called: by this alone is it removed
TAG_MADE = f"{naming.OWN_PREFIX}made"  # when, by Azure's own clock
TAG_EXPIRES = f"{naming.OWN_PREFIX}expires"  # until when it may live
_TIME = "%Y-%m-%dT%H:%M:%SZ"
# Azure puts these on nodes of spot pools by itself.
SPOT_TAINT = "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"


@dataclass(frozen=True, slots=True)
class DesiredGroup:
    """A resource group as it is to be."""

    name: str
    region: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DesiredPool:
    """A node pool as it is to be.

    Attributes:
        name: its name.
        vm_size: the size of its machines.
        mode: System or User.
        nodes: how many it begins with.
        min_nodes: how many at least; None where nothing scales it.
        max_nodes: how many at most; None likewise.
        spot: whether its machines may be taken away.
        gpu_driver: whether AKS installs the driver of GPUs.
        labels: of its nodes.
        taints: of its nodes.
        tags: its tags.
    """

    name: str
    vm_size: str
    mode: str
    nodes: int
    min_nodes: int | None
    max_nodes: int | None
    spot: bool
    gpu_driver: bool
    labels: tuple[tuple[str, str], ...]
    taints: tuple[str, ...]
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DesiredCluster:
    """A cluster as it is to be, with the pool of Kubernetes' own pods."""

    name: str
    region: str
    dns_prefix: str
    kubernetes: str
    tier: str
    system: DesiredPool
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DesiredAccount:
    """A storage account as it is to be."""

    name: str
    region: str
    sku: str
    tags: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state: each resource that an azure.yaml asks for.

    Attributes:
        group: the resource group.
        cluster: the cluster.
        pools: its pools, but for that of Kubernetes' own pods.
        account: the storage account.
        soft_delete_days: for how long what was removed can be had back.
        shares: by its name, the quota of each file share in GiB.
        containers: the names of the blob containers.
        expires: until when it may live; None for ever.
    """

    group: DesiredGroup
    cluster: DesiredCluster
    pools: tuple[DesiredPool, ...]
    account: DesiredAccount
    soft_delete_days: int
    shares: tuple[tuple[str, int], ...]
    containers: tuple[str, ...]
    expires: datetime | None


def desired(settings: Settings, group: ResourceGroup | None, now: datetime) -> Desired:
    """The desired state of an azure.yaml.

    It may live so many hours from when the group was made, and not from when it was last asked for:
    the same file twice is the same twice.

    Args:
        settings: the azure.yaml.
        group: the group as it is there; None where it is not.
        now: the time of Azure's clock, which is when it is made.
    """
    created_at = creation_time(group.tags) if group is not None else None
    created_at = created_at or now
    expires = created_at + timedelta(hours=settings.max_hours) if settings.max_hours else None
    own = [(TAG_NAME, settings.name), (TAG_MADE, time_text(created_at))]
    if expires is not None:
        own.append((TAG_EXPIRES, time_text(expires)))
    tags = tuple(sorted((*settings.tags, *own)))
    system = settings.system
    return Desired(
        group=DesiredGroup(settings.group, settings.region, tags),
        cluster=DesiredCluster(
            name=settings.cluster,
            region=settings.region,
            dns_prefix=settings.dns_prefix,
            kubernetes=settings.kubernetes,
            tier=settings.tier,
            system=DesiredPool(
                name=system.name,
                vm_size=system.vm_size,
                mode="System",
                nodes=system.nodes,
                min_nodes=None,
                max_nodes=None,
                spot=False,
                gpu_driver=True,
                labels=(),
                taints=(),
                tags=_pool_tags(settings),
            ),
            tags=tags,
        ),
        pools=tuple(_pool(pool, settings) for pool in settings.pools),
        account=DesiredAccount(settings.account, settings.region, settings.sku, tags),
        soft_delete_days=settings.soft_delete_days,
        shares=tuple((share.name, share.quota) for share in settings.shares),
        containers=settings.containers,
        expires=expires,
    )


def _pool(pool: Pool, settings: Settings) -> DesiredPool:
    return DesiredPool(
        name=pool.name,
        vm_size=pool.vm_size,
        mode="User",
        nodes=pool.min_nodes,
        min_nodes=pool.min_nodes,
        max_nodes=pool.max_nodes,
        spot=pool.spot,
        gpu_driver=pool.gpu_driver,
        labels=pool.labels,
        taints=pool.taints,
        tags=_pool_tags(settings),
    )


def _pool_tags(settings: Settings) -> tuple[tuple[str, str], ...]:
    """A pool's tags: not those of time, for which its machines would be made anew."""
    return tuple(sorted((*settings.tags, (TAG_NAME, settings.name))))


# --- times in tags --------------------------------------------------------------------------------


def time_text(time: datetime) -> str:
    """A time as a tag has it, in UTC: ``2026-11-24T16:30:00Z``."""
    return time.strftime(_TIME)


def _read_time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None


def creation_time(tags: Mapping[str, str]) -> datetime | None:
    """The time when a resource of ours was made; None where its tags do not say."""
    return _read_time(tags.get(TAG_MADE, ""))


def expiry_time(tags: Mapping[str, str]) -> datetime | None:
    """The time when a resource of ours expires; None for never, and where the tag is no time."""
    return _read_time(tags.get(TAG_EXPIRES, ""))


def is_of(tags: Mapping[str, str], name: str) -> bool:
    """Whether something is of what is called so, by its tag alone."""
    return tags.get(TAG_NAME) == name
