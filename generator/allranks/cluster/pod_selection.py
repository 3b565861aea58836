"""Identify the pods of a run, and select those that a person names; pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.k8s.fields import mapping, text
from allranks.model.processes import no_rank, not_fixed
from allranks.model.rank_lines import ALL, SINGLE_WRITER, LineSelection, LogWriters
from allranks.status import controllers, processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.k8s.manifest import Manifest

NODE = names.ROLE_NODE
# The container that trains: ours, and the name that elastic jobs of other tools give it.
_MAIN = ("trainer", "main")
# Whose first pod tells how the training goes, the first of these that there is.
_TELLING = (names.ROLE_LAUNCHER, names.ROLE_CHIEF, NODE, names.ROLE_WORKER)
_INDEXES = (names.JOB_COMPLETION_INDEX, names.POD_INDEX)


@dataclass(frozen=True, slots=True)
class RankIdentity:
    """The role and rank of a pod in its run.

    Attributes:
        role: ``node``, ``launcher``, ``worker``, ...; "" where nothing says it.
        rank: its number in the role; None where it has none. Of a torchrun job it is the node's
            number, and no process's.
    """

    role: str
    rank: int | None

    def __str__(self) -> str:
        """The number as a log line shows it: ``0`` of plain nodes, ``launcher``, ``worker-3``."""
        if self.role == names.ROLE_LAUNCHER:
            return self.role
        number = "-" if self.rank is None else str(self.rank)
        return number if self.role in {"", NODE} else f"{self.role}-{number}"


class PodRanks:
    """The ranks of a run's pods.

    A role may have several controllers (`demo-worker` and `demo-worker-last`); the ranks of the
    second go on where those of the first end.
    """

    def __init__(self, objects: Iterable[Manifest]) -> None:
        """Read the ranks from the run's controllers."""
        self._first: dict[tuple[str, str], int] = {}
        self._roles: dict[str, str] = {}
        indices: defaultdict[str, int] = defaultdict(int)
        for controller in controllers.owners(tuple(objects)):
            self._first[controller.kind, controller.name] = indices[controller.role]
            self._roles[controller.name] = controller.role
            indices[controller.role] += controller.expected
        self._expected = dict(indices)

    def expects(self, selection: LineSelection, pods: Iterable[Manifest]) -> bool:
        """Whether the run will have a pod of that selection, judged by its existing pods."""
        kinds: dict[str, LogWriters] = {self.identity(pod).role: writers(pod) for pod in pods}
        return any(
            selection.has_pod(role, number, kinds.get(role, SINGLE_WRITER))
            for role, count in self._expected.items()
            for number in range(count)
        )

    def word(self, role: str) -> str:
        """The noun before a pod's number, where a person named this role or none."""
        roles = list(self._expected)
        return role or (roles[0] if len(roles) == 1 else "node")

    def identify(self, pod: str) -> RankIdentity | None:
        """The role and number of a pod by its name; None where no controller creates it."""
        owner, _, index = pod.rpartition("-")
        for (_, name), first in self._first.items():
            if name == owner and index.isdecimal():
                return RankIdentity(self._roles[name], first + int(index))
        return None

    def identity(self, pod: Manifest) -> RankIdentity:
        """The role and rank of a pod."""
        metadata = pod["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        role = str(labels.get(names.ROLE) or labels.get(names.EDL_TYPE) or "")
        own = str(labels.get(names.EDL_RANK) or "")
        if own.isdecimal():
            return RankIdentity(role, int(own))
        for key in _INDEXES:
            text = str(labels.get(key) or annotations.get(key) or "")
            if text.isdecimal():
                return RankIdentity(role, self._first_of(metadata) + int(text))
        return RankIdentity(role, None)

    def leading(self, pods: Iterable[Manifest]) -> list[Manifest]:
        """The pods whose logs show the progress: the launcher's, else rank 0's.

        Where roles differ it is the chief's, or the first worker's: no parameter server's.
        """
        first = [
            (identity.role, pod)
            for pod in pods
            if (identity := self.identity(pod)).rank == 0 or identity.role == names.ROLE_LAUNCHER
        ]
        for telling in _TELLING:
            leads = [pod for role, pod in first if role == telling]
            if leads:
                return leads
        return [pod for _, pod in first]

    def choose(self, pods: Iterable[Manifest], selection: LineSelection = ALL) -> list[Manifest]:
        """The pods that a selection may have lines of, by role, number and age."""
        selected_pods = []
        for pod in pods:
            identity = self.identity(pod)
            if selection.has_pod(identity.role, identity.rank, writers(pod)):
                selected_pods.append(pod)
        return sorted(selected_pods, key=self._order)

    def _order(self, pod: Manifest) -> tuple[str, int, str]:
        identity = self.identity(pod)
        return identity.role, -1 if identity.rank is None else identity.rank, creation_time(pod)

    def _first_of(self, metadata: Manifest) -> int:
        for owner in metadata.get("ownerReferences") or ():
            first = self._first.get((str(owner.get("kind")), str(owner.get("name"))))
            if first is not None:
                return first
        return 0


def with_rank(
    rank: int, run: str, objects: Iterable[Manifest], hostfile: str, plan: str = ""
) -> RankIdentity:
    """The selection of the pod in which a rank's process runs.

    Args:
        rank: of a process, over the whole job.
        run: the run's name, for messages.
        objects: the run's controllers.
        hostfile: the hosts of an MPI job; "" where it is none, or they cannot be read.
        plan: plan.json of an elastic job; "" likewise.

    Raises:
        InputError: there is no such rank, or which pod it runs in is not fixed.
    """
    manifests = tuple(objects)
    facts = controllers.owners(manifests)
    for fact in facts:
        if fact.processes is None:
            continue
        node = fact.processes.node(rank)
        if node is not None:
            return RankIdentity(fact.role, node)
        if fact.processes.fixed == len(fact.processes.slots):
            raise no_rank(rank, run, fact.processes.total)
        groups = any(processes.is_group(_pod_spec(manifest)) for manifest in manifests)
        reason = (
            "each of its replica groups counts its ranks from 0"
            if groups
            else "its nodes get their ranks when they join"
        )
        raise not_fixed(rank, run, reason, "--node N")
    launcher = next(
        (manifest for manifest in manifests if _role(manifest) == names.ROLE_LAUNCHER), None
    )
    if launcher is None:
        places = processes.elastic(plan)
        for pod, ranks in places.items():
            identity = PodRanks(manifests).identify(pod) if rank in ranks else None
            if identity is not None:
                return identity
        if places:
            raise no_rank(rank, run, len(places))
        roles = sorted({fact.role for fact in facts} - {NODE}) or [NODE]
        raise not_fixed(rank, run, "nothing says how many processes its pods have", _fix(roles))
    spec = _pod_spec(launcher)
    table = processes.mpi(spec, hostfile)
    for pod, ranks in table.items():
        identity = PodRanks(manifests).identify(pod) if rank in ranks else None
        if identity is not None:
            return identity
    if table:
        raise no_rank(rank, run, max(ranks.stop for ranks in table.values()))
    raise not_fixed(rank, run, "its mpirun decides over the hosts", _fix([names.ROLE_WORKER]))


def _pod_spec(controller: Manifest) -> Mapping[str, Any]:
    return mapping(controller, "spec", "template", "spec")


def _fix(roles: list[str]) -> str:
    return "--node N" if roles == [NODE] else f"--role {roles[-1]} --node N"


def _role(manifest: Manifest) -> str:
    return text(manifest, "metadata", "labels", names.ROLE)


def creation_time(pod: Manifest) -> str:
    """The creation time, as a string that sorts."""
    return str(pod["metadata"].get("creationTimestamp") or "")


def main_container(pod: Manifest) -> str:
    """The training container: ours by its name, else the first."""
    containers = [
        str(container["name"]) for container in (pod.get("spec") or {}).get("containers") or ()
    ]
    main_containers = [name for name in _MAIN if name in containers]
    return (main_containers or containers or [_MAIN[0]])[0]


def writers(pod: Manifest) -> LogWriters:
    """The processes that write the log of the training container."""
    name = main_container(pod)
    containers = (pod.get("spec") or {}).get("containers") or ()
    return next(
        (LogWriters.of(container) for container in containers if container.get("name") == name),
        SINGLE_WRITER,
    )


def container_status(pod: Manifest, container: str) -> Manifest:
    """The kubelet's status of a container; {} before there is one."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    status: Manifest = next((entry for entry in statuses if entry.get("name") == container), {})
    return status


def has_started(pod: Manifest) -> bool:
    """Whether the training container has a log."""
    status = container_status(pod, main_container(pod))
    state = status.get("state") or {}
    return "running" in state or "terminated" in state or bool(status.get("lastState"))


def was_restarted(pod: Manifest) -> bool:
    """Whether the training container was restarted in this pod."""
    return bool(container_status(pod, main_container(pod)).get("restartCount"))


def is_running(pod: Manifest) -> bool:
    """Whether the training container runs."""
    status = container_status(pod, main_container(pod))
    return "running" in (status.get("state") or {})
