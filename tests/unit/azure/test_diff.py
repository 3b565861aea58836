"""What is to be done, decided from data: properties over what may be there and be asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from allranks.azure import diff, observed
from allranks.azure.actions import Action, ResourceKind, Verb
from allranks.azure.desired import (
    TAG_EXPIRES,
    TAG_NAME,
    DesiredPool,
    creation_time,
    desired,
    expiry_time,
)
from allranks.azure.observe import PROVIDERS
from allranks.azure.settings import FileShare, Pool, Settings, SystemPool

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
names = st.sampled_from(["gpu", "cpu", "spot", "big"])
pools = st.builds(
    Pool,
    name=names,
    vm_size=st.sampled_from(["Standard_D8s_v5", "Standard_NC24ads_A100_v4"]),
    min_nodes=st.just(0),
    max_nodes=st.integers(1, 9),
    spot=st.booleans(),
    gpu_driver=st.booleans(),
    labels=st.sampled_from([(), (("team", "a"),)]),
    taints=st.sampled_from([(), ("sku=gpu:NoSchedule",)]),
)
all_settings = st.builds(
    Settings,
    name=st.just("demo"),
    subscription=st.just("id"),
    region=st.just("westeurope"),
    cloud=st.just("public"),
    login=st.just("auto"),
    max_hours=st.sampled_from([0, 12, 48]),
    group=st.just("group"),
    tags=st.sampled_from([(), (("team", "a"),), (("cost", "7"), ("team", "b"))]),
    cluster=st.just("demo"),
    dns_prefix=st.just("demo"),
    kubernetes=st.sampled_from(["", "1.34"]),
    tier=st.sampled_from(["Free", "Standard"]),
    system=st.builds(SystemPool, st.just("system"), st.just("Standard_D4s_v5"), st.integers(1, 3)),
    pools=st.lists(pools, max_size=4, unique_by=lambda pool: pool.name).map(tuple),
    account=st.just("data"),
    sku=st.just("Standard_LRS"),
    soft_delete_days=st.integers(1, 9),
    shares=st.lists(
        st.builds(FileShare, st.sampled_from(["abc", "def"]), st.integers(1, 9)),
        max_size=2,
        unique_by=lambda share: share.name,
    ).map(tuple),
    containers=st.sampled_from([(), ("blobs",)]),
)


def _pool(body: DesiredPool) -> observed.ObservedPool:
    return observed.ObservedPool(
        body.name,
        body.vm_size,
        body.nodes,
        body.min_nodes,
        body.max_nodes,
        body.mode,
        labels=body.labels,
        taints=body.taints,
        tags=dict(body.tags),
        spot=body.spot,
        gpu_driver=body.gpu_driver,
    )


def _apply(action: Action, state: observed.Observed) -> observed.Observed:
    """What is there after an action, as Azure would carry it out."""
    body, name = action.body, action.name
    cluster, account = state.cluster, state.account
    if action.kind is ResourceKind.PROVIDER:
        return replace(
            state, unregistered=tuple(item for item in state.unregistered if item != name)
        )
    if action.kind is ResourceKind.GROUP:
        return replace(
            state, group=observed.ResourceGroup("", name, "", dict(body.tags), region=body.region)
        )
    if action.kind is ResourceKind.CLUSTER:
        there = (_pool(body.system),) if cluster is None else cluster.pools
        new_cluster = observed.Cluster(
            "",
            name,
            diff.CLUSTER_TYPE,
            dict(body.tags),
            region=body.region,
            dns_prefix=body.dns_prefix,
            kubernetes_now="1.34.2",
            tier=body.tier,
            pools=there,
        )
        if action.is_alone:
            new_cluster = replace(cluster, tags=dict(body.tags))
        return replace(state, cluster=new_cluster)
    if action.kind is ResourceKind.POOL:
        rest = tuple(pool for pool in cluster.pools if pool.name != name)
        more = () if action.verb is Verb.REMOVE else (_pool(body),)
        return replace(state, cluster=replace(cluster, pools=(*rest, *more)))
    if action.kind is ResourceKind.ACCOUNT:
        old = account or observed.StorageAccount("", name, diff.ACCOUNT_TYPE, sku=body.sku)
        return replace(state, account=replace(old, tags=dict(body.tags)))
    if action.kind is ResourceKind.SOFT_DELETE and name == "shares":
        return replace(state, account=replace(account, share_days=body))
    if action.kind is ResourceKind.SOFT_DELETE:
        return replace(state, account=replace(account, blob_days=body, container_days=body))
    if action.kind is ResourceKind.SHARE:
        return replace(state, account=replace(account, shares={**account.shares, name: body}))
    return replace(state, account=replace(account, containers=(*account.containers, name)))


def _settle(settings: Settings, state: observed.Observed) -> tuple[observed.Observed, list[Action]]:
    """Act until nothing is left to do, as the engine does."""
    done: list[Action] = []
    for _ in range(20):
        plan = diff.plan(desired(settings, state.group, state.now), state)
        if plan.refusals or not plan.actions:
            return state, done
        ready = [action for action in plan.actions if action.is_ready]
        assert ready, plan
        for action in ready:
            state = _apply(action, state)
            done.append(action)
    raise AssertionError(done)


@given(all_settings)
def test_from_nothing_it_ends_with_all(settings: Settings) -> None:
    """Each thing is made once, and then nothing is left to do."""
    state, done = _settle(settings, observed.Observed(NOW, unregistered=PROVIDERS))

    assert {Verb.MAKE} <= {action.verb for action in done} <= {Verb.MAKE}
    assert len(done) == len({action.key for action in done})
    assert {pool.name for pool in state.cluster.pools} == {
        "system",
        *(pool.name for pool in settings.pools),
    }
    assert not diff.plan(desired(settings, state.group, NOW), state).actions


@given(before=all_settings, after=all_settings, hours=st.integers(0, 11))
def test_from_any_state_to_any_other(before: Settings, after: Settings, hours: int) -> None:
    """What can be changed is, in steps that end; what cannot is refused; no data ever goes."""
    state, _ = _settle(before, observed.Observed(NOW))
    state = replace(state, now=NOW + timedelta(hours=hours))
    shares, containers = {*state.account.shares}, {*state.account.containers}

    end, done = _settle(after, state)

    plan = diff.plan(desired(after, end.group, end.now), end)
    assert bool(plan.refusals) != (not plan.actions)
    assert {action.kind for action in done if action.verb is Verb.REMOVE} <= {ResourceKind.POOL}
    assert shares <= {*end.account.shares}
    assert containers <= {*end.account.containers}
    assert NOW == creation_time(end.group.tags)
    if not plan.refusals:
        expires = NOW + timedelta(hours=after.max_hours) if after.max_hours else None
        assert expires == expiry_time(end.group.tags)


@given(settings=all_settings, tag=st.sampled_from([None, "other"]), keep=st.booleans())
def test_what_is_not_ours_is_neither_changed_nor_removed(
    settings: Settings, tag: str | None, keep: bool
) -> None:
    """A group without our tag, or with another's, has neither a plan nor a removal."""
    tags = {} if tag is None else {TAG_NAME: tag}
    group = observed.ResourceGroup("", "group", "", tags, region="westeurope")
    item = observed.Resource("", "demo", diff.CLUSTER_TYPE, {TAG_NAME: "demo"})
    state = observed.Observed(NOW, group, resources=(item,))

    assert diff.plan(desired(settings, group, NOW), state).refusals
    removal = diff.removal("demo", state, keep_storage=keep)
    assert removal.refusals
    assert () == removal.entries


@given(
    own=st.sets(st.sampled_from([diff.CLUSTER_TYPE, diff.ACCOUNT_TYPE])),
    foreign=st.lists(st.sampled_from(["Microsoft.Network/x", diff.ACCOUNT_TYPE]), max_size=2),
    keep=st.booleans(),
)
def test_a_removal_takes_ours_alone(own: set[str], foreign: list[str], keep: bool) -> None:
    """The group goes only where all in it is ours, and nothing of others is ever an entry."""
    resources = [observed.Resource("", f"own{kind[-3:]}", kind, {TAG_NAME: "demo"}) for kind in own]
    resources += [observed.Resource("", f"their{at}", kind) for at, kind in enumerate(foreign)]
    group = observed.ResourceGroup("", "group", "", {TAG_NAME: "demo"}, region="westeurope")
    state = observed.Observed(NOW, group, resources=tuple(resources))

    plan = diff.removal("demo", state, keep_storage=keep)

    ready = [action for action in plan.entries if action.is_ready]
    assert not [action for action in plan.entries if action.name.startswith("their")]
    goes_whole = ResourceKind.GROUP in {action.kind for action in ready}
    assert goes_whole == (not foreign and not keep)
    if keep:
        assert ResourceKind.ACCOUNT not in {action.kind for action in plan.entries}
    kinds = [action.kind for action in ready]
    assert ResourceKind.CLUSTER not in kinds[:-1]  # the cluster goes last: what asks may run in it


def test_a_tag_that_others_put_on_stays() -> None:
    """Tags of a policy stay; an expiry that is no longer asked for goes."""
    want = ((TAG_NAME, "demo"),)

    assert (("owner", "x"), (TAG_NAME, "demo")) == tuple(
        sorted(
            diff.merged_tags(want, {"owner": "x", TAG_EXPIRES: "2026-11-25T00:00:00Z"}),
            key=lambda item: item[0] != "owner",
        )
    )


def test_what_has_failed_is_tried_again() -> None:
    """A cluster whose last operation failed is a change, with why it failed."""
    settings = Settings(
        "demo", "id", "westeurope", "public", "auto", 12, "group", (), "demo", "demo", "", "Free",
        SystemPool("system", "Standard_D4s_v5", 1), (), "data", "Standard_LRS", 7, (), (),
    )  # fmt: skip
    state, _ = _settle(settings, observed.Observed(NOW))
    state = replace(state, cluster=replace(state.cluster, state="Failed", error="no room"))

    plan = diff.plan(desired(settings, state.group, NOW), state)

    (action,) = plan.actions
    assert ("no room", "again, as it failed: no room") == (action.failure, action.detail)
