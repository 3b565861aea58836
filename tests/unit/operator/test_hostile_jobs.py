"""Elastic jobs as nobody means them: each is attended to, and none stops the look at another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.elastic.decide import decide
from allranks.elastic.snapshot import JobView
from allranks_operator.reconcilers.elastic_job import ElasticJobReconciler
from tests.unit.operator.parts import JOBS_PATH, PLANS_PATH, Parts, creation_answer, job, turn

if TYPE_CHECKING:
    from allranks_operator.kube.client import Api
    from tests.unit.operator.fakes import FakeServer

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=30)
    | st.sampled_from(["worker", "ps", "1Gi", "-1", "9" * 400, "\x00", "a" * 300, "../x", "1e999"])
)
_ODD = st.recursive(
    _SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=6) | st.sampled_from(["name", "spec"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
_CONTAINER = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("name", "image", "resources", "env", "ports", "command", "volumeMounts"), _ODD
    ),
)
_TEMPLATE = _ODD | st.fixed_dictionaries(
    {},
    optional={
        "metadata": _ODD
        | st.fixed_dictionaries({}, optional={"labels": _ODD, "annotations": _ODD}),
        "spec": _ODD
        | st.fixed_dictionaries(
            {},
            optional={
                "containers": _ODD | st.lists(_ODD | _CONTAINER, max_size=2),
                "initContainers": _ODD,
                "volumes": _ODD,
                "restartPolicy": _ODD,
                "securityContext": _ODD,
            },
        ),
    },
)
_REPLICAS = _ODD | st.fixed_dictionaries(
    {},
    optional={
        "replicas": _ODD,
        "minReplicas": _ODD,
        "maxReplicas": _ODD,
        "restartCount": _ODD,
        "autoScale": _ODD,
        "template": _TEMPLATE,
    },
)
_KINDS = st.sampled_from(["worker", "ps", "chief", names.EDL_MASTER, "", "A b"])
_SPEC = _ODD | st.fixed_dictionaries(
    {},
    optional={
        "distributionStrategy": _ODD | st.just("ParameterServerStrategy"),
        "optimizeMode": _ODD,
        "suspend": _ODD,
        "resourceLimits": _ODD,
        "replicaSpecs": _ODD | st.dictionaries(_KINDS, _REPLICAS, max_size=3),
        "envs": _ODD,
    },
)
_STATUS = _ODD | st.fixed_dictionaries(
    {},
    optional={
        key: _ODD | st.dictionaries(_KINDS, _ODD, max_size=2)
        for key in (
            "target",
            "phase",
            "conditions",
            "observedReplicas",
            "observedGeneration",
            "replicaStatuses",
            "master",
            "status",
        )
    },
)
_PLAN = _ODD | st.fixed_dictionaries(
    {"ownerJob": st.just("j")},
    optional={
        key: _ODD | st.dictionaries(_KINDS, _ODD, max_size=2) | st.lists(_ODD, max_size=2)
        for key in (
            "replicaResourceSpecs",
            "createPods",
            "removePods",
            "migratePods",
            "psHosts",
            "manualScaling",
        )
    },
)


def hostile(spec: Any, status: Any, annotations: dict[str, str]) -> dict[str, Any]:
    """The job, as a cluster would have it: its metadata is the API server's."""
    manifest = job()
    manifest["metadata"]["annotations"] = annotations
    return {**manifest, "spec": spec, "status": status}


def plan(spec: Any, status: Any) -> dict[str, Any]:
    """A plan for it."""
    metadata = {
        "name": "p",
        "namespace": "lab",
        "uid": "u-p",
        "resourceVersion": "6",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {names.SCALE_TYPE: "manual", names.EDL_NAME: "j"},
    }
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


_ANNOTATIONS = st.dictionaries(
    st.sampled_from([names.MASTER, names.RELAUNCH]), st.text(max_size=20), max_size=2
)


@settings(max_examples=150, deadline=None)
@given(spec=_SPEC, status=_STATUS, annotations=_ANNOTATIONS, plan_spec=_PLAN, planned=_STATUS)
def test_a_decision_takes_whatever_is_written(
    spec: Any, status: Any, annotations: dict[str, str], plan_spec: Any, planned: Any
) -> None:
    """No exception, however wrong its types; and no more than some actions."""
    view = JobView(
        job=hostile(spec, status, annotations),
        plans=(plan(plan_spec, planned),),
        now=1_800_000_000.0,
        master_image="i",
    )
    start = time.process_time()
    decision = decide(view)
    assert len(decision.then) < 2_500
    assert time.process_time() - start < 20


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(spec=_SPEC, status=_STATUS, annotations=_ANNOTATIONS)
def test_what_is_decided_is_carried_out(
    server: FakeServer, api: Api, spec: Any, status: Any, annotations: dict[str, str]
) -> None:
    """By the executor: each request can be sent, and its answer be taken."""
    parts = Parts(server, api)
    services = "/api/v1/namespaces/lab/services"
    for path in (services, PLANS_PATH):
        server.routes["POST", path] = lambda _, body: {**body, **creation_answer(body)}
    server.routes["PATCH", f"{JOBS_PATH}/j/status"] = lambda _, body: {
        **hostile(spec, body["status"], annotations)
    }
    parts.give(hostile(spec, status, annotations))
    looks = ElasticJobReconciler(
        api, parts.cache, parts.queue, parts.executor, parts.metrics, master_image="i"
    )
    looks.reconcile(turn())
    parts.executor.close()


@pytest.mark.parametrize("count", [10_000, 2**53, "9" * 4_000])
def test_absurd_counts_are_no_work(count: Any) -> None:
    """A job that asks for more than the bounds gets a bounded look."""
    specs = {"worker": {"replicas": count, "template": {"spec": {"containers": [{"name": "m"}]}}}}
    start = time.process_time()
    annotations = {names.MASTER: "external"}
    decision = decide(JobView(job=hostile({"replicaSpecs": specs}, {}, annotations), now=1e9))
    assert len(decision.then) < 2_500
    assert time.process_time() - start < 20
