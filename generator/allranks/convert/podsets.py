"""Pods of one template in an object that has several, and which job they are together.

Objects that know nothing of training (JobSet, Volcano's Job, Indexed Jobs, StatefulSets) describe a
training job as some pods of each of some templates. What job it is follows from what they run and
from what they are told of each other: ranks of torchrun, a launcher with its workers, the roles of
TensorFlow or MXNet, or pods that have nothing to do with each other, which are the trials of a
sweep. What is none of these is refused with what would be needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks.convert import claims, commands, jobs, pods, roles, shell, trials
from allranks.convert.commands import Runner
from allranks.convert.rewrite import Rewrite, drop_dangling
from allranks.convert.verdicts import Outcome, dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from allranks.convert.claims import Claim
    from allranks.convert.commands import Program
    from allranks.convert.registry import Context
    from allranks.convert.verdicts import FieldPath, Fields

KUBEFLOW = "kubeflow.org"
PYTORCH = (KUBEFLOW, "PyTorchJob")
MPI = (KUBEFLOW, "MPIJob")
TENSORFLOW = (KUBEFLOW, "TFJob")
MXNET = (KUBEFLOW, "MXJob")

# The variables by which ranks are told of each other, and those of other frameworks.
_RANKS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_TENSORFLOW_WORDS = ("TF_CONFIG", "--job_name", "--ps_hosts", "--worker_hosts")
_JAX_WORDS = ("JAX_COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "jax.distributed")
# What keys of labels and annotations say of a pod that another controller has made.
_FOREIGN = (
    "jobset.sigs.k8s.io/",
    "training.kubeflow.org/",
    "trainer.kubeflow.org/",
    "leaderworkerset.sigs.k8s.io/",
    "volcano.sh/",
    "statefulset.kubernetes.io/",
    "apps.kubernetes.io/",
)
_TPU = "google.com/tpu"
_ROLES = {
    "chief": "Chief",
    "master": "Chief",
    "leader": "Chief",
    "worker": "Worker",
    "workers": "Worker",
    "ps": "PS",
    "pserver": "PS",
    "evaluator": "Evaluator",
}
_MXNET_ROLES = {"scheduler": "Scheduler", "server": "Server", "worker": "Worker"}
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
# What containers are called that help another one.
_HELPERS = ("sidecar", "proxy", "gcsfuse", "exporter", "fluent", "daemon", "agent", "log-collector")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_OTHER_NAMES = (
    "it names pods of the old controller, and they have other names here: read MASTER_ADDR, or the names "
    "that `allranks render` shows"
)
_NOT_WRITTEN = "it reads a label or annotation that the old controller writes"
_MPIRUNS = ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "horovodrun")
_LAUNCHERS = (Runner.MPIRUN, Runner.HOROVODRUN, Runner.SRUN)


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one template.

    Attributes:
        name: the name of the set in its object.
        replicas: how many pods.
        path: where the template stands.
        template: the PodTemplateSpec.
        parallel: how many of them run at a time; 0 for all.
        sizes: fields of the source by which the number of pods is said.
        parallelism: the field that says how many run at a time; () for none.
    """

    name: str
    replicas: int
    path: FieldPath
    template: Mapping[str, Any]
    parallel: int = 0
    sizes: tuple[FieldPath, ...] = ()
    parallelism: FieldPath = ()

    @property
    def containers(self) -> list[dict[str, Any]]:
        """The containers of a pod."""
        return k8s.items(self.template, "spec", "containers")

    @property
    def index(self) -> int:
        """The place of the container that runs the program."""
        return main_container(self.template)

    @property
    def main(self) -> Mapping[str, Any]:
        """The container that runs the program; an empty one where there is none."""
        return self.containers[self.index] if self.containers else {}

    @property
    def env(self) -> dict[str, str]:
        """The variables of that container whose text is known."""
        return {
            k8s.text(entry, "name"): str(entry["value"])
            for entry in k8s.items(self.main, "env")
            if entry.get("value") is not None
        }

    @property
    def variables(self) -> set[str]:
        """The names of the variables of that container."""
        return {k8s.text(entry, "name") for entry in k8s.items(self.main, "env")}

    @property
    def words(self) -> list[str]:
        """Its command and args."""
        return [
            str(word)
            for key in ("command", "args")
            for word in (self.main.get(key) if isinstance(self.main.get(key), list) else ())
        ]

    def resources(self) -> set[str]:
        """The names of what the pods ask for."""
        return {
            str(name)
            for container in self.containers
            for key in ("requests", "limits")
            for name in k8s.mapping(container, "resources", key)
        }

    def program(self, entrypoint: Sequence[str] = ()) -> Program:
        """What a pod runs."""
        command, args = (
            [str(word) for word in self.main[key]] if isinstance(self.main.get(key), list) else []
            for key in ("command", "args")
        )
        return commands.read(command or list(entrypoint), args, self.env)


def main_container(template: Mapping[str, Any]) -> int:
    """The place of the container that runs the program of a pod.

    It is the one that kubectl is told to look at, else one that starts ranks, else one that asks for
    GPUs, else the first that is no known helper.

    Args:
        template: the PodTemplateSpec.
    """
    containers = k8s.items(template, "spec", "containers")
    if len(containers) < 2:  # noqa: PLR2004 - there is nothing to choose
        return 0
    chosen = k8s.text(template, "metadata", "annotations", DEFAULT_CONTAINER)
    for index, container in enumerate(containers):
        if chosen and container.get("name") == chosen:
            return index
    scores = [(_score(container), -index) for index, container in enumerate(containers)]
    return -max(scores)[1]


def _score(container: Mapping[str, Any]) -> int:
    """How likely a container is the one that runs the program of its pod."""
    words = [
        str(word)
        for key in ("command", "args")
        for word in (container.get(key) if isinstance(container.get(key), list) else ())
    ]
    text = f"{k8s.text(container, 'name')} {k8s.text(container, 'image')}"
    amounts = {**k8s.mapping(container, "resources", "requests"), **k8s.mapping(container, "resources", "limits")}
    ranks = commands.read(words).runner is not Runner.PLAIN if words else False
    helper = any(sign in text for sign in _HELPERS)
    return 8 * ranks + 4 * any(pods.is_gpu(str(name)) for name in amounts) + 2 * (not helper) + bool(words)


@dataclass(frozen=True, slots=True)
class Shape:
    """The job that some sets of pods are together.

    Attributes:
        key: the API group and the kind that has such pods; None for pods that have nothing to do
            with each other.
        roles: by the kind's role, the sets that have it.
    """

    key: tuple[str, str] | None
    roles: Mapping[str, tuple[PodSet, ...]]


def shape(sets: Sequence[PodSet], kind: str, entrypoint: Sequence[str] = ()) -> Shape:
    """What job some sets of pods are.

    Args:
        sets: the sets that run from start to end.
        kind: the kind of their object, for messages.
        entrypoint: what the image runs where a container has no command; () where it is not known.

    Raises:
        InputError: they are no job that has a form here.
    """
    if not sets:
        raise InputError(f"the {kind} has no pods", path="spec", hint="write the whole object")
    _check_devices(sets, kind)
    programs = [podset.program(entrypoint) for podset in sets]
    launchers = [
        podset
        for podset, program in zip(sets, programs, strict=True)
        if program.runner in _LAUNCHERS
    ]
    if launchers:
        return _mpi(sets, launchers, kind)
    if any(_is_rank(podset, program) for podset, program in zip(sets, programs, strict=True)):
        return _pytorch(sets, kind)
    if any("DMLC_ROLE" in podset.variables for podset in sets):
        return Shape(MXNET, _by_role(sets, _MXNET_ROLES, kind))
    if any(_mentions(podset, _TENSORFLOW_WORDS) for podset in sets):
        return Shape(TENSORFLOW, _by_role(sets, _ROLES, kind))
    if any(_mentions(podset, _JAX_WORDS) for podset in sets):
        raise InputError(
            "its program is JAX's, which allranks does not start",
            path="spec",
            hint=f"keep the {kind} for it",
        )
    if len(sets) == 1:
        return Shape(None, {"": tuple(sets)})
    raise InputError(
        f"the pods of {', '.join(podset.name for podset in sets)} run programs of their own, and "
        "none of them is started by torchrun or mpirun: allranks has no job of such roles",
        path="spec",
        hint=f"keep the {kind} for it, or give each of them an object of its own",
    )


def _check_devices(sets: Sequence[PodSet], kind: str) -> None:
    for podset in sets:
        if _TPU in podset.resources():
            raise InputError(
                "it asks for TPUs, on which allranks starts nothing",
                path="spec",
                hint=f"keep the {kind} for it",
            )


def _is_rank(podset: PodSet, program: Program) -> bool:
    """Whether a pod's processes are ranks of torchrun, or are told what torchrun tells."""
    if program.runner is not Runner.PLAIN:
        return True
    if "DMLC_ROLE" in podset.variables or _mentions(podset, ("TF_CONFIG",)):
        return False
    return bool(podset.variables & set(_RANKS)) or bool(
        commands.mentions(podset.words, ("MASTER_ADDR", "PET_*"))
    )


def _mentions(podset: PodSet, words: Sequence[str]) -> bool:
    text = "\n".join([*podset.words, *podset.variables])
    return any(word in text for word in words)


def _mpi(sets: Sequence[PodSet], launchers: list[PodSet], kind: str) -> Shape:
    """A launcher and its workers."""
    if len(launchers) > 1:
        raise InputError(
            f"mpirun is in {' and in '.join(podset.name for podset in launchers)}, and a job has "
            "one launcher",
            path="spec",
            hint=f"keep the {kind} for it, or make two jobs of it",
        )
    launcher = launchers[0]
    workers = [podset for podset in sets if podset is not launcher]
    if launcher.replicas > 1:
        raise InputError(
            f"mpirun is in a template with {launcher.replicas} pods, so that it is not said which of "
            "them is the launcher",
            path="spec",
            hint="give the launcher a template of its own, with one pod",
        )
    if len(workers) > 1:
        raise InputError(
            f"beside the launcher there are {', '.join(podset.name for podset in workers)}, and an "
            "MPI job has workers of one kind",
            path="spec",
            hint=f"keep the {kind} for it",
        )
    roles = {"Launcher": (launcher,)}
    return Shape(MPI, {**roles, "Worker": tuple(workers)} if workers else roles)


def _pytorch(sets: Sequence[PodSet], kind: str) -> Shape:
    """Pods with ranks: all alike, or a first one beside the others."""
    first = sets[0]
    if all(alike(podset, first) for podset in sets):
        return Shape(PYTORCH, {"Worker": tuple(sets)})
    if len(sets) == 2:
        single = [podset for podset in sets if podset.replicas == 1]
        if single:
            master = single[0]
            workers = next(podset for podset in sets if podset is not master)
            return Shape(PYTORCH, {"Master": (master,), "Worker": (workers,)})
    raise InputError(
        f"the pods of {', '.join(podset.name for podset in sets)} differ, and all pods of a torchrun "
        "job are of one template",
        path="spec",
        hint=f"keep the {kind} for it, or make their templates equal",
    )


def alike(podset: PodSet, other: PodSet) -> bool:
    """Whether two sets have pods that do the same."""
    return _comparable(podset) == _comparable(other)


def _comparable(podset: PodSet) -> dict[str, Any]:
    """What a pod runs and asks for, without the names by which people tell the sets apart."""
    spec = dict(k8s.mapping(podset.template, "spec"))
    containers = []
    for index, container in enumerate(podset.containers):
        own = {key: value for key, value in container.items() if index or key != "name"}
        if isinstance(own.get("env"), list):
            own["env"] = [
                entry
                for entry in own["env"]
                if not (isinstance(entry, dict) and entry.get("name") in _RANKS)
            ]
        containers.append(own)
    return {**spec, "containers": containers}


def _by_role(
    sets: Sequence[PodSet], roles: Mapping[str, str], kind: str
) -> dict[str, tuple[PodSet, ...]]:
    """The sets by the roles that they are named after."""
    found: dict[str, tuple[PodSet, ...]] = {}
    for podset in sets:
        base = re.sub(r"(?:^|.*[-_])([a-z]+)$", r"\1", podset.name.lower())
        role = roles.get(podset.name.lower()) or roles.get(base)
        if role is None and len(sets) == 1:
            role = "Worker"
        if role is None or role in found:
            raise InputError(
                f"{podset.name} is no role of its framework that is known here",
                path="spec",
                hint=f"name it {' or '.join(sorted(roles))}, or keep the {kind} for it",
            )
        found[role] = (podset,)
    return found


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
    assert shape.key is not None
    section, container = _SECTIONS[shape.key]
    target.copy(("metadata",), ("metadata",))
    for role, sets in shape.roles.items():
        to: FieldPath = ("spec", section, role)
        target.put((*to, "replicas"), sum(podset.replicas for podset in sets))
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
    for key in ("initContainers", "containers"):
        for index, _ in fields.items(*first.path, "spec", key):
            source: FieldPath = (*first.path, "spec", key, index)
            place: FieldPath = (*to, "spec", key, index)
            others = target.keep((*source, "env"), (*place, "env"), _is_own)
            for entry in others:
                fields.leave((*source, "env", entry), _NOT_WRITTEN)
            if drop_mounts:
                target.keep(
                    (*source, "volumeMounts"),
                    (*place, "volumeMounts"),
                    lambda mount: k8s.text(mount, "name") not in drop_mounts,
                )


def _is_own(entry: Any) -> bool:
    """Whether a variable is known in a pod that the old controller has not made."""
    path = k8s.text(entry, "valueFrom", "fieldRef", "fieldPath")
    return not any(key in path for key in _FOREIGN)


# What the kinds above have of a run's policy, and where it is among the values.
_POLICY = ("suspend", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
_INDEX = "COMPLETION_INDEX"
_JOB_INDEX = "JOB_COMPLETION_INDEX"
_COMPLETION = "batch.kubernetes.io/job-completion-index"


def convert(
    fields: Fields,
    context: Context,
    shape: Shape,
    policy: Mapping[str, FieldPath],
    moved: Collection[Claim] = (),
    each: FieldPath = (),
) -> str:
    """Convert an object as the job that its pods are; the queue that it names.

    Args:
        fields: the object.
        context: what else is known.
        shape: what job it is.
        policy: where the object has what a run's policy says: `suspend`, `ttlSecondsAfterFinished`,
            `activeDeadlineSeconds`.
        moved: claims that become volumes of the run.
        each: where the claims stand that each pod has one of; () for nowhere.

    Raises:
        InputError: it cannot be converted.
    """
    if shape.key is None:
        queue = _array(fields, context, shape.roles[""][0], policy, moved)
    else:
        target = rewrite(fields, shape, [claim.name for claim in moved])
        for key, source in policy.items():
            target.copy(source, ("spec", "runPolicy", key))
        rewritten = _mpi_words(target, shape) if shape.key == MPI else []
        queue = target.convert(shape.key, context).queue
        for path in rewritten:
            fields.change(path, "the chart lists the hosts, and starts sshd", "command")
        claims.put(fields, moved)
        if shape.key == PYTORCH:
            _check_ranks(fields, context, shape)
    for sets in shape.roles.values():
        for podset in sets:
            _without_foreign(fields, podset)
    if each:
        claims.of_each_pod(fields, each)
    drop_dangling(fields)
    return queue


def _check_ranks(fields: Fields, context: Context, shape: Shape) -> None:
    """Say where the pods were no nodes of one torchrun, and what the image must have."""
    sets = [podset for own in shape.roles.values() for podset in own]
    total = sum(podset.replicas for podset in sets)
    for podset in sets:
        program = podset.program(context.entrypoint)
        if program.runner is Runner.PLAIN:
            fields.note(
                "nothing in it calls torchrun, and the chart does: the image must have torch. Each pod "
                "has one process, as before"
            )
        if program.runner is not Runner.TORCHRUN or "PET_NNODES" in podset.variables:
            continue
        here: FieldPath = (*podset.path, "spec", "containers", podset.index)
        nnodes = program.options.get("nnodes", "1")
        count = commands.number(nnodes.rpartition(":")[2], podset.env)
        if count is not None and count != total:
            alone = "by itself" if count == 1 else f"with {count - 1} others"
            for key in ("command", "args"):
                fields.leave(
                    (*here, key),
                    f"its torchrun has --nnodes {nnodes}, so that each of {total} pods trained {alone}; "
                    "here all of them train together",
                )


def _without_foreign(fields: Fields, podset: PodSet) -> None:
    """Take out variables that read what the old controller writes on its pods."""
    spec = k8s.mapping(fields.values, "podTemplate", "spec")
    for key in ("initContainers", "containers"):
        for index, _ in fields.items(*podset.path, "spec", key):
            here: FieldPath = (*podset.path, "spec", key, index, "env")
            for place, entry in fields.items(*here):
                if not _is_own(entry):
                    fields.leave((*here, place), _NOT_WRITTEN)
        for container in k8s.items(spec, key):
            if isinstance(container.get("env"), list):
                container["env"] = [entry for entry in container["env"] if _is_own(entry)]
    env = fields.values.get("env")
    for name, value in list(env.items()) if isinstance(env, dict) else ():
        if isinstance(value, dict) and not _is_own({"name": name, **value}):
            del env[name]


# What a launcher of MPI does in a script that the mpi chart does itself.
_HOSTS = re.compile(r"/etc/volcano/|\bVC_\w+_HOSTS\b|/etc/mpi/hostfile|\bgetent\b|\bnslookup\b")
_SSHD = ("sshd", "service", "mkdir", "sleep", "ssh-keygen")
_HOST_OPTIONS = r"(?:--?hosts?|-H|--?hostfile|--?machinefile|-f)"


def _mpi_words(target: Rewrite, shape: Shape) -> list[FieldPath]:
    """Take out of a launcher's script what lists the hosts and starts sshd: the chart does both.

    Returns:
        The words that are others now.
    """
    rewritten: list[FieldPath] = []
    launcher = shape.roles["Launcher"][0]
    fields = target.fields
    workers = sum(podset.replicas for podset in shape.roles.get("Worker", ()))
    to: FieldPath = ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", launcher.index)
    for key in ("command", "args"):
        here: FieldPath = (*launcher.path, "spec", "containers", launcher.index, key)
        for index, word in enumerate(fields.words(*here)):
            text = _without_hosts(word)
            if text != word:
                target.put((*to, key, index), text)
                rewritten.append((*here, index))
    texts = "\n".join(launcher.words)
    match = re.search(r"(?:^|\s)--?(?:np|n)[= ]+([0-9]+)(?=\s|$)", texts)
    if match is not None and workers and not any(pods.is_gpu(name) for name in launcher.resources()):
        target.put(("spec", "slotsPerWorker"), -(-int(match[1]) // workers))
    return rewritten


def _without_hosts(text: str) -> str:
    """A launcher's script without the lists of hosts, and without sshd."""
    parsed = shell.parse(text)
    if parsed is None or not any(command.program in _MPIRUNS for command in parsed):
        return text
    variables = ["MPI_HOST"]
    cuts: list[tuple[int, int]] = []
    starts = [command.start for command in parsed[1:]] + [len(text)]
    for command, start in zip(parsed, starts, strict=True):
        own = text[command.start : command.end]
        if command.depth == 0 and not command.words and _HOSTS.search(own):
            variables += [word.text.partition("=")[0] for word in command.assignments]
            cuts.append((command.start, start))
        elif command.depth == 0 and command.program in _SSHD and command.after not in ("|", "||"):
            cuts.append((command.start, start))
    for start, end in reversed(cuts):
        text = text[:start] + text[end:]
    names = "|".join(map(re.escape, variables))
    value = rf'(?:"?\$\{{?(?:{names})\}}?"?|/etc/volcano/\S+)'
    return re.sub(rf"\s{_HOST_OPTIONS}[= ]\s*{value}(?=\s|;|$)", "", text)


def _array(
    fields: Fields,
    context: Context,
    podset: PodSet,
    policy: Mapping[str, FieldPath],
    moved: Collection[Claim],
) -> str:
    """Pods that are told nothing of each other, as the trials of a sweep."""
    fields.put(("workload",), "sweep")
    pods.labels(fields, ("metadata",), ())
    pod = pods.read(fields, podset.path, (k8s.text(podset.main, "name"),))
    exports = _exports(fields, podset)
    kept = tuple(
        piece for piece in pod.pieces if piece.to[:1] != ("env",) or piece.to[-1] not in exports
    )
    pods.put(fields, replace(pod, pieces=kept), "sweep")
    program = jobs.program(fields, pod, context)
    jobs.words(fields, pod, program)
    if pod.gpus:
        fields.put(("gpus",), pod.gpus, (*pod.container, "resources"))
        fields.put(("procsPerNode",), 1)
    if _JOB_INDEX in "\n".join((*program.command, program.setup)):
        exports.setdefault(_JOB_INDEX, pod.container)
    if exports:
        lines = [f'export {name}="${_INDEX}"' for name in exports]
        fields.put(("setup",), "\n".join((*lines, program.setup)))
    for name, source in exports.items():
        if name != _JOB_INDEX:
            fields.change(source, "it is the number of the trial", f"setup: {name}")
    parallel = min(podset.replicas, podset.parallel or podset.replicas)
    sweep: dict[str, Any] = {
        "parameters": {"index": {"range": {"min": 0, "max": max(0, podset.replicas - 1)}, "env": _INDEX}},
        "parallel": parallel,
        "maxFailedTrials": 0,
    }
    fields.put(("sweep",), sweep)
    if podset.parallelism and fields.number(*podset.parallelism) == parallel:
        fields.keep(podset.parallelism, "sweep.parallel")
    for size in podset.sizes:
        fields.keep(size, "sweep.parameters.index")
    for key in _POLICY:
        if key in policy:
            seconds = fields.number(*policy[key])
            is_zero = key == "ttlSecondsAfterFinished" and seconds == 0
            why = "0 keeps a job here; after one second is the least" if is_zero else ""
            fields.carry(policy[key], ("runPolicy", key), 1 if is_zero else None, why)
    claims.put(fields, moved)
    if podset.replicas > 1:
        fields.note(
            f"its {podset.replicas} pods are told nothing of each other, so they are the trials of a "
            "sweep: each runs the program by itself"
        )
    else:
        fields.note("nothing in it starts ranks, so it is a sweep of one trial: one pod, as it was")
    return ""


def _exports(fields: Fields, podset: PodSet) -> dict[str, FieldPath]:
    """The variables that say which pod it is, and where they are said."""
    exports: dict[str, FieldPath] = {}
    here: FieldPath = (*podset.path, "spec", "containers", podset.index, "env")
    for index, entry in fields.items(*here):
        path = k8s.text(entry, "valueFrom", "fieldRef", "fieldPath")
        if _COMPLETION in path and _VARIABLE.fullmatch(k8s.text(entry, "name")):
            exports[k8s.text(entry, "name")] = (*here, index)
    return exports


def check_names(fields: Fields, sets: Sequence[PodSet], names: Sequence[str], first: str) -> None:
    """Put right what a program is told of the old controller's pods, or say that it is not.

    Args:
        fields: the object, converted.
        sets: its pods.
        names: the names of pods before their indices: ``train-workers``.
        first: the name of the pod of rank 0.
    """
    exports: dict[str, str] = {}
    is_torchrun = fields.values.get("workload") == "torchrun"
    for podset in sets:
        here: FieldPath = (*podset.path, "spec", "containers", podset.index)
        for index, entry in fields.items(*here, "env"):
            name, value = k8s.text(entry, "name"), entry.get("value")
            path: FieldPath = (*here, "env", index)
            if not isinstance(value, str) or not _VARIABLE.fullmatch(name):
                continue
            if is_torchrun and name == "WORLD_SIZE" and _world(fields) not in (None, value):
                exports[name] = f"'{value}'" if value.isdigit() else '"$WORLD_SIZE"'
                fields.change(path, "the program is told it again: here it counts processes", "command")
            elif name in (fields.values.get("env") or {}) and _is_pod(value, [first]) and is_torchrun:
                exports[name] = '"$MASTER_ADDR"'
                del fields.values["env"][name]
                fields.change(path, "it is the address of rank 0", "command")
            elif name in (fields.values.get("env") or {}) and _names_pods(value, names):
                fields.leave(path, _OTHER_NAMES)
        for key in ("command", "args"):
            for index, word in enumerate(fields.words(*here, key)):
                kept = [text for text in trials.texts(fields.values) if _names_pods(text, names)]
                if kept and _names_pods(word, names):
                    fields.leave((*here, key, index), _OTHER_NAMES)
    if exports and isinstance(fields.values.get("command"), list):
        text = " ".join(f"{name}={value}" for name, value in exports.items())
        fields.values["command"] = roles.wrapped(fields.values["command"], text)


def _world(fields: Fields) -> str | None:
    """How many ranks the job has, where each pod has one that was told its own; None elsewhere."""
    values = fields.values
    if values.get("procsPerNode") != 1 and (values.get("gpusPerNode") or 1) != 1:
        return None
    return str(values.get("nodes"))


def _is_pod(text: str, names: Sequence[str]) -> bool:
    """Whether a text is the name of a pod, with or without its domain."""
    return any(text == name or text.startswith(f"{name}.") for name in names if name)


def _names_pods(text: str, names: Sequence[str]) -> bool:
    """Whether a text names pods of the old controller."""
    patterns = (rf"(?<![\w-]){re.escape(name)}-(?:\d+(?![\w])|$|\$|[\"'{{])" for name in names if name)
    return any(re.search(pattern, text) for pattern in patterns)


def resized(podset: PodSet, replicas: int, size: FieldPath) -> PodSet:
    """The same set with another number of pods.

    Args:
        podset: the set.
        replicas: how many pods.
        size: the field that says so, besides its own.
    """
    parallel = replicas if podset.parallel == podset.replicas else podset.parallel
    return replace(podset, replicas=replicas, parallel=parallel, sizes=(size, *podset.sizes))
