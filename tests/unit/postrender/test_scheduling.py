"""The scheduling pass: the exact keys of each dialect, on each kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, process

POD_SPEC = {"containers": [{"name": "trainer", "image": "x"}]}


def job(name: str = "train", pods: int = 4, **extra: Any) -> dict[str, Any]:
    """An Indexed Job of a foreign chart."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "lab", "labels": {"app": name}},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": {"metadata": {"labels": {"app": name}}, "spec": dict(POD_SPEC)},
            **extra,
        },
    }


def apps(kind: str, replicas: int | None = 3) -> dict[str, Any]:
    """A Deployment, StatefulSet, ReplicaSet or DaemonSet."""
    spec: dict[str, Any] = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": dict(POD_SPEC)},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}


def pod() -> dict[str, Any]:
    """A bare Pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": dict(POD_SPEC)}


def cronjob() -> dict[str, Any]:
    """A CronJob whose Jobs have two pods."""
    inner = job(pods=2)["spec"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": inner}},
    }


def jobset(**extra: Any) -> dict[str, Any]:
    """A JobSet of one leader and two workers of three pods."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set"},
        "spec": {
            "replicatedJobs": [
                {"name": "leader", "template": {"spec": job(pods=1)["spec"]}},
                {"name": "worker", "replicas": 2, "template": {"spec": job(pods=3)["spec"]}},
            ],
            **extra,
        },
    }


def ours(manifest: dict[str, Any], **requests: Any) -> dict[str, Any]:
    """A manifest that asks by annotation, as a chart of ours does."""
    annotations = {f"allranks.dev/{key}": json.dumps(value) for key, value in requests.items()}
    manifest["metadata"].setdefault("annotations", {}).update(annotations)
    return manifest


def render(*manifests: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The objects that come out; a second run must change nothing."""
    text = yaml.safe_dump_all(manifests, explicit_start=True, sort_keys=False)
    once = process(text, PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    return list(yaml.safe_load_all(once))


def template(manifest: dict[str, Any]) -> dict[str, Any]:
    """The pod template of a plain workload."""
    return dict(manifest["spec"]["template"])


# --- Kueue -------------------------------------------------------------------------------------


def test_kueue_job_waits_suspended_in_its_queue() -> None:
    """Queue and priority are labels of the Job, which starts suspended whatever it says."""
    (out,) = render(job(suspend=False), dialect="kueue", queue="research", priority_class="high")

    assert {
        "app": "train",
        "kueue.x-k8s.io/queue-name": "research",
        "kueue.x-k8s.io/priority-class": "high",
    } == out["metadata"]["labels"]
    assert out["spec"]["suspend"] is True
    assert "annotations" not in out["metadata"]
    assert {"labels": {"app": "train"}} == template(out)["metadata"]


@pytest.mark.parametrize(
    ("mode", "key"),
    [
        ("required", "kueue.x-k8s.io/podset-required-topology"),
        ("preferred", "kueue.x-k8s.io/podset-preferred-topology"),
    ],
)
def test_kueue_topology_is_asked_on_the_pods(mode: str, key: str) -> None:
    """The annotation names the node label of the level; no affinity is written beside it."""
    (out,) = render(job(), dialect="kueue", queue="q", topology_mode=mode, topology_level="block")

    assert {key: "topology.kubernetes.io/block"} == template(out)["metadata"]["annotations"]
    assert "affinity" not in template(out)["spec"]


def test_kueue_may_admit_fewer_pods_of_an_elastic_job() -> None:
    """The gang of an elastic job is its smallest size; completions follow the parallelism."""
    scheduling = {"dialect": "kueue", "queue": "q", "gang": {"minMember": 2}}
    (out,) = render(ours(job(pods=4), scheduling=scheduling))

    annotations = out["metadata"]["annotations"]
    assert "2" == annotations["kueue.x-k8s.io/job-min-parallelism"]
    assert "true" == annotations["kueue.x-k8s.io/job-completions-equal-parallelism"]


def test_kueue_keeps_the_completions_of_pods_without_index() -> None:
    """Kueue refuses a Job that asks it to change both and whose pods have no index."""
    manifest = job(pods=4, completionMode="NonIndexed")
    (out,) = render(manifest, dialect="kueue", queue="q", gang_min=2)

    assert {"kueue.x-k8s.io/job-min-parallelism": "2"} == out["metadata"]["annotations"]


def test_kueue_whole_gang_needs_no_annotation() -> None:
    """Admission is all or nothing by itself."""
    scheduling = {"dialect": "kueue", "queue": "q", "gang": {"minMember": 4}}
    (out,) = render(ours(job(pods=4), scheduling=scheduling))

    assert ["allranks.dev/scheduling"] == list(out["metadata"]["annotations"])


def test_kueue_on_other_kinds() -> None:
    """The label goes where Kueue looks for it; only Jobs and JobSets know suspend."""
    sets = [apps("Deployment"), apps("StatefulSet"), pod(), cronjob(), jobset(), apps("ReplicaSet")]
    deployment, stateful, single, cron, group, replicas = render(*sets, dialect="kueue", queue="q")
    label = {"kueue.x-k8s.io/queue-name": "q"}

    for manifest in (deployment, stateful, single, group):
        assert label == manifest["metadata"]["labels"]
    assert "suspend" not in deployment["spec"]
    assert "suspend" not in single["spec"]
    assert group["spec"]["suspend"] is True
    assert label == cron["spec"]["jobTemplate"]["metadata"]["labels"]
    assert cron["spec"]["jobTemplate"]["spec"]["suspend"] is True
    assert "suspend" not in cron["spec"]
    assert {"app": "web", **label} == template(replicas)["metadata"]["labels"]
    assert "labels" not in replicas["metadata"]


def test_kueue_without_a_queue_is_refused() -> None:
    """The job would start at once, past every quota."""
    with pytest.raises(InputError, match="Kueue needs a queue") as excinfo:
        render(job(), dialect="kueue")

    assert "--queue" in excinfo.value.problem.hint


# --- KAI ---------------------------------------------------------------------------------------


def test_kai_job_is_a_gang_of_all_its_pods() -> None:
    """Queue labels on owner and pods, the gang on the Job, and KAI's scheduler."""
    (out,) = render(job(pods=4), dialect="kai", queue="research", priority_class="train")

    labels = {"app": "train", "kai.scheduler/queue": "research", "priorityClassName": "train"}
    assert labels == out["metadata"]["labels"]
    assert labels == template(out)["metadata"]["labels"]
    assert {"kai.scheduler/batch-min-member": "4"} == out["metadata"]["annotations"]
    assert "kai-scheduler" == template(out)["spec"]["schedulerName"]


def test_kai_topology_needs_the_name_of_its_topology() -> None:
    """KAI reads levels from a named object: from the option, or an annotation of the chart's."""
    topology = {"topology_mode": "required", "topology_level": "rack"}
    with pytest.raises(InputError, match="none is named"):
        render(job(), dialect="kai", **topology)

    expected = {
        "kai.scheduler/batch-min-member": "4",
        "kai.scheduler/topology": "dc",
        "kai.scheduler/topology-required-placement": "topology.kubernetes.io/rack",
    }
    (by_option,) = render(job(), dialect="kai", topology_name="dc", **topology)
    annotated = job()
    annotated["metadata"]["annotations"] = {"kai.scheduler/topology": "dc"}
    (by_annotation,) = render(annotated, dialect="kai", **topology)
    assert expected == by_option["metadata"]["annotations"]
    assert expected == by_annotation["metadata"]["annotations"]


def test_kai_jobset_is_one_gang() -> None:
    """All pods of all its jobs, with the start-up policy that every KAI release takes so."""
    (out,) = render(jobset(), dialect="kai", queue="q")

    assert {"kai.scheduler/batch-min-member": "7"} == out["metadata"]["annotations"]
    assert {"startupPolicyOrder": "AnyOrder"} == out["spec"]["startupPolicy"]


def test_kai_jobs_that_wait_for_others_are_no_gang() -> None:
    """A gang of a job and of one that it waits for would never start."""
    manifest = jobset()
    manifest["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "leader", "status": "Ready"}]
    (out,) = render(manifest, dialect="kai", queue="q")

    assert "annotations" not in out["metadata"]
    assert "startupPolicy" not in out["spec"]


def test_kai_keeps_a_scheduler_that_was_chosen() -> None:
    """KAI may run under another name."""
    manifest = job()
    manifest["spec"]["template"]["spec"] = {**POD_SPEC, "schedulerName": "kai-two"}
    (out,) = render(manifest, dialect="kai")

    assert "kai-two" == template(out)["spec"]["schedulerName"]


def test_kai_cronjob_asks_on_the_jobs_it_makes() -> None:
    """The gang is each Job's; the queue is known on every level."""
    (out,) = render(cronjob(), dialect="kai", queue="q")
    job_template = out["spec"]["jobTemplate"]

    assert {"kai.scheduler/batch-min-member": "2"} == job_template["metadata"]["annotations"]
    for metadata in (
        out["metadata"],
        job_template["metadata"],
        job_template["spec"]["template"]["metadata"],
    ):
        assert "q" == metadata["labels"]["kai.scheduler/queue"]


# --- Volcano -----------------------------------------------------------------------------------


def test_volcano_adds_a_pod_group_in_front_of_the_job() -> None:
    """It has the Job's name, namespace and labels, and the pods name it."""
    group, out = render(
        job(pods=4), dialect="volcano", queue="research", priority_class="high",
        topology_mode="required", topology_level="rack",
    )  # fmt: skip

    assert {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "lab", "labels": {"app": "train"}},
        "spec": {
            "minMember": 4,
            "queue": "research",
            "priorityClassName": "high",
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        },
    } == group
    assert {"scheduling.k8s.io/group-name": "train"} == template(out)["metadata"]["annotations"]
    assert "volcano" == template(out)["spec"]["schedulerName"]
    assert "high" == template(out)["spec"]["priorityClassName"]
    assert "affinity" not in template(out)["spec"]


def test_volcano_topology_needs_a_tier_it_can_tell() -> None:
    """A level without a known tier needs the tier itself, unless it is only a preference."""
    topology = {"topology_mode": "required", "topology_key": "example.com/pod"}
    with pytest.raises(InputError, match="tiers of HyperNodes"):
        render(job(), dialect="volcano", **topology)

    group, _ = render(job(), dialect="volcano", topology_tier=3, **topology)
    assert {"mode": "hard", "highestTierAllowed": 3} == group["spec"]["networkTopology"]
    group, _ = render(
        job(), dialect="volcano", topology_mode="preferred", topology_key="example.com/pod"
    )
    assert {"mode": "soft"} == group["spec"]["networkTopology"]


def test_volcano_makes_the_group_itself_where_names_are_made_at_run_time() -> None:
    """A CronJob's Jobs ask by annotation; a PodGroup of one name would be shared by all runs."""
    (out,) = render(cronjob(), dialect="volcano", queue="q")
    job_template = out["spec"]["jobTemplate"]

    expected = {
        "scheduling.volcano.sh/group-min-member": "2",
        "scheduling.volcano.sh/queue-name": "q",
    }
    assert expected == job_template["metadata"]["annotations"]
    assert {"scheduling.volcano.sh/queue-name": "q"} == job_template["spec"]["template"][
        "metadata"
    ]["annotations"]


def test_volcano_pods_of_a_deployment_are_no_gang() -> None:
    """They are of use one by one: a queue and the scheduler, no PodGroup."""
    (out,) = render(apps("Deployment"), dialect="volcano", queue="q", gang_min=2)

    annotations = {"scheduling.volcano.sh/queue-name": "q"}
    assert annotations == template(out)["metadata"]["annotations"]


def test_a_pod_group_that_is_there_is_kept() -> None:
    """A chart's own PodGroup of that name is explicit: none is added beside it."""
    own = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train", "namespace": "lab"},
        "spec": {"minMember": 2},
    }
    out = render(job(), own, dialect="volcano")

    assert ["Job", "PodGroup"] == [manifest["kind"] for manifest in out]
    assert own == out[1]


# --- coscheduling and none ---------------------------------------------------------------------


def test_coscheduling_gang() -> None:
    """A PodGroup with the time-out asked for, named by a label of the pods."""
    scheduling = {"dialect": "coscheduling", "gang": {"minMember": 3, "timeoutSeconds": 90}}
    group, out = render(ours(job(pods=4), scheduling=scheduling))

    assert "scheduling.x-k8s.io/v1alpha1" == group["apiVersion"]
    assert {"minMember": 3, "scheduleTimeoutSeconds": 90} == group["spec"]
    assert {"name": "train", "namespace": "lab", "labels": {"app": "train"}} == group["metadata"]
    labels = {"app": "train", "scheduling.x-k8s.io/pod-group": "train"}
    assert labels == template(out)["metadata"]["labels"]
    assert "schedulerName" not in template(out)["spec"]


def test_coscheduling_under_another_scheduler_name() -> None:
    """The plugin often runs in a second scheduler."""
    _, out = render(job(), dialect="coscheduling", scheduler_name="gang")

    assert "gang" == template(out)["spec"]["schedulerName"]


def test_none_writes_the_priority_where_it_is_absent() -> None:
    """Kubernetes' own scheduler reads it from the pods."""
    explicit = apps("Deployment")
    explicit["spec"]["template"]["spec"] = {**POD_SPEC, "priorityClassName": "low"}
    out, other = render(job(), explicit, priority_class="high")

    assert "high" == template(out)["spec"]["priorityClassName"]
    assert "low" == template(other)["spec"]["priorityClassName"]


# --- all dialects ------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["none", "coscheduling"])
def test_a_queue_without_queues_is_refused(dialect: str) -> None:
    """The queue would be forgotten without a word."""
    with pytest.raises(InputError, match="has no queues"):
        render(job(), dialect=dialect, queue="research")


@pytest.mark.parametrize("dialect", ["kueue", "kai", "volcano", "coscheduling"])
def test_a_gang_larger_than_the_workload_is_refused(dialect: str) -> None:
    """It would wait for ever."""
    queue = "" if dialect == "coscheduling" else "q"
    with pytest.raises(InputError, match="only 4 are made"):
        render(job(pods=4), dialect=dialect, queue=queue, gang_min=5)


@pytest.mark.parametrize("dialect", ["kueue", "kai", "volcano", "coscheduling"])
def test_daemon_sets_are_left_alone(dialect: str) -> None:
    """One pod on each node is placed already."""
    queue = "" if dialect == "coscheduling" else "q"
    manifest = apps("DaemonSet", None)

    assert [manifest] == render(manifest, dialect=dialect, queue=queue, topology_mode="required")


def test_options_win_over_annotations() -> None:
    """As --set wins over a values file."""
    scheduling = {"dialect": "volcano", "queue": "slow", "gang": {"minMember": 2}}
    (out,) = render(ours(job(), scheduling=scheduling), dialect="kueue", queue="fast")

    assert "fast" == out["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]


@pytest.mark.parametrize(
    "broken",
    [
        "{",
        "[]",
        '{"dialect": "slurm"}',
        '{"dialect": 1}',
        '{"dialect": "volcano", "gang": [1]}',
        '{"dialect": "volcano", "gang": {"minMember": "4"}}',
        '{"dialect": "volcano", "gang": {"minMember": -1}}',
        '{"dialect": "volcano", "topology": {"mode": "near"}}',
    ],
)
def test_an_annotation_that_is_not_ours_is_refused(broken: str) -> None:
    """A broken request names the object and its line; it is never half done."""
    manifest = job()
    manifest["metadata"]["annotations"] = {"allranks.dev/scheduling": broken}

    with pytest.raises(InputError) as excinfo:
        render(manifest)

    assert 'stdin:1, Job "train"' == excinfo.value.problem.source
    assert "metadata.annotations.allranks.dev/scheduling" == excinfo.value.problem.path


@pytest.mark.parametrize("queue", ["a b", "-a", "a/b", "ä", "x" * 64])
def test_a_queue_that_cannot_be_a_label_is_refused(queue: str) -> None:
    """The API server would refuse the object, after others were made."""
    with pytest.raises(InputError, match="cannot be one"):
        render(job(), dialect="kueue", queue=queue)
