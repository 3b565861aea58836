"""The master's pod: ours, and one that the job brings."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.elastic import pods
from tests.unit.elastic.podsamples import environment, job, template

IMAGE = "registry/allranks-operator:1"
OWN = {"allranks.dev/master": "own"}


def master(
    pod_template: dict[str, Any] | None = None, attempt: int = 0, **fields: Any
) -> dict[str, Any]:
    """A master's pod; its template is given as `said`."""
    specs: dict[str, Any] = {"worker": {"template": template()}}
    if pod_template is not None:
        specs["dlrover-master"] = {"replicas": 1, "template": pod_template}
    return pods.master(job(specs=specs, **fields), attempt, IMAGE)


def test_our_master_runs_where_nothing_is_said() -> None:
    """Its image is the operator's to say, its rights are those of an account of its own."""
    pod = master(attempt=2)
    (main,) = pod["spec"]["containers"]
    assert "elasticjob-jar-dlrover-master-2" == pod["metadata"]["name"]
    assert (IMAGE, ["allranks-master"]) == (main["image"], main["command"])
    assert ("allranks-master", True, "Never") == (
        pod["spec"]["serviceAccountName"],
        pod["spec"]["automountServiceAccountToken"],
        pod["spec"]["restartPolicy"],
    )
    assert {
        "ALLRANKS_NAMESPACE": "lab",
        "ALLRANKS_JOB": "jar",
        "ALLRANKS_MASTER_PORT": "50001",
    }.items() <= environment(pod).items()
    assert {"cpu", "memory"} == main["resources"]["requests"].keys()


def test_our_master_is_under_restricted_pod_security() -> None:
    """Whatever the namespace enforces, it may run there."""
    pod = master()
    assert {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}} == (
        pod["spec"]["securityContext"]
    )
    assert {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
    } == pod["spec"]["containers"][0]["securityContext"]


def test_a_master_has_all_labels_of_a_pod_and_its_own_role() -> None:
    """A DLRover master lists its own pod among the job's."""
    labels = master(attempt=1)["metadata"]["labels"]
    assert {
        "elasticjob.dlrover/name": "jar",
        "elasticjob.dlrover/replica-type": "dlrover-master",
        "elasticjob.dlrover/replica-index": "1",
        "elasticjob.dlrover/rank-index": "0",
        "app": "dlrover",
        "allranks.dev/role": "master",
    }.items() <= labels.items()
    assert "elasticjob.dlrover/relaunch-count" in labels


def test_a_chart_says_how_our_master_runs() -> None:
    """Its template's image, account, options and amounts go before our defaults."""
    options = [{"name": "ALLRANKS_MASTER_OPTIONS", "value": "{}"}]
    pod_template = {
        "spec": {
            "serviceAccountName": "demo-master",
            "containers": [
                {
                    "name": "master",
                    "image": "mine:2",
                    "env": options,
                    "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                }
            ],
        }
    }
    pod = master(pod_template, annotations=OWN)
    (main,) = pod["spec"]["containers"]
    assert ("mine:2", "demo-master") == (main["image"], pod["spec"]["serviceAccountName"])
    assert ["allranks-master"] == main["command"]
    assert {"cpu": "1", "memory": "1Gi"} == main["resources"]["requests"]
    assert "{}" == environment(pod)["ALLRANKS_MASTER_OPTIONS"]


@pytest.mark.parametrize(
    "pod_template",
    [{"spec": {"serviceAccountName": "demo-master"}}, {"spec": {"containers": [{}]}}],
)
def test_a_template_need_not_name_an_image(pod_template: dict[str, Any]) -> None:
    """Then it is the operator's."""
    (main,) = master(pod_template, annotations=OWN)["spec"]["containers"]
    assert (IMAGE, "main") == (main["image"], main["name"])


def test_a_given_master_runs_as_its_template_says() -> None:
    """Only its addresses and the job's variables are put beside it."""
    command = ["/bin/bash", "-c", "python -m dlrover.python.master.main --platform k8s"]
    pod_template = template(
        {"command": command, "image": "dlrover:0.6"}, serviceAccountName="dlrover"
    )
    envs = {"A": {"name": "A", "value": "b"}}
    pod = master(pod_template, envs=envs)
    (main,) = pod["spec"]["containers"]
    assert (command, "dlrover:0.6") == (main["command"], main["image"])
    assert "status.podIP" == environment(pod)["POD_IP"]["fieldRef"]["fieldPath"]
    assert "b" == environment(pod)["A"]
    assert "ALLRANKS_JOB" not in environment(pod)
    assert ("dlrover", "Never") == (
        pod["spec"]["serviceAccountName"],
        pod["spec"]["restartPolicy"],
    )


def test_a_given_master_without_a_command_gets_dlrovers() -> None:
    """Told to write plans; annotations of the job are its options, whatever is in them."""
    options = {"pending_timeout": "900", "pre_check_ops": "a b; c $(X)", "unknown": "1"}
    pod_template = {"spec": {"containers": [{"name": "main", "image": "dlrover"}]}}
    (main,) = master(pod_template, annotations=options)["spec"]["containers"]
    script = (
        "python -m dlrover.python.master.main --platform k8s --namespace lab --job_name jar "
        "--port 50001 --pending_timeout 900 --pre_check_ops 'a b; c $$(X)'"
    )
    assert ["/bin/bash", "-c", script] == main["command"]
    assert {"cpu": "1", "memory": "2Gi"} == main["resources"]["requests"]


def test_containers_beside_the_master_stay() -> None:
    """In their places."""
    pod_template = {
        "spec": {"containers": [{"name": "log", "image": "l"}, {"name": "main", "image": "m"}]}
    }
    containers = master(pod_template)["spec"]["containers"]
    assert [("log", "l"), ("main", "m")] == [
        (container["name"], container["image"]) for container in containers
    ]


WHERE = {
    "schedulerName": "second",
    "priorityClassName": "high",
    "nodeSelector": {"pool": "a"},
    "tolerations": [{"operator": "Exists"}],
    "imagePullSecrets": [{"name": "registry"}],
}


def test_a_master_without_a_template_may_run_where_the_workers_may() -> None:
    """On nodes that they tolerate and choose, but beside none of them: it comes first."""
    near = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    affinity = {"nodeAffinity": near, "podAffinity": {"x": []}}
    worker = template(**WHERE, affinity=affinity, runtimeClassName="nvidia", hostNetwork=True)
    spec = pods.master(job(specs={"worker": {"template": worker}}), 0, IMAGE)["spec"]
    assert {**WHERE, "affinity": {"nodeAffinity": near}} == {
        key: spec[key] for key in (*WHERE, "affinity")
    }
    assert not {"runtimeClassName", "hostNetwork"} & set(spec)
    assert IMAGE == spec["containers"][0]["image"]


def test_a_masters_template_alone_says_where_it_runs() -> None:
    """What the workers tolerate is not added to it."""
    specs = {"worker": {"template": template(**WHERE)}, "dlrover-master": {"template": template()}}
    spec = pods.master(job(specs=specs), 0, IMAGE)["spec"]
    assert not set(WHERE) & set(spec)


@pytest.mark.attack
def test_an_account_of_a_jobs_own_is_bound_to_that_job() -> None:
    """By name where Kubernetes has names for it; it goes with the job, and the history stays."""
    own = pods.account(job())
    name = "elasticjob-jar-dlrover-master-uid-jar"
    objects = (own.account, own.role, own.binding)
    assert {name} == {manifest["metadata"]["name"] for manifest in objects}
    assert {"uid-jar"} == {
        manifest["metadata"]["ownerReferences"][0]["uid"] for manifest in objects
    }
    assert "ownerReferences" not in own.history["metadata"]
    resource_names = {
        resource: rule["resourceNames"]
        for rule in own.role["rules"]
        for resource in rule["resources"]
        if "resourceNames" in rule
    }
    assert {"elasticjobs": ["jar"], "configmaps": ["jar-history"]} == resource_names
    role = own.binding["roleRef"]
    assert ("Role", name) == (role["kind"], role["name"])
    assert [{"kind": "ServiceAccount", "name": name, "namespace": "lab"}] == own.binding["subjects"]
    assert "configmaps" not in str(own.role_without_history)


@pytest.mark.attack
@pytest.mark.parametrize(
    ("labels", "is_history"),
    [
        ({"elasticjob.dlrover/name": "jar", "app.kubernetes.io/part-of": "allranks"}, True),
        ({"app.kubernetes.io/instance": "jar", "app.kubernetes.io/part-of": "allranks"}, True),
        ({"app.kubernetes.io/instance": "other", "app.kubernetes.io/part-of": "allranks"}, False),
        ({"app.kubernetes.io/instance": "jar"}, False),
        (None, False),
    ],
)
def test_whose_a_history_is(labels: dict[str, str] | None, *, is_history: bool) -> None:
    """Who creates a job chooses its name, and so which ConfigMap its history would be."""
    assert is_history == pods.is_history_of({"metadata": {"labels": labels}}, "jar")
