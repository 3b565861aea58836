"""How many nodes and ranks a step has, by srun's options and by those of the launcher behind it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.programs import (
    commands,
    deepspeed_words,
    rank_variables,
    references,
    scanner,
)
from allranks.convert.programs.commands import Runner
from allranks.convert.slurm import sizes
from allranks.convert.slurm.batch_script.runs import mpi_ranks, openmp_threads
from allranks.convert.slurm.batch_script.setup import option_variables
from allranks.convert.slurm.batch_script.steps import launcher_environment, several_steps
from allranks.convert.slurm.batch_script.text import shell_text, words
from allranks.convert.slurm.options import COUNTING_TASKS, CPUS_ASKED_FOR
from allranks.convert.verdicts import Outcome
from allranks.humanize import plural

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.script_reading import Body, ScriptReading, Step
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables

# What a torchrun may be called.
_OF_TORCH = ("torchrun", *sorted(words.TORCHRUN), *words.TORCH_MODULES)
_FIRST_NODE = "without srun it runs on the first node alone"
# A text of a shell with that launcher and no torchrun.
_STARTS_ACCELERATE = re.compile(
    r"\A(?!.*torch(?:run|\.distributed)).*\baccelerate\s+launch\b", re.DOTALL
)
_WAITS_THERE = (
    "without srun it runs on the first node alone, where it waits for the others; here each node "
    "runs it"
)
_BY_SSH = "the script starts it on the other nodes over ssh; here each node runs it"
# The number of a node that is written out.
_NUMBER_OF_NODE = re.compile(r"--(?:machine|node)[-_]rank[= ](\S+)")
_OF_EACH_NODE = "each pod says so, and the launchers wait for the others: write $SLURM_NODEID there"
# Flags that tell a launcher of other nodes.
_SPANNING = (
    *("machine_rank", "machine-rank", "main_process_ip", "hostfile"),
    *("node_rank", "node-rank", "--rdzv"),
)
# How many nodes a launcher is told of.
_MACHINES = re.compile(r"--(?:num[-_]machines|nnodes|num[-_]nodes)[= ](\S+)")
# The hosts that a colossalai is told of, where they are others than its own.
_COLOSSALAI_HOSTS = re.compile(
    r"\bcolossalai[\"']?\s+run\s(?:.*\s)?(?:-H|--host|--hostfile)[= ]"
    r"(?![\"']?(?:localhost|127\.0\.0\.1)[\"']?(?:\s|$))",
    re.DOTALL,
)
# Where the chart's rendezvous is by itself.
_USUAL_PORT = re.compile(r"(?<![\w.])29500(?![\w.])")
_WITHOUT_MPI = (
    "{} gave the ranks MPI, and torchrun does not: for a program that uses mpi4py or Horovod "
    "write `workload: mpi`, without torchrun"
)


_OF_HOSTS_FILE = (
    "which hosts the file names, and how many slots of each, is not looked at: the run has the {} "
    "of the job, and as many ranks on each as its other options say, or as it has GPUs"
)
_IN_POD_ALONE = "what it is, is known in the pod alone: one process for each GPU"
_NOT_SET = "no line of the script says what it is: one process for each GPU, or set procsPerNode"
_WITHOUT_OPTION = (
    "sbatch sets it for an option alone (--{0}), which the job does not have, and {1} stops "
    "without a number: the script counts on `sbatch --{0}=…`; here it is {2}: give that option, "
    "or set procsPerNode"
)
_ALONE = (
    "each rank has {}, and finds that it is alone on its node (LOCAL_WORLD_SIZE=1): a program that "
    "starts a process for each GPU itself, as PyTorch Lightning does, starts none then; leave "
    "procsPerNode out for a rank for each GPU"
)
_NO_TASKS = (
    "the script names no number of tasks, and Slurm may start as many on a node as --cpus-per-task "
    "leaves room for: write --ntasks-per-node"
)


def _waits_there(script: Script) -> str:
    """What is said of a launcher without srun: who starts it on the other nodes, or that none."""
    commands_of = ([token.text for token in own.words] for own in script.commands)
    return _BY_SSH if any(map(words.reaches_other_host, commands_of)) else _WAITS_THERE


def put_size(reading: ScriptReading, main: Step, program: commands.Program) -> None:
    """How many nodes and ranks the step has."""
    script, body = reading.script, reading.body
    if main.is_srun:
        sizes.fill(script.size, main.size)
        body.step_outcomes = main.size.outcomes
    size = main.size if main.is_srun and not several_steps.over_nodes(main) else script.size
    nodes = size.nodes or script.size.nodes
    per_node, gpus = size.per_node, script.size.gpus_per_node
    if program.runner is Runner.TORCHRUN:
        nodes = _size_torchrun(reading, main, program, nodes, per_node)
    elif program.runner in (Runner.MPIRUN, Runner.HOROVODRUN):
        is_own = program.runner is Runner.HOROVODRUN and not words.names_hosts(main.words)
        if is_own and (nodes or 1) > 1 and not main.is_srun:
            name, own_line = _launcher(main, "horovodrun")
            body.say(own_line, name, Outcome.CHANGED, "nodes: 1", _FIRST_NODE)
            nodes = 1
        mpi_ranks.as_mpi(
            script,
            body,
            mpi_ranks.slots(script, reading.variables, program, nodes or 1) or per_node,
        )
        if words.base(program.command[0]) not in words.MPI_LAUNCHERS:
            body.values.setdefault("mpi", {})["ownMpirun"] = True
    elif program.is_nested:
        nodes = _size_nested(reading, main, program, nodes)
    elif is_of_mpi(script, reading.variables, main, program):
        mpi_ranks.as_mpi(script, body, per_node)
        _put_threads(reading, main, per_node, "a rank here counts all of its node")
    else:
        is_spread = gpus is None and bool(script.size.gpus) and nodes is None
        body.procs_per_node = 0 if is_spread or (gpus and per_node == gpus) else per_node
        body.values["torchrun"] = {"maxRestarts": 0}
        ranks = (script.size.gpus if is_spread else None) or per_node
        _put_threads(reading, main, ranks, "torchrun would tell each 1")
        _say_alone(reading, main, per_node, gpus or 0)
        has_sign = bool(gpus or script.size.gpus) or mpi_ranks.is_of_torch(script)
        launcher = _launcher(main, "srun", "ibrun")[0]
        is_of_other = mpi_ranks.is_of_tensorflow(script) or mpi_ranks.names_bindings(script)
        if launcher == "ibrun" or not has_sign or is_of_other:
            body.notes.append(_WITHOUT_MPI.format(launcher))
    body.nodes = nodes if nodes is not None else (None if script.size.gpus else 1)
    if body.workload == "torchrun" and body.nodes != 1 and _may_meet(reading, main, program):
        body.values["torchrun"]["port"] = rank_variables.OTHER_PORT


def rank_count(reading: ScriptReading) -> int:
    """How many ranks the run has, whose sizes are put; one for each GPU where nothing else says it.

    Args:
        reading: the script, and what comes of it.
    """
    body, size = reading.body, reading.script.size
    gpus = size.gpu_count
    per_node = body.procs_per_node or gpus or 1
    if gpus and body.workload == "torchrun":
        per_node = min(per_node, gpus)  # each rank has a GPU of its own
    return (body.nodes or 1) * per_node


def _say_alone(reading: ScriptReading, main: Step, per_node: int, gpus: int) -> None:
    """Say of one rank with several GPUs what it finds, and who may have had more of them.

    Slurm starts as many tasks on a node as their CPUs leave room for, where a script says how many
    CPUs a task has, and not how many tasks there are. Source: srun(1), ``--cpus-per-task``.
    """
    if per_node != 1 or gpus <= 1 or not main.is_srun:
        return
    settings = (*reading.script.settings, *main.settings)
    options = {own.name.removeprefix("srun ") for own in settings}
    is_counted = not COUNTING_TASKS.isdisjoint(options)
    why = _ALONE.format(plural(gpus, "GPU"))
    why = f"{_NO_TASKS}; {why}" if "cpus-per-task" in options and not is_counted else why
    reading.body.say(main.command.line, "srun", Outcome.CHANGED, "procsPerNode: 1", why)


def _may_meet(reading: ScriptReading, main: Step, program: commands.Program) -> bool:
    """Whether the ranks may meet at the port that the chart's rendezvous has, in rank 0's pod.

    Those of srun choose a port themselves, as a rule PyTorch's own; those of torchrun where its
    program is given one.
    """
    if program.is_nested or program.runner is not Runner.TORCHRUN:
        return True
    texts = [reading.variables.inner_text(main.words) or "", *program.command]
    constants = reading.variables.constants
    return any(_USUAL_PORT.search(words.resolve(text, constants) or text) for text in texts)


def is_of_mpi(
    script: Script, variables: ShellVariables, main: Step, program: commands.Program
) -> bool:
    """Whether a step becomes a run of the mpi chart, whose launcher is a pod of its own."""
    if program.runner in (Runner.MPIRUN, Runner.HOROVODRUN):
        return True
    is_other = program.runner is Runner.TORCHRUN or program.is_nested
    return not is_other and mpi_ranks.is_mpi(script, variables, main, program)


def _has_cpus(step: Step) -> bool:
    """Whether a step says how many CPUs each of its tasks has."""
    return any(own.name.removeprefix("srun ") == "cpus-per-task" for own in step.settings)


def _has_whole_nodes(reading: ScriptReading, main: Step) -> bool:
    """Whether a job has all CPUs of its nodes: with ``--exclusive=user`` it shares them.

    Source: sbatch(1), ``--exclusive``.
    """
    settings = (*reading.script.settings, *main.settings)
    values = [own.value.lower() for own in settings if own.name == "exclusive"]
    return any(value not in ("user", "mcs", "topo") for value in values)


def _has_masks(main: Step) -> bool:
    """Whether a step says which CPUs each of its tasks has: ``--cpu-bind=mask_cpu:0xf,0xf0``."""
    return any(
        own.name.removeprefix("srun ") in ("cpu-bind", "cpu_bind")
        and re.search(r"(?:^|,)(?:mask|map)_", own.value) is not None
        for own in main.settings
    )


def _put_threads(reading: ScriptReading, main: Step, per_node: int, otherwise: str) -> None:
    """Give ranks the threads of their CPUs.

    Args:
        reading: the script.
        main: its step.
        per_node: the ranks of a node.
        otherwise: how many they would have.
    """
    cpus = (reading.script.size.cpus_per_node or 0) // per_node
    options = {setting.name for setting in (*reading.script.settings, *main.settings)}
    # What stands behind the step is too late for it.
    last = reading.script.statements[max(main.statement, reading.main_step.statement)]
    until_step = words.without_comments(reading.script.text[: last.end])
    if "OMP_NUM_THREADS" in shell_text.without_printing(until_step):
        return
    if per_node == 1:
        # torchrun says nothing of the threads of one rank, which may start others on several GPUs.
        size = reading.script.size
        is_alone = (size.gpus_per_node or size.gpus or 0) <= 1 and not reading.main_step.may_launch
        is_counted = cpus > 1 or (cpus == 1 and bool(options & CPUS_ASKED_FOR))
        if not is_counted or _has_whole_nodes(reading, main) or reading.body.workload == "mpi":
            return
        if not is_alone:
            reading.body.notes.append(openmp_threads.MAY_LAUNCH.format(cpus))
            return
        otherwise = "a pod has the node's"
    if _has_whole_nodes(reading, main) and reading.script.size.cpus_per_task is None:
        own_cpus = "each task had the CPUs of its own mask (--cpu-bind)"
        whole = "a task could use the CPUs of its whole node (--exclusive)"
        why = f"{own_cpus if _has_masks(main) else whole}; {otherwise}: set it"
    elif cpus > 1 or per_node == 1 or (cpus == 1 and reading.body.workload == "mpi"):
        own = main.size.cpus_per_task if main.is_srun else None
        cpus = own if own and _has_cpus(main) else cpus
        reading.body.env["OMP_NUM_THREADS"] = str(cpus)
        is_free = any(
            own.name.removeprefix("srun ") in ("cpu-bind", "cpu_bind")
            and own.value.rpartition(",")[2] in ("none", "no")
            for own in (*reading.script.settings, *main.settings)
        )
        counted = (
            "OpenMP counted the CPUs of the node"
            if is_free
            else ("a task was bound to its CPUs, which OpenMP counts")
        )
        why = f"{counted}; {otherwise}"
    else:
        return
    to = "env.OMP_NUM_THREADS"
    reading.body.say(main.command.line, "OMP_NUM_THREADS", Outcome.CHANGED, to, why)


def _size_torchrun(
    reading: ScriptReading, main: Step, program: commands.Program, nodes: int | None, per_node: int
) -> int | None:
    """The nodes of a torchrun, of the job's and its own flags; its ranks are put."""
    body = reading.body
    body.values["torchrun"] = dict(program.values)
    is_deepspeed = any("deepspeed" in change for change in program.changes)
    launcher, line = _launcher(main, *(("deepspeed",) if is_deepspeed else _OF_TORCH))
    count = _put_processes(reading, main, program, is_deepspeed=is_deepspeed)
    nnodes = references.number(program.options.get("nnodes", ""), reading.variables.constants)
    if nnodes and nodes is None:
        nodes = min(nnodes, sizes.MOST_NODES)
    is_own = "nnodes" not in program.options or "standalone" in program.options
    least = references.ends(program.options.get("nnodes", ""))[0]
    if nnodes == 1 or not main.is_srun:  # a range from 1 waits for nobody
        is_own |= references.number(least, reading.variables.constants) == 1
    is_alone = program.is_alone if is_deepspeed else is_own
    if not main.is_srun and (nodes or 1) > 1 and is_alone:
        body.say(line, launcher, Outcome.CHANGED, "nodes: 1", _FIRST_NODE)
        nodes = 1
    elif is_deepspeed and nnodes and nnodes < (nodes or 1):
        why = f"the job has {plural(nodes or 1, 'node')}, and the launcher has ranks on {nnodes}"
        body.say(line, "--num_nodes, --include", Outcome.CHANGED, "nodes", why)
        nodes = nnodes
    elif is_deepspeed and program.hosts_file and not main.is_srun and (nodes or 1) > 1:
        why = _OF_HOSTS_FILE.format(plural(nodes or 1, "node"))
        body.say(line, f"--hostfile {program.hosts_file}", Outcome.CHANGED, "nodes", why)
    elif nnodes and nodes and nnodes != nodes and main.is_srun:
        why = f"the job has {plural(nodes, 'node')}"
        body.say(line, f"--nnodes {nnodes}", Outcome.CHANGED, "nodes", why)
    if is_alone and main.is_srun and (nodes or 1) > 1:
        targets = "hosts" if is_deepspeed else "other nodes"
        why = f"it names no {targets}: no training had several; here all of them train together"
        body.say(line, launcher, Outcome.NOT_CARRIED, "", why)
    elif not main.is_srun and (nodes or 1) > 1 and not is_deepspeed:
        why = _waits_there(reading.script)
        body.say(line, launcher, Outcome.CHANGED, "nodes", why)
    if not is_alone and not is_deepspeed:
        nodes = _put_range(reading, program.options.get("nnodes", ""), line, nodes)
    _say_once_on_each(body, main, "torchrun", per_node)
    if count == 1:
        _put_threads(reading, main, 1, "")
    return nodes


def _say_once_on_each(body: Body, main: Step, launcher: str, tasks: int) -> None:
    """Say of a launcher of a node's ranks that srun started several of it on each node."""
    starts_one = any(own.name == "ntasks" and own.value == "1" for own in main.settings)
    if main.is_srun and tasks > 1 and not starts_one:
        why = f"{launcher} starts the ranks of a node, and so runs once on each, not {tasks} times"
        body.say(main.command.line, "srun", Outcome.CHANGED, "", why)


def _put_processes(
    reading: ScriptReading, main: Step, program: commands.Program, *, is_deepspeed: bool
) -> int | None:
    """The processes of a torchrun's node, which are put; None where they are not known before."""
    body = reading.body
    gpus = reading.script.size.gpus_per_node
    launcher, line = _launcher(main, *(("deepspeed",) if is_deepspeed else _OF_TORCH))
    processes = program.options.get("nproc-per-node", "1")
    option = option_variables.option_without_number(reading, processes, main)
    count = None if option else _processes(reading.script, reading.variables, processes)
    body.procs_per_node = 0 if count is None or (gpus and count == gpus) else count
    flag = "--num_gpus" if is_deepspeed else "--nproc-per-node"
    if "nproc-per-node" in program.options:
        body.procs_option = f"{flag} {processes}", line
    if is_deepspeed and count and gpus and count < gpus:
        _say_chosen_gpus(body, main, count, gpus, line)
    if option:
        has_gpus = bool(gpus or reading.script.size.gpus)
        number = "one process for each GPU" if has_gpus else "one process in each pod"
        outcome = Outcome.CHANGED if has_gpus else Outcome.NOT_CARRIED
        why = _WITHOUT_OPTION.format(option, launcher, number)
        body.say(line, f"{flag} {processes}", outcome, "procsPerNode", why)
    elif count is None and processes not in ("gpu", "auto", "cpu"):
        names_of = {name for name, _ in words.variables(processes)}
        is_set = names_of <= reading.variables.set_names | words.ALWAYS | set(body.env)
        why = _IN_POD_ALONE if is_set else _NOT_SET
        path = f"{flag} {processes}"
        body.say(line, path, Outcome.CHANGED, "procsPerNode", why)
    return count


def _say_chosen_gpus(body: Body, main: Step, count: int, gpus: int, line: int) -> None:
    """Say of a deepspeed that is told of some of a node's GPUs that the others have no rank."""
    texts = [scanner.unquote(word) for word in words.unwrapped(main.words)]
    launch = deepspeed_words.read(texts[1:])
    own = " ".join(texts[: len(texts) - launch.rest] if launch is not None else texts)
    options = [match for pattern in _CHOOSING if (match := pattern.search(own))]
    whose = f"{count} of the {gpus} GPUs of each pod have a rank"
    for match in options[:1]:
        why = f"{whose}: write gpusPerNode: {count} for no more"
        body.say(line, match[0].strip(), Outcome.CHANGED, "procsPerNode", why)


# Options of deepspeed's with the GPUs of its ranks; the first is read before the second.
_CHOOSING = (
    re.compile(r"\s(?:--include|-i)[= ]\S+"),
    re.compile(r"\s--num[-_](?:gpus|accelerators)[= ]\S+"),
)


def _put_range(reading: ScriptReading, nnodes: str, line: int, nodes: int | None) -> int | None:
    """The nodes of a torchrun that trains with any number in a range, which is put, of the job's.

    Args:
        reading: the script.
        nnodes: the text of its --nnodes.
        line: of the launcher.
        nodes: those of the job; None where it names none.
    """
    constants = reading.variables.constants
    least, most = (references.number(end, constants) for end in references.ends(nnodes))
    if not least or not most or least >= most:
        return nodes
    path, own = f"--nnodes {nnodes}", plural(nodes or 1, "node")
    if least > (nodes or 1):
        why = f"the launcher waits for {least} nodes, and the job has {own}"
        reading.body.say(line, path, Outcome.CHANGED, "nodes", why)
        return nodes
    if least == (nodes or 1):
        why = f"the job has {own}: the run trains with {least}, and no other number"
        reading.body.say(line, path, Outcome.CHANGED, "nodes", why)
        return nodes
    nodes = min(nodes or 1, most)
    to = "torchrun.elastic"
    reading.body.values["torchrun"]["elastic"] = {"minNodes": least, "maxNodes": nodes}
    why = "" if most == nodes else f"the job has {own}, and a run no more"
    reading.body.say(line, path, Outcome.CHANGED if why else Outcome.CARRIED, to, why)
    return nodes


def _launcher(main: Step, usual: str, *others: str) -> tuple[str, int]:
    """What the script calls the launcher of a step, and the line that has its name.

    Args:
        main: the step.
        usual: what it is called where its name is in a variable, or in a text for a shell.
        others: what it may be called, too.
    """
    for word in main.command.words:
        name = words.base(scanner.unquote(word.text))
        if name in (usual, *others):
            return name, word.line
    return usual, main.command.line


# A word of the script, and what stands for it where there is none: `${1:-8}`.
_WORD_OR = re.compile(r"\$\{(?P<place>[1-9]):?-(?P<otherwise>\w+)\}")


def _of_words(script: Script, variables: ShellVariables, text: str) -> str:
    """What a variable holds of the words that the script is given: ``N=${1:-8}``; "" for none."""
    contents = variables.contents.get(shell_text.variable_alone(text), [text])
    match = _WORD_OR.fullmatch(contents[0]) if len(contents) == 1 else None
    if match is None or any(map(shell_text.changes_words, script.commands)):
        return ""
    place = int(match["place"])
    return script.args[place - 1] if place <= len(script.args) else match["otherwise"]


def _processes(script: Script, variables: ShellVariables, text: str) -> int | None:
    """The processes of a node; None where it is not known before."""
    value = words.resolve(text, variables.constants) or _of_words(script, variables, text) or text
    if value in ("gpu", "auto"):
        # torchrun counts the GPUs that torch sees.
        visible = re.fullmatch(r"\d+(?:,\d+)*", variables.constants.get("CUDA_VISIBLE_DEVICES", ""))
        return visible[0].count(",") + 1 if visible else script.size.gpus_per_node
    count = references.number(value, variables.constants)
    return count if count and count <= sizes.MOST_PER_NODE else None


def _with_machines(reading: ScriptReading, main: Step, line: str, nodes: int | None) -> int | None:
    """The nodes of a launcher that is told how many there are, which is said."""
    match = _MACHINES.search(line)
    text = match[1].strip("\"'") if match is not None else ""
    count = references.number(text, reading.variables.constants) or 0
    if match is not None and 1 < count < (nodes or 1):
        why = f"the job has {plural(nodes or 1, 'node')}, and the launcher trains with {count}"
        reading.body.say(main.command.line, match[0], Outcome.CHANGED, "nodes", why)
        return count
    if match is None or count <= (nodes or 1):
        return nodes
    own = plural(nodes or 1, "node")
    why = (
        f"the script asks for {own}, which the run has, and the launcher waits for {count}: where "
        f"sbatch's own command line asked for them, write `#SBATCH --nodes={count}`"
    )
    if nodes is None and main.is_srun:
        nodes = min(count, sizes.MOST_PER_NODE)
        why = "the script asks for no number of nodes: they are as many as the launcher waits for"
    reading.body.say(main.command.line, match[0], Outcome.CHANGED, "nodes", why)
    return nodes


def _say_number_of_node(reading: ScriptReading, main: Step, line: str, nodes: int | None) -> None:
    """Say of a launcher of several nodes that each pod gives it the number of the same one."""
    match = _NUMBER_OF_NODE.search(line) if (nodes or 1) > 1 else None
    text = match[1].strip("\"'") if match is not None else ""
    if words.OF_TASK & {name for name, _ in words.variables(text)}:
        return  # it is each pod's own
    if match is not None and references.number(text, reading.variables.constants) is not None:
        path = match[0].strip("\"'")
        reading.body.say(main.command.line, path, Outcome.NOT_CARRIED, "command", _OF_EACH_NODE)


def _size_nested(
    reading: ScriptReading, main: Step, program: commands.Program, nodes: int | None
) -> int | None:
    """The nodes of a launcher that starts the ranks of a node itself."""
    script, body = reading.script, reading.body
    body.procs_per_node = 1
    line = " ".join(program.command)
    if script.size.node_count > 1 and _COLOSSALAI_HOSTS.search(line):
        raise script.refuse(
            main.command.line,
            "colossalai starts the ranks of other nodes by ssh, which pods do not have",
            "start them with `srun torchrun`, as colossalai starts a torchrun on each host",
        )
    spans = any(flag in line for flag in _SPANNING)
    runner = str(program.runner)
    if program.runner is Runner.NESTED and _STARTS_ACCELERATE.search(line):
        runner = str(Runner.ACCELERATE)
    launcher, own_line = _launcher(main, runner)
    if (nodes or 1) > 1 and not main.is_srun and not spans:
        body.say(own_line, launcher, Outcome.CHANGED, "nodes: 1", _FIRST_NODE)
        nodes = 1
    elif (nodes or 1) > 1 and not main.is_srun and "hostfile" not in line:
        body.say(own_line, launcher, Outcome.CHANGED, "nodes", _waits_there(script))
    _say_once_on_each(body, main, runner, main.size.per_node)
    _say_number_of_node(reading, main, line, nodes)
    nodes = _with_machines(reading, main, line, nodes)
    if program.runner is Runner.DEEPSPEED and re.search(r"\s(?:--exclude|-e)[= ]", line):
        raise script.refuse(
            main.command.line,
            "--exclude names a host or its GPUs, and the nodes of a run have no names before it "
            "starts",
            "leave it out, and ask for as many nodes and GPUs as are left",
        )
    if program.runner is Runner.DEEPSPEED and (nodes or 1) > 1 and "--no_ssh" not in line:
        raise script.refuse(
            main.command.line,
            "deepspeed starts the ranks of other nodes by ssh, which pods do not have",
            "start them with `srun torchrun`: DeepSpeed trains the same under torchrun, with "
            "LOCAL_RANK in place of --local_rank",
        )
    body.values["torchrun"] = {"maxRestarts": 0}
    if not launcher_environment.starts_one_process(script, program):
        body.notes.append(
            f"{runner} starts the ranks of each node itself, so that each pod runs "
            "it once; "
            "under torchrun (its command alone) allranks would see every rank"
        )
    return nodes
