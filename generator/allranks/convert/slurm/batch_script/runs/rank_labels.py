"""The rank in front of each line that it prints, as ``srun --label`` puts it, where mpirun does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs import commands
    from allranks.convert.slurm.batch_script.text.script_reading import Body, Step

_OPTION = "--tag-output"  # Open MPI's
_OPTION_OF_OTHERS = "-prepend-rank"  # Intel MPI's and MPICH's
_OWN_MPIRUN = "lines have no rank in front: write {} behind the command's mpirun"
_PATH = "srun --label"
_OTHERWISE = "{} puts the rank in front of each line, in a form of its own"


def put(body: Body, main: Step, program: commands.Program) -> None:
    """Have mpirun put the rank in front of each line, where srun did.

    Args:
        body: the run, with its command.
        main: its step.
        program: what the step runs.
    """
    labels = [own for own in main.settings if own.name.removeprefix("srun ") == "label"]
    if not labels or body.workload != "mpi":
        return
    values = body.values.setdefault("mpi", {})
    option = _OPTION_OF_OTHERS if values.get("implementation") else _OPTION
    line = labels[0].line
    if program.runner is Runner.HOROVODRUN:
        body.say(line, _PATH, Outcome.CHANGED, "command", _OTHERWISE.format(program.runner))
    elif program.runner is Runner.MPIRUN or values.get("ownMpirun"):
        body.say(line, _PATH, Outcome.CHANGED, "command", _OWN_MPIRUN.format(option))
    else:
        values["mpirunArgs"] = [option]
        body.say(line, _PATH, Outcome.CHANGED, "mpi.mpirunArgs", _OTHERWISE.format(Runner.MPIRUN))
