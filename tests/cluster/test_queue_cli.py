"""A team's queue from the command line, on a real API server."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.helm import releases
from tests.waiting import until

from .program import Program, helm4_alone, job, program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .conftest import MakeNodes

pytestmark = pytest.mark.timeout(900)

JOBS, MAPS = "batch/v1/jobs", "v1/configmaps"
CLAIMS = "v1/persistentvolumeclaims"
ROLES = "rbac.authorization.k8s.io/v1/roles"


@pytest.fixture
def allranks(cluster: Cluster, namespace: str, helm: Any, tmp_path: Path) -> Program:
    """The program, with each major of helm."""
    return program(cluster, namespace, helm, tmp_path)


@pytest.fixture(autouse=True)
def _nodes(make_nodes: MakeNodes) -> None:
    """Two fake nodes run the pods."""
    make_nodes(2)


def queue(**values: Any) -> dict[str, Any]:
    """Values of a queue; its policy, which is the whole cluster's, is tested elsewhere."""
    return {
        "defaults": {"runPolicy": {"ttlSecondsAfterFinished": 600}},
        "rules": {"maxNodesPerJob": 2},
        "imposed": {"scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
        "policy": {"enabled": False},
        **values,
    }


def revision(allranks: Program) -> str:
    """The revision that the demo's Job says."""
    annotations: dict[str, str] = allranks.get(JOBS, "demo")["metadata"]["annotations"]
    return annotations[names.QUEUE_REVISION]


def test_a_queue_from_its_install_to_its_end(allranks: Program) -> None:
    """Installed, listed, shown, brought to new values, and removed.

    Its claims stay, and are those of the next queue of the name.
    """
    values = queue(storage={"datasets": {"size": "1Gi"}})
    first = allranks.json("queue", "install", "h100", values=values)
    assert first["previous"] is None
    queue_data = allranks.json("queue", "show", "h100")
    assert (first["revision"], 2, 0, []) == (
        queue_data["revision"],
        queue_data["rules"]["maxNodesPerJob"],
        queue_data["gpus"]["used"],
        queue_data["waiting"],
    )
    assert "linux" in allranks("queue", "show", "h100")
    values["rules"] = {"maxNodesPerJob": 3}
    second = allranks.json("queue", "install", "h100", values=values)
    assert first["revision"] == second["previous"] != second["revision"]
    assert [("h100", second["revision"])] == [
        (item["name"], item["revision"]) for item in allranks.json("queue", "list")
    ]
    gone = allranks.json("queue", "delete", "h100")
    assert 1 == len(gone["kept"])
    assert gone["kept"] == [
        f"persistentvolumeclaim/{item['metadata']['name']}" for item in allranks.items(CLAIMS)
    ]
    assert "there are no queues" in allranks("queue", "list")
    assert "there is no namespace 'Nowhere'" in allranks("queue", "list", "-n", "Nowhere", code=2)
    (before,) = allranks.items(CLAIMS)
    values["policy"] = {"enabled": True}
    allranks("queue", "install", "h100", values=values)
    (claim,) = allranks.items(CLAIMS)
    assert before["metadata"]["uid"] == claim["metadata"]["uid"]
    assert "deletionTimestamp" not in claim["metadata"]
    assert (
        "queue h100 holds every job of namespace "
        f"{allranks.namespace}, also those of queue a100: give h100 policy.otherQueues: [a100]"
    ) in " ".join(allranks("queue", "install", "a100", values=queue()).split())
    allranks("queue", "delete", "h100")  # and its policies, which are of the whole cluster


def test_a_job_keeps_the_queue_that_it_was_made_with(allranks: Program) -> None:
    """A changed queue touches nothing; an upgrade takes what is recorded, with -q the present."""
    old = allranks.json("queue", "install", "h100", values=queue())["revision"]
    allranks("run", "demo", "-q", "h100", "--detach", values=job())
    job_object = allranks.get(JOBS, "demo")
    assert ("h100", old, 600) == (
        job_object["metadata"]["labels"][names.QUEUE],
        revision(allranks),
        job_object["spec"]["ttlSecondsAfterFinished"],
    )
    assert "linux" == job_object["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/os"]
    changed = queue(defaults={"runPolicy": {"ttlSecondsAfterFinished": 900}})
    new = allranks.json("queue", "install", "h100", values=changed)["revision"]
    assert job_object["metadata"]["resourceVersion"] == (
        allranks.get(JOBS, "demo")["metadata"]["resourceVersion"]
    ) or old == revision(allranks)
    allranks("upgrade", "demo", values=job())
    assert (old, 600) == (
        revision(allranks),
        allranks.get(JOBS, "demo")["spec"]["ttlSecondsAfterFinished"],
    )
    allranks("upgrade", "demo", "-q", "h100", values=job())
    after = allranks.get(JOBS, "demo")
    assert (new, 900, job_object["metadata"]["uid"]) == (
        revision(allranks),
        after["spec"]["ttlSecondsAfterFinished"],
        after["metadata"]["uid"],
    )


@helm4_alone
def test_a_queue_that_runs_use_stays(allranks: Program) -> None:
    """Its removal is refused with the names of the runs; --force leaves them as they are."""
    allranks("queue", "install", "h100", values=queue())
    allranks("run", "demo", "-q", "h100", "--detach", values=job())
    queue_data = allranks.json("queue", "show", "h100")
    assert ["demo"] == [run["name"] for run in (*queue_data["running"], *queue_data["waiting"])]
    output = allranks("queue", "delete", "h100", code=2)
    assert "1 run of queue h100 goes on: demo" in output
    uid = allranks.get(JOBS, "demo")["metadata"]["uid"]
    assert ["demo"] == allranks.json("queue", "delete", "h100", "--force")["runs"]
    assert uid == allranks.get(JOBS, "demo")["metadata"]["uid"]


def test_a_member_deletes_no_queue_and_an_administrator_what_is_left(allranks: Program) -> None:
    """The missing rights are named; plain helm removes a half, and the rest goes with the queue.

    The member is whom the kubeconfig impersonates, for helm and for us.
    """
    user = f"system:serviceaccount:{allranks.namespace}:default"
    allranks("queue", "install", "h100", values=queue(team={"serviceAccounts": ["default"]}))
    config = json.loads(allranks.cluster.kubeconfig.read_text(encoding="utf-8"))
    for entry in config["users"]:
        entry["user"]["as"] = user
    path = allranks.home / "member.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    path.chmod(0o600)
    member = replace(allranks, kubeconfig=path)
    attributes = {"namespace": allranks.namespace, "verb": "get", "resource": "configmaps"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": user, "resourceAttributes": attributes},
    }
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    until(
        lambda: allranks.cluster.api("POST", reviews, review)["status"]["allowed"],
        "the team's rights",
    )
    output = member("queue", "delete", "h100", "--force", code=1)
    assert "delete roles.rbac.authorization.k8s.io in namespace" in output
    assert "nothing was deleted" in output
    assert ["h100"] == [item["name"] for item in allranks.json("queue", "list")]
    process = subprocess.run(
        [allranks.helm, "uninstall", "h100", "-n", allranks.namespace],
        env=member.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    # Helm 4 calls this a success; `allranks.helm.releases` knows it by this sentence.
    assert process.returncode or releases.REMAINDER_HEADING in process.stdout
    assert [] == allranks.json("queue", "list")
    assert ["allranks-queue-h100"] == [item["metadata"]["name"] for item in allranks.items(ROLES)]
    output = allranks("queue", "delete", "h100")
    assert "only a part is left" in output
    assert "deleted queue h100" in output
    assert [] == allranks.items(ROLES)


@helm4_alone
def test_a_job_that_breaks_a_rule_is_not_sent(allranks: Program) -> None:
    """The rule, the value and the fix; an unknown queue names the nearest."""
    allranks("queue", "install", "h100", values=queue())
    output = allranks("run", "demo", "-q", "h100", "--detach", code=2, values=job(nodes=3))
    assert (
        "nodes: 3 nodes are more than the 2 that queue h100 allows (rules.maxNodesPerJob)" in output
    )
    assert [] == allranks.items(JOBS)
    assert "did you mean 'h100'?" in allranks(
        "run", "demo", "-q", "h10", "--detach", code=2, values=job()
    )
    assert "1 rule" in allranks("queue", "check", "-q", "h100", code=2, values=job(nodes=3))
    assert "takes the job" in allranks("queue", "check", "-q", "h100", values=job())


@helm4_alone
def test_who_may_not_read_the_queue_is_told_the_right(allranks: Program) -> None:
    """The ConfigMap, the right to ask for, and --queue-file."""
    allranks("queue", "install", "h100", values=queue())
    guest = allranks.as_guest()
    output = guest("run", "demo", "-q", "h100", "--detach", code=1, values=job())
    assert "queue h100 is the ConfigMap allranks-queue-h100" in output
    assert "--queue-file" in output
