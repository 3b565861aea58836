"""What the API server's refusals mean."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allranks.cluster import errors, paths
from allranks.cluster.errors import ApiRequest
from allranks.errors import (
    ForbiddenError,
    InputError,
    NotFoundError,
    RejectedError,
    RunError,
    ToolError,
)

CREATE = ApiRequest("create", paths.JOBS, "lab")


LACKING = (
    'jobs.batch is forbidden: User "eve" cannot create resource "jobs" in API group "batch" in the '
    'namespace "lab": no RBAC policy matched'
)


def api_error(status: int, message: str, **details: Any) -> Exception:
    """The error for an answer of the server's."""
    body = json.dumps({"message": message, "details": details})
    return errors.refusal("context c", CREATE, status, body, reason="reason")


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (api_error(403, "no"), ForbiddenError, "forbids to create jobs.batch in namespace lab: no"),
        (api_error(403, "no"), ForbiddenError, "Role with create on jobs.batch in namespace lab"),
        (api_error(403, LACKING), ForbiddenError, 'lab: user "eve" has no such right: no RBAC'),
        (api_error(403, LACKING.replace("create", "get")), ForbiddenError, "cannot get resource"),
        (api_error(403, "exceeded quota: q, requested: x=1"), RunError, "quota of namespace lab"),
        (api_error(404, "x", kind="namespaces", name="lab"), NotFoundError, "no namespace 'lab'"),
        (
            api_error(404, "x", kind="jobs", group="batch", name="d"),
            InputError,
            "no jobs.batch d in",
        ),
        (api_error(404, "the server could not find"), NotFoundError, "has no jobs.batch"),
        (api_error(401, "Unauthorized"), ToolError, "log in to the cluster again"),
        (api_error(500, "boom"), ToolError, "status 500: boom"),
        (
            api_error(403, "x because it is being terminated"),
            ForbiddenError,
            "wait until the namesp",
        ),
        (
            errors.untrusted_server("context c", OSError("bad certificate")),
            ToolError,
            "is not trusted",
        ),
    ],
)
def test_each_refusal_is_a_sentence_with_a_next_step(
    error: Exception, kind: type[Exception], says: str
) -> None:
    """The verb, the resource and the namespace are named where they matter."""
    assert isinstance(error, kind)
    assert says in str(error)


def test_each_class_is_what_a_program_and_the_exit_code_go_by() -> None:
    """The command line catches the kinds on the right, the operator those on the left."""
    kinds: dict[type[Exception], tuple[type[Exception], ...]] = {
        errors.NotFoundError: (InputError,),
        errors.ExistsError: (errors.ConflictError, ToolError),
        errors.ExpiredError: (ToolError,),
        errors.BusyError: (ToolError,),
        errors.QuotaError: (RunError,),
        errors.TerminatingError: (ForbiddenError,),
        errors.RefusedError: (ToolError,),
        ForbiddenError: (errors.RefusedError,),
        RejectedError: (errors.RefusedError,),
    }
    for kind, parents in kinds.items():
        assert issubclass(kind, errors.ApiError)
        for parent in parents:
            assert issubclass(kind, parent)
    codes = [NotFoundError("x").exit_code, ForbiddenError("x").exit_code]
    assert [2, 1] == codes


def test_a_right_that_may_not_be_granted_is_named() -> None:
    """It stands in braces, on the answer's last line, as a whole object would."""
    message = (
        'roles.rbac.authorization.k8s.io "x" is forbidden: user "u" is attempting to grant RBAC '
        'permissions not currently held:\n{APIGroups:[""], Resources:["events"], Verbs:["create"]}'
    )
    error = api_error(403, message)
    assert isinstance(error, ForbiddenError)
    assert "it grants rights that the user does not have: create events" in str(error)


def test_a_rejected_object_names_its_fields() -> None:
    """Without the whole objects that Kubernetes quotes."""
    cause = {"field": "spec.template", "message": 'Invalid value: {"a":{"b":1}}: is immutable'}
    error = api_error(422, "Job is invalid", causes=[cause])
    assert isinstance(error, RejectedError)
    assert (("spec.template", "Invalid value: …: is immutable"),) == error.causes


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        ({"apiVersion": "v1", "kind": "Pod"}, paths.PODS),
        ({"apiVersion": "batch/v1", "kind": "Job"}, paths.JOBS),
        ({"apiVersion": "apps/v1", "kind": "StatefulSet"}, paths.STATEFUL_SETS),
        (
            {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"},
            "apis/networking.k8s.io/v1/networkpolicies",
        ),
        (
            {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"},
            "apis/scheduling.k8s.io/v1/priorityclasses",
        ),
        ({"apiVersion": "gateway.io/v1", "kind": "Gateway"}, "apis/gateway.io/v1/gateways"),
    ],
)
def test_a_kind_is_found_without_asking(manifest: dict[str, str], expected: str) -> None:
    """The plural follows Kubernetes' own rule."""
    assert expected == paths.manifest_path(manifest)


def test_a_resource_is_named_as_kubectl_names_it() -> None:
    """Core resources by their plural, others with their group, parts with a slash."""
    assert "pods/log" == paths.kubectl_name(f"{paths.PODS}/log")
    assert "jobs.batch/status" == paths.kubectl_name(f"{paths.JOBS}/status")
    assert "jobs.batch" == paths.kubectl_name(paths.JOBS)
    assert "/apis/batch/v1/namespaces/lab/jobs" == paths.url(paths.JOBS, "lab")
    assert "/api/v1/pods" == paths.url(paths.PODS)
    assert "/version" == paths.url("version")
    assert "/apis/batch/v1" == paths.url("apis/batch", name="v1")
    log = ApiRequest("get", f"{paths.PODS}/log", "lab", "a")
    assert ("GET", "/api/v1/namespaces/lab/pods/a/log") == (log.method, log.url)
