"""Scripts of another language than a shell's: they are run as they are, as one process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.runs import one_process
from allranks.convert.slurm.batch_script.steps import launcher_environment
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading


def read(reading: ScriptReading, interpreter: str) -> None:
    """A script of another language: it is run as it is, as one process."""
    script, body = reading.script, reading.body
    is_python = words.is_python([interpreter])
    if not is_python and re.search(
        r"^\s*(srun|mpirun|mpiexec|torchrun)\b", script.text, re.MULTILINE
    ):
        raise script.refuse(
            1,
            f"the script is {interpreter}'s, and only those of sh and bash are read",
            "write it for bash, or write the command into a values file",
        )
    text = shell_text.without_directives(script.text)
    body.script = _without_launcher_in_python(script, text) if is_python else text
    body.nodes, body.procs_per_node = 1, 1
    one_process.say_sizes(script, reading.variables, [], is_batch=False)
    body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
    body.say(1, script.lines[0], Outcome.CARRIED, "script")
    if not is_python:
        body.notes.append(f"the script is {interpreter}'s: the image needs it")


def _without_launcher_in_python(script: Script, text: str) -> str:
    """A script of Python's with a line that takes the same from it; others as they are."""
    is_trial = any(setting.name == "array" for setting in script.settings)
    at = shell_text.first_line_of_python(text)
    if is_trial or not at:
        return text
    names_of = [*launcher_environment.NAMES, *launcher_environment.OF_STEP]
    rows = text.split("\n")
    own = f'[__import__("os").environ.pop(_, None) for _ in "{" ".join(names_of)}".split()]'
    return "\n".join([*rows[:at], own, *rows[at:]])
