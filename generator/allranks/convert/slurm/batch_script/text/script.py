"""A batch script as it is typed: its text, its statements, and the job that it asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import node_names, words
from allranks.errors import InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.convert.scanner import Command, Statement
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
    def commands(self) -> list[Command]:
        """The commands of its statements."""
        return [command for statement in self.statements for command in statement.commands]

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
        return words.line_with(self.text, matches)

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
