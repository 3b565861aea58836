"""What an upgrade finds out beforehand, and what a recreation takes away."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from allranks import names
from allranks.cluster import paths, upgrade
from allranks.errors import ForbiddenError, NotFoundError, RejectedError, RunError

HELM_APPLY = {"managedFields": [{"manager": "helm", "operation": "Apply"}]}


def job(fake: Any, image: str, **metadata: Any) -> dict[str, Any]:
    """A Job of one container."""
    spec = {"template": {"spec": {"containers": [{"name": "trainer", "image": image}]}}}
    manifest: dict[str, Any] = fake.manifest("Job", "demo", spec=spec, metadata=metadata)
    return manifest


def refusing(*_: Any) -> Exception | None:
    """The server's answer to a patch of a Job's template."""
    if _[0] != "patch":
        return None
    causes = (("spec.template", "Invalid value: …: field is immutable\nand more"),)
    return RejectedError("no", causes=causes)


def test_the_server_decides_and_the_field_is_named(fake: Any) -> None:
    """A refused dry run is an obstacle; the comparison says which field it is about."""
    cluster = fake.FakeCluster(job(fake, "a:1", **HELM_APPLY))
    cluster.refuse = refusing
    look = upgrade.preview(cluster, "lab", [job(fake, "a:2")], [job(fake, "a:1")])
    (obstacle,) = look.obstacles
    assert ("Job", "demo", True) == (obstacle.kind, obstacle.name, obstacle.replaceable)
    assert ["a:1 -> a:2"] == [str(change) for change in obstacle.changes]
    assert obstacle.message == "spec.template: Invalid value: …: field is immutable"
    (patch,) = [request for request in cluster.requests if request[0] == "patch"]
    assert {"kind": "apply", "manager": "helm", "dry_run": True}.items() <= patch[4].items()


def test_a_server_that_takes_it_is_believed(fake: Any) -> None:
    """What a newer Kubernetes lets change is not refused by us."""
    cluster = fake.FakeCluster(job(fake, "a:1", **HELM_APPLY))
    assert upgrade.preview(cluster, "lab", [job(fake, "a:2")], [job(fake, "a:1")]).obstacles == ()


def test_where_helm_did_not_apply_by_the_server_the_comparison_decides(fake: Any) -> None:
    """Helm 3 takes fields away in a way that no dry run of ours shows."""
    cluster = fake.FakeCluster(job(fake, "a:1"))
    look = upgrade.preview(cluster, "lab", [job(fake, "a:2")], [job(fake, "a:1")])
    assert 1 == len(look.obstacles)


def elastic(fake: Any, image: str, **rest: Any) -> dict[str, Any]:
    """An elastic job of one role."""
    worker = {"replicas": 2, "template": job(fake, image)["spec"]["template"]}
    spec = {"replicaSpecs": {"worker": worker}, **rest.pop("spec", {})}
    manifest: dict[str, Any] = fake.manifest(names.ELASTIC_JOB, "demo", spec=spec, **rest)
    return manifest | {"apiVersion": names.ELASTIC_API_VERSION}


def test_pods_of_an_elastic_job_keep_the_template_they_were_made_of(fake: Any) -> None:
    """The server takes a new template; half of the pods would be of it, sooner or later."""
    running = elastic(fake, "a:1", metadata=HELM_APPLY, status={"phase": "Running"})
    cluster = fake.FakeCluster(running)
    look = upgrade.preview(cluster, "lab", [elastic(fake, "a:2")], [elastic(fake, "a:1")])
    (obstacle,) = look.obstacles
    assert (names.ELASTIC_JOB, "demo", True) == (obstacle.kind, obstacle.name, obstacle.replaceable)
    assert "pods that run keep the old template" == obstacle.keeps
    where = "spec.replicaSpecs.worker.template.spec.containers[trainer].image"
    assert [(where, "a:1 -> a:2")] == [(change.path, str(change)) for change in obstacle.changes]


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        ({"phase": "Succeeded"}, {}),
        ({"phase": "Failed"}, {}),
        ({"phase": "Suspended"}, {"suspend": True}),
    ],
)
def test_an_elastic_job_without_pods_takes_a_new_template(
    fake: Any, status: dict[str, str], spec: dict[str, Any]
) -> None:
    """One that has ended, or that is suspended, has nothing that runs of the old one."""
    cluster = fake.FakeCluster(elastic(fake, "a:1", status=status, spec=spec, metadata=HELM_APPLY))
    look = upgrade.preview(cluster, "lab", [elastic(fake, "a:2")], [elastic(fake, "a:1")])
    assert upgrade.Outlook() == look


def test_an_elastic_job_takes_another_size_as_it_runs(fake: Any) -> None:
    """Counts and bounds are what the operator follows; a role that is new has no pods yet."""
    running = elastic(fake, "a:1", status={"phase": "Running"}, metadata=HELM_APPLY)
    new = elastic(fake, "a:1")
    new["spec"]["replicaSpecs"]["worker"] |= {"replicas": 5, "maxReplicas": 9}
    new["spec"]["replicaSpecs"]["evaluator"] = {"template": {"spec": {"containers": []}}}
    look = upgrade.preview(fake.FakeCluster(running), "lab", [new], [elastic(fake, "a:1")])
    assert upgrade.Outlook() == look


def test_an_elastic_job_that_is_no_longer_rendered_is_named(fake: Any) -> None:
    """Values of the other mode would delete it with its pods."""
    running = elastic(fake, "a:1", status={"phase": "Running"})
    look = upgrade.preview(fake.FakeCluster(running), "lab", [], [elastic(fake, "a:1")])
    (obstacle,) = look.obstacles
    assert "the new values have no such object, so its pods would be deleted" == obstacle.message


def test_recreation_takes_an_elastic_job_in_the_foreground(fake: Any) -> None:
    """Its pods are gone before helm makes it anew; its master's memory stays."""
    memory = fake.manifest("ConfigMap", "demo-history")
    cluster = fake.FakeCluster(elastic(fake, "a:1"), memory)
    obstacle = upgrade.Obstacle(names.ELASTIC_JOB, "demo", paths.ELASTIC_JOBS, (), "", "kept")
    messages: list[str] = []
    upgrade.recreate(cluster, "demo", "lab", [obstacle], timeout=1, tell=messages.append)
    assert ["ElasticJob/demo"] == messages
    assert [(paths.CONFIG_MAPS, "demo-history")] == list(cluster.objects)
    assert [True] == [request[4] for request in cluster.requests if request[0] == "delete"]


@pytest.mark.parametrize("error", [NotFoundError("no such kind"), ForbiddenError("no right")])
def test_recreation_needs_no_elastic_jobs(fake: Any, error: Exception) -> None:
    """A cluster without the kind, or a user who may not see it, recreates Jobs all the same."""
    cluster = fake.FakeCluster(job(fake, "a"))
    cluster.refuse = lambda _, path, *__: error if path == paths.ELASTIC_JOBS else None
    messages: list[str] = []
    obstacle = upgrade.Obstacle("Job", "demo", paths.JOBS, (), "no")
    upgrade.recreate(cluster, "demo", "lab", [obstacle], timeout=1, tell=messages.append)
    assert ["Job/demo"] == messages


def test_a_job_that_is_gone_would_start_anew(fake: Any) -> None:
    """A Job after its TTL is named; an object that is new is no news."""
    look = upgrade.preview(fake.FakeCluster(), "lab", [job(fake, "a")], [job(fake, "a")])
    assert upgrade.Outlook((), ("Job/demo",)) == look
    assert upgrade.Outlook() == upgrade.preview(fake.FakeCluster(), "lab", [job(fake, "a")], [])


def test_recreation_takes_every_workload_object_and_leaves_claims(fake: Any) -> None:
    """Workers and launcher go together, in the foreground; volumes stay."""
    claim = fake.manifest("PersistentVolumeClaim", "demo-data")
    cluster = fake.FakeCluster(
        job(fake, "a"), fake.manifest("StatefulSet", "demo-worker", spec={}), claim
    )
    obstacle = upgrade.Obstacle("Job", "demo", paths.JOBS, (), "no")
    messages: list[str] = []
    upgrade.recreate(cluster, "demo", "lab", [obstacle], timeout=1, tell=messages.append)
    assert ["Job/demo", "StatefulSet/demo-worker"] == messages
    assert [(paths.CLAIMS, "demo-data")] == list(cluster.objects)
    assert all(request[4] for request in cluster.requests if request[0] == "delete")


def test_pods_that_stay_are_named_in_time(fake: Any) -> None:
    """A node that is gone does not make us wait for ever."""
    cluster = fake.FakeCluster(fake.manifest("Pod", "demo-0-abc"), fake.manifest("Pod", "p2"))
    with pytest.raises(RunError, match="still there after 0 s: pod demo-0-abc and 1 more"):
        upgrade.wait_for_no_pods(cluster, "demo", "lab", timeout=0)


def test_nothing_of_the_rendered_objects_is_changed(fake: Any) -> None:
    """The objects that are compared are the ones that helm is given."""
    new = [job(fake, "a:2")]
    before = copy.deepcopy(new)
    upgrade.preview(fake.FakeCluster(job(fake, "a:1")), "lab", new, [])
    assert before == new
