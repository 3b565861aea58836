"""The operator's Prometheus metrics; docs/guides/operator-process.md explains each.

Every metric of ours stands in `TABLE`, which a test holds against the guide. `process_*` and
`python_*` are the library's own.
"""

from __future__ import annotations

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from allranks.elastic.api.plan import PLAN_FAILED, PLAN_SUCCEEDED, PLAN_SUPERSEDED

# name -> labels, what it says
TABLE = {
    "allranks_runs": (("phase",), "Runs by phase."),
    "allranks_plans_total": (("result",), "Scale plans that ended, by how."),
    "allranks_actions_total": (("action", "result"), "Actions, by their result."),
    "allranks_action_seconds": (("action",), "How long a request to the API server took."),
    "allranks_reaction_seconds": (
        (),
        "Seconds from a change in the cluster to the status that shows it.",
    ),
    "allranks_watch_restarts_total": (("resource", "reason"), "Watches that began again, and why."),
    "allranks_leader": ((), "1 where this replica acts, 0 where it stands by."),
    "allranks_rights_missing": (
        ("namespace", "action"),
        "1 where the operator lacks a right for what it is to do.",
    ),
    "allranks_queue_depth": ((), "Runs and jobs that wait to be looked at."),
}
# What an alert waits for is there from the start: Prometheus sees no growth in what appears.
_PLAN_RESULTS = (PLAN_SUCCEEDED, PLAN_FAILED, PLAN_SUPERSEDED)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The metrics of one operator, in a registry of their own."""

    def __init__(self) -> None:
        """Create all metrics, so that an alert on a missing one means what it says."""
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.runs = Gauge(*self._of("allranks_runs"), registry=self.registry)
        self.plans = Counter(*self._of("allranks_plans_total"), registry=self.registry)
        self.actions = Counter(*self._of("allranks_actions_total"), registry=self.registry)
        self.action_seconds = Histogram(
            *self._of("allranks_action_seconds"), registry=self.registry, buckets=_SECONDS
        )
        self.reaction_seconds = Histogram(
            *self._of("allranks_reaction_seconds"), registry=self.registry, buckets=_SECONDS
        )
        self.watch_restarts = Counter(
            *self._of("allranks_watch_restarts_total"), registry=self.registry
        )
        self.leader = Gauge(*self._of("allranks_leader"), registry=self.registry)
        self.rights_missing = Gauge(*self._of("allranks_rights_missing"), registry=self.registry)
        self.queue_depth = Gauge(*self._of("allranks_queue_depth"), registry=self.registry)

        for result in _PLAN_RESULTS:
            self.plans.labels(result.lower())

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    @staticmethod
    def _of(name: str) -> tuple[str, str, tuple[str, ...]]:
        labels, description = TABLE[name]
        return name, description, labels
