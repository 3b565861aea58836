"""How many nodes, ranks and GPUs a job has, and what a pod is promised, as values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm import amounts, placement, sizes
from allranks.convert.slurm.options import CPUS_OF_JOB
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.slurm.draft import Draft

_MOST_GPUS = 16  # of a node, as far as processes say how many it has
_OF_NODES = ("nodes", "ntasks", "nodelist")
_OF_GPUS = (
    *("gpus-per-node", "gres", "gpus", "gpus-per-task", "gpus-per-socket"),
    *("tres-per-task", "tres-per-job"),
)
_COUNTING_CPUS = ("cpus-per-task", "cpus-per-gpu", "mincpus", "tres-per-task")
_OF_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu", "tres-per-task")
_OF_RANKS = ("ntasks-per-node", "tasks-per-node", "ntasks", "ntasks-per-gpu")
FAMILIES = (_OF_GPUS, ("cpus-per-task", "cpus-per-gpu"), _OF_MEMORY[:3])
# What a step may ask of its job, which it has as a whole.
OF_JOB = (
    *("exclusive", "nodelist", "exclude", "constraint", "partition", "account", "time", "signal"),
    "reservation",
)


def put_size(job: Draft) -> None:
    """Put the nodes, the ranks of each, its GPUs, and what a pod asks for."""
    size, body, fields = job.size, job.body, job.fields
    asking = [name for name in _OF_GPUS if name not in job.settings or _asks_for_gpus(job, name)]
    of_nodes, of_gpus = job.origin(_OF_NODES), job.origin(asking)
    if not of_gpus and size.gpu_count:
        of_gpus = job.origin(("ntasks-per-gpu",))
    gpus = size.gpus_per_node
    if size.gpus and gpus is None and (body.script or body.nodes == 1):
        gpus = min(size.gpus, sizes.MOST_PER_NODE)
    if size.gpus and gpus is None and body.nodes is None:
        fields.put(("gpus",), size.gpus, of_gpus)
    else:
        nodes = body.nodes or 1
        fields.put(("nodes",), nodes, of_nodes)
        gpus = gpus or (max(1, size.gpus // nodes) if size.gpus else None)
        if gpus:
            fields.put(("gpusPerNode",), gpus, of_gpus)
    _say_node(job)
    _say_launchers(job)
    procs = body.procs_per_node
    if procs and gpus and procs > gpus and body.workload != "mpi":
        _say_shared(job, procs, gpus)
    elif procs and procs != (gpus or 1):
        fields.put(("procsPerNode",), procs)
    if not of_gpus and not gpus:
        _guess_gpus(job)
    if of_gpus:
        placement.put_gpu_type(job, of_gpus[0].removeprefix("--"))
    _put_resources(job)
    _put_shared_memory(job)
    _note_launcher(job)
    _note_defaults(job)


def _say_node(job: Draft) -> None:
    """Say of GPUs of a job that names no nodes that they are on one, and where the values are.

    One task is on one node in Slurm, too, and so is as much as a node has as a rule, where nobody
    names the tasks.
    """
    size, values = job.size, job.fields.values
    if size.nodes or not size.gpus or values.get("nodes", 1) > 1:
        return
    # The launcher starts them all on its node.
    is_of_launcher = (job.body.procs_per_node or 0) >= size.gpus
    to = "gpus" if "gpus" in values else "gpusPerNode"
    asking = [name for name in _OF_GPUS if name in job.settings and _asks_for_gpus(job, name)]
    for name in asking:
        option = job.settings[name].option
        if name not in size.outcomes and option is not None:
            size.outcomes[name] = (option.outcome, to, option.why)
    is_of_tasks = "ntasks" in job.settings and size.task_count > 1
    name = "ntasks" if is_of_tasks else next(iter(asking), "")
    is_large = size.gpus > sizes.USUAL_GPUS and size.tasks != 1 and not is_of_launcher
    if name and (is_of_tasks or is_large):
        why = (
            sizes.OF_ONE_NODE
            if to == "gpusPerNode"
            else sizes.OF_ONE_NODE.replace("nodes and gpusPerNode", "nodes")
        )
        before = size.outcomes.get(name, (Outcome.CHANGED, to, ""))[2]
        size.outcomes[name] = (Outcome.CHANGED, to, "; ".join(filter(None, (why, before))))


def _note_defaults(job: Draft) -> None:
    """Note what of a pod the script does not ask for, and Slurm gave it by default."""
    requests = job.fields.values.get("resources", {}).get("perPod", {}).get("requests", {})
    unasked = [
        word
        for word, key, names in (("CPUs", "cpu", _COUNTING_CPUS), ("memory", "memory", _OF_MEMORY))
        if key not in requests and not any(name in job.settings for name in (*names, "exclusive"))
    ]
    if unasked and "preset" not in job.fields.values:
        unasked_text = " and no ".join(unasked)
        job.fields.note(
            f"the script asks for no {unasked_text}, and its pods do not either: Slurm, or who "
            "submits, gave it some, which resources.perPod.requests has here",
            is_general=True,
        )


def _note_launcher(job: Draft) -> None:
    """Note that the launcher is in the pod, too, where its memory is a part of what there is.

    As measured with torch 2.8: 304 MB that are its own.
    """
    memory = job.size.memory
    is_launched = job.body.workload == "torchrun" and "array" not in job.settings
    if memory and memory < _LITTLE and is_launched:
        job.fields.note(_OF_LAUNCHER)


def _say_launchers(job: Draft) -> None:
    """Say of tasks that nodes have in unlike numbers that each pod has one launcher of ranks."""
    own_option, _ = job.body.procs_option
    tasks, nodes = job.size.tasks, job.size.nodes
    if own_option and tasks and nodes and tasks % nodes:
        why = (
            f"{sizes.unlike_tasks(tasks, nodes)}: each pod has one launcher, and as many ranks as "
            f"its {own_option} says"
        )
        job.size.outcomes["ntasks"] = (Outcome.NOT_CARRIED, "", why)


def _put_shared_memory(job: Draft) -> None:
    """As much of /dev/shm as a node has, half of its memory; loaders of data fill a container's."""
    memory = job.size.memory
    size = amounts.memory(memory // 2) if memory and memory > 1 else _SHARED_MEMORY
    if "shm" not in job.fields.values:
        job.fields.put(("shm", "size"), size, job.origin(_OF_MEMORY) if memory else ())


def _asks_for_gpus(job: Draft, name: str) -> bool:
    """Whether an option asks for GPUs, and not for others alone: ``--gres=tmpspace:9G``."""
    request = amounts.gres(job.settings[name].value) if name in sizes.OF_ANY_RESOURCE else None
    return request is None or request.count > 0 or not request.others


# What else a site calls what ranks compute on, as `--gres` has it.
_ACCELERATOR = re.compile(r"(?i)(?:dcu|mlu|npu|hpu|xpu|ipu|gcu|gaudi|ascend|neuron)(?![a-z])")


def _asks_for_others(job: Draft, *, accelerators: bool = False) -> bool:
    """Whether a script asks for devices of another name, of which another line speaks.

    Args:
        job: the script.
        accelerators: whether those alone count that do what GPUs do.
    """
    names = [name for name in sizes.OF_ANY_RESOURCE if name in job.settings]
    requests = [amounts.gres(job.settings[name].value) for name in names]
    others = [other for request in requests if request is not None for other in request.others]
    return any(_ACCELERATOR.match(other) for other in others) if accelerators else bool(others)


def _say_shared(job: Draft, ranks: int, gpus: int) -> None:
    """Say of torchrun's ranks that shared the GPUs of a node that they are fewer here."""
    why = (
        f"{plural(ranks, 'rank')} of a node shared {plural(gpus, 'GPU')}, and the chart gives each "
        f"rank its own: a node has {gpus} here; for more ask for as many GPUs, or for none"
    )
    own_option, line = job.body.procs_option
    of_step = [key for name in _OF_RANKS if (key := f"srun --{name}") in job.own]
    if ranks != job.size.per_node and (own_option or of_step):
        key = job.key(own_option, line) if own_option else of_step[0]
        job.fields.say((key,), Outcome.NOT_CARRIED, "procsPerNode", why)
        return
    options_of = [name for name in _OF_RANKS if name in job.settings]
    for name in options_of:
        reason = why if name == options_of[0] else f"as --{options_of[0]}"
        job.size.outcomes[name] = (Outcome.NOT_CARRIED, "procsPerNode", reason)
    if not options_of:
        job.fields.leave((job.key("procsPerNode", 0),), why)


def _put_resources(job: Draft) -> None:
    """What a pod is promised; of memory it may use no more either, as in Slurm."""
    size = job.size
    memory = amounts.memory(size.memory) if size.memory else ""
    amounts_of = (
        ("requests", "cpu", str(size.cpus_per_node or ""), CPUS_OF_JOB),
        ("requests", "memory", memory, _OF_MEMORY),
        ("limits", "memory", memory, _OF_MEMORY),
        ("requests", "ephemeral-storage", amounts.memory(size.disk) if size.disk else "", ("tmp",)),
    )
    for kind, key, amount, options_of in amounts_of:
        if amount:
            to = ("resources", "perPod", kind, key)
            job.fields.put(to, amount, job.origin(options_of))


# Of a node whose memory is not known. It is a limit, which the pod's own memory has to hold.
_SHARED_MEMORY = "64Gi"
_LITTLE = 4096  # MiB of a pod
_OF_LAUNCHER = (
    "the launcher is in the pod as well, and holds some 300 MB of its memory: ask for that much "
    "more where the program needs all that the script asks for"
)
_ON_GPUS = re.compile(
    r"nccl|cuda|gpu|nvidia|megatron|torchrun|torch\.distributed|deepspeed|accelerate|\blocal_rank\b"
    r"|\b(?:singularity|apptainer)\b.*\s--(?:nv|rocm)\b",
    re.IGNORECASE,
)
# What is as much at home on CPUs.
_MAY_BE_ON_GPUS = re.compile(
    r"pytorch|torch\b|tensorflow|keras|\bjax\b|huggingface|transformers|llm"
    r"|(?:\b|_)(?:pre|fine_?)?(?:train|tun)(?:e|er|ing)?(?:_[\w.]*)?\.py\b"
    r"|--(?:num[-_](?:train[-_])?)?epochs\b",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"(?:^|\s)#(?!SBATCH).*", re.MULTILINE)
# `--cpu-bind` and `--cpu-offload` say nothing of it.
_ON_CPUS = re.compile(
    r"\bgloo\b|(?<![\w-])--?(?:use_)?cpu(?![\w-])|no[-_]cuda|\bccl\b|device[= ]cpu", re.IGNORECASE
)


# What says of itself that its nodes have CPUs alone: `-p cpu_p1`, `--constraint=cpu`.
_PLACES = ("partition", "constraint", "qos")
_NAMED_BY_GPUS = re.compile(
    r"(?i)(?<![a-z0-9])(?:[gr]tx|[vpatlhb](?:4|40s?|100|200|6000)|a[23]0|a5000|mi[23]\d\d|titan\w*)(?![a-z0-9])"
)
_NAMED_BY_CPUS = re.compile(r"(?<![a-z])cpus?(?![a-z])", re.IGNORECASE)


# An srun that is not read may ask for them.
_OF_GPUS_ANYWHERE = re.compile(r"\bsrun\b[^\n]*\s--(?:gpus(?:-per-\w+)?|gres)[=\s]\S*\d")


def _guess_gpus(job: Draft) -> None:
    """GPUs of a script that asks for none: sites give whole nodes, and scripts count on them."""
    body, values = job.body, job.fields.values
    text = _COMMENT.sub("", job.text)
    places = [job.settings[name].value for name in _PLACES if name in job.settings]
    is_on_gpus = _ON_GPUS.search(text) is not None or any(map(_NAMED_BY_GPUS.search, places))
    count = values.get("procsPerNode", 1)
    is_of_ranks = body.workload == "torchrun" and not body.script and count > 1
    may_be_on_gpus = is_on_gpus or is_of_ranks or _MAY_BE_ON_GPUS.search(text)
    if not may_be_on_gpus or _ON_CPUS.search(text):
        return
    if any(_NAMED_BY_CPUS.search(place) and "gpu" not in place.lower() for place in places):
        return
    # Those of another name are its GPUs, of which another line speaks.
    has_others = _asks_for_others(job, accelerators=True)
    is_of_gpus = is_on_gpus and not has_others and body.workload != "mpi" and not body.script
    if not is_of_gpus or count == 1 or count > _MOST_GPUS:
        if (match := _OF_GPUS_ANYWHERE.search(text)) is not None:
            line = text.count("\n", 0, match.end()) + 1
            job.fields.note(
                f"line {line} asks for GPUs in a step that is not read, and the pods for none: set "
                "gpusPerNode"
            )
        elif not _asks_for_others(job):
            job.fields.note(
                "the script asks for no GPUs: set gpusPerNode where the nodes of its partition "
                "gave it some"
            )
        if body.workload == "torchrun" and count == 1:
            # With GPUs a node would have as many ranks, and the script has one.
            values["procsPerNode"] = 1
        return
    key = job.key("the GPUs", 0)
    values.pop("procsPerNode")
    job.fields.put(("gpusPerNode",), count, (key,))
    why = (
        f"the script asks for none, and starts {plural(count, 'process')} on each node, as on one "
        "with so many"
    )
    job.fields.say((key,), Outcome.CHANGED, "gpusPerNode", why)
    _count_for_guessed(job, count)


def _count_for_guessed(job: Draft, count: int) -> None:
    """Amounts for each GPU, which were read before anybody knew how many a pod has."""
    size = job.size
    cpus = job.settings.get("cpus-per-gpu")
    if cpus is not None and size.cpus_per_task is None and cpus.value.isdecimal():
        size.cpus_per_node = int(cpus.value) * count
        why = "CPUs are asked for a whole pod"
        size.outcomes["cpus-per-gpu"] = (Outcome.CHANGED, "resources.perPod", why)
    is_of_all = "mem" in job.settings or "mem-per-cpu" in job.settings
    if "mem-per-gpu" in job.settings and size.memory and not is_of_all:
        size.memory *= count
