"""What a script names above the folder that is sent: ``../data``, ``$(dirname "$PWD")``.

The folder that who submits stands in is all that a pod has of the machine.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.pods.image_names import ENDING_OF_FILE
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import demands, sent_folder, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# The folder that is sent, as a script names it.
SENT = (
    r"(?:\$\{?(?:SLURM_SUBMIT_DIR|PWD)\}?|\$\([ \t]*pwd(?:[ \t]+-[LP])?[ \t]*\)"
    r"|`[ \t]*pwd(?:[ \t]+-[LP])?[ \t]*`)"
)
_ABOVE = re.compile(
    rf"(?:^|(?<=[=:,\"'])|(?<=:[-+]))(?:{SENT}\"?/)?\.\.(?:/[^\s\"':,;}}]*)?(?=$|[\s\"':,;}}])"
)
# The same where a script asks for it, and not for its name alone.
_PARENT = re.compile(
    rf"(?<!basename \$\()(?<!basename \"\$\()(?:dirname[ \t]+[\"']?{SENT}[\"']?(?=$|[\s)`])"
    r"|(?<=[(`])[ \t]*(?:realpath|readlink|cd)(?:[ \t]+-\w+)*[ \t]+[\"']?\.\."
    r"(?:/[^\s\"'`;&)]*)?(?=[\"'\s;&)`])(?![^)`]*\bbasename\b))"
    r"|\$\{(?:SLURM_SUBMIT_DIR|PWD)%/\*\}"
)
_NOT_SENT = (
    "it is above the folder that is sent: send that above (`--workspace {}`), and let the script "
    "begin with a `cd` into this one"
)
_FROM_BELOW = (
    "it is in the folder that is sent, as seen from that of the script, where a person stands who "
    "submits it: let the script begin with `cd {}`"
)
_AND_TELL = " (`export SLURM_SUBMIT_DIR=$PWD` behind it, which is the folder above otherwise)"
_UP = re.compile(r"\.\.(?:/+\.\.(?![^/]))*")
# The same in quotes of a program.
_ABOVE_IN_PROGRAM = re.compile(r"(?<=[\"'])\.\./[^\s\"']*")
# The file of an image.
_OF_IMAGE = re.compile(rf"{ENDING_OF_FILE}[\"']?$")
# A program of an environment of Python's.
_OF_ENVIRONMENT = re.compile(r"/bin/(?:python[0-9.]*|activate|torchrun|accelerate|pip[0-9.]*)$")
_SUBMITTED = "$SLURM_SUBMIT_DIR"


def say(script: Script, variables: ShellVariables, step: int) -> list[Verdict]:
    """Say of the first path above the folder that is sent that a pod has it not.

    Args:
        script: the script.
        variables: what its variables hold.
        step: the number of the statement with the ranks, which is the last that runs; -1 for none.
    """
    end = script.statements[step].end if step >= 0 else len(script.text)
    is_here = sent_folder.starts_here(script)
    sent = variables.sent_folder
    verdicts: list[Verdict] = []
    above: list[str] = []
    verdicts_elsewhere: list[Verdict] = []
    elsewhere = ""  # a folder of the site that a line has gone to
    way = ""  # from the folder that is sent to one above, which a line has gone to
    for command in script.commands:
        texts = [scanner.unquote(token.text) for token in command.words]
        if command.start > end or words.any_of(texts, words.SLURM_TOOLS):
            continue
        named = _above(command, sent)
        paths = [own for own in named if is_here or _is_of_sent(own, sent)]
        if elsewhere and not paths:
            verdicts_elsewhere += [_beside(path, elsewhere, command.line) for path in named[:1]]
        above += [f"{way}{path}" for path in paths]
        verdicts += [
            Verdict(path, Outcome.NOT_CARRIED, "", _NOT_SENT, command.line) for path in paths[:1]
        ]
        if is_here and not paths:
            verdicts += _above_in_document(script, command)
        goes = texts[:1] in (["cd"], ["pushd"]) and texts[1:2] != []
        if goes and is_here and _UP.fullmatch(texts[1].rstrip("/")):
            way += f"{texts[1].rstrip('/')}/"
            continue
        if goes:
            is_of_site = sent_folder.is_of_site(texts[1]) and not command.within
            elsewhere = texts[1] if is_of_site else ""
        # Where it goes is not known.
        is_here = is_here and (not goes or sent_folder.is_sent(texts[1], sent))
    paths_above = [*above, *(verdict.path for verdict in verdicts)]
    reads_own = "SLURM_SUBMIT_DIR" in words.without_comments(script.text)
    of_sent = _of_highest(verdicts, paths_above, _AND_TELL if reads_own else "")
    inside = _place_inside(script, paths_above)
    if inside:
        of_sent = [replace(verdict, why=_FROM_BELOW.format(inside)) for verdict in of_sent]
    return [*of_sent, *verdicts_elsewhere[:1]]


def _place_inside(script: Script, paths: Sequence[str]) -> str:
    """The folder of the script where all of some paths are sent, as seen from there; "" otherwise.

    A script ``slurm/train.sh`` with ``cd ../src`` is for somebody who stands in ``slurm``.
    """
    place = posixpath.dirname(script.source)
    if not place or place.startswith(("/", "..")):
        return ""
    targets = [posixpath.normpath(posixpath.join(place, path)) for path in paths]
    is_sent = all(own == "." or script.sends(own) for own in targets)
    return place if is_sent and not any(path.startswith("$") for path in paths) else ""


def _beside(path: str, folder: str, line: int) -> Verdict:
    """Say of a path above a folder of the site, to which a line has gone, that it is one, too."""
    top = posixpath.normpath(f"{folder}/{path}")
    why = f"it is {top} there, which a pod has where its image or a volume does"
    return Verdict(path, Outcome.CHANGED, "", why, line)


def _is_of_sent(path: str, sent: Collection[str]) -> bool:
    """Whether a path begins with the folder that is sent, wherever a line runs."""
    return any(re.search(rf"\$\{{?{name}\b", path) for name in ("SLURM_SUBMIT_DIR", *sent))


def _with_sent_folder(text: str, sent: Collection[str]) -> tuple[str, str]:
    """A text with such variables as `SLURM_SUBMIT_DIR`, and how the last of them is spelled."""
    spelled = _SUBMITTED
    for name in sent:
        pattern = rf"\$(?:{name}\b|\{{{name}\}})"
        spelled = next((match[0] for match in re.finditer(pattern, text)), spelled)
        text = re.sub(pattern, lambda _: _SUBMITTED, text)
        text = text.replace(f"${{{name}%/*}}", "${SLURM_SUBMIT_DIR%/*}")
    return text, spelled


def _of_highest(verdicts: Sequence[Verdict], paths: Sequence[str], besides: str) -> list[Verdict]:
    """The first word of a folder above that which is sent, with the way to the highest of them.

    Args:
        verdicts: the words.
        paths: all paths of such folders.
        besides: what else is to be done.
    """
    levels = [
        max(path.count("dirname"), *(own.count("..") for own in _UP.findall(path)), 1)
        for path in paths
    ]
    way = "/".join([".."] * max(levels, default=1))
    why = _NOT_SENT.format(way) + besides
    return [replace(verdict, why=why) for verdict in verdicts[:1]]


def _above(command: Command, sent: Collection[str]) -> list[str]:
    """The paths above the folder that the command runs in.

    Args:
        command: what runs.
        sent: the variables that are the folder that is sent.
    """
    texts = [token.text for token in command.words]
    assigns = texts[:1] == [":"] and any(":=" in text for text in texts)  # : "${DATA:=../data}"
    if words.any_of(texts, words.IDLE) and not assigns:
        return []
    is_container = words.any_of(texts, words.CONTAINERS)
    targets = [target for _, target in command.redirections]
    before = ""
    paths = []
    for own in (*(token.text for token in command.assignments), *texts, *targets):
        text, spelled = _with_sent_folder(demands.without_texts(own), sent)
        match = _ABOVE.search(text) or _PARENT.search(text) or _above_inside(text)
        # The file of an image is of no use in a pod, wherever it is.
        is_image = is_container or "--container-image" in (before, text.partition("=")[0])
        # An environment there is none of the image's, as other words say: nobody sends it.
        is_of_no_use = is_image and _OF_IMAGE.search(text) is not None
        is_of_no_use |= match is not None and _OF_ENVIRONMENT.search(match[0]) is not None
        if match is not None and not is_of_no_use:
            paths.append(match[0].replace(_SUBMITTED, spelled))
        before = text
    return paths


def _above_inside(text: str) -> re.Match[str] | None:
    """A path above the folder among the words inside one: of an array, ``$(…)`` or ``bash -c``."""
    parts = re.split(r"[\s()`]+", text)
    matches = map(_ABOVE.search, parts if len(parts) > 1 else ())
    return next((match for match in matches if match is not None and "../" in match[0]), None)


def _above_in_document(script: Script, command: Command) -> list[Verdict]:
    """The first path above the folder in a program that a command gets as a here-document."""
    texts = [token.text for token in command.words]
    has_document = any(operator.startswith("<<") for operator, _ in command.redirections)
    if not has_document or words.any_of(texts, words.IDLE | {"cat", "tee"}):
        return []
    for start, end in words.documents(script.text):
        match = _ABOVE_IN_PROGRAM.search(script.text, start, end)
        if match is not None and script.text.count("\n", command.end, start) == 1:
            line = script.text.count("\n", 0, match.start()) + 1
            return [Verdict(match[0], Outcome.NOT_CARRIED, "", _NOT_SENT, line)]
    return []
