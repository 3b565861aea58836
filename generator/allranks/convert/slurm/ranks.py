"""A step with ranks as a command, and how many nodes and ranks run it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import commands
from allranks.convert.commands import Runner
from allranks.convert.slurm import pieces, scanner, sizes, words
from allranks.convert.slurm.setup import Setup
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.slurm.scanner import Statement
    from allranks.convert.slurm.script import Step

_MEETS = re.compile(r"MASTER_ADDR|torch|SLURM_PROCID|megatron|nemo|lightning|nccl|deepspeed", re.I)
_MPI = re.compile(r"mpi4py|open-?mpi|intel-?mpi|\bimpi\b|mpich|horovod", re.I)
_PYTHON = re.compile(r"torch|accelerate|deepspeed|lightning|python")
# Programs that run another program.
_RUNNERS = frozenset({"uv", "conda", "poetry", "pixi", "micromamba", "mamba"})
_PORT = "29510"  # of a launcher inside the chart's own, which has the one before it
_RESERVED = frozenset(names.RESERVED_ENV)


class Ranks(Setup):
    """A script whose step is read."""

    def _as_ranks(self, main: Step, steps: list[Step]) -> None:
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
                    main.command.line,
                    f"the function {function} is never called",
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
        first = (
            pieces.variable_alone(pieces.first_word(program.command).strip('"'))
            if program.command
            else ""
        )
        if not program.command or (
            first and (first in self.maybe or program.runner is not Runner.TORCHRUN)
        ):
            raise self.refuse(
                main.command.line,
                "what the step runs stands in a variable whose text is known in the pod alone",
                "write the command out behind srun, and convert that",
            )
        setup = []
        for number, other in enumerate(self.statements[:place]):
            if number in merged or (function and number == main.statement):
                if number in merged:
                    self.say(
                        other.line,
                        self.slice(other),
                        Outcome.CHANGED,
                        "command",
                        "every node starts the same, so that it is said once",
                    )
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
        self.say(
            main.command.line,
            self.text[main.command.start : main.command.end],
            Outcome.CHANGED,
            "command",
            "; ".join(self._changes(main, program)) or "each rank runs it",
        )
        for name, line in self.conditional.items():
            self.say(
                line,
                f"srun ${name}",
                Outcome.NOT_CARRIED,
                "",
                "options of srun's that the script decides on as it runs: write those that you want",
            )
        for reason in program.lost:
            outcome = (
                Outcome.CHANGED
                if reason.startswith(("--role", "--log-dir"))
                else Outcome.NOT_CARRIED
            )
            self.say(
                main.command.line,
                self.text[main.command.start : main.command.end],
                outcome,
                "",
                reason,
            )
        for number, other in enumerate(self.statements[place + 1 :], place + 1):
            if number in merged:
                self.say(
                    other.line,
                    self.slice(other),
                    Outcome.CHANGED,
                    "command",
                    "every node starts the same, so that it is said once",
                )
            else:
                self._behind(other)
        body.notes += program.notes
        body.settings = main.settings

    def _changes(self, main: Step, program: commands.Program) -> list[str]:
        reasons = list(program.changes)
        if main.is_srun:
            reasons.insert(0, "the launcher starts the ranks in place of srun")
        return list(dict.fromkeys(reasons))

    def _check_others(self, main: Step, steps: list[Step], twins: set[int]) -> None:
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

    def _read_program(self, main: Step) -> commands.Program:
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
        kept_wrapped = [
            word for word in wrapped if words.base(word) not in ("time", "nohup", "exec", "command")
        ]
        line = " ".join([*assignments, *kept_wrapped, line])
        self._note_launched(rest, inner, main)
        return commands.read(("bash", "-c", line), (), self.constants)

    def _note_launched(self, rest: list[str], inner: str | None, main: Step) -> None:
        if inner is None and rest and words.base(rest[0]) in pieces.SHELLS and len(rest) > 1:
            self.body.notes.append(
                f"what {scanner.unquote(rest[1])} does was not looked at: a torchrun or an srun in it "
                "would start further processes in each rank"
            )

    def _flat(self, main: Step, statement: Statement) -> str:
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
                    self.say(
                        command.line,
                        text,
                        Outcome.NOT_CARRIED,
                        "",
                        "it feeds the step, which has no standard input",
                    )
                continue
            program = words.base(command.name) if command.words else ""
            if program in (
                "tee",
                "cat",
                "grep",
                "sed",
                "ts",
                "awk",
                "split",
                *words.IDLE,
                *words.ENDING,
            ):
                self.say(
                    command.line,
                    text,
                    Outcome.CHANGED,
                    "",
                    f"the lines are the run's log: `{names.CLI} logs NAME`",
                )
            else:
                self.say(
                    command.line,
                    text,
                    Outcome.NOT_CARRIED,
                    "",
                    "it stands behind the step: make it a run of its own",
                )
        for operator, target in main.command.redirections:
            if operator in ("<", "<<", "<<<", "<<-"):
                self.say(
                    main.command.line,
                    f"{operator} {target}",
                    Outcome.NOT_CARRIED,
                    "",
                    "ranks have no standard input: let the program read the file",
                )
            elif not target.isdigit():
                self.say(
                    main.command.line,
                    f"{operator} {target}",
                    Outcome.CHANGED,
                    "",
                    f"the lines are the run's log: `{names.CLI} logs NAME`",
                )
        if statement.in_background:
            self.say(
                main.command.line, "&", Outcome.CHANGED, "", "the run is over when its ranks are"
            )
        return lead

    def _nested_text(
        self,
        main: Step,
        statement: Statement,
        place: int,
        program: commands.Program,
        steps: list[Step],
    ) -> str | None:
        """The statement around the step, with the program in place of what starts it.

        None where it only starts the same program on one node after the other.
        """
        edits = []
        for step in steps:
            if step.is_multi and step.statement == main.statement:
                own = program if step is main else self._read_program(step)
                edits.append((step.command.start, step.command.end, pieces.as_text(own.command)))
        loop = main.command.in_loop or statement.in_background
        if loop or any(command.in_loop for command in statement.commands):
            return None  # a loop over the nodes: each pod is one
        whole = pieces.edited(self.text, edits, statement.start, statement.end)
        if place != main.statement:
            whole += "\n" + self.slice(self.statements[place])
        return whole

    def _write_command(self, program: commands.Program, text: str | None) -> None:
        body = self.body
        command = list(program.command)
        if text is not None:
            command = ["bash", "-c", text]
        if not command:
            raise self.refuse(
                1, "the step runs nothing", "write the program behind srun or torchrun"
            )
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
            is_array = any(
                pieces.is_array(command, name) for command in statement.commands for name in reads
            )
            is_called = statement.function and re.search(
                rf"\b{re.escape(statement.function)}\b", line
            )
            if (is_array or is_called) and not any(
                name in self.dropped for name in reads if pieces.assigns(statement, name)
            ):
                prefix.append(self.slice(statement))
        for name in reads:
            if name in self.dropped and name not in _RESERVED and name not in self.used:
                prefix.append(f"{name}=$MASTER_ADDR")
        if program.is_nested and "MASTER_PORT" in reads:
            prefix.append(f"export MASTER_PORT={_PORT}")
        if self.args and words.positional(line):
            prefix.append(f"set -- {commands.as_shell(self.args)}")
        return "\n".join([*dict.fromkeys(prefix), line])

    def _size_of(self, main: Step, program: commands.Program) -> None:
        """How many nodes and ranks the step has."""
        body = self.body
        is_own = main.is_srun and not self._over_nodes(main)
        size = main.size if is_own else self.size
        nodes = size.nodes or self.size.nodes
        command_line = main.command.line
        runner = program.runner
        body.values = {}
        per_node = size.per_node
        gpus = self.size.gpus_per_node
        if runner is Runner.TORCHRUN:
            wanted = program.options.get(
                "nproc-per-node", "1" if "standalone" not in program.options else "1"
            )
            count = self._processes(wanted)
            body.values["torchrun"] = dict(program.values)
            if count is not None:
                body.procs_per_node = 0 if gpus and count == gpus else count
            else:
                body.procs_per_node = 0
                if wanted not in ("gpu", "auto", "cpu"):
                    self.say(
                        command_line,
                        f"--nproc-per-node {wanted}",
                        Outcome.CHANGED,
                        "procsPerNode",
                        "what it is, is known in the pod alone: one process for each GPU",
                    )
            nnodes = commands.number(program.options.get("nnodes", ""), self.constants)
            if nnodes and nodes is None:
                nodes = min(nnodes, sizes.MOST_NODES)
            if (
                not main.is_srun
                and (nodes or 1) > 1
                and nnodes in (None, 1)
                and not self._many_nodes(program)
            ):
                self.say(
                    command_line,
                    "torchrun",
                    Outcome.CHANGED,
                    "nodes: 1",
                    "without srun it runs on the first node alone",
                )
                nodes = 1
            elif nnodes and nodes and nnodes != nodes and main.is_srun:
                self.say(
                    command_line,
                    f"--nnodes {nnodes}",
                    Outcome.CHANGED,
                    "nodes",
                    f"the job has {plural(nodes, 'node')}",
                )
            if main.is_srun and per_node > 1:
                self.say(
                    command_line,
                    "srun",
                    Outcome.CHANGED,
                    "",
                    f"torchrun starts the ranks of a node, and so runs once on each and not {per_node} times",
                )
        elif runner in (Runner.MPIRUN, Runner.HOROVODRUN):
            self._as_mpi(main, per_node)
            if words.base(program.command[0]) not in words.MPIRUN | {"horovodrun"}:
                body.values.setdefault("mpi", {})["ownMpirun"] = True
        elif program.is_nested:
            nodes = self._size_nested(main, program, nodes)
        elif self._is_mpi(main, program):
            self._as_mpi(main, per_node)
        else:
            is_spread = gpus is None and bool(self.size.gpus) and nodes is None
            body.procs_per_node = 0 if is_spread or (gpus and per_node == gpus) else per_node
            body.values["torchrun"] = {"maxRestarts": 0}
            body.uses_slurm = True
        body.nodes = nodes if nodes is not None else (None if self.size.gpus else 1)

    def _many_nodes(self, program: commands.Program) -> bool:
        return any(
            name in program.options for name in ("node-rank", "rdzv-endpoint", "master-addr")
        ) and ("standalone" not in program.options)

    def _processes(self, text: str) -> int | None:
        resolved = words.resolve(text, self.constants) or text
        if resolved in ("gpu", "auto"):
            return self.size.gpus_per_node
        count = commands.number(resolved, self.constants)
        return count if count and count <= sizes.MOST_PER_NODE else None

    def _size_nested(self, main: Step, program: commands.Program, nodes: int | None) -> int | None:
        body = self.body
        body.procs_per_node = 1
        # The launcher's own rendezvous leaves its usual port to that which it starts.
        body.values["torchrun"] = {
            "maxRestarts": 0,
            **({"port": 29409} if (nodes or 1) > 1 else {}),
        }
        body.uses_slurm = True
        texts = list(program.command)
        line = texts[2] if texts[1:2] == ["-c"] else " ".join(texts)
        spans = any(
            flag in line
            for flag in (
                "machine_rank",
                "machine-rank",
                "main_process_ip",
                "hostfile",
                "node_rank",
                "--rdzv",
            )
        )
        if (nodes or 1) > 1 and not main.is_srun and not spans:
            self.say(
                main.command.line,
                program.runner,
                Outcome.CHANGED,
                "nodes: 1",
                "without srun it runs on the first node alone",
            )
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

    def _is_mpi(self, main: Step, program: commands.Program) -> bool:
        """Whether what srun starts is a program of MPI's, and not one that meets by MASTER_ADDR."""
        has_mpi = any(
            setting.name == "mpi" and setting.value != "none" for setting in main.settings
        )
        meets = _MEETS.search(self.text) is not None
        words_of = " ".join(map(self._expanded, main.words))
        if _PYTHON.search(words_of):
            return (has_mpi or _MPI.search(self.text) is not None) and not meets
        is_text = program.command[1:2] == ("-c",)
        name = words.base(words.unwrapped(main.words if is_text else program.command)[0])
        if name in pieces.SHELLS or name.endswith((".sh", ".bash", ".py")) or name in _RUNNERS:
            return has_mpi and not meets
        return True

    def _as_mpi(self, main: Step, per_node: int) -> None:
        body = self.body
        body.workload = "mpi"
        mpi: dict[str, Any] = {}
        lowered = self.text.lower()
        if (
            re.search(r"module\s+(?:load|add)[^\n]*(?:impi|intel-?mpi|intel-oneapi-mpi)", lowered)
            or "i_mpi_" in lowered
        ):
            mpi["implementation"] = "Intel"
        elif re.search(r"module\s+(?:load|add)[^\n]*mpich", lowered):
            mpi["implementation"] = "MPICH"
        body.procs_per_node = 0 if self.size.gpus_per_node == per_node else per_node
        if mpi:
            body.values["mpi"] = mpi
