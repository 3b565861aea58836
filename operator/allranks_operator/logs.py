"""The end of the log of the rank that failed first, read once; only where the settings allow it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.status import reduce
from allranks_operator.kube.api import pairs
from allranks_operator.kube.errors import ApiError
from allranks_operator.lacking import unheard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.status.observation import Observation
    from allranks_operator.kube.api import Api
    from allranks_operator.lacking import Heard

_LINES = 20
_LINE_MAX = 400
_KEPT = 1000


class Logs:
    """Reads the ends of logs."""

    def __init__(self, api: Api, heard: Heard = unheard) -> None:
        """Nothing is read yet.

        Args:
            api: the API server.
            heard: told how each reading ended.
        """
        self._api = api
        self._heard = heard
        self._known: dict[tuple[str, str, str], tuple[str, ...]] = {}

    def of(self, seen: Observation) -> Mapping[str, tuple[str, ...]]:
        """The last lines by pod, as `reduce` takes them; {} where there are none."""
        asked = reduce.first_failed(seen)
        if asked is None:
            return {}
        pod, container, previous = asked
        key = (seen.namespace, pod, container)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = self._read(seen.namespace, pod, container, previous=previous)
        lines = self._known[key]
        return {pod: lines} if lines else {}

    def _read(self, namespace: str, pod: str, container: str, *, previous: bool) -> tuple[str, ...]:
        query = pairs(
            container=container, tailLines=str(_LINES), previous="true" if previous else ""
        )
        try:
            text = self._api.log(namespace, pod, query)
        except ApiError as error:
            self._heard(namespace, "read_log", error)
            return ()  # the pod or its node is gone, or it may not be read
        self._heard(namespace, "read_log", None)
        return tuple(line[:_LINE_MAX] for line in text.splitlines()[-_LINES:])
