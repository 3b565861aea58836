"""Here-documents: their lines, and those that are the text of a variable or of a step's shell.

``read -r -d '' CODE <<EOF`` and ``CODE=$(cat <<EOF`` set one. A script that starts such a text, as
``srun bash -c "$CODE"``, has its program there. It is read like any other text of a variable, so
that the document becomes one in quotes, with its lines where they are. So does that of ``srun bash
<<EOF``, which srun gives to the shell of each task.
"""

from __future__ import annotations

import re

from allranks.convert.slurm.batch_script.text import shell_text, substitutions, words

_SET = re.compile(
    r"^(?P<indent>[ \t]*)(?:read(?:[ \t]+-[a-z]*r[a-z]*)?[ \t]+-[a-z]*d[ \t]*(?:''|\"\")[ \t]+"
    r"(?P<name>[A-Za-z_]\w*)|(?P<own>[A-Za-z_]\w*)=\"?\$\([ \t]*cat)[ \t]*"
    r"<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*"
    r"(?:\|\|[ \t]*(?:true|:))?[ \t]*\n"
    r"(?P<document>(?:.*\n)*?)(?P<close>[ \t]*)(?P=end)[ \t]*$",
    re.MULTILINE,
)
_OF_STEP = re.compile(
    r"^(?P<before>[ \t]*(?:\w+=\S*[ \t]+)*srun\b(?:\\\n|[^\n<>|;&#'\"`(])*[ \t/](?:ba)?sh)"
    r"(?P<options>(?:[ \t]+-[a-z-]*)*)(?P<words>(?:[ \t]+[\w./${}-]+)*)[ \t]*"
    r"<<(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<document>(?:.*\n)*?)(?P<close>[ \t]*)(?P=end)[ \t]*$",
    re.MULTILINE,
)
# A line that writes a document into a file, and does nothing else.
_WRITING = re.compile(
    r"^[ \t]*(?:cat|tee)\b(?:[^|;&\n>]*(?:>>?[ \t]*(?P<target>[^\s|;&<>]+))[^|;&\n>]*"
    r"|[ \t]+(?:-a[ \t]+)?(?P<file>[^\s|;&<>-][^\s|;&<>]*)[^|;&\n>]*(?:>[ \t]*/dev/null[ \t]*)?)$"
)
# What a line does with a file that it does not start; sbatch has words of its own.
_STARTS_NOT = re.compile(
    r"^[ \t]*(?:chmod|echo|printf|cat|tee|rm|mv|cp|ls|sed|dos2unix)\b[^|;&]*$|\bsbatch\b"
)
# Also where the line is kept from being run: `: sbatch <<EOF`.
_SUBMITS = re.compile(
    r"(?:^|[;&|({]|\b(?:then|do|else)\b)[ \t]*(?::[ \t]+)?(?:\w+=\$\()?sbatch\b[^|;&\n]*<<"
)
_SHOWS = re.compile(r"cat[ \t]*<<-?[ \t]*[\w'\"\\]+[ \t]*(?:1?>[ \t]*&2)?")
_CLOSING = re.compile(r"\n[ \t]*\)\"?[ \t]*$", re.MULTILINE)


def lines(text: str) -> set[int]:
    """The numbers of the lines that are texts of here-documents, and none of the script."""
    return {
        line
        for start, end in words.documents(text)
        for line in range(text.count("\n", 0, start) + 1, text.count("\n", 0, end) + 1)
    }


def only_written(code: str) -> list[tuple[int, int, str]]:
    """The documents that are written into a file which the script does not start.

    Args:
        code: lines of a shell.

    Returns:
        Where each begins and ends, and the line that writes it.
    """
    places = words.documents(code)
    rest = code
    for start, end in reversed(places):
        rest = rest[:start] + rest[end:]
    rows = [row for row in map(_plain, rest.split("\n")) if not _STARTS_NOT.search(row)]
    written = []
    for start, end in places:
        head = code[code.rfind("\n", 0, start - 1) + 1 : start - 1]
        match = _WRITING.match(head)
        file = _plain(match["target"] or match["file"]).rpartition("/")[2] if match else ""
        if file and not any(file in row for row in rows if row != _plain(head)):
            written.append((start, end, head.strip()))
    return written


def without_written(code: str) -> str:
    """The code without such documents, but for the commands that write parts of them.

    Nor has it those that are another job, as ``sbatch <<EOF``, or that a `cat` shows.
    """
    places = [*only_written(code), *_for_nobody_here(code)]
    for start, end, head in sorted(places, reverse=True):
        is_as_typed = re.search(r"<<-?[ \t]*['\"\\\\]", head) is not None
        parts = [] if is_as_typed else substitutions.texts(code[start:end])
        code = "\n".join([code[:start], *parts, code[end:]])
    return code


def _for_nobody_here(code: str) -> list[tuple[int, int, str]]:
    """The documents that sbatch reads, or nobody does, as :func:`only_written` gives them."""
    heads = [
        (start, end, code[code.rfind("\n", 0, start - 1) + 1 : start - 1].strip())
        for start, end in words.documents(code)
    ]
    return [place for place in heads if _SUBMITS.search(place[2]) or _SHOWS.fullmatch(place[2])]


def _plain(text: str) -> str:
    """A text without quotes and braces: two ways to name a file are the same."""
    return re.sub(r"[\"'{}]", "", text)


def inline(text: str) -> str:
    """The script with such a document as a text in quotes, where a shell is started with it.

    Args:
        text: a script.
    """
    text = _OF_STEP.sub(_with_text, text)
    at = 0
    while (match := _SET.search(text, at)) is not None:
        at = match.end()
        name, end = match["name"] or match["own"], match.end()
        if match["own"]:
            closing = _CLOSING.match(text, end)
            end = closing.end() if closing is not None else -1
        is_started = re.search(rf"(?:-\w*c|\beval)[ \t]+\"?\$\{{?{name}\b", text[at:]) is not None
        is_whole = not match["close"].strip("\t" if match["tabs"] else "")
        value = _quoted(match) if is_started and is_whole and end >= 0 else ""
        if value:
            lines = "\n" * text.count("\n", match.end(), end)
            text = f"{text[: match.start()]}{match['indent']}{name}={value}{lines}{text[end:]}"
    return text


def _with_text(match: re.Match[str]) -> str:
    """A step whose shell has the document behind its -c, where it is the shell's whole input."""
    options = [option for option in match["options"].split() if option not in ("-", "-s")]
    has_words = "-s" in match["options"].split()
    is_whole = not match["close"].strip("\t" if match["tabs"] else "")
    value = _quoted(match) if is_whole and (has_words or not match["words"]) else ""
    if not value:
        return match[0]
    arguments = f" bash{match['words']}" if match["words"] else ""
    return f"{' '.join([match['before'], *options])} -c {value}{arguments}"


def _quoted(match: re.Match[str]) -> str:
    """The document in quotes in which a shell reads it as there; "" where none has that."""
    document = match["document"]
    if match["tabs"]:
        document = re.sub(r"^\t+", "", document, flags=re.MULTILINE)
    if match["quote"]:
        return f"'\n{document}'" if "'" not in document else ""
    # There a backslash before a quote is one, and a quote needs none.
    return '"\n' + re.sub(r"(\\?)\"", lambda quote: quote[1] * 2 + '\\"', document) + '"'


def lines_in_quotes(text: str) -> set[int]:
    """The lines that begin within a text in quotes of a script: ``echo "#!/bin/bash``."""
    lines: set[int] = set()
    for command in shell_text.commands_of(text):
        for token in (*command.assignments, *command.words):
            rows = token.text.count("\n") if {*token.text[-1:]} & {*"\"'"} else 0
            first = text.count("\n", 0, token.start) + 2
            lines |= {*range(first, first + rows)}
    return lines
