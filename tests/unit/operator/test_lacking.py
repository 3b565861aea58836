"""Which refusals are for want of a right, and where they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.elastic.actions import CreatePod
from allranks_operator.kube.errors import ApiError
from tests.unit.operator.fakes import FakeServer, refused
from tests.unit.operator.parts import PODS_PATH, Parts, job, made, pod

if TYPE_CHECKING:
    from allranks_operator.kube.api import Api

NO_RIGHT = (
    'pods is forbidden: User "system:serviceaccount:team:w" cannot create resource "pods" in API '
    'group "" in the namespace "lab"'
)
METRIC = 'allranks_rights_missing{action="create_pod",namespace="lab"} 1.0'


def test_a_right_that_is_missing_is_told_until_it_is_there(server: FakeServer, api: Api) -> None:
    """By the metric, and in the words that the Lease gets."""
    parts = Parts(server, api)
    server.routes["POST", PODS_PATH] = refused(403, "Forbidden", NO_RIGHT)
    parts.actor.perform(job(), [CreatePod(pod("a"))])
    assert "in lab: create pods" == parts.actor.lacking.told()
    assert METRIC in parts.metrics.text().decode()
    server.routes["POST", PODS_PATH] = lambda _, body: made(body)
    parts.actor.perform(job(), [CreatePod(pod("a"))])
    assert "" == parts.actor.lacking.told()
    assert METRIC not in parts.metrics.text().decode()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "pods is forbidden: exceeded quota: few"),
        (403, 'pods "a" is forbidden: serviceaccount "m" not found'),
        (422, "it cannot be so"),
    ],
)
def test_other_refusals_are_not(server: FakeServer, api: Api, status: int, said: str) -> None:
    """A quota, an admission, an object that is wrong: no right would change them."""
    parts = Parts(server, api)
    error = ApiError("no", status=status, said=said)
    parts.actor.lacking.refused("lab", "create_pod", error)
    assert "" == parts.actor.lacking.told()


def test_a_right_that_cannot_be_given_is_one_that_is_lacking(server: FakeServer, api: Api) -> None:
    """Kubernetes names it in Go's notation, behind a sentence about the role."""
    parts = Parts(server, api)
    said = (
        'roles.rbac.authorization.k8s.io "m" is forbidden: user "system:serviceaccount:team:w" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["configmaps"], ResourceNames:["j-history"], '
        'Verbs:["patch"]}'
    )
    server.routes["POST", PODS_PATH] = refused(403, "Forbidden", said)
    parts.actor.perform(job(), [CreatePod(pod("a"))])
    assert "in lab: patch configmaps" == parts.actor.lacking.told()
