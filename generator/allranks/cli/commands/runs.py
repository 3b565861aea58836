"""`allranks status | list | delete | wait`: the status of runs, and their end."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.cli import options, status_view
from allranks.cli.target import run_argument, target_options
from allranks.cluster import cleanup, crds, paths, permissions, training_progress
from allranks.cluster.errors import namespace_missing
from allranks.errors import EXIT_FAILED, EXIT_INTERRUPTED, ForbiddenError, InputError, NotFoundError
from allranks.humanize import list_some
from allranks.k8s.fields import text
from allranks.k8s.parts import without_collection
from allranks.model.status import Phase, PodPhase
from allranks.workspace import config_maps

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.cleanup import Leftover
    from allranks.cluster.interface import KubeClient
    from allranks.helm.releases import Release, ReleaseRef
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation


_DELETE_SECONDS = 300.0
_POLL_SECONDS = 0.5


@click.command("status", short_help="Show how a run is doing.")
@run_argument
@target_options
@options.output_option("text", "json")
@options.pass_console
def status_command(console: Console, *, name: str, target: Target, output: str) -> None:
    """Show the phase of run NAME, its pods, what it waits for, and what failed first.

    \b
    Example:
      allranks status demo
      allranks status demo -n research -o json
      allranks status demo --on local
    """
    cluster_target = target.cluster_target(console)
    status = status_of(name, target, cluster_target)
    if output == "json":
        console.json(status_view.form(status))
    else:
        status_view.show(console, status, time.time(), here=cluster_target is None)


def status_of(name: str, target: Target, cluster_target: ClusterTarget | None) -> RunStatus:
    """Return the status of a run.

    Args:
        name: the run.
        target: the target flags.
        cluster_target: the cluster and namespace; None is this machine.

    Raises:
        InputError: there is no such run.
        AllranksError: the cluster does not answer, or forbids it.
    """
    if cluster_target is None:
        return _local_status(name, target)
    return cluster_status(name, cluster_target)


def cluster_status(name: str, cluster_target: ClusterTarget) -> RunStatus:
    """Return the status of a run on a cluster, with the last log lines of the first failure.

    Raises:
        NotFoundError: there is no such run.
        AllranksError: the cluster does not answer, or forbids it.
    """
    with without_collection():  # until the pods are let go
        return _observe(name, cluster_target)[1]


def _observe(name: str, cluster_target: ClusterTarget) -> tuple[Observation, RunStatus]:
    from allranks.cli import follow
    from allranks.cluster.observe import observe
    from allranks.status.reduce import reduce

    cluster = cluster_target.cluster
    with without_collection():
        observation = observe(cluster, name, cluster_target.namespace)
        status = follow.explain(cluster, observation, reduce(observation))
        status = with_node_faults(cluster, observation, status)
        status = with_missing_code(cluster, observation, status)
        return observation, training_progress.add_progress(cluster, observation, status)


def with_node_faults(cluster: KubeClient, observation: Observation, status: RunStatus) -> RunStatus:
    """The status of a run that has not succeeded, with what is wrong with the nodes of its pods.

    Nodes are of the whole cluster, and few users may list them: who may not is told so in a note,
    and misses nothing else.

    Args:
        cluster: where it is.
        observation: its objects.
        status: what they say.
    """
    from allranks.cluster import nodes
    from allranks.status import node_faults

    if status.phase is Phase.SUCCEEDED:
        return status
    listed, note = nodes.nodes_of_pods(cluster, observation.pods)
    faults = node_faults.find(observation.pods, listed)
    return replace(status, node_faults=faults, notes=(*status.notes, *filter(None, [note])))


def with_missing_code(
    cluster: KubeClient, observation: Observation, status: RunStatus
) -> RunStatus:
    """The status of a run that cannot start because its code was deleted, with what to do.

    The kubelet says so of pods that exist; a run that waits for its turn has none.

    Args:
        cluster: where it is.
        observation: its objects.
        status: what they say.
    """
    from allranks.workspace import record

    code = record.of_objects(observation.objects)
    runs_already = any(pod.phase is PodPhase.RUNNING for pod in status.pods)
    if status.finished or runs_already or code.via != "configMap":
        return status
    missing_parts = config_maps.missing(cluster, observation.namespace, code.digest, code.parts)
    if not missing_parts or all(part in status.waiting_for for part in missing_parts):
        return status  # nothing is gone, or the kubelet has said so
    words = (
        f"its code, which somebody has deleted: ConfigMap {list_some(missing_parts)}; "
        f"`{names.CLI} submit` of the same folder puts it there again"
    )
    if status.waiting_for:
        return replace(status, waiting_for=f"{status.waiting_for}, and for {words}")
    before = f"{status.message}; " if status.message else ""
    return replace(status, message=f"{before}it lacks {words}")


def _local_status(name: str, target: Target) -> RunStatus:
    from allranks.local import runs as local_runs

    return local_runs.status(name, target.local_namespace)


def _local_goes_on(name: str, target: Target) -> bool:
    from allranks.local import runs as local_runs

    return local_runs.goes_on(name, target.local_namespace)


@click.command("list", short_help="List the runs.")
@target_options
@click.option("-A", "--all-namespaces", is_flag=True, help="Of every namespace of the cluster.")
@options.output_option("table", "json")
@options.pass_console
def list_command(console: Console, *, target: Target, all_namespaces: bool, output: str) -> None:
    """List the runs of a namespace, or of this machine; the finished ones too.

    An ElasticJob that was applied without Helm is a run of its own name, of "no release".

    \b
    Example:
      allranks list
      allranks list -A -o json
      allranks list --on local
    """
    cluster_target = target.cluster_target(console)
    statuses = runs(target, cluster_target, everywhere=all_namespaces, unread=console.note)
    if output == "json":
        console.json([run.as_dict() for run in statuses])
    elif statuses:
        status_view.table(console, statuses, time.time())
    else:
        console.note("there are no runs")


def runs(
    target: Target,
    cluster_target: ClusterTarget | None,
    *,
    everywhere: bool,
    unread: Callable[[str], None],
    with_progress: bool = False,
) -> list[RunStatus]:
    """Return the runs of a namespace, of all namespaces, or of this machine.

    Args:
        target: the target flags.
        cluster_target: the cluster and namespace; None is this machine.
        everywhere: return the runs of all namespaces.
        unread: called with a message for each object that is nested too deep to be read.
        with_progress: read how far the trainings are, of the first that run.

    Raises:
        NotFoundError: there is no such namespace.
        AllranksError: the cluster does not answer, or forbids it.
    """
    if cluster_target is None:
        from allranks.local import runs as local_runs

        here = local_runs.list_runs()
        return [run for run in here if target.namespace in {"", run.namespace}]
    from allranks.cluster.errors import namespace_missing
    from allranks.cluster.observe import observe_all
    from allranks.status.reduce import reduce

    with without_collection():
        observations = observe_all(
            cluster_target.cluster, None if everywhere else cluster_target.namespace, unread=unread
        )
        if (
            not observations
            and not everywhere
            and not namespace_there(cluster_target.cluster, cluster_target.namespace)
        ):
            raise namespace_missing(cluster_target.namespace)
        statuses = [reduce(observation) for observation in observations]
        if not with_progress:
            return statuses
        return training_progress.add_progress_to_all(cluster_target.cluster, observations, statuses)


@click.command("delete", short_help="Stop a run and remove it.")
@run_argument
@target_options
@options.helm_option
@options.timeout_option("How long to wait until its pods are gone.", _DELETE_SECONDS)
@options.output_option("text", "json")
@options.pass_console
def delete_command(
    console: Console, *, name: str, target: Target, timeout: float, output: str
) -> None:
    """Stop run NAME, if it goes on, and remove all of it.

    Volumes whose values say `keep: true` stay; what stays is named, with how to remove it.

    \b
    Example:
      allranks delete demo
      allranks delete demo --on local
    """
    cluster_target = target.cluster_target(console)
    if cluster_target is None:
        from allranks.local import runs as local_runs

        deleted = local_runs.delete(name, target.local_namespace)
        removed, volumes = list(deleted.removed), list(deleted.claims)
        hint = shlex.join(["rm", "-r", *map(str, deleted.folders)]) if volumes else ""
    else:
        run = delete(cluster_target.cluster, cluster_target.home(name), timeout=timeout)
        removed, volumes = list(map(str, run.removed)), list(map(str, run.volumes))
        if run.unserved:
            console.note(
                f"the cluster no longer has the kind of {', '.join(run.unserved)}, and helm cannot "
                "remove such a release: its objects and helm's record were removed without helm"
            )
        hint = how_to_remove(cluster_target.namespace, run.volumes) if volumes else ""
    if output == "json":
        console.json({"removed": removed, "kept": volumes})
        return
    console.text(f"deleted {name}")
    for volume in volumes:
        console.text(f"  kept {volume}")
    if hint:
        console.text(f"  remove it with: {hint}")


@click.command("wait", short_help="Wait for a run to succeed or to fail.")
@run_argument
@target_options
@click.option(
    "--for",
    "phase",
    type=click.Choice(["succeeded", "failed"]),
    default="succeeded",
    show_default=True,
    help="The end that is waited for.",
)
@options.timeout_option("Give up after this time.")
@options.output_option("text", "json")
@options.pass_console
def wait_command(
    console: Console, *, name: str, target: Target, phase: str, timeout: float | None, output: str
) -> None:
    """Wait until run NAME has succeeded, or has failed.

    Exit code: 0 when that end was reached, 1 when the run ended the other way or the time was over.

    \b
    Example:
      allranks wait demo --for succeeded --timeout 2h
      allranks wait demo --for failed --timeout 10m
    """
    cluster_target = target.cluster_target(console)
    try:
        status = (
            _local_end(name, target, timeout)
            if cluster_target is None
            else cluster_end(console, name, cluster_target, timeout)
        )
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    reached = status.phase is (Phase.SUCCEEDED if phase == "succeeded" else Phase.FAILED)
    if output == "json":
        console.json(status.as_dict())
    elif reached:
        console.text(f"{name} {phase}")
    else:
        status_view.show(console, status, time.time(), here=cluster_target is None)
    raise click.exceptions.Exit(0 if reached else EXIT_FAILED)


def cluster_end(
    console: Console, name: str, cluster_target: ClusterTarget, timeout: float | None
) -> RunStatus:
    """Wait for the end of a run on a cluster.

    Raises:
        NotFoundError: there is no such run.
        RunError: the time is over, or the run was deleted meanwhile.
    """
    from allranks.cli import follow

    observation, status = _observe(name, cluster_target)
    if status.finished:
        return status
    how = follow.FollowOptions(logs="none", timeout=timeout, quiet=True).of(observation)
    return follow.follow(console, cluster_target.cluster, name, cluster_target.namespace, how)


def _local_end(name: str, target: Target, timeout: float | None) -> RunStatus:
    from allranks import retry

    def is_over(status: RunStatus) -> bool:
        if not status.finished and not _local_goes_on(name, target):
            raise InputError(
                f"run {name!r} was suspended from its start: no process of it is here",
                hint="run it again without runPolicy.suspend",
            )
        return status.finished

    status = retry.poll(lambda: _local_status(name, target), timeout, _POLL_SECONDS, until=is_over)
    if not status.finished:
        from allranks.errors import RunError

        raise RunError(
            f"{name} is {status.phase} after {status_view.length(timeout or 0)}; it goes on",
            hint=f"`{names.CLI} status {name} --on local` shows how it does",
        )
    return status


TIMEOUT = 300.0


@dataclass(frozen=True, slots=True)
class DeletedRun:
    """The result of deleting a run.

    Attributes:
        release: whether the run was a helm release.
        removed: objects that helm did not remove and were deleted.
        volumes: volumes that stay, as their values say.
        unserved: objects of the release whose kinds the cluster no longer serves; the release was
            removed without helm.
    """

    release: bool
    removed: tuple[Leftover, ...]
    volumes: tuple[Leftover, ...]
    unserved: tuple[str, ...] = ()


def delete(cluster: KubeClient, home: ReleaseRef, *, timeout: float) -> DeletedRun:
    """Remove a run in any state, and wait until its pods are gone.

    Raises:
        NotFoundError: there is no such run.
        InputError: the release of this name is not a run.
        RunError: pods are still there after the time.
        AllranksError: the cluster does not answer, or forbids it.
    """
    from allranks.cluster import upgrade
    from allranks.helm import releases

    before = cleanup.leftovers(cluster, home.name, home.namespace)
    release = releases.find(home)
    if release is None and not before:
        raise missing(cluster, home)
    if release is not None and not before and not release.ours:
        raise InputError(
            f"release {home.name!r} in namespace {home.namespace} is not a run of {names.CLI}",
            hint=f"`helm uninstall {home.name} -n {home.namespace}` removes it all the same",
        )
    unserved: tuple[str, ...] = ()
    is_release = False
    if release is not None:
        unserved = crds.unserved(cluster, release.manifests)
        _check_rights(cluster, home, release, unserved)
        if unserved:
            cleanup.remove_release(cluster, home.name, home.namespace, release.manifests)
        is_release = bool(unserved) or releases.uninstall(home)
    after = cleanup.leftovers(cluster, home.name, home.namespace)
    leftovers = cleanup.remove(cluster, home.namespace, after)
    upgrade.wait_for_no_pods(cluster, home.name, home.namespace, timeout=timeout)
    config_maps.collect(cluster, home.namespace, digest=_code_of(release))
    if not is_release and not leftovers:
        # All that is left was asked to be kept: there was nothing to do.
        raise missing(cluster, home, volumes=tuple(item for item in after if item.keep))
    return DeletedRun(is_release, leftovers, tuple(item for item in after if item.keep), unserved)


def _check_rights(
    cluster: KubeClient, home: ReleaseRef, release: Release, unserved: Sequence[str]
) -> None:
    """Refuse before anything is deleted: helm deletes what it may, and names no right.

    Raises:
        ForbiddenError: a right is missing; each is named.
    """
    rules = cluster.rules(home.namespace)
    if rules is None:
        return
    deleted = [
        manifest
        for manifest in release.manifests
        if f"{manifest.get('kind')}/{text(manifest, 'metadata', 'name')}" not in unserved
        and not cleanup.outlives_release(manifest)
    ]
    missing_rights = permissions.missing(
        rules, permissions.uninstall_needs(deleted), are_there=True
    )
    if missing_rights:
        raise permissions.refusal(
            cluster.where, home.namespace, missing_rights, done="nothing was deleted"
        )


def _code_of(release: Release | None) -> str:
    """The digest of the workspace that a release was started with; "" where there is none."""
    values = {} if release is None else release.values
    return text(values, "workspace", "snapshot", "digest")


def remove(cluster: KubeClient, home: ReleaseRef) -> None:
    """Remove a run if it exists."""
    try:
        delete(cluster, home, timeout=TIMEOUT)
    except NotFoundError:
        return


def missing(
    cluster: KubeClient, home: ReleaseRef, volumes: tuple[Leftover, ...] = ()
) -> NotFoundError:
    """Return the error for a missing run, or for its missing namespace."""
    if not volumes and not namespace_there(cluster, home.namespace):
        return namespace_missing(home.namespace)
    stays = f"; kept of an earlier one: {', '.join(map(str, volumes))}" if volumes else ""
    return NotFoundError(
        f"there is no run {home.name!r} in namespace {home.namespace}{stays}",
        hint=how_to_remove(home.namespace, volumes)
        if volumes
        else f"`{names.CLI} list -A` shows the runs of every namespace; one of this machine needs "
        "--on local",
    )


def namespace_there(cluster: KubeClient, namespace: str) -> bool:
    """Whether a namespace exists; True if the user may not see namespaces."""
    try:
        cluster.get(paths.NAMESPACES, namespace)
    except NotFoundError:
        return False
    except ForbiddenError:
        return True
    return True


def how_to_remove(namespace: str, volumes: tuple[Leftover, ...]) -> str:
    """Return the command that removes the volumes that stay."""
    return f"kubectl delete -n {namespace} {' '.join(map(str, volumes))}"
