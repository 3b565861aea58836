"""What costs money, since when, and what of it need not: decided from data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.azure.desired import TAG_EXPIRES, TAG_NAME, creation_time, expiry_time, time_text
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from allranks.azure.observed import Cluster, ObservedPool, ResourceGroup

# Azure's sizes with accelerators are its N series: NC, ND, NG, NV.
_ACCELERATED = "standard_n"


@dataclass(frozen=True, slots=True)
class NeedlessCost:
    """Something that costs money and need not, and what ends it.

    Attributes:
        name: what the whole is called.
        words: what it is.
        remedy: what would be done, in words.
        group: its resource group.
        cluster: the cluster of the pool that is scaled to 0; "" where it is no pool.
        pool: the pool.
        most: how many nodes the pool may still grow to.
    """

    name: str
    words: str
    remedy: str
    group: str = ""
    cluster: str = ""
    pool: str = ""
    most: int = 0

    def as_dict(self) -> dict[str, str]:
        """The finding as JSON-ready data."""
        return {"name": self.name, "finding": self.words, "remedy": self.remedy}


@dataclass(frozen=True, slots=True)
class Bill:
    """The resources of one name that cost money.

    Attributes:
        name: what the whole is called.
        group: its resource group.
        created_at: since when; None where it does not say.
        expires: until when; None for ever.
        pools: its node pools, as ``2 x Standard_D8s_v5``, with their names.
        findings: what need not be.
    """

    name: str
    group: str
    created_at: datetime | None
    expires: datetime | None
    pools: tuple[tuple[str, str], ...]
    findings: tuple[NeedlessCost, ...]

    def as_dict(self) -> dict[str, Any]:
        """The bill as JSON-ready data."""
        return {
            "name": self.name,
            "resourceGroup": self.group,
            "made": time_text(self.created_at) if self.created_at else None,
            "expires": time_text(self.expires) if self.expires else None,
            "pools": [{"name": name, "machines": text} for name, text in self.pools],
            "findings": [finding.as_dict() for finding in self.findings],
        }


def bill(group: ResourceGroup, clusters: Sequence[Cluster], now: datetime) -> Bill:
    """The bill of a resource group of ours, and which of its costs are needless.

    Args:
        group: the resource group.
        clusters: its clusters.
        now: the time of Azure's clock.
    """
    name = group.tags[TAG_NAME]
    pools = [(cluster, pool) for cluster in clusters for pool in cluster.pools]
    return Bill(
        name,
        group.name,
        creation_time(group.tags),
        expiry_time(group.tags),
        tuple((pool.name, f"{_running(pool)} x {pool.vm_size}") for _, pool in pools),
        (
            *_time_findings(name, group, now),
            *(
                finding
                for cluster, pool in pools
                if (finding := _pool_finding(name, group, cluster, pool)) is not None
            ),
        ),
    )


def _running(pool: ObservedPool) -> int:
    return pool.nodes if pool.power == "Running" else 0


def is_accelerated(vm_size: str) -> bool:
    """Whether machines of a size have GPUs, by the name of their series."""
    return vm_size.lower().startswith(_ACCELERATED)


def _time_findings(name: str, group: ResourceGroup, now: datetime) -> Iterator[NeedlessCost]:
    expires = expiry_time(group.tags)
    if is_expired(group, now):
        assert expires is not None  # noqa: S101 - it has expired
        yield NeedlessCost(
            name,
            f"expired {age(now - expires)} ago",
            "would be removed by `allranks azure reap`",
            group.name,
        )
    elif expires is None:
        text = group.tags.get(TAG_EXPIRES)
        words = f"its tag {TAG_EXPIRES} is {text!r}, which is no time" if text else "never expires"
        yield NeedlessCost(name, words, "write maxHours, and `allranks azure up`", group.name)


def _pool_finding(
    name: str, group: ResourceGroup, cluster: Cluster, pool: ObservedPool
) -> NeedlessCost | None:
    if not is_accelerated(pool.vm_size) or pool.mode == "System":
        return None
    if pool.max_nodes is None and pool.nodes:
        words = f"node pool {pool.name} always has {plural(pool.nodes, 'node')} with GPUs"
    elif pool.min_nodes:
        words = (
            f"node pool {pool.name} never has fewer than {plural(pool.min_nodes, 'node')} with GPUs"
        )
    else:
        return None
    most = max(pool.max_nodes or pool.nodes, 1)
    remedy = f"would be scaled from 0 to {most} by what pods ask for; one that is used stays"
    return NeedlessCost(name, words, remedy, group.name, cluster.name, pool.name, most)


def is_expired(group: ResourceGroup, now: datetime) -> bool:
    """Whether a group of ours is past its time.

    Args:
        group: the resource group.
        now: the time of Azure's clock.
    """
    expires = expiry_time(group.tags)
    return expires is not None and expires <= now


def age(length: timedelta) -> str:
    """A length of time: ``3d4h``, ``2h05m``, ``7m``."""
    minutes = int(length.total_seconds()) // 60
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m"
