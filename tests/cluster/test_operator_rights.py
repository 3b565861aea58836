"""The operator with exactly the rights that its chart grants: all of them used, none is missing.

Its process is the account of the chart's release, by a token of it; the API server's audit log says
what it asked for, and what it was refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from tests.kube import kwok
from tests.kube.api import ApiError
from tests.waiting import PATIENCE, until

from .operator_process import Zygote
from .watching import CLAIM, Lab, release_job, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = [pytest.mark.attack, pytest.mark.timeout(900)]

RELEASE, ACCOUNT = "allranks", "allranks-watcher"
FLAGS = ("--lease-name", ACCOUNT, "--master-image", "my/master:1", "--master-accounts")
_FORBIDDEN = 403
# Server-side apply of what is not there yet: one request, which needs two rights.
_APPLIED = {"trainingruns"}


@pytest.fixture
def lab(lab: Lab, helm4: Any, repo: Path, tmp_path: Path) -> Iterator[Lab]:
    """A namespace with the chart's release, whose operator is a process of the test's."""
    helm4.run(
        *("install", RELEASE, repo / "charts/operator", "--skip-crds"),
        *("--namespace", lab.namespace, "--kubeconfig", lab.cluster.kubeconfig),
        *("--set", "replicas=0", "--set", "podLogs=true"),
    )
    lab.zygote = Zygote(token_kubeconfig(lab, ACCOUNT, tmp_path))
    yield lab
    lab.zygote.close()


def token_of(lab: Lab, account: str, pod: str = "") -> str:
    """A token of an account; the one that a pod has, where one is named."""
    path = f"{lab.path('serviceaccounts', account)}/token"
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if pod:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod}
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": spec,
    }
    token: str = lab.cluster.api("POST", path, body)["status"]["token"]
    return token


def token_kubeconfig(lab: Lab, account: str, folder: Path) -> Path:
    """A kubeconfig with a token of an account."""
    token = token_of(lab, account)
    config = yaml.safe_load(lab.cluster.kubeconfig.read_text("utf-8"))
    config["users"] = [{"name": account, "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = account
    path = folder / f"{account}.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def masters_account(lab: Lab, job: str, seconds: float = PATIENCE) -> str:
    """The account that the operator has made for the master of a job, waited for so long."""
    uid = until(lambda: lab.get(names.ELASTIC_JOBS, job), f"job {job}")["metadata"]["uid"]
    account_name = f"elasticjob-{job}-dlrover-master-{uid[:8]}"
    until(lambda: lab.get("rolebindings", account_name), f"the rights of {account_name}", seconds)
    return account_name


def granted(lab: Lab, account: str) -> set[tuple[str, str]]:
    """What the Role of an account gives it, as (resource, verb).

    The audit log leaves Leases out; without the rights to its own the operator would not act.
    """
    result = set()
    role = lab.cluster.api("GET", lab.path("roles", account))
    for rule in role["rules"]:
        result |= {(plural, verb) for plural in rule["resources"] for verb in rule["verbs"]}
    return result


def run_master(lab: Lab, job: str, account: str, folder: Path) -> None:
    """Run the real master of a job to its end, as the account that the operator made for it."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "KUBECONFIG": str(token_kubeconfig(lab, account, folder)),
        names.ENV_NAMESPACE: lab.namespace,
        names.ENV_JOB: job,
        names.ENV_MASTER_PORT: "0",
    }
    master = subprocess.run(
        [sys.executable, "-m", "allranks_operator.master"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    assert 0 == master.returncode, master.stdout + master.stderr


def requests_of(lab: Lab, account: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """What an account has asked for in the namespace, and what of it was forbidden."""
    user = f"system:serviceaccount:{lab.namespace}:{account}"
    requests = [
        request for request in lab.cluster.audit.read() if request.user == user and request.resource
    ]
    refusals = {
        (request.resource, request.verb) for request in requests if request.code == _FORBIDDEN
    }
    return {(request.resource, request.verb) for request in requests}, refusals


def _runs(lab: Lab) -> None:
    """A run that ends well, one that fails, and one that stands still for every reason there is."""
    post = lab.cluster.api
    ends = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: "0"}
    fails = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: "3"}
    post("POST", lab.path("jobs"), release_job("good", pods=ends))
    post("POST", lab.path("jobs"), release_job("bad", pods=fails))
    post("POST", lab.path("persistentvolumeclaims"), CLAIM)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    for dialect in ("coscheduling", "kai", "volcano"):
        stuck = release_job(
            f"stuck-{dialect}",
            release="stuck",
            annotations={names.SCHEDULING: json.dumps({"dialect": dialect}, separators=(",", ":"))},
            labels={names.KUEUE_QUEUE: "research"},
            pod_spec={"volumes": volumes},
        )
        post("POST", lab.path("jobs"), stuck)
    until(lambda: lab.run("good").get("phase") == "Succeeded", "the good run's end")
    until(lambda: lab.run("bad").get("phase") == "Failed", "the bad run's end")
    until(lambda: lab.run("stuck").get("message"), "what the stuck run waits for")


def _elastic(lab: Lab) -> None:
    """An elastic job that is scaled by plans and by hand, and ends."""
    specs = {"worker": replicas(), "ps": replicas()}
    lab.job("edl", distributionStrategy="ParameterServerStrategy", specs=specs)
    lab.plan("edl", 0)  # asks for nothing, as masters do each minute, and is removed
    automatic = {"metadata": {"labels": {names.SCALE_TYPE: "auto"}}}
    _merge(lab, lab.path(names.SCALE_PLANS, "edl-plan-0"), automatic)
    lab.plan("edl", 1, worker=3, ps=1)
    lab.running("edl", 3, "worker")
    lab.plan("edl", 2, worker=1)
    lab.running("edl", 1, "worker")
    path = lab.path(names.ELASTIC_JOBS, "edl")
    _merge(lab, path, {"spec": {"replicaSpecs": {"worker": {"replicas": 2}}}})
    lab.running("edl", 2, "worker")
    _merge(lab, path, {"metadata": {"annotations": {names.MASTER_EXIT_CODE: "0"}}})
    until(lambda: lab.status("edl").get("phase") == "Succeeded", "the elastic job's end")
    until(lambda: lab.get(names.SCALE_PLANS, "edl-plan-0") is None, "the empty plan's removal")


def _merge(lab: Lab, path: str, body: dict[str, Any]) -> None:
    lab.cluster.admin.request("PATCH", path, body, content_type="application/merge-patch+json")


def test_the_operator_works_with_exactly_its_rights(lab: Lab) -> None:
    """Nothing that it does is forbidden, and there is no right that it does not use or pass on."""
    lab.watch(*FLAGS, "--pod-logs")
    # The pods of a master of ours have a token of their job's, and it has an account.
    lab.job("own", annotations={names.MASTER: "own"})
    _runs(lab)
    _elastic(lab)

    # Kubernetes lets nobody give a right that they do not have.
    rights = granted(lab, ACCOUNT) - granted(lab, masters_account(lab, "own"))

    def unused() -> set[tuple[str, str]]:
        requests = requests_of(lab, ACCOUNT)[0]
        return (
            rights
            - requests
            - {(resource, "create") for resource in _APPLIED if (resource, "patch") in requests}
        )

    until(lambda: not unused(), lambda: f"use of {sorted(unused())}")
    assert set() == requests_of(lab, ACCOUNT)[1]


def test_a_master_works_with_exactly_its_rights(lab: Lab, tmp_path: Path) -> None:
    """It reads its job, asks for workers, says why, and keeps what the job used."""
    lab.watch(*FLAGS)
    ends = {kwok.ENDS_AFTER: "1s", kwok.EXIT_CODE: "0"}
    own = {names.MASTER: "own"}
    lab.job("led", annotations=own, specs={"worker": replicas(2, annotations=ends)})
    account = masters_account(lab, "led")
    run_master(lab, "led", account, tmp_path)
    assert "history.json" in (lab.get("configmaps", "led-history") or {})["data"]
    used_rights, refusals = requests_of(lab, account)
    assert set() == refusals
    # A plan is only looked for by name where one of that name is there already.
    assert {("scaleplans", "get")} >= granted(lab, account) - used_rights


def test_a_masters_account_is_no_way_to_anything_else(lab: Lab) -> None:
    """Who names the image of a master has one history and one job, and nothing of others."""
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-history"}}
    lab.cluster.api("POST", lab.path("configmaps"), {**theirs, "data": {"secret": "plan"}})
    lab.watch(*FLAGS)
    for name in ("mine", "other", "taken"):
        lab.job(name, annotations={names.MASTER: "own"})
    users = {
        name: replace(lab.cluster.admin, token=token_of(lab, masters_account(lab, name)))
        for name in ("mine", "other", "taken")
    }

    def status(user: str, method: str, path: str, body: dict[str, Any] | None = None) -> int:
        """How a request of an account ends."""
        try:
            users[user].request(method, path, body, content_type="application/merge-patch+json")
        except ApiError as error:
            return error.status
        return HTTPStatus.OK

    change = {"data": {"history.json": "{}"}}
    own, root = lab.path("configmaps", "mine-history"), lab.path("configmaps", "kube-root-ca.crt")
    mine_history, other = (lab.path("configmaps", f"{name}-history") for name in ("taken", "other"))
    job = lab.path(names.ELASTIC_JOBS, "mine")
    assert {HTTPStatus.OK} == {status("mine", "GET", path) for path in (own, job)}
    assert HTTPStatus.OK == status("mine", "PATCH", own, change)
    # The name of a job is its author's choice: it makes no ConfigMap of somebody else's the job's.
    for user, path in (
        ("mine", other),
        ("mine", root),
        ("mine", mine_history),
        ("taken", mine_history),
    ):
        assert [_FORBIDDEN] * 2 == [status(user, "GET", path), status(user, "PATCH", path, change)]
    for path in (
        lab.path("configmaps"),
        lab.path("secrets"),
        lab.path(names.ELASTIC_JOBS, "other"),
    ):
        assert _FORBIDDEN == status("mine", "GET", path)
    assert "plan" == (lab.get("configmaps", "taken-history") or {})["data"]["secret"]
    until(lambda: "taken" in _jobs_with_event(lab, "NameTaken"), "an Event that names the job")


def _jobs_with_event(lab: Lab, reason: str) -> set[str]:
    return {event["involvedObject"]["name"] for event in lab.events(reason)}
