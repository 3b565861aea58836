"""`allranks operator`: install, upgrade and remove the operator and the definitions of its kinds.

Helm installs the chart and keeps its release. Helm never updates or removes a
CustomResourceDefinition, so that is done here.

It is long because its four subcommands share what they check and say of one installation.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from allranks import names, resources
from allranks.cli import options, status_view
from allranks.cli.commands import runs
from allranks.cli.target import only_cluster_options
from allranks.cluster import crds, operator
from allranks.errors import (
    EXIT_FAILED,
    AllranksError,
    ForbiddenError,
    InputError,
    NameTakenError,
    NotFoundError,
)
from allranks.helm import driver
from allranks.humanize import list_some, plural
from allranks.k8s.fields import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.crds import InstalledCrd
    from allranks.cluster.operator import OperatorDeployment
    from allranks.helm.releases import Release, ReleaseRef
    from allranks.k8s.manifest import Manifest
    from allranks.values.sources import Sources


_RELEASE = "allranks"
_WAIT_SECONDS = 180.0


@click.group(
    "operator",
    short_help="Give a cluster the operator, and the kinds it keeps.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def operator_command() -> None:
    """Give a cluster the operator, which keeps `kubectl get runs` right and runs elastic jobs.

    \b
    Example:
      allranks operator install -n allranks --create-namespace --set watch.cluster=true
      allranks operator status -n allranks
    """


def _release_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--release",
        default=_RELEASE,
        show_default=True,
        metavar="NAME",
        help="The name of the release of charts/operator.",
    )(function)


def _applying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that install and upgrade share."""
    function = click.option("--no-wait", is_flag=True, help="Return before the operator is ready.")(
        function
    )
    function = click.option(
        "--skip-crds", is_flag=True, help="Leave the definitions of the kinds as they are."
    )(function)
    function = click.option(
        "--adopt", is_flag=True, help="Take over definitions of another operator."
    )(function)
    function = options.timeout_option("How long to wait for the deployment.", _WAIT_SECONDS)(
        function
    )
    return _release_option(options.helm_option(only_cluster_options(function)))


@operator_command.command("install", short_help="Install definitions and operator.")
@options.some_values_options
@_applying
@click.option("--create-namespace", is_flag=True, help="Make the namespace where there is none.")
@click.option("--crds-only", is_flag=True, help="Only the definitions; for an administrator.")
@options.pass_console
def install_command(
    console: Console,
    /,
    *,
    sources: Sources,
    target: Target,
    release: str,
    create_namespace: bool,
    crds_only: bool,
    skip_crds: bool,
    adopt: bool,
    no_wait: bool,
    timeout: float,
) -> None:
    """Install the definitions of the kinds, then the operator, and wait until it is ready.

    It watches its own namespace, those of `watch.namespaces`, or with `watch.cluster` all of them.
    Who may not change definitions has an administrator do it with --crds-only, and adds
    --skip-crds.

    \b
    Example:
      allranks operator install -n research
      allranks operator install -n allranks --create-namespace --set watch.cluster=true
      allranks operator install --crds-only
    """
    from allranks.helm import releases
    from allranks.values import charts

    if crds_only and skip_crds:
        raise InputError("--crds-only and --skip-crds exclude each other", hint="give one of them")
    cluster_target = target.on_cluster()
    values = charts.resolve(sources, names.OPERATOR, {})
    if not crds_only:
        home = cluster_target.home(release)
        existing = releases.find(home)
        if existing is not None:
            raise InputError(
                f"release {release!r} is there already in namespace {cluster_target.namespace}",
                hint=f"`{names.CLI} operator upgrade` brings it to this version and new values"
                if _is_operator(existing)
                else "give the operator another name with --release",
            )
        check(cluster_target, home, values, create_namespace=create_namespace)
        note_overlaps(
            console, cluster_target, release, watched_namespaces(values, cluster_target.namespace)
        )
    _define(console, cluster_target, adopt=adopt, skip=skip_crds)
    if crds_only:
        return
    if create_namespace:
        _make_namespace(cluster_target)
    try:
        with rights():
            releases.install(home, chart(), values, post_render=False)
    except (AllranksError, KeyboardInterrupt):
        releases.take_back(home)
        raise
    console.text(f"installed {release} in namespace {cluster_target.namespace}")
    _ready(console, cluster_target, release, timeout, wait=not no_wait)


@operator_command.command("upgrade", short_help="Bring definitions and operator to this version.")
@options.some_values_options
@_applying
@options.pass_console
def upgrade_command(
    console: Console,
    /,
    *,
    sources: Sources,
    target: Target,
    release: str,
    skip_crds: bool,
    adopt: bool,
    no_wait: bool,
    timeout: float,
) -> None:
    """Bring the definitions, then the operator, to this version of allranks.

    Values that are given are laid over those of the release. Runs go on meanwhile, and no plan is
    lost: all that the operator knows is on the cluster.

    \b
    Example:
      allranks operator upgrade -n research
      allranks operator upgrade -n research --set replicas=3
    """
    from allranks.helm import releases
    from allranks.values import charts

    cluster_target = target.on_cluster()
    home = cluster_target.home(release)
    before = _operator_release(home, cluster_target)
    values = charts.resolve(sources, names.OPERATOR, before.values)
    check(cluster_target, home, values)
    note_overlaps(
        console, cluster_target, release, watched_namespaces(values, cluster_target.namespace)
    )
    note_removed_accounts(console, cluster_target, before.manifests, values)
    _define(console, cluster_target, adopt=adopt, skip=skip_crds)
    with rights():
        releases.upgrade(home, chart(), values, post_render=False)
    console.text(f"upgraded {release} in namespace {cluster_target.namespace}")
    _ready(console, cluster_target, release, timeout, wait=not no_wait)


@operator_command.command("uninstall", short_help="Remove the operator.")
@only_cluster_options
@options.helm_option
@_release_option
@click.option("--crds", is_flag=True, help="Remove the definitions too, and all their objects.")
@click.option("--yes", is_flag=True, help="With --crds: also where there are such objects.")
@options.pass_console
def uninstall_command(
    console: Console, /, *, target: Target, release: str, crds: bool, yes: bool
) -> None:
    """Remove the operator; the definitions of the kinds stay, unless --crds is given.

    Runs go on without it. Elastic jobs keep the pods they have, and nobody replaces or adds any.

    \b
    Example:
      allranks operator uninstall -n research
      allranks operator uninstall -n research --crds
    """
    from allranks.cluster import crds as cluster_crds
    from allranks.cluster import operator
    from allranks.helm import releases

    cluster_target = target.on_cluster()
    home = cluster_target.home(release)
    if crds:
        check_crd_removal(console, cluster_target, release, yes=yes)
    else:
        _operator_release(home, cluster_target)
    if releases.find(home) is not None:
        _operator_release(home, cluster_target)
        releases.uninstall(home)
        operator.forget(cluster_target.cluster, release, cluster_target.namespace)
        console.text(f"uninstalled {release} from namespace {cluster_target.namespace}")
    if crds:
        for name in cluster_crds.remove(cluster_target.cluster):
            console.text(f"removed definition {name}")
        return
    note_kept_crds(console, cluster_target, release)


@operator_command.command("status", short_help="Show how the operator does.")
@only_cluster_options
@options.helm_option
@_release_option
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, /, *, target: Target, release: str, output: str) -> None:
    """Show whether the operator runs, which replica acts, what is watched, and the definitions.

    Exit code: 0 where all is well, 1 where it is not.

    \b
    Example:
      allranks operator status -n research -o json
    """
    from allranks.cluster import crds as cluster_crds
    from allranks.cluster import operator

    cluster_target = target.on_cluster()
    installed = _operator_release(cluster_target.home(release), cluster_target)
    deployment = operator.find(cluster_target.cluster, release, cluster_target.namespace)
    try:
        kinds = cluster_crds.compare(cluster_target.cluster)
    except ForbiddenError as error:
        console.note(f"the definitions cannot be seen: {error.problem.message}")
        kinds = ()
    leads = deployment is not None and operator.acts(
        cluster_target.cluster,
        release,
        cluster_target.namespace,
        deployment,
        now=time.time(),
        patience=operator.PATIENCE,
    )
    waits = ""
    if deployment is not None and not deployment.is_ready:
        waits = operator.holds_back(cluster_target.cluster, release, cluster_target.namespace)
    well = (
        deployment is not None
        and deployment.is_ready
        and leads is not False
        and not deployment.lacks
    )
    well = well and all(kind.state == "current" for kind in kinds)
    if output == "json":
        data = _as_data(cluster_target, release, installed, deployment, kinds)
        console.json(data | {"acts": leads, "waitsFor": waits, "ok": well})
    else:
        _show(console, release, installed, deployment, kinds, leads=leads, waits=waits)
    raise click.exceptions.Exit(0 if well else EXIT_FAILED)


def _as_data(
    cluster_target: ClusterTarget,
    release: str,
    installed: Release,
    deployment: OperatorDeployment | None,
    kinds: Sequence[InstalledCrd],
) -> dict[str, Any]:
    return {
        "release": release,
        "namespace": cluster_target.namespace,
        "revision": installed.revision,
        "status": installed.status,
        "watchers": None
        if deployment is None
        else {
            "wanted": deployment.replicas,
            "ready": deployment.ready,
            "image": deployment.image,
            "leader": deployment.leader,
            "lacks": deployment.lacks,
        },
        "watches": "*"
        if deployment is None or not deployment.namespaces
        else list(deployment.namespaces),
        "definitions": {kind.name: str(kind.state) for kind in kinds},
    }


def _show(
    console: Console,
    release: str,
    installed: Release,
    deployment: OperatorDeployment | None,
    kinds: Sequence[InstalledCrd],
    *,
    leads: bool | None,
    waits: str,
) -> None:
    from allranks.cli.console import facts

    lines = {"release": f"{release}, revision {installed.revision}, {installed.status}"}
    if deployment is None:
        lines["replicas"] = "there is no Deployment"
    else:
        lines["replicas"] = f"{deployment.ready} of {deployment.replicas} ready, {deployment.image}"
        if waits:
            lines["wait for"] = waits
        lines["watches"] = ", ".join(deployment.namespaces) or "every namespace"
        lines["acts"] = _acting(deployment, leads=leads)
        if deployment.lacks:
            mend = f"`{names.CLI} operator upgrade` gives it again"
            lines["lacks rights"] = f"{deployment.lacks} ({mend})"
    for kind in kinds:
        lines[kind.kind] = str(kind.state)
    console.text(facts(lines))


def _acting(deployment: OperatorDeployment, *, leads: bool | None) -> str:
    """Describe which replica acts, or since when none does."""
    if leads is None:
        return "you may not see who (get leases)"
    since = status_view.duration(deployment.renewed_at, None, time.time()) or "?"
    if leads:
        return f"{deployment.leader}, seen {since} ago"
    return (
        f"nobody: {deployment.leader} was last seen {since} ago" if deployment.leader else "nobody"
    )


def _define(console: Console, cluster_target: ClusterTarget, *, adopt: bool, skip: bool) -> None:
    """Apply the definitions and report the changes; with `skip` only note which are outdated."""
    from allranks.cluster import crds as cluster_crds

    if skip:
        note_stale_crds(console, cluster_target)
        return
    try:
        before = cluster_crds.apply(cluster_target.cluster, adopt=adopt)
    except ForbiddenError as error:
        raise cluster_crds.forbidden(error) from error
    words = {cluster_crds.CrdState.CURRENT: "up to date", cluster_crds.CrdState.MISSING: "new"}
    for kind in before:
        console.text(f"definition {kind.name}: {words.get(kind.state, 'brought to this version')}")


def _make_namespace(cluster_target: ClusterTarget) -> None:
    from allranks.cluster import paths

    try:
        cluster_target.cluster.get(paths.NAMESPACES, cluster_target.namespace)
    except NotFoundError:
        body = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": cluster_target.namespace},
        }
        cluster_target.cluster.create(paths.NAMESPACES, body)


def _ready(
    console: Console, cluster_target: ClusterTarget, release: str, timeout: float, *, wait: bool
) -> None:
    from allranks.cluster import operator

    if not wait:
        return
    deployment = operator.wait(
        cluster_target.cluster,
        release,
        cluster_target.namespace,
        timeout=timeout,
        tell=console.note,
    )
    where = ", ".join(deployment.namespaces) or "every namespace"
    console.text(
        f"  {deployment.ready} of {plural(deployment.replicas, 'replica')} ready; watching {where}"
    )


def _operator_release(home: ReleaseRef, cluster_target: ClusterTarget) -> Release:
    """Return the release of the operator.

    Raises:
        NotFoundError: there is no such release.
        InputError: the name is that of another chart's release.
    """
    from allranks.helm import releases

    release = releases.find(home)
    if release is None:
        raise NotFoundError(
            f"there is no release {home.name!r} in namespace {cluster_target.namespace}",
            hint="name its namespace with -n; `helm list -A` shows them all, and "
            f"`{names.CLI} operator install` makes it",
        )
    if not _is_operator(release):
        raise InputError(
            f"release {home.name!r} in namespace {cluster_target.namespace} is not of "
            "charts/operator",
            hint="name the operator's with --release",
        )
    return release


def _is_operator(release: Release) -> bool:
    labels = (manifest["metadata"].get("labels") or {} for manifest in release.manifests)
    return any(item.get(names.APP_NAME) == names.OPERATOR for item in labels)


_SHOWN = 8


def chart() -> Path:
    """Return the folder of the operator's chart."""
    return resources.folder("charts") / names.OPERATOR


def watched_namespaces(values: Mapping[str, Any], namespace: str) -> tuple[str, ...]:
    """Return the namespaces that a release with these values watches; () is every one."""
    watch = values.get("watch") or {}
    if watch.get("cluster"):
        return ()
    return tuple(dict.fromkeys(watch.get("namespaces") or (namespace,)))


def master_namespaces(values: Mapping[str, Any], namespace: str) -> tuple[str, ...]:
    """Return the namespaces in which a release with these values creates the masters' account."""
    if (values.get("rbac") or {}).get("create") is False:
        return ()
    namespaces = (values.get("master") or {}).get("namespaces")
    return tuple(dict.fromkeys(namespaces or watched_namespaces(values, namespace) or (namespace,)))


def check(
    cluster_target: ClusterTarget,
    home: ReleaseRef,
    values: Mapping[str, Any],
    *,
    create_namespace: bool = False,
) -> None:
    """Refuse an install that would fail half-way, before anything is created.

    Raises:
        InputError: the chart refuses the values, a namespace of theirs is not there, or the
            account of masters in one is another release's.
        AllranksError: helm or the cluster does not answer.
    """
    driver.template(home.binary, home.name, home.namespace, chart(), values)
    own = cluster_target.namespace
    for namespace in dict.fromkeys(
        (own, *watched_namespaces(values, own), *master_namespaces(values, own))
    ):
        if (namespace == own and create_namespace) or runs.namespace_there(
            cluster_target.cluster, namespace
        ):
            continue
        raise InputError(
            f"there is no namespace {namespace!r}; nothing was changed",
            hint=f"kubectl create namespace {namespace}, or "
            + ("add --create-namespace" if namespace == own else "leave it out of the values"),
        )
    for namespace in master_namespaces(values, own):
        _check_account(cluster_target, home, namespace)


def _check_account(cluster_target: ClusterTarget, home: ReleaseRef, space: str) -> None:
    """Refuse a namespace in which another release has created the masters' account.

    Raises:
        NameTakenError: there is one. Its name is fixed, whatever the release is called.
    """
    holder = operator.account_holder(cluster_target.cluster, space)
    if holder in (None, (home.name, home.namespace)):
        return
    account = f"ServiceAccount {names.MASTER_ACCOUNT} in namespace {space}"
    apart = f"give this operator watch.namespaces, and master.namespaces where set, without {space}"
    release, where = holder or ("", "")
    if release and where:
        raise NameTakenError(
            f"{account} is of release {release!r} in namespace {where}; nothing was changed",
            hint=f"{apart}; or remove that one: "
            f"`{names.CLI} operator uninstall -n {where} --release {release}`",
        )
    raise NameTakenError(
        f"{account} is there already, and no release has made it; nothing was changed",
        hint=f"{apart}; or remove it: `kubectl -n {space} delete serviceaccount "
        f"{names.MASTER_ACCOUNT}`",
    )


def note_overlaps(
    console: Console, cluster_target: ClusterTarget, release: str, spaces: Sequence[str]
) -> None:
    """Note which other releases watch the same namespaces.

    Args:
        console: gets the notes.
        cluster_target: the cluster and the release's namespace.
        release: the release.
        spaces: the namespaces that it will watch; () is every one.
    """
    for other in operator.other_operators(
        cluster_target.cluster, release, cluster_target.namespace
    ):
        both = other.namespaces or spaces
        if other.namespaces and spaces:
            both = [space for space in spaces if space in other.namespaces]
            if not both:
                continue
        console.note(
            f"{other} watches {_spaces(both)} too: two operators fight over each status there; "
            f"`{names.CLI} operator uninstall -n {other.namespace} --release {other.release}` "
            "removes that one, or give each its own watch.namespaces"
        )


def note_removed_accounts(
    console: Console,
    cluster_target: ClusterTarget,
    before: Iterable[Manifest],
    values: Mapping[str, Any],
) -> None:
    """Note which watched namespaces lose the masters' account with new values.

    Args:
        console: gets the note.
        cluster_target: the cluster and the release's namespace.
        before: the manifests of the release so far.
        values: the new values.
    """
    account = names.MASTER_ACCOUNT
    current = {
        text(item, "metadata", "namespace") or cluster_target.namespace
        for item in before
        if (item.get("kind"), text(item, "metadata", "name")) == ("ServiceAccount", account)
    }
    remaining, spaces = (
        master_namespaces(values, cluster_target.namespace),
        watched_namespaces(values, cluster_target.namespace),
    )
    absent = sorted(item for item in current - {*remaining} if not spaces or item in spaces)
    if absent:
        console.note(
            f"ServiceAccount and Role {account} go from {_spaces(absent)}: elastic jobs there that "
            "name no account get no master; --set "
            f"'master.namespaces={{{','.join(sorted({*remaining, *absent}))}}}' keeps them"
        )


def note_stale_crds(console: Console, cluster_target: ClusterTarget) -> None:
    """Note which definitions are not of this version, when they are left as they are."""
    try:
        kinds = crds.compare(cluster_target.cluster)
    except ForbiddenError:
        return  # a user who cannot see them cannot change them
    other = [f"{kind.name} ({kind.state})" for kind in kinds if kind.state != "current"]
    if other:
        console.note(
            f"not as this version needs them: {', '.join(other)}; `{names.CLI} operator install "
            "--crds-only` brings older ones up to date"
        )


@contextmanager
def rights() -> Iterator[None]:
    """Add the required rights to the fix of a forbidden request.

    Raises:
        ForbiddenError: the request within the block was forbidden.
    """
    try:
        yield
    except ForbiddenError as error:
        policy = "validatingadmissionpolic" in error.problem.message
        off = "master.admissionPolicy=false" if policy else "rbac.aggregate=false"
        raise ForbiddenError(
            error.problem.message,
            hint='docs/guides/operator.md, "Who may install it", has the ClusterRole for this; '
            f"without rights on the whole cluster add --set {off}",
        ) from error


def check_crd_removal(
    console: Console, cluster_target: ClusterTarget, release: str, *, yes: bool
) -> None:
    """Note what is removed with the definitions; refuse it without `yes`.

    Raises:
        InputError: there is something, and `yes` is not given.
        AllranksError: the cluster does not answer, or forbids it.
    """
    objects = crds.objects(cluster_target.cluster)
    counts = [plural(len(items), kind) for kind, items in objects.items() if items]
    holders = sorted(
        {holder for items in objects.values() for holder in map(_release, items) if holder}
    )
    others = operator.other_operators(cluster_target.cluster, release, cluster_target.namespace)
    will = "go" if yes else "would go"
    parts = []
    if counts:
        parts.append(
            f"{', '.join(counts)} {will}, of all namespaces, and the pods of elastic jobs with them"
        )
    if holders:
        parts.append(
            f"plain helm {'can' if yes else 'could'} then neither upgrade nor uninstall the "
            f"releases that hold them ({list_some(holders, _SHOWN)}), whose other pods go on"
        )
    if others:
        parts.append(f"{', '.join(map(str, others))} {'has' if yes else 'would have'} no kinds")
    if not parts:
        return
    consequence = f"with their definitions {'; '.join(parts)}"
    if not yes:
        raise InputError(
            consequence,
            path="--crds",
            hint=f"remove the runs first with `{names.CLI} delete`, or add --yes",
        )
    console.note(consequence)
    if holders:
        console.note(
            f"`{names.CLI} delete NAME -n NAMESPACE` removes such a run even so; `{names.CLI} "
            "operator install --crds-only` makes helm able to again"
        )


def note_kept_crds(console: Console, cluster_target: ClusterTarget, release: str) -> None:
    """Note which definitions stay after an uninstall, and what follows."""
    for kind in crds.ours():
        console.text(f"  kept definition {kind['metadata']['name']}")
    others = operator.other_operators(cluster_target.cluster, release, cluster_target.namespace)
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
    """Return the helm release of an object, as ``NAMESPACE/NAME``; "" if there is none."""
    name, space = operator.holder(item)
    return f"{space}/{name}" if name and space else ""


def _spaces(namespaces: Sequence[str]) -> str:
    return ", ".join(namespaces) or "every namespace"
