"""A batch script as it is typed: its text, its statements, and the job that it asks for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import node_names, shell_text, words
from allranks.errors import InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size
    from allranks.workspace.contents import Contents


@dataclass(frozen=True)
class Script:
    """A batch script.

    Attributes:
        text: its text.
        source: its name, for problems.
        size: the size that its directives ask for.
        settings: its directives.
        args: words behind its name.
        statements: its statements.
        contents: what is sent of the folder that it is submitted from; None where nobody knows.
    """

    text: str
    source: str
    size: Size
    settings: list[Setting]
    args: list[str]
    statements: list[Statement] = field(default_factory=list)
    contents: Contents | None = None

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.split("\n")

    @cached_property
    def _code(self) -> list[str]:
        """Its lines without their comments."""
        return words.without_comments(self.text).split("\n")

    @cached_property
    def commands(self) -> list[Command]:
        """The commands of its statements."""
        return [command for statement in self.statements for command in statement.commands]

    @cached_property
    def assignment_counts(self) -> Counter[str]:
        """How often each variable is assigned."""
        return Counter(
            name for command in self.commands for name, _ in shell_text.assigned_by(command)
        )

    @cached_property
    def assigned_texts(self) -> dict[str, list[str]]:
        """What each variable is assigned, as typed, in the script's order."""
        texts: dict[str, list[str]] = {}
        for command in self.commands:
            for name, value in shell_text.assigned_by(command):
                texts.setdefault(name, []).append(value)
        return texts

    @cached_property
    def arrays(self) -> set[str]:
        """The variables that some command makes an array, or sets a part of."""
        return {name for command in self.commands for name in shell_text.arrays_of(command)}

    @cached_property
    def functions(self) -> dict[str, Statement]:
        """The statements that define functions, by the name of each."""
        return {own.function: own for own in self.statements if own.function}

    @cached_property
    def removed_names(self) -> set[str]:
        """The variables that some command takes out of the environment."""
        return {name for command in self.commands for name in shell_text.removed_by(command)}

    @cached_property
    def readers(self) -> dict[str, list[Statement]]:
        """The statements that read each variable, in their order."""
        readers: dict[str, list[Statement]] = {}
        for statement in self.statements:
            for name, _ in words.variables(self.slice(statement)):
                readers.setdefault(name, []).append(statement)
        return readers

    @cached_property
    def _first_starts(self) -> dict[Callable[[Statement], bool], float]:
        return {}

    def has_before(self, statement: Statement, matches: Callable[[Statement], bool]) -> bool:
        """Whether something is true of a statement before another one.

        Args:
            statement: the other one.
            matches: what is asked; a function of a module, as each is asked once.
        """
        if matches not in self._first_starts:
            starts = (other.start for other in self.statements if matches(other))
            self._first_starts[matches] = min(starts, default=math.inf)
        return self._first_starts[matches] < statement.start

    def sends(self, path: str) -> bool:
        """Whether it is known that a file or folder below the one that is sent goes with it."""
        return self.contents is not None and self.contents.has(path)

    def slice(self, statement: Statement) -> str:
        """A statement as it stands in the script."""
        return self.text[statement.start : statement.end]

    def setting(self, statement: Statement, name: str) -> str:
        """A statement that sets a variable as it stands; as an assignment, where it reads nodes."""
        read = [pair for command in statement.commands for pair in node_names.read_into(command)]
        return next((f"{own}={text}" for own, text in read if own == name), self.slice(statement))

    def line_with(self, matches: Callable[[str], object]) -> int:
        """The first line that is no comment and of which something is true; 0 for none."""
        return next((number for number, row in enumerate(self._code, 1) if matches(row)), 0)

    def says_nodes(self) -> bool:
        """Whether the job's options say how many nodes it has; Slurm chooses otherwise."""
        names = {setting.name for setting in self.settings}
        is_single_task = self.size.task_count == 1 and not self.size.gpus
        by_tasks = "ntasks" in names and bool(names & {"ntasks-per-node", "tasks-per-node"})
        return is_single_task or by_tasks or "nodes" in names

    def refuse(self, line: int, message: str, hint: str) -> InvalidValues:
        """An error with one problem and its line."""
        source = f"{self.source}:{line}"
        return InvalidValues([Problem(path="", message=message, hint=hint, source=source)])
