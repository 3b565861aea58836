"""What a command line runs: the program, and what starts it.

`workload` follows from what is run, and not from the kind of the object that runs it. Where
torchrun starts the program, torchrun and its flags are taken off, because the chart's launcher is
torchrun itself; mpirun stays, because the mpi chart calls it as it is typed. deepspeed starts ranks
as torchrun does, and is taken off likewise, unless it does more than that. A launcher of another
kind (accelerate), and a torchrun inside of a script that cannot be taken apart, is run as it is by
one process in each pod, as the old controller ran it.

It is long, because the launchers know of each other: what is behind one may be another.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks.convert.programs import (
    deepspeed_words,
    env_words,
    environment_runners,
    local_ranks,
    preparation,
    references,
    shell,
    shell_arguments,
    torchrun_words,
)
from allranks.convert.programs.shell_arguments import program_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


__all__ = [
    "Program",
    "Runner",
    "arriving",
    "as_shell",
    "read",
    "starters",
]


class Runner(StrEnum):
    """What starts the processes of a program."""

    TORCHRUN = "torchrun"
    MPIRUN = "mpirun"
    HOROVODRUN = "horovodrun"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
    COMPOSER = "composer"
    SRUN = "srun"
    PLAIN = "a program"
    NESTED = "a script that starts torchrun"


@dataclass(frozen=True, slots=True)
class Program:
    """What a command line runs.

    Attributes:
        runner: what starts the processes.
        command: what each process runs; with mpirun and with a nested launcher the whole of it.
        setup: shell that runs before it, once in each pod.
        working_dir: where it starts; "" where the command does not say.
        options: the runner's options by name, dashes for underscores: "nproc-per-node": "8".
        values: the values that these options are here, without the size of the job.
        changes: what is other than it was typed, as reasons.
        lost: what is not carried, as reasons.
        notes: what a person should know, as sentences.
        is_alone: whether the launcher that is taken off knew of no other pod.
        hosts_file: the file without which it knows of none; "" where that is not all.
        scripts: the texts of files that it runs.
        is_unseen: whether it runs a file whose text nobody has.
    """

    runner: Runner
    command: tuple[str, ...]
    setup: str = ""
    working_dir: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    changes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    is_alone: bool = False
    hosts_file: str = ""
    scripts: tuple[str, ...] = ()
    is_unseen: bool = False

    @property
    def workload(self) -> str:
        """The chart that runs it."""
        return "mpi" if self.runner in (Runner.MPIRUN, Runner.HOROVODRUN) else "torchrun"

    @property
    def is_nested(self) -> bool:
        """Whether each pod runs it once, and it starts its own processes."""
        return self.runner in NESTED


# Launchers that start the ranks of their node themselves.
NESTED = frozenset({Runner.ACCELERATE, Runner.DEEPSPEED, Runner.COMPOSER, Runner.NESTED})
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_TORCH_MODULES = (
    *("torch.distributed.run", "torch.distributed.launch"),
    "dlrover.trainer.torch.elastic_run",
)
_MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "mpirun.real")
_RUNNERS = {
    **dict.fromkeys(_MPIRUN, Runner.MPIRUN),
    "horovodrun": Runner.HOROVODRUN,
    "accelerate": Runner.ACCELERATE,
    "accelerate-launch": Runner.ACCELERATE,
    "deepspeed": Runner.DEEPSPEED,
    "srun": Runner.SRUN,
    "ft_launcher": Runner.NESTED,  # NVIDIA's resiliency extension has a torchrun of its own
    # Programs that start torchrun or accelerate themselves, for the GPUs of their machine.
    **dict.fromkeys(
        ("llamafactory-cli", "lmf", "colossalai", "swift", "axolotl", "xtuner", "oumi", "trl"),
        Runner.NESTED,
    ),
}
# What a shell makes torchrun of: $(which torchrun), ${TORCHRUN:-torchrun}.
_TORCHRUN_IN_SHELL = re.compile(r"(?:[$`].*\s|:-)torchrun(?![\w.-])")
# Text of Python's that starts a launcher.
_LAUNCHES = re.compile(r"torchrun|torch\.distributed\.run|accelerate.{1,5}launch|deepspeed")
# What a rank is told, and a setup is not.
_OF_RANKS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "PET_*")
_OF_TASKS = ("SLURM_PROCID", "SLURM_LOCALID")  # each rank's of srun
# Words that run another command as it is, and those of them whose options are dropped.
_WITH_OPTIONS = (["stdbuf"], ["tini"], ["time"])
_WRAPPERS = ("exec", "nohup", "time", "command", "stdbuf", "unbuffer", "tini", "dumb-init", "env")
_RESERVED_IN_FRONT = re.compile(r"(?:(?<![^\s;&|])(?:!|coproc|time(?:[ \t]+-p)?)(?:[ \t]|\\\n)+)+$")
UNTIMED = "`time` is left out, and so is the line in which it said how long the program ran"
POD_STAYS = (
    "the script ends with what only keeps its pod, so that no pod ever ends or gives back its GPUs"
    ": leave that out where the run shall be done"
)
IN_EACH_RANK = "it has shell in it, which each process runs for itself"
_EMPTY: tuple[str, ...] = ()


def read(
    command: Sequence[str], args: Sequence[str] = (), env: Mapping[str, str] | None = None
) -> Program:
    """What the words of a container run.

    Args:
        command: its command.
        args: its args.
        env: its variables whose text is known, for options like ``--nproc_per_node=$NPROC``.

    Returns:
        The program. Its `command` is empty where the container's words are.
    """
    words = (*command, *args)
    variables = dict(env or {})
    script = shell_arguments.script_of(words)
    if script is not None:
        read_script = _with_arguments if script[2] else _of_script
        program = read_script(words, variables)
        is_own = program.command[:1] != words[:1]
        return _unwrapping(program, shell_arguments.starters(words)) if is_own else program
    program, _ = _of_words([_option(word, variables) for word in words], variables)
    command, is_changed = references.expanded(program.command, variables)
    if is_changed:
        program = replace(program, command=command, changes=(*program.changes, _PUT_IN))
    return program


def starters(words: Sequence[str]) -> set[Runner]:
    """What starts the processes of the commands in a container's words."""
    script = shell_arguments.script_of(words)
    if script is None:
        return {_runner(_unwrapped(words)[1])}
    return {_runner(_unwrapped(_texts(command))[1]) for command in shell.parse(script[1]) or ()}


def deepspeeds(words: Sequence[str]) -> Iterator[Sequence[str]]:
    """What follows each deepspeed of the commands in a container's words."""
    script = shell_arguments.script_of(words)
    commands = [list(words)] if script is None else map(_texts, shell.parse(script[1]) or ())
    for command in commands:
        _, inner = _unwrapped(command)
        if _runner(inner) is Runner.DEEPSPEED:
            yield inner[1:]


def shell_scripts(words: Sequence[str]) -> list[str]:
    """The files of shell that a container's words run: run.sh of ``bash run.sh`` and ``./run.sh``.

    Those that a shell reads into itself (``source env.sh``) only prepare what it runs.

    Args:
        words: the words.
    """
    script = shell_arguments.script_of(words)
    parsed = [list(words)] if script is None else map(_texts, shell.parse(script[1]) or ())
    return [file for texts in parsed if (file := _shell_script(_unwrapped(texts)[1]))]


def shell_in_pipe(words: Sequence[str]) -> str:
    """The shell of a container's words that runs what it reads: ``wget URL | bash``; "" for none.

    Args:
        words: the words.
    """
    script = shell_arguments.script_of(words)
    parsed = (shell.parse(script[1]) or []) if script is not None else []
    for before, command in itertools.pairwise(parsed):
        names = [word for word in _texts(command)[1:] if not word.startswith("-")]
        is_shell = command.program in shell_arguments.SHELLS and (
            not names or "-s" in _texts(command)
        )
        if before.after in ("|", "|&") and is_shell:
            return command.program
    return ""


def _shell_script(words: Sequence[str]) -> str:
    if not words or program_name(words[0]) not in shell_arguments.SHELLS:
        return words[0] if words and words[0].endswith(_SCRIPT_ENDS) else ""
    names = (word for word in words[1:] if not word.startswith("-"))
    has_text = any(map(shell_arguments.is_script_flag, words[1:]))
    return "" if has_text else next(names, "")


_SCRIPT_ENDS = (".sh", ".bash")


def as_shell(words: Sequence[str]) -> str:
    """Words as a line of a shell."""
    return " ".join(shell.quote(word) for word in words)


def _option(word: str, env: Mapping[str, str]) -> str:
    """A word; the option that Kubernetes puts in its place, where it is all a variable's."""
    match = re.fullmatch(r"\$\(([A-Za-z_]\w*)\)", word)
    value = env.get(match[1], "") if match is not None else ""
    return value if value.startswith("--") and not value.split()[1:] else word


def _of_script(words: Sequence[str], env: Mapping[str, str]) -> Program:
    """What the text of ``bash -c`` runs: its last command, after a setup."""
    text = references.in_shell((shell_arguments.script_of(words) or ("", "", ()))[1], env)
    own = shell_arguments.own_words(words)
    whole = (*words[:-1], text)
    parsed = shell.parse(text)
    if parsed and len(parsed) > 1 and (settings := shell_arguments.settings(words)):
        text = settings + text
        parsed = shell.parse(text)
    if not parsed or any(_runner(held) is not Runner.PLAIN for held in _held(parsed)):
        return _whole(whole, text)
    variables = dict(env)
    for command in parsed:
        for assignment in (*command.assignments, *_exports(command)):
            name, _, value = assignment.text.partition("=")
            if re.fullmatch(r"\"?[0-9]+\"?", value):
                variables[name] = value.strip('"')
    places = [index for index, command in enumerate(parsed) if _starts_ranks(command)]
    last = places[-1] if places else len(parsed) - 1
    main = parsed[last]
    leading, reserved = _before(text[: main.start])
    behind = [command for command in parsed[last + 1 :] if not _is_idle(command)]
    before = parsed[:last]
    ok = (
        len(places) <= 1
        and not behind
        and main.depth == 0
        and not {"!", "coproc"} & reserved
        and main.after in ("", "\n", ";")
        and not main.redirections
        and all(command.after not in ("|", "|&", "||") for command in before[-1:])
        and all(command.program != "trap" for command in before)  # the shell must outlive the ranks
        and bool(main.words)
        and not shell.does_itself(main.program, text)
    )
    if ok and (options := _options_in_shell(main, variables)):
        note = f"options of its torchrun are in {options}: each pod runs it once, as before"
        return Program(Runner.NESTED, whole, notes=(note,))
    if not places and before:  # what stands before may be what the pods are for, and no setup
        earlier = (_unwrapped(_texts(command))[1] for command in before)
        is_last = preparation.is_afterwards(main.program)
        ok = ok and not is_last and not any(map(preparation.may_train, earlier))
    if not ok:
        return _whole(whole, text)
    result = _unwrapping(_of_shell_command(main, own, variables), sorted(reserved))
    if not preparation.stops(words, parsed) and not _ends_as_its_program(parsed[last + 1 :]):
        why = f"its exit code is the pod's, and not that of the {parsed[-1].program} behind it"
        result = replace(result, changes=(*result.changes, why))
    profile = shell_arguments.profile_flags(words)
    if profile and result.runner not in (Runner.TORCHRUN, Runner.PLAIN):
        return _whole(whole, text)
    if profile:
        result = _with_profile(result, own)
    of_ranks = (*_OF_RANKS, *(_OF_TASKS if result.runner is Runner.PLAIN else ()))
    if references.mentions((leading,), of_ranks):
        # A setup runs before there are ranks: it would read nothing.
        return _whole(whole, text)
    return _with_setup(result, leading, before, whole)


def _before(text: str) -> tuple[str, set[str]]:
    """What stands before a command, and the reserved words that belong to it: `time` in front."""
    match = _RESERVED_IN_FRONT.search(text)
    return (text, set()) if match is None else (text[: match.start()], set(match[0].split()))


def is_timed(text: str) -> bool:
    """Whether what stands before a command ends with a shell's own `time`.

    Args:
        text: a script up to the command.
    """
    return "time" in _before(text)[1]


def _with_profile(result: Program, own: tuple[str, ...]) -> Program:
    """A program that a shell starts which reads a person's files first: they may say where it is.

    Args:
        result: the program.
        own: the shell and its flags: ``bash -lc``.
    """
    why = "the shell reads its profile first, in each process"
    command = (*own, _line(result.command, own))
    return replace(result, command=command, changes=(*result.changes, why))


def _line(command: tuple[str, ...], own: tuple[str, ...]) -> str:
    """A command as a line of a shell, which may be the one of the command itself.

    Args:
        command: the command.
        own: the shell and its flags.
    """
    return command[-1] if command[:-1] == own else f"exec {as_shell(command)}"


def _exports(command: shell.ShellCommand) -> tuple[shell.Word, ...]:
    if command.program not in ("export", "declare"):
        return ()
    return tuple(word for word in command.words[1:] if "=" in word.text)


def _is_idle(command: shell.ShellCommand) -> bool:
    """Whether a command behind the program changes nothing about how it ends."""
    return command.program in ("echo", "true", "wait", "exit", "date") and command.depth == 0


def _ends_as_its_program(behind: Sequence[shell.ShellCommand]) -> bool:
    """Whether a script whose program stands before these commands has the program's exit code."""
    codes = [word.text.strip('"') for command in behind[:1] for word in command.words[1:]]
    return not behind or (
        len(behind) == 1 and behind[0].program == "exit" and codes in ([], ["$?"])
    )


def _starts_ranks(command: shell.ShellCommand) -> bool:
    values = [word.value if word.value is not None else word.text for word in command.words]
    return _runner(_unwrapped(values)[1]) is not Runner.PLAIN


def _with_arguments(words: Sequence[str], env: Mapping[str, str]) -> Program:
    """A script as it is, with the words behind it, which may be the command that it runs: "$@"."""
    _, text, rest = shell_arguments.script_of(words) or ("", "", ())
    text = references.in_shell(text, env)
    own = (*words[: len(words) - len(rest) - 1], text)
    program = _whole((*own, *rest), text)
    runners = {_runner(_unwrapped(rest[start:])[1]) for start in range(2) if rest[start:]}
    if program.runner is Runner.PLAIN and _ARGUMENTS.search(text) and runners != {Runner.PLAIN}:
        starts_mpi = bool(runners & {Runner.MPIRUN, Runner.HOROVODRUN})
        note = "the script runs the words behind it, which start ranks: each pod runs it once"
        program = replace(
            program,
            runner=Runner.MPIRUN if starts_mpi else Runner.NESTED,
            notes=program.notes if starts_mpi else (note, *program.notes),
        )
    command, is_changed = _expanded_arguments(own, rest, env)
    changes = (*program.changes, _PUT_IN) if is_changed else program.changes
    return replace(program, command=command, changes=changes)


# The words behind a script, in it: "$@", "${@:0}", "$0".
_ARGUMENTS = re.compile(r"\$\{?[@*0-9]")
_PUT_IN = "Kubernetes put $(NAME) in; a shell does it here, in each process"


def _expanded_arguments(
    script: tuple[str, ...], rest: tuple[str, ...], env: Mapping[str, str]
) -> tuple[tuple[str, ...], bool]:
    """A shell's words up to its script, with those behind it as its process gets them."""
    expanded, is_changed = references.expanded(rest, env)
    if not is_changed:
        return (*script, *expanded), False
    line = f"exec {as_shell(script)} {expanded[-1].removeprefix('exec ')}"
    return (*expanded[:-1], line), True


def _whole(words: tuple[str, ...], text: str) -> Program:
    """A script as it is: each process runs it, or each pod where it starts processes itself."""
    parsed = shell.parse(text) or []
    keeps_pod = len(parsed) > 1 and preparation.keeps_pod(_texts(parsed[-1]))
    notes = (POD_STAYS,) if keeps_pod else ()
    runners = [_runner(_unwrapped(_texts(command))[1]) for command in parsed]
    runners += [_runner(held) for held in _held(parsed)]
    if any(runner in (Runner.MPIRUN, Runner.HOROVODRUN) for runner in runners):
        return Program(Runner.MPIRUN, words, notes=notes)
    if not parsed and references.mentions((text,), ("mpirun", "mpiexec")):
        return Program(Runner.MPIRUN, words)
    nested = any(runner is not Runner.PLAIN for runner in runners)
    if not parsed:
        nested = bool(
            references.mentions(
                (text,), ("torchrun", "hyperpodrun", *_TORCH_MODULES, "accelerate", "deepspeed")
            )
        )
    if nested:
        note = (
            f"the script starts {_launcher(parsed)} itself, between other commands: each pod runs "
            "the script once, as before"
        )
        return Program(Runner.NESTED, words, notes=(note, *notes))
    return Program(Runner.PLAIN, words, notes=notes)


def _held(parsed: Sequence[shell.ShellCommand]) -> list[list[str]]:
    """The words of commands that variables hold: ``CMD="torchrun t.py"; $CMD``."""
    calls = {
        match[1]
        for command in parsed
        for word in command.words[:1]
        if (match := _CALL.fullmatch(word.text))
    }
    result = []
    for command in parsed:
        for assignment in (*command.assignments, *_exports(command)):
            name, _, value = assignment.text.partition("=")
            words = value.strip("()").strip("\"'").split()
            if name.removesuffix("+") in calls and words:
                result.append(_unwrapped(words)[1])
    return result


# A command that is all a variable's: $CMD, "${CMD[@]}".
_CALL = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?:\[[@*]\])?\}?\"?")


def _launcher(parsed: Sequence[shell.ShellCommand]) -> str:
    """The name of what starts a script's ranks: torchrun, or another program that does."""
    for command in parsed:
        words = _unwrapped(_texts(command))[1]
        name = program_name(words[0]) if words else ""
        runner = _runner(words)
        if runner is not Runner.PLAIN and name in (*_TORCHRUNS, *_RUNNERS):
            return name
        if runner is Runner.COMPOSER:
            return "composer"
    return "torchrun"


def _texts(command: shell.ShellCommand) -> list[str]:
    return [word.value if word.value is not None else word.text for word in command.words]


def _of_shell_command(
    command: shell.ShellCommand, own_words: tuple[str, ...], env: Mapping[str, str]
) -> Program:
    """What a simple command of a shell runs, which has these words with its flags."""
    words = _texts(command)
    wrappers, inner = _unwrapped(words)
    own = command.words[len(words) - len(inner) :]
    result, count = _of_words(inner, env, is_shell=True)
    result = _unwrapping(result, wrappers)
    program_words = own[len(own) - count :] if count else ()
    prefix = result.command[: len(result.command) - count]
    assignments = " ".join(word.text for word in command.assignments)
    of_env = _of_env([word.text for word in command.words[: len(wrappers)]])
    if result.runner is Runner.TORCHRUN and of_env != env_words.without_emptying(of_env):
        of_env = env_words.without_emptying(of_env)
        result = replace(result, changes=(*result.changes, env_words.EMPTIED))
    is_plain = all(word.is_plain for word in program_words) and not assignments and not of_env
    if result.runner is Runner.PLAIN and not result.options and is_plain:
        return replace(result, command=tuple(str(word.value) for word in program_words))
    if is_plain:
        return result
    line = " ".join(("exec", *map(shell.quote, prefix), *(word.text for word in program_words)))
    if of_env:
        line = line.replace("exec ", f"exec env {' '.join(of_env)} ", 1)
    if assignments:
        line = f"export {assignments}; {line}"
    why = IN_EACH_RANK
    return replace(result, command=(*own_words, line), changes=(*result.changes, why))


def _options_in_shell(command: shell.ShellCommand, env: Mapping[str, str]) -> str:
    """What a shell puts into a torchrun's words that has options of torchrun's; "" for nothing.

    It stands where the script would, which comes behind it: ``torchrun $ARGS train.py``.
    """
    inner = _unwrapped(_texts(command))[1]
    if _runner(inner) is not Runner.TORCHRUN:
        return ""
    _, count = _of_words(inner, env, is_shell=True)
    words = command.words[len(command.words) - count :] if count else ()
    text = words[0].text if words else ""
    is_one_word = re.fullmatch(r'"\$\{?[A-Za-z_]\w*\}?"', text) is not None
    if not words or words[0].is_plain or is_one_word or "/" in text or text.endswith(".py"):
        return ""
    variable = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", text)
    value = env.get(variable[1], "").strip() if variable is not None else ""
    if value:
        return text if value.startswith("-") else ""
    has_script = any(
        _unquoted(word).endswith(".py") or word.value in ("-m", "--module") for word in words[1:]
    )
    return text if has_script else ""


def _unquoted(word: shell.Word) -> str:
    """A word without the quotes around it."""
    return (word.text if word.value is None else word.value).strip("\"'")


# A script's first command, where that says in which folder the rest runs.
_CD = re.compile(r"\s*(?:#[^\n]*\n\s*)*cd\s+\S+\s*(?:&&|;|\n|$)(?:\s|\\\n)*")


def _with_setup(
    result: Program,
    before: str,
    commands: list[shell.ShellCommand],
    whole: tuple[str, ...],
) -> Program:
    """A program with the shell that stood before it in its script."""
    own = shell_arguments.own_words(whole)
    program = own[0]
    typed, typed_commands = before, commands
    by_line = _with_switch(result, own, commands)
    goes_on = not preparation.stops(whole, commands)
    begins_strict = commands[:1] != [] and commands[0].program == "set"
    before, commands, strict = preparation.without_set(before, commands)
    setup, is_chained = preparation.unjoined(before)
    if not setup or not commands:
        return by_line
    first = commands[0]
    target = first.words[1].value if len(first.words[1:]) == 1 else None
    if first.program == "cd" and target and target.startswith("/") and first.after != "||":
        parts = _CD.match(setup)
        if parts is not None:
            setup = setup[parts.end() :]
            result = replace(result, working_dir=target)
            by_line = replace(by_line, working_dir=target)
            commands = commands[1:]
            if not commands:
                return by_line
    profile = shell_arguments.profile_flags(whole)
    posix = preparation.lines_for_shells(setup) if program_name(program) != "sh" else setup
    posix = None if profile else posix
    is_bash = posix is None
    setup = setup if posix is None else posix
    lasting = preparation.lasts(setup) or any(command.assignments for command in commands)
    if is_bash and lasting:
        if result.is_nested or result.workload == "mpi":
            return replace(result, command=whole)
        if result.runner is Runner.TORCHRUN:
            return _with_prelude(result, own, typed, typed_commands)
        return replace(result, command=tuple(word.strip() for word in whole))
    result = by_line
    # What its shell alone ends at is kept where setup may be a shell of its own.
    is_bash |= not lasting and begins_strict and preparation.lost_flags(setup, strict) != ""
    if goes_on and is_bash:  # a shell of its own, whose last command says whether it failed
        setup += "" if is_chained else f"\ntrue  {preparation.WENT_ON}"
    elif goes_on:
        setup = preparation.going_on(setup, is_chained=is_chained)
    elif not is_chained and preparation.may_end_false(setup):
        setup += "\ntrue"
    if is_bash and begins_strict:
        setup = "".join(f"set -{'u' if flag == 'u' else 'o pipefail'}\n" for flag in strict) + setup
        strict = ()
    lost = preparation.lost_flags(setup, strict)
    if _reads_variables(result.command, commands):
        setup = f"set -a  # the command reads these variables, too\n{setup}"
    shell_path = program if program.startswith("/") else f"/bin/{program}"
    flags = profile.strip("-c") + ("" if goes_on else "e")
    shebang = f"#!{shell_path}{flags and f' -{flags}'}\n" if is_bash else ""
    why = "what stands before the program is setup, once in each pod"
    changes = (*result.changes, why, *((lost,) if lost else ()))
    return replace(result, setup=f"{shebang}{setup}\n", changes=changes)


def _with_switch(
    result: Program, own: tuple[str, ...], before: Sequence[shell.ShellCommand]
) -> Program:
    """A program whose line, where it has one, begins with what its script said of unset variables.

    Args:
        result: the program.
        own: the shell and its flags.
        before: the commands that stood before it.
    """
    if result.command[:-1] != own:
        return result
    line = preparation.switch_of_unset(own, before) + result.command[-1]
    return replace(result, command=(*own, line))


def _with_prelude(
    result: Program, own: tuple[str, ...], before: str, commands: Sequence[shell.ShellCommand]
) -> Program:
    """A program with what stood before it in front, as typed, in the shell of each process.

    Args:
        result: the program.
        own: the shell and its flags.
        before: what stood before it, behind what the flags set.
        commands: those of it.
    """
    behind_set = preparation.place_behind_set(commands)
    switches = before[:behind_set].removeprefix(shell_arguments.settings(own).strip()).strip()
    prelude, is_chained = preparation.unjoined(before[behind_set:].lstrip("; \t\n&"))
    if result.working_dir and (parts := _CD.match(prelude)):
        prelude = prelude[parts.end() :]
    line = _line(result.command, own)
    text = f"{prelude} && {{ {line}; }}" if is_chained else f"{prelude}\n{line}"
    command = (*own, f"{switches}\n{text}" if switches else text)
    why = "the shell before it is bash's, and each process runs it"
    return replace(result, command=command, changes=(*result.changes, why))


def _reads_variables(command: Sequence[str], before: Sequence[shell.ShellCommand]) -> bool:
    """Whether a command reads variables that commands before it set without exporting them."""
    names = [
        assignment.text.partition("=")[0].removesuffix("+")
        for earlier in before
        if not earlier.words
        for assignment in earlier.assignments
    ]
    text = "\n".join(command)
    return any(re.search(rf"\$\{{?[#!]?{re.escape(name)}(?!\w)", text) for name in names)


def _of_env(wrappers: Sequence[str]) -> list[str]:
    """The words of an env among wrappers: variables that it sets, and takes out."""
    names = list(map(program_name, wrappers))
    return env_words.own(wrappers[names.index("env") + 1 :]) if "env" in names else []


def _unwrapped(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without those in front that run the rest as it is, and these."""
    at = 0
    while at < len(words) - 1:
        word = program_name(words[at])
        wrappers = [name for name in map(program_name, words[:at]) if name in _WRAPPERS]
        is_behind_env = "env" in wrappers
        is_of_env = is_behind_env and env_words.is_own(words, at)
        is_option = words[at].startswith("-") and wrappers[-1:] in _WITH_OPTIONS
        if not (word in _WRAPPERS or word == "--" or is_of_env or is_option):
            break
        has_value = is_option and wrappers[-1:] == ["stdbuf"] and words[at] in ("-i", "-o", "-e")
        has_value |= is_of_env and words[at] in env_words.WITH_VALUE
        at += 1 + has_value
    at = min(at, len(words) - 1)
    return list(words[:at]), list(words[at:])


def _runner(words: Sequence[str]) -> Runner:
    """What the first words of a command start."""
    if not words:
        return Runner.PLAIN
    program, module = program_name(words[0]), _module(words) or ""
    if start := environment_runners.program_start([program, *words[1:]]):
        runner = _runner(words[start:])
        return Runner.NESTED if runner is Runner.TORCHRUN else runner
    if is_tune(words) or _torchrun_place(words):
        return Runner.TORCHRUN
    if program == "accelerate" and "launch" not in words[1:2]:
        return Runner.PLAIN
    return _runner_of_name(words, program, module)


def _runner_of_name(words: Sequence[str], program: str, module: str) -> Runner:
    """What a launcher that is no torchrun starts, by its name or its module's."""
    if module.startswith("accelerate.commands.launch"):
        return Runner.ACCELERATE
    if module.startswith("torch.distributed.") or any(map(_TORCHRUN_IN_SHELL.search, words[:2])):
        return Runner.NESTED
    if launches_torchrun(words):
        return Runner.NESTED
    runner = Runner.COMPOSER if is_composer(words) else _RUNNERS.get(program, Runner.PLAIN)
    return _runner_within(words) if runner is Runner.PLAIN else runner


def _runner_within(words: Sequence[str]) -> Runner:
    """What a program of another kind starts, as by the text that it hands to a shell."""
    if _starts_torchrun(words):
        return Runner.NESTED
    runners = {
        _runner(_unwrapped(_texts(command))[1])
        for text in shell_arguments.texts_for_shells(words)
        for command in shell.parse(text) or ()
    } - {Runner.PLAIN}
    if runners & {Runner.MPIRUN, Runner.HOROVODRUN}:
        return Runner.MPIRUN
    return Runner.NESTED if runners else Runner.PLAIN


# torchrun_jsc is that of Jülich's, which finds rank 0 by the name of another of its networks.
_TORCHRUNS = ("torchrun", "dlrover-run", "hyperpodrun", "torchrun_jsc")


def _starts_torchrun(words: Sequence[str]) -> bool:
    """Whether a program of another kind is given a torchrun to start, as a profiler is."""
    if _PYTHON.fullmatch(words[0]) and words[_script_place(words) :][:1] == ["-c"]:
        return _LAUNCHES.search(" ".join(words)) is not None
    if _PYTHON.fullmatch(words[0]) or program_name(words[0]) in (
        *shell_arguments.SHELLS,
        "echo",
        "which",
        "pip",
    ):
        return False
    return any(
        program_name(word) in _TORCHRUNS or _module(words[at:]) in _TORCH_MODULES
        for at, word in enumerate(words[:-1])
        if at
    )


def is_tune(words: Sequence[str]) -> bool:
    """Whether words are ``tune run --nproc_per_node 8 RECIPE``: torchtune's torchrun."""
    if len(words) < 3 or program_name(words[0]) != "tune":  # noqa: PLR2004 - tune, run and a flag
        return False
    return words[1] == "run" and words[2].startswith("-")


def launches_torchrun(words: Sequence[str]) -> bool:
    """Whether words are the command of a program with several that starts torchrun's ranks.

    ``fabric run`` and ``lightning run model`` of PyTorch Lightning, ``colossalai run``, and a
    ``torchx run`` whose scheduler is the machine itself.
    """
    program = program_name(words[0]) if words else ""
    commands_of_program = (" ".join((program, *words[1:end])) for end in (2, 3))
    if not _LAUNCHING.isdisjoint(commands_of_program):
        return True
    is_torchx = program == "torchx" and list(words[1:2]) == ["run"]
    return is_torchx and _LOCAL_SCHEDULER.search(" ".join(words)) is not None


_LAUNCHING = frozenset({"fabric run", "lightning run model", "colossalai run"})
_LOCAL_SCHEDULER = re.compile(r"\s(?:-s|--scheduler)[= ]?local(?:_cwd)?(?=\s)")


def is_composer(words: Sequence[str]) -> bool:
    """Whether words are ``composer -n 8 train.py``, MosaicML's launcher, and not PHP's program."""
    is_of_python = any(word.endswith(".py") for word in words)
    return is_of_python and program_name(words[0]) == "composer"


def _module(words: Sequence[str]) -> str | None:
    """The module of ``python -m module``; None for anything else."""
    if not words or not _PYTHON.fullmatch(words[0]):
        return None
    option, *rest = (*words[_script_place(words) :], "")
    return rest[0] or None if option == "-m" else None


def _script_place(words: Sequence[str]) -> int:
    """Where Python's options end: at its script, or at ``-m`` or ``-c``; the end for neither."""
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c", "-"):
        at += 1 + (words[at] in _PYTHON_OPTIONS)
    return min(at, len(words))


# Python's options that take the next word.
_PYTHON_OPTIONS = ("-X", "-W", "--check-hash-based-pycs")


def _torchrun_place(words: Sequence[str]) -> int:
    """Where torchrun's own words begin; 0 where the words are none of torchrun's.

    ``torchrun``, ``python -m torch.distributed.run``, ``python /usr/bin/torchrun``.
    """
    if not words:
        return 0
    if program_name(words[0]) in _TORCHRUNS:
        return 1
    if not _PYTHON.fullmatch(words[0]):
        return 0
    at = _script_place(words)
    if _module(words) in _TORCH_MODULES:
        return at + 2
    return at + 1 if at < len(words) and program_name(words[at]) in _TORCHRUNS else 0


def _of_words(
    words: Sequence[str], env: Mapping[str, str], *, is_shell: bool = False
) -> tuple[Program, int]:
    """What words run, and how many of them at the end are the program's own."""
    wrappers, inner = _unwrapped(words)
    runner = _runner(inner)
    if runner is Runner.TORCHRUN:
        start = _torchrun_place(inner)
        before: tuple[str, ...] = (inner[0] if _PYTHON.fullmatch(inner[0]) else "python3", "-u")
        if is_tune(inner):
            start, before = 2, tuple(inner[:2])  # without flags, it runs its recipe itself
        program, count = _torchrun(inner[start:], before, env)
        if _module(inner) == "torch.distributed.launch" and "use-env" not in program.options:
            program = _with_local_rank(program, count)
        of_env = _of_env(wrappers)
        assignments = env_words.without_emptying(of_env)
        if len(assignments) < len(of_env):
            program = replace(program, changes=(*program.changes, env_words.EMPTIED))
        if assignments and not is_shell:
            program = replace(program, command=("env", *assignments, *program.command))
        return _unwrapping(program, wrappers), count
    is_deepspeed = runner is Runner.DEEPSPEED and program_name(inner[0]) == runner
    if is_deepspeed and (launch := deepspeed_words.read(inner[1:])) is not None:
        program, count = _deepspeed(launch, () if is_shell else tuple(wrappers), env)
        return _unwrapping(program, wrappers), count
    command = tuple(inner if is_shell else words)
    notes = (_WRAPPED.format(inner[0]),) if runner is Runner.NESTED else ()
    return Program(runner, command, notes=notes), len(command)


def _with_local_rank(program: Program, count: int) -> Program:
    """A program whose script, which its last `count` words begin with, gets --local-rank."""
    if count == 0:
        return program
    place = len(program.command) - count
    python, rest = program.command[:place], program.command[place:]
    return replace(
        program,
        command=(*local_ranks.with_option(python), *rest),
        notes=(*program.notes, local_ranks.OF_LAUNCH),
    )


def _unwrapping(program: Program, wrappers: Sequence[str]) -> Program:
    """A program taken off the words in front of it, which says what went with them."""
    names = list(map(program_name, wrappers))
    changes = [UNTIMED] if "time" in names else []
    changes += [_NO_INIT.format(name) for name in shell_arguments.INITS if name in names]
    return replace(program, changes=(*program.changes, *changes)) if changes else program


_NO_INIT = "{} is left out: the chart's launcher is the first process of its container"


_WRAPPED = "{} starts torchrun: each pod runs it once, as before"


_LOCAL_RANK = (
    "deepspeed gives a script --local_rank, and so does the command here; with a script that reads "
    "LOCAL_RANK it may be python3 and the script alone"
)


_AS_DEEPSPEED = (
    "torchrun starts the ranks, as deepspeed did; each has one thread of OpenMP's unless "
    "OMP_NUM_THREADS says otherwise, which deepspeed set for none"
)


def _deepspeed(
    launch: deepspeed_words.DeepspeedLaunch, wrappers: tuple[str, ...], env: Mapping[str, str]
) -> tuple[Program, int]:
    """Deepspeed taken off what it runs, and how many words of that are the program's own."""
    values, lost = torchrun_words.values_of(launch.options, env)
    assignments = env_words.without_emptying(_of_env(wrappers))
    program = Program(
        Runner.TORCHRUN,
        ("env", *assignments, *launch.command) if assignments else launch.command,
        options=launch.options,
        values=values,
        changes=(_AS_DEEPSPEED, *launch.changes),
        lost=(*launch.unknown, *lost),
        notes=(_LOCAL_RANK,) if launch.gives_local_rank else (),
        is_alone=launch.is_alone,
        hosts_file=launch.hosts_file,
    )
    return program, launch.rest


def arriving(
    words: Sequence[str], env: Mapping[str, str] | None = None
) -> tuple[tuple[str, ...], bool]:
    """A container's words as its process gets them, with a shell where Kubernetes put variables in.

    Args:
        words: its command and args.
        env: its variables whose text is known.

    Returns:
        The words, and whether a shell puts something in.
    """
    script = shell_arguments.script_of(words)
    if script is None:
        return references.expanded(tuple(words), env or {})
    at = len(words) - len(script[2]) - 1
    text = references.in_shell(script[1], env or {})
    own = (*words[:at], text)
    expanded, is_changed = _expanded_arguments(own, script[2], env or {})
    return expanded, is_changed or text != script[1]


def _torchrun(
    words: Sequence[str], before: Sequence[str], env: Mapping[str, str]
) -> tuple[Program, int]:
    """Torchrun taken off what it runs, and how many words that is."""
    launch = torchrun_words.read(words, before)
    values, lost = torchrun_words.values_of(launch.options, env)
    hooks = [name for name in launch.of_hyperpod if "-train-" in name]
    program = Program(
        Runner.TORCHRUN,
        launch.command,
        options=launch.options,
        values=values,
        changes=(
            "torchrun and its rendezvous are the chart's",
            *launch.changes,
            *(f"DLRover's --{name} is not done" for name in launch.of_dlrover),
            *(
                f"HyperPod's --{name} is not done"
                for name in launch.of_hyperpod
                if name not in hooks
            ),
        ),
        lost=(
            *launch.unknown,
            *lost,
            *(f"--{name}: run it in setup or in the program" for name in hooks),
        ),
    )
    return program, launch.rest
