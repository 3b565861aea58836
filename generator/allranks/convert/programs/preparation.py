"""What stands around a program in its script: what only prepares, in which shell, and how it fails.

A setup runs once in each pod, before there are ranks, and in `sh`. So only what prepares for a
program may become one: a training that something follows is what the pods are for, and what only
bash reads must stay in bash. A setup ends with the first command that fails; a script goes on,
unless it says otherwise.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner, shell, shell_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

# What follows a training in its script: it says, copies or keeps the pod, and trains nothing.
_AFTERWARDS = frozenset(
    {
        *("echo", "printf", "true", "date", "sleep", "tail", "cat", "ls", "du", "df", "nvidia-smi"),
        *("cp", "mv", "rm", "mkdir", "touch", "tar", "zip", "chmod", "chown", "sync", "kill"),
        *("aws", "gsutil", "gcloud", "azcopy", "rclone", "rsync", "s3cmd", "s5cmd", "mc", "scp"),
        *("curl", "wget", "hf", "huggingface-cli"),
    }
)
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
# Modules of Python that prepare for a program.
_PREPARING = ("pip", "venv", "ensurepip", "virtualenv", "uv", "nltk.downloader", "spacy")
# What bash has that POSIX sh has not.
_BASHISMS = re.compile(
    r"\[\[|^\s*(?:declare|shopt|function|pushd|popd|mapfile|readarray)\b|[<>]\(|<<<|&>|=\("
    r"|\$\{[^}]*[/^,]|\$\{!|\$\{\w+:\s*\d|\$\{?(?:PIPESTATUS|RANDOM|BASH_\w+)\b|\$'"
    r"|shell\.bash|(?<![$(])\(\(|\{\d+\.\.\d+\}|(?<!\[)\[ [^\]\n]*==",
    re.MULTILINE,
)
# A file that the shell itself reads, and those of them that each shell can read.
_SOURCED = re.compile(
    r"(^|[;&|{(]|\b(?:then|do|else)\b)(\s*)(?:source|\.)[ \t]+([^\s;&|]+)[ \t]*(?=(.?))",
    re.MULTILINE,
)
_FOR_SHELLS = re.compile(r"[\"']?\S*/(?:activate|conda\.sh|mamba\.sh|etc/profile)[\"']?")
# What a setup leaves behind for the command: it must run in the same shell.
_LASTING = re.compile(
    r"(?:^|[;&|\n])\s*(?:\.(?=\s)|(?:export|cd|source|set|ulimit|umask|unset|conda|eval|module|exec"
    r"|declare|typeset|pushd)\b)"
)
WENT_ON = "# the script went on where a command failed"
# The first line of a setup that goes on where a command of it fails.
GOES_ON = f"set +e  {WENT_ON}\n"
_NEVER_FAILS = frozenset({"export", "echo", "printf", "true", ":", "unset", "set", "umask"})


def is_afterwards(program: str) -> bool:
    """Whether a program behind others is there for what they leave, as `cp` and `sleep` are."""
    return program in _AFTERWARDS


def keeps_pod(words: Sequence[str]) -> bool:
    """Whether a command only keeps its pod: ``sleep infinity``, ``tail -f /dev/null``."""
    program, first = (*(word.rpartition("/")[2] for word in words[:2]), "", "")[:2]
    return (program == "sleep" and first in ("infinity", "inf")) or (
        program == "tail" and first.startswith(("-f", "-F", "--follow"))
    )


def may_train(words: Sequence[str]) -> bool:
    """Whether words may be what a script is for: Python that runs a file, or a module of a name.

    Args:
        words: a command, without what runs it as it is.
    """
    if len(words) < 2 or not _PYTHON.fullmatch(words[0]):  # noqa: PLR2004 - python and a script
        return False
    if words[1] == "-m":
        return words[2:3] != [] and words[2] not in _PREPARING
    return words[1] not in ("-c", "-", "-V", "--version")


def lines_for_shells(setup: str) -> str | None:
    """Shell of bash's as text that `sh` reads alike; None where only bash does.

    Args:
        setup: what stood before a program.
    """
    for match in _SOURCED.finditer(setup):
        has_arguments = match[4] not in ("", "\n", ";", "&", "|", ")", "}")
        if has_arguments or not _FOR_SHELLS.fullmatch(match[3]):
            return None
    text = _SOURCED.sub(lambda match: f"{match[1]}{match[2]}. {match[3]}", setup)
    return None if _BASHISMS.search(text) else text


def lasts(setup: str) -> bool:
    """Whether shell leaves something behind for what runs after it in the same shell.

    Args:
        setup: the shell's text.
    """
    return bool(_LASTING.search(setup))


def stops(words: Sequence[str], commands: Sequence[shell.ShellCommand]) -> bool:
    """Whether a script ends with the first command that fails: by `bash -e`, or `set -e`.

    Args:
        words: the shell, its flags, and the script.
        commands: those of the script.
    """
    own = shell_arguments.own_words(words)[1:]
    flags = [
        word.text
        for command in commands
        if command.program == "set" and not command.depth
        for word in command.words[1:]
    ]
    return any(re.fullmatch(r"-[a-z]*e[a-z]*|errexit", flag) for flag in (*own, *flags))


# What joins a command to the next. `\;` is a word, and `&` starts a program that stays beside it.
_JOINED = re.compile(r"(?:\\\n|\s|&&|(?<!\\);)+\Z")
_COMMENT = re.compile(r"(?:\A|(?<=[\s;&]))#[^\n]*\Z")


def unjoined(text: str) -> tuple[str, bool]:
    """Shell without what joins it to the command behind it, and whether that must not fail.

    Args:
        text: what stands before a command: it may end with &&, a semicolon, a line that goes on.
    """
    whole = text.lstrip()
    shorter = text = _JOINED.sub("", whole)
    while (comment := _COMMENT.search(shorter)) is not None:
        shorter = _JOINED.sub("", shorter[: comment.start()])
        if shell.parse(shorter) is not None:  # else a quote is open, and it is no comment
            text = shorter
    return text, whole[len(text) :].lstrip(" \t\\\n").startswith("&&")


def going_on(setup: str, *, is_chained: bool) -> str:
    """Shell that goes on where a command fails, as its script did, up to what is chained by &&.

    Args:
        setup: what stood before the program.
        is_chained: whether the program runs only where the command before it did not fail.
    """
    statements = _statements(setup)
    last = statements[-1].start if is_chained and statements else len(setup)
    free = [
        command
        for statement in statements
        if statement.start < last
        for command in statement.commands
    ]
    if all(not command.words or command.name in _NEVER_FAILS for command in free):
        return setup
    head, tail = unjoined(setup[:last])[0], setup[last:]
    return f"{GOES_ON}{head}" + (f"\nset -e\n{tail}" if tail else "")


def may_end_false(setup: str) -> bool:
    """Whether a setup may end with an && whose first command failed, or a !: neither ends `sh -e`.

    Args:
        setup: the shell's text.
    """
    statements = _statements(setup)
    end = setup[statements[-1].start if statements else 0 :]
    return re.search(r"&&|(?:^|\s)!\s", end) is not None


def _statements(setup: str) -> list[scanner.Statement]:
    try:
        return scanner.parse(setup)
    except scanner.ScriptError:
        return []


def place_behind_set(commands: Sequence[shell.ShellCommand]) -> int:
    """Where the `set` commands end that a script begins with; 0 where it begins otherwise.

    Args:
        commands: those of the script.
    """
    settings = itertools.takewhile(
        lambda command: command.program == "set" and command.after in ("\n", ";", "&&", ""),
        commands,
    )
    return max((command.end for command in settings), default=0)


def switch_of_unset(own: Sequence[str], commands: Sequence[shell.ShellCommand]) -> str:
    """A line that says of unset variables what a script said last; "" where its flags say it.

    Args:
        own: the shell and its flags.
        commands: those of the script.
    """
    by_flags = is_strict = shell_arguments.settings(own).startswith("set -u")
    for command in commands:
        flags = [word.text for word in command.words[1:]]
        if command.program != "set" or command.depth:
            continue
        for flag, name in zip(flags, (*flags[1:], ""), strict=True):
            if re.fullmatch(r"[-+]\w*u\w*", flag) or (flag in ("-o", "+o") and name == "nounset"):
                is_strict = flag[0] == "-"
    return "" if is_strict == by_flags else f"set {'-' if is_strict else '+'}u\n"


def without_set(
    before: str, commands: list[shell.ShellCommand]
) -> tuple[str, list[shell.ShellCommand], tuple[str, ...]]:
    """Shell without its `set -e` and the like, and which of them end a script at other errors.

    Setup stops at what fails by itself. What the shell that runs it might have lost is the flags
    `u`, for a variable that is not set, and `pipefail`.

    Returns:
        The shell's text, its commands, and those of the two flags that were set.
    """
    remaining = []
    strict: list[str] = []
    for command in reversed(commands):
        is_set = command.program == "set" and not command.depth
        flags = [word.text for word in command.words[1:]]
        if is_set and all(re.fullmatch(r"[-+][euxo]+|pipefail", flag) for flag in flags):
            end = command.end
            while end < len(before) and before[end] in " \t;&":
                end += 1
            before = before[: command.start] + before[end:].removeprefix("\n")
            is_unset = any(flag.startswith("-") and "u" in flag for flag in flags)
            is_piped = any(
                before_flag.startswith("-") and flag == "pipefail"
                for before_flag, flag in itertools.pairwise(flags)
            )
            strict += ["u"] * is_unset + ["pipefail"] * is_piped
        else:
            remaining.append(command)
    return before, remaining[::-1], tuple(flag for flag in ("u", "pipefail") if flag in strict)


def lost_flags(setup: str, strict: Sequence[str]) -> str:
    """A sentence on flags that setup's own shell does not have; empty where nothing needs them.

    Args:
        setup: the shell's text.
        strict: which of `u` and `pipefail` its script had set.
    """
    causes = [
        cause
        for flag, use, cause in (
            ("u", r"\$", "an unset variable"),
            ("pipefail", r"(?<!\|)\|(?!\|)", "what fails within a pipe"),
        )
        if flag in strict and re.search(use, setup)
    ]
    return f"setup does not end at {', nor at '.join(causes)}" if causes else ""
