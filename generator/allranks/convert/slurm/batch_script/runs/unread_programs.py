"""What a script runs that nobody has looked into: its other scripts, recipes and files of commands.

Slurm's programs and the old cluster's paths may stand in each: ``bash run.sh``, ``make train``,
``python submit.py``, and ``eval "$(sed -n 3p commands.txt)"``.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.runs import presumed_programs
from allranks.convert.slurm.batch_script.steps import mpirun, step_search
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import ScriptReading
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# What makes an environment, from the page of who offers it.
_INSTALLER = re.compile(r"(?i)(?:mini|ana)conda|(?:mini|mamba)forge")
_SHELL_FILES = (".sh", ".bash")
# Programs that run the commands of a file of recipes, and the words by which they do nothing else
# than to build, install or clean.
_OF_RECIPES = frozenset(
    {"make", "gmake", "just", "snakemake", "nextflow", "doit", "invoke", "inv", "tox", "nox"}
)
_BUILDING = re.compile(
    r"(?:all|install|build|clean|distclean|check|compile|configure)$|-|.*=|[.0-9]"
)
# Python programs that are there to start others.
_STARTER = re.compile(
    r"(?:\S*/)?(?:\w+_)?(?:submit|slurm|sbatch|submitit|launch(?:er)?)(?:_\w+)?\.py"
)
# A text that a program reads from a file, as the script runs.
_READ_FROM_FILE = re.compile(
    r"[\"']?(?:\$\(|`)\s*(?:(?:sed|awk|head|tail|cat|jq|yq)\b|<)|[\"']?\$\([^()]*\|\s*(?:sed|head)\b"
)
# Files of a login, of variables alone, and of what makes modules known.
_OF_LOGIN = re.compile(r"(?:^|/)\.?(?:bash\w*|profile|\w*\.env|env|init/\w+)$|^/etc/|<\(")
_ARRAY_ITEM = re.compile(r"\$\{(?P<name>\w+)\[")
_MOST_LISTED = 3


def note(reading: ScriptReading) -> None:
    """Note what a script runs that was not looked at.

    Args:
        reading: the script, and what comes of it.
    """
    script, variables = reading.script, reading.variables
    reasons = [why for _, _, why in script.size.outcomes.values()]
    inner = _substituted(reading)
    own_files = [
        file
        for file in (*files(script, variables), *_files(script, variables, inner))
        if not any(why.startswith(f"{file}, which is not read here") for why in reasons)
    ]
    recipes = _recipes(script, [*script.commands, *inner])
    others = (recipes, _commands_of_files(script), _sourced(script, variables))
    unread = [*dict.fromkeys(itertools.chain(own_files, *others))]
    if unread:
        verb = "does" if len(unread) == 1 else "do"
        reading.body.notes.append(
            f"what {list_some(unread, _MOST_LISTED)} {verb} was not looked at: a pod has no srun, "
            "sbatch, scontrol or modules for that either, nor the old cluster's paths and the "
            "environment of who submits"
        )


def files(script: Script, variables: ShellVariables) -> list[str]:
    """The scripts that are run, also by a variable: ``RUN=$DIR/run.sh``, and `$RUN`.

    Args:
        script: the script.
        variables: what its variables hold.
    """
    own_files = _files(script, variables, script.commands)
    return [*dict.fromkeys([*own_files, *_last_sourced(script)])]


def _files(script: Script, variables: ShellVariables, commands: Iterable[Command]) -> list[str]:
    """The scripts that some commands of a script run."""
    own_files: list[str] = []
    for texts in _run_by(commands):
        name = shell_text.variable_alone(texts[0]) if texts else ""
        contents = [scanner.unquote(own) for own in variables.contents.get(name, texts[:1])]
        if contents[:1] in (["$1"], ["${1}"]):
            contents = script.args[:1]
            own_files += [] if contents else ["$1"]
        is_installer = bool(name) and _INSTALLER.search(" ".join(contents)) is not None
        own_files += [
            own.split()[-1] for own in contents if own.endswith(_SHELL_FILES) and not is_installer
        ]
    return own_files


def _substituted(reading: ScriptReading) -> list[Command]:
    """The commands whose output the script takes, where a pod runs them: ``A=$(bash b.sh)``."""
    script, body = reading.script, reading.body
    values = "\n".join([body.setup, body.script, *body.command])
    return [
        command
        for statement in script.statements
        for command in shell_text.substituted_commands(words.expanded_part(script.slice(statement)))
        if all(word.text in values for word in command.words)
    ]


def _run_by(commands: Iterable[Command]) -> Iterator[list[str]]:
    """The words of each program that commands start, without what runs it as it is."""
    for command in commands:
        for started in started_words.programs(command):
            is_mpirun = words.base(next(iter(started), "")) in words.MPIRUN
            own = words.unwrapped(mpirun.program(started)) if is_mpirun else started
            yield shell_text.without_shell(words.unwrapped(step_search.words_inside(own)))


def _last_sourced(script: Script) -> list[str]:
    """The file that the last line reads which does something: ``. commands/$ID.sh``."""
    return [
        scanner.unquote(command.words[1].text)
        for number in presumed_programs.sourced(script)
        for command in script.statements[number].commands
        if len(command.words) > 1
    ]


def _sourced(script: Script, variables: ShellVariables) -> Iterator[str]:
    """The files that the script's shell reads, but for those of a login, and of variables alone."""
    for command in script.commands:
        path = scanner.unquote(command.words[1].text) if shell_text.reads_file(command) else ""
        contents = variables.contents.get(shell_text.variable_alone(path), [path])
        patterns = (_OF_LOGIN, words.ACTIVATES)
        has_words = any(pattern.search(own) for own in contents for pattern in patterns)
        if path and not has_words:
            yield path


def _recipes(script: Script, commands: Iterable[Command]) -> Iterator[str]:
    """What runs the commands of a file of recipes, and Python programs that start others."""
    is_alone = not presumed_programs.first_unknown(script)  # beside what makes things ready
    for texts in _run_by(commands):
        program = words.base(next(iter(texts), ""))
        target = next((own for own in texts[1:] if not _BUILDING.match(own)), "")
        if program in _OF_RECIPES and (target or is_alone):
            yield f"`{program} {target}`" if target else f"`{program}`"
        if words.is_python(texts):
            path = next((own for own in texts[1:] if not own.startswith("-")), "")
            if _STARTER.fullmatch(path):
                yield path


def _commands_of_files(script: Script) -> Iterator[str]:
    """The lines that run what stands in a file: ``eval "$(sed -n 3p commands.txt)"``."""
    read_names = {*_names_read(script)}
    for command in script.commands:
        for started in started_words.of(command):
            own = words.unwrapped(started)
            program = next(iter(own), "")
            own = own[1:] if program == "eval" else own
            if words.base(program) in shell_text.SHELLS and "-c" in own[:-1]:
                own = own[own.index("-c") + 1 :]
            text = next(iter(own), "").lstrip("\"'")
            item = _ARRAY_ITEM.match(text)
            name = item["name"] if item else shell_text.variable_alone(text.rstrip("\"'"))
            if name in read_names or (own is not started and _READ_FROM_FILE.match(text)):
                yield f"`{shell_text.short(script.text[command.start : command.end])}`"
                break


def _names_read(script: Script) -> Iterator[str]:
    """The variables whose text a script reads from a file, or from what another prints."""
    for command in script.commands:
        texts = [scanner.unquote(word.text) for word in command.words]
        if texts[:1] in (["mapfile"], ["readarray"], ["read"]):
            yield from (own for own in texts[1:] if own.isidentifier())
        for name, value in shell_text.assigned_by(command):
            if _READ_FROM_FILE.match(value):
                yield name
