"""The command that each rank runs, with what it reads and no setup can export."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import commands, preparation, scanner
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.runs import branch_settings, evaluated_variables
from allranks.convert.slurm.batch_script.setup import (
    inner_setup,
    left_out,
    local_hosts,
    repeated_lines,
    setup_edits,
    setup_end,
    unexported_variables,
)
from allranks.convert.slurm.batch_script.steps import exported_functions, launcher_environment
from allranks.convert.slurm.batch_script.text import first_node, host_texts, shell_text, words
from allranks.convert.slurm.batch_script.text.node_variables import (
    NodeVariable,
    kind_of,
    reads_first,
)
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import MainStep, ScriptReading

_RESERVED = frozenset(names.RESERVED_ENV)
_ADDRESS = frozenset({"MASTER_ADDR", "MASTER_PORT"})
# A loop that counts from 0: `for i in {0..3}`, `for ((i = 0; …`, `for i in "${!hosts[@]}"`.
_COUNTING_LOOP = re.compile(
    r"\bfor\s+(?:\(\(\s*(?P<first>[A-Za-z_]\w*)\s*=\s*0\s*;|(?P<name>[A-Za-z_]\w*)\s+in\s+"
    r"(?:\{0\.\.|0\s+1\b|(?:\$\(|`)\s*seq\s+(?:-\S+\s+)*[\"']?0[\"']?\s|\"?\$\{!\w+\[[@*]\]\}))"
)
# How a loop adds 1 to a variable.
_ADDED = (
    r"\(\(\s*(?:\+\+\s*{0}|{0}\s*\+\+|{0}\s*\+=\s*1|{0}\s*=\s*{0}\s*\+\s*1)\s*\)\)"
    r"|\blet\s+[\"']?(?:{0}\s*\+\+|{0}\s*\+=\s*1|{0}\s*=\s*{0}\s*\+\s*1)"
    r"|\b{0}=\$\(\(\s*(?:\$\{{?)?{0}\}}?\s*\+\s*1\s*\)\)|\b{0}=(?:\$\(|`)\s*expr\s+\$\{{?{0}\}}?\s*\+\s*1"
)
# What looks for a port that is free.
_LOOKING = re.compile(r"(?:\$\(|`)[^`]*\b(?:python[0-9.]*|shuf|ss|netstat|comm|lsof)\b")
_OF_LOOP = "the loop over the nodes sets it, and each pod is a node: write what a pod is to read"

_OF_COMMAND = "what the step starts is told of it: the command has it as it stands here"
_WITH_ADDRESS = "the command has it, with rank 0's address in place of the first node's name"
_BARE = ("", "$MASTER_ADDR", "${MASTER_ADDR}")
_OTHER_WORDS = (
    "it changes the words behind the script's name for setup alone, whose shell is another: write "
    "those that the command reads into it"
)


# A folder without which a text runs nothing: ``cd /code && python a.py``.
_CD_AND = re.compile(r"(?<![\w./-])cd[ \t]+[^;&|\n]+&&")


def write(reading: ScriptReading, program: commands.Program, text: str | None) -> None:
    """Write the command of the ranks.

    Args:
        reading: the script, and what is known of it.
        program: what its step starts.
        text: the shell text around it; None where it stands by itself.

    Raises:
        InvalidValues: the step runs nothing.
    """
    main_step, body = reading.main_step, reading.body
    step_line = reading.script.statements[main_step.statement].line
    command = _with_shell(reading.script, program, text)
    if not command:
        raise reading.script.refuse(
            1, "the step runs nothing", "write the program behind srun or torchrun"
        )
    if program.working_dir and body.setup:
        # The lines before it start where the script does.
        step_text = reading.script.slice(reading.script.statements[main_step.statement])
        has_condition = any(map(_CD_AND.search, (step_text, text or "")))
        ends = f" || exit $?{setup_end.NO_STEP}" if has_condition else ""
        body.setup += f"cd {commands.as_shell([program.working_dir])}{ends}\n"
    elif program.working_dir:
        body.working_dir = program.working_dir
    if program.setup:
        inner = inner_setup.of_pod(reading, program.setup, "setup", step_line)
        body.setup += _ending_as_its_text(body.setup, inner)
    is_composer = program.runner is Runner.COMPOSER
    is_alone = launcher_environment.starts_one_process(reading.script, program)
    may_launch = main_step.may_launch or is_composer or program.runner is Runner.NESTED or is_alone
    # Accelerate says its own options of a torchrun of one node, and not where several nodes meet.
    may_launch |= program.runner is Runner.ACCELERATE and reading.script.size.node_count > 1
    if may_launch and body.workload != "mpi":
        # A torchrun in it would take the options of the one around it for its own.
        line = command[2] if command[1:2] == ["-c"] else f"exec {commands.as_shell(command)}"
        unset = launcher_environment.unset_options()
        starts_all = main_step.may_launch and body.procs_per_node == 1
        # Composer counts the ranks of its node by LOCAL_WORLD_SIZE, and all by WORLD_SIZE.
        if is_composer or is_alone or (starts_all and reading.script.size.gpu_count > 1):
            unset = launcher_environment.unset_all(
                reading.script, reading.rendezvous, keeps_address=(body.nodes or 1) > 1
            )
        gpus = reading.script.size.gpus_per_node
        if is_composer and gpus and "WORLD_SIZE" in reading.rendezvous.meeting:
            unset += f"\nexport WORLD_SIZE={(body.nodes or 1) * gpus}"
        text = f"{unset}\n{line}"
        command = [*command[:2], text, *command[3:]] if command[1:2] == ["-c"] else []
        command = command or ["bash", "-c", text]
    if main_step.input:
        line = command[2] if command[1:2] == ["-c"] else f"exec {commands.as_shell(command)}"
        command = ["bash", "-c", f"{line} < {main_step.input}"]
        body.values.setdefault("mpi", {})["ownMpirun"] = True
    kinds = _meeting_lines(reading, program)[1]
    late_names = set().union(*map(shell_text.set_by, reading.rendezvous.late))
    is_shell = bool(
        reading.rendezvous.folders
        or _for_programs_alone(reading, kinds)
        or late_names & _exported_alone(reading)
    )
    if is_shell and command[1:2] != ["-c"]:
        command = ["bash", "-c", f"exec {commands.as_shell(command)}"]
    if command[1:2] == ["-c"] and command[2:]:
        command[2:3] = [
            inner_setup.of_pod(reading, own, "command", step_line) for own in command[2:3]
        ]
        if program.runner in (Runner.MPIRUN, Runner.HOROVODRUN):
            body.values.setdefault("mpi", {})["ownMpirun"] = True
        line = evaluated_variables.evaluated(reading, command[2])
        command[2] = _defined(reading, line, program)
    body.command = command


def _with_shell(script: Script, program: commands.Program, text: str | None) -> list[str]:
    """What a step starts, or the text around it; a function in a shell, as `exec` finds none."""
    command = list(program.command)
    if text is None and command and command[0] in script.functions:
        text = commands.as_shell(command)
    return command if text is None else ["bash", "-c", text]


def _ending_as_its_text(setup: str, inner: str) -> str:
    """Setup of the text of a step's shell, which may end at what fails where the script does not.

    Args:
        setup: the lines before it.
        inner: those of the text.
    """
    goes_on = inner.startswith(preparation.GOES_ON)
    inner = setup_end.with_failure(inner)
    return f"set -e\n{inner}" if setup_end.goes_on(setup) and not goes_on else inner


def _defined(reading: ScriptReading, line: str, program: commands.Program) -> str:
    """A command's shell with what it reads and no setup can export."""
    script = reading.script
    line = _without_suffix(reading, line, program)
    reads = [name for name, _ in words.variables(line)]
    if words.positional(line):
        reads += _read_by_sets(script, reading.main_step)
    end = reading.main_step.statement
    numbers = _in_shell(reading, line, reads)
    numbers |= repeated_lines.files_for_shell(reading, line, end)
    own = {number: _in_command(reading, number, program) for number in numbers}
    repeated = repeated_lines.with_starts(script, own, end)
    readers = [
        number
        for number, text in repeated.items()
        if not script.statements[number].function and words.positional(text)
    ]
    readers += [len(script.statements)] if words.positional(line) else []
    reads_words = bool(readers)
    # What changes the words behind the last line that reads them is of no use, and a loop that is
    # run again does it itself.
    last = max(readers, default=0)
    repeated |= _shifts(reading, range(last), repeated) if reads_words else {}
    prefix = [f"set -- {commands.as_shell(script.args)}"] if script.args and reads_words else []
    prefix += repeated_lines.texts(script, repeated, end)
    reading.body.environment_names += repeated_lines.environment_names(script, repeated, end)
    late_statements = _late_statements(reading, {*reads} | _exported_alone(reading))
    reads += [name for other in late_statements for name, _ in words.variables(script.slice(other))]
    behind = _loop_texts(reading, reads)
    folders = reading.rendezvous.folders
    reads += [name for own in folders for name, _ in words.variables(script.slice(own))]
    behind += _meeting_texts(reading, line, reads, program)
    behind += [script.slice(own) for own in folders]
    behind += [script.slice(other) for other in late_statements]
    if program.is_nested and "MASTER_PORT" in reads:
        behind.append(f"export MASTER_PORT={branch_settings.INNER_PORT}")
    prefix += [text for text in dict.fromkeys(behind) if text not in prefix]
    return "\n".join([*prefix, line])


def _in_command(reading: ScriptReading, number: int, program: commands.Program) -> str:
    """A statement that the command's shell has; a function that it alone has, as a pod runs it."""
    script, statement = reading.script, reading.script.statements[number]
    if not exported_functions.are_of_step(reading, statement):
        return script.slice(statement)
    edits = local_hosts.edits(reading, statement, "command")  # of what the others leave out
    edits = edits or branch_settings.edits(reading, statement, [], program)
    edits += setup_edits.of_modules(statement)
    return shell_text.edited(script.text, edits, statement.start, statement.end)


def _late_statements(reading: ScriptReading, names_of: set[str]) -> list[Statement]:
    """The lines that set some variables and that each process runs, with those that they read."""
    late: list[Statement] = []
    for statement in reversed(reading.rendezvous.late):
        if shell_text.set_by(statement) & names_of:
            late.insert(0, statement)
            text = reading.script.slice(statement)
            names_of = names_of | {name for name, _ in words.variables(text)}
    return late


def _without_suffix(reading: ScriptReading, line: str, program: commands.Program) -> str:
    """A command's shell without what made the first node's name one of another network."""
    if reading.script.size.node_count == 1:
        return line
    kinds = _meeting_lines(reading, program)[1]
    hosts = [name for name, kind in kinds.items() if kind is NodeVariable.ADDRESS]
    result, suffix = host_texts.without_suffix(line, hosts)
    if suffix:
        number = reading.script.statements[reading.main_step.statement].line
        why = f"rank 0's address has no such ending{host_texts.OTHER_NETWORK.format('it')}"
        reading.body.say(number, suffix, Outcome.CHANGED, "command", why)
    return result


# A pattern of files, outside of quotes, and no number of arguments, nor all parts of an array.
_GLOB = re.compile(r"(?<![$\w{\[])[*?]|(?<=[\w/.])[*?]|[@+!]\([^)]*\)|(?<![$\w{])\[[^\]@*]+\]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\$\{[^}]*\}|\$\(\([^)]*\)\)|\\.")


def _in_shell(reading: ScriptReading, line: str, reads: list[str]) -> set[int]:
    """The statements whose arrays and functions a command reads, also by way of one another.

    Args:
        reading: the script, and what is known of it.
        line: the command.
        reads: the variables that it reads; those that the statements read are added.
    """
    script = reading.script
    fills = {
        other.function: set().union(*map(shell_text.arrays_of, other.commands))
        for other in script.statements
        if other.function
    }
    numbers: set[int] = set()
    text = line
    for _ in script.statements:
        before = len(numbers)
        for number, statement in enumerate(script.statements):
            if number in numbers or number == reading.main_step.statement:
                continue  # it is in the command already
            own = set().union(*map(shell_text.arrays_of, statement.commands))
            if not statement.function:
                own.update(*(fills.get(command.name, ()) for command in statement.commands))
            name = statement.function
            is_array = not name and not own.isdisjoint(reads)
            is_before = number < reading.main_step.statement
            splits_words = is_before and any(map(shell_text.splits_words, statement.commands))
            finds_files = is_before and any(map(shell_text.finds_files, statement.commands))
            splits_words |= finds_files and _GLOB.search(_QUOTED.sub("", text)) is not None
            is_called = bool(name) and re.search(rf"\b{re.escape(name)}\b", text) is not None
            is_dropped = any(
                shell_text.assigns(statement, other)
                for other in {*reads} & reading.rendezvous.dropped
            )
            if (is_array or is_called or splits_words) and not is_dropped:
                numbers.add(number)
                own_text = script.slice(statement)
                text += f"\n{own_text}"
                reads += [] if name else [other for other, _ in words.variables(own_text)]
        if len(numbers) == before:
            break
    return numbers


def _read_by_sets(script: Script, main_step: MainStep) -> list[str]:
    """The variables that the lines read which set the words: ``set -- $LINE``."""
    return [
        name
        for statement in script.statements[: max(main_step.statement, 0)]
        if statement.is_simple
        and any(shell_text.sets_words([t.text for t in c.words]) for c in statement.commands)
        for name, _ in words.variables(script.slice(statement))
    ]


def _shifts(
    reading: ScriptReading, numbers: Container[int], others: Container[int]
) -> dict[int, str]:
    """The lines that give a command other words than those behind the script's name.

    The shell of setup, which has them too, is another; what changes the words there in other ways
    is said to be missing.

    Args:
        reading: the script, and what is known of it.
        numbers: the numbers of the statements that count.
        others: those of them that the command has.

    Returns:
        The lines, by the number of their statement.
    """
    script = reading.script
    shifts: dict[int, str] = {}
    for number, statement in enumerate(script.statements[: max(reading.main_step.statement, 0)]):
        is_read = number in numbers and number not in others and not statement.function
        for command in statement.commands if is_read else []:
            texts = [scanner.unquote(token.text) for token in command.words]
            is_shift = texts[:1] == ["shift"] and bool(script.args or shifts)
            is_set = shell_text.sets_words(texts)
            has_counts = is_set or all(text.isdecimal() for text in texts[1:])
            if (is_shift or is_set) and statement.is_simple and has_counts:
                shifts[number] = script.slice(statement)
            elif is_shift or is_set:
                path = script.text[command.start : command.end]
                reading.body.say(command.line, path, Outcome.NOT_CARRIED, "command", _OTHER_WORDS)
                break
    return shifts


def _loop_texts(reading: ScriptReading, reads: list[str]) -> list[str]:
    """What a command reads of the loop that starts it on one node after the other.

    Its count is the node's number; what else it sets of the nodes is said to be missing.
    """
    script = reading.script
    statement = script.statements[reading.main_step.statement]
    if not reading.main_step.in_loop:
        return []
    text = script.slice(statement)
    counts = {match["first"] or match["name"] for match in _COUNTING_LOOP.finditer(text)}
    heads = {*re.findall(r"\bfor\s+\(*\s*([A-Za-z_]\w*)", text)}
    counters = {name for name in {*reads} if re.search(_ADDED.format(name), text)}
    counts |= {name for name in counters if _counts_nodes(reading, name, text)}
    heads |= counters
    texts = [f"{name}=$SLURM_NODEID" for name in sorted(counts & {*reads})]
    missing = dict.fromkeys(heads - counts, statement.line)
    for command in statement.commands:
        if not command.in_loop or command.words:
            continue
        assignment = script.text[command.start : command.end]
        targets = {name for name, _ in shell_text.assigned_by(command)}
        sources = {name for name, _ in words.variables(assignment)}
        if targets & counters:
            continue
        if sources & (missing.keys() | reading.rendezvous.meeting):
            missing |= dict.fromkeys(targets, command.line)
        elif targets & {*reads}:
            texts.append(assignment)
    for name in dict.fromkeys(reads):
        if name in missing:
            reading.body.say(missing[name], f"${name}", Outcome.NOT_CARRIED, "", _OF_LOOP)
    return texts


def _counts_nodes(reading: ScriptReading, name: str, loop: str) -> bool:
    """Whether a variable is 0 before a loop, and the loop adds 1 behind what reads it."""
    added = re.search(_ADDED.format(name), loop)
    read = re.search(rf"\$\{{?{name}\b", loop)
    is_behind = added is not None and read is not None and read.start() < added.start()
    return is_behind and reading.variables.contents.get(name, [])[:1] == ["0"]


def _is_drawn(text: str) -> bool:
    """Whether a port is drawn, or looked for: once by the script, and by each rank for itself."""
    return shell_text.differs_by_pod(text) or _LOOKING.search(text) is not None


@dataclass(frozen=True, slots=True)
class _MeetingLine:
    """What sets a variable of the nodes in the command.

    Attributes:
        number: the line of the script.
        text: the shell text in a pod.
        needs: the variables of the nodes that it reads.
        suffix: what made the first node's name one of another network; "" for nothing.
    """

    number: int
    text: str
    needs: set[str]
    suffix: str = ""


def _meeting_texts(
    reading: ScriptReading, command_line: str, reads: list[str], program: commands.Program
) -> list[str]:
    """What a command reads of the nodes, in the words of a pod and in the script's order.

    A launcher in the pods counts ranks otherwise than the chart's, whose variables it has.
    """
    own = _ADDRESS if program.is_nested else _RESERVED
    lines, kinds = _meeting_lines(reading, program)
    needs = [
        name for name in reads if name in lines.keys() - reading.variables.expanded_names - own
    ]
    needs += [name for name in _for_programs_alone(reading, kinds) if name not in needs]
    for name in needs:  # grows
        needs += (lines[name].needs & lines.keys()) - {*needs} - own
    for name in needs:
        if kinds[name] is not NodeVariable.UNKNOWN:
            continue
        if name in reads and reads_first(name, lines[name].text, command_line):
            kinds[name] = NodeVariable.ADDRESS
            text = f"{name}={NodeVariable.ADDRESS}"
            lines[name] = _MeetingLine(lines[name].number, text, set())
        else:
            why = "it tells of the old cluster's nodes: write what a pod is to read"
            reading.body.say(lines[name].number, f"${name}", Outcome.NOT_CARRIED, "", why)
    own_lines = {
        name: line
        for name, line in lines.items()
        if name in needs and kinds[name] is not NodeVariable.UNKNOWN
    }
    for name, line in own_lines.items():
        if kinds[name] is NodeVariable.TYPED:
            _say_of_command(reading, name, _OF_COMMAND)
        elif line.text != f"{name}={kinds[name]}":
            why = _WITH_ADDRESS + (
                host_texts.OTHER_NETWORK.format(line.suffix) if line.suffix else ""
            )
            _say_of_command(reading, name, why)
    return [line.text for line in own_lines.values()]


def _meeting_lines(
    reading: ScriptReading, program: commands.Program
) -> tuple[dict[str, _MeetingLine], dict[str, NodeVariable]]:
    """What sets the variables of the nodes in a pod, and what each is."""
    script, meeting = reading.script, reading.rendezvous.meeting
    is_mpi = reading.body.workload == "mpi"
    for_programs = set() if is_mpi else unexported_variables.names_for_programs(script)
    lines: dict[str, _MeetingLine] = {}
    kinds: dict[str, NodeVariable] = {}
    for statement in script.statements:
        sources = {name for name, _ in words.variables(script.slice(statement))} & meeting
        for name in sorted(shell_text.set_by(statement) & meeting):
            text = script.setting(statement, name)
            is_added = re.search(rf"\b{name}\+=", text) is not None
            source_kinds = {kinds.get(other, NodeVariable.ADDRESS) for other in sources - {name}}
            kind = NodeVariable.UNKNOWN if is_added else kind_of(name, text, source_kinds)
            suffix = ""
            if kind is NodeVariable.ADDRESS:
                line, suffix = _with_address(reading, statement, name, kinds)
            elif kind is NodeVariable.COUNT:
                line = f"{name}={kind}"
            else:
                line, _ = first_node.with_rank_zero(text, reading.variables.set_names)
            if kind is NodeVariable.TYPED and "port" in name.lower() and _is_drawn(text):
                line = (
                    f"{name}={branch_settings.INNER_PORT if program.is_nested else '$MASTER_PORT'}"
                )
            has_text = kind is not NodeVariable.UNKNOWN
            needed = {other for other, _ in words.variables(line)} & meeting if has_text else set()
            is_export = name in for_programs and line.startswith(f"{name}=")
            line = f"export {line}" if is_export else line
            kinds[name] = kind
            if name in sources and name in lines and has_text:
                # It is made of what the line before has set: `if …; then N=$((N - 1)); fi`.
                line = f"{lines[name].text}\n{line}"
                needed |= lines[name].needs
            lines[name] = _MeetingLine(statement.line, line, needed - {name}, suffix)
    return lines, kinds


def _with_address(
    reading: ScriptReading, statement: Statement, name: str, kinds: Mapping[str, NodeVariable]
) -> tuple[str, str]:
    """A line that sets a variable with rank 0's address, and what it leaves out of the host's name.

    Args:
        reading: the script, and what is known of it.
        statement: what sets the variable there.
        name: the variable.
        kinds: what those before it are.
    """
    hosts = {other for other, kind in kinds.items() if kind is NodeVariable.ADDRESS}
    lists = {other for other, kind in kinds.items() if kind is NodeVariable.UNKNOWN}
    values = dict(shell_text.assigned_by(statement.commands[0])) if statement.is_simple else {}
    value = values.get(name, "(")
    own = reading.variables.set_names
    text = "" if value.startswith("(") else host_texts.with_address(value, hosts, lists, own)
    is_address = name in words.RENDEZVOUS or shell_text.looks_like_master(name)
    text, suffix = host_texts.without_suffix(text, hosts, is_address=is_address)
    plain = text.removeprefix('"').removesuffix('"')
    return f"{name}={text if plain not in _BARE else NodeVariable.ADDRESS.value}", suffix


def _for_programs_alone(reading: ScriptReading, kinds: Mapping[str, NodeVariable]) -> list[str]:
    """The variables of where the ranks meet that the script exports, and reads nowhere."""
    names_of = _exported_alone(reading) - {*reading.rendezvous.computed}
    of_pods = (NodeVariable.ADDRESS, NodeVariable.TYPED)
    return [name for name, kind in kinds.items() if kind in of_pods and name in names_of]


def _exported_alone(reading: ScriptReading) -> set[str]:
    """The variables that a script exports for its programs, and reads nowhere itself."""
    if reading.body.workload == "mpi":
        return set()
    names_of = unexported_variables.names_for_programs(reading.script)
    return names_of - left_out.variables_read(reading.script) - words.RENDEZVOUS


def _say_of_command(reading: ScriptReading, name: str, why: str) -> None:
    """Say of lines that the command has that they are in it, and not the launcher's."""
    numbers = {
        statement.line
        for statement in reading.script.statements
        if name in shell_text.set_by(statement)
    }
    verdicts = reading.body.verdicts
    for place, verdict in enumerate(verdicts):
        is_of_meeting = verdict.why.startswith((left_out.MEETING, left_out.ABOUT_MEETING))
        is_own = re.search(rf"\b{name}\b", verdict.path) is not None
        if verdict.line in numbers and is_of_meeting and is_own:
            verdicts[place] = replace(verdict, to="command", why=why)
