"""What stands around a program in its script: whether it only prepares, and for which shell.

A setup runs once in each pod, before there are ranks, and in `sh`. So only what prepares for a
program may become one: a training that something follows is what the pods are for, and what only
bash reads must stay in bash.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# What follows a training in its script: it says, copies or keeps the pod, and trains nothing.
_AFTERWARDS = frozenset(
    {
        *("echo", "printf", "true", "date", "sleep", "tail", "cat", "ls", "du", "df", "nvidia-smi"),
        *("cp", "mv", "rm", "mkdir", "touch", "tar", "zip", "chmod", "chown", "sync", "kill"),
        *("aws", "gsutil", "gcloud", "azcopy", "rclone", "rsync", "s3cmd", "s5cmd", "mc", "scp"),
        *("curl", "wget", "hf", "huggingface-cli"),
    }
)
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
# Modules of Python that prepare for a program.
_PREPARING = ("pip", "venv", "ensurepip", "virtualenv", "uv", "nltk.downloader", "spacy")
# What bash has that POSIX sh has not.
_BASHISMS = re.compile(
    r"\[\[|^\s*(?:declare|shopt|function|pushd|popd|mapfile|readarray)\b|<\(|<<<|&>|=\("
    r"|\$\{[^}]*[/^,]|\$\{!|\$\{\w+:\s*\d|\$\{?(?:PIPESTATUS|RANDOM|BASH_\w+)\b|\$'"
    r"|shell\.bash|(?<![$(])\(\(|\{\d+\.\.\d+\}|(?<!\[)\[ [^\]\n]*==",
    re.MULTILINE,
)
# A file that the shell itself reads, and those of them that each shell can read.
_SOURCED = re.compile(
    r"(^|[;&|{(]|\b(?:then|do|else)\b)(\s*)(?:source|\.)[ \t]+([^\s;&|]+)[ \t]*(?=(.?))",
    re.MULTILINE,
)
_FOR_SHELLS = re.compile(r"[\"']?\S*/(?:activate|conda\.sh|mamba\.sh|etc/profile)[\"']?")


def is_afterwards(program: str) -> bool:
    """Whether a program behind others is there for what they leave, as `cp` and `sleep` are."""
    return program in _AFTERWARDS


def keeps_pod(words: Sequence[str]) -> bool:
    """Whether a command only keeps its pod: ``sleep infinity``, ``tail -f /dev/null``."""
    program, first = (*(word.rpartition("/")[2] for word in words[:2]), "", "")[:2]
    return (program == "sleep" and first in ("infinity", "inf")) or (
        program == "tail" and first.startswith(("-f", "-F", "--follow"))
    )


def may_train(words: Sequence[str]) -> bool:
    """Whether words may be what a script is for: Python that runs a file, or a module of a name.

    Args:
        words: a command, without what runs it as it is.
    """
    if len(words) < 2 or not _PYTHON.fullmatch(words[0]):  # noqa: PLR2004 - python and a script
        return False
    if words[1] == "-m":
        return words[2:3] != [] and words[2] not in _PREPARING
    return words[1] not in ("-c", "-", "-V", "--version")


def lines_for_shells(setup: str) -> str | None:
    """Shell of bash's as text that `sh` reads alike; None where only bash does.

    Args:
        setup: what stood before a program.
    """
    for match in _SOURCED.finditer(setup):
        has_arguments = match[4] not in ("", "\n", ";", "&", "|", ")", "}")
        if has_arguments or not _FOR_SHELLS.fullmatch(match[3]):
            return None
    text = _SOURCED.sub(lambda match: f"{match[1]}{match[2]}. {match[3]}", setup)
    return None if _BASHISMS.search(text) else text
