"""The permissions that the operator lacks, learnt from the API server's refusals.

Without its Role the operator can report nothing in a namespace: no status, no Event. So missing
permissions are reported where it can still write: in a metric, and on the Lease, where
`allranks operator status` reads them. The operator stays ready all the same: a restart grants
nothing, and its other namespaces go on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from allranks.errors import ApiError
    from allranks_operator.metrics import Metrics

_FORBIDDEN = 403
_CANNOT = re.compile(r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)"')
# A Role for others gives what its maker has; what that lacks is named (see `model.grants`).
_WITHHELD = re.compile(r"grants rights that the user does not have: (?P<rights>.+)", re.DOTALL)
_LINES_MAX = 20


# How a request ended that a run can do without: the namespace, what the metrics call it, and the
# refusal; None where it was answered.
ResultCallback = Callable[[str, str, "ApiError | None"], None]


def ignore_result(namespace: str, action: str, error: ApiError | None) -> None:
    """Ignore the result of a request."""


class MissingPermissions:
    """The permissions refused, and not granted since; for any thread."""

    def __init__(self, metrics: Metrics) -> None:
        """Create it; nothing was refused yet."""
        self._metric = metrics.rights_missing
        self._lock = threading.Lock()
        self._missing: dict[tuple[str, str], str] = {}

    def record_refusal(self, namespace: str, action: str, error: ApiError) -> None:
        """Record a refusal, where a permission is missing.

        Args:
            namespace: where.
            action: what the metrics call it.
            error: the refusal.
        """
        right = _right(error.detail) if error.status == _FORBIDDEN else ""
        if not right:
            return
        with self._lock:
            self._missing[namespace, action] = right
            self._metric.labels(namespace, action).set(1)

    def record_success(self, namespace: str, action: str) -> None:
        """Forget the refusal of an action that works again."""
        if (namespace, action) not in self._missing:
            return
        with self._lock:
            if self._missing.pop((namespace, action), None) is not None:
                self._metric.remove(namespace, action)

    def clear(self) -> None:
        """Forget everything: another operator has the lease."""
        with self._lock:
            self._missing.clear()
            self._metric.clear()

    def describe(self) -> str:
        """All missing permissions in a sentence; "" where there are none."""
        with self._lock:
            missing = sorted((namespace, right) for (namespace, _), right in self._missing.items())
        rights: dict[str, dict[str, None]] = {}
        for namespace, right in missing[:_LINES_MAX]:
            rights.setdefault(namespace, {})[right] = None
        return "; ".join(
            f"in {namespace}: {', '.join(names)}" for namespace, names in rights.items()
        )


def _right(message: str) -> str:
    """The permission that a refusal names; "" where it is another refusal."""
    cannot, withheld = _CANNOT.search(message), _WITHHELD.search(message)
    if cannot is not None:
        return f"{cannot['verb']} {cannot['resource']}"
    return withheld["rights"] if withheld is not None else ""
