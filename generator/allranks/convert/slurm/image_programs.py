"""Programs that a script calls by name, and that few images have: the report lists them.

A site has programs of its own (`find_data`), and software that its modules load. In a pod their
names are looked for in the image, and `$(find_data x)` is nothing there, while the run goes on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import (
    environments,
    installations,
    looked_up_programs,
    parsing,
    set_options,
    shell_builtins,
    shell_text,
    started_words,
    words,
    xargs,
)
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.draft import Draft

# GNU's time is in few images, and what bash has in its place is none of that path's.
_NAME = re.compile(r"(?=\d*[A-Za-z_])[A-Za-z0-9][\w.+-]*|/usr/bin/time")
_FUNCTION = re.compile(
    r"^\s*(?:function\s+(?P<word>[\w.:-]+)|(?P<name>[\w.:-]+)\s*\(\s*\))", re.MULTILINE
)
# What bash has, and what images of Debian's or Red Hat's kind have with Python.
_COMMON = shell_builtins.OF_BASH | {
    *("deactivate", "sleep"),
    *("arch", "awk", "base64", "basename", "bash", "cat", "chgrp", "chmod", "chown", "cksum"),
    *("cmp", "comm", "cp", "csplit", "cut", "dash", "date", "dd", "df", "diff", "dirname", "du"),
    *("echo", "egrep", "env", "expand", "expr", "factor", "fgrep", "find", "fmt", "fold", "gawk"),
    *("getconf", "getent", "grep", "groups", "gunzip", "gzip", "head", "hostid", "hostname"),
    *("id", "install", "ionice", "join", "ldd", "link", "ln", "locale", "logname", "ls", "mawk"),
    *("md5sum", "mkdir", "mkfifo", "mknod", "mktemp", "more", "mv", "nice", "nl", "nohup"),
    *("nproc", "nvidia-smi", "od", "paste", "pathchk", "perl", "pip", "pip3", "pr", "printenv"),
    *("printf", "pwd", "python", "python3", "readlink", "realpath", "renice", "rm"),
    *("rmdir", "sed", "seq", "setsid", "sh", "sha1sum", "sha256sum", "shred", "shuf", "sort"),
    *("split", "stat", "stdbuf", "stty", "sum", "sync", "tac", "tail", "tar", "taskset", "tee"),
    *(
        "time",
        "timeout",
        "touch",
        "tr",
        "truncate",
        "tsort",
        "tty",
        "uname",
        "unexpand",
        "uniq",
        "unlink",
    ),
    *("wc", "which", "who", "whoami", "xargs", "yes", "zcat"),
}
# What has words of its own in the report, or comes with the chart's image.
_SPOKEN_OF = (
    words.ACTIVATING
    | words.STARTERS
    | words.OF_ROOT
    | words.OF_OTHER_HOSTS
    | words.SLURM_TOOLS
    | words.CONTAINERS
    | words.UNREAD_CONTAINERS
    | {"srun", "accelerate"}
    | {"EOF", "EOT", "END"}  # of a here-document that has ended before
)
# Of a variable or a folder, and not of the program that has it among its words.
_OF_A_WORD = ("$", "/", "..")
# What is said of a line that runs in each pod, or installs something, says nothing of
# its program.
_OF_NO_PROGRAM = (
    "each pod",
    "the image is made",
    "a pod has no login",
    "nobody outside",
    "~/.ollama",
)
_OWN_PATH = re.compile(
    r"(?:^|[;&\s])PATH=[\"']?(?:[^\s\"':]*:)*(?:/(?!usr/|bin|sbin)|\$\{?(?!PATH\b|HOME\b)\w)"
)
_VERSIONS = frozenset({"--version", "-version", "-V", "-v"})
_OF_MPI = (
    "mpirun starts the ranks, by ssh: the image needs the MPI that the program is built for (Open "
    "MPI, unless mpi.implementation says another), sshd and ssh, and its user a line in "
    "/etc/passwd; with mpi.transport: exec it needs Python in place of the last three"
)


def say(job: Draft) -> None:
    """Note the programs that the image must have, each with the first line that calls it.

    Args:
        job: the job, whose values are all there, but for an image that the script does not name.
    """
    if job.body.workload == "mpi":
        job.fields.note(_OF_MPI)
    code = words.without_comments(job.text)
    functions = {match["word"] or match["name"] for match in _FUNCTION.finditer(code)}
    spoken = [
        (job.lines.get(str(verdict.keys[0]), 0), f"{verdict.keys[0]} {verdict.why}")
        for verdict in job.fields.verdicts()
        if verdict.outcome is not Outcome.CARRIED
        and verdict.to != "command"
        and not str(verdict.keys[0]).startswith(_OF_A_WORD)
        and not verdict.to.startswith("env.")
        and not any(part in verdict.why for part in _OF_NO_PROGRAM)
    ]
    is_of_shell = parsing.interpreter(job.text.partition("\n")[0]) in shell_text.SHELLS
    needed = [*_programs(job.fields.values)] if is_of_shell else []
    lines = {program: _line_of(job.text, program) for program, _ in needed}
    must = {program for program, is_optional in needed if not is_optional}
    called = [
        program
        for program, line in lines.items()
        if line and program not in functions and not _is_spoken_of(program, line, spoken)
    ]
    listed = [f"{program} (line {lines[program]})" for program in called if program in must]
    if listed:
        reads = any(map(shell_text.reads_file, shell_text.commands_of(code)))
        files = ", where no file that the script reads defines it" if reads else ""
        if _OWN_PATH.search(code) is not None and not files:
            files = ", where no folder that the script puts on PATH has it"
        job.fields.note(
            f"the image must have the programs that are called by name: {', '.join(listed)}{files}"
        )
    listed = [f"{program} (line {lines[program]})" for program in called if program not in must]
    if listed:
        job.fields.note(
            "the script looks for these programs, and does without those that the image lacks: "
            f"{', '.join(listed)}"
        )


def _is_spoken_of(program: str, line: int, spoken: Iterable[tuple[int, str]]) -> bool:
    """Whether the report has words on a program on its line.

    Args:
        program: the program.
        line: the first line that calls it.
        spoken: the words of the report, each with its line.
    """
    name = re.compile(rf"(?<![\w.-]){re.escape(program)}(?![\w-])")
    return any(place == line and name.search(text) is not None for place, text in spoken)


def _programs(values: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The programs that the values run, each with whether it may be missing.

    Of an image of its own those of setup.
    """
    texts = [str(values.get("setup", ""))]
    if "image" not in values:
        texts.append(str(values.get("script", "")))
        texts.append(shell_text.as_text([str(word) for word in values.get("command", ())]))
    own_programs: set[str] = set()
    for text in texts:
        shell = words.without_comments(shell_text.without_printing(text))
        functions = {match["word"] or match["name"] for match in _FUNCTION.finditer(shell)}
        before = {*own_programs}
        programs = [*_called(shell, own_programs)]
        for program, own in looked_up_programs.calls(shell).items():
            optional_calls = [*_called(own, {*before})].count(program)
            if 0 < optional_calls == programs.count(program):
                programs = [other for other in programs if other != program]
                if program not in functions:
                    yield program, True
        yield from ((program, False) for program in programs if program not in functions)


# A package that pip gets with git.
_FROM_GIT = re.compile(r"\b(?:pip[0-9.]*|uv)\b.*\binstall\b.*\sgit\+")


def _called(shell: str, own_programs: set[str]) -> Iterator[str]:
    """The programs that a text of a shell calls by name, once for each call.

    Args:
        shell: the text.
        own_programs: those that the script has installed before; those of this text are added.
    """
    # What stands in single quotes is of another language: awk's `$(NF-1)`.
    inner = shell_text.substituted_commands(words.expanded_part(shell))
    own_commands = shell_text.commands_of(shell)
    ends = set_options.ends_script(shell)
    shown = [
        [scanner.unquote(word.text) for word in shown_command.words]
        for command in own_commands
        if command.name in ("echo", "printf")
        for shown_command in shell_text.substituted_commands(shell[command.start : command.end])
    ]
    for command in (*own_commands, *inner, *_in_variables(own_commands), *_in_texts(own_commands)):
        typed = [scanner.unquote(word.text) for word in command.words]
        if environments.needs_manager(typed):
            rest = typed if typed[1:2] == ["run"] else words.unwrapped(typed)
            yield from {words.base(rest[0])} - own_programs
        own_programs |= installations.programs(typed)
        is_version = bool(typed[1:]) and _VERSIONS.issuperset(typed[1:])
        if is_version and not ends and (command in own_commands or typed in shown):
            continue  # it only prints, and nothing ends where it does not
        started = [own[0] for own in started_words.with_wrapped(typed)[1:]]
        if _FROM_GIT.search(" ".join(typed)) and "git" not in own_programs:
            yield "git"
        listed = (*xargs.program(typed)[:1], *xargs.program_of_parallel(typed)[:1])
        for program in (command.name, *started, *listed):
            if _NAME.fullmatch(program) and program not in _COMMON | _SPOKEN_OF | own_programs:
                yield program


def _in_variables(commands_of_text: Iterable[Command]) -> list[Command]:
    """The commands in variables that a line runs: ``CMD="uv run a.py"``, and ``eval $CMD``.

    Args:
        commands_of_text: the commands of a shell.
    """
    texts: dict[str, str] = {}
    inner: list[Command] = []
    for command in commands_of_text:
        typed = [scanner.unquote(word.text) for word in command.words]
        rest = typed[1:] if typed[:1] == ["eval"] else typed
        if typed[:1] == ["eval"] and rest and rest[0][:1] not in ("$", "`", ""):
            inner += shell_text.commands_of(" ".join(rest))
        inner += shell_text.commands_of(texts.get(shell_text.variable_alone("".join(rest[:1])), ""))
        for name, value in shell_text.assigned_by(command):
            texts.setdefault(name, "" if value.startswith("(") else scanner.unquote(value))
    return inner


def _in_texts(commands_of_text: Iterable[Command]) -> list[Command]:
    """The commands in texts that other shells run: ``srun bash -c 'jq . a.json; python a.py'``.

    Args:
        commands_of_text: the commands of a shell.
    """
    inner: list[Command] = []
    for command in commands_of_text:
        typed = words.unwrapped([word.text for word in command.words])
        text = shell_text.shell_text(typed) or ""
        inner += [*shell_text.commands_of(text), *shell_text.substituted_commands(text)]
    return inner


def _line_of(text: str, program: str) -> int:
    """The first line that runs a program, or has it as a word that is not printed; 0 for none."""
    word = re.compile(rf"(?<![\w./$-]){re.escape(program)}(?![\w./=-])")
    commands_of_text = shell_text.commands_of(text)
    for command in commands_of_text:
        own = text[command.start : command.end]
        place = word.search(own)
        if place is not None and _runs(command, own, program):
            return command.line + own.count("\n", 0, place.start())
    rows = text.split("\n")
    unread = [*words.documents(text)]
    unread += [(own.start, own.end) for own in commands_of_text if own.name in ("echo", "printf")]
    unread += [match.span() for match in looked_up_programs.LOOK.finditer(text)]
    for start, end in unread:
        first, last = text.count("\n", 0, start), text.count("\n", 0, end)
        rows[first : last + 1] = [""] * (last + 1 - first)
    return words.line_with("\n".join(rows), word.search)


def _runs(command: Command, text: str, program: str) -> bool:
    """Whether a command, or one in its text, runs a program.

    Args:
        command: the command.
        text: its text.
        program: the program's name.
    """
    inner = shell_text.substituted_commands(words.expanded_part(text))
    typed = [[scanner.unquote(word.text) for word in own.words] for own in (command, *inner)]
    typed += started_words.of(command)
    typed += [of(own) for own in typed for of in (xargs.program, xargs.program_of_parallel)]
    typed = [wrapped for own in typed for wrapped in started_words.with_wrapped(own)]
    if program in words.MANAGERS:
        typed = [own for own in typed if environments.needs_manager(own)]
    return any(
        (own[:1] == [program] or words.any_of(own, (program,)))
        and not looked_up_programs.LOOK.match(" ".join(own))
        for own in typed
    )
