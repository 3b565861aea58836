"""Where a command works: on a cluster, or on this machine.

The flags are kubectl's. Where none is given the cluster is meant as soon as a kubeconfig has a
context, as kubectl would use it; a machine without one is its own target, and is told so.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.cli.console import Console
    from allranks.cluster.kube import KubeCluster
    from allranks.helm.releases import Home

LOCAL, CLUSTER = "local", "cluster"
_COMPLETION_SECONDS = 1.0
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Site:
    """A namespace of a cluster.

    Attributes:
        cluster: the cluster.
        namespace: the namespace, whoever named it.
        kubeconfig: the file that was named; "" where none was.
        helm: the helm that was named; None where none was.
    """

    cluster: KubeCluster
    namespace: str
    kubeconfig: str = ""
    helm: str | None = None

    def home(self, name: str) -> Home:
        """A release there, for helm.

        Raises:
            MissingToolError: there is no helm that works.
        """
        from allranks.helm import locate  # noqa: PLC0415 - helm costs 0.2 s that a status need not
        from allranks.helm.releases import Home  # noqa: PLC0415

        return Home(
            locate.find(self.helm), name, self.namespace, self.kubeconfig, self.cluster.context
        )


@dataclass(frozen=True, slots=True)
class Target:
    """What a person said about the place.

    Attributes:
        on: ``local``, ``cluster``, or "" where they did not say.
        namespace: "" is the context's own.
        context: "" is the current one.
        kubeconfig: "" is found as kubectl does.
        helm: the helm to use; None finds one.
    """

    on: str = ""
    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""
    helm: str | None = None

    @property
    def local_namespace(self) -> str:
        """The namespace of a run on this machine."""
        return self.namespace or "default"

    def site(self, console: Console | None = None) -> Site | None:
        """The place on a cluster; None where this machine is meant.

        Args:
            console: hears why this machine is meant where nobody said so.

        Raises:
            InputError: the flags do not fit, or a kubeconfig is broken.
        """
        if self.local(console):
            return None
        from allranks.cluster.kube import KubeCluster  # noqa: PLC0415 - only where one is asked

        cluster = KubeCluster(self.kubeconfig or None, self.context or None)
        return Site(cluster, self.namespace or cluster.namespace, self.kubeconfig, self.helm)

    def on_cluster(self) -> Site:
        """The place on a cluster, for what only a cluster has.

        Raises:
            InputError: this machine was named, or there is no kubeconfig.
        """
        if self.on == LOCAL:
            raise InputError(
                "this is for runs on a cluster", path="--on", hint="leave --on local out"
            )
        site = Target(CLUSTER, self.namespace, self.context, self.kubeconfig, self.helm).site()
        assert site is not None  # noqa: S101 - the cluster was named
        return site

    def local(self, console: Console | None = None) -> bool:
        """Whether this machine is meant.

        Args:
            console: hears why where nobody said so.

        Raises:
            InputError: the flags do not fit, or a kubeconfig is broken.
        """
        named = [flag for flag in ("context", "kubeconfig") if getattr(self, flag)]
        if self.on == LOCAL and named:
            raise InputError(
                "is for a cluster, and --on local is this machine",
                path=f"--{named[0]}",
                hint="give one of the two",
            )
        if self.on or named:
            return self.on == LOCAL
        from allranks.cluster import kubeconfig  # noqa: PLC0415 - reads YAML

        if kubeconfig.has_context():
            return False
        if console is not None:
            console.note("no kubeconfig names a cluster: this machine is meant (--on local)")
        return True


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --on, -n, --context and --kubeconfig; the command gets them as `target`."""
    return click.option(
        "--on",
        type=click.Choice([LOCAL, CLUSTER]),
        help="Where: 'local' is this machine. Default: the cluster of your kubeconfig, else here.",
    )(_with_target(function))


def only_cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -n, --context and --kubeconfig, for what only a cluster has; also as `target`.

    `--on cluster` may be said all the same, and `--on local` is told what to use in its place.
    """
    return click.option(
        "--on", type=click.Choice([LOCAL, CLUSTER]), default=CLUSTER, hidden=True, callback=_remote
    )(_with_target(function))


def _remote(context: click.Context, _: click.Parameter, place: str) -> str:
    if place == LOCAL:
        of_run = any(parameter.name == "name" for parameter in context.command.params)
        look = (
            f"`{names.CLI} logs NAME --on local --follow` shows what a run of this machine writes"
        )
        raise InputError(
            f"{context.info_name} is for what runs on a cluster",
            path="--on",
            hint=look if of_run else "leave it out",
        )
    return place


def _with_target(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def with_target(*args: Any, **options: Any) -> Any:
        target = Target(
            on=options.pop("on", CLUSTER) or "",
            namespace=options.pop("namespace"),
            context=options.pop("context"),
            kubeconfig=options.pop("kubeconfig"),
            helm=options.pop("helm", None),
        )
        return function(*args, target=target, **options)

    return cluster_options(with_target)


def cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -n, --context and --kubeconfig, as kubectl has them."""
    function = click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        type=click.Path(),
        help="The kubeconfig to use, in place of $KUBECONFIG or ~/.kube/config.",
    )(function)
    function = click.option(
        "--context", default="", metavar="NAME", help="The kubeconfig context of the cluster."
    )(function)
    return click.option(
        "-n",
        "--namespace",
        default="",
        metavar="NAME",
        help="The namespace of the run. Default: the context's own.",
    )(function)


def run_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME, a run that is there; a shell completes it."""

    def given(_: click.Context, __: click.Parameter, value: str) -> str:
        if not _NAME.fullmatch(value):
            raise InputError(
                f"{value!r} is no name of a run",
                hint=f"`{names.CLI} list` shows the runs; names have lower-case letters, digits "
                'and "-"',
            )
        return value

    return click.argument("name", callback=given, shell_complete=complete_run)(function)


def complete_run(ctx: click.Context, _: click.Parameter, start: str) -> list[str]:
    """The names of the runs, for the shell; none where the cluster takes more than a second."""
    import threading  # noqa: PLC0415 - only while a shell completes

    given = ctx.params
    target = Target(
        on=given.get("on") or "",
        namespace=given.get("namespace") or "",
        context=given.get("context") or "",
        kubeconfig=given.get("kubeconfig") or "",
    )
    if _is_here(target):
        return _matching(_local_names(), start)
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.extend(_cluster_names(target)), daemon=True)
    asking.start()
    asking.join(_COMPLETION_SECONDS)
    return _matching(found, start)


def _matching(found: Iterable[str], start: str) -> list[str]:
    return sorted(name for name in set(found) if name.startswith(start))


def _is_here(target: Target) -> bool:
    """Whether this machine is meant; half-typed flags may name no cluster."""
    try:
        return target.local()
    except InputError:
        return True


def _local_names() -> list[str]:
    from allranks.errors import AllranksError  # noqa: PLC0415 - only while a shell completes
    from allranks.local import control  # noqa: PLC0415

    try:
        return [run.name for run in control.list_runs()]
    except AllranksError:
        return []


def _cluster_names(target: Target) -> list[str]:
    from allranks.cluster import paths, removal  # noqa: PLC0415 - only while a shell completes
    from allranks.errors import AllranksError  # noqa: PLC0415

    try:
        site = target.on_cluster()
        # Each run has one; without its content a name costs some hundred bytes.
        items = site.cluster.list(
            paths.CONFIG_MAPS,
            namespace=site.namespace,
            label_selector=f"{names.APP_PART_OF}={names.PART_OF}",
            metadata_only=True,
        )
    except AllranksError:
        return []
    runs = [item["metadata"] for item in items if not removal.is_kept(item)]
    return [
        str(one["labels"][names.APP_INSTANCE])
        for one in runs
        if names.APP_INSTANCE in one["labels"]
    ]
