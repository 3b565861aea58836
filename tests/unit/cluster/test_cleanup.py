"""What is left of a run, and what goes."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.cluster import cleanup, paths
from allranks.errors import ForbiddenError, NotFoundError

KEEP = {"annotations": {names.HELM_RESOURCE_POLICY: "keep"}}


def test_all_goes_but_what_was_asked_to_be_kept(fake: Any) -> None:
    """Claims with the policy stay, and what is being deleted already is not named again."""
    cluster = fake.FakeCluster(
        fake.manifest("Job", "demo"),
        fake.manifest("ConfigMap", "demo"),
        fake.manifest("Service", "other", labels={"app.kubernetes.io/instance": "other"}),
        fake.manifest("Secret", "demo-ssh", metadata={"deletionTimestamp": "2026"}),
        fake.manifest("PersistentVolumeClaim", "demo-data", metadata=KEEP),
    )
    leftovers = cleanup.leftovers(cluster, "demo", "lab")
    assert ["jobs.batch/demo", "configmaps/demo", "persistentvolumeclaims/demo-data"] == [
        str(leftover) for leftover in leftovers
    ]
    removed = cleanup.remove(cluster, "lab", leftovers)
    assert ["demo", "demo"] == [leftover.name for leftover in removed]
    assert (paths.CLAIMS, "demo-data") in cluster.objects
    assert (paths.SERVICES, "other") in cluster.objects


@pytest.mark.parametrize("error", [NotFoundError("no such kind"), ForbiddenError("no right")])
def test_a_kind_that_cannot_be_listed_has_none(fake: Any, error: Exception) -> None:
    """A cluster without PodGroups, or a user without Roles, deletes all the same."""
    cluster = fake.FakeCluster(fake.manifest("Job", "demo"))
    cluster.refuse = lambda _, path, *__: error if path == paths.ROLES else None
    assert ["demo"] == [leftover.name for leftover in cleanup.leftovers(cluster, "demo", "lab")]


def test_a_user_who_may_not_list_jobs_is_told(fake: Any) -> None:
    """Without it nothing that is said of the run would be true."""
    cluster = fake.FakeCluster()
    cluster.refuse = lambda _, path, *__: ForbiddenError("no") if path == paths.JOBS else None
    with pytest.raises(ForbiddenError):
        cleanup.leftovers(cluster, "demo", "lab")


def test_plans_of_other_tools_go_with_their_job(fake: Any) -> None:
    """They have the job's own label, not ours, and may have no owner."""
    versioned = {"apiVersion": names.ELASTIC_API_VERSION}
    job = fake.manifest(names.ELASTIC_JOB, "demo") | versioned
    ours = fake.manifest(names.SCALE_PLAN, "demo-manual-1", labels={names.EDL_NAME: "demo"})
    theirs = fake.manifest(names.SCALE_PLAN, "man-1") | versioned
    theirs["metadata"]["labels"] = {names.EDL_NAME: "demo"}
    other = fake.manifest(names.SCALE_PLAN, "man-2") | versioned
    other["metadata"]["labels"] = {names.EDL_NAME: "other"}
    run = fake.manifest(names.TRAINING_RUN, "demo") | {"apiVersion": names.API_VERSION}
    cluster = fake.FakeCluster(job, ours | versioned, theirs, other, run)
    leftovers = cleanup.leftovers(cluster, "demo", "lab")
    assert ["demo", "demo-manual-1", "demo", "man-1"] == [leftover.name for leftover in leftovers]


def test_an_elastic_job_of_no_release_goes_first(fake: Any) -> None:
    """It was applied by hand and has no label; what the operator made beside it goes too."""
    versioned = {"apiVersion": names.ELASTIC_API_VERSION}
    job = fake.manifest(names.ELASTIC_JOB, "demo") | versioned
    job["metadata"]["labels"] = {}
    other = fake.manifest(names.ELASTIC_JOB, "other") | versioned
    other["metadata"]["labels"] = {}
    plan = fake.manifest(names.SCALE_PLAN, "man-1") | versioned
    plan["metadata"]["labels"] = {names.EDL_NAME: "demo"}
    run = fake.manifest(names.TRAINING_RUN, "demo") | {"apiVersion": names.API_VERSION}
    cluster = fake.FakeCluster(job, other, plan, run)
    leftovers = cleanup.leftovers(cluster, "demo", "lab")
    assert [
        "elasticjobs.elastic.iml.github.io/demo",
        "trainingruns.allranks.dev/demo",
        "scaleplans.elastic.iml.github.io/man-1",
    ] == [str(leftover) for leftover in leftovers]
    cleanup.remove(cluster, "lab", leftovers)
    assert [(paths.ELASTIC_JOBS, "other")] == list(cluster.objects)
    job["metadata"]["deletionTimestamp"] = "2026"
    assert () == cleanup.leftovers(fake.FakeCluster(job), "demo", "lab")


def test_the_history_of_a_job_of_no_release_is_named(fake: Any) -> None:
    """Its master keeps it for the next job of the name: it stays, and is said to."""
    job = fake.manifest(names.ELASTIC_JOB, "demo") | {"apiVersion": names.ELASTIC_API_VERSION}
    job["metadata"]["labels"] = {}
    history = fake.manifest("ConfigMap", "demo-history")
    history["metadata"]["labels"] = {names.EDL_NAME: "demo"}
    cluster = fake.FakeCluster(job, history)
    leftovers = cleanup.leftovers(cluster, "demo", "lab")
    assert [("demo", False), ("demo-history", True)] == [
        (leftover.name, leftover.keep) for leftover in leftovers
    ]
    cleanup.remove(cluster, "lab", leftovers)
    assert (paths.CONFIG_MAPS, "demo-history") in cluster.objects


def test_a_release_goes_without_helm(fake: Any) -> None:
    """What has labels, what only its record names, and the records; kinds that are gone do not."""
    record = fake.manifest("Secret", "r", labels={"owner": "helm", "name": "demo"})
    record["metadata"]["labels"].pop("app.kubernetes.io/part-of")
    extra = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extra"}}
    training_run = {"apiVersion": names.API_VERSION, "kind": names.TRAINING_RUN}
    claim = fake.manifest("PersistentVolumeClaim", "demo-data", metadata=KEEP)
    cluster = fake.FakeCluster(fake.manifest("Job", "demo"), extra, claim, record)
    manifests = [extra, claim, training_run | {"metadata": {"name": "demo"}}]
    cleanup.remove_release(cluster, "demo", "lab", manifests)
    assert [(paths.CLAIMS, "demo-data")] == list(cluster.objects)
    deleted = [request[1:3] for request in cluster.requests if request[0] == "delete"]
    assert ((paths.JOBS, "demo"), (paths.SECRETS, "r")) == (deleted[0], deleted[-1])
