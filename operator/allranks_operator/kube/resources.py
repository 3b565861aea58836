"""What the watcher keeps a copy of, and where the API server has it."""

from __future__ import annotations

from dataclasses import dataclass

from allranks import names
from allranks.cluster import paths

_OURS = f"{names.APP_PART_OF}={names.PART_OF}"


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object.

    Attributes:
        path: see `allranks.cluster.paths`.
        kind: as a manifest names it; lists leave it out of their items.
        api_version: likewise.
        selector: only those with these labels; "" is all.
        extension: whether a cluster may well not have it.
    """

    path: str
    kind: str
    api_version: str
    selector: str = ""
    extension: bool = False

    @property
    def plural(self) -> str:
        """As rights and metrics name it."""
        return paths.plural(self.path)


PODS = Resource(paths.PODS, "Pod", "v1", _OURS)
SERVICES = Resource(paths.SERVICES, "Service", "v1", _OURS)
JOBS = Resource(paths.JOBS, "Job", "batch/v1", _OURS)
STATEFUL_SETS = Resource(paths.STATEFUL_SETS, "StatefulSet", "apps/v1", _OURS)
TRAINING_RUNS = Resource(
    f"apis/{names.API_VERSION}/{names.TRAINING_RUNS}",
    names.TRAINING_RUN,
    names.API_VERSION,
    extension=True,
)
ELASTIC_JOBS = Resource(
    f"apis/{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}",
    names.ELASTIC_JOB,
    names.ELASTIC_API_VERSION,
    extension=True,
)
SCALE_PLANS = Resource(
    f"apis/{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}",
    names.SCALE_PLAN,
    names.ELASTIC_API_VERSION,
    extension=True,
)
WATCHED = (TRAINING_RUNS, ELASTIC_JOBS, SCALE_PLANS, JOBS, STATEFUL_SETS, SERVICES, PODS)

LEASES = "apis/coordination.k8s.io/v1/leases"
EVENTS = paths.EVENTS
SECRETS = "api/v1/secrets"
CONFIG_MAPS = paths.CONFIG_MAPS
SERVICE_ACCOUNTS = paths.SERVICE_ACCOUNTS
ROLES, ROLE_BINDINGS = paths.ROLES, paths.ROLE_BINDINGS
