"""`allranks logs` and `allranks attach`: the lines of a run's pods, each with its rank."""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.cli import options, pod_choice, status_view
from allranks.cli.target import only_cluster_options, run_argument, target_options
from allranks.errors import EXIT_INTERRUPTED, NotFoundError, RunError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.cli.console import Console
    from allranks.cli.follow import FollowOptions
    from allranks.cli.target import ClusterTarget, Target
    from allranks.cluster.pod_selection import RankIdentity
    from allranks.k8s.manifest import Manifest
    from allranks.model.rank_lines import LineSelection, LogWriters


@click.command("logs", short_help="Show the logs of a run.")
@run_argument
@target_options
@click.option("-f", "--follow", is_flag=True, help="Go on until the run has ended.")
@pod_choice.RANK
@pod_choice.NODE
@pod_choice.ROLE
@click.option(
    "--tail",
    type=click.IntRange(min=0),
    help="Of what is there, only so many last lines of each pod.",
)
@options.output_option("text", "json")
@options.pass_console
def logs_command(
    console: Console,
    *,
    name: str,
    target: Target,
    follow: bool,
    rank: int | None,
    node: int | None,
    role: str,
    tail: int | None,
    output: str,
) -> None:
    """Show what the pods of run NAME wrote, each line with its rank.

    Where a pod has several processes, what it says besides theirs is the node's. mpirun prints the
    lines of all its ranks, so those are the launcher's. With -o json each line is an object of its
    own.

    \b
    Example:
      allranks logs demo --follow
      allranks logs demo --rank 1 --tail 100
      allranks logs demo --role launcher
    """
    from allranks.model.rank_lines import LineSelection, about_mpi

    selection = pod_choice.check_selection(LineSelection(rank, node, role))
    cluster_target = target.cluster_target(console)
    unread: list[str] = []
    if cluster_target is None:
        lines = _local_lines(name, target, selection, follow=follow, tail=tail)
    elif follow:
        from allranks.cli.follow import FollowOptions

        how = FollowOptions(logs="all", selection=selection, quiet=True, as_json=output == "json")
        _follow_run(console, name, cluster_target, replace(how, tail=tail))
        return
    else:
        lines = _cluster_lines(name, cluster_target, unread, selection, tail=tail)
    is_empty = True
    for data in lines:
        if is_empty and rank is not None and data["role"] == names.ROLE_LAUNCHER:
            console.note(about_mpi(rank))
        is_empty = False
        if output == "json":
            console.raw(json.dumps(data, ensure_ascii=False) + "\n")
        else:
            console.log(data["who"], data["text"])
    for message in unread:
        console.note(message)
    if unread:
        raise RunError(
            f"{len(unread)} of the logs cannot be read",
            hint=f"`{names.CLI} status {name}` shows whether their pods and nodes are well; where "
            "it is a right that is missing, ask for a Role with get on pods/log",
        )
    if is_empty:
        console.note(f"no such line is there: `{names.CLI} status {name}` shows how its pods are")


def _local_lines(
    name: str, target: Target, selection: LineSelection, *, follow: bool, tail: int | None
) -> Iterator[dict[str, Any]]:
    from allranks.cluster.logs import PodLogLine
    from allranks.cluster.pod_selection import RankIdentity
    from allranks.local import runs as local_runs

    lines = local_runs.logs(
        name,
        target.local_namespace,
        selection.rank,
        node=selection.node,
        role=selection.role or None,
        follow=follow,
        tail=tail,
    )
    for line in lines:
        where = (line.pod, RankIdentity(line.role, line.rank), line.container, line.attempt)
        yield PodLogLine(*where, line.text, line.writers, line.process).as_dict()


def _cluster_lines(
    name: str,
    cluster_target: ClusterTarget,
    unread: list[str],
    selection: LineSelection,
    *,
    tail: int | None,
) -> Iterator[dict[str, Any]]:
    """Yield the lines so far, pod by pod, ordered by roles, numbers and attempts.

    Args:
        name: the run.
        cluster_target: where it is.
        unread: gets a sentence on each log that cannot be read.
        selection: the pods or processes whose lines are shown.
        tail: how many last lines of each start of a container to show; None for all.
    """
    from allranks.cluster import pod_selection as podset

    attempts: dict[RankIdentity, int] = {}
    pods, ranks = pod_choice.select_pods(name, cluster_target, selection, by_line=True)
    for pod in pods:
        who = ranks.identity(pod)
        # The log of the start before a restart comes first.
        for previous in (True, False) if podset.was_restarted(pod) else (False,):
            attempt = attempts[who] = attempts.get(who, -1) + 1
            if not podset.has_started(pod):
                continue
            try:
                lines = _Start(pod, who, attempt, previous).lines(cluster_target, selection, tail)
            except (RunError, NotFoundError) as error:
                # A node that does not answer must not hide the logs of the others; and the log of
                # an earlier start may be gone.
                if not previous:
                    pod_name = pod["metadata"]["name"]
                    unread.append(f"the log of pod {pod_name}: {error.problem.message}")
                continue
            yield from lines


@dataclass(frozen=True, slots=True)
class _Start:
    """One start of the training container: its pod, the pod's rank, and which start it is."""

    pod: Manifest
    who: RankIdentity
    attempt: int
    previous: bool

    def lines(
        self, cluster_target: ClusterTarget, selection: LineSelection, tail: int | None
    ) -> Iterable[dict[str, Any]]:
        """Return its selected lines, at most `tail` last ones.

        Raises:
            RunError: it cannot be read.
            NotFoundError: it does not exist.
        """
        from allranks.cluster import pod_selection as podset

        name, container = self.pod["metadata"]["name"], podset.main_container(self.pod)
        writers = podset.writers(self.pod)
        # The last lines of one of several processes are not the last lines of its pod.
        mixed = selection.rank is not None and (writers.prefixed or writers.mpirun)
        stream = cluster_target.cluster.logs(
            name,
            namespace=cluster_target.namespace,
            container=container,
            previous=self.previous,
            tail=None if mixed else tail,
        )
        lines = self._read(stream, selection, writers)
        return deque(lines, maxlen=tail) if mixed and tail is not None else lines

    def _read(
        self, stream: Iterable[str], selection: LineSelection, writers: LogWriters
    ) -> Iterator[dict[str, Any]]:
        from allranks.cluster import pod_selection as podset
        from allranks.cluster.logs import PodLogLine

        name, container = self.pod["metadata"]["name"], podset.main_container(self.pod)
        for text in stream:
            process, rest = writers.split(text)
            if selection.has_line(self.who.role, writers, process):
                where = (name, self.who, container, self.attempt)
                yield PodLogLine(*where, rest, writers, process).as_dict()


@click.command("attach", short_help="Follow a run that goes on.")
@run_argument
@only_cluster_options
@pod_choice.RANK
@pod_choice.NODE
@pod_choice.ROLE
@options.timeout_option("Stop following after this time; the job goes on.")
@options.output_option("text", "json")
@options.pass_console
def attach_command(
    console: Console,
    *,
    name: str,
    target: Target,
    rank: int | None,
    node: int | None,
    role: str,
    timeout: float | None,
    output: str,
) -> None:
    """Follow run NAME to its end, as `run` does: its state, and the log of one rank.

    The log is rank 0's or the launcher's unless a rank, a node or a role is named. Ctrl-C leaves
    the job as it is. The exit code is the job's own.

    \b
    Example:
      allranks attach demo
      allranks attach demo --rank 3
    """
    from allranks.cli.follow import FollowOptions
    from allranks.model.rank_lines import LineSelection

    selection = pod_choice.check_selection(LineSelection(rank, node, role))
    how = FollowOptions(selection=selection, timeout=timeout, json=output == "json")
    status = _follow_run(console, name, target.on_cluster(), how)
    if output == "json":
        console.json(status.as_dict())
    else:
        console.text("")
        status_view.show(console, status, time.time())
    raise click.exceptions.Exit(status_view.exit_code(status))


def _follow_run(
    console: Console, name: str, cluster_target: ClusterTarget, how: FollowOptions
) -> Any:
    """Follow a run to its end, and return its status.

    Raises:
        NotFoundError: there is no such run.
        click.exceptions.Exit: Ctrl-C; the run goes on.
    """
    from allranks.cli import follow
    from allranks.cluster.observe import observe
    from allranks.model.rank_lines import about_mpi

    # Fail at once if there is no such run.
    observation = observe(cluster_target.cluster, name, cluster_target.namespace)
    selection = pod_choice.locate(cluster_target, observation, how.selection, by_line=True)
    if selection.rank is not None and selection.role == names.ROLE_LAUNCHER:
        console.note(about_mpi(selection.rank))
    how = replace(how.of(observation), selection=selection)
    try:
        return follow.follow(console, cluster_target.cluster, name, cluster_target.namespace, how)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
