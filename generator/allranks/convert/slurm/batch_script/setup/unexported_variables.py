"""Variables that a script sets and does not export, so that Slurm's ranks had none of them.

Setup exports what it sets, since the command is run by another shell and reads its variables. A
program reads some of the others, too: ``WANDB_MODE=offline`` in a line of its own changed nothing
under Slurm, and would change a run here. So these are taken out of the environment again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.setup import exports
from allranks.convert.slurm.batch_script.text import set_options, shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

# What programs of a training read. A path may be in the environment already, as PATH is; without
# OMP_NUM_THREADS torchrun would tell its ranks 1, where srun gave them the CPUs of their task.
_OF_PROGRAMS = re.compile(
    r"(?:ACCELERATE|COMET|CUBLAS|CUDNN|DEEPSPEED|DS|FI|FLASH|GLOO|GOMP|HF|HIP|HOROVOD|HSA|HYDRA|I_MPI|JAX|KMP|MIOPEN|MKL"
    r"|MLFLOW|MPICH|MXNET|MV2|MVAPICH|NCCL|NUMEXPR|NUMBA|NVTE|OMPI_MCA|OPENBLAS|PL|PYTORCH|RAY|RCCL|TF|TOKENIZERS"
    r"|TORCH|TORCHDYNAMO|TRANSFORMERS|TRITON|UCX|VLLM|WANDB|XLA)_(?!\w*PATH$)\w+"
    r"|PYTHON(?:UNBUFFERED|FAULTHANDLER|HASHSEED|WARNINGS)|CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER)"
)
# How many there are of each, which programs ask the environment for, too.
_COUNTS = re.compile(r"(?:N_?|NUM_?)?(?:GPUS?|NODES?|PROCS?|PROCESSES|WORKERS)(?:_PER_NODE)?")
# In a text that another shell runs: `CMD="export HF_HOME=$HF_HOME; python a.py"`.
_EXPORTED_IN_TEXT = re.compile(r"\bexport[ \t]+([A-Za-z_]\w*)")
# `[ -z "$A" ] && A=text`, also in an `if`.
_SET_WHERE_EMPTY = re.compile(r"-z[ \t]+[\"']?\$\{?([A-Za-z_]\w*)(?=[^\n]*(?:\n[^\n]*)?\b\1=)")
_FOR_ALL = re.compile(r"^set -a  # the |^export .*  # the command reads", re.MULTILINE)
_WHY = (
    "the script does not export it, so that its programs had none of it, and they have none here: "
    "write export before it where they are to have it"
)
_WHY_HERE = (
    "the script does not export it, so that its programs had it of who submits alone; here they "
    "have what the script sets, as the command reads it"
)
_WHY_SET = (
    "the script does not export it, so that its programs had it of who submits alone; here they "
    "have what the script sets"
)
_WHY_FILE = (
    "the script does not export it, so that its programs had it where a file that the script reads "
    "exports it, and here they have it: export it, or take it out where no line reads it"
)


def keep(reading: ScriptReading) -> None:
    """Take the variables out of the environment again that the script keeps to its own shell."""
    script, body = reading.script, reading.body
    if not _FOR_ALL.search(body.setup):
        return
    numbers = _exported_by_shell(script)
    if numbers is None:
        return
    rest = "\n".join([body.script, *body.command])
    reads = {name for name, _ in words.variables(rest)} | {*re.findall(r"\w+", rest)}
    lines = {
        name: command.line
        for number, command in enumerate(script.commands)
        if (not command.words or command.name == ":") and number not in numbers
        for name, _ in shell_text.assigned_by(command)
        if (_OF_PROGRAMS.fullmatch(name) or _COUNTS.fullmatch(name))
        and _is_in_setup(body.setup, name)
    }
    exported = names_for_programs(script)
    exported |= {*_EXPORTED_IN_TEXT.findall(script.text)}
    own_lines = {name: line for name, line in lines.items() if name not in exported}
    of_who_submits = {
        name
        for command in script.commands
        for name, value in shell_text.assigned_by(command)
        if name in {own for own, _ in words.variables(value)}
    }
    of_who_submits |= {*_SET_WHERE_EMPTY.findall(script.text)}
    alike = [n for n in own_lines if n in of_who_submits and _is_empty_by_itself(script, n)]
    body.setup += "".join(f'[ -n "${name}" ] || export -n {name}\n' for name in alike)
    if any(map(exports.sources, script.statements)):
        # Who knows what such a file exports: the name then stays exported.
        for name in [name for name in own_lines if _OF_PROGRAMS.fullmatch(name)]:
            if name in alike:
                continue
            body.say(own_lines[name], name, Outcome.CHANGED, "setup", _WHY_FILE)
        return
    _keep_in_shell(reading, [name for name in own_lines if name in reads - of_who_submits])
    verdicts = {(own.line, own.path) for own in body.verdicts if own.why == _WHY_HERE}
    for name in [name for name in own_lines if name in reads & of_who_submits]:
        if (own_lines[name], name) in verdicts:
            continue
        body.say(own_lines[name], name, Outcome.CHANGED, "setup", _WHY_HERE)
    for name in [name for name in own_lines if name in of_who_submits - reads]:
        body.say(own_lines[name], name, Outcome.CHANGED, "setup", _WHY_SET)
    names = [name for name in own_lines if name not in reads | of_who_submits]
    if names:
        body.setup += f"export -n {' '.join(names)}\n"
    own = {name for name, _ in words.variables(shell_text.without_printing(body.setup))}
    for name in [name for name in names if name not in own]:
        body.say(lines[name], name, Outcome.CHANGED, "setup", _WHY)


def names_for_programs(script: Script) -> set[str]:
    """The variables that a script exports, as far as its text says it.

    Args:
        script: the script.
    """
    names = {word for command in script.commands for word in _exported_by(command)}
    numbers = _exported_by_shell(script) or ()
    return names | {
        name for number in numbers for name, _ in shell_text.assigned_by(script.commands[number])
    }


def is_exported_by_branch(script: Script) -> bool:
    """Whether a branch or a function has the shell export what it sets, or no more: ``set -a``.

    Args:
        script: the script.
    """
    return _exported_by_shell(script) is None


def why_here(*, reads_files: bool) -> str:
    """Why a step has a variable here that the script does not export.

    Args:
        reads_files: whether the script reads a file that may export it.
    """
    return _WHY_FILE if reads_files else _WHY_HERE


def _keep_in_shell(reading: ScriptReading, names: Sequence[str]) -> None:
    """Let the shell of the command have variables that its programs are not to have."""
    body = reading.body
    line = f"export -n {' '.join(names)}\n"
    if names and body.command[1:2] == ["-c"] and words.base(body.command[0]) == "bash":
        body.command[2] = line + body.command[2]
    elif names and body.script and shell_text.of_bash(body.script).startswith("#!/bin/bash"):
        first, _, rest = body.script.partition("\n")
        body.script = f"{first}\n{line}{rest}"


def _is_empty_by_itself(script: Script, name: str) -> bool:
    """Whether a variable is empty where who submits has none: ``A="${A:-}"``."""
    own = re.compile(rf"\"?\$\{{{name}:?-\}}\"?")
    values = [
        value
        for command in script.commands
        for other, value in shell_text.assigned_by(command)
        if other == name
    ]
    return all(own.fullmatch(value) for value in values)


def _is_in_setup(setup: str, name: str) -> bool:
    line = rf"(?:^|[;&|]|\b(?:then|else|do)\b)\s*(?:{name}=|:[ \t]+\"?\$\{{{name}:?=)"
    return re.search(line, setup, re.MULTILINE) is not None


def _exported_by_shell(script: Script) -> set[int] | None:
    """The numbers of the commands between ``set -a`` and ``set +a``, whose variables are exported.

    None where it is not known before: a branch or a function tells the shell so.
    """
    numbers: set[int] = set()
    exports_all = False
    for number, command in enumerate(script.commands):
        signs = set_options.signs_of_allexport(command)
        if signs and command.within:
            return None
        exports_all = signs[-1] == "-" if signs else exports_all
        if exports_all:
            numbers.add(number)
    return numbers


def _exported_by(command: Command) -> set[str]:
    """The variables that a command exports."""
    is_export = command.name == "export" or (
        command.name in ("declare", "typeset") and shell_text.exports(command)
    )
    texts = [token.text for token in command.words[1:]] if is_export else []
    return {text.partition("=")[0].rstrip("+") for text in texts}
