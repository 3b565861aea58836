"""Which variables that a script exports are those of the run, and which stay where they stand."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.containers import singularity_environment
from allranks.convert.slurm.batch_script.text import environments, shell_text, substitutions, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(names.RESERVED_ENV)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
_TOKENIZER = re.compile(r"TOKENIZERS?_|_TOKENIZERS?$", re.IGNORECASE)
# A secret that is written out in a line: a variable's, an option's, or the key of a login.
_SECRET_IN_LINE = re.compile(
    r"(?:^|[\s;])(?P<name>\w*(?:TOKEN(?!S)|SECRET|PASSWORD|PASSWD|API_?KEY)\w*)=[\"']?"
    r"(?:hf_|(?=[\w.+-]*[a-z])(?=[\w.+-]*[0-9]))[\w.+-]{8,}"
    r"|\s--?(?:token|password|passwd|api[-_]key)[= ][\"']?[\w.+-]{8,}"
    r"|\bwandb\s+login\s+(?:-\S+\s+)*[\"']?[0-9a-f]{20,}|(?<!\S)\S*://[^/\s:@$]+:[^/\s@$]+@"
    r"|://(?:gh[pousr]_|github_pat_|glpat-|hf_)\w+@",
    re.IGNORECASE,
)
_WITHOUT_ONE = re.compile(r"\"?\$\{(?P<name>\w+):?-(?:\"\"|'')?\}\"?")
_OF_SUBMITTER = (
    "who submits may have it in the environment, which a pod has not, and the script goes on "
    "without: let a Secret set it in env, where the program needs it"
)
# What gives a line of a file, which is a program's words: cmd=$(sed -n 3p tasks.txt).
_OF_LINES = frozenset({"sed", "awk", "gawk", "head", "tail", "cat", "cut", "grep", "perl"})
_OUTPUT = re.compile(r"(?:\$\(|`)\s*([^\s()`]+)\s")
# Variables that modules and sourced files set, too, so that the later one counts.
_OF_SOFTWARE = re.compile(
    r"MODULEPATH|PYTHONPATH|LD_LIBRARY_PATH|LIBRARY_PATH|CPATH|LD_PRELOAD|CC|CXX|FC|F77|F90"
    r"|(?:CUDA|ROCM|JAVA|MPI)_(?:HOME|PATH|ROOT)|MKLROOT|CUDA_VISIBLE_DEVICES|PYTHON(?:USERBASE|HOME)"
    r"|(?:OMP|MKL|OPENBLAS)_NUM_THREADS|(?:I_MPI|OMPI|UCX|MPICH|PMIX)_\w+"
)

# What Python is asked that no variable of a training changes.
_OF_NO_PROJECT = re.compile(r"-(?!m )|-m (?:pip|venv|virtualenv|ensurepip|site)\b")


def is_activation(variables: ShellVariables, statement: Statement) -> bool:
    """Whether a statement sets up the shell for the program: modules, or an environment."""
    # What runs beside the rest is a program, and its shell another: `source train.sh &`.
    return not (statement.function or statement.in_background) and any(
        _prepares([word.text for word in command.words])
        and not evaluates_program(variables, command)
        and command.words[-1].text != "deactivate"
        and (len(command.words) == 1 or command.words[1].text not in ("unload", "rm"))
        for command in statement.commands
        if command.words
    )


def _prepares(texts: Sequence[str]) -> bool:
    """Whether words activate an environment, or make one."""
    return words.activates(texts) or environments.makes(texts)


def evaluates_program(variables: ShellVariables, command: Command) -> bool:
    """Whether a command is an `eval` that runs a program, and sets up no shell."""
    if words.base(command.name) != "eval":
        return False
    text = " ".join(scanner.unquote(word.text) for word in command.words[1:])
    own = shell_text.variable_alone(text)
    contents = _contents(variables, own) if own else [text]
    # A loop has each line of a list of commands: `while read -r LINE; do eval "$LINE"; done`.
    is_of_list = bool(own) and not contents and command.in_loop
    return is_of_list or any(_is_program(variables, content) for content in contents)


def _contents(variables: ShellVariables, name: str) -> list[str]:
    """What a variable is set to, also by a loop."""
    return [*variables.contents.get(name, []), *variables.listed.get(name, [])]


def _is_program(variables: ShellVariables, text: str) -> bool:
    """Whether a text that is evaluated runs a program: ``module load cuda && python a.py``."""
    text = words.partly(re.sub(r"\A\s*(?:[A-Za-z_]\w*=\S*\s+)*", "", text), variables.constants)
    output = _OUTPUT.match(text)
    if output is not None and words.base(output[1]) in _OF_LINES:
        return True
    if text.startswith(("$(", "`", "\\$")) or re.match(r"[\\$\w{}]+=", text):
        return False  # what a program prints, or an assignment
    text = variables.looked_up(text)
    programs = [
        words.base(command.name) for command in shell_text.commands_of(text) if command.words
    ] or [words.base(first) for first in text.split(maxsplit=1)[:1]]
    return any(program not in words.IN_EACH_RANK for program in programs)


def to_env(reading: ScriptReading, statement: Statement, command: Command) -> bool:
    """Carry ``export NAME=text`` as a variable."""
    script = reading.script
    if command.name != "export" or not shell_text.assigned_by(command) or command.redirections:
        return False
    pairs = [pair(script, word.text) for word in command.words[1:]]
    if None in pairs:
        return False
    is_set_by_software = any(_OF_SOFTWARE.fullmatch(name) for name, _ in filter(None, pairs))
    if any(_is_read_before(script, statement, name) for name, _ in filter(None, pairs)):
        return False  # a line before it has another text
    if script.has_before(statement, _runs_own_program):
        return False  # a program before it runs without it
    if _is_behind_source(script, statement) or (
        is_set_by_software and _is_behind_activation(script, reading.variables, statement)
    ):
        return False  # it holds where it stands
    for name, text in filter(None, pairs):
        put_env(reading.body, statement.line, name, text)
    return bool(pairs)


def _is_read_before(script: Script, statement: Statement, name: str) -> bool:
    readers = script.readers.get(name, [])
    return any(other.start < statement.start for other in readers if not other.function)


def _runs_own_program(statement: Statement) -> bool:
    """Whether a statement runs a program of the project's: ``python prepare.py``."""
    if statement.function:
        return False
    for command in statement.commands:
        name, *rest = words.unwrapped([scanner.unquote(word.text) for word in command.words]) or [
            ""
        ]
        is_run = words.is_python([name]) or words.any_of([name], shell_text.SHELLS)
        first = " ".join(rest[: 2 if rest[:1] == ["-m"] else 1])
        if name.startswith("./") or (is_run and first and not _OF_NO_PROJECT.match(first)):
            return True
    return False


def _is_behind_source(script: Script, statement: Statement) -> bool:
    """Whether a statement before this one reads a file that may set any variable."""
    return script.has_before(statement, sources)


def _is_behind_activation(script: Script, variables: ShellVariables, statement: Statement) -> bool:
    """Whether a statement before this one activates something."""
    earlier = (other for other in script.statements if other.start < statement.start)
    return any(is_activation(variables, other) for other in earlier)


def sources(statement: Statement) -> bool:
    """Whether a statement reads a file that may set any variable."""
    return not statement.function and any(map(shell_text.reads_file, statement.commands))


def put_env(body: Body, line: int, name: str, text: str) -> None:
    """Make a variable one of the run."""
    if singularity_environment.is_of_program(name):
        return  # said with the whole script (singularity_environment.carry)
    body.env[name] = text
    body.say(line, name, Outcome.CARRIED, f"env.{name}")
    is_named_so = text and _SECRET.search(name) and not _TOKENIZER.search(name)
    if is_named_so or _WITH_PASSWORD.search(text):
        body.notes.append(
            f"env.{name} looks like a secret, and all who may read the run's objects can read "
            "it: put it into a Secret, and name that"
        )


def note_secrets(script: Script, body: Body, text: str) -> None:
    """Note the lines of what runs that have a secret in them, without showing it."""
    for row in text.split("\n"):
        match = None if row.lstrip().startswith("#") else _SECRET_IN_LINE.search(row)
        if match is None or _TOKENIZER.search(match["name"] or ""):
            continue
        line = next((n for n, own in enumerate(script.lines, 1) if match[0] in own), 0)
        body.notes.append(
            f"line {line} looks as if it had a secret, and all who may read the run's objects "
            "can read it: put it into a Secret, and name that"
        )


def say_secrets_of_environment(script: Script, body: Body) -> None:
    """Say of keys that a script takes from who submits, or goes on without: ``K=${K:-}``.

    Args:
        script: the script.
        body: what comes of it, with the words on variables that nobody sets.
    """
    spoken = {verdict.path for verdict in body.verdicts}
    for command in script.commands:
        for name, value in shell_text.assigned_by(command):
            text = _WITHOUT_ONE.fullmatch(value)
            is_own = text is not None and text["name"] == name and f"${name}" not in spoken
            if is_own and _SECRET.search(name) and not _TOKENIZER.search(name):
                body.say(command.line, f"${name}", Outcome.CHANGED, f"env.{name}", _OF_SUBMITTER)


def pair(script: Script, word: str) -> tuple[str, str] | None:
    """The name and text of ``NAME=text``; None where a value may not say it, or not so."""
    name, equals, value = word.partition("=")
    is_free = _NAME.fullmatch(name) is not None and name not in _RESERVED
    is_free = is_free and not name.startswith(names.RESERVED_ENV_PREFIXES)
    is_text = not value or scanner.is_static(value)
    if not equals or not is_free or not is_text or script.assignment_counts[name] > 1:
        return None
    if name in script.removed_names:
        return None  # it holds where it stands, and until it is removed
    text = scanner.unquote(value)
    return None if "\0" in text else (name, text)


def to_setup(reading: ScriptReading, assignments: Sequence[str]) -> list[str]:
    """Have setup set in each pod what stands before mpirun: ``SEED=$seed mpirun …``.

    Slurm starts mpirun's daemons on the other nodes with all the variables that mpirun has.

    Returns:
        The assignments that stay before the command: what they give differs from pod to pod, or
        is known to the command's shell alone.
    """
    late = []
    for text in assignments:
        is_own = {name for name, _ in words.variables(text)}.isdisjoint(reading.rendezvous.meeting)
        has_command = bool(substitutions.spans(text))
        if is_own and not (
            has_command or words.positional(text) or shell_text.differs_by_pod(text)
        ):
            reading.body.setup += f"export {text}\n"
        else:
            late.append(text)
    return late
