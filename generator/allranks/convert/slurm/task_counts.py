"""Slurm's numbers of tasks in the words of a script, where a run has other ranks than these.

A script's own shell puts them there: ``srun torchrun … a.py --workers $SLURM_NTASKS`` has one task
on each node, and the ranks of a run find their own numbers under the same names.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.slurm.options import OPTIONS_OF_VARIABLES
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.draft import Draft

_CPUS = "SLURM_CPUS_PER_TASK"
# The options by which Slurm tells a script such a number.
_OPTIONS = {
    "SLURM_NTASKS": ("ntasks", "ntasks-per-node", "tasks-per-node"),
    "SLURM_NPROCS": ("ntasks", "ntasks-per-node", "tasks-per-node"),
    "SLURM_NTASKS_PER_NODE": ("ntasks-per-node", "tasks-per-node"),
}
_WHY = "it is that of Slurm's tasks: the run has another number of ranks"


def keep(job: Draft) -> None:
    """Let the script read the numbers of Slurm's tasks, where the run has other ranks."""
    _keep_cpus(job)
    _keep_tasks(job)


def put_unasked(job: Draft) -> None:
    """Leave out the variables that Slurm sets for an option alone, where no option asks for them.

    Programs take another way where they are absent. What the script names itself has the number of
    the run; a script that is run as it is unsets its own. Source: sbatch(1) and srun(1), output
    environment variables.
    """
    values = job.fields.values
    if values.get("compat") != "slurm" or values.get("script"):
        return
    settings = {setting.name.removeprefix("srun ") for setting in job.body.settings}
    settings |= set(job.settings)
    in_script = {name for name, _ in words.variables(job.text)} | set(values.get("env", {}))
    names = [_CPUS, "SLURM_NTASKS_PER_NODE"]
    if values.get("gpus") or values.get("gpusPerNode"):
        names.append("SLURM_GPUS_PER_NODE")
    unset = [
        name
        for name in names
        if not OPTIONS_OF_VARIABLES[name] & settings and name not in in_script
    ]
    if unset:
        job.fields.put(("slurm", "unset"), sorted(unset))


def _keep_cpus(job: Draft) -> None:
    """Let the script and its programs read the CPUs of Slurm's tasks."""
    values, setting = job.fields.values, job.settings.get("cpus-per-task")
    cpus = job.size.cpus_per_task
    match = re.search(rf"^[^#\n]*\$\{{?{_CPUS}\b", job.text, re.MULTILINE)
    ranks = values.get("procsPerNode") or values.get("gpusPerNode") or 1
    if setting is None or not cpus or _CPUS in values.get("env", {}):
        return
    if (job.size.cpus_per_node or 0) // ranks == cpus:
        return
    line = job.text.count("\n", 0, match.end()) + 1 if match else setting.line
    key = job.key(f"${_CPUS}", line)
    job.fields.put(("env", _CPUS), str(cpus), (key,))
    job.fields.say((key,), Outcome.CHANGED, f"env.{_CPUS}", _WHY)


def _keep_tasks(job: Draft) -> None:
    """Write the numbers of Slurm's tasks into command and setup, where the run has other ranks."""
    values, size = job.fields.values, job.size
    nodes = values.get("nodes") or 1
    ranks = values.get("procsPerNode") or values.get("gpusPerNode") or values.get("gpus") or 1
    if job.body.script or size.task_count == nodes * ranks:
        return
    tasks = size.task_count
    counts: dict[str, int | str] = {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": size.told_per_node,
        "SLURM_TASKS_PER_NODE": f"{size.per_node}{f'(x{nodes})' if nodes > 1 else ''}",
    }
    for name, count in counts.items():
        options = _OPTIONS.get(name, ())  # the last has a text for each job
        if options and not any(option in job.settings for option in options):
            continue
        pattern = re.compile(rf"\$(?:{name}\b|\{{{name}(?::?[-+?=][^{{}}]*)?\}})")
        in_sum = re.compile(rf"(?<=\(\()(?P<sum>[^()]*)(?<![\w$]){name}\b")
        fields = [field for field in ("command", "args", "setup") if field in values]
        texts = [_with_count(values[field], pattern, in_sum, count) for field in fields]
        if texts == [values[field] for field in fields]:
            continue
        line = words.line_with(job.text, re.compile(rf"\b{name}\b").search)
        key = job.key(f"${name}", line)
        for field, text in zip(fields, texts, strict=True):
            values[field] = text
        job.fields.say((key,), Outcome.CHANGED, fields[0], _WHY)


def _with_count(
    value: str | list[str], pattern: re.Pattern[str], in_sum: re.Pattern[str], count: int | str
) -> str | list[str]:
    """A text, or words, with a number in place of its variable, where more than a log reads it."""
    if isinstance(value, list):
        return [str(_with_count(word, pattern, in_sum, count)) for word in value]
    if pattern.search(shell_text.without_printing(value)) is None and not in_sum.search(value):
        return value
    return in_sum.sub(rf"\g<sum>{count}", pattern.sub(str(count), value))
