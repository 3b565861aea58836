"""A job while it is being converted: its options, what became of them, and the values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert.slurm import sizes
from allranks.convert.slurm.batch_script.text import script_reading
from allranks.errors import InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script_reading import Body
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size
    from allranks.convert.verdicts import Fields, Outcome

OF_STEP = "srun "  # before the options of a step


@dataclass(slots=True)
class Draft:
    """A job while it is being converted.

    Attributes:
        source: the script's name.
        own: its directives and statements, as the fields of the report.
        fields: the same, what became of them, and the values.
        lines: the line of each of them.
        settings: the options, a later one of a name in place of an earlier one.
        size: what they ask for.
        body: what the script runs.
        text: the script.
        has_own_folder: whether a container had the folder that the job was submitted from, and so
            what was written there stayed.
    """

    source: str
    own: dict[str, str]
    fields: Fields
    lines: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    size: Size = field(default_factory=sizes.Size)
    body: Body = field(default_factory=script_reading.Body)
    text: str = ""
    has_own_folder: bool = False

    def key(self, text: str, line: int) -> str:
        """A field of the report, which the source gets."""
        key, number = text, 1
        while key in self.own:
            number += 1
            key = f"{text} ({number})"
        self.own[key] = text
        self.lines[key] = line
        return key

    def put(self, name: str, to: tuple[str, ...], value: Any) -> None:
        """Set a value that an option ends in."""
        self.fields.put(to, value, (key_of(name),))

    def say(self, name: str, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of an option, if it was given."""
        self.fields.say((key_of(name),), outcome, to, why)

    def origin(self, names_of: Sequence[str]) -> tuple[str, ...]:
        """The field of the first of some options that was given; () for none."""
        name = next((name for name in names_of if name in self.settings), "")
        return (key_of(name),) if name else ()

    def refuse(self, line: int, message: str, hint: str) -> InvalidValues:
        """A problem with its line."""
        return InvalidValues(
            [Problem("", message, hint, f"{self.source}:{line}" if line else self.source)]
        )


def key_of(name: str) -> str:
    """The field of the report of an option; that of a step's has its key as its name."""
    return name if name.startswith(OF_STEP) else f"--{name}"
