"""Options of srun's in a variable: ``srun $SRUN_ARGS python a.py``, also where a branch sets it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm import options
from allranks.convert.slurm.batch_script.text import shell_text
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_DECIDED = "options of srun's that the script decides on as it runs: write those that you want"
_OWN_JOB = re.compile(r"\$\{?SLURM_JOB_?ID\b\}?")


def say(reading: ScriptReading) -> None:
    """Say what becomes of options of srun's that stand in a variable."""
    for name, place in reading.details.conditional.items():
        outcome, why = Outcome.NOT_CARRIED, _DECIDED
        if reasons := _reasons_of(reading.variables, name, place):
            outcome, why = Outcome.CHANGED, "; ".join(reasons)
        elif _is_read(reading, name):
            continue
        reading.body.say(place, f"srun ${name}", outcome, "", why)


def _reasons_of(variables: ShellVariables, name: str, line: int) -> list[str]:
    """Why none of the options in a variable is needed; [] where one is, or may be."""
    reasons: list[str] = []
    for typed in variables.contents.get(name, []):
        text = _OWN_JOB.sub("0", typed)
        settings, rest = options.parse(shell_text.split(text), "srun", line)
        for setting in settings:
            option = setting.option
            if option is None or option.of != ("srun",) or option.to or "$" in text:
                return []
            if option.outcome == Outcome.NOT_CARRIED:
                return []
            reasons.append(f"--{setting.name}: {option.why}")
        if rest:
            return []
    return list(dict.fromkeys(reasons))


def _is_read(reading: ScriptReading, name: str) -> bool:
    """Whether the options in a variable have been read with those of a step."""
    words_of = shell_text.split(reading.variables.parts.get(name, "")) or []
    read = {setting.name for setting in reading.body.settings}
    settings, _ = options.parse(words_of, "srun", 0)
    return bool(settings) and all(setting.name in read for setting in settings)
