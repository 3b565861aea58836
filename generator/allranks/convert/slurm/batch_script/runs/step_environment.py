"""The variables that a step's own words set: ``A=1 srun python a.py``, ``env A=1 srun …``."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import env_words
from allranks.convert.slurm.batch_script.setup import exports
from allranks.convert.slurm.batch_script.setup.left_out import MEETING
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, Step

_PAIR = re.compile(r"[A-Za-z_]\w*=")
# A word of an env where a variable is set: ${A:+A="$A"}, ${A:+-u B}.
_OPTIONAL = re.compile(
    r"(?P<begin>\$\{[A-Za-z_]\w*:?\+)(?:(?P<unset>-u *|--unset[= ])|(?=[A-Za-z_]\w*=))"
)


def assignments(reading: ScriptReading, main: Step) -> list[str]:
    """The variables before a step's command that are no variables of the run, as typed."""
    typed = [token.text for token in main.command.assignments] + _pairs(_words_of_env(main))
    own = [text for text in typed if text.partition("=")[0] not in words.RENDEZVOUS]
    for text in typed:
        if text not in own:
            reading.rendezvous.meet_by([text.partition("=")[0]], main.command.line, text)
            reading.body.say(main.command.line, text, Outcome.CHANGED, "", MEETING)
    pairs = [(text, exports.pair(reading.script, text)) for text in own]
    if main.command.within or reading.script.statements[main.statement].function:
        return [text for text, _ in pairs]
    for _, pair in pairs:
        if pair is not None:
            exports.put_env(reading.body, main.command.line, *pair)
    return [text for text, pair in pairs if pair is None]


def options_of_env(main: Step) -> list[str]:
    """An env in front of a step with what it does besides: ``env $SETTINGS srun python a.py``."""
    own = env_words.own(env_words.without_emptying(_words_of_env(main)))
    others = [text for text in own if _PAIR.match(text) is None]
    return ["env", *others] if others else []


def in_inner_shell(typed: Sequence[str], wrappers: Sequence[str]) -> tuple[str, list[str]]:
    """What stands in front of a ``bash -c`` as lines of its text, and the words that stay there.

    Args:
        typed: the variables in front of it.
        wrappers: the other words, with those of an env, which that shell would not read.
    """
    at = list(map(words.base, wrappers)).index("env") if "env" in wrappers else len(wrappers)
    lines = [f"export {' '.join(typed)}"] if typed else []
    own = env_words.without_emptying(env_words.own(wrappers[at + 1 :]))
    values = [after for before, after in pairwise(own) if before in env_words.WITH_VALUE]
    for word, after in zip(own, [*own[1:], ""], strict=False):
        name, _, text = word.partition("=")
        if name in ("-u", "--unset"):
            lines.append(f"unset {text or after}")
        elif name in ("-C", "--chdir"):
            lines.append(f"cd {text or after}")
        elif (optional := _OPTIONAL.match(word)) is not None:
            # A bare `export` would print all variables.
            verb = "unset " if optional["unset"] else "export "
            lines.append(f"{optional['begin']}{verb}{word[optional.end() :]}")
        elif word not in values:
            lines.append(f"export {word}")
    return "".join(f"{line}\n" for line in lines), list(wrappers[:at])


def _pairs(texts: Sequence[str]) -> list[str]:
    return [text for text in texts if _PAIR.match(text)]


def _words_of_env(main: Step) -> list[str]:
    """The words of an env in front of a launcher; [] for none."""
    texts = [token.text for token in main.command.words]
    before = texts[: len(texts) - len(words.unwrapped(texts))]
    bases = list(map(words.base, before))
    return before[bases.index("env") + 1 :] if "env" in bases else []
