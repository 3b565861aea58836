"""What a command line runs: the program, and what starts it.

`workload` follows from what is run, and not from the kind of the object that runs it. Where
torchrun starts the program, torchrun and its flags are taken off, because the chart's launcher is
torchrun itself; mpirun stays, because the mpi chart calls it as it is typed. A launcher of another
kind (accelerate, deepspeed), and a torchrun inside of a script that cannot be taken apart, is run as
it is by one process in each pod, as the old controller ran it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks.convert import shell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Runner(StrEnum):
    """What starts the processes of a program."""

    TORCHRUN = "torchrun"
    MPIRUN = "mpirun"
    HOROVODRUN = "horovodrun"
    ACCELERATE = "accelerate"
    DEEPSPEED = "deepspeed"
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

    @property
    def workload(self) -> str:
        """The chart that runs it."""
        return "mpi" if self.runner in (Runner.MPIRUN, Runner.HOROVODRUN) else "torchrun"

    @property
    def is_nested(self) -> bool:
        """Whether each pod runs it once, and it starts its own processes."""
        return self.runner in (Runner.ACCELERATE, Runner.DEEPSPEED, Runner.NESTED)


# torchrun's options that have a value, and the value of ours; "" where the chart decides it.
TORCHRUN_OPTIONS: dict[str, str] = {
    "nnodes": "",
    "nproc-per-node": "",
    "node-rank": "",
    "master-addr": "",
    "master-port": "",
    "rdzv-backend": "rdzvBackend",
    "rdzv-endpoint": "",
    "rdzv-id": "",
    "rdzv-conf": "rdzvConf",
    "max-restarts": "maxRestarts",
    "monitor-interval": "monitorInterval",
    "start-method": "startMethod",
    "event-log-handler": "eventLogHandler",
    "role": "role",
    "log-dir": "logDir",
    "redirects": "redirects",
    "tee": "tee",
    "local-ranks-filter": "localRanksFilter",
    "local-addr": "",
    "logs-specs": "logsSpecs",
    "log-line-prefix-template": "logLinePrefixTemplate",
    "duplicate-stdout-filters": "duplicateStdoutFilters",
    "duplicate-stderr-filters": "duplicateStderrFilters",
    "numa-binding": "numaBinding",
    "signals-to-handle": "signalsToHandle",
    "shutdown-timeout": "shutdownTimeout",
}
# What dlrover-run has besides: by name, whether a value follows.
DLROVER_OPTIONS: dict[str, bool] = {
    "network-check": False,
    "comm-perf-test": False,
    "auto-config": False,
    "auto-tunning": False,
    "exclude-straggler": False,
    "save-at-breakpoint": False,
    "node-unit": True,
    "accelerator": True,
    "training-port": True,
    "numa-affinity": False,
    "membind-policy": True,
    "ucp-device-type": True,
    "precheck": True,
}
TORCHRUN_FLAGS = ("standalone", "module", "no-python", "run-path", "use-env", "virtual-local-rank")
_SHORT = {"-r": "redirects", "-t": "tee", "-m": "module"}
_NUMBERS = ("max-restarts", "shutdown-timeout")
_DECIMALS = ("monitor-interval",)
_PYTHON = re.compile(r"(?:.*/)?(?:python|pypy)[0-9.]*")
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")
_TORCH_MODULES = (
    *("torch.distributed.run", "torch.distributed.launch"),
    "dlrover.trainer.torch.elastic_run",
)
_MPIRUN = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "mpirun.real")
# Words that run another command as it is.
_WRAPPERS = ("exec", "nohup", "time", "command", "stdbuf", "unbuffer", "tini", "dumb-init", "env")
# What a Kubernetes container puts in place of $(NAME).
_REFERENCE = re.compile(r"\$\$|\$\(([-._A-Za-z][-._A-Za-z0-9]*)\)")
# What a shell has that POSIX sh has not.
_BASHISM = re.compile(
    r"\[\[|^\s*(?:source|declare|shopt|function)\b|<\(|<<<|\$\{[^}]*[/^,]|=\(", re.MULTILINE
)
# What a setup leaves behind for the command: it must run in the same shell.
_LASTING = re.compile(
    r"(?:^|[;&|\n])\s*(?:export|cd|source|\.|set|ulimit|umask|unset|conda|eval|module)\b"
)
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
    script = _script_of(words)
    if script is not None:
        return _of_script(*script, variables)
    program, _ = _of_words(words, variables)
    command, is_changed = expanded(program.command)
    if is_changed:
        why = "Kubernetes put $(NAME) in; a shell does it here, in each process"
        program = replace(program, command=command, changes=(*program.changes, why))
    return program


def number(text: str, env: Mapping[str, str] | None = None) -> int | None:
    """The whole number that a word stands for.

    Args:
        text: ``8``, ``$NPROC``, ``${NPROC:-8}``, ``$(NPROC)``.
        env: the variables whose text is known.

    Returns:
        None where it is none, or none that is known.
    """
    text = text.strip().strip('"')
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    match = re.fullmatch(
        r"\$\{?([A-Za-z_][A-Za-z0-9_]*)(?::?-([0-9]+))?\}?|\$\(([A-Za-z_][A-Za-z0-9_]*)\)", text
    )
    if match is None:
        return None
    value = (env or {}).get(match[1] or match[3] or "", match[2] or "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None


def mentions(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """The variables among `names` that a command reads, in their order.

    Args:
        words: the command, or scripts.
        names: names of variables; one that ends with ``*`` is the start of names.
    """
    text = "\n".join(words)
    read_names: list[str] = []
    for name in names:
        pattern = re.escape(name.rstrip("*")) + (r"[A-Za-z0-9_]*" if name.endswith("*") else "")
        match = re.search(rf"(?<![A-Za-z0-9_]){pattern}(?![A-Za-z0-9_])", text)
        if match is not None and match[0] not in read_names:
            read_names.append(match[0])
    return read_names


def as_shell(words: Sequence[str]) -> str:
    """Words as a line of a shell."""
    return " ".join(shell.quote(word) for word in words)


def _script_of(words: Sequence[str]) -> tuple[str, str, tuple[str, ...]] | None:
    """The shell, the text and the arguments of ``bash -c "…" args``; None for anything else."""
    at = 0
    while at < len(words) and _base(words[at]) in ("exec", "nohup", "tini", "dumb-init", "--"):
        at += 1
    if at >= len(words) or _base(words[at]) not in _SHELLS:
        return None
    program = words[at]
    for place in range(at + 1, len(words)):
        word = words[place]
        if re.fullmatch(r"-[a-z]*c", word):
            if place + 1 >= len(words):
                return None
            return program, words[place + 1], tuple(words[place + 2 :])
        if not word.startswith("-") and words[place - 1] not in ("-o", "+o"):
            return None
    return None


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _of_script(program: str, text: str, rest: tuple[str, ...], env: Mapping[str, str]) -> Program:
    """What a shell's text runs: its last command, after a setup."""
    whole = (program, "-c", text, *rest)
    text = _without_references(text)
    parsed = shell.parse(text)
    if not parsed or rest:
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
    behind = [command for command in parsed[last + 1 :] if not _is_idle(command)]
    before = parsed[:last]
    ok = (
        len(places) <= 1
        and not behind
        and main.depth == 0
        and main.after in ("", "\n", ";")
        and not main.redirections
        and all(command.after not in ("|", "|&", "||") for command in before[-1:])
        and bool(main.words)
    )
    if not ok:
        return _whole(whole, text)
    found = _of_shell_command(main, program, text, variables)
    return _with_setup(found, text[: main.start], before, program, whole)


def _exports(command: shell.Command) -> tuple[shell.Word, ...]:
    if command.program not in ("export", "declare"):
        return ()
    return tuple(word for word in command.words[1:] if "=" in word.text)


def _is_idle(command: shell.Command) -> bool:
    """Whether a command behind the program changes nothing about how it ends."""
    return command.program in ("echo", "true", "wait", "exit", "date") and command.depth == 0


def _starts_ranks(command: shell.Command) -> bool:
    values = [word.value if word.value is not None else word.text for word in command.words]
    return _runner(_unwrapped(values)[1]) is not Runner.PLAIN


def _whole(words: tuple[str, ...], text: str) -> Program:
    """A script as it is: each process runs it, or each pod where it starts processes itself."""
    parsed = shell.parse(text) or []
    runners = [_runner(_unwrapped(_texts(command))[1]) for command in parsed]
    if any(runner in (Runner.MPIRUN, Runner.HOROVODRUN) for runner in runners):
        return Program(Runner.MPIRUN, words)
    if not parsed and mentions((text,), ("mpirun", "mpiexec")):
        return Program(Runner.MPIRUN, words)
    nested = any(runner is not Runner.PLAIN for runner in runners)
    if not parsed:
        nested = bool(mentions((text,), ("torchrun", *_TORCH_MODULES, "accelerate", "deepspeed")))
    if nested:
        note = (
            "the script starts torchrun itself, between other commands: each pod runs the script "
            "once, as before"
        )
        return Program(Runner.NESTED, words, notes=(note,))
    return Program(Runner.PLAIN, words)


def _texts(command: shell.Command) -> list[str]:
    return [word.value if word.value is not None else word.text for word in command.words]


def _of_shell_command(
    command: shell.Command, program: str, text: str, env: Mapping[str, str]
) -> Program:
    """What a simple command of a shell runs."""
    words = _texts(command)
    wrappers, inner = _unwrapped(words)
    own = command.words[len(words) - len(inner) :]
    found, count = _of_words(inner, env, is_shell=True)
    kept = own[len(own) - count :] if count else ()
    prefix = found.command[: len(found.command) - count]
    assignments = " ".join(word.text for word in command.assignments)
    env_words = [word for word in wrappers if "=" in word]
    is_plain = all(word.is_plain for word in kept) and not assignments and not env_words
    if found.runner is Runner.PLAIN and not found.options and is_plain:
        return replace(found, command=tuple(str(word.value) for word in kept))
    if is_plain:
        return found
    line = " ".join(("exec", *map(shell.quote, prefix), *(word.text for word in kept)))
    if env_words:
        line = line.replace("exec ", f"exec env {' '.join(env_words)} ", 1)
    if assignments:
        line = f"export {assignments}; {line}"
    why = "it has shell in it, which each process runs for itself"
    return replace(found, command=(program, "-c", line), changes=(*found.changes, why))


def _with_setup(
    found: Program,
    before: str,
    commands: list[shell.Command],
    program: str,
    whole: tuple[str, ...],
) -> Program:
    """A program with the shell that stood before it in its script."""
    before, commands = _without_set(before, commands)
    setup = before.strip().rstrip(";&").strip()
    if not setup or not commands:
        return found
    first = commands[0]
    target = first.words[1].value if len(first.words) == 2 else None
    if first.program == "cd" and target and target.startswith("/") and first.after != "||":
        parts = re.match(r"\s*(?:#[^\n]*\n\s*)*cd\s+\S+\s*(?:&&|;|\n|$)\s*", setup)
        if parts is not None:
            setup = setup[parts.end() :]
            found = replace(found, working_dir=target)
            commands = commands[1:]
            if not commands:
                return found
    is_bash = _base(program) != "sh" and bool(_BASHISM.search(setup))
    lasting = bool(_LASTING.search(setup)) or any(command.assignments for command in commands)
    if is_bash:
        posix = re.sub(r"(^|[;&|\n]\s*)source\s+", r"\1. ", setup)
        if not _BASHISM.search(posix):
            setup, is_bash = posix, False
    if is_bash and lasting:
        if found.is_nested or found.workload == "mpi":
            return replace(found, command=whole)
        if found.runner is Runner.TORCHRUN:
            body = (
                found.command[2]
                if found.command[1:2] == ("-c",)
                else f"exec {as_shell(found.command)}"
            )
            why = "the shell before it is bash's, and each process runs it"
            command = (program, "-c", f"{setup}\n{body}")
            return replace(found, command=command, changes=(*found.changes, why))
        return replace(found, command=whole)
    shebang = f"#!{program if program.startswith('/') else '/bin/' + program}\n" if is_bash else ""
    why = "what stands before the program is setup, once in each pod"
    return replace(found, setup=f"{shebang}{setup}\n", changes=(*found.changes, why))


def _without_set(before: str, commands: list[shell.Command]) -> tuple[str, list[shell.Command]]:
    """Shell without its `set -e` and the like: setup stops at what fails, and sh has no pipefail."""
    kept = []
    for command in reversed(commands):
        is_set = command.program == "set" and not command.depth
        if is_set and all(
            re.fullmatch(r"[-+][euxo]+|pipefail", word.text) for word in command.words[1:]
        ):
            end = command.end
            while end < len(before) and before[end] in " \t;&":
                end += 1
            before = before[: command.start] + before[end:].removeprefix("\n")
        else:
            kept.append(command)
    return before, kept[::-1]


def _unwrapped(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words without those in front that run the rest as it is, and these."""
    at = 0
    while at < len(words) - 1:
        word = _base(words[at])
        is_env = (
            at
            and _base(words[0]) == "env"
            and re.fullmatch(r"[A-Za-z_]\w*=.*", words[at], re.DOTALL)
        )
        if (
            word in _WRAPPERS
            or word == "--"
            or is_env
            or (
                at
                and words[at].startswith("-")
                and _base(words[at - 1]) in ("stdbuf", "tini", "time")
            )
        ):
            at += 1
        else:
            break
    return list(words[:at]), list(words[at:])


def _runner(words: Sequence[str]) -> Runner:
    """What the first words of a command start."""
    if not words:
        return Runner.PLAIN
    program = _base(words[0])
    if program in ("torchrun", "dlrover-run") or _module(words) in _TORCH_MODULES:
        return Runner.TORCHRUN
    if program in _MPIRUN:
        return Runner.MPIRUN
    if program == "horovodrun":
        return Runner.HOROVODRUN
    if program == "accelerate" and "launch" in words[1:2]:
        return Runner.ACCELERATE
    if (_module(words) or "").startswith("accelerate.commands.launch"):
        return Runner.ACCELERATE
    if program == "accelerate-launch":
        return Runner.ACCELERATE
    if program == "deepspeed":
        return Runner.DEEPSPEED
    return Runner.SRUN if program == "srun" else Runner.PLAIN


def _module(words: Sequence[str]) -> str | None:
    """The module of ``python -m module``; None for anything else."""
    at = _module_place(words)
    return None if at is None else words[at]


def _module_place(words: Sequence[str]) -> int | None:
    if not words or not _PYTHON.fullmatch(words[0]):
        return None
    for at in range(1, len(words) - 1):
        if words[at] == "-m":
            return at + 1
        if not words[at].startswith("-"):
            return None
    return None


def _of_words(
    words: Sequence[str], env: Mapping[str, str], *, is_shell: bool = False
) -> tuple[Program, int]:
    """What words run, and how many of them at the end are the program's own."""
    wrappers, inner = _unwrapped(words)
    runner = _runner(inner)
    if runner is Runner.TORCHRUN:
        place = _module_place(inner)
        start = 1 if place is None else place + 1
        python = inner[0] if place is not None else "python3"
        program, count = _torchrun(inner[start:], python, env)
        if _module(inner) == "torch.distributed.launch" and "use-env" not in program.options:
            note = (
                "torch.distributed.launch gave each script --local-rank; torchrun sets LOCAL_RANK, "
                "which the script must read"
            )
            program = replace(program, notes=(*program.notes, note))
        assignments = [word for word in wrappers if "=" in word]
        if assignments and not is_shell:
            program = replace(program, command=("env", *assignments, *program.command))
        return program, count
    kept = tuple(inner if is_shell else words)
    return Program(runner, kept), len(kept)


def _torchrun(words: Sequence[str], python: str, env: Mapping[str, str]) -> tuple[Program, int]:
    """Torchrun's options taken off what it runs, and how many words that is."""
    options: dict[str, str] = {}
    lost: list[str] = []
    further_words: list[str] = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != "-":
        name, sign, value = words[at].partition("=")
        if name == "--":
            at += 1
            break
        name = _SHORT.get(name, name.lstrip("-").replace("_", "-"))
        if (
            words[at][:2] in ("-r", "-t")
            and len(words[at]) > 2
            and not sign
            and words[at][1] != "-"
        ):
            name, value, sign = _SHORT[words[at][:2]], words[at][2:], "="
        at += 1
        if name in TORCHRUN_FLAGS:
            options[name] = "true"
        elif name in TORCHRUN_OPTIONS:
            if not sign:
                value = words[at] if at < len(words) else ""
                at += 1
            options[name] = value
        elif name in DLROVER_OPTIONS:
            further_words.append(name)
            if DLROVER_OPTIONS[name] and not sign:
                at += 1
        else:
            lost.append(f"torchrun has no option {words[at - 1]} that is known here")
    rest = tuple(words[at:])
    values, further = torchrun_values(options, env)
    program = Program(
        Runner.TORCHRUN,
        _ranks_command(rest, options, python),
        options=options,
        values=values,
        changes=(
            "torchrun and its rendezvous are the chart's",
            *(f"DLRover's --{name} is not done" for name in further_words),
        ),
        lost=(*lost, *further),
    )
    return program, len(rest)


def _ranks_command(
    rest: tuple[str, ...], options: Mapping[str, str], python: str
) -> tuple[str, ...]:
    """What each process runs: torchrun puts Python before a script."""
    if not rest or "no-python" in options or "run-path" in options:
        return rest
    return (python, "-u", "-m", *rest) if "module" in options else (python, "-u", *rest)


def torchrun_values(
    options: Mapping[str, str], env: Mapping[str, str]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What torchrun's options are among the values of `torchrun`, and what is not carried.

    Args:
        options: by name, with dashes.
        env: the variables whose text is known.
    """
    values: dict[str, Any] = {}
    lost: list[str] = []
    for name, text in options.items():
        key = TORCHRUN_OPTIONS.get(name, "")
        if not key:
            continue
        if name in _NUMBERS:
            amount = number(text, env)
            if amount is None:
                lost.append(f"--{name} is {text}, which is known in the pod alone")
            else:
                values[key] = amount
        elif name in _DECIMALS:
            try:
                values[key] = float(text)
            except ValueError:
                lost.append(f"--{name} is {text}, which is no number")
        elif name == "rdzv-conf":
            values[key] = dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair)
        elif "$" in text:
            lost.append(f"--{name} is {text}, which is known in the pod alone")
        else:
            values[key] = text
    backend = values.get("rdzvBackend")
    if backend in ("etcd", "etcd-v2"):
        endpoint = options.get("rdzv-endpoint", "")
        if endpoint and "$" not in endpoint:
            values["rdzvEndpoint"] = endpoint
    elif backend == "static" or "standalone" in options:
        values.pop("rdzvBackend", None)
    if "virtual-local-rank" in options:
        values["virtualLocalRank"] = True
    if "run-path" in options:
        values["runPath"] = True
    values.setdefault("maxRestarts", 0)
    return values, tuple(lost)


def _without_references(text: str) -> str:
    """A container's text as its shell reads it: $(NAME) of a variable becomes ${NAME}."""

    def put(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else match[0]

    return _REFERENCE.sub(put, text) if "$$(" in text else text


def expanded(words: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """Words with $(NAME) as a shell's command that puts the variables in.

    Args:
        words: a container's words, in which Kubernetes puts variables.

    Returns:
        The words, and whether there is anything to put in.
    """
    if not any(match[1] for word in words for match in _REFERENCE.finditer(word)):
        return words, False
    parts: list[str] = []
    for word in words:
        text, last = "", 0
        for match in _REFERENCE.finditer(word):
            literal = word[last : match.start()]
            text += shell.quote(literal) if literal else ""
            text += '"${' + match[1] + '}"' if match[1] else "'$'"
            last = match.end()
        literal = word[last:]
        text += shell.quote(literal) if literal or not text else ""
        parts.append(text)
    return ("sh", "-c", f"exec {' '.join(parts)}"), True
