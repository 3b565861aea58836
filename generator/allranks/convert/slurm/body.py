"""What a batch script runs: its one step with the ranks, what stands before it, and what behind.

Slurm runs the script once, on the first node, and `srun` starts the ranks on all of them. Here a
pod runs `setup` and then its ranks. So a script with one step for several ranks becomes setup and a
command. A script that starts no ranks of several (one task, or launchers of one node alone) is run
as it is, as one process. Two steps for several ranks are two jobs, and are refused with their lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import commands
from allranks.convert.commands import Runner
from allranks.convert.slurm import images, options, scanner, sizes, words
from allranks.convert.verdicts import Outcome, Verdict
from allranks.errors import InvalidValues, Problem
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.scanner import Command, Statement
    from allranks.convert.slurm.sizes import Size

_DEEPEST, _LONGEST = 8, 100_000  # of variables within variables, and characters of what comes of them
_SHOWN = 60  # characters of a line in a verdict
_PORT = "29510"  # of a launcher inside the chart's own, which has the one before it
_SHELLS = frozenset({"bash", "sh", "dash", "zsh", "ksh"})
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACTIVATING = frozenset({"module", "ml", "conda", "mamba", "micromamba", "source", ".", "eval", "spack", "pyenv"})
_RESERVED = frozenset(names.RESERVED_ENV)
# What begins as a program that starts others, or as options.
_COMMAND_LIKE = re.compile(
    r"\A\s*(?:-{1,2}[A-Za-z]"
    r"|(?:[\w./~${}-]*/)?(?:torchrun|accelerate|deepspeed|python[0-9.]*|mpirun|mpiexec|srun|bash)(?:\s|\Z)"
    r"|\$\{?[A-Za-z_]\w*\}?\s)"
)
_SIZES = frozenset(
    {
        *("nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu", "gpus", "gres"),
        *("gpus-per-node", "gpus-per-task", "gpus-per-socket", "cpus-per-task", "cpus-per-gpu"),
        *("mem", "mem-per-cpu", "mem-per-gpu"),
    }
)


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
        uses_slurm: whether it reads SLURM_ variables.
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
    uses_slurm: bool = False


@dataclass(slots=True)
class _Step:
    """A command that starts processes.

    Attributes:
        statement: the number of its statement.
        command: the command.
        settings: srun's options; [] without srun.
        words: the words that it starts, as typed.
        is_srun: whether srun starts it.
        size: the size that srun has.
        is_multi: whether it starts several ranks that belong together.
    """

    statement: int
    command: Command
    settings: list[Setting]
    words: list[str]
    is_srun: bool
    size: Size
    is_multi: bool


def read(
    text: str, *, source: str, size: Size, settings: Sequence[Setting], args: Sequence[str] = ()
) -> Body:
    """What a script runs.

    Args:
        text: the script.
        source: its name, for problems.
        size: the size that its directives ask for.
        settings: the directives.
        args: words behind the script's name.

    Raises:
        InvalidValues: it cannot be a job; the problems have their lines.
    """
    return _Reader(text, source, size, settings, args).read()


class _Reader:
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
        self.set_names: set[str] = set()
        self.lines = text.split("\n")
        self.parts: dict[str, str] = {}  # variables that are parts of a command, as shell text
        self.conditional: dict[str, int] = {}  # those before a program, with their lines
        self.place = -1  # the statement of the step
        self.maybe: set[str] = set()  # variables with options, or with nothing
        self.used: set[str] = set()  # those of them that have been put in
        self.side: dict[int, _Step] = {}  # steps that prepare the nodes, by id of their command

    # --- results ---

    def say(self, line: int, path: str, outcome: Outcome, to: str = "", why: str = "") -> None:
        self.body.verdicts.append(Verdict(_short(path), outcome, to, why, line))

    def refuse(self, line: int, message: str, hint: str) -> InvalidValues:
        return InvalidValues([self.problem(line, message, hint)])

    def problem(self, line: int, message: str, hint: str) -> Problem:
        return Problem(path="", message=message, hint=hint, source=f"{self.source}:{line}")

    def slice(self, statement: Statement) -> str:
        return self.text[statement.start : statement.end]

    # --- the whole ---

    def read(self) -> Body:
        shebang = self.lines[0] if self.lines[0].startswith("#!") else ""
        program = (shebang.removeprefix("#!").split() or ["/bin/bash"])
        if words.base(program[0]) == "env":
            program = [word for word in program[1:] if not word.startswith("-") and "=" not in word] or program
        interpreter = words.base(program[0])
        if interpreter not in _SHELLS:
            return self._foreign(interpreter)
        try:
            self.statements = scanner.parse(self.text)
        except scanner.ScriptError as error:
            raise self.refuse(
                error.line, f"the script cannot be read: {error.reason}", "mend the script"
            ) from error
        if not self.statements:
            raise self.refuse(1, "the script runs nothing", "write the command that is to run")
        self._collect_constants()
        self._collect_parts()
        steps = self._steps()
        self._check_background(steps)
        multi = self._without_side([step for step in steps if step.is_multi])
        main = self._main(multi)
        if main is None:
            self._as_one_process(steps, nested=bool(multi))
        else:
            self._as_ranks(main, steps)
        self._finish()
        return self.body

    def _foreign(self, interpreter: str) -> Body:
        """A script of another language: it is run as it is, as one process."""
        is_python = words.is_python([interpreter])
        if not is_python and re.search(r"^\s*(srun|mpirun|mpiexec|torchrun)\b", self.text, re.M):
            raise self.refuse(
                1, f"the script is {interpreter}'s, and only those of sh and bash are read",
                "write it for bash, or write the command into a values file",
            )
        body = self.body
        body.script = _without_directives(self.text)
        body.nodes, body.procs_per_node = 1, 1
        self.say(1, self.lines[0], Outcome.CARRIED, "script")
        self._finish()
        return body

    # --- what is known ---

    def _slurm_constants(self) -> dict[str, str]:
        size = self.size
        nodes = size.node_count
        known = {
            "SLURM_NNODES": nodes,
            "SLURM_JOB_NUM_NODES": nodes,
            "SLURM_NTASKS": size.task_count,
            "SLURM_NPROCS": size.task_count,
            "SLURM_NTASKS_PER_NODE": size.per_node,
            "SLURM_TASKS_PER_NODE": size.per_node,
            "SLURM_CPUS_PER_TASK": size.cpus_per_task,
            "SLURM_GPUS_ON_NODE": size.gpus_per_node or size.gpus,
            "SLURM_GPUS_PER_NODE": size.gpus_per_node or size.gpus,
            "SLURM_GPUS": (size.gpus_per_node or 0) * nodes or size.gpus,
        }
        return words.known_of(known)

    def _collect_constants(self) -> None:
        counts: dict[str, int] = {}
        for statement in self.statements:
            for command in statement.commands:
                for name, _ in _assigned(command):
                    counts[name] = counts.get(name, 0) + 1
                    self.set_names.add(name)
                if command.name in ("read", "mapfile", "readarray", "getopts", "for", "select"):
                    self.set_names.update(word.text for word in command.words[1:] if _NAME.fullmatch(word.text))
        # The variable of a loop stands in its head, which has no command.
        self.set_names.update(re.findall(r"\bfor\s+\(*\s*([A-Za-z_]\w*)", self.text))
        self.set_names.update(re.findall(r"\bselect\s+([A-Za-z_]\w*)", self.text))
        self.set_names.update(re.findall(r"\(\(\s*([A-Za-z_]\w*)\s*[-+*/]?=", self.text))
        for statement in self.statements:
            for command in statement.commands:
                if command.within or statement.function:
                    continue
                for name, value in _assigned(command):
                    if counts[name] > 1 and name not in ("MASTER_PORT",):
                        continue
                    resolved = words.resolve(value, self.constants)
                    if resolved == "gpu":
                        resolved = self.constants.get("SLURM_GPUS_ON_NODE")
                    if resolved is not None:
                        self.constants[name] = resolved

    def _collect_parts(self) -> None:
        """Find the variables that have the words of a command: ``LAUNCHER="torchrun --nnodes 2"``."""
        unsure: set[str] = set()
        contents: dict[str, list[str]] = {}
        for statement in self.statements:
            for command in statement.commands:
                for name, value in _assigned(command):
                    contents.setdefault(name, []).append(_content(value).strip())
                    if command.within or statement.function:
                        unsure.add(name)
                        continue
                    is_added = any(word.text.startswith(f"{name}+=") for word in (*command.assignments, *command.words))
                    content = _content(value)
                    own = self.parts.get(name, "")
                    if is_added:
                        content = f"{own} {content}".strip() if value.startswith("(") else own + content
                    elif name in {other for other, _ in words.variables(value)}:
                        content = re.sub(rf"\$\{{?{name}(?:\[[@*]\])?\}}?", lambda _, own=own: own, content)
                    self.parts[name] = content
        self.maybe = {
            name for name, texts in contents.items() if all(text[:1] in ("", "-") for text in texts)
        }
        for name, content in list(self.parts.items()):
            if name in unsure or not _COMMAND_LIKE.search(content):
                del self.parts[name]

    # --- steps ---

    def _steps(self) -> list[_Step]:
        steps = []
        for number, statement in enumerate(self.statements):
            for command in statement.commands:
                step = self._step(number, command)
                if step is not None:
                    steps.append(step)
        return steps

    def _step(self, number: int, command: Command) -> _Step | None:
        inner = words.unwrapped(self._expanded_words([token.text for token in command.words]))
        if not inner:
            return None
        if words.base(inner[0]) == "eval" and len(inner) > 1:
            inner = words.unwrapped(self._expanded_words([scanner.unquote(" ".join(inner[1:]))]))
            if not inner:
                return None
        program = words.base(inner[0])
        if program in words.FOREIGN_STARTERS and program != "parallel":
            raise self.refuse(
                command.line,
                f"{program} starts processes in a way that has no form here",
                "start them with srun, torchrun or mpirun, and convert that",
            )
        if program != "srun":
            if not words.starts_ranks(inner):
                return None
            return _Step(number, command, [], inner, False, self.size, True)
        settings, rest = self._srun(inner[1:], command.line)
        started = inner[len(inner) - len(rest) :] if rest else []
        if not started or words.base(started[0]) in words.IDLE:
            return _Step(number, command, settings, started, True, self.size, False)
        size = self._step_size(settings)
        starts = words.starts_ranks(started) or self._inner_starts(started)
        is_multi = starts or size.task_count > 1
        return _Step(number, command, settings, started, True, size, is_multi)

    def _srun(self, texts: Sequence[str], line: int) -> tuple[list[Setting], list[str]]:
        """srun's options, and the words behind them without their quotes."""
        settings, rest = options.parse([scanner.unquote(text) for text in texts], "srun", line)
        while rest and (name := _variable_alone(rest[0])) in self.maybe:
            self.conditional.setdefault(name, line)
            more, rest = options.parse(rest[1:], "srun", line)
            settings += more
        resolved = []
        for setting in settings:
            value = setting.value
            if "$" in value:
                value = words.resolve(value, self.constants) or words.partly(value, self.constants)
            resolved.append(replace(setting, value=value))
        return resolved, rest

    def _step_size(self, settings: Sequence[Setting]) -> Size:
        own = [setting for setting in settings if setting.name in _SIZES and "$" not in setting.value]
        if not own:
            return self.size
        texts = {setting.name for setting in own}
        kept = [
            setting
            for setting in self.job_settings
            if setting.name in _SIZES and not (_tasks(setting.name) and any(map(_tasks, texts)))
        ]
        if "nodes" not in texts and "ntasks" in texts and self.size.nodes:
            kept.append(options.Setting("nodes", str(self.size.nodes), 0, options.of("sbatch")[0]))
        return sizes.read([*kept, *own])

    def _inner_text(self, texts: Sequence[str]) -> str | None:
        """The text of ``bash -c "…"`` with the variables in it that are parts of a command."""
        text = _shell_text(texts)
        return None if text is None else self._expanded(text)

    def _expanded_words(self, texts: list[str]) -> list[str]:
        """Words with the variables among them that are parts of a command."""
        line = " ".join(texts)
        expanded = self._expanded(line)
        if expanded == line:
            return texts
        try:
            return [token.text for token in scanner.tokens(expanded) if token.kind == "word"]
        except scanner.ScriptError:
            return texts

    def _expanded(self, text: str) -> str:
        for _ in range(_DEEPEST):
            before = text
            for name in [name for name, _ in words.variables(text) if name in self.parts]:
                pattern = rf'"\$\{{?{name}(?:\[[@*]\])?\}}?"|\$\{{{name}(?:\[[@*]\])?\}}|\${name}\b'
                content = self.parts[name]
                text = re.sub(pattern, lambda _, content=content: content, text)
                self.used.add(name)
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

    def _check_background(self, steps: list[_Step]) -> None:
        """Refuse what starts processes beside each other that are several jobs."""
        for step in steps:
            parsed = {setting.name for setting in step.settings}
            if "multi-prog" in parsed or "het-group" in parsed or "pack-group" in parsed:
                raise self.refuse(
                    step.command.line,
                    "the step has several programs, and all ranks of a run have one",
                    "make a values file of each, or let one program look at RANK",
                )

    def _without_side(self, multi: list[_Step]) -> list[_Step]:
        """The steps without those before the training that run something once on each node."""
        if len(multi) < 2:  # noqa: PLR2004 - one alone is the training
            return multi
        weights = [self._weight(step) for step in multi]
        last = max(at for at, weight in enumerate(weights) if weight == max(weights))
        kept = []
        for at, step in enumerate(multi):
            is_side = at < last and not weights[at] and weights[last] and step.size.per_node == 1
            if is_side and not self._repeats(step) and not self.statements[step.statement].in_background:
                self.side[id(step.command)] = step
            else:
                kept.append(step)
        return kept

    def _weight(self, step: _Step) -> int:
        """Whether a step looks like a training: it starts ranks, has several on a node, or is Python."""
        texts = step.words
        if self._is_torch_launcher(step) or not step.is_srun or step.size.per_node > 1:
            return 1
        inner = self._inner_text(texts)
        return 1 if words.is_python(texts) or re.search(r"\bpython[0-9.]*\s", inner or "") or "python" in texts else 0

    def _main(self, multi: list[_Step]) -> _Step | None:
        """The step with the ranks; None where the script is run as it is."""
        if not multi:
            return None
        distinct = self._distinct(multi)
        single_node = self.size.node_count == 1 and all(
            step.size.node_count == 1 for step in multi
        )
        in_loop = any(self._repeats(step) for step in multi)
        launchers = all(self._is_torch_launcher(step) for step in multi)
        if len(distinct) == 1 and (not in_loop or (len(multi) > 1 or self._over_nodes(multi[0]))):
            if not (in_loop and single_node and launchers and not self._over_nodes(multi[0])):
                return distinct[0]
        if len(distinct) > 1 and self._exclusive(multi):
            return distinct[0]
        if single_node and launchers and not any(
            step.is_srun and step.size.task_count > 1 for step in multi
        ):
            return None
        lines = [step.command.line for step in multi]
        if len(distinct) > 1:
            message = f"the script has {len(distinct)} steps with ranks, and a run has one (lines {list_some([str(line) for line in lines], 8)})"
            if any(self.statements[step.statement].in_background for step in multi):
                message = f"the script starts {len(distinct)} steps beside each other (lines {list_some([str(line) for line in lines], 8)})"
            hint = "make a script of each and convert those; one after the other they are runs that you start in turn"
        else:
            message = "a loop starts the step more than once, and a run has one"
            hint = f"take the loop away and try its values in a sweep: `{names.CLI} sweep run`"
        raise InvalidValues([self.problem(line, message, hint) for line in lines[:1]])

    def _repeats(self, step: _Step) -> bool:
        """Whether a step is started more than once: in a loop, or by a function that is called twice."""
        if step.command.in_loop:
            return True
        function = self.statements[step.statement].function
        if not function:
            return False
        calls = [command for command in self._calls(function)]
        return len(calls) > 1 or any(command.in_loop for command in calls)

    def _calls(self, function: str) -> list[Command]:
        return [
            command
            for statement in self.statements
            if statement.function != function
            for command in statement.commands
            if command.name == function
        ]

    def _over_nodes(self, step: _Step) -> bool:
        """Whether a loop starts a step on one node after the other."""
        parsed = {setting.name for setting in step.settings}
        flags = {word.partition("=")[0].replace("_", "-") for word in step.words}
        by_node = bool(parsed & {"nodelist", "relative"})
        return by_node and (bool(flags & {"--node-rank", "--machine-rank", "--rdzv-endpoint", "--master-addr"}))

    def _is_torch_launcher(self, step: _Step) -> bool:
        inner = words.unwrapped(step.words)
        return words.starts_ranks(inner) and words.base(inner[0]) not in (*words.MPIRUN, "horovodrun") or (
            self._inner_starts(step.words)
        )

    def _distinct(self, multi: list[_Step]) -> list[_Step]:
        seen: dict[tuple[str, ...], _Step] = {}
        for step in multi:
            program = self._program_of(step.words)
            key = program.command if program.runner is Runner.TORCHRUN else tuple(step.words)
            seen.setdefault(key, step)
        return list(seen.values())

    def _exclusive(self, multi: list[_Step]) -> bool:
        """Whether steps stand in the branches of one if or case."""
        return len({step.statement for step in multi}) == 1 and all(
            {"if", "case"} & {*step.command.within} and not self._repeats(step) for step in multi
        )

    def _program_of(self, texts: Sequence[str]) -> commands.Program:
        inner = self._inner_text(texts)
        line = " ".join(texts) if inner is None else inner
        return commands.read(("bash", "-c", line), (), self.constants)

    # --- one process ---

    def _as_one_process(self, steps: list[_Step], *, nested: bool) -> None:
        body = self.body
        body.nodes, body.procs_per_node = 1, 1
        if self.size.node_count > 1:
            why = "the script starts nothing on the other nodes"
            self._check_remote()
            body.verdicts.append(
                Verdict("--nodes", Outcome.CHANGED, "nodes: 1", why, self._line_of("nodes"))
            )
        if nested:
            body.notes.append(
                "the script starts the ranks of its node itself, so that the pod runs it as one process"
            )
        last = -1
        for number, statement in enumerate(self.statements):
            if self._is_activation(statement):
                last = number
            elif self._runs_program(statement):
                break
        edits: list[tuple[int, int, str]] = []
        setup: list[str] = []
        again: list[str] = []
        for number, statement in enumerate(self.statements):
            text = self._kept(statement, is_one=True)
            if number <= last:
                if text is not None:
                    setup.append(self._with_comments(number, text))
                    if self._lives_in_shell(statement):
                        again.append(text)
                edits.append((self._comment_start(number), statement.end, ""))
                continue
            if text is None:
                edits.append((statement.start, statement.end, ""))
                continue
            edits += self._inner_edits(statement)
        self._write_setup(setup)
        script = _edited(self.text, edits)
        shebang = self.lines[0] if self.lines[0].startswith("#!") else "#!/bin/bash"
        if words.base(shebang.split()[0].removeprefix("#!")) == "sh" and "bash" not in shebang:
            shebang = shebang.strip()
        rest = _without_directives(script)
        rest = re.sub(r"\A#![^\n]*\n?", "", rest)
        rest = re.sub(r"\n{3,}", "\n\n", rest).strip("\n")
        prefix = "".join(f"{line}\n" for line in again)
        body.script = f"{shebang}\n{prefix}{rest}\n"
        for step in steps:
            if step.is_srun and step.words:
                body.settings += step.settings

    def _inner_edits(self, statement: Statement) -> list[tuple[int, int, str]]:
        """srun and containers taken off commands in a script that is run as it is."""
        edits = []
        for command in statement.commands:
            tokens = command.words
            texts = [token.text for token in tokens]
            inner = words.unwrapped(texts)
            if not inner:
                continue
            own = tokens[len(tokens) - len(inner) :]
            start = own[0].start
            if words.base(inner[0]) == "srun":
                _, rest = self._srun([token.text for token in own[1:]], command.line)
                if not rest:
                    continue
                own = own[len(own) - len(rest) :]
            program = words.base(own[0].text)
            if program in words.CONTAINERS:
                inside = self._container([token.text for token in own], command.line)
                if inside:
                    own = own[len(own) - inside :]
            if own[0].start > start:
                edits.append((start, own[0].start, ""))
        return edits

    def _check_remote(self) -> None:
        for statement in self.statements:
            for command in statement.commands:
                if words.any_of([token.text for token in command.words], ("ssh", "pdsh", "clush", "parallel-ssh")):
                    raise self.refuse(
                        command.line,
                        "the script starts processes on the other nodes by ssh, which pods do not have",
                        "start them with srun, torchrun or mpirun, and convert that",
                    )

    # --- ranks ---

    def _as_ranks(self, main: _Step, steps: list[_Step]) -> None:
        body = self.body
        statement = self.statements[main.statement]
        function = statement.function
        place = main.statement
        if function:
            calls = [
                number
                for number, other in enumerate(self.statements)
                if other.function != function and any(c.name == function for c in other.commands)
            ]
            if not calls:
                raise self.refuse(
                    main.command.line, f"the function {function} is never called",
                    "call it, or write what it runs at the top",
                )
            place = calls[0]
        steps = [step for step in steps if id(step.command) not in self.side]
        self.place = main.statement
        twins = {id(step.command) for step in steps if step.is_multi}
        self._check_others(main, steps, twins)
        merged = {
            step.statement for step in steps if step.is_multi and step.statement != main.statement
        }
        program = self._read_program(main)
        first = _variable_alone(_first_word(program.command).strip('"')) if program.command else ""
        if not program.command or (first and (first in self.maybe or program.runner is not Runner.TORCHRUN)):
            raise self.refuse(
                main.command.line,
                "what the step runs stands in a variable that is set in several ways",
                "write the command out behind srun, and convert that",
            )
        setup = []
        for number, other in enumerate(self.statements[:place]):
            if number in merged or (function and number == main.statement):
                if number in merged:
                    self.say(other.line, self.slice(other), Outcome.CHANGED, "command",
                             "every node starts the same, so that it is said once")
                continue
            text = self._kept(other, is_one=False)
            if text is not None:
                setup.append(self._with_comments(number, text))
        self._size_of(main, program)
        is_flat = not any(command.within for command in statement.commands) and not function
        if is_flat:
            lead = self._flat(main, statement)
            if lead:
                setup.append(lead)
            text = None
        else:
            text = self._nested_text(main, statement, place, program, steps)
        self._write_setup(setup)
        self._write_command(program, text)
        self.say(main.command.line, self.text[main.command.start : main.command.end], Outcome.CHANGED,
                 "command", "; ".join(self._changes(main, program)) or "each rank runs it")
        for name, line in self.conditional.items():
            self.say(line, f"srun ${name}", Outcome.NOT_CARRIED, "",
                     "options of srun's that the script decides on as it runs: write those that you want")
        for reason in program.lost:
            outcome = Outcome.CHANGED if reason.startswith(("--role", "--log-dir")) else Outcome.NOT_CARRIED
            self.say(main.command.line, self.text[main.command.start : main.command.end], outcome, "", reason)
        for number, other in enumerate(self.statements[place + 1 :], place + 1):
            if number in merged:
                self.say(other.line, self.slice(other), Outcome.CHANGED, "command",
                         "every node starts the same, so that it is said once")
            else:
                self._behind(other)
        body.notes += program.notes
        body.settings = main.settings

    def _changes(self, main: _Step, program: commands.Program) -> list[str]:
        reasons = list(program.changes)
        if main.is_srun:
            reasons.insert(0, "the launcher starts the ranks in place of srun")
        return list(dict.fromkeys(reasons))

    def _check_others(self, main: _Step, steps: list[_Step], twins: set[int]) -> None:
        """Refuse a step for one task beside that with the ranks."""
        for step in steps:
            if id(step.command) in twins or step is main or not step.words:
                continue
            if words.base(step.words[0]) in words.IDLE:
                continue
            is_before = step.command.start < main.command.start and not self._repeats(step)
            if is_before and not self.statements[step.statement].in_background:
                self.side[id(step.command)] = step
                continue
            raise self.refuse(
                step.command.line,
                f"the script has a step besides that of line {main.command.line}, and a run has one",
                "make it a script of its own, or a plain line (without srun) before the step, which becomes "
                "setup and runs once in each pod",
            )

    def _read_program(self, main: _Step) -> commands.Program:
        texts = main.words
        rest = words.unwrapped(texts)
        wrapped = texts[: len(texts) - len(rest)]
        if rest and words.base(rest[0]) in words.CONTAINERS:
            inside = self._container(rest, main.command.line)
            rest = rest[len(rest) - inside :] if inside else rest
            wrapped = []
        inner = self._inner_text(rest)
        line = " ".join(rest) if inner is None else inner
        assignments = [token.text for token in main.command.assignments]
        kept_wrapped = [word for word in wrapped if words.base(word) not in ("time", "nohup", "exec", "command")]
        line = " ".join([*assignments, *kept_wrapped, line])
        self._note_launched(rest, inner, main)
        return commands.read(("bash", "-c", line), (), self.constants)

    def _note_launched(self, rest: list[str], inner: str | None, main: _Step) -> None:
        if inner is None and rest and words.base(rest[0]) in _SHELLS and len(rest) > 1:
            self.body.notes.append(
                f"what {scanner.unquote(rest[1])} does was not looked at: a torchrun or an srun in it "
                "would start further processes in each rank"
            )

    def _flat(self, main: _Step, statement: Statement) -> str:
        """What stands before and behind the step on its line; gives that which is setup."""
        lead = ""
        seen = False
        for command in statement.commands:
            if command is main.command:
                seen = True
                continue
            text = self.text[command.start : command.end]
            if not seen:
                if command.after in ("&&", ";"):
                    lead += ("" if not lead else " && ") + text
                    self.say(command.line, text, Outcome.CARRIED, "setup")
                elif not words.any_of([w.text for w in command.words], words.IDLE):
                    self.say(command.line, text, Outcome.NOT_CARRIED, "", "it feeds the step, which has no standard input")
                continue
            program = words.base(command.name) if command.words else ""
            if program in ("tee", "cat", "grep", "sed", "ts", "awk", "split", *words.IDLE, *words.ENDING):
                self.say(command.line, text, Outcome.CHANGED, "", f"the lines are the run's log: `{names.CLI} logs NAME`")
            else:
                self.say(command.line, text, Outcome.NOT_CARRIED, "", "it stands behind the step: make it a run of its own")
        for operator, target in main.command.redirections:
            if operator in ("<", "<<", "<<<", "<<-"):
                self.say(main.command.line, f"{operator} {target}", Outcome.NOT_CARRIED, "",
                         "ranks have no standard input: let the program read the file")
            elif not target.isdigit():
                self.say(main.command.line, f"{operator} {target}", Outcome.CHANGED, "",
                         f"the lines are the run's log: `{names.CLI} logs NAME`")
        if statement.in_background:
            self.say(main.command.line, "&", Outcome.CHANGED, "", "the run is over when its ranks are")
        return lead

    def _nested_text(
        self, main: _Step, statement: Statement, place: int, program: commands.Program, steps: list[_Step]
    ) -> str:
        """The statement around the step, with the program in place of what starts it."""
        edits = []
        for step in steps:
            if step.is_multi and step.statement == main.statement:
                own = program if step is main else self._read_program(step)
                edits.append((step.command.start, step.command.end, _as_text(own.command)))
        loop = main.command.in_loop or statement.in_background
        if loop or any(command.in_loop for command in statement.commands):
            return _as_text(program.command)  # a loop over the nodes: each pod is one
        whole = _edited(self.text, edits, statement.start, statement.end)
        if place != main.statement:
            whole += "\n" + self.slice(self.statements[place])
        return whole

    def _write_command(self, program: commands.Program, text: str | None) -> None:
        body = self.body
        command = list(program.command)
        if text is not None:
            command = ["bash", "-c", text]
        if not command:
            raise self.refuse(1, "the step runs nothing", "write the program behind srun or torchrun")
        if program.setup:
            body.setup += program.setup
        if program.working_dir:
            body.working_dir = program.working_dir
        line = command[2] if command[1:2] == ["-c"] and len(command) == 3 else ""
        if line:
            line = self._defined(line, program)
            command[2] = line
        body.command = command

    def _defined(self, line: str, program: commands.Program) -> str:
        """A command's shell with what it reads and no setup can export."""
        prefix = []
        reads = [name for name, _ in words.variables(line)]
        for statement in self.statements:
            is_array = any(_is_array(command, name) for command in statement.commands for name in reads)
            is_called = statement.function and re.search(rf"\b{re.escape(statement.function)}\b", line)
            if (is_array or is_called) and not any(name in self.dropped for name in reads if _assigns(statement, name)):
                prefix.append(self.slice(statement))
        for name in reads:
            if name in self.dropped and name not in _RESERVED and name not in self.used:
                prefix.append(f"{name}=$MASTER_ADDR")
        if program.is_nested and "MASTER_PORT" in reads:
            prefix.append(f"export MASTER_PORT={_PORT}")
        if self.args and words.positional(line):
            prefix.append(f"set -- {commands.as_shell(self.args)}")
        return "\n".join([*dict.fromkeys(prefix), line])

    def _size_of(self, main: _Step, program: commands.Program) -> None:
        """How many nodes and ranks the step has."""
        body, size = self.body, main.size if main.is_srun else self.size
        nodes = size.nodes or self.size.nodes
        command_line = main.command.line
        runner = program.runner
        body.values = {}
        per_node = size.per_node
        gpus = self.size.gpus_per_node
        if runner is Runner.TORCHRUN:
            wanted = program.options.get("nproc-per-node", "1" if "standalone" not in program.options else "1")
            count = self._processes(wanted)
            body.values["torchrun"] = dict(program.values)
            if count is not None:
                body.procs_per_node = 0 if gpus and count == gpus else count
            else:
                body.procs_per_node = 0
                if wanted not in ("gpu", "auto", "cpu"):
                    self.say(command_line, f"--nproc-per-node {wanted}", Outcome.CHANGED, "procsPerNode",
                             "what it is, is known in the pod alone: one process for each GPU")
            nnodes = commands.number(program.options.get("nnodes", ""), self.constants)
            if nnodes and nodes is None:
                nodes = min(nnodes, sizes.MOST_NODES)
            if not main.is_srun and (nodes or 1) > 1 and nnodes in (None, 1) and not self._many_nodes(program):
                self.say(command_line, "torchrun", Outcome.CHANGED, "nodes: 1",
                         "without srun it runs on the first node alone")
                nodes = 1
            elif nnodes and nodes and nnodes != nodes and main.is_srun:
                self.say(command_line, f"--nnodes {nnodes}", Outcome.CHANGED, "nodes",
                         f"the job has {plural(nodes, 'node')}")
            if main.is_srun and per_node > 1:
                self.say(command_line, "srun", Outcome.CHANGED, "",
                         f"torchrun starts the ranks of a node, and so runs once on each and not {per_node} times")
        elif runner in (Runner.MPIRUN, Runner.HOROVODRUN):
            self._as_mpi(main, per_node)
        elif program.is_nested:
            nodes = self._size_nested(main, program, nodes)
        elif self._is_mpi(main, program):
            self._as_mpi(main, per_node)
        else:
            body.procs_per_node = 0 if gpus and per_node == gpus else per_node
            body.values["torchrun"] = {"maxRestarts": 0}
            body.uses_slurm = True
        body.nodes = nodes if nodes is not None else (None if self.size.gpus else 1)

    def _many_nodes(self, program: commands.Program) -> bool:
        return any(name in program.options for name in ("node-rank", "rdzv-endpoint", "master-addr")) and (
            "standalone" not in program.options
        )

    def _processes(self, text: str) -> int | None:
        resolved = words.resolve(text, self.constants) or text
        if resolved in ("gpu", "auto"):
            return self.size.gpus_per_node
        count = commands.number(resolved, self.constants)
        return count if count and count <= sizes.MOST_PER_NODE else None

    def _size_nested(self, main: _Step, program: commands.Program, nodes: int | None) -> int | None:
        body = self.body
        body.procs_per_node = 1
        # The launcher's own rendezvous leaves its usual port to that which it starts.
        body.values["torchrun"] = {"maxRestarts": 0, **({"port": 29409} if (nodes or 1) > 1 else {})}
        body.uses_slurm = True
        texts = list(program.command)
        line = texts[2] if texts[1:2] == ["-c"] else " ".join(texts)
        spans = any(flag in line for flag in ("machine_rank", "machine-rank", "main_process_ip", "hostfile", "node_rank", "--rdzv"))
        if (nodes or 1) > 1 and not main.is_srun and not spans:
            self.say(main.command.line, program.runner, Outcome.CHANGED, "nodes: 1",
                     "without srun it runs on the first node alone")
            nodes = 1
        if program.runner is Runner.DEEPSPEED and (nodes or 1) > 1:
            raise self.refuse(
                main.command.line,
                "deepspeed starts the ranks of other nodes by ssh, which pods do not have",
                "start them with `srun torchrun`: DeepSpeed trains the same under torchrun, with LOCAL_RANK "
                "in place of --local_rank",
            )
        body.notes.append(
            f"{program.runner} starts the ranks of each node itself, so that each pod runs it once; under "
            "torchrun (its command alone) allranks would see every rank"
        )
        return nodes

    def _is_mpi(self, main: _Step, program: commands.Program) -> bool:
        """Whether what srun starts is a program of MPI's, and not one that meets by MASTER_ADDR."""
        has_mpi = any(setting.name == "mpi" and setting.value != "none" for setting in main.settings)
        meets = "MASTER_ADDR" in self.text or "torch" in self.text or "SLURM_PROCID" in self.text
        texts = main.words
        if words.is_python(texts) or any(words.is_python([word]) for word in texts):
            return has_mpi and not meets
        program_name = words.base(words.unwrapped(texts)[0])
        is_script = program_name in _SHELLS or program_name.endswith((".sh", ".bash", ".py"))
        return has_mpi or not (is_script or program_name in ("uv", "conda", "poetry", "pixi", "micromamba", "mamba"))

    def _as_mpi(self, main: _Step, per_node: int) -> None:
        body = self.body
        body.workload = "mpi"
        mpi: dict[str, Any] = {}
        lowered = self.text.lower()
        if re.search(r"module\s+(?:load|add)[^\n]*(?:impi|intel-?mpi|intel-oneapi-mpi)", lowered) or "i_mpi_" in lowered:
            mpi["implementation"] = "Intel"
        elif re.search(r"module\s+(?:load|add)[^\n]*mpich", lowered):
            mpi["implementation"] = "MPICH"
        body.procs_per_node = 0 if self.size.gpus_per_node == per_node else per_node
        if mpi:
            body.values["mpi"] = mpi

    # --- what stands before and behind ---

    def _is_activation(self, statement: Statement) -> bool:
        return not statement.function and any(
            words.base(command.name) in _ACTIVATING for command in statement.commands if command.words
        )

    def _runs_program(self, statement: Statement) -> bool:
        """Whether a statement runs what the job is about."""
        if statement.function:
            return False
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if words.is_python(texts) or words.starts_ranks(texts) or words.any_of(texts, ("srun", "singularity", "apptainer")):
                return True
        return False

    def _lives_in_shell(self, statement: Statement) -> bool:
        """Whether what a statement sets up dies with its shell: options, arrays, functions."""
        if statement.function:
            return True
        return any(
            command.name in ("set", "shopt", "declare", "ulimit") or any(_is_array(command, name) for name, _ in _assigned(command))
            for command in statement.commands
        )

    def _kept(self, statement: Statement, *, is_one: bool) -> str | None:
        """A statement as setup or part of a script; None where it is left out. Says what becomes of it."""
        text = self.slice(statement)
        to = "script" if is_one else "setup"
        line = statement.line
        command = statement.commands[0] if statement.is_simple else None
        program = words.base(command.name) if command is not None and command.words else ""
        reason = self._left_out(statement, command, program, is_one=is_one)
        if reason is not None:
            outcome, why = reason
            self.say(line, text, outcome, "", why)
            return None
        if command is not None and self._to_env(statement, command):
            return None
        if command is not None and program == "cd" and not is_one and self._to_working_dir(command):
            return None
        if program in ("module", "ml"):
            self.say(line, text, Outcome.CHANGED, "setup", "where the image has modules; what it loads must be in the image otherwise")
            return f"! command -v {program} >/dev/null || {text}"
        if program in ("conda", "mamba", "micromamba", "source", ".", "spack", "pyenv", "eval"):
            self.say(line, text, Outcome.CHANGED, "setup" , "what it activates must be in the image, or in a volume at that path")
            return text
        tools = [c for c in statement.commands if words.any_of([w.text for w in c.words], words.SLURM_TOOLS)]
        for tool in tools:
            self.say(tool.line, self.text[tool.start : tool.end], Outcome.NOT_CARRIED, "", "a pod has no programs of Slurm's")
        if any(words.any_of([w.text for w in c.words], ("docker", "podman", "enroot")) for c in statement.commands):
            self.say(line, text, Outcome.NOT_CARRIED, to, "a pod starts no containers: name its image in image, and write what it runs as the command")
            return text
        if not is_one and any(id(c) in self.side for c in statement.commands):
            self.say(line, text, Outcome.CHANGED, to, "srun started it on the nodes before the training; each pod runs it once")
            return _edited(self.text, self._inner_edits(statement), statement.start, statement.end)
        if not is_one and self.size.node_count > 1 and _differs(text):
            self.say(line, text, Outcome.CHANGED, to, "each pod runs it, and what it gives may differ between pods")
            return text
        if not is_one and words.is_python(words.unwrapped([w.text for c in statement.commands[:1] for w in c.words])):
            self.say(line, text, Outcome.CHANGED, to, "it runs once in each pod")
            return text
        if not tools:
            self.say(line, text, Outcome.CARRIED, to)
        return self._with_args(text) if not is_one else text

    def _left_out(
        self, statement: Statement, command: Command | None, program: str, *, is_one: bool
    ) -> tuple[Outcome, str] | None:
        """Why a statement is left out; None where it is not."""
        text = self.slice(statement)
        assigned = [name for c in statement.commands for name, _ in _assigned(c)]
        reads_dropped = any(name in self.dropped for name, _ in words.variables(text))
        if command is not None and program in words.SLURM_TOOLS:
            if program == "sbatch":
                return Outcome.NOT_CARRIED, "it submits another job: start that when this run has ended"
            if program in ("sbcast", "sgather"):
                return Outcome.NOT_CARRIED, "it copies files between nodes: put them into the image or a volume"
            return Outcome.CHANGED, "it asks Slurm, and a pod has none"
        if statement.function:
            if is_one or not words.names_nodes(text):
                return None
            return None
        if assigned and not is_one and {*assigned} <= self.used and not self._is_read_elsewhere(assigned):
            self.dropped.update(assigned)
            return Outcome.CHANGED, "it is a part of the command, and stands there"
        if assigned and len(assigned) == sum(max(1, len(_assigned(c))) for c in statement.commands):
            if not is_one or self.body.procs_per_node != 1 or not self._is_nested_launch():
                if any(name in words.RENDEZVOUS or _looks_like_master(name) for name in assigned) or (
                    words.names_nodes(text) or (reads_dropped and not is_one)
                ):
                    if self._is_rendezvous(statement, assigned, text):
                        self.dropped.update(assigned)
                        return Outcome.CHANGED, "the launcher lets the ranks meet, and tells each its rank and where rank 0 is"
        if is_one:
            return None
        if command is not None and program == "srun" and id(command) not in self.side:
            return Outcome.CHANGED, "it only prints"
        if command is not None and program in words.IDLE and (reads_dropped or words.names_nodes(text)):
            return Outcome.CHANGED, "it prints what the launcher prints"
        if command is not None and program == "trap":
            return Outcome.NOT_CARRIED, "a pod's ranks get SIGTERM themselves: let the program handle it"
        if command is not None and program == "set" and not _keeps_going(text):
            return Outcome.CHANGED, "setup ends with the first command that fails anyway"
        if command is not None and program in ("wait", "exit", "set", "exec"):
            return Outcome.CHANGED, "setup goes on to the command"
        if reads_dropped and statement.commands:
            return Outcome.CHANGED, "it is about where the ranks meet, which the launcher arranges"
        return None

    def _is_read_elsewhere(self, assigned: list[str]) -> bool:
        """Whether a statement that does more than print reads one of some variables."""
        for number, statement in enumerate(self.statements):
            if number == self.place or all(
                not command.words
                or words.any_of([w.text for w in command.words], (*words.IDLE, "srun", "eval", "export", "bash", *words.STARTERS))
                for command in statement.commands
            ):
                continue
            reads = {name for name, _ in words.variables(self.slice(statement))}
            if reads & {*assigned}:
                return True
        return False

    def _is_nested_launch(self) -> bool:
        return any("accelerate" in c.name or "torchrun" in c.name or "deepspeed" in c.name
                   for s in self.statements for c in s.commands)

    def _is_rendezvous(self, statement: Statement, assigned: list[str], text: str) -> bool:
        if any(name in words.RENDEZVOUS for name in assigned):
            return True
        reads = {name for name, _ in words.variables(text)}
        return words.names_nodes(text) or bool(reads & self.dropped) or any(map(_looks_like_master, assigned))

    def _to_env(self, statement: Statement, command: Command) -> bool:
        """Carry ``export NAME=text`` as a variable."""
        if command.name != "export" or not _assigned(command) or command.redirections:
            return False
        pairs = []
        for word in command.words[1:]:
            name, equals, value = word.text.partition("=")
            if not equals or not _NAME.fullmatch(name) or name.endswith("+"):
                return False
            text = value if not value else scanner.unquote(value) if scanner.is_static(value) else None
            if text is None or "\0" in text or self._is_set_again(name) or name in _RESERVED:
                return False
            if name.startswith(names.RESERVED_ENV_PREFIXES):
                return False
            pairs.append((name, text))
        for name, text in pairs:
            self.body.env[name] = text
            self.say(statement.line, f"export {name}", Outcome.CARRIED, f"env.{name}")
        return bool(pairs)

    def _is_set_again(self, name: str) -> bool:
        return 1 < sum(
            other == name for s in self.statements for c in s.commands for other, _ in _assigned(c)
        )

    def _to_working_dir(self, command: Command) -> bool:
        if len(command.words) != 2 or command.redirections:
            return False
        target = command.words[1].text
        path = words.resolve(target, self.constants)
        if path is None and re.fullmatch(r'"?\$\{?SLURM_SUBMIT_DIR\}?"?', target):
            self.say(command.line, f"cd {target}", Outcome.CHANGED, "",
                     f"the command starts in the folder that `{names.CLI} sbatch` and `submit` send")
            return True
        if path is None or not path.startswith("/") or "\n" in path or self.body.working_dir:
            return False
        if self.body.setup:
            return False
        self.body.working_dir = path
        self.say(command.line, f"cd {target}", Outcome.CARRIED, "workingDir")
        return True

    def _behind(self, statement: Statement) -> None:
        """Say what becomes of a statement behind the step."""
        text = self.slice(statement)
        harmless = {*words.IDLE, *words.ENDING, "module", "ml", "conda", "scontrol", "sacct", "seff", "sstat", "squeue", "scancel", "jobstats"}
        if statement.function:
            self.say(statement.line, text, Outcome.CHANGED, "", "nothing before the step calls it")
        elif all(not c.words or words.any_of([w.text for w in c.words], harmless) for c in statement.commands):
            self.say(statement.line, text, Outcome.CHANGED, "", "the run is over when its ranks are")
        else:
            self.say(statement.line, text, Outcome.NOT_CARRIED, "", "it stands behind the step: make it a run of its own")

    # --- text ---

    def _with_args(self, text: str) -> str:
        if not self.args or not words.positional(text):
            return text
        quoted = [commands.as_shell([word]) for word in self.args]

        def put(match: re.Match[str]) -> str:
            which = match[1] or match[2]
            if which in "@*":
                return " ".join(quoted)
            if which == "#":
                return str(len(quoted))
            return quoted[int(which) - 1] if int(which) <= len(quoted) else "''"

        return re.sub(r'"?\$(?:([1-9@*#])|\{([1-9@*#])\})"?', put, text)

    def _comment_start(self, number: int) -> int:
        """Where the comments above a statement begin."""
        statement = self.statements[number]
        floor = self.statements[number - 1].end if number else 0
        start = self.text.rfind("\n", floor, statement.start) + 1
        if start == 0 and floor:
            return statement.start
        start = max(start, floor)
        while start > floor:
            above = self.text.rfind("\n", floor, start - 1) + 1
            row = self.text[max(above, floor) : start].strip()
            if not row.startswith("#") or row.startswith(("#!", "#SBATCH")) or above < floor:
                break
            start = max(above, floor)
            if start == floor:
                break
        return start

    def _with_comments(self, number: int, text: str) -> str:
        statement = self.statements[number]
        above = self.text[self._comment_start(number) : statement.start]
        rows = [row.strip() for row in above.split("\n") if row.strip().startswith("#")]
        rows = [row for row in rows if not row.startswith(("#SBATCH", "#!"))]
        tail = self.text[statement.end : self.text.find("\n", statement.end) if "\n" in self.text[statement.end :] else len(self.text)]
        comment = re.match(r"\s+(#[^\n]*)$", tail)
        return "\n".join([*rows, text + (f"  {comment[1]}" if comment else "")])

    def _write_setup(self, parts: list[str]) -> None:
        if not parts:
            return
        text = "\n".join(parts)
        head = []
        ends = any(
            command.name == "set" and not _keeps_going(self.slice(statement))
            for statement in self.statements
            for command in statement.commands
            if not command.within and not statement.function
        )
        if not ends:
            head.append("set +e  # the script goes on where a command fails")
        if any(command.assignments and not command.words for s in self.statements for command in s.commands):
            head.append("set -a  # the command reads these variables, too")
        self.body.setup = "\n".join([*head, text]) + "\n" + self.body.setup

    def _line_of(self, name: str) -> int:
        return next((setting.line for setting in self.job_settings if setting.name == name), 0)

    def _container(self, texts: list[str], line: int) -> int:
        """Read a container's command line; gives how many words at its end run inside."""
        parsed = images.of_command([scanner.unquote(text) for text in texts])
        if parsed is None:
            return 0
        for verdict in parsed.verdicts:
            self.say(line, verdict.path, verdict.outcome, verdict.to, verdict.why)
        for key, value in parsed.values.items():
            self.body.values.setdefault("", {})[key] = value
        return parsed.inside

    def _finish(self) -> None:
        body = self.body
        whole = "\n".join([body.setup, body.script, *body.command])
        if "SLURM_TMPDIR" in whole and "SLURM_TMPDIR" not in self.set_names:
            body.env.setdefault("SLURM_TMPDIR", "/tmp")  # noqa: S108 - the pod's own
            self.say(0, "$SLURM_TMPDIR", Outcome.CHANGED, "env.SLURM_TMPDIR", "the pod's own /tmp")
        body.uses_slurm = body.uses_slurm or bool(re.search(r"\bSLURM_", whole))
        self._say_unset(whole)

    def _say_unset(self, whole: str) -> None:
        """Name the variables that the script reads and nobody sets."""
        if words.positional(whole) and not self.args and not re.search(r"\w+\s*\(\)|\bfunction\b", self.text):
            line = next((n for n, row in enumerate(self.lines, 1) if words.positional(row) and not row.startswith("#")), 0)
            self.say(line, "$1 …", Outcome.NOT_CARRIED, "", f"no words were given behind the script's name: `{names.CLI} sbatch SCRIPT WORD...`")
        for name, has_default in words.variables(whole):
            if has_default or name in self.set_names or name in words.ALWAYS or name in body_env(self.body):
                continue
            if name in _RESERVED or name.startswith(("SLURM_", "PET_", "SLURMD_", "OMPI_", "PMI", "ALLRANKS_", "BASH_", "CONDA_")):
                continue
            line = next((n for n, row in enumerate(self.lines, 1) if re.search(rf"\$\{{?{name}\b", row) and not row.startswith("#")), 0)
            if not line:
                continue
            self.say(line, f"${name}", Outcome.NOT_CARRIED, f"env.{name}",
                     "the script does not set it, and a pod has not the environment of who submits: write it into env")


def body_env(body: Body) -> set[str]:
    """The variables that a body sets."""
    return {*body.env}


def _short(text: str) -> str:
    first, *rest = text.strip().split("\n")
    return first if len(first) <= _SHOWN and not rest else f"{first[: _SHOWN - 2].rstrip()} …"


def _tasks(name: str) -> bool:
    return name in ("ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu")


def _assigned(command: Command) -> list[tuple[str, str]]:
    """The variables that a command sets for the shell, with their text."""
    if not command.words:
        pairs = command.assignments
    elif command.name in ("export", "declare", "local", "readonly", "typeset"):
        pairs = [word for word in command.words[1:] if "=" in word.text]
    else:
        return []
    made = []
    for word in pairs:
        name, _, value = word.text.partition("=")
        made.append((re.sub(r"\[.*|\+$", "", name), value))
    return made


def _assigns(statement: Statement, name: str) -> bool:
    return any(other == name for command in statement.commands for other, _ in _assigned(command))


def _is_array(command: Command, name: str) -> bool:
    return any(
        other == name and value.startswith("(") for other, value in _assigned(command)
    ) or (command.name in ("mapfile", "readarray") and name in [w.text for w in command.words])


def _looks_like_master(name: str) -> bool:
    lowered = name.lower()
    return lowered.startswith(("master", "head_node", "headnode", "rdzv", "main_process")) or lowered in (
        *("nodes", "nodes_array", "nodelist", "hostnames", "head", "ip", "ip_addr", "ip_address", "node_list"),
        *("nodes_list", "host_list", "hosts", "first_node", "master", "node0"),
    )


def _variable_alone(word: str) -> str:
    """The name of the variable that a word is, and nothing else; "" for any other word."""
    match = re.fullmatch(r"\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?\}?", word)
    return match[1] if match is not None else ""


def _content(value: str) -> str:
    """The words of a variable's value as shell text: of a quoted text, or of an array."""
    if value.startswith("(") and value.endswith(")"):
        try:
            return " ".join(t.text for t in scanner.tokens(value[1:-1]) if t.kind == "word")
        except scanner.ScriptError:
            return ""
    if value.startswith('"') or "'" not in value:
        return re.sub(r"\\\n", " ", scanner.unquote(value)).replace("\n", " ")
    return scanner.unquote(value).replace("\n", " ")


def _keeps_going(text: str) -> bool:
    """Whether `set` leaves the shell going on where a command fails."""
    return not re.search(r"\bset\b[^\n;]*\s(?:-[a-zA-Z]*e|-o\s+errexit)", text)


def _differs(text: str) -> bool:
    """Whether what a statement sets differs from pod to pod."""
    return bool(re.search(r"\$\((?:date|mktemp|shuf|uuidgen|hostname)|\$RANDOM|`(?:date|hostname|mktemp)", text))


def _shell_text(texts: Sequence[str]) -> str | None:
    """The text of ``bash -c "text"``; None for anything else."""
    if len(texts) < 3 or words.base(texts[0]) not in _SHELLS:  # noqa: PLR2004 - bash, -c and the text
        return None
    for place in range(1, len(texts) - 1):
        if re.fullmatch(r"-[a-z]*c", texts[place]):
            return scanner.unquote(texts[place + 1]) if place + 2 == len(texts) else None
        if not texts[place].startswith("-"):
            return None
    return None


def _first_word(command: Sequence[str]) -> str:
    """The program of a command, in a shell's text too."""
    if tuple(command[1:2]) == ("-c",) and len(command) == 3:  # noqa: PLR2004 - bash, -c and the text
        command = command[2].split("\n")[-1].removeprefix("exec ").split()
    at = 2 if len(command) > 2 and words.is_python(command[:1]) and command[1] == "-u" else 0  # noqa: PLR2004 - torchrun's python
    return command[at] if command else ""


def _as_text(command: Sequence[str]) -> str:
    """A command as a line of a shell."""
    if tuple(command[1:2]) == ("-c",) and len(command) == 3:  # noqa: PLR2004 - bash, -c and the text
        return command[2].removeprefix("exec ")
    return commands.as_shell(command)


def _edited(
    text: str, edits: Iterable[tuple[int, int, str]], start: int = 0, end: int | None = None
) -> str:
    """A part of a text with pieces of it replaced."""
    end = len(text) if end is None else end
    out, at = [], start
    for first, last, replacement in sorted(edits):
        if first < at or last > end:
            continue
        out += [text[at:first], replacement]
        at = last
    return "".join([*out, text[at:end]])


def _without_directives(text: str) -> str:
    """A script without its directives, which are nothing to who runs it."""
    rows = [row for row in text.split("\n") if not row.startswith("#SBATCH")]
    return "\n".join(rows)
