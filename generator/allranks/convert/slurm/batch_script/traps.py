"""What becomes of a trap of a script whose ranks a launcher starts: its shell is not there then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.convert import scanner
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.scanner import Command

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
_ENDING = frozenset({"EXIT", "0"})
_FAILING = frozenset({"ERR"})
_STEPPING = frozenset({"DEBUG", "RETURN"})
_TERMINATING = frozenset({"TERM", "15"})


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
    return Outcome.NOT_CARRIED, "; ".join(dict.fromkeys(_reasons(signals)))


def _reasons(signals: Sequence[str]) -> list[str]:
    """A reason for each signal, in their order."""
    reasons = []
    for signal in signals:
        if signal in _ENDING:
            reasons.append(_AT_THE_END)
        elif signal in _FAILING:
            reasons.append(_ON_FAILURE)
        elif signal in _STEPPING:
            reasons.append(_OF_SHELL)
        elif signal in _TERMINATING:
            reasons.append(_TERM)
        else:
            reasons.append(_OTHER_SIGNAL)
    return reasons
