"""Which refusals are for want of a right, and where they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.elastic.actions import CreatePod
from allranks.errors import ApiError
from tests.unit.operator.fakes import FakeServer, status_answer
from tests.unit.operator.parts import PODS_PATH, Parts, creation_answer, job, pod

if TYPE_CHECKING:
    from allranks_operator.kube.client import Api

NO_RIGHT = (
    'pods is forbidden: User "system:serviceaccount:team:w" cannot create resource "pods" in API '
    'group "" in the namespace "lab"'
)
METRIC = 'allranks_rights_missing{action="create_pod",namespace="lab"} 1.0'


def test_a_right_that_is_missing_is_told_until_it_is_there(server: FakeServer, api: Api) -> None:
    """By the metric, and in the words that the Lease gets."""
    parts = Parts(server, api)
    server.routes["POST", PODS_PATH] = status_answer(403, "Forbidden", NO_RIGHT)
    parts.executor.execute(job(), [CreatePod(pod("a"))])
    assert "in lab: create pods" == parts.executor.missing_permissions.describe()
    assert METRIC in parts.metrics.text().decode()
    server.routes["POST", PODS_PATH] = lambda _, body: creation_answer(body)
    parts.executor.execute(job(), [CreatePod(pod("a"))])
    assert "" == parts.executor.missing_permissions.describe()
    assert METRIC not in parts.metrics.text().decode()


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        (403, "pods is forbidden: exceeded quota: few"),
        (403, 'pods "a" is forbidden: serviceaccount "m" not found'),
        (422, "it cannot be so"),
    ],
)
def test_other_refusals_are_not(server: FakeServer, api: Api, status: int, detail: str) -> None:
    """A quota, an admission, an object that is wrong: no right would change them."""
    parts = Parts(server, api)
    error = ApiError("no", status=status, detail=detail)
    parts.executor.missing_permissions.record_refusal("lab", "create_pod", error)
    assert "" == parts.executor.missing_permissions.describe()


def test_a_right_that_cannot_be_given_is_one_that_is_lacking(server: FakeServer, api: Api) -> None:
    """Kubernetes names it in Go's notation, behind a sentence about the role."""
    parts = Parts(server, api)
    message = (
        'roles.rbac.authorization.k8s.io "m" is forbidden: user "system:serviceaccount:team:w" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["configmaps"], ResourceNames:["j-history"], '
        'Verbs:["patch"]}'
    )
    server.routes["POST", PODS_PATH] = status_answer(403, "Forbidden", message)
    parts.executor.execute(job(), [CreatePod(pod("a"))])
    assert "in lab: patch configmaps" == parts.executor.missing_permissions.describe()
