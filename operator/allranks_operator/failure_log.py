"""The last log lines of the rank that failed first, where the settings allow reading them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.status import reduce
from allranks_operator.missing_permissions import ignore_result
from allranks_operator.pod_logs import PodLogs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.status.observation import Observation
    from allranks_operator.kube.client import Api
    from allranks_operator.missing_permissions import ResultCallback

_LINES = 20
_LINE_MAX = 400
_LOGS_MAX = 1000


class FailureLog:
    """Reads the ends of pods' logs."""

    def __init__(self, api: Api, on_result: ResultCallback = ignore_result) -> None:
        """Create it; nothing is read yet.

        Args:
            api: the API server.
            on_result: called with the result of each request.
        """
        self._log = PodLogs(api, on_result)
        self._tails: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def of(self, observation: Observation) -> Mapping[str, tuple[str, ...]]:
        """The last lines by pod, for `reduce`; {} where there are none."""
        failure = reduce.first_failed(observation)
        if failure is None:
            return {}
        pod, container, previous = failure
        key = (observation.namespace, pod, container)
        if key not in self._tails:
            if len(self._tails) >= _LOGS_MAX:
                self._tails.clear()
            self._tails[key] = self._read(observation.namespace, pod, container, previous=previous)
        lines = self._tails[key]
        return {pod: lines} if lines else {}

    def _read(self, namespace: str, pod: str, container: str, *, previous: bool) -> tuple[str, ...]:
        lines = self._log.tail(namespace, pod, container, _LINES, previous=previous)
        return tuple(line[:_LINE_MAX] for line in lines[-_LINES:])
