"""What a team may do with the Role of its queue, on a real API server: enough, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.yamlio.load import load_all

from .program import Program, job, program
from .test_cli_refusals import grant
from .test_queue_cli import queue

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

COMMAND = ("--", "python", "train.py")
_FORBIDDEN = 403
# What the Role grants and the commands below do not use, by resource, with who does.
_OTHERS = {
    # Helm 4 applies what is not there yet; the server asks for the right all the same.
    "jobs": {"create"},
    "services": {"create"},
    # Helm 3.
    "secrets": {"patch"},
    # Workloads with claims, accounts, several roles or a network of their own.
    "persistentvolumeclaims": {"get", "create", "patch", "delete"},
    "serviceaccounts": {"get", "create", "patch", "delete"},
    "networkpolicies": {"get", "create", "patch", "delete"},
    "statefulsets": {"get", "watch", "create", "patch", "delete"},
    "deployments": {"get", "list", "create", "patch", "delete"},
    "elasticjobs": {"get", "watch", "create", "patch", "delete"},
    "scaleplans": {"get", "watch", "create", "patch", "delete"},
    "trainingruns": {"get", "watch", "create", "patch", "delete"},
    # A claim is filled through a pod, and a sync reaches each pod: on a real node alone.
    "pods": {"get", "create", "delete"},
    "pods/exec": {"create", "get"},
}
# Looked for where it may be seen; without it the commands go on.
_OPTIONAL = {("podgroups", "list"), ("rolebindings", "list"), ("roles", "list")}


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm4: Any, tmp_path: Path) -> Program:
    """The program, with helm 4, as an administrator."""
    return program(cluster, namespace, helm4, tmp_path)


@pytest.fixture(autouse=True)
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes run the pods."""
    make_nodes(2)


@pytest.fixture
def member(allranks: Program) -> Program:
    """The program as somebody of the team, who has no rights yet."""
    return allranks.as_guest()


def team_role(helm4: Any, repo: Path) -> dict[str, Any]:
    """The Role that the chart gives a team."""
    values = queue(team={"groups": ["research"]})
    text = helm4.render(repo / "charts/queue", values=values, name="h100")
    (role,) = (item for item in load_all(text) if item and item["kind"] == "Role")
    role["metadata"] = {"name": "team"}
    return dict(role)


def test_the_teams_role_is_enough_and_no_more(
    allranks: Program, member: Program, tmp_path: Path, helm4: Any, repo: Path
) -> None:
    """A team submits, watches, changes and deletes jobs with it; what it has besides is listed."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").write_text("print('training')\n", encoding="utf-8")
    allranks("queue", "install", "h100", values=queue())
    submit = ("submit", "demo", "--workspace", folder, "-q", "h100", "--detach")
    refusal = member(*submit, *COMMAND, code=1, values=job())
    assert "h100" in refusal
    role = team_role(helm4, repo)
    grant(allranks, role)
    before = allranks.cluster.audit.read()

    member(*submit, *COMMAND, values=job())
    assert "demo" in member("list")
    assert "Running" in member("status", "demo") or "Pending" in member("status", "demo")
    member("show", "demo", "--code", tmp_path / "ran")
    member("events", "demo")
    member("queue", "show", "h100")
    member("suspend", "demo")
    member("resume", "demo")
    member("wait", "demo", "--timeout", "1s", code=1)
    member("delete", "demo")
    member("submit", "done", "--workspace", folder, "-q", "h100", *COMMAND, values=job(ends="1s"))
    member("logs", "done", code=1)  # fake nodes keep none: the right is what is used
    member("delete", "done")
    assert [] == [*allranks.objects_of("demo"), *allranks.objects_of("done")]

    requests = {
        request
        for request in allranks.cluster.audit.read() - before
        if request.user == "guest" and request.namespace == allranks.namespace
    }
    refused = {(item.resource, item.verb) for item in requests if item.code == _FORBIDDEN}
    used_rights = {(item.resource, item.verb) for item in requests} - refused
    granted = {
        (resource, verb)
        for rule in role["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert refused == _OPTIONAL
    unused = granted - used_rights
    expected = {(resource, verb) for resource, verbs in _OTHERS.items() for verb in verbs}
    assert expected == unused
