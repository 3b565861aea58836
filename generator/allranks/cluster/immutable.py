"""Which fields of objects that are there Kubernetes never changes, and which a new render would.

To them belong the pod templates of an elastic job: Kubernetes changes them, and no pod that runs.

Pure: the rendered object, the one that helm applied last, and the one on the cluster go in; each
field that cannot change comes out with its old and its new value. The API server decides in the
end (`allranks.cluster.upgrading` asks it); this says what its refusal is about.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError
from allranks.model import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.model.manifest import Manifest

_Path = tuple[str, ...]
_ABSENT: Any = object()
_SHOWN = 60
# What stays as it was created, by kind. Below a field all of it stays.
_FIXED: dict[str, tuple[_Path, ...]] = {
    "Job": tuple(
        ("spec", field)
        for field in (
            "completions",
            "completionMode",
            "selector",
            "template",
            "podFailurePolicy",
            "successPolicy",
            "backoffLimitPerIndex",
            "managedBy",
        )
    ),
    "StatefulSet": tuple(
        ("spec", field)
        for field in ("serviceName", "selector", "podManagementPolicy", "volumeClaimTemplates")
    ),
    "PersistentVolumeClaim": tuple(
        ("spec", field)
        for field in (
            "accessModes",
            "storageClassName",
            "volumeMode",
            "volumeName",
            "selector",
            "dataSource",
            "dataSourceRef",
        )
    ),
    "Service": (("spec", "clusterIP"),),
    "Secret": (("type",),),
    "RoleBinding": (("roleRef",),),
}
# No retry at all is not the same as no limit of this kind: the server tells 0 from nothing.
_RETRIES: _Path = ("spec", "backoffLimitPerIndex")
_CLAIM_SIZE: _Path = ("spec", "resources", "requests", "storage")
# An object that says so of itself keeps its content.
_CONTENT: tuple[_Path, ...] = (("data",), ("binaryData",))
# What the entries of a list are known by, where it is not `name`.
_KEYS = {"volumeMounts": "mountPath", "ports": "containerPort"}
_QUANTITIES = frozenset({"requests", "limits", "sizeLimit", "storage"})


@dataclass(frozen=True, slots=True)
class Change:
    """A field that would change.

    Attributes:
        path: where: ``spec.template.spec.containers[trainer].image``.
        old: the value on the cluster, as a person reads it; "" where it is not set.
        new: the rendered value; "" where it is no longer set.
    """

    path: str
    old: str
    new: str

    def __str__(self) -> str:
        """The change as a clause."""
        return f"{self.old or 'not set'} -> {self.new or 'not set'}"


def changes(new: Manifest, live: Manifest, applied: Manifest | None = None) -> tuple[Change, ...]:
    """The fields that Kubernetes does not change and the new object would.

    Args:
        new: the object as rendered.
        live: the object on the cluster.
        applied: the object as helm applied it last; None where that is not known.
    """
    kind = str(new.get("kind"))
    found: list[Change] = []
    for path in _fixed(kind, live):
        before = _at(applied, path) if applied is not None else _ABSENT
        found += _compare(path, _at(new, path), _at(live, path), before, known=applied is not None)
    if kind == "Job" and _elastic(new, live):
        found = [one for one in found if one.path != "spec.completions"]
    if kind == "PersistentVolumeClaim":
        found += _shrinking(new, live)
    return tuple(found)


def _fixed(kind: str, live: Manifest) -> tuple[_Path, ...]:
    if kind == names.ELASTIC_JOB:
        roles = _at(live, ("spec", "replicaSpecs"))
        types = roles if isinstance(roles, dict) else ()
        return tuple(("spec", "replicaSpecs", one, "template") for one in types)
    fixed = _FIXED.get(kind, ())
    return (*fixed, *_CONTENT) if live.get("immutable") is True else fixed


def _elastic(new: Manifest, live: Manifest) -> bool:
    """Whether a Job changes its size as an Indexed Job may: completions with parallelism."""

    def sizes(job: Manifest) -> tuple[Any, Any]:
        return _at(job, ("spec", "completions")), _at(job, ("spec", "parallelism"))

    indexed = _at(live, ("spec", "completionMode")) == "Indexed"
    return indexed and all(one == other for one, other in (sizes(new), sizes(live)))


def _shrinking(new: Manifest, live: Manifest) -> Iterator[Change]:
    wanted, there = _at(new, _CLAIM_SIZE), _at(live, _CLAIM_SIZE)
    if wanted is _ABSENT or there is _ABSENT:
        return
    if quantity.parse(str(wanted)) < quantity.parse(str(there)):
        yield Change(".".join(_CLAIM_SIZE), _shown(there), _shown(wanted))


# --- comparing ------------------------------------------------------------------------------------


def _compare(path: _Path, new: Any, live: Any, applied: Any, *, known: bool) -> Iterator[Change]:
    """The leaves that differ.

    What only the cluster has was set by the server or by something else there, and stays; it was
    ours, and goes, where we applied it last.
    """
    if new is _ABSENT:
        if live is not _ABSENT and applied is not _ABSENT:
            yield Change(_spoken(path), _shown(live), "")
        return
    if isinstance(new, dict) and isinstance(live, dict):
        before = applied if isinstance(applied, dict) else {}
        for key in dict.fromkeys((*new, *(key for key in before if key in live))):
            step = (*path, key)
            yield from _compare(
                step,
                new.get(key, _ABSENT),
                live.get(key, _ABSENT),
                before.get(key, _ABSENT),
                known=known,
            )
        return
    if isinstance(new, list) and isinstance(live, list):
        yield from _compare_lists(path, new, live, applied, known=known)
        return
    if _empty(new) and live is _ABSENT and path != _RETRIES:
        return
    if not _same(path, new, live):
        yield Change(_spoken(path), "" if live is _ABSENT else _shown(live), _shown(new))


def _compare_lists(
    path: _Path, new: list[Any], live: list[Any], applied: Any, *, known: bool
) -> Iterator[Change]:
    key = _KEYS.get(path[-1], "name")
    if not all(isinstance(one, dict) and key in one for one in (*new, *live)):
        if not _same(path, new, live):
            yield Change(_spoken(path), _shown(live), _shown(new))
        return
    wanted = {str(one[key]): one for one in new}
    there = {str(one[key]): one for one in live}
    before = {
        str(one[key]): one
        for one in (applied if isinstance(applied, list) else ())
        if isinstance(one, dict) and key in one
    }
    # Where it is not known what we applied, an entry that is not rendered any more was ours.
    ours = before if known else {name: one for name, one in there.items() if name not in wanted}
    for name in dict.fromkeys((*wanted, *(name for name in ours if name in there))):
        step = (*path[:-1], f"{path[-1]}[{name}]")
        yield from _compare(
            step,
            wanted.get(name, _ABSENT),
            there.get(name, _ABSENT),
            ours.get(name, _ABSENT),
            known=known,
        )


def _same(path: _Path, new: Any, live: Any) -> bool:
    if new == live:
        return True
    if isinstance(new, list) and isinstance(live, list) and len(new) == len(live):
        return all(_same(path, one, other) for one, other in zip(new, live, strict=True))
    if isinstance(new, dict) and isinstance(live, dict):
        return all(_same((*path, key), new[key], live.get(key, _ABSENT)) for key in new)
    if _QUANTITIES.isdisjoint(path) or live is _ABSENT:
        return False
    try:
        return quantity.parse(str(new)) == quantity.parse(str(live))
    except InputError:
        return False


def _empty(value: Any) -> bool:
    """Whether a value is one that the server leaves out."""
    return value is None or value is False or value in ("", 0, [], {})


def _at(value: Any, path: _Path) -> Any:
    for key in path:
        if not isinstance(value, dict) or key not in value:
            return _ABSENT
        value = value[key]
    return value


def _spoken(path: _Path) -> str:
    return ".".join(path)


def _shown(value: Any) -> str:
    """A value as a person reads it, on one line and not endless."""
    if isinstance(value, dict) and {"name"} <= value.keys() <= {"name", "value"}:
        value = value.get("value", "")  # a variable; its name stands in the path
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split()) or '""'
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
