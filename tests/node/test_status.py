"""What a real kubelet writes, and what becomes of it in a status: one small Job per misfortune."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from allranks.cluster.client import KubeCluster
from allranks.cluster.observe import observe
from allranks.model.status import Phase
from allranks.status.reduce import first_failed, reduce
from tests.kube import image_recipe
from tests.kube.errors import BenchError

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.model.status import RunStatus

    from .conftest import Lab

NAME = "demo"
LABELS = {
    "app.kubernetes.io/instance": NAME,
    "app.kubernetes.io/part-of": "allranks",
    "allranks.dev/role": "node",
    "allranks.dev/workload": "torchrun",
}


def container(script: str = "true", **fields: Any) -> dict[str, Any]:
    """A container that runs a line of shell, as Pod Security "restricted" wants it."""
    return {
        "name": "trainer",
        "image": image_recipe.TRAINER,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/sh", "-c", script],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        **fields,
    }


def job(*containers: dict[str, Any], pod: dict[str, Any] | None = None, **spec: Any) -> Any:
    """An Indexed Job of one pod that is not tried again."""
    template = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": list(containers),
        **(pod or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": NAME, "labels": LABELS},
        "spec": {
            "completionMode": "Indexed",
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": LABELS}, "spec": template},
            **spec,
        },
    }


def start(lab: Lab, manifest: Any, kind: str = "batch/v1/jobs") -> None:
    """Create the controller."""
    lab.cluster.api("POST", lab.path(kind), manifest)


def status(lab: Lab, check: Callable[[RunStatus], object], expectation: str) -> RunStatus:
    """The first status of which something is true."""
    client = KubeCluster(str(lab.cluster.kubeconfig))
    last: list[RunStatus] = []

    def look() -> RunStatus | None:
        last[:] = [reduce(observe(client, NAME, lab.namespace))]
        return last[0] if check(last[0]) else None

    run_status: RunStatus = until(look, lambda: f"{expectation}; last {last[0].as_dict()}")
    return run_status


def secret_env(name: str, key: str) -> list[dict[str, Any]]:
    """A variable from a Secret."""
    return [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]


# The first process of a container takes no signals that it has no handler for, and a kubelet makes
# one dollar of two.
DIE = "sh -c 'kill -{} $$$$'; exit $?"
QUIET = {"terminationMessagePolicy": "File"}
MOUNT = {"volumeMounts": [{"name": "conf", "mountPath": "/conf"}]}
VOLUME = {"volumes": [{"name": "conf", "configMap": {"name": "nothing"}}]}


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        (
            job(container(image="localhost/allranks/none:1")),
            "image localhost/allranks/none:1 for its pod: ",
        ),
        (
            job(container(image="localhost/allranks/none:1", imagePullPolicy="Never")),
            "image localhost/allranks/none:1 for its pod: the node does not have it",
        ),
        (job(container(image="No:Image:Name")), "image No:Image:Name for its pod: this is no"),
        (
            job(container(env=secret_env("nothing", "key"))),
            "Secret nothing for its pod: it does not exist",
        ),
        (
            job(container(env=secret_env("there", "nokey"))),
            "key nokey of Secret there for its pod: there is no such key",
        ),
        (
            job(container(**MOUNT), pod=VOLUME),
            "ConfigMap nothing for its pod: it does not exist",
        ),
        (
            job(container(), pod={"initContainers": [container("sleep 600", name="fetch")]}),
            "init container fetch of its pod",
        ),
    ],
)
def test_a_pod_that_does_not_start_says_why(lab: Lab, manifest: Any, sentence: str) -> None:
    """The kubelet's reason, sentence or event, in plain words."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "there"}}
    lab.cluster.api("POST", lab.path("secrets"), {**secret, "stringData": {"key": "x"}})
    start(lab, manifest)
    run_status = status(lab, lambda run: run.waiting_for.startswith(sentence), sentence)
    assert Phase.PENDING == run_status.phase


@pytest.mark.parametrize(
    ("manifest", "code", "reason", "message"),
    [
        (container("echo boom; exit 7"), 7, "Error", "boom"),
        (container(DIE.format(11), **QUIET), 139, "Error", "it crashed (SIGSEGV)"),
        (container(DIE.format(15), **QUIET), 143, "Error", "it was told to stop (SIGTERM)"),
        (container("nothing-here"), 127, "Error", "nothing-here"),
        (container(command=["/nothing"]), 128, "StartError", "/nothing"),
    ],
)
def test_a_container_that_fails_says_how(
    lab: Lab, manifest: dict[str, Any], code: int, reason: str, message: str
) -> None:
    """Exit code, reason and message as a real runtime writes them."""
    start(lab, job(manifest))
    run_status = status(lab, lambda run: run.finished, "the Job's end")
    assert run_status.failure is not None
    assert (Phase.FAILED, "BackoffLimitExceeded", code, reason) == (
        run_status.phase,
        run_status.reason,
        run_status.exit_code,
        run_status.failure.reason,
    )
    assert message in run_status.failure.message


def test_a_pods_own_deadline(lab: Lab) -> None:
    """The kubelet ends the pod and says why."""
    start(lab, job(container("sleep 600"), pod={"activeDeadlineSeconds": 1}))
    run_status = status(lab, lambda run: run.finished, "the Job's end")
    assert run_status.failure is not None
    assert "DeadlineExceeded" == run_status.failure.reason


def test_an_evicted_pod_is_a_disruption(lab: Lab) -> None:
    """It is replaced though no retry is left, and tells no failure."""
    ignore = {"action": "Ignore"}
    rule = {**ignore, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    spec = {"podFailurePolicy": {"rules": [rule]}, "podReplacementPolicy": "Failed"}
    start(lab, job(container("sleep 600"), **spec))
    status(lab, lambda run: run.roles[0].ready, "the pod's start")
    first = lab.pod(NAME)["metadata"]["name"]
    lab.evict(first)

    def replaced(run: RunStatus) -> bool:
        return run.pods[0].name not in {first, f"{NAME}-0"} and run.phase is Phase.RUNNING

    run_status = status(lab, replaced, "the pod's replacement")
    assert run_status.failure is None
    assert run_status.restarts == run_status.disruptions


def test_a_stateful_set_that_fails_once_and_then_ends_well(lab: Lab) -> None:
    """Its failure is told with the log behind the restart; its good end is the run's."""
    script = "if [ -e /run/state/done ]; then sleep 600; fi; if [ -e /run/state/tried ]; then "
    script += (
        "until [ -e /run/state/seen ]; do sleep 0.1; done; touch /run/state/done; exit 0; fi; "
    )
    script += "touch /run/state/tried; echo broken; exit 5"
    mount = {"volumeMounts": [{"name": "state", "mountPath": "/run/state"}]}
    volumes = {"volumes": [{"name": "state", "emptyDir": {}}], "restartPolicy": "Always"}
    template = job(container(script, **mount), pod=volumes)["spec"]["template"]
    spec = {
        "replicas": 1,
        "serviceName": NAME,
        "selector": {"matchLabels": LABELS},
        "template": template,
    }
    metadata = {"name": NAME, "labels": LABELS}
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    start(lab, manifest, "apps/v1/statefulsets")
    run_status = status(lab, lambda run: run.failure, "the first failure")
    assert run_status.failure is not None
    assert (5, "broken") == (run_status.failure.exit_code, run_status.failure.message)
    observation = observe(KubeCluster(str(lab.cluster.kubeconfig)), NAME, lab.namespace)
    assert (f"{NAME}-0", "trainer") == (first_failed(observation) or ())[:2]

    def has_started_again() -> bool:
        with suppress(BenchError):  # between two starts nothing runs in the pod
            lab.inside(f"{NAME}-0", "touch", "/run/state/seen")
            return True
        return False

    until(has_started_again, "the second start")
    run_status = status(lab, lambda run: run.finished, "the good end")
    assert (Phase.SUCCEEDED, "RanksDone", 0, 1) == (
        run_status.phase,
        run_status.reason,
        run_status.exit_code,
        run_status.restarts,
    )
