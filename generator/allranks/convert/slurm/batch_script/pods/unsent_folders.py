"""Folders of a project that do not come with it: ``checkpoints/``, and those that git ignores.

What is sent is code. A program that begins with a checkpoint of an earlier run, and a shell that
writes into a folder which nothing makes, find no folder in a pod.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.pods import ignored_data, sent_commands
from allranks.convert.slurm.batch_script.text import words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.workspace import ignore

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# A file below such a folder, as a program is given it to read.
_FILE = re.compile(
    r"(?:\./|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?/)?(?![$.])"
    r"(?:[\w.${}=+-]+/)+[\w.${}=+-]*\.(?:pt|pth|ckpt|tar|bin|safetensors|pkl|h5|hdf5|npz|npy|onnx"
    r"|model|msgpack|json|ya?ml|gz|zip)"
)
# What an option is called by which a program is told where to write.
_WRITES = re.compile(r"(?i)-{0,2}[\w-]*(?:out|save|log|dir|write|dump|result|dest|export)[\w-]*")
# What an option is called by which a program begins with an earlier run, and a path below here.
_READS = re.compile(
    r"(?i)-{0,2}(?:[\w.-]*[_.-])?(?:load|resume|init|ckpt|pretrained|restore)[\w.-]*"
)
_FOLDER = re.compile(r"(?:\./)?(?![$~/.-])[\w.+-]+(?:/[\w.${}=+-]+)*/?")
_UNSENT = "`{}` is not sent with the folder: name the file by `--include`, or let a volume have it"
_ENDS = "it is not sent, and the script ends where it is not there: take the test out"
# Folders that hold what runs write, and that projects keep out of git.
_OF_RUNS = re.compile(r"(?i)(?:[\w-]*logs?|outs?|outputs?|[\w-]*_out|results?|runs?|slurm[\w-]*)")
_INTO_FOLDER = re.compile(r"(?:\./)?(?P<folder>[\w-]+)/(?:[\w.${}=%+-]+/)*[\w.${}=%+-]+")
_NOT_MADE = (
    "what is sent has the folder only where .gitignore does not keep it out, and without it the "
    "line starts nothing: let the script make it (`mkdir -p {}`)"
)


def say(script: Script, variables: ShellVariables, code: str) -> list[Verdict]:
    """The first line that reads such a file, and the first that writes into such a folder.

    Args:
        script: the script.
        variables: what its variables hold.
        code: what runs in a pod, where the log of ranks is that of the run and no file.
    """
    verdicts: dict[str, Verdict] = {}
    for sent in sent_commands.walk(script, variables):
        if sent.place:
            break
        command, texts = sent.command, sent.texts
        is_idle = words.any_of(texts, sent_commands.IDLE) or sent.has_trained
        unsent = "" if is_idle else _unsent_file(texts, variables)
        if unsent and not script.sends(unsent):
            folder = next(filter(ignore.is_of_tools, unsent.split("/")))
            why = _UNSENT.format(folder)
            verdicts.setdefault("file", Verdict(unsent, Outcome.CHANGED, "", why, command.line))
        unsent_folder = _folder_of_test(texts)
        if unsent_folder and _ends(script, command):
            verdicts.setdefault(
                "test", Verdict(unsent_folder, Outcome.CHANGED, "", _ENDS, command.line)
            )
        target = _target(command, variables, code) or _new_folder(texts)
        folder = target.rpartition("/")[0]
        if target and not (sent.has(folder) or script.sends(folder)):
            why = _NOT_MADE.format(folder)
            verdicts.setdefault("folder", Verdict(target, Outcome.CHANGED, "", why, command.line))
    return [*verdicts.values()]


def _folder_of_test(texts: list[str]) -> str:
    """The folder that is never sent, and which a test asks for; "" for none."""
    is_test = texts[:1] in (["["], ["[["], ["test"])
    paths = [text.removeprefix("./") for text in texts[1:] if is_test]
    folders = (path for path in paths if path[:1] not in "/$~-")
    return next((own for own in folders if any(map(ignore.is_of_tools, own.split("/")))), "")


def _ends(script: Script, command: Command) -> bool:
    """Whether the statement of a command may end the script as one that has failed."""
    statement = next(
        (own for own in script.statements if own.start <= command.start < own.end), None
    )
    others = statement.commands if statement is not None else []
    return any(
        own.name == "exit" and [word.text for word in own.words[1:]] not in ([], ["0"])
        for own in others
    )


def _unsent_file(texts: list[str], variables: ShellVariables) -> str:
    """The first file of an unsent folder that the words of a program have it read; "" for none."""
    for before, typed in pairwise(["", *texts]):
        option, sign, value = typed.partition("=") if typed.startswith("-") else (before, "", typed)
        if not sign and not before.startswith("-"):
            option = ""
        path = variables.resolved(value)
        match = _FILE.fullmatch(path) if not _WRITES.fullmatch(option) else None
        if match is not None and any(map(_is_unsent, path.split("/")[:-1])):
            return path
        reads = _READS.fullmatch(option) is not None and _FOLDER.fullmatch(path) is not None
        if reads and any(map(_is_unsent, path.split("/"))):
            return path.rstrip("/")
    return ""


def _is_unsent(folder: str) -> bool:
    """Whether a folder holds what runs write, and is no environment, which has other words."""
    return ignore.is_of_tools(folder) and "venv" not in folder and not folder.startswith("__")


def _new_folder(texts: list[str]) -> str:
    """What a `mkdir` without `-p` makes in a folder that may not be there; "" for nothing."""
    is_whole = any(re.fullmatch(r"-\w*p\w*|--parents", text) for text in texts[1:])
    match = _INTO_FOLDER.fullmatch(texts[-1]) if texts[:1] == ["mkdir"] and not is_whole else None
    folder = "" if match is None else match["folder"]
    return texts[-1] if _OF_RUNS.fullmatch(folder) or ignored_data.is_of_data(folder) else ""


def _target(command: Command, variables: ShellVariables, code: str) -> str:
    """The file in a folder of runs into which a command's shell writes in a pod; "" for none."""
    targets = [
        file
        for operator, file in command.redirections
        if ">" in operator and re.search(rf">[>&|]?[ \t]*{re.escape(file)}", code) is not None
    ]
    for target in targets:
        path = variables.resolved(target)
        match = _INTO_FOLDER.fullmatch(path)
        if match is not None and _OF_RUNS.fullmatch(match["folder"]):
            return path.removeprefix("./")
    return ""
