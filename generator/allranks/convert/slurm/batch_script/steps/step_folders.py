"""Where the steps of a script start that is one process: a pod has one folder to start in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import Body, Step

_NAME = "container-workdir"
_BESIDE_OTHERS = "other steps start elsewhere: write `cd {}` before what this one runs"


def leave_out_others(body: Body, steps: Sequence[Step]) -> None:
    """Leave out the folder that one step starts in, where others that run something have another.

    Args:
        body: what comes of the script.
        steps: its steps, whose settings lose the folder.
    """
    running = [
        step for step in steps if not words.any_of(step.words, words.IN_EACH_RANK | {"true"})
    ]
    folders = {_folder(step) for step in running}
    for step in steps if len(folders) > 1 and "" in folders else []:
        for setting in step.settings:
            if setting.name == _NAME:
                why = _BESIDE_OTHERS.format(setting.value)
                body.say(setting.line, f"srun --{_NAME}", Outcome.NOT_CARRIED, "workingDir", why)
        step.settings = [own for own in step.settings if own.name != _NAME]


def _folder(step: Step) -> str:
    """The folder that a step says to start in; "" for none."""
    return next((own.value for own in step.settings if own.name == _NAME), "")
