"""What the API server was asked, read from its audit log: who asked for what, when, how often."""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.api import Api

_MARK = "/version?mark="
_SECONDS = 60.0
_POLL = 0.002
_LOOKS = 10
_REDIRECT = 300


@dataclass(frozen=True, slots=True)
class Request:
    """What makes a request of one kind; requests of one kind are counted together.

    Attributes:
        user: who asked.
        agent: the program, as `kubectl/v1.36.3 (linux/amd64) kubernetes/…`.
        verb: get, list, watch, create, update, patch, delete, …
        resource: in the plural, with its subresource: `pods/binding`; "" for a path such as /api.
        namespace: "" for what has none.
        code: the HTTP status of the answer.
    """

    user: str
    agent: str
    verb: str
    resource: str
    namespace: str
    code: int


@dataclass(slots=True)
class Audit:
    """The audit log of one API server; it is read on, never again from its start."""

    path: Path
    api: Api
    _offset: int = 0
    _counts: Counter[Request] = field(default_factory=Counter)
    _times: dict[Request, list[float]] = field(default_factory=dict)

    def read(self) -> Counter[Request]:
        """How often the API server has been asked for what, up to now.

        The difference of two answers is what was asked in between.

        Raises:
            BenchError: the log does not come; the API server is gone.
        """
        # An answer leaves before its line is written: a request of ours comes after all others.
        mark = f"{_MARK}{secrets.token_hex(8)}"
        self.api.request("GET", mark)
        deadline = time.monotonic() + _SECONDS
        while not self._read_on(mark):
            if time.monotonic() > deadline:
                raise BenchError(f"{self.path} does not grow")
            time.sleep(_POLL)
        return self._counts.copy()

    def count(self, *, user: str = "", agent: str = "", namespace: str = "") -> int:
        """How many requests there were; see `Cluster.requests`."""
        counts = [-1, -2]
        # Where the server is held up between an answer and its line, the mark's line comes first.
        while counts[-1] != counts[-2] and len(counts) < _LOOKS:
            about = (
                count
                for request, count in self.read().items()
                if user in ("", request.user)
                and request.agent.startswith(agent)
                and namespace in ("", request.namespace)
            )
            counts.append(sum(about))
        return counts[-1]

    def times(self, *, verb: str, resource: str, namespace: str) -> list[float]:
        """When successful requests of this kind were answered: Unix time in seconds, sorted."""
        self.read()
        return sorted(
            moment
            for request, moments in self._times.items()
            for moment in moments
            if (verb, resource, namespace) == (request.verb, request.resource, request.namespace)
            and request.code < _REDIRECT
        )

    def _read_on(self, mark: str) -> bool:
        is_marked = False
        for event in self._new():
            if event["requestURI"].startswith(_MARK):
                is_marked = is_marked or event["requestURI"] == mark
                continue
            request = _request(event)
            self._counts[request] += 1
            moment = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            self._times.setdefault(request, []).append(moment)
        return is_marked

    def _new(self) -> Iterator[dict[str, Any]]:
        with self.path.open("rb") as log:
            log.seek(self._offset)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            yield json.loads(line)


def _request(event: dict[str, Any]) -> Request:
    about = event.get("objectRef") or {}
    parts = (about.get("resource"), about.get("subresource"))
    return Request(
        user=event["user"]["username"],
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource="/".join(part for part in parts if part),
        namespace=about.get("namespace", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
    )
