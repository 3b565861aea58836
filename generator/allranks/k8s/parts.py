"""Objects that share their equal parts, so that ten thousand pods of a run fit into memory.

The pods of a run are the same but for a name, a node and some times. What the parser makes of each
takes 50 kB; with what is equal kept once it is three.
"""

from __future__ import annotations

import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.k8s.manifest import Manifest

# Enough for the parts of a thousand runs; beyond, sharing begins anew and nothing else is lost.
_MOST = 65_536


class PartTable:
    """A table of shared parts, for any thread; a race keeps a part twice, and no worse."""

    def __init__(self) -> None:
        """Create an empty table."""
        self._parts: dict[str, Any] = {}
        self._latest: dict[str, Any] = {}

    def like_latest(self, field: str, value: Any) -> Any:
        """As `part`; ten times as fast where the last value of a field was the same.

        Values of a field are of one type, as the API server's are: 1 and true are taken for each
        other.
        """
        latest = self._latest.get(field)
        if latest is None or latest != value:
            latest = self._latest[field] = self.part(value)
        return latest

    def part(self, value: Any) -> Any:
        """The shared copy of a part of an object (a JSON list or object)."""
        if not value:
            return value
        key = repr(value)
        shared = self._parts.get(key)
        if shared is None:
            if len(self._parts) >= _MOST:
                self._parts.clear()
            shared = self._parts[key] = intern_strings(value)
        return shared


def intern_strings(value: Any) -> Any:
    """The same value with each string interned; unused strings are freed."""
    if isinstance(value, str):
        return sys.intern(value)
    if isinstance(value, dict):
        return {sys.intern(key): intern_strings(item) for key, item in value.items()}
    if isinstance(value, list):
        return [intern_strings(item) for item in value]
    return value


@contextmanager
def without_collection() -> Iterator[None]:
    """Hold Python's search for cycles back: parsed JSON has none.

    It runs through all that was parsed again and again, which takes four times as long as parsing
    10,000 pods.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def without_images(node: Manifest) -> Manifest:
    """A node without the list of the images that it has, which is most of it.

    Args:
        node: the node as the API server gives it; it is not changed.
    """
    status = node.get("status")
    if not isinstance(status, dict) or "images" not in status:
        return node
    return {**node, "status": {key: value for key, value in status.items() if key != "images"}}


# What differs from pod to pod of a run, beside the part that is the same.
_OWN_SPEC = ("nodeName", "hostname")
_OWN_STATUS = ("podIPs",)
_TEXTS = ("labels", "annotations")
_CONTAINERS = ("containerStatuses", "initContainerStatuses")


def compact(pod: Manifest, shared: PartTable) -> Manifest:
    """The same pod with its equal parts shared, and without the record of who wrote which field.

    Args:
        pod: the pod as the API server gives it; it is not changed.
        shared: stores equal parts once; what comes of it must not be changed.
    """
    compacted = dict(pod)
    for key, value in pod.items():
        if isinstance(value, dict):
            compacted[key] = _BY_SECTION.get(key, _section)(value, shared)
    return compacted


def _section(
    section: dict[str, Any], shared: PartTable, own: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A section with its parts shared, but for those that each pod has of its own."""
    compacted = section.copy()
    for key, value in section.items():
        if value and (type(value) is dict or type(value) is list) and key not in own:
            compacted[key] = shared.like_latest(key, value)
    return compacted


def _metadata(metadata: dict[str, Any], shared: PartTable) -> dict[str, Any]:
    compacted = _section(metadata, shared, ("managedFields", *_TEXTS))
    compacted.pop("managedFields", None)
    for key in _TEXTS:
        if isinstance(metadata.get(key), dict):
            compacted[key] = _interned(metadata[key])
    return compacted


def _interned(texts: dict[str, Any]) -> dict[str, Any]:
    """Labels or annotations: alike from pod to pod but for the pod's index.

    Their keys are the same strings already, as a parser makes them for all of an answer.
    """
    try:
        return dict(zip(texts, map(sys.intern, texts.values()), strict=True))
    except TypeError:  # a value that is no text, which the API server does not let in
        return texts


def _spec(spec: dict[str, Any], shared: PartTable) -> dict[str, Any]:
    same = spec.copy()
    own = {key: same.pop(key) for key in _OWN_SPEC if key in same}
    return {**shared.like_latest("spec", same), **own}


def _status(status: dict[str, Any], shared: PartTable) -> dict[str, Any]:
    compacted = _section(status, shared, (*_OWN_STATUS, *_CONTAINERS))
    for key in _CONTAINERS:
        if isinstance(status.get(key), list):
            compacted[key] = [
                _section(entry, shared) if isinstance(entry, dict) else entry
                for entry in status[key]
            ]
    return compacted


_BY_SECTION = {"metadata": _metadata, "spec": _spec, "status": _status}
