"""The API server: how a master runs in a cluster.

It may read its job and the namespace's pods, write plans and events, and keep one ConfigMap of its
job. Where the last is not allowed, nothing is kept and the job goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.cluster.kube import KubeCluster
from allranks.errors import ForbiddenError, NotFoundError, ToolError
from allranks.status.fields import text

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest

_JOBS = f"apis/{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}"
_PLANS = f"apis/{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}"
_HISTORY_KEY = "history.json"


class Kubernetes:
    """See `allranks_operator.master.backend.Backend`."""

    def __init__(self, namespace: str, job: str, cluster: Cluster | None = None) -> None:
        """Of one job; nothing is asked yet."""
        self._namespace, self._job = namespace, job
        self._cluster: Cluster = KubeCluster() if cluster is None else cluster
        self._label = f"{names.EDL_NAME}={job}"

    def job(self) -> Manifest:
        """The ElasticJob."""
        return self._cluster.get(_JOBS, self._job, namespace=self._namespace)

    def pods(self) -> list[Manifest]:
        """The job's pods."""
        return self._cluster.list(paths.PODS, namespace=self._namespace, label_selector=self._label)

    def plans(self) -> list[Manifest]:
        """The plans that carry the job's label; all of ours do."""
        return self._cluster.list(_PLANS, namespace=self._namespace, label_selector=self._label)

    def create_plan(self, plan: Manifest) -> bool:
        """Make a plan."""
        try:
            self._cluster.create(_PLANS, plan, namespace=self._namespace)
        except ForbiddenError:
            raise
        except ToolError:
            if self._has(plan["metadata"]["name"]):
                return False
            raise
        return True

    def _has(self, name: str) -> bool:
        try:
            self._cluster.get(_PLANS, name, namespace=self._namespace)
        except NotFoundError:
            return False
        return True

    def tell(self, event: Manifest) -> None:
        """Make an Event."""
        self._cluster.create(paths.EVENTS, event, namespace=self._namespace)

    def history(self) -> str:
        """What is kept of the job; "" where it may not be read."""
        try:
            found = self._cluster.get(paths.CONFIG_MAPS, self._history, namespace=self._namespace)
        except (NotFoundError, ForbiddenError):
            return ""
        return text(found, "data", _HISTORY_KEY)

    def keep(self, history: str) -> None:
        """Keep something of the job, where that is allowed.

        Who makes the account of a master makes the ConfigMap: a right to create has no name.
        """
        data = {"data": {_HISTORY_KEY: history}}
        self._cluster.patch(paths.CONFIG_MAPS, self._history, data, namespace=self._namespace)

    @property
    def _history(self) -> str:
        return f"{self._job}{names.HISTORY_SUFFIX}"
