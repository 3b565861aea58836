"""What a sweep's runner may do inside a cluster: what its trials need, and nothing more; pure.

The rules follow from the objects of a trial as they were rendered, so that a sweep of plain Jobs
lets its runner make Jobs, and only one whose chart has Secrets lets it make those.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.sweep.model import TERMINATION
from allranks.sweep.storage import segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.cluster.port import Rules
    from allranks.model.manifest import Manifest
    from allranks.sweep.model import SweepSpec

# Helm keeps the record of a release in Secrets; removing one needs no helm most of the time.
_RECORDS = ("create", "delete", "get", "list", "update")
# Helm, and `removing`.
_OBJECTS = ("create", "delete", "get", "patch")
_ROLE = "Role"


def rules(
    spec: SweepSpec, workload: str, objects: Iterable[Manifest], *, has_status: bool
) -> Rules:
    """The rules of the runner's Role.

    Args:
        spec: the sweep.
        workload: which of our charts its trials are of; "" for a foreign one.
        objects: what its trials consist of, of all kinds that they may have.
        has_status: the cluster has TrainingRuns, so that our charts make one.
    """
    objects = list(objects)
    needs: defaultdict[str, set[str]] = defaultdict(set)
    needs[paths.SECRETS].update(_RECORDS)
    for one in objects:
        needs[paths.of_manifest(one)].update(_OBJECTS)
    if workload and has_status:
        needs[paths.TRAINING_RUNS].update(_OBJECTS)
    for path in _watched(workload):
        needs[path].add("list")
    if spec.objective.metric and spec.metrics.source != TERMINATION:
        needs[f"{paths.PODS}/log"].add("get")
    found = [_rule(path, verbs) for path, verbs in sorted(needs.items())]
    return found + _journal(spec.name) + _granted(objects)


def _watched(workload: str) -> tuple[str, ...]:
    """What is listed to see how trials do; as `clustertrials` does."""
    if workload == names.ELASTIC:
        return (paths.JOBS, paths.STATEFUL_SETS, paths.ELASTIC_JOBS, paths.PODS)
    if workload == "mpi":
        return (paths.JOBS, paths.STATEFUL_SETS, paths.PODS)
    return (paths.JOBS, paths.PODS)


def _journal(sweep: str) -> Rules:
    """To append, by name; to make Secrets and to read them is helm's right as well."""
    head = segments.head_name(sweep)
    parts = [segments.segment_name(sweep, index) for index in range(segments.MOST)]
    return [
        {**_rule(paths.SECRETS, {"patch"}), "resourceNames": parts},
        {**_rule(paths.LEASES, {"get", "patch"}), "resourceNames": [head]},
    ]


def _granted(objects: Iterable[Manifest]) -> Rules:
    """What Roles of the trials give to others: nobody can grant what they do not have."""
    return [
        {
            key: list(rule[key])
            for key in ("apiGroups", "resources", "resourceNames", "verbs")
            if rule.get(key)
        }
        for one in objects
        if one.get("kind") == _ROLE
        for rule in one.get("rules") or ()
    ]


def _rule(resource_path: str, verbs: Iterable[str]) -> dict[str, list[str]]:
    return {
        "apiGroups": [paths.group(resource_path)],
        "resources": [paths.plural(resource_path)],
        "verbs": sorted(verbs),
    }
