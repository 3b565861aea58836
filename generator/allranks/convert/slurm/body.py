"""What a batch script runs: its one step with the ranks, what stands before it, and what behind.

Slurm runs the script once, on the first node, and `srun` starts the ranks on all of them. Here a
pod runs `setup` and then its ranks. So a script with one step for several ranks becomes setup and a
command. A script that starts no ranks of several (one task, or launchers of one node alone) is run
as it is, as one process. Two steps for several ranks are two jobs, and are refused with their
lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.slurm import pieces, scanner, words
from allranks.convert.slurm.ranks import Ranks
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.script import Body, Step
    from allranks.convert.slurm.sizes import Size

_RESERVED = frozenset(names.RESERVED_ENV)


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
    return Reader(text, source, size, settings, args).read()


class Reader(Ranks):
    """A script that is read as a whole."""

    def read(self) -> Body:
        """What the script runs.

        Raises:
            InvalidValues: it cannot be a run; the problems have their lines.
        """
        shebang = self.lines[0] if self.lines[0].startswith("#!") else ""
        program = shebang.removeprefix("#!").split() or ["/bin/bash"]
        if words.base(program[0]) == "env":
            program = [
                word for word in program[1:] if not word.startswith("-") and "=" not in word
            ] or program
        interpreter = words.base(program[0])
        if interpreter not in pieces.SHELLS:
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
        if not is_python and re.search(
            r"^\s*(srun|mpirun|mpiexec|torchrun)\b", self.text, re.MULTILINE
        ):
            raise self.refuse(
                1,
                f"the script is {interpreter}'s, and only those of sh and bash are read",
                "write it for bash, or write the command into a values file",
            )
        body = self.body
        body.script = pieces.without_directives(self.text)
        body.nodes, body.procs_per_node = 1, 1
        self.say(1, self.lines[0], Outcome.CARRIED, "script")
        self._finish()
        return body

    def _as_one_process(self, steps: list[Step], *, nested: bool) -> None:
        """Run the script as it is; what it activates comes before, as setup."""
        body = self.body
        body.nodes, body.procs_per_node = 1, 1
        self._check_submits()
        if self.size.node_count > 1:
            self._check_remote()
            why = "the script starts nothing on the other nodes"
            line = self._line_of("nodes")
            body.verdicts.append(Verdict("--nodes", Outcome.CHANGED, "nodes: 1", why, line))
        if nested:
            body.notes.append(
                "the script starts the ranks of its node itself, so that the pod runs it as "
                "one process"
            )
        if not any(map(words.is_python, self._all_words())):
            body.notes.append(
                "the script runs no Python: the image needs PyTorch all the same, whose launcher "
                "starts it"
            )
        last = self._last_activation()
        edits: list[tuple[int, int, str]] = []
        setup: list[str] = []
        again: list[str] = []
        for number, statement in enumerate(self.statements):
            text = self._kept(statement, is_one=True)
            if number <= last:
                edits.append((self._comment_start(number), statement.end, ""))
                setup += [] if text is None else [self._with_comments(number, text)]
                again += [text] if text is not None and self._lives_in_shell(statement) else []
            elif text is None or text != self.slice(statement):
                edits.append((statement.start, statement.end, text or ""))
            else:
                edits += self._inner_edits(statement)
        self._write_setup(setup)
        shebang = self.lines[0] if self.lines[0].startswith("#!") else "#!/bin/bash"
        rest = pieces.without_directives(pieces.edited(self.text, edits))
        rest = re.sub(r"\A#![^\n]*\n?", "", rest)
        rest = re.sub(r"\n{3,}", "\n\n", rest).strip("\n")
        body.script = "\n".join([shebang.strip(), *again, rest]) + "\n"
        for step in steps:
            if step.is_srun and step.words:
                body.settings += step.settings

    def _all_words(self) -> list[list[str]]:
        """Each word of each command, with those behind it."""
        return [
            [token.text for token in command.words[at:]]
            for statement in self.statements
            for command in statement.commands
            for at in range(len(command.words))
        ]

    def _last_activation(self) -> int:
        """The last statement before the program that activates something; -1 for none."""
        last = -1
        for number, statement in enumerate(self.statements):
            if self._is_activation(statement):
                last = number
            elif self._runs_program(statement):
                break
        return last

    def _check_submits(self) -> None:
        """Refuse a script that only submits others."""
        if any(map(self._runs_program, self.statements)):
            return
        for statement in self.statements:
            for command in statement.commands:
                if words.any_of([token.text for token in command.words], ("sbatch",)):
                    raise self.refuse(
                        command.line,
                        "the script only submits another",
                        "convert that one; a script in a here-document becomes a file of its "
                        "own first",
                    )

    def _check_remote(self) -> None:
        for statement in self.statements:
            for command in statement.commands:
                if words.any_of(
                    [token.text for token in command.words],
                    ("ssh", "pdsh", "clush", "parallel-ssh"),
                ):
                    raise self.refuse(
                        command.line,
                        "the script starts processes on the other nodes by ssh, which pods "
                        "do not have",
                        "start them with srun, torchrun or mpirun, and convert that",
                    )

    def _finish(self) -> None:
        body = self.body
        whole = "\n".join([body.setup, body.script, *body.command])
        if "SLURM_TMPDIR" in whole and "SLURM_TMPDIR" not in self.set_names:
            body.env.setdefault("SLURM_TMPDIR", "/tmp")  # noqa: S108 - the pod's own
            self.say(0, "$SLURM_TMPDIR", Outcome.CHANGED, "env.SLURM_TMPDIR", "the pod's own /tmp")
        body.uses_slurm = body.uses_slurm or bool(re.search(r"\bSLURM_", whole))
        self._say_unset(re.sub(r"^\s*#.*$", "", whole, flags=re.MULTILINE))

    def _say_unset(self, whole: str) -> None:
        """Name the variables that the script reads and nobody sets."""
        self.set_names.update(re.findall(r"\$\{([A-Za-z_]\w*):?=", self.text))
        self.set_names.update(re.findall(r"(?:^|[\s;&|(])([A-Za-z_]\w*)\+?=", whole, re.MULTILINE))
        self.set_names.update(re.findall(r"\bfor\s+([A-Za-z_]\w*)", whole))
        if (
            words.positional(whole)
            and not self.args
            and not re.search(r"\w+\s*\(\)|\bfunction\b", self.text)
        ):
            line = next(
                (
                    n
                    for n, row in enumerate(self.lines, 1)
                    if words.positional(row) and not row.startswith("#")
                ),
                0,
            )
            self.say(
                line,
                "$1 …",
                Outcome.NOT_CARRIED,
                "",
                f"no words were given behind the script's name: `{names.CLI} sbatch SCRIPT "
                "WORD...`",
            )
        for name, has_default in words.variables(whole):
            if (
                has_default
                or name in self.set_names
                or name in words.ALWAYS
                or name in self.body.env
            ):
                continue
            if name in _RESERVED or name.startswith(
                ("SLURM_", "PET_", "SLURMD_", "OMPI_", "PMI", "ALLRANKS_", "BASH_", "CONDA_")
            ):
                continue
            line = next(
                (
                    n
                    for n, row in enumerate(self.lines, 1)
                    if re.search(rf"\$\{{?{name}\b", row) and not row.startswith("#")
                ),
                0,
            )
            if not line:
                continue
            self.say(
                line,
                f"${name}",
                Outcome.NOT_CARRIED,
                f"env.{name}",
                "the script does not set it, and a pod has not the environment of who "
                "submits: write it into env",
            )
