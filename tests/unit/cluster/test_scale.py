"""Suspend, resume and resize, and what is left in `managedFields`."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.cluster import paths, scale
from allranks.errors import ForbiddenError, InputError, NotFoundError

DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


def controllers(cluster: Any) -> scale.Controllers:
    """The controllers of the run."""
    return scale.controllers(cluster, "demo", "lab")


def test_a_run_of_jobs_is_suspended_and_resumed(fake: Any) -> None:
    """Each Job's own field; what has ended stays as it is, and a second time nothing happens."""
    cluster = fake.FakeCluster(
        fake.manifest("Job", "demo-launcher", spec={"suspend": False}),
        fake.manifest("Job", "demo-worker", spec={"suspend": False}),
        fake.manifest("Job", "demo-old", spec={}, status=DONE),
    )
    changed = scale.suspend(cluster, "lab", controllers(cluster))
    assert ("Job/demo-launcher", "Job/demo-worker") == changed
    assert scale.suspend(cluster, "lab", controllers(cluster)) == ()
    assert changed == scale.resume(cluster, "lab", controllers(cluster), {})
    assert [] == cluster.objects[paths.JOBS, "demo-worker"]["metadata"]["managedFields"]


def test_a_stateful_set_remembers_its_size(fake: Any) -> None:
    """It has no pods while it is suspended, and as many as before afterwards."""
    cluster = fake.FakeCluster(fake.manifest("StatefulSet", "demo", spec={"replicas": 3}))
    scale.suspend(cluster, "lab", controllers(cluster))
    item = cluster.objects[paths.STATEFUL_SETS, "demo"]
    assert (0, "3") == (
        item["spec"]["replicas"],
        item["metadata"]["annotations"][names.SUSPENDED_REPLICAS],
    )
    assert not scale.needs_sizes(controllers(cluster))
    scale.resume(cluster, "lab", controllers(cluster), {})
    assert 3 == item["spec"]["replicas"]
    assert names.SUSPENDED_REPLICAS not in item["metadata"]["annotations"]


def test_a_stateful_set_that_never_had_pods_is_told_its_size(fake: Any) -> None:
    """Installed suspended it says nothing itself; the release's values do."""
    cluster = fake.FakeCluster(fake.manifest("StatefulSet", "demo", spec={"replicas": 0}))
    assert scale.needs_sizes(controllers(cluster))
    with pytest.raises(InputError, match="how many pods StatefulSet demo has"):
        scale.resume(cluster, "lab", controllers(cluster), {})
    scale.resume(cluster, "lab", controllers(cluster), {"demo": 2})
    assert 2 == cluster.objects[paths.STATEFUL_SETS, "demo"]["spec"]["replicas"]


def test_an_indexed_job_is_resized_as_kubernetes_lets_it(fake: Any) -> None:
    """Completions and parallelism in one patch; our name does not stay on them."""
    cluster = fake.FakeCluster(fake.manifest("Job", "demo", spec={}))
    scale.resize(cluster, "lab", controllers(cluster).jobs[0], 4)
    item = cluster.objects[paths.JOBS, "demo"]
    assert {"completions": 4, "parallelism": 4} == item["spec"]
    assert [] == item["metadata"]["managedFields"]


def test_what_has_ended_or_is_not_there_is_refused(fake: Any) -> None:
    """Each with its own sentence."""
    cluster = fake.FakeCluster(fake.manifest("Job", "demo", spec={}, status=DONE))
    with pytest.raises(InputError, match="it cannot be suspended"):
        scale.suspend(cluster, "lab", controllers(cluster))
    with pytest.raises(InputError, match="has ended"):
        scale.resize(cluster, "lab", controllers(cluster).jobs[0], 2)
    with pytest.raises(NotFoundError, match="no run 'demo' in namespace lab"):
        controllers(fake.FakeCluster())


def by_hand(fake: Any, **rest: Any) -> dict[str, Any]:
    """An elastic job that kubectl applied: of no release, without labels."""
    manifest: dict[str, Any] = fake.manifest(names.ELASTIC_JOB, "demo", **rest)
    manifest["metadata"]["labels"] = {}
    return manifest | {"apiVersion": names.ELASTIC_API_VERSION}


def test_an_elastic_job_of_no_release_is_a_run_too(fake: Any) -> None:
    """It is known by its name, and stops and goes on as the others do."""
    cluster = fake.FakeCluster(by_hand(fake, spec={}))
    assert ("ElasticJob/demo",) == scale.suspend(cluster, "lab", controllers(cluster))
    assert cluster.objects[paths.ELASTIC_JOBS, "demo"]["spec"] == {"suspend": True}
    assert ("ElasticJob/demo",) == scale.resume(cluster, "lab", controllers(cluster), {})


def test_an_elastic_job_of_another_release_is_not_of_this_run(fake: Any) -> None:
    """Its label says whose it is; its name does not matter then."""
    job = by_hand(fake, spec={})
    job["metadata"]["labels"] = {names.APP_INSTANCE: "other"}
    with pytest.raises(NotFoundError, match="no run 'demo'"):
        controllers(fake.FakeCluster(job))


def test_the_queue_of_a_run_is_known(fake: Any) -> None:
    """Kueue decides over suspension; a person is told."""
    labels = {names.KUEUE_QUEUE: "research"}
    assert (
        "research" == controllers(fake.FakeCluster(fake.manifest("Job", "d", labels=labels))).queue
    )
    assert "" == controllers(fake.FakeCluster(fake.manifest("Job", "d"))).queue


def elastic_job(fake: Any, **fields: Any) -> Any:
    """An elastic job of the run."""
    manifest = fake.manifest(names.ELASTIC_JOB, "demo", **fields)
    return {**manifest, "apiVersion": names.ELASTIC_API_VERSION}


def test_an_elastic_job_is_suspended_and_resumed(fake: Any) -> None:
    """Its own field; the operator takes the pods away and brings them back."""
    cluster = fake.FakeCluster(elastic_job(fake, spec={}))
    assert ("ElasticJob/demo",) == scale.suspend(cluster, "lab", controllers(cluster))
    item = cluster.objects[paths.ELASTIC_JOBS, "demo"]
    assert item["spec"]["suspend"] is True
    assert [] == item["metadata"]["managedFields"]
    assert () == scale.suspend(cluster, "lab", controllers(cluster))
    assert ("ElasticJob/demo",) == scale.resume(cluster, "lab", controllers(cluster), {})


def test_an_elastic_job_that_has_ended_is_not_suspended(fake: Any) -> None:
    """It has no pods that could stop."""
    cluster = fake.FakeCluster(elastic_job(fake, spec={}, status={"phase": "Failed"}))
    with pytest.raises(InputError, match="it cannot be suspended"):
        scale.suspend(cluster, "lab", controllers(cluster))


@pytest.mark.parametrize("error", [NotFoundError("no such kind"), ForbiddenError("no right")])
def test_a_cluster_without_elastic_jobs_has_none(fake: Any, error: Exception) -> None:
    """Where the kind is not there, or may not be seen, all else works."""
    cluster = fake.FakeCluster(fake.manifest("Job", "demo", spec={}))
    cluster.refuse = lambda _, path, *__: error if path == paths.ELASTIC_JOBS else None
    assert ("Job/demo",) == scale.suspend(cluster, "lab", controllers(cluster))
