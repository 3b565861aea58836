"""The launcher's Job and the workers' Job or StatefulSet: tries, ends, and what is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Render

LAUNCHER, WORKER = "Job/demo-launcher", "Job/demo-worker"
DISRUPTED = {
    "action": "Ignore",
    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
}


def by_codes(action: str, *codes: int) -> dict[str, Any]:
    """A rule about exit codes of the trainer."""
    return {
        "action": action,
        "onExitCodes": {"containerName": "trainer", "operator": "In", "values": list(codes)},
    }


def test_launcher_is_told_its_tries(render: Render) -> None:
    """The retries are the index's, so that Kubernetes writes on each pod how many are spent."""
    job = render(runPolicy={"backoffLimit": 2})[LAUNCHER]["spec"]
    assert {
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
        "backoffLimitPerIndex": 2,
        "podReplacementPolicy": "Failed",
        "suspend": False,
    }.items() <= job.items()
    assert "backoffLimit" not in job
    assert job["template"]["spec"]["restartPolicy"] == "Never"


def test_launcher_ends_the_job(render: Render) -> None:
    """Disruptions and a lost worker cost no retry; a fatal code fails at once."""
    manifests = render(runPolicy={"fatalExitCodes": [42, 3]})
    rules = manifests[LAUNCHER]["spec"]["podFailurePolicy"]["rules"]
    assert [DISRUPTED, by_codes("Ignore", 214), by_codes("FailJob", 3, 42)] == rules


def test_workers_have_their_own_tries(render: Render) -> None:
    """A worker that crashes is replaced so often; a drained one is replaced for nothing.

    Fatal codes are the command's, and no command runs in a worker's own container.
    """
    job = render(nodes=2, runPolicy={"backoffLimit": 2, "fatalExitCodes": [42]})[WORKER]["spec"]
    assert {
        "completionMode": "Indexed",
        "completions": 2,
        "parallelism": 2,
        "backoffLimitPerIndex": 2,
        "maxFailedIndexes": 0,
        "podReplacementPolicy": "Failed",
    }.items() <= job.items()
    assert "backoffLimit" not in job
    assert [DISRUPTED] == job["podFailurePolicy"]["rules"]
    assert "successPolicy" not in job


@pytest.mark.parametrize(
    ("policy", "ttl", "worker", "launcher"),
    [
        ("Running", 0, None, None),
        ("Running", 60, 60, 60),
        ("None", 60, 60, 60),
        ("All", 0, 0, None),
        ("All", 60, 0, 60),
    ],
)
def test_clean_pod_policy(
    policy: str, ttl: int, worker: int | None, launcher: int | None, render: Render
) -> None:
    """All removes the finished workers at once, and never the launcher, whose log is the job's."""
    manifests = render(mpi={"cleanPodPolicy": policy}, runPolicy={"ttlSecondsAfterFinished": ttl})
    assert worker == manifests[WORKER]["spec"].get("ttlSecondsAfterFinished")
    assert launcher == manifests[LAUNCHER]["spec"].get("ttlSecondsAfterFinished")


def test_deadline_is_the_launchers(render: Render) -> None:
    """The launcher's deadline decides; the workers' comes later, so that they end as well."""
    manifests = render(runPolicy={"activeDeadlineSeconds": 3600})
    assert 3600 == manifests[LAUNCHER]["spec"]["activeDeadlineSeconds"]
    assert 3660 == manifests[WORKER]["spec"]["activeDeadlineSeconds"]
    plain = render()
    assert "activeDeadlineSeconds" not in plain[LAUNCHER]["spec"]
    assert "activeDeadlineSeconds" not in plain[WORKER]["spec"]


@pytest.mark.parametrize(
    ("kind", "field", "stopped"), [("Job", "suspend", True), ("StatefulSet", "replicas", 0)]
)
def test_suspended(kind: str, field: str, stopped: object, render: Render) -> None:
    """Neither the launcher nor a worker of any group runs."""
    manifests = render(
        gpus=12, gpusPerNode=8, runPolicy={"suspend": True}, mpi={"controller": kind}
    )
    assert manifests[LAUNCHER]["spec"]["suspend"] is True
    for part in ("worker", "worker-last"):
        assert stopped == manifests[f"{kind}/demo-{part}"]["spec"][field]


@pytest.mark.parametrize(
    ("own", "kind"),
    [
        ({}, "Job"),
        ({"transport": "exec"}, "StatefulSet"),
        ({"controller": "StatefulSet"}, "StatefulSet"),
        ({"controller": "Job"}, "Job"),
    ],
)
def test_controller_of_the_workers(own: dict[str, Any], kind: str, render: Render) -> None:
    """Job with ssh; with exec a StatefulSet, whose pods have names that are known before."""
    manifests = render(nodes=2, mpi=own)
    (workers,) = (
        manifest for manifest in manifests.values() if manifest["metadata"]["name"] == "demo-worker"
    )
    assert kind == workers["kind"]
    env = {
        variable["name"]: variable.get("value")
        for variable in manifests[LAUNCHER]["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert kind == env["ALLRANKS_MPI_CONTROLLER"]


def test_statefulset(render: Render) -> None:
    """All workers start together, under the Service that names them."""
    manifests = render(nodes=3, mpi={"controller": "StatefulSet"})
    spec = manifests["StatefulSet/demo-worker"]["spec"]
    assert {"replicas": 3, "serviceName": "demo", "podManagementPolicy": "Parallel"}.items() <= (
        spec.items()
    )
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "volumeClaimTemplates" not in spec
