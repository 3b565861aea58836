"""The job that some sets of pods are, as values.

Sets of pods that are ranks, a launcher with workers, or roles of a framework are written as the
kind of Kubeflow's that has such pods, and converted as one. Pods that are told nothing of each
other are the trials of a sweep.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import trials
from allranks.convert.jobs import (
    configmap_scripts,
    job_program,
    mpi_hosts,
    outside_variables,
    roles,
)
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.pods import claims, downward, pod_values, podsets, split_clusters
from allranks.convert.pods.pod_template import OF_TRAINER
from allranks.convert.pods.podsets import MPI, MXNET, PYTORCH, TENSORFLOW, PodSet, Shape
from allranks.convert.programs import references
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import Outcome, dotted
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.convert.documents.context import Context
    from allranks.convert.pods.claims import Claim
    from allranks.convert.pods.pod_template import Piece, PodTemplate
    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import Conversion, FieldPath, Fields

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# What each kind calls its roles' section, and the container of the program in it.
_SECTIONS = {
    PYTORCH: ("pytorchReplicaSpecs", "pytorch"),
    MPI: ("mpiReplicaSpecs", ""),
    TENSORFLOW: ("tfReplicaSpecs", "tensorflow"),
    MXNET: ("mxReplicaSpecs", "mxnet"),
}


def rewrite(fields: Fields, shape: Shape, drop_mounts: Collection[str] = ()) -> Rewrite:
    """An object as one of the kind that has its shape.

    Args:
        fields: the object.
        shape: its shape; `key` is not None.
        drop_mounts: names of volumes that are mounted in another way.
    """
    target = Rewrite(fields)
    section, container = _SECTIONS[shape.key or PYTORCH]
    target.copy(("metadata",), ("metadata",))
    for role, sets in shape.roles.items():
        to: FieldPath = ("spec", section, role)
        target.put((*to, "replicas"), sum(podset.replicas for podset in sets))
        if shape.key != MPI:
            target.put((*to, "restartPolicy"), "OnFailure")  # how often, the object says
        for podset in sets:
            for size in podset.sizes:
                target.also(size, (*to, "replicas"))
        _template(target, sets, (*to, "template"), container, drop_mounts)
    return target


def _template(
    target: Rewrite,
    sets: tuple[PodSet, ...],
    to: FieldPath,
    container: str,
    drop_mounts: Collection[str],
) -> None:
    """Put a PodTemplateSpec, without what only the old controller could make."""
    fields = target.fields
    first = sets[0]
    target.copy(first.path, to)
    for podset in sets[1:]:
        target.also(podset.path, to)
    if container and first.containers:
        here: FieldPath = (*to, "spec", "containers", first.index, "name")
        target.put(here, container)
        for podset in sets:
            target.also((*podset.path, "spec", "containers", podset.index, "name"), here)
    if first.part:
        _put_part(target, first, (*to, "spec", "containers", first.index))
    for key in ("initContainers", "containers"):
        for index, _ in fields.items(*first.path, "spec", key):
            source: FieldPath = (*first.path, "spec", key, index)
            place: FieldPath = (*to, "spec", key, index)
            if drop_mounts:
                target.keep(
                    (*source, "volumeMounts"),
                    (*place, "volumeMounts"),
                    lambda mount: k8s.text(mount, "name") not in drop_mounts,
                )


def _put_part(target: Rewrite, podset: PodSet, to: FieldPath) -> None:
    """Have a container run its part of what all pods of its template run."""
    source: FieldPath = (*podset.path, "spec", "containers", podset.index)
    container = target.get(to)
    if not isinstance(container, dict):
        return
    container["command"] = list(podset.part)
    container.pop("args", None)
    for key in ("command", "args"):
        target.also((*source, key), (*to, "command"))


# What the kinds above have of a run's policy, and where it is among the values.
_POLICY = ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
# Where kinds say how the pods of a job find each other.
_FINDING: tuple[tuple[str, ...], ...] = (
    ("spec", "network"),
    ("spec", "plugins", "svc"),
    ("spec", "plugins", "ssh"),
)
_MOUNTS: FieldPath = (*OF_TRAINER, "volumeMounts")
_INDEX = "COMPLETION_INDEX"
_NO_RANKS = "nothing in it that is known here starts ranks (torchrun, mpirun ...)"
_JOB_INDEX = "JOB_COMPLETION_INDEX"
_ONE_PROCESS = (
    "a torchrun without --nproc-per-node starts one process in each pod, as before, with its {}: "
    "leave procsPerNode out for a process for each of them"
)
_COMPLETION = "batch.kubernetes.io/job-completion-index"


def convert(
    fields: Fields,
    context: Context,
    shape: Shape,
    policy: Mapping[str, FieldPath],
    volume_claims: Collection[Claim] = (),
    *,
    claim_templates: FieldPath = (),
) -> str:
    """Convert an object as the job that its pods are; the queue that it names.

    Args:
        fields: the object.
        context: what else is known.
        shape: what job it is.
        policy: where the object has what a run's policy says: `suspend`, `ttlSecondsAfterFinished`,
            `activeDeadlineSeconds`.
        volume_claims: claims that become volumes of the run.
        claim_templates: where the claims stand that each pod has one of; () for nowhere.

    Raises:
        InputError: it cannot be converted.
    """
    if shape.key is None:
        queue = _array(fields, context, shape.roles[""][0], policy, volume_claims)
    else:
        split_clusters.refuse(shape)
        target = rewrite(fields, shape, [claim.name for claim in volume_claims])
        for key, source in policy.items():
            target.copy(source, ("spec", "runPolicy", key))
        if shape.key == PYTORCH:
            _processes(target, (shape.roles.get("Worker") or shape.roles["Master"])[0])
        rewritten, stale = mpi_hosts.take_out(target, shape) if shape.key == MPI else ([], [])
        has_parts = any(podset.part for sets in shape.roles.values() for podset in sets)
        if has_parts:
            target.put(("spec", "runLauncherAsWorker"), value=True)
        inner = target.convert_as(shape.key, context)
        queue = inner.queue
        if has_parts:
            _say_of_parts(fields, shape, inner)
        for path in rewritten:
            fields.change(path, "the chart lists the hosts, and starts sshd", "command")
        for path in stale:
            fields.leave(path, "Volcano's list of hosts is not here: read /etc/mpi/hostfile")
        claims.put(fields, volume_claims)
        if shape.key == PYTORCH:
            _check_ranks(fields, context, shape)
    if claim_templates:
        claims.note_pod_claims(fields, claim_templates)
    return queue


def _say_of_parts(fields: Fields, shape: Shape, inner: Conversion) -> None:
    """Say of the one command of a launcher and its workers what is not carried of either part."""
    launcher = shape.roles["Launcher"][0]
    reasons = dict.fromkeys(verdict.why for verdict in inner.lost if "command" in verdict.keys[-2:])
    for key in ("command", "args"):
        path: FieldPath = (*launcher.path, "spec", "containers", launcher.index, key)
        if reasons:
            fields.leave(path, "; ".join(reasons))
        else:
            fields.change(path, _FIRST_POD, "command")
    for size in launcher.sizes:
        fields.change(size, _FIRST_POD, "mpi.numWorkers")


_FIRST_POD = "the first pod, which calls mpirun, is the launcher, and has ranks as the workers have"


def exclusive_topology(fields: Fields, here: FieldPath, *, is_alone: bool) -> None:
    """Carry an annotation by which pods have a domain of the cluster for themselves.

    Args:
        fields: the object, converted.
        here: the annotation.
        is_alone: whether all pods of the job are in one group, which has one domain.
    """
    domain = fields.text(*here)
    if not domain:
        return
    fields.values.get("annotations", {}).pop(here[-1], None)
    if is_alone:
        topology = {"mode": "required", "level": "block", "labels": {"block": domain}}
        fields.put(("scheduling", "topology"), topology, here)
        why = "the pods are kept together, and others may be there as well"
        fields.say(here, Outcome.NOT_CARRIED, "scheduling.topology", why)
    else:
        fields.leave(
            here, "scheduling.topology keeps all pods together, and no groups of them apart"
        )


def _processes(target: Rewrite, podset: PodSet) -> None:
    """Put what a torchrun without --nproc-per-node starts: one process, or what a variable says.

    No controller says it, but that of a PyTorchJob.
    """
    to: FieldPath = ("spec", "nprocPerNode")
    unsaid = "auto" if names.ENV_PROCESSES in podset.variables else "1"
    target.put(to, podset.env.get(names.ENV_PROCESSES) or unsaid)
    container: FieldPath = (*podset.path, "spec", "containers", podset.index)
    for index, entry in target.fields.items(*container, "env"):
        if entry.get("name") == names.ENV_PROCESSES:
            target.also((*container, "env", index, "value"), to)


def _check_ranks(fields: Fields, context: Context, shape: Shape) -> None:
    """Say where the pods were no nodes of one torchrun, and what the image must have."""
    sets = [podset for own in shape.roles.values() for podset in own]
    total = sum(podset.replicas for podset in sets)
    for podset in sets:
        program = podset.program(context.entrypoint)
        here: FieldPath = (*podset.path, "spec", "containers", podset.index)
        for look in (
            outside_variables.with_counts,
            configmap_scripts.with_launcher,
            configmap_scripts.with_unseen,
        ):
            program = look(fields, here, program, context)
        if program.runner is Runner.PLAIN:
            fields.note(job_program.NO_TORCHRUN)
        _check_index(fields, podset, program, total)
        is_counted = "nproc-per-node" in program.options or program.is_alone
        gpus = fields.values.get("gpusPerNode") or 0
        is_single = gpus > 1 and fields.values.get("procsPerNode") == 1
        if program.runner is Runner.TORCHRUN and not is_counted and is_single:
            fields.note(_ONE_PROCESS.format(plural(gpus, "GPU")))
        says_nodes = program.is_alone or "PET_NNODES" in podset.variables
        if program.runner is not Runner.TORCHRUN or says_nodes:
            continue
        job_program.check_nodes(fields, here, program.options, podset.env, (total, "1"))


def _check_index(fields: Fields, podset: PodSet, program: Program, total: int) -> None:
    """Say where a command or a variable counts its pod among those of one of a JobSet's Jobs.

    Args:
        fields: the object.
        podset: the pods.
        program: what they run.
        total: how many pods there are in all.
    """
    if podset.path[1:2] != ("replicatedJobs",):
        return
    jobs_of_set = fields.number(*podset.path[:3], "replicas")
    is_whole = podset.replicas == total and (jobs_of_set is None or jobs_of_set == 1)
    if is_whole:
        return
    why = (
        "it reads {}, the pod's number in its own Job: here it is that among all of "
        f"{plural(total, 'pod')}"
    )
    for path in downward.readers(fields, podset.path, _COMPLETION):
        fields.leave(path, why.format(_COMPLETION))
    if references.mentions((*program.command, program.setup), (_JOB_INDEX,)):
        for key in ("command", "args"):
            path = (*podset.path, "spec", "containers", podset.index, key)
            fields.leave(path, why.format(_JOB_INDEX))


def _array(
    fields: Fields,
    context: Context,
    podset: PodSet,
    policy: Mapping[str, FieldPath],
    volume_claims: Collection[Claim],
) -> str:
    """Pods that are told nothing of each other, as the trials of a sweep."""
    fields.put(("workload",), "sweep")
    pod_values.labels(fields, ("metadata",), ())
    pod = pod_values.read(fields, podset.path, (k8s.text(podset.main, "name"),))
    exports = _exports(fields, podset)
    pieces = tuple(
        piece for piece in pod.pieces if piece.to[:1] != ("env",) or piece.to[-1] not in exports
    )
    pod_values.put(fields, replace(pod, pieces=_without_mounts(pieces, volume_claims)), "sweep")
    program = job_program.program(fields, pod, context)
    _check_alone(podset, pod, program)
    script, text = configmap_scripts.of_mpirun(fields, pod.container, program, context)
    if script:
        caller, command = f"the mpirun of {script}", dotted((*pod.container, "command"))
        podsets.check_hosts(podset, text, caller, command, fields.text("kind"))
    job_program.words(fields, pod, program)
    if pod.gpus:
        fields.put(("gpus",), pod.gpus, pod.gpu_source)
        fields.put(("procsPerNode",), 1)
    if _JOB_INDEX in "\n".join((*program.command, program.setup)):
        exports.setdefault(_JOB_INDEX, pod.container)
    _export(fields, program, exports)
    for name, source in exports.items():
        if name != _JOB_INDEX or source != pod.container:
            fields.change(source, "it is the number of the trial", f"setup: {name}")
    parallel = min(podset.replicas, podset.parallel or podset.replicas)
    sweep: dict[str, Any] = {
        "parameters": {
            "index": {"range": {"min": 0, "max": max(0, podset.replicas - 1)}, "env": _INDEX}
        },
        "parallel": parallel,
        "maxFailedTrials": 0,
    }
    size = podset.sizes[0] if podset.sizes else podset.path
    fields.put(("sweep",), trials.bounded(fields, sweep, {"index": size}, size))
    if podset.parallelism and fields.number(*podset.parallelism) == parallel:
        fields.keep(podset.parallelism, "sweep.parallel")
    for size in podset.sizes:
        fields.keep(size, "sweep.parameters.index")
    for key in _POLICY:
        if key in policy:
            is_zero = key == "ttlSecondsAfterFinished" and fields.number(*policy[key]) == 0
            why = "0 keeps a job here; after one second is the least" if is_zero else ""
            fields.carry(policy[key], ("runPolicy", key), 1 if is_zero else None, why)
    claims.put(fields, volume_claims)
    _without_names(fields, podset)
    job_program.note_host_name(fields, (*program.command, program.setup))
    has_mpirun = bool(script) or program.workload == "mpi"
    if podset.replicas > 1:
        ranks = "each pod's mpirun starts its own ranks" if has_mpirun else _NO_RANKS
        fields.note(
            f"{ranks}, so its {podset.replicas} pods are the trials of a sweep: each runs the "
            "program by itself"
        )
    else:
        fields.note(trials.ALONE_WITH_MPIRUN if has_mpirun else trials.ALONE)
    _note_plain_helm(fields, podset.replicas)
    return ""


def _without_mounts(pieces: Sequence[Piece], volume_claims: Collection[Claim]) -> tuple[Piece, ...]:
    """The pieces of a template without the mounts of claims that are volumes of the run."""
    mounts_of_claims = {mount for claim in volume_claims for mount in claim.mounts}
    mounts = [piece for piece in pieces if piece.to == _MOUNTS]
    # A list's items have a piece each, of which each has the whole list.
    pairs = zip(mounts, mounts[0].value if mounts else (), strict=True)
    remaining = [mount for piece, mount in pairs if piece.source not in mounts_of_claims]
    return tuple(
        replace(piece, value=remaining) if piece.to == _MOUNTS else piece
        for piece in pieces
        if piece.source not in mounts_of_claims
    )


def _check_alone(podset: PodSet, pod: PodTemplate, program: Program) -> None:
    """Refuse pods of which each runs a script of a ConfigMap that starts torchrun."""
    if program.is_nested and podset.replicas > 1:
        raise InputError(
            f"{program.notes[-1].partition(':')[0]}, and nothing else says that its pods are ranks",
            path=dotted((*pod.container, "command")),
            hint="write the torchrun of the script into the command",
        )


def _without_names(fields: Fields, podset: PodSet) -> None:
    """Say of what had the pods find each other that trials do not."""
    for path in ((*podset.path, "spec", "subdomain"), *_FINDING):
        if fields.has(*path):
            fields.change(path, "the trials of a sweep have no Service, and know of no other")


def _export(fields: Fields, program: Program, variables: Collection[str]) -> None:
    """Make variables for the setup and the program of a trial that are its number.

    A setup with a first line of its own is another process: what it exports does not reach the
    program, which a shell gives the variables then.

    Args:
        fields: the object, with its command and setup put.
        program: what it runs.
        variables: their names.
    """
    exports = [f'export {name}="${_INDEX}"' for name in variables]
    shebang, rest = "", program.setup
    if rest.startswith("#!"):
        shebang, _, rest = rest.partition("\n")
    lines = [shebang, *exports] if shebang else exports
    if exports:
        fields.put(("setup",), "\n".join((*lines, rest)))
    if exports and shebang:
        assignments = " ".join(line.removeprefix("export ") for line in exports)
        fields.put(("command",), roles.wrapped(fields.values["command"], assignments))


def _note_plain_helm(fields: Fields, count: int) -> None:
    """Say where a sweep has more trials than a release of plain Helm."""
    from allranks.sweep.spec import plain_helm

    if count > plain_helm.TRIALS_MAX:
        fields.note(
            f"plain Helm has at most {plain_helm.TRIALS_MAX:,} trials, and here are {count:,}: run "
            "it with `allranks sweep run`"
        )


def _exports(fields: Fields, podset: PodSet) -> dict[str, FieldPath]:
    """The variables that say which pod it is, and where they are said."""
    exports: dict[str, FieldPath] = {}
    here: FieldPath = (*podset.path, "spec", "containers", podset.index, "env")
    for index, entry in fields.items(*here):
        path = k8s.text(entry, "valueFrom", "fieldRef", "fieldPath")
        if _COMPLETION in path and _VARIABLE.fullmatch(k8s.text(entry, "name")):
            exports[k8s.text(entry, "name")] = (*here, index)
    return exports
