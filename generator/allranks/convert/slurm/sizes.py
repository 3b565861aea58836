"""The size of a Slurm job: nodes, tasks, GPUs, CPUs and memory, of all the ways to ask for them.

It is longer than most: each option may contradict another, and one class reads them all.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from allranks.convert.slurm import amounts, hostlist, options
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.convert.slurm.options import Setting

MOST_NODES = 100_000
MOST_PER_NODE = 1_000
MOST_MEMORY = 2**40  # MiB

# The label nvidia.com/gpu.product of a node, by what sites call a GPU.
PRODUCTS = {
    "a10": ("NVIDIA-A10", "NVIDIA-A10G"),
    "a10g": ("NVIDIA-A10G",),
    "a16": ("NVIDIA-A16",),
    "a30": ("NVIDIA-A30",),
    "a40": ("NVIDIA-A40",),
    "a6000": ("NVIDIA-RTX-A6000",),
    "rtxa6000": ("NVIDIA-RTX-A6000",),
    "a100": (
        *("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB"),
        *("NVIDIA-A100-PCIE-40GB", "NVIDIA-A100-80GB-PCIe"),
    ),
    "a100_40g": ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"),
    "a100_80g": ("NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"),
    "a100-sxm4-40gb": ("NVIDIA-A100-SXM4-40GB",),
    "a100-sxm4-80gb": ("NVIDIA-A100-SXM4-80GB",),
    "h100": ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL"),
    "h200": ("NVIDIA-H200", "NVIDIA-H200-NVL"),
    "b200": ("NVIDIA-B200",),
    "gh200": ("NVIDIA-GH200-480GB", "NVIDIA-GH200-120GB"),
    "l4": ("NVIDIA-L4",),
    "l40": ("NVIDIA-L40",),
    "l40s": ("NVIDIA-L40S",),
    "t4": ("Tesla-T4",),
    "p100": ("Tesla-P100-PCIE-16GB", "Tesla-P100-SXM2-16GB", "Tesla-P100-PCIE-12GB"),
    "v100": (
        *("Tesla-V100-SXM2-16GB", "Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB"),
        *("Tesla-V100-PCIE-16GB", "Tesla-V100-PCIE-32GB"),
    ),
}
_BY_NAME = {label.lower(): label for labels in PRODUCTS.values() for label in labels}
# Options that say how many GPUs a node has, one or the other way.
_OF_NODE = ("gpus-per-node", "gres", "gpus-per-task", "gpus-per-socket", "tres-per-task", "gpus")
# Those that say how many GPUs the job has.
_OF_JOB = ("gpus", "tres-per-job")
USUAL_GPUS = 8  # that a node has at most, as a rule
OF_ONE_NODE = (
    "on one node: the script names none, and Slurm would have chosen; set nodes and gpusPerNode "
    "for more"
)
_UNEVEN = "{} GPUs are not the same number on each of {}: all have {}"
# Options that may ask for any resource, and not for GPUs alone.
OF_ANY_RESOURCE = frozenset({"gres", "tres-per-task", "tres-per-job"})
ALIASES = {
    "tesla_t4": "t4",
    "tesla_v100": "v100",
    "a100_80gb": "a100_80g",
    "a100-80gb": "a100_80g",
    "a100_40gb": "a100_40g",
    "a100-40gb": "a100_40g",
    "a100-80g": "a100_80g",
    "a100-40g": "a100_40g",
    "a100l": "a100_80g",
    "rtx_a6000": "a6000",
    "rtx-a6000": "a6000",
    "tesla_a100": "a100",
    "nvidia_a100": "a100",
    "nvidia_h100": "h100",
}
AMD = (
    "mi100",
    "mi200",
    "mi210",
    "mi250",
    "mi250x",
    "mi300",
    "mi300a",
    "mi300x",
    "mi325x",
    "mi355x",
)


@dataclass(slots=True)
class Size:
    """What a job has, as far as its options say it; None where they do not.

    Attributes:
        nodes: how many nodes.
        tasks: how many tasks in all.
        tasks_per_node: how many of them a node has.
        typed_per_node: how many the option for that says, as the script reads it.
        gpus_per_node: GPUs of a node.
        gpus: GPUs in all, where the nodes are not said.
        gpu_types: their types, as a site calls them.
        cpus_per_task: CPUs of a task.
        cpus_per_node: CPUs of a node.
        memory: MiB of a node; 0 for all that it has.
        disk: MiB of a node.
        outcomes: by the name of an option, what became of it instead of its rule: (outcome, to,
            why).
        misfits: by the name of an option, why its text is none of its form.
    """

    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    typed_per_node: int | None = None
    gpus_per_node: int | None = None
    gpus: int | None = None
    gpu_types: tuple[str, ...] = ()
    cpus_per_task: int | None = None
    cpus_per_node: int | None = None
    memory: float | None = None
    disk: float | None = None
    outcomes: dict[str, tuple[Outcome, str, str]] = field(default_factory=dict)
    misfits: dict[str, str] = field(default_factory=dict)

    @property
    def node_count(self) -> int:
        """The nodes, 1 where nobody says it."""
        return self.nodes or 1

    @property
    def gpu_count(self) -> int:
        """The GPUs that it names, of a node or else in all; 0 for none."""
        return self.gpus_per_node or self.gpus or 0

    @property
    def per_node(self) -> int:
        """Slurm's tasks on a node, 1 where nobody says it."""
        return self.tasks_per_node or 1

    @property
    def told_per_node(self) -> int:
        """What Slurm tells the script that a node has of them, in SLURM_NTASKS_PER_NODE."""
        return self.typed_per_node or self.per_node

    @property
    def task_count(self) -> int:
        """Slurm's tasks, one for each node where nobody says it."""
        return self.tasks or self.node_count * self.per_node


def fill(size: Size, step: Size) -> None:
    """Put what a step asks for into the size of its job, where the job does not say it."""
    if size.gpus_per_node is None and size.gpus is None:
        size.gpus_per_node, size.gpus = step.gpus_per_node, step.gpus
        size.gpu_types = step.gpu_types
    if size.cpus_per_task is None and step.cpus_per_task is not None:
        size.cpus_per_task = step.cpus_per_task
    # A step may leave some of its job's alone: it is the job's that a pod has.
    size.cpus_per_node = max(step.cpus_per_node or 0, size.cpus_per_node or 0) or None
    if size.memory is None:
        size.memory = step.memory


def largest(steps: Sequence[Size]) -> Size:
    """What holds each of the steps that come one after the other."""
    size = Size()
    by_gpus = max(steps, key=lambda step: step.gpu_count)
    size.gpus_per_node, size.gpus = by_gpus.gpus_per_node, by_gpus.gpus
    size.gpu_types = by_gpus.gpu_types
    by_cpus = max(steps, key=lambda step: step.cpus_per_node or step.cpus_per_task or 0)
    size.cpus_per_task, size.cpus_per_node = by_cpus.cpus_per_task, by_cpus.cpus_per_node
    memory = [step.memory for step in steps if step.memory is not None]
    # 0 is all that a node has.
    size.memory = None if not memory else (0 if 0 in memory else max(memory))
    return size


class _SizeReader:
    def __init__(self, settings: Iterable[Setting]) -> None:
        own = options.standing([setting for setting in settings if setting.option])
        self.texts = {setting.name: setting.value for setting in own}
        self.size = Size()

    def say(self, name: str, outcome: Outcome, to: str, why: str) -> None:
        if name in self.texts:
            self.size.outcomes[name] = (outcome, to, why)

    def number(self, *names: str, most: int = MOST_NODES) -> int | None:
        for name in names:
            text = self.texts.get(name)
            if text is None:
                continue
            value = amounts.number(text)
            if value is not None and 0 < value <= most:
                return value
            is_least = "from 1 " if value == 0 else ""
            self.wrong(name, f"a whole number {is_least}up to {most:,}")
        return None

    def first_of(self, *names: str) -> str:
        """The first of some options that is given; "" for none."""
        return next((name for name in names if name in self.texts), "")

    def wrong(self, name: str, form: str) -> None:
        text = self.texts[name]
        why = f"{text!r} is not {form}" if text else f"it has no value: {form} is wanted"
        self.say(name, Outcome.NOT_CARRIED, "", why)
        self.size.misfits[name] = why


def read(settings: Iterable[Setting]) -> Size:
    """The size that options ask for; a later option of a name replaces an earlier one.

    Args:
        settings: the options, in their order.
    """
    reader = _SizeReader(settings)
    _read_nodes(reader)
    _read_hosts(reader)
    _read_tasks(reader)
    _read_gpus(reader)
    _read_tasks_of_gpus(reader)
    _read_cpus(reader)
    _read_memory(reader)
    return reader.size


def _read_nodes(reader: _SizeReader) -> None:
    text = reader.texts.get("nodes")
    if text is None:
        return
    span = amounts.nodes(text)
    if span is None or not 0 < span[0] <= MOST_NODES:
        reader.wrong("nodes", f"a number of nodes up to {MOST_NODES:,}")
        return
    least, most = span
    reader.size.nodes = least
    if most > least:
        why = f"the fewest that were allowed; set torchrun.elastic for up to {most}"
        reader.say("nodes", Outcome.CHANGED, "nodes", why)


def _read_hosts(reader: _SizeReader) -> None:
    """Count the hosts that a job names: it has all of them, and others where it asks for more."""
    count, nodes = len(hostlist.hosts(reader.texts.get("nodelist", ""))), reader.size.nodes
    if count < 2 or count <= (nodes or 0):  # noqa: PLR2004 - one host is no number of nodes
        return
    reader.size.nodes = count
    why = f"--nodelist names {count} hosts, all of which the job has"
    reader.say("nodes", Outcome.CHANGED, "nodes", why)


def _read_tasks(reader: _SizeReader) -> None:
    size = reader.size
    per_node = reader.number("ntasks-per-node", "tasks-per-node", most=MOST_PER_NODE)
    total = reader.number("ntasks", most=MOST_NODES * 100)
    size.typed_per_node = per_node
    if total is None and per_node is None and "ntasks-per-gpu" in reader.texts:
        total = _tasks_of_all_gpus(reader)
    elif total is None and per_node is None:
        total, per_node = _tasks_of_gpus(reader)
    size.tasks = total
    if total and per_node and size.nodes is None:
        size.nodes = min(MOST_NODES, math.ceil(total / per_node))
    if total and size.nodes:
        if total < size.nodes:  # Slurm takes fewer nodes then
            why = f"{plural(total, 'task')} {'needs' if total == 1 else 'need'} no more nodes"
            reader.say("nodes", Outcome.CHANGED, "nodes", why)
            size.nodes = total
        most, per_node = per_node, math.ceil(total / size.nodes)
        if most and most != per_node:
            name = reader.first_of("ntasks-per-node", "tasks-per-node")
            reader.say(name, Outcome.CHANGED, "procsPerNode", _why_not_typed(size, total, most))
        if total % size.nodes:
            ranks = plural(per_node * size.nodes, "rank")
            why = why_uneven(total, size.nodes, f"which makes {ranks}")
            reader.say("ntasks", Outcome.NOT_CARRIED, "procsPerNode", why)
    size.tasks_per_node = per_node if per_node is None or per_node <= MOST_PER_NODE else None


def _why_not_typed(size: Size, total: int, most: int) -> str:
    """Why a node has another number of tasks than --ntasks-per-node says, beside --ntasks."""
    nodes = size.node_count
    if most * nodes < total:
        return (
            f"Slurm ignores it: {plural(total, 'task')} of {plural(nodes, 'node')} are more than "
            f"{most} on each"
        )
    return f"beside --ntasks it is the most that a node may have, of {plural(total, 'task')} in all"


def why_uneven(tasks: int, nodes: int, end: str) -> str:
    """Why tasks are lost that are not the same number on each node.

    Args:
        tasks: how many there are.
        nodes: how many nodes.
        end: what comes of the same number on all, as a part of a sentence.
    """
    return f"{unlike_tasks(tasks, nodes)}: procsPerNode is {math.ceil(tasks / nodes)} on all, {end}"


def unlike_tasks(tasks: int, nodes: int) -> str:
    """What is true of tasks that nodes have in unlike numbers, as the begin of a sentence.

    Args:
        tasks: how many there are.
        nodes: how many nodes.
    """
    return f"{plural(tasks, 'task')} are not the same number on each of {plural(nodes, 'node')}"


def _tasks_of_all_gpus(reader: _SizeReader) -> int | None:
    """The tasks that --ntasks-per-gpu gives the GPUs of a job that names no nodes for them."""
    names_nodes = not {"nodes", "gpus-per-node", "gres"}.isdisjoint(reader.texts)
    request = amounts.gpus(reader.texts.get("gpus", ""))
    per_gpu = reader.number("ntasks-per-gpu", most=MOST_PER_NODE)
    return None if names_nodes or request is None or not per_gpu else request.count * per_gpu


def _tasks_of_gpus(reader: _SizeReader) -> tuple[int | None, int | None]:
    """The tasks in all and of a node that Slurm counts by the GPUs of each; None where it does not.

    slurmctld does so where the GPUs of a node, or of the job, are a multiple of a task's. The
    newest releases tell srun that number only where the script names it: a task on each node.
    """
    requests = {
        "gpus-per-task": amounts.gpus(reader.texts.get("gpus-per-task", "")),
        "gpus-per-node": amounts.gpus(reader.texts.get("gpus-per-node", ""))
        or amounts.gres(reader.texts.get("gres", "")),
        "gpus": amounts.gpus(reader.texts.get("gpus", "")),
    }
    counts = {name: request.count if request else 0 for name, request in requests.items()}
    of_task, of_node, of_job = counts.values()
    if not of_task or reader.size.nodes is None:
        return None, None
    total = of_job // of_task if of_job % of_task == 0 and not of_node else 0
    per_node = of_node // of_task if of_node % of_task == 0 else 0
    shown = per_node or math.ceil(total / reader.size.nodes)
    if shown > 1 and shown <= MOST_PER_NODE:
        why = (
            f"the script names no tasks: most releases of Slurm count {shown} on each node of it; "
            "write --ntasks-per-node for others"
        )
        reader.say("gpus-per-task", Outcome.CHANGED, "procsPerNode", why)
    return total or None, per_node or None


def _read_gpus(reader: _SizeReader) -> None:
    size, texts = reader.size, reader.texts
    types: list[str] = []
    _say_replaced(reader)
    form = "a number of GPUs such as 8, gpu:8 or gpu:h100:8"
    for name in (
        *("gres", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gpus"),
        *("tres-per-task", "tres-per-job"),
    ):
        if name not in texts:
            continue
        text = texts[name]
        request = amounts.gres(text) if name in OF_ANY_RESOURCE else amounts.gpus(text)
        if request is None or request.count > MOST_NODES * 100:
            reader.wrong(name, form)
            continue
        _say_request(reader, name, request)
        types += [kind for kind in request.types if kind and request.count]
        _count_gpus(reader, name, request.count)
    if size.gpu_count == 0:
        size.gpus = _gpus_of_tasks(reader)
    size.gpu_types = tuple(dict.fromkeys(types))
    is_alone = 1 in (size.tasks_per_node, size.tasks)
    is_of_task = not {"gres", "gpus-per-node", "gpus", "tres-per-job"} & {*texts}
    if is_alone and is_of_task and not types and "gpus-per-task" not in size.outcomes:
        # The one process of a node has all of its pod's, as it had all of the job's there.
        reader.say("gpus-per-task", Outcome.CARRIED, "gpusPerNode", "")
    _spread_gpus(reader)


_GPUS_WORD = re.compile(r"(?:^|,)\s*(?:gres[/:])?gpus\b", re.IGNORECASE)
_TAKEN_FOR_GPU = (
    "gpus is taken for gpu, which is Slurm's own word: it refuses gpus, unless the site has such a "
    "resource"
)


def _say_request(reader: _SizeReader, name: str, request: amounts.Gpus) -> None:
    """Say what an option asks for that is no number of GPUs of one type."""
    others = [own for own in request.others if not _is_of_task(name, own)]
    if others:
        resources = ", ".join(others)
        why = (
            f"{resources} is a resource of Slurm's: write what your cluster calls it into "
            "resources.perPod"
        )
        reader.say(name, Outcome.NOT_CARRIED, "gpusPerNode", why)
    elif request.others and not request.count:
        why = "CPUs and memory are asked for a whole pod"
        reader.say(name, Outcome.CHANGED, "resources.perPod", why)
    elif name in OF_ANY_RESOURCE and _GPUS_WORD.search(reader.texts.get(name, "")):
        reader.say(name, Outcome.CHANGED, "gpusPerNode", _TAKEN_FOR_GPU)
    types = [kind for kind in request.types if kind]
    if len(types) > 1:
        why = (
            f"GPUs of several types ({', '.join(types)}) in one job: pods are alike, and each has "
            "its GPUs of any one of them; name a single type to be sure of it"
        )
        reader.say(name, Outcome.NOT_CARRIED, "gpusPerNode", why)


def _spread_gpus(reader: _SizeReader) -> None:
    """Settle how many GPUs each node has, where an option names those of the job."""
    size, texts = reader.size, reader.texts
    if size.gpus_per_node is not None and size.gpus_per_node > MOST_PER_NODE:
        why = f"no node has {size.gpus_per_node:,} GPUs: gpusPerNode is up to {MOST_PER_NODE:,}"
        reader.say(reader.first_of(*_OF_NODE), Outcome.NOT_CARRIED, "gpusPerNode", why)
        size.gpus_per_node = MOST_PER_NODE
    is_spread = size.nodes is None and size.tasks_per_node is None
    if size.gpus and size.gpus_per_node and size.nodes is None:
        size.nodes = math.ceil(size.gpus / size.gpus_per_node)
        _say_total(reader)
        size.gpus = None
        if "gpus-per-task" in texts and not size.tasks and size.nodes > 1:
            why = (
                f"a task on each of {plural(size.nodes, 'node')}: the script names none, and Slurm "
                "would have chosen; set nodes and gpusPerNode for others"
            )
            reader.say("gpus-per-task", Outcome.CHANGED, "nodes, gpusPerNode", why)
        if size.tasks_per_node is None and size.tasks:
            size.tasks_per_node = math.ceil(size.tasks / size.nodes)
    elif size.gpus and is_spread and size.tasks in (None, size.gpus):
        pass  # on as many nodes as it takes
    elif size.gpus and size.gpus_per_node is None:
        nodes = size.node_count
        if size.nodes is None and size.gpus > USUAL_GPUS and size.tasks != 1:
            reader.say(reader.first_of(*_OF_JOB), Outcome.CHANGED, "gpusPerNode", OF_ONE_NODE)
        size.nodes = nodes
        size.gpus_per_node = math.ceil(size.gpus / nodes)
        if size.gpus % nodes:
            why = _UNEVEN.format(size.gpus, plural(nodes, "node"), size.gpus_per_node)
            reader.say("gpus", Outcome.NOT_CARRIED, "gpusPerNode", why)
        size.gpus = None
    elif size.gpus_per_node is not None:
        _say_total(reader)
        size.gpus = None


def _say_total(reader: _SizeReader) -> None:
    """Say of the GPUs of a job whether they are those of all its nodes together."""
    size, name = reader.size, reader.first_of(*_OF_JOB)
    if not size.gpus or not size.gpus_per_node:
        return
    nodes, per_node = size.node_count, size.gpus_per_node
    outcome, place = Outcome.NOT_CARRIED, plural(nodes, "node")
    why = (
        f"{plural(size.gpus, 'GPU')} in all is not {per_node} on each of {place}, which Slurm "
        f"refuses: the run has {nodes * per_node}; leave out what is not meant"
    )
    if size.gpus == nodes * per_node:
        outcome, why = Outcome.CARRIED, ""
    elif size.tasks and size.tasks % nodes:  # as --ntasks says
        why = _UNEVEN.format(size.gpus, place, per_node)
    reader.say(name, outcome, "nodes, gpusPerNode", why)


def _gpus_of_tasks(reader: _SizeReader) -> int | None:
    """The GPUs that --ntasks-per-gpu asks for, where the script names the tasks and no GPUs."""
    if not reader.size.tasks:
        return None
    per_gpu = reader.number("ntasks-per-gpu", most=MOST_PER_NODE)
    if not per_gpu:
        return None
    count = math.ceil(reader.size.tasks / per_gpu)
    why = (
        f"the script names no GPUs: its tasks ask for {count}; each sees all GPUs of its pod, and "
        "is to take that of its local rank"
    )
    reader.say("ntasks-per-gpu", Outcome.CHANGED, "gpus, gpusPerNode", why)
    return count


def _say_replaced(reader: _SizeReader) -> None:
    """Say of the GPUs of a node that another option names another number of them."""
    gres = amounts.gres(reader.texts.get("gres", ""))
    per_node = amounts.gpus(reader.texts.get("gpus-per-node", ""))
    if gres and per_node and gres.count and per_node.count not in (0, gres.count):
        why = f"--gpus-per-node stands in its place: a node has {per_node.count}"
        reader.say("gres", Outcome.CHANGED, "gpusPerNode", why)


def _count_gpus(reader: _SizeReader, name: str, count: int) -> None:
    size = reader.size
    if name in ("gres", "gpus-per-node"):
        size.gpus_per_node = count or size.gpus_per_node
    elif name in ("gpus", "tres-per-job"):
        size.gpus = count
    elif name == "gpus-per-socket":
        sockets = reader.number("sockets-per-node", most=MOST_PER_NODE)
        has_count = sockets is not None or "gpus" not in reader.texts
        if size.gpus_per_node is None and has_count:
            size.gpus_per_node = count * (sockets or 1)
    elif count and size.gpus_per_node is None:
        if size.tasks_per_node is None and size.tasks is not None and size.nodes is None:
            size.gpus = size.tasks * count  # as many nodes as they need
        else:
            size.gpus_per_node = count * size.per_node


def _read_tasks_of_gpus(reader: _SizeReader) -> None:
    size = reader.size
    per_gpu = reader.number("ntasks-per-gpu", most=MOST_PER_NODE)
    if per_gpu and size.tasks_per_node is None and size.gpus_per_node:
        size.tasks_per_node = min(MOST_PER_NODE, per_gpu * size.gpus_per_node)
    gpus = size.gpus_per_node or 1
    is_large = size.tasks is not None and size.tasks > gpus > 1 and not size.tasks % gpus
    if size.tasks and size.tasks_per_node is None and size.gpus is None and is_large:
        size.nodes, size.tasks_per_node = size.tasks // gpus, gpus
        why = "a task for each GPU of a node: the script names no nodes; set nodes for others"
        reader.say("ntasks", Outcome.CHANGED, "nodes, procsPerNode", why)
    elif size.tasks and size.tasks_per_node is None and size.gpus is None:
        # Tasks without a number of nodes: all on one node, which is what Slurm does where they fit.
        size.nodes, size.tasks_per_node = 1, size.tasks
        if size.tasks > 1:
            why = (
                "on one node: the script names none, and Slurm would have chosen; set nodes for "
                "more"
            )
            reader.say("ntasks", Outcome.CHANGED, "procsPerNode", why)
        if size.tasks > MOST_PER_NODE:
            size.tasks_per_node = MOST_PER_NODE
            reader.say("ntasks", Outcome.NOT_CARRIED, "", "say how many nodes they are on: nodes")


def _read_cpus(reader: _SizeReader) -> None:
    size = reader.size
    size.cpus_per_task = reader.number("cpus-per-task") or _cpus_of_tres(reader)
    per_gpu = reader.number("cpus-per-gpu")
    gpus = size.gpus_per_node or size.gpus
    if size.cpus_per_task:
        size.cpus_per_node = size.cpus_per_task * _tasks_of_pod(size)
        _say_whole(reader, reader.first_of("cpus-per-task", "tres-per-task"))
    elif per_gpu and gpus:
        size.cpus_per_node = per_gpu * gpus
        _say_whole(reader, "cpus-per-gpu")
    elif per_gpu:
        reader.say("cpus-per-gpu", Outcome.CHANGED, "", "the job has no GPUs")
    elif size.tasks_per_node and size.tasks_per_node > 1:
        size.cpus_per_node = size.tasks_per_node
    least = reader.number("mincpus")
    if least:
        size.cpus_per_node = max(least, size.cpus_per_node or 0)


# What --tres-per-task may ask for that is no resource of a site's.
_OF_TASK = re.compile(r"cpu[=:][0-9]{1,6}|mem[=:][0-9]{1,12}[kmgt]?", re.IGNORECASE)


def _is_of_task(option: str, text: str) -> bool:
    """Whether a part of an option is the CPUs or the memory of a task: ``cpu=4``, ``mem=4G``."""
    return option == "tres-per-task" and _OF_TASK.fullmatch(text) is not None


def _of_tres(reader: _SizeReader, name: str) -> str:
    """What --tres-per-task asks of CPUs or memory; "" for none."""
    request = amounts.gres(reader.texts.get("tres-per-task", ""))
    parts = request.others if request else ()
    own = [part for part in parts if part.lower().startswith(name) and _OF_TASK.fullmatch(part)]
    return re.split("[=:]", own[-1])[1] if own else ""


def _cpus_of_tres(reader: _SizeReader) -> int | None:
    count = amounts.number(_of_tres(reader, "cpu"))
    return count if count and count <= MOST_NODES else None


def _tasks_of_pod(size: Size) -> int:
    """The tasks of a pod; all of them where the GPUs are on as many nodes as it takes."""
    return (size.tasks or 1) if size.gpus else size.per_node


def _say_whole(reader: _SizeReader, name: str) -> None:
    """Say of an amount of a pod that it is for all GPUs of the job."""
    if (reader.size.gpus or 0) > 1:
        why = (
            f"for one pod with all {reader.size.gpus} GPUs, as the script names no nodes: write "
            "that of a pod's where gpusPerNode (or a preset) has fewer"
        )
        reader.say(name, Outcome.CHANGED, "resources.perPod", why)


def _read_memory(reader: _SizeReader) -> None:
    size, texts = reader.size, reader.texts
    form = "an amount of memory such as 64G"
    for name, factor in (
        ("mem", 1),
        ("mem-per-cpu", size.cpus_per_node or _tasks_of_pod(size)),
        ("mem-per-gpu", size.gpus_per_node or size.gpus or 1),
    ):
        if name not in texts:
            continue
        amount = amounts.mebibytes(texts[name])
        if amount is None or amount * factor > MOST_MEMORY:
            reader.wrong(name, form)
        elif amount == 0:
            why = (
                "a pod may use what its node has free unless it has a limit: write one where all "
                "is wanted"
            )
            reader.say(name, Outcome.CHANGED, "", why)
        elif size.memory is None:
            size.memory = amount * factor
            if name != "mem":
                _say_whole(reader, name)
    of_task = amounts.mebibytes(_of_tres(reader, "mem"))
    if of_task and size.memory is None and of_task * _tasks_of_pod(size) <= MOST_MEMORY:
        size.memory = of_task * _tasks_of_pod(size)
    if "tmp" in texts:
        size.disk = amounts.mebibytes(texts["tmp"])
        if size.disk is None or size.disk > MOST_MEMORY:
            size.disk = None
            reader.wrong("tmp", form)


def products(types: Iterable[str]) -> tuple[str, ...]:
    """The values of the label nvidia.com/gpu.product that nodes with GPUs of these types have.

    What Slurm finds by itself (AutoDetect=nvml) is the product itself, in small letters and with
    another sign for blanks: ``nvidia_h100_80gb_hbm3``.
    """
    labels: list[str] = []
    for kind in types:
        own = _BY_NAME.get(kind.replace("_", "-"), "")
        labels += (own,) if own else PRODUCTS.get(ALIASES.get(kind, kind), ())
    return tuple(dict.fromkeys(labels))
