from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.service.queues import chart_rules
from allranks.values import check, queue
from allranks.values.merge import merge
from allranks.values.rules.queue import image_allowed
from allranks.values.sources import defaults
from allranks.yamlio.dump import dump

SPEC = ("podTemplate", "spec")
HOST_PATH = [{"name": "d", "hostPath": {"path": "/"}}]


def nested(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A mapping with one value."""
    for key in reversed(path):
        value = {key: value}
    return dict(value)


def problems(
    rules: dict[str, Any], values: dict[str, Any], workload: str = "torchrun"
) -> list[tuple[str, str]]:
    """The paths and sentences of what a queue's rules find."""
    own = queue.from_file(dump({"name": "q", "rules": rules}).encode(), "q.yaml", chart_rules)
    merged = merge(defaults(workload), {"workload": workload, **values})
    return [
        (problem.path, problem.message)
        for _, broken in check.verdicts(merged, lambda _: "", own)
        for problem in broken
    ]


def test_each_rule_has_its_own_verdict() -> None:
    """A job above two limits breaks both, and each rule of the queue has a verdict."""
    own = queue.from_file(
        dump({"name": "q", "rules": {"maxGpusPerJob": 8, "maxGpusInAll": 16}}).encode(),
        "q.yaml",
        chart_rules,
    )
    job = merge(defaults("torchrun"), {"workload": "torchrun", "gpus": 24})
    verdicts = check.verdicts(job, lambda _: "", own)
    assert sorted(own.rules.as_dict()) == sorted(
        rule.id.removeprefix("queue-") for rule, _ in verdicts
    )
    assert ["queue-maxGpusPerJob", "queue-maxGpusInAll"] == [
        rule.id for rule, broken in verdicts if broken
    ]


def test_a_job_without_a_time_limit_is_told_what_the_queue_allows() -> None:
    """In words of time, and not of a number that is not there."""
    ((_, message),) = problems({"maxDurationSeconds": 3600}, {"gpus": 1})
    expected = "a job without a time limit may run longer than the 3600 seconds that queue q allows"
    assert expected in message


# The rule, values that keep to it, values that do not, and the path that is named.
CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    ({"maxGpusPerJob": 16}, {"gpus": 16}, {"gpus": 17}, "gpus"),
    (
        {"maxGpusPerJob": 16},
        {"nodes": 2, "gpusPerNode": 8},
        {"nodes": 3, "gpusPerNode": 8},
        "gpusPerNode",
    ),
    ({"maxGpusInAll": 8}, {"gpus": 8}, {"gpus": 9}, "gpus"),
    ({"maxNodesPerJob": 2}, {"nodes": 2}, {"nodes": 3}, "nodes"),
    (
        {"maxNodesPerJob": 3},
        {"nodes": 2, "torchrun": {"spares": 1}},
        {"nodes": 2, "torchrun": {"spares": 2}},
        "nodes",
    ),
    (
        {"maxGpusPerJob": 24},
        {"nodes": 2, "gpusPerNode": 8, "torchrun": {"spares": 1}},
        {"nodes": 2, "gpusPerNode": 8, "torchrun": {"spares": 2}},
        "gpusPerNode",
    ),
    (
        {"maxNodesPerJob": 2},
        {"gpus": 16, "nodeShape": {"gpus": 8}},
        {"gpus": 24, "nodeShape": {"gpus": 8}},
        "gpus",
    ),
    (
        {"maxDurationSeconds": 60},
        {"runPolicy": {"activeDeadlineSeconds": 60}},
        {"runPolicy": {"activeDeadlineSeconds": 61}},
        "runPolicy.activeDeadlineSeconds",
    ),
    (
        {"maxDurationSeconds": 60},
        {"runPolicy": {"activeDeadlineSeconds": 1}},
        {},
        "runPolicy.activeDeadlineSeconds",
    ),
    (
        {"images": ["hub.example/team"]},
        {"image": {"repository": "hub.example/team/x", "tag": "1"}},
        {"image": {"repository": "hub.example/team-b/x"}},
        "image.repository",
    ),
    (
        {"images": ["hub.example/*"]},
        nested((*SPEC, "initContainers"), [{"name": "i", "image": "hub.example/i"}]),
        nested((*SPEC, "initContainers"), [{"name": "i", "image": "other/i"}]),
        "podTemplate.spec.initContainers[0].image",
    ),
    (
        {"priorityClasses": ["low"]},
        {"scheduling": {"priorityClassName": "low"}},
        {"scheduling": {"priorityClassName": "urgent"}},
        "scheduling.priorityClassName",
    ),
    (
        {"priorityClasses": ["low"]},
        {},
        nested((*SPEC, "priorityClassName"), "x"),
        "podTemplate.spec.priorityClassName",
    ),
    (
        {},
        nested((*SPEC, "volumes"), [{"name": "d", "emptyDir": {}}]),
        nested((*SPEC, "volumes"), HOST_PATH),
        "podTemplate.spec.volumes[0].hostPath",
    ),
    ({}, {}, {"network": {"hostNetwork": True}}, "network.hostNetwork"),
    (
        {},
        nested((*SPEC, "containers"), [{"name": "s", "ports": [{"containerPort": 1}]}]),
        nested((*SPEC, "containers"), [{"name": "s", "ports": [{"hostPort": 1}]}]),
        "podTemplate.spec.containers[0].ports[0].hostPort",
    ),
    (
        {},
        {"security": {"containerSecurityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}},
        {"security": {"containerSecurityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
        "security.containerSecurityContext.capabilities.add",
    ),
    ({}, {}, nested((*SPEC, "hostPID"), True), "podTemplate.spec.hostPID"),
    (
        {},
        {},
        {"security": {"containerSecurityContext": {"privileged": True}}},
        "security.containerSecurityContext.privileged",
    ),
]


@pytest.mark.parametrize(("rules", "good", "bad", "path"), CASES)
def test_each_rule_takes_what_keeps_to_it_and_names_what_does_not(
    rules: dict[str, Any], good: dict[str, Any], bad: dict[str, Any], path: str
) -> None:
    """Both ways, with the path of the value to change."""
    assert [] == problems(rules, good)
    assert [path] == [place for place, _ in problems(rules, bad)]


CLAIMS = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
GPU_LIMIT = "elastic.auto.limits.gpu"
STATEFUL = {"torchrun": {"controller": "StatefulSet"}}
ENDS = {"runPolicy": {"activeDeadlineSeconds": 60}}


def auto(limit: int = 0, most: int = 0, seconds: int = 60, **values: Any) -> dict[str, Any]:
    """An elastic job with a master, whose pods end after some seconds."""
    own = {"limits": {"gpu": limit}, "maxWorkers": most}
    template = nested(SPEC, {"activeDeadlineSeconds": seconds})
    return {"elastic": {"mode": "auto", "auto": own}, **template, **values}


# What the API server refuses as well: workload, rule, values, the path and the words.
LIKE_THE_POLICY: list[tuple[str, str, dict[str, Any], str, str]] = [
    (
        "torchrun",
        "maxGpusPerJob",
        {"gpus": 8, **nested((*SPEC, "resourceClaims"), CLAIMS)},
        "podTemplate.spec.resourceClaims",
        "devices of a claim are not counted, and queue q allows 60 GPUs for each job",
    ),
    ("elastic", "maxGpusPerJob", auto(nodes=2, gpusPerNode=8), GPU_LIMIT, "is not set, so plans"),
    ("elastic", "maxGpusPerJob", auto(64, nodes=2, gpusPerNode=8), GPU_LIMIT, "64 GPUs are more"),
    (
        "elastic",
        "maxGpusPerJob",
        auto(48, 8, nodes=2, gpusPerNode=8),
        "elastic.auto.maxWorkers",
        "64 GPUs are more than the 60",
    ),
    ("elastic", "maxNodesPerJob", auto(most=61, nodes=2), "elastic.auto.maxWorkers", "61 nodes"),
    (
        "torchrun",
        "maxDurationSeconds",
        STATEFUL,
        "torchrun.controller",
        "a StatefulSet never ends, and queue q allows 60 seconds (rules.maxDurationSeconds)",
    ),
    (
        "mpi",
        "maxDurationSeconds",
        {**ENDS, "gpus": 8, "mpi": {"transport": "exec"}},
        "mpi.transport",
        "a StatefulSet never ends",
    ),
    (
        "mpi",
        "maxDurationSeconds",
        {**ENDS, "gpus": 8, "mpi": {"controller": "StatefulSet"}},
        "mpi.controller",
        "a StatefulSet never ends",
    ),
    (
        "elastic",
        "maxDurationSeconds",
        auto(seconds=61),
        "podTemplate.spec.activeDeadlineSeconds",
        "61 seconds are more than the 60",
    ),
    (
        "elastic",
        "maxDurationSeconds",
        {
            **auto(),
            "elastic": {
                "mode": "auto",
                "roles": {"worker": nested(SPEC, {"activeDeadlineSeconds": 61})},
            },
        },
        "elastic.roles.worker.podTemplate.spec.activeDeadlineSeconds",
        "61 seconds are more than the 60",
    ),
]


@pytest.mark.parametrize(("workload", "rule", "values", "path", "words"), LIKE_THE_POLICY)
def test_what_the_api_server_would_refuse_is_told_before(
    workload: str, rule: str, values: dict[str, Any], path: str, words: str
) -> None:
    """Claims, plans without a bound, and what never ends, each by the value to change."""
    ((place, message),) = problems({rule: 60}, values, workload)
    assert path == place
    assert words in message
    assert [] == problems({}, values, workload)


@pytest.mark.parametrize(
    ("workload", "rule", "values"),
    [
        ("elastic", "maxGpusPerJob", auto(60, 7, nodes=2, gpusPerNode=8)),
        ("elastic", "maxGpusPerJob", auto(nodes=2)),
        ("elastic", "maxNodesPerJob", auto(most=60, nodes=2)),
        ("elastic", "maxDurationSeconds", auto()),
        ("mpi", "maxDurationSeconds", {**ENDS, "mpi": {"controller": "StatefulSet"}}),
        (
            "mpi",
            "maxDurationSeconds",
            {
                **ENDS,
                "nodes": 1,
                "gpusPerNode": 8,
                "mpi": {"transport": "exec", "runLauncherAsWorker": True},
            },
        ),
        ("mpi", "maxDurationSeconds", {**ENDS, "gpus": 8}),
    ],
)
def test_what_the_api_server_takes_is_not_refused(
    workload: str, rule: str, values: dict[str, Any]
) -> None:
    """Plans within the bound, and a StatefulSet that holds no GPUs beside a launcher that ends."""
    assert [] == problems({rule: 60}, values, workload)


def test_what_is_allowed_is_not_refused() -> None:
    """The three that are forbidden by default can each be allowed."""
    rules = {"allowHostPath": True, "allowHostNetwork": True, "allowPrivileged": True}
    values = {
        "network": {"hostNetwork": True},
        "security": {"containerSecurityContext": {"privileged": True}},
        **nested((*SPEC, "volumes"), HOST_PATH),
    }
    assert [] == problems(rules, values)


def test_the_workload_is_one_of_the_queue_s() -> None:
    """A queue may be for one kind of training alone."""
    assert [
        ("workload", "mpi is none that queue q allows (rules.workloads): torchrun")
    ] == problems({"workloads": ["torchrun"]}, {}, "mpi")
    assert [] == problems({"workloads": ["torchrun"]}, {})


def test_all_roles_of_a_job_count() -> None:
    """Parameter servers have pods, and may have GPUs; so may their own templates break a rule."""
    roles = {
        "worker": {"replicas": 2, "gpusPerPod": 4},
        "ps": {"replicas": 2, "gpusPerPod": 1, "podTemplate": {"spec": {"volumes": HOST_PATH}}},
    }
    out = problems(
        {"maxGpusPerJob": 9, "maxNodesPerJob": 3}, {"elastic": {"roles": roles}}, "elastic"
    )
    assert ["10 GPUs", "4 nodes", "is a folder of the node"] == [
        re.split(" are more|, which", message)[0] for _, message in out
    ]


def test_the_image_of_a_master_is_held_to_the_rule_as_well() -> None:
    """An elastic job's master is a pod like the others."""
    values = {"elastic": {"mode": "auto", "auto": {"master": {"image": "other/master"}}}}
    assert ["elastic.auto.master.image"] == [
        path for path, _ in problems({"images": ["hub.example"]}, values, "elastic")
    ]


IMAGES = [
    ("hub.example/team", "hub.example/team", True),
    ("hub.example/team", "hub.example/team:1", True),
    ("hub.example/team", "hub.example/team@sha256:00", True),
    ("hub.example/team", "hub.example/team/x/y:1", True),
    ("hub.example/team", "hub.example/team-b/x", False),
    ("hub.example", "hub.example:5000/x", False),
    ("hub.example/*/torch:2.*", "hub.example/a/b/torch:2.4", True),
    ("hub.example/*/torch:2.*", "hub.example/a/torch:1.4", False),
    ("hub.example/a.b", "hub.example/acb", False),
    ("*", "anything", True),
]


@pytest.mark.parametrize(("entry", "image", "expected"), IMAGES)
def test_an_entry_is_a_prefix_up_to_a_part_or_a_pattern(
    entry: str, image: str, expected: bool
) -> None:
    """As the admission policy reads it: a name that only begins so is another one."""
    assert expected == image_allowed(image, [entry])


@given(st.text("ab/:@.", min_size=1, max_size=6), st.text("ab/:@.", max_size=8))
def test_an_entry_without_a_star_is_its_regular_expression(entry: str, image: str) -> None:
    """The expression that the decision names, and CEL has."""
    expected = re.search(rf"^{re.escape(entry)}($|/.*|[:@][^/]*)$", image) is not None
    assert expected == image_allowed(image, [entry])


def test_no_rule_allows_every_image() -> None:
    """An empty list is no rule."""
    assert image_allowed("anything", [])
