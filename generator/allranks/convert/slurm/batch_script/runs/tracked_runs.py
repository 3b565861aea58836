"""Runs of Weights & Biases: a script of several trainings begins one for each of them.

The charts give all processes of a pod one run (`trackers.mode: run`), which is right for one
training that may be tried again, and would write several trainings into one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from allranks.convert import preparation, scanner
from allranks.convert.slurm.batch_script.text import started_words, words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script


def are_several(script: Script) -> bool:
    """Whether a script that runs as it is may train more than once.

    Args:
        script: the script.
    """
    trainings = list(_trainings(script))
    repeats = any(command.in_loop or "function" in command.within for command in trainings)
    return repeats or any(
        not first.excludes(second) for first, second in itertools.combinations(trainings, 2)
    )


def _trainings(script: Script) -> Iterator[Command]:
    for command in script.commands:
        texts = [scanner.unquote(token.text) for token in command.words]
        program = words.unwrapped(started_words.behind_srun(texts))
        inner = [words.base(program[0]), *program[1:]] if program else []
        if words.starts_ranks(program) or preparation.may_train(inner):
            yield command
