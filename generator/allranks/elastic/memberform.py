"""A group of members as JSON: ranges for all, and for what few members have, the few by value.

A thousand workers are ``{"replicas": 1000, "next": 1000, "members": "0-999", "seen": "0-999"}``.

What is read back may have been edited by hand: what cannot be read is left out, an id that stands
twice counts once, and the next id is never one that is in use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from allranks.elastic import resource
from allranks.elastic.members import FAILED, GONE, SUCCEEDED, Group, Member
from allranks.model import ranges
from allranks.status.fields import count, digits, items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.elastic.resource import Resource

_Value = TypeVar("_Value")
_ENDED = {SUCCEEDED: "succeeded", FAILED: "failed", GONE: "gone"}


def write(group: Group) -> dict[str, Any]:
    """The JSON form of a group; only what is set."""
    members = group.members
    form: dict[str, Any] = {"replicas": group.replicas, "next": group.next_id}
    if group.resource:
        form["resource"] = group.resource.as_dict()
    if group.plan:
        form |= {"plan": group.plan, "plannedAt": group.planned_at}
    replaced = {"failures": group.failures, "disruptions": group.disruptions}
    form |= {key: value for key, value in replaced.items() if value}
    form["members"] = ranges.write_pairs((one.id, one.rank) for one in members)
    form["seen"] = ranges.write([one.id for one in members if one.seen])
    form["leaving"] = ranges.write([one.id for one in members if one.leaving])
    form["renew"] = ranges.write([one.id for one in members if one.renew])
    for ended, key in _ENDED.items():
        form[key] = ranges.write([one.id for one in members if one.ended == ended])
    form["relaunches"] = {
        str(times): ids for times, ids in _by_value(group, lambda one: one.relaunches)
    }
    form["avoid"] = [
        {"nodes": list(nodes), "ids": ids} for nodes, ids in _by_value(group, lambda one: one.avoid)
    ]
    form["services"] = [
        {"service": service, "ids": ids}
        for service, ids in _by_value(group, lambda one: one.service)
    ]
    form["resources"] = [
        {"resource": given.as_dict() if given else {}, "ids": ids}
        for given, ids in _by_value(group, lambda one: one.resource)
    ]
    return {key: value for key, value in form.items() if value or value == 0}


def read(kind: str, form: Mapping[str, Any]) -> Group:
    """Read `write` back.

    Args:
        kind: the replica type.
        form: what stands in the status.
    """
    found: dict[int, Member] = {}
    seen, leaving = set(ranges.read(form.get("seen"))), set(ranges.read(form.get("leaving")))
    for ident, rank in ranges.read_pairs(form.get("members")):
        found.setdefault(ident, Member(ident, rank, seen=ident in seen, leaving=ident in leaving))
    for ended, key in _ENDED.items():
        _set(found, form.get(key), "ended", ended)
    _set(found, form.get("renew"), "renew", value=True)
    for times, ids in mapping(form, "relaunches").items():
        _set(found, ids, "relaunches", digits(times) or 0)
    for one in items(form.get("avoid")):
        nodes = one.get("nodes")
        if isinstance(nodes, list):
            _set(found, one.get("ids"), "avoid", tuple(n for n in nodes if isinstance(n, str)))
    for one in items(form.get("services")):
        _set(found, one.get("ids"), "service", text(one, "service"))
    for one in items(form.get("resources")):
        _set(found, one.get("ids"), "resource", _resource(one.get("resource")))
    return Group(
        type=kind,
        replicas=min(count(form, "replicas"), ranges.LIMIT),
        members=tuple(found[ident] for ident in sorted(found)),
        next_id=max(count(form, "next"), max(found, default=-1) + 1),
        resource=_resource(form.get("resource")),
        plan=text(form, "plan"),
        planned_at=count(form, "plannedAt"),
        failures=count(form, "failures"),
        disruptions=count(form, "disruptions"),
    )


def _set(members: dict[int, Member], ids: object, name: str, value: Any) -> None:
    for ident in ranges.read(ids):
        if ident in members:
            members[ident] = replace(members[ident], **{name: value})


def _resource(data: Any) -> Resource | None:
    return resource.read(data, "resource", [])


def _by_value(group: Group, value_of: Callable[[Member], _Value]) -> list[tuple[_Value, str]]:
    """The values that are set, each with the ids that have it, in the order they first stand."""
    found: dict[_Value, list[int]] = {}
    for one in group.members:
        value = value_of(one)
        if value:
            found.setdefault(value, []).append(one.id)
    return [(value, ranges.write(ids)) for value, ids in found.items()]
