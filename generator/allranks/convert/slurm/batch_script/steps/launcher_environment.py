"""What the chart's torchrun tells its ranks, and Slurm tells no task.

What a rank starts would take it for its own: a torchrun reads its options from PET_, and PyTorch
Lightning, accelerate and others that find a LOCAL_RANK use one GPU, where they would start a
process for each.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs import commands
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import RendezvousVariables

# What a torchrun reads as its options, where they are those of the launcher around it.
OPTIONS = (
    *("PET_NO_PYTHON", "PET_STANDALONE", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_MAX_RESTARTS"),
    *("PET_RUN_PATH", "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID", "PET_RDZV_CONF"),
)
_FILE_OF_ERRORS = "TORCHELASTIC_ERROR_FILE"
# What it tells each rank.
OF_RANK = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"),
    *("TORCHELASTIC_MAX_RESTARTS", _FILE_OF_ERRORS),
)
NAMES = (*OPTIONS, *OF_RANK)
# What a process has that srun has started.
OF_STEP = ("SLURM_STEP_ID", "SLURM_STEPID")
_SET = re.compile(r"(?<![\w$.-])(\w+)=", re.MULTILINE)
# How many processes accelerate starts.
_PROCESSES = re.compile(r"--num[-_]processes[= ][\"']?([^\s\"']+)")
# Those of them that say where ranks meet.
_OF_MEETING = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")


# Files that tell a process its rank, or where ranks meet, by their names.
_TELLS_RANK = re.compile(r"(?i)(?:^|[_.-])(?:ddp|dist|distributed|ranks?|master)(?=[_.-]|$)")


def may_tell_rank(path: str) -> bool:
    """Whether a file that a script reads may set what these lines take: ``export_DDP_vars.sh``.

    Args:
        path: the file.
    """
    name = path.rsplit("/", 1)[-1]
    return _TELLS_RANK.search(name) is not None and not words.ACTIVATES.search(path)


def starts_one_process(script: Script, program: commands.Program) -> bool:
    """Whether an accelerate starts one process, which is no rank of a training of several.

    It runs the program in its own environment then, and one that finds a RANK joins other ranks:
    the model becomes that of DistributedDataParallel. Source: accelerate, commands/launch.py.

    Args:
        script: the script.
        program: what its step runs.
    """
    if program.runner is not Runner.ACCELERATE or script.size.node_count > 1:
        return False
    count = _PROCESSES.search(" ".join(program.command))
    return count[1] == "1" if count is not None else script.size.gpu_count <= 1


def unset_options() -> str:
    """A line that takes the options of the chart's torchrun from what a shell starts."""
    return f"unset {' '.join(OPTIONS)}"


def unset_all(
    script: Script, rendezvous: RendezvousVariables, rest: str = "", *, keeps_address: bool = False
) -> str:
    """Lines that take all of it, but for what the script reads and does not set itself.

    Where the script says where ranks meet, they do. `keeps_address` leaves rank 0's address to what
    is not read here, which may ask Slurm for it where MASTER_ADDR does not say it. The file for
    errors that it names the launcher has overwritten for its ranks.

    Args:
        script: the script.
        rendezvous: the variables by which its ranks meet.
        rest: what runs behind these lines, and may set some of them again.
        keeps_address: whether rank 0's address stays.
    """
    own = set(_SET.findall(rest))
    meeting = rendezvous.meeting - own
    variables = {name for name, _ in words.variables(script.text)} - own
    needed = meeting | variables | ({*_OF_MEETING} - own if meeting else set())
    needed |= {"MASTER_ADDR"} if keeps_address else set()
    names = [name for name in NAMES if name not in needed]
    exports = [
        f"export {name}={value}"
        for command in script.commands
        for name, value in shell_text.assigned_by(command)
        if name == _FILE_OF_ERRORS and name in names and command.name == "export"
    ]
    return "\n".join([f"unset {' '.join(names)}", *dict.fromkeys(exports)])
