"""What stands before and behind the step: setup, variables, folders, and what is left out.

It is long because what becomes of a line depends on nearly all that stands around it: each of the
methods is one reason to carry, change or leave out a line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import commands, scanner
from allranks.convert.slurm.batch_script.pods import (
    missing_in_pods,
    pod_rights,
    sent_environments,
    variable_files,
)
from allranks.convert.slurm.batch_script.setup import (
    bare_programs,
    computed_counts,
    exports,
    left_out,
    local_hosts,
    setup_edits,
    slurm_questions,
    working_folder,
)
from allranks.convert.slurm.batch_script.steps import (
    side_steps,
    step_search,
)
from allranks.convert.slurm.batch_script.text import (
    environments,
    first_node,
    login_shells,
    node_names,
    set_options,
    shell_text,
    words,
)
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import (
        Body,
        ScriptReading,
    )
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# A loop whose nodes Slurm is asked for.
_STILL = "set -a  # whatever that file says of it"
_OVER_NODES = re.compile(rf"\bin\s+(?:\$\(|`)\s*({node_names.QUESTION}[^)`\n]*)")
_NO_NODES = "a pod has no programs of Slurm's, and the loop no nodes: let each pod do its own part"
_OF_NONE = ("deactivate", "init")
_ACTIVATED = "what it activates must be in the image, or in a volume at that path"
# What tells a shell of `conda activate`; a login, or a module of a site's, did it as well.
_HOOK = re.compile(
    r"(?:conda|mamba)\.sh\b|shell(?:\.\w+)?[ \t]+hook|shell[ \t]+hook|/bin/activate\b"
)
_OF_CONDA = re.compile(r"(?P<program>conda|mamba|micromamba)[ \t]+activate\b")
_NO_HOOK = (
    "; only a login shell knows `{0} activate` without {0}'s hook, and a pod's is none: write "
    '`eval "$({0} {1})"` before it{2}, unless another line that a pod has does the same'
)
# How each program prints its hook, which is for that program alone.
_HOOKS = {
    "conda": ("shell.bash hook", ""),
    "mamba": (
        "shell hook --shell bash",
        " (mamba 2; with an older one `conda activate` behind conda's own hook)",
    ),
    "micromamba": ("shell hook --shell bash", ""),
}
_MAKES_ENVIRONMENT = "each pod makes the environment anew: an image that has it needs no such line"
_ENDS_THERE = "; without the file setup ends there (`set -e`): take the line out then"
_SENT = (
    f"the file is in the folder that `{names.CLI} sbatch` and `submit` send, unless .gitignore "
    "keeps it out; what it loads or activates must be in the image"
)
_ONCE = "it runs once in each pod"
_ENDS_WELL = "a run that ends here has failed, as its command did not run; the script ended well"
# What is a function in a shell that has read the file of conda, of modules or of an environment.
_FUNCTIONS = (words.ACTIVATING - {"source", ".", "eval"}) | {"deactivate"}
_WRITES_AT_ONCE = (
    "each pod runs it, and the script ran it once: where they share the folder, all write one file "
    "at once; write it below /tmp"
)
_OF_SETUP = (
    "it ends with the shell of setup, so that the command can neither write to it nor read of it: "
    "let the program start it"
)
_IN_PLACE = re.compile(r"--in-place.*|-[a-zA-Z]*i[^=]*")
# What a pod has to itself, whatever volumes there are.
_OF_THE_POD = re.compile(
    r"[\"']?(?:/dev/|/tmp\b|\$\{?(?:SLURM_)?TMP(?:DIR)?\b)"
    r"|.*(?:\$\{?(?:HOSTNAME|SLURM_PROCID|SLURM_NODEID|SLURMD_NODENAME)\b|\bhostname\b)"
)
_COMPILERS = frozenset(
    {
        *("gcc", "g++", "cc", "c++", "CC", "ftn", "gfortran", "icc", "icpc", "icx", "icpx"),
        *("ifort", "ifx", "clang", "clang++", "nvcc", "nvc", "nvc++", "nvfortran", "hipcc"),
        *("mpicc", "mpicxx"),
        *("mpic++", "mpiCC", "mpif77", "mpif90", "mpifort", "mpiicc", "mpiicpc", "mpiifort"),
    }
)
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


_LOG_IN_FILE = (
    f"what follows is written to that file of the pod, and not to `{names.CLI} logs`: leave the "
    "line out to see it there"
)


def lives_in_shell(statement: Statement) -> bool:
    """Whether what a statement sets up dies with its shell: options, arrays, functions, IFS."""
    if statement.function:
        return True
    return any(
        command.name in ("shopt", "ulimit", "trap", "alias")
        or (command.name == "set" and not _ends_own_exports(statement))
        or (command.name in ("declare", "typeset") and not shell_text.exports(command))
        or shell_text.arrays_of(command)
        or shell_text.splits_words(command)
        for command in statement.commands
    )


def _ends_own_exports(statement: Statement) -> bool:
    """Whether a statement no longer exports behind a file what it does before it: ``set +a``."""
    options = [
        " ".join(word.text for word in command.words[1:])
        for command in statement.commands
        if command.name == "set"
    ]
    return options in (["-a", "+a"], ["-o allexport", "+o allexport"])


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
    script, body = reading.script, reading.body
    text = script.slice(statement)
    to = "setup" if is_setup else "script"
    command = statement.commands[0] if statement.is_simple else None
    program = words.base(command.name) if command is not None and command.words else ""
    local = (
        left_out.with_local_host(script, reading.rendezvous, statement, command)
        if is_single
        else None
    )
    if local is not None:
        body.say(statement.line, text, Outcome.CHANGED, to, "there is one node")
        return local
    reason = None
    if not left_out.counts_in(reading, statement):
        reason = left_out.why_dropped(reading, statement, command, program, is_single=is_single)
    if reason is not None:
        body.say(statement.line, text, reason[0], "", reason[1])
        return None
    if command is not None and (
        exports.to_env(reading, statement, command)
        or (
            program == "cd"
            and not is_single
            and working_folder.to_working_dir(reading.variables, body, command)
        )
    ):
        return None
    if program in setup_edits.MODULES:
        body.say(statement.line, text, Outcome.CHANGED, to, setup_edits.why_of_modules(text))
        return f"{setup_edits.WHERE_MODULES.format(program)}{text}"
    if is_setup or not exports.sources(statement):
        say_activated(reading, statement, to)
    loop = None if is_single else _OVER_NODES.search(text)
    if loop is not None:
        body.say(statement.line, loop[1], Outcome.NOT_CARRIED, "", _NO_NODES)
    verdict = _say_forbidden(reading, statement) or _verdict_of(
        reading, statement, text, program, is_single=is_single, is_setup=is_setup
    )
    if verdict is not None and program == "set" and is_setup:
        verdict = _verdict_of_set(text, ends=set_options.ends_script(script.text)) or verdict
    if command is not None and program == "exec" and _writes_to_file(command):
        verdict = Outcome.CHANGED, _LOG_IN_FILE
    if is_setup and text.startswith("coproc"):
        verdict = Outcome.NOT_CARRIED, _OF_SETUP
    if verdict is not None:
        body.say(statement.line, text, verdict[0], to, verdict[1])
    if is_setup and not statement.function:
        _say_ends(script, body, statement)
    body.reads_folder |= working_folder.reads_folder(reading.variables, statement)
    counts = [] if is_single else computed_counts.lines_for(reading, statement)
    return "\n".join([*counts, _in_pod(reading, statement, is_setup=is_setup)])


def _writes_to_file(command: Command) -> bool:
    """Whether an `exec` without a program sends what follows to a file: ``exec > log 2>&1``."""
    files = [target for operator, target in command.redirections if operator in (">", ">>", "&>")]
    return len(command.words) == 1 and any(file[:2] not in (">(", "&1", "&2") for file in files)


def _verdict_of_set(text: str, *, ends: bool) -> tuple[Outcome, str] | None:
    """What a `set` of setup's loses; None for nothing.

    Args:
        text: the line.
        ends: whether the script ends at what fails.
    """
    lost = set_options.of_setup(text, ends=ends)[1]
    why = [lost] if lost else []
    why += [set_options.UNSHOWN] if set_options.shows_lines(text) else []
    return (Outcome.CHANGED, "; ".join(why)) if why else None


def _say_ends(script: Script, body: Body, statement: Statement) -> None:
    """Say where the script ended well before its step: ``[ -f done ] && exit``."""
    if "SLURM_JOB_ID" in script.slice(statement):
        return  # it submits itself where it is no job
    for command in _with_functions(script, statement):
        texts = [scanner.unquote(token.text) for token in command.words]
        has_failed = command.before == "||" and texts == ["exit"]  # with the code of what has
        if texts in (["exit"], ["exit", "0"]) and not has_failed:
            path = script.text[command.start : command.end]
            verdict = Verdict(path, Outcome.CHANGED, "setup", _ENDS_WELL, command.line)
            if verdict not in body.verdicts:
                body.verdicts.append(verdict)


def _with_functions(script: Script, statement: Statement) -> list[Command]:
    """A statement's commands, and those of the functions that it calls."""
    called_names: set[str] = set()
    commands = list(statement.commands)
    for command in commands:
        if command.name in script.functions and command.name not in called_names:
            called_names.add(command.name)
            commands += script.functions[command.name].commands
    return commands


def _in_pod(reading: ScriptReading, statement: Statement, *, is_setup: bool) -> str:
    """A statement that is kept, as a pod runs it."""
    edits = []
    if is_setup:
        edits = setup_edits.of_modules(statement) + setup_edits.of_declarations(statement)
        edits += slurm_questions.edits(reading.script.text, statement)
        edits += local_hosts.edits(reading, statement, "setup")
    if any(id(command) in reading.details.side for command in statement.commands):
        edits += bare_programs.edits(reading, statement)
    elif is_setup and shell_text.runs(statement, ("shifter", "srun")):
        edits += bare_programs.edits(reading, statement)  # the pod is its container, and its node
    edits += left_out.counts_in(reading, statement)
    text = shell_text.edited(reading.script.text, edits, statement.start, statement.end)
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
    script = reading.script
    is_setup = is_setup or not exports.sources(statement)
    first = [token.text for token in statement.commands[0].words] if statement.commands else []
    is_activation = is_setup and program and _is_activation(first)
    if is_activation and not exports.evaluates_program(reading.variables, statement.commands[0]):
        own = statement.commands[0]
        constants = reading.variables.constants
        is_own = environments.activates_own(own, _before(script, own), constants)
        why = why_of_image(reading, own) or _ACTIVATED + _without_hook(script, own)
        return (Outcome.CARRIED, "") if is_own else (Outcome.CHANGED, why)
    if shell_text.runs(statement, words.UNREAD_CONTAINERS):
        return Outcome.NOT_CARRIED, missing_in_pods.why_no_container(text)
    side = reading.details.side
    steps = [side[id(own)] for own in statement.commands if id(own) in side]
    steps = [] if is_single else [step for step in steps if step.is_called]
    if steps:
        reasons = dict.fromkeys(side_steps.why_in_setup(reading, step) for step in steps)
        return Outcome.CHANGED, max(reasons, key=len)
    has_tools = _say_tools(script, reading.body, statement)
    has_pods = not is_single and (script.size.node_count > 1 or reading.main_step.has_launcher)
    has_pods = has_pods and not _is_for_behind(reading, statement)
    why = _in_each_pod(script, statement, text) if has_pods else ""
    makes = any(_makes_environment(reading, own) for own in statement.commands[:1])
    why = why or (_MAKES_ENVIRONMENT if makes else "")
    if why and first_node.is_named(text) and _is_read_by_step(reading, statement):
        return Outcome.NOT_CARRIED, f"{why}: write $MASTER_ADDR in the step"
    if why:
        return Outcome.CHANGED, why
    return None if has_tools else (Outcome.CARRIED, "")


def _say_tools(script: Script, body: Body, statement: Statement) -> bool:
    """Say which of a statement's commands are Slurm's programs; gives whether any is."""
    tools = [
        command
        for command in statement.commands
        if words.any_of([token.text for token in command.words], words.SLURM_TOOLS)
    ]
    for tool in tools:
        path = script.text[tool.start : tool.end]
        is_requeue = "requeue" in [token.text for token in tool.words[1:3]]
        why = missing_in_pods.STARTS_AGAIN if is_requeue else missing_in_pods.NO_SLURM
        outcome = Outcome.NOT_CARRIED
        if not statement.is_simple and slurm_questions.is_shown(script.text, tool):
            outcome, why = Outcome.CHANGED, slurm_questions.WHY
        elif not statement.is_simple and slurm_questions.is_submission(script.text, tool):
            outcome, why = missing_in_pods.TOOLS["sbatch"]
        elif set_options.ends_at(script.text, tool):
            why += set_options.ENDS_THERE
        body.say(tool.line, path, outcome, "", why)
    return bool(tools)


def _is_for_behind(reading: ScriptReading, statement: Statement) -> bool:
    """Whether a statement is a function that nothing before the step calls, nor the step."""
    if not statement.function:
        return False
    text, end = reading.script.text, reading.script.statements[reading.main_step.statement].end
    before, behind = words.without_comments(text[:end]), words.without_comments(text[end:])
    return step_search.is_never_called(statement.function, before, behind)


def _say_forbidden(reading: ScriptReading, statement: Statement) -> tuple[Outcome, str] | None:
    """Say of parts of a statement what no pod may do; gives that of the whole, if it is one."""
    script, body = reading.script, reading.body
    for command in statement.commands:
        texts = [token.text for token in command.words]
        is_root = bool({words.base(text) for text in texts[:2]} & words.OF_ROOT)
        why = pod_rights.OF_ROOT if is_root else missing_in_pods.OTHER_HOSTS
        own = {words.base(text) for text in words.unwrapped(texts)[:1]}
        in_variable = reading.variables.possible_programs(texts) & words.OF_OTHER_HOSTS - own
        if not (is_root or in_variable or words.reaches_other_host(texts)):
            continue
        if statement.is_simple:
            return Outcome.NOT_CARRIED, why
        path = script.text[command.start : command.end]
        body.say(command.line, path, Outcome.NOT_CARRIED, "", why)
    return None


def say_activated(reading: ScriptReading, statement: Statement, to: str) -> None:
    """Say of each line of a condition, a loop or a function what it needs of the image."""
    script, body = reading.script, reading.body
    for command in [] if statement.is_simple else statement.commands:
        why = why_of_image(reading, command)
        if why and not exports.evaluates_program(reading.variables, command):
            text = script.text[command.start : command.end]
            body.say(command.line, text, Outcome.CHANGED, to, why)


def _before(script: Script, command: Command) -> list[Command]:
    """The commands of the script before one of them."""
    return [own for own in script.commands if own.start < command.start]


def _makes_environment(reading: ScriptReading, command: Command) -> bool:
    """Whether a command makes an environment: ``conda create``, ``$PYTHON -m venv env``."""
    typed = environments.words_of(command, reading.variables.constants)
    return environments.makes(typed) or environments.makes_folder(typed)


def why_of_image(
    reading: ScriptReading, command: Command, earlier: Sequence[Command] | None = None
) -> str:
    """What a command needs of the image that modules or an environment come from; "" for none.

    Args:
        reading: the script, and what is known of it.
        command: the command.
        earlier: those before it; None for one of the script's own.
    """
    if words.base(command.name) in setup_edits.MODULES:
        return setup_edits.why_of_modules(" ".join(word.text for word in command.words))
    script, texts = reading.script, [word.text for word in command.words]
    if _makes_environment(reading, command):
        return _MAKES_ENVIRONMENT
    if len(texts) < 2 or not _is_activation(texts):  # noqa: PLR2004 - a program and a word
        return ""
    before = _before(script, command) if earlier is None else earlier
    if environments.activates_own(command, before, reading.variables.constants):
        return ""
    return _why(script, command, before)


def _why(script: Script, command: Command, earlier: Sequence[Command]) -> str:
    """What a command that activates something needs, where the script has not made that."""
    path = working_folder.sent_path(script, command, earlier)
    if variable_files.is_sourced(command):
        why = variable_files.NOT_SENT
    elif path.endswith("/bin/activate"):
        why = sent_environments.why_not_activated(path)
    else:
        why = _SENT if working_folder.is_file_of_project(path) else _ACTIVATED
        why += _without_hook(script, command)
    is_own = any(own is command for own in script.commands)
    is_guarded = command.after == "||" or any(own.after == "&&" for own in earlier[-1:])
    is_alone = is_own and not (command.within or command.branches or is_guarded)
    is_file = is_alone and command.name in ("source", ".")
    return why + _ENDS_THERE * (is_file and set_options.ends_script(script.text[: command.start]))


def _without_hook(script: Script, command: Command) -> str:
    """What is said of the first activation by conda whose hook no line has run; "" of others."""
    before = words.without_comments(script.text[: command.start])
    activation = _OF_CONDA.match(script.text[command.start : command.end])
    if activation is None or _OF_CONDA.search(before) or _HOOK.search(before):
        return ""
    program = activation["program"]
    return _NO_HOOK.format(program, *_HOOKS[program])


def _is_activation(texts: Sequence[str]) -> bool:
    """Whether words activate an environment: `source deactivate NAME`, `conda init` do not."""
    is_none = not {*map(words.base, texts[:2])}.isdisjoint(_OF_NONE)
    return words.activates(texts) and not (is_none or words.are_of_script(texts))


def _is_read_by_step(reading: ScriptReading, statement: Statement) -> bool:
    """Whether the step with the ranks reads a variable that a statement sets."""
    step = reading.script.statements[reading.main_step.statement]
    read = {name for name, _ in words.variables(reading.script.slice(step))}
    return not read.isdisjoint(shell_text.set_by(statement))


def _in_each_pod(script: Script, statement: Statement, text: str) -> str:
    """Why it matters that each pod runs a statement; "" where it does not."""
    if first_node.is_named(text):
        return "each pod has its own name there, and the script that of its first node"
    if shell_text.differs_by_pod(text) or _is_of_program(text):
        return "each pod runs it, and what it gives may differ between pods"
    numbers = words.OF_TASK - {"SLURM_LOCALID"}  # which is 0 in each
    if numbers & {name for name, _ in words.variables(text)}:
        return "each pod has its own number, where the script has 0"
    if _changes_files(script, statement):
        return "each pod runs it, and the script ran it once: mind what is shared"
    earlier = (other for other in script.statements if other.start < statement.start)
    if _shared_files(statement).difference(*map(_shared_files, earlier)):
        return _WRITES_AT_ONCE
    is_harmless = bool(statement.function) or (
        shell_text.runs_only(statement, words.IN_EACH_RANK | {"ulimit"})
        and not shell_text.evaluates_program(statement)
    )
    return "" if is_harmless else _ONCE


def _shared_files(statement: Statement) -> set[str]:
    """The files that a statement writes and another pod may have, where they share a folder."""
    files: list[str] = []
    for command in statement.commands:
        texts = [word.text for word in command.words]
        if shell_text.writes(command):
            files += [target for _, target in command.redirections]
        if words.any_of(texts, ("tee",)):
            files += [text for text in texts[1:] if not text.startswith("-")]
        elif words.any_of(texts, ("sed", "perl")) and any(map(_IN_PLACE.fullmatch, texts)):
            files += texts[-1:]
        elif words.any_of(texts, _COMPILERS) and "-o" in texts:
            files += texts[texts.index("-o") + 1 :][:1]
    return {file for file in files if not (file.isdigit() or _OF_THE_POD.match(file))}


def _is_of_program(text: str) -> bool:
    """Whether a text has what a program of the project's own gives: ``DIR=$(python prepare.py)``.

    It may make a folder, too, which the script made once.
    """
    for command in shell_text.substituted_commands(words.expanded_part(text)):
        rest = words.unwrapped([scanner.unquote(word.text) for word in command.words])
        is_file = len(rest) > 1 and not rest[1].startswith("-")
        is_run = words.is_python(rest) or words.any_of(rest, shell_text.SHELLS)
        if (is_run and is_file) or (rest[:1] and rest[0].startswith("./")):
            return True
    return False


def _changes_files(script: Script, statement: Statement) -> bool:
    """Whether a statement changes files in a way that two pods cannot at once."""
    is_new_folder = shell_text.runs(statement, ("mkdir",)) and not re.search(
        r"\bmkdir\s+(?:-\S+\s+)*-(?:\w*p|-parents)", script.slice(statement)
    )
    return (
        is_new_folder
        or shell_text.runs(statement, _ON_FILES)
        or any(environments.changes([word.text for word in c.words]) for c in statement.commands)
    )


def say_login(script: Script, body: Body, to: str) -> None:
    """Say of a first line with the shell of a login, or of a terminal, that a pod has none.

    Args:
        script: the script.
        body: what it runs.
        to: the value with the lines that such a shell would have run.
    """
    own = script.lines[0].strip()
    if own.startswith("#!") and own != shell_text.without_login(own):
        body.say(1, own, Outcome.CHANGED, to, login_shells.NO_LOGIN)
    if own.startswith("#!") and own != shell_text.without_terminal(own):
        body.say(1, own, Outcome.CHANGED, to, login_shells.NO_TERMINAL)


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
        text, _ = set_options.of_setup(text)
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
        text = _exporting_on(text)
    elif any(words.base(c.name) in _FUNCTIONS for s in rest for c in s.commands):
        head.append("set -a  # the script calls functions that this shell has")
    if script.args and words.positional(text):
        head.append(f"set -- {commands.as_shell(script.args)}")
    body.setup = "\n".join([*head, text]) + "\n" + body.setup


def _exporting_on(text: str) -> str:
    """Setup that exports what follows a file that it reads, which may end with ``set +a``."""
    try:
        statements = scanner.parse(text)
    except scanner.ScriptError:
        return text
    edits = [
        (own.end, own.end, f"\n{_STILL}")
        for number, own in enumerate(statements)
        if (exports.sources(own) if own.is_simple else any(map(_ends_exports, own.commands)))
        and not own.function
        and _ends_line(text, own.end)
        and any(
            exports.sources(later) or any(map(shell_text.sets_unexported, later.commands))
            for later in statements[number + 1 :]
        )
    ]
    return shell_text.edited(text, edits)


def _ends_exports(command: Command) -> bool:
    """Whether a shell no longer exports what it sets behind a command, or may not: ``set +a``."""
    return shell_text.reads_file(command) or "+" in set_options.signs_of_allexport(command)


def _ends_line(text: str, end: int) -> bool:
    """Whether nothing stands behind a place on its line."""
    return text[end : end + 1] in ("", "\n")


def _reads_profile(command: Command) -> bool:
    """Whether a command reads the profile of a login, which may set PATH anew."""
    texts = [scanner.unquote(token.text) for token in command.words]
    return texts[:2] in (["source", "/etc/profile"], [".", "/etc/profile"])
