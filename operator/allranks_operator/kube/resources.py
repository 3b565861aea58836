"""The kinds of objects that the operator watches or writes, and their API paths."""

from __future__ import annotations

from dataclasses import dataclass

from allranks import names
from allranks.cluster import paths

_OURS = f"{names.APP_PART_OF}={names.PART_OF}"


@dataclass(frozen=True, slots=True)
class ApiResource:
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
        """The plural name, as in rights and metrics."""
        return paths.plural(self.path)


PODS = ApiResource(paths.PODS, "Pod", "v1", _OURS)
SERVICES = ApiResource(paths.SERVICES, "Service", "v1", _OURS)
JOBS = ApiResource(paths.JOBS, "Job", "batch/v1", _OURS)
STATEFUL_SETS = ApiResource(paths.STATEFUL_SETS, "StatefulSet", "apps/v1", _OURS)
TRAINING_RUNS = ApiResource(
    f"apis/{names.API_VERSION}/{names.TRAINING_RUNS}",
    names.TRAINING_RUN,
    names.API_VERSION,
    extension=True,
)
ELASTIC_JOBS = ApiResource(
    f"apis/{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}",
    names.ELASTIC_JOB,
    names.ELASTIC_API_VERSION,
    extension=True,
)
SCALE_PLANS = ApiResource(
    f"apis/{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}",
    names.SCALE_PLAN,
    names.ELASTIC_API_VERSION,
    extension=True,
)
WATCHED = (TRAINING_RUNS, ELASTIC_JOBS, SCALE_PLANS, JOBS, STATEFUL_SETS, SERVICES, PODS)

LEASES = paths.LEASES
EVENTS = paths.EVENTS
SECRETS = paths.SECRETS
CONFIG_MAPS = paths.CONFIG_MAPS
SERVICE_ACCOUNTS = paths.SERVICE_ACCOUNTS
ROLES, ROLE_BINDINGS = paths.ROLES, paths.ROLE_BINDINGS
