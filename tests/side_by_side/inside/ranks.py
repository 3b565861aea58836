"""The ranks that srun, mpirun, torchrun or deepspeed starts, of its words and its environment.

Each function reads the words behind a launcher's name as its manual says, and returns what it
would start, with the variables that it tells each rank. Nothing is started here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from tests.side_by_side.inside.program import IN_STEP, NODE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Environment = dict[str, str]

MOST = 128  # ranks of a launcher: more take minutes, and differ in nothing
_MPIRUN_VALUES = """\
    n np c N npernode ppn perhost host H hosts hostfile machinefile f x wd wdir path bind-to
    map-by rank-by membind envlist iface output-filename timeout prefix cpu-set rmk launcher
    launcher-exec bootstrap rankfile rf cpu-list npersocket"""
_MPIRUN_PAIRS = "mca gmca omca prtemca pmixmca env genv"
_TORCHRUN_VALUES = """\
    nnodes nproc-per-node rdzv-backend rdzv-endpoint rdzv-id rdzv-conf max-restarts
    monitor-interval start-method role log-dir redirects tee local-ranks-filter node-rank
    master-addr master-port local-addr logs-specs r t"""
_DEEPSPEED_VALUES = """\
    hostfile include exclude num-nodes num-gpus master-port master-addr launcher launcher-args
    node-rank i e"""
_CONTAINER_VALUES = """\
    B bind pwd cwd home H env env-file overlay o mount S scratch workdir W network security
    hostname app"""
_SHIFTER_VALUES = "volume V image i module m workdir w env e env-file entrypoint"
_SRUN_OUTPUT = re.compile(r"%([jJtnNx])")


class Allocation(NamedTuple):
    """The nodes of a job.

    Attributes:
        hosts: their names.
        slots: how many ranks of MPI a node takes.
        gpus: how many GPUs a node has.
        srun_options: of srun, the options that have a value, and the letters of options, as
            `read_options` takes them.
    """

    hosts: list[str]
    slots: int
    gpus: int
    srun_options: tuple[str, str]


class Rank(NamedTuple):
    """A process that a launcher starts.

    Attributes:
        words: the program and its words.
        environment: all its variables.
        folder: where it starts; "" for its launcher's folder.
        output: the file of its standard output; "" for its launcher's.
        error: the file of its standard error; "" for its launcher's.
    """

    words: list[str]
    environment: Environment
    folder: str = ""
    output: str = ""
    error: str = ""


class LauncherError(Exception):
    """A launcher does not take its words; the text is what it writes."""


def read_options(
    words: Sequence[str],
    values: str = "",
    letters: str = "",
    pairs: str = "",
) -> tuple[list[tuple[str, str]], list[str]]:
    """The options at the head of a command line, and the words behind them.

    Args:
        words: the words behind the launcher's name.
        values: the names of options that have a value, without dashes and with ``-`` for ``_``.
        letters: where letters are read as getopt reads them (``-n4``): ``n=ntasks``.
        pairs: the names of options that have two values, which are joined by ``=``.
    """
    rest, options = list(words), list[tuple[str, str]]()
    names_of = dict(item.split("=") for item in letters.split())
    with_value, with_two = set(values.split()), set(pairs.split())
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        if letters and not word.startswith("--"):
            name, value = names_of.get(word[1], word[1]), word[2:]
            equals = value
        name = name.replace("_", "-")
        if name in with_two and len(rest) > 1:
            value = f"{rest.pop(0)}={rest.pop(0)}"
        elif name in with_value and not equals and rest:
            value = rest.pop(0)
        options.append((name, value))
    return options, rest


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() else None


def srun(words: Sequence[str], environment: Mapping[str, str], job: Allocation) -> list[Rank]:
    """The tasks of a step, node after node, as the manual of srun spreads them.

    Raises:
        LauncherError: its number of tasks is none.
    """
    pairs, program = read_options(words, *job.srun_options)
    options = dict(pairs)
    if not program:
        return []
    tasks_text = options.get("ntasks")
    if tasks_text is not None and _number(tasks_text) is None:
        raise LauncherError(f"srun: error: Invalid numeric value {tasks_text!r} for --ntasks.")
    nodes = _step_nodes(options, job)
    per_node = _number(options.get("ntasks-per-node") or options.get("tasks-per-node"))
    tasks = _step_tasks(options, per_node, len(nodes), environment)
    nodes = nodes[: max(tasks, 1)]
    shares = [tasks // len(nodes) + (at < tasks % len(nodes)) for at in range(len(nodes))]
    if per_node:
        shares = [max(0, min(per_node, tasks - at * per_node)) for at in range(len(nodes))]
        shares[-1] += tasks - sum(shares)
    places = [(node, local) for node, share in enumerate(shares) for local in range(share)]
    ranks = []
    for rank, (node, local) in enumerate(places[:MOST]):
        variables = {
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(local),
            "SLURM_NODEID": str(node),
            "SLURM_NTASKS": str(tasks),
            "SLURM_NPROCS": str(tasks),
            "SLURM_STEP_ID": "0",
            "SLURM_NNODES": str(len(nodes)),
            "SLURM_STEP_NUM_TASKS": str(tasks),
            "SLURMD_NODENAME": short(job.hosts[nodes[node]]),
            "SLURM_STEPID": "0",
            "HOSTNAME": short(job.hosts[nodes[node]]),
            NODE: str(nodes[node]),
            IN_STEP: "srun",
        }
        if "cpus-per-task" in options:
            variables["SLURM_CPUS_PER_TASK"] = options["cpus-per-task"]
        if per_node:
            variables["SLURM_NTASKS_PER_NODE"] = str(per_node)
        own = {**_exported(options.get("export", ""), environment), **variables}
        output = _filled(options.get("output", ""), own)
        error = _filled(options.get("error", ""), own) or output
        ranks.append(Rank(program, own, options.get("chdir", ""), output, error))
    return ranks


def _step_nodes(options: Mapping[str, str], job: Allocation) -> list[int]:
    """The nodes of a step, by their numbers in the job."""
    names_of_step = options.get("nodelist", "").split(",")
    nodes = [
        node
        for node, host in enumerate(job.hosts)
        if host in names_of_step or short(host) in names_of_step
    ]
    nodes = nodes or list(range(len(job.hosts)))
    return nodes[: _number(options.get("nodes", "").rpartition("-")[2])]


def _step_tasks(
    options: Mapping[str, str], per_node: int | None, nodes: int, environment: Mapping[str, str]
) -> int:
    if (tasks := _number(options.get("ntasks"))) is not None:
        return tasks
    if per_node:
        return per_node * nodes
    per_job_node = _number(environment.get("SLURM_NTASKS_PER_NODE"))
    if "nodes" in options and per_job_node:
        return per_job_node * nodes
    return _number(environment.get("SLURM_NTASKS")) or nodes


def _exported(export: str, environment: Mapping[str, str]) -> Environment:
    """The variables of a step with ``--export``."""
    parts = export.split(",")
    if not export or export == "ALL":
        return dict(environment)
    own = ("SLURM_", "SIDE_BY_SIDE_", "PATH")
    shared = environment if "ALL" in parts else dict[str, str]()
    exported = {
        name: text
        for name, text in environment.items()
        if name in shared or name in parts or name.startswith(own)
    }
    return {**exported, **dict(part.split("=", 1) for part in parts if "=" in part)}


def _filled(pattern: str, environment: Mapping[str, str]) -> str:
    """The name of a file of a task's, of srun's pattern."""
    if pattern == "none":
        return "/dev/null"
    job_id, rank = environment.get("SLURM_JOB_ID", ""), environment["SLURM_PROCID"]
    parts = {
        "j": job_id,
        "J": f"{job_id}.0",
        "t": rank,
        "n": environment["SLURM_NODEID"],
        "N": environment["SLURMD_NODENAME"],
        "x": environment.get("SLURM_JOB_NAME", ""),
    }
    return _SRUN_OUTPUT.sub(lambda match: parts[match[1]], pattern)


def mpirun(
    words: Sequence[str],
    environment: Mapping[str, str],
    job: Allocation,
    of_node: Callable[[int], Mapping[str, str]],
) -> list[Rank]:
    """The ranks of an MPI, slot after slot.

    Args:
        words: the words behind mpirun.
        environment: mpirun's own.
        job: the nodes.
        of_node: the environment of what is started on a node.
    """
    options, program = read_options(words, _MPIRUN_VALUES, pairs=_MPIRUN_PAIRS)
    size = per_node = None
    folder = ""
    exported: Environment = {}
    for name, value in options:
        if name in ("n", "np", "c"):
            size = _number(value)
        elif name in ("N", "npernode", "ppn", "perhost"):
            per_node = _number(value)
        elif match := re.fullmatch(r"ppr:(\d+):(?:node|host).*", value):
            per_node = int(match[1])
        elif name in ("wd", "wdir"):
            folder = value
        elif name in ("x", "env", "genv"):
            variable, equals, text = value.partition("=")
            if equals or variable in environment:
                exported[variable] = text if equals else environment[variable]
    if not program:
        return []
    nodes = len(job.hosts)
    size = min(size or (per_node or job.slots) * nodes, MOST)
    share = per_node or (job.slots if job.slots * nodes >= size else -(-size // nodes))
    places = [(min(rank // share, nodes - 1), rank % share) for rank in range(size)]
    ranks = []
    for rank, (node, local) in enumerate(places):
        own = {
            **of_node(node),
            **exported,
            "OMPI_COMM_WORLD_RANK": str(rank),
            "OMPI_COMM_WORLD_SIZE": str(size),
            "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
            "HOSTNAME": short(job.hosts[node]),
            NODE: str(node),
            IN_STEP: "mpirun",
        }
        ranks.append(Rank(program, own, folder))
    return ranks


def torchrun(words: Sequence[str], environment: Mapping[str, str], job: Allocation) -> list[Rank]:
    """The ranks of a torchrun on this node, with what ``PET_*`` says in place of options.

    Raises:
        LauncherError: it has no program, or a number that is none.
    """
    pairs, program = read_options(words, _TORCHRUN_VALUES)
    options = {
        name[4:].lower().replace("_", "-"): text
        for name, text in environment.items()
        if name.startswith("PET_")
    }
    options |= dict(pairs)
    if not program:
        raise LauncherError("torchrun: error: the following arguments are required")
    per_node_text = options.get("nproc-per-node", "1")
    per_node = _gpus(environment, job) if per_node_text in ("gpu", "auto") else None
    per_node = per_node or _number(per_node_text)
    is_alone = "standalone" in options
    nodes = 1 if is_alone else _number(options.get("nnodes", "1").rpartition(":")[2])
    node = _number(options.get("node-rank", "0"))
    if nodes is None or per_node is None or node is None:
        raise LauncherError(f"torchrun: error: a number is none: {' '.join(words)}")
    if "node-rank" not in options and nodes > 1:
        node = int(environment.get("ALLRANKS_NODE_RANK") or environment.get(NODE, "0"))
    if options.get("no-python", "0") == "0":
        module = ["-m"] if {"m", "module"} & options.keys() else []
        program = ["python", "-u", *module, *program]
    return _torch_ranks(program, environment, (node, nodes), per_node)


def deepspeed(words: Sequence[str], environment: Mapping[str, str], job: Allocation) -> list[Rank]:
    """The ranks of a deepspeed that has no file of hosts: those of this node."""
    pairs, program = read_options(words, _DEEPSPEED_VALUES)
    options = dict(pairs)
    per_node = _number(options.get("num-gpus")) or _gpus(environment, job)
    head = [] if "no-python" in options else ["python", "-u"]
    if "module" in options:
        head.append("-m")
    ranks = _torch_ranks(program, environment, (0, 1), per_node)
    return [
        rank._replace(words=[*head, program[0], f"--local_rank={local}", *program[1:]])
        for local, rank in enumerate(ranks)
    ]


def _torch_ranks(
    program: list[str], environment: Mapping[str, str], place: tuple[int, int], per_node: int
) -> list[Rank]:
    node, nodes = place
    shared = {"OMP_NUM_THREADS": "1"} if per_node > 1 else {}
    shared |= {
        **environment,
        "WORLD_SIZE": str(per_node * nodes),
        "LOCAL_WORLD_SIZE": str(per_node),
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(nodes),
        IN_STEP: "torchrun",
        "MASTER_ADDR": "RANK0",
        "MASTER_PORT": "PORT",
    }
    return [
        Rank(program, {**shared, "RANK": str(node * per_node + local), "LOCAL_RANK": str(local)})
        for local in range(min(per_node, MOST))
    ]


def _gpus(environment: Mapping[str, str], job: Allocation) -> int:
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    return len(visible.split(",")) if visible else job.gpus or 1


def container(words: Sequence[str], environment: Mapping[str, str]) -> list[Rank]:
    """What ``singularity exec`` or ``apptainer exec`` runs in its image; none for another verb."""
    _, rest = read_options(words)
    if rest[:1] != ["exec"]:
        return []
    options, rest = read_options(rest[1:], _CONTAINER_VALUES)
    own, folder = dict(environment), ""
    for name, text in environment.items():
        if match := re.fullmatch(r"(?:SINGULARITY|APPTAINER)ENV_(\w+)", name):
            own[match[1]] = text
    for name, value in options:
        if name == "env":
            own |= dict(part.split("=", 1) for part in value.split(",") if "=" in part)
        elif name in ("pwd", "cwd"):
            folder = value
    return [Rank(rest[1:], own, folder)] if rest[1:] else []


def shifter(words: Sequence[str], environment: Mapping[str, str]) -> list[Rank]:
    """What ``shifter`` runs in its image; none without a program."""
    options, program = read_options(words, _SHIFTER_VALUES)
    own, folder = dict(environment), ""
    for name, value in options:
        if name in ("env", "e"):
            own |= dict([value.split("=", 1)]) if "=" in value else {}
        elif name in ("workdir", "w"):
            folder = value
    return [Rank(program, own, folder)] if program else []


def short(host: str) -> str:
    """A host's name without its domain."""
    return host.partition(".")[0]
