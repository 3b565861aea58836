"""Programs without the srun and the container around them, in a script that is run as it is."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.containers import images
from allranks.convert.slurm.batch_script.pods import missing_in_pods
from allranks.convert.slurm.batch_script.setup import node_files, working_folder
from allranks.convert.slurm.batch_script.steps import (
    mpirun,
    programs_of_folder,
    srun_environment,
    step_search,
)
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading
    from allranks.convert.slurm.options import Setting

# A variable that an option of a container gives it as it is.
_ITSELF = re.compile(r"(?:--env|-e) (\w+)=[\"']?\$\{?\1\}?[\"']?")


def edits(reading: ScriptReading, statement: Statement) -> list[tuple[int, int, str]]:
    """What takes srun and containers off the commands of a statement, as edits of the script."""
    own_edits = []
    for command in statement.commands:
        tokens = command.words
        texts = [token.text for token in tokens]
        inner = words.unwrapped(texts)
        if not inner:
            continue
        own = tokens[len(tokens) - len(inner) :]
        start, lead, folder = own[0].start, "", ""
        if words.base(inner[0]) == "srun":
            settings, rest = step_search.parse_srun(
                reading, [token.text for token in own[1:]], command.line
            )
            lead = srun_environment.assignments(settings)
            folder = next((s.value for s in settings if s.name == "container-workdir"), "")
            name = shell_text.variable_alone(scanner.unquote(rest[0])) if rest else ""
            if not rest or reading.variables.listed.get(name, [""])[:1][0].startswith("-"):
                continue  # the options are in the array with what they are for
            own = own[len(own) - len(rest) :]
            _say_answers(reading, statement, command, settings, rest)
        program = words.base(own[0].text)
        is_srun = words.base(inner[0]) == "srun"
        is_read = is_srun or program not in words.UNREAD_CONTAINERS
        if is_srun and program in words.UNREAD_CONTAINERS - words.CONTAINERS:
            why = missing_in_pods.why_no_container(" ".join(token.text for token in own))
            reading.body.say(command.line, program, Outcome.NOT_CARRIED, "image", why)
        if program in words.CONTAINERS and is_read:
            inside = read_container(reading, [token.text for token in own], command.line)
            options = [scanner.unquote(token.text) for token in own[: len(own) - inside]]
            of_container = reading.body.values.get("", {}).get("working_dir", "")
            folder = of_container if of_container and of_container in " ".join(options) else folder
            if inside:
                own = own[len(own) - inside :]
        name = own[0].text
        if is_srun and program not in words.CONTAINERS:
            path = programs_of_folder.with_folder(reading.body, name, command.line, "script")
            lead += path.removesuffix(name)
        if folder.startswith("/") and _is_moved(reading, command):
            # The script goes to another folder, and its container did not go with it.
            lead = f"(cd {shlex.quote(folder)} && {lead}"
            own_edits.append((tokens[-1].end, tokens[-1].end, ")"))
        if own[0].start > start:
            own_edits.append((start, own[0].start, lead))
    return own_edits


def _say_answers(
    reading: ScriptReading,
    statement: Statement,
    command: Command,
    settings: Sequence[Setting],
    rest: list[str],
) -> None:
    """Say where later lines read a file with what several tasks answer, or with their numbers."""
    script = reading.script
    writers = [own for own in statement.commands if own.start >= command.start]
    files = [
        file
        for own in writers
        for file in node_files.files_of(own)
        if node_files.is_read_behind(script, statement, file)
    ]
    if not files or not step_search.only_prints(rest):
        return
    tasks = step_search.size_of(script, settings).task_count
    reasons = [f"it ran {tasks} times, and a pod runs it once"] if tasks > 1 else []
    if any(setting.name == "label" for setting in settings):
        reasons.append("--label put the number of the task in front of each line")
    if reasons:
        text = script.text[command.start : command.end]
        why = f"{', and '.join(reasons)}: write the {files[0]} that later lines read yourself"
        reading.body.say(command.line, text, Outcome.NOT_CARRIED, "", why)


def _is_moved(reading: ScriptReading, command: Command) -> bool:
    """Whether a command runs in another folder than the script starts in."""
    return any(
        other.name in ("cd", "pushd") and other.start < command.start
        for other in reading.script.commands
    )


def _is_inherited(reading: ScriptReading, path: str) -> bool:
    """Whether an option gives a container a variable that the script exports: ``--env A=$A``."""
    match = _ITSELF.fullmatch(path)
    exports = rf"\bexport[ \t]+(?:\S+[ \t]+)*{match[1]}\b" if match is not None else ""
    return bool(exports) and re.search(exports, reading.script.text) is not None


def read_container(reading: ScriptReading, texts: list[str], line: int) -> int:
    """Read a container's command line; gives how many words at its end run inside."""
    body, constants = reading.body, reading.variables.constants
    line_words = [words.resolve(text, constants) or scanner.unquote(text) for text in texts]
    line_words = [reading.variables.with_own_folders(text) for text in line_words]
    line_words = [reading.variables.with_sent_folder(text) for text in line_words]
    program = words.base(texts[0])
    parsed = images.of_command([program, *line_words[1:]])
    if parsed is None:
        if program in words.UNREAD_CONTAINERS:
            body.say(line, program, Outcome.NOT_CARRIED, "image", missing_in_pods.NO_CONTAINERS)
        return 0
    if working_folder.is_new(reading.script, line):
        parsed = images.without_folder(parsed)
    inside = body.values.setdefault("", {})
    named = {(verdict.path, verdict.why) for verdict in body.verdicts}
    for verdict in images.unite(inside, parsed, line):
        why = verdict.why
        files = [own for own in body.verdicts if why == images.OF_FILE and own.why == why]
        if files and shell_text.short(verdict.path) != files[0].path:
            why += f"; a pod has one image (besides that of line {files[0].line}): make two runs"
        # An image is said where it is named first; what it runs, wherever it does.
        if _is_inherited(reading, verdict.path):
            continue
        is_once = verdict.to == "image" or why == images.FOR_ALL
        if is_once and (shell_text.short(verdict.path), why) in named:
            continue
        body.say(line, verdict.path, verdict.outcome, verdict.to, why)
    return parsed.inside


def without_container(reading: ScriptReading, inner: str, line: int) -> str:
    """A shell's text whose one command is a container's, as the command that runs in there.

    Args:
        reading: the script; what the container is told, is put and said.
        inner: the text.
        line: of the step.
    """
    commands_of_text = shell_text.commands_of(inner)
    tokens = commands_of_text[0].words if len(commands_of_text) == 1 else []
    texts = [token.text for token in tokens]
    start = mpirun.container(texts)
    if start is None:
        return inner
    inside = read_container(reading, texts[start:], line)
    if not inside:
        return inner
    lead, behind = inner[: tokens[start].start], inner[tokens[len(tokens) - inside].start :]
    return lead + behind
