"""The options of the command line, which apply to every manifest.

Our own charts ask through annotations on their objects and need none of these; they are for
charts that know nothing of us.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.frozen import FrozenRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

DIALECTS = ("none", "kueue", "kai", "volcano", "coscheduling")
QUEUE_DIALECTS = ("kueue", "kai", "volcano")
TOPOLOGY_MODES = ("none", "preferred", "required")
TOPOLOGY_KEYS = {
    "host": names.HOSTNAME,
    "rack": "topology.kubernetes.io/rack",
    "block": "topology.kubernetes.io/block",
}


class PostrenderOptions(FrozenRecord):
    """The options of one run; empty means "not asked".

    Attributes:
        dialect: the scheduler to write for, one of `DIALECTS`; "" takes each object's own.
        queue: the queue to wait in.
        priority_class: the priority class, in the dialect's own sense.
        gang_min: pods that must start together; 0 is all of a workload's pods.
        gang_timeout: seconds a partly placed gang may wait; 0 is the scheduler's default.
        scheduler_name: ``schedulerName`` of the pods; "" is the dialect's own.
        topology_mode: keep a workload's pods together, one of `TOPOLOGY_MODES`; "" is not asked.
        topology_level: host, rack or block.
        topology_key: the node label of the level; "" follows from the level.
        topology_name: KAI: the name of the cluster's Topology object.
        topology_tier: Volcano: the highest HyperNode tier allowed; 0 follows from the level.
        topology_values: only nodes whose label `topology_key` has one of these values.
        shm_size: size of a memory-backed /dev/shm; "" adds none.
        rdma: add IPC_LOCK to the main containers.
        rdma_resources: extended resources of each main container.
        containers: names of the main containers; empty finds them.
        restricted: fill in what Pod Security "restricted" asks.
        labels: labels for objects and pods.
        kinds: change only objects of these kinds; empty is all.
        names: change only objects of these names; empty is all.
        values_digest: digest of the values, recorded on every object.
    """

    dialect: str = ""
    queue: str = ""
    priority_class: str = ""
    gang_min: int = 0
    gang_timeout: int = 0
    scheduler_name: str = ""
    topology_mode: str = ""
    topology_level: str = ""
    topology_key: str = ""
    topology_name: str = ""
    topology_tier: int = 0
    topology_values: tuple[str, ...] = ()
    shm_size: str = ""
    rdma: bool = False
    rdma_resources: tuple[tuple[str, int | str], ...] = ()
    containers: tuple[str, ...] = ()
    restricted: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    kinds: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    values_digest: str = ""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other, before anything is read."""
        for flag, value, allowed in (
            ("--dialect", self.dialect, DIALECTS),
            ("--topology-mode", self.topology_mode, TOPOLOGY_MODES),
            ("--topology-level", self.topology_level, tuple(TOPOLOGY_KEYS)),
        ):
            if value and value not in allowed:
                refuse(flag, f"{value!r} is not one of {', '.join(allowed)}")
        for flag, number in (
            ("--gang-min", self.gang_min),
            ("--gang-timeout", self.gang_timeout),
            ("--topology-tier", self.topology_tier),
        ):
            if number < 0:
                refuse(flag, f"{number} is negative")
        if self.topology_values and self.topology_mode not in ("preferred", "required"):
            refuse(
                "--topology-value",
                "needs --topology-mode",
                "add --topology-mode required, or preferred",
            )

    @property
    def schedules(self) -> bool:
        """Whether the options change the scheduling or placement of every workload."""
        return bool(
            self.dialect
            or self.queue
            or self.priority_class
            or self.gang_min
            or self.gang_timeout
            or self.scheduler_name
            or self.topology_mode
        )

    @property
    def touches_workloads(self) -> bool:
        """Whether workloads that ask for nothing themselves may change."""
        return bool(
            self.schedules
            or self.shm_size
            or self.rdma
            or self.rdma_resources
            or self.restricted
            or self.labels
        )

    @property
    def touches_everything(self) -> bool:
        """Whether objects that are no workloads may change."""
        return bool(self.labels or self.values_digest)

    def selects(self, kind: str, name: str) -> bool:
        """Whether an object is among those that the options are for."""
        return (not self.kinds or kind in self.kinds) and (not self.names or name in self.names)


def refuse(flag: str, message: str, hint: str = "") -> NoReturn:
    """Raise an `InputError` about an option."""
    from allranks.errors import InputError

    raise InputError(message, path=flag, hint=hint)


DEFAULTS = PostrenderOptions()
