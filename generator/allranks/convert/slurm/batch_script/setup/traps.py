"""What becomes of a trap of a script whose ranks a launcher starts: its shell is not there then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.steps import behind_step
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command

_TERM = "a pod's ranks get SIGTERM themselves: let the program handle it"
_AT_THE_END = "the shell of setup ends before the ranks do: make what it runs a run of its own"
_ON_FAILURE = (
    "the script's shell is not there where the ranks fail: let the program do it, or whoever "
    f"watches the run (`{names.CLI} attach` gives its exit code)"
)
_OF_SHELL = "the script's shell is not there where the ranks run, and only it has this trap"
_OTHER_SIGNAL = (
    "the script's shell has it, which is not there where the ranks run: let the program handle "
    "SIGTERM, which each rank gets as its pod ends, or the signal of runPolicy.checkpointSignal"
)
_NOTHING = "it changes the signals of the script's shell alone, which is not there with the ranks"
_REASONS = {
    **dict.fromkeys(("EXIT", "0"), _AT_THE_END),
    "ERR": _ON_FAILURE,
    **dict.fromkeys(("DEBUG", "RETURN"), _OF_SHELL),
    **dict.fromkeys(("TERM", "15"), _TERM),
}


def outcome_of(command: Command) -> tuple[Outcome, str]:
    """What becomes of a trap, and why.

    Args:
        command: the trap.
    """
    texts = [scanner.unquote(word.text) for word in command.words[1:]]
    texts = texts[1:] if texts[:1] == ["--"] else texts
    if len(texts) < 2 or texts[0] in ("", "-", "-p", "-l", "-P"):  # noqa: PLR2004 - what runs, and when
        return Outcome.CHANGED, _NOTHING
    signals = [text.upper().removeprefix("SIG") for text in texts[1:]]
    reasons = dict.fromkeys(_REASONS.get(signal, _OTHER_SIGNAL) for signal in signals)
    return Outcome.NOT_CARRIED, "; ".join(reasons)


def outcome_behind(command: Command) -> tuple[Outcome, str]:
    """What becomes of a trap behind the step, of which its end alone is left, and why.

    Args:
        command: the trap.
    """
    texts = [scanner.unquote(word.text) for word in command.words[1:]]
    runs = shell_text.commands_of(texts[0]) if {"EXIT", "0"} & {*texts[1:]} else []
    harmless = words.IDLE | words.ENDING | {"rm", "kill", "rmdir", "trap"}
    if all(words.any_of([word.text for word in own.words], harmless) for own in runs):
        return Outcome.CHANGED, behind_step.OVER
    return Outcome.NOT_CARRIED, "it stands behind the step: make what it runs a run of its own"
