"""Manifests to a plan, and what is refused."""

from __future__ import annotations

import base64
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.errors import InputError
from allranks.local import preflight
from allranks.local.host.addresses import Block
from allranks.local.plan.expand import expand, parse_indexes
from allranks.local.plan.model import (
    ContainerKind,
    FailureRule,
    JobPlan,
    Restart,
    SetPlan,
    SuccessRule,
)

if TYPE_CHECKING:
    from conftest import Manifests

    from allranks.local.plan.model import ReleasePlan


_KEYS = st.sampled_from(["name", "value", "valueFrom", "rules", "spec", "containers", "emptyDir"])
_TEMPLATE = ("spec", "template", "spec")
_PLACES = [
    ("spec",),
    ("spec", "completions"),
    ("spec", "parallelism"),
    ("spec", "backoffLimit"),
    ("spec", "podFailurePolicy"),
    ("spec", "successPolicy"),
    ("spec", "template"),
    _TEMPLATE,
    *((*_TEMPLATE, key) for key in ("restartPolicy", "containers", "initContainers", "volumes")),
    *(
        (*_TEMPLATE, "containers", 0, key)
        for key in ("command", "args", "env", "envFrom", "volumeMounts", "resources")
    ),
]
_JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_KEYS, inner, max_size=2),
    max_leaves=5,
)


def _expand(*documents: dict[str, Any]) -> ReleasePlan:
    return expand(documents, name="train", namespace="lab")


def _only_job(*documents: dict[str, Any]) -> JobPlan:
    (job,) = _expand(*documents).controllers
    assert isinstance(job, JobPlan)
    return job


def test_indexed_job_pods_are_completed(manifests: Manifests) -> None:
    """Pods get the name, labels, annotation and variable that the Job controller gives them."""
    job = _only_job(manifests.job("train", 2, labels={"allranks.dev/role": "worker"}))
    pod = job.pods[1]
    metadata = pod.manifest["metadata"]
    index = "batch.kubernetes.io/job-completion-index"
    assert ("train-1", 1, 1, "worker") == (pod.name, pod.index, pod.rank, pod.role)
    assert ("train-1", "train") == (pod.hostname, pod.subdomain)
    assert metadata["labels"][index] == "1"
    assert metadata["labels"]["batch.kubernetes.io/job-name"] == "train"
    assert metadata["labels"]["job-name"] == "train"
    assert metadata["annotations"][index] == "1"
    assert pod.containers[0].manifest["env"] == [
        {
            "name": "JOB_COMPLETION_INDEX",
            "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{index}']"}},
        }
    ]


def test_own_completion_index_variable_stays(manifests: Manifests) -> None:
    """A container that sets JOB_COMPLETION_INDEX itself keeps its value."""
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "x"}]
    pod = {"containers": [manifests.container(env=own)]}
    assert own == _only_job(manifests.job(pod=pod)).pods[0].containers[0].manifest["env"]


def test_job_policies_are_read(manifests: Manifests) -> None:
    """Every field that decides a Job's life reaches the plan."""
    job = _only_job(
        manifests.job(
            backoffLimit=5,
            activeDeadlineSeconds=60,
            ttlSecondsAfterFinished=7,
            suspend=True,
            maxFailedIndexes=2,
            backoffLimitPerIndex=1,
            podFailurePolicy={
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": "trainer",
                            "operator": "In",
                            "values": [13, 14],
                        },
                    },
                ]
            },
            successPolicy={"rules": [{"succeededIndexes": "0,2-3", "succeededCount": 2}]},
        )
    )
    assert (5, 60.0, 7.0, True) == (job.backoff_limit, job.deadline, job.ttl, job.suspend)
    assert (2, 1) == (job.max_failed_indexes, job.backoff_limit_per_index)
    assert job.failure_rules == (
        FailureRule("Ignore"),
        FailureRule("FailJob", "In", frozenset({13, 14}), "trainer"),
    )
    assert job.success_rules == (SuccessRule(frozenset({0, 2, 3}), 2),)


def test_job_defaults_are_the_api_servers(manifests: Manifests) -> None:
    """What is left out is what the API server would fill in."""
    document = manifests.job()
    for field in ("completions", "parallelism", "completionMode"):
        del document["spec"][field]
    job = _only_job(document)
    assert (1, 1, 6) == (len(job.pods), job.parallelism, job.backoff_limit)
    assert "env" not in job.pods[0].containers[0].manifest


def test_a_kueue_job_does_not_wait_for_a_queue(manifests: Manifests) -> None:
    """Kueue's jobs are created suspended; there is no Kueue here to let them go."""
    queued = manifests.job(suspend=True, job_labels={"kueue.x-k8s.io/queue-name": "q"})
    assert not _only_job(queued).suspend


def test_containers_keep_order_and_kind(manifests: Manifests) -> None:
    """Init containers come first, sidecars among them, each with its restart policy."""
    pod = {
        "restartPolicy": "OnFailure",
        "initContainers": [
            manifests.container("fetch"),
            manifests.container("proxy", restartPolicy="Always"),
        ],
        "containers": [manifests.container("trainer"), manifests.container("logger")],
    }
    containers = _only_job(manifests.job(pod=pod)).pods[0].containers
    assert [
        ("fetch", ContainerKind.INIT, Restart.ON_FAILURE),
        ("proxy", ContainerKind.SIDECAR, Restart.ALWAYS),
        ("trainer", ContainerKind.MAIN, Restart.ON_FAILURE),
        ("logger", ContainerKind.MAIN, Restart.ON_FAILURE),
    ] == [(container.name, container.kind, container.restart) for container in containers]


def test_stateful_set_pods_are_completed(manifests: Manifests) -> None:
    """Ordinals, labels, the Service and the claims are the StatefulSet controller's."""
    document = manifests.stateful_set(
        ordinals={"start": 3},
        podManagementPolicy="Parallel",
        volumeClaimTemplates=[{"metadata": {"name": "scratch"}}],
    )
    (plan,) = _expand(document).controllers
    assert isinstance(plan, SetPlan)
    pod = plan.pods[1]
    assert ("train-4", 4, "train") == (pod.name, pod.index, pod.subdomain)
    assert pod.labels["apps.kubernetes.io/pod-index"] == "4"
    assert pod.labels["statefulset.kubernetes.io/pod-name"] == "train-4"
    claim = {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch-train-4"}}
    assert [claim] == pod.spec["volumes"]
    assert Restart.ALWAYS is pod.containers[0].restart
    assert not plan.ordered


def test_configmaps_and_secrets_are_bytes(manifests: Manifests) -> None:
    """base64 is decoded, line breaks in it and all, and stringData wins over data."""
    encoded = base64.encodebytes(b"x" * 60 + b"\xff").decode()
    release = _expand(
        manifests.job(),
        manifests.data("ConfigMap", "c", data={"a": "text"}, binaryData={"b": encoded}),
        manifests.data("Secret", "s", data={"k": encoded, "j": "eA=="}, stringData={"j": "own"}),
    )
    assert {"a": b"text", "b": b"x" * 60 + b"\xff"} == release.configmaps["c"]
    assert {"k": b"x" * 60 + b"\xff", "j": b"own"} == release.secrets["s"]


def test_claims_know_whether_they_are_kept(manifests: Manifests) -> None:
    """Helm's resource policy decides which claims outlive the release, and whose the data is."""
    claim = manifests.data("PersistentVolumeClaim", "ckpt")
    claim["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    share = manifests.data("PersistentVolumeClaim", "share")
    share["spec"] = {"volumeName": "default.demo-share"}
    work = manifests.data("PersistentVolumeClaim", "work")
    release = _expand(manifests.job(), claim, share, work)
    assert [("ckpt", True), ("share", True), ("work", False)] == [
        (claim.name, claim.keep) for claim in release.claims
    ]


def test_lists_are_opened_and_hooks_and_rbac_passed_over(manifests: Manifests) -> None:
    """What means nothing on one machine is no reason to refuse."""
    hook = manifests.job("check")
    hook["metadata"]["annotations"] = {"helm.sh/hook": "test"}
    wrapped = {"kind": "List", "items": [manifests.job("train")]}
    role = manifests.data("Role", "r")
    release = _expand(wrapped, hook, role, {})
    assert ["train-0", "train-1"] == [pod.name for pod in release.pods]


def test_everything_that_cannot_run_is_named_at_once(manifests: Manifests) -> None:
    """Each document that would have to run and cannot is in the refusal."""
    no_command = manifests.job("bad", pod={"containers": [{"name": "main"}]})
    with pytest.raises(InputError) as excinfo:
        _expand(manifests.data("Deployment", "web"), manifests.data("PyTorchJob", "p"), no_command)
    paths = [problem.path for problem in excinfo.value.problems]
    assert ["Deployment/web", "PyTorchJob/p", "Job/bad"] == paths
    assert "entrypoint" in str(excinfo.value)
    assert "Job, StatefulSet, Pod and ElasticJob" in str(excinfo.value)


def test_manifests_that_need_the_post_renderer_are_refused(manifests: Manifests) -> None:
    """The chart's own mark says that what was asked is not in these manifests."""
    mark = manifests.data("PostRendererRequired", "train")
    with pytest.raises(InputError, match="not post-rendered"):
        _expand(manifests.job(), mark)


def test_nothing_to_run_is_refused(manifests: Manifests) -> None:
    """A stream without a pod is a mistake, not a run that succeeds at once."""
    with pytest.raises(InputError, match="nothing to run"):
        _expand(manifests.service())


def test_a_work_queue_is_refused(manifests: Manifests) -> None:
    """Parallelism without completions needs an answer that pods here cannot give."""
    document = manifests.job()
    del document["spec"]["completions"]
    with pytest.raises(InputError, match="work queue"):
        _expand(document)


def test_bad_base64_is_refused(manifests: Manifests) -> None:
    """A Secret whose data is plain text is refused with the field that would take it."""
    with pytest.raises(InputError, match="stringData"):
        _expand(manifests.job(), manifests.data("Secret", "s", data={"k": "plain text"}))


@settings(max_examples=200)
@given(path=st.sampled_from(_PLACES), junk=_JUNK)
def test_a_manifest_of_the_wrong_shape_is_refused_in_words(
    path: tuple[str | int, ...], junk: object
) -> None:
    """Whatever stands where something else belongs, the answer is a plan or a refusal."""
    container = {"name": "t", "command": ["true"]}
    template = {"spec": {"containers": [container]}}
    document = {"kind": "Job", "metadata": {"name": "t"}, "spec": {"template": template}}
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = junk
    with contextlib.suppress(InputError):
        release = _expand(document)
        preflight.check_pods(release, Block(0, 1), Path("/"))


@pytest.mark.parametrize(
    ("text", "indexes"), [("0", {0}), ("1,3", {1, 3}), ("0,2-4", {0, 2, 3, 4}), ("7-7", {7})]
)
def test_index_lists(text: str, indexes: set[int]) -> None:
    """Index lists are read as the Job controller reads them."""
    assert indexes == parse_indexes(text)


def test_a_bad_index_list_is_refused() -> None:
    """Anything else is named."""
    with pytest.raises(InputError, match="not a list of indexes"):
        parse_indexes("0-x")


def test_all_jobs_must_have_a_ttl_for_the_run_to_have_one(manifests: Manifests) -> None:
    """A run is forgotten when the last of its Jobs would be."""
    both = _expand(
        manifests.job("a", ttlSecondsAfterFinished=5), manifests.job("b", ttlSecondsAfterFinished=9)
    )
    first = _expand(manifests.job("a", ttlSecondsAfterFinished=5), manifests.job("b"))
    assert (9.0, None) == (both.ttl, first.ttl)


def test_ranks_of_a_role_count_on(manifests: Manifests) -> None:
    """The last worker, a Job of its own, has the rank after the others'; a launcher counts anew."""
    jobs = [
        manifests.job("j-worker-last", 1, labels={names.ROLE: "worker"}),
        manifests.job("j-launcher", 1, labels={names.ROLE: "launcher"}),
        manifests.job("j-worker", 2, labels={names.ROLE: "worker"}),
        manifests.job("j-own", 1, labels={names.ROLE: "worker", names.RANK: "7"}),
    ]
    release = expand(jobs, name="j", namespace="lab")
    assert {
        "j-launcher-0": 0,
        "j-own-0": 7,
        "j-worker-0": 1,
        "j-worker-1": 2,
        "j-worker-last-0": 3,
    } == {pod.name: pod.rank for pod in release.pods}
    assert release.launcher is not None
    assert "j-launcher" == release.launcher.name


def test_controllers_that_lead(manifests: Manifests) -> None:
    """An annotation says whose end is the run's; without one, an MPI job's launcher is that."""
    ps, chief = manifests.job("j-ps", 1), manifests.job("j-chief", 1)
    chief["metadata"]["annotations"] = {names.LEAD: "true"}
    release = expand([ps, chief], name="j", namespace="lab")
    assert ["j-chief"] == [lead.name for lead in release.leads]
    assert () == expand([ps], name="j", namespace="lab").leads
    launcher = manifests.job("j-launcher", 1, labels={names.ROLE: "launcher"})
    assert ["j-launcher"] == [
        lead.name for lead in expand([ps, launcher], name="j", namespace="lab").leads
    ]
