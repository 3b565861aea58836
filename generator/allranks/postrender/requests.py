"""The requests of an object to the post-renderer: its annotations, overridden by options.

A chart of ours writes one JSON object per subject (``allranks.dev/scheduling``, ``…/placement``,
``…/fabric``). An option given on the command line wins over the same field of an annotation, as
``--set`` wins over a values file.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.frozen import FrozenRecord
from allranks.postrender.options import DIALECTS, QUEUE_DIALECTS, TOPOLOGY_KEYS, TOPOLOGY_MODES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from allranks.postrender.edit import Edit
    from allranks.postrender.options import PostrenderOptions

_ANNOTATIONS = ("metadata", "annotations")
_LEVELS = {key: level for level, key in TOPOLOGY_KEYS.items()}


class TopologyRequest(FrozenRecord):
    """The domain that a workload's pods share.

    Attributes:
        mode: none, preferred or required.
        key: the node label of the level.
        level: host, rack or block; "" where only the key is known.
        name: KAI's Topology object.
        tier: Volcano's highest HyperNode tier; 0 where it is not given.
        values: the domains to stay in, by the label's value; empty is any one domain.
        pods: labels that find the pods which belong together; empty is this object's own pods.
    """

    mode: str = "none"
    key: str = ""
    level: str = ""
    name: str = ""
    tier: int = 0
    values: tuple[str, ...] = ()
    pods: tuple[tuple[str, str], ...] = ()

    @property
    def is_set(self) -> bool:
        """Whether the request is not empty."""
        return self.mode != "none" and bool(self.key)


class Scheduling(FrozenRecord):
    """The scheduling request of a workload.

    Attributes:
        dialect: the scheduler to write for.
        queue: the queue; "" is none.
        priority_class: the priority class; "" is none.
        gang: whether the pods start together at all; False where each is of use alone.
        gang_min: pods that start together; 0 is all.
        gang_name: the gang, where several objects share one; "" is the object's own.
        gang_own: this object's own part of `gang_min`, where several share it.
        gang_timeout: seconds; 0 is the scheduler's default.
        scheduler_name: "" is the dialect's own.
        topology: where the pods belong together.
    """

    dialect: str = "none"
    queue: str = ""
    priority_class: str = ""
    gang: bool = True
    gang_min: int = 0
    gang_name: str = ""
    gang_own: int = 0
    gang_timeout: int = 0
    scheduler_name: str = ""
    topology: TopologyRequest = TopologyRequest()


class Fabric(FrozenRecord):
    """The shared memory and RDMA of a workload's pods.

    Attributes:
        shm_size: size of /dev/shm; "" adds none.
        rdma: whether the main containers may lock memory.
        resources: extended resources of each main container.
        containers: names of the main containers; empty finds them.
    """

    shm_size: str = ""
    rdma: bool = False
    resources: tuple[tuple[str, int | str], ...] = ()
    containers: tuple[str, ...] = ()


def scheduling(edit: Edit, options: PostrenderOptions) -> Scheduling | None:
    """The scheduling request of an object; None for none.

    Raises:
        InputError: the annotation is not what we write, or asks what the dialect has not.
    """
    values = _annotation(edit, names.SCHEDULING)
    placement = _annotation(edit, names.PLACEMENT)
    if values is None and placement is None and not options.schedules:
        return None
    values = values or {}
    alone = values.get("gang") is False
    gang = {} if alone else _map(edit, names.SCHEDULING, values, "gang")
    topology = _map(edit, names.SCHEDULING, values, "topology")
    ask = Scheduling(
        dialect=options.dialect or _text(edit, values, "dialect") or "none",
        queue=options.queue or _text(edit, values, "queue"),
        priority_class=options.priority_class or _text(edit, values, "priorityClass"),
        gang=not alone,
        gang_min=options.gang_min or _number(edit, gang, "minMember"),
        gang_name=_text(edit, gang, "name"),
        gang_own=_number(edit, gang, "own"),
        gang_timeout=options.gang_timeout or _number(edit, gang, "timeoutSeconds"),
        scheduler_name=options.scheduler_name,
        topology=_topology(edit, topology, placement or {}, options),
    )
    _check(edit, ask)
    return ask


def fabric(edit: Edit, options: PostrenderOptions) -> Fabric:
    """The fabric request of an object.

    Raises:
        InputError: the annotation is not what we write.
    """
    values = _annotation(edit, names.FABRIC) or {}
    resources = _map(edit, names.FABRIC, values, "resources")
    for name, amount in resources.items():
        if isinstance(amount, bool) or not isinstance(amount, int | str):
            _refuse(edit, names.FABRIC, f"resources: {name} is {amount!r}, expected a number")
    rdma = values.get("rdma", bool(resources))
    if not isinstance(rdma, bool):
        _refuse(edit, names.FABRIC, f"rdma is {rdma!r}, expected true or false")
    resources.update(options.rdma_resources)
    return Fabric(
        shm_size=options.shm_size,
        rdma=rdma or options.rdma or bool(options.rdma_resources),
        resources=tuple(resources.items()),
        containers=options.containers,
    )


def _topology(
    edit: Edit, annotation: dict[str, Any], placement: dict[str, Any], options: PostrenderOptions
) -> TopologyRequest:
    """The topology request; a placement alone names its level and its domains."""
    mode = (
        options.topology_mode or _text(edit, annotation, "mode") or _text(edit, placement, "mode")
    )
    if not mode or mode == "none":
        return TopologyRequest()
    if mode not in TOPOLOGY_MODES:
        _refuse(edit, names.SCHEDULING, f"topology mode {mode!r} is not one of {TOPOLOGY_MODES}")
    level = options.topology_level or _text(edit, annotation, "level")
    placed_key = _text(edit, placement, "key")
    key = options.topology_key or (TOPOLOGY_KEYS[level] if options.topology_level else "")
    key = key or _text(edit, annotation, "key") or placed_key
    key = key or TOPOLOGY_KEYS.get(level or "rack", "")
    values = options.topology_values
    if not values and placed_key == key:
        values = tuple(_values(edit, placement))
    pods = _map(edit, names.SCHEDULING, annotation, "pods")
    return TopologyRequest(
        mode=mode,
        key=key,
        level=level or _LEVELS.get(key, ""),
        name=options.topology_name or _text(edit, annotation, "name"),
        tier=options.topology_tier or _number(edit, annotation, "tier"),
        values=values,
        pods=tuple((label, _text(edit, pods, label)) for label in pods),
    )


def _check(edit: Edit, ask: Scheduling) -> None:
    if ask.dialect not in DIALECTS:
        _refuse(edit, names.SCHEDULING, f"dialect {ask.dialect!r} is not one of {DIALECTS}")
    if ask.queue and ask.dialect not in QUEUE_DIALECTS:
        edit.refuse(
            ("queue",),
            f"{ask.queue!r} is asked for, but the dialect {ask.dialect!r} has no queues",
            f"choose a dialect that has: {', '.join(QUEUE_DIALECTS)}",
        )
    if ask.dialect == "kueue" and not ask.queue:
        edit.refuse(
            ("queue",),
            "Kueue needs a queue: without one the job would start at once, past every quota",
            "name a LocalQueue of the namespace: queue in the values, or --queue",
        )


def _annotation(edit: Edit, key: str) -> dict[str, Any] | None:
    text = edit.get((*_ANNOTATIONS, key))
    if text is None:
        return None
    import json

    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError as error:
        _refuse(edit, key, f"is not JSON: {error}")
    if not isinstance(value, dict):
        _refuse(edit, key, "is not a JSON object")
    return value


def _map(edit: Edit, key: str, values: dict[str, Any], name: str) -> dict[str, Any]:
    value: Any = values.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        _refuse(edit, key, f"{name} is {value!r}, expected an object")
    return value


def _text(edit: Edit, values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        _refuse(edit, names.SCHEDULING, f"{name} is {value!r}, expected a string")
    return value


def _number(edit: Edit, values: dict[str, Any], name: str) -> int:
    value = values.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(edit, names.SCHEDULING, f"{name} is {value!r}, expected a number from 0")
    return value


def _values(edit: Edit, placement: dict[str, Any]) -> list[str]:
    values = placement.get("values") or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        _refuse(edit, names.PLACEMENT, f"values is {values!r}, expected a list of strings")
    return values


def _refuse(edit: Edit, key: str, message: str) -> NoReturn:
    edit.refuse(
        (*_ANNOTATIONS, key), message, "this annotation is the chart's to write; remove yours"
    )
