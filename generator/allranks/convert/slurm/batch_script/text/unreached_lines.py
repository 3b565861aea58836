"""Lines that no shell reaches.

Those behind an ``exit`` of the whole script are old ones, or a trial's; those of an
``if [ -z "$SLURM_JOB_ID" ]`` submit the script where it is run by hand.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm import options
from allranks.convert.slurm.batch_script.text import parsing, shell_text, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script


_IS_EMPTY = r"-z[ \t]+\"?\$(?:SLURM_JOB_?ID|\{SLURM_JOB_?ID(?::?[-+]x?)?\})\"?"
# A test among others all of which have to hold: ``[ -z "$A" ] && ``, ``[[ -z $A && ``.
_OTHER = r"(?:[^][\n;&|()]|(?<=\$)\{[^}\n]*\})+"
_NO_JOB = re.compile(
    rf"if[ \t]+(?:\[\[?[ \t]{_OTHER}\]\]?[ \t]*&&[ \t]*)*"
    rf"\[\[?[ \t]+(?:{_OTHER}&&[ \t]*)*{_IS_EMPTY}[ \t]+(?:&&{_OTHER})*\]\]?"
    rf"(?:[ \t]*&&[ \t]*\[\[?[ \t]{_OTHER}\]\]?)*[ \t]*[;\n]\s*then\b"
)
_IS_JOB = "a pod has the number of a job, as Slurm's own have: nothing runs what stands here"


_JOB = re.compile(
    r"if[ \t]+\[\[?[ \t]+(?:-n[ \t]+)?\"?\$\{?SLURM_(?:JOB_?ID|SUBMIT_DIR)(?::?[-+]x?)?\}?\"?"
    r"[ \t]+\]\]?[ \t]*[;\n]\s*then\b"
)
# What a line does where there is no such folder: `cd "$SLURM_SUBMIT_DIR" || cd a`.
_OTHERWISE = re.compile(
    r"(\b(?:cd|pushd)[ \t]+\"?\$\{?SLURM_SUBMIT_DIR\}?\"?[ \t]*(?:[0-9&]*>[ \t]*[^\s|&]+[ \t]*)*)"
    r"\|\|(?:[^\n\\]|\\\n)*"
)
_DEFAULT = re.compile(r"\$\{SLURM_SUBMIT_DIR:?-(?:[^{}]|\{[^{}]*\})*\}")


# The path of the script itself.
OWN_PATH = re.compile(r"\$(?:0\b|\{0[^0-9}]*\}|\{?BASH_SOURCE\b)")
# Options in a variable or an array, of which nobody knows how many there are.
_OF_VARIABLE = re.compile(r"\$(?!0\b)(?:\w+|\{(?!0|BASH_SOURCE)\w+(?:\[[@*]\])?[^{}]*\})")
_SEMICOLON = re.compile(r"\A[ \t]*;")
# Options of a submission that no value lacks.
_OF_NO_POD = frozenset({"job-name", "comment", "extra", "export"})
_ITS_OPTIONS = (
    "these are options of the job, which the script gives as it submits itself: write them as "
    f"#SBATCH lines, or behind `{names.CLI} sbatch`"
)


def without_others(script: Script, code: str) -> str:
    """The code without what a shell runs that is no job's: the `else` of a job's branch.

    Args:
        script: the script.
        code: lines of it.
    """
    for statement in script.statements:
        if _JOB.match(script.text, statement.start):
            for command in statement.commands:
                if command.branches[0][1] > 0:
                    code = code.replace(script.text[command.start : command.end], "")
    return without_defaults(code)


def without_defaults(code: str) -> str:
    """The code without what stands for the folder of the submission where it is run by hand.

    Args:
        code: lines of a script.
    """
    return _OTHERWISE.sub(r"\1", _DEFAULT.sub("", code))


def cut(text: str, job_options: Collection[str]) -> tuple[str, list[Verdict]]:
    """A script without the lines that no shell reaches, and what to say of them.

    Args:
        text: a script.
        job_options: the names of the job's options.
    """
    if parsing.interpreter(text.split("\n", 1)[0]) not in shell_text.SHELLS:
        return text, []
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text, []  # who reads the script says why
    text, verdicts = _cut_end(text, statements)
    for statement in reversed(statements):
        reached = _reached(text, statement)
        if reached is None:
            continue
        path = shell_text.short(text[statement.start : statement.end])
        verdicts[:0] = [
            Verdict(path, Outcome.CHANGED, "", _IS_JOB, statement.line),
            *_options_of_job(text, _outside(statement, reached), job_options),
        ]
        # The lines behind keep their numbers.
        end = len(text) - len(_SEMICOLON.sub("", text[statement.end :], count=1))
        before, behind = text[statement.start : reached.start], text[reached.stop : end]
        blanks = [re.sub(r"[^\n]", "", part) for part in (before, behind)]
        inner = text[reached.start : reached.stop].join(blanks)
        text = f"{text[: statement.start]}{inner}{text[end:]}"
    return text, verdicts


def _reached(text: str, statement: Statement) -> range | None:
    """Where the lines of an ``if`` stand that a job runs, of those that ask whether it is one.

    None for any other statement, and for one whose branches a job may both run.
    """
    part = text[statement.start : statement.end]
    by_hand, in_job = _NO_JOB.match(part), _JOB.match(part)
    first = [own for own in statement.commands if _branch(own) == 0]
    second = [own for own in statement.commands if _branch(own) == 1]
    if by_hand is None and (in_job is None or not _submissions(text, second)):
        return None
    if len(first) == len(statement.commands):
        return range(statement.end, statement.end)
    tokens = [token for token in scanner.tokens(part) if token.kind == "word"]
    if len(first) + len(second) < len(statement.commands) or tokens[-1].text != "fi":
        return None
    floor = first[-1].end if first else statement.start
    between = range(floor - statement.start, second[0].start - statement.start)
    middles = (own for own in tokens if own.start in between and own.text in ("else", "elif"))
    middle = next(middles, None)
    if middle is None or middle.text == "elif":
        return None
    places = (middle.end, tokens[-1].start) if in_job is None else (in_job.end(), middle.start)
    return range(*(statement.start + place for place in places))


def _branch(command: Command) -> int:
    """The number of the branch of its outermost ``if`` in which a command stands; -1 for none."""
    return command.branches[0][1] if command.branches else -1


def _outside(statement: Statement, place: range) -> list[Command]:
    """The commands of a statement that stand outside of a place in the script."""
    return [command for command in statement.commands if command.start not in place]


def _submissions(text: str, commands: Sequence[Command]) -> list[tuple[int, list[str]]]:
    """The words of each sbatch among commands, and in what they put in, with its line."""
    submissions = []
    for command in commands:
        inner = shell_text.substituted_commands(text[command.start : command.end])
        for own in (command, *inner):
            typed = words.unwrapped([scanner.unquote(word.text) for word in own.words])
            if words.any_of(typed, ("sbatch",)):
                submissions.append((command.line, typed))
    return submissions


def _options_of_job(
    text: str, commands: Sequence[Command], job_options: Collection[str]
) -> list[Verdict]:
    """Say which options the script gives itself as it submits itself, and no directive has."""
    verdicts = []
    for line, typed in _submissions(text, commands):
        settings, rest = options.parse(typed[1:], "sbatch", line)
        while rest and _OF_VARIABLE.fullmatch(rest[0]):
            others, rest = options.parse(rest[1:], "sbatch", line)
            settings = [*settings, *others]
        own_options = [
            f"--{setting.name}"
            for setting in settings
            if setting.option is not None
            and setting.option.to
            and setting.name not in _OF_NO_POD
            and setting.name not in job_options
        ]
        if own_options and OWN_PATH.search("".join(rest[:1])):
            path = " ".join(["sbatch", *own_options])
            verdicts.append(Verdict(path, Outcome.NOT_CARRIED, "", _ITS_OPTIONS, line))
    return verdicts


def _cut_end(text: str, statements: Sequence[Statement]) -> tuple[str, list[Verdict]]:
    """The script up to the first ``exit`` that always ends it, and a word of the lines behind."""
    for statement, behind in pairwise(statements):
        between = text[statement.end : behind.start].lstrip(" \t")
        if _ends_script(statement) and between.startswith((";", "\n", "#")):
            path = shell_text.short(text[behind.start : behind.end])
            why = f"the script ends in line {statement.line}, and nothing runs the lines behind"
            verdict = Verdict(path, Outcome.CHANGED, "", why, behind.line)
            return f"{text[: statement.end]}\n", [verdict]
    return text, []


def _ends_script(statement: Statement) -> bool:
    """Whether a statement always ends the shell: ``exit $?``, or ``exec`` with a program."""
    if not statement.is_simple or statement.in_background:
        return False
    command = statement.commands[0]
    return command.name == "exit" or (command.name == "exec" and len(command.words) > 1)
