"""How far trainings are, from the logs of their rank 0, where the settings allow reading them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from allranks.cluster.pod_selection import has_started, main_container
from allranks.k8s.fields import text
from allranks.model.status import FINAL
from allranks.status import progress
from allranks_operator.missing_permissions import ignore_result
from allranks_operator.pod_logs import PodLogs

if TYPE_CHECKING:
    from allranks.model.status import RunStatus
    from allranks.status.observation import Observation
    from allranks_operator.kube.client import Api
    from allranks_operator.missing_permissions import ResultCallback

_LINES = 1000
_EVERY_SECONDS = 30.0
# A training that says nothing is asked less and less often.
_QUIET_SECONDS = 600.0
_RUNS_MAX = 10_000


class ProgressLog:
    """Reads the progress of runs, each now and then."""

    def __init__(self, api: Api, on_result: ResultCallback = ignore_result) -> None:
        """Create it; nothing is read yet.

        Args:
            api: the API server.
            on_result: called with the result of each request.
        """
        self._log = PodLogs(api, on_result)
        self._pauses: dict[str, tuple[float, float]] = {}  # by pod: until when, and how long

    def of(
        self, observation: Observation, status: RunStatus
    ) -> tuple[dict[str, Any] | None, float | None]:
        """The progress of a run, and in how many seconds to ask again.

        Args:
            observation: its objects.
            status: what they say.

        Returns:
            None for what is not said now; None where nothing more is to come.
        """
        speakers = progress.speakers([pod for pod in observation.pods if has_started(pod)])
        if not speakers:
            return None, None
        pod, now, over = speakers[0], time.monotonic(), status.phase in FINAL
        uid = f"{text(pod, 'metadata', 'uid')}/{over}"
        until, pause = self._pauses.get(uid, (0.0, _EVERY_SECONDS))
        if now < until:
            return None, None if over else until - now
        name, container = text(pod, "metadata", "name"), main_container(pod)
        lines = self._log.tail(observation.namespace, name, container, _LINES)
        report = progress.last_progress(lines)
        pause = _EVERY_SECONDS if report else min(2 * pause, _QUIET_SECONDS)
        if len(self._pauses) >= _RUNS_MAX:
            self._pauses.clear()
        self._pauses[uid] = (now + (_QUIET_SECONDS if over else pause), pause)
        return report, None if over else pause
