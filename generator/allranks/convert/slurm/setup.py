"""What stands before and behind the step: setup, variables, folders, and what is left out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert import commands
from allranks.convert.slurm import images, pieces, scanner, words
from allranks.convert.slurm.steps import Steps
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.scanner import Command, Statement

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ACTIVATING = frozenset(
    {"module", "ml", "conda", "mamba", "micromamba", "source", ".", "eval", "spack", "pyenv"}
)
_RESERVED = frozenset(names.RESERVED_ENV)


class Setup(Steps):
    """A script whose other statements are sorted."""

    def _is_activation(self, statement: Statement) -> bool:
        return not statement.function and any(
            words.base(command.name) in _ACTIVATING
            for command in statement.commands
            if command.words
        )

    def _runs_program(self, statement: Statement) -> bool:
        """Whether a statement runs what the job is about."""
        if statement.function:
            return False
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if (
                words.is_python(texts)
                or words.starts_ranks(texts)
                or words.any_of(texts, ("srun", "singularity", "apptainer"))
            ):
                return True
        return False

    def _lives_in_shell(self, statement: Statement) -> bool:
        """Whether what a statement sets up dies with its shell: options, arrays, functions."""
        if statement.function:
            return True
        return any(
            command.name in ("set", "shopt", "declare", "ulimit")
            or any(pieces.is_array(command, name) for name, _ in pieces.assigned_by(command))
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
            self.say(
                line,
                text,
                Outcome.CHANGED,
                "setup",
                "where the image has modules; what it loads must be in the image otherwise",
            )
            return f"! command -v {program} >/dev/null || {text}"
        if program in ("conda", "mamba", "micromamba", "source", ".", "spack", "pyenv", "eval"):
            self.say(
                line,
                text,
                Outcome.CHANGED,
                "setup",
                "what it activates must be in the image, or in a volume at that path",
            )
            return text
        tools = [
            c
            for c in statement.commands
            if words.any_of([w.text for w in c.words], words.SLURM_TOOLS)
        ]
        for tool in tools:
            self.say(
                tool.line,
                self.text[tool.start : tool.end],
                Outcome.NOT_CARRIED,
                "",
                "a pod has no programs of Slurm's",
            )
        if any(
            words.any_of([w.text for w in c.words], ("docker", "podman", "enroot"))
            for c in statement.commands
        ):
            self.say(
                line,
                text,
                Outcome.NOT_CARRIED,
                to,
                "a pod starts no containers: name its image in image, and write what it runs as the command",
            )
            return text
        if not is_one and any(id(c) in self.side for c in statement.commands):
            self.say(
                line,
                text,
                Outcome.CHANGED,
                to,
                "srun started it on the nodes before the training; each pod runs it once",
            )
            return pieces.edited(
                self.text, self._inner_edits(statement), statement.start, statement.end
            )
        if not is_one and self.size.node_count > 1 and pieces.differs_by_pod(text):
            self.say(
                line,
                text,
                Outcome.CHANGED,
                to,
                "each pod runs it, and what it gives may differ between pods",
            )
            return text
        if not is_one and words.is_python(
            words.unwrapped([w.text for c in statement.commands[:1] for w in c.words])
        ):
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
        assigned = [name for c in statement.commands for name, _ in pieces.assigned_by(c)]
        reads_dropped = any(name in self.dropped for name, _ in words.variables(text))
        if command is not None and program in words.SLURM_TOOLS:
            if program == "sbatch":
                return (
                    Outcome.NOT_CARRIED,
                    "it submits another job: start that when this run has ended",
                )
            if program in ("sbcast", "sgather"):
                return (
                    Outcome.NOT_CARRIED,
                    "it copies files between nodes: put them into the image or a volume",
                )
            return Outcome.CHANGED, "it asks Slurm, and a pod has none"
        if statement.function:
            if is_one or not words.names_nodes(text):
                return None
            return None
        if (
            assigned
            and not is_one
            and {*assigned} <= self.used
            and not self._is_read_elsewhere(assigned)
        ):
            self.dropped.update(assigned)
            return Outcome.CHANGED, "it is a part of the command, and stands there"
        if assigned and len(assigned) == sum(
            max(1, len(pieces.assigned_by(c))) for c in statement.commands
        ):
            if not is_one or self.body.procs_per_node != 1 or not self._is_nested_launch():
                if any(
                    name in words.RENDEZVOUS or pieces.looks_like_master(name) for name in assigned
                ) or (words.names_nodes(text) or (reads_dropped and not is_one)):
                    if self._is_rendezvous(statement, assigned, text):
                        self.dropped.update(assigned)
                        return (
                            Outcome.CHANGED,
                            "the launcher lets the ranks meet, and tells each its rank and where rank 0 is",
                        )
        if is_one:
            return None
        if command is not None and program == "srun" and id(command) not in self.side:
            return Outcome.CHANGED, "it only prints"
        if (
            command is not None
            and program in words.IDLE
            and (reads_dropped or words.names_nodes(text))
        ):
            return Outcome.CHANGED, "it prints what the launcher prints"
        if command is not None and program == "trap":
            return (
                Outcome.NOT_CARRIED,
                "a pod's ranks get SIGTERM themselves: let the program handle it",
            )
        if command is not None and program == "set" and not pieces.keeps_going(text):
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
                or words.any_of(
                    [w.text for w in command.words],
                    (*words.IDLE, "srun", "eval", "export", "bash", *words.STARTERS),
                )
                for command in statement.commands
            ):
                continue
            reads = {name for name, _ in words.variables(self.slice(statement))}
            if reads & {*assigned}:
                return True
        return False

    def _is_nested_launch(self) -> bool:
        return any(
            "accelerate" in c.name or "torchrun" in c.name or "deepspeed" in c.name
            for s in self.statements
            for c in s.commands
        )

    def _is_rendezvous(self, statement: Statement, assigned: list[str], text: str) -> bool:
        if any(name in words.RENDEZVOUS for name in assigned):
            return True
        reads = {name for name, _ in words.variables(text)}
        return (
            words.names_nodes(text)
            or bool(reads & self.dropped)
            or any(map(pieces.looks_like_master, assigned))
        )

    def _to_env(self, statement: Statement, command: Command) -> bool:
        """Carry ``export NAME=text`` as a variable."""
        if command.name != "export" or not pieces.assigned_by(command) or command.redirections:
            return False
        pairs = []
        for word in command.words[1:]:
            name, equals, value = word.text.partition("=")
            if not equals or not _NAME.fullmatch(name) or name.endswith("+"):
                return False
            text = (
                value if not value else scanner.unquote(value) if scanner.is_static(value) else None
            )
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
        return (
            sum(
                other == name
                for s in self.statements
                for c in s.commands
                for other, _ in pieces.assigned_by(c)
            )
            > 1
        )

    def _to_working_dir(self, command: Command) -> bool:
        if len(command.words) != 2 or command.redirections:
            return False
        target = command.words[1].text
        path = words.resolve(target, self.constants)
        if path is None and re.fullmatch(r'"?\$\{?SLURM_SUBMIT_DIR\}?"?', target):
            self.say(
                command.line,
                f"cd {target}",
                Outcome.CHANGED,
                "",
                f"the command starts in the folder that `{names.CLI} sbatch` and `submit` send",
            )
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
        harmless = {
            *words.IDLE,
            *words.ENDING,
            "module",
            "ml",
            "conda",
            "scontrol",
            "sacct",
            "seff",
            "sstat",
            "squeue",
            "scancel",
            "jobstats",
        }
        harmless |= {
            other.function
            for other in self.statements
            if other.function
            and all(
                not c.words or words.any_of([w.text for w in c.words], words.IDLE)
                for c in other.commands
            )
        }
        if statement.function:
            self.say(statement.line, text, Outcome.CHANGED, "", "nothing before the step calls it")
        elif all(
            not c.words or words.any_of([w.text for w in c.words], harmless)
            for c in statement.commands
        ):
            self.say(
                statement.line, text, Outcome.CHANGED, "", "the run is over when its ranks are"
            )
        else:
            self.say(
                statement.line,
                text,
                Outcome.NOT_CARRIED,
                "",
                "it stands behind the step: make it a run of its own",
            )

    def _inner_edits(self, statement: Statement) -> list[tuple[int, int, str]]:
        """Srun and containers taken off commands in a script that is run as it is."""
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
        tail = self.text[
            statement.end : self.text.find("\n", statement.end)
            if "\n" in self.text[statement.end :]
            else len(self.text)
        ]
        comment = re.match(r"\s+(#[^\n]*)$", tail)
        return "\n".join([*rows, text + (f"  {comment[1]}" if comment else "")])

    def _write_setup(self, parts: list[str]) -> None:
        if not parts:
            return
        text = "\n".join(parts)
        head = []
        ends = any(
            command.name == "set" and not pieces.keeps_going(self.slice(statement))
            for statement in self.statements
            for command in statement.commands
            if not command.within and not statement.function
        )
        if not ends:
            head.append("set +e  # the script goes on where a command fails")
        if any(
            command.assignments and not command.words
            for s in self.statements
            for command in s.commands
        ):
            head.append("set -a  # the command reads these variables, too")
        self.body.setup = "\n".join([*head, text]) + "\n" + self.body.setup
