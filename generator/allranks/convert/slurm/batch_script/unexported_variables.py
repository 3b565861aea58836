"""Variables that a script sets and does not export, so that Slurm's ranks had none of them.

Setup exports what it sets, since the command is run by another shell and reads its variables. A
program reads some of the others, too: ``WANDB_MODE=offline`` in a line of its own changed nothing
under Slurm, and would change a run here. So these are taken out of the environment again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script import exports, shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.script_reading import ScriptReading

# What programs of a training read. A path may be in the environment already, as PATH is; without
# OMP_NUM_THREADS torchrun would tell its ranks 1, where srun gave them the CPUs of their task.
_OF_PROGRAMS = re.compile(
    r"(?:ACCELERATE|COMET|CUBLAS|CUDNN|DS|FI|FLASH|GLOO|GOMP|HF|HIP|HSA|HYDRA|I_MPI|JAX|KMP|MIOPEN|MKL|MLFLOW"
    r"|MPICH|MV2|MVAPICH|NCCL|NUMEXPR|NUMBA|NVTE|OMPI_MCA|OPENBLAS|PL|PYTORCH|RAY|RCCL|TF|TOKENIZERS"
    r"|TORCH|TORCHDYNAMO|TRANSFORMERS|TRITON|UCX|VLLM|WANDB|XLA)_(?!\w*PATH$)\w+"
    r"|PYTHON(?:UNBUFFERED|FAULTHANDLER|HASHSEED|WARNINGS)|CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER)"
)
_FOR_ALL = re.compile(r"^set -a  # the |^export .*  # the command reads", re.MULTILINE)
_WHY = (
    "the script does not export it, so that its programs had none of it, and they have none here: "
    "write export before it where they are to have it"
)


def keep(reading: ScriptReading) -> None:
    """Take the variables out of the environment again that the script keeps to its own shell."""
    script, body = reading.script, reading.body
    if not _FOR_ALL.search(body.setup) or any(map(exports.sources, script.statements)):
        return
    if any(map(_exports_all, script.commands)):
        return
    rest = "\n".join([body.script, *body.command])
    reads = {name for name, _ in words.variables(rest)} | {*re.findall(r"\w+", rest)}
    lines = {
        name: command.line
        for command in script.commands
        if not command.words
        for name, _ in shell_text.assigned_by(command)
        if _OF_PROGRAMS.fullmatch(name) and _is_in_setup(body.setup, name) and name not in reads
    }
    exported = {word for command in script.commands for word in _exported_by(command)}
    names = [name for name in lines if name not in exported]
    if names:
        body.setup += f"export -n {' '.join(names)}\n"
    own = {name for name, _ in words.variables(shell_text.without_printing(body.setup))}
    for name in [name for name in names if name not in own]:
        body.say(lines[name], name, Outcome.CHANGED, "setup", _WHY)


def _is_in_setup(setup: str, name: str) -> bool:
    return re.search(rf"^\s*{name}=", setup, re.MULTILINE) is not None


def _exports_all(command: Command) -> bool:
    """Whether a command lets the shell export all that it sets: ``set -a``."""
    texts = [token.text for token in command.words]
    return texts[:1] == ["set"] and bool(
        {"allexport"} & {*texts} or any(re.fullmatch(r"-\w*a\w*", text) for text in texts[1:])
    )


def _exported_by(command: Command) -> set[str]:
    """The variables that a command exports."""
    is_export = command.name == "export" or (
        command.name in ("declare", "typeset") and shell_text.exports(command)
    )
    texts = [token.text for token in command.words[1:]] if is_export else []
    return {text.partition("=")[0].rstrip("+") for text in texts}
