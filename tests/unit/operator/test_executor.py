"""Doing what was decided: what is learnt from answers, and what becomes of each refusal."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.elastic import pods
from allranks.elastic.actions import (
    CreatePlan,
    CreatePod,
    CreateService,
    DeletePlan,
    DeletePod,
    DeleteService,
    RecordEvent,
    WritePlanStatus,
)
from allranks.elastic.api.job import read
from allranks_operator import executor
from allranks_operator.kube import resources
from tests.unit.operator.fakes import FakeServer, pod_list, status_answer, until
from tests.unit.operator.parts import (
    JOB_KEY,
    PLANS_PATH,
    PODS_PATH,
    Parts,
    creation_answer,
    job,
    pod,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.elastic.actions import Action
    from allranks_operator.kube.client import Api

SERVICES = "/api/v1/namespaces/lab/services"
QUOTA = status_answer(403, "Forbidden", "pods is forbidden: exceeded quota: few")


@pytest.fixture
def parts(server: FakeServer, api: Api) -> Parts:
    """The parts, with a job."""
    operator_parts = Parts(server, api)
    operator_parts.give(job())
    return operator_parts


def words(parts: Parts, actions: Sequence[Action]) -> dict[str, int]:
    """What became of actions."""
    return dict(parts.executor.execute(job(), actions).counts)


def test_a_pod_that_was_made_is_known(parts: Parts) -> None:
    """Before any watch tells of it."""
    assert {"done": 1} == words(parts, [CreatePod(pod("j-edljob-worker-0"))])
    (cached_pod,) = parts.cache.of(JOB_KEY)["Pod"]
    assert ("j-edljob-worker-0", "u-j-edljob-worker-0") == (
        cached_pod["metadata"]["name"],
        cached_pod["metadata"]["uid"],
    )
    text = parts.metrics.text().decode()
    assert 'allranks_actions_total{action="create_pod",result="done"} 1.0' in text


def test_every_action_is_one_request(parts: Parts) -> None:
    """With the uid of the object it is about, where it is about one."""
    parts.give({**pod("p"), "metadata": {**pod("p")["metadata"], "uid": "u"}})
    for method, path in (
        ("DELETE", f"{PODS_PATH}/p"),
        ("DELETE", f"{SERVICES}/s"),
        ("DELETE", f"{PLANS_PATH}/x"),
        ("PATCH", f"{PLANS_PATH}/x/status"),
    ):
        parts.server.routes[method, path] = creation_answer(pod("x"))
    parts.server.routes["POST", SERVICES] = lambda _, body: creation_answer(body)
    parts.server.routes["POST", PLANS_PATH] = lambda _, body: {**body, **creation_answer(body)}
    service = {"metadata": {"name": "s", "namespace": "lab"}}
    plan = {"kind": "ScalePlan", "metadata": {"name": "x", "namespace": "lab"}}
    actions: list[Action] = [
        CreateService(service),
        CreatePlan(plan),
        DeletePod("p", "u", 7, "too many"),
        DeleteService("s", "us"),
        DeletePlan("x", "ux"),
        WritePlanStatus("x", "ux", {"phase": "Succeeded", "finishTime": "t", "empty": {}}),
        RecordEvent("ElasticJob", "j", "u-j", "Normal", "Because", "it is so"),
    ]
    assert {"done": len(actions)} == words(parts, actions)
    (deleted,) = parts.bodies("DELETE", f"{PODS_PATH}/p")
    assert ({"uid": "u"}, 7) == (deleted["preconditions"], deleted["gracePeriodSeconds"])
    assert "deletionTimestamp" in parts.cache.of(JOB_KEY)["Pod"][0]["metadata"]
    (body,) = parts.bodies("PATCH", f"{PLANS_PATH}/x/status")
    assert {"phase": "Succeeded", "finishTime": "t"} == body["status"]
    assert "ux" == body["metadata"]["uid"]
    assert ["Because"] == parts.events()
    assert 'allranks_plans_total{result="succeeded"} 1.0' in parts.metrics.text().decode()


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (status_answer(404, "NotFound"), "gone"),
        (status_answer(409, "Conflict"), "conflict"),
        (status_answer(500, "InternalError"), "busy"),
        (status_answer(403, "Forbidden"), "refused"),
    ],
)
def test_a_refusal_is_a_word(parts: Parts, answer: object, word: str) -> None:
    """And it is counted."""
    parts.server.routes["DELETE", f"{PODS_PATH}/p"] = answer
    results = parts.executor.execute(job(), [DeletePod("p", "u")])
    assert {word: 1} == dict(results.counts)
    assert (word == "gone") == (results.worst() is None)
    assert f'action="delete_pod",result="{word}"' in parts.metrics.text().decode()


def test_after_a_quota_the_rest_is_not_tried(parts: Parts) -> None:
    """A thousand pods that would be refused alike are not sent; other actions are done."""
    parts.server.routes["POST", PODS_PATH] = QUOTA
    parts.server.routes["DELETE", f"{PODS_PATH}/p"] = creation_answer(pod("p"))
    actions: list[Action] = [CreatePod(pod(f"j-edljob-worker-{number}")) for number in range(200)]
    results = parts.executor.execute(job(), [*actions, DeletePod("p", "u")])
    counts = results.counts
    assert (1, 200) == (counts["done"], counts["quota"] + counts["skipped"])
    assert len(parts.bodies("POST", PODS_PATH)) < 20
    worst = results.worst()
    assert worst is not None
    assert executor.QUOTA == worst.result


def test_a_server_that_wants_peace_gets_it(parts: Parts) -> None:
    """The longest time that it asked for is the time to come back."""

    def later(_query: object, _body: object) -> object:
        return 429, {"reason": "TooManyRequests", "message": "later"}, {"Retry-After": "7"}

    parts.server.routes["DELETE", f"{PODS_PATH}/p"] = later
    results = parts.executor.execute(job(), [DeletePod("p", "u")])
    assert ({"busy": 1}, 7.0) == (dict(results.counts), results.after)


def test_a_pod_of_ours_that_is_there_is_as_good(parts: Parts) -> None:
    """A request of an operator that was killed has come to its end after all."""
    ours = {**pod("j-edljob-worker-0"), "status": {"phase": "Running"}}
    ours["metadata"] = {**ours["metadata"], "uid": "u0", "resourceVersion": "9"}
    parts.server.routes["POST", PODS_PATH] = status_answer(409, "AlreadyExists")
    parts.server.pages = [pod_list(ours, version="50")]
    assert {"there": 1} == words(parts, [CreatePod(pod("j-edljob-worker-0"))])
    assert "Running" == parts.cache.of(JOB_KEY)["Pod"][0]["status"]["phase"]


@pytest.mark.attack
@pytest.mark.parametrize("name", ["j-edljob-worker-0", "elasticjob-j-dlrover-master-0"])
@pytest.mark.parametrize(
    ("extra_metadata", "word", "pod_count"),
    [({}, "conflict", 1), ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, "busy", 0)],
)
def test_a_stranger_in_the_way_is_seen(
    parts: Parts, name: str, extra_metadata: dict[str, str], word: str, pod_count: int
) -> None:
    """Who decides takes another name, for a master as well; one that is going is waited for."""
    metadata = {"name": name, "namespace": "lab", "uid": "s", "resourceVersion": "9"}
    stranger = {"kind": "Pod", "metadata": metadata | extra_metadata}
    parts.server.routes["POST", PODS_PATH] = status_answer(409, "AlreadyExists")
    parts.server.pages = [pod_list(stranger, version="50")]
    assert {word: 1} == words(parts, [CreatePod(pod(name))])
    assert pod_count == len(parts.cache.of(JOB_KEY).get("Pod", ()))


@pytest.mark.attack
@pytest.mark.parametrize(("owner", "word"), [("u-j", "there"), ("other", "foreign")])
def test_a_service_that_is_there_may_be_a_strangers(parts: Parts, owner: str, word: str) -> None:
    """A master makes its own for the job; one that is nobody's of the job is said."""
    metadata = {"name": "s", "namespace": "lab", "resourceVersion": "9"}
    owners = [{"uid": job()["metadata"]["uid"] if owner == "u-j" else owner}]
    parts.server.routes["POST", SERVICES] = status_answer(409, "AlreadyExists")
    parts.server.pages = [pod_list({"metadata": metadata | {"ownerReferences": owners}})]
    results = parts.executor.execute(job(), [CreateService({"metadata": metadata})])
    assert ({word: 1}, None) == (dict(results.counts), results.worst())


def test_who_does_not_lead_does_nothing(parts: Parts) -> None:
    """Not one request; what is left is another's business."""
    parts.leading = False
    assert {"skipped": 2} == words(
        parts, [CreatePod(pod("a")), RecordEvent("ElasticJob", "j", "u", "Normal", "R", "m")]
    )
    assert [] == parts.server.requests
    with pytest.raises(executor.NotLeadingError):
        parts.executor.call("x", "lab", lambda: None)


@pytest.mark.attack
def test_one_of_another_job_does_not_wait_for_thousands(parts: Parts) -> None:
    """Of those only some stand before it, however many there are."""
    gate, pod_names = threading.Event(), list[str]()

    def answer(_query: object, body: dict[str, Any]) -> dict[str, Any]:
        pod_names.append(body["metadata"]["name"])
        gate.wait(60)
        return creation_answer(body)

    parts.server.routes["POST", PODS_PATH] = answer
    many = [CreatePod(pod(f"j-edljob-worker-{number}")) for number in range(60)]
    queue = parts.executor._pool._work_queue
    with ThreadPoolExecutor(2) as looks:
        first = looks.submit(words, parts, many)
        until(lambda: len(pod_names) == 4 and queue.qsize() == 4, "a full share of the first job")
        other = looks.submit(words, parts, [CreatePod(pod("other"))])
        until(lambda: queue.qsize() == 5, "the action of the other job")
        gate.set()
        assert ({"done": 60}, {"done": 1}) == (first.result(60), other.result(60))
    assert pod_names.index("other") < 20


@pytest.mark.attack
@pytest.mark.parametrize("kind", ["Pod", "Service"])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("labelled", [False, True])
def test_nothing_of_another_owner_is_deleted(
    parts: Parts, kind: str, *, own: bool, labelled: bool
) -> None:
    """Whoever decided it: no request is sent for what lacks the job's uid or our label."""
    action, resource, path = {
        "Pod": (DeletePod("x", "ux"), resources.PODS, f"{PODS_PATH}/x"),
        "Service": (DeleteService("x", "ux"), resources.SERVICES, f"{SERVICES}/x"),
    }[kind]
    owner = {"kind": "ElasticJob", "name": "j", "uid": "u-j" if own else "u-k", "controller": True}
    labels = {names.APP_PART_OF: names.PART_OF if labelled else "another"}
    metadata = {"name": "x", "namespace": "lab", "uid": "ux", "resourceVersion": "9"}
    metadata |= {"ownerReferences": [owner]}
    parts.cache.learn(resource, {"kind": kind, "metadata": {**metadata, "labels": labels}})
    parts.server.routes["DELETE", path] = creation_answer(pod("x"))
    is_ours = own and labelled
    assert {"done" if is_ours else "foreign": 1} == words(parts, [action])
    assert is_ours == bool(parts.bodies("DELETE", path))


@pytest.mark.attack
def test_a_deletion_names_its_object(parts: Parts) -> None:
    """Without a uid nothing is sent: whose the name is now, nobody knows."""
    assert {"foreign": 2} == words(parts, [DeletePod("x", ""), DeleteService("x", "")])
    assert [] == parts.server.requests


@pytest.mark.attack
def test_a_jobs_token_is_drawn_before_its_first_pod(parts: Parts) -> None:
    """Once, and by nobody else's knowledge; one that is there already is the one."""
    secrets_path = "/api/v1/namespaces/lab/secrets"
    parts.server.routes["POST", secrets_path] = lambda _, body: creation_answer(body)
    secret = {"metadata": {"name": "t", "namespace": "lab"}}
    for number in range(3):
        parts.executor.execute(job(), [CreatePod(pod(f"j-edljob-worker-{number}"), secret)])
    ((token_secret,), pods) = parts.bodies("POST", secrets_path), parts.bodies("POST", PODS_PATH)
    assert (64, 3) == (len(token_secret["stringData"]["token"]), len(pods))
    assert [secrets_path, PODS_PATH] == [path for _, path, _, _ in parts.server.requests][:2]
    parts.server.routes["POST", secrets_path] = status_answer(409, "AlreadyExists")
    other = {"metadata": {"name": "u", "namespace": "lab"}}
    assert {"done": 1} == words(parts, [CreatePod(pod("j-edljob-worker-8"), other)])
    parts.server.routes["POST", secrets_path] = status_answer(403, "Forbidden")
    other = {"metadata": {"name": "v", "namespace": "lab"}}
    assert {"refused": 1} == words(parts, [CreatePod(pod("j-edljob-worker-9"), other)])
    assert 4 == len(parts.bodies("POST", PODS_PATH))


ACCOUNTS = ("configmaps", "serviceaccounts", "roles", "rolebindings")


def paths_of_account(parts: Parts) -> dict[str, str]:
    """Where the parts of an account are made, all of which the server takes."""
    core, rbac = "/api/v1", "/apis/rbac.authorization.k8s.io/v1"
    path_by_plural = {
        plural: f"{rbac if plural.startswith('role') else core}/namespaces/lab/{plural}"
        for plural in ACCOUNTS
    }
    for path in path_by_plural.values():
        parts.server.routes["POST", path] = lambda _, body: creation_answer(body)
    return path_by_plural


def leading(parts: Parts) -> str:
    """Make the pod of a master that has an account of its job's own; what became of it."""
    own = pods.account(read(job()))
    (word,) = words(parts, [CreatePod(pod("m"), account=own)])
    return word


def test_a_masters_account_is_made_before_its_pod(parts: Parts) -> None:
    """The history first, whose name the role says; what is there already is as good."""
    paths = paths_of_account(parts)
    assert "done" == leading(parts)
    order = [path for _, path, _, _ in parts.server.requests]
    assert [*paths.values(), PODS_PATH] == order
    for path in list(paths.values())[1:]:
        parts.server.routes["POST", path] = status_answer(409, "AlreadyExists")
    assert "done" == leading(parts)


@pytest.mark.attack
@pytest.mark.parametrize("is_ours", [False, True])
def test_a_config_map_of_somebody_elses_is_not_given_away(parts: Parts, *, is_ours: bool) -> None:
    """Who creates a job chooses its name, and so the name of its history."""
    paths = paths_of_account(parts)
    parts.server.routes["POST", paths["configmaps"]] = status_answer(409, "AlreadyExists")
    labels = {names.APP_PART_OF: names.PART_OF, names.EDL_NAME: "j"} if is_ours else {}
    metadata = {"name": "j-history", "labels": labels}
    history = f"{paths['configmaps']}/j-history"
    parts.server.routes["GET", history] = lambda *_: (200, {"metadata": metadata})
    assert "done" == leading(parts)
    (role,) = parts.bodies("POST", paths["roles"])
    assert is_ours == any("configmaps" in rule["resources"] for rule in role["rules"])
    assert ([] if is_ours else ["NameTaken"]) == parts.events()


@pytest.mark.attack
@pytest.mark.parametrize("plural", ACCOUNTS)
def test_without_the_account_there_is_no_pod(parts: Parts, plural: str) -> None:
    """A master that runs as nobody would only fail."""
    paths = paths_of_account(parts)
    parts.server.routes["POST", paths[plural]] = status_answer(403, "Forbidden")
    assert "refused" == leading(parts)
    assert [] == parts.bodies("POST", PODS_PATH)
