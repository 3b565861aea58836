"""Which lines are left out, and why: the launcher, the chart or a pod does what they do.

It is long because each of the reasons looks at what other lines read and set.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.containers import image_files
from allranks.convert.slurm.batch_script.pods import chosen_gpus, missing_in_pods
from allranks.convert.slurm.batch_script.setup import (
    computed_counts,
    node_files,
    slurm_questions,
    traps,
    unexported_variables,
)
from allranks.convert.slurm.batch_script.steps import (
    exported_functions,
    mpirun,
    step_search,
    torchrun_environment,
)
from allranks.convert.slurm.batch_script.text import (
    host_texts,
    node_loops,
    node_names,
    set_options,
    shell_text,
    shell_variables,
    substitutions,
    words,
)
from allranks.convert.slurm.batch_script.text.node_variables import NodeVariable, kind_of
from allranks.convert.slurm.options import parse
from allranks.convert.verdicts import Outcome
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import (
        Body,
        RendezvousVariables,
        ScriptReading,
        StepDetails,
    )

# Numbers of nodes and ranks.
_COUNTS = words.RENDEZVOUS - {"MASTER_ADDR", "MASTER_PORT", "MASTER_IP", "MASTER_HOST"}
# Options of srun's that say on how many nodes, and on which, a step runs.
_OF_SIZE = re.compile(r"\s(?:-[nNw]|--(?:ntasks|nodes|nodelist))[\s=]*\"?\$\{?\w+\}?\"?(?=\s)")
_NO_NODES = "it asks Slurm for its nodes, and a pod has none"
_NO_FILE = "it asks Slurm, and a pod has none: write the file that later lines read yourself"
_NO_FILE_FOR_STEP = "it asks Slurm, and a pod has none: write the {} that the step reads yourself"
# The names of all nodes, and not that of the first.
_LIST = re.compile(node_names.LIST)
_REQUEUING = ("scontrol", "sbatch")
_REQUEUES = (
    "a pod has no programs of Slurm's: let the program handle SIGTERM, and "
    "runPolicy.backoffLimit start it again"
)
MEETING = "the launcher lets the ranks meet, and tells each its rank and where rank 0 is"
ABOUT_MEETING = "it is about where the ranks meet, which the launcher arranges"
_BY_NODES = (
    "it sets {} by what the nodes are, and a pod does not: write what holds there in its place"
)
_ON_NODES = (
    "it works with the names of the nodes, which are not those of the pods: write what a pod is to "
    "do in its place"
)
# Programs that tell who uses a port, and those that do with an option alone.
_ASKING_FOR_PORTS = frozenset({"ss", "netstat", "lsof", "fuser"})
_ASKING_HOSTS = frozenset({"nc", "ncat", "netcat"})
_OF_TENSORFLOW = (
    "TensorFlow finds its workers by it, and this launcher does not set it: a run with "
    "`workload: elastic` and elastic.framework: tensorflow tells each pod its own"
)
_BY_EACH_RANK = "each rank makes it, as its name has what tells where the ranks meet"
_OF_STEP = "it is a part of the command, and stands there"
_OF_SRUN = "these are options of srun's, each of which is said by itself"


def why_dropped(  # noqa: PLR0911 - a return for each reason
    reading: ScriptReading,
    statement: Statement,
    command: Command | None,
    program: str,
    *,
    is_single: bool,
) -> tuple[Outcome, str] | None:
    """Why a statement is left out; None where it is not."""
    script, rendezvous = reading.script, reading.rendezvous
    if command is not None and program in words.SLURM_TOOLS:
        return _why_of_tool(reading, statement, command, program)
    is_of_step = not is_single and exported_functions.are_of_step(reading, statement)
    if statement.function or is_of_step:
        return (Outcome.CHANGED, _OF_STEP) if is_of_step else None
    if why := _why_of_pod(reading, statement, program):
        return Outcome.CHANGED, why
    text = script.slice(statement)
    if program == "trap" and _requeues(statement):
        return Outcome.NOT_CARRIED, _REQUEUES
    reads_dropped = bool(computed_counts.unknown_in(reading, statement))
    assigned_names = [name for c in statement.commands for name, _ in shell_text.assigned_by(c)]
    only_assigns = bool(assigned_names) and all(
        shell_text.assigned_by(command) for command in statement.commands
    )
    is_option = only_assigns and all(map(torchrun_environment.is_option, assigned_names))
    if reading.main_step.is_torchrun and is_option:
        return Outcome.CHANGED, "it is an option of torchrun's, which the chart starts"
    is_made_of_it = reads_dropped and not is_single
    is_meeting = only_assigns and _is_rendezvous(
        script, reading.body, assigned_names, text, reads_dropped=is_made_of_it
    )
    is_expanded = {*assigned_names} <= reading.variables.expanded_names
    is_of_meeting = is_meeting and all(
        shell_text.looks_like_master(name, is_number=False) for name in assigned_names
    )
    if assigned_names and not is_single and is_expanded and not is_of_meeting:
        is_for_program = any(_exports_text(reading, own) for own in statement.commands)
        if not is_for_program and not _is_read_elsewhere(reading, assigned_names):
            if not reads_dropped and _is_printed(script, frozenset(assigned_names)):
                return None
            rendezvous.dropped.update(assigned_names)
            is_of_srun = _are_options_of_srun(reading, assigned_names)
            return Outcome.CHANGED, _OF_SRUN if is_of_srun else _OF_STEP
    elif is_single and _is_of_the_script(script, rendezvous, statement, command, assigned_names):
        return None
    elif is_meeting:
        return _why_arranged(
            reading,
            statement,
            command,
            assigned_names,
            is_single=is_single,
            reads_dropped=reads_dropped,
        )
    if is_single:
        return None
    return _why_not_in_setup(reading, statement, command, program, reads_dropped=reads_dropped)


def _why_of_tool(
    reading: ScriptReading, statement: Statement, command: Command, program: str
) -> tuple[Outcome, str]:
    """Why a line that is one of Slurm's programs is left out."""
    if node_files.is_missed(reading.script, reading.main_step, statement, command):
        return Outcome.NOT_CARRIED, _NO_FILE
    if file := node_files.written_for_step(reading.script, reading.main_step, statement):
        return Outcome.NOT_CARRIED, _NO_FILE_FOR_STEP.format(file)
    return missing_in_pods.TOOLS.get(program, (Outcome.CHANGED, slurm_questions.WHY))


def _why_of_pod(reading: ScriptReading, statement: Statement, program: str) -> str:
    """Why no pod needs a statement; "" where one may."""
    if statement.commands and slurm_questions.is_shown_by_pipe(statement):
        return slurm_questions.WHY
    if image_files.looks_for(reading, statement):
        return image_files.IN_CONTAINER
    if chosen_gpus.is_of_step(reading, statement):
        return chosen_gpus.OF_STEP
    if node_files.is_list_of_hosts(reading.script, reading.main_step, statement):
        return node_files.OF_HOSTS
    if node_loops.is_unneeded(reading.script, statement):
        return node_loops.WHY
    return "a pod has no terminal" if program in words.OF_TERMINAL else ""


def _why_arranged(
    reading: ScriptReading,
    statement: Statement,
    command: Command | None,
    assigned_names: list[str],
    *,
    is_single: bool,
    reads_dropped: bool,
) -> tuple[Outcome, str] | None:
    """Why a statement is left out that sets what lets the ranks meet; None where it stays."""
    script, rendezvous = reading.script, reading.rendezvous
    text = script.slice(statement)
    has_more = _has_more(statement)
    if is_single and has_more and "scontrol" in text:
        return Outcome.NOT_CARRIED, _NO_NODES
    if is_single or not has_more:
        rendezvous.dropped.update(assigned_names)
        rendezvous.meet_by(assigned_names, statement.line, text)
        if not is_single:
            computed_counts.keep(reading, command)
        if is_single and command is not None and command.name != "export":
            return Outcome.CHANGED, "the script hands it to no program"
        if "TF_CONFIG" in assigned_names and not is_single:
            return Outcome.NOT_CARRIED, _OF_TENSORFLOW
        why = MEETING + _own_name(script, rendezvous, command, assigned_names)
        return Outcome.CHANGED, why + _other_network(reading, command)
    return _why_not_in_ranks(script, rendezvous, statement, reads_dropped=reads_dropped)


def _other_network(reading: ScriptReading, command: Command | None) -> str:
    """What is said of a first node's name in another network: ``$(hostname)-ib0``; "" for none."""
    for name, value in shell_text.assigned_by(command) if command is not None else ():
        own, hosts = reading.variables.set_names, {name} & words.RENDEZVOUS
        text = host_texts.with_address(value, hosts, (), own) if hosts else ""
        suffix = host_texts.without_suffix(text, hosts, is_address=True)[1]
        if suffix:
            return host_texts.OTHER_NETWORK.format(suffix)
    return ""


def _own_name(
    script: Script, rendezvous: RendezvousVariables, command: Command | None, names_of: list[str]
) -> str:
    """What a program misses that reads a name of the script's own; "" where none may."""
    if command is None or command.name != "export" or {*names_of} & words.RENDEZVOUS:
        return ""
    variables = variables_read(script, but_for=_OF_SIZE)
    own = [name for name in names_of if name not in variables]
    if not own:
        return ""
    text = script.text[command.start : command.end]
    # Read as one that comes of the nodes: that it does is why it is left out.
    sources = _kinds_of_sources(script, rendezvous, text, frozenset(own[:1])) or {
        NodeVariable.ADDRESS
    }
    kind = kind_of(own[0], text, sources)
    kind = NodeVariable.UNKNOWN if node_files.is_file(script, own[0]) else kind
    if kind is NodeVariable.TYPED:
        return f"; a program that reads {own[0]} does not get it: write its number into env"
    if kind is NodeVariable.UNKNOWN:
        return f"; a program that reads {own[0]} has no list of the nodes here"
    is_port = "PORT" in own[0].upper()
    address = "MASTER_PORT" if is_port else "MASTER_ADDR"
    instead = "SLURM_NNODES" if kind is NodeVariable.COUNT else address
    return f"; a program that reads {own[0]} is to read {instead}"


def _kinds_of_sources(
    script: Script, rendezvous: RendezvousVariables, text: str, through: frozenset[str]
) -> set[NodeVariable]:
    """What the variables of the nodes are that a text makes another variable of.

    Args:
        script: the script.
        rendezvous: the variables of the nodes.
        text: the text.
        through: the variables that are made of it.
    """
    kinds: set[NodeVariable] = set()
    for source in {other for other, _ in words.variables(text)} - through:
        texts = [
            script.setting(st, source) for st in script.statements if shell_text.assigns(st, source)
        ]
        if source in _COUNTS:
            kinds.add(NodeVariable.COUNT)
        elif source in rendezvous.meeting and texts:
            inner = _kinds_of_sources(script, rendezvous, texts[0], through | {source})
            kinds.add(kind_of(source, texts[0], inner or {NodeVariable.ADDRESS}))
    return kinds


def variables_read(script: Script, *, but_for: re.Pattern[str] | None = None) -> set[str]:
    """The variables that statements read which do more than print.

    Args:
        script: the script.
        but_for: words that do not count; None for no such.
    """
    texts = [
        script.slice(statement)
        for statement in script.statements
        if not shell_text.runs_only(statement, words.IDLE)
    ]
    texts = texts if but_for is None else [but_for.sub(" ", text) for text in texts]
    return {name for text in texts for name, _ in words.variables(text)}


def _is_of_the_script(
    script: Script,
    rendezvous: RendezvousVariables,
    statement: Statement,
    command: Command | None,
    assigned_names: list[str],
) -> bool:
    """Whether a script that is run as it is sets a variable of its own, or its ranks'."""
    text = script.slice(statement)
    if words.names_nodes(text) or any(n in rendezvous.meeting for n, _ in words.variables(text)):
        return False
    if any(_is_read_by_lines(script, statement, name) for name in assigned_names):
        return True
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
    is_of_ranks = program in words.MPIRUN and step_search.only_prints(mpirun.program(texts))
    return is_of_ranks or words.asks_of_itself(texts)


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
    script: Script, rendezvous: RendezvousVariables, statement: Statement, *, reads_dropped: bool
) -> tuple[Outcome, str] | None:
    """What becomes of words of the command that tell of the nodes; None for a line of setup."""
    if "scontrol" in script.slice(statement):
        return Outcome.NOT_CARRIED, _NO_NODES
    if not reads_dropped:
        return None
    rendezvous.late.append(statement)
    why = "a process whose command reads it sets it, as it reads where the ranks meet"
    return Outcome.CHANGED, why


def _why_not_in_setup(
    reading: ScriptReading,
    statement: Statement,
    command: Command | None,
    program: str,
    *,
    reads_dropped: bool,
) -> tuple[Outcome, str] | None:
    """Why a statement is no line of setup; None where it is."""
    script = reading.script
    text = script.slice(statement)
    reason: tuple[Outcome, str] | None = None
    if command is None:
        pass
    elif _is_look(reading.details, command, program):
        reason = node_files.why_not_asked(script, reading.main_step, statement, command)
    elif _looks_for_port(command):
        pass
    elif node_files.prints(command) and (reads_dropped or words.names_nodes(text)):
        reason = node_files.why_not_printed(script, reading.main_step, statement, command)
    elif program == "trap":
        reason = traps.outcome_of(command)
    elif _stays_in_place(script, statement, program) or shell_text.changes_words(command):
        pass
    elif program in ("wait", "exit", "set", "exec"):
        ends = set_options.ends_script(script.text)
        lost = set_options.of_setup(text, ends=ends)[1] if program == "set" else ""
        reason = Outcome.CHANGED, lost or set_options.how_setup_goes_on(text)
    if reason is None and reads_dropped and statement.commands:
        own = [name for name in _set_for_others(script, statement) if not _is_of_meeting(name)]
        if own:
            return Outcome.NOT_CARRIED, _BY_NODES.format(list_some(own, 4))
        file = node_files.written_for_step(script, reading.main_step, statement)
        if file:
            return Outcome.NOT_CARRIED, node_files.OF_NODES_FOR_STEP.format(file)
        if _runs_more(statement):
            return Outcome.NOT_CARRIED, _ON_NODES
        if _makes_folders(script, statement) and not reading.main_step.has_launcher:
            reading.rendezvous.folders.append(statement)
            return Outcome.CHANGED, _BY_EACH_RANK
        why = ABOUT_MEETING
        return Outcome.CHANGED, why
    return reason


def _requeues(statement: Statement) -> bool:
    """Whether a trap runs what has the job start again: ``trap 'scontrol requeue …' USR1``."""
    return any(
        words.any_of([word.text for word in own.words], _REQUEUING)
        for text in statement.commands[0].words[1:2]
        for own in shell_text.commands_of(scanner.unquote(text.text))
    )


def _makes_folders(script: Script, statement: Statement) -> bool:
    """Whether a statement only makes folders, which others may make at the same time."""
    is_mkdir = statement.is_simple and statement.commands[0].name == "mkdir"
    makes_parents = re.match(r"mkdir\s+(?:-\S+\s+)*-(?:\w*p|-parents)", script.slice(statement))
    return is_mkdir and makes_parents is not None


def _runs_more(statement: Statement) -> bool:
    """Whether a statement runs a program of the project's own, or one that works on files."""
    harmless = words.IN_EACH_RANK | words.OF_SHELL | words.OF_OTHER_HOSTS | {"srun", "ping", "rm"}
    others = [own for own in statement.commands if not _looks_for_port(own)]
    return not shell_text.runs_only(replace(statement, commands=others), harmless)


def _looks_for_port(command: Command) -> bool:
    """Whether a command only asks who uses a port, or ends that: ``lsof -i:29500``."""
    texts = words.unwrapped([scanner.unquote(word.text) for word in command.words])
    program = words.base(texts[0]) if texts else ""
    if any(scanner.unquote(own).startswith("/dev/tcp/") for _, own in command.redirections):
        return True
    if program in _ASKING_HOSTS:
        return any(re.fullmatch(r"-\w*z\w*", text) for text in texts[1:])
    if program == "xargs":
        return any(words.base(text) == "kill" for text in texts[1:])
    return program in _ASKING_FOR_PORTS


def counts_in(reading: ScriptReading, statement: Statement) -> list[tuple[int, int, str]]:
    """Edits that put the number of nodes into a line that needs no more of the nodes.

    A pod knows how many there are, and so what the line does by it. [] for any other line, and for
    one that only names the number to the launcher, or to the log.
    """
    script, meeting = reading.script, reading.rendezvous.meeting
    if reading.main_step.statement < 0 or statement.function:
        return []
    patterns = [rf"\$\{{#(?:{name})\[[@*]\]\}}" for name in meeting]
    if statement.is_simple:
        patterns.append(computed_counts.OF_NODES.pattern)
    else:
        counts = [name for name in meeting if is_count_of_nodes(script, name)]
        patterns += [rf"\$(?:\{{{name}\}}|{name}\b)" for name in counts]
    text = script.slice(statement)
    edits = [
        (statement.start + match.start(), statement.start + match.end(), NodeVariable.COUNT.value)
        for match in (re.finditer("|".join(patterns), text) if patterns else ())
    ]
    text = shell_text.edited(script.text, edits, statement.start, statement.end)
    unknown = computed_counts.unknown_in(reading, statement, text)
    is_unknown = bool(unknown) or words.names_nodes(text) or not _needs_count(reading, statement)
    return [] if is_unknown else edits


def _needs_count(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement does more with a number of nodes than to tell a launcher, or the log."""
    script, own = reading.script, shell_text.set_by(statement)
    if not statement.is_simple:
        others = [name for name in _set_for_others(script, statement) if not _is_of_meeting(name)]
        return bool(others) or not shell_text.runs_only(statement, words.IDLE | {"[", "[[", "test"})
    command = statement.commands[0]
    if not own:
        return not node_files.only_logs(command)
    if any(shell_text.looks_like_master(name, is_number=True) for name in own) or (
        own & words.RENDEZVOUS
    ):
        return False
    is_bare = any(
        computed_counts.is_count_alone(value) for _, value in shell_text.assigned_by(command)
    )
    for_programs = unexported_variables.names_for_programs(reading.script)
    is_for_programs = bool(own & for_programs) and not reading.main_step.has_launcher
    return is_for_programs or not is_bare


def _set_for_others(script: Script, statement: Statement) -> list[str]:
    """The variables that a statement sets, and exports or another one reads."""
    exported = {
        name
        for command in statement.commands
        if command.name == "export"
        for name, _ in shell_text.assigned_by(command)
    }
    return sorted(
        name
        for name in shell_text.set_by(statement)
        if name in exported or any(other is not statement for other in script.readers.get(name, []))
    )


def is_count_of_nodes(script: Script, name: str) -> bool:
    """Whether a variable is set to the number of nodes, wherever the script sets it."""
    setting = [other for other in script.statements if shell_text.assigns(other, name)]
    return bool(setting) and all(
        kind_of(name, script.setting(other, name), {NodeVariable.ADDRESS}) is NodeVariable.COUNT
        for other in setting
    )


def _is_of_meeting(name: str) -> bool:
    return name in words.RENDEZVOUS or shell_text.looks_like_master(name)


def _stays_in_place(script: Script, statement: Statement, program: str) -> bool:
    """Whether a line is about how setup goes on: `set -e`, or `wait` for what is beside it."""
    if program == "wait":
        return any(
            other.in_background for other in script.statements if other.start < statement.start
        )
    return program == "set" and bool(set_options.of_setup(script.slice(statement))[0])


# The names of the nodes as a list, or the first of them, whatever the variable is called.
_NAMES_OF_NODES = re.compile(
    rf"\(\s*(?:\$\(|`)\s*{node_names.QUESTION}[^|]*(?:\)|`)\s*\)"
    rf"|\"?(?:\$\(|`)\s*{node_names.QUESTION}[^|]*\|\s*head\s+-(?:n\s*)?1\s*(?:\)|`)\"?"
)


def with_local_host(
    script: Script, rendezvous: RendezvousVariables, statement: Statement, command: Command | None
) -> str | None:
    """A variable with the head node's name, in a script that starts the ranks of one node.

    Or with the number of nodes, which is one: ``N=$(scontrol show hostnames | wc -l)``.
    """
    assignments = shell_text.assigned_by(command) if command is not None else []
    if command is None or len(assignments) != 1:
        return None
    name, value = assignments[0]
    text = script.slice(statement)
    if script.size.node_count == 1 and name not in words.RENDEZVOUS:
        counted = computed_counts.OF_NODES.sub("1", text)
        if counted != text and not words.names_nodes(counted):
            return counted
    is_address = name in words.RENDEZVOUS or shell_text.looks_like_master(name)
    is_address = is_address or _NAMES_OF_NODES.fullmatch(value) is not None
    of_local = is_address and any(other in rendezvous.local for other, _ in words.variables(value))
    if not (of_local or words.names_nodes(text)):
        return None
    is_array = value.startswith("(")
    if not is_address:
        return None
    is_launcher = _is_nested_launch(script) and not is_array
    is_own = name not in words.RENDEZVOUS
    is_read = _is_read_by_programs(script, name) if is_own else _is_part(script, name)
    is_exported = command.name == "export" and name not in _COUNTS
    is_of_line = is_exported or _is_read_by_lines(script, statement, name)
    if not (is_launcher or is_read or of_local or is_of_line):
        return None
    rendezvous.local.add(name)
    host = "(localhost)" if is_array else "localhost"
    if is_exported and _LIST.fullmatch(value.strip('"')):
        host = "$(hostname)"  # where a program looks for its own name among all of them
    return f"export {name}={host}" if command.words else f"{name}={host}"


def _is_read_by_lines(script: Script, statement: Statement, name: str) -> bool:
    """Whether another line reads a variable, if only to print it, or exports it.

    With ``set -u`` a script ends at a line whose variable is not there.
    """
    others = [other for other in script.statements if other is not statement]
    return any(
        name in {own for own, _ in words.variables(script.slice(other))}
        or any(
            name in [word.text for word in command.words[1:]]
            for command in other.commands
            if command.name in ("export", "declare", "typeset", "readonly")
        )
        for other in others
    )


def _is_part(script: Script, name: str) -> bool:
    """Whether another variable is made of one: setup may set that, where no launcher is yet."""
    return any(
        shell_text.set_by(statement) - {name}
        and name in {other for other, _ in words.variables(script.slice(statement))}
        for statement in script.statements
    )


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
        if not shell_text.runs_only(statement, words.IDLE | words.SLURM_TOOLS):
            return True
        dependents = shell_text.set_by(statement) - through - {name}
        if any(_is_read_by_programs(script, other, through | {name}) for other in dependents):
            return True
    return False


def _exports_text(reading: ScriptReading, command: Command) -> bool:
    """Whether a program may read a variable that is in its words: ``export NAME="$MODEL big"``.

    A text that begins with a program, or tells of the nodes, is for the script alone.
    """
    variables, rendezvous = reading.variables, reading.rendezvous
    texts = [
        text
        for name, _ in (shell_text.assigned_by(command) if command.name == "export" else ())
        for text in variables.contents[name]
        if text.startswith("$")
    ]
    return any(
        not shell_variables.is_command_like(
            words.partly(variables.looked_up(text), variables.constants)
        )
        and not {name for name, _ in words.variables(text)} & rendezvous.meeting
        for text in texts
    )


def _are_options_of_srun(reading: ScriptReading, names_of: Iterable[str]) -> bool:
    """Whether variables have options of srun's alone: ``SRUN_ARGS="--wait=60 --unbuffered"``."""
    step = reading.script.statements[reading.main_step.statement]
    if not {*names_of} <= {name for own in step.commands for name in _before_program(own)}:
        return False
    texts = [text for name in names_of for text in reading.variables.contents.get(name, ())]
    parsed = [parse(shell_text.split(text), "srun", 0) for text in texts]
    return bool(parsed) and all(
        settings and not rest and all(own.option is not None for own in settings)
        for settings, rest in parsed
    )


def _before_program(command: Command) -> Iterator[str]:
    """The variables that stand among the options of an srun, and not among its program's words."""
    rest = words.unwrapped([scanner.unquote(token.text) for token in command.words])
    while rest[:1] == ["srun"] or (rest and shell_text.variable_alone(rest[0])):
        if name := shell_text.variable_alone(rest[0]):
            yield name
        rest = parse(rest[1:], "srun", 0)[1]


def _is_printed(script: Script, names_of: frozenset[str]) -> bool:
    """Whether a line that only prints reads one of some variables, or one that is made of them."""
    dependents_of_names: set[str] = set()
    for statement in script.statements:
        if not {name for name, _ in words.variables(script.slice(statement))} & names_of:
            continue
        if any(command.words and node_files.prints(command) for command in statement.commands):
            return True
        dependents_of_names |= shell_text.set_by(statement) - names_of
    return bool(dependents_of_names) and _is_printed(script, names_of | dependents_of_names)


def _is_read_elsewhere(
    reading: ScriptReading, assigned_names: list[str], through: frozenset[str] = frozenset()
) -> bool:
    """Whether a statement that does more than print reads one of some variables.

    Args:
        reading: the script, and what is known of it.
        assigned_names: the variables, which are parts of the command.
        through: those that they are parts of, on the way here.
    """
    script = reading.script
    for number, statement in enumerate(script.statements):
        if number == reading.main_step.statement or all(
            not command.words
            or words.any_of(
                [w.text for w in command.words],
                (*words.IDLE, "srun", "eval", "export", "bash", *words.STARTERS),
            )
            for command in statement.commands
        ):
            continue
        reads = {name for name, _ in words.variables(script.slice(statement))}
        if reads & {*assigned_names}:
            return True
    through |= {*assigned_names}
    for statement in script.statements:
        if not {name for name, _ in words.variables(script.slice(statement))} & {*assigned_names}:
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


# A number, as it is or as Slurm tells it: NODES=$SLURM_NNODES.
_NUMBER = re.compile(
    r"=([\"']?)(?:\d+|\$\(\([^()]*\)\)"
    r"|\$(\{)?SLURM_(?:NNODES|JOB_NUM_NODES|NTASKS|NPROCS)\b(?(2)\}))\1$"
)


def _is_rendezvous(
    script: Script, body: Body, assigned_names: list[str], text: str, *, reads_dropped: bool
) -> bool:
    """Whether a statement sets what lets the ranks meet."""
    if body.procs_per_node == 1 and _is_nested_launch(script) and body.nodes == 1:
        return False
    without_commands = substitutions.without(text, "x")
    is_path = re.search(r"=\"?[^\s=:]*/", without_commands) is not None
    is_number = _NUMBER.search(text) is not None
    return any(
        name in words.RENDEZVOUS
        or (shell_text.looks_like_master(name, is_number=is_number) and not is_path)
        for name in assigned_names
    ) or (words.names_nodes(text) or reads_dropped)
