"""A step whose ranks are MPI's: when it is, how many they are, and what they are told."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from allranks.convert.programs import commands, references
from allranks.convert.slurm import sizes
from allranks.convert.slurm.batch_script.setup import left_out, node_files
from allranks.convert.slurm.batch_script.steps import mpirun
from allranks.convert.slurm.batch_script.text import node_names, shell_text, substitutions, words
from allranks.convert.slurm.batch_script.text.node_variables import NodeVariable, kind_of
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.programs.scanner import Statement, Token
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading, Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

_MEETS = re.compile(
    r"MASTER_ADDR|torch|SLURM_PROCID|megatron|lightning|nccl|deepspeed"
    # NVIDIA's, and no model of the ocean.
    r"|\bnemo(?=[-_ ]?(?:toolkit|run|asr|nlp|tts|launcher|framework|collections|aligner|rl|fw)\b)"
    r"|(?:nvidia/|import\s+|from\s+|examples/\S*)nemo\b",
    re.IGNORECASE,
)
_USES_MPI = re.compile(r"(?i)(?:-{0,2}\w[\w.-]*=|--(?:use|with|enable)?[-_]?)mpi")
_MPI = re.compile(r"mpi4py|open-?mpi|intel-?mpi|\bimpi\b|mpich|horovod", re.IGNORECASE)
# What a program of Python's uses MPI by.
_BINDINGS = re.compile(r"mpi4py|horovod", re.IGNORECASE)
# A test, or what is printed, outside of a text in quotes, which a rank may run.
_TESTED = re.compile(
    r"(?P<own>(?:\[\[?\s|\(\(|\b(?:test|case|echo|printf)\s)[^\n;]*)"
    r"|'[^']*'|\"(?:\\.|[^\"\\])*\"",
    re.DOTALL,
)
_PYTHON = re.compile(r"torch|accelerate|deepspeed|lightning|python")
# A word of a program's own name: `train_mpi.py`, and no `mpii.py`.
_NAMES_MPI = re.compile(r"(?:^|[\s/_.-])mpi(?:4py)?(?:[_.-]|$)", re.IGNORECASE)
_TENSORFLOW = re.compile(r"tensorflow|\btf_?keras|\bkeras", re.IGNORECASE)
# Programs that run another program.
_RUNNERS = frozenset({"uv", "conda", "poetry", "pixi", "micromamba", "mamba"})
# What each MPI's module is called.
_IMPLEMENTATIONS = {
    "Intel": r"\b(?:module\s+(?:load|add)|ml)\s[^\n]*(?:impi|intel-?mpi|oneapi[-/]mpi)"
    r"|oneapi/setvars|\bpath=[^\n]*/(?:impi|intel-?mpi)[/\d:._-]|/impi/[\d.]+/|oneapi/mpi/",
    "MPICH": r"\b(?:module\s+(?:load|add)|ml)\s[^\n]*mpich|\bpath=[^\n]*/mpich[/\d:._-]"
    r"|\bmpi(?:run|exec)\.mpich",
}
# Variables of Intel MPI's, which scripts of other MPIs keep; a module, and options of Open MPI's.
_OF_INTEL = "i_mpi_"
_OPEN_MPI_LOADED = re.compile(r"\b(?:module\s+(?:load|add)|ml)\s[^\n]*open-?mpi")
_OPEN_MPI_OPTION = re.compile(
    r"\bmpi(?:run|exec)\b[^\n]*\s-{1,2}(?:npernode|mca|map-by|allow-run-as-root|rankfile|x\s+\w)"
)
_OWN_RANK = "no launcher of MPI's sets it: let the program ask MPI for its own rank"
_OF_HOSTS = "the first host of the chart's list is where rank 0 runs"
_OF_SETUP = "setup sets it for the ranks, as no launcher of MPI's does"
_NAMES_OF_HOSTS = (
    "they are those of the chart's list, with a domain, which what `hostname` prints in a pod has "
    "not: let a program that looks for its own name there cut it off"
)
_OF_LIST = "mpirun is given the chart's list of hosts"
# That host, as shell.
_FIRST_HOST = "\"$(sed 's/[ :].*//;q' /etc/mpi/hostfile)\""
# All of them, and how a script lists them, with nothing done to the list.
_HOSTS = "\"$(sed 's/[ :].*//' /etc/mpi/hostfile)\""
_LIST = re.compile(rf"(?:export\s+)?\w+=\"?{node_names.LIST}\"?")
_OF_NODES = "it tells of the old cluster's nodes: write what a pod is to read"
_NOT_BOUND = (
    "cores are shared in a pod, so that the chart binds ranks to none (Open MPI 5 refuses to do "
    "both): each has {}"
)
_MPI_PORT = "29500"
_OWN_SLOTS = "mpirun starts {} ranks on each node, by its words: more than Slurm has tasks there"


def tell_mpi_hosts(reading: ScriptReading, place: int) -> None:
    """Set for ranks of MPI's where the first of them is, as no launcher of theirs does."""
    script, rendezvous, body = reading.script, reading.rendezvous, reading.body
    exports: set[str] = set()
    of_line: dict[int, set[str]] = {}
    for statement in script.statements[: place + 1]:
        for command in statement.commands:
            for_step = command.assignments if command.words else []
            exports |= {word.text.partition("=")[0] for word in for_step}
            own = {name for name, _ in shell_text.assigned_by(command)} & rendezvous.meeting
            of_line.setdefault(statement.line, set()).update(own)
            exports |= own if command.name == "export" else set()
            exports |= {word.text for word in command.words[1:]} & rendezvous.meeting
    exports |= {*re.findall(r"\s-{1,2}x\s+(\w+)", _without_programs(script))}
    exports &= rendezvous.meeting
    line = "\n".join(body.command)
    reads = {name for name, _ in words.variables(line)}
    in_command = {*re.findall(r"^([A-Za-z_]\w*)=", line, re.MULTILINE)}
    values = {name: _of_mpi(reading, name) for name in sorted(exports - words.OF_ONE_RANK)}
    if "MASTER_ADDR" in reads:
        values["MASTER_ADDR"] = _FIRST_HOST
    lines = [f"export {name}={value}" for name, value in values.items() if value]
    body.setup += "".join(f"{line}\n" for line in lines)
    read_in_script = left_out.variables_read(script)
    for at, verdict in enumerate(body.verdicts):
        if (verdict.line, verdict.path) not in rendezvous.sources:
            continue
        own = of_line.get(verdict.line, set())
        if own & words.OF_ONE_RANK:
            replacement = replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=_OWN_RANK)
        elif any(not values.get(name, "") for name in own & exports - reads - read_in_script):
            replacement = replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=_OF_NODES)
        elif texts := {values[name] for name in own & values.keys()} - {""}:
            why = _OF_HOSTS if texts == {_FIRST_HOST} else _OF_SETUP
            why = _NAMES_OF_HOSTS if _HOSTS in texts else why
            replacement = replace(verdict, to="setup", why=why)
        else:
            to = "command" if own & in_command else ""
            is_first = any(f"{name}={NodeVariable.ADDRESS}" in line.split("\n") for name in own)
            replacement = replace(verdict, to=to, why=_OF_HOSTS if is_first else _OF_LIST)
        body.verdicts[at] = replacement


def _of_mpi(reading: ScriptReading, name: str) -> str:
    """What a variable of the nodes is in a pod of the mpi chart, as shell; "" for nothing."""
    script, body = reading.script, reading.body
    if name == "WORLD_SIZE":
        ranks = body.procs_per_node or script.size.gpus_per_node
        return str(ranks * (body.nodes or 1)) if ranks else ""
    if name in reading.variables.constants or name == "MASTER_PORT":
        return reading.variables.constants.get(name, _MPI_PORT)
    text = next(
        (
            script.setting(other, name)
            for other in script.statements
            if shell_text.assigns(other, name)
        ),
        "",
    )
    kind = kind_of(name, text, {NodeVariable.ADDRESS})
    if node_files.is_file(script, name):
        return ""
    if kind is NodeVariable.COUNT:
        return str(body.nodes or 1)
    if kind is NodeVariable.UNKNOWN and _LIST.fullmatch(text.strip()):
        return _HOSTS
    return _with_first_host(reading, name, text) if kind is NodeVariable.ADDRESS else ""


def _with_first_host(reading: ScriptReading, name: str, text: str) -> str:
    """A variable that has the first node's name in it, as shell; "" where it has what none knows.

    Args:
        reading: the script, and what is known of it.
        name: the variable.
        text: the line that sets it: ``A=$(scontrol show hostnames | head -n1):1234``.
    """
    value = text.partition(f"{name}=")[2].strip().strip('"')
    spans = substitutions.spans(value)
    if not spans:
        meeting = "|".join(sorted(reading.rendezvous.meeting - {name}))
        pattern = rf"\$(?:\{{(?:{meeting})(?:\[0\])?\}}|(?:{meeting})\b)"
        spans = [match.span() for match in re.finditer(pattern, value)][:1] if meeting else []
    if len(spans) != 1:
        return _FIRST_HOST
    (start, end) = spans[0]
    ports = {"MASTER_PORT": _MPI_PORT, **reading.variables.constants}
    before, behind = (words.resolve(part, ports) for part in (value[:start], value[end:]))
    if before is None or behind is None:
        return ""
    return f'"{before}{_FIRST_HOST.strip(chr(34))}{behind}"'


def without_cores(reading: ScriptReading, texts: list[str], line: int) -> list[str]:
    """Words without the cores that an mpirun binds its ranks to, whose number OpenMP gets.

    Args:
        reading: the script, and what comes of it.
        texts: the words of the step.
        line: where it stands.
    """
    remaining, cores = mpirun.without_cores(texts)
    if cores:
        to, threads = "", "the threads that the script says in OMP_NUM_THREADS"
        if "OMP_NUM_THREADS" not in words.without_comments(reading.script.text):
            reading.body.env["OMP_NUM_THREADS"] = cores
            to, threads = "env.OMP_NUM_THREADS", "as many threads in their place"
        why = _NOT_BOUND.format(threads)
        reading.body.say(line, f"PE={cores}", Outcome.CHANGED, to, why)
    return remaining


def without_count(script: Script, texts: list[str]) -> list[str]:
    """Words without the number of all ranks, which Open MPI takes from the chart's list of hosts.

    A shell to put the number in would stand between the chart and mpirun, and nothing could tell
    the ranks theirs.

    Args:
        script: the script.
        texts: the words of the step.
    """
    has_slots = bool(script.size.tasks or script.size.tasks_per_node)
    program = words.base(texts[0]) if texts else ""
    if program not in words.MPIRUN or not has_slots or _implementation(script):
        return texts
    names = {"SLURM_NTASKS", "SLURM_NPROCS"} - script.assignment_counts.keys()
    return mpirun.without_count(texts, names)


_FEWER_ON_LAST = "and an mpirun of {} leaves the last of them with fewer, or none"


def is_mpi(
    script: Script, variables: ShellVariables, main: Step, program: commands.Program
) -> bool:
    """Whether what srun starts is a program of MPI's, and not one that meets by MASTER_ADDR."""
    has_mpi = any(setting.name == "mpi" and setting.value != "none" for setting in main.settings)
    meets = is_of_torch(script)
    words_of = " ".join(
        (
            *(
                words.resolve(word, variables.constants) or variables.looked_up(word)
                for word in main.words
            ),
            variables.inner_text(main.words) or "",
        )
    )
    if "mpi4py" in words_of or "horovod" in words_of.lower() or _names_mpi(program):
        return True
    if _PYTHON.search(words_of):
        code = words.without_comments(script.text)
        asks = _MPI.search(code) is not None or _asks_for_mpi(main)
        return (has_mpi or asks) and not meets
    is_text = program.command[1:2] == ("-c",)
    name = words.base(words.unwrapped(main.words if is_text else program.command)[0])
    if is_text and name in shell_text.SHELLS:
        name = words.base(shell_text.first_word(program.command)) or name
    if name in shell_text.SHELLS or name.endswith((".sh", ".bash", ".py")) or name in _RUNNERS:
        return has_mpi and not meets
    return has_mpi or "MASTER_ADDR" not in variables.set_names


def is_of_torch(script: Script) -> bool:
    """Whether what runs, or the job's name, has a word of PyTorch or of how its ranks meet."""
    named = [setting.value for setting in script.settings if setting.name == "job-name"]
    code = [_for_ranks(script, statement) for statement in script.statements]
    return any(_MEETS.search(text) for text in (*code, *named))


def _for_ranks(script: Script, statement: Statement) -> str:
    """A statement without the number of a task where the script tests its own, which is 0.

    A function, and a here-document, may be run by the ranks.
    """
    code = words.without_comments(script.slice(statement))
    has_document = any(
        own[0].startswith("<<") for c in statement.commands for own in c.redirections
    )
    if statement.function or has_document:
        return code
    own = _TESTED.finditer(code)
    edits = [(*match.span("own"), "") for match in own if "SLURM_PROCID" in (match["own"] or "")]
    return shell_text.edited(code, edits)


def names_bindings(script: Script) -> bool:
    """Whether a line that does more than print names what a program of Python's uses MPI by."""
    code = shell_text.without_printing(words.without_comments(script.text))
    return _BINDINGS.search(code) is not None


def is_of_tensorflow(script: Script) -> bool:
    """Whether a script has a word of TensorFlow in what runs, and none of PyTorch."""
    code = words.without_comments(script.text)
    return _TENSORFLOW.search(code) is not None and "torch" not in code.lower()


def _names_mpi(program: commands.Program) -> bool:
    """Whether the file or module that Python runs is called by a word of MPI's."""
    texts = words.unwrapped(list(program.command))
    if not texts or not words.base(texts[0]).startswith("python"):
        return False
    module = texts[texts.index("-m") + 1 :][:1] if "-m" in texts else []
    name = [*(text for text in texts[1:] if text.endswith(".py")), *module][:1]
    return bool(name) and _NAMES_MPI.search(name[0]) is not None


def _asks_for_mpi(main: Step) -> bool:
    """Whether a word of a program has it use MPI: ``--mode=mpi``, ``--use_mpi``."""
    return any(map(_USES_MPI.fullmatch, main.words))


def slots(script: Script, variables: ShellVariables, program: commands.Program, nodes: int) -> int:
    """The ranks of a node of an mpirun that are more than the job's tasks there; 0 for no more.

    Its words say how many, or its own list of hosts: ``-npernode 8``, ``-np 32``, ``slots=8``.

    Args:
        script: the script.
        variables: what is known of its variables.
        program: the mpirun.
        nodes: how many nodes it has.
    """
    texts = shell_text.split(shell_text.as_text(program.command))
    launchers = words.MPI_LAUNCHERS
    at = next((at for at, text in enumerate(texts) if words.base(text) in launchers), len(texts))
    per_node, count = mpirun.ranks(texts[at:])
    ranks = _number(per_node, variables)
    tasks, to_nodes, own = script.size.tasks or 0, script.size.node_count, _number(count, variables)
    if tasks % to_nodes and 0 < own < math.ceil(tasks / to_nodes) * to_nodes:
        why = sizes.why_uneven(tasks, to_nodes, _FEWER_ON_LAST.format(own))
        script.size.outcomes["ntasks"] = (Outcome.NOT_CARRIED, "procsPerNode", why)
    if not ranks and (total := _number(count, variables)):
        ranks = math.ceil(total / nodes)
    if not ranks and not count:
        ranks = _number(mpirun.slots(words.without_comments(script.text)), variables)
    ranks = min(ranks, sizes.MOST_PER_NODE)
    is_counted = bool(script.size.tasks or script.size.tasks_per_node)
    is_over = any("oversubscribe" in text.lower() for text in texts)
    if not is_counted:
        return ranks
    if ranks <= script.size.per_node or is_over:
        return 0
    why = _OWN_SLOTS.format(ranks)
    for name in ("ntasks", "ntasks-per-node", "tasks-per-node"):
        script.size.outcomes[name] = (Outcome.CHANGED, "procsPerNode", why)
    return ranks


def _number(text: str, variables: ShellVariables) -> int:
    """The number that words of an mpirun say; 0 where it is not known."""
    value = words.resolve(text, variables.constants) or text
    return references.number(value, variables.constants) or 0


def as_mpi(script: Script, body: Body, per_node: int) -> None:
    """Make the run one of the mpi chart."""
    body.workload = "mpi"
    body.procs_per_node = 0 if script.size.gpus_per_node == per_node else per_node
    implementation = _implementation(script)
    if implementation:
        body.values["mpi"] = {"implementation": implementation}


def _without_programs(script: Script) -> str:
    """A script without what its mpiruns start, whose options are those of other programs."""
    started: list[Token] = []
    for command in script.commands:
        texts = [word.text for word in command.words]
        if texts and words.base(texts[0]) in words.MPIRUN:
            started += command.words[len(texts) - len(mpirun.program(texts)) :]
    edits = [(word.start, word.end, "") for word in started]
    return shell_text.edited(script.text, edits)


def _implementation(script: Script) -> str:
    """Whose MPI a script is for; "" for Open MPI, which is the chart's."""
    text = _without_programs(script).lower()
    text = re.sub(r"^\s*#.*", "", text, flags=re.MULTILINE).replace("\\\n", " ")
    if _OPEN_MPI_OPTION.search(text):
        return ""
    for implementation, pattern in _IMPLEMENTATIONS.items():
        if re.search(pattern, text):
            return implementation
    return "Intel" if _OF_INTEL in text and not _OPEN_MPI_LOADED.search(text) else ""
