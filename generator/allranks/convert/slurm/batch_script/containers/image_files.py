"""Looks for a container's image, or for what starts one, which a pod has not.

``[ -f $SIF ] || exit 1``, and ``command -v apptainer || exit 1``.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.pods.image_names import ENDING_OF_FILE
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.containers import images
from allranks.convert.slurm.batch_script.text import shell_text, words

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading

_TESTS = ("[", "test")
_CONDITION = re.compile(r"\[\[\s(.*?)\s\]\]", re.DOTALL)
# What looks for a program.
_LOOKS = frozenset({"command", "which", "type", "hash"})
_ENDING = frozenset({"exit", "return"})
# A word behind the script's name, and how a container starts with what is in a variable.
_OF_WORDS = re.compile(r"\$\{?[1-9].*")
_STARTED_WITH = (
    r"(?:\b(?:singularity|apptainer)\s+(?:exec|run|shell)\b|\benroot\s+(?:create|start)\b"
    r"|\b(?:ch-run|udocker)\s|--container-image\b)(?:[^\n;|&]|\\\n)*\$\{{?{0}\b"
)
_IMAGE_FILE = re.compile(rf"{ENDING_OF_FILE}[\"'}}]*$")
_VARIABLE_AT_END = re.compile(r"\$\{?([A-Za-z_]\w*)\}*[\"']?$")
IN_CONTAINER = (
    "it looks for the file of an image, or for what starts containers: the pod is the container, "
    "and has neither"
)


def looks_for(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement looks for an image, or what starts one, and ends the script without it.

    Args:
        reading: the script, and what is known of it.
        statement: the statement.
    """
    if statement.is_simple and any(_only_lists(reading, own) for own in statement.commands):
        return True
    tests = [command for command in statement.commands if command.name in _TESTS]
    looks = [c for c in statement.commands if _looks_for_program(c) or _files_of_look(c)]
    rest = [other for other in statement.commands if other not in tests and other not in looks]
    texts = [word.text for command in tests for word in command.words]
    for match in _CONDITION.finditer(reading.script.slice(statement)):
        texts += shell_text.split(match[1])
    words_of = list(map(scanner.unquote, texts))
    files = [file for command in looks for file in _files_of_look(command)]
    files += [after for before, after in pairwise(words_of) if before in ("-f", "-e", "-s", "-r")]
    ends = any(command.name in ("exit", "return") for command in rest)
    is_quiet = all(words.any_of([w.text for w in c.words], words.IDLE | _ENDING) for c in rest)
    is_look = bool(files or looks) and all(_is_image(reading, file) for file in files)
    return is_look and ends and is_quiet


def _only_lists(reading: ScriptReading, command: Command) -> bool:
    """Whether a command shows files of images, and nothing else: ``ls -lh "$SIF"``."""
    texts = [scanner.unquote(word.text) for word in command.words]
    files = [text for text in texts[1:] if not text.startswith("-")]
    is_list = texts[:1] in (["ls"], ["stat"], ["file"], ["du"]) and not command.redirections
    return is_list and bool(files) and all(_is_image(reading, file) for file in files)


def _files_of_look(command: Command) -> list[str]:
    """The files of which a command only says whether they are there: ``ls a.sif || exit 1``."""
    is_look = command.name in ("ls", "stat") and command.after == "||"
    texts = [scanner.unquote(word.text) for word in command.words[1:]] if is_look else []
    return [text for text in texts if not text.startswith("-")]


def _looks_for_program(command: Command) -> bool:
    """Whether a command looks for a program that starts containers: ``command -v apptainer``."""
    names = [words.base(scanner.unquote(word.text)) for word in command.words[1:]]
    starters = words.CONTAINERS | words.UNREAD_CONTAINERS
    return command.name in _LOOKS and bool(names) and names[-1] in starters


def _is_image(reading: ScriptReading, file: str) -> bool:
    """Whether a file is called as that of an image is, or a variable with it."""
    name = shell_text.variable_alone(file)
    texts = reading.variables.contents.get(name, []) if name else [file]
    if name and images.NAME_OF_IMAGE.search(name) and all(map(_OF_WORDS.fullmatch, texts)):
        code = words.without_comments(reading.script.text)
        return re.search(_STARTED_WITH.format(name), code) is not None
    return bool(texts) and all(_ends_as_image(reading, text) for text in texts)


def _ends_as_image(reading: ScriptReading, text: str, depth: int = 4) -> bool:
    """Whether a path ends as the file of an image does, or with a variable that does.

    Args:
        reading: the script, and what is known of it.
        text: the path.
        depth: through how many variables it is looked.
    """
    if _IMAGE_FILE.search(text):
        return True
    match = _VARIABLE_AT_END.search(text)
    texts = reading.variables.contents.get(match[1], []) if match is not None and depth else []
    return bool(texts) and all(_ends_as_image(reading, own, depth - 1) for own in texts)
