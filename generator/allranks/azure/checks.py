"""What a region and a subscription lack of what is asked for, told before anything is made."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from allranks.errors import Problem
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.azure.observed import Catalog, Observed, VcpuQuota, VmSize
    from allranks.azure.settings import Settings

ALL_CORES = "cores"  # the quota of all vCPUs of a region
SPOT_CORES = "lowPriorityCores"  # that of all spot machines, whatever their family


def check_region(settings: Settings, catalog: Catalog) -> Iterator[Problem]:
    """Yield a problem where there is no such region, or no AKS in it."""
    if catalog.regions and settings.region not in catalog.regions:
        yield Problem(
            "region",
            f"there is no AKS in a region {settings.region!r}",
            _nearest(settings.region, catalog.regions, "a region"),
        )


def check(settings: Settings, catalog: Catalog, observed: Observed) -> tuple[Problem, ...]:
    """The problems with a region: machines that it lacks, and quotas that are too small.

    Args:
        settings: what is asked for.
        catalog: what there is.
        observed: what is made already, which has its cores.
    """
    problems = [*check_region(settings, catalog)]
    if problems:
        return tuple(problems)
    problems += _sizes(settings, catalog)
    problems += _version(settings, catalog)
    if not problems:
        problems += _quota(settings, catalog, observed)
    return tuple(problems)


def _machines(settings: Settings) -> list[tuple[str, str, str, int, int, bool]]:
    """Path, pool, size, nodes at least and at most, and whether they are spot ones."""
    system = settings.system
    return [
        ("cluster.systemPool", system.name, system.vm_size, system.nodes, system.nodes, False),
        *(
            (f"pools[{at}]", pool.name, pool.vm_size, pool.min_nodes, pool.max_nodes, pool.spot)
            for at, pool in enumerate(settings.pools)
        ),
    ]


def _sizes(settings: Settings, catalog: Catalog) -> Iterator[Problem]:
    for path, _, name, least, _, _ in _machines(settings):
        size = catalog.size(name)
        place = f"{path}.vmSize"
        if size is None:
            sizes = [item.name for item in catalog.sizes if not item.refusal]
            yield Problem(
                place,
                f"there are no machines of the size {name!r} in {settings.region}",
                _nearest(name, sizes, "a size of the region"),
            )
        elif size.refusal:
            yield Problem(
                place,
                f"this subscription may have no {size.name} in {settings.region}: {size.refusal}",
                "choose another size or region, or ask Azure's support for it",
            )
        elif size.gpus and least and path != "cluster.systemPool":
            yield Problem(
                f"{path}.minNodes",
                f"is {least} for machines with {plural(size.gpus, 'GPU')}, which are then paid "
                "for while nothing runs",
                "write 0: the first pod that asks for a GPU starts one",
            )
        elif size.gpus and path == "cluster.systemPool":
            yield Problem(
                place,
                f"{size.name} has {plural(size.gpus, 'GPU')}, and the system pool always runs",
                "give the GPUs a pool of their own in pools, from 0 nodes",
            )


def _version(settings: Settings, catalog: Catalog) -> Iterator[Problem]:
    if settings.kubernetes and catalog.versions and settings.kubernetes not in catalog.versions:
        minors = [version for version in catalog.versions if version.count(".") == 1]
        yield Problem(
            "cluster.kubernetesVersion",
            f"there is no Kubernetes {settings.kubernetes} in {settings.region}",
            f'write one of {", ".join(minors or catalog.versions)}, or "" for AKS\'s own choice',
        )


def _quota(settings: Settings, catalog: Catalog, observed: Observed) -> Iterator[Problem]:
    free: dict[str, int] = {usage.name.lower(): usage.free for usage in catalog.usages}
    for path, pool, name, least, _, is_spot in _machines(settings):
        size = catalog.size(name)
        if size is None:
            continue
        there = _nodes_there(observed, pool)
        # A pool of 0 nodes is of no use where not even one of them may start.
        need = max(0, max(least, 1) - there) * size.cores
        for usage in _usages(catalog, size, is_spot=is_spot):
            free_cores = free[usage.name.lower()]
            if need > free_cores:
                yield _no_quota(f"{path}.vmSize", pool, size, usage, settings.region)
                break
        else:
            for usage in _usages(catalog, size, is_spot=is_spot):
                free[usage.name.lower()] -= max(0, least - there) * size.cores


def _no_quota(path: str, pool: str, size: VmSize, usage: VcpuQuota, region: str) -> Problem:
    return Problem(
        path,
        f"node pool {pool} has machines of {size.cores} vCPUs ({size.name}), and of the quota of "
        f"{usage.title} in {region} {usage.used_vcpus} of {usage.limit} are used: what is asked "
        "for does not fit",
        f"ask for more of {usage.title!r} in the portal, Quotas > Compute > {region}; it is free, "
        "and takes minutes to days. Or choose a size of another family, or another region",
    )


def _usages(catalog: Catalog, size: VmSize, *, is_spot: bool) -> list[VcpuQuota]:
    names = [SPOT_CORES] if is_spot else [size.family, ALL_CORES]
    return [usage for name in names if (usage := catalog.usage(name)) is not None]


def _nodes_there(observed: Observed, pool: str) -> int:
    there = observed.cluster.pool(pool) if observed.cluster is not None else None
    return there.nodes if there is not None else 0


def quota_notes(settings: Settings, catalog: Catalog, observed: Observed) -> Iterator[str]:
    """Which pools cannot grow to their most, though they can begin."""
    for _, pool, name, least, most, is_spot in _machines(settings):
        size = catalog.size(name)
        usages = _usages(catalog, size, is_spot=is_spot) if size is not None else []
        if size is None or not usages or least == most:
            continue
        usage = min(usages, key=lambda usage: usage.free)
        can = _nodes_there(observed, pool) + usage.free // max(1, size.cores)
        if 0 < can < most:
            yield (
                f"node pool {pool} may grow to {most} nodes, and the quota of {usage.title} is "
                f"enough for {can}: {usage.free} of {usage.limit} vCPUs are left"
            )


def _nearest(name: str, choices: Sequence[str], kind: str) -> str:
    folded = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), folded, n=3, cutoff=0.6)
    if near:
        return f"write {folded[near[0]]}" + (
            f"; near it are {', '.join(folded[item] for item in near[1:])}" if near[1:] else ""
        )
    return f"write {kind}: {list_some(sorted(choices), 8)}" if choices else f"write {kind}"
