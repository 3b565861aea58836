"""What a batch script runs: its one step with the ranks, what stands before it, and what behind.

Slurm runs the script once, on the first node, and `srun` starts the ranks on all of them. Here a
pod runs `setup` and then its ranks. So a script with one step for several ranks becomes setup and a
command. A script that starts no ranks of several (one task, or launchers of one node alone) is run
as it is, as one process. Two steps for several ranks are two jobs, and are refused with their
lines.

It is long, because what is refused, and why, depends on the script as a whole.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm import (
    exports,
    missing_in_pods,
    ranks,
    setup_lines,
    shell_text,
    shell_variables,
    sizes,
    step_search,
    unset_variables,
    words,
    working_folder,
)
from allranks.convert.slurm.images import OF_FILE
from allranks.convert.slurm.script import Script
from allranks.convert.slurm.script_reading import ScriptReading
from allranks.convert.slurm.setup_lines import NO_CONTAINERS, OTHER_HOSTS, TOOLS
from allranks.convert.slurm.shell_variables import ShellVariables
from allranks.convert.slurm.unset_variables import PRINTING
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.convert.scanner import Command, Statement
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.script_reading import Body, Rendezvous, Step
    from allranks.convert.slurm.sizes import Size

# What a person is to fill in; a shell takes its brackets for files.
_BLANK = re.compile(r"<[A-Za-z][\w .,-]*>")
# A loop that runs once. Its first line is longer than an assignment of the word.
_ONE_PASS = re.compile(
    r"for[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+in[ \t]+(?P<word>[\w.,:/@%+-]+)[ \t]*(?:;|\n)\s*do(?=\s)"
)
_NOT_CONTINUED = re.compile(r"\\[ \t]+(?:#.*)?$")
# A job that waits for this one: both have work to do.
_AFTER_THIS = re.compile(r"(?:--dependency|-d)\b\S*[\s=]*\S*SLURM_JOB_?ID")
# Programs that a script needs to write another, and to submit it.
_OF_SUBMITTING = (
    words.IDLE
    | words.ENDING
    | words.SLURM_TOOLS
    | {
        *("cat", "cd", "mkdir", "rm", "cp", "mv", "ln", "touch", "chmod", "sed", "awk", "grep"),
        *("export", "declare", "local", "readonly", "read", "shift", "eval", "let", "source", "."),
        *("module", "ml", "conda", "seq", "dirname", "basename", "tee", "head", "tail", "cut"),
        *("getopts", "break", "continue", "mapfile", "readarray", "expr", "wc", "tr", "sort"),
        *("find", "xargs", "pushd", "popd", "bc", "usage", "getopt", "shopt", "trap", "realpath"),
    }
)
# What torchrun tells each rank.
_OF_RANK = (
    *("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
    *("ROLE_RANK", "ROLE_NAME", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
    *("TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT"),
    *("TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"),
)
# Those of them that say where ranks meet.
_OF_MEETING = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE")
_OF_SH = "bash runs it: that is the sh of most clusters, and seldom that of an image"
_NO_LOGIN = "a pod has no login: its profile would set another PATH than the image's"
_SEPARATOR = re.compile(r"[ \t]*[;&](?![;&])[ \t]*")
# Files for what starts ranks on hosts, by what they are called.
_HOSTS = re.compile(
    r"(?i)\.deepspeed_env$|(?:host|machine|node)_?(?:s?_?file|s?_?list)|(?:^|/)(?:hosts|machines)\b"
)
# Variables by which a launcher is told of such a file: DLTS_HOSTFILE.
_HOST_FILE = re.compile(r"(?:HOST|MACHINE)S?_?FILE$")
# Programs that are Python, or written in it; and lines that run none.
_RUNS_PYTHON = re.compile(
    r"\b(?:(?:python|pypy)[0-9.]*|torchrun|accelerate|deepspeed|horovodrun|tune|wandb)\b|\.py\b"
)
_NO_CODE = re.compile(
    r"^\s*(?:#|module\b|ml\b|conda\b(?!.*\srun\s)|source\b|\.\s|echo\b).*", re.MULTILINE
)
# An srun that is left where a command may stand: in $(…), behind xargs or parallel, or in
# a variable.
_SRUN = re.compile(r"(?:^|[\s;&|(`]|=[\"']?)srun(?:\s|[\"'])")
# A question whether there is one.
_LOOK_FOR_SRUN = re.compile(r"\b(?:command\s+-[vV]|which|type(?:\s+-\w+)?|hash)\s+srun\b")
_NO_SRUN = "a pod has none, so that the other branch runs there: keep that which you want"
_IMAGE_FILE = re.compile(r"^[^=]+\.(?:sif|simg|sqsh|squashfs)$")
# What makes or moves such a file, and starts nothing with it.
_ON_IMAGE_FILES = (
    words.IN_EACH_RANK
    | words.CONTAINERS
    | words.UNREAD_CONTAINERS
    | {"cp", "mv", "rm", "ln", "rsync", "wget", "curl", "tar", "chmod", "sbcast", "stat"}
)
# The path of the script itself.
_OWN_PATH = re.compile(r"\$(?:0\b|\{0[^0-9}]*\}|\{?BASH_SOURCE\b)")
# A container that is left where a command may stand, as an srun may be.
_CONTAINER = re.compile(
    r"(?:^|[\s;&|(`/]|=[\"']?)(?:singularity|apptainer)(?:_wrapper)?[ \t]+(?:-\S+[ \t]+)*"
    r"(?:exec|run|build|pull|shell|instance)\s"
)
# A question to Slurm, whose answer the script reads.
_OF_SLURM = re.compile(
    r"(?:\$\(|`)\s*((?:scontrol\s+show\s+(?:nodes?|job)|squeue|sacct|sinfo)\b[^)`|]*)"
)
# The same to another host.
_ON_OTHER_HOSTS = re.compile(r"(?:\$\(|`)\s*(ssh\s[^)`|]*)")
# Another job that is submitted where the script reads its number.
_SUBMITTING = re.compile(r"(?:\$\(|`)(?:[^)`\n]*\|)?\s*sbatch\b|\beval\s+[\"']?sbatch\b")
# The options that say how many tasks there are.
_PER_NODE = frozenset({"ntasks-per-node", "tasks-per-node"})
_TASK_OPTIONS = _PER_NODE | {"ntasks", "ntasks-per-gpu"}


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
    script = Script(text, source, size, list(settings), list(args))
    interpreter = _interpreter(script)
    if interpreter not in shell_text.SHELLS:
        return _foreign(ScriptReading(script, ShellVariables()), interpreter)
    script = _parsed(script)
    if not script.statements:
        raise script.refuse(1, "the script runs nothing", "write the command that is to run")
    _check_continued(script)
    reading = ScriptReading(script, shell_variables.collect(script))
    body = reading.body
    body.goes_back = any(map(working_folder.goes_back, script.statements))
    steps = step_search.find(reading)
    step_search.check_programs(script, steps)
    multi = step_search.without_side(reading, [step for step in steps if step.is_multi])
    main = step_search.choose_main(script, reading.variables, multi)
    if main is None:
        _as_one_process(reading, steps, nested=bool(multi))
    else:
        ranks.read_ranks(reading, main, steps)
    if interpreter in ("zsh", "ksh"):
        reason = "the image needs it" if main is None else "bash runs its setup and its command"
        body.notes.append(f"the script is {interpreter}'s: {reason}")
    _finish(reading)
    return body


def _interpreter(script: Script) -> str:
    """The program that the first line names; bash where it names none."""
    shebang = script.lines[0] if script.lines[0].startswith("#!") else ""
    program = shebang.removeprefix("#!").split() or ["/bin/bash"]
    if words.base(program[0]) == "env":
        program = [
            word for word in program[1:] if not word.startswith("-") and "=" not in word
        ] or program
    return words.base(program[0])


def _parsed(script: Script) -> Script:
    """A script with its statements; groups at the top, and loops that run once, are opened.

    It keeps its length and its lines.

    Raises:
        InvalidValues: it is no shell script.
    """
    try:
        statements = scanner.parse(script.text)
    except scanner.ScriptError as error:
        row = script.lines[error.line - 1] if error.line <= len(script.lines) else ""
        blank = _BLANK.search(row)
        hint = f"fill in what stands for {blank[0]}" if blank else "mend the script"
        message = f"the script cannot be read: {error.reason}"
        raise script.refuse(error.line, message, hint) from error
    script = replace(script, statements=statements)
    for open_text in (_opened_group, _opened_loops):
        text = open_text(script)
        if text != script.text:
            script = replace(script, text=text, statements=scanner.parse(text))
    return script


def _opened_group(script: Script) -> str:
    """The text without the braces of the first group at the top, ``{ … }``, which is its lines."""
    for statement in script.statements:
        text = script.slice(statement)
        if statement.function or statement.in_background or not re.match(r"\{\s", text):
            continue
        inner = text[1:-1]
        if re.search(r"[\s;]\}$", text) and _is_script(inner):
            return f"{script.text[: statement.start]} {inner} {script.text[statement.end :]}"
    return script.text


def _opened_loops(script: Script) -> str:
    """The text without the loops of one word: ``for lr in 0.1; do``."""
    text, statements = script.text, script.statements
    while True:
        opened = next(filter(None, (_opened_loop(text, other) for other in statements)), "")
        if not opened:
            return text
        text, statements = opened, scanner.parse(opened)


def _opened_loop(script: str, statement: Statement) -> str:
    """A script's text with a loop of one word taken off its lines; "" where it is none."""
    text = script[statement.start : statement.end]
    head = _ONE_PASS.match(text)
    is_alone = re.match(r"[ \t]*(?:#.*)?(?:\n|$)", script[statement.end :]) is not None
    stays_loop = statement.function or not is_alone or not text.endswith("done")
    if head is None or stays_loop or re.search(r"\b(?:break|continue)\b", text):
        return ""
    inner = text[head.end() : -4]
    if not _is_script(inner):
        return ""
    blanks = re.sub(r"\S", " ", head[0])
    own = f"{head['name']}={head['word']};"
    return (
        f"{script[: statement.start]}{own}{blanks[len(own) :]}{inner}    {script[statement.end :]}"
    )


def _check_continued(script: Script) -> None:
    """Refuse a command whose options are none: something stands behind the backslash."""
    for statement in script.statements:
        above = script.lines[statement.line - 2] if statement.line > 1 else ""
        is_option = re.match(r"--?[A-Za-z]", script.slice(statement)) is not None
        if is_option and _NOT_CONTINUED.search(above):
            raise script.refuse(
                statement.line - 1,
                "something stands behind the backslash, so that the command ends there",
                "let the backslash be the last character of the line",
            )
    for statement in script.statements:
        for command in statement.commands:
            _check_continued_inside(script, command)


def _check_continued_inside(script: Script, command: Command) -> None:
    """Refuse the same in the text of ``bash -c "…"``."""
    for before, token in pairwise(command.words):
        if not re.fullmatch(r"-[a-z]*c", before.text):
            continue
        for number, (above, row) in enumerate(pairwise(token.text.split("\n"))):
            if _NOT_CONTINUED.search(above) and re.match(r"\s*--?[A-Za-z]", row):
                raise script.refuse(
                    token.line + number,
                    "something stands behind the backslash, so that the command ends there",
                    "let the backslash be the last character of the line",
                )


def _foreign(reading: ScriptReading, interpreter: str) -> Body:
    """A script of another language: it is run as it is, as one process."""
    is_python = words.is_python([interpreter])
    if not is_python and re.search(
        r"^\s*(srun|mpirun|mpiexec|torchrun)\b", reading.script.text, re.MULTILINE
    ):
        raise reading.script.refuse(
            1,
            f"the script is {interpreter}'s, and only those of sh and bash are read",
            "write it for bash, or write the command into a values file",
        )
    body = reading.body
    text = shell_text.without_directives(reading.script.text)
    body.script = _without_launcher_in_python(reading.script, text) if is_python else text
    body.nodes, body.procs_per_node = 1, 1
    body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
    reading.body.say(1, reading.script.lines[0], Outcome.CARRIED, "script")
    _finish(reading)
    return body


def _as_one_process(reading: ScriptReading, steps: list[Step], *, nested: bool) -> None:
    """Run the script as it is; what it activates comes before, as setup."""
    body = reading.body
    body.nodes, body.procs_per_node = 1, 1
    body.values["torchrun"] = {"maxRestarts": 0}  # Slurm runs it once
    _check_submits(reading.script, reading.variables)
    _check_assembled(reading.script, reading.variables)
    step_search.check_beside(reading.script, steps)
    if reading.script.size.node_count > 1:
        _check_remote(reading.script)
        reading.script.size.outcomes["nodes"] = _other_nodes(reading.script)
    if reading.script.size.task_count > reading.script.size.node_count:
        why = "the script starts one process"
        for name in ("ntasks", "ntasks-per-node", "tasks-per-node", "gpus-per-task"):
            reading.script.size.outcomes[name] = (Outcome.CHANGED, "procsPerNode", why)
    if nested:
        body.notes.append(
            "the script starts the ranks of its node itself, so that the pod runs it as one process"
        )
    _note_launcher(reading.script, reading.body)
    last = _last_activation(reading.script, reading.variables)
    edits: list[tuple[int, int, str]] = []
    setup: list[str] = []
    repeats: list[str] = []
    for number, statement in enumerate(reading.script.statements):
        is_trap = any(command.name == "trap" for command in statement.commands)
        text = setup_lines.text_of(
            reading, statement, is_single=True, is_setup=number <= last and not is_trap
        )
        if number <= last:
            edits.append(
                (
                    setup_lines.comment_start(reading.script, number),
                    _end_of(reading.script, statement),
                    "",
                )
            )
            # The shell of setup ends before the script begins, and a trap with it.
            setup_text = (
                ""
                if text is None or is_trap
                else setup_lines.with_comments(reading.script, number, text)
            )
            setup += [setup_text] if setup_text else []
            is_again = setup_lines.lives_in_shell(statement) or shell_text.set_by(statement) & {
                *_OF_RANK
            }
            repeats += [text] if text is not None and is_again else []
        elif text is None:
            edits.append((statement.start, _end_of(reading.script, statement), ""))
        elif text != reading.script.slice(statement):
            edits.append((statement.start, statement.end, text))
        else:
            edits += setup_lines.inner_edits(reading, statement)
    setup_lines.write_setup(
        reading.script, reading.body, setup, reading.script.statements[last + 1 :]
    )
    rest = shell_text.without_directives(shell_text.edited(reading.script.text, edits))
    rest = re.sub(r"\A#![^\n]*\n?", "", rest)
    rest = re.sub(r"\n{3,}", "\n\n", rest).strip("\n")
    counts = _put_counts(reading.script, reading.body, "\n".join([*setup, *repeats, rest]))
    head = [
        _shebang(reading.script, reading.body),
        _without_launcher(reading.script, reading.rendezvous),
        *counts,
    ]
    body.uncounted = _uncounted(reading.script, steps)
    body.script = "\n".join([*filter(None, head), *repeats, rest]) + "\n"
    sruns = [step for step in steps if step.is_srun and step.words]
    sruns.sort(key=lambda step: -step.size.gpu_count)
    for step in sruns:  # the first that sets something is the one whose line is shown
        body.settings += step.settings
    _say_outside(reading.body, sruns)
    if sruns:
        sizes.fill(reading.script.size, sizes.largest([step.size for step in sruns]))
    ranks.say_conditional(reading)


def _note_launcher(script: Script, body: Body) -> None:
    """Note what a launcher needs where no line starts Python; a task of an array has none."""
    is_trial = any(setting.name == "array" for setting in script.settings)
    if not is_trial and not _RUNS_PYTHON.search(_NO_CODE.sub("", script.text)):
        body.notes.append(
            "no line of the script starts Python: the image needs PyTorch all the same, whose "
            "launcher starts the script"
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
    shebang = shell_text.without_login(own)
    if own != shebang:
        body.say(1, own, Outcome.CHANGED, "script", _NO_LOGIN)
    bash = shell_text.of_bash(shebang)
    if bash != shebang:
        body.say(1, own, Outcome.CHANGED, "script", _OF_SH)
    return bash


def _without_launcher(script: Script, rendezvous: Rendezvous) -> str:
    """A line that takes from a script what torchrun, which starts it, tells its ranks.

    What the script starts would take it for its own: torchrun reads options from PET_, and who
    finds a LOCAL_RANK uses one GPU. Where the script itself says where ranks meet, they do.
    """
    if any(setting.name == "array" for setting in script.settings):
        return ""  # a trial of one process has no launcher
    met = {*rendezvous.meeting, *(_OF_MEETING if rendezvous.meeting else ())}
    names_of = [name for name in (*words.OF_LAUNCHER, *_OF_RANK) if name not in met]
    variables = {name for name, _ in words.variables(script.text)}
    return f"unset {' '.join(name for name in names_of if name not in variables)}"


def _uncounted(script: Script, steps: list[Step]) -> list[str]:
    """The numbers of tasks that sbatch tells no script whose options have none.

    `compat: slurm` sets them, and who finds them takes its processes for those of an srun:
    PyTorch Lightning then starts none for the other GPUs.
    """
    options = {setting.name for setting in script.settings}
    if any(step.is_srun and step.words for step in steps):
        return []  # srun tells its tasks how many they are
    is_counted = bool(options & {*_TASK_OPTIONS, "gpus-per-task"})
    names_of = [] if is_counted else ["SLURM_NTASKS", "SLURM_NPROCS"]
    names_of += [] if options & _PER_NODE else ["SLURM_NTASKS_PER_NODE"]
    variables = {name for name, _ in words.variables(script.text)}
    return [name for name in names_of if name not in variables]


def _without_launcher_in_python(script: Script, text: str) -> str:
    """A script of Python's with a line that takes the same from it; others as they are."""
    is_trial = any(setting.name == "array" for setting in script.settings)
    at = shell_text.first_line_of_python(text)
    if is_trial or not at:
        return text
    names_of = (*words.OF_LAUNCHER, *_OF_RANK)
    rows = text.split("\n")
    own = f'[__import__("os").environ.pop(_, None) for _ in "{" ".join(names_of)}".split()]'
    return "\n".join([*rows[:at], own, *rows[at:]])


def _put_counts(script: Script, body: Body, text: str) -> list[str]:
    """Give a batch script the numbers of tasks that it has in Slurm, where its pod has one.

    Args:
        script: the script.
        body: what comes of it.
        text: setup and the script, which alone are told: what they start may be ranks.

    Returns:
        Lines for the script, as a rank is told its own numbers.
    """
    size, options = script.size, {setting.name for setting in script.settings}
    if size.task_count == size.node_count or not options & _TASK_OPTIONS:
        return []
    counts = {
        "SLURM_NTASKS": size.task_count,
        "SLURM_NPROCS": size.task_count,
        "SLURM_NTASKS_PER_NODE": size.per_node,
        "SLURM_TASKS_PER_NODE": size.per_node,
        "SLURM_CPUS_PER_TASK": size.cpus_per_task or 1,
    }
    variables = {name for name, _ in words.variables(PRINTING.sub("", text))}
    for name, count in counts.items():
        if name in variables:
            body.env[name] = str(count)
            why = "it follows from what the script asks for"
            line = script.line_with(re.compile(rf"\$\{{?{name}\b").search)
            body.say(line, f"${name}", Outcome.CHANGED, f"env.{name}", why)
    return [
        f"export {name}={counts[name]}"
        for name in ("SLURM_NTASKS", "SLURM_NPROCS")
        if name in variables
    ]


def _end_of(script: Script, statement: Statement) -> int:
    """Where a statement ends with what parts it from the next on its line: ``;`` or ``&``."""
    match = _SEPARATOR.match(script.text, statement.end)
    return statement.end if match is None else match.end()


def _last_activation(script: Script, variables: ShellVariables) -> int:
    """The last statement before the program that activates something; -1 for none."""
    last = -1
    programs = [
        n for n, other in enumerate(script.statements) if setup_lines.runs_program(variables, other)
    ]
    programs += [] if programs else _sourced_program(script)
    for number, statement in enumerate(script.statements):
        if number in programs[-1:]:
            break  # it is the program, whatever it activates before
        if exports.is_activation(variables, statement):
            last = number
        elif number in programs:
            break
    return last


def _sourced_program(script: Script) -> list[int]:
    """The number of the last line that does something, where it is a file that is read.

    No other line runs a program: ``. commands/$SLURM_ARRAY_TASK_ID.sh`` does.
    """
    harmless = words.IDLE | words.ENDING | {"export", "cd", *words.SLURM_TOOLS}
    numbers = [
        number
        for number, statement in enumerate(script.statements)
        if not statement.function
        and not setup_lines.is_harmless(statement, harmless)
        and any(command.words for command in statement.commands)
    ]
    return numbers[-1:] if numbers and exports.sources(script.statements[numbers[-1]]) else []


def _check_submits(script: Script, variables: ShellVariables) -> None:
    """Refuse a script that only submits others."""
    if any(_does_more(variables, statement) for statement in script.statements):
        return
    lines = [
        command.line
        for statement in script.statements
        for command in statement.commands
        if words.any_of([token.text for token in command.words], ("sbatch",))
    ]
    line = lines[0] if lines else script.line_with(_SUBMITTING.search)
    if line:
        raise script.refuse(
            line,
            "the script only submits another",
            "convert that one; a script in a here-document becomes a file of its own first",
        )


def _does_more(variables: ShellVariables, statement: Statement) -> bool:
    """Whether a statement does more than to write the script of another job, and submit it."""
    if setup_lines.runs_program(variables, statement):
        return True
    for command in statement.commands:
        texts = [token.text for token in command.words]
        is_next = words.any_of(texts, ("sbatch",)) and _AFTER_THIS.search(" ".join(texts))
        if is_next or (texts and not words.any_of(texts, _OF_SUBMITTING)):
            return not statement.function
    return False


def _check_assembled(script: Script, variables: ShellVariables) -> None:
    """Refuse an `eval` of a step with ranks whose words the script puts together."""
    steps = {
        name
        for name, texts in variables.contents.items()
        if any(words.base(text.split(" ")[0]) == "srun" for text in texts)
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


def _check_remote(script: Script) -> None:
    for statement in script.statements:
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if words.any_of(texts, words.STARTING_ELSEWHERE):
                raise script.refuse(
                    command.line,
                    "the script starts processes on the other nodes by ssh, which pods do not have",
                    "start them with srun, torchrun or mpirun, and convert that",
                )


def _finish(reading: ScriptReading) -> None:
    body = reading.body
    whole = "\n".join([body.setup, body.script, *body.command])
    if "SLURM_TMPDIR" in whole and "SLURM_TMPDIR" not in reading.variables.set_names:
        body.env.setdefault("SLURM_TMPDIR", "/tmp")  # noqa: S108 - the pod's own
        reading.body.say(
            0, "$SLURM_TMPDIR", Outcome.CHANGED, "env.SLURM_TMPDIR", "the pod's own /tmp"
        )
    exports.note_secrets(reading.script, reading.body, whole)
    code = PRINTING.sub("", words.without_comments(whole))
    looks = [match[0] for match in _LOOK_FOR_SRUN.finditer(code)]
    if looks:
        line = reading.script.line_with(_LOOK_FOR_SRUN.search)
        reading.body.say(line, looks[0], Outcome.NOT_CARRIED, "", _NO_SRUN)
    if _calls_srun(code):
        why = "a pod has no srun: take it off, or write the step as a command of its own"
        line = reading.script.line_with(_calls_srun)
        reading.body.say(line, "srun", Outcome.NOT_CARRIED, "", why)
    in_variable = _container_in_variable(reading.variables, code)
    if in_variable or _CONTAINER.search(code):
        line = reading.script.line_with(in_variable or _CONTAINER.search)
        reading.body.say(line, "singularity", Outcome.NOT_CARRIED, "image", NO_CONTAINERS)
    _say_image_file(reading.script, reading.body)
    starts_here = not {"chdir", "workdir"} & {setting.name for setting in reading.script.settings}
    body.verdicts += missing_in_pods.of_script(reading.script.statements, starts_here=starts_here)
    body.verdicts += missing_in_pods.files_of_output(
        reading.script.statements, reading.script.settings
    )
    gpus = reading.script.size.gpus_per_node or reading.script.size.gpus or 0
    body.verdicts += missing_in_pods.numbers_of_gpus(
        reading.script.statements, reading.variables.constants, gpus
    )
    _say_own_path(reading.script, reading.body)
    if "SLURM_JOB_NAME" in {name for name, _ in words.variables(code)}:
        body.reads_name = reading.script.line_with(re.compile("SLURM_JOB_NAME").search) or 1
    host_program = _ON_OTHER_HOSTS.search(code)
    if host_program is not None:
        line = reading.script.line_with(_ON_OTHER_HOSTS.search)
        reading.body.say(line, host_program[1].strip(), Outcome.NOT_CARRIED, "", OTHER_HOSTS)
    slurm_program = _OF_SLURM.search(code)
    if slurm_program is not None:
        why = "a pod has no programs of Slurm's"
        line = reading.script.line_with(_OF_SLURM.search)
        reading.body.say(line, slurm_program[1].strip(), Outcome.NOT_CARRIED, "", why)
    if _SUBMITTING.search(code):
        outcome, why = TOOLS["sbatch"]
        reading.body.say(reading.script.line_with(_SUBMITTING.search), "sbatch", outcome, "", why)
    body.uses_slurm = body.uses_slurm or bool(re.search(r"\bSLURM_", whole))
    unset_variables.say_unset(reading, re.sub(r"^\s*#.*$", "", whole, flags=re.MULTILINE))


def _say_image_file(script: Script, body: Body) -> None:
    """Say that a program gets the file of an image, where the report has no word of it yet."""
    for statement in [] if _has_image(script, body) else script.statements:
        for command in statement.commands:
            texts = [token.text for token in command.words]
            if words.any_of(texts, _ON_IMAGE_FILES):
                continue
            for text in map(scanner.unquote, texts[1:]):
                if _IMAGE_FILE.search(text):
                    body.say(command.line, text, Outcome.NOT_CARRIED, "image", OF_FILE)
                    return


def _has_image(script: Script, body: Body) -> bool:
    """Whether the report has a word of an image, or of a container that nobody starts."""
    names = {setting.name for setting in script.settings + body.settings}
    return "container-image" in names or any(verdict.to == "image" for verdict in body.verdicts)


def _container_in_variable(variables: ShellVariables, code: str) -> Callable[[str], object] | None:
    """What finds `$SINGULARITY exec`, where that variable is such a program; None for none."""
    names_of = [
        name
        for name, texts in variables.contents.items()
        if any(
            words.base(text.split()[0] if "/" in text else text) in words.CONTAINERS
            for text in texts
            if text
        )
    ]
    for name in names_of:
        pattern = re.compile(rf"\$(?:{name}|\{{{name}\}})\"?\s+(?:-\S+\s+)*(?:exec|run)\s")
        if pattern.search(code):
            return pattern.search
    return None


def _say_own_path(script: Script, body: Body) -> None:
    """Say that setup, and a command, have another path than the script."""
    own = "\n".join([body.setup, *body.command])
    if _OWN_PATH.search(words.expanded_part(PRINTING.sub("", own))):
        line = script.line_with(_OWN_PATH.search)
        if line:
            why = "the script is no file in a pod: write its path out, or take the line out"
            body.say(line, "$0", Outcome.NOT_CARRIED, "", why)


def _other_nodes(script: Script) -> tuple[Outcome, str, str]:
    """What becomes of the nodes of a script that starts one process."""
    hosts = _file_of_hosts(script)
    who = f"a program that reads {hosts}" if hosts else _launcher_of_julia(script)
    if not who:
        why = "no command that is known here starts anything on the other nodes"
        return Outcome.CHANGED, "nodes: 1", why
    why = (
        f"{who} may start ranks on the other nodes: start them with srun, torchrun or mpirun, "
        "and convert that"
    )
    return Outcome.NOT_CARRIED, "nodes: 1", why


def _launcher_of_julia(script: Script) -> str:
    """Julia's own mpiexec, which runs in a pod as it is, and may ask Slurm for more nodes."""
    is_called = any(setup_lines.runs(statement, ("mpiexecjl",)) for statement in script.statements)
    return "mpiexecjl" if is_called else ""


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


def _calls_srun(text: str) -> bool:
    """Whether a text has an srun where a command may stand."""
    return _SRUN.search(_LOOK_FOR_SRUN.sub("", text)) is not None


def _is_script(text: str) -> bool:
    """Whether a text is a script of its own."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return False
    texts = [token.text for st in statements for command in st.commands for token in command.words]
    return not {"{", "}"} & {*texts}
