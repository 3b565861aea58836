"""A PyTorchJob of Kubeflow v1 as values of the torchrun chart, or of mpi where it runs mpirun."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import end_of_run, finish
from allranks.convert.inputs import misspelt_keys
from allranks.convert.jobs import (
    configmap_scripts,
    deepspeed_hosts,
    job_program,
    node_ranges,
    run_policy,
)
from allranks.convert.kinds import elastic_policy
from allranks.convert.pods import pod_values
from allranks.convert.programs import commands, preparation, rank_variables, references, shell
from allranks.convert.verdicts import (
    METADATA,
    Conversion,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.verdicts import FieldPath

KIND = "PyTorchJob"
_SPECS = "spec.pytorchReplicaSpecs"
_ROLES = ("Master", "Worker")
_ELASTIC = "spec.elasticPolicy"
_AT_RANK_0 = "the chart makes the address of rank 0"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried(f"{_SPECS}.*.replicas", "nodes"),
    changed(f"{_SPECS}.*.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"),
    *pod_values.fields_at(f"{_SPECS}.*.template"),
    *run_policy.run_policy_at("spec.runPolicy"),
    *run_policy.run_policy_at("spec"),
    carried("spec.nprocPerNode", "procsPerNode"),
    carried(f"{_ELASTIC}.minReplicas", "torchrun.elastic.minNodes"),
    carried(f"{_ELASTIC}.maxReplicas", "torchrun.elastic.maxNodes"),
    carried(f"{_ELASTIC}.rdzvBackend", "torchrun.rdzvBackend"),
    carried(f"{_ELASTIC}.rdzvPort", "torchrun.port"),
    changed(f"{_ELASTIC}.rdzvHost", "torchrun.rdzvEndpoint", _AT_RANK_0),
    changed(f"{_ELASTIC}.rdzvId", "", "the release's name, so that two jobs never meet"),
    carried(f"{_ELASTIC}.rdzvConf.**", "torchrun.rdzvConf"),
    changed(f"{_ELASTIC}.standalone", "", "the chart knows whether there is a single node"),
    carried(f"{_ELASTIC}.nProcPerNode", "procsPerNode"),
    carried(f"{_ELASTIC}.maxRestarts", "torchrun.maxRestarts"),
    lost(f"{_ELASTIC}.metrics.**", "no autoscaler resizes a run; `allranks scale` does"),
)
_RULES = Rules(FIELDS)
_OF_COMMAND = "the command starts its processes itself"
_SINGLE = "a single size is no range: nodes says it"
_REVERSED = "minReplicas is more than maxReplicas, which is no range: nodes says it"
_UNLIKE = "all pods of a run have the template of the workers, which differs"


def convert(manifest: Manifest, context: Context) -> Conversion:
    """A PyTorchJob as values.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: it is none, or has no pods.
    """
    fields = Fields(manifest, {"workload": "torchrun"}, _RULES, f"a {KIND} has no such field")
    pod_values.labels(fields, ("metadata",), ())
    roles = _roles(fields)
    paths: dict[str, FieldPath] = {
        role: ("spec", "pytorchReplicaSpecs", role, "template") for role in roles
    }
    templates = {role: pod_values.read(fields, path, ("pytorch",)) for role, path in paths.items()}
    _refuse_mpirun(templates)
    role = "Worker" if "Worker" in templates else next(iter(templates))
    pod = templates[role]
    processes = fields.get("spec", "nprocPerNode")
    processes = str(processes) if _counts_processes(processes) else "auto"
    runs = job_program.program(fields, pod, context)
    runs = configmap_scripts.with_unseen(fields, pod.container, runs, context)
    program = deepspeed_hosts.without(fields, pod, _with_processes(runs, processes))
    if program.runner is commands.Runner.PLAIN:
        fields.note(job_program.NO_TORCHRUN)
    job_program.put(fields, pod, program, processes)
    others = {name: other for name, other in templates.items() if name != role}
    _same(fields, others, pod, context.entrypoint)
    _size(fields, roles, pod, program)
    deepspeed_hosts.say_alone(fields, pod, program)
    reads_ranks = references.mentions(pod.words, ("RANK", "MASTER_ADDR", "WORLD_SIZE"))
    has_torchrun = program.runner is commands.Runner.TORCHRUN
    is_script = program.is_nested and (reads_ranks or program.is_unseen)
    needs_rank = program.runner is commands.Runner.PLAIN or is_script
    if not has_torchrun and needs_rank and "Master" not in roles:
        _note_untold(fields, pod, program)
    if program.runner is commands.Runner.TORCHRUN and not program.is_alone:
        job_program.check_nodes(
            fields, pod.container, program.options, pod.variables, (fields.values["nodes"], "")
        )
    count = _processes(fields, pod, program)
    source: FieldPath = ("spec", "nprocPerNode")
    if "nproc-per-node" in program.options:
        source = (*pod.container, "command" if pod.command else "args")
    job_program.processes(fields, pod, program, count, source)
    run_policy.run_policy(fields, ("spec",))
    run_policy.run_policy(fields, ("spec", "runPolicy"))
    policies: list[FieldPath] = [
        ("spec", "pytorchReplicaSpecs", name, "restartPolicy") for name in roles
    ]
    run_policy.restart_policies(fields, policies)
    elastic_policy.put(fields, program, (*_path("Worker"), "template", "spec", "containers"))
    # With an elasticPolicy the job is done with its first worker (pytorchjob_controller.go).
    waits = "Master" not in roles and not fields.has("spec", "elasticPolicy")
    if waits and fields.get("spec", "runPolicy", "cleanPodPolicy") != "None":  # which says it
        end_of_run.note(fields, end_of_run.OF_WORKERS)
    elif not waits and run_policy.leaves_pods(fields):
        end_of_run.note(fields, end_of_run.OF_OPERATOR)
    _environment(fields, pod, program)
    return finish.conversion(fields)


def _roles(fields: Fields) -> list[str]:
    specs = fields.mapping("spec", "pytorchReplicaSpecs")
    misspelt_keys.refuse_other_roles(KIND, specs, ("spec", "pytorchReplicaSpecs"), _ROLES)
    for key in specs:
        if key not in _ROLES:
            fields.leave(("spec", "pytorchReplicaSpecs", key), f"{key} is no role of a {KIND}")
    run_policy.refuse_more_masters(fields, _path("Master"))
    roles = [role for role in _ROLES if isinstance(specs.get(role), dict)]
    sized = [role for role in roles if fields.number(*_path(role), "replicas") != 0]
    if roles and not sized and not fields.has("spec", "elasticPolicy"):
        raise InputError(
            "it has no pods: replicas is 0",
            path=dotted((*_path(roles[0]), "replicas")),
            hint="write how many pods it is to have",
        )
    for role in roles if sized else ():
        if role not in sized:
            fields.change(_path(role), "there are none of them")
    roles = sized or roles
    if not roles:
        run_policy.refuse_old(fields)
        raise InputError(
            f"the {KIND} has neither a Master nor a Worker",
            path=_SPECS,
            hint=misspelt_keys.question(specs, "Master", "Worker") or "write the whole object",
        )
    return roles


def _path(role: str) -> FieldPath:
    return ("spec", "pytorchReplicaSpecs", role)


def _replicas(fields: Fields, role: str) -> int:
    replicas = fields.number(*_path(role), "replicas")
    if replicas is not None and replicas > k8s.REPLICAS_MAX:
        raise InputError(
            f"{replicas} pods are more than Kubernetes counts: the largest number is "
            f"{k8s.REPLICAS_MAX}",
            path=dotted((*_path(role), "replicas")),
            hint="write how many pods it is to have",
        )
    return 1 if replicas is None else replicas


def _same(
    fields: Fields, others: dict[str, PodTemplate], pod: PodTemplate, entrypoint: tuple[str, ...]
) -> None:
    """Say of the templates that are not taken where they differ."""
    own = {piece.to: piece.value for piece in pod.pieces}
    for role, other in others.items():
        _note_more(fields, role, other, pod)
        for piece in other.pieces:
            fields.say(piece.source, Outcome.CARRIED, "as the workers'")
            if own.get(piece.to) == piece.value:
                fields.repeats.setdefault(piece.to, []).append(piece.source)
        for source in _differing(other, own):
            fields.leave(source, _UNLIKE)
        _same_words(fields, other, pod, entrypoint)


def _note_more(fields: Fields, role: str, other: PodTemplate, pod: PodTemplate) -> None:
    """Say what the pods of another role have here that only those of the workers had."""
    places = {dotted(piece.to) for piece in other.pieces}
    more = {place for piece in pod.pieces if (place := dotted(piece.to)) not in places}
    if pod.gpus and not other.gpus:
        more.add("gpusPerNode")
    for to, items in _more_of_lists(other, pod).items():
        if to == _TOLERATIONS:
            taints = ", ".join(k8s.text(item, "key") or "every taint" for item in items)
            fields.note(f"rank 0 also tolerates {taints}, as the workers do")
        else:
            more.add(f"{dotted(to)} ({', '.join(map(_label, items))})")
    if more:
        fields.note(
            f"the {role}'s pod has what the other pods alone had, too: {', '.join(sorted(more))}"
        )


_TOLERATIONS: FieldPath = ("scheduling", "tolerations")


def _more_of_lists(other: PodTemplate, pod: PodTemplate) -> dict[FieldPath, list[Any]]:
    """The items of the lists that both templates have which those of the workers alone have."""
    lists = {piece.to: piece.value for piece in other.pieces if isinstance(piece.value, list)}
    more: dict[FieldPath, list[Any]] = {}
    for piece in pod.pieces:
        if piece.to in lists and isinstance(piece.value, list):
            items = [item for item in piece.value if item not in lists[piece.to]]
            if items:
                more[piece.to] = items
    return more


def _label(item: Any) -> str:
    """What a person calls an item of a list by."""
    keys = (k8s.text(item, key) for key in ("name", "mountPath", "topologyKey", "ip"))
    return " at ".join(filter(None, keys)) or str(item)


def _items(sources: list[FieldPath], values: Sequence[Any]) -> list[FieldPath]:
    """The field of each item of a list, of which all items, or each, have a verdict."""
    if len(sources) == 1 and isinstance(sources[0][-1], str):
        return [(*sources[0], index) for index, _ in enumerate(values)]
    return sources


def _is_part(own: Sequence[Any], whole: Sequence[Any]) -> bool:
    """Whether a list has all items of another, and more, in the same order."""
    rest = iter(whole)
    return len(own) < len(whole) and all(item in rest for item in own)


def _differing(other: PodTemplate, own: Mapping[FieldPath, Any]) -> set[FieldPath]:
    """The fields of a template that the one that is taken has otherwise, or has not.

    Args:
        other: the template.
        own: what the other template has, by its place among the values.
    """
    sources: dict[FieldPath, list[FieldPath]] = {}
    for piece in other.pieces:
        sources.setdefault(piece.to, []).append(piece.source)
    differences: set[FieldPath] = set()
    for piece in other.pieces:
        here, own_value = sources[piece.to], own.get(piece.to)
        if own_value == piece.value:
            continue
        fewer: set[FieldPath] = set()
        if isinstance(piece.value, list) and isinstance(own_value, list):
            # A list's items have a verdict each; where none is missing, the order differs.
            pairs = zip(_items(here, piece.value), piece.value, strict=False)
            fewer = {source for source, item in pairs if item not in own_value}
            has_all = piece.to == _TOLERATIONS or _is_part(piece.value, own_value)
            if not fewer and has_all:
                continue
        differences |= fewer or set(here)
    return differences


def _same_words(
    fields: Fields, other: PodTemplate, pod: PodTemplate, entrypoint: tuple[str, ...]
) -> None:
    whole = [(*(own.command or entrypoint), *own.args) for own in (other, pod)]
    are_alike = whole[0] == whole[1] or _runs_alike(other, pod)
    for key in ("command", "args"):
        path: FieldPath = (*other.container, key)
        if not other.container:
            continue
        words = (getattr(other, key), getattr(pod, key))
        if _without_comments(words[0]) == _without_comments(words[1]) or are_alike:
            fields.say(path, Outcome.CHANGED, "command", "it runs what the workers run")
        else:
            fields.leave(
                path, "all pods of a run run what the workers run, which is another command"
            )
    if other.gpus != pod.gpus and other.container:
        for kind in ("requests", "limits"):
            for name in fields.mapping(*other.container, "resources", kind):
                if pod_values.is_gpu(name):
                    fields.leave(
                        (*other.container, "resources", kind, name),
                        f"all pods of a run have as many GPUs as the workers, which is {pod.gpus}",
                    )


def _without_comments(words: Sequence[str]) -> list[str]:
    """Words without the lines of a script that do nothing.

    A here-document may need its own, and a comment ends a command that goes on behind a backslash.
    """
    return [
        word
        if "\n" not in word or "<<" in word or re.search(r"\\\n\s*#", word)
        else "\n".join(line for line in word.splitlines() if not _NOTHING.match(line))
        for word in words
    ]


_NOTHING = re.compile(r"\s*(?:#.*)?$")
# What torchrun is told by each pod in its own way, and which the chart tells it itself.
_OF_POD = ("node-rank", "master-addr", "master-port", "rdzv-endpoint", "rdzv-id")


def _runs_alike(other: PodTemplate, pod: PodTemplate) -> bool:
    """Whether two commands differ in nothing but where torchrun meets the others, or in `time`."""
    programs = [commands.read(item.words, (), item.variables) for item in (other, pod)]
    runners = {program.runner for program in programs}
    if runners == {commands.Runner.PLAIN}:
        texts = {(own.setup, own.command, own.working_dir) for own in programs}
        return len(texts) == 1 and all(item.words for item in (other, pod))
    if runners != {commands.Runner.TORCHRUN}:
        return False
    first_options, second_options = (
        {key: value for key, value in program.options.items() if key not in _OF_POD}
        for program in programs
    )
    first, second = programs
    return (first.command, first.setup, first_options) == (
        second.command,
        second.setup,
        second_options,
    )


def _refuse_mpirun(templates: dict[str, PodTemplate]) -> None:
    """Refuse a master that starts its workers by mpirun: nothing would tell it of them."""
    runners = {
        role: commands.read(pod.words, (), pod.variables).workload
        for role, pod in templates.items()
        if pod.words
    }
    if runners.get("Master") == "mpi" and runners.get("Worker") != "mpi":
        raise InputError(
            f"the master calls mpirun, and a {KIND} has no list of hosts for it",
            path=f"{_SPECS}.Master",
            hint="write it as an MPIJob, the master as its Launcher, and convert that",
        )


def _size(fields: Fields, roles: list[str], pod: PodTemplate, program: commands.Program) -> None:
    pods = nodes = sum(_replicas(fields, role) for role in roles)
    most = fields.number("spec", "elasticPolicy", "maxReplicas")
    least = fields.number("spec", "elasticPolicy", "minReplicas")
    why = _REVERSED if most and least and least > most else _SINGLE
    if most and least and program.runner is commands.Runner.PLAIN:
        why = "no torchrun of the command's reads it, and the job has all of its pods"
    elif most and least and _has_fixed_size(program, pod):
        why = "the command's --nnodes wins"
    for key in ("minReplicas", "maxReplicas"):
        fields.change(("spec", "elasticPolicy", key), why, "nodes")
    size = most or least  # the operator takes one that is alone for both
    is_torchruns = program.runner is commands.Runner.TORCHRUN and "nnodes" not in program.options
    if why == _SINGLE and size and size != nodes and is_torchruns and (least or size) == size:
        waits = f"waited for {plural(size - nodes, 'other')}" if size > nodes else "ran apart"
        for key in ("minReplicas", "maxReplicas"):
            fields.leave(
                ("spec", "elasticPolicy", key),
                f"its torchrun had {plural(size, 'node')} by it, and {plural(nodes, 'pod')} "
                f"{waits}: here nodes says it",
            )
    if program.is_nested and most and least and least < most:
        for key in ("minReplicas", "maxReplicas"):
            fields.leave(("spec", "elasticPolicy", key), elastic_policy.NESTED)
    elif own_range := node_ranges.of_command(program, pod, max(most or 0, nodes)):
        node_ranges.put(fields, pod, program, own_range, ("spec", "elasticPolicy"))
        nodes = min(max(nodes, own_range[0]), own_range[1])
    elif why == _SINGLE and most and least and least < most:
        _put_range(fields, program, least, most)
        nodes = min(max(nodes, least), most)
    fields.put(("nodes",), nodes, (*_path(roles[-1]), "replicas"))
    for role in roles:
        whys = ["the master is a node as the workers are"] if len(roles) > 1 else []
        whys += [_of_another_size(pods, nodes)] if role == roles[-1] and pods != nodes else []
        outcome = Outcome.CHANGED if whys else Outcome.CARRIED
        fields.say((*_path(role), "replicas"), outcome, "nodes", "; ".join(whys))
    if pod.gpus:
        fields.put(("gpusPerNode",), pod.gpus, pod.gpu_source)


def _of_another_size(pods: int, nodes: int) -> str:
    """Why a run has another number of nodes than its job had pods: its torchrun had a range."""
    if pods > nodes:
        return (
            f"torchrun had at most {plural(nodes, 'node')}: of the {plural(pods, 'pod')} the "
            "others stood by until one was lost, which torchrun.spares does here"
        )
    return (
        f"torchrun had at least {plural(nodes, 'node')}, and waited for more than the "
        f"{plural(pods, 'pod')} of the job: here there are as many"
    )


def _put_range(fields: Fields, program: commands.Program, least: int, most: int) -> None:
    """Put the range of an elasticPolicy, and say where the command may know of a number."""
    elastic: FieldPath = ("torchrun", "elastic")
    fields.carry(("spec", "elasticPolicy", "minReplicas"), (*elastic, "minNodes"), least)
    fields.carry(("spec", "elasticPolicy", "maxReplicas"), (*elastic, "maxNodes"), most)
    nnodes = program.options.get("nnodes", "")
    if nnodes and ":" not in nnodes and not references.mentions((nnodes,), ("PET_NNODES",)):
        fields.note(
            f"how many --nnodes {nnodes} is, is not known here: the run has from {least} to "
            f"{most} nodes, as its elasticPolicy says; leave torchrun.elastic out for a number"
        )


def _has_fixed_size(program: commands.Program, pod: PodTemplate) -> bool:
    """Whether a command's own --nnodes is a number: torchrun then keeps to it."""
    return references.number(program.options.get("nnodes", ""), pod.variables) is not None


def _note_untold(fields: Fields, pod: PodTemplate, program: commands.Program) -> None:
    """Say where the operator told the pods nothing of each other, and nothing else did.

    pkg/controller.v1/pytorch/envvar.go (setPodEnv) of kubeflow/training-operator.
    """
    nodes, texts = fields.values["nodes"], (*program.command, program.setup, *program.scripts)
    env = {str(entry.get("name")) for _, entry in fields.items(*pod.container, "env")}
    if rank_variables.are_set(env, texts):
        return
    if nodes == 1:
        fields.note(
            "nothing set RANK, LOCAL_RANK or WORLD_SIZE in its pod, and torchrun does here: a "
            "program that looks for them takes itself for the only one of many"
        )
    else:
        is_elastic = fields.has("spec", "elasticPolicy")
        for_torchrun = " (an elasticPolicy sets PET_* alone, for torchrun)" if is_elastic else ""
        fields.note(
            f"nothing set RANK, WORLD_SIZE or MASTER_ADDR in its pods{for_torchrun}: unless its "
            f"program found the others otherwise, each of {plural(nodes, 'pod')} ran by itself; "
            "here they are told, and train together"
        )


def _with_processes(program: commands.Program, processes: str) -> commands.Program:
    """A program whose torchrun asks for as many processes as the operator tells the pod."""
    option = program.options.get("nproc-per-node", "")
    if not references.mentions((option,), (names.ENV_PROCESSES,)):
        return program
    return replace(program, options={**program.options, "nproc-per-node": processes})


_NO_PROCESSES = (
    "{!r} is no number of processes to torchrun, which takes auto, gpu, cpu or a number: auto "
    "stands in its place"
)


def _counts_processes(value: Any) -> bool:
    """Whether torchrun takes a value for the number of its processes."""
    return str(value) in ("auto", "gpu", "cpu") or str(value).isdecimal()


def _processes(fields: Fields, pod: PodTemplate, program: commands.Program) -> int | None:
    """Processes of a pod, as the object or the command say it; None for torchrun's `auto`."""
    processes: Any = None
    for path in (("spec", "nprocPerNode"), ("spec", "elasticPolicy", "nProcPerNode")):
        value = fields.get(*path)
        if value is not None and not _counts_processes(value):
            fields.leave(path, _NO_PROCESSES.format(value))
        elif value is not None:
            processes = value if processes is None else processes
            follows = pod.gpus > 0 and str(value) == str(pod.gpus)
            fields.keep(path, "gpusPerNode, a process for each" if follows else "procsPerNode")
    words = program.options.get("nproc-per-node")
    if words is not None and processes is not None and words != str(processes):
        for path in (("spec", "nprocPerNode"), ("spec", "elasticPolicy", "nProcPerNode")):
            fields.change(path, "the command's --nproc-per-node wins", "procsPerNode")
    text = words if words is not None else "" if processes is None else str(processes)
    if program.runner is not commands.Runner.TORCHRUN and processes is not None:
        is_plain = program.runner is commands.Runner.PLAIN
        why = "no torchrun of the command's reads it" if is_plain else _OF_COMMAND
        fields.change(("spec", "nprocPerNode"), f"{why}, and each pod runs it once", "procsPerNode")
    return references.number(text, pod.variables)


def _sets(texts: tuple[str, ...], name: str) -> bool:
    """Whether a script gives a variable a text itself."""
    return any(re.search(rf"(?<![\w$]){name}=", text) for text in texts)


def _environment(fields: Fields, pod: PodTemplate, program: commands.Program) -> None:
    """Say what leans on the operator's own variables and names."""
    job = re.escape(fields.text("metadata", "name") or "job")
    names = ("PET_*",) if not program.is_nested else ()
    texts = (*program.command, program.setup)
    variables = [
        name for name in references.mentions(texts, ("PET_RDZV_*",)) if not _sets(texts, name)
    ]
    if program.is_nested and variables:
        for key in ("command", "args"):
            fields.leave(
                (*pod.container, key), f"it reads {', '.join(variables)}, which is not there"
            )
    before = shell.parse(program.setup) or ()
    if any(preparation.may_train([word.text for word in item.words]) for item in before):
        fields.note(
            "the Python in setup finds no RANK, WORLD_SIZE or MASTER_ADDR: the ranks alone do"
        )
    per_pod = fields.values.get("procsPerNode", pod.gpus or 1)
    # What the program reads itself, its torchrun told each process there, too.
    is_put_in = references.expands(program.command, "RANK")
    if program.runner is commands.Runner.TORCHRUN and per_pod > 1 and is_put_in:
        fields.note(
            "the command reads RANK, which was the pod's number there; here it is that of each of "
            f"its {per_pod} processes, and GROUP_RANK is the pod's"
        )
    world = per_pod * fields.values["nodes"]
    was_alike = fields.number("spec", "nprocPerNode") == per_pod  # of all processes there, too
    is_alike = pod.variables.get("WORLD_SIZE", str(world) if was_alike else "") == str(world)
    is_put_in = references.expands(program.command, "WORLD_SIZE") and not is_alike
    if program.runner is commands.Runner.TORCHRUN and per_pod > 1 and is_put_in:
        own = "another number there, as that of the pods"
        if not fields.mapping(*_path("Master")):
            # Source: pkg/controller.v1/pytorch/envvar.go of the training operator.
            own = "not there, as nobody set it without a Master"
        fields.note(
            f"the command reads WORLD_SIZE, which was {own}; here it is {world}, that of all "
            "processes"
        )
    _references(fields, pod)
    job_program.environment(fields, pod, program, names, rf"{job}-(?:master|worker)-\d+")
    factor = fields.number("spec", "nprocPerNode")
    has_master = bool(fields.mapping(*_path("Master")))  # else nobody set it
    is_counted = program.runner is not commands.Runner.TORCHRUN and has_master
    if is_counted and factor and factor > 1:
        counted = f"counted {factor} processes in each pod there; here it counts the pods"
        if references.reads((*program.command, *program.scripts), "WORLD_SIZE"):
            why = "each pod runs the command once: WORLD_SIZE, which the command reads,"
            fields.change(("spec", "nprocPerNode"), f"{why} {counted}", "procsPerNode")
        elif program.is_unseen:
            fields.note(
                f"what is not in the input may read WORLD_SIZE, which {counted}, because each "
                "runs the command once"
            )


def _references(fields: Fields, pod: PodTemplate) -> None:
    """Say of a variable that takes up one of the operator's, which no container has here."""
    for index, entry in fields.items(*pod.container, "env"):
        variables = [
            name for name in rank_variables.NAMES if f"$({name})" in str(entry.get("value") or "")
        ]
        if variables:
            fields.leave(
                (*pod.container, "env", index, "value"),
                f"{', '.join(variables)} is known to each process, and not to the container: read "
                "it in the program",
            )
