"""The watcher with exactly the rights that its chart grants: all of them are used, none is missing.

Its process is the account of the chart's release, by a token of it; the API server's audit log says
what it asked for, and what it was refused.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from tests.kube import kwok

from .waiting import until
from .watchers import Zygote
from .watching import Lab, release_job, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = pytest.mark.timeout(900)

RELEASE, ACCOUNT = "allranks", "allranks-watcher"
_FORBIDDEN = 403
# Server-side apply of what is not there yet: one request, which needs two rights.
_APPLIED = {"trainingruns"}


@pytest.fixture
def lab(lab: Lab, helm4: Any, repo: Path, tmp_path: Path) -> Iterator[Lab]:
    """A namespace with the chart's release, whose watcher is a process of the test's."""
    helm4.run(
        *("install", RELEASE, repo / "charts/operator", "--skip-crds"),
        *("--namespace", lab.namespace, "--kubeconfig", lab.cluster.kubeconfig),
        *("--set", "replicas=0", "--set", "podLogs=true"),
    )
    lab.zygote = Zygote(token_kubeconfig(lab, ACCOUNT, tmp_path))
    yield lab
    lab.zygote.close()


def token_kubeconfig(lab: Lab, account: str, folder: Path) -> Path:
    """A kubeconfig with a token of an account, as its pods have one."""
    path = f"{lab.path('serviceaccounts', account)}/token"
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    token = lab.cluster.api("POST", path, body)["status"]["token"]
    config = yaml.safe_load(lab.cluster.kubeconfig.read_text("utf-8"))
    config["users"] = [{"name": account, "user": {"token": token}}]
    config["contexts"][0]["context"]["user"] = account
    made = folder / f"{account}.kubeconfig"
    made.write_text(json.dumps(config))
    return made


def granted(lab: Lab, account: str) -> set[tuple[str, str]]:
    """What the Role of an account gives it, as (resource, verb).

    The audit log leaves Leases out; without the rights to its own the watcher would not act.
    """
    root = "/apis/rbac.authorization.k8s.io/v1"
    found = set()
    role = lab.cluster.api("GET", f"{root}/namespaces/{lab.namespace}/roles/{account}")
    for rule in role["rules"]:
        found |= {(plural, verb) for plural in rule["resources"] for verb in rule["verbs"]}
    return found


def asked(lab: Lab, account: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """What an account has asked for in the namespace, and what of it was forbidden."""
    user = f"system:serviceaccount:{lab.namespace}:{account}"
    requests = [one for one in lab.cluster.audit.read() if one.user == user and one.resource]
    refused = {(one.resource, one.verb) for one in requests if one.code == _FORBIDDEN}
    return {(one.resource, one.verb) for one in requests}, refused


def _runs(lab: Lab) -> None:
    """A run that ends well, one that fails, and one that stands still for every reason there is."""
    post = lab.cluster.api
    ends = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: "0"}
    fails = {kwok.ENDS_AFTER: "100ms", kwok.EXIT_CODE: "3"}
    post("POST", lab.path("jobs"), release_job("good", pods=ends))
    post("POST", lab.path("jobs"), release_job("bad", pods=fails))
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    post("POST", lab.path("persistentvolumeclaims"), claim)
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


def test_the_watcher_works_with_exactly_its_rights(lab: Lab) -> None:
    """Nothing that it does is forbidden, and there is no right that it has no use for."""
    lab.watch("--lease-name", ACCOUNT, "--pod-logs", "--master-image", "my/master:1")
    # The pods of a master of ours have a token of their job's.
    lab.job("own", annotations={names.MASTER: "own"})
    _runs(lab)
    _elastic(lab)

    rights = granted(lab, ACCOUNT)

    def unused() -> set[tuple[str, str]]:
        found = asked(lab, ACCOUNT)[0]
        return rights - found - {(one, "create") for one in _APPLIED if (one, "patch") in found}

    until(lambda: not unused(), lambda: f"use of {sorted(unused())}")
    assert set() == asked(lab, ACCOUNT)[1]


def test_a_master_works_with_exactly_its_rights(lab: Lab, tmp_path: Path) -> None:
    """It reads its job, asks for workers, says why, and keeps what the job used."""
    lab.watch("--lease-name", ACCOUNT)
    ends = {kwok.ENDS_AFTER: "1s", kwok.EXIT_CODE: "0"}
    lab.job("led", specs={"worker": replicas(2, annotations=ends)})
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "KUBECONFIG": str(token_kubeconfig(lab, names.MASTER_ACCOUNT, tmp_path)),
        names.ENV_NAMESPACE: lab.namespace,
        names.ENV_JOB: "led",
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
    assert lab.get("configmaps", "led-history") is not None
    used, refused = asked(lab, names.MASTER_ACCOUNT)
    assert set() == refused
    # A plan is only looked for by name where one of that name is there already.
    assert {("scaleplans", "get")} >= granted(lab, names.MASTER_ACCOUNT) - used
