"""Programs that a script installs before it calls them: ``pip install uv``, ``source …/conda.sh``.

The image need not have them. As a rule a package's program has its name.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import words

if TYPE_CHECKING:
    from collections.abc import Sequence

_PIP = re.compile(r"pip[0-9.]*")
_OF_CONDA = ("conda", "mamba", "micromamba")
# The name of a package before its version or extras, and behind a channel.
_PACKAGE = re.compile(r"(?:[\w.-]+::)?([A-Za-z][\w.-]*)(?:[\[<>=!~; @].*)?")
# Where pip puts programs that no PATH of a pod's names; it has that of `--user`.
_ELSEWHERE = re.compile(r"--(?:target|prefix|root|dry-run)(?:=.*)?|-t")
# Packages of pip's that are no program, or one of Python's alone.
_MODULES = frozenset({"wget", "jq", "ffmpeg", "git", "curl", "make", "gcc", "redis", "unzip"})
_FILES = ("-r", "--requirement", "-c", "--constraint", "-f", "--file", "-n", "--name")
# What defines conda in the shell: a file of it, or what the conda of a folder prints.
_FILE = re.compile(r".*/(conda|mamba|micromamba)\.sh")
_HOOK = re.compile(r"(?:\$\(|`)\s*\S*/(conda|mamba|micromamba)\"?\s+shell(?:\.\S+)?\s+hook\b")


def programs(typed: Sequence[str]) -> set[str]:
    """The programs that a shell has behind a command which installs or defines them.

    Args:
        typed: the words of a command, without their quotes.
    """
    rest = words.unwrapped(typed)
    if rest[:1] in (["source"], ["."]):
        match = _FILE.fullmatch(next(iter(rest[1:]), ""))
        return set() if match is None else _of_conda(match[1])
    if rest[:1] == ["eval"]:
        return {name for match in _HOOK.finditer(" ".join(rest)) for name in _of_conda(match[1])}
    return {
        match[1].lower()
        for word in _packages(rest)
        if (match := _PACKAGE.fullmatch(word)) is not None
    }


def _of_conda(program: str) -> set[str]:
    """The programs that come with one of conda's kind; Miniforge's has mamba, too."""
    return {program} if program == "micromamba" else {"conda", "mamba"}


def _packages(rest: Sequence[str]) -> list[str]:
    """The words behind those that have pip or conda install; none where no PATH has the programs.

    Args:
        rest: the words of a command, from its program.
    """
    texts = [word for word in rest if not word.startswith("-")]
    if words.module_of(rest) == "pip" or texts[:2] == ["uv", "pip"]:
        texts = texts[1:]
    name = words.base(texts[0]) if texts else ""
    is_installer = _PIP.fullmatch(name) is not None or name in _OF_CONDA
    if not is_installer or texts[1:2] != ["install"] or any(map(_ELSEWHERE.fullmatch, rest)):
        return []
    files = {after for word, after in pairwise(rest) if word in _FILES}
    files |= set() if name in _OF_CONDA else _MODULES
    return [text for text in texts[2:] if text not in files]
