"""The steps of a batch script: which of its commands start ranks, and with what."""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm import options, sizes
from allranks.convert.slurm.batch_script.containers import images
from allranks.convert.slurm.batch_script.steps import launcher_hosts, mpirun
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.slurm.batch_script.text.script_reading import Evaluated, Step
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading, StepDetails
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size

_SIZES = frozenset(
    {
        *("nodes", "ntasks", "ntasks-per-node", "tasks-per-node", "ntasks-per-gpu", "gpus", "gres"),
        *("gpus-per-node", "gpus-per-task", "gpus-per-socket", "cpus-per-task", "cpus-per-gpu"),
        *("mem", "mem-per-cpu", "mem-per-gpu"),
    }
)
# On which of the job's nodes a step is.
_PLACES = frozenset({"nodelist", "relative", "exclude"})


# What variables with options of srun's are called.
_OPTIONS = re.compile(r"(?:ARG|OPT|FLAG|PARAM)(?:S|IONS?)?$", re.IGNORECASE)
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
    return is_alone and (is_for_behind or not _reads_names(code))


@functools.lru_cache(maxsize=1)  # it is asked for each function of one script
def _reads_names(code: str) -> bool:
    return _READS_NAMES.search(code) is not None


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
    inside = words_inside(inner)
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
    inside = words_inside(texts)
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
    inner = shell_text.commands_of(shell_text.shell_text(texts) or "")
    starts = (texts, *([token.text for token in other.words] for other in inner))
    if any([words.base(text) for text in own[:2]] == ["ray", "start"] for own in starts):
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
    size = size_of(script, settings)
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
        size = size_of(script, settings)
        if size.node_count > 1:
            program_words = _without_profiler(reading.details, command, program_words)
        inside = words_inside(program_words)
        _check_ray(script, command, words.unwrapped(inside))
        if size.task_count == 1 < script.size.node_count and launcher_hosts.are_named(inside):
            own = [setting for setting in settings if setting.name not in _SIZES | _PLACES]
            job = script.size
            return Step(number, command, own, program_words, is_srun=False, size=job, is_multi=True)
        starts = words.starts_ranks(inside) or reading.variables.inner_starts(inside)
        is_multi = starts or size.task_count > 1
    return Step(
        number, command, settings, program_words, is_srun=True, size=size, is_multi=is_multi
    )


def words_inside(texts: list[str]) -> list[str]:
    """The words that run in a container, where words start one; the words themselves else."""
    if not texts or words.base(texts[0]) not in words.CONTAINERS:
        return texts
    program = words.base(texts[0])
    container = images.of_command([program, *map(scanner.unquote, texts[1:])])
    return texts[len(texts) - container.inside :] if container else texts


def _check_counts(script: Script, command: Command, settings: Sequence[Setting]) -> None:
    """Refuse a step whose nodes or tasks neither the script nor its directives say."""
    counts_of_job = {
        "nodes": script.size.nodes if script.says_nodes() else 0,
        "ntasks": script.size.tasks or script.size.tasks_per_node,
        "ntasks-per-node": script.size.tasks or script.size.tasks_per_node,
    }
    unknown = [
        own
        for own in settings
        if "$" in own.value
        and not counts_of_job.get(own.name, 1)
        and not shell_text.variable_alone(own.value).startswith("SLURM_")
    ]
    if not unknown:
        return
    is_alone = len(unknown) == 1
    why = f"which {'is' if is_alone else 'are'} known where the script runs"
    names = {shell_text.variable_alone(own.value) for own in unknown}
    no_assignment = [own for own in script.commands if any(_has_blanks(own, n) for n in names)]
    if no_assignment:
        line, name = no_assignment[0].line, no_assignment[0].name
        why = f"which nothing sets: with blanks around its `=` line {line} runs a program {name}"
        why = why if is_alone else f"{why}; the rest is known where the script runs"
    own = unknown[0]
    counts = list_some([f"--{own.name}={own.value}" for own in unknown], 4)
    message = f"--{own.name} of the step is {own.value}" if is_alone else f"the step has {counts}"
    directives = list_some([f"`#SBATCH --{own.name}=…`" for own in unknown], 4)
    number = "number, or give it" if is_alone else "numbers, or give them"
    raise script.refuse(
        command.line, f"{message}, {why}", f"write the {number} to the job: {directives}"
    )


def _has_blanks(command: Command, name: str) -> bool:
    """Whether a command was meant to set a variable: ``CORES = 64``."""
    return bool(name) and [word.text for word in command.words[:2]] == [name, "="]


def size_of(script: Script, settings: Sequence[Setting]) -> Size:
    """How many nodes and tasks a step has.

    Args:
        script: the script.
        settings: the options of the step's srun.
    """
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
        if "$" in value and setting.name == "export" and _reads_files(reading.script):
            value = words.partly(value, variables.constants)  # a file may have another text
        elif "$" in value:
            typed = variables.text_of(value) if setting.name.startswith("container-") else value
            value = words.resolve(value, variables.constants) or words.partly(
                typed, variables.constants
            )
            if setting.name.startswith("container-"):
                value = variables.with_sent_folder(variables.with_own_folders(value))
        step_settings.append(replace(setting, value=value))
    return step_settings, rest


def _reads_files(script: Script) -> bool:
    """Whether a script reads a file that may set any variable."""
    return any(map(shell_text.reads_file, script.commands))


def _is_of_options(variables: ShellVariables, name: str) -> bool:
    """Whether a variable has options, or nothing: by its text, or else by its name."""
    is_called_so = _OPTIONS.search(name) is not None and name not in variables.contents
    return name in variables.optional or is_called_so
