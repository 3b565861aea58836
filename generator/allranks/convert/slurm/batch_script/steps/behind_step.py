"""What stands behind a step on its line: files that it reads and writes, pipes, other commands."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.convert.programs import scanner
from allranks.convert.slurm import options
from allranks.convert.slurm.batch_script.steps import several_steps
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.verdicts import Outcome
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import (
        Body,
        MainStep,
        ScriptReading,
        Step,
    )

OF_LOG = f"the lines are the run's log: `{names.CLI} logs NAME`"
OVER = "the run is over when its ranks are"
_UNAWAITED = "; the script, which has no `wait` behind it, ended at once, and the job with it"
BEHIND = "it stands behind the step: make it a run of its own"
BESIDE = (
    "it went on beside what follows it, on the first node: where it is to go on beside the ranks "
    "(with `&`), write it above the step, where it is setup of each pod"
)
BY_SSH = (
    "it starts something on other nodes, to which a pod has no keys: where that is the same "
    "program, the run starts it in each of its pods"
)
OF_FILES = (
    "what ranks have written goes with their pods, so that a run of its own finds none of it: let "
    "the program write into a volume"
)
_COPYING = frozenset({"cp", "mv", "rsync", "tar", "zip", "gzip", "pigz"})
_OF_POD = re.compile(r"\"?(?:/tmp|\$\{?(?:SLURM_)?TMPDIR\}?)/.")
# What may stand behind a pipe.
FILTERS = words.IDLE | words.ENDING | {"tee", "cat", "grep", "sed", "ts", "awk", "split"}
_FAILS = "a run fails where its ranks do, and the script went on"
# Where what a loop or a branch writes goes: ``done > log``, ``fi | tee log``.
OUTPUT = re.compile(
    r"(?:\b(?:done|fi|esac)|[})])[ \t]*(?P<output>(?:[0-9]?>>?|&>>?|\|&?[ \t]*tee\b)[^\n]*)\Z"
)
# With these a script looks at what stands before the pipe.
_LOOKS = ("pipefail", "PIPESTATUS")


def of_pipe(script: str) -> str:
    """What becomes of the programs behind a step's pipe, whose status the shell takes for it.

    Args:
        script: the script's text.
    """
    code = words.without_comments(script)
    if any(word in code for word in _LOOKS):
        return OF_LOG
    return (
        f"{OF_LOG}; a run fails where its ranks do, and the script, which has no pipefail, went on"
    )


def say(reading: ScriptReading, script: str, step: Command, behind: list[Command]) -> None:
    """Say what becomes of the commands behind a step on its line.

    Args:
        reading: the script, and what is known of it.
        script: the text that they stand in, which an `eval` may have.
        step: the step.
        behind: the commands.
    """
    body = reading.body
    for number, command in enumerate(behind):
        text, line = script[command.start : command.end], max(command.line, step.line)
        texts = [token.text for token in command.words]
        if words.any_of(texts, words.ENDING) or removes_own(reading.script, texts):
            body.say(line, text, Outcome.CHANGED, "", why_over([command]))
        elif step.after == "||" and words.any_of(texts, words.IDLE | {":"}):
            body.say(line, f"|| {text}", Outcome.CHANGED, "", _FAILS)
        elif words.any_of(texts, FILTERS):
            is_first_of_pipe = number == 0 and step.after in scanner.PIPES
            why = of_pipe(reading.script.text) if is_first_of_pipe else OF_LOG
            body.say(line, text, Outcome.CHANGED, "", why)
        else:
            why = OF_FILES if copies_files(texts) else BEHIND
            why = BY_SSH if words.reaches_other_host(texts) else why
            body.say(line, text, Outcome.NOT_CARRIED, "", why)


def why_over(behind: Sequence[Command]) -> str:
    """Why commands behind a step that end the script are left out, and which exit code goes.

    Args:
        behind: the commands; 1 says no more than that the script has failed.
    """
    texts = [[scanner.unquote(token.text) for token in own.words] for own in behind]
    codes = [own[1] for own in texts if own[:1] == ["exit"] and len(own) > 1]
    codes = [code for code in codes if code.isdecimal() and int(code) > 1]
    return f"{OVER}, with their exit code in place of {list_some(codes, 4)}" if codes else OVER


def why_in_background(script: Script, step: Command) -> str:
    """Why a step that the script does not wait for is run as any other.

    Args:
        script: the script.
        step: the step, behind which `&` stands.
    """
    waits = any(own.name == "wait" for own in script.commands if own.start > step.start)
    return OVER if waits else f"{OVER}{_UNAWAITED}"


def copies_files(texts: Sequence[str]) -> bool:
    """Whether words bring away what ranks have written: ``cp -r $TMPDIR/out /scratch``.

    Args:
        texts: the words of a command, as typed.
    """
    return words.any_of(texts, _COPYING)


def removes_own(script: Script, texts: Sequence[str]) -> bool:
    """Whether words remove what goes with the pod: files in its /tmp, or of the script's own.

    Args:
        script: the script.
        texts: the words of a command, as typed.
    """
    rest = [scanner.unquote(text) for text in words.unwrapped(texts)]
    rest = options.parse(rest[1:], "srun", 0)[1] if rest[:1] == ["srun"] else rest
    paths = [text for text in rest[1:] if not text.startswith("-")]
    pairs = [pair for command in script.commands for pair in shell_text.assigned_by(command)]
    contents = [
        [value for name, value in pairs if name == shell_text.variable_alone(path)] or [path]
        for path in paths
    ]
    files = {scanner.unquote(file) for own in script.commands for file in _written_by(own)}
    return (
        rest[:1] == ["rm"]
        and bool(paths)
        and all(
            _OF_POD.match(own) or own.removeprefix("./") in files
            for texts_of in contents
            for own in texts_of
        )
    )


def _written_by(command: Command) -> list[str]:
    """The files of the folder that is sent which a command writes: ``cat > select_gpu <<EOF``."""
    return [
        target
        for operator, target in command.redirections
        if operator in (">", ">|") and "/" not in target and "$" not in target
    ]


def say_in_loop(reading: ScriptReading, step: Step, statement: Statement) -> None:
    """Say of a step that a loop starts on one node after the other what stands behind it.

    Args:
        reading: the script, and what is known of it.
        step: the step, which runs on all nodes at once here.
        statement: the loop.
    """
    script, body = reading.script, reading.body
    say(
        reading,
        script.text,
        step.command,
        several_steps.list_behind(statement.commands, step.command),
    )
    say_files(reading.main_step, body, step, step.command.redirections)
    if several_steps.is_in_background(script, step) and not statement.in_background:
        why = why_in_background(script, step.command)
        body.say(step.command.line, "&", Outcome.CHANGED, "", why)


def say_evaluated(reading: ScriptReading, main: Step) -> None:
    """Say of a step that an `eval` runs what stands behind its words: ``srun a.out > log``."""
    evaluated = reading.details.evaluated.get(id(main.command))
    if evaluated is None:
        return
    _say_read_again(reading, evaluated.text, main.command.line)
    first, *behind = evaluated.commands
    say(reading, evaluated.text, replace(first, line=main.command.line), behind)
    say_files(reading.main_step, reading.body, main, first.redirections)


# What a shell takes away where it reads a text once more; what a command prints is not known, but
# for what printf quotes.
_QUOTED = re.compile(r"\\[^\n]|\"[^\"]*\"|'[^']*'")
_PRINTED = re.compile(r"\$\((?![^()]*%q)[^()]*\)|`[^`]*`")


def _say_read_again(reading: ScriptReading, text: str, line: int) -> None:
    """Say of variables in a text that an `eval` reads that what they hold is not read once more."""
    held = reading.variables.contents
    quoted = [
        name
        for name in dict.fromkeys(name for name, _ in words.variables(text))
        if any(_QUOTED.search(_PRINTED.sub("", own)) for own in held.get(name, []))
    ]
    if quoted:
        why = "it reads what they hold once more, quotes and all, and the command does not: write "
        why += "the words out"
        path = f"eval of {list_some([f'${name}' for name in quoted])}"
        reading.body.say(line, path, Outcome.NOT_CARRIED, "", why)


def say_files(
    main_step: MainStep, body: Body, main: Step, redirections: Sequence[tuple[str, str]]
) -> None:
    """Say what becomes of the files that a step reads its input from, and writes to."""
    line = main.command.line
    for operator, target in redirections:
        is_mpirun = not main.is_srun and words.any_of(main.words, words.MPIRUN)
        if operator == "<" and is_mpirun and body.workload == "mpi":
            main_step.input = target
            body.say(line, f"{operator} {target}", Outcome.CARRIED, "command")
        elif operator in ("<", "<<", "<<<", "<<-", "<&") and target != "-":
            why = "ranks have no standard input: let the program read the file"
            body.say(line, f"{operator} {target}", Outcome.NOT_CARRIED, "", why)
        elif operator != "<&" and not target.isdigit():
            body.say(line, f"{operator} {target}", Outcome.CHANGED, "", OF_LOG)
