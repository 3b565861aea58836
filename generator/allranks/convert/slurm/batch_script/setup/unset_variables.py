"""Variables that a script reads and does not set: who sets them in a pod, or that nobody does."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm import amounts
from allranks.convert.slurm.batch_script.pods import variable_files
from allranks.convert.slurm.batch_script.setup import early_reads, required_variables
from allranks.convert.slurm.batch_script.text import (
    function_words,
    here_documents,
    library_variables,
    shell_text,
    started_words,
    unread_variables,
    words,
)
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from allranks.convert.programs.scanner import Command, Token
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading

_RESERVED = frozenset(names.RESERVED_ENV)
_WITHOUT = "the script goes on without it; write it into env to give it"
_UNREAD = (
    "what is carried only prints it, or sets what no line of it reads: write it into env where the "
    "program itself reads it"
)
_OF_LIBRARIES = (
    "the script only prints it, but libraries may read it, and a pod has not that of who submits: "
    "write it into env for them"
)
_WITHOUT_LINE = "the line that sets it is left out: write it into env"
# A word behind the script's name, or their number.
_NUMBERED = re.compile(r"\$(?:[1-9#]|\{[1-9](?!:?-)|\{#(?=[}@*])|\{[@*]:[^{}:]+:)")
_NUMBER = re.compile(r"\$(?:#|\{#\})")
# A loop over such words, and what is done where there are some.
_WHERE_WORDS = re.compile(
    r"(?:while\s+(?:true|:)\s*[;\n]\s*do\s+case\s+\"?\$\{?1\}?\"?\s+in(?P<cases>)"
    r"|(?:(?P<loop>while|until)|if)\s+(?:\[\[?|test|\(\()\s*"
    r"(?:\"?\$\{?#\}?\"?\s*(?:-gt|-ge|-ne|>=?|!=)|\$?#(?=\s*\)\))|(?:-n\s+)?\"?\$\{?1(?:[-:]+)?\}?\"?\s*\]))"
)
# A function that is such a loop: it reads the words that it is given.
_LOOP_OF_FUNCTION = re.compile(
    r"[^{]*\{\s*(?P<loop>(?:while|until)\b.*\bdone)\s*\}\s*\Z", re.DOTALL
)
# The same where there are none: what stands in the other branches is done where there are some.
_WHERE_NO_WORDS = re.compile(
    r"if\s+(?:\[\[?|test|\(\()\s*(?:\"?\$\{?#\}?\"?\s*(?:-eq\s+0|-lt\s+1|==?\s*0|<\s*1)\b"
    r"|-z\s+\"?\$\{?1(?::?-)?\}?\"?\s*\])"
)
_ENDS = re.compile(r"\b(?:exit|return)\b")
# A test whether somebody has set a variable, where a script does more, or less:
# ``[ -n "$A" ] && b $A``, ``[ -z "$A" ] && b || b $A``.
_WHERE_SET = re.compile(r"(?<=\s)-[nz]\s+\"?\$\{?([A-Za-z_]\w*)\}?\"?\s+\]")
# By which a script ends where nobody has set a variable: the rest of ``${A:?set it}``.
_DEMAND = re.compile(r":?\?(?:[^{}]|\{[^{}]*\})*(?=\}$)")
_NOUNSET = re.compile(r"^\s*set\s+(?:-[a-zA-Z]*u|[^\n;]*-o\s+nounset)", re.MULTILINE)
# A test that ends the script where a variable is not set.
_REQUIRED = re.compile(
    r"-z\s+\"?\$\{(\w+):?-\}\"?[^\n]*(?:\n(?!\s*(?:fi|el)\b)[^\n]*){0,6}?\bexit\b"
)
# Beginnings of the names of variables that somebody sets in the pod.
_SET_PREFIXES = ("PET_", "OMPI_", "PMI", "ALLRANKS_", "BASH_")
# Those of conda's, of a Python in an image with one; others of the kind are the script's own.
_OF_CONDA = re.compile(
    r"CONDA_(?:PREFIX(?:_\d+)?|DEFAULT_ENV|EXE|PYTHON_EXE|SHLVL|PROMPT_MODIFIER|ROOT|BACKUP_\w+)"
)
_OF_ARRAY = "SLURM_ARRAY_"
_SHELLS = shell_text.SHELLS
# An assignment, but for one of a variable to itself, as `A=$A bash run.sh` is.
_ASSIGNED = re.compile(
    r"(?:^|[\s;&|(])([A-Za-z_]\w*)\+?="
    r"(?![\"']*\$(?:\{\1(?::?\?[^}]*)?\}|\1(?!\w))[\"']*(?:[\s;&|)]|$))",
    re.MULTILINE,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_BRANCHES = re.compile(r"(?:^|[;&|]|\b(?:then|else|do))[ \t]*(if|elif|else|fi)\b", re.MULTILINE)
_DECLARED = re.compile(r"(?<![\w$.-])(?:declare|typeset|local)\b([^\n;&|]*)")
# Their letters that pass a variable on, or show what there is.
_OF_ENVIRONMENT = frozenset("xpfF")
# Variables of a login, which no file of a project's sets.
_OF_WHO_SUBMITS = frozenset({"USER", "LOGNAME", "SCRATCH", "WORK"})
# What the variables that modules set are called.
_OF_MODULES = re.compile(
    r"^EB(?:ROOT|VERSION|DEV)|^MKLROOT$|[A-Z0-9]_(?:HOME|ROOT|DIR|PATH|BIN|LIB\w*|INC\w*)$"
)
_OF_TMP = "the pod's own /tmp"
_NOT_ALONE = (
    ", where its launcher has files, too: what takes all of it (`$TMPDIR/*`) takes these, so use a "
    "folder in it"
)
_ALL_OF_TMP = re.compile(r"\$\{?(?:SLURM_)?TMPDIR\}?[\"']?/\*")
_OF_ANY_MODULE = re.compile(r"^(?:EB|MKLROOT$|TACC_|HPC_|SOFT|MODULE)")
_OF_IMAGE = (
    "the container's shell alone reads it, and the script does not set it: write it into env where "
    "the image does not set it itself"
)
_OF_STEP = "Slurm sets it for what srun starts alone: it is empty in the script, and here, too"
_NO_ARRAY = (
    "a task of an array has it, and the script asks for no array: write the variable into env for "
    "one task, or `#SBATCH --array=…` into the script where its tasks are no MPI jobs"
)
_OF_ALLOCATION = "it follows from what the script asks for"
_COUNTED_GPUS = "Slurm named the node's GPUs that the job had; each pod's are counted from 0"
# Where Slurm names the GPUs that a job has on a node.
_NUMBERS_OF_GPUS = frozenset(
    {
        *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"),
        *("GPU_DEVICE_ORDINAL", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"),
    }
)
# Slurm's variables whose text is that of an option: those that each job has, and others.
OF_EACH_JOB = {
    "SLURM_JOB_PARTITION": "partition",
    "SLURM_JOB_ACCOUNT": "account",
    "SLURM_JOB_QOS": "qos",
}
_OPTIONS_OF = {
    **OF_EACH_JOB,
    "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_CPUS_PER_GPU": "cpus-per-gpu",
    "SLURM_MEM_PER_NODE": "mem",
    "SLURM_MEM_PER_CPU": "mem-per-cpu",
    "SLURM_MEM_PER_GPU": "mem-per-gpu",
}
# Options that may name more than the one that a job then runs with.
# Source: the manual of sbatch, --partition and --qos.
_CHOICES = frozenset({"partition", "qos"})
_OF_CHOICES = (
    "Slurm sets it to the one that the job runs with of --{}={}, and here it is the first of "
    "them: write another into env.{} where it is meant"
)


def say_unset(reading: ScriptReading, whole: str) -> None:
    """Name the variables that the script reads and nobody sets."""
    script, body = reading.script, reading.body
    reading.variables.set_names.update(re.findall(r"\$\{([A-Za-z_]\w*):?=", script.text))
    whole = "\n".join([whole, *_inner_texts(script, body)])
    code = shell_text.without_printing(whole)
    own = here_documents.without_written(shell_text.without_shown(code))
    assigned = _ASSIGNED.finditer(own)
    reading.variables.set_names.update(match[1] for match in assigned)
    reading.variables.set_names.update(re.findall(r"\bfor\s+([A-Za-z_]\w*)", whole))
    _say_missing_words(reading, whole)
    of_export = _of_export(script)
    set_by_all = {*words.ALWAYS, *body.env, *of_export, *reading.variables.set_names}
    needed_names = required_variables.names(
        script, code, lambda name: name in set_by_all or _is_set_in_pod(script, name)
    )
    nounset = _NOUNSET.search(code) is not None
    of_login = early_reads.of_login(script, nounset=nounset) - words.optional(whole)
    needed_names |= of_login - {*body.env, *of_export}
    early = early_reads.names(script, nounset=nounset)
    early |= early_reads.of_programs(code)
    early -= {name for name in early if name in body.env or _is_set_in_pod(script, name)}
    reading.variables.set_names -= _passed_on(script) | needed_names | early
    reading.variables.set_names |= of_export | _declared_in(code)
    spoken = {verdict.path for verdict in body.verdicts}
    tested = set() if nounset else {*_WHERE_SET.findall(whole)}
    optional = (words.optional(_REQUIRED.sub("", whole)) | tested) - needed_names
    required = {match[1] for match in _REQUIRED.finditer(code)} | needed_names
    variables = {name for name, _ in words.variables(unread_variables.without(code))}
    sets_any_name = any(map(_sets_any_name, script.commands))
    for name, has_default in words.variables(whole):
        is_set = name in words.ALWAYS or name in body.env or name in of_export
        is_set |= name in reading.variables.set_names and _is_in(whole, name)
        is_optional = has_default and name not in required
        is_optional = is_optional and not _is_set_by_option(script, body, name)
        is_set |= _is_set_in_pod(script, name)
        is_set |= sets_any_name and any(word.startswith(f"{name}=") for word in script.args)
        if is_optional or (is_set and name not in needed_names):
            continue
        line = _line_that_reads(script, name)
        if line and name == "TMPDIR":
            body.env[name] = "/tmp"  # noqa: S108 - the pod's own
            body.say(line, f"${name}", Outcome.CHANGED, f"env.{name}", of_tmp(code))
        elif line:
            is_read = name in variables or _NOUNSET.search(code) is not None
            unread = _OF_LIBRARIES if library_variables.is_read(name) else _UNREAD
            reason = "" if is_read else unread
            reason = _WITHOUT if name in optional else reason
            if name in reading.variables.set_names:
                if reason or f"${name}" in spoken or _is_in_command_alone(reading, name):
                    continue
                body.say(line, f"${name}", Outcome.NOT_CARRIED, f"env.{name}", _WITHOUT_LINE)
            else:
                _say_variable(script, body, name, line, reason)


def _is_in_command_alone(reading: ScriptReading, name: str) -> bool:
    """Whether only parts of the command are made of a variable, whose text stands in it."""
    parts = reading.variables.expanded_names
    readers = [
        statement
        for number, statement in enumerate(reading.script.statements)
        if number != reading.main_step.statement
        and name in dict(words.variables(reading.script.slice(statement)))
    ]
    sets = [
        {own for own, _ in shell_text.assigned_by(command)}
        for statement in readers
        for command in statement.commands
    ]
    return name in parts and bool(sets) and all(own and own <= parts for own in sets)


def of_tmp(code: str) -> str:
    """Why a variable of the old cluster's is /tmp, and what a script must not do with all of it.

    Args:
        code: what runs in a pod, without comments.
    """
    return _OF_TMP + (_NOT_ALONE if _ALL_OF_TMP.search(code) else "")


def _say_missing_words(reading: ScriptReading, whole: str) -> None:
    """Name the words behind the script's name that it reads, where nobody has given it any."""
    script, body = reading.script, reading.body
    line = _line_of_words(script)
    first = _line_of_words(script, is_needed=True) or line
    has_words = bool(script.args) or any(
        _sets_words(command) and command.line <= first
        for statement in script.statements
        if not statement.function
        for command in statement.commands
    )
    if line and words.wants_words(unread_variables.without(whole)) and not has_words:
        # All words of none are none, with Slurm too; a first word is one that is missing.
        needed = _without_optional_words(script, function_words.without_fed_functions(whole))
        # What stands in single quotes is of another language: awk's `$1`.
        shell = words.expanded_part(shell_text.without_shown(shell_text.without_printing(needed)))
        is_numbered = _NUMBERED.search(shell) is not None
        is_needed = is_numbered or _runs_words(script)
        outcome = Outcome.NOT_CARRIED if is_needed else Outcome.CHANGED
        is_array = any(setting.name == "array" for setting in script.settings)
        usage = "convert SCRIPT --words 'WORD ...'" if is_array else "sbatch SCRIPT WORD..."
        why = f"no words were given behind the script's name: `{names.CLI} {usage}`"
        body.say(line, "$1 …" if is_numbered else "$@", outcome, "", why)


def _runs_words(script: Script) -> bool:
    """Whether a script's own words are the program that it runs: ``srun "$@"``."""
    for statement in script.statements:
        for command in [] if statement.function else statement.commands:
            texts = [scanner.unquote(token.text) for token in command.words]
            if words.unwrapped(started_words.behind_srun(texts))[:1] in (["$@"], ["$*"]):
                return True
    return False


def _line_that_reads(script: Script, name: str) -> int:
    """The first line that reads a variable, and has not only its name; 0 for none.

    Args:
        script: the script.
        name: the variable.
    """
    plain, escaped = re.compile(rf"(?<!\\)\$\{{?{name}\b"), re.compile(rf"\$\{{?{name}\b")
    patterns = (plain, escaped, re.compile(rf"\$\(\(.*\b{name}\b"))
    for statement in script.statements:
        if name not in script.slice(statement):
            continue
        texts = [script.slice(statement), *_texts_of_shells(statement.commands)]
        if any(name in dict(words.variables(text)) for text in texts):
            code = words.without_comments(texts[0])
            line = next(filter(None, (words.line_with(code, own.search) for own in patterns)), 0)
            if line:
                return statement.line + line - 1
    return next(filter(None, (script.line_with(own.search) for own in patterns)), 0)


def _own_branch(text: str, kinds: Collection[str]) -> int:
    """Where another branch of an `if` begins, and not that of one within it; -1 for none.

    Args:
        text: the `if`.
        kinds: by which words it may begin.
    """
    depth = 0
    for match in _BRANCHES.finditer(text):
        depth += {"if": 1, "fi": -1}.get(match[1], 0)
        if match[1] in kinds and depth == 1:
            return match.start()
    return -1


def _is_in(whole: str, name: str) -> bool:
    """Whether a text has the name of a variable where it may be set: ``A=``, ``read A``."""
    return re.search(rf"(?<![\w$])(?<!\$\{{)(?<!\$\{{[#!]){name}(?!\w)", whole) is not None


def _without_optional_words(script: Script, code: str) -> str:
    """A script without what it does only where it has words: ``while [ $# -gt 0 ]; do … done``."""
    for statement in script.statements:
        text = words.without_comments(script.slice(statement))
        loop = _LOOP_OF_FUNCTION.match(text) if statement.function else None
        text = loop["loop"] if loop is not None else text
        match = _WHERE_WORDS.match(text)
        rest = None
        is_loop = match is not None and (match["loop"] or match["cases"] is not None)
        if match is not None and (is_loop or "elif" not in text):
            end = -1 if is_loop else _own_branch(text, ("else",))
            rest = text[end:] if end > 0 else ""
        elif _WHERE_NO_WORDS.match(text):
            end = _own_branch(text, ("elif", "else"))
            first = _WHERE_NO_WORDS.sub("if [ ", text[:end]) if end > 0 else ""
            rest = first if first and not _ENDS.search(first) else None
        if rest is not None:
            # The code has no comments, and their lines may be gone with them.
            rows = [re.escape(row.strip()) for row in text.split("\n") if row.strip()]
            code = re.sub(r"\s*\n\s*".join(rows), rest.replace("\\", r"\\"), code)
    return code


def _sets_words(command: Command) -> bool:
    """Whether a command sets the words behind the script's name, and not to a part of them."""
    texts = [token.text for token in command.words]
    return shell_text.sets_words(texts) and not any(map(words.positional, texts))


def _inner_texts(script: Script, body: Body) -> list[str]:
    """The texts of ``bash -c "…"`` in a script that is run as it is, as that shell has them."""
    return _texts_of_shells(script.commands) if body.script else []


def _texts_of_shells(commands: Iterable[Command]) -> list[str]:
    """The texts that some commands give to other shells, as those have them."""
    inner_texts = []
    for command in commands:
        texts = [token.text for token in command.words]
        at = next((n for n, text in enumerate(texts) if words.base(text) in _SHELLS), None)
        inner = None if at is None else shell_text.shell_text(texts[at:])
        inner_texts += [] if inner is None else [inner]
    return inner_texts


def _of_export(script: Script) -> set[str]:
    """The variables to which an option gives a text: ``--export=ALL,A=1``."""
    texts = (own.value for own in script.settings if own.name == "export")
    parts = [part.strip() for text in texts for part in text.split(",") if "$" not in part]
    return {part.partition("=")[0] for part in parts if "=" in part}


def _declared_in(code: str) -> set[str]:
    """The variables that a text declares, which are empty: ``declare -A FOLDERS``, ``local x``."""
    names_of_text: set[str] = set()
    for match in _DECLARED.finditer(code):
        texts = shell_text.split(match[1])
        flags = "".join(text for text in texts if text[:1] in "-+")
        if not _OF_ENVIRONMENT & {*flags}:
            names_of_text.update(text for text in texts if _NAME.fullmatch(text))
    return names_of_text


def _passed_on(script: Script) -> set[str]:
    """The variables that the script sets to themselves alone: ``A=$A``, ``A=${A:?set it}``."""
    values: dict[str, set[str]] = {}
    for statement in script.statements:
        for command in statement.commands:
            for name, value in shell_text.assigned_by(command):
                text = _DEMAND.sub("", value.strip('"'))
                values.setdefault(name, set()).add(shell_text.variable_alone(text))
    return {name for name, texts in values.items() if texts == {name}}


def _line_of_words(script: Script, *, is_needed: bool = False) -> int:
    """The first line that reads the words behind the script's name, as functions do not.

    Args:
        script: the script.
        is_needed: whether their number does not count, nor a line that only prints.
    """
    rows = [*script.lines]
    if is_needed:
        rows = [_NUMBER.sub("", shell_text.without_printing(row)) for row in rows]
    for statement in script.statements:
        if statement.function:
            rows[statement.line - 1 : statement.last_line] = [""] * (
                statement.last_line - statement.line + 1
            )
    if not words.wants_words("\n".join(rows)):
        return 0
    return next((n for n, row in enumerate(rows, 1) if words.wants_words(row)), 1)


def _is_set_in_pod(script: Script, name: str) -> bool:
    """Whether the launcher, an MPI, or an array sets a variable where Slurm would."""
    if name.startswith(_OF_ARRAY):
        return any(setting.name == "array" for setting in script.settings)
    is_of_launcher = name in _RESERVED or name in words.OF_COMPAT
    return is_of_launcher or name.startswith(_SET_PREFIXES) or _OF_CONDA.fullmatch(name) is not None


def _say_variable(script: Script, body: Body, name: str, line: int, harmless: str) -> None:
    """Say of a variable that nobody sets what becomes of it.

    Args:
        script: the script.
        body: what comes of it.
        name: its name.
        line: the first line that reads it.
        harmless: why the script does the same without it; "" where it does not.
    """
    to = f"env.{name}"
    if harmless and name in _NUMBERS_OF_GPUS:
        return  # a pod has them, too
    value = _slurm_value(script, body, name)
    if value:
        body.env[name] = value
        why = _COUNTED_GPUS if name in _NUMBERS_OF_GPUS else _OF_ALLOCATION
        is_option = any(setting.name == "gpus" for setting in script.settings)
        if name == "SLURM_GPUS" and not is_option:
            why = "Slurm sets it for --gpus alone; here it has the GPUs that the script asks for"
        option = _OPTIONS_OF.get(name, "")
        choices = _option_text(script, option)
        if option in _CHOICES and value != choices:
            why = _OF_CHOICES.format(option, choices, name)
        body.say(line, f"${name}", Outcome.CHANGED, to, why)
    elif harmless:
        body.say(line, f"${name}", Outcome.CHANGED, to, harmless)
    elif name.startswith(_OF_ARRAY):
        body.say(line, f"${name}", Outcome.NOT_CARRIED, to, _NO_ARRAY)
    elif name == "SLURM_STEP_GPUS":
        body.say(line, f"${name}", Outcome.CHANGED, to, _OF_STEP)
    elif name.startswith("SLURM_"):
        why = "`compat: slurm` does not set it: write it into env"
        body.say(line, f"${name}", Outcome.NOT_CARRIED, to, why)
    else:
        source = (
            "takes it from who submits" if name in script.assignment_counts else "does not set it"
        )
        why = (
            f"the script {source}, and a pod has not the environment of who submits: "
            "write it into env"
        )
        tried = required_variables.line_that_tries(script, name)
        if tried:
            why = (
                f"line {tried} looks for it where nobody has set it, and the script ends where "
                "that gives nothing: write it into env where it does in a pod"
            )
        origin = "" if tried or name in _OF_WHO_SUBMITS else _origin_before(script, line, name)
        if origin:
            why = (
                f"{origin} may set it, which is not read here: write it into env where that "
                "does not set it in a pod"
            )
        elif not tried and _is_of_image(script, name):
            why = _OF_IMAGE
        body.say(line, f"${name}", Outcome.NOT_CARRIED, to, why)


def _is_of_image(script: Script, name: str) -> bool:
    """Whether a variable is read by a container's shell alone: ``apptainer exec … sh -c '$A'``."""
    reads = re.compile(rf"\$\{{?{name}\b")
    texts = [
        token.text
        for command in script.commands
        if any(map(_starts_container, command.words))
        for token in command.words
        if token.text.startswith("'")
    ]
    count = sum(len(reads.findall(text)) for text in texts)
    return 0 < count == len(reads.findall(words.without_comments(script.text)))


def _starts_container(word: Token) -> bool:
    text = scanner.unquote(word.text)
    return words.base(text) in words.CONTAINERS or text.startswith("--container-image")


def _is_set_by_option(script: Script, body: Body, name: str) -> bool:
    """Whether Slurm sets a variable by an option of the script's, and no pod has it."""
    if name == "SLURM_GPUS":
        return any(setting.name == "gpus" for setting in script.settings)
    return name in _OPTIONS_OF and bool(_slurm_value(script, body, name))


_ORIGINS = 3  # the last ones are named
# What may set a variable that it does not name.
_SETTERS = {"source", ".", "export", "declare", "typeset", "eval", "module", "ml"}


def _origin_before(script: Script, line: int, name: str) -> str:
    """What the script reads before a line, and may set a variable; "" for nothing."""
    is_of_module = _OF_MODULES.search(name) is not None
    origins = []
    for statement in script.statements:
        for command in statement.commands:
            if command.line >= line or scanner.unquote(command.name) not in _SETTERS:
                continue
            texts = [scanner.unquote(token.text) for token in command.words[:2]]
            if len(texts) < 2:  # noqa: PLR2004 - source and the file
                continue
            if _sets_any_name(command):
                origins.append(f"the script (line {command.line})")
            file = variable_files.shown_in(command)
            if file:
                origins.append(f"the file {shell_text.short(file)} (line {command.line})")
            elif texts[0] in ("source", ".") and not words.ACTIVATES.search(texts[1]):
                origins.append(f"the file {shell_text.short(texts[1])} (line {command.line})")
            elif _may_set(command, name) and is_of_module:
                origins.append(f"a module (line {command.line})")
    return " or ".join(dict.fromkeys(origins[-_ORIGINS:]))


def _sets_any_name(command: Command) -> bool:
    """Whether a command sets a variable whose name is in another one: ``export "$KEY=$VALUE"``."""
    texts = [scanner.unquote(token.text) for token in command.words]
    is_setting = texts[:1] != [] and texts[0] in ("export", "declare", "typeset", "eval")
    return is_setting and any(re.match(r"\$\{?\w+\}?=", text) for text in texts[1:])


def _may_set(command: Command, name: str) -> bool:
    """Whether a command loads a module that may set a variable: ``module load cuda``, `CUDA_HOME`.

    EasyBuild's variables, and those of a site, have names of another kind.
    """
    texts = [scanner.unquote(token.text).lower() for token in command.words]
    if texts[:1] not in (["module"], ["ml"]) or texts[1:2] in (["purge"], []):
        return False
    if _OF_ANY_MODULE.search(name):
        return True
    parts = {part for part in name.lower().split("_")[:-1] if len(part) > 1}
    return any(part in text for part in parts for text in texts[1:])


def _slurm_value(script: Script, body: Body, name: str) -> str:
    """What Slurm sets a variable to, by the job's options; "" where they do not say it."""
    size, nodes = script.size, body.nodes or 1
    if name == "SLURM_STEP_GPUS" and "srun" not in words.without_comments(script.text):
        return ""
    if name in _NUMBERS_OF_GPUS:
        return ",".join(map(str, range(size.gpus_per_node or size.gpus or 0)))
    if name == "SLURM_GPUS":
        gpus = size.gpus or (size.gpus_per_node or 0) * nodes
        return str(gpus) if gpus else ""
    option = _OPTIONS_OF.get(name, "")
    text = _option_text(script, option)
    if option in _CHOICES:
        return next((choice.strip() for choice in text.split(",") if choice.strip()), "")
    if not name.startswith("SLURM_MEM_"):
        return text
    amount = amounts.mebibytes(text)
    return "" if amount is None else str(round(amount))


def _option_text(script: Script, option: str) -> str:
    """What the job's options say of one of them, which is the last; "" where they do not."""
    texts = (setting.value for setting in reversed(script.settings) if setting.name == option)
    return next(texts, "")
