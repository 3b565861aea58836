"""The operator without each of its rights in turn: it says which, and goes on when it is back.

Each right has a namespace, an account and an operator of its own, so all are waited for at once.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

from allranks import names
from tests import waiting
from tests.kube import kwok

from .test_operator_rights import masters_account, token_kubeconfig
from .watching import CLAIM, REPO, Lab, laboratory, release_job, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .operator_process import OperatorProcess, Zygote

pytestmark = [
    pytest.mark.attack,
    pytest.mark.timeout(1800),
    pytest.mark.xdist_group("operator-rights"),
]

ACCOUNT = "watcher"
MASTER = ("--master-image", "my/master:1", "--master-accounts", "--pod-logs")
_RBAC = "rbac.authorization.k8s.io"
_FORBIDDEN = 403
# A right that was missing for long is asked for again after five minutes at most.
_SECONDS = 120.0
# Rights that are only had to be given to masters: without one the Role cannot be made.
_PASSED_ON = {("configmaps", "get"), ("configmaps", "patch")}
_PASSED_ON |= {(plural, "get") for plural in (names.ELASTIC_JOBS, names.SCALE_PLANS)}
# Each look is a request, and forty operators share the cores with the API server.
until = partial(waiting.until, poll=0.25)
# So many refusals are no hot loop, and so many more each second: a look every few seconds, of each
# of some objects. One that does not wait asks hundreds of times.
_REFUSALS, _REFUSALS_PER_SECOND = 60, 10


class Right(NamedTuple):
    """A verb on a resource of a group."""

    group: str
    resource: str
    verb: str

    def __str__(self) -> str:
        """As it is read in the name of a test."""
        return f"{self.verb}-{self.resource.replace('/', '.')}-{self.group or 'core'}"

    @property
    def failing_request(self) -> tuple[str, str]:
        """The resource and the verb of the request that fails without it."""
        if (self.resource, self.verb) in _PASSED_ON:
            return "roles", "create"
        # Server-side apply of what is not there yet is a patch that needs both.
        if (self.resource, self.verb) == (names.TRAINING_RUNS, "create"):
            return self.resource, "patch"
        return self.resource, self.verb

    @property
    def rule(self) -> dict[str, list[str]]:
        """As a Role says it."""
        return {"apiGroups": [self.group], "resources": [self.resource], "verbs": [self.verb]}


def _rights() -> list[Right]:
    """All that the operator's template grants, whatever the values are."""
    text = (REPO / "charts/operator/templates/_rules.tpl").read_text(encoding="utf-8")
    start = text.index('{{- define "operator.rules.watched" -}}')
    body = text[start : text.index("{{- end -}}", start)]
    rules = yaml.safe_load(re.sub(r"^\{\{.*\n", "", body, flags=re.MULTILINE))
    return [
        Right(group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


RIGHTS = _rights()


@dataclass(slots=True)
class Case:
    """An operator that lacks one right.

    Attributes:
        right: the right.
        lab: its namespace.
        kubeconfig: its account's.
        operator: its process.
        started: when, in seconds of a clock that only goes forward.
    """

    right: Right
    lab: Lab
    kubeconfig: Path
    operator: OperatorProcess | None = None
    started: float = 0.0

    def give(self, rights: list[Right]) -> None:
        """Let the account do this, and nothing else."""
        lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
        rules = [*(right.rule for right in rights), {**lease, "verbs": ["get", "create", "update"]}]
        self.lab.cluster.admin.request(
            "PATCH",
            self.lab.path("roles", ACCOUNT),
            {"rules": rules},
            content_type="application/merge-patch+json",
        )

    def answers(self, resource: str, verb: str, *, refused: bool) -> int:
        """How many requests of the operator's account were forbidden, or were not.

        One that is let through may fail all the same: a fake node has no logs.
        """
        user = f"system:serviceaccount:{self.lab.namespace}:{ACCOUNT}"
        return sum(
            count
            for request, count in self.lab.cluster.audit.read().items()
            if (request.user, request.resource, request.verb) == (user, resource, verb)
            and refused == (request.code == _FORBIDDEN)
        )

    @property
    def log(self) -> str:
        """All that the operator gives as reasons in its log."""
        assert self.operator is not None
        return "\n".join(str(line.get("why", "")) for line in self.operator.lines())

    def state_of(self, run: str) -> str:
        """A run's status, its Job's, its pods' phases, and the operator's last reasons."""
        job = self.lab.get("jobs", run)
        pods = self.lab.cluster.items(self.lab.path("pods"))
        phases = {
            pod["metadata"]["name"]: pod["status"].get("phase")
            for pod in pods
            if pod["metadata"]["name"].startswith(run)
        }
        status = None if job is None else job.get("status")
        words = f"the end of {run}: {self.lab.run(run)}\nJob: {status}\npods: {phases}"
        return f"{words}\nlog: {self.log[-2000:]}"

    def is_named(self) -> bool:
        """Whether the log says which right it is."""
        group = f".{self.right.group}" if self.right.group else ""
        resource, slash, part = self.right.resource.partition("/")
        forbids = f"forbids to {self.right.verb} {resource}{group}{slash}{part}"
        withheld = f"does not have: {self.right.verb} {self.right.resource}{group}"
        # Where the request's verb is another, the server's own words are kept.
        cannot = f'cannot {self.right.verb} resource "{self.right.resource}" in API group'
        log = self.log
        return any(words in log for words in (forbids, withheld, cannot))


def _account(lab: Lab) -> None:
    """Make the account, which may do nothing yet."""
    post = lab.cluster.api
    head = {"metadata": {"name": ACCOUNT}}
    post(
        "POST", lab.path("serviceaccounts"), {"apiVersion": "v1", "kind": "ServiceAccount", **head}
    )
    post(
        "POST",
        lab.path("roles"),
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", **head, "rules": []},
    )
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        **head,
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": ACCOUNT},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": lab.namespace}],
    }
    post("POST", lab.path("rolebindings"), binding)


def _before(lab: Lab) -> None:
    """An elastic job of three pods, from which pods and Services can be taken away, and a claim."""
    lab.cluster.api("POST", lab.path("persistentvolumeclaims"), CLAIM)
    specs = {"worker": replicas(), "ps": replicas()}
    lab.job("edl", distributionStrategy="ParameterServerStrategy", specs=specs)
    lab.plan("edl", 1, worker=2, ps=1)


def _work(lab: Lab, name: str) -> None:
    """What needs every right: runs that end, fail and stand still, a job with a master of ours."""
    post = lab.cluster.api
    for end, code in (("good", "0"), ("bad", "3")):
        ends = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: code}
        post("POST", lab.path("jobs"), release_job(f"{name}-{end}", count=1, pods=ends))
    for dialect in ("coscheduling", "kai", "volcano"):
        stuck = release_job(
            f"{name}-{dialect}",
            count=1,
            release=f"{name}-stuck",
            annotations={names.SCHEDULING: json.dumps({"dialect": dialect}, separators=(",", ":"))},
            labels={names.KUEUE_QUEUE: "research"},
            pod_spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]},
        )
        post("POST", lab.path("jobs"), stuck)
    lab.job(f"{name}-own", annotations={names.MASTER: "own"})


def _change(lab: Lab) -> None:
    """A plan that takes a worker away, one that asks for nothing, and a count by hand."""
    lab.plan("edl", 2, worker=1)
    lab.plan("edl", 0)
    merge = "application/merge-patch+json"
    path = lab.path(names.SCALE_PLANS, "edl-plan-0")
    label = {"metadata": {"labels": {names.SCALE_TYPE: "auto"}}}
    lab.cluster.admin.request("PATCH", path, label, content_type=merge)
    spec = {"spec": {"replicaSpecs": {"ps": {"replicas": 2}}}}
    path = lab.path(names.ELASTIC_JOBS, "edl")
    lab.cluster.admin.request("PATCH", path, spec, content_type=merge)


@pytest.fixture(scope="module")
def cases(
    elastic_cluster: Cluster, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Right, Case]]:
    """Every right with its operator, which starts without it, and is at work."""
    with ExitStack() as stack:
        cases: dict[Right, Case] = {}
        for right in RIGHTS:
            folder = tmp_path_factory.mktemp("case")
            lab = stack.enter_context(laboratory(elastic_cluster, zygote, folder))
            _account(lab)
            cases[right] = Case(right, lab, token_kubeconfig(lab, ACCOUNT, folder))
            _before(lab)
        every = [case.lab for case in cases.values()]
        first = every[0].watch(
            *("--namespace", ",".join(lab.namespace for lab in every)),
            *("--lease-name", "setup"),
        )
        for lab in every:
            lab.running("edl", 3, seconds=_SECONDS)
        first.stop()
        for right, case in cases.items():
            case.give([right_left for right_left in RIGHTS if right_left != right])
            case.started = time.monotonic()
            flags = (*MASTER, "--kubeconfig", str(case.kubeconfig))
            case.operator = case.lab.watch(*flags, acts=False)
            _work(case.lab, "first")
            _change(case.lab)
        yield cases


@pytest.fixture(scope="module")
def mended(cases: dict[Right, Case]) -> dict[Right, Case]:
    """The same, each given its right back after it was refused."""
    for case in cases.values():
        until(
            lambda case=case: case.answers(*case.right.failing_request, refused=True),
            f"{case.right}",
        )
    for case in cases.values():
        case.give(RIGHTS)
        _work(case.lab, "second")
    return cases


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_a_right_that_is_missing_is_named(cases: dict[Right, Case], right: Right) -> None:
    """The operator goes on, and asks again from time to time; its log has verb and resource."""
    case = cases[right]
    operator = case.operator
    assert operator is not None
    until(
        lambda: case.answers(*right.failing_request, refused=True), f"a refusal for want of {right}"
    )
    until(case.is_named, lambda: f"{right} in the log; it has: {case.log[-2000:]}")
    assert operator.process.alive
    connection = http.client.HTTPConnection("127.0.0.1", operator.port, timeout=60)
    connection.request("GET", "/healthz")
    assert 200 == connection.getresponse().status
    connection.close()
    refusals = case.answers(*right.failing_request, refused=True)
    passed = time.monotonic() - case.started
    assert refusals < _REFUSALS + _REFUSALS_PER_SECOND * passed


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_a_right_that_is_back_is_used(mended: dict[Right, Case], right: Right) -> None:
    """Nothing has to be started again, and all that was asked for meanwhile is done."""
    case, lab = mended[right], mended[right].lab
    if (right.resource, right.verb) not in _PASSED_ON:
        request = right.failing_request
        until(lambda: case.answers(*request, refused=False), f"use of {right}", _SECONDS)
    until(lambda: len(lab.pods("edl", "worker")) == 1, "one worker", _SECONDS)
    lab.running("edl", 2, "ps", _SECONDS)
    for name in ("first", "second"):
        run = f"{name}-good"
        until(
            lambda run=run: lab.run(run).get("phase") == "Succeeded",
            partial(case.state_of, run),
            _SECONDS,
        )
        masters_account(lab, f"{name}-own", _SECONDS)
    assert case.operator is not None
    case.operator.sound()


def test_these_are_all_of_the_operators_rights(helm4: Any) -> None:
    """The chart grants no other."""
    rendered_chart = helm4.run(
        "template", "x", REPO / "charts/operator", "--set", "podLogs=true"
    ).stdout
    role = next(
        document
        for document in yaml.safe_load_all(rendered_chart)
        if document and document["kind"] == "Role" and document["metadata"]["name"] == "x-watcher"
    )
    rendered = {
        Right(group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert set(RIGHTS) == rendered
