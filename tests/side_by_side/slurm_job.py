"""A batch script as a side: the variables and the start that the manual of sbatch tells of."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from allranks.convert.slurm import options, sizes
from tests.side_by_side import pods
from tests.side_by_side.filesystem import ENVIRONMENT, SUBMIT_FOLDER, Command, Side
from tests.side_by_side.inside.program import NODE
from tests.side_by_side.inside.ranks import short

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPT = "/var/spool/slurmd/job/slurm_script"
_SH = re.compile(r"#!\s*\S*/sh\b")


def side(name: str, text: str, args: Sequence[str], of_pods: Side) -> Side:
    """A batch script on nodes that are called as the pods are, with their number of the job.

    Args:
        name: the script's file.
        text: the script.
        args: the words behind its name.
        of_pods: the pods that are made of it.
    """
    parsed = options.directives(text.split("\n"))
    settings = {setting.name: setting.value for setting in parsed.settings}
    size = sizes.read(list(parsed.settings))
    per_node = size.tasks_per_node or 0
    nodes = size.nodes or (-(-size.tasks // per_node) if size.tasks and per_node else 1)
    tasks = size.tasks or (per_node or 1) * nodes
    pods_environment = of_pods.commands[-1].environment
    of_pods = pods.with_nodes(of_pods, nodes)
    environment = {
        **ENVIRONMENT,
        **_of_nodes(of_pods, tasks, per_node or -(-tasks // nodes)),
        "SLURM_JOB_NAME": settings.get("job-name", name),
        **_of_options(settings, size, tasks),
        **_of_array(settings, pods_environment),
        "SLURM_JOB_ID": pods_environment.get("SLURM_JOB_ID", "7310059"),
        "SLURM_JOBID": pods_environment.get("SLURM_JOB_ID", "7310059"),
    }
    start = [SCRIPT] if text.startswith("#!") else ["/bin/bash", SCRIPT]
    if _SH.match(text):
        start = ["/bin/bash", "--posix", SCRIPT]
    folder = posixpath.join(SUBMIT_FOLDER, settings.get("chdir", ""))
    return Side(
        commands=(Command((*start, *args), environment, folder),),
        files={SCRIPT: text},
        hosts=of_pods.hosts,
        hostlists=of_pods.hostlists,
        slots=per_node or -(-tasks // nodes),
        gpus=size.gpus_per_node or 0,
        cpus=of_pods.cpus,
    )


def _of_nodes(job: Side, tasks: int, per_node: int) -> dict[str, str]:
    nodes = len(job.hosts)
    (hosts_text,) = job.hostlists
    times = f"(x{nodes})" if nodes > 1 else ""
    return {
        "SLURM_JOB_NODELIST": hosts_text,
        "SLURM_NODELIST": hosts_text,
        NODE: "0",
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        "SLURM_CPUS_ON_NODE": job.cpus,
        "SLURM_JOB_CPUS_PER_NODE": f"{job.cpus}{times}",
        "SLURM_TASKS_PER_NODE": f"{per_node if tasks > 1 else 1}{times}",
        "SLURMD_NODENAME": short(job.hosts[0]),
        "HOSTNAME": short(job.hosts[0]),
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_SUBMIT_DIR": SUBMIT_FOLDER,
        "SLURM_SUBMIT_HOST": "login",
        "SLURM_CLUSTER_NAME": "cluster",
        "SLURM_JOB_USER": "user",
        "ENVIRONMENT": "BATCH",
    }


def _of_options(settings: Mapping[str, str], size: sizes.Size, tasks: int) -> dict[str, str]:
    """What is set where an option was typed."""
    variables = {
        "SLURM_JOB_PARTITION": settings.get("partition", "main"),
        "SLURM_JOB_ACCOUNT": settings.get("account", "account"),
        "SLURM_JOB_QOS": settings.get("qos", "normal"),
    }
    if size.tasks or "ntasks-per-node" in settings:
        variables |= {"SLURM_NTASKS": str(tasks), "SLURM_NPROCS": str(tasks)}
    for option in ("ntasks-per-node", "cpus-per-task", "gpus-per-node", "gpus", "gpus-per-task"):
        if option in settings:
            variables[f"SLURM_{option.upper().replace('-', '_')}"] = settings[option]
    if size.gpus_per_node:
        numbers = ",".join(map(str, range(size.gpus_per_node)))
        variables |= {"SLURM_GPUS_ON_NODE": str(size.gpus_per_node), "SLURM_JOB_GPUS": numbers}
        variables["CUDA_VISIBLE_DEVICES"] = numbers
    return variables


def _of_array(settings: Mapping[str, str], pods_environment: Mapping[str, str]) -> dict[str, str]:
    """What a task of an array is told: the pods are those of its first task."""
    if "array" not in settings:
        return {}
    task = {
        name: text for name, text in pods_environment.items() if name.startswith("SLURM_ARRAY_")
    }
    return {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "7310059", **task}
