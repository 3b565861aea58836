"""Why a controller cannot create its pods, in plain words.

The messages are those that Kubernetes 1.36 writes.
"""

from __future__ import annotations

import pytest

from allranks.status.reduce import reduce
from tests.unit.status.samples import (
    event,
    job,
    observe,
    ready,
    stateful_set,
)

REFUSED = 'Error creating: pods "demo-1-" is forbidden: '


@pytest.mark.parametrize(
    ("message", "reason", "sentence"),
    [
        (
            REFUSED + "exceeded quota: compute, requested: requests.nvidia.com/gpu=8, used: "
            "requests.nvidia.com/gpu=8, limited: requests.nvidia.com/gpu=12",
            "QuotaExceeded",
            (
                "quota compute to have room for 3 pods: requests.nvidia.com/gpu: a pod asks for 8, "
                "and 8 of 12 is in use: 4 short"
            ),
        ),
        (
            REFUSED + "exceeded quota: team, requested: cpu=1500m,limits.memory=180Gi, used: "
            "cpu=9,limits.memory=1Ti, limited: cpu=10,limits.memory=1100Gi",
            "QuotaExceeded",
            (
                "quota team to have room for 3 pods: cpu: a pod asks for 1500m, and 9 of 10 is "
                "in use: 500m short; limits.memory: a pod asks for 180Gi, and 1Ti of 1100Gi is in "
                "use: 104Gi short"
            ),
        ),
        (
            REFUSED + "exceeded quota: q, requested: a=one,pods, used: a=two, limited: a=three",
            "QuotaExceeded",
            "quota q to have room for 3 pods: a: a pod asks for one, and two of three is in use",
        ),
        (
            REFUSED + "exceeded quota: q, requested: b=1, used: a=2, limited: a=3",
            "QuotaExceeded",
            "quota q to have room for 3 pods: b: a pod asks for 1",
        ),
        (
            REFUSED + "failed quota: compute: must specify limits.memory for: trainer",
            "QuotaUnnamed",
            "quota compute to accept 3 pods: it wants limits.memory for: trainer to be set",
        ),
        (
            REFUSED + 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false '
            '(container "trainer" must set securityContext.allowPrivilegeEscalation=false), '
            'runAsNonRoot != true (pod or containers "a", "trainer" must set securityContext)',
            "PodSecurity",
            (
                "a Pod Security level other than restricted for 3 pods: allowPrivilegeEscalation "
                "!= false, runAsNonRoot != true"
            ),
        ),
        (
            REFUSED + 'error looking up service account research/robot: serviceaccount "robot" not '
            "found",
            "FailedCreate",
            "ServiceAccount robot for 3 pods: it does not exist",
        ),
        (
            REFUSED + "no PriorityClass with name high was found",
            "FailedCreate",
            "PriorityClass high for 3 pods: it does not exist",
        ),
        (
            REFUSED + "maximum cpu usage per Pod is 4, but limit is 8.",
            "FailedCreate",
            "the API server to accept 3 pods: maximum cpu usage per Pod is 4, but limit is 8",
        ),
        (
            "Error creating: Internal error occurred: failed calling webhook",
            "FailedCreate",
            "the API server to accept 3 pods: Internal error occurred: failed calling webhook",
        ),
    ],
)
def test_why_pods_are_not_created(message: str, reason: str, sentence: str) -> None:
    """A Job's event is all there is of a refusal; what is missing is counted out."""
    failure = event("FailedCreate", message)
    status = reduce(observe(job(pods=4), pods=[ready(0)], events=[failure]))
    assert (reason, sentence) == (status.reason, status.waiting_for)


def test_a_refusal_of_a_stateful_set_is_told_alike() -> None:
    """Its event has another wrapping around the same sentence."""
    message = (
        'create Pod demo-0 in StatefulSet demo failed error: pods "demo-0" is forbidden: something'
    )
    failure = event("FailedCreate", message, kind="StatefulSet")
    status = reduce(observe(stateful_set(), events=[failure]))
    assert "the API server to accept 2 pods: something" == status.waiting_for


def test_a_refusal_is_forgotten_once_all_pods_are_there() -> None:
    """The event stays for an hour; the quota had room long before that."""
    failure = event("FailedCreate", REFUSED + "exceeded quota: q, requested: a=1, used: a=1")
    status = reduce(observe(job(), pods=[ready(0), ready(1)], events=[failure]))
    assert "" == status.waiting_for
