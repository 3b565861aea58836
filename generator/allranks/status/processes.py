"""Which processes run in the pods of a controller, read off its pod template."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.model import processes
from allranks.model.processes import Processes
from allranks.status.fields import digits, items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from allranks.model.status import Failure, PodStatus

# Variables of a user's by which an MPI places ranks otherwise.
_MAPPING = ("_rmaps_", "RANKFILE", "MPIR_CVAR_RANK")
# As our launcher and torch's errors begin.
_RANK = re.compile(r"(?:.*: )?rank (?P<rank>\d+) ")


def torchrun(spec: Mapping[str, Any], nodes: int) -> Processes | None:
    """The processes of torchrun's nodes; None where the pods are none.

    Args:
        spec: of the pods.
        nodes: how many there are.
    """
    for container in items(spec, "containers"):
        env = {text(one, "name"): text(one, "value") for one in items(container, "env")}
        per_node = digits(env.get(names.ENV_PROCESSES))
        if per_node:
            known = processes.fixed_nodes(env, nodes)
            return Processes.even(nodes, per_node, known=known)
    return None


def failed(failure: Failure, pods: Iterable[PodStatus]) -> int | None:
    """The rank of the process that failed; None where nothing says it.

    Args:
        failure: the failure.
        pods: of the run.
    """
    pod = next((one for one in pods if one.name == failure.pod), None)
    ranks = pod.ranks if pod is not None else None
    match = _RANK.match(failure.message)
    rank = int(match["rank"]) if match else None
    if rank is not None and (pod is None or pod.role == names.ROLE_NODE):
        return rank if ranks is None or rank in ranks else None
    return ranks[0] if ranks is not None and len(ranks) == 1 else None


def mpi(launcher: Mapping[str, Any], hostfile: str) -> Mapping[str, range]:
    """The ranks that mpirun starts in each pod; empty where it is not fixed.

    An MPI fills the slots of one host after the other. Where the command brings an mpirun of its
    own, or options of it, they may say otherwise, and an elastic job takes the hosts there are.

    Args:
        launcher: the spec of the launcher's pod.
        hostfile: the hosts of the job.
    """
    container = next(iter(items(launcher, "containers")), {})
    env = {text(one, "name"): text(one, "value") for one in items(container, "env")}
    pods, slots = processes.hostfile(hostfile)
    flags = [word for word in (container.get("args") or ())[:1] if word != "0"]
    fixed = env.get(names.ENV_MPI_WRAP) == "1" and not flags
    if not fixed or digits(env.get(names.ENV_MPI_MIN_HOSTS)) not in {0, len(pods)}:
        return {}
    if any(word in name for name in env for word in _MAPPING):
        return {}
    most = digits(env.get(names.ENV_MPI_PROCESSES)) or slots.total
    ranks = [slots.ranks(node) or range(0) for node in range(len(pods))]
    return {
        pod: range(one.start, min(one.stop, most))
        for pod, one in zip(pods, ranks, strict=True)
        if one.start < most
    }


def elastic(plan: str) -> Mapping[str, range]:
    """The rank of each pod of an elastic job that gives its pods RANK; empty for others.

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
