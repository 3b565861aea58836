"""A script that starts no ranks of several: it is run as it is, as one process."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm import amounts, sizes
from allranks.convert.slurm.batch_script.pods import missing_in_pods
from allranks.convert.slurm.batch_script.runs import (
    openmp_threads,
    other_nodes,
    presumed_programs,
)
from allranks.convert.slurm.batch_script.setup import (
    bare_programs,
    exports,
    inner_setup,
    local_hosts,
    repeated_lines,
    setup_edits,
    setup_lines,
    slurm_questions,
)
from allranks.convert.slurm.batch_script.steps import (
    launcher_environment,
    read_input,
    several_steps,
    srun_variables,
    step_folders,
    step_search,
)
from allranks.convert.slurm.batch_script.text import (
    parsing,
    shell_text,
    substitutions,
    words,
)
from allranks.convert.slurm.options import (
    CPUS_PER_TASK,
    OPTIONS_OF_VARIABLES,
    TASKS_PER_NODE,
)
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import (
        Body,
        RendezvousVariables,
        ScriptReading,
        Step,
    )
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# A job that waits for this one: both have work to do.
_AFTER_THIS = re.compile(r"(?:--dependency|-d)\b\S*[\s=]*\S*SLURM_JOB_?ID")
_OF_SITE = "the shell is that of the image: it has none in a folder of the old cluster's"
_OF_SH = "bash runs it: that is the sh of most clusters, and seldom that of an image"
_OTHER_SHELLS = ("zsh", "ksh")
# How the command before has ended.
_READS_STATUS = re.compile(r"\$\?|\$\{?(?:\?\}|PIPESTATUS\b)")
# Programs that are Python, or written in it; and lines that run none.
_RUNS_PYTHON = re.compile(
    r"\b(?:(?:python|pypy|pip)[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|tune|pytest)\b"
    r"|\.py\b"
    r"|(?<![\w./$-])wandb\s"
)
# What brings a Python of its own.
_OWN_PYTHON = re.compile(
    r"(?:^|\s)/(?!usr/)\S*/bin/python[0-9.]*\s[^\n;&|]*"
    r"|\b(?:uv|poetry|pdm|pipenv|rye|hatch|pixi)\s+run\b[^\n;&|]*"
)
# A question for where Python is, whose answer may be for a program that is none.
_ASKS_FOR_PYTHON = re.compile(r"(?:\b(?:which|type\s+-\w)|\bcommand\s+-[vV])\s+python[0-9.]*\b")
_NO_CODE = re.compile(
    r"^\s*#.*|(?:^|[;&|])[^\S\n]*(?:module\b|ml\b|conda\b(?!.*\srun\s)|source\b|\.\s|echo\b)"
    r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^;&|\n\"'])*",
    re.MULTILINE,
)
# The options that say how many tasks there are.
_TASK_OPTIONS = TASKS_PER_NODE | {"ntasks", "ntasks-per-gpu"}
_COUNTS_ONE = "a program that reads SLURM_NTASKS finds 1"


def read_script(reading: ScriptReading, steps: list[Step], *, nested: bool) -> None:
    """Run the script as it is; what it activates comes before, as setup.

    Args:
        reading: the script, and what is known of it.
        steps: the commands that start processes.
        nested: whether some of them start the ranks of the script's node.

    Raises:
        InvalidValues: it starts what no single process can.
    """
    script, variables, body = reading.script, reading.variables, reading.body
    body.nodes, body.procs_per_node = 1, 1
    body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
    _check_submits(script, variables)
    _check_assembled(script, variables)
    several_steps.check_beside(script, steps)
    several_steps.check_in_turn(script, steps)
    several_steps.check_read(script)
    sruns = [step for step in steps if step.is_srun and step.words]
    is_batch = all(step_search.only_prints(step.words) for step in sruns)
    say_sizes(script, variables, steps, is_batch=is_batch)
    if nested:
        body.notes.append(
            "the script starts the ranks of its node itself, so that the pod runs it as one process"
        )
    lists = [setting.value for setting in script.settings if setting.name == "array"][-1:]
    if not any(amounts.array(tasks) for tasks in lists):  # a trial of a sweep has no launcher
        note_launcher(script, body)
    _note_end(script, body)
    if not nested:
        openmp_threads.put(reading, steps)
    body.uncounted = _uncounted(script, steps)
    # A shell of another kind reads its own lines alone: bash runs setup.
    is_of_bash = parsing.interpreter(script.lines[0]) not in _OTHER_SHELLS
    last = _last_activation(script, variables) if is_of_bash else -1
    setup, again, rest = _split(reading, last, is_of_bash=is_of_bash)
    setup_lines.write_setup(script, body, setup, script.statements[last + 1 :])
    text = "\n".join([*setup, *again, rest])
    counts = _put_counts(script, body, text, is_batch=is_batch)
    head = [_shebang(script, body), _without_launcher(script, reading.rendezvous, rest), *counts]
    body.script = "\n".join([*filter(None, head), *again, rest]) + "\n"
    _put_steps(script, body, sruns)
    read_input.say(reading, sruns)
    srun_variables.say(reading)


def say_sizes(
    script: Script, variables: ShellVariables, steps: list[Step], *, is_batch: bool
) -> None:
    """Say what becomes of nodes and tasks of which one process makes no use.

    Args:
        script: the script.
        variables: what its variables hold.
        steps: those of the script.
        is_batch: whether the process tells its tasks to nobody, as Slurm's batch step does.

    Raises:
        InvalidValues: it starts processes on the other nodes by ssh.
    """
    size = script.size
    printing = other_nodes.printing_line(steps)
    if size.task_count > size.node_count:
        why = "the script runs once, in one pod"
        why += f"; what an srun prints (line {printing}) is printed once" if printing else ""
        # Without GPUs the script tells them, as Slurm does.
        is_counted = is_batch and (size.gpu_count or size.node_count > 1)
        is_counted = is_counted and "SLURM_NTASKS" not in words.without_comments(script.text)
        why += f"; {_COUNTS_ONE}" if is_counted else ""
        for name in ("ntasks", "ntasks-per-node", "tasks-per-node", "gpus-per-task"):
            size.outcomes[name] = (Outcome.CHANGED, "procsPerNode", why)
    if size.node_count > 1:
        other_nodes.check_remote(script, variables)
        options = {setting.name for setting in script.settings}
        # Where the tasks say how many nodes there are, no option of that name has a line.
        saying = (name for name in ("nodes", "ntasks", "nodelist") if name in options)
        name = next(saying, "nodes")
        expansions = {name for step in steps for name in step.expansions}
        launcher = other_nodes.launcher_in_variable(variables, expansions)
        size.outcomes[name] = other_nodes.verdict(script, variables, printing, launcher)


def _split(
    reading: ScriptReading, last: int, *, is_of_bash: bool
) -> tuple[list[str], list[str], str]:
    """A script as setup and what runs behind it.

    Args:
        reading: the script, and what is known of it.
        last: the number of the last statement of setup; -1 for none.
        is_of_bash: whether bash reads the script.

    Returns:
        The parts of setup; those of them that the script repeats, since they end with the shell of
        setup; and the rest of the script.
    """
    script = reading.script
    edits: list[tuple[int, int, str]] = []
    setup: list[str] = []
    texts: dict[int, str] = {}
    again: dict[int, str] = {}
    fillers = {
        other.function
        for other in script.statements
        if other.function and any(map(shell_text.arrays_of, other.commands))
    }
    reads_words = any(
        words.positional(script.slice(other))
        for number, other in enumerate(script.statements)
        if number > last or (setup_lines.lives_in_shell(other) and not other.function)
    )
    for number, statement in enumerate(script.statements):
        is_setup = number <= last
        is_trap = any(command.name == "trap" for command in statement.commands)
        text = setup_lines.text_of(
            reading, statement, is_single=True, is_setup=is_setup and not is_trap
        )
        if is_setup:
            start = setup_lines.comment_start(script, number)
            edits.append((start, parsing.end_of(script, statement), ""))
        elif text is None:
            edits.append((statement.start, parsing.end_of(script, statement), ""))
        elif text != script.slice(statement):
            edits.append((statement.start, statement.end, text))
        else:
            edits += setup_edits.of_modules(statement)
            edits += setup_edits.of_deactivations(statement) if is_of_bash else []
            edits += slurm_questions.edits(script.text, statement)
            edits += bare_programs.edits(reading, statement)
            edits += inner_setup.edits_of_texts(reading, statement)
            edits += local_hosts.edits(reading, statement, "script")
        if not is_setup or text is None:
            continue
        # The shell of setup ends before the script begins, and a trap with it.
        setup_text = "" if is_trap else setup_lines.with_comments(script, number, text)
        setup += [setup_text] if setup_text else []
        is_of_rank = not shell_text.set_by(statement).isdisjoint(launcher_environment.OF_RANK)
        changes_words = reads_words and any(map(shell_text.changes_words, statement.commands))
        fills = any(command.name in fillers for command in statement.commands)
        is_of_rank |= any(
            own.name in ("source", ".")
            and launcher_environment.may_tell_rank(scanner.unquote(own.words[-1].text))
            for own in statement.commands
        )
        is_of_shell = setup_lines.lives_in_shell(statement) or changes_words or fills
        texts[number] = text
        again |= {number: text} if is_of_shell or is_of_rank else {}
    rest = shell_text.without_directives(shell_text.edited(script.text, edits))
    rest = re.sub(r"\A#![^\n]*\n?", "", rest)
    files = repeated_lines.files_for_shell(reading, rest, last + 1)
    again |= {number: text for number, text in texts.items() if number in files}
    repeated = repeated_lines.texts(script, again, last + 1)
    reading.body.environment_names += repeated_lines.environment_names(script, again, last + 1)
    return setup, repeated, parsing.squeezed(rest).strip("\n")


def _put_steps(script: Script, body: Body, sruns: list[Step]) -> None:
    """Carry what the steps ask for: one pod runs all of them, and has the size of the largest."""
    sruns.sort(key=lambda step: -step.size.gpu_count)
    step_folders.leave_out_others(body, sruns)
    for step in sruns:  # the first that sets something is the one whose line is shown
        body.settings += step.settings
    _say_outside(body, sruns)
    if sruns:
        sizes.fill(script.size, sizes.largest([step.size for step in sruns]))


def _note_end(script: Script, body: Body) -> None:
    """Note that a script starts nothing, or ends while what it starts goes on."""
    if presumed_programs.starts_nothing(script):
        body.notes.append("no line of the script starts a program: its run does no work")
        return
    statements = [
        other
        for other in script.statements
        if not other.function and any(command.words for command in other.commands)
    ]
    last = next(itertools.dropwhile(_only_prints, reversed(statements)), None)
    if last is not None and last.in_background:
        body.notes.append(
            f"the script ends while what line {last.line} starts goes on, and ends that with it, "
            "as in Slurm: let it end with `wait`"
        )


def _only_prints(statement: Statement) -> bool:
    return not statement.in_background and shell_text.runs_only(statement, words.IDLE)


def note_launcher(script: Script, body: Body) -> None:
    """Note what a launcher needs where no line starts Python.

    Args:
        script: the script.
        body: what comes of it, which torchrun starts.
    """
    whole = "\n".join([script.text, " ".join(script.args)])
    text = _ASKS_FOR_PYTHON.sub("", _NO_CODE.sub("", whole))
    if not _RUNS_PYTHON.search(_OWN_PYTHON.sub("", text)):
        body.notes.append(
            "no line of the script starts the image's own Python: the image needs PyTorch all the "
            "same, whose launcher starts the script"
        )


def _say_outside(body: Body, steps: list[Step]) -> None:
    """Say of steps that had no container where others have one that they are in it as well."""
    images = [
        setting for step in steps for setting in step.settings if setting.name == "container-image"
    ]
    for step in steps if images else []:
        is_outside = not {"container-image", "container-name"} & {s.name for s in step.settings}
        if is_outside and not words.any_of(step.words, words.IN_EACH_RANK):
            why = f"it ran on the node itself: here it has the image of line {images[0].line}"
            path = f"srun {' '.join(step.words)}"
            body.say(step.command.line, path, Outcome.CHANGED, "image", why)


def _shebang(script: Script, body: Body) -> str:
    """The first line, whose shell is that of no login."""
    own = script.lines[0].strip() if script.lines[0].startswith("#!") else "#!/bin/bash"
    shebang = shell_text.without_terminal(shell_text.without_login(own))
    setup_lines.say_login(script, body, "script")
    bash = shell_text.of_bash(shebang)
    if bash != shebang:
        body.say(1, own, Outcome.CHANGED, "script", _OF_SH)
    of_image = shell_text.of_image(bash)
    if of_image != bash:
        body.say(1, own, Outcome.CHANGED, "script", _OF_SITE)
    return of_image


def _without_launcher(script: Script, rendezvous: RendezvousVariables, rest: str) -> str:
    """A line that takes from a script what torchrun, which starts it, tells its ranks.

    What the script starts would take it for its own: torchrun reads options from PET_, and who
    finds a LOCAL_RANK uses one GPU. Where the script itself says where ranks meet, they do.
    """
    if any(setting.name == "array" for setting in script.settings):
        return ""  # a trial of one process has no launcher
    return launcher_environment.unset_all(script, rendezvous, rest)


_GPUS = "SLURM_GPUS_PER_NODE"


def _uncounted(script: Script, steps: list[Step]) -> list[str]:
    """The numbers of tasks and their CPUs that no option of the script asks for, and of its step.

    `compat: slurm` sets them, and who finds them takes its processes for those of an srun:
    PyTorch Lightning then starts none for the other GPUs. A program with Open MPI that no mpirun
    starts asks Slurm for its rank where it is in a step, and ends.
    """
    options = {setting.name for setting in script.settings}
    variables = {name for name, _ in words.variables(script.text)}
    of_step = [name for name in launcher_environment.OF_STEP if name not in variables]
    of_steps = {own.name.removeprefix("srun ") for step in steps for own in step.settings}
    if script.size.gpu_count and not OPTIONS_OF_VARIABLES[_GPUS] & (options | of_steps):
        of_step += [] if _GPUS in variables else [_GPUS]
    if any(
        step.is_srun and step.words and not step_search.only_prints(step.words) for step in steps
    ):
        # srun tells its tasks how many they are, and how many of a node where it is told itself.
        options |= of_steps
        is_of_options = bool(options & TASKS_PER_NODE) or "SLURM_NTASKS_PER_NODE" in variables
        return of_step if is_of_options else ["SLURM_NTASKS_PER_NODE", *of_step]
    is_counted = bool(options & {*_TASK_OPTIONS, "gpus-per-task"})
    names_of = [] if is_counted else ["SLURM_NTASKS", "SLURM_NPROCS"]
    names_of += [] if options & TASKS_PER_NODE else ["SLURM_NTASKS_PER_NODE"]
    names_of += [] if options & CPUS_PER_TASK else ["SLURM_CPUS_PER_TASK"]
    return [*(name for name in names_of if name not in variables), *of_step]


def _put_counts(script: Script, body: Body, text: str, *, is_batch: bool) -> list[str]:
    """Give a batch script the numbers of tasks that it has in Slurm, where its pod has one.

    Args:
        script: the script.
        body: what comes of it.
        text: setup and the script, which alone are told: what they start may be ranks, where the
            job has GPUs.
        is_batch: whether srun starts none of its programs.

    Returns:
        Lines for the script, as a rank is told its own numbers.
    """
    size, options = script.size, {setting.name for setting in script.settings}
    if size.task_count == size.node_count or not options & _TASK_OPTIONS:
        return []
    counts = {
        "SLURM_NTASKS": size.task_count,
        "SLURM_NPROCS": size.task_count,
        "SLURM_NTASKS_PER_NODE": size.told_per_node,
        "SLURM_TASKS_PER_NODE": size.per_node,
        "SLURM_CPUS_PER_TASK": size.cpus_per_task or 1,
    }
    variables = {name for name, _ in words.variables(shell_text.without_printing(text))}
    if size.cpus_per_task and "cpus-per-task" in options:
        # A program may read what no line of the script does: compat counts those of all tasks.
        body.env.setdefault("SLURM_CPUS_PER_TASK", str(size.cpus_per_task))
    for name, count in counts.items():
        if name in variables:
            body.env[name] = str(count)
            why = "it follows from what the script asks for"
            line = script.line_with(re.compile(rf"\$\{{?{name}\b").search)
            body.say(line, f"${name}", Outcome.CHANGED, f"env.{name}", why)
    exported = {"SLURM_NTASKS", "SLURM_NPROCS"} & variables
    if is_batch and size.node_count == 1 and not size.gpu_count:
        exported = {*counts}
        exported -= set() if options & TASKS_PER_NODE else {"SLURM_NTASKS_PER_NODE"}
        exported -= set() if size.cpus_per_task else {"SLURM_CPUS_PER_TASK"}
    return [f"export {name}={count}" for name, count in counts.items() if name in exported]


def _last_activation(script: Script, variables: ShellVariables) -> int:
    """The last statement before the program that activates something; -1 for none."""
    last = -1
    programs = [
        n for n, other in enumerate(script.statements) if setup_lines.runs_program(variables, other)
    ]
    programs += [] if programs else presumed_programs.last_lines(script)
    programs += [] if programs else presumed_programs.first_unknown(script)
    for number, statement in enumerate(script.statements):
        if number in programs[-1:]:
            break  # it is the program, whatever it activates before
        if exports.is_activation(variables, statement):
            last = number
        elif number in programs:
            break
    while 0 <= last < len(script.statements) - 1 and last + 1 not in programs:
        code = substitutions.without(script.slice(script.statements[last + 1]))
        if not _READS_STATUS.search(re.split(r"[;\n&|]", code)[0]):
            break
        last += 1  # how the one before it ended, its shell alone knows
    return last


def _check_submits(script: Script, variables: ShellVariables) -> None:
    """Refuse a script that only submits others."""
    own = {
        other.function
        for other in script.statements
        if other.function and shell_text.runs_only(other, presumed_programs.OF_SUBMITTING)
    }
    if any(_does_more(variables, statement, own) for statement in script.statements):
        return
    lines = [
        command.line
        for statement in script.statements
        for command in statement.commands
        if words.any_of([token.text for token in command.words], ("sbatch",))
    ]
    line = lines[0] if lines else script.line_with(missing_in_pods.SUBMITTING.search)
    if line:
        raise script.refuse(
            line,
            "the script only submits another",
            "convert that one; a script in a here-document becomes a file of its own first",
        )


def _does_more(variables: ShellVariables, statement: Statement, own: set[str]) -> bool:
    """Whether a statement does more than to write the script of another job, and submit it.

    Args:
        variables: what the variables of the script hold.
        statement: the statement.
        own: the script's functions that do no more either.
    """
    if setup_lines.runs_program(variables, statement):
        return True
    for command in statement.commands:
        texts = [token.text for token in command.words]
        is_next = words.any_of(texts, ("sbatch",)) and _AFTER_THIS.search(" ".join(texts))
        if is_next or (texts and not words.any_of(texts, presumed_programs.OF_SUBMITTING | own)):
            return not statement.function
    return False


def _check_assembled(script: Script, variables: ShellVariables) -> None:
    """Refuse an `eval` of a step with ranks whose words the script puts together."""
    steps = {
        name
        for name, texts in (*variables.contents.items(), *variables.listed.items())
        if any(words.base(text.split(" ")[0]) in {"srun", *words.MPIRUN} for text in texts)
    }
    for statement in script.statements if script.size.task_count > 1 else []:
        for command in statement.commands:
            read = {name for word in command.words for name, _ in words.variables(word.text)}
            if words.base(command.name) == "eval" and read & steps:
                raise script.refuse(
                    command.line,
                    "the words of the step are put together as the script runs",
                    "write srun and what it runs out, with an array for what is not always "
                    "there, and convert that",
                )
