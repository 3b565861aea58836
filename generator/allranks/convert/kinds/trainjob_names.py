"""Names of a TrainJob's pods, and of their Service, in what its program runs.

Trainer makes a JobSet of the TrainJob's name, whose pods are NAME-JOB-INDEX-INDEX, in a headless
Service NAME. Source: pkg/runtime/core of kubeflow/trainer, and JobSet's `spec.network`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.jobs import pod_names
from allranks.convert.programs import shell_comments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.verdicts import FieldPath, Fields

_TRAINER: FieldPath = ("spec", "trainer")


def put_right(fields: Fields, jobs: Sequence[str], first: str, subdomain: str) -> None:
    """Put rank 0's address in the place of its pod's name, and say what other names there are.

    Args:
        fields: the TrainJob, converted.
        jobs: the names of its runtime's replicated jobs.
        first: that of them whose pods train.
        subdomain: the Service that its runtime names; "" for that of the TrainJob's name.
    """
    name = fields.text("metadata", "name")
    path = _path_of_command(fields)
    is_torchrun = fields.values.get("workload") == "torchrun"
    if is_torchrun and pod_names.put_address(fields, f"{name}-{first}-0-0"):
        fields.note(
            f"{name}-{first}-0-0 in the command is MASTER_ADDR now, which has rank 0's address"
        )
    code = "\n".join(map(shell_comments.without, pod_names.texts(fields)))
    pods = pod_names.pattern([f"{name}-{job}" for job in jobs])
    match = pods.search(code)
    if match is not None:
        fields.leave(path, f"{match[0]}…: {pod_names.OTHER_NAMES}")
        return
    pod_names.note_service(fields, subdomain or name)


def _path_of_command(fields: Fields) -> FieldPath:
    """The field that has the command: the TrainJob's, or that which names the runtime."""
    for key in ("command", "args"):
        if fields.has(*_TRAINER, key):
            return (*_TRAINER, key)
    return ("spec", "runtimeRef", "name")
