"""Variables that pods have and Slurm's nodes had not, where a script has a text of its own instead.

`compat: slurm` sets those of options in each pod, as most programs that read them ask for the
options. In a script without the option, ``${SLURM_GPUS_PER_NODE:-4}`` is 4: Slurm sets no such
variable for ``--gres=gpu:8``. Source: sbatch(1), output environment variables. The names of the run
for trackers, which the charts set, nobody sets in Slurm: ``${WANDB_NAME:-base}`` is base.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.slurm.options import Setting

# By the variable, its options, and how a step asks for the same.
_OPTIONS = {
    "SLURM_GPUS": ({"gpus"}, r"--gpus\b(?!-)"),
    "SLURM_GPUS_PER_NODE": ({"gpus-per-node"}, r"--gpus-per-node\b"),
    "SLURM_CPUS_PER_TASK": (
        {"cpus-per-task", "tres-per-task"},
        r"--(?:cpus|tres)-per-task\b|\bsrun\b[^\n]*\s-c",
    ),
    "SLURM_NTASKS_PER_NODE": (
        {"ntasks-per-node", "tasks-per-node"},
        r"--n?tasks-per-node\b",
    ),
}
# What the charts tell programs that report to a tracker.
_OF_TRACKERS = ("WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_RUN_ID", "WANDB_RESUME", "MLFLOW_RUN_NAME")
_COMMENT = re.compile(r"^[ \t]*#.*", re.MULTILINE)


def put_defaults(text: str, settings: Iterable[Setting]) -> str:
    """The script with the text that it has in place of such a variable, line by line as before.

    Args:
        text: a script; comments stay as they are.
        settings: the options of the job.
    """
    options = {setting.name for setting in settings}
    code = _COMMENT.sub("", text)
    for name, (own, of_step) in _OPTIONS.items():
        is_set = re.search(rf"\b{name}\}}?:?=|{of_step}", code) is not None
        if not (own & options or is_set):
            text = _with_default(text, name)
    for name in _OF_TRACKERS:
        if re.search(rf"\b{name}\}}?:?=", code) is None:
            text = _with_default(text, name)
    return text


def _with_default(text: str, name: str) -> str:
    """A script with the defaults of a variable in its place."""
    comments = [(match.start(), match.end()) for match in _COMMENT.finditer(text)]
    for match in reversed(list(re.finditer(rf"\$\{{{name}:?-", text))):
        is_comment = any(start <= match.start() < end for start, end in comments)
        end = _end_of_braces(text, match.end())
        if not is_comment and end > 0:
            text = f"{text[: match.start()]}{text[match.end() : end]}{text[end + 1 :]}"
    return text


def _end_of_braces(text: str, start: int) -> int:
    """Where the brace closes that was open at a place of one line; -1 for nowhere."""
    depth = 1
    for at in range(start, len(text)):
        if text[at] == "\n":
            break
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return -1
