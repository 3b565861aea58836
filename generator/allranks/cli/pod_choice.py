"""Select pods of a run by `--rank`, `--node` and `--role`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from allranks import names
from allranks.errors import ForbiddenError, InputError, NotFoundError
from allranks.k8s import fields

if TYPE_CHECKING:
    from allranks.cli.target import ClusterTarget
    from allranks.cluster.pod_selection import PodRanks
    from allranks.k8s.manifest import Manifest
    from allranks.model.rank_lines import LineSelection
    from allranks.status.observation import Observation

RANK = click.option(
    "--rank", type=click.IntRange(min=0), help="Only this process of the training, or its pod."
)
NODE = click.option(
    "--node", type=click.IntRange(min=0), help="Only this node: the pod of this number."
)
ROLE = click.option(
    "--role",
    default="",
    metavar="ROLE",
    help="Only this role: node, launcher, worker, and of an elastic job chief, ps, master, ...",
)


def select_pods(
    name: str, cluster_target: ClusterTarget, selection: LineSelection, *, by_line: bool = False
) -> tuple[list[Manifest], PodRanks]:
    """Return the selected pods of a run, ordered by role, number and age; and their ranks.

    See `locate` for `by_line`.

    Raises:
        NotFoundError: there is no such run.
        InputError: it has no such pods.
    """
    from allranks.cluster.observe import observe
    from allranks.cluster.pod_selection import PodRanks

    observation = observe(cluster_target.cluster, name, cluster_target.namespace)
    ranks = PodRanks(observation.objects)
    description = _describe(selection, ranks)
    selection = locate(cluster_target, observation, selection, by_line=by_line)
    pods = ranks.choose(observation.pods, selection)
    if pods:
        return pods, ranks
    if observation.pods and ranks.expects(selection, observation.pods):
        raise InputError(
            f"{description} of run {name!r} has no pod now: it has not begun, or its pod is gone",
            hint=f"`{names.CLI} status {name}` shows which it is",
        )
    numbers = sorted({str(ranks.identity(pod)) for pod in observation.pods}, key=_number)
    raise InputError(
        f"run {name!r} has no {description}" + ("" if numbers else ": it has none yet"),
        hint=f"its pods are {', '.join(numbers[:20])}{', …' * (len(numbers) > 20)}"  # noqa: PLR2004
        if numbers
        else f"`{names.CLI} status {name}` says what it waits for",
    )


def _describe(selection: LineSelection, ranks: PodRanks) -> str:
    """Describe a selection in words."""
    if selection.rank is not None:
        return f"rank {selection.rank}"
    if selection.node is not None:
        return f"{ranks.word(selection.role)} {selection.node}"
    return f"pod {selection.role}".rstrip()


def check_selection(selection: LineSelection) -> LineSelection:
    """Return a selection that does not contradict itself.

    Raises:
        InputError: it has a rank, and a node or a role as well.
    """
    if selection.rank is not None and (selection.node is not None or selection.role):
        raise InputError(
            "--rank names one process of the whole job, and "
            f"{'--role' if selection.role else '--node'} may name pods that it is not in",
            path="--rank",
            hint="leave --rank out, and name the pod by --role and --node"
            if selection.role
            else "leave one of the two out",
        )
    return selection


def locate(
    cluster_target: ClusterTarget,
    observation: Observation,
    selection: LineSelection,
    *,
    by_line: bool,
) -> LineSelection:
    """Return a selection with the pod in which its rank runs.

    Args:
        cluster_target: where the run is.
        observation: the run.
        selection: the selected rank, node or role.
        by_line: whether lines with a rank prefix are enough, in any pod.

    Raises:
        InputError: there is no such rank, or its pod is unknown.
    """
    if selection.rank is None:
        return selection
    from allranks.cluster import paths, pod_selection
    from allranks.model.processes import UnplacedRankError
    from allranks.model.rank_lines import of_mpi

    hostfile, plan = "", ""
    roles = {fields.text(item, "metadata", "labels", names.ROLE) for item in observation.objects}
    if roles - {"", names.ROLE_NODE}:
        with suppress(NotFoundError, ForbiddenError):
            config_map = cluster_target.cluster.get(
                paths.CONFIG_MAPS, observation.release, namespace=observation.namespace
            )
            hostfile = fields.text(config_map, "data", "hostfile")
            plan = fields.text(config_map, "data", "plan.json")
    try:
        who = pod_selection.with_rank(
            selection.rank, observation.release, observation.objects, hostfile, plan
        )
    except UnplacedRankError:
        if by_line and names.ROLE_LAUNCHER in roles:
            return of_mpi(selection.rank)
        if by_line and any(
            not item.fixed for item in map(pod_selection.writers, observation.pods) if item.prefixed
        ):
            return selection
        raise
    # mpirun's ranks are not those of torchrun's lines.
    rank = selection.rank if who.role == names.ROLE_NODE else None
    if by_line and rank is None and names.ROLE_LAUNCHER in roles:
        return of_mpi(selection.rank)
    return replace(selection, rank=rank, node=who.rank, role=who.role)


def _number(text: str) -> tuple[int, str]:
    digits = "".join(character for character in text if character.isdecimal())
    return int(digits or 0), text
