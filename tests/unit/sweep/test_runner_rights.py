"""The rights of a sweep's runner follow from what its trials consist of."""

from __future__ import annotations

from typing import Any

from allranks.sweep import in_cluster
from allranks.sweep.model import MetricsSpec, Objective
from allranks.sweep.storage import segments
from tests.unit.sweep.simulation import spec

_JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "s-1"}}


def _granted(workload: str, *objects: dict[str, Any], **options: Any) -> dict[str, set[str]]:
    """Verbs by resource, without the journal's own objects."""
    sweep_spec = options.pop("spec", spec())
    rules = in_cluster.runner_rules(
        sweep_spec, workload, objects, has_status=options.pop("has_status", False)
    )
    rights: dict[str, set[str]] = {}
    for rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        if not rule.get("resourceNames"):
            for resource in rule["resources"]:
                rights.setdefault(resource, set()).update(rule["verbs"])
    return rights


def test_a_sweep_of_jobs_makes_jobs() -> None:
    """And keeps helm's records; ConfigMaps are none of its business, and no Secret is patched."""
    rights = _granted("", _JOB)
    assert {"secrets", "jobs", "pods", "pods/log"} == set(rights)
    assert {"create", "delete", "get", "list", "update"} == rights["secrets"]
    assert {"list"} == rights["pods"]
    assert {"create", "delete", "get", "list", "patch"} == rights["jobs"]


def test_logs_are_read_only_where_they_tell_something() -> None:
    """No objective, or one from the termination message: no right to logs."""
    for sweep_spec in (
        spec(objective=Objective("")),
        spec(metrics=MetricsSpec(source="termination")),
    ):
        assert "pods/log" not in _granted("", _JOB, spec=sweep_spec)


def test_each_workload_has_its_own() -> None:
    """What is listed, and the status object where the cluster has such."""
    assert "statefulsets" in _granted("mpi", _JOB)
    assert {"statefulsets", "elasticjobs"} <= set(_granted("elastic", _JOB))
    assert "trainingruns" in _granted("torchrun", _JOB, has_status=True)
    assert "trainingruns" not in _granted("", _JOB, has_status=True)


def test_what_trials_grant_their_runner_has() -> None:
    """A Role among a trial's objects gives rights that nobody could give without having them."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "s-1"},
        "rules": [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create"]}],
    }
    rights = _granted("mpi", _JOB, role)
    assert {"create"} == rights["pods/exec"]
    assert {"create", "delete", "get", "patch"} == rights["roles"]


def test_the_journal_is_named() -> None:
    """Its segments are patched, and no other Secret is, not even its head."""
    rules = in_cluster.runner_rules(spec(), "", [_JOB], has_status=False)
    resource_names = {
        (rule["resources"][0], tuple(rule["verbs"])): rule["resourceNames"]
        for rule in rules
        if rule.get("resourceNames")
    }
    parts = [segments.segment_name(spec().name, index) for index in range(segments.MOST)]
    assert parts == resource_names["secrets", ("patch",)]
    assert [f"{spec().name}-journal"] == resource_names["leases", ("get", "patch")]
