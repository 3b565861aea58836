"""Scripts that all pods of a template run, of which the first pod's alone calls mpirun.

Without an operator, people start MPI's ranks from the first pod of an Indexed Job or of a
StatefulSet: its script asks for the number of its pod, calls mpirun in the first, and waits with
sshd in the others. These are a launcher and its workers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert.programs import commands, scanner, shell_arguments
from allranks.convert.programs.commands import Runner
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_OF_MPI = {Runner.MPIRUN, Runner.HOROVODRUN}
# The number of a pod among its template's, and what ends with it.
_INDEX = r"JOB_COMPLETION_INDEX"
_ENDS_WITH_INDEX = r"(?:HOSTNAME|POD_NAME|MY_POD_NAME|hostname)"
_ASSIGNED = re.compile(
    rf"(?<![\w$])([A-Za-z_]\w*)=[\"']?(?:\$\{{?{_INDEX}\b|\$\{{{_ENDS_WITH_INDEX}##\*-\}}"
    r"|\$\(hostname\s*\|[^()]*\))",
    re.ASCII,
)
_TEST = re.compile(
    r"if\s+(?:\[\[?|test|\(\()\s*(?P<subject>[^\s=!]+)\s*"
    r"(?P<sign>==?|-eq|!=|-ne|-gt|>)\s*(?P<value>[^\s\])]+)\s*(?:\]\]?|\)\))?\s*;?\s*(?=then\b)"
)
_NEGATIVE = ("!=", "-ne", "-gt", ">")


def index_variables(container: Mapping[str, Any]) -> set[str]:
    """The variables of a container that have the number of its pod among its template's."""
    return {
        k8s.text(entry, "name")
        for entry in k8s.items(container, "env")
        if k8s.text(entry, "valueFrom", "fieldRef", "fieldPath") in _INDEX_FIELDS
    }


_INDEX_FIELDS = tuple(
    f"metadata.{kind}['{key}']"
    for kind in ("labels", "annotations")
    for key in ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")
)


def split(
    words: Sequence[str], variables: Collection[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The words of a launcher and of its workers, of those that all pods of a template run.

    Args:
        words: a container's command and args.
        variables: its variables that have the number of its pod.

    Returns:
        None where they have no choice by the number of the pod, of which one side calls mpirun.
    """
    script = shell_arguments.script_of(words)
    if script is None:
        return None
    _, text, arguments = script
    place = len(words) - len(arguments) - 1
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return None
    for statement in statements:
        own = text[statement.start : statement.end]
        branches = _branches(own, text[: statement.start], variables)
        if branches is None:
            continue
        first, others = branches
        before, behind = text[: statement.start], text[statement.end :]
        launcher, worker = (
            _to_its_end(f"{before}{branch.strip()}{behind}") for branch in (first, others)
        )
        calls_mpirun = [
            bool(commands.starters(("sh", "-c", part)) & _OF_MPI) for part in (launcher, worker)
        ]
        if calls_mpirun == [True, False]:
            first_words, other_words = (
                (*words[:place], part.strip(), *arguments) for part in (launcher, worker)
            )
            return first_words, other_words
    return None


def _branches(text: str, before: str, variables: Collection[str]) -> tuple[str, str] | None:
    """What the first pod runs of an ``if``, and what the others run; None for any other text."""
    test = _TEST.match(text)
    if test is None or not _asks_for_first(test, before, variables):
        return None
    marks = _marks(text)
    kinds = [token.text for token in marks]
    if kinds[:2] != ["if", "then"] or kinds[2:] not in (["fi"], ["else", "fi"]):
        return None
    if text[marks[-1].end :].strip(" ;\n"):
        return None
    then = text[marks[1].end : marks[2].start]
    otherwise = text[marks[2].end : marks[3].start] if kinds[2:] == ["else", "fi"] else ""
    is_negative = test["sign"] in _NEGATIVE
    return (otherwise, then) if is_negative else (then, otherwise)


def _asks_for_first(test: re.Match[str], before: str, variables: Collection[str]) -> bool:
    """Whether a test is one for the number of the first pod."""
    subject, value = (test[side].strip("\"'") for side in ("subject", "value"))
    if value == "0":
        names = {_INDEX, *variables, *_ASSIGNED.findall(before)}
        name = re.fullmatch(r"\$?\{?([A-Za-z_]\w*)(?::-\w*)?\}?", subject)
        is_index = name is not None and name[1] in names
        return is_index or re.fullmatch(rf"\$\{{{_ENDS_WITH_INDEX}##\*-\}}", subject) is not None
    is_host = re.fullmatch(rf"\$\{{?{_ENDS_WITH_INDEX}\}}?|\$\(hostname\)|`hostname`", subject)
    return is_host is not None and value.endswith("-0") and test["sign"] not in ("-eq", "-ne")


def _marks(text: str) -> list[scanner.Token]:
    """The words of the outermost ``if`` of a text that divide it."""
    marks: list[scanner.Token] = []
    depth = 0
    for token in scanner.tokens(text):
        if token.kind != "word" or token.text not in ("if", "then", "elif", "else", "fi"):
            continue
        depth += token.text == "if"
        if depth == 1:
            marks.append(token)
        depth -= token.text == "fi"
    return marks


def _to_its_end(text: str) -> str:
    """A script up to where it exits, or waits without end: what is behind that is never run."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text
    for statement in statements:
        if statement.is_simple and _ENDS.match(text[statement.start : statement.end]):
            return text[: statement.end]
    return text


_ENDS = re.compile(r"exit\b|(?:exec\s+)?(?:\S*/)?(?:sshd\s+(?:\S+\s+)*-\w*D|sleep\s+inf|tail\s+-f)")
