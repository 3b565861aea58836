"""Reading a ScalePlan, whatever program wrote it.

A plan is a command: so many pods of a type, these pods more, those pods less. It comes from a
master, from a person, from a Go client that drops every zero. Nothing here raises. An oddity is a
sentence in `problems` and the rest of the plan holds; what makes no sense at all (a negative
number, a type that is no name) is `invalid`, and then nothing of the plan holds.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from allranks import names
from allranks.elastic import resources
from allranks.elastic.api import unknown_fields
from allranks.humanize import plural, shorten
from allranks.k8s import ranges
from allranks.k8s.fields import condition, count, items, mapping, number, text, when
from allranks.k8s.object_names import is_dns_1123_label

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.resources import ResourceAmounts
    from allranks.k8s.manifest import Manifest

ScaleType = Literal["auto", "manual"]
AUTO: ScaleType = "auto"
MANUAL: ScaleType = "manual"
PLAN_SUCCEEDED, PLAN_FAILED, PLAN_SUPERSEDED, SCALING = (
    "Succeeded",
    "Failed",
    "Superseded",
    "Scaling",
)
FINAL = frozenset({PLAN_SUCCEEDED, PLAN_FAILED, PLAN_SUPERSEDED})

# What a plan may hold: what is kept of it stands in its job's status, and its hosts in the
# environment of each worker.
_TYPES_MAX, _PODS_MAX, _HOSTS_MAX = 64, 10_000, 1_000
_NAME_MAX, _ADDRESS_MAX, _ADDRESSES_MAX = 253, 260, 65_536

_THERE = ("removePods", "migratePods")  # about pods that there are
_POD_FIELDS = frozenset(unknown_fields.POD)
_NAMED_MAX = 3

_TYPE_MAX = 32
_POD_NAME = re.compile(r".+-edljob-(?P<type>.+?)(?:-(?P<rank>[0-9]{1,9}))?-(?P<id>[0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class GroupAsk:
    """The number and size of pods that a plan asks for, of one replica type.

    Attributes:
        replicas: how many pods; None to keep the number.
        resource: what new pods get; None to keep it.
    """

    replicas: int | None = None
    resource: ResourceAmounts | None = None


@dataclass(frozen=True, slots=True)
class PodMeta:
    """A pod that a plan names.

    Attributes:
        name: its name; "" where only its type and id, or its rank, are given.
        type: its replica type.
        id: its id; None where nothing says it.
        rank: its rank; None where nothing says it. Go leaves a zero out, but not the name or the
            address that has it.
        service: the address of its rank; "" for the usual one.
        resource: what it gets; None for what its group gets.
    """

    name: str = ""
    type: str = ""
    id: int | None = None
    rank: int | None = None
    service: str = ""
    resource: ResourceAmounts | None = None


@dataclass(frozen=True, slots=True)
class ScalePlan:
    """A request to change the pods of a job.

    Attributes:
        name: its name.
        namespace: its namespace.
        uid: its uid.
        generation: of its spec; goes up with each edit, and is 0 where nobody counts.
        observed: the generation that its status is about; None where nothing says it.
        created_at: seconds since the epoch.
        owner_job: the job it is for, from `ownerJob`, a label or its owner; "" where none says it.
        owner_uid: the uid of the job that owns it; "" where none does.
        scale_type: ``auto`` of a master, ``manual`` of a person.
        groups: by replica type.
        create: pods to make as they are named.
        remove: pods to take away.
        migrate: pods to replace, the new one first.
        ps_hosts: the parameter servers from now on; () to keep them.
        phase: of its status; "" before anybody has seen it.
        finished_at: of its status, in seconds since the epoch; None before its end.
        applied_at: of its status, since when its pods have all been made, though they do not run
            yet; None where some have not.
        problems: sentences about its unusual parts.
        edit: the counts in its job's spec that it was made of, by type; {} for a plan that is no
            edit of a spec.
        invalid: why it is refused as a whole; "" where it is valid.
        raw: the object itself.
    """

    name: str
    namespace: str
    uid: str
    generation: int = 0
    observed: int | None = None
    created_at: float = 0.0
    owner_job: str = ""
    owner_uid: str = ""
    scale_type: ScaleType = MANUAL
    groups: Mapping[str, GroupAsk] = field(default_factory=dict)
    create: tuple[PodMeta, ...] = ()
    remove: tuple[PodMeta, ...] = ()
    migrate: tuple[PodMeta, ...] = ()
    ps_hosts: tuple[str, ...] = ()
    phase: str = ""
    finished_at: float | None = None
    applied_at: float | None = None
    problems: tuple[str, ...] = ()
    edit: Mapping[str, int] = field(default_factory=dict)
    invalid: str = ""
    raw: Manifest = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether it asks for nothing, as many plans of a master do."""
        pods = self.create or self.remove or self.migrate
        return not (self.invalid or self.groups or pods or self.ps_hosts)

    @property
    def edited(self) -> bool:
        """Whether its spec has changed since its status was written."""
        return self.observed is not None and self.generation > self.observed

    @property
    def finished(self) -> bool:
        """Whether its status says that it is done."""
        return self.phase in FINAL and not self.edited

    @property
    def key(self) -> str:
        """The key it has in the target: an edited plan is a plan of its own."""
        return f"{self.uid}@{self.generation}" if self.generation > 1 else self.uid

    @property
    def types(self) -> frozenset[str]:
        """The replica types that it changes."""
        pods = (*self.create, *self.remove, *self.migrate)
        return frozenset(self.groups) | {meta.type for meta in pods if meta.type}


def read(plan: Manifest) -> ScalePlan:
    """Read a ScalePlan.

    Args:
        plan: the object, as the API server gives it.
    """
    problems: list[str] = []
    faults: list[str] = []
    metadata, spec, status = (mapping(plan, key) for key in ("metadata", "spec", "status"))
    labels = mapping(metadata, "labels")
    owner = _owner(metadata)
    scale_type = _scale_type(labels.get(names.SCALE_TYPE), problems)
    _heed_unread(spec, problems, faults)
    return ScalePlan(
        name=text(metadata, "name"),
        namespace=text(metadata, "namespace"),
        uid=text(metadata, "uid"),
        generation=count(metadata, "generation"),
        observed=number(status, "observedGeneration"),
        created_at=when(metadata, "creationTimestamp") or 0.0,
        owner_job=text(spec, "ownerJob")
        or text(labels.get(names.EDL_NAME))
        or text(labels.get(names.EDL_NAME_OLD))
        or text(owner, "name"),
        owner_uid=text(owner, "uid"),
        scale_type=scale_type,
        groups=_groups(
            spec.get("replicaResourceSpecs"), problems, faults, person=scale_type == MANUAL
        ),
        create=_pods(spec, "createPods", problems, faults),
        # Nothing is kept of those.
        remove=_pods(spec, "removePods", problems, faults, most=ranges.LIMIT),
        migrate=_pods(spec, "migratePods", problems, faults),
        ps_hosts=_hosts(spec.get("psHosts"), faults),
        phase=text(status, "phase"),
        finished_at=when(status, "finishTime"),
        applied_at=when(condition(items(status, "conditions"), "Applied"), "lastTransitionTime"),
        problems=tuple(problems),
        edit=_edit(mapping(metadata, "annotations").get(names.EDIT)),
        invalid=faults[0] if faults else "",
        raw=plan,
    )


def _heed_unread(spec: Mapping[str, Any], problems: list[str], faults: list[str]) -> None:
    """Note the fields that nobody reads; a plan with no other fields is refused."""
    sentences = list(unknown_fields.fields(spec, unknown_fields.PLAN))
    asks = [key for key in unknown_fields.PLAN if key != "ownerJob" and spec.get(key)]
    (problems if asks else faults).extend(sentences)


def parse_pod_name(name: str) -> tuple[str, int, int | None] | None:
    """Return type, id and, where the name has it, rank of a pod; None for other names."""
    match = _POD_NAME.fullmatch(name)
    if match is None:
        return None
    return match["type"], int(match["id"]), int(match["rank"]) if match["rank"] else None


def _scale_type(label: Any, problems: list[str]) -> ScaleType:
    if label == AUTO:
        return AUTO
    if label not in (None, "", MANUAL):
        problems.append(
            f"label {names.SCALE_TYPE} is {shorten(label)}; auto and manual are known, "
            "manual is taken"
        )
    return MANUAL


def _owner(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the owner reference to the ElasticJob; some masters write its kind in lower case."""
    for owner in items(metadata, "ownerReferences"):
        if text(owner, "kind").lower() == names.ELASTIC_JOB.lower():
            return owner
    return {}


def _edit(annotation: Any) -> dict[str, int]:
    try:
        counts = json.loads(annotation) if isinstance(annotation, str) else None
    except (ValueError, RecursionError):
        return {}
    return {
        key: value
        for key, value in mapping(counts).items()
        if isinstance(value, int) and not isinstance(value, bool)
    }


def _groups(
    data: Any, problems: list[str], faults: list[str], *, person: bool
) -> dict[str, GroupAsk]:
    """Return what the plan asks of each type; a person may change the size of pods alone."""
    asks: dict[str, GroupAsk] = {}
    if data is not None and not isinstance(data, dict):
        faults.append(f"replicaResourceSpecs is {shorten(data)}, not an object")
    if len(mapping(data)) > _TYPES_MAX:
        faults.append(
            f"replicaResourceSpecs has {len(data)} types; at most {_TYPES_MAX} are allowed"
        )
        return {}
    for key, value in mapping(data).items():
        where, kind = f"replicaResourceSpecs.{shorten(key)[1:-1]}", str(key).strip().lower()
        if kind == names.EDL_MASTER:
            problems.append("a plan does not change the master")
        elif not is_dns_1123_label(kind, longest=_TYPE_MAX):
            faults.append(f"replicaResourceSpecs has {shorten(key)}, which is no replica type")
        elif not isinstance(value, dict):
            faults.append(f"{where} is {shorten(value)}, not an object")
        else:
            problems.extend(unknown_fields.fields(value, unknown_fields.GROUP, where))
            replicas = _number(value, "replicas", where, faults)
            resource = resources.read(value.get("resource"), f"{where}.resource", faults)
            if replicas is None and not (faults or (resource and person)):
                problems.append(f"{where} says no replicas; their number stays")
            ask = GroupAsk(replicas, resource)
            if asks.setdefault(kind, ask) != ask:
                faults.append(f"replicaResourceSpecs has {kind} twice, in two spellings; leave one")
    return asks


def _pods(
    spec: Mapping[str, Any],
    where: str,
    problems: list[str],
    faults: list[str],
    *,
    most: int = _PODS_MAX,
) -> tuple[PodMeta, ...]:
    data = spec.get(where)
    if data is None:
        return ()
    if not isinstance(data, list):
        faults.append(f"{where} is {shorten(data)}, not a list")
        return ()
    if len(data) > most:
        faults.append(f"{where} has {plural(len(data), 'pod')}; at most {most} are allowed")
        return ()
    strange = [(index, entry) for index, entry in enumerate(data) if _has_unread(entry)]
    for index, entry in strange[:_NAMED_MAX]:
        problems.extend(unknown_fields.fields(entry, unknown_fields.POD, f"{where}[{index}]"))
    metas = [_pod(entry, f"{where}[{index}]", faults) for index, entry in enumerate(data)]
    return tuple([meta for meta in metas if meta is not None])


def _has_unread(data: Any) -> bool:
    return isinstance(data, dict) and not data.keys() <= _POD_FIELDS


def _pod(data: Any, where: str, faults: list[str]) -> PodMeta | None:
    if not isinstance(data, dict):
        faults.append(f"{where} is {shorten(data)}, not an object")
        return None
    name, service = text(data, "name"), text(data, "service")
    _fits(name, f"{where}.name", _NAME_MAX, faults)
    _fits(service, f"{where}.service", _ADDRESS_MAX, faults)
    parsed = parse_pod_name(name) if name else None
    kind = text(data, "type").strip().lower() or (parsed[0] if parsed else "")
    if name and not kind and not where.startswith("createPods"):
        faults.append(f"{where}: {shorten(name)} is no pod of this job")
        return None
    if not is_dns_1123_label(kind, longest=_TYPE_MAX) or kind == names.EDL_MASTER:
        faults.append(
            f"{where} is of type {shorten(kind)}; a worker, ps, chief or such is asked for"
        )
        return None
    ident = _number(data, "id", where, faults)
    if parsed is not None and (kind != parsed[0] or ident not in (None, parsed[1])):
        faults.append(f"{where} is called {name}, but has type {kind} and id {ident}")
    rank = _number(data, "rankIndex", where, faults)
    if not name and ident is None and rank is None and where.startswith(_THERE):
        faults.append(f"{where} names no pod: it has no name, no id and no rankIndex")
    return PodMeta(
        name=name,
        type=kind,
        id=parsed[1] if ident is None and parsed else ident,
        rank=parsed[2] if rank is None and parsed else rank,
        service=service,
        resource=resources.read(data.get("resource"), f"{where}.resource", faults),
    )


def _number(data: Mapping[str, Any], key: str, where: str, faults: list[str]) -> int | None:
    value = data.get(key)
    if value is None:
        return None
    whole = number(value)
    if whole is None:
        faults.append(f"{where}.{key} is {shorten(value)}, not a whole number")
    elif not 0 <= whole <= ranges.LIMIT:
        faults.append(f"{where}.{key} is {shorten(whole)}; 0 to {ranges.LIMIT} is allowed")
        return None
    return whole


def _hosts(data: Any, faults: list[str]) -> tuple[str, ...]:
    if data is None:
        return ()
    if not isinstance(data, list) or not all(isinstance(host, str) for host in data):
        faults.append(f"psHosts is {shorten(data)}, not a list of addresses")
        return ()
    if len(data) > _HOSTS_MAX:
        faults.append(f"psHosts has {len(data)} addresses; at most {_HOSTS_MAX} are allowed")
        return ()
    for index, host in enumerate(data):
        _fits(host, f"psHosts[{index}]", _ADDRESS_MAX, faults)
    _fits("".join(data), "psHosts", _ADDRESSES_MAX, faults)
    return tuple(host for host in data if host)


def _fits(content: str, where: str, most: int, faults: list[str]) -> None:
    if len(content) > most:
        faults.append(f"{where} has {len(content)} characters; at most {most} are allowed")
