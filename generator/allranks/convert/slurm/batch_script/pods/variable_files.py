"""Files of variables, as `.env`: ``source .env``, ``export $(grep -v '^#' .env | xargs)``.

They may have keys, so that they are not sent; what they set is not read here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.workspace import secrets

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script

NOT_SENT = (
    f"`{names.CLI} sbatch` does not send such a file, which may have keys, unless it is told to: "
    "write what it sets into env, and let a Secret set the keys"
)
_KEY_NOT_SENT = (
    f"a file that git ignores, as one of a key is as a rule, is not sent by `{names.CLI} sbatch`: "
    "let a Secret set the variable in env, and take the line out, which empties it"
)
_SOURCES = ("source", ".")
# What is called a key, and a file that a script reads whole: `KEY=$(cat key.txt)`, `$(<key.txt)`.
_OF_KEY = re.compile(
    r"(?:_|\b)(?:api_?key|key|token|secret|passw(?:or)?d)s?(?:_|\b)", re.IGNORECASE
)
_READS = re.compile(r"[\"']?(?:\$\((?:\s*cat\s+|<\s*)|`\s*cat\s+)(?P<file>[^\s`)]+)\s*[`)][\"']?")
# What shows the lines of a file, each with how many words stand before its name.
_SHOWING = {
    "cat": 0,
    "envsubst": 0,
    **dict.fromkeys(("grep", "egrep", "sed", "awk"), 1),
}
# What may stand before the lines that a command is given as words.
_IN_WORD = re.compile(r"[\"']?(?:\$\(|`|<\()")


def say(script: Script) -> list[Verdict]:
    """The first line that exports what such a file has, where it does not source it.

    And what sets a key by a file of the project: ``export WANDB_API_KEY=$(cat key.txt)``.

    Args:
        script: the script.
    """
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        file = shown_in(command)
        if secrets.is_environment(words.base(file)):
            verdicts.setdefault(file, Verdict(file, Outcome.CHANGED, "", NOT_SENT, command.line))
        for name, value in shell_text.assigned_by(command):
            match = _READS.fullmatch(value)
            file = scanner.unquote(match["file"]) if match is not None else ""
            is_key = _OF_KEY.search(name) or _OF_KEY.search(words.base(file))
            if is_key and file and file[0] not in "/~$":
                verdicts.setdefault(
                    file, Verdict(file, Outcome.NOT_CARRIED, "", _KEY_NOT_SENT, command.line)
                )
    return [*verdicts.values()]


def is_sourced(command: Command) -> bool:
    """Whether a command reads a file of variables of the project: ``source .env``."""
    texts = [scanner.unquote(word.text) for word in command.words[:2]]
    is_source = len(texts) > 1 and texts[0] in _SOURCES
    return is_source and secrets.is_environment(words.base(texts[1]))


def shown_in(command: Command) -> str:
    """The file whose lines a command sets variables by; "" for none.

    Args:
        command: such as ``export $(cat .env | xargs)``, ``eval "$(…)"`` or ``source <(…)``.
    """
    if command.name not in ("export", "eval", *_SOURCES):
        return ""
    for word in command.words[1:]:
        if not _IN_WORD.match(word.text):
            continue
        for inner in shell_text.substituted_commands(re.sub(r"\A<\(", "$(", word.text)):
            files = [target for operator, target in inner.redirections if operator == "<"]
            texts = [own.text for own in inner.words if not own.text.startswith("-")]
            if texts and (count := _SHOWING.get(words.base(texts[0]))) is not None:
                files += texts[1 + count :]
            if files:
                return scanner.unquote(files[0])
    return ""
