"""Lines that name the file of the job's own output: in a pod that is the log of the run."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script

_OUTPUT_IS_LOG = (
    "what is written is the run's log, and no file: take out the line, and those that need it, and "
    f"see `{names.CLI} logs`"
)
# Where a program of its own writes, which may be called as the file of the output is.
_WRITES = re.compile(
    r"(?:-[eo]|--(?:out|err|log)[\w-]*) .*|\S+ --(?:out|err|log)[\w-]*=.*", re.DOTALL
)


def say(script: Script) -> list[Verdict]:
    """The lines that name the file of the job's output, each with its first name there.

    Args:
        script: the script.
    """
    named, file = _named(script), pattern(script)
    paths = {text for text in named if "%" not in text and not text.startswith("/dev/")}
    verdicts = []
    for command in script.commands:
        texts = [token.text for token in command.words]
        name = _name_in(command, file, paths)
        if command.name in ("cd", "pushd"):  # there the same name is another file's
            paths = {path for path in paths if path.startswith("/")}
        if name and not words.any_of(texts, words.IDLE | words.SLURM_TOOLS):
            # A link to no file is made all the same.
            is_link = words.any_of(texts, ("ln",))
            outcome = Outcome.CHANGED if is_link else Outcome.NOT_CARRIED
            verdicts.append(Verdict(name, outcome, "", _OUTPUT_IS_LOG, command.line))
    return verdicts


def pattern(script: Script) -> re.Pattern[str]:
    """What finds a name of the output's file that has the job's number, or a ``*`` for its rest.

    Args:
        script: the script.
    """
    job_name = next((own.value for own in script.settings if own.name == "job-name"), "")
    files = (*_named(script), "slurm-%j.out", "slurm-%A_%a.out")
    patterns = [form for file in files for form in _patterns_of(file, job_name)]
    return re.compile("|".join(patterns))


def _named(script: Script) -> list[str]:
    """The files that the directives name for the job's output."""
    return [setting.value for setting in script.settings if setting.name in ("output", "error")]


def _name_in(command: Command, file: re.Pattern[str], paths: set[str]) -> str:
    """The name of the file among what a command reads; "" for none.

    Args:
        command: the command.
        file: what finds a name with a number of the job.
        paths: the names without any, which are those of the file only as whole words.
    """
    texts = [token.text for token in command.words]
    reads = [
        after for before, after in pairwise(texts) if not _WRITES.fullmatch(f"{before} {after}")
    ]
    reads += [target for operator, target in command.redirections if operator == "<"]
    text = " ".join([*reads, *(token.text for token in command.assignments)])
    match = file.search(text)
    if match is not None:
        return match[0]
    pattern = "|".join(map(re.escape, sorted(paths)))
    whole = re.search(rf"(?<![\w.=/-])(?:\./)?(?:{pattern})(?![\w./-])", text) if pattern else None
    return whole[0] if whole is not None else ""


def _patterns_of(file: str, job_name: str) -> Iterator[str]:
    """What finds a file of output in a script, where Slurm's variables stand for ``%j``.

    None for a file whose name has no number of the job, which may be any other.
    """
    folder, _, name = file.rpartition("/")
    own = [part for part in re.split(r"(%[0-9]*[jJAaxNu])", name) if part]
    ends = [at for at, part in enumerate(own, 1) if part[0] == "%" and part[-1] in "jJAa"]
    if not ends:
        return
    of_slurm = r"\$\{?SLURM_\w+\}?"
    texts = {"%x": rf"(?:{of_slurm}|{re.escape(job_name)})"} if job_name else {}
    forms = [texts.get(part, of_slurm) if part[0] == "%" else re.escape(part) for part in own]
    yield r"(?<![\w.-])" + "".join(forms)
    start = "".join(forms[: ends[0]])
    if ends[0] == 1:  # a name that begins with the number may be any in another folder
        start = f"{re.escape(folder.removeprefix('./'))}/{start}" if folder else ""
    if start:
        yield rf"(?<![\w.-])(?:\./)?{start}[\w.-]*[*?][\w.*?-]*"
