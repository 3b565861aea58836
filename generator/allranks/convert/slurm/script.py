"""A batch script and what is known of it: constants, parts of commands, and what was said of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks.convert import scanner
from allranks.convert.slurm import first_node, options, shell_text, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.errors import InvalidValues, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size

_DEEPEST, _LONGEST = (
    8,
    100_000,
)  # of variables within variables, and characters of what comes of them
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What variables with options of srun's are called.
_OPTIONS = re.compile(r"(?:ARG|OPT|FLAG|PARAM)(?:S|IONS?)?$", re.IGNORECASE)
# What begins as a program that starts others, or as options.
_COMMAND_LIKE = re.compile(
    r"\A\s*(?:-{1,2}[A-Za-z]"
    r"|(?:[\w./~${}-]*/)?(?:torchrun|accelerate|deepspeed|python[0-9.]*|mpirun|mpiexec|srun|bash)(?:\s|\Z)"
    r"|\$\{?[A-Za-z_]\w*\}?\s)"
)


@dataclass(frozen=True, slots=True)
class Limit:
    """What ends a step after a time: ``timeout 4h srun python a.py``.

    Attributes:
        line: where it stands.
        text: as typed.
        seconds: the time.
    """

    line: int
    text: str
    seconds: int


@dataclass(slots=True)
class Body:
    """What a script runs.

    Attributes:
        workload: torchrun or mpi.
        setup: shell before it, once in each pod.
        command: what each rank runs.
        script: the same as a file, for one process; "" where there is a command.
        env: variables.
        working_dir: where it starts; "" for the image's own.
        values: further values: torchrun, mpi.
        nodes: how many nodes run it.
        procs_per_node: how many ranks a node has; 0 for one per GPU.
        verdicts: what became of each statement.
        notes: what a person should know besides.
        settings: the options of the srun that starts it.
        step_outcomes: by the name of such an option, what became of it instead of its rule.
        uses_slurm: whether it reads SLURM_ variables.
        goes_back: whether it goes to the folder that it is submitted from.
        reads_folder: whether a line of setup may do something else in another folder.
        limit: what ends the step after a time; None for nothing.
        uncounted: the numbers of tasks that sbatch would not have told the script.
        reads_name: the line that reads the job's name for more than to print it; 0 for none.
    """

    workload: str = "torchrun"
    setup: str = ""
    command: list[str] = field(default_factory=list)
    script: str = ""
    env: dict[str, str] = field(default_factory=dict)
    working_dir: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    nodes: int | None = None
    procs_per_node: int | None = None
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    step_outcomes: dict[str, tuple[Outcome, str, str]] = field(default_factory=dict)
    uses_slurm: bool = False
    goes_back: bool = False
    reads_folder: bool = False
    limit: Limit | None = None
    uncounted: list[str] = field(default_factory=list)
    reads_name: int = 0


@dataclass(slots=True)
class Step:
    """A command that starts processes.

    Attributes:
        statement: the number of its statement.
        command: the command.
        settings: srun's options; [] without srun.
        words: the words that it starts, as typed.
        is_srun: whether srun starts it.
        size: the size that srun has.
        is_multi: whether it starts several ranks that belong together.
        expansions: the variables whose text stands in its words.
    """

    statement: int
    command: Command
    settings: list[Setting]
    words: list[str]
    is_srun: bool
    size: Size
    is_multi: bool
    expansions: frozenset[str] = frozenset()


class Script:
    """A batch script while it is read."""

    def __init__(
        self, text: str, source: str, size: Size, settings: Sequence[Setting], args: Sequence[str]
    ) -> None:
        self.text = text
        self.source = source
        self.size = size
        self.job_settings = list(settings)
        self.args = list(args)
        self.body = Body()
        self.constants = self._slurm_constants()
        self.statements: list[Statement] = []
        self.dropped: set[str] = set()  # variables that the launcher sets, or nobody needs
        self.meeting: set[str] = set()  # those of them that say where the ranks meet
        self.local: set[str] = set()  # those that have this node's name in a script of one node
        self.late: list[Statement] = []  # what reads these, and each process runs for itself
        self.set_names: set[str] = set()
        self.lines = text.split("\n")
        self.parts: dict[str, str] = {}  # variables that are parts of a command, as shell text
        self.whole: dict[str, str] = {}  # those that are set once, with their lines
        self.quoted: dict[str, str] = {}  # others whose text has quotes, for who parses it again
        self.scripts: dict[str, str] = {}  # whose text is more than words to a shell
        self.literal: set[str] = set()  # options with quotes, which only who parses them takes off
        self.contents: dict[str, list[str]] = {}  # what each variable is set to, as shell text
        self.conditional: dict[str, int] = {}  # those before a program, with their lines
        self.place = -1  # the statement of the step
        self.input = ""  # the file that mpirun passes to rank 0, as shell text
        self.maybe: set[str] = set()  # variables with options, or with nothing
        self.expansions: set[str] = set()  # those of them that have been put in
        self.has_launcher = False  # whether a pod besides those of the nodes runs setup, too
        self.has_torchrun = False  # whether the step is a torchrun, which the chart starts
        self.may_launch = False  # whether the step is a script that may start a torchrun
        self.profilers: dict[int, str] = {}  # what measured a launcher, by id of its command
        self.limits: dict[int, str] = {}  # what ends a launcher after a time, by the same
        self.side: dict[int, Step] = {}  # steps that prepare the nodes, by id of their command

    def say(self, line: int, path: str, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of a statement or a part of one.

        Args:
            line: where it stands.
            path: its text.
            outcome: carried, changed or not carried.
            to: the value that has it; "" for none.
            why: the reason, where it is not carried as it is.
        """
        self.body.verdicts.append(Verdict(shell_text.short(path), outcome, to, why, line))

    def refuse(self, line: int, message: str, hint: str) -> InvalidValues:
        """An error with one problem."""
        return InvalidValues([self.problem(line, message, hint)])

    def problem(self, line: int, message: str, hint: str) -> Problem:
        """A problem with its line."""
        return Problem(path="", message=message, hint=hint, source=f"{self.source}:{line}")

    def slice(self, statement: Statement) -> str:
        """A statement as it stands in the script."""
        return self.text[statement.start : statement.end]

    def _slurm_constants(self) -> dict[str, str]:
        size = self.size
        nodes = size.node_count
        node_count = nodes if self._says_nodes() else None
        constants = {
            "SLURM_NNODES": node_count,
            "SLURM_JOB_NUM_NODES": node_count,
            "SLURM_NTASKS": size.task_count,
            "SLURM_NPROCS": size.task_count,
            "SLURM_NTASKS_PER_NODE": size.per_node,
            "SLURM_TASKS_PER_NODE": size.per_node,
            "SLURM_CPUS_PER_TASK": size.cpus_per_task,
            "SLURM_GPUS_ON_NODE": size.gpus_per_node or size.gpus,
            "SLURM_GPUS_PER_NODE": size.gpus_per_node or size.gpus,
            "SLURM_GPUS": (size.gpus_per_node or 0) * nodes or size.gpus,
        }
        per_task = [
            re.fullmatch(r"(?:[\w.-]+:)?([1-9][0-9]{0,3})", setting.value, re.ASCII)
            for setting in self.job_settings
            if setting.name == "gpus-per-task"
        ]
        constants["SLURM_GPUS_PER_TASK"] = (
            int(per_task[-1][1]) if per_task and per_task[-1] else None
        )
        return words.text_of_counts(constants)

    def _says_nodes(self) -> bool:
        """Whether the job's options say how many nodes it has; Slurm chooses otherwise."""
        names = {setting.name for setting in self.job_settings}
        is_single_task = self.size.task_count == 1 and not self.size.gpus
        by_tasks = "ntasks" in names and bool(names & {"ntasks-per-node", "tasks-per-node"})
        return is_single_task or by_tasks or "nodes" in names

    def _collect_constants(self) -> None:
        counts: dict[str, int] = {}
        for statement in self.statements:
            for command in statement.commands:
                for name, _ in shell_text.assigned_by(command):
                    counts[name] = counts.get(name, 0) + 1
                    self.set_names.add(name)
                self.set_names.update(shell_text.printed_into(command))
                if command.name in ("read", "mapfile", "readarray", "getopts", "for", "select"):
                    self.set_names.update(
                        word.text for word in command.words[1:] if _NAME.fullmatch(word.text)
                    )
        # The variable of a loop stands in its head, which has no command.
        self.set_names.update(re.findall(r"\bfor\s+\(*\s*([A-Za-z_]\w*)", self.text))
        self.set_names.update(re.findall(r"\bselect\s+([A-Za-z_]\w*)", self.text))
        self.set_names.update(re.findall(r"\(\(\s*([A-Za-z_]\w*)\s*[-+*/]?=", self.text))
        for name in counts:
            self.constants.pop(name, None)  # Slurm's own, which the script sets anew
        for statement in self.statements:
            for command in statement.commands:
                if shell_text.is_conditional(statement, command):
                    continue
                for name, value in shell_text.assigned_by(command):
                    if counts[name] > 1 and name != "MASTER_PORT":
                        continue
                    constant = words.resolve(value, self.constants)
                    if constant == "gpu":
                        constant = self.constants.get("SLURM_GPUS_ON_NODE")
                    if constant is not None:
                        self.constants[name] = constant

    def _collect_parts(self) -> None:
        """Find the variables that have words of a command: ``LAUNCHER="torchrun --nnodes 2"``."""
        unsure: set[str] = set()
        contents = self.contents
        for statement in self.statements:
            for command in statement.commands:
                for name, typed in shell_text.assigned_by(command):
                    value = typed
                    if self.size.node_count > 1:
                        value, _ = first_node.with_rank_zero(typed, self.set_names)
                    contents.setdefault(name, []).append(shell_text.content_of(value).strip())
                    self.whole[name] = shell_text.lines_of(value)
                    if shell_text.is_conditional(statement, command):
                        unsure.add(name)
                        continue
                    is_added = any(
                        word.text.startswith(f"{name}+=")
                        for word in (*command.assignments, *command.words)
                    )
                    content = shell_text.content_of(value)
                    own = self.parts.get(name, "")
                    if is_added:
                        content = (
                            f"{own} {content}".strip() if value.startswith("(") else own + content
                        )
                    elif name in {other for other, _ in words.variables(value)}:
                        pattern = rf"\$\{{?{name}(?:\[[@*]\])?\}}?"
                        content = shell_text.put(pattern, own, content)
                    self.parts[name] = content
                    if shell_text.is_script(value):
                        self.scripts[name] = shell_text.script_of(value)
        self.maybe = {
            name for name, texts in contents.items() if all(text[:1] in ("", "-") for text in texts)
        }
        self._sort_parts(unsure)

    def _sort_parts(self, unsure: set[str]) -> None:
        """Keep the variables that are parts of a command, apart from those with quotes in them."""
        texts = {name: text for name, text in self.parts.items() if name not in unsure}
        self.whole = {
            name: text
            for name, text in self.whole.items()
            if name in texts and len(self.contents[name]) == 1
        }
        self.parts = {name: text for name, text in texts.items() if _COMMAND_LIKE.search(text)}
        arrays = {
            name
            for statement in self.statements
            for command in statement.commands
            for name in texts
            if shell_text.is_array(command, name)
        }
        for name in texts.keys() - arrays - words.RENDEZVOUS:
            whole = shell_text.SUBSTITUTION.sub("", self._expanded(texts[name], texts))
            if ("'" in whole or '"' in whole) and not words.names_nodes(whole):
                self.quoted[name] = texts[name]
                self.literal |= {name} if texts[name].lstrip().startswith("-") else set()
        self.scripts = {
            name: text
            for name, text in self.scripts.items()
            if name in texts and len(self.contents[name]) == 1 and not words.names_nodes(text)
        }
        self.expansions = set()

    def _srun(self, texts: Sequence[str], line: int) -> tuple[list[Setting], list[str]]:
        """Srun's options, and the words behind them without their quotes."""
        settings, rest = options.parse([scanner.unquote(text) for text in texts], "srun", line)
        while len(rest) > 1 and self._is_of_options(name := shell_text.variable_alone(rest[0])):
            self.conditional.setdefault(name, line)
            more, rest = options.parse(rest[1:], "srun", line)
            settings += more
        step_settings = []
        for setting in settings:
            value = setting.value
            position = re.fullmatch(r"\$\{?([1-9])\}?", value)
            if position is not None and int(position[1]) <= len(self.args):
                value = self.args[int(position[1]) - 1]
            if "$" in value:
                value = words.resolve(value, self.constants) or words.partly(value, self.constants)
            step_settings.append(replace(setting, value=value))
        return step_settings, rest

    def _is_of_options(self, name: str) -> bool:
        """Whether a variable has options, or nothing: by its text, or else by its name."""
        is_called_so = _OPTIONS.search(name) is not None and name not in self.contents
        return name in self.maybe or is_called_so

    def _inner_text(self, texts: Sequence[str]) -> str | None:
        """The text of ``bash -c "…"`` with the variables in it that are parts of a command."""
        text = shell_text.shell_text(texts)
        if text is None:
            return None
        name = shell_text.variable_alone(text)
        if self.whole.get(name) and name not in self.parts:
            text = self.whole[name]  # commands: `CMD="cd /code; torchrun …"`
            self.expansions.add(name)
        return self._expanded(text, {**self.quoted, **self.parts, **self.scripts})

    def _expanded_words(self, texts: list[str]) -> list[str]:
        """Words with the variables among them that are parts of a command."""
        line = " ".join(texts)
        parts = {name: text for name, text in self.parts.items() if name not in self.literal}
        expanded = self._expanded(line, parts)
        if expanded == line:
            return texts
        return self._split(expanded) or texts

    @staticmethod
    def _split(text: str) -> list[str]:
        """The words of a text; [] where it is no shell text."""
        try:
            return [token.text for token in scanner.tokens(text) if token.kind == "word"]
        except scanner.ScriptError:
            return []

    def _expanded(self, text: str, parts: Mapping[str, str] | None = None) -> str:
        parts = self.parts if parts is None else parts
        for _ in range(_DEEPEST):
            before = text
            text, names = shell_text.expanded(text, parts)
            self.expansions |= names
            if text == before or len(text) > _LONGEST:
                break
        return text

    def _inner_starts(self, texts: Sequence[str]) -> bool:
        """Whether the text of ``bash -c "…"`` starts ranks."""
        inner = self._inner_text(texts)
        if inner is None:
            return False
        try:
            parsed = scanner.parse(inner)
        except scanner.ScriptError:
            return False
        return any(
            words.starts_ranks([word.text for word in command.words])
            for statement in parsed
            for command in statement.commands
        )

    def _line_of(self, name: str) -> int:
        return next((setting.line for setting in self.job_settings if setting.name == name), 0)
