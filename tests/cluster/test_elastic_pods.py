"""A real API server takes what is made of an elastic job, and every field of it.

Nothing is dropped without a word: each request asks for strict validation, and Pod Security refuses
what a namespace forbids.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from allranks.elastic import job_status, pods
from allranks.elastic.api import job as reading
from allranks.elastic.members import Member, MemberGroup
from allranks.elastic.resources import ResourceAmounts
from allranks.elastic.snapshot import MasterView
from allranks.elastic.target import DesiredState
from allranks.status import progress, training_run
from allranks.status.observation import Observation
from allranks.status.reduce import reduce
from tests.kube.api import ApiError

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob
    from tests.kube.cluster import Cluster

    from .conftest import MakeNamespace

pytestmark = pytest.mark.timeout(900)

Manifest = dict[str, Any]
STRICT = "?fieldValidation=Strict"
ELASTIC, RUNS = "elastic.iml.github.io/v1alpha1", "allranks.dev/v1alpha1"
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
}


@pytest.fixture
def cluster(elastic_cluster: Cluster) -> Cluster:
    """The one that knows the kinds; `make_namespace` makes its namespaces there."""
    return elastic_cluster


def template(**container: Any) -> Manifest:
    """A pod template that nobody schedules."""
    main = {"name": "main", "image": "my/trainer:1.4", "securityContext": RESTRICTED, **container}
    return {"spec": {"schedulerName": "nobody", "containers": [main]}}


def create_job(cluster: Cluster, namespace: str, specs: Manifest) -> ElasticJob:
    """An ElasticJob as the API server has it."""
    body = {
        "apiVersion": ELASTIC,
        "kind": "ElasticJob",
        "metadata": {"name": "jar"},
        "spec": {
            "distributionStrategy": "ParameterServerStrategy",
            "envs": {"DATA": {"name": "DATA", "value": "/data"}},
            "replicaSpecs": specs,
        },
    }
    path = f"/apis/{ELASTIC}/namespaces/{namespace}/elasticjobs{STRICT}"
    return reading.read(cluster.api("POST", path, body))


def create(cluster: Cluster, manifest: Manifest) -> Manifest:
    """Create an object of the core group."""
    namespace, kind = manifest["metadata"]["namespace"], manifest["kind"].lower()
    return cluster.api("POST", f"/api/v1/namespaces/{namespace}/{kind}s{STRICT}", manifest)


def account(cluster: Cluster, namespace: str, name: str) -> None:
    """A ServiceAccount, without which a pod that names it is refused."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    cluster.api("POST", path, {"metadata": {"name": name}})


def target() -> DesiredState:
    """A parameter server, and a worker that has been relaunched with more memory."""
    worker = Member(3, 0, 1, ResourceAmounts(memory_bytes=1 << 30, gpus=1), avoid=("node-9",))
    return DesiredState(
        groups={
            "ps": MemberGroup("ps", 1, (Member(0, 0),), 1),
            "worker": MemberGroup("worker", 1, (worker,), 4),
        }
    )


def test_its_pods_and_services_are_taken(cluster: Cluster, make_namespace: MakeNamespace) -> None:
    """Where a template says what "restricted" asks, and our own master by itself."""
    namespace = make_namespace()
    specs = {kind: {"template": template()} for kind in ("ps", "worker")}
    job, desired = create_job(cluster, namespace, specs), target()
    for kind, group in desired.groups.items():
        for member in group.members:
            created_pod = create(cluster, pods.build_pod(job, kind, member, desired))
            assert {"cpu", "memory"} <= created_pod["spec"]["containers"][0]["resources"][
                "requests"
            ].keys()
            create(cluster, pods.service(job, kind, member.rank))
    account(cluster, namespace, "allranks-master")
    create(cluster, pods.master(job, 0, "allranks-operator:1"))
    create(cluster, pods.master_service(job))
    # A create that is repeated after a kill changes nothing.
    with pytest.raises(ApiError, match="already exists"):
        create(cluster, pods.master(job, 0, "allranks-operator:1"))


def test_a_given_master_and_bare_templates_are_taken(
    cluster: Cluster, make_namespace: MakeNamespace
) -> None:
    """Templates that say nothing but an image run where a namespace lets them."""
    namespace = make_namespace("baseline")
    bare = {"spec": {"containers": [{"name": "main", "image": "i"}]}}
    specs = {kind: {"template": bare} for kind in ("worker", "dlrover-master")}
    job = create_job(cluster, namespace, specs)
    for manifest in (
        pods.master(job, 0),
        pods.build_pod(job, "worker", Member(0, 0), target()),
        pods.build_pod(job, "chief", Member(0, 0), target()),
    ):
        created_pod = create(cluster, manifest)
        assert "Never" == created_pod["spec"]["restartPolicy"]


def test_its_status_is_taken_and_reads_back(
    cluster: Cluster, make_namespace: MakeNamespace
) -> None:
    """Every field of it is known to the kind, and a second look changes nothing."""
    namespace = make_namespace()
    specs = {"worker": {"replicas": 2, "template": template()}}
    job, desired = create_job(cluster, namespace, specs), target()
    master = MasterView("own", "m-0", "Running")
    status = job_status.job_status(job, desired, [], master, time.time())
    path = f"/apis/{ELASTIC}/namespaces/{namespace}/elasticjobs/jar"
    metadata = {"name": job.name, "resourceVersion": job.resource_version}
    body = {"apiVersion": ELASTIC, "kind": "ElasticJob", "metadata": metadata, "spec": {}}
    full = {**status, "target": desired.as_status()}
    stored = cluster.api("PUT", f"{path}/status{STRICT}", {**body, "status": full})
    assert full == stored["status"]
    again = reading.read(stored)
    assert status == job_status.job_status(again, again.target, [], master, time.time() + 99)
    scale = cluster.api("GET", f"{path}/scale")["status"]
    assert (1, status["selector"]) == (scale["replicas"], scale["selector"])


def test_the_status_of_its_run_is_taken(cluster: Cluster, make_namespace: MakeNamespace) -> None:
    """The same for a TrainingRun, with all that there may be in it."""
    namespace = make_namespace()
    job, desired = create_job(cluster, namespace, {"worker": {"template": template()}}), target()
    pod = create(
        cluster, pods.build_pod(job, "worker", desired.groups["worker"].members[0], desired)
    )
    pod["metadata"]["annotations"] = {"allranks.dev/progress": '{"step": 3, "total": 9}'}
    objects = cluster.items(f"/apis/{ELASTIC}/namespaces/{namespace}/elasticjobs")
    owner = {**objects[0], "kind": "ElasticJob"}
    observation = Observation("jar", namespace, (owner,), (pod,), now=time.time())
    status = training_run.build(reduce(observation), {}, 1, progress.read([pod]), time.time())
    path = f"/apis/{RUNS}/namespaces/{namespace}/trainingruns"
    body = {
        "apiVersion": RUNS,
        "kind": "TrainingRun",
        "metadata": {"name": "jar"},
        "spec": {"release": "jar", "workload": "elastic"},
    }
    run = cluster.api("POST", f"{path}{STRICT}", body)
    stored = cluster.api("PUT", f"{path}/jar/status{STRICT}", {**run, "status": status})
    assert status == stored["status"]
    assert ("Pending", "33.3%") == (
        stored["status"]["phase"],
        f"{stored['status']['progress']['percent']}%",
    )
