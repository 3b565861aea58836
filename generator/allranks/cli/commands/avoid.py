"""`allranks avoid`: keep a run off nodes, from its next attempt on.

What changes is the value `scheduling.avoidNodes` of the release. The node itself stays as it is: to
cordon or to drain one is for those who keep the cluster.
"""

from __future__ import annotations

import difflib
import shlex
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import InputError, NotFoundError
from allranks.humanize import list_some
from allranks.k8s.fields import count, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.interface import KubeClient
    from allranks.cluster.scale import Controllers
    from allranks.cluster.upgrade import Obstacle
    from allranks.k8s.manifest import Manifest

_RECREATE_SECONDS = 300.0
_ROLLS = "Kubernetes replaces the pods of a StatefulSet that changes, one after the other"
_AFFINITY = "spec.affinity"


@click.command("avoid", short_help="Keep a run off nodes, from its next attempt on.")
@run_argument
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...")
@click.option("--remove", is_flag=True, help="Let the run use these nodes again.")
@target_options
@options.helm_option
@click.option("--recreate", is_flag=True, help="Start the run anew now. Volumes stay.")
@options.timeout_option("How long to wait until the old pods are gone.", _RECREATE_SECONDS)
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@options.output_option("text", "json")
@options.pass_console
def avoid_command(
    console: Console,
    *,
    name: str,
    nodes: tuple[str, ...],
    remove: bool,
    target: Target,
    recreate: bool,
    timeout: float,
    dry_run: bool,
    output: str,
) -> None:
    """Keep the pods of run NAME off nodes, whatever else its affinity asks.

    Pods that run stay where they are. New pods of an elastic job keep off the nodes at once. The
    pods of a Job that runs, or has ended, and of a StatefulSet get other nodes with another attempt
    only: --recreate begins it, from the last checkpoint. A run that is suspended is changed as it
    stands, where the cluster allows it, and stays suspended. No node is cordoned.

    \b
    Example:
      allranks avoid demo gpu-b2 --recreate
      allranks avoid demo gpu-b2 --remove
    """
    after, is_changed, replaced = keep_off(
        console,
        target.on_cluster(),
        name,
        nodes,
        remove=remove,
        recreate=recreate,
        timeout=timeout,
        dry_run=dry_run,
    )
    if output == "json":
        changes = {"avoids": after, "changed": is_changed, "replaced": replaced}
        console.json({"name": name, **changes, "dryRun": dry_run})
        return
    already = "" if is_changed else " already"
    avoids = f"avoids {list_some(after)}{already}" if after else f"avoids no node{already}"
    console.text(f"{name} {avoids}" if not dry_run else f"would change: {name} {avoids}")
    for item in replaced:
        console.text(f"  {'would replace' if dry_run else 'replaced'} {item}")


def keep_off(
    console: Console,
    cluster_target: ClusterTarget,
    name: str,
    nodes: Sequence[str],
    *,
    remove: bool = False,
    recreate: bool = True,
    timeout: float = _RECREATE_SECONDS,
    dry_run: bool = False,
) -> tuple[list[str], bool, list[str]]:
    """Keep the pods of a run off nodes, or let them use these again.

    Args:
        console: gets notes.
        cluster_target: the run's cluster and namespace.
        name: the run.
        nodes: the nodes.
        remove: whether they may be used again.
        recreate: whether what cannot be changed is made anew.
        timeout: seconds to wait until the old pods are gone.
        dry_run: whether nothing is changed.

    Returns:
        All nodes that it avoids from now on; whether they are others than before; what was
        replaced for it.

    Raises:
        InputError: there is no such run or node, or it would have to be made anew.
        AllranksError: helm or the cluster refused.
    """
    from allranks.cli.commands import runs
    from allranks.cli.commands import upgrade as upgrade_command
    from allranks.cluster import scale, upgrade
    from allranks.helm import releases
    from allranks.service import render

    cluster, namespace = cluster_target.cluster, cluster_target.namespace
    home = cluster_target.home(name)
    release = releases.find(home)
    if release is None or not release.ours:
        raise runs.missing(cluster, home)
    before = list(map(str, mapping(release.values, "scheduling").get("avoidNodes") or ()))
    hostnames = [_hostname(cluster, node, before) for node in nodes]
    after = _without(before, hostnames) if remove else list(dict.fromkeys((*before, *hostnames)))
    replaced: list[str] = []
    if after != before:
        try:
            live = scale.controllers(cluster, name, namespace)
        except NotFoundError:
            live = scale.Controllers((), ())
        values = _values(release.values, after, is_suspended=_is_suspended(live))
        rendered = render.of_values(values, _workload(release.manifests), home)
        outlook = upgrade.preview(cluster, namespace, rendered.objects, release.manifests)
        for missing in outlook.missing:
            console.note(f"{missing} is gone (it has ended): the run starts anew")
        obstacles = [obstacle for obstacle in outlook.obstacles if not _is_for_new_pods(obstacle)]
        obstacles += _rolling(live)
        stuck = [obstacle for obstacle in obstacles if not (recreate and obstacle.replaceable)]
        if stuck:
            words = [names.CLI, "avoid", name, *nodes, *["--remove"][:remove], "--recreate"]
            raise upgrade_command.refusal(name, stuck, shlex.join(words))
        if dry_run:
            replaced = [f"{obstacle.kind}/{obstacle.name}" for obstacle in obstacles]
        else:
            replaced = upgrade_command.apply(cluster, home, rendered, obstacles, timeout=timeout)
    return after, after != before, replaced


def _hostname(cluster: KubeClient, node: str, avoided: Sequence[str]) -> str:
    """Return the label by which pods keep off a node.

    Raises:
        InputError: there is no such node.
    """
    from allranks.cluster import nodes
    from allranks.status import node_faults

    if node in avoided:  # also of one that is gone
        return node
    try:
        manifest = nodes.find(cluster, node)
    except NotFoundError as error:
        there = nodes.all_names(cluster)
        near = difflib.get_close_matches(node, there, 1)
        advice = f"there are {list_some(there)}" if there else "`kubectl get nodes` lists them"
        raise InputError(
            f"there is no node {node!r}",
            path="NODE",
            hint=f"did you mean {near[0]}?" if near else advice,
        ) from error
    # Who may not read nodes gives the name, which the label has on most clusters.
    return node if manifest is None else node_faults.hostname(manifest)


def _without(before: Sequence[str], nodes: Sequence[str]) -> list[str]:
    """Return what is still avoided.

    Raises:
        InputError: one of the nodes is not avoided.
    """
    for node in nodes:
        if node not in before:
            avoided = list_some(before)
            raise InputError(
                f"the run does not avoid {node!r}",
                path="NODE",
                hint=f"it avoids {avoided}" if avoided else "it avoids no node: leave --remove out",
            )
    return [node for node in before if node not in nodes]


def _values(recorded: Mapping[str, Any], after: list[str], *, is_suspended: bool) -> dict[str, Any]:
    """Return the values of a release with other nodes to avoid, which starts or ends no pods."""
    scheduling = dict(mapping(recorded, "scheduling"))
    if after:
        scheduling["avoidNodes"] = after
    else:
        scheduling.pop("avoidNodes", None)
    policy = dict(mapping(recorded, "runPolicy"))
    if bool(policy.get("suspend")) is not is_suspended:
        policy["suspend"] = is_suspended
    values = {**recorded, "scheduling": scheduling, "runPolicy": policy}
    return {key: value for key, value in values.items() if value != {} or key in recorded}


def _is_suspended(live: Controllers) -> bool:
    """Whether a run is suspended as a whole, by its values or by `allranks suspend`."""
    jobs = [*live.jobs, *live.elastic_jobs]
    flags = [mapping(job, "spec").get("suspend") is True for job in jobs]
    flags += [not count(item, "spec", "replicas") for item in live.stateful_sets]
    return bool(flags) and all(flags)


def _workload(manifests: Iterable[Manifest]) -> str:
    """Return the workload of a release, which names its chart."""
    for manifest in manifests:
        workload = text(manifest, "metadata", "labels", names.WORKLOAD)
        if workload in names.WORKLOADS:
            return workload
    return names.WORKLOADS[0]


def _is_for_new_pods(obstacle: Obstacle) -> bool:
    """Whether an object may change under its pods, as only those to come are placed otherwise."""
    changes = [change.path for change in obstacle.changes]
    return bool(obstacle.keeps) and not obstacle.message and all(_AFFINITY in p for p in changes)


def _rolling(live: Controllers) -> list[Obstacle]:
    """Return the StatefulSets with pods, which would not stay."""
    from allranks.cluster import paths
    from allranks.cluster.upgrade import Obstacle

    return [
        Obstacle("StatefulSet", item["metadata"]["name"], paths.STATEFUL_SETS, (), _ROLLS)
        for item in live.stateful_sets
        if count(item, "spec", "replicas")
    ]
