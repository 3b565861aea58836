"""Variables by which a script gives srun its options: ``export SLURM_NTASKS=4`` before ``srun a``.

Source: srun(1), input environment variables. What a pod has of such a name is what programs read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import shell_text
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

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
            option = _OPTIONS.get(name)
            is_as_it_is = "SLURM_" in value or value.strip("\"'").split(",")[0] == "ALL"
            if option is None or option in own or is_as_it_is:
                continue
            path = f"{name}={value}"
            why = f"srun takes it for its --{option}, and the run does not: write that behind srun"
            reading.body.say(command.line, path, Outcome.NOT_CARRIED, "", why)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value
