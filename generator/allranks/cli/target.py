"""The target of a command: a cluster, or this machine.

The flags are kubectl's. Without flags the target is the cluster if a kubeconfig has a context, as
for kubectl; otherwise it is this machine, with a note.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.errors import InputError
from allranks.k8s.object_names import is_dns_1123_label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from allranks.cli.console import Console
    from allranks.cluster.client import KubeCluster
    from allranks.helm.releases import ReleaseRef

LOCAL, CLUSTER = "local", "cluster"
_COMPLETION_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A namespace of a cluster.

    Attributes:
        cluster: the cluster.
        namespace: the namespace of the flags, or of the context.
        kubeconfig: the file of --kubeconfig; "" for none.
        helm: the path of --helm; None for none.
    """

    cluster: KubeCluster
    namespace: str
    kubeconfig: str = ""
    helm: str | None = None

    def home(self, name: str) -> ReleaseRef:
        """Return the reference to a release there, for helm.

        Raises:
            MissingToolError: no helm works.
        """
        from allranks.helm import binary as helm_binary
        from allranks.helm.releases import ReleaseRef

        return ReleaseRef(
            helm_binary.find(self.helm), name, self.namespace, self.kubeconfig, self.cluster.context
        )


@dataclass(frozen=True, slots=True)
class Target:
    """The target flags of a command.

    Attributes:
        on: ``local``, ``cluster``, or "" if not given.
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

    def cluster_target(self, console: Console | None = None) -> ClusterTarget | None:
        """Return the cluster and namespace; None if the target is this machine.

        Args:
            console: gets a note if this machine is the target by default.

        Raises:
            InputError: the flags do not fit, or a kubeconfig is broken.
        """
        if self.local(console):
            return None
        from allranks.cluster.client import KubeCluster

        cluster = KubeCluster(self.kubeconfig or None, self.context or None)
        return ClusterTarget(
            cluster, self.namespace or cluster.namespace, self.kubeconfig, self.helm
        )

    def on_cluster(self) -> ClusterTarget:
        """Return the cluster and namespace, for a command that needs a cluster.

        Raises:
            InputError: this machine was named, or there is no kubeconfig.
        """
        if self.on == LOCAL:
            raise InputError(
                "this is for runs on a cluster", path="--on", hint="leave --on local out"
            )
        cluster_target = Target(
            CLUSTER, self.namespace, self.context, self.kubeconfig, self.helm
        ).cluster_target()
        assert cluster_target is not None  # noqa: S101 - the cluster was named
        return cluster_target

    def local(self, console: Console | None = None) -> bool:
        """Whether the target is this machine.

        Args:
            console: gets a note if it is so by default.

        Raises:
            InputError: the flags do not fit, or a kubeconfig is broken.
        """
        flags = [flag for flag in ("context", "kubeconfig") if getattr(self, flag)]
        if self.on == LOCAL and flags:
            raise InputError(
                "is for a cluster, and --on local is this machine",
                path=f"--{flags[0]}",
                hint="give one of the two",
            )
        if self.on or flags:
            return self.on == LOCAL
        from allranks.cluster import kubeconfig

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
    """Add -n, --context and --kubeconfig, for a command that needs a cluster; also as `target`.

    `--on cluster` is accepted, and the error for `--on local` names what to use instead.
    """
    return click.option(
        "--on", type=click.Choice([LOCAL, CLUSTER]), default=CLUSTER, hidden=True, callback=_remote
    )(_with_target(function))


def _remote(context: click.Context, _: click.Parameter, place: str) -> str:
    if place == LOCAL:
        of_run = any(parameter.name == "name" for parameter in context.command.params)
        fix = f"`{names.CLI} logs NAME --on local --follow` shows what a run of this machine writes"
        raise InputError(
            f"{context.info_name} is for what runs on a cluster",
            path="--on",
            hint=fix if of_run else "leave it out",
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
        help="The namespace. Default: the context's own.",
    )(function)


def run_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add NAME, an existing run, with shell completion."""

    def check_value(_: click.Context, __: click.Parameter, value: str) -> str:
        if not is_dns_1123_label(value):
            raise InputError(
                f"{value!r} is no name of a run",
                hint=f"`{names.CLI} list` shows the runs; names have lower-case letters, digits "
                'and "-"',
            )
        return value

    return click.argument("name", callback=check_value, shell_complete=complete_run)(function)


def complete_run(ctx: click.Context, _: click.Parameter, start: str) -> list[str]:
    """Return the names of runs, for shell completion; none if the cluster takes too long."""
    flags = ctx.params
    target = Target(
        on=flags.get("on") or "",
        namespace=flags.get("namespace") or "",
        context=flags.get("context") or "",
        kubeconfig=flags.get("kubeconfig") or "",
    )
    if _is_here(target):
        return _matching(_local_names(), start)
    return _matching(within_patience(lambda: _cluster_names(target)), start)


def within_patience(ask: Callable[[], Iterable[str]]) -> list[str]:
    """Return what a cluster answers to somebody who pressed a key; nothing if it takes too long."""
    import threading

    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.extend(ask()), daemon=True)
    asking.start()
    asking.join(_patience())
    return answers


def _patience() -> float:
    """The seconds that somebody who pressed a key waits for a cluster."""
    try:
        return max(0.0, float(os.environ.get(names.ENV_COMPLETION_SECONDS, "")))
    except ValueError:
        return _COMPLETION_SECONDS


def _matching(run_names: Iterable[str], start: str) -> list[str]:
    return sorted(name for name in set(run_names) if name.startswith(start))


def _is_here(target: Target) -> bool:
    """Whether the target is this machine, also with incomplete flags."""
    try:
        return target.local()
    except InputError:
        return True


def _local_names() -> list[str]:
    from allranks.errors import AllranksError
    from allranks.local import runs as local_runs

    try:
        return [run.name for run in local_runs.list_runs()]
    except AllranksError:
        return []


def _cluster_names(target: Target) -> list[str]:
    from allranks.cluster import cleanup, paths
    from allranks.errors import AllranksError

    try:
        cluster_target = target.on_cluster()
        # Each run has one; without its content a name costs some hundred bytes.
        items = cluster_target.cluster.list(
            paths.CONFIG_MAPS,
            namespace=cluster_target.namespace,
            label_selector=f"{names.APP_PART_OF}={names.PART_OF}",
            metadata_only=True,
        )
    except AllranksError:
        return []
    runs = [item["metadata"] for item in items if not cleanup.outlives_release(item)]
    labelled = [run["labels"].get(names.APP_INSTANCE) for run in runs]
    return [*filter(None, labelled), *_jobs_without_release(cluster_target)]


def _jobs_without_release(cluster_target: ClusterTarget) -> list[str]:
    """Return the ElasticJobs that were applied without helm: each is a run by its own name."""
    from allranks.cluster import paths
    from allranks.errors import AllranksError

    try:
        jobs = cluster_target.cluster.list(
            paths.ELASTIC_JOBS, namespace=cluster_target.namespace, metadata_only=True
        )
    except AllranksError:
        return []  # the cluster has no such kind, or does not show it
    metadata = [job["metadata"] for job in jobs]
    return [
        job["name"] for job in metadata if not (job.get("labels") or {}).get(names.APP_INSTANCE)
    ]
