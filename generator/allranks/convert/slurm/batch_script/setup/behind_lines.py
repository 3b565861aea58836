"""Lines behind the step with the ranks, with whose end a run is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.setup import traps
from allranks.convert.slurm.batch_script.steps import behind_step
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body

_DEACTIVATING = (["source", "deactivate"], [".", "deactivate"])
# What may stand behind the step, besides what only prints.
_BEHIND = frozenset(
    {"module", "ml", "conda", "scontrol", "sacct", "seff", "sstat", "squeue", "scancel"}
    | {"jobstats", "kill", "pkill", "cd", "pushd", "popd", "export"}
)
REQUEUES = (
    "it has the job start again, and no run does so itself: let the program handle SIGTERM, and "
    "runPolicy.backoffLimit start it again, without the limit of --time"
)
_OPTIONS_ALONE = (
    "it is no command, so that Slurm's shell did not run it either: where it is the rest of the "
    "line before, that one has to end with a backslash"
)


def _requeues(command: Command) -> bool:
    """Whether a command has the job start again: ``scontrol requeue $SLURM_JOB_ID``."""
    texts = [scanner.unquote(word.text) for word in command.words]
    return words.any_of(texts, ("scontrol",)) and "requeue" in texts[1:3]


def say(script: Script, body: Body, statement: Statement) -> None:
    """Say what becomes of a statement behind the step.

    Args:
        script: the script.
        body: what it runs.
        statement: the statement.
    """
    text = script.slice(statement)
    functions = {
        other.function
        for other in script.statements
        if other.function and shell_text.runs_only(other, words.IDLE)
    }
    first = statement.commands[0] if statement.is_simple else None
    requeues = any(map(_requeues, statement.commands))
    only_ends = text.split() in _DEACTIVATING or shell_text.runs_only(
        statement, words.IDLE | words.ENDING | _BEHIND | functions
    )
    is_harmless = only_ends and not any(map(shell_text.writes, statement.commands))
    removals = [
        own for own in statement.commands if not words.any_of([own.name], words.IDLE | {":"})
    ]
    is_harmless |= bool(removals) and all(
        behind_step.removes_own(script, [word.text for word in own.words]) for own in removals
    )
    if statement.function:
        why = "nothing before the step calls it"
        body.say(statement.line, text, Outcome.CHANGED, "", why)
    elif first is not None and "\n" in scanner.unquote(first.name):
        body.say(statement.line, text, Outcome.CHANGED, "", "it is a text, and no command")
    elif first is not None and first.name == "trap":
        outcome, why = traps.outcome_behind(first)
        body.say(statement.line, text, outcome, "", why)
    elif requeues and is_harmless:
        body.say(statement.line, text, Outcome.NOT_CARRIED, "", REQUEUES)
    elif is_harmless:
        why = behind_step.why_over(statement.commands)
        body.say(statement.line, text, Outcome.CHANGED, "", why)
    else:
        copies = all(
            behind_step.copies_files([word.text for word in own.words]) for own in removals
        )
        behind = behind_step.BESIDE if statement.in_background else behind_step.BEHIND
        behind = behind_step.OF_FILES if removals and copies else behind
        if any(words.reaches_other_host([word.text for word in own.words]) for own in removals):
            behind = behind_step.BY_SSH
        why = _OPTIONS_ALONE if text.startswith("-") else behind
        body.say(statement.line, text, Outcome.NOT_CARRIED, "", why)
