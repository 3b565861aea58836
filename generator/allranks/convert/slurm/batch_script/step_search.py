"""The steps of a batch script: which of its commands start ranks, and which of them is the run."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert import commands, scanner
from allranks.convert.commands import Runner
from allranks.convert.slurm import options, sizes
from allranks.convert.slurm.batch_script import (
    images,
    mpirun,
    shell_text,
    shell_variables,
    words,
)
from allranks.convert.slurm.batch_script.script_reading import Evaluated, Step
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.scanner import Command
    from allranks.convert.slurm.batch_script.script import Script
    from allranks.convert.slurm.batch_script.script_reading import ScriptReading, StepDetails
    from allranks.convert.slurm.batch_script.shell_variables import ShellVariables
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size
    from allranks.errors import InvalidValues

_SIZES = frozenset(
    {
        *("nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu", "gpus", "gres"),
        *("gpus-per-node", "gpus-per-task", "gpus-per-socket", "cpus-per-task", "cpus-per-gpu"),
        *("mem", "mem-per-cpu", "mem-per-gpu"),
    }
)


# What variables with options of srun's are called.
_OPTIONS = re.compile(r"(?:ARG|OPT|FLAG|PARAM)(?:S|IONS?)?$", re.IGNORECASE)
_LINES = ("line", "lines")
_AS_TASKS = (
    "make them the tasks of an array (`#SBATCH --array`), which is a sweep here, or take srun off, "
    "where they may share the GPUs of one pod"
)
_AS_ONE_STEP = (
    "where they are ranks of one training, write one srun for all nodes, in which SLURM_NODEID is "
    "the number of a node, or torchrun; otherwise make them the tasks of an array"
)
_OF_NODE = re.compile(r"(?:node|machine)[-_]?rank|world[-_]?size", re.IGNORECASE)
# An mpirun in $(…), as far as its words go.
_READ_MPIRUN = re.compile(
    rf"(?:\$\(|`)\s*((?:{'|'.join(sorted(words.MPIRUN | {'horovodrun'}))})\s[^|;&)`\n]*)"
)
_SPANNING = words.MPIRUN | {"srun"}
# What calls a function by a name that stands nowhere: "$1", run_$MODE, or another file.
_READS_NAMES = re.compile(
    r"(?:^|[;&|({`]|\b(?:then|do|else|time|eval)\b)[ \t]*(?:\"?\$|[\w-]*\$|(?:source|\.)[ \t])",
    re.MULTILINE,
)


def find(reading: ScriptReading) -> list[Step]:
    """The commands that start processes, in the script's order."""
    steps = []
    code = words.without_comments(reading.script.text)
    for number, statement in enumerate(reading.script.statements):
        function = statement.function
        is_called = not function or not is_never_called(function, code)
        for command in statement.commands:
            reading.variables.expanded_names = set()
            step = _step(reading, number, command)
            if step is not None:
                expansions = frozenset(reading.variables.expanded_names)
                is_multi = step.is_multi and is_called
                steps.append(
                    replace(step, expansions=expansions, is_multi=is_multi, is_called=is_called)
                )
    return steps


def is_never_called(function: str, code: str, behind: str = "") -> bool:
    """Whether a script has the name of a function in no other place, and reads no other's lines.

    Args:
        function: its name.
        code: what defines it, and may call it.
        behind: what stands behind that; where it calls the function, lines of others that `code`
            reads do not.
    """
    name = re.compile(rf"(?<![\w-]){re.escape(function)}(?![\w-])")
    is_for_behind = name.search(behind) is not None
    is_alone = len(name.findall(code)) == 1
    return is_alone and (is_for_behind or not _READS_NAMES.search(code))


def _step(reading: ScriptReading, number: int, command: Command) -> Step | None:
    """The step that a command is; None where it starts nothing."""
    script, variables = reading.script, reading.variables
    whole = variables.expanded_words([token.text for token in command.words])
    reading.details.limits[id(command)] = words.limit_of(whole)
    inner = words.unwrapped(whole)
    if len(inner) > 1 and words.base(inner[0]) == "eval":
        # As typed: the words of a variable have lost their signs of a shell.
        typed = words.unwrapped([token.text for token in command.words])
        is_typed = words.base(typed[0]) == "eval"
        inner = _evaluated(reading, command, (typed if is_typed else inner)[1:])
    inner = words.by_name(inner)
    at = words.behind_profiler(inner)
    # A launcher of one node runs in the pod as it is, and what measures it with it.
    if at and (script.size.node_count > 1 or words.base(inner[at]) in _SPANNING):
        inner = _without_profiler(reading.details, command, inner)
    program = words.base(inner[0]) if inner else ""
    _check_ray(script, command, inner)
    is_local = program == "parallel" or (program == "charmrun" and script.size.node_count == 1)
    if program in words.FOREIGN_STARTERS and not is_local:
        raise script.refuse(
            command.line,
            f"{program} starts processes in a way that has no form here",
            "start them with srun, torchrun or mpirun, and convert that",
        )
    if program == "ibrun":
        return _ibrun(script, variables, number, command, inner)
    if program == "srun":
        return _srun_step(reading, number, command, inner)
    inside = _inside(inner)
    if inside is not inner and (words.starts_ranks(inside) or variables.inner_starts(inside)):
        return Step(number, command, [], inner, is_srun=False, size=script.size, is_multi=True)
    if words.starts_ranks(inner) and not only_prints(mpirun.program(inner)):
        inner = [*words.environment_of(whole), *inner]
        return Step(number, command, [], inner, is_srun=False, size=script.size, is_multi=True)
    return None


def _evaluated(reading: ScriptReading, command: Command, texts: list[str]) -> list[str]:
    """The words of the first command of what `eval` runs; the text is kept, for what is behind."""
    text = reading.variables.expanded(scanner.unquote(" ".join(texts)))
    evaluated = Evaluated(text, shell_text.commands_of(text))
    if not evaluated.commands:
        return words.unwrapped(shell_text.split(text) or [text])
    reading.details.evaluated[id(command)] = evaluated
    tokens = (*evaluated.commands[0].assignments, *evaluated.commands[0].words)
    return words.unwrapped([token.text for token in tokens])


def _without_profiler(details: StepDetails, command: Command, texts: list[str]) -> list[str]:
    """Words without what measures a launcher, also in a container; it is kept to be said."""
    inside = _inside(texts)
    at = words.behind_profiler(inside)
    if not at:
        return texts
    details.profilers[id(command)] = " ".join(inside[: min(at, 2)])
    return [*texts[: len(texts) - len(inside)], *inside[at:]]


def only_prints(texts: Sequence[str]) -> bool:
    """Whether words only print, themselves or in the text of ``bash -c "…"``."""
    if words.any_of(texts, words.IDLE):
        return True
    inner = shell_text.shell_text(list(texts))
    if inner is None:
        return False
    try:
        statements = scanner.parse(inner)
    except scanner.ScriptError:
        return False
    return bool(statements) and all(
        not command.redirections
        and words.any_of([token.text for token in command.words], words.IDLE)
        for statement in statements
        for command in statement.commands
    )


def _check_ray(script: Script, command: Command, texts: list[str]) -> None:
    """Refuse a cluster of Ray's: a head, workers, and a program that they do not run."""
    if [words.base(text) for text in texts[:2]] == ["ray", "start"]:
        raise script.refuse(
            command.line,
            "the script starts a cluster of Ray's, and allranks starts ranks",
            "keep KubeRay for it (a RayJob), or run its training script with torchrun",
        )


def _ibrun(
    script: Script, variables: ShellVariables, number: int, command: Command, inner: list[str]
) -> Step:
    """A site's mpirun, which takes the ranks from the job: as srun, for a program of MPI's."""
    counts, program_words = mpirun.of_site(inner, variables.constants)
    by_name = {option.name: option for option in options.OPTIONS}
    # Only what is known where the script runs has a line, and a word of the report.
    settings = [
        options.Setting(name, value, command.line if "$" in value else 0, by_name[name])
        for name, value in {"mpi": "pmix", **counts}.items()
    ]
    _check_counts(script, command, settings)
    is_multi = bool(program_words) or "multi-prog" in counts
    size = _step_size(script, settings)
    return Step(
        number, command, settings, program_words, is_srun=True, size=size, is_multi=is_multi
    )


def _srun_step(reading: ScriptReading, number: int, command: Command, inner: list[str]) -> Step:
    script = reading.script
    settings, rest = parse_srun(reading, inner[1:], command.line)
    program_words = words.by_name(inner[len(inner) - len(rest) :] if rest else [])
    if not program_words or only_prints(program_words):
        size, is_multi = script.size, False
    else:
        _check_counts(script, command, settings)
        size = _step_size(script, settings)
        if size.node_count > 1:
            program_words = _without_profiler(reading.details, command, program_words)
        inside = _inside(program_words)
        _check_ray(script, command, words.unwrapped(inside))
        starts = words.starts_ranks(inside) or reading.variables.inner_starts(inside)
        is_multi = starts or size.task_count > 1
    return Step(
        number, command, settings, program_words, is_srun=True, size=size, is_multi=is_multi
    )


def _inside(texts: list[str]) -> list[str]:
    """The words that run in a container, where words start one; the words themselves else."""
    if not texts or words.base(texts[0]) not in words.CONTAINERS:
        return texts
    program = words.base(texts[0])
    container = images.of_command([program, *map(scanner.unquote, texts[1:])])
    return texts[len(texts) - container.inside :] if container else texts


def _check_counts(script: Script, command: Command, settings: Sequence[Setting]) -> None:
    """Refuse a step whose nodes or tasks neither the script nor its directives say."""
    for setting in settings:
        count = {
            "nodes": script.size.nodes if script.says_nodes() else 0,
            "ntasks": script.size.tasks or script.size.tasks_per_node,
            "ntasks-per-node": script.size.tasks or script.size.tasks_per_node,
        }.get(setting.name, 1)
        own = shell_text.variable_alone(setting.value).startswith("SLURM_")
        if count or own or "$" not in setting.value:
            continue
        raise script.refuse(
            command.line,
            f"--{setting.name} of the step is {setting.value}, which is known where the "
            "script runs",
            f"write the number, or give it to the job: `#SBATCH --{setting.name}=…`",
        )


def _step_size(script: Script, settings: Sequence[Setting]) -> Size:
    own = [setting for setting in settings if setting.name in _SIZES and "$" not in setting.value]
    if not own:
        return script.size
    texts = {setting.name for setting in own}
    is_about_tasks = any(map(shell_text.is_about_tasks, texts))
    settings_of_job = [
        setting
        for setting in script.settings
        if setting.name in _SIZES
        and not (is_about_tasks and shell_text.is_about_tasks(setting.name))
    ]
    if "nodes" not in texts and "ntasks" in texts and script.size.nodes:
        settings_of_job.append(
            options.Setting("nodes", str(script.size.nodes), 0, options.of("sbatch")[0])
        )
    return sizes.read([*settings_of_job, *own])


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


def _ends_in_background(commands: Sequence[Command], command: Command) -> bool:
    """Whether the list or pipeline that a command stands in ends with `&`."""
    rest = [other for other in commands if other.start >= command.start]
    of_list = (other for other in rest if other.within == command.within)
    last = next((other for other in of_list if other.after not in scanner.LISTS), command)
    return last.after == "&"


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
            if words.asks_of_itself(texts) or only_prints(mpirun.program(texts)):
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
    return is_called and bool(names_node) and not only_prints(step.words)


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
        if "multi-prog" in parsed or "het-group" in parsed or "pack-group" in parsed:
            raise script.refuse(
                step.command.line,
                "the step has several programs, and all ranks of a run have one",
                "make a values file of each, or let one program look at RANK",
            )


def check_launchers(script: Script, variables: ShellVariables) -> None:
    """Refuse a launcher of several ranks in a variable that a branch or a function sets.

    Raises:
        InvalidValues: its text is known in the pod alone; as one process it would be no launcher.
    """
    size = script.size
    launchers: set[str] = set()
    if size.task_count > 1:
        launchers |= words.MPIRUN | {"srun", "horovodrun"}
    if size.node_count > 1:
        launchers |= words.STARTERS | {"srun", "accelerate"}
    for command in script.commands:
        texts = [token.text for token in command.words]
        name = shell_variables.program_variable(texts)
        if name and name not in variables.parts and variables.possible_programs(texts) & launchers:
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
    is_twice = len(multi) > 1 and not _belong_together(script, multi)
    by_node = len(multi) > 1 or over_nodes(multi[0])
    in_loop = any(repeats(script, step) for step in multi)
    is_local = _is_local(script, variables, multi)
    if len(distinct) == 1 and (not in_loop or by_node) and not is_twice:
        is_same_step = in_loop and is_local and not over_nodes(multi[0])
        if not is_same_step:
            return distinct[0]
    if len(distinct) > 1 and _exclusive(script, multi):
        return distinct[0]
    if is_local:
        return None
    raise _several(script, multi, len(multi) if is_twice else len(distinct))


def _belong_together(script: Script, multi: list[Step]) -> bool:
    """Whether steps of one program are one run: beside each other, by node, or by branch."""
    return _exclusive(script, multi) or any(
        is_in_background(script, step) or over_nodes(step) for step in multi
    )


def _is_local(script: Script, variables: ShellVariables, multi: list[Step]) -> bool:
    """Whether all steps start the ranks of one node, so that a pod may run the script."""
    return script.size.node_count == 1 and all(
        step.size.node_count == 1
        and is_torch_launcher(variables, step)
        and not (step.is_srun and step.size.task_count > 1)
        for step in multi
    )


def _several(script: Script, multi: list[Step], distinct: int) -> InvalidValues:
    """Why a script with several steps is no run, and what to do."""
    lines = [step.command.line for step in multi]
    if distinct == 1:
        message = "a loop starts the step more than once, and a run has one"
        hint = f"take the loop away and try its values in a sweep: `{names.CLI} sweep run`"
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
        "start in turn"
    )
    return script.refuse(lines[0], message, hint)


def repeats(script: Script, step: Step) -> bool:
    """Whether a step is started more than once: in a loop, or by a function called twice."""
    if step.command.in_loop:
        return True
    function = script.statements[step.statement].function
    if not function:
        return False
    calls = _calls(script, function)
    return len(calls) > 1 or any(command.in_loop for command in calls)


def _calls(script: Script, function: str) -> list[Command]:
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
    texts = _inside(words.unwrapped(step.words))
    inner = words.unwrapped(texts)
    return (
        words.starts_ranks(inner) and words.base(inner[0]) not in (*words.MPIRUN, "horovodrun")
    ) or variables.inner_starts(texts)


def _distinct(variables: ShellVariables, multi: list[Step]) -> list[Step]:
    steps: dict[tuple[str, ...], Step] = {}
    for step in multi:
        program = _program_of(variables, _inside(step.words))
        key = program.command if program.runner is Runner.TORCHRUN else tuple(step.words)
        inputs = [f"{sign}{name}" for sign, name in step.command.redirections if sign[0] == "<"]
        steps.setdefault((*key, *inputs), step)
    return list(steps.values())


def _exclusive(script: Script, multi: list[Step]) -> bool:
    """Whether of several steps one alone runs: each is in another branch of an if or case."""
    return (
        len({step.statement for step in multi}) == 1
        and not any(repeats(script, step) for step in multi)
        and all(first.command.excludes(second.command) for first, second in combinations(multi, 2))
    )


def _program_of(variables: ShellVariables, texts: Sequence[str]) -> commands.Program:
    inner = variables.inner_text(texts)
    line = " ".join(texts) if inner is None else inner
    return commands.read(("bash", "-c", line), (), variables.constants)


def parse_srun(
    reading: ScriptReading, texts: Sequence[str], line: int
) -> tuple[list[Setting], list[str]]:
    """Srun's options, and the words behind them without their quotes."""
    variables = reading.variables
    settings, rest = options.parse([scanner.unquote(text) for text in texts], "srun", line)
    while len(rest) > 1 and _is_of_options(variables, name := shell_text.variable_alone(rest[0])):
        reading.details.conditional.setdefault(name, line)
        more, rest = options.parse(rest[1:], "srun", line)
        settings += more
    step_settings = []
    for setting in settings:
        value = setting.value
        position = re.fullmatch(r"\$\{?([1-9])\}?", value)
        if position is not None and int(position[1]) <= len(reading.script.args):
            value = reading.script.args[int(position[1]) - 1]
        if "$" in value:
            typed = variables.text_of(value) if setting.name.startswith("container-") else value
            value = words.resolve(value, variables.constants) or words.partly(
                typed, variables.constants
            )
        step_settings.append(replace(setting, value=value))
    return step_settings, rest


def _is_of_options(variables: ShellVariables, name: str) -> bool:
    """Whether a variable has options, or nothing: by its text, or else by its name."""
    is_called_so = _OPTIONS.search(name) is not None and name not in variables.contents
    return name in variables.optional or is_called_so
