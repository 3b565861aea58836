"""Rights that the watcher should have and has not, as the API server's refusals tell them.

A Role that was taken away leaves nothing that could be said in its namespace: no status, no Event.
So it is said where the watcher can still write and somebody looks: in a metric, and on the Lease,
where `allranks operator status` reads it. A watcher that lacks a right is ready all the same, for
a restart gives it none, and its other namespaces go on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks_operator.kube.errors import ApiError
    from allranks_operator.metrics import Metrics

_FORBIDDEN = 403
_CANNOT = re.compile(r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"')
# A Role for others gives what its maker has; what that lacks is named (see `model.grants`).
_WITHHELD = re.compile(r"grants rights that the user does not have: (?P<rights>.+)", re.DOTALL)
_TOLD_MAX = 20


# How a request ended that a run can do without: the namespace, what the metrics call it, and the
# refusal; None where it was answered.
Heard = Callable[[str, str, "ApiError | None"], None]


def unheard(namespace: str, action: str, error: ApiError | None) -> None:
    """Leave it at that: nobody listens."""


class Lacking:
    """What was refused for want of a right, and has not been taken since; for any thread."""

    def __init__(self, metrics: Metrics) -> None:
        """Nothing was refused yet."""
        self._metric = metrics.rights_missing
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], str] = {}

    def refused(self, namespace: str, action: str, error: ApiError) -> None:
        """Note a refusal, where it is one for want of a right.

        Args:
            namespace: where.
            action: what the metrics call it.
            error: the refusal.
        """
        right = _right(error.said) if error.status == _FORBIDDEN else ""
        if not right:
            return
        with self._lock:
            self._known[namespace, action] = right
            self._metric.labels(namespace, action).set(1)

    def worked(self, namespace: str, action: str) -> None:
        """It is taken (again)."""
        if (namespace, action) not in self._known:
            return
        with self._lock:
            if self._known.pop((namespace, action), None) is not None:
                self._metric.remove(namespace, action)

    def clear(self) -> None:
        """Another watcher acts now, and is told what it may do."""
        with self._lock:
            self._known.clear()
            self._metric.clear()

    def told(self) -> str:
        """All of it in a sentence; "" for nothing."""
        with self._lock:
            known = sorted((namespace, right) for (namespace, _), right in self._known.items())
        rights: dict[str, dict[str, None]] = {}
        for namespace, right in known[:_TOLD_MAX]:
            rights.setdefault(namespace, {})[right] = None
        return "; ".join(f"in {namespace}: {', '.join(each)}" for namespace, each in rights.items())


def _right(said: str) -> str:
    """The right that a refusal is for want of; "" where it is another refusal."""
    cannot, withheld = _CANNOT.search(said), _WITHHELD.search(said)
    if cannot is not None:
        return f"{cannot['verb']} {cannot['resource']}"
    return withheld["rights"] if withheld is not None else ""
