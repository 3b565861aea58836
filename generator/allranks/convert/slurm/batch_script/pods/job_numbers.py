"""Files and folders that are called by the number of the job: ``out/$SLURM_JOB_ID``.

Slurm gives no number twice. Here it is made of the release's name, so that `compat: slurm` needs
nobody who counts, and a run of the same name has it again.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.pods import output_files
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script

_NUMBER = r"\$(?:SLURM_(?:ARRAY_)?JOB_?ID\b|\{SLURM_(?:ARRAY_)?JOB_?ID(?::?-[^{}]*)?\})"
# The number as a part of a name, and not of a sum.
_NAME = re.compile(
    rf"[^\s\"'=:,;()]*(?:(?<=[\w./}}-]){_NUMBER}|{_NUMBER}(?=[\w./$-]))[^\s\"'=:,;()]*"
)
_VARIABLE = re.compile(r"SLURM_(?:ARRAY_)?JOB_?ID\b")
_SLASHES = re.compile(r"^/{3,}")  # of a file's address: `file:///lustre/a`
# Options that say what a run, or its folder, is called.
_CALLED_BY = re.compile(
    r"--?(?!rdzv)[\w-]*(?:name|tag|exp|experiment|run|suffix|prefix|version|session|study|label|key|job"
    r"|dir|out|output|path)(?:[-_]id)?"
)
# Folders that end with the pod, and the file of the job's own output, which has other words.
_OF_POD = re.compile(
    r"/(?:tmp|dev/shm|run|var/run)/|\$\{?(?:SLURM_)?TMPDIR\b|\$\{?LOCAL_?SCRATCH\b|(?:\S*/)?slurm-"
)
_WHY = (
    "the number is made of the release's name: a run of the same name has it again, and finds what "
    "the one before has left in a volume, as {}"
)
_MEETING = re.compile(r"(?i)rdzv|rendezvous|port|master|^slurm_")
# With these another shell, or a program, reads a text.
_WITH_TEXT = {"-c", "-lc", "-ec", "-xc", "-cx", "-lic", "-ic", "eval", "xargs", "parallel", "ssh"}
_IDLE = words.IDLE | words.SLURM_TOOLS | {"rm", "cat", "export"}


def say(script: Script) -> list[Verdict]:
    """The first file or folder of a script that is called so, but for those of the pod alone.

    Args:
        script: the script.
    """
    is_for_both = re.search(r"SLURM_JOB_?ID\b", script.text) is not None
    has_array = not is_for_both or any(own.name == "array" for own in script.settings)
    own_output = output_files.pattern(script)
    for command in script.commands:
        for typed in _texts(command):
            text = own_output.sub("", typed)
            match = _NAME.search(text)
            if not has_array and match is not None and "SLURM_ARRAY_" in match[0]:
                continue  # a branch of a job of another kind
            is_whole = match is not None and match[0].count("{") == match[0].count("}")
            if match is not None and is_whole and not _OF_POD.match(match[0]):
                # Of a path with the output of a command in it the whole, where it is one word.
                is_cut = text[: match.start()].endswith((")", "`")) and " " not in text
                path = _SLASHES.sub("/", text if is_cut else match[0]).removeprefix("./")
                name = f"${''.join(_VARIABLE.findall(match[0])[:1])}"
                return [Verdict(name, Outcome.CHANGED, "", _WHY.format(path), command.line)]
    return []


def _is_number(name: str, value: str) -> bool:
    """Whether a variable has the number and nothing else, and not for where ranks meet."""
    return re.fullmatch(_NUMBER, value) is not None and not _MEETING.search(name)


def _texts(command: Command) -> Iterator[str]:
    """The words of a command that may be paths, and what it sets."""
    texts = [scanner.unquote(token.text) for token in command.words]
    if not _WITH_TEXT & {*texts}:  # where no other shell reads them, quotes keep its letters
        own_texts = (words.expanded_part(token.text) for token in command.words)
        texts = list(map(scanner.unquote, own_texts))
    yield from (scanner.unquote(token.text.partition("=")[2]) for token in command.assignments)
    if command.name == "export":
        yield from (text.partition("=")[2] for text in texts[1:])
        exported = [text.partition("=") for text in texts[1:]]
        # Whoever reads it may name a folder by it.
        yield from (f"./{value}" for name, _, value in exported if _is_number(name, value))
    # A container is no folder, and a pod has its own.
    is_name = [name == "--container-name" for name in ("", *texts)]
    texts = [
        text
        for text, is_of_container in zip(texts, is_name, strict=False)
        if not is_of_container and not text.startswith("--container-name=")
    ]
    if not words.any_of(texts, _IDLE):
        yield from texts
        for before, text in pairwise(texts):
            name, sign, value = text.partition("=")
            name, value = (name, value) if sign else (before, text)
            if _CALLED_BY.fullmatch(name) and re.fullmatch(_NUMBER, value):
                yield f"./{value}"  # a name of its own
    yield from (target for operator, target in command.redirections if ">" in operator)
