"""What the author of an elastic job gets of the operator's own account, and of a master's."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from allranks import names
from tests.kube import kwok
from tests.kube.api import ApiError
from tests.waiting import until

from .operator_process import Zygote
from .test_operator_rights import (
    ACCOUNT,
    FLAGS,
    RELEASE,
    masters_account,
    requests_of,
    run_master,
    token_kubeconfig,
    token_of,
)
from .watching import replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .watching import Lab

pytestmark = [pytest.mark.timeout(600), pytest.mark.attack]

_MASTER = names.EDL_MASTER


@pytest.fixture
def lab(lab: Lab, helm4: Any, repo: Path, tmp_path: Path) -> Iterator[Lab]:
    """A namespace with the chart's release, whose operator is a process of the test's own."""
    helm4.run(
        *("install", RELEASE, repo / "charts/operator", "--skip-crds"),
        *("--namespace", lab.namespace, "--kubeconfig", lab.cluster.kubeconfig),
        *("--set", "replicas=0", "--set", "rbac.aggregate=false"),
    )
    lab.zygote = Zygote(token_kubeconfig(lab, ACCOUNT, tmp_path))
    yield lab
    lab.zygote.close()


def _running_as(account: str, field: str = "serviceAccountName", **fields: Any) -> dict[str, Any]:
    """A replica spec whose pods are to have a token of an account."""
    specs = copy.deepcopy(replicas())
    token = {"serviceAccountToken": {"path": "token"}}
    volume = {"name": "token", "projected": {"sources": [token]}}
    specs["template"]["spec"] |= {field: account, "volumes": [volume], **fields}
    return specs


def _accounts(lab: Lab) -> set[str]:
    return {pod["spec"]["serviceAccountName"] for pod in lab.pods()}


def test_no_pod_of_a_job_runs_as_the_operator(lab: Lab) -> None:
    """Neither trainer nor master, by no name of the field: an Event names it, and others train."""
    lab.job("thief", specs={"worker": _running_as(ACCOUNT)})
    lab.job("older", specs={"worker": _running_as(ACCOUNT, "serviceAccount")})
    lab.job(
        "led",
        specs={"worker": replicas(), _MASTER: _running_as(ACCOUNT)},
        annotations={names.MASTER: "own"},
    )
    lab.job("honest", specs={"worker": _running_as("default")})
    for job in ("thief", "older", "honest"):
        lab.plan(job, 1, worker=2)
    lab.watch(*FLAGS, "--operator-account", ACCOUNT, "--operator-namespace", lab.namespace)
    lab.running("honest", 2)

    def messages_by_job() -> dict[str, str]:
        """The messages of the Events, by job."""
        events = lab.events("PodWithheld")
        return {event["involvedObject"]["name"]: event["message"] for event in events}

    until(
        lambda: messages_by_job().keys() == {"thief", "older", "led"},
        "an Event on each of the three",
    )
    for job, field in (
        ("thief", "worker.template.spec.serviceAccountName"),
        ("older", "worker.template.spec.serviceAccount"),
        ("led", f"{_MASTER}.template.spec.serviceAccountName"),
    ):
        assert f"spec.replicaSpecs.{field} is {ACCOUNT!r}" in messages_by_job()[job]
    # Another job's pods are made afterwards, and none of these was as much as asked for.
    lab.plan("honest", 2, worker=3)
    lab.running("honest", 3)
    assert ({"default"}, 3) == (_accounts(lab), lab.created())
    assert 3 == len(lab.events("PodWithheld"))
    path = lab.path(names.ELASTIC_JOBS, "thief")
    spec = {"spec": {"replicaSpecs": {"worker": _running_as("default")}}}
    lab.cluster.admin.request("PATCH", path, spec, content_type="application/merge-patch+json")
    lab.running("thief", 2)


# --- a master's account -----------------------------------------------------------------------


@pytest.fixture
def bounded(lab: Lab, helm4: Any, repo: Path) -> Iterator[Lab]:
    """The same, whose API server holds masters to their own jobs."""
    there = ("--namespace", lab.namespace, "--kubeconfig", lab.cluster.kubeconfig)
    helm4.run(
        *("upgrade", RELEASE, repo / "charts/operator", "--reuse-values", *there),
        *("--set", "master.admissionPolicy=true"),
    )
    yield lab
    helm4.run("uninstall", RELEASE, *there)


def _plan(job: str, name: str, **fields: Any) -> dict[str, Any]:
    """A plan as our master makes it."""
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {
            "name": name,
            "labels": {names.EDL_NAME: job, names.SCALE_TYPE: "auto"},
            "ownerReferences": [
                {
                    "apiVersion": names.ELASTIC_API_VERSION,
                    "kind": names.ELASTIC_JOB,
                    "name": job,
                    "uid": "0",
                }
            ],
            **fields,
        },
        "spec": {"ownerJob": job, "replicaResourceSpecs": {"worker": {"replicas": 1}}},
    }


def _event(lab: Lab, kind: str, name: str) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": lab.namespace}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "told."},
        "involvedObject": about,
        "reason": "Told",
        "message": "it ended",
        "type": "Normal",
    }


class _Master:
    """Requests with the token of an account."""

    def __init__(self, lab: Lab, account: str, pod: str = "") -> None:
        self._lab, self._user = lab, replace(lab.cluster.admin, token=token_of(lab, account, pod))

    def create(self, plural: str, body: dict[str, Any]) -> str:
        """Why it is refused; "" where it is not."""
        try:
            self._user.request("POST", self._lab.path(plural), body)
        except ApiError as error:
            return str(error)
        return ""

    def plan(self, *of: str, **fields: Any) -> str:
        """Make a plan."""
        return self.create(names.SCALE_PLANS, _plan(*of, **fields))

    def tell(self, kind: str, name: str) -> str:
        """Make an Event."""
        return self.create("events", _event(self._lab, kind, name))

    def wait(self) -> None:
        """Until the API server goes by its new policies, a moment after they are made."""
        for tell in (
            lambda: self.plan("another", "another-plan-0"),
            lambda: self.tell(names.ELASTIC_JOB, "another"),
        ):
            until(lambda tell=tell: "the master of elastic job" in tell(), "the policies at work")


def test_a_master_speaks_of_its_own_job_alone(bounded: Lab) -> None:
    """A plan or an Event that another job would take for its own is refused, and it is said why."""
    lab = bounded
    lab.watch(*FLAGS)
    for name in ("mine", "mine-too"):
        lab.job(name, annotations={names.MASTER: "own"})
    master = _Master(lab, masters_account(lab, "mine"))
    master.wait()
    assert ("", "") == (master.plan("mine", "mine-plan-1"), master.tell(names.ELASTIC_JOB, "mine"))
    refusal = "the master of elastic job mine may write ScalePlans of that job alone"
    assert refusal in master.plan("mine-too", "mine-plan-2")
    # A label and an owner are as good as the field; another job's plan is no name for one of this.
    theirs = {"labels": {names.EDL_NAME_OLD: "mine-too"}}
    assert f"{refusal}, and this one is of mine-too" in master.plan("mine", "mine-plan-3", **theirs)
    owner = _plan("mine-too", "x")["metadata"]["ownerReferences"]
    assert refusal in master.plan("mine", "mine-plan-4", ownerReferences=owner)
    assert "which are called mine-plan-NUMBER" in master.plan("mine", "mine-too-plan-1")
    assert "may tell of ElasticJob mine" in master.tell(names.ELASTIC_JOB, "mine-too")
    assert "not of Job mine" in master.tell("Job", "mine")
    assert "not of Pod mine-too-edljob-worker-0" in master.tell("Pod", "mine-too-edljob-worker-0")
    assert "" == master.tell("Pod", "mine-edljob-worker-0")
    # People and the operator are no masters.
    other = _Master(lab, "default")
    assert "admission" not in other.plan("mine-too", "x")
    lab.plan("mine-too", 3, worker=1)


def test_an_older_masters_token_is_known_by_its_pod(bounded: Lab) -> None:
    """`allranks-master` is shared: a pod's token is its job's, one that no pod has is as it was."""
    lab = bounded
    specs = {"worker": replicas(), _MASTER: _running_as(names.MASTER_ACCOUNT)}
    lab.watch(*FLAGS)
    lab.job("old", specs=specs, annotations={names.MASTER: "own"})
    pod = f"elasticjob-old-{_MASTER}-0"
    until(lambda: pod in lab.names("old", _MASTER), "the master's pod")
    assert names.MASTER_ACCOUNT in _accounts(lab)
    master = _Master(lab, names.MASTER_ACCOUNT, pod)
    master.wait()
    assert "the master of elastic job old may" in master.plan("other", "old-plan-2")
    assert "" == master.plan("old", "old-plan-1")
    assert "" == _Master(lab, names.MASTER_ACCOUNT).plan("other", "other-plan-1")


def test_what_dlrovers_master_has_sent_is_let_through(bounded: Lab, repo: Path) -> None:
    """Its plans, as they were recorded, with a token of its pod, whatever its account is called."""
    lab = bounded
    text = (repo / "tests/data/elastic/parameter-server-auto.yaml").read_text("utf-8")
    plans = [
        document for document in yaml.safe_load_all(text) if document["kind"] == names.SCALE_PLAN
    ]
    lab.watch(*FLAGS)
    specs = {"worker": replicas(), _MASTER: _running_as(names.MASTER_ACCOUNT)}
    lab.job("jps", specs=specs, annotations={names.MASTER: "given"})
    pod = f"elasticjob-jps-{_MASTER}-0"
    until(lambda: pod in lab.names("jps", _MASTER), "the master's pod")
    master = _Master(lab, names.MASTER_ACCOUNT, pod)
    master.wait()
    for plan in plans:
        keys = ("name", "labels", "ownerReferences")
        metadata = {key: plan["metadata"][key] for key in keys}
        body = {**plan, "metadata": metadata}
        body.pop("status", None)
        assert "" == master.create(names.SCALE_PLANS, body)
    assert 4 == len(plans)


def test_the_real_master_is_let_through(bounded: Lab, tmp_path: Path) -> None:
    """All that it asks for on its way to the end of a job: plans, Events, its history."""
    lab = bounded
    lab.watch(*FLAGS)
    ends = {kwok.ENDS_AFTER: "1s", kwok.EXIT_CODE: "0"}
    workers = {"worker": replicas(2, annotations=ends)}
    lab.job("probe", annotations={names.MASTER: "own"})
    spoofed = _Master(lab, masters_account(lab, "probe"))
    spoofed.wait()
    lab.job("led", specs=workers, annotations={names.MASTER: "own"})
    account = masters_account(lab, "led")
    run_master(lab, "led", account, tmp_path)
    assert set() == requests_of(lab, account)[1]
    assert "Succeeded" == until(lambda: lab.phase_of_plan("led-plan-0"), "the first plan's phase")
    events = [
        event for event in lab.events() if event["source"].get("component") == names.MASTER_PROGRAM
    ]
    assert {"led"} == {event["involvedObject"]["name"] for event in events}
