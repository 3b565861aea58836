"""What a script of one process may start on the other nodes of its job, which its run has not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.setup import setup_lines
from allranks.convert.slurm.batch_script.steps import step_search
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_WRITTEN_OUT = "write it out in the line that runs it, and convert that"
# Files for what starts ranks on hosts, by what they are called.
_HOSTS = re.compile(
    r"(?i)\.deepspeed_env$|(?:host|machine|node)_?(?:s?_?file|s?_?list)|(?:^|/)(?:hosts|machines)\b"
)
# Variables by which a launcher is told of such a file: DLTS_HOSTFILE.
_HOST_FILE = re.compile(r"(?:HOST|MACHINE)S?_?FILE$")
# Those by which a step has fewer tasks than its job.
_FEWER = frozenset({"nodes", "ntasks", "nodelist"})


def check_remote(script: Script, variables: ShellVariables) -> None:
    """Refuse a script that starts processes on the other nodes itself.

    Raises:
        InvalidValues: it does so by ssh, with the line.
    """
    for statement in script.statements:
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if variables.possible_programs(texts) & words.STARTING_ELSEWHERE:
                raise script.refuse(
                    command.line,
                    "the script starts processes on the other nodes by ssh, which pods do not have",
                    "start them with srun, torchrun or mpirun, and convert that",
                )


def printing_line(steps: list[Step]) -> int:
    """The first line in which all tasks of the job print, by srun; 0 for none."""
    return next(
        (
            step.command.line
            for step in steps
            if step.is_srun
            and step.words
            and step_search.only_prints(step.words)
            and not _FEWER & {setting.name for setting in step.settings}
        ),
        0,
    )


def verdict(
    script: Script, variables: ShellVariables, printing: int, launcher: str
) -> tuple[Outcome, str, str]:
    """What becomes of the nodes of a script that starts one process.

    Args:
        script: the script.
        variables: what its variables hold.
        printing: the line of an srun that only prints; 0 for none.
        launcher: a variable with a launcher of ranks; "" for none.
    """
    hosts = _file_of_hosts(script)
    who = f"a program that reads {hosts}" if hosts else _launcher_of_julia(script)
    if launcher and not who:
        why = f"the launcher in ${launcher} may start ranks there: {_WRITTEN_OUT}"
        return Outcome.NOT_CARRIED, "nodes: 1", why
    inside = "" if who else _substituted_srun(script) or _srun_behind_variable(script)
    who = who or inside
    unread = "" if who else _unread_script(script, variables)
    who = f"{unread}, which is not read here," if unread else who
    if not who:
        why = "no command that is known here starts anything on the other nodes"
        if printing:
            why = f"what srun starts there (line {printing}) prints, and a pod prints it once"
        return Outcome.CHANGED, "nodes: 1", why
    why = (
        f"{who} may start ranks on the other nodes: start them with srun, torchrun or mpirun, "
        "and convert that"
    )
    return Outcome.NOT_CARRIED, "nodes: 1", why


def _substituted_srun(script: Script) -> str:
    """The first srun whose output a line takes, as a part of a sentence; "" for none."""
    for command in script.commands:
        text = script.text[command.start : command.end]
        for inner in shell_text.substituted_commands(text):
            texts = [scanner.unquote(word.text) for word in inner.words]
            own = started_words.behind_srun(texts)
            if own is not texts and not words.any_of(own, words.IDLE):
                return f"the srun in `$(…)` of line {command.line}, which no pod has,"
    return ""


def _srun_behind_variable(script: Script) -> str:
    """The first srun that stands behind a variable, as a part of a sentence; "" for none."""
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        if texts[1:2] == ["srun"] and shell_text.variable_alone(texts[0]):
            return f"the srun of line {command.line}"
    return ""


def launcher_in_variable(variables: ShellVariables, steps: set[str]) -> str:
    """A variable with a launcher of ranks that no step has among its words; "" for none."""
    launchers = words.MPI_LAUNCHERS | {"srun"}
    for name, contents in variables.contents.items():
        for content in contents if name not in steps else []:
            texts = words.unwrapped(shell_text.split(content))
            if len(texts) > 1 and words.base(texts[0]) in launchers:
                return name
    return ""


def _launcher_of_julia(script: Script) -> str:
    """Julia's own mpiexec, which runs in a pod as it is, and may ask Slurm for more nodes."""
    is_called = any(shell_text.runs(statement, ("mpiexecjl",)) for statement in script.statements)
    return "mpiexecjl" if is_called else ""


def _unread_script(script: Script, variables: ShellVariables) -> str:
    """A shell script that is run, where no line has a program that is known; "" for none."""
    if any(setup_lines.runs_program(variables, statement) for statement in script.statements):
        return ""
    for command in script.commands:
        texts = words.unwrapped([scanner.unquote(token.text) for token in command.words])
        is_source = texts[:1] in (["."], ["source"])
        texts = texts[1:] if is_source else shell_text.without_shell(texts)
        resolved = words.resolve(texts[0], variables.constants) or "" if texts else ""
        for program in (*texts[:1], resolved):
            if program.endswith((".sh", ".bash", ".csh", ".zsh")):
                return program
    return ""


def _file_of_hosts(script: Script) -> str:
    """The file that the script writes for a launcher of many hosts; "" for none."""
    commands = [command for statement in script.statements for command in statement.commands]
    files = [
        target
        for command in commands
        for operator, target in command.redirections
        if operator in (">", ">>", ">|") and _HOSTS.search(target)
    ]
    files += [
        f"${name}"
        for command in commands
        if command.name == "export"
        for name, _ in shell_text.assigned_by(command)
        if _HOST_FILE.search(name)
    ]
    return next(iter(files), "")
