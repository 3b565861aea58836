"""What is to be done: desired against observed state, decided from data alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.azure.actions import Action, Plan, ResourceKind, Verb
from allranks.azure.desired import (
    SPOT_TAINT,
    TAG_EXPIRES,
    TAG_MADE,
    TAG_NAME,
    is_of,
    time_text,
)
from allranks.azure.observed import DELETING, FAILED
from allranks.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.azure.desired import Desired, DesiredPool
    from allranks.azure.observed import (
        Cluster,
        Observed,
        ObservedPool,
        Resource,
        ResourceGroup,
        StorageAccount,
    )

CLUSTER_TYPE = "Microsoft.ContainerService/managedClusters"
ACCOUNT_TYPE = "Microsoft.Storage/storageAccounts"
# Of one family of disks and copies: between these an account may be changed.
_KEEPS = "cannot be changed once it is made"
Tags = tuple[tuple[str, str], ...]


def plan(desired: Desired, observed: Observed) -> Plan:
    """The actions of `up`, from the observed to the desired state.

    Args:
        desired: what is to be.
        observed: what is there.
    """
    refusals = [*_refuse_group(desired, observed.group)]
    if not refusals:
        refusals = [
            *_refuse_expired(desired, observed),
            *_refuse_cluster(desired, observed.cluster),
            *_refuse_account(desired, observed.account),
        ]
    entries = [
        *(
            Action(Verb.MAKE, ResourceKind.PROVIDER, name, "the subscription does not use it yet")
            for name in observed.unregistered
        ),
        _group(desired, observed.group),
        *_cluster(desired, observed),
        *_storage(desired, observed),
    ]
    return Plan(tuple(entries), tuple(refusals), tuple(_notes(desired, observed)))


def _refuse_group(desired: Desired, group: ResourceGroup | None) -> Iterator[Problem]:
    if group is None:
        return
    name = dict(desired.group.tags)[TAG_NAME]
    if TAG_NAME not in group.tags:
        yield Problem(
            "resourceGroup",
            f"resource group {group.name} is there and was not made by allranks: it has no tag "
            f"{TAG_NAME}; nothing in it is touched",
            "name another group, which is made",
        )
    elif not is_of(group.tags, name):
        yield Problem(
            "resourceGroup",
            f"resource group {group.name} is of {group.tags[TAG_NAME]!r}, and this is {name!r}",
            "name another group, or write that name",
        )
    elif group.state == DELETING:
        yield Problem(
            "resourceGroup",
            f"resource group {group.name} is being removed",
            "`allranks azure down` waits until it is gone; then ask again",
        )
    elif group.region != desired.group.region:
        yield Problem(
            "region",
            f"resource group {group.name} is in {group.region}, which {_KEEPS}",
            f"write region: {group.region}, or name another group",
        )


def _refuse_expired(desired: Desired, observed: Observed) -> Iterator[Problem]:
    if desired.expires is not None and desired.expires <= observed.now:
        yield Problem(
            "maxHours",
            f"its time was over at {time_text(desired.expires)}; it is "
            f"{time_text(observed.now)} by Azure's clock",
            "raise maxHours, or remove it with `allranks azure down`",
        )


def _refuse_foreign(resource: Resource, kind: str, path: str, name: str) -> Iterator[Problem]:
    if not is_of(resource.tags, name):
        yield Problem(
            path,
            f"{kind} {resource.name} is there and was not made by allranks for {name!r}: its tag "
            f"{TAG_NAME} says otherwise",
            "give ours another name",
        )
    elif resource.state == DELETING:
        yield Problem(path, f"{kind} {resource.name} is being removed", "ask again when it is gone")


def _refuse_cluster(desired: Desired, cluster: Cluster | None) -> Iterator[Problem]:
    if cluster is None:
        return
    want, name = desired.cluster, dict(desired.group.tags)[TAG_NAME]
    yield from _refuse_foreign(cluster, "cluster", "cluster.name", name)
    if cluster.dns_prefix and cluster.dns_prefix != want.dns_prefix:
        yield Problem(
            "cluster.dnsPrefix",
            f"is {want.dns_prefix}, and the cluster's is {cluster.dns_prefix}, which {_KEEPS}",
            f"write {cluster.dns_prefix}",
        )
    if (
        want.kubernetes
        and _version(want.kubernetes)
        < _version(cluster.kubernetes_now)[: len(_version(want.kubernetes))]
    ):
        yield Problem(
            "cluster.kubernetesVersion",
            f"is {want.kubernetes}, and the cluster runs {cluster.kubernetes_now}; there is no "
            "way back",
            f'write "{cluster.kubernetes_now}"',
        )
    for path, pool in (
        ("cluster.systemPool", want.system),
        *((f"pools[{index}]", pool) for index, pool in enumerate(desired.pools)),
    ):
        there = cluster.pool(pool.name)
        if there is not None:
            yield from _refuse_pool(path, pool, there)


def _refuse_pool(path: str, pool: DesiredPool, there: ObservedPool) -> Iterator[Problem]:
    for key, want, have in (
        ("vmSize", pool.vm_size.lower(), there.vm_size.lower()),
        ("spot", pool.spot, there.spot),
        ("gpuDriver", pool.gpu_driver, there.gpu_driver),
    ):
        if want != have:
            value = there.vm_size if key == "vmSize" else str(have).lower()
            yield Problem(
                f"{path}.{key}",
                f"of node pool {pool.name} is {value} in the cluster, which {_KEEPS}",
                "give the pool another name: the new one is made, and the old one removed",
            )
    if there.mode != pool.mode:
        yield Problem(
            f"{path}.name",
            f"node pool {pool.name} is of the mode {there.mode} in the cluster",
            "give the pool another name",
        )


def _refuse_account(desired: Desired, account: StorageAccount | None) -> Iterator[Problem]:
    if account is None:
        return
    name = dict(desired.group.tags)[TAG_NAME]
    yield from _refuse_foreign(account, "storage account", "storage.account", name)
    if account.sku and account.sku != desired.account.sku:
        yield Problem(
            "storage.sku",
            f"of {account.name} is {account.sku}, and not changed while there is data in it",
            f"write {account.sku}, or name another account",
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


# --- what is to be done ---------------------------------------------------------------------------


def merged_tags(want: Tags, have: Mapping[str, str]) -> Tags:
    """The tags of something that is there: ours, and those that others have put on it.

    Args:
        want: those that it is to have.
        have: those that it has.
    """
    names = {name.lower() for name, _ in want} | {TAG_EXPIRES, TAG_MADE, TAG_NAME}
    others = {name: value for name, value in have.items() if name.lower() not in names}
    return tuple(sorted({**others, **dict(want)}.items()))


def _tags_differ(want: Tags, have: Mapping[str, str]) -> bool:
    return dict(merged_tags(want, have)) != dict(have)


def _tag_words(want: Tags, have: Mapping[str, str]) -> str:
    new = dict(merged_tags(want, have))
    if new.get(TAG_EXPIRES) != have.get(TAG_EXPIRES):
        return f"expires {new.get(TAG_EXPIRES, 'never')}, was {have.get(TAG_EXPIRES, 'never')}"
    return "tags"


def _group(desired: Desired, group: ResourceGroup | None) -> Action:
    want = desired.group
    if group is None:
        until = dict(want.tags).get(TAG_EXPIRES)
        detail = f"{want.region}, " + (f"expires {until}" if until else "no expiry")
        return Action(Verb.MAKE, ResourceKind.GROUP, want.name, detail, want)
    if group.is_busy:
        return Action(Verb.WAIT, ResourceKind.GROUP, group.name, group.state)
    if _tags_differ(want.tags, group.tags):
        body = replace(want, tags=merged_tags(want.tags, group.tags))
        return Action(
            Verb.CHANGE, ResourceKind.GROUP, want.name, _tag_words(want.tags, group.tags), body
        )
    return Action(Verb.NONE, ResourceKind.GROUP, group.name, group.region)


def _cluster(desired: Desired, observed: Observed) -> Iterator[Action]:

    want, cluster = desired.cluster, observed.cluster
    system = want.system
    shape = f"{system.nodes} x {system.vm_size}, {want.tier} tier"
    is_ready = observed.group is not None and not observed.unregistered
    name = want.name
    if cluster is None:
        yield Action(Verb.MAKE, ResourceKind.CLUSTER, name, shape, want, is_ready)
    elif cluster.is_busy:
        yield Action(Verb.WAIT, ResourceKind.CLUSTER, name, cluster.state)
    else:
        body = replace(want, tags=merged_tags(want.tags, cluster.tags))
        changes = [*_cluster_changes(desired, cluster)]
        if changes:
            failure = cluster.error if cluster.state == FAILED else None
            yield Action(
                Verb.CHANGE, ResourceKind.CLUSTER, name, "; ".join(changes), body, failure=failure
            )
        elif _tags_differ(want.tags, cluster.tags):
            words = _tag_words(want.tags, cluster.tags)
            yield Action(Verb.CHANGE, ResourceKind.CLUSTER, name, words, body, is_alone=True)
        else:
            version = f"Kubernetes {cluster.kubernetes_now}, " if cluster.kubernetes_now else ""
            yield Action(Verb.NONE, ResourceKind.CLUSTER, name, version + cluster.power.lower())
    yield from _pools(desired, cluster)


def _cluster_changes(desired: Desired, cluster: Cluster) -> Iterator[str]:
    want = desired.cluster
    if cluster.state == FAILED:
        yield f"again, as it failed{f': {cluster.error}' if cluster.error else ''}"
    if want.kubernetes and not _is_version(want.kubernetes, cluster):
        yield f"Kubernetes {want.kubernetes}, was {cluster.kubernetes_now}"
    if want.tier != cluster.tier:
        yield f"{want.tier} tier, was {cluster.tier}"
    if cluster.power == "Stopped":
        yield "start it, as it is stopped"


def _is_version(want: str, cluster: Cluster) -> bool:
    there = _version(cluster.kubernetes_now or cluster.kubernetes)
    return there[: len(_version(want))] == _version(want)


def _pools(desired: Desired, cluster: Cluster | None) -> Iterator[Action]:
    is_ready = (
        cluster is not None
        and not cluster.is_busy
        and cluster.state != FAILED
        and cluster.power == "Running"
    )
    system = desired.cluster.system
    pools = ((system, True), *((pool, False) for pool in desired.pools))
    for want, is_system in pools:
        there = cluster.pool(want.name) if cluster is not None else None
        if there is None:
            if is_system and (cluster is None or not cluster.pools):
                continue  # it comes with the cluster
            yield Action(Verb.MAKE, ResourceKind.POOL, want.name, _shape(want), want, is_ready)
        elif there.is_busy:
            yield Action(Verb.WAIT, ResourceKind.POOL, want.name, there.state)
        elif changes := "; ".join(_pool_changes(want, there)):
            failure = there.error if there.state == FAILED else None
            yield Action(
                Verb.CHANGE, ResourceKind.POOL, want.name, changes, want, is_ready, failure=failure
            )
        else:
            yield Action(Verb.NONE, ResourceKind.POOL, want.name, _shape(want))
    names = {want.name for want, _ in pools}
    own = dict(desired.group.tags)[TAG_NAME]
    for there in cluster.pools if cluster is not None else ():
        if there.name in names or not is_of(there.tags, own):
            continue
        if there.state == DELETING:
            yield Action(Verb.WAIT, ResourceKind.POOL, there.name, there.state)
        else:
            detail = f"{there.nodes} x {there.vm_size}; not in the file"
            yield Action(Verb.REMOVE, ResourceKind.POOL, there.name, detail, None, is_ready)


def _shape(pool: DesiredPool) -> str:
    spot = ", spot" if pool.spot else ""
    if pool.max_nodes is None:
        return f"{pool.nodes} x {pool.vm_size}{spot}"
    return f"{pool.min_nodes} to {pool.max_nodes} x {pool.vm_size}{spot}"


def _pool_changes(want: DesiredPool, there: ObservedPool) -> Iterator[str]:
    if there.state == FAILED:
        yield f"again, as it failed{f': {there.error}' if there.error else ''}"
    if want.max_nodes is None:
        if there.max_nodes is not None or want.nodes != there.nodes:
            yield f"{want.nodes} nodes, was {there.nodes}"
    elif (want.min_nodes, want.max_nodes) != (there.min_nodes, there.max_nodes):
        before = (
            f"{there.nodes} always"
            if there.max_nodes is None
            else f"{there.min_nodes} to {there.max_nodes}"
        )
        yield f"{want.min_nodes} to {want.max_nodes} nodes, was {before}"
    if dict(want.labels) != dict(there.labels):
        yield "labels"
    if {*want.taints} - {SPOT_TAINT} != {*there.taints} - {SPOT_TAINT}:
        yield "taints"
    if any(there.tags.get(name) != value for name, value in want.tags):
        yield "tags"


def _storage(desired: Desired, observed: Observed) -> Iterator[Action]:

    want, account = desired.account, observed.account
    is_ready = observed.group is not None and not observed.unregistered
    days = desired.soft_delete_days
    if account is None:
        yield Action(Verb.MAKE, ResourceKind.ACCOUNT, want.name, want.sku, want, is_ready)
    elif account.is_busy:
        yield Action(Verb.WAIT, ResourceKind.ACCOUNT, want.name, account.state)
    elif account.state == FAILED:
        yield Action(
            Verb.CHANGE, ResourceKind.ACCOUNT, want.name, "again, as it failed", want, failure=""
        )
    elif _tags_differ(want.tags, account.tags):
        body = replace(want, tags=merged_tags(want.tags, account.tags))
        words = _tag_words(want.tags, account.tags)
        yield Action(Verb.CHANGE, ResourceKind.ACCOUNT, want.name, words, body, is_alone=True)
    else:
        yield Action(Verb.NONE, ResourceKind.ACCOUNT, want.name, account.sku)
    inside = account is not None and not account.is_busy and account.state != FAILED
    for name, have in (
        ("shares", account.share_days if account is not None else 0),
        *(
            [("blobs", min(account.blob_days, account.container_days) if account else 0)]
            if desired.containers
            else []
        ),
    ):
        verb = Verb.NONE if have == days else Verb.CHANGE if have else Verb.MAKE
        yield Action(verb, ResourceKind.SOFT_DELETE, name, f"{days} days", days, inside)
    for name, quota in desired.shares:
        size = account.shares.get(name) if account is not None else None
        if size is None:
            yield Action(Verb.MAKE, ResourceKind.SHARE, name, f"{quota} GiB", quota, inside)
        elif size != quota:
            words = f"{quota} GiB, was {size}"
            yield Action(Verb.CHANGE, ResourceKind.SHARE, name, words, quota, inside)
        else:
            yield Action(Verb.NONE, ResourceKind.SHARE, name, f"{quota} GiB")
    for name in desired.containers:
        is_there = account is not None and name in account.containers
        verb = Verb.NONE if is_there else Verb.MAKE
        yield Action(verb, ResourceKind.CONTAINER, name, "", None, inside)


def _notes(desired: Desired, observed: Observed) -> Iterator[str]:
    account = observed.account
    if account is not None:
        shares = sorted({*account.shares} - {name for name, _ in desired.shares})
        containers = sorted({*account.containers} - {*desired.containers})
        for kind, names in (("file share", shares), ("blob container", containers)):
            for name in names:
                yield f"{kind} {name} of {account.name} is not in the file, and stays: it has data"
    if observed.cluster is not None and observed.cluster.node_group:
        yield (
            f"resource group {observed.cluster.node_group} is AKS's own, for the machines and "
            "disks of the cluster; it comes and goes with it"
        )
    if desired.expires is None:
        yield "maxHours is 0: nothing ever removes it by itself"


# --- away again -----------------------------------------------------------------------------------


def removal(
    name: str, observed: Observed, *, keep_storage: bool = False, group_name: str = ""
) -> Plan:
    """The actions of `down`.

    The whole group goes in one request, where all in it is ours: whatever becomes of this program,
    Azure goes on. Else each thing of ours goes by itself, and the group stays.

    Args:
        name: what the whole is called.
        observed: what is there.
        keep_storage: whether the storage account stays, and so the group.
        group_name: how the group is called, for messages.
    """
    group = observed.group
    if group is None:
        return Plan((), notes=(f"there is no resource group {group_name}: nothing to remove",))
    if not is_of(group.tags, name):
        whose = group.tags.get(TAG_NAME)
        words = f"is of {whose!r}" if whose else f"has no tag {TAG_NAME}"
        problem = Problem(
            "resourceGroup",
            f"resource group {group.name} {words}, and allranks removes nothing that it did not "
            f"make for {name!r}",
            "mend azure.yaml; or remove it in the portal, if it is yours",
        )
        return Plan((), (problem,))
    own = [item for item in observed.resources if is_of(item.tags, name)]
    foreign = [item for item in observed.resources if not is_of(item.tags, name)]
    return Plan(
        tuple(_removals(group, own, foreign, keep_storage=keep_storage)),
        notes=tuple(_removal_notes(observed, group, own, foreign, keep_storage=keep_storage)),
    )


def _removals(
    group: ResourceGroup, own: list[Resource], foreign: list[Resource], *, keep_storage: bool
) -> Iterator[Action]:
    accounts = [item for item in own if keep_storage and _is_account(item)]
    goes_whole = not foreign and not accounts and not keep_storage
    # The cluster last: what removes may run in it, and then goes with it.
    for item in sorted(own, key=lambda item: (item.type == CLUSTER_TYPE, item.type, item.name)):
        kind = ResourceKind.CLUSTER if item.type == CLUSTER_TYPE else ResourceKind.ACCOUNT
        if item in accounts or item.type not in (CLUSTER_TYPE, ACCOUNT_TYPE):
            continue
        is_going = item.state == DELETING or (goes_whole and group.state == DELETING)
        yield Action(
            Verb.WAIT if is_going else Verb.REMOVE,
            kind,
            item.name,
            "is being removed" if is_going else _loss(item),
            is_ready=not goes_whole,
            takes_data=_is_account(item),
        )
    if goes_whole:
        is_going = group.state == DELETING
        yield Action(
            Verb.WAIT if is_going else Verb.REMOVE,
            ResourceKind.GROUP,
            group.name,
            "is being removed" if is_going else "with all that is in it",
            takes_data=any(map(_is_account, own)),
        )


def _is_account(item: Resource) -> bool:
    return item.type == ACCOUNT_TYPE


def _loss(item: Resource) -> str:
    return "with all its data" if _is_account(item) else "with its node pools and disks"


def _removal_notes(
    observed: Observed,
    group: ResourceGroup,
    own: list[Resource],
    foreign: list[Resource],
    *,
    keep_storage: bool,
) -> Iterator[str]:
    cluster = observed.cluster
    if cluster is not None and cluster.node_group and not keep_storage:
        yield (
            f"resource group {cluster.node_group} goes with the cluster: its machines, and the "
            "disks and addresses that pods have asked for"
        )
    for item in foreign:
        yield f"{item.type} {item.name} is not ours and stays, and so does group {group.name}"
    if keep_storage:
        for item in filter(_is_account, own):
            yield f"storage account {item.name} stays with its data, and so does {group.name}"
