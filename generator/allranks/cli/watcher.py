"""`allranks operator`: the watcher and the definitions of its kinds, put on a cluster and kept.

Helm installs the chart and keeps the record of it. What Helm does not do is done here: it never
updates a definition, and never removes one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import durations, options, statusview
from allranks.cli.target import only_cluster_options
from allranks.errors import EXIT_FAILED, AllranksError, ForbiddenError, InputError, NotFoundError
from allranks.words import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Site, Target
    from allranks.cluster.definitions import Found
    from allranks.cluster.watchers import Watchers
    from allranks.helm.releases import Home, Release
    from allranks.values.sources import Sources

_RELEASE = "allranks"
_WAIT_SECONDS = 180.0


@click.group(
    "operator",
    short_help="Give a cluster the watcher, and the kinds it keeps.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def operator_command() -> None:
    """Give a cluster the watcher, which keeps `kubectl get runs` right and runs elastic jobs.

    \b
    Example:
      allranks operator install -n allranks --create-namespace --set watch.cluster=true
      allranks operator status -n allranks
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped


def _release_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--release",
        default=_RELEASE,
        show_default=True,
        metavar="NAME",
        help="The name of the release of charts/operator.",
    )(function)


def _applying(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add what install and upgrade share."""
    function = click.option(
        "--no-wait", is_flag=True, help="Return before the watchers are ready."
    )(function)
    function = click.option(
        "--skip-crds", is_flag=True, help="Leave the definitions of the kinds as they are."
    )(function)
    function = click.option(
        "--adopt", is_flag=True, help="Take over definitions of another operator."
    )(function)
    function = durations.timeout_option("How long to wait for the watchers.", _WAIT_SECONDS)(
        function
    )
    return _release_option(options.helm_option(only_cluster_options(function)))


@operator_command.command("install", short_help="Install definitions and watcher.")
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
    """Install the definitions of the kinds, then the watcher, and wait until it is ready.

    It watches its own namespace, those of `watch.namespaces`, or with `watch.cluster` all of them.
    Who may not change definitions has an administrator do it with --crds-only, and adds
    --skip-crds.

    \b
    Example:
      allranks operator install -n research
      allranks operator install -n allranks --create-namespace --set watch.cluster=true
      allranks operator install --crds-only
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cli import operating  # noqa: PLC0415 - its libraries cost 0.3 s
    from allranks.helm import releases  # noqa: PLC0415
    from allranks.values import charts  # noqa: PLC0415

    if crds_only and skip_crds:
        raise InputError("--crds-only and --skip-crds exclude each other", hint="give one of them")
    site = target.on_cluster()
    values = charts.resolve(sources, names.OPERATOR, {})
    if not crds_only:
        home = site.home(release)
        found = releases.find(home)
        if found is not None:
            raise InputError(
                f"release {release!r} is there already in namespace {site.namespace}",
                hint=f"`{names.CLI} operator upgrade` brings it to this version and new values"
                if _is_operator(found)
                else "give the watcher another name with --release",
            )
        operating.check(site, home, values, create_namespace=create_namespace)
        operating.overlaps(console, site, release, operating.watched(values, site.namespace))
    _define(console, site, adopt=adopt, skip=skip_crds)
    if crds_only:
        return
    if create_namespace:
        _make_namespace(site)
    try:
        with operating.rights():
            releases.install(home, operating.chart(), values, post_render=False)
    except (AllranksError, KeyboardInterrupt):
        releases.take_back(home)
        raise
    console.text(f"installed {release} in namespace {site.namespace}")
    _ready(console, site, release, timeout, wait=not no_wait)


@operator_command.command("upgrade", short_help="Bring definitions and watcher to this version.")
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
    """Bring the definitions, then the watcher, to this version of allranks.

    Values that are given are laid over those of the release. Runs go on meanwhile, and no plan is
    lost: all that the watcher knows is on the cluster.

    \b
    Example:
      allranks operator upgrade -n research
      allranks operator upgrade -n research --set replicas=3
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cli import operating  # noqa: PLC0415 - its libraries cost 0.3 s
    from allranks.helm import releases  # noqa: PLC0415
    from allranks.values import charts  # noqa: PLC0415

    site = target.on_cluster()
    home = site.home(release)
    before = _installed(home, site)
    values = charts.resolve(sources, names.OPERATOR, before.given)
    operating.check(site, home, values)
    operating.overlaps(console, site, release, operating.watched(values, site.namespace))
    operating.lost_accounts(console, site, before.manifests, values)
    _define(console, site, adopt=adopt, skip=skip_crds)
    with operating.rights():
        releases.upgrade(home, operating.chart(), values, post_render=False)
    console.text(f"upgraded {release} in namespace {site.namespace}")
    _ready(console, site, release, timeout, wait=not no_wait)


@operator_command.command("uninstall", short_help="Remove the watcher.")
@only_cluster_options
@options.helm_option
@_release_option
@click.option("--crds", is_flag=True, help="Remove the definitions too, and all their objects.")
@click.option("--yes", is_flag=True, help="With --crds: also where there are such objects.")
@options.pass_console
def uninstall_command(
    console: Console, /, *, target: Target, release: str, crds: bool, yes: bool
) -> None:
    """Remove the watcher; the definitions of the kinds stay, unless --crds is given.

    Runs go on without it. Elastic jobs keep the pods they have, and nobody replaces or adds any.

    \b
    Example:
      allranks operator uninstall -n research
      allranks operator uninstall -n research --crds
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cli import operating  # noqa: PLC0415 - its libraries cost 0.3 s
    from allranks.cluster import definitions, watchers  # noqa: PLC0415
    from allranks.helm import releases  # noqa: PLC0415

    site = target.on_cluster()
    home = site.home(release)
    if crds:
        operating.doom(console, site, release, yes=yes)
    else:
        _installed(home, site)
    if releases.find(home) is not None:
        _installed(home, site)
        releases.uninstall(home)
        watchers.forget(site.cluster, release, site.namespace)
        console.text(f"uninstalled {release} from namespace {site.namespace}")
    if crds:
        for name in definitions.remove(site.cluster):
            console.text(f"removed definition {name}")
        return
    operating.kept(console, site, release)


@operator_command.command("status", short_help="Show how the watcher does.")
@only_cluster_options
@options.helm_option
@_release_option
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, /, *, target: Target, release: str, output: str) -> None:
    """Show whether the watcher runs, who of several acts, what is watched, and the definitions.

    Exit code: 0 where all is well, 1 where it is not.

    \b
    Example:
      allranks operator status -n research -o json
    """  # noqa: D301 - \b is click's mark for text that is not re-wrapped
    from allranks.cluster import definitions, watchers  # noqa: PLC0415 - 0.2 s

    site = target.on_cluster()
    installed = _installed(site.home(release), site)
    found = watchers.find(site.cluster, release, site.namespace)
    try:
        kinds = definitions.compare(site.cluster)
    except ForbiddenError as error:
        console.note(f"the definitions cannot be seen: {error.problem.message}")
        kinds = ()
    leads = found is not None and watchers.acts(
        site.cluster, release, site.namespace, found, now=time.time(), patience=watchers.PATIENCE
    )
    waits = ""
    if found is not None and not found.whole:
        waits = watchers.holds_back(site.cluster, release, site.namespace)
    well = found is not None and found.whole and leads is not False and not found.lacks
    well = well and all(one.state == "current" for one in kinds)
    if output == "json":
        data = _as_data(site, release, installed, found, kinds)
        console.json(data | {"acts": leads, "waitsFor": waits, "ok": well})
    else:
        _show(console, release, installed, found, kinds, leads=leads, waits=waits)
    raise click.exceptions.Exit(0 if well else EXIT_FAILED)


def _as_data(
    site: Site,
    release: str,
    installed: Release,
    found: Watchers | None,
    kinds: Sequence[Found],
) -> dict[str, Any]:
    return {
        "release": release,
        "namespace": site.namespace,
        "revision": installed.revision,
        "status": installed.status,
        "watchers": None
        if found is None
        else {
            "wanted": found.wanted,
            "ready": found.ready,
            "image": found.image,
            "leader": found.leader,
            "lacks": found.lacks,
        },
        "watches": "*" if found is None or not found.namespaces else list(found.namespaces),
        "definitions": {one.name: str(one.state) for one in kinds},
    }


def _show(
    console: Console,
    release: str,
    installed: Release,
    found: Watchers | None,
    kinds: Sequence[Found],
    *,
    leads: bool | None,
    waits: str,
) -> None:
    from allranks.cli.console import facts  # noqa: PLC0415 - only for a person

    lines = {"release": f"{release}, revision {installed.revision}, {installed.status}"}
    if found is None:
        lines["watchers"] = "there is no Deployment"
    else:
        lines["watchers"] = f"{found.ready} of {found.wanted} ready, {found.image}"
        if waits:
            lines["wait for"] = waits
        lines["watches"] = ", ".join(found.namespaces) or "every namespace"
        lines["acts"] = _acting(found, leads=leads)
        if found.lacks:
            mend = f"`{names.CLI} operator upgrade` gives it again"
            lines["lacks rights"] = f"{found.lacks} ({mend})"
    for one in kinds:
        lines[one.kind] = str(one.state)
    console.text(facts(lines))


def _acting(found: Watchers, *, leads: bool | None) -> str:
    """Who acts, and since when nobody does."""
    if leads is None:
        return "you may not see who (get leases)"
    since = statusview.duration(found.renewed_at, None, time.time()) or "?"
    if leads:
        return f"{found.leader}, seen {since} ago"
    return f"nobody: {found.leader} was last seen {since} ago" if found.leader else "nobody"


def _define(console: Console, site: Site, *, adopt: bool, skip: bool) -> None:
    """Apply the definitions, and say what has changed; or only say which of them are old."""
    from allranks.cli import operating  # noqa: PLC0415 - its libraries cost 0.3 s
    from allranks.cluster import definitions  # noqa: PLC0415

    if skip:
        operating.stale(console, site)
        return
    try:
        before = definitions.apply(site.cluster, adopt=adopt)
    except ForbiddenError as error:
        raise definitions.not_allowed(error) from error
    words = {definitions.State.CURRENT: "up to date", definitions.State.MISSING: "new"}
    for one in before:
        console.text(f"definition {one.name}: {words.get(one.state, 'brought to this version')}")


def _make_namespace(site: Site) -> None:
    from allranks.cluster import paths  # noqa: PLC0415 - its libraries cost 0.2 s

    try:
        site.cluster.get(paths.NAMESPACES, site.namespace)
    except NotFoundError:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": site.namespace}}
        site.cluster.create(paths.NAMESPACES, body)


def _ready(console: Console, site: Site, release: str, timeout: float, *, wait: bool) -> None:
    from allranks.cluster import watchers  # noqa: PLC0415 - its libraries cost 0.2 s

    if not wait:
        return
    found = watchers.wait(site.cluster, release, site.namespace, timeout=timeout, tell=console.note)
    where = ", ".join(found.namespaces) or "every namespace"
    console.text(f"  {found.ready} of {plural(found.wanted, 'watcher')} ready; watching {where}")


def _installed(home: Home, site: Site) -> Release:
    """The release of the watcher.

    Raises:
        NotFoundError: there is none here.
        InputError: the name is that of another chart's release.
    """
    from allranks.helm import releases  # noqa: PLC0415 - helm costs 0.2 s

    found = releases.find(home)
    if found is None:
        raise NotFoundError(
            f"there is no release {home.name!r} in namespace {site.namespace}",
            hint="name its namespace with -n; `helm list -A` shows them all, and "
            f"`{names.CLI} operator install` makes it",
        )
    if not _is_operator(found):
        raise InputError(
            f"release {home.name!r} in namespace {site.namespace} is not of charts/operator",
            hint="name the watcher's with --release",
        )
    return found


def _is_operator(release: Release) -> bool:
    labels = (one["metadata"].get("labels") or {} for one in release.manifests)
    return any(each.get(names.APP_NAME) == names.OPERATOR for each in labels)
