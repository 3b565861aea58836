"""What is told of the operator on a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.cluster import operator, paths
from allranks.errors import ForbiddenError, RunError

ENV = [
    {"name": "ALLRANKS_WATCH_NAMESPACES", "value": "a,b"},
    {"name": "ALLRANKS_WATCH_CLUSTER", "value": "false"},
]


def deployment(*, env: Any = ENV, generation: int = 2, **status: Any) -> dict[str, Any]:
    """The operator's Deployment, of two pods."""
    containers = [{"name": "watcher", "image": "w:1", "env": env}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "allranks-watcher", "generation": generation},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
        "status": {"observedGeneration": 2, **status},
    }


RENEWED = "2026-01-01T00:00:00.000000Z"
RENEWED_AT = 1767225600.0


def lease(holder: str, renewed: str = RENEWED) -> dict[str, Any]:
    """The operator's Lease."""
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "allranks-watcher"},
        "spec": spec,
    }


def pod(node: str = "", **status: Any) -> dict[str, Any]:
    """An operator's pod."""
    labels = {"app.kubernetes.io/name": "operator", "app.kubernetes.io/instance": "allranks"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "allranks-watcher-x", "labels": labels},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def account(**annotations: str) -> dict[str, Any]:
    """The masters' account."""
    notes = {f"meta.helm.sh/release-{key}": value for key, value in annotations.items()}
    metadata = {"name": "allranks-master", "annotations": notes}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


@pytest.mark.parametrize(
    ("objects", "holder"),
    [
        ((), None),
        ((account(),), ("", "")),
        ((account(name="first", namespace="lab"),), ("first", "lab")),
    ],
)
def test_whose_the_masters_account_is(fake: Any, objects: Any, holder: Any) -> None:
    """Its release's; none is there, or nobody's, are told apart."""
    assert holder == operator.account_holder(fake.FakeCluster(*objects), "lab")


def test_an_account_that_may_not_be_seen(fake: Any) -> None:
    """Nothing is said of it: helm will tell."""
    cluster = fake.FakeCluster(account())
    cluster.refuse = lambda *_: ForbiddenError("no")
    assert operator.account_holder(cluster, "lab") is None


def test_a_whole_operator(fake: Any) -> None:
    """How many are ready, what they watch, and who acts."""
    cluster = fake.FakeCluster(
        deployment(updatedReplicas=2, availableReplicas=2), lease("allranks-watcher-x")
    )
    installed_operator = operator.find(cluster, "allranks", "lab")
    assert installed_operator is not None
    assert (2, 2, True, "w:1") == (
        installed_operator.replicas,
        installed_operator.ready,
        installed_operator.is_ready,
        installed_operator.image,
    )
    assert (("a", "b"), "allranks-watcher-x") == (
        installed_operator.namespaces,
        installed_operator.leader,
    )
    assert installed_operator.renewed_at is not None


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"updatedReplicas": 1, "availableReplicas": 2},
        {"updatedReplicas": 2, "availableReplicas": 1},
        {"updatedReplicas": 3, "availableReplicas": 3},
        {"updatedReplicas": 2, "availableReplicas": 2, "generation": 3},
    ],
)
def test_an_operator_that_is_not_whole(fake: Any, status: dict[str, Any]) -> None:
    """Not yet ready, of an older version, or more than there are to be."""
    installed_operator = operator.find(fake.FakeCluster(deployment(**status)), "allranks", "lab")
    assert installed_operator is not None
    assert not installed_operator.is_ready
    assert "" == installed_operator.leader


def test_an_operator_of_all_namespaces_names_none(fake: Any) -> None:
    """Whatever else it is told."""
    env = [{"name": "ALLRANKS_WATCH_CLUSTER", "value": "true"}]
    installed_operator = operator.find(fake.FakeCluster(deployment(env=env)), "allranks", "lab")
    assert installed_operator is not None
    assert () == installed_operator.namespaces


@pytest.mark.parametrize(
    ("holder", "after", "acts"),
    [
        ("allranks-watcher-x", 3.0, True),
        ("allranks-watcher-x", 15.0, True),
        ("allranks-watcher-x", 16.0, False),
        ("allranks-watcher-x", -5.0, False),
        ("", 3.0, False),
    ],
)
def test_a_lease_that_nobody_renews_is_held_by_nobody(
    fake: Any, holder: str, after: float, *, acts: bool
) -> None:
    """Its holder may be gone, whatever the Deployment says; no longer than it asked for it."""
    ready = {"updatedReplicas": 2, "availableReplicas": 2}
    cluster = fake.FakeCluster(deployment(**ready), lease(holder))
    installed_operator = operator.find(cluster, "allranks", "lab")
    assert installed_operator is not None
    assert acts == operator.acts(
        cluster, "allranks", "lab", installed_operator, now=RENEWED_AT + after, patience=0
    )


@pytest.mark.parametrize("first", [[lease("x")], []])
def test_a_clock_that_differs_from_the_clusters_decides_nothing(
    fake: Any, first: list[dict[str, Any]]
) -> None:
    """Where the Lease looks old, or is new, it is looked at again: one that changes is held."""
    cluster = fake.FakeCluster(deployment(), *first)
    installed_operator = operator.find(cluster, "allranks", "lab")
    renewed = lease("x", "2026-01-01T00:00:02.000000Z")
    cluster.objects[paths.LEASES, "allranks-watcher"] = renewed
    assert installed_operator is not None
    assert operator.acts(
        cluster, "allranks", "lab", installed_operator, now=RENEWED_AT + 3600, patience=5
    )


def test_a_lease_that_may_not_be_seen_says_nothing(fake: Any) -> None:
    """Whether one acts is not known then."""
    cluster = fake.FakeCluster(deployment(), lease("x"))
    cluster.refuse = lambda _, path, *__: (
        ForbiddenError("no right") if path == paths.LEASES else None
    )
    installed_operator = operator.find(cluster, "allranks", "lab")
    assert installed_operator is not None
    assert (
        operator.acts(cluster, "allranks", "lab", installed_operator, now=0.0, patience=0) is None
    )


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([], "it has no pods yet"),
        ([{}], "scheduler default-scheduler has not looked at it yet"),
        ([{"node": "cpu-1"}], "node cpu-1 has not begun to start it"),
        (
            [{"conditions": [{"type": "PodScheduled", "status": "False", "message": "no room"}]}],
            "no room",
        ),
        (
            [{"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}],
            "ImagePullBackOff",
        ),
        (
            [
                {
                    "containerStatuses": [
                        {
                            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            "lastState": {"terminated": {"message": "error: no such flag\n"}},
                        }
                    ]
                }
            ],
            "CrashLoopBackOff: error: no such flag",
        ),
    ],
)
def test_what_holds_it_back_is_told(fake: Any, pods: list[dict[str, Any]], message: str) -> None:
    """The scheduler's words, the kubelet's, or its own last ones; that neither has a word yet."""
    cluster = fake.FakeCluster(deployment(), *(pod(**status) for status in pods))
    with pytest.raises(RunError) as excinfo:
        operator.wait(cluster, "allranks", "lab", timeout=0)
    assert f"0 of 2 replicas ready after 0 s: {message}" == excinfo.value.problem.message


def test_what_holds_it_back_is_told_while_it_lasts(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each reason once and soon, and not only when the patience is at its end.

    What every start waits for, for a moment, is not.
    """
    reasons = ["ContainerCreating"] * 5
    reasons += ["ErrImagePull", "ErrImagePull", "ImagePullBackOff", "ErrImagePull"]
    cluster = fake.FakeCluster(deployment())
    notes: list[str] = []

    def next_look(_: float) -> None:
        for key in [key for key in cluster.objects if key[0] == paths.PODS]:
            del cluster.objects[key]
        if not reasons:
            cluster.objects[paths.DEPLOYMENTS, "allranks-watcher"] = deployment(
                updatedReplicas=2, availableReplicas=2
            )
            return
        waiting = {"state": {"waiting": {"reason": reasons.pop(0)}}}
        waiting_pod = pod(containerStatuses=[waiting])
        cluster.objects[paths.PODS, waiting_pod["metadata"]["name"]] = waiting_pod

    monkeypatch.setattr(operator.time, "sleep", next_look)
    assert operator.wait(cluster, "allranks", "lab", timeout=600, tell=notes.append).is_ready
    assert [
        "0 of 2 replicas ready: ErrImagePull",
        "0 of 2 replicas ready: ImagePullBackOff",
    ] == notes


def test_there_may_be_none(fake: Any) -> None:
    """A release whose Deployment is gone."""
    assert operator.find(fake.FakeCluster(), "allranks", "lab") is None


def test_other_operators_are_found(fake: Any) -> None:
    """What each watches; not this one, nor another project's operator of the same name."""

    def release(name: str, env: Any) -> dict[str, Any]:
        labels = {
            "app.kubernetes.io/name": "operator",
            "app.kubernetes.io/component": "watcher",
            "app.kubernetes.io/instance": name,
        }
        manifest = deployment(env=env)
        manifest["metadata"] |= {"name": f"{name}-watcher", "namespace": "lab", "labels": labels}
        return manifest

    everything = [ENV[0], {"name": "ALLRANKS_WATCH_CLUSTER", "value": "true"}]
    cluster = fake.FakeCluster(
        release("allranks", ENV), release("b", ENV), release("c", everything), release("d", [])
    )
    others = operator.other_operators(cluster, "allranks", "lab")
    assert [("b", ("a", "b")), ("c", ())] == [(other.release, other.namespaces) for other in others]
    assert "release 'b' in namespace lab" == str(others[0])
    cluster.refuse = lambda *_: ForbiddenError("no")
    assert () == operator.other_operators(cluster, "allranks", "lab")


def test_a_right_that_is_missing_is_told(fake: Any) -> None:
    """Who acts writes it on the Lease: nothing may be said where it lacks the right."""
    held_lease = lease("allranks-watcher-x")
    held_lease["metadata"]["annotations"] = {"allranks.dev/lacks": "in vision: create pods"}
    ready = deployment(updatedReplicas=2, availableReplicas=2)
    installed_operator = operator.find(fake.FakeCluster(ready, held_lease), "allranks", "lab")
    assert installed_operator is not None
    assert (True, "in vision: create pods") == (
        installed_operator.is_ready,
        installed_operator.lacks,
    )
