"""Kubernetes Events that the operator writes about objects.

The same message about the same object is recorded once in ten minutes, however often a decision
repeats it. An Event that cannot be written is logged and dropped: Events are news, not state.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.elastic import events
from allranks.errors import ApiError
from allranks.status import create_errors
from allranks_operator.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.k8s.manifest import Manifest
    from allranks_operator.kube.client import Api


_EVENTS_MAX = 4096
# An Event lives for an hour: what lasts is repeated while the previous Event still exists.
_REPEAT_SECONDS = 600.0
_MESSAGE_MAX = 1024
_NAME_MAX = 200


class ObjectReference(NamedTuple):
    """The object that an Event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


class Event(NamedTuple):
    """An Event before it is written.

    Attributes:
        about: the object.
        kind: Normal or Warning.
        reason: a word in CamelCase; docs/guides/operator-process.md lists all of them.
        message: a sentence.
    """

    about: ObjectReference
    kind: str
    reason: str
    message: str


class EventRecorder:
    """Writes Events, from any thread."""

    def __init__(self, api: Api, identity: str, on_error: Callable[[ApiError], None]) -> None:
        """Create it; nothing is written yet.

        Args:
            api: the API server.
            identity: the name of this operator among others.
            on_error: called with the error where an Event could not be written.
        """
        self._api = api
        self._identity = identity
        self._on_error = on_error
        self._lock = threading.Lock()
        self._recorded_at: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def record(self, event: Event) -> None:
        """Write an Event, unless the same was written some minutes ago."""
        if len(event.message) > _MESSAGE_MAX:
            cut = f"{event.message[: _MESSAGE_MAX - 1]}…"
            event = event._replace(message=cut)
        if not self._is_new(event):
            return
        try:
            namespace = event.about.namespace
            self._api.create(EVENTS, namespace, self._event(event), metadata_only=True)
        except ApiError as error:
            self._on_error(error)

    def _is_new(self, event: Event) -> bool:
        """Whether the same Event was not written in the last minutes."""
        about, kind, reason, message = event
        key = (about.uid or f"{about.namespace}/{about.name}", kind, reason, message)
        now = time.monotonic()
        with self._lock:
            recorded_at = self._recorded_at.get(key)
            if recorded_at is not None and now - recorded_at < _REPEAT_SECONDS:
                return False
            self._recorded_at[key] = now
            self._recorded_at.move_to_end(key)
            while len(self._recorded_at) > _EVENTS_MAX:
                self._recorded_at.popitem(last=False)
        return True

    def _event(self, event: Event) -> Manifest:
        about, at = event.about, stamp()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": _name(about), "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": about.api_version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": event.kind,
            "reason": event.reason,
            "message": event.message,
            "source": {"component": names.OPERATOR_MANAGER},
            "reportingComponent": names.OPERATOR_MANAGER,
            "reportingInstance": self._identity[:128],
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def _name(about: ObjectReference) -> str:
    return f"{about.name[:_NAME_MAX]}.{secrets.token_hex(8)}"


def stamp() -> str:
    """The current time in the format of Kubernetes."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


FAILED_CREATE = create_errors.FAILED_CREATE
PODS_CREATED = "PodsCreated"
ACTION_REFUSED = "ActionRefused"
NAME_TAKEN = "NameTaken"
NOT_READ = "NotRead"
RUN_SUCCEEDED = "RunSucceeded"
RUN_FAILED = "RunFailed"
RUN_STALLED = "RunStalled"

TABLE: Mapping[str, str] = {
    **events.TABLE,
    RUN_SUCCEEDED: "a run has ended well",
    RUN_FAILED: "a run has failed; with the end of the failed rank's log where it may be read",
    RUN_STALLED: "no rank has made progress for `runPolicy.stallSeconds`; the message says why "
    "where `podLogs` is on",
    FAILED_CREATE: "pods cannot be made; it has the API server's words, and it is tried again",
    PODS_CREATED: "pods can be created again, after they could not be",
    ACTION_REFUSED: "the API server does not take what the job needs; it is tried again rarely",
    NAME_TAKEN: "a Service that the job needs is somebody else's, and is used as it stands; or the "
    "ConfigMap of its history is, and is left alone",
    NOT_READ: "an object is nested too deep or too large, and nothing is done for it",
}
