"""What real controllers write, and what becomes of it in a status.

The pods belong to no scheduler, so that nobody but the test writes their statuses: it plays the
kubelet, and the Job controller, the quota and Pod Security answer as they do everywhere.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster.client import KubeCluster
from allranks.cluster.observe import observe
from allranks.model.status import Phase
from allranks.status.reduce import first_failed, reduce
from tests.kube import kwok
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.model.status import RunStatus
    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes


pytestmark = pytest.mark.timeout(900)

NOBODY = "nobody"
LABELS = {
    "app.kubernetes.io/instance": "demo",
    "app.kubernetes.io/part-of": "allranks",
    "allranks.dev/role": "node",
    "allranks.dev/workload": "torchrun",
}
DISRUPTION = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
IGNORE = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def container(**fields: Any) -> dict[str, Any]:
    """A container that Pod Security "restricted" accepts."""
    return {
        "name": "trainer",
        "image": "my/trainer:1.4",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **fields,
    }


def job(pods: int = 2, pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """An Indexed Job as the chart renders it."""
    template = {
        "restartPolicy": "Never",
        "schedulerName": NOBODY,
        "terminationGracePeriodSeconds": 1,
        "containers": [container()],
        **(pod or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "demo", "labels": LABELS},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [IGNORE]},
            "template": {"metadata": {"labels": LABELS}, "spec": template},
            **spec,
        },
    }


@dataclass(frozen=True, slots=True)
class Lab:
    """A namespace in which the test plays the kubelet."""

    cluster: Cluster
    client: KubeCluster
    namespace: str

    def create(self, manifest: dict[str, Any]) -> None:
        """Create an object."""
        group = manifest["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        path = f"{root}/namespaces/{self.namespace}/{manifest['kind'].lower()}s"
        self.cluster.api("POST", path, manifest)

    def pods(self, index: int | None = None) -> list[dict[str, Any]]:
        """The pods, the newest last."""
        pods = self.cluster.items(f"/api/v1/namespaces/{self.namespace}/pods")
        key = "batch.kubernetes.io/job-completion-index"
        selected = [
            pod for pod in pods if index is None or pod["metadata"]["labels"][key] == str(index)
        ]
        return sorted(selected, key=lambda pod: int(pod["metadata"]["resourceVersion"]))

    def created(self, number: int) -> list[dict[str, Any]]:
        """The pods, once there are so many."""

        def look() -> list[dict[str, Any]]:
            pods = self.pods()
            return pods if len(pods) == number else []

        pods: list[dict[str, Any]] = until(look, f"{number} pods")
        return pods

    def kubelet(self, name: str, phase: str, **state: Any) -> None:
        """Write a pod's status as its kubelet would."""
        conditions = [{"type": "PodScheduled", "status": "True"}, *state.pop("conditions", ())]
        status = {
            "name": "trainer",
            "image": "my/trainer:1.4",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state or {"running": {"startedAt": _now()}},
        }
        body = {"status": {"phase": phase, "conditions": conditions, "containerStatuses": [status]}}
        self.cluster.api("PATCH", f"{self.path('pods', name)}/status", body)

    def fail(self, name: str, code: int, **fields: Any) -> None:
        """End a pod's container."""
        end = {"exitCode": code, "reason": "Error", "finishedAt": _now(), "message": "boom"}
        self.kubelet(name, "Failed", terminated=end, **fields)

    def path(self, plural: str, name: str, root: str = "/api/v1") -> str:
        """Where an object is."""
        return f"{root}/namespaces/{self.namespace}/{plural}/{name}"

    def status(self) -> RunStatus:
        """The status, as the program would show it."""
        return reduce(observe(self.client, "demo", self.namespace))

    def until(self, check: Callable[[RunStatus], object], expectation: str) -> RunStatus:
        """The first status of which something is true."""

        def look() -> RunStatus | None:
            status = self.status()
            return status if check(status) else None

        status: RunStatus = until(look, lambda: f"{expectation}: {self.status()}")
        return status


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def lab(cluster: Cluster, namespace: str) -> Lab:
    """A namespace under Pod Security "restricted"."""
    return Lab(cluster, KubeCluster(str(cluster.kubeconfig)), namespace)


def pod_names(pods: list[dict[str, Any]]) -> list[str]:
    """The names of pods, by index."""
    return sorted(pod["metadata"]["name"] for pod in pods)


# ---------------------------------------------------------------- before the start


def test_a_pod_that_no_scheduler_looks_at(lab: Lab) -> None:
    """The scheduler that is asked for is not there: it is named."""
    lab.create(job())
    lab.created(2)
    status = lab.status()
    assert (Phase.PENDING, f"scheduler {NOBODY} to place 2 pods") == (
        status.phase,
        status.waiting_for,
    )


def test_pods_that_fit_nowhere(lab: Lab, make_nodes: MakeNodes) -> None:
    """The scheduler's own message, with its numbers, in plain words."""
    make_nodes(2)
    asks = {"resources": {"limits": {"example.com/device": "8"}}}
    pod = {"containers": [container(**asks)], "tolerations": [kwok.TOLERATION]}
    lab.create(job(pod={**pod, "schedulerName": "default-scheduler"}))
    status = lab.until(
        lambda status: status.waiting_for.startswith("a node for 2 pods"),
        "the scheduler's refusals",
    )
    assert "Unschedulable" == status.reason
    # Nodes of other tests may have reasons of their own, which come first where they are more.
    assert re.fullmatch(
        r"a node for 2 pods: of \d+ nodes, .*\d+ (has|have) too few example.com/device free.*",
        status.waiting_for,
    )


def test_a_claim_that_is_not_there(lab: Lab, make_nodes: MakeNodes) -> None:
    """The claim is named."""
    make_nodes(1)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    lab.create(job(pod={"schedulerName": "default-scheduler", "volumes": volumes}))
    sentence = "claim data for 2 pods: it does not exist"
    status = lab.until(lambda status: status.waiting_for == sentence, "the scheduler's refusals")
    assert "ClaimMissing" == status.reason


def test_a_claim_that_is_not_bound(lab: Lab, make_nodes: MakeNodes) -> None:
    """The claim is named, though the scheduler does not name it."""
    make_nodes(1)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": spec}
    lab.create({**claim, "metadata": {"name": "data"}})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    lab.create(job(pod={"schedulerName": "default-scheduler", "volumes": volumes}))
    # The scheduler looks at one pod after the other, and may not know of the claim at its first
    # look.
    lab.until(
        lambda run: (
            run.reason == "ClaimUnbound" and run.waiting_for.startswith("claim data for 2 pods: ")
        ),
        "the scheduler's refusals",
    )


def test_a_quota_that_is_used_up(lab: Lab) -> None:
    """What is asked, used and missing is counted out, for the pods that are not there."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "compute"}}
    lab.create({**quota, "spec": {"hard": {"requests.nvidia.com/gpu": "12"}}})
    # Before it has been counted, the API server may know of no limit yet.
    path = lab.path("resourcequotas", "compute")
    until(lambda: lab.cluster.api("GET", path)["status"].get("used"), "what is in use")
    asks = {"resources": {"limits": {"nvidia.com/gpu": "8"}}}
    lab.create(job(3, pod={"containers": [container(**asks)]}))
    sentence = (
        "quota compute to have room for 2 pods: requests.nvidia.com/gpu: a pod asks for 8, "
        "and 8 of 12 is in use: 4 short"
    )
    status = lab.until(lambda run: sentence in run.waiting_for, "the quota's refusal")
    assert "QuotaExceeded" == status.reason
    assert (3, 3) == (status.roles[0].expected, status.roles[0].pending)


def test_a_pod_security_level_that_refuses(lab: Lab) -> None:
    """What the pods have that the level forbids is named."""
    lab.create(job(pod={"containers": [container(securityContext={})], "hostNetwork": True}))
    status = lab.until(lambda run: run.reason == "PodSecurity", "the refusal")
    assert status.waiting_for.startswith("a Pod Security level other than restricted for 2 pods: ")
    for field in ("host namespaces", "allowPrivilegeEscalation != false", "runAsNonRoot != true"):
        assert field in status.waiting_for
    assert "(" not in status.waiting_for.partition(": ")[2]


def test_a_service_account_that_is_not_there(lab: Lab) -> None:
    """It is named."""
    lab.create(job(pod={"serviceAccountName": "robot"}))
    status = lab.until(lambda run: run.reason == "FailedCreate", "the refusal")
    assert "ServiceAccount robot for 2 pods: it does not exist" == status.waiting_for


def test_a_stateful_set_that_is_refused(lab: Lab) -> None:
    """Its event has another wrapping around the same sentence."""
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [container()]}}
    template["spec"]["serviceAccountName"] = "robot"
    spec = {
        "replicas": 2,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": LABELS},
        "template": template,
    }
    metadata = {"name": "demo", "labels": LABELS}
    lab.create({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec})
    status = lab.until(lambda run: run.reason == "FailedCreate", "the refusal")
    assert "ServiceAccount robot for 2 pods: it does not exist" == status.waiting_for


# ---------------------------------------------------------------- to the end


def test_a_job_from_start_to_end(lab: Lab) -> None:
    """Pending, running, succeeded, with the Job's own times."""
    began = time.time()
    lab.create(job())
    first, second = pod_names(lab.created(2))
    lab.kubelet(first, "Running", conditions=[{"type": "Ready", "status": "True"}])
    status = lab.status()
    assert (Phase.RUNNING, 1, 1) == (status.phase, status.roles[0].running, status.roles[0].ready)
    end = {"exitCode": 0, "reason": "Completed", "finishedAt": _now()}
    lab.kubelet(first, "Succeeded", terminated=end)
    lab.kubelet(second, "Succeeded", terminated=end)
    status = lab.until(lambda run: run.finished, "the Job's end")
    assert (Phase.SUCCEEDED, "CompletionsReached", 0, 2) == (
        status.phase,
        status.reason,
        status.exit_code,
        status.roles[0].succeeded,
    )
    assert status.started_at is not None
    assert status.finished_at is not None
    assert began - 1 <= status.started_at <= status.finished_at <= time.time() + 1


def test_a_job_whose_pod_fails(lab: Lab) -> None:
    """The end is told while it comes and when it is there, with the pod that failed."""
    lab.create(job())
    first, second = pod_names(lab.created(2))
    lab.kubelet(first, "Running")
    lab.kubelet(second, "Running")
    lab.fail(second, 7)
    status = lab.until(
        lambda run: run.reason == "BackoffLimitExceeded", "the Job's first word of its end"
    )
    assert status.message.startswith("no retry is left (backoffLimit 0)")
    status = lab.until(lambda run: run.finished, "the Job's end")
    assert status.failure is not None
    assert (Phase.FAILED, 7, second, 1, "boom") == (
        status.phase,
        status.exit_code,
        status.failure.pod,
        status.failure.rank,
        status.failure.message,
    )
    observation = observe(lab.client, "demo", lab.namespace)
    assert (second, "trainer", False) == first_failed(observation)


def test_an_exit_code_that_fails_the_job(lab: Lab) -> None:
    """The Job controller's sentence names the container and its code."""
    on = {"containerName": "trainer", "operator": "In", "values": [13]}
    policy = {"rules": [IGNORE, {"action": "FailJob", "onExitCodes": on}]}
    lab.create(job(1, podFailurePolicy=policy, backoffLimit=3))
    (name,) = pod_names(lab.created(1))
    lab.kubelet(name, "Running")
    lab.fail(name, 13)
    status = lab.until(lambda run: run.finished, "the Job's end")
    assert ("PodFailurePolicy", 13) == (status.reason, status.exit_code)
    assert (
        f"container trainer of {name} ended with exit code 13, which fails the job at once"
        == status.message
    )


def test_a_disruption_burns_no_retry(lab: Lab) -> None:
    """An evicted pod is replaced though no retry is left, and is told apart from a failure."""
    lab.create(job(1))
    (name,) = pod_names(lab.created(1))
    lab.kubelet(name, "Running")
    lab.fail(name, 137, conditions=[DISRUPTION])
    newest = lab.created(2)[-1]["metadata"]["name"]
    lab.kubelet(newest, "Running")
    status = lab.status()
    assert (Phase.RUNNING, 1, 1, None) == (
        status.phase,
        status.restarts,
        status.disruptions,
        status.failure,
    )
    assert newest == status.pods[0].name


def test_a_retry_is_a_restart(lab: Lab) -> None:
    """A failed pod waits for its replacement, and then counts."""
    lab.create(job(1, backoffLimit=3))
    (name,) = pod_names(lab.created(1))
    lab.kubelet(name, "Running")
    lab.fail(name, 1)
    status = lab.status()
    if not status.restarts:  # a look that comes late finds the back-off over
        assert (Phase.RESTARTING, "back-off before a new pod") == (status.phase, status.waiting_for)
    lab.created(2)
    status = lab.status()
    assert (1, 0) == (status.restarts, status.disruptions)


def test_a_limit_per_index(lab: Lab) -> None:
    """Each pod is told how often its index has failed; of one given up the last try is blamed."""
    lab.create(
        job(2, backoffLimit=None, backoffLimitPerIndex=1, podFailurePolicy={"rules": [IGNORE]})
    )
    first, second = pod_names(lab.created(2))
    lab.kubelet(first, "Running")
    lab.kubelet(second, "Running")
    lab.fail(first, 5)
    newest = lab.created(3)[-1]["metadata"]["name"]
    status = lab.status()
    assert (newest, 1, 0) == (status.pods[0].name, status.restarts, status.disruptions)
    lab.fail(newest, 6)
    status = lab.until(lambda run: run.roles[0].failed == 1, "the index's end")
    assert not status.finished
    end = {"exitCode": 0, "reason": "Completed", "finishedAt": _now()}
    lab.kubelet(second, "Succeeded", terminated=end)
    status = lab.until(lambda run: run.finished, "the Job's end")
    assert ("FailedIndexes", "1 index failed for good", 6) == (
        status.reason,
        status.message,
        status.exit_code,
    )


def test_a_success_policy(lab: Lab) -> None:
    """The run is over when rank 0 is, and waits for the others to be ended."""
    lab.create(job(2, successPolicy={"rules": [{"succeededIndexes": "0"}]}))
    first, second = pod_names(lab.created(2))
    lab.kubelet(second, "Running")
    lab.kubelet(first, "Succeeded", terminated={"exitCode": 0, "reason": "x", "finishedAt": _now()})
    status = lab.until(lambda run: run.reason == "SuccessPolicy", "the policy's word")
    assert "the success policy is met" in status.message


def test_suspend_and_resume(lab: Lab) -> None:
    """A suspended Job says so; its pods' end is no failure and no restart."""
    lab.create(job())
    for name in pod_names(lab.created(2)):
        lab.kubelet(name, "Running")
    path = lab.path("jobs", "demo", "/apis/batch/v1")
    lab.cluster.api("PATCH", path, {"spec": {"suspend": True}})
    status = lab.status()
    assert (Phase.SUSPENDED, "the job is suspended") == (status.phase, status.message)
    until(
        lambda: all(pod["metadata"].get("deletionTimestamp") for pod in lab.pods()),
        "the pods' deletion",
    )
    for pod in lab.pods():
        lab.fail(pod["metadata"]["name"], 143)
    lab.until(lambda run: not run.waiting_for, "the pods' end")
    lab.cluster.api("PATCH", path, {"spec": {"suspend": False}})
    lab.until(lambda run: run.waiting_for.startswith(f"scheduler {NOBODY}"), "the new pods")
    status = lab.status()
    assert (Phase.PENDING, 0, 0, None) == (
        status.phase,
        status.restarts,
        status.disruptions,
        status.failure,
    )


def test_a_deadline(lab: Lab) -> None:
    """The Job ends its pods, and its reason is the time."""
    lab.create(job(1, activeDeadlineSeconds=1))
    status = lab.until(lambda run: run.reason == "DeadlineExceeded", "the deadline")
    assert status.message.startswith("the job ran longer than 1 s")


def test_a_job_that_was_removed_after_its_end(lab: Lab) -> None:
    """Of a release whose Job is gone, its last event tells how it ended."""
    labels = {"owner": "helm", "name": "demo", "status": "deployed", "version": "1"}
    record = {"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1"}
    lab.create({**record, "metadata": {"name": "sh.helm.release.v1.demo.v1", "labels": labels}})
    lab.create(job(1, ttlSecondsAfterFinished=0))
    (name,) = pod_names(lab.created(1))
    lab.kubelet(name, "Succeeded", terminated={"exitCode": 0, "reason": "x", "finishedAt": _now()})
    status = lab.until(lambda run: not run.pods, "the Job's removal")
    assert (Phase.SUCCEEDED, 0, "its Job completed and has been removed") == (
        status.phase,
        status.exit_code,
        status.message,
    )


# ---------------------------------------------------------------- what it costs


@pytest.mark.parametrize("size", [1, 40])
def test_a_status_costs_the_same_whatever_the_size(lab: Lab, size: int) -> None:
    """Three lists where all runs; one more where something is to be explained."""
    lab.create(job(size))
    pods = lab.created(size)
    before = _requests(lab)
    lab.status()
    assert 4 == until(lambda: _requests(lab) - before, "the audit log")
    for pod in pods:
        lab.kubelet(pod["metadata"]["name"], "Running")
    before = _requests(lab)
    lab.status()
    assert 3 == until(lambda: _requests(lab) - before, "the audit log")


def _requests(lab: Lab) -> int:
    """How many requests our own client has made about the namespace."""
    return lab.cluster.requests(agent="OpenAPI-Generator", namespace=lab.namespace)
