"""Variables by which a script gives srun its options: ``export SLURM_NTASKS=4`` before ``srun a``.

Source: srun(1), input environment variables. What a pod has of such a name is what programs read.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step
    from allranks.convert.slurm.options import Setting

_NAME = re.compile(r"[A-Za-z_]\w*")
# Those that change how many tasks there are, where they run, and what they have.
_OPTIONS = {
    "SLURM_NTASKS": "ntasks",
    "SLURM_NPROCS": "ntasks",
    "SLURM_NNODES": "nodes",
    "SLURM_NTASKS_PER_NODE": "ntasks-per-node",
    "SLURM_WORKING_DIR": "chdir",
    "SLURM_EXPORT_ENV": "export",
    "SLURM_MULTI_PROG": "multi-prog",
    "SLURM_STDINMODE": "input",
}
# Without --nodelist srun reads that file, whatever --distribution says. Source: srun's opt.c.
OF_HOSTFILE = (
    "a list of hosts (SLURM_HOSTFILE, or --nodelist) has the node of each task, and how often it "
    "has a node is not read: here each node has as many ranks as another, numbered node by node"
)


def say(reading: ScriptReading, main: Step) -> None:
    """Say of variables that srun takes for its options that they are none of the run's.

    Args:
        reading: the script, and what comes of it.
        main: the step with the ranks.
    """
    own = {setting.name for setting in main.settings}
    for command in reading.script.commands if main.is_srun else ():
        pairs = shell_text.assigned_by(command) if command.start < main.command.start else []
        if command is main.command:
            pairs = [_pair(token.text) for token in command.assignments]
        for name, value in pairs:
            if name == "SLURM_HOSTFILE" and not ("nodelist" in own or _is_arbitrary(main)):
                path = f"{name}={value}"
                reading.body.say(command.line, path, Outcome.NOT_CARRIED, "", OF_HOSTFILE)
            option = _OPTIONS.get(name)
            is_as_it_is = "SLURM_" in value or value.strip("\"'").split(",")[0] == "ALL"
            if option is None or option in own or is_as_it_is:
                continue
            path = f"{name}={value}"
            why = f"srun takes it for its --{option}, and the run does not: write that behind srun"
            reading.body.say(command.line, path, Outcome.NOT_CARRIED, "", why)


def _is_arbitrary(main: Step) -> bool:
    """Whether a step's own option says that a list of hosts has the node of each task."""
    return any(own.name == "distribution" and own.value == "arbitrary" for own in main.settings)


def assignments(settings: Sequence[Setting]) -> str:
    """What stands before a program that srun gives variables, where srun is taken off it.

    Args:
        settings: the options of the step: ``--export=ALL,A=1,B=$B``.

    Returns:
        ``A=1 B="$B" ``; "" for none.
    """
    texts = [own.value for own in settings if own.name.removeprefix("srun ") == "export"]
    pairs = [part.strip().partition("=") for text in texts for part in text.split(",")]
    return "".join(
        f"{name}={_as_word(value)} "
        for name, equals, value in pairs
        if equals and _NAME.fullmatch(name)
    )


def _as_word(value: str) -> str:
    """A text as a word of a shell, which fills in its variables."""
    return f'"{value}"' if "$" in value or "`" in value else shlex.quote(value)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
