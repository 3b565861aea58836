"""The steps that a script has beside its main one, and which of them that is.

A run has one step. Steps that are one training become it; others are refused, with their lines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm.batch_script.steps import branches, mpirun, step_search
from allranks.convert.slurm.batch_script.text import shell_text, shell_variables, words
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables
    from allranks.errors import InvalidValues

_LINES = ("line", "lines")
_AS_TASKS = (
    "make them the tasks of an array (`#SBATCH --array`), which is a sweep here, or take srun off, "
    "where they may share the GPUs of one pod"
)
_AS_ONE_STEP = (
    "where they are ranks of one training, write one srun for all nodes, in which SLURM_NODEID is "
    "the number of a node, or torchrun; otherwise make them the tasks of an array"
)
_FOR_EACH_NODE = "take srun off: setup starts it in each pod, where it goes on beside the ranks"
_ON_SOME_NODES = re.compile(
    r"\s(?:-w\b|--nodelist\b|--nodes[= ]1\b|-N ?1\b|--ntasks[= ]1\b|-n ?1\b)"
)
_OF_NODE = re.compile(r"(?:node|machine)[-_]?rank|world[-_]?size", re.IGNORECASE)
# An mpirun in $(…), as far as its words go.
_READ_MPIRUN = re.compile(
    rf"(?:\$\(|`)\s*((?:{'|'.join(sorted(words.MPI_LAUNCHERS))})\s[^|;&)`\n]*)"
)


def check_beside(script: Script, steps: list[Step]) -> None:
    """Refuse steps of one process beside each other: each had GPUs and CPUs of its own."""
    beside = [
        step
        for step in steps
        if step.is_srun
        and step.is_called
        and (is_in_background(script, step) or _is_called_in_background(script, step))
        and step.words
        and not words.any_of(step.words, words.IDLE)
        and not _is_waited_for(script, step)
    ]
    others = [step for step in steps if _is_placed(step) and step not in beside]
    is_on_two = script.size.node_count > 1 and any(map(_is_placed, beside)) and bool(others)
    if len(beside) > 1 or is_on_two or any(repeats(script, step) for step in beside):
        beside += others if is_on_two else []
        lines = list_some([str(step.command.line) for step in beside], 8)
        raise script.refuse(
            beside[0].command.line,
            f"the script starts steps beside each other with `&` ({_LINES[len(beside) > 1]} "
            f"{lines}), and a run has one",
            _AS_ONE_STEP if any(map(_is_of_node, beside)) else _AS_TASKS,
        )


def is_in_background(script: Script, step: Step) -> bool:
    """Whether the script goes on while a step runs: ``srun a &``, ``srun a | tee log &``."""
    statement = script.statements[step.statement]
    return statement.in_background or _ends_in_background(statement.commands, step.command)


def list_behind(commands: Sequence[Command], command: Command) -> list[Command]:
    """The commands behind another in its list or pipeline: ``a | b || c``.

    Args:
        commands: the commands of its statement.
        command: the first.
    """
    own = [
        other
        for other in commands
        if other.start >= command.start and other.within == command.within
    ]
    last = next((at for at, other in enumerate(own) if other.after not in scanner.LISTS), 0)
    return own[1 : last + 1]


def last_of_list(commands: Sequence[Command], command: Command) -> Command:
    """The last command of the list or pipeline that a command stands in: ``srun a | tee log &``.

    Args:
        commands: the commands of its statement.
        command: the command.
    """
    return [command, *list_behind(commands, command)][-1]


def _ends_in_background(commands: Sequence[Command], command: Command) -> bool:
    """Whether the list or pipeline that a command stands in ends with `&`."""
    return last_of_list(commands, command).after == "&"


def _is_called_in_background(script: Script, step: Step) -> bool:
    """Whether a step stands in a function that is called with `&`."""
    function = script.statements[step.statement].function
    return bool(function) and any(
        _ends_in_background(statement.commands, call)
        for statement in script.statements
        if statement.function != function
        for call in statement.commands
        if call.name == function
    )


def check_in_turn(script: Script, steps: list[Step]) -> None:
    """Refuse a loop that starts a step on one node after the other: they are several."""
    for step in steps if script.size.node_count > 1 else []:
        if _is_placed(step) and step.command.in_loop:
            raise script.refuse(
                step.command.line,
                "a loop starts a step on one node after the other, each when that before it has "
                "ended, and a run has one step",
                _AS_ONE_STEP,
            )


def check_read(script: Script) -> None:
    """Refuse an mpirun whose output the script reads: ``seconds=$(mpirun -n 8 ./a.out)``."""
    for statement in script.statements if script.size.task_count > 1 else []:
        text = script.slice(statement)
        for match in _READ_MPIRUN.finditer(text):
            texts = shell_text.split(match[1])
            if words.asks_of_itself(texts) or step_search.only_prints(mpirun.program(texts)):
                continue
            raise script.refuse(
                statement.line + text.count("\n", 0, match.start()),
                "the script reads what a step with ranks prints, and a run's is its log",
                "let the program write its result into a file, and take the step out of $(…)",
            )


def _is_placed(step: Step) -> bool:
    """Whether a step runs a program on a node that it names."""
    names_node = {"relative", "nodelist"} & {setting.name for setting in step.settings}
    is_called = step.is_srun and step.is_called and bool(step.words)
    return is_called and bool(names_node) and not step_search.only_prints(step.words)


def _is_of_node(step: Step) -> bool:
    """Whether a step is that of one node of several, which find each other."""
    is_placed = {"relative", "nodelist"} & {setting.name for setting in step.settings}
    return bool(is_placed) or _OF_NODE.search(" ".join(step.words)) is not None


def _is_waited_for(script: Script, step: Step) -> bool:
    """Whether a loop waits for a step before it starts the next."""
    commands = script.statements[step.statement].commands
    behind = [command for command in commands if command.start > step.command.start]
    return step.command.in_loop and any(
        command.name == "wait" and command.within == step.command.within for command in behind[:1]
    )


def check_programs(script: Script, steps: list[Step]) -> None:
    """Refuse a step of several programs."""
    for step in steps:
        parsed = {setting.name for setting in step.settings}
        if parsed & {"het-group", "pack-group"}:
            raise script.refuse(
                step.command.line,
                "the step is of parts of a heterogeneous job, and the pods of a run are alike",
                "make one part of them, with the larger of their numbers, or a script of each "
                "where they need not reach each other",
            )
        if (step.is_srun and ":" in step.words) or "multi-prog" in parsed:
            raise script.refuse(
                step.command.line,
                "the step has several programs, and srun's ways to say so are not read",
                "write them for mpirun, which a run of MPI starts as it is "
                "(`mpirun -np 2 ./a : -np 2 ./b`), or let one program look at its rank",
            )


def check_launchers(script: Script, variables: ShellVariables) -> None:
    """Refuse a launcher of several ranks in a variable that a branch or a function sets.

    Raises:
        InvalidValues: its text is known in the pod alone; as one process it would be no launcher.
    """
    size = script.size
    launchers: set[str] = set()
    if size.task_count > 1:
        launchers |= words.MPI_LAUNCHERS | {"srun"}
    if size.node_count > 1:
        launchers |= words.STARTERS | {"srun", "accelerate"}
    for command in script.commands:
        texts = [token.text for token in command.words]
        name = shell_variables.program_variable(texts)
        name = "" if name in variables.parts else name
        name = name or (texts[0].strip('"$') if variables.listed_by(texts) else "")
        if name and variables.possible_programs(texts) & launchers:
            raise script.refuse(
                command.line,
                f"the launcher stands in a variable whose text is known in the pod alone (${name})",
                "write the launcher out in this line, and convert that",
            )


def choose_main(script: Script, variables: ShellVariables, multi: list[Step]) -> Step | None:
    """The step with the ranks; None where the script is run as it is."""
    if not multi:
        return None
    distinct = _distinct(variables, multi)
    is_of_branches = len(multi) > 1 and _exclusive(script, multi)
    is_twice = len(multi) > 1 and not (is_of_branches or _run_together(script, multi))
    by_node = len(multi) > 1 or over_nodes(multi[0])
    in_loop = any(repeats(script, step) for step in multi)
    is_local = _is_local(script, variables, multi)
    if len(distinct) == 1 and (not in_loop or by_node) and not is_twice:
        is_same_step = in_loop and is_local and not over_nodes(multi[0])
        if not is_same_step and not _is_called_again(script, distinct[0]):
            return branches.widest(variables, multi) if is_of_branches else distinct[0]
    if len(distinct) > 1 and is_of_branches:
        return branches.widest(variables, multi)
    if is_local:
        return None
    raise _several(script, multi, len(multi) if is_twice else len(distinct))


def _run_together(script: Script, multi: list[Step]) -> bool:
    """Whether steps of one program are one run, beside each other or by node."""
    return any(is_in_background(script, step) or over_nodes(step) for step in multi)


def _is_local(script: Script, variables: ShellVariables, multi: list[Step]) -> bool:
    """Whether all steps start the ranks of one node, so that a pod may run the script."""
    return script.size.node_count == 1 and all(
        step.size.node_count == 1
        and is_torch_launcher(variables, step)
        and not (step.is_srun and step.size.task_count > 1)
        for step in multi
    )


_TRIES_AGAIN = re.compile(r"(?:while|until)\b(?!\s+(?:\S+=\S*\s+)*read\b)")
# What a loop of any kind does where a step went well.
_ENDS_AT_SUCCESS = re.compile(r"(?:&&|\bthen\b)\s*break\b")


def _several(script: Script, multi: list[Step], distinct: int) -> InvalidValues:
    """Why a script with several steps is no run, and what to do."""
    lines = [step.command.line for step in multi]
    calls = [] if multi[0].command.in_loop else _calls_of(script, multi[0])
    if distinct == 1 and len(calls) > 1 and not any(own.in_loop for own in calls):
        places = list_some([str(own.line) for own in calls], 8)
        message = (
            f"the function {calls[0].name} is called {plural(len(calls), 'time')} (lines {places}) "
            "and starts the step each time, and a run has one"
        )
        hint = (
            "make a script of each call and convert those, in turn; a call that only makes things "
            "ready may be a plain line before the step, without srun: that is setup"
        )
        hint = _AS_ONE_STEP if _is_of_node(multi[0]) else hint
        return script.refuse(lines[0], message, hint)
    if distinct == 1:
        message = "a loop starts the step more than once, and a run has one"
        hint = f"take the loop away and try its values in a sweep: `{names.CLI} sweep run`"
        loop = script.slice(script.statements[multi[0].statement])
        if _TRIES_AGAIN.match(loop) or _ENDS_AT_SUCCESS.search(loop):
            hint = (
                "take the loop away where it tries again what has failed: runPolicy.backoffLimit "
                "says how often a run starts again"
            )
        elif _is_of_node(multi[0]):
            hint = _AS_ONE_STEP
        return script.refuse(lines[0], message, hint)
    places = list_some([str(line) for line in lines], 8)
    if any(script.statements[step.statement].in_background for step in multi):
        message = f"the script starts {plural(distinct, 'step')} beside each other (lines {places})"
    else:
        message = (
            f"the script has {plural(distinct, 'step')} with ranks, and a run has one "
            f"(lines {places})"
        )
    hint = (
        "make a script of each and convert those; one after the other they are runs that you "
        "start in turn. Take srun off those that only make things ready: a plain line is setup"
    )
    beside = [step for step in multi if script.statements[step.statement].in_background]
    if len(beside) == 1 and len(multi) > 1 and _is_for_each_node(beside[0]):
        hint = f"line {beside[0].command.line}: {_FOR_EACH_NODE}"
    return script.refuse(lines[0], message, hint)


def repeats(script: Script, step: Step) -> bool:
    """Whether a step is started more than once: in a loop, or by a function called twice."""
    return step.command.in_loop or _is_called_again(script, step)


def _is_called_again(script: Script, step: Step) -> bool:
    """Whether the function that a step stands in is called in a loop, or twice."""
    calls = _calls_of(script, step)
    return len(calls) > 1 or any(command.in_loop for command in calls)


def _calls_of(script: Script, step: Step) -> list[Command]:
    """The calls of the function that a step stands in; [] where it stands in none."""
    function = script.statements[step.statement].function
    if not function:
        return []
    return [
        command
        for statement in script.statements
        if statement.function != function
        for command in statement.commands
        if command.name == function
    ]


def over_nodes(step: Step) -> bool:
    """Whether a loop starts a step on one node after the other."""
    parsed = {setting.name for setting in step.settings}
    flags = {word.partition("=")[0].replace("_", "-") for word in step.words}
    by_node = bool(parsed & {"nodelist", "relative"})
    return by_node and (
        bool(flags & {"--node-rank", "--machine-rank", "--rdzv-endpoint", "--master-addr"})
    )


def is_torch_launcher(variables: ShellVariables, step: Step) -> bool:
    """Whether a step starts a launcher of torch's ranks, in a container or a text, too."""
    texts = step_search.words_inside(words.unwrapped(step.words))
    inner = words.unwrapped(texts)
    return (
        words.starts_ranks(inner) and words.base(inner[0]) not in words.MPI_LAUNCHERS
    ) or variables.inner_starts(texts)


def _distinct(variables: ShellVariables, multi: list[Step]) -> list[Step]:
    steps: dict[tuple[str, ...], Step] = {}
    for step in multi:
        program = branches.program_of(variables, step_search.words_inside(step.words))
        key = program.command if program.runner is Runner.TORCHRUN else tuple(step.words)
        inputs = [f"{sign}{name}" for sign, name in step.command.redirections if sign[0] == "<"]
        steps.setdefault((*key, *inputs), step)
    return list(steps.values())


def _exclusive(script: Script, multi: list[Step]) -> bool:
    """Whether of several steps one alone runs, once."""
    return branches.are_exclusive(multi) and not any(repeats(script, step) for step in multi)


def how_beside(step: Step) -> str:
    """How a step that goes on beside the ranks can be run.

    Args:
        step: the step; one that each node has can be a line of setup.
    """
    if _is_for_each_node(step):
        return _FOR_EACH_NODE
    return "make it a script of its own, whose run goes on beside this one"


def _is_for_each_node(step: Step) -> bool:
    """Whether a step has a task on each of several nodes: a server for the ranks there."""
    # Behind a variable with other options they are among the words alone.
    text = " ".join(token.text for token in step.command.words)
    is_of_some = _ON_SOME_NODES.search(text) is not None
    return step.is_srun and not is_of_some and 1 < step.size.node_count == step.size.task_count
