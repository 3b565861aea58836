"""The file by which a deepspeed knows of other pods, which may be in no pod at all.

Without it deepspeed goes on with its own machine (fetch_hostfile in its launcher/runner.py), and
neither the operator of PyTorchJobs nor an image knows the pods.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.pods.pod_template import PodTemplate
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import Fields


def without(fields: Fields, pod: PodTemplate, program: Program) -> Program:
    """A program that knows of no other pod, where its file of hosts is in nothing but the image.

    Args:
        fields: the object.
        pod: the template of its pods.
        program: what they run.
    """
    path = program.hosts_file
    own = "\n".join(
        word for key in ("command", "args") for word in fields.words(*pod.container, key)
    )
    is_in_image = path.startswith("/") and "$" not in path and own.count(path) == 1
    for _, mount in fields.items(*pod.container, "volumeMounts"):
        folder = str(mount.get("mountPath") or "").rstrip("/")
        is_in_image &= path != folder and not path.startswith(f"{folder}/")
    return replace(program, is_alone=True) if is_in_image else program


def say_alone(fields: Fields, pod: PodTemplate, program: Program) -> None:
    """Say where pods that were told nothing of each other train together here.

    Args:
        fields: the object.
        pod: the template of its pods.
        program: what they run.
    """
    nodes = fields.values["nodes"]
    if nodes == 1 or not (program.is_alone or program.workload == "mpi"):
        return
    pods = plural(nodes, "pod")
    if program.workload == "mpi":
        why = (
            f"each of {pods} called it by itself; here a launcher calls it once, and its ranks are "
            "on all of them"
        )
    else:
        hosts = (
            f"no volume has the file of hosts of its deepspeed, {program.hosts_file}, and without "
            "one in the image it takes its own machine alone"
            if program.hosts_file
            else "its deepspeed names no hosts"
        )
        why = f"{hosts}: each of {pods} trained by itself; here all of them train together"
    for key in ("command", "args"):
        fields.leave((*pod.container, key), why)
