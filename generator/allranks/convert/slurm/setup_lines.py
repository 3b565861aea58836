"""What stands before and behind the step: setup, variables, folders, and what is left out.

It is long because what becomes of a line depends on nearly all that stands around it: each of the
methods is one reason to carry, change or leave out a line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import commands, scanner
from allranks.convert.slurm import (
    exports,
    first_node,
    images,
    mpirun,
    shell_text,
    step_search,
    torchrun_environment,
    words,
    working_folder,
)
from allranks.convert.slurm.node_variables import NodeVariable, kind_of
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection

    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.script import Script
    from allranks.convert.slurm.script_reading import (
        Body,
        MainStep,
        Rendezvous,
        ScriptReading,
        StepDetails,
    )
    from allranks.convert.slurm.shell_variables import ShellVariables

_MODULES = ("module", "ml")
NO_CONTAINERS = "a pod starts no containers: name its image in image, and write what it runs"
# Numbers of nodes and ranks.
_COUNTS = words.RENDEZVOUS - {"MASTER_ADDR", "MASTER_PORT", "MASTER_IP", "MASTER_HOST"}
_LOOKING = words.IDLE | {"cat", "rm", "wc", "head"}
_NO_FILE = "it asks Slurm, and a pod has none: write the file that later lines read yourself"
# A loop whose nodes Slurm is asked for.
_OVER_NODES = re.compile(r"\bin\s+(?:\$\(|`)\s*(scontrol\s+show\s+hostnames?[^)`\n]*)")
_NO_NODES = "a pod has no programs of Slurm's, and the loop no nodes: let each pod do its own part"
_REQUEUING = re.compile(r"\b(?:scontrol|sbatch)\b")
_REQUEUES = (
    "a pod has no programs of Slurm's: let the program handle SIGTERM, and "
    "runPolicy.backoffLimit start it again"
)
_OF_MODULES = "where the image has modules; what it loads must be in the image otherwise"
_ACTIVATED = "what it activates must be in the image, or in a volume at that path"
_OF_ROOT = "a pod of a run is no root: put what it installs, or mounts, into the image or a volume"
OTHER_HOSTS = "a pod has no keys of who submits, and none of the old cluster's hosts: take it out"
_SET = "setup does not end at an unset variable, nor at what fails within a pipe"
MEETING = "the launcher lets the ranks meet, and tells each its rank and where rank 0 is"
# What becomes of a line that calls one of Slurm's programs; the others only ask.
TOOLS = {
    "sbatch": (
        Outcome.NOT_CARRIED,
        "it submits another job: start that when this run has ended",
    ),
    **dict.fromkeys(
        ("sbcast", "sgather"),
        (
            Outcome.NOT_CARRIED,
            "it copies files between nodes: put them into the image or a volume",
        ),
    ),
}
_ONCE = "it runs once in each pod"
_TERM = "a pod's ranks get SIGTERM themselves: let the program handle it"
_AT_THE_END = "the shell of setup ends before the ranks do: make what it runs a run of its own"
# What may stand behind the step, besides what only prints.
_BEHIND = frozenset(
    {
        *(
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
            "kill",
            "pkill",
        )
    }
)


# What is a function in a shell that has read the file of conda, of modules or of an environment.
_FUNCTIONS = (words.ACTIVATING - {"source", ".", "eval"}) | {"deactivate"}
# Programs that change files, which pods may share.
_ON_FILES = frozenset(
    {
        *("wget", "curl", "tar", "unzip", "gunzip", "git", "rsync", "cp", "mv", "rm", "ln"),
        *("configure", "make", "cmake", "ninja", "pip", "pip3"),
    }
)


def runs_program(variables: ShellVariables, statement: Statement) -> bool:
    """Whether a statement runs what the job is about."""
    if statement.function:
        return False
    for command in statement.commands:
        texts = [token.text for token in command.words]
        if (
            exports.evaluates_program(variables, command)
            or words.is_python(texts)
            or words.starts_ranks(texts)
            or words.any_of(texts, ("srun", "singularity", "apptainer"))
        ):
            return True
    return False


def lives_in_shell(statement: Statement) -> bool:
    """Whether what a statement sets up dies with its shell: options, arrays, functions."""
    if statement.function:
        return True
    return any(
        command.name in ("set", "shopt", "ulimit", "trap")
        or (command.name == "declare" and not shell_text.exports(command))
        or any(shell_text.is_array(command, name) for name, _ in shell_text.assigned_by(command))
        for command in statement.commands
    )


def text_of(
    reading: ScriptReading, statement: Statement, *, is_single: bool, is_setup: bool = True
) -> str | None:
    """A statement as setup or part of a script, and say what becomes of it.

    Args:
        reading: the script, and what is known of it.
        statement: the statement.
        is_single: whether the script is run as it is, as one process.
        is_setup: whether it becomes a part of setup.

    Returns:
        Its text; None where it is left out.
    """
    text = reading.script.slice(statement)
    to = "setup" if is_setup else "script"
    command = statement.commands[0] if statement.is_simple else None
    program = words.base(command.name) if command is not None and command.words else ""
    local = (
        _with_local_host(reading.script, reading.rendezvous, statement, command)
        if is_single
        else None
    )
    if local is not None:
        reading.body.say(statement.line, text, Outcome.CHANGED, to, "there is one node")
        return local
    reason = _why_dropped(reading, statement, command, program, is_single=is_single)
    if reason is not None:
        reading.body.say(statement.line, text, reason[0], "", reason[1])
        return None
    if command is not None and (
        exports.to_env(reading, statement, command)
        or (
            program == "cd"
            and not is_single
            and working_folder.to_working_dir(reading.variables, reading.body, command)
        )
    ):
        return None
    if program in _MODULES:
        reading.body.say(statement.line, text, Outcome.CHANGED, "setup", _OF_MODULES)
        return f"! command -v {program} >/dev/null || {text}"
    if is_setup or not exports.sources(statement):
        say_activated(reading.script, reading.body, statement, to)
    loop = None if is_single else _OVER_NODES.search(text)
    if loop is not None:
        reading.body.say(statement.line, loop[1], Outcome.NOT_CARRIED, "", _NO_NODES)
    verdict = _say_forbidden(reading.script, reading.body, statement) or _verdict_of(
        reading, statement, text, program, is_single=is_single, is_setup=is_setup
    )
    if verdict is not None and program == "set" and is_setup:
        loses = shell_text.set_of_setup(text)[1]
        verdict = (Outcome.CHANGED, _SET) if loses else verdict
    if verdict is not None:
        reading.body.say(statement.line, text, verdict[0], to, verdict[1])
    reading.body.reads_folder |= working_folder.reads_folder(reading.variables, statement)
    return _in_pod(reading, statement)


def _in_pod(reading: ScriptReading, statement: Statement) -> str:
    """A statement that is kept, as a pod runs it."""
    if any(id(command) in reading.details.side for command in statement.commands):
        edits = inner_edits(reading, statement)
        return shell_text.edited(reading.script.text, edits, statement.start, statement.end)
    text = reading.script.slice(statement)
    if any(map(_reads_profile, statement.commands)):
        return f"image_path=$PATH\n{text}\nPATH=$image_path:$PATH"
    return text


def _verdict_of(
    reading: ScriptReading,
    statement: Statement,
    text: str,
    program: str,
    *,
    is_single: bool,
    is_setup: bool,
) -> tuple[Outcome, str] | None:
    """What becomes of a statement that is kept; None where it was said already."""
    is_setup = is_setup or not exports.sources(statement)
    first = [token.text for token in statement.commands[0].words] if statement.commands else []
    is_activation = is_setup and program and words.activates(first)
    if is_activation and not exports.evaluates_program(reading.variables, statement.commands[0]):
        is_own = _is_made_before(reading.script, statement, first)
        return (Outcome.CARRIED, "") if is_own else (Outcome.CHANGED, _ACTIVATED)
    if runs(statement, words.UNREAD_CONTAINERS):
        return Outcome.NOT_CARRIED, NO_CONTAINERS
    if not is_single and any(id(command) in reading.details.side for command in statement.commands):
        why = "srun started it on the nodes before the training; each pod runs it once"
        return Outcome.CHANGED, why
    has_pods = not is_single and (
        reading.script.size.node_count > 1 or reading.main_step.has_launcher
    )
    why = _in_each_pod(reading.script, statement, text) if has_pods else ""
    if why:
        return Outcome.CHANGED, why
    tools = [
        command
        for command in statement.commands
        if words.any_of([token.text for token in command.words], words.SLURM_TOOLS)
    ]
    for tool in tools:
        path = reading.script.text[tool.start : tool.end]
        reading.body.say(
            tool.line, path, Outcome.NOT_CARRIED, "", "a pod has no programs of Slurm's"
        )
    return None if tools else (Outcome.CARRIED, "")


def _is_made_before(script: Script, statement: Statement, activation: list[str]) -> bool:
    """Whether the script has made the virtual environment that it activates."""
    path = scanner.unquote(activation[-1])
    folder = path.removesuffix("/bin/activate").rstrip("/")
    return folder != path and any(
        words.makes_environment([scanner.unquote(word.text) for word in command.words], folder)
        for other in script.statements
        if other.start < statement.start
        for command in other.commands
    )


def _say_forbidden(script: Script, body: Body, statement: Statement) -> tuple[Outcome, str] | None:
    """Say of parts of a statement what no pod may do; gives that of the whole, if it is one."""
    for command in statement.commands:
        texts = [token.text for token in command.words]
        is_root = bool({words.base(text) for text in texts[:2]} & words.OF_ROOT)
        why = _OF_ROOT if is_root else OTHER_HOSTS
        if not is_root and not words.any_of(texts, words.OF_OTHER_HOSTS):
            continue
        if statement.is_simple:
            return Outcome.NOT_CARRIED, why
        path = script.text[command.start : command.end]
        body.say(command.line, path, Outcome.NOT_CARRIED, "", why)
    return None


def say_activated(script: Script, body: Body, statement: Statement, to: str) -> None:
    """Say of each line of a condition, a loop or a function what it needs of the image."""
    for command in [] if statement.is_simple else statement.commands:
        text, program = script.text[command.start : command.end], words.base(command.name)
        if program in _MODULES:
            body.say(command.line, text, Outcome.CHANGED, to, _OF_MODULES)
        elif len(command.words) > 1 and words.activates([w.text for w in command.words]):
            body.say(command.line, text, Outcome.CHANGED, to, _ACTIVATED)


def _in_each_pod(script: Script, statement: Statement, text: str) -> str:
    """Why it matters that each pod runs a statement; "" where it does not."""
    if first_node.is_named(text):
        return "each pod has its own name there, and the script that of its first node"
    if shell_text.differs_by_pod(text):
        return "each pod runs it, and what it gives may differ between pods"
    if words.OF_TASK & {name for name, _ in words.variables(text)}:
        return "each pod has its own number, where the script has 0"
    if _changes_files(script, statement):
        return "each pod runs it, and the script ran it once: mind what is shared"
    is_known = statement.function or is_harmless(statement, words.IN_EACH_RANK | {"ulimit"})
    return "" if is_known else _ONCE


def _changes_files(script: Script, statement: Statement) -> bool:
    """Whether a statement changes files in a way that two pods cannot at once."""
    is_new_folder = runs(statement, ("mkdir",)) and not re.search(
        r"\bmkdir\s+(?:-\S+\s+)*-(?:\w*p|-parents)", script.slice(statement)
    )
    return is_new_folder or runs(statement, _ON_FILES)


def runs(statement: Statement, programs: Collection[str]) -> bool:
    """Whether a statement runs one of some programs."""
    return any(
        words.any_of([token.text for token in command.words], programs)
        for command in statement.commands
    )


def _why_dropped(  # noqa: PLR0911 - a return for each reason
    reading: ScriptReading,
    statement: Statement,
    command: Command | None,
    program: str,
    *,
    is_single: bool,
) -> tuple[Outcome, str] | None:
    """Why a statement is left out; None where it is not."""
    if command is not None and program in words.SLURM_TOOLS:
        if _is_missed(reading.script, reading.main_step, statement, command):
            return Outcome.NOT_CARRIED, _NO_FILE
        return TOOLS.get(program, (Outcome.CHANGED, "it asks Slurm, and a pod has none"))
    if statement.function:
        return None
    if program in words.OF_TERMINAL:
        return Outcome.CHANGED, "a pod has no terminal"
    text = reading.script.slice(statement)
    if program == "trap" and _REQUEUING.search(text):
        return Outcome.NOT_CARRIED, _REQUEUES
    reads_dropped = any(name in reading.rendezvous.meeting for name, _ in words.variables(text))
    assigned_names = [name for c in statement.commands for name, _ in shell_text.assigned_by(c)]
    only_assigns = bool(assigned_names) and all(
        shell_text.assigned_by(command) for command in statement.commands
    )
    is_option = only_assigns and all(map(torchrun_environment.is_option, assigned_names))
    if reading.main_step.is_torchrun and is_option:
        return Outcome.CHANGED, "it is an option of torchrun's, which the chart starts"
    if assigned_names and not is_single and {*assigned_names} <= reading.variables.expanded_names:
        if not _is_read_elsewhere(reading, assigned_names):
            reading.rendezvous.dropped.update(assigned_names)
            return Outcome.CHANGED, "it is a part of the command, and stands there"
    elif is_single and _is_of_the_script(
        reading.script, reading.rendezvous, command, assigned_names, text
    ):
        return None
    elif only_assigns and _is_rendezvous(
        reading.script,
        reading.body,
        assigned_names,
        text,
        reads_dropped=reads_dropped and not is_single,
    ):
        is_late = not is_single and _has_more(statement)
        if not is_late:
            reading.rendezvous.dropped.update(assigned_names)
            reading.rendezvous.meeting.update(assigned_names)
            return Outcome.CHANGED, MEETING + _own_name(reading.script, command, assigned_names)
        return _why_not_in_ranks(
            reading.script, reading.rendezvous, statement, reads_dropped=reads_dropped
        )
    if is_single:
        return None
    return _why_not_in_setup(
        reading.script, reading.details, statement, command, program, reads_dropped=reads_dropped
    )


def _own_name(script: Script, command: Command | None, names_of: list[str]) -> str:
    """What a program misses that reads a name of the script's own; "" where none may."""
    if command is None or command.name != "export" or {*names_of} & words.RENDEZVOUS:
        return ""
    variables = variables_read(script)
    own = [name for name in names_of if name not in variables]
    if not own:
        return ""
    # Read as one that comes of the nodes: that it does is why it is left out.
    kind = kind_of(own[0], script.text[command.start : command.end], {NodeVariable.ADDRESS})
    if kind is NodeVariable.UNKNOWN:
        return f"; a program that reads {own[0]} has no list of the nodes here"
    instead = "SLURM_NNODES" if kind is NodeVariable.COUNT else "MASTER_ADDR"
    return f"; a program that reads {own[0]} is to read {instead}"


def variables_read(script: Script) -> set[str]:
    """The variables that statements read which do more than print."""
    return {
        name
        for statement in script.statements
        if not is_harmless(statement, words.IDLE)
        for name, _ in words.variables(script.slice(statement))
    }


def _is_missed(script: Script, main_step: MainStep, statement: Statement, command: Command) -> bool:
    """Whether a file that a command writes is read by a later line, and not by the step alone.

    The list of hosts of a launcher is the chart's.
    """
    files = [target for operator, target in command.redirections if operator in (">", ">>")]
    names_of = [re.escape(shell_text.variable_alone(file) or file) for file in files]
    if not names_of:
        return False
    reads = re.compile(rf"(?<![\w-])(?:{'|'.join(names_of)})(?!\w)")
    return any(
        other.start > statement.start
        and number != main_step.statement
        and not (other.is_simple and runs(other, _LOOKING))
        and reads.search(script.slice(other))
        for number, other in enumerate(script.statements)
    )


def _is_of_the_script(
    script: Script,
    rendezvous: Rendezvous,
    command: Command | None,
    assigned_names: list[str],
    text: str,
) -> bool:
    """Whether a script that is run as it is sets a variable of its own, or its ranks'."""
    if words.names_nodes(text) or any(n in rendezvous.meeting for n, _ in words.variables(text)):
        return False
    is_exported = command is not None and command.name == "export" and bool(assigned_names)
    is_own = not {*assigned_names} & words.RENDEZVOUS
    return (
        is_exported or is_own or any(_is_read_by_programs(script, name) for name in assigned_names)
    )


def _is_look(details: StepDetails, command: Command, program: str) -> bool:
    """Whether a step looks at the nodes, and does nothing to them."""
    if program == "srun":
        return id(command) not in details.side
    texts = [token.text for token in command.words]
    return program in words.MPIRUN and step_search.only_prints(mpirun.program(texts))


def _has_more(statement: Statement) -> bool:
    """Whether a statement sets a variable to more than where the ranks meet: to some words."""
    for command in statement.commands:
        for name, value in shell_text.assigned_by(command):
            if name in words.RENDEZVOUS or shell_text.looks_like_master(name):
                continue
            content = shell_text.content_of(value)
            if re.search(r"\s", re.sub(r"\$\(.*\)|`[^`]*`", "x", content).strip()):
                return True
    return False


def _why_not_in_ranks(
    script: Script, rendezvous: Rendezvous, statement: Statement, *, reads_dropped: bool
) -> tuple[Outcome, str] | None:
    """What becomes of words of the command that tell of the nodes; None for a line of setup."""
    if "scontrol" in script.slice(statement):
        return Outcome.NOT_CARRIED, "it asks Slurm for its nodes, and a pod has none"
    if not reads_dropped:
        return None
    rendezvous.late.append(statement)
    return Outcome.CHANGED, "each process sets it, as it reads where the ranks meet"


def _why_not_in_setup(
    script: Script,
    details: StepDetails,
    statement: Statement,
    command: Command | None,
    program: str,
    *,
    reads_dropped: bool,
) -> tuple[Outcome, str] | None:
    """Why a statement is no line of setup; None where it is."""
    text = script.slice(statement)
    reason: tuple[Outcome, str] | None = None
    if command is None:
        pass
    elif _is_look(details, command, program):
        reason = Outcome.CHANGED, "it only prints"
    elif program in words.IDLE and (reads_dropped or words.names_nodes(text)):
        reason = Outcome.CHANGED, "it prints what the launcher prints"
    elif program == "trap":
        is_end = command.words[-1].text in ("EXIT", "0")
        why = _AT_THE_END if is_end else _TERM
        reason = Outcome.NOT_CARRIED, why
    elif _stays_in_place(script, statement, program):
        pass
    elif program in ("wait", "exit", "set", "exec"):
        loses = program == "set" and shell_text.set_of_setup(text)[1]
        reason = Outcome.CHANGED, _SET if loses else "setup goes on to the command"
    if reason is None and reads_dropped and statement.commands:
        why = "it is about where the ranks meet, which the launcher arranges"
        return Outcome.CHANGED, why
    return reason


def _stays_in_place(script: Script, statement: Statement, program: str) -> bool:
    """Whether a line is about how setup goes on: `set -e`, or `wait` for what is beside it."""
    if program == "wait":
        return any(
            other.in_background for other in script.statements if other.start < statement.start
        )
    return program == "set" and bool(shell_text.set_of_setup(script.slice(statement))[0])


def _with_local_host(
    script: Script, rendezvous: Rendezvous, statement: Statement, command: Command | None
) -> str | None:
    """A variable with the head node's name, in a script that starts the ranks of one node."""
    assignments = shell_text.assigned_by(command) if command is not None else []
    if command is None or len(assignments) != 1:
        return None
    name, value = assignments[0]
    is_address = name in words.RENDEZVOUS or shell_text.looks_like_master(name)
    of_local = is_address and any(other in rendezvous.local for other, _ in words.variables(value))
    if not (of_local or words.names_nodes(script.slice(statement))):
        return None
    is_array = value.startswith("(")
    if not is_address:
        return None
    is_launcher = _is_nested_launch(script) and not is_array
    is_read = name not in words.RENDEZVOUS and _is_read_by_programs(script, name)
    is_exported = command.name == "export" and name not in _COUNTS
    if not (is_launcher or is_read or of_local or is_exported):
        return None
    rendezvous.local.add(name)
    host = "(localhost)" if is_array else "localhost"
    return f"export {name}={host}" if command.words else f"{name}={host}"


def _is_read_by_programs(script: Script, name: str, through: frozenset[str] = frozenset()) -> bool:
    """Whether a command that does more than print reads a variable, or one that is made of it.

    Args:
        script: the script.
        name: the variable.
        through: those that it is made into on the way here.
    """
    for statement in script.statements:
        text = script.slice(statement)
        if words.names_nodes(text) or name not in {other for other, _ in words.variables(text)}:
            continue
        if not is_harmless(statement, words.IDLE | words.SLURM_TOOLS):
            return True
        dependents = shell_text.set_by(statement) - through - {name}
        if any(_is_read_by_programs(script, other, through | {name}) for other in dependents):
            return True
    return False


def _is_read_elsewhere(
    reading: ScriptReading, assigned_names: list[str], through: frozenset[str] = frozenset()
) -> bool:
    """Whether a statement that does more than print reads one of some variables.

    Args:
        reading: the script, and what is known of it.
        assigned_names: the variables, which are parts of the command.
        through: those that they are parts of, on the way here.
    """
    for number, statement in enumerate(reading.script.statements):
        if number == reading.main_step.statement or all(
            not command.words
            or words.any_of(
                [w.text for w in command.words],
                (*words.IDLE, "srun", "eval", "export", "bash", *words.STARTERS),
            )
            for command in statement.commands
        ):
            continue
        reads = {name for name, _ in words.variables(reading.script.slice(statement))}
        if reads & {*assigned_names}:
            return True
    through |= {*assigned_names}
    for statement in reading.script.statements:
        if not {name for name, _ in words.variables(reading.script.slice(statement))} & {
            *assigned_names
        }:
            continue
        parts = shell_text.set_by(statement)
        dependents = [*(parts - through)]
        is_line = not parts <= reading.variables.expanded_names
        if is_line or (dependents and _is_read_elsewhere(reading, dependents, through)):
            return True
    return False


def _is_nested_launch(script: Script) -> bool:
    return any(
        "accelerate" in c.name or "torchrun" in c.name or "deepspeed" in c.name
        for s in script.statements
        for c in s.commands
    )


def _is_rendezvous(
    script: Script, body: Body, assigned_names: list[str], text: str, *, reads_dropped: bool
) -> bool:
    """Whether a statement sets what lets the ranks meet."""
    if body.procs_per_node == 1 and _is_nested_launch(script) and body.nodes == 1:
        return False
    without_commands = shell_text.SUBSTITUTION.sub("x", text)
    is_path = re.search(r"=\"?[^\s=:]*/", without_commands) is not None
    is_number = re.search(r"=[\"']?\d+[\"']?$", text) is not None
    return any(
        name in words.RENDEZVOUS
        or (shell_text.looks_like_master(name, is_number=is_number) and not is_path)
        for name in assigned_names
    ) or (words.names_nodes(text) or reads_dropped)


def say_behind(script: Script, body: Body, statement: Statement) -> None:
    """Say what becomes of a statement behind the step."""
    text = script.slice(statement)
    functions = {
        other.function
        for other in script.statements
        if other.function and is_harmless(other, words.IDLE)
    }
    if statement.function:
        why = "nothing before the step calls it"
        body.say(statement.line, text, Outcome.CHANGED, "", why)
    elif is_harmless(statement, words.IDLE | words.ENDING | _BEHIND | functions) and not any(
        map(shell_text.writes, statement.commands)
    ):
        why = "the run is over when its ranks are"
        body.say(statement.line, text, Outcome.CHANGED, "", why)
    else:
        why = "it stands behind the step: make it a run of its own"
        body.say(statement.line, text, Outcome.NOT_CARRIED, "", why)


def is_harmless(statement: Statement, programs: Collection[str]) -> bool:
    """Whether all commands of a statement are among some programs."""
    return all(
        not command.words or words.any_of([token.text for token in command.words], programs)
        for command in statement.commands
    )


def inner_edits(reading: ScriptReading, statement: Statement) -> list[tuple[int, int, str]]:
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
            _, rest = step_search.parse_srun(
                reading, [token.text for token in own[1:]], command.line
            )
            if not rest:
                continue
            own = own[len(own) - len(rest) :]
        program = words.base(own[0].text)
        is_srun = words.base(inner[0]) == "srun"
        is_read = is_srun or program not in words.UNREAD_CONTAINERS
        if is_srun and program in words.UNREAD_CONTAINERS - words.CONTAINERS:
            reading.body.say(command.line, program, Outcome.NOT_CARRIED, "image", NO_CONTAINERS)
        if program in words.CONTAINERS and is_read:
            inside = read_container(
                reading.variables, reading.body, [token.text for token in own], command.line
            )
            if inside:
                own = own[len(own) - inside :]
        if own[0].start > start:
            edits.append((start, own[0].start, ""))
    return edits


def read_container(variables: ShellVariables, body: Body, texts: list[str], line: int) -> int:
    """Read a container's command line; gives how many words at its end run inside."""
    line_words = [
        words.resolve(text, variables.constants) or scanner.unquote(text) for text in texts
    ]
    program = words.base(texts[0])
    parsed = images.of_command([program, *line_words[1:]])
    if parsed is None:
        if program in words.UNREAD_CONTAINERS:
            body.say(line, program, Outcome.NOT_CARRIED, "image", NO_CONTAINERS)
        return 0
    inside = body.values.setdefault("", {})
    named = {(verdict.path, verdict.why) for verdict in body.verdicts}
    for verdict in images.unite(inside, parsed, line):
        # An image is said where it is named first; what it runs, wherever it does.
        if verdict.to == "image" and (shell_text.short(verdict.path), verdict.why) in named:
            continue
        body.say(line, verdict.path, verdict.outcome, verdict.to, verdict.why)
    return parsed.inside


def comment_start(script: Script, number: int) -> int:
    """Where the comments above a statement begin."""
    statement = script.statements[number]
    floor = script.statements[number - 1].end if number else 0
    start = script.text.rfind("\n", floor, statement.start) + 1
    if start == 0 and floor:
        return statement.start
    start = max(start, floor)
    while start > floor:
        above = script.text.rfind("\n", floor, start - 1) + 1
        row = script.text[max(above, floor) : start].strip()
        if not row.startswith("#") or row.startswith(("#!", "#SBATCH")) or above < floor:
            break
        start = max(above, floor)
        if start == floor:
            break
    return start


def with_comments(script: Script, number: int, text: str) -> str:
    """A statement's text with the comments that stand above it and on its line."""
    statement = script.statements[number]
    if statement.is_simple and statement.commands[0].name == "set":
        text, _ = shell_text.set_of_setup(text)
    text += " &" if statement.in_background else ""
    above = script.text[comment_start(script, number) : statement.start]
    rows = [row.strip() for row in above.split("\n") if row.strip().startswith("#")]
    rows = [row for row in rows if not row.startswith(("#SBATCH", "#!"))]
    tail = script.text[
        statement.end : script.text.find("\n", statement.end)
        if "\n" in script.text[statement.end :]
        else len(script.text)
    ]
    comment = re.match(r"\s+(#[^\n]*)$", tail)
    return "\n".join([*rows, text + (f"  {comment[1]}" if comment else "")])


def write_setup(
    script: Script, body: Body, parts: list[str], rest: Collection[Statement] = ()
) -> None:
    """Write setup, whose shell ends before the command begins.

    Args:
        script: the script.
        body: what comes of it.
        parts: its lines.
        rest: what a script runs behind it, and may need functions of that shell for.
    """
    if not parts:
        return
    text = "\n".join(parts)
    head = []
    ends = re.match(r"#!\s*\S+(?:\s+\S+)*\s-[a-z]*e", script.lines[0]) is not None
    if not (ends or re.match(r"(?:#[^\n]*\n)*set -e\b", text)):
        head.append("set +e  # the script goes on where a command fails")
    sets = any(shell_text.sets_unexported(c) for s in script.statements for c in s.commands)
    if sets or any(map(exports.sources, script.statements)):
        head.append("set -a  # the command reads these variables, too")
    elif any(words.base(c.name) in _FUNCTIONS for s in rest for c in s.commands):
        head.append("set -a  # the script calls functions that this shell has")
    if script.args and words.positional(text):
        head.append(f"set -- {commands.as_shell(script.args)}")
    body.setup = "\n".join([*head, text]) + "\n" + body.setup


def _reads_profile(command: Command) -> bool:
    """Whether a command reads the profile of a login, which may set PATH anew."""
    texts = [scanner.unquote(token.text) for token in command.words]
    return texts[:2] in (["source", "/etc/profile"], [".", "/etc/profile"])
