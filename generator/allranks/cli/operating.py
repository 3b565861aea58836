"""What `allranks operator` looks at before it changes a cluster, and what it says of it.

Definitions and watchers reach beyond the namespace that a person has in mind: other watchers, other
people's releases, elastic jobs whose account a new value takes away. So each of these is looked for
and named before anything is sent.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.cli import ending
from allranks.cluster import definitions, watchers
from allranks.errors import ForbiddenError, InputError, TakenError
from allranks.helm import driver
from allranks.status.fields import text
from allranks.words import plural, some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from allranks.cli.console import Console
    from allranks.cli.target import Site
    from allranks.helm.releases import Home
    from allranks.model.manifest import Manifest

_SHOWN = 8


def chart() -> Path:
    """The watcher's chart."""
    return resources.folder("charts") / names.OPERATOR


def watched(values: Mapping[str, Any], namespace: str) -> tuple[str, ...]:
    """The namespaces that a release of these values watches; () is every one."""
    watch = values.get("watch") or {}
    if watch.get("cluster"):
        return ()
    return tuple(dict.fromkeys(watch.get("namespaces") or (namespace,)))


def mastered(values: Mapping[str, Any], namespace: str) -> tuple[str, ...]:
    """The namespaces in which a release of these values makes the account of masters."""
    if (values.get("rbac") or {}).get("create") is False:
        return ()
    given = (values.get("master") or {}).get("namespaces")
    return tuple(dict.fromkeys(given or watched(values, namespace) or (namespace,)))


def check(
    site: Site, home: Home, values: Mapping[str, Any], *, create_namespace: bool = False
) -> None:
    """Refuse what would fail half-way, before anything is made.

    Raises:
        InputError: the chart refuses the values, a namespace of theirs is not there, or the
            account of masters in one is another release's.
        AllranksError: helm or the cluster does not answer.
    """
    driver.template(home.binary, home.name, home.namespace, chart(), values)
    own = site.namespace
    for one in dict.fromkeys((own, *watched(values, own), *mastered(values, own))):
        if (one == own and create_namespace) or ending.namespace_there(site.cluster, one):
            continue
        raise InputError(
            f"there is no namespace {one!r}; nothing was changed",
            hint=f"kubectl create namespace {one}, or "
            + ("add --create-namespace" if one == own else "leave it out of the values"),
        )
    for one in mastered(values, own):
        _free(site, home, one)


def _free(site: Site, home: Home, space: str) -> None:
    """Refuse a namespace in which another release has made the account of masters.

    Raises:
        TakenError: there is one. Its name is fixed, so another name of the release helps nobody.
    """
    holder = watchers.account_holder(site.cluster, space)
    if holder in (None, (home.name, home.namespace)):
        return
    account = f"ServiceAccount {names.MASTER_ACCOUNT} in namespace {space}"
    apart = f"give this watcher watch.namespaces, and master.namespaces where set, without {space}"
    release, where = holder or ("", "")
    if release and where:
        raise TakenError(
            f"{account} is of release {release!r} in namespace {where}; nothing was changed",
            hint=f"{apart}; or remove that one: "
            f"`{names.CLI} operator uninstall -n {where} --release {release}`",
        )
    raise TakenError(
        f"{account} is there already, and no release has made it; nothing was changed",
        hint=f"{apart}; or remove it: `kubectl -n {space} delete serviceaccount "
        f"{names.MASTER_ACCOUNT}`",
    )


def overlaps(console: Console, site: Site, release: str, spaces: Sequence[str]) -> None:
    """Say which other releases watch what this one is to watch.

    Args:
        console: hears it.
        site: the cluster and the release's namespace.
        release: the release.
        spaces: what it is to watch; () is every namespace.
    """
    for other in watchers.others(site.cluster, release, site.namespace):
        both = other.namespaces or spaces
        if other.namespaces and spaces:
            both = [one for one in spaces if one in other.namespaces]
            if not both:
                continue
        console.note(
            f"{other} watches {_spaces(both)} too: two watchers fight over each status there; "
            f"`{names.CLI} operator uninstall -n {other.namespace} --release {other.release}` "
            "removes that one, or give each its own watch.namespaces"
        )


def lost_accounts(
    console: Console, site: Site, before: Iterable[Manifest], values: Mapping[str, Any]
) -> None:
    """Say which watched namespaces lose the account of masters with new values.

    Args:
        console: hears it.
        site: the cluster and the release's namespace.
        before: what the release has made till now.
        values: the new values.
    """
    account = names.MASTER_ACCOUNT
    had = {
        text(one, "metadata", "namespace") or site.namespace
        for one in before
        if (one.get("kind"), text(one, "metadata", "name")) == ("ServiceAccount", account)
    }
    kept, spaces = mastered(values, site.namespace), watched(values, site.namespace)
    lost = sorted(one for one in had - {*kept} if not spaces or one in spaces)
    if lost:
        console.note(
            f"ServiceAccount and Role {account} go from {_spaces(lost)}: elastic jobs there that "
            "name no account get no master; --set "
            f"'master.namespaces={{{','.join(sorted({*kept, *lost}))}}}' keeps them"
        )


def stale(console: Console, site: Site) -> None:
    """Say which definitions are not of this version, where they are left as they are."""
    try:
        found = definitions.compare(site.cluster)
    except ForbiddenError:
        return  # who may not see them cannot do a thing about them
    other = [f"{one.name} ({one.state})" for one in found if one.state != "current"]
    if other:
        console.note(
            f"not as this version needs them: {', '.join(other)}; `{names.CLI} operator install "
            "--crds-only` brings older ones up to date"
        )


@contextmanager
def rights() -> Iterator[None]:
    """Tell who may not install which rights that takes.

    Raises:
        ForbiddenError: likewise.
    """
    try:
        yield
    except ForbiddenError as error:
        raise ForbiddenError(
            error.problem.message,
            hint='docs/guides/operator.md, "Who may install it", has the ClusterRole for this; '
            "without rights on the whole cluster add --set rbac.aggregate=false",
        ) from error


def doom(console: Console, site: Site, release: str, *, yes: bool) -> None:
    """Say what goes with the definitions, and refuse where nobody has said that it may.

    Raises:
        InputError: there is such, and `yes` is not given.
        AllranksError: the cluster does not answer, or forbids it.
    """
    found = definitions.objects(site.cluster)
    counts = [plural(len(items), kind) for kind, items in found.items() if items]
    held = sorted({one for items in found.values() for one in map(_release, items) if one})
    others = watchers.others(site.cluster, release, site.namespace)
    will = "go" if yes else "would go"
    parts = []
    if counts:
        parts.append(
            f"{', '.join(counts)} {will}, of all namespaces, and the pods of elastic jobs with them"
        )
    if held:
        parts.append(
            f"plain helm {'can' if yes else 'could'} then neither upgrade nor uninstall the "
            f"releases that hold them ({some(held, _SHOWN)}), whose other pods go on"
        )
    if others:
        parts.append(f"{', '.join(map(str, others))} {'has' if yes else 'would have'} no kinds")
    if not parts:
        return
    what = f"with their definitions {'; '.join(parts)}"
    if not yes:
        raise InputError(
            what,
            path="--crds",
            hint=f"remove the runs first with `{names.CLI} delete`, or add --yes",
        )
    console.note(what)
    if held:
        console.note(
            f"`{names.CLI} delete NAME -n NAMESPACE` removes such a run even so; `{names.CLI} "
            "operator install --crds-only` makes helm able to again"
        )


def kept(console: Console, site: Site, release: str) -> None:
    """Say what follows of the definitions that stay when a watcher is gone."""
    for one in definitions.ours():
        console.text(f"  kept definition {one['metadata']['name']}")
    others = watchers.others(site.cluster, release, site.namespace)
    for other in others:
        console.note(f"{other} goes on: it watches {_spaces(other.namespaces)}")
    if any(not other.namespaces for other in others):
        return
    console.note(
        f"{'in other namespaces' if others else 'while they stay'} charts make a TrainingRun for "
        "each release, whose status nobody keeps: give `helm install --wait` status.enabled=false, "
        f"or remove the runs, and then the definitions with `{names.CLI} operator uninstall --crds`"
    )


def _release(item: Manifest) -> str:
    """The helm release that holds an object, as ``NAMESPACE/NAME``; "" where none does."""
    name, space = watchers.holder(item)
    return f"{space}/{name}" if name and space else ""


def _spaces(found: Sequence[str]) -> str:
    return ", ".join(found) or "every namespace"
