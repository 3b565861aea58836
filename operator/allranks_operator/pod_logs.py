"""The end of a pod's log, and a report of each request to whoever counts missing rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.cluster.paths import pairs
from allranks.errors import ApiError
from allranks_operator.missing_permissions import ignore_result

if TYPE_CHECKING:
    from allranks_operator.kube.client import Api
    from allranks_operator.missing_permissions import ResultCallback


class PodLogs:
    """Reads the ends of pods' logs."""

    def __init__(self, api: Api, on_result: ResultCallback = ignore_result) -> None:
        """Create it; nothing is read yet.

        Args:
            api: the API server.
            on_result: called with the result of each request.
        """
        self._api = api
        self._on_result = on_result

    def tail(
        self, namespace: str, pod: str, container: str, lines: int, *, previous: bool = False
    ) -> list[str]:
        """The last lines of a container; none where its node is gone, or it may not be read.

        Args:
            namespace: the pod's namespace.
            pod: its name.
            container: the container.
            lines: how many at most.
            previous: those of the container before it was started again.
        """
        query = pairs(
            container=container, tailLines=str(lines), previous="true" if previous else ""
        )
        try:
            content = self._api.log(namespace, pod, query)
        except ApiError as error:
            self._on_result(namespace, "read_log", error)
            return []
        self._on_result(namespace, "read_log", None)
        return content.splitlines()
