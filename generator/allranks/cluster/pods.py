"""Which pod of a run is which, and which pods a person means; pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.model.processes import no_rank, not_fixed
from allranks.model.ranklines import ALL, ONE, Wanted, Writers
from allranks.status import controllers, processes
from allranks.status.fields import mapping, text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.model.manifest import Manifest

NODE = names.ROLE_NODE
# The container that trains: ours, and the name that elastic jobs of other tools give it.
_MAIN = ("trainer", "main")
# Whose first pod tells how the training goes, the first of these that there is.
_TELLING = (names.ROLE_LAUNCHER, names.ROLE_CHIEF, NODE, names.ROLE_WORKER)
_INDEXES = (names.JOB_COMPLETION_INDEX, names.POD_INDEX)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a pod is in its run.

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


class Ranks:
    """The ranks of a run's pods.

    A role may have several controllers (`demo-worker` and `demo-worker-last`); the ranks of the
    second go on where those of the first end.
    """

    def __init__(self, objects: Iterable[Manifest]) -> None:
        """Read them off the run's controllers."""
        self._first: dict[tuple[str, str], int] = {}
        self._roles: dict[str, str] = {}
        taken: defaultdict[str, int] = defaultdict(int)
        for one in controllers.owners(tuple(objects)):
            self._first[one.kind, one.name] = taken[one.role]
            self._roles[one.name] = one.role
            taken[one.role] += one.expected
        self._expected = dict(taken)

    def expects(self, wanted: Wanted, pods: Iterable[Manifest]) -> bool:
        """Whether the run is to have a pod like that, by those of its pods that are there."""
        kinds: dict[str, Writers] = {self.of(pod).role: writers(pod) for pod in pods}
        return any(
            wanted.has_pod(role, number, kinds.get(role, ONE))
            for role, count in self._expected.items()
            for number in range(count)
        )

    def word(self, role: str) -> str:
        """What a pod is called by, before its number, where a person named this role or none."""
        roles = list(self._expected)
        return role or (roles[0] if len(roles) == 1 else "node")

    def numbered(self, pod: str) -> Identity | None:
        """Which role and number a pod of that name has; None where no controller makes it."""
        owner, _, index = pod.rpartition("-")
        for (_, name), first in self._first.items():
            if name == owner and index.isdecimal():
                return Identity(self._roles[name], first + int(index))
        return None

    def of(self, pod: Manifest) -> Identity:
        """Which role and rank a pod is."""
        metadata = pod["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        role = str(labels.get(names.ROLE) or labels.get(names.EDL_TYPE) or "")
        own = str(labels.get(names.EDL_RANK) or "")
        if own.isdecimal():
            return Identity(role, int(own))
        for key in _INDEXES:
            text = str(labels.get(key) or annotations.get(key) or "")
            if text.isdecimal():
                return Identity(role, self._first_of(metadata) + int(text))
        return Identity(role, None)

    def leading(self, pods: Iterable[Manifest]) -> list[Manifest]:
        """The pods whose log tells how the training goes: the launcher's, else the first rank's.

        Where roles differ it is the chief's, or the first worker's: no parameter server's.
        """
        first = [
            (who.role, pod)
            for pod in pods
            if (who := self.of(pod)).rank == 0 or who.role == names.ROLE_LAUNCHER
        ]
        for telling in _TELLING:
            found = [pod for role, pod in first if role == telling]
            if found:
                return found
        return [pod for _, pod in first]

    def chosen(self, pods: Iterable[Manifest], wanted: Wanted = ALL) -> list[Manifest]:
        """The pods that may have lines that are wanted, by role, number and age."""
        found = []
        for pod in pods:
            who = self.of(pod)
            if wanted.has_pod(who.role, who.rank, writers(pod)):
                found.append(pod)
        return sorted(found, key=self._order)

    def _order(self, pod: Manifest) -> tuple[str, int, str]:
        who = self.of(pod)
        return who.role, -1 if who.rank is None else who.rank, created(pod)

    def _first_of(self, metadata: Manifest) -> int:
        for owner in metadata.get("ownerReferences") or ():
            first = self._first.get((str(owner.get("kind")), str(owner.get("name"))))
            if first is not None:
                return first
        return 0


def with_rank(
    rank: int, run: str, objects: Iterable[Manifest], hostfile: str, plan: str = ""
) -> Identity:
    """The pod that the process of a rank runs in.

    Args:
        rank: of a process, over the whole job.
        run: the run's name, for messages.
        objects: the run's controllers.
        hostfile: the hosts of an MPI job; "" where it is none, or they cannot be read.
        plan: plan.json of an elastic job; "" likewise.

    Raises:
        InputError: there is no such rank, or which pod it runs in is not fixed.
    """
    known = tuple(objects)
    facts = controllers.owners(known)
    for one in facts:
        if one.processes is None:
            continue
        node = one.processes.node(rank)
        if node is not None:
            return Identity(one.role, node)
        if one.processes.known == len(one.processes.slots):
            raise no_rank(rank, run, one.processes.total)
        raise not_fixed(rank, run, "its nodes get their ranks when they join", "--node N")
    launcher = next((one for one in known if _role(one) == names.ROLE_LAUNCHER), None)
    if launcher is None:
        places = processes.elastic(plan)
        for pod, ranks in places.items():
            who = Ranks(known).numbered(pod) if rank in ranks else None
            if who is not None:
                return who
        if places:
            raise no_rank(rank, run, len(places))
        roles = sorted({one.role for one in facts} - {NODE}) or [NODE]
        raise not_fixed(rank, run, "nothing says how many processes its pods have", _fix(roles))
    spec = mapping(launcher, "spec", "template", "spec")
    found = processes.mpi(spec, hostfile)
    for pod, ranks in found.items():
        who = Ranks(known).numbered(pod) if rank in ranks else None
        if who is not None:
            return who
    if found:
        raise no_rank(rank, run, max(ranks.stop for ranks in found.values()))
    raise not_fixed(rank, run, "its mpirun decides over the hosts", _fix([names.ROLE_WORKER]))


def _fix(roles: list[str]) -> str:
    return "--node N" if roles == [NODE] else f"--role {roles[-1]} --node N"


def _role(manifest: Manifest) -> str:
    return text(manifest, "metadata", "labels", names.ROLE)


def created(pod: Manifest) -> str:
    """When it was created, as a string that sorts."""
    return str(pod["metadata"].get("creationTimestamp") or "")


def main_container(pod: Manifest) -> str:
    """The container that trains: ours by its name, else the first."""
    found = [str(one["name"]) for one in (pod.get("spec") or {}).get("containers") or ()]
    named = [name for name in _MAIN if name in found]
    return (named or found or [_MAIN[0]])[0]


def writers(pod: Manifest) -> Writers:
    """The processes that write the log of the container that trains."""
    name = main_container(pod)
    containers = (pod.get("spec") or {}).get("containers") or ()
    return next((Writers.of(one) for one in containers if one.get("name") == name), ONE)


def container_status(pod: Manifest, container: str) -> Manifest:
    """What the kubelet says of a container; {} before it says anything."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    found: Manifest = next((one for one in statuses if one.get("name") == container), {})
    return found


def has_started(pod: Manifest) -> bool:
    """Whether the container that trains has a log."""
    status = container_status(pod, main_container(pod))
    state = status.get("state") or {}
    return "running" in state or "terminated" in state or bool(status.get("lastState"))


def was_restarted(pod: Manifest) -> bool:
    """Whether the container that trains was started again in this pod."""
    return bool(container_status(pod, main_container(pod)).get("restartCount"))


def is_running(pod: Manifest) -> bool:
    """Whether the container that trains runs now."""
    status = container_status(pod, main_container(pod))
    return "running" in (status.get("state") or {})
