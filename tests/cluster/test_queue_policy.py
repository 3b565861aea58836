"""A queue's rules, as a real API server holds everybody to them: both ways, with the message.

Objects are written as kubectl would send them, mostly without a label of ours. It is long because
all rules are of one policy, which a control plane takes once.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.service.queues import chart_rules
from allranks.values import check
from allranks.values.merge import merge
from allranks.values.queue import from_file
from allranks.values.sources import defaults
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all
from tests.kube.api import ApiError
from tests.waiting import until

from .program import program
from .queueing import (
    CHART,
    GPU,
    KINDS,
    Team,
    container,
    install,
    job,
    manifest,
    pod_spec,
    refusal,
    replicated,
    team,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

pytestmark = [pytest.mark.attack, pytest.mark.timeout(600), pytest.mark.xdist_group("queue-policy")]

_CONFLICT = 409
_TORCHRUN = {"labels": {names.WORKLOAD: "torchrun"}}
_POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_OPERATOR = "system:serviceaccount:allranks:allranks-watcher"


def _rules(**rules: Any) -> dict[str, Any]:
    return {"policy": {"enabled": True}, "rules": rules}


@pytest.fixture(scope="module")
def sized(elastic_cluster: Cluster, helm4: Any) -> Iterator[Team]:
    """A namespace whose queue allows 16 GPUs on 4 nodes, for each job."""
    yield from _queue(elastic_cluster, helm4, _rules(maxGpusPerJob=16, maxNodesPerJob=4), _big())


@pytest.fixture(scope="module")
def timed(elastic_cluster: Cluster, helm4: Any) -> Iterator[Team]:
    """One whose jobs end within an hour."""
    late = manifest("jobs", job(1, pod_spec(1), activeDeadlineSeconds=3601))
    yield from _queue(elastic_cluster, helm4, _rules(maxDurationSeconds=3600), late)


@pytest.fixture(scope="module")
def listed(elastic_cluster: Cluster, helm4: Any) -> Iterator[Team]:
    """One with lists of images, priority classes and workloads."""
    for name in ("queue-low", "queue-high"):
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 7}
        try:
            elastic_cluster.api(
                "POST",
                "/apis/scheduling.k8s.io/v1/priorityclasses",
                {**body, "metadata": {"name": name}},
            )
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
    rules = _rules(
        images=["pytorch/pytorch", "r.example", "s.example:5000/team", "t.example/*/train:2.*"],
        priorityClasses=["queue-low"],
        workloads=["torchrun", "mpi"],
    )
    other = manifest("jobs", job(1, pod_spec(containers=[container(image="other/x:1")])))
    yield from _queue(elastic_cluster, helm4, rules, other)


@pytest.fixture(scope="module")
def plain(elastic_cluster: Cluster, helm4: Any) -> Iterator[Team]:
    """One with the defaults alone."""
    host = manifest("pods", pod_spec(hostNetwork=True))
    yield from _queue(elastic_cluster, helm4, _rules(), host)


def _queue(
    cluster: Cluster, helm: Any, values: dict[str, Any], refused: dict[str, Any]
) -> Iterator[Team]:
    """A namespace with a queue that holds, which it does some time after it was made."""
    with team(cluster) as where:
        install(where, helm, values)
        holds(where, refused)
        yield where
        helm.run("uninstall", "h100", "-n", where.namespace, "--kubeconfig", cluster.kubeconfig)


def holds(where: Team, refused: dict[str, Any]) -> None:
    """Wait until the server refuses an object."""
    plural = f"{refused['kind'].lower()}s"
    until(lambda: where.refusal(plural, refused), "the policy")


def _big() -> dict[str, Any]:
    return manifest("jobs", job(3, pod_spec(8)))


def _sidecar(gpus: int) -> dict[str, Any]:
    return container(gpus, name="beside", restartPolicy="Always")


def _elastic(limit: int | None, gpus: int = 8, **replicas: int) -> dict[str, Any]:
    specs = {
        role: {"replicas": count, "template": {"spec": pod_spec(gpus)}}
        for role, count in replicas.items()
    }
    bound = {"resourceLimits": {"gpu": limit}} if limit is not None else {}
    return {"distributionStrategy": "AllreduceStrategy", "replicaSpecs": specs, **bound}


_CRON = {"schedule": "0 0 * * *"}
_GPUS = "gpus: {} GPUs are more than the 16 that queue h100 allows (rules.maxGpusPerJob)"
_NODES = "nodes: {} nodes are more than the 4 that queue h100 allows (rules.maxNodesPerJob)"
_SPLIT = pod_spec(containers=[container(4), container(5, name="other")])
_INIT = pod_spec(2, initContainers=[container(9, name="before")])
_BESIDE = pod_spec(4, initContainers=[_sidecar(5), container(2, name="before")])
_REQUEST = pod_spec(containers=[container(resources={"requests": {GPU: "9"}})])


@pytest.mark.parametrize(
    ("plural", "spec", "expected"),
    [
        ("jobs", job(2, pod_spec(8)), ""),
        ("jobs", job(3, pod_spec(8)), _GPUS.format(24)),
        ("jobs", job(2, pod_spec(8), parallelism=3, completionMode="NonIndexed"), ""),
        ("jobs", job(2, _SPLIT), _GPUS.format(18)),
        ("jobs", job(2, _INIT), _GPUS.format(18)),
        ("jobs", job(2, _BESIDE), _GPUS.format(18)),
        ("jobs", job(1, _BESIDE), ""),
        ("jobs", job(4), ""),
        ("jobs", job(5), _NODES.format(5)),
        ("pods", pod_spec(16), ""),
        ("pods", pod_spec(17), _GPUS.format(17)),
        ("cronjobs", {**_CRON, "jobTemplate": {"spec": job(2, pod_spec(8))}}, ""),
        ("cronjobs", {**_CRON, "jobTemplate": {"spec": job(3, pod_spec(8))}}, _GPUS.format(24)),
        ("statefulsets", replicated(2, pod_spec(8), serviceName="x"), ""),
        ("statefulsets", replicated(3, pod_spec(8), serviceName="x"), _GPUS.format(24)),
        ("deployments", replicated(2, pod_spec(8)), ""),
        ("deployments", replicated(3, pod_spec(8)), _GPUS.format(24)),
        ("replicasets", replicated(3, pod_spec(8)), _GPUS.format(24)),
        (
            "replicationcontrollers",
            {**replicated(3, pod_spec(8)), "selector": {"app": "x"}},
            _GPUS.format(24),
        ),
        ("daemonsets", {**replicated(0, pod_spec(1)), "replicas": None}, "gpus: a DaemonSet has"),
        ("daemonsets", {**replicated(0, pod_spec()), "replicas": None}, ""),
        ("elasticjobs", _elastic(16, worker=2), ""),
        ("elasticjobs", _elastic(24, worker=2), _GPUS.format(24)),
        ("elasticjobs", _elastic(16, worker=2, ps=1), _GPUS.format(24)),
        ("elasticjobs", _elastic(None, worker=1), "elastic.auto.limits.gpu: not set"),
        ("elasticjobs", _elastic(None, gpus=0, worker=5), _NODES.format(5)),
        (
            "pods",
            pod_spec(resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}]),
            "podTemplate.spec.resourceClaims: devices of a claim are not counted",
        ),
    ],
)
def test_the_size_of_a_job(sized: Team, plural: str, spec: dict[str, Any], expected: str) -> None:
    """GPUs are counted over all containers of all pods, whatever makes them."""
    message = sized.refusal(plural, manifest(plural, spec))
    assert expected in message
    assert bool(expected) == bool(message)


def test_a_submit_that_names_no_queue_is_told_the_rule(
    sized: Team, helm4: Any, tmp_path: Path
) -> None:
    """The server's refusal, with the value to change; nothing is left of it, its code neither."""
    allranks = program(sized.cluster, sized.namespace, helm4, tmp_path)
    (tmp_path / "train.py").write_text("print('training')\n", encoding="utf-8")
    flags = ("--nodes", "5", "--image", "my/trainer:1", "--workspace", tmp_path)
    output = allranks("submit", "big", *flags, "--", "python", "train.py", code=2)
    assert f"error: {_NODES.format(5)}" in output
    assert "`allranks queue show h100" in output
    assert [] == allranks.objects_of("big")
    secrets = [item["metadata"]["name"] for item in allranks.items("v1/secrets")]
    assert not any("release.v1.big" in name for name in secrets)
    maps = allranks.items("v1/configmaps")
    assert not any(names.WORKSPACE in (item["metadata"].get("labels") or {}) for item in maps)


def test_a_request_without_a_limit_counts(sized: Team) -> None:
    """An ElasticJob's templates are judged by no API server, so a request alone may stand there."""
    spec = _elastic(8, worker=2)
    spec["replicaSpecs"]["worker"]["template"]["spec"] = _REQUEST
    assert _GPUS.format(18) in sized.refusal("elasticjobs", manifest("elasticjobs", spec))


def test_a_job_does_not_grow_later(sized: Team) -> None:
    """By PATCH it does not grow beyond the rule; neither does a StatefulSet by scale."""
    sized.create("jobs", manifest("jobs", job(2, pod_spec(8), suspend=True), name="grows"))
    path = f"{sized.path('jobs', 'grows')}?dryRun=All"
    grown = {"spec": {"parallelism": 3, "completions": 3}}
    assert _GPUS.format(24) in refusal(sized.cluster.admin, "PATCH", path, grown)
    fewer = {"spec": {"parallelism": 1, "completions": 1}}
    assert "" == refusal(sized.cluster.admin, "PATCH", path, fewer)
    spec = replicated(1, pod_spec(8), serviceName="x")
    sized.create("statefulsets", manifest("statefulsets", spec, name="grows"))
    for count, expected in ((3, "nodes: 3 are more than the 1 there are"), (0, "")):
        scale = {"spec": {"replicas": count}}
        path = f"{sized.path('statefulsets', 'grows', 'scale')}?dryRun=All"
        message = refusal(sized.cluster.admin, "PATCH", path, scale)
        assert expected in message
        assert bool(expected) == bool(message)
    path = f"{sized.path('statefulsets', 'grows')}?dryRun=All"
    assert "" == refusal(sized.cluster.admin, "PATCH", path, {"spec": {"replicas": 2}})
    assert _GPUS.format(24) in refusal(
        sized.cluster.admin, "PATCH", path, {"spec": {"replicas": 3}}
    )


_LONG = (
    "runPolicy.activeDeadlineSeconds: 3601 seconds are more than the 3600 that queue h100 allows "
    "(rules.maxDurationSeconds)"
)
_UNSET = "runPolicy.activeDeadlineSeconds: not set; set it to at most 3600"
_POD = "podTemplate.spec.activeDeadlineSeconds: a pod with GPUs needs one of at most 3600"


def _ending(seconds: int) -> dict[str, Any]:
    spec = _elastic(8, worker=1)
    spec["replicaSpecs"]["worker"]["template"]["spec"]["activeDeadlineSeconds"] = seconds
    return spec


@pytest.mark.parametrize(
    ("plural", "spec", "metadata", "expected"),
    [
        ("jobs", job(1, pod_spec(1)), {}, ""),
        ("jobs", job(1, pod_spec(1), activeDeadlineSeconds=3601), {}, _LONG),
        ("jobs", job(1, pod_spec(1), activeDeadlineSeconds=None), {}, _UNSET),
        ("jobs", job(1, activeDeadlineSeconds=None), {}, ""),
        ("jobs", job(1, activeDeadlineSeconds=None), _TORCHRUN, _UNSET),
        ("jobs", job(1, activeDeadlineSeconds=3660), {"labels": {names.WORKLOAD: "mpi"}}, ""),
        (
            "jobs",
            job(1, activeDeadlineSeconds=3660),
            {"labels": {names.WORKLOAD: "mpi"}, "annotations": {names.LEAD: "true"}},
            "3660 seconds are more than the 3600",
        ),
        ("jobs", job(1, activeDeadlineSeconds=3660), _TORCHRUN, "3660 seconds are more"),
        (
            "cronjobs",
            {**_CRON, "jobTemplate": {"spec": job(1, pod_spec(1), activeDeadlineSeconds=9999)}},
            {},
            "9999 seconds are more than the 3600",
        ),
        ("pods", pod_spec(), {}, ""),
        ("pods", pod_spec(1), {}, _POD),
        ("pods", pod_spec(1, activeDeadlineSeconds=3600), {}, ""),
        ("pods", pod_spec(1, activeDeadlineSeconds=3601), {}, _POD),
        ("elasticjobs", _ending(3600), {}, ""),
        ("elasticjobs", _ending(3601), {}, _POD),
        ("elasticjobs", _elastic(8, worker=1), {}, _POD),
        ("deployments", replicated(1, pod_spec()), {}, ""),
        (
            "deployments",
            replicated(1, pod_spec(1)),
            {},
            "a Deployment with GPUs never ends, and queue h100 allows 3600 seconds",
        ),
        (
            "statefulsets",
            replicated(1, pod_spec(1), serviceName="x"),
            _TORCHRUN,
            "torchrun.controller: a StatefulSet with GPUs never ends",
        ),
    ],
)
def test_how_long_a_job_runs(
    timed: Team, plural: str, spec: dict[str, Any], metadata: dict[str, Any], expected: str
) -> None:
    """What holds GPUs ends in time; what follows a lead has a minute more than it."""
    message = timed.refusal(plural, manifest(plural, spec, **metadata))
    assert expected in message
    assert bool(expected) == bool(message)


_PODS = {"spec": {"activeDeadlineSeconds": 3600}}
_MASTERED: dict[str, Any] = {"elastic": {"mode": "auto"}, "podTemplate": _PODS}
_STATEFUL: dict[str, Any] = {"torchrun": {"controller": "StatefulSet"}, "gpus": 8}
_CLAIM = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
_ENDS: dict[str, Any] = {"runPolicy": {"activeDeadlineSeconds": 3600}}


def _plans(limit: int, most: int = 0) -> dict[str, Any]:
    """An elastic job of two workers with eight GPUs each, and what its plans may make of it."""
    own = {"limits": {"gpu": limit}, "maxWorkers": most}
    return {**_MASTERED, "elastic": {"mode": "auto", "auto": own}, "nodes": 2, "gpusPerNode": 8}


@pytest.mark.parametrize(
    ("workload", "values", "of_sized", "of_timed"),
    [
        ("torchrun", {**_ENDS, "gpus": 16, "nodeShape": {"gpus": 8}}, "", ""),
        ("torchrun", {**_ENDS, "gpus": 24, "nodeShape": {"gpus": 8}}, "gpus", ""),
        ("torchrun", _STATEFUL, "", "torchrun.controller"),
        (
            "torchrun",
            {**_ENDS, "gpus": 8, "podTemplate": {"spec": {"resourceClaims": _CLAIM}}},
            "podTemplate.spec.resourceClaims",
            "",
        ),
        ("elastic", _plans(16), "", ""),
        (
            "elastic",
            {**_plans(16), "podTemplate": {}},
            "",
            "podTemplate.spec.activeDeadlineSeconds",
        ),
        ("elastic", _plans(0), "elastic.auto.limits.gpu", ""),
        ("elastic", _plans(24), "elastic.auto.limits.gpu", ""),
        ("mpi", {**_ENDS, "gpus": 8, "mpi": {"transport": "exec"}}, "", "mpi.transport"),
        ("mpi", {**_ENDS, "gpus": 8}, "", ""),
    ],
)
def test_the_generator_and_the_server_agree(
    *,
    sized: Team,
    timed: Team,
    helm4: Any,
    workload: str,
    values: dict[str, Any],
    of_sized: str,
    of_timed: str,
) -> None:
    """What a person is told before is what the server would say of the rendered job, or nothing."""
    own = {"image": {"repository": "pytorch/pytorch", "tag": "2"}, "command": ["train"]}
    chart = CHART.parent / workload
    rendered = helm4.render(chart, "-n", sized.namespace, values={**own, **values})
    kinds = {kind: plural for plural, kind in KINDS.items()}
    jobs = [item for item in load_all(rendered) if item and item["kind"] in kinds]
    merged = merge(defaults(workload), {"workload": workload, **own, **values})
    for where, rules, expected in (
        (sized, {"maxGpusPerJob": 16, "maxNodesPerJob": 4}, of_sized),
        (timed, {"maxDurationSeconds": 3600}, of_timed),
    ):
        queue = from_file(dump({"name": "h100", "rules": rules}).encode(), "q", chart_rules)
        problems = [
            problem
            for _, broken in check.verdicts(merged, lambda _: "", queue)
            for problem in broken
        ]
        refusals = [where.refusal(kinds[item["kind"]], _of(where, item)) for item in jobs]
        assert [expected] * bool(expected) == [problem.path for problem in problems]
        assert bool(expected) == any(refusals), refusals
        for message in filter(None, [*refusals, *(problem.message for problem in problems)]):
            assert any(f"(rules.{key})" in message for key in rules)


def _of(where: Team, item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "namespace": where.namespace}}


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("pytorch/pytorch", True),
        ("pytorch/pytorch:2.8", True),
        (f"pytorch/pytorch@sha256:{'0' * 64}", True),
        (f"pytorch/pytorch:2@sha256:{'0' * 64}", True),
        ("pytorch/pytorch/nightly:1", True),
        ("pytorch/pytorch-evil:1", False),
        ("pytorch/pytorchx", False),
        ("evil/pytorch/pytorch:1", False),
        ("docker.io/pytorch/pytorch:1", False),
        ("r.example/a/b:1", True),
        ("r.example:5000/a:1", False),
        ("rxexample/a:1", False),
        ("r.example.evil.test/a:1", False),
        (f"evil.test/x@sha256:{'0' * 64}", False),
        ("s.example:5000/team/x:1", True),
        ("s.example:5000/teams/x:1", False),
        ("s.example:5001/team/x:1", False),
        ("t.example/a/b/train:2.8", True),
        ("t.example/a/train:3.0", False),
        ("t.example/train:2.0", False),
    ],
)
def test_images(listed: Team, image: str, allowed: bool) -> None:
    """A name allows what is below it, and nothing that only begins with the same letters."""
    pod = manifest("pods", pod_spec(containers=[container(image=image)]))
    message = listed.refusal("pods", pod)
    assert allowed == (message == "")
    if not allowed:
        assert f"image.repository: {image} is none of the images that queue h100 allows" in message
        assert "(rules.images): pytorch/pytorch, r.example" in message


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_an_image_is_looked_for_in_every_container(listed: Team, where: str) -> None:
    """The second container of a template, and one that runs before."""
    other = container(image="evil.test/x:1", name="other")
    fields: dict[str, Any] = {where: [container(name="fine"), other]}
    spec = pod_spec(**fields)
    spec["containers"] = spec.get("containers") or [container()]
    assert "evil.test/x:1 is none" in listed.refusal("jobs", manifest("jobs", job(1, spec)))


def test_a_container_that_is_added_to_a_pod_is_held(listed: Team, plain: Team) -> None:
    """By `kubectl debug` and by a new image: neither another registry, nor a privileged one."""
    for where in (listed, plain):
        where.create("pods", manifest("pods", pod_spec(), name="debugged"))
    debug = {"name": "debug", "targetContainerName": "trainer"}
    for where, extra, expected in (
        (listed, {"image": "evil.test/x:1"}, "evil.test/x:1 is none of the images"),
        (listed, {"image": "pytorch/pytorch:1"}, ""),
        (
            plain,
            {"image": "a", "securityContext": {"privileged": True}},
            "security.containerSecurityContext: queue h100 allows no container",
        ),
    ):
        path = f"{where.path('pods', 'debugged', 'ephemeralcontainers')}?dryRun=All"
        body = {"spec": {"ephemeralContainers": [{**debug, **extra}]}}
        message = refusal(where.cluster.admin, "PATCH", path, body)
        assert expected in message
        assert bool(expected) == bool(message)
    body = {"spec": {"containers": [{"name": "trainer", "image": "evil.test/x:1"}]}}
    path = f"{listed.path('pods', 'debugged')}?dryRun=All"
    strategic = "application/strategic-merge-patch+json"
    with pytest.raises(ApiError, match=r"evil\.test/x:1 is none of the images"):
        listed.cluster.admin.request("PATCH", path, body, content_type=strategic)


@pytest.mark.parametrize(
    ("labels", "name", "expected"),
    [
        ({}, "", ""),
        ({}, "queue-low", ""),
        ({}, "queue-high", "scheduling.priorityClassName: queue-high is none of the classes"),
        ({"kueue.x-k8s.io/priority-class": "queue-low"}, "", ""),
        ({"kueue.x-k8s.io/priority-class": "top"}, "", "scheduling.priorityClassName: top is"),
        ({"priorityClassName": "train"}, "", "scheduling.priorityClassName: train is none"),
    ],
)
def test_priorities(listed: Team, labels: dict[str, str], name: str, expected: str) -> None:
    """The pods' own, and those that Kueue and KAI read off a label."""
    spec = job(1, pod_spec(priorityClassName=name))
    message = listed.refusal("jobs", manifest("jobs", spec, labels=labels))
    assert expected in message
    assert bool(expected) == bool(message)


@pytest.mark.parametrize(
    ("gpus", "workload", "expected"),
    [
        (0, "", ""),
        (1, "torchrun", ""),
        (0, "mpi", ""),
        (0, "elastic", "workload: elastic is none that queue h100 allows (rules.workloads)"),
        (1, "", "workload: a Job that has no label allranks.dev/workload is none"),
    ],
)
def test_workloads(listed: Team, gpus: int, workload: str, expected: str) -> None:
    """What has GPUs says what it is."""
    labels = {names.WORKLOAD: workload} if workload else {}
    message = listed.refusal("jobs", manifest("jobs", job(1, pod_spec(gpus)), labels=labels))
    assert expected in message
    assert bool(expected) == bool(message)


_HOST_PATH = [{"name": "etc", "hostPath": {"path": "/etc"}}]
_PRIVILEGED = "security.containerSecurityContext: queue h100 allows no container"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"volumes": [{"name": "a", "emptyDir": {}}]}, ""),
        ({"volumes": _HOST_PATH}, "podTemplate.spec.volumes: /etc is a folder of the node"),
        ({"hostNetwork": True}, "network.hostNetwork: queue h100 does not allow"),
        (
            {"containers": [container(ports=[{"containerPort": 9, "hostPort": 9}])]},
            "podTemplate.spec.containers: queue h100 does not allow ports of the node",
        ),
        ({"containers": [container(ports=[{"containerPort": 9}])]}, ""),
        ({"hostPID": True}, "podTemplate.spec: queue h100 does not let pods see"),
        ({"hostIPC": True}, "podTemplate.spec: queue h100 does not let pods see"),
        ({"containers": [container(securityContext={"privileged": True})]}, _PRIVILEGED),
        (
            {"initContainers": [container(name="i", securityContext={"privileged": True})]},
            _PRIVILEGED,
        ),
        (
            {"containers": [container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}})]},
            _PRIVILEGED,
        ),
        (
            {"containers": [container(securityContext={"capabilities": {"add": ["IPC_LOCK"]}})]},
            "",
        ),
    ],
)
@pytest.mark.parametrize("plural", ["pods", "jobs", "deployments"])
def test_the_node_is_out_of_reach(
    plain: Team, plural: str, fields: dict[str, Any], expected: str
) -> None:
    """By default, and whatever makes the pods."""
    spec = pod_spec(**fields)
    specs = {"pods": spec, "jobs": job(1, spec), "deployments": replicated(1, spec)}
    message = plain.refusal(plural, manifest(plural, specs[plural]))
    assert expected in message
    assert bool(expected) == bool(message)


def _is_refused(where: Team, pod: dict[str, Any], expected: bool) -> bool:
    return expected == bool(where.refusal("pods", pod))


def test_what_is_allowed_passes(elastic_cluster: Cluster, helm4: Any) -> None:
    """Each of the three, where the queue says so; the two others still hold."""
    cases: dict[str, dict[str, Any]] = {
        "allowHostPath": {"volumes": _HOST_PATH},
        "allowHostNetwork": {"hostNetwork": True},
        "allowPrivileged": {"hostPID": True},
    }
    with team(elastic_cluster) as where:
        install(where, helm4, _rules(allowHostPath=True))
        holds(where, manifest("pods", pod_spec(hostPID=True)))
        for allowed in cases:
            install(where, helm4, _rules(**{allowed: True}))
            for rule, fields in cases.items():
                pod = manifest("pods", pod_spec(**fields))
                expected = rule != allowed
                until(partial(_is_refused, where, pod, expected), f"{rule} with {allowed}")
        _uninstall(where, helm4)


def _uninstall(where: Team, helm: Any, name: str = "h100") -> None:
    helm.run("uninstall", name, "-n", where.namespace, "--kubeconfig", where.cluster.kubeconfig)


def test_a_changed_queue_stops_nothing_that_runs(elastic_cluster: Cluster, helm4: Any) -> None:
    """Jobs from before are resumed and ended; they do not get worse, and new ones are held."""
    with team(elastic_cluster) as where:
        spec = job(3, pod_spec(8, hostNetwork=True, volumes=_HOST_PATH), suspend=True)
        spec["template"]["spec"]["containers"][0]["image"] = "old/x:1"
        del spec["activeDeadlineSeconds"]
        old = where.create("jobs", manifest("jobs", spec))
        rules = _rules(
            maxGpusPerJob=8,
            maxNodesPerJob=1,
            maxDurationSeconds=60,
            images=["new/x"],
            workloads=["mpi"],
        )
        install(where, helm4, rules)
        holds(where, manifest("jobs", spec, name="y"))
        api = where.cluster.admin
        path = where.path("jobs", "x")
        admitted = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "suspend": False,
                "template": {"spec": {"nodeSelector": {"flavor": "none-such"}}},
            },
        }
        assert "" == refusal(api, "PATCH", path, admitted)
        grown = {"spec": {"parallelism": 4, "completions": 4}}
        assert "gpus: 32 GPUs" in refusal(api, "PATCH", f"{path}?dryRun=All", grown)
        pods = f"/api/v1/namespaces/{where.namespace}/pods?labelSelector=job-name%3Dx"
        until(lambda: len(where.cluster.items(pods)) == 3, "the pods of the older job")
        assert old["metadata"]["uid"] == where.cluster.api("GET", path)["metadata"]["uid"]
        where.cluster.api("DELETE", f"{path}?propagationPolicy=Foreground")
        until(lambda: not where.cluster.items(where.path("jobs")), "the end of the job")
        _uninstall(where, helm4)


def test_an_owner_that_anybody_writes_frees_no_pod(sized: Team) -> None:
    """Who asks is what counts: a person's pod with the reference of a controller is held."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "0-0", "controller": True}
    pod = manifest("pods", pod_spec(17), ownerReferences=[owner])
    assert _GPUS.format(17) in sized.refusal("pods", pod)


def test_an_operators_pods_are_held_with_their_job(elastic_cluster: Cluster, helm4: Any) -> None:
    """Those of the account that policy.controllers names, and of no other."""
    owner = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "name": "x",
        "uid": "0-0",
        "controller": True,
    }
    pod = manifest("pods", pod_spec(17), ownerReferences=[owner])
    with team(elastic_cluster) as where:
        values = _rules(maxGpusPerJob=8)
        account = f"system:serviceaccount:{where.namespace}:default"
        install(where, helm4, values)
        holds(where, pod)
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "operator"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [
                {"kind": "ServiceAccount", "name": "default", "namespace": where.namespace}
            ],
        }
        elastic_cluster.api(
            "POST",
            f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where.namespace}/rolebindings",
            binding,
        )
        api = account_api(where, "default")
        until(lambda: "gpus: 17" in where.refusal("pods", pod, api=api), "the account's rights")
        values["policy"]["controllers"] = [account]
        install(where, helm4, values)
        until(lambda: not where.refusal("pods", pod, api=api), "the account's own pods")
        assert "gpus: 17" in where.refusal("pods", pod)
        alone = manifest("pods", pod_spec(17))
        assert "gpus: 17" in where.refusal("pods", alone, api=api)
        _uninstall(where, helm4)


def account_api(where: Team, account: str) -> Any:
    """The API server, as an account of the namespace."""
    path = f"/api/v1/namespaces/{where.namespace}/serviceaccounts/{account}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    token = where.cluster.api("POST", path, body)["status"]["token"]
    admin = where.cluster.admin
    return replace(admin, token=token)


def test_two_queues_of_a_namespace(elastic_cluster: Cluster, helm4: Any) -> None:
    """The one for all holds what bears no label or an unknown one; the other what bears its own."""
    with team(elastic_cluster) as where:
        first = _rules(maxGpusPerJob=8)
        first["policy"] |= {"otherQueues": ["a100"]}
        second = _rules(maxGpusPerJob=16)
        second["policy"] |= {"forAll": False}
        install(where, helm4, first)
        install(where, helm4, second, name="a100")
        cases = (
            (None, 8, ""),
            (None, 9, "queue h100 allows"),
            ("h100", 9, "queue h100 allows"),
            ("none-such", 9, "queue h100 allows"),
            ("a100", 16, ""),
            ("a100", 17, "queue a100 allows"),
        )
        holds(where, _labelled("a100", 17))
        holds(where, _labelled(None, 9))
        for label, gpus, expected in cases:
            message = where.refusal("pods", _labelled(label, gpus))
            assert expected in message
            assert bool(expected) == bool(message)
        for name in ("h100", "a100"):
            _uninstall(where, helm4, name)


def _labelled(queue: str | None, gpus: int) -> dict[str, Any]:
    labels = {names.QUEUE: queue} if queue else {}
    return manifest("pods", pod_spec(gpus), labels=labels)


@pytest.mark.usefixtures("sized")
def test_other_namespaces_are_free(elastic_cluster: Cluster) -> None:
    """A queue's rules end with its namespace."""
    with team(elastic_cluster) as other:
        assert "" == other.refusal("jobs", _big())


def test_the_largest_job_is_judged(elastic_cluster: Cluster, helm4: Any) -> None:
    """With every rule at its longest, and fifty containers: the budget suffices."""
    image = f"{'r' * 60}.example/{'a' * 100}/"
    rules = _rules(
        maxGpusPerJob=1000,
        maxNodesPerJob=100,
        maxDurationSeconds=3600,
        images=[f"{image}{index}" for index in range(64)],
        priorityClasses=[f"class-{index}" for index in range(64)],
        workloads=["torchrun"],
    )
    env = [{"name": f"V{index}", "value": "x" * 100} for index in range(100)]
    containers = [
        container(1, image=f"{image}63:{index}", name=f"c{index}", env=env) for index in range(50)
    ]
    spec = job(10, pod_spec(containers=containers))
    with team(elastic_cluster) as where:
        install(where, helm4, rules)
        fine = manifest("jobs", spec, **_TORCHRUN)
        bad = copy.deepcopy(fine)
        bad["spec"]["template"]["spec"]["containers"][49]["image"] = "evil.test/x"
        holds(where, bad)
        assert "image.repository: evil.test/x is none" in where.refusal("jobs", bad)
        assert "" == where.refusal("jobs", fine)
        _uninstall(where, helm4)


_OWN = "of the queues of namespace"


def test_what_a_queue_is_made_of_is_not_the_team_s(elastic_cluster: Cluster, helm4: Any) -> None:
    """Members have rights on the kinds, as runs need them; the queue's own objects are for others.

    Who may update Roles changes and removes them, members go on with those of their runs, and the
    namespace can end.
    """
    values = _rules() | {
        "team": {"serviceAccounts": ["default"]},
        "networkPolicy": {"enabled": True},
    }
    with team(elastic_cluster) as where:
        install(where, helm4, values)
        core = f"/api/v1/namespaces/{where.namespace}"
        network = f"/apis/networking.k8s.io/v1/namespaces/{where.namespace}/networkpolicies"
        member = account_api(where, "default")
        queue_map = f"{core}/configmaps/allranks-queue-h100"
        (record,) = where.cluster.items(f"{core}/secrets?labelSelector=owner%3Dhelm,name%3Dh100")
        secret = f"{core}/secrets/{record['metadata']['name']}"
        patch = {"metadata": {"labels": {"x": "y"}}}

        def refused(method: str, path: str, body: Any = None, api: Any = member) -> str:
            return refusal(api, method, f"{path}{'&' if '?' in path else '?'}dryRun=All", body)

        until(lambda: _OWN in refused("DELETE", queue_map), "the policy")
        forged = {"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1"}
        own_map = {"apiVersion": "v1", "kind": "ConfigMap"}
        calls = [
            ("DELETE", secret, None),
            ("PATCH", queue_map, patch),
            ("PATCH", secret, patch),
            ("DELETE", f"{network}/allranks-queue-h100", None),
            ("POST", f"{core}/configmaps", own_map | {"metadata": {"name": "allranks-queue-x"}}),
            (
                "POST",
                f"{core}/secrets",
                forged | {"metadata": {"name": "x", "labels": {"owner": "helm", "name": "h100"}}},
            ),
            (
                "POST",
                f"{core}/secrets",
                forged | {"metadata": {"name": "sh.helm.release.v1.h100.v9"}},
            ),
        ]
        for method, path, body in calls:
            message = refused(method, path, body)
            assert _OWN in message, (method, path)
            assert "ask a cluster administrator" in message
            assert "" == refused(method, path, body, where.cluster.admin), (method, path)
        fine = [
            ("POST", f"{core}/configmaps", own_map | {"metadata": {"name": "demo"}}),
            (
                "POST",
                f"{core}/secrets",
                forged | {"metadata": {"name": "sh.helm.release.v1.demo.v1"}},
            ),
        ]
        for method, path, body in fine:
            assert "" == refused(method, path, body)
        # Who removes what is in a namespace that ends; its rights are Kubernetes' own.
        system, account = replace(where, namespace="kube-system"), "namespace-controller"
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
        path = "/api/v1/namespaces/kube-system/serviceaccounts"
        assert refusal(where.cluster.admin, "POST", path, body)[:3] in ("", str(_CONFLICT))
        controller = account_api(system, account)
        assert "" == refused("DELETE", queue_map, None, controller)
        _uninstall(where, helm4)


def test_no_expression_is_doubted(sized: Team, timed: Team, listed: Team) -> None:
    """The server's own check of types has nothing to say about any policy of ours."""
    policies = [(where, "jobs") for where in (sized, timed, listed)] + [(sized, "own")]
    for where, part in policies:
        name = f"allranks-queue-{where.namespace}-h100-{part}"

        def checked(where: Team = where, name: str = name) -> dict[str, Any]:
            status = where.cluster.api("GET", f"{_POLICIES}/{name}").get("status", {})
            return status if status.get("observedGeneration") else {}

        status = until(checked, "the server's check of types")
        assert [] == status.get("typeChecking", {}).get("expressionWarnings", [])
