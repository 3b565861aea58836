"""Variables that are the folder that is sent: ``ROOT="${SLURM_SUBMIT_DIR:-$(pwd)}"``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from allranks.convert.slurm.batch_script.text.script import Script

_SUBMIT_DIR = "$SLURM_SUBMIT_DIR"
_SUBMITTED = re.compile(r"\$(?:SLURM_SUBMIT_DIR|\{SLURM_SUBMIT_DIR\})/?")
# The same with a text for a shell that is no job's.
_SUBMITTED_OR = re.compile(r"\$\{SLURM_SUBMIT_DIR:?-(?:[^{}()]|\{[^{}]*\}|\([^()]*\))*\}/?")
# The same with its links followed, or as a shell says that is there.
_RESOLVED = re.compile(
    r"\$\(\s*(?:readlink\s+-\w*f\w*|realpath(?:\s+-\w+)*|cd(?=[^()]*&&\s*pwd))\s+"
    r"\"?(?P<folder>\$[^\s\")]+)\"?\s*(?:&&\s*pwd(?:\s+-[LP])?\s*)?\)"
)
_WORKING = re.compile(
    r"(?:\$(?:PWD|\{PWD\})|\$\([ \t]*pwd(?:[ \t]+-[LP])?[ \t]*\)|`[ \t]*pwd[ \t]*`"
    r"|\$\([ \t]*(?:realpath|readlink[ \t]+-f)[ \t]+\.[ \t]*\))/?"
)
_HERE = re.compile(r"\./?")
_BELOW = re.compile(r"(?:\./)?(?![.~$/-])[\w.+-]+(?:/(?!\.\.)[\w.+-]+)*/?")
# A folder of the old cluster, which a pod has where its image or a volume does.
_OF_SITE = re.compile(r"(?:~|\$HOME\b|\$\{HOME\})(?:/|$)|/(?!(?:tmp|workspace)\b)\w")
# Where a folder begins and ends in a list of mounts.
_BEGIN, _END = r"(?:^|(?<=[=:,\"]))", r"/?(?=[:,\"]|$)"


def starts_here(script: Script) -> bool:
    """Whether a script starts in the folder that is sent: without `--chdir`, or with `-D ./`."""
    starts = [own.value for own in script.settings if own.name in ("chdir", "workdir")]
    return all(start.rstrip("/") in (".", "$PWD", "$SLURM_SUBMIT_DIR") for start in starts)


def is_sent(text: str, own: Collection[str]) -> bool:
    """Whether a `cd` that is given a word goes to the folder that is sent, or stays there.

    Args:
        text: the word, as typed.
        own: the variables that are that folder.
    """
    target = written_out(scanner.unquote(text), own)
    return is_itself(text, own) or any(pattern.fullmatch(target) for pattern in (_WORKING, _HERE))


def is_itself(text: str, own: Collection[str]) -> bool:
    """Whether a word is the folder that is sent from wherever it is typed: `$SLURM_SUBMIT_DIR`.

    Args:
        text: the word, as typed.
        own: the variables that are that folder.
    """
    return _SUBMITTED.fullmatch(written_out(scanner.unquote(text), own)) is not None


def below(text: str, own: Collection[str]) -> str:
    """The folder below the one that is sent to which a `cd` goes; "" for another.

    Args:
        text: the word that the `cd` is given, as typed: ``$ROOT/src``, ``src``.
        own: the variables that are the folder that is sent.
    """
    target = scanner.unquote(text)
    names_of = "|".join(("SLURM_SUBMIT_DIR", "PWD", *own))
    path = re.sub(rf"^\$(?:(?:{names_of})(?!\w)|\{{(?:{names_of})\}})/", "", target)
    return path if _BELOW.fullmatch(path) else ""


def is_of_site(text: str) -> bool:
    """Whether a word is a folder of the old cluster's, or below one: ``/home/me``, ``~/a``.

    Args:
        text: the word, as typed.
    """
    return _OF_SITE.match(scanner.unquote(text)) is not None


def names(script: Script) -> set[str]:
    """The variables that each line which sets them sets to that folder.

    Args:
        script: the script.
    """
    is_here = starts_here(script)
    own: set[str] = set()
    others: set[str] = set()
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words[:2]]
        if texts[:1] in (["cd"], ["pushd"]):
            target = written_out("".join(texts[1:]), own)
            is_here = is_here and target != "" and _SUBMITTED.fullmatch(target) is not None
        for name, value in shell_text.assigned_by(command):
            text = scanner.unquote(value)
            match = _RESOLVED.fullmatch(text)
            text = written_out(text if match is None else match["folder"], own)
            is_sent = _SUBMITTED.fullmatch(text) is not None
            is_sent |= is_here and _WORKING.fullmatch(text) is not None
            (own if is_sent else others).add(name)
    return own - others


def written_out(text: str, own: Collection[str]) -> str:
    """A text with `$SLURM_SUBMIT_DIR` where a part of it is another name of that folder.

    Args:
        text: a folder, or a list of mounts: ``$ROOT:/workspace,/data``.
        own: the variables that are that folder.
    """
    folders = [_SUBMITTED_OR.pattern.removesuffix("/?")]
    folders += [rf"\$(?:{name}|\{{{name}\}})" for name in own]
    return shell_text.put(f"{_BEGIN}(?:{'|'.join(folders)}){_END}", _SUBMIT_DIR, text)


def has(folder: str, new: str) -> bool:
    """Whether a folder may be there behind a `mkdir`: the new one, one above that, or below.

    Args:
        folder: the folder.
        new: the one that the `mkdir` names.
    """
    target, own = f"{folder}/", f"{new.rstrip('/')}/"
    return own.startswith(target) or target.startswith(own)
