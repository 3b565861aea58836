"""What is changed of the step whose ranks the launcher starts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import commands
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.text import words

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import Step

# The number of a task in its words: each does a part of its own, and waits for no other.
_OF_TASK = re.compile(r"\$\{?SLURM_(?:PROCID|LOCALID)\b")
_OF_MEETING = re.compile(
    r"MASTER_|RDZV|\b(?:LOCAL_)?RANK=|WORLD_SIZE|master[-_]addr|init[-_]method"
)
_END_TOGETHER = "where one fails the others end, which srun lets go on without --kill-on-bad-exit"
_ON_ITS_HOSTS = "srun started the launcher once, which has hosts of its own: the nodes of the job"


def reasons(main: Step, program: commands.Program) -> list[str]:
    """What is changed of the step with the ranks, a sentence each.

    Args:
        main: the step.
        program: what its ranks run.
    """
    texts = list(program.changes)
    if program.runner in (Runner.MPIRUN, Runner.HOROVODRUN):
        # Its words are read by the one shell that starts it, as in the script.
        texts = [text for text in texts if text != commands.IN_EACH_RANK]
        texts.insert(0, f"{program.runner} starts the ranks, from the launcher")
    elif program.is_nested:
        texts.insert(0, "each pod runs it once")
    elif main.is_srun:
        own = next(iter(words.unwrapped([token.text for token in main.command.words])), "")
        name = "ibrun" if words.base(own) == "ibrun" else "srun"
        texts.insert(0, f"the launcher starts the ranks in place of {name}")
        if _do_parts(main):
            texts.append(_END_TOGETHER)
    typed = [token.text for token in main.command.words]
    if not main.is_srun and words.any_of(typed, ("srun",)):
        texts.append(_ON_ITS_HOSTS)
    before = typed[: len(typed) - len(words.unwrapped(typed))]
    behind = main.words[: len(main.words) - len(words.unwrapped(main.words))]
    if "time" in map(words.base, (*before, *behind)):
        texts.append(commands.UNTIMED)
    return list(dict.fromkeys(texts))


def _do_parts(main: Step) -> bool:
    """Whether the tasks of a step share nothing: each has its number, and none meets another."""
    text = " ".join(main.words)
    has_option = any(own.name.removeprefix("srun ") == "kill-on-bad-exit" for own in main.settings)
    return not has_option and bool(_OF_TASK.search(text)) and not _OF_MEETING.search(text)
