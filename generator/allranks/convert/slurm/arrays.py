"""A job array as a sweep: a task is a trial."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.slurm import amounts
from allranks.convert.slurm.draft import key_of

if TYPE_CHECKING:
    from allranks.convert.slurm.draft import Draft

_LARGE_GRID = 10_000  # trials of a grid that has to say how many it wants
_MANY = 10  # tasks that all fail alike end a sweep that says nothing else
_ARRAY = "SLURM_ARRAY_TASK_ID"
_LIST = re.compile(r"[^\w$]*\d[\d\s,:%\[\]-]*")  # of numbers, whatever they are


def put_array(job: Draft, *, is_submitted: bool) -> None:
    """Make the job a sweep, where it is an array.

    Args:
        job: the job.
        is_submitted: `allranks sbatch` starts it, and nobody has to be told how.

    Raises:
        InvalidValues: sbatch refuses the array, or its tasks are MPI jobs.
    """
    setting = job.settings.get("array")
    if setting is None:
        return
    if not _LIST.fullmatch(setting.value):
        raise job.refuse(
            setting.line,
            f"--array {setting.value!r} is no list of tasks, and sbatch refuses it",
            "write the numbers of the tasks, as in --array=0-15",
        )
    array = amounts.array(setting.value)
    if array is None:
        raise job.refuse(
            setting.line,
            f"--array {setting.value!r} is no list of up to {amounts.MOST_TASKS:,} tasks",
            "write their numbers, the least first, as in --array=0-15 or --array=0,6,16-32%4",
        )
    if job.body.workload != "torchrun":
        raise job.refuse(
            setting.line,
            "each task of the array is an MPI job, and the trials of a sweep are none",
            "leave --array out and convert the script; start the run once for each task, with "
            f"--set-string env.{_ARRAY}={array.indexes[0]}",
        )
    fields, body = job.fields, job.body
    ranks = bool(body.command) or (body.nodes or 1) > 1
    torchrun = fields.values.pop("torchrun", None)
    fields.values["workload"] = "sweep"
    space: dict[str, Any] = {"values": list(array.indexes)}
    if array.step:
        space = {"range": {"min": array.indexes[0], "max": array.indexes[-1], "step": array.step}}
    job.put("array", ("sweep", "parameters", _ARRAY), {**space, "env": _ARRAY})
    if array.parallel:
        job.put("array", ("sweep", "parallel"), array.parallel)
    if len(array.indexes) > _LARGE_GRID:
        job.put("array", ("sweep", "trials"), len(array.indexes))
    _put_failures(job, len(array.indexes), ranks=ranks)
    if ranks:
        if array.parallel and not is_submitted:
            fields.note(
                f"start it with `{names.CLI} sweep run NAME -f FILE`: plain Helm, which would "
                "start all trials at once, refuses sweep.parallel"
            )
        fields.put(("sweep", "trial", "workload"), "torchrun")
        if torchrun:
            fields.put(("sweep", "trial", "values"), {"torchrun": torchrun})
    elif fields.values.get("procsPerNode", 1) > 1:
        fields.values.pop("procsPerNode")
    for name, value in (
        ("SLURM_ARRAY_TASK_COUNT", len(array.indexes)),
        ("SLURM_ARRAY_TASK_MIN", min(array.indexes)),
        ("SLURM_ARRAY_TASK_MAX", max(array.indexes)),
        ("SLURM_ARRAY_TASK_STEP", array.step or 1),
    ):
        fields.put(("env", name), str(value), (key_of("array"),))


def _put_failures(job: Draft, tasks: int, *, ranks: bool) -> None:
    """Let a sweep of many tasks go on where its first all fail alike, as an array does."""
    if tasks < _MANY:
        return
    if ranks:  # plain Helm counts no failed ones then, and refuses the value
        job.fields.note(
            f"`{names.CLI} sweep run` ends the sweep where its first {_MANY} tasks all fail alike: "
            "sweep.maxFailedTrials says how many may"
        )
    else:
        job.put("array", ("sweep", "maxFailedTrials"), tasks)
