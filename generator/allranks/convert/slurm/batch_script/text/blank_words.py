"""Words that a person is to fill in: ``python a.py [test-set-dir]``, ``cd YOUR_FOLDER``.

To a shell those in brackets are a pattern for the name of a file, one letter long, and mostly stay
as typed. So no shell needs them filled in, and a program may know such a word: they are named, not
refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm import blanks
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script

# A pattern has single letters: `[a-z]`, `[a-zA-Z_]`.
_BRACKETS = r"\[[A-Za-z]{2,}[0-9]*(?:[ _-][A-Za-z]{2,}[0-9]*)+\]"
_IN_BRACKETS = re.compile(rf"(?<=[\s=]){_BRACKETS}(?=[\s/]|$)")
# In quotes such a word may be a pattern or a list of a program's own, but where a path begins.
_OF_QUOTED_PATH = re.compile(rf"(?<=['\"]){_BRACKETS}(?=/)")
_OF_YOURS = re.compile(r"(?<![\w${[.-])(?:YOUR|your)_[A-Za-z]\w*(?![\w=(.])")
# A path below the script's folder; one from the root is said with those of the site.
_OF_PATHS = re.compile(r"(?<![\w./${}-])(?:\./)?path/(?:to|of)/[\w.+-]+(?:/[\w.+-]+)*")
_TO_FILL_IN = "where it is a blank for a person, fill it in: the program gets it as it is typed"


def say(script: Script) -> list[Verdict]:
    """The first line of each."""
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        if words.any_of([token.text for token in command.words], words.IDLE):
            continue
        text = blanks.QUOTED.sub("", script.text[command.start : command.end])
        typed = script.text[command.start : command.end]
        of_yours = [*_OF_YOURS.findall(typed), *_OF_PATHS.findall(typed)]
        for blank in (*_IN_BRACKETS.findall(text), *_OF_QUOTED_PATH.findall(typed), *of_yours):
            verdict = Verdict(blank, Outcome.CHANGED, "", _TO_FILL_IN, command.line)
            verdicts.setdefault(blank, verdict)
    return [*verdicts.values()]
