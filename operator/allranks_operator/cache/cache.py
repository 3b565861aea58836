"""The informer cache: all objects that the operator keeps, fed by its watches.

The cache also learns from the answers to the operator's own requests: a decision right after a pod
was created sees the pod, though its watch event is still on the way, and does not create it again.
Resource versions say which of two copies is the newer one.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from allranks.k8s.parts import PartTable
from allranks_operator.cache import owner_keys
from allranks_operator.cache.trim import trim
from allranks_operator.kube import bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks_operator.cache.owner_keys import Key
    from allranks_operator.kube.resources import ApiResource

_DELETED, _BOOKMARK = "DELETED", "BOOKMARK"


class _Name(NamedTuple):
    kind: str
    namespace: str
    name: str


Objects = dict[_Name, "Manifest"]


class ObjectCache:
    """The objects, by name and by the key that they belong to."""

    def __init__(self, changed: Callable[[Key, float], None]) -> None:
        """Create an empty cache.

        Args:
            changed: called with each key whose objects have changed, and the time (time.monotonic).
        """
        self._changed = changed
        self._lock = threading.RLock()
        self._objects: dict[_Name, Manifest] = {}
        self._keys: dict[_Name, tuple[Key, ...]] = {}
        self._by_key: defaultdict[Key, Objects] = defaultdict(dict)
        # The resource version that the watch of a kind and a namespace has reached.
        self._positions: dict[tuple[str, str], int] = {}
        self._shared = PartTable()
        # The bytes of all objects of a kind in a namespace.
        self._weights: defaultdict[tuple[str, str], int] = defaultdict(int)

    # --- read ------------------------------------------------------------------------------------

    def of(self, key: Key) -> Mapping[str, tuple[Manifest, ...]]:
        """The objects that belong to a key, by kind."""
        by_kind: defaultdict[str, list[Manifest]] = defaultdict(list)
        with self._lock:
            for name, manifest in self._by_key.get(key, {}).items():
                by_kind[name.kind].append(manifest)
        return {kind: tuple(ones) for kind, ones in by_kind.items()}

    def get(self, kind: str, namespace: str, name: str) -> Manifest | None:
        """The object of that name; None where there is none."""
        with self._lock:
            return self._objects.get(_Name(kind, namespace, name))

    def keys(self) -> tuple[Key, ...]:
        """All keys that have an object."""
        with self._lock:
            return tuple(key for key, objects in self._by_key.items() if objects)

    def by_kind(self, kind: str) -> tuple[Manifest, ...]:
        """All objects of a kind."""
        with self._lock:
            return tuple(manifest for name, manifest in self._objects.items() if name.kind == kind)

    # --- fed by the watches: see allranks_operator.kube.informer.Sink ----------------------------

    def trim(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        """The part of an object that the cache keeps."""
        return trim(resource.kind, manifest, self._shared)

    def replace(
        self, resource: ApiResource, namespace: str, manifests: list[Manifest], at: str
    ) -> None:
        """Replace the objects of a kind by a list; those not in it were deleted."""
        now = time.monotonic()
        with self._lock:
            listed_names = {_name(resource.kind, manifest) for manifest in manifests}
            place = _number(at)
            missing = [
                name
                for name, manifest in self._objects.items()
                if name.kind == resource.kind
                and namespace in ("", name.namespace)
                and name not in listed_names
                # Made by us after the list was read: its event is yet to come.
                and not _version(manifest) > place > 0
            ]
            for name in missing:
                self._drop(name, now)
            for manifest in manifests:
                self._put(_name(resource.kind, manifest), manifest, now)
            self._positions[resource.kind, namespace] = place

    def change(self, resource: ApiResource, namespace: str, kind: str, manifest: Manifest) -> None:
        """Apply one event of a watch."""
        now = time.monotonic()
        # Outside the lock: neither readers nor `learn` wait for it.
        trimmed = manifest if kind == _BOOKMARK else self.trim(resource, manifest)
        with self._lock:
            if kind == _DELETED:
                name = _name(resource.kind, trimmed)
                if _uid(self._objects.get(name)) in ("", _uid(trimmed)):
                    self._drop(name, now)
            elif kind != _BOOKMARK:
                self._put(_name(resource.kind, trimmed), trimmed, now)
            self._positions[resource.kind, namespace] = _version(manifest)

    # --- learnt from answers ----------------------------------------------------------------------

    def learn(self, resource: ApiResource, manifest: Manifest, *, at: str = "") -> None:
        """Store an object from an answer of the API server, unless the watch has newer news.

        Args:
            resource: its kind.
            manifest: the object.
            at: the resource version of the read that returned it; "" is its own.
        """
        trimmed = self.trim(resource, {**manifest, "kind": resource.kind})
        name = _name(resource.kind, trimmed)
        with self._lock:
            places = [
                self._positions.get((resource.kind, namespace), 0)
                for namespace in ("", name.namespace)
            ]
            # A read as of the resource version of the watch is as new as the watch.
            newest = max(places) - bool(at)
            if name not in self._objects and max(_number(at), _version(trimmed)) <= newest:
                return  # created, watched and deleted since
            self._put(name, trimmed, time.monotonic())

    def deleting(self, resource: ApiResource, namespace: str, name: str, uid: str, at: str) -> None:
        """Mark an object as being deleted.

        Args:
            resource: its kind.
            namespace: its namespace.
            name: its name.
            uid: its uid; another object of that name is left alone.
            at: the time of the deletion, in RFC 3339.
        """
        with self._lock:
            place = _Name(resource.kind, namespace, name)
            manifest = self._objects.get(place)
            if (
                manifest is None
                or _uid(manifest) != uid
                or "deletionTimestamp" in manifest["metadata"]
            ):
                return
            marked = {
                **manifest["metadata"],
                "deletionTimestamp": at,
                "deletionGracePeriodSeconds": 0,
            }
            self._store(place, {**manifest, "metadata": marked})

    # --- inside the lock --------------------------------------------------------------------------

    def _put(self, name: _Name, manifest: Manifest, now: float) -> None:
        before = self._objects.get(name)
        if (
            before is not None
            and _uid(before) == _uid(manifest)
            and _version(manifest) < _version(before)
        ):
            return
        earlier = self._keys.get(name, ())
        manifest = self._weigh(name, before, manifest)
        self._store(name, manifest)
        if before is None or _differ(before, manifest):
            mine = self._keys.get(name, ())
            self._notify(mine if earlier in ((), mine) else {*earlier, *mine}, now)

    def _weigh(self, name: _Name, before: Manifest | None, manifest: Manifest) -> Manifest:
        """The object; its name alone where the objects of its namespace are too large already."""
        space = (name.kind, name.namespace)
        rest = self._weights[space] - bounds.weight(before)
        if bounds.weight(manifest) and rest + bounds.weight(manifest) > bounds.SPACE_MAX:
            most = bounds.SPACE_MAX >> 20
            manifest = bounds.unread(
                manifest, f"all {name.kind}s of its namespace have more than {most} MiB"
            )
        self._weights[space] = rest + bounds.weight(manifest)
        return manifest

    def _store(self, name: _Name, manifest: Manifest) -> None:
        mine = owner_keys.of(manifest)
        earlier = self._keys.get(name, ())
        if mine != earlier:
            for key in earlier:
                if key not in mine:
                    self._leave(key, name)
            self._keys[name] = mine
        self._objects[name] = manifest
        for key in mine:
            self._by_key[key][name] = manifest

    def _drop(self, name: _Name, now: float) -> None:
        before = self._objects.pop(name, None)
        if before is None:
            return
        self._weights[name.kind, name.namespace] -= bounds.weight(before)
        affected = self._keys.pop(name, ())
        for key in affected:
            self._leave(key, name)
        self._notify(affected, now)

    def _leave(self, key: Key, name: _Name) -> None:
        objects = self._by_key[key]
        objects.pop(name, None)
        if not objects:
            del self._by_key[key]

    def _notify(self, affected: Iterable[Key], now: float) -> None:
        for key in affected:
            self._changed(key, now)


def _name(kind: str, manifest: Manifest) -> _Name:
    metadata = manifest["metadata"]
    return _Name(kind, metadata.get("namespace") or "", metadata["name"])


def _uid(manifest: Manifest | None) -> str:
    return str(manifest["metadata"].get("uid") or "") if manifest else ""


def _version(manifest: Manifest) -> int:
    return _number(manifest["metadata"].get("resourceVersion"))


def _number(version: object) -> int:
    text = str(version or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def _differ(before: Manifest, after: Manifest) -> bool:
    """Whether they differ in more than the resource version."""
    if isinstance(after, bounds.UnreadObject):
        return not isinstance(before, bounds.UnreadObject) or before.reason != after.reason
    if before.keys() != after.keys():
        return True
    return any(
        _but_version(before[part]) != _but_version(after[part])
        if part == "metadata"
        else before[part] != after[part]
        for part in after
    )


def _but_version(metadata: Manifest) -> Manifest:
    return {key: value for key, value in metadata.items() if key != "resourceVersion"}
