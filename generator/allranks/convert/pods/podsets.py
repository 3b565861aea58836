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

from allranks.convert.pods import first_pods, pod_values
from allranks.convert.pods.image_names import image_parts
from allranks.convert.programs import commands, references
from allranks.convert.programs.commands import Runner
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.convert.programs.commands import Program
    from allranks.convert.verdicts import FieldPath

KUBEFLOW = "kubeflow.org"
PYTORCH = (KUBEFLOW, "PyTorchJob")
MPI = (KUBEFLOW, "MPIJob")
TENSORFLOW = (KUBEFLOW, "TFJob")
MXNET = (KUBEFLOW, "MXJob")

# The variables by which ranks are told of each other, and those of other frameworks.
RANKS = (
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "RANK",
    "NODE_RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
)
_TENSORFLOW_WORDS = ("TF_CONFIG", "--job_name", "--ps_hosts", "--worker_hosts")
_JAX_WORDS = ("COORDINATOR_ADDRESS", "JAX_PROCESS_ID", "jax.distributed")
_JAX_OWN = ("JAX_COORDINATOR_ADDRESS", *_JAX_WORDS[1:])
_FIRST_AND_OTHERS = 2
# Programs that serve a model, and never end by themselves.
_SERVER_NAMES = re.compile(
    r"(?<![a-z])(?:vllm|sglang|tritonserver|tensorrt-?llm|trtllm|lmdeploy|llama-server"
    r"|text-generation-inference|djl-serving)(?![a-z])"
)
_SERVERS = re.compile(
    r"(?<![\w.-])(?:vllm serve|vllm\.entrypoints\.[\w.]+|sglang\.launch_server|djl-serving"
    r"|tritonserver|trtllm-serve|text-generation-launcher|llama-server|lmdeploy serve|ray start)"
    r"(?![\w-])"
)
_TPU = "google.com/tpu"
# The roles of TensorFlow, by what a set, or a cluster, may call them.
TENSORFLOW_ROLES = {
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
        part: what these pods run of what all of their template run; () for all of it.
    """

    name: str
    replicas: int
    path: FieldPath
    template: Mapping[str, Any]
    parallel: int = 0
    sizes: tuple[FieldPath, ...] = ()
    parallelism: FieldPath = ()
    part: tuple[str, ...] = ()

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
        container = self.containers[self.index] if self.containers else {}
        return {**container, "command": list(self.part), "args": []} if self.part else container

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
        return _words(self.main)

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
        command, args = (k8s.texts(self.main.get(key)) for key in ("command", "args"))
        return commands.read(command or list(entrypoint), args, self.env)


def _words(container: Mapping[str, Any]) -> list[str]:
    """The command and args of a container."""
    return [word for key in ("command", "args") for word in k8s.texts(container.get(key))]


def main_container(template: Mapping[str, Any]) -> int:
    """The place of the container that runs the program of a pod.

    It is the one that kubectl is told to look at, else one that starts ranks, else one that asks
    for GPUs, else the first that is no known helper.

    Args:
        template: the PodTemplateSpec.
    """
    containers = k8s.items(template, "spec", "containers")
    if len(containers) < 2:  # noqa: PLR2004 - there is nothing to choose
        return 0
    default_container = k8s.text(template, "metadata", "annotations", DEFAULT_CONTAINER)
    for index, container in enumerate(containers):
        if default_container and container.get("name") == default_container:
            return index
    scores = [(_score(container), -index) for index, container in enumerate(containers)]
    return -max(scores)[1]


def _score(container: Mapping[str, Any]) -> int:
    """How likely a container is the one that runs the program of its pod."""
    words = _words(container)
    text = f"{k8s.text(container, 'name')} {k8s.text(container, 'image')}"
    amounts = {
        **k8s.mapping(container, "resources", "requests"),
        **k8s.mapping(container, "resources", "limits"),
    }
    ranks = commands.read(words).runner is not Runner.PLAIN if words else False
    helper = any(sign in text for sign in _HELPERS)
    return (
        8 * ranks
        + 4 * any(pod_values.is_gpu(str(name)) for name in amounts)
        + 2 * (not helper)
        + bool(words)
    )


class NoRanksError(InputError):
    """Nothing in the words of several sets of pods starts ranks."""


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
        NoRanksError: they are several, and none of them starts ranks.
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
    # NODE_RANK and the like, of which JAX's scripts make their own, make no rank of torchrun's.
    if all(program.runner is Runner.PLAIN for program in programs):
        _refuse_jax(sets, _JAX_OWN, kind)
    if any(_is_rank(podset, program) for podset, program in zip(sets, programs, strict=True)):
        return Shape(PYTORCH, ranks(sets, kind))
    if any("DMLC_ROLE" in podset.variables for podset in sets):
        return Shape(MXNET, _by_role(sets, _MXNET_ROLES, kind))
    if any(_mentions(podset, _TENSORFLOW_WORDS) for podset in sets):
        return Shape(TENSORFLOW, _by_role(sets, TENSORFLOW_ROLES, kind))
    _refuse_jax(sets, _JAX_WORDS, kind)
    if len(sets) == 1:
        return Shape(None, {"": tuple(sets)})
    has_one_program = sets[0].words and all(podset.words == sets[0].words for podset in sets)
    has_one_program = has_one_program and any(podset.env != sets[0].env for podset in sets)
    programs_of_pods = (
        "one program, with roles by its variables" if has_one_program else "programs of their own"
    )
    raise NoRanksError(
        f"the pods of {', '.join(podset.name for podset in sets)} run {programs_of_pods}, and "
        "none of them is started by torchrun or mpirun: allranks has no job of such roles",
        path="spec",
        hint=f"keep the {kind} for it, or give each of them an object of its own",
    )


def _refuse_jax(sets: Sequence[PodSet], words: Sequence[str], kind: str) -> None:
    if any(_mentions(podset, words) for podset in sets):
        raise InputError(
            f"its program is JAX's, which finds its coordinator by the names of a {kind}'s pods",
            path="spec",
            hint=f"keep the {kind} for it, or make a JAXJob of it and convert that: its ranks are "
            "told COORDINATOR_ADDRESS, NUM_PROCESSES and PROCESS_ID",
        )


def check_ends(sets: Sequence[PodSet], kind: str) -> None:
    """Refuse pods that serve a model: a job is done when its ranks are.

    Args:
        sets: the sets of an object whose pods may run for ever.
        kind: its kind.

    Raises:
        InputError: one of them serves.
    """
    for podset in sets:
        server = _SERVERS.search(" ".join(" ".join(podset.words).split()))
        is_plain = podset.program().runner is Runner.PLAIN
        repository = image_parts(k8s.text(podset.main, "image")).get("repository", "")
        name = _SERVER_NAMES.search(f"{k8s.text(podset.main, 'name')} {repository}")
        if server is not None:
            sign = f"it runs {server[0]}"
        elif is_plain and podset.main.get("readinessProbe"):
            sign = "its readiness is asked for"
        elif is_plain and name is not None:
            sign = f"it is called after {name[0]}"
        else:
            continue
        raise InputError(
            f"{sign}, so it serves, and allranks runs jobs that end",
            path=dotted((*podset.path, "spec", "containers", podset.index)),
            hint=f"keep the {kind} for it",
        )


def without_ranks(
    sets: Sequence[PodSet], kind: str, path: str, entrypoint: Sequence[str] = ()
) -> InputError:
    """Why pods of an object that may serve are no job: they start no ranks, or nobody knows it.

    Args:
        sets: the sets of the object.
        kind: its kind.
        path: the field that has their templates.
        entrypoint: what the image runs where a container has no command; () where it is not known.
    """
    own = [podset.main for podset in sets if not podset.main.get("command")]
    images = [k8s.text(main, "image") for main in own]
    if images and not entrypoint:
        return InputError(
            f"nothing says that its pods start ranks: they run the entry point of {images[0]}",
            path=path,
            hint=f"keep the {kind} for it if that serves, or name it with --entrypoint "
            f"'torchrun train.py'; `docker inspect {images[0]}` shows it",
        )
    return InputError(
        "its pods start no ranks that are known here (torchrun, mpirun ...): what serves, or runs "
        "for ever, is no job",
        path=path,
        hint=f"keep the {kind} for it, or start its ranks with torchrun",
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
    return bool(podset.variables & set(RANKS)) or bool(
        references.mentions(podset.words, ("MASTER_ADDR", "PET_*"))
    )


def _mentions(podset: PodSet, words: Sequence[str]) -> bool:
    text = "\n".join([*podset.words, *podset.variables])
    return any(word in text for word in words)


def _called(launcher: PodSet) -> str:
    return "horovodrun" if Runner.HOROVODRUN in commands.starters(launcher.words) else "mpirun"


def _mpi(sets: Sequence[PodSet], launchers: list[PodSet], kind: str) -> Shape:
    """A launcher and its workers."""
    called = _called(launchers[0])
    if len(launchers) > 1:
        raise InputError(
            f"{called} is in {' and in '.join(podset.name for podset in launchers)}, and a job has "
            "one launcher",
            path="spec",
            hint=f"keep the {kind} for it, or make two jobs of it",
        )
    launcher = launchers[0]
    workers = [podset for podset in sets if podset is not launcher]
    if launcher.replicas > 1:
        parts = first_pods.split(launcher.words, first_pods.index_variables(launcher.main))
        if parts is None or workers:
            raise InputError(
                f"{called} is in a template with {launcher.replicas} pods, so that it is not said "
                "which of them is the launcher",
                path="spec",
                hint="write the launcher, with one pod, and its workers as one MPIJob, and convert "
                "that",
            )
        own, rest = parts
        first = replace(launcher, replicas=1, part=own)
        others = replace(launcher, replicas=launcher.replicas - 1, part=rest)
        return Shape(MPI, {"Launcher": (first,), "Worker": (others,)})
    if len(workers) > 1:
        raise InputError(
            f"beside the launcher there are {', '.join(podset.name for podset in workers)}, and an "
            "MPI job has workers of one kind",
            path="spec",
            hint=f"keep the {kind} for it",
        )
    if not workers:
        return _alone(launcher, kind)
    return Shape(MPI, {"Launcher": (launcher,), "Worker": tuple(workers)})


# How mpirun is told of hosts: by an option, or by a variable.
_HOSTS = re.compile(
    r"(?:^|\s)(?:--?hostfile|--?machinefile|--?hosts?|-H)(?:=|\s+)(?!localhost|127\.0\.0\.1)"
)
_HOST_FILES = {
    *("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
    *("HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"),
}


def _alone(launcher: PodSet, kind: str) -> Shape:
    """A pod whose mpirun starts its ranks in the pod itself, so that it needs no way to others."""
    check_hosts(launcher, "\n".join(launcher.words), f"its {_called(launcher)}", "spec", kind)
    return Shape(None, {"": (launcher,)})


def check_hosts(podset: PodSet, text: str, caller: str, path: str, kind: str) -> None:
    """Refuse pods that call mpirun with a list of hosts, which are other pods.

    Args:
        podset: the pods.
        text: the words or the script that call it.
        caller: what to call it in a message.
        path: the field that has it.
        kind: the kind of the object.

    Raises:
        InputError: it has such a list.
    """
    if _HOSTS.search(text) or podset.variables & _HOST_FILES:
        raise InputError(
            f"{caller} has a list of hosts, and none of its pods are those",
            path=path,
            hint=f"write the launcher and its workers as one MPIJob, or keep the {kind} for it",
        )


def ranks(sets: Sequence[PodSet], kind: str) -> dict[str, tuple[PodSet, ...]]:
    """Pods with ranks, by role: all alike, or a first one beside the others.

    Args:
        sets: the sets.
        kind: the kind of their object, for messages.

    Raises:
        InputError: they differ.
    """
    first = sets[0]
    if all(alike(podset, first) for podset in sets):
        return {"Worker": tuple(sets)}
    if len(sets) == _FIRST_AND_OTHERS:
        single = [podset for podset in sets if podset.replicas == 1]
        if single:
            master = single[0]
            workers = next(podset for podset in sets if podset is not master)
            return {"Master": (master,), "Worker": (workers,)}
    raise InputError(
        f"the pods of {', '.join(podset.name for podset in sets)} differ, and all pods of a "
        "torchrun job are of one template",
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
                if not (isinstance(entry, dict) and entry.get("name") in RANKS)
            ]
        containers.append(own)
    return {**spec, "containers": containers}


def _by_role(
    sets: Sequence[PodSet], roles: Mapping[str, str], kind: str
) -> dict[str, tuple[PodSet, ...]]:
    """The sets by the roles that they are named after."""
    by_role: dict[str, tuple[PodSet, ...]] = {}
    for podset in sets:
        base = re.sub(r"(?:^|.*[-_])([a-z]+)$", r"\1", podset.name.lower())
        role = roles.get(podset.name.lower()) or roles.get(base)
        if role is None and len(sets) == 1:
            role = "Worker"
        if role is None or role in by_role:
            raise InputError(
                f"{podset.name} is no role of its framework that is known here",
                path="spec",
                hint=f"name it {' or '.join(sorted(roles))}, or keep the {kind} for it",
            )
        by_role[role] = (podset,)
    return by_role


def resized(podset: PodSet, replicas: int, size: FieldPath) -> PodSet:
    """The same set with another number of pods.

    Args:
        podset: the set.
        replicas: how many pods.
        size: the field that says so, besides its own.
    """
    parallel = replicas if podset.parallel == podset.replicas else podset.parallel
    return replace(podset, replicas=replicas, parallel=parallel, sizes=(size, *podset.sizes))
