"""Lines that choose GPUs by number: ``export CUDA_VISIBLE_DEVICES=0,1``."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.humanize import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_CHOOSES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
# Those that Slurm writes anew for each step that has GPUs, whatever stands there.
# Source: "Generic Resource (GRES) Scheduling", Running Jobs.
_OF_STEP = frozenset({"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
OF_STEP = "srun gives each step numbers of its own GPUs in its place, as a pod does"
_MORE = (
    "the job asks for {}, and a pod has no others, where the node may have shown all that it has: "
    "ask for as many as the line names, or take it out"
)
_LIST = re.compile(r"[0-9]{1,3}(?:,[0-9]{1,3})*")
_FILE = re.compile(r"(?:.*/.*|.*\.(?:sh|py|bash))")


def say(reading: ScriptReading) -> None:
    """Say of numbers of GPUs that no pod has them, and leave them out of its variables.

    Args:
        reading: the script, and what comes of it.
    """
    script, body = reading.script, reading.body
    overridden = {
        statement.commands[0].start
        for statement in script.statements
        if is_of_step(reading, statement)
    }
    for verdict, start in _of_no_pod(script, reading.variables.constants):
        name, _, numbers = verdict.path.partition("=")
        if body.env.get(name) == scanner.unquote(numbers):
            del body.env[name]
        if start not in overridden:
            body.verdicts.append(verdict)


def is_of_step(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement chooses GPUs for programs that srun alone starts, which get the step's.

    One that chooses all the GPUs of a node changes nothing, and does not count. What only prints
    the numbers starts nothing with them.

    Args:
        reading: the script, and what its variables hold.
        statement: one of its statements.
    """
    script = reading.script
    gpus = script.size.gpu_count
    if not gpus or statement.function or not statement.is_simple:
        return False
    assigned = [pair for own in statement.commands for pair in shell_text.assigned_by(own)]
    if not assigned or not _OF_STEP.issuperset(name for name, _ in assigned):
        return False
    values = (words.resolve(value, reading.variables.constants) for _, value in assigned)
    if all(_chooses_all(value or "", gpus) for value in values):
        return False
    behind = [
        other for other in script.statements if other.function or _is_behind(other, statement)
    ]
    texts = (shell_text.without_printing(script.slice(other)) for other in behind)
    names = {name for text in texts for name, _ in words.variables(text)}
    starts = [own for other in behind for own in other.commands if _starts_program(own)]
    return (
        not names.intersection(name for name, _ in assigned)
        and bool(starts)
        and all(words.any_of(_texts(own), ("srun",)) for own in starts)
    )


def _is_behind(other: Statement, statement: Statement) -> bool:
    """Whether a statement stands behind another."""
    return other.start > statement.start


def _texts(command: Command) -> list[str]:
    """The words of a command, without those in front that run the rest as it is."""
    return words.unwrapped([word.text for word in command.words])


def _starts_program(command: Command) -> bool:
    """Whether a command starts what may use GPUs."""
    texts = _texts(command)
    return (
        words.any_of(texts, ("srun", *words.CONTAINERS, *shell_text.SHELLS))
        or words.is_python(texts)
        or words.starts_ranks(texts)
        or bool(texts and _FILE.fullmatch(scanner.unquote(texts[0])))
    )


def _chooses_all(numbers: str, gpus: int) -> bool:
    """Whether numbers are those of all GPUs of a pod."""
    is_list = _LIST.fullmatch(numbers) is not None
    return is_list and {int(number) for number in numbers.split(",")} == set(range(gpus))


def _of_no_pod(script: Script, constants: Mapping[str, str]) -> list[tuple[Verdict, int]]:
    """What to say of lines that choose GPUs by numbers which no pod has, and where they start."""
    gpus = script.size.gpu_count
    verdicts = []
    for command in script.commands:
        for token in (*command.assignments, *command.words):
            name, _, value = token.text.partition("=")
            numbers = words.resolve(value, constants) if name in _CHOOSES else None
            is_list = numbers is not None and _LIST.fullmatch(numbers)
            if gpus and numbers and is_list and _hides(numbers.split(","), gpus):
                why = (
                    f"a pod has {plural(gpus, 'GPU')}, whose numbers begin at 0: take the line out"
                )
                verdict = Verdict(token.text, Outcome.NOT_CARRIED, "", why, command.line)
                verdicts.append((verdict, command.start))
            elif gpus and numbers and is_list and max(map(int, numbers.split(","))) >= gpus:
                why = _MORE.format(plural(gpus, "GPU"))
                verdict = Verdict(token.text, Outcome.CHANGED, "", why, command.line)
                verdicts.append((verdict, command.start))
    return verdicts


def _hides(numbers: Sequence[str], gpus: int) -> bool:
    """Whether numbers of GPUs hide some of a pod's: CUDA takes those before the first wrong one."""
    visible = list(takewhile(lambda number: int(number) < gpus, numbers))
    return len(visible) < min(len(numbers), gpus)
