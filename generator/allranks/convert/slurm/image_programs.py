"""Programs that a script calls by name, and that few images have: the report lists them.

A site has programs of its own (`find_data`), and software that its modules load. In a pod their
names are looked for in the image, and `$(find_data x)` is nothing there, while the run goes on.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert import scanner
from allranks.convert.slurm.batch_script.setup import exports
from allranks.convert.slurm.batch_script.text import environments, shell_text, words, xargs
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from allranks.convert.slurm.draft import Draft

# GNU's time is in few images, and what bash has in its place is none of that path's.
_NAME = re.compile(r"(?=\d*[A-Za-z_])[A-Za-z0-9][\w.+-]*|/usr/bin/time")
_FUNCTION = re.compile(
    r"^\s*(?:function\s+(?P<word>[\w.:-]+)|(?P<name>[\w.:-]+)\s*\(\s*\))", re.MULTILINE
)
# What bash has, and what images of Debian's or Red Hat's kind have with Python.
_COMMON = words.OF_SHELL | {
    *("bg", "command", "dirs", "disown", "enable", "eval", "exec", "fg", "hash", "help", "jobs"),
    *("kill", "source", "suspend", "times", "true", "type", "unalias"),
    *("arch", "awk", "base64", "basename", "bash", "cat", "chgrp", "chmod", "chown", "cksum"),
    *("cmp", "comm", "cp", "csplit", "cut", "dash", "date", "dd", "df", "diff", "dirname", "du"),
    *("echo", "egrep", "env", "expand", "expr", "factor", "fgrep", "find", "fmt", "fold", "gawk"),
    *("getconf", "getent", "grep", "groups", "gunzip", "gzip", "head", "hostid", "hostname"),
    *("id", "install", "ionice", "join", "ldd", "link", "ln", "locale", "logname", "ls", "mawk"),
    *("md5sum", "mkdir", "mkfifo", "mknod", "mktemp", "more", "mv", "nice", "nl", "nohup"),
    *("nproc", "nvidia-smi", "od", "paste", "pathchk", "perl", "pip", "pip3", "pr", "printenv"),
    *("printf", "pwd", "python", "python2", "python3", "readlink", "realpath", "renice", "rm"),
    *("rmdir", "sed", "seq", "setsid", "sh", "sha1sum", "sha256sum", "shred", "shuf", "sort"),
    *("split", "stat", "stdbuf", "stty", "sum", "sync", "tac", "tail", "tar", "taskset", "tee"),
    *("time", "timeout", "touch", "tr", "tsort", "tty", "uname", "unexpand", "uniq", "unlink"),
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
)
# Of a variable or a folder, and not of the program that has it among its words.
_OF_A_WORD = ("$", "/")
# What is said of a line that runs once for each pod says nothing of its program.
_OF_PODS = "each pod"


def say(job: Draft) -> None:
    """Note the programs that the image must have, each with the first line that calls it.

    Args:
        job: the job, whose values are all there, but for an image that the script does not name.
    """
    code = words.without_comments(job.text)
    functions = {match["word"] or match["name"] for match in _FUNCTION.finditer(code)}
    spoken_lines = {
        job.lines.get(str(verdict.keys[0]), 0)
        for verdict in job.fields.verdicts()
        if verdict.outcome is not Outcome.CARRIED
        and verdict.to != "command"
        and not str(verdict.keys[0]).startswith(_OF_A_WORD)
        and not (verdict.to == "setup" and _OF_PODS in verdict.why)
    }
    programs: dict[str, int] = {}
    is_python = job.text.startswith("#!") and "python" in job.text.partition("\n")[0]
    for program in () if is_python else _programs(job.fields.values):
        line = _line_of(job.text, program)
        if line and line not in spoken_lines and program not in functions:
            programs.setdefault(program, line)
    if programs:
        listed = ", ".join(f"{program} (line {line})" for program, line in programs.items())
        reads = any(map(exports.reads_file, shell_text.commands_of(code)))
        files = ", where no file that the script reads defines it" if reads else ""
        job.fields.note(
            f"the image must have the programs that are called by name: {listed}{files}"
        )


def _programs(values: Mapping[str, Any]) -> Iterator[str]:
    """The programs that the values run, by their names; of an image of its own those of setup."""
    texts = [str(values.get("setup", ""))]
    if "image" not in values:
        texts.append(str(values.get("script", "")))
        texts.append(shell_text.as_text([str(word) for word in values.get("command", ())]))
    for text in texts:
        shell = words.without_comments(shell_text.without_printing(text))
        functions = {match["word"] or match["name"] for match in _FUNCTION.finditer(shell)}
        # What stands in single quotes is of another language: awk's `$(NF-1)`.
        inner = shell_text.substituted_commands(words.expanded_part(shell))
        for command in (*shell_text.commands_of(shell), *inner):
            typed = [scanner.unquote(word.text) for word in command.words]
            if command.name in functions:
                continue
            if environments.needs_manager(typed):
                yield words.base(words.unwrapped(typed)[0])
            for program in (command.name, *xargs.program(typed)[:1]):
                if _NAME.fullmatch(program) and program not in _COMMON | _SPOKEN_OF:
                    yield program


def _line_of(text: str, program: str) -> int:
    """The first line that calls a program, or has it as a word, but for comments; 0 for none."""
    calls = (own.line for own in shell_text.commands_of(text) if own.name == program)
    line = next(calls, 0)
    if line:
        return line
    pattern = re.compile(rf"(?<![\w./$-]){re.escape(program)}(?![\w./=-])")
    return words.line_with(text, pattern.search)
