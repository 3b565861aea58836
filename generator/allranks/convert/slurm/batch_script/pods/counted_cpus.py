"""The CPUs that `nproc` and ``pytest -n auto`` count: in Slurm those that a job is bound to.

A pod asks for CPUs and is bound to none, so that it counts all of its node there. A build with as
many processes gives the same; a program with as many workers, or threads, may be slower by them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import scanner
from allranks.convert.slurm.batch_script.text import shell_text, started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Command
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body

_COUNTS = re.compile(r"(?:\$\(|`)[ \t]*nproc\b(?![ \t]+--all)")
# How many Slurm says there are; a pod without a request for CPUs has all of its node.
_OF_JOB = re.compile(r"\$\{?SLURM_(?:CPUS_ON_NODE|JOB_CPUS_PER_NODE)\b")
# What Slurm says where there are such options is the same in a pod.
_DEFAULT = re.compile(r"\$\{SLURM_(?:CPUS_\w+|JOB_CPUS_PER_NODE):?-[^{}]*\}")
# What makes or unpacks something by as many processes as there are.
_BUILDING = frozenset(
    {*("make", "gmake", "ninja", "cmake", "ctest", "meson", "scons", "bazel", "b2", "cargo", "go")}
    | {*("pip", "pip3", "uv", "conda", "mamba", "micromamba", "spack", "npm", "xargs", "parallel")}
    | {*("tar", "pigz", "pbzip2", "xz", "zstd", "7z", "apt", "apt-get", "git")}
)
_OF_BUILDS = re.compile(r"MAX_JOBS|MAKEFLAGS|\w*(?:BUILD|MAKE|NINJA|COMPILE)\w*")
_OF_PIP = re.compile(r"-m (?:pip|build)\b|(?:\S*/)?setup\.py\b")
# Workers of pytest-xdist, as many as there are CPUs.
_OF_PYTEST = re.compile(r"(?:-n|--numprocesses)(?:=|[ \t]+)?(?:auto|logical)")
_COUNTED = "{} counts the CPUs of the job there, and all of the node here: write {}"
_UNCOUNTED = (
    "the script asks for no CPUs, so that Slurm gives one for each task; a pod has those of its "
    "whole node: write the number, or `cpu` into the values"
)


def say(script: Script, body: Body, code: str) -> list[Verdict]:
    """The first line whose program reads how many CPUs there are, or counts them itself.

    Args:
        script: the script.
        body: what comes of it.
        code: what runs, without its comments and the lines that only print.
    """
    has_node = any(setting.name == "exclusive" for setting in script.settings)
    counts = (_COUNTS, _OF_PYTEST, _OF_JOB)
    if has_node or not any(pattern.search(code) for pattern in counts):
        return []
    name = "the number"
    if script.size.cpus_per_node:
        name = "$SLURM_CPUS_ON_NODE, which is that of the pod"
        name += ", or $SLURM_CPUS_PER_TASK, that of a rank" if body.command else ""
    for command in script.commands:
        command_text = script.text[command.start : command.end]
        text = _DEFAULT.sub("", command_text)
        match = _COUNTS.search(text)
        if match is not None and _matters(script, command, _COUNTS):
            line = command.line + text.count("\n", 0, match.start())
            why = _COUNTED.format("nproc", name)
            return [Verdict("$(nproc)", Outcome.CHANGED, "", why, line)]
        match = None if script.size.cpus_per_node else _OF_JOB.search(command_text)
        if match is not None and _matters(script, command, _OF_JOB):
            line = command.line + command_text.count("\n", 0, match.start())
            path = match[0].replace("{", "")
            return [Verdict(path, Outcome.CHANGED, "", _UNCOUNTED, line)]
        workers = _workers_of_pytest(command)
        if workers:
            why = _COUNTED.format("pytest", name)
            return [Verdict(workers, Outcome.CHANGED, "", why, command.line)]
    return []


def _workers_of_pytest(command: Command) -> str:
    """The option by which a pytest counts CPUs for its workers, as typed; "" for none."""
    for program in started_words.programs(command):
        name = words.module_of(program) or words.base(next(iter(program), ""))
        match = _OF_PYTEST.search(" ".join(program)) if name in ("pytest", "py.test") else None
        if match is not None:
            return match[0]
    return ""


def _matters(script: Script, command: Command, number: re.Pattern[str]) -> bool:
    """Whether a program of the job has the number, by a command or by a variable that it sets.

    Args:
        script: the script.
        command: a command with the number in its text.
        number: what stands for it there.
    """
    names = [name for name, value in shell_text.assigned_by(command) if number.search(value)]
    if command.name == "export":
        return not all(map(_OF_BUILDS.fullmatch, names))
    if command.words and not names:
        is_word = any(number.search(word.text) for word in command.words)
        before = [own.text.partition("=")[0] for own in command.assignments]
        is_of_build = not is_word and all(map(_OF_BUILDS.fullmatch, before))
        return not (is_of_build or _is_harmless(command))
    for name in names:
        reference = re.compile(rf"\$\{{?{name}\b|\(\([^)]*\b{name}\b")
        for other in script.commands:
            text = script.text[other.start : other.end]
            is_behind = other.start > command.start and reference.search(text) is not None
            if is_behind and _matters(script, other, reference):
                return True
    return False


def _is_harmless(command: Command) -> bool:
    """Whether a command builds something, or only shows it."""
    texts = [scanner.unquote(word.text) for word in command.words]
    is_pip = words.is_python(texts) and _OF_PIP.search(" ".join(texts)) is not None
    return words.any_of(texts, _BUILDING | words.IDLE) or is_pip
