"""The processes in the pods of a controller, read from its pod template."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.k8s.fields import digits, items, mapping, text
from allranks.model import processes
from allranks.model.processes import Processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from allranks.model.status import Failure, PodStatus

# Variables of a user's by which an MPI places ranks otherwise.
_MAPPING = ("_rmaps_", "RANKFILE", "MPIR_CVAR_RANK")
# As our launcher and torch's errors begin.
_RANK = re.compile(r"(?:.*: )?rank (?P<rank>\d+) ")


def torchrun(spec: Mapping[str, Any], nodes: int) -> Processes | None:
    """Return the processes of torchrun's nodes; None for other pods.

    Args:
        spec: of the pods.
        nodes: how many there are.
    """
    for env in _environments(spec):
        per_node = digits(env.get(names.ENV_PROCESSES))
        if per_node:
            nodes = max(1, nodes - spares(spec))
            fixed = processes.fixed_nodes(env, nodes)
            return Processes.even(nodes, per_node, fixed=fixed)
    return None


def spares(spec: Mapping[str, Any]) -> int:
    """Return how many pods of a torchrun job stand by, by the spec of its pods."""
    return sum(digits(env.get(names.ENV_SPARES)) or 0 for env in _environments(spec))


def is_group(spec: Mapping[str, Any]) -> bool:
    """Return whether each of the pods is a replica group of torchft, by their spec."""
    return any(processes.counts_by_itself(env) for env in _environments(spec))


def _environments(spec: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yield the variables of each container that have a plain value."""
    for container in items(spec, "containers"):
        yield {
            text(variable, "name"): text(variable, "value") for variable in items(container, "env")
        }


def standing(pods: int, spares: int) -> str:
    """Return the sentence on pods that stand by, of so many in all."""
    stand = "stands" if spares == 1 else "stand"
    return (
        f"{pods - spares} of {pods} pods train and {spares} {stand} by for one that is lost; the "
        "log of a pod that stands by says so"
    )


def failed_rank(failure: Failure, pods: Iterable[PodStatus]) -> int | None:
    """Return the rank of the process that failed; None where nothing tells it.

    Args:
        failure: the failure.
        pods: of the run.
    """
    pod = next((candidate for candidate in pods if candidate.name == failure.pod), None)
    ranks = pod.ranks if pod is not None else None
    match = _RANK.match(failure.message)
    rank = int(match["rank"]) if match else None
    if rank is not None and (pod is None or pod.role == names.ROLE_NODE):
        return rank if ranks is None or rank in ranks else None
    return ranks[0] if ranks is not None and len(ranks) == 1 else None


def mpi(launcher: Mapping[str, Any], hostfile: str) -> Mapping[str, range]:
    """Return the ranks that mpirun starts in each pod; empty where they are not fixed.

    An MPI fills the slots of one host after the other. Where the command brings an mpirun of its
    own, or options of it, they may say otherwise, and an elastic job takes the hosts there are.

    Args:
        launcher: the spec of the launcher's pod.
        hostfile: the hosts of the job.
    """
    container = next(iter(items(launcher, "containers")), {})
    env = {text(variable, "name"): text(variable, "value") for variable in items(container, "env")}
    pods, slots = processes.hostfile(hostfile)
    flags = [word for word in (container.get("args") or ())[:1] if word != "0"]
    fixed = env.get(names.ENV_MPI_WRAP) == "1" and not flags
    if not fixed or digits(env.get(names.ENV_MPI_MIN_HOSTS)) not in {0, len(pods)}:
        return {}
    if any(word in name for name in env for word in _MAPPING):
        return {}
    most = digits(env.get(names.ENV_MPI_PROCESSES)) or slots.total
    spans = [slots.ranks(node) or range(0) for node in range(len(pods))]
    return {
        pod: range(slots.start, min(slots.stop, most))
        for pod, slots in zip(pods, spans, strict=True)
        if slots.start < most
    }


def elastic(plan: str) -> Mapping[str, range]:
    """Return the rank of each pod of an elastic job that sets RANK; empty for other jobs.

    Args:
        plan: plan.json of its ConfigMap; "" where there is none.
    """
    try:
        job = json.loads(plan or "{}")
    except ValueError:
        return {}
    if "RANK" not in mapping(job, "env"):
        return {}
    hosts = mapping(job, "hosts")
    ranked = [str(host) for role in job.get("ranks") or () for host in hosts.get(role) or ()]
    return {host.partition(".")[0]: range(rank, rank + 1) for rank, host in enumerate(ranked)}
