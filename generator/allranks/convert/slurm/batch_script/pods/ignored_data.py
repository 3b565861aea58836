"""Data of a project that do not come with it, as git ignores them: ``--data-dir data/train``."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script.text import sent_folder, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# Data below such a folder, and what is code or a setting there.
_DATA = re.compile(
    r"(?i)(?:\./|\$\{?(?:PWD|SLURM_SUBMIT_DIR)\}?/)?"
    r"(?P<folder>(?:[a-z0-9]+[-_])*(?:data|datasets?|corpus|corpora))(?:/[^\s/'\"]+)*/?"
)
_CODE = re.compile(r"(?i)\.(?:py|sh|bash|ya?ml|toml|cfg|ini|ipynb|jl|r|md|m|txt)$")
_SETTING = frozenset({"export", "declare", "typeset", "local", "readonly"})
# Names that say that their text is a folder or a file of data, and a relative path.
_NAME_OF_OPTION = re.compile(r"-{0,2}[\w.-]+")
_OF_FOLDER = re.compile(
    r"(?i)-{0,2}(?:[\w.-]*[_.-])?data(?:sets?)?[_-]?(?:dir|path|root|folder|directory|base)"
)
_RELATIVE = re.compile(r"(?:\.{1,2}/)*(?![$~\d.-])[\w.+-]+(?:/[\w.${}+-]+)*/?")
_OF_DATA = re.compile(
    r"(?i)-{0,2}[\w.-]*(?:data|path|dir|root|file|folder|input|corpus|train|val|test)"
)
_WRITES_DATA = re.compile(r"(?i)-{0,2}[\w.-]*(?:out|save|log|write|dump|result|dest|export)[\w.-]*")
_IGNORED = (
    "what is sent has it only where .gitignore does not keep it out, as it does with data as a "
    "rule: mount a volume there (storage.datasets.mountPath), or name it by `--include`"
)
_IDLE = words.IN_EACH_RANK | {"test", "[", "[[", "rm", "cp", "mv"}


def say(script: Script, variables: ShellVariables) -> list[Verdict]:
    """The first data in the folder that is sent which a line reads, or sets a variable to.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    if not sent_folder.starts_here(script):
        return []
    names = sent_folder.names(script)
    folders: set[str] = set()  # that the script makes
    place = ""  # below the folder that is sent
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        goes = texts[:1] in (["cd"], ["pushd"])
        if goes and not sent_folder.is_sent("".join(texts[1:2]), names):
            target = sent_folder.below("".join(texts[1:2]), names)
            if not target:
                return []  # another folder, which has words of its own
            place = _below_sent(place, target)
        is_idle = words.any_of(texts, _IDLE) and command.name not in _SETTING
        data = "" if is_idle else _data(command, texts, variables)
        data = _below_sent(place, data) if data else ""
        if data and not any(sent_folder.has(data, own) for own in folders):
            return [Verdict(data, Outcome.CHANGED, "", _IGNORED, command.line)]
        if "mkdir" in map(words.base, texts[:2]):
            folders |= {variables.resolved(text).removeprefix("./") for text in texts[1:]}
    return []


def is_of_data(folder: str) -> bool:
    """Whether a folder of a name holds data, as far as its name says.

    Args:
        folder: the name.
    """
    return _DATA.fullmatch(folder) is not None


def _data(command: Command, texts: list[str], variables: ShellVariables) -> str:
    """The first path of data in the project that a command reads, or sets; "" for none.

    A folder without one below it is a path behind an option, or in a variable, whose name says so:
    ``--data-dir data``, ``export DATA_ROOT=./FOR-species20K``.
    """
    pairs = [(before, text) for before, text in pairwise(["", *texts])]
    sets = command.name in _SETTING or not texts
    pairs += [("", token.text) for token in command.assignments if not texts]
    for before, typed in pairs:
        name, sign, value = typed.partition("=")
        if sets and not re.search(r"(?i)data", name):
            continue
        if not (sign and _NAME_OF_OPTION.fullmatch(name)):
            name, value = (before, typed) if before.startswith("-") else ("", typed)
        path = variables.resolved(value)
        if _WRITES_DATA.fullmatch(name) or _CODE.search(path):
            continue
        match = _DATA.fullmatch(path)
        is_of_name = _OF_FOLDER.fullmatch(name) is not None and _RELATIVE.fullmatch(path)
        is_path = match is not None and (_OF_DATA.match(name) if name else "/" in path.strip("./"))
        if is_path or is_of_name:
            return path.removeprefix("./").rstrip("/")
    return ""


def _below_sent(place: str, path: str) -> str:
    """A path from the folder that is sent; "" for one that is not in it.

    Args:
        place: the folder in it that a command runs in; "" for itself.
        path: the path, from there.
    """
    whole = posixpath.normpath(posixpath.join(place, path))
    return "" if whole.startswith("..") else whole
