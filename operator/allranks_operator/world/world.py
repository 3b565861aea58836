"""All that the watcher knows of the cluster: fed by the watches, read by who decides.

Besides the watches, it learns from the answers to the watcher's own requests. So who decides right
after a pod was made sees the pod, though its watch event is still on the way, and does not make it
again. Resource versions say which of two copies is the newer one.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from allranks_operator.kube import bounds
from allranks_operator.world import keys
from allranks_operator.world.sharing import Shared
from allranks_operator.world.trim import trim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.model.manifest import Manifest
    from allranks_operator.kube.resources import Resource
    from allranks_operator.world.keys import Key

_DELETED, _BOOKMARK = "DELETED", "BOOKMARK"


class _Name(NamedTuple):
    kind: str
    namespace: str
    name: str


Objects = dict[_Name, "Manifest"]


class World:
    """The objects, by name and by what they belong to."""

    def __init__(self, changed: Callable[[Key, float], None]) -> None:
        """Nothing is known yet.

        Args:
            changed: told each key whose objects have changed, and when (time.monotonic).
        """
        self._changed = changed
        self._lock = threading.RLock()
        self._objects: dict[_Name, Manifest] = {}
        self._keys: dict[_Name, tuple[Key, ...]] = {}
        self._by_key: defaultdict[Key, Objects] = defaultdict(dict)
        # Up to which resource version the watch of a kind and a namespace has come.
        self._positions: dict[tuple[str, str], int] = {}
        self._shared = Shared()
        # What the objects of a kind take in a namespace.
        self._weights: defaultdict[tuple[str, str], int] = defaultdict(int)

    # --- read ------------------------------------------------------------------------------------

    def of(self, key: Key) -> Mapping[str, tuple[Manifest, ...]]:
        """What belongs to a key, by kind; each as it is now."""
        found: defaultdict[str, list[Manifest]] = defaultdict(list)
        with self._lock:
            for name, one in self._by_key.get(key, {}).items():
                found[name.kind].append(one)
        return {kind: tuple(ones) for kind, ones in found.items()}

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """One object; None where it is not there."""
        with self._lock:
            return self._objects.get(_Name(kind, namespace, name))

    def keys(self) -> tuple[Key, ...]:
        """Everything that has an object."""
        with self._lock:
            return tuple(key for key, objects in self._by_key.items() if objects)

    def every(self, kind: str) -> tuple[Manifest, ...]:
        """All objects of a kind."""
        with self._lock:
            return tuple(one for name, one in self._objects.items() if name.kind == kind)

    # --- fed by the watches: see allranks_operator.kube.reflector.Sink ----------------------------

    def trim(self, resource: Resource, found: Manifest) -> Manifest:
        """What is kept of an object."""
        return trim(resource.kind, found, self._shared)

    def replace(self, resource: Resource, namespace: str, found: list[Manifest], at: str) -> None:
        """Take a whole list; what is not in it was deleted."""
        now = time.monotonic()
        with self._lock:
            listed = {_name(resource.kind, one) for one in found}
            place = _number(at)
            missing = [
                name
                for name, one in self._objects.items()
                if name.kind == resource.kind
                and namespace in ("", name.namespace)
                and name not in listed
                # Made by us after the list was read: its event is yet to come.
                and not _version(one) > place > 0
            ]
            for name in missing:
                self._drop(name, now)
            for one in found:
                self._put(_name(resource.kind, one), one, now)
            self._positions[resource.kind, namespace] = place

    def change(self, resource: Resource, namespace: str, kind: str, found: Manifest) -> None:
        """Take one change of a watch."""
        now = time.monotonic()
        # Before the lock: who decides, and who learns, need not wait for it.
        one = found if kind == _BOOKMARK else self.trim(resource, found)
        with self._lock:
            if kind == _DELETED:
                name = _name(resource.kind, one)
                if _uid(self._objects.get(name)) in ("", _uid(one)):
                    self._drop(name, now)
            elif kind != _BOOKMARK:
                self._put(_name(resource.kind, one), one, now)
            self._positions[resource.kind, namespace] = _version(found)

    # --- learnt from answers ----------------------------------------------------------------------

    def learn(self, resource: Resource, found: Manifest, *, at: str = "") -> None:
        """Take an object as an answer of the API server has it, unless its watch knows better.

        Args:
            resource: its kind.
            found: the object.
            at: as of which resource version it is there; "" is its own.
        """
        one = self.trim(resource, {**found, "kind": resource.kind})
        name = _name(resource.kind, one)
        with self._lock:
            places = [
                self._positions.get((resource.kind, where), 0) for where in ("", name.namespace)
            ]
            # A read as of the very place that the watch has come to is as good as the watch.
            newest = max(places) - bool(at)
            if name not in self._objects and max(_number(at), _version(one)) <= newest:
                return  # made, seen and deleted since
            self._put(name, one, time.monotonic())

    def deleting(self, resource: Resource, namespace: str, name: str, uid: str, at: str) -> None:
        """Mark an object as one that is being deleted.

        Args:
            resource: its kind.
            namespace: its namespace.
            name: its name.
            uid: only if it is still this one.
            at: when it was asked to go, in RFC 3339.
        """
        with self._lock:
            place = _Name(resource.kind, namespace, name)
            one = self._objects.get(place)
            if one is None or _uid(one) != uid or "deletionTimestamp" in one["metadata"]:
                return
            marked = {**one["metadata"], "deletionTimestamp": at, "deletionGracePeriodSeconds": 0}
            self._store(place, {**one, "metadata": marked})

    # --- inside the lock --------------------------------------------------------------------------

    def _put(self, name: _Name, one: Manifest, now: float) -> None:
        before = self._objects.get(name)
        if before is not None and _uid(before) == _uid(one) and _version(one) < _version(before):
            return
        earlier = self._keys.get(name, ())
        one = self._weighed(name, before, one)
        self._store(name, one)
        if before is None or _differ(before, one):
            mine = self._keys.get(name, ())
            self._tell(mine if earlier in ((), mine) else {*earlier, *mine}, now)

    def _weighed(self, name: _Name, before: Manifest | None, one: Manifest) -> Manifest:
        """The object, or its name alone where its namespace has too much of them already."""
        space = (name.kind, name.namespace)
        others = self._weights[space] - bounds.weight(before)
        if bounds.weight(one) and others + bounds.weight(one) > bounds.SPACE_MAX:
            most = bounds.SPACE_MAX >> 20
            one = bounds.unread(one, f"all {name.kind}s of its namespace have more than {most} MiB")
        self._weights[space] = others + bounds.weight(one)
        return one

    def _store(self, name: _Name, one: Manifest) -> None:
        mine = keys.of(one)
        earlier = self._keys.get(name, ())
        if mine != earlier:
            for key in earlier:
                if key not in mine:
                    self._leave(key, name)
            self._keys[name] = mine
        self._objects[name] = one
        for key in mine:
            self._by_key[key][name] = one

    def _drop(self, name: _Name, now: float) -> None:
        before = self._objects.pop(name, None)
        if before is None:
            return
        self._weights[name.kind, name.namespace] -= bounds.weight(before)
        affected = self._keys.pop(name, ())
        for key in affected:
            self._leave(key, name)
        self._tell(affected, now)

    def _leave(self, key: Key, name: _Name) -> None:
        objects = self._by_key[key]
        objects.pop(name, None)
        if not objects:
            del self._by_key[key]

    def _tell(self, affected: Iterable[Key], now: float) -> None:
        for key in affected:
            self._changed(key, now)


def _name(kind: str, found: Manifest) -> _Name:
    metadata = found["metadata"]
    return _Name(kind, metadata.get("namespace") or "", metadata["name"])


def _uid(found: Manifest | None) -> str:
    return str(found["metadata"].get("uid") or "") if found else ""


def _version(found: Manifest) -> int:
    return _number(found["metadata"].get("resourceVersion"))


def _number(version: object) -> int:
    text = str(version or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _differ(before: Manifest, after: Manifest) -> bool:
    """Whether they differ in more than the resource version."""
    if isinstance(after, bounds.Unread):
        return not isinstance(before, bounds.Unread) or before.why != after.why
    if before.keys() != after.keys():
        return True
    return any(
        _but_version(before[part]) != _but_version(after[part])
        if part == "metadata"
        else before[part] != after[part]
        for part in after
    )


def _but_version(metadata: Manifest) -> Manifest:
    return {key: each for key, each in metadata.items() if key != "resourceVersion"}
