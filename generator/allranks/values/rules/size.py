"""Rules about the size of the job: a size that does not divide is refused, not rounded.

The arithmetic is the layout's own; a test holds the two equal. It is here so that a wrong size is
reported together with everything else that is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks.humanize import number_of, plural, plurals
from allranks.model.elastic_size import Numbers
from allranks.schema.fixes import Fix
from allranks.values.rules.base import Finding, ValuesRule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE = (
    *("gpus", "nodes", "gpusPerNode", "nodeShape.gpus"),
    *("own.elastic", "own.numWorkers", "own.runLauncherAsWorker"),
    *("own.mode", "own.auto", "own.roles.worker", "own.strategy", "own.framework"),
    "gpuResource",
)
# Resources that are GPUs: nvidia.com/gpu, nvidia.com/mig-1g.5gb, gpu.intel.com/i915.
_GPUS = re.compile(r"gpu|/mig-", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RequestedSize:
    """A number of nodes with a number of GPUs each; the last may have fewer."""

    nodes: int
    gpus: int


def size(view: View) -> RequestedSize | None:
    """The size in the values, without regard to a cluster.

    Args:
        view: of a rule that declares `SIZE`.

    Returns:
        None where the numbers contradict each other; a rule here says so.
    """
    gpus, per_node, nodes = int(view["gpus"]), gpus_per_node(view), _nodes(view)
    if not gpus:
        return RequestedSize(nodes or 1, per_node)
    if per_node:
        count = _count(view, gpus, per_node)
        return RequestedSize(count, per_node) if count and nodes in (0, count) else None
    if nodes:
        return RequestedSize(nodes, gpus // nodes) if gpus % nodes == 0 else None
    most = int(view["nodeShape.gpus"]) or gpus
    split = max(part for part in divisors(gpus) if part <= most)
    return RequestedSize(gpus // split, split)


def hosts(view: View) -> int:
    """The number of nodes for a number of workers: an MPI launcher with ranks is one more."""
    if view.workload == "elastic":
        return int(view["own.roles.worker.replicas"])
    workers = int(view.get("own.numWorkers", 0))
    return workers + 1 if workers and view["own.runLauncherAsWorker"] else workers


def gpus_per_node(view: View) -> int:
    """The GPUs of each node, where they are given; an elastic job's nodes are its workers."""
    if view.workload == "elastic":
        return numbers(view).gpus_per_worker
    return int(view["gpusPerNode"])


def numbers(view: View) -> Numbers:
    """The size of an elastic job in its values, for rules that declare `SIZE`."""
    auto = view["own.auto"]
    return Numbers(
        auto=view["own.mode"] == "auto",
        gpus=int(view["gpus"]),
        nodes=int(view["nodes"]) or hosts(view),
        per_node=int(view["gpusPerNode"]) or int(view["own.roles.worker.gpusPerPod"]),
        cap=int(view["nodeShape.gpus"]),
        least=int(auto["minWorkers"]),
        most=int(auto["maxWorkers"]),
        gpu_limit=int(auto["limits"]["gpu"]),
    )


def most_nodes(view: View) -> int:
    """The most nodes of a job; 0 where the number is fixed, or unbounded."""
    if view.workload == "elastic":
        return numbers(view).bounds[1]
    return int(view["own.elastic.maxNodes"])


def uneven(view: View) -> bool:
    """Whether the last node may have fewer GPUs than the others."""
    return view.workload == "mpi" and not most_nodes(view)


def asks_gpus(view: View) -> bool:
    """Whether the job requests GPUs, for rules that declare `SIZE`."""
    return bool(view["gpus"] or gpus_per_node(view))


def devices(view: View, number: int | str) -> str:
    """A number of what `gpuResource` names, as a sentence has it: ``2 GPUs``, ``8 or 16 GPUs``.

    What is no GPU is a device, with the name of its resource: ``2 devices (google.com/tpu)``.
    """
    resource = str(view["gpuResource"])
    is_gpu = _GPUS.search(resource) is not None
    noun = "GPU" if is_gpu else "device"
    text = plural(number, noun) if isinstance(number, int) else f"{number} {plurals(noun)}"
    return text if is_gpu else f"{text} ({resource})"


def divisors(number: int) -> set[int]:
    """All divisors of a positive number."""
    small = {part for part in range(1, int(number**0.5) + 1) if number % part == 0}
    return small | {number // part for part in small}


def _nodes(view: View) -> int:
    """The requested nodes; an elastic job starts with its most, unless GPUs decide."""
    nodes = int(view["nodes"]) or hosts(view)
    decided = view["gpus"] and (gpus_per_node(view) or view["nodeShape.gpus"])
    return nodes if nodes or decided else most_nodes(view)


def _count(view: View, gpus: int, per_node: int) -> int:
    """The nodes for a total at so many each; 0 where an invalid rest remains."""
    if gpus % per_node and not (uneven(view) and gpus > per_node):
        return 0
    return -(-gpus // per_node)


def _neighbours(number: int, step: int) -> str:
    below = number - number % step
    return f"{below} or {below + step}" if below else f"{step}"


def _nearest(number: int, step: int) -> int:
    """The nearest multiple; of two that are as near, the smaller."""
    below = number - number % step
    return below if below and number - below <= below + step - number else below + step


def _gpus_divide(view: View) -> Iterator[Finding]:
    gpus, per_node, nodes = int(view["gpus"]), gpus_per_node(view), _nodes(view)
    if gpus and per_node and not _count(view, gpus, per_node):
        yield Finding(
            path("gpus"),
            f"{devices(view, gpus)} {number_of(gpus, 'is', 'are')} no multiple of gpusPerNode, "
            f"which is {per_node}",
            Fix(
                f"ask for {devices(view, _neighbours(gpus, per_node))}, or leave gpusPerNode out "
                f"and set nodeShape.gpus: {per_node}",
                value=_nearest(gpus, per_node),
            ),
        )
    elif gpus and not per_node and nodes and gpus % nodes:
        fewer = max(part for part in divisors(gpus) if part < nodes)
        yield Finding(
            path("gpus"),
            f"{devices(view, gpus)} cannot be split equally over {plural(nodes, 'node')}",
            Fix(
                f"ask for {devices(view, _neighbours(gpus, nodes))}, or for "
                f"{plural(fewer, 'node')}",
                value=_nearest(gpus, nodes),
            ),
        )


def _gpus_agree(view: View) -> Iterator[Finding]:
    gpus, per_node = int(view["gpus"]), gpus_per_node(view)
    nodes = int(view["nodes"]) or hosts(view)
    count = _count(view, gpus, per_node) if gpus and per_node else 0
    if count and nodes and nodes != count:
        yield Finding(
            path("gpus"),
            f"{plural(nodes, 'node')} with {devices(view, per_node)} each have "
            f"{devices(view, nodes * per_node)} in all, and gpus is {gpus}",
            f"set nodes: {count}, or gpus: {nodes * per_node}, or leave one of them out",
        )


def _node_shape(view: View) -> Iterator[Finding]:
    most, requested = int(view["nodeShape.gpus"]), size(view)
    if not most or requested is None or requested.gpus <= most:
        return
    if gpus_per_node(view):
        hint, location = f"use at most {devices(view, most)} per node", "gpusPerNode"
    else:
        hint = f"use at least {plural(-(-int(view['gpus']) // most), 'node')}"
        location = "nodes" if view["nodes"] else "gpus"
    yield Finding(
        path(location),
        f"a node would need {devices(view, requested.gpus)}, and nodeShape.gpus says it has {most}",
        hint,
    )


def _procs(view: View) -> Iterator[Finding]:
    procs, requested = int(view["procsPerNode"]), size(view)
    if requested is None or not requested.gpus or procs <= requested.gpus:
        return
    if view.workload != "mpi":
        yield Finding(
            path("procsPerNode"),
            f"{procs} processes would share {devices(view, requested.gpus)} of a node; "
            "each needs its own",
            f"use at most {requested.gpus}, or leave it out for one process each",
        )
        return
    last = int(view["gpus"]) % requested.gpus
    if procs * last % requested.gpus:
        below = procs - procs % requested.gpus
        yield Finding(
            path("procsPerNode"),
            f"{procs} processes share {devices(view, requested.gpus)} of a node, and the last node "
            f"has {last}: its share is no whole number",
            f"use {below} or {below + requested.gpus}, or a multiple of gpusPerNode for gpus",
        )


RULES = (
    ValuesRule(
        "gpus-divide",
        "`gpus` is a multiple of `gpusPerNode`, or of `nodes` (an elastic job's `maxNodes`). With "
        "MPI and `gpusPerNode` the last node may have the rest.",
        SIZE,
        _gpus_divide,
    ),
    ValuesRule(
        "gpus-agree",
        "Where `gpus`, `nodes` and `gpusPerNode` are all set, they agree.",
        SIZE,
        _gpus_agree,
    ),
    ValuesRule(
        "node-shape-gpus", "No node needs more GPUs than `nodeShape.gpus`.", SIZE, _node_shape
    ),
    ValuesRule(
        "procs-per-node",
        "`procsPerNode` is at most the GPUs of a node, where there are GPUs. With MPI it may be "
        "more, and its ranks share them; where the last node is smaller, as many to each GPU.",
        (*SIZE, "procsPerNode"),
        _procs,
    ),
)
