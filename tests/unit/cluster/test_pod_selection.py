"""Which rank of a run a pod is."""

from __future__ import annotations

from typing import Any

import pytest

from allranks import names
from allranks.cluster import pod_selection
from allranks.cluster.pod_selection import PodRanks, RankIdentity
from allranks.model.rank_lines import LineSelection

INDEX = "batch.kubernetes.io/job-completion-index"


def pod(fake: Any, role: str, index: str, owner: str = "", name: str = "p") -> Any:
    """A pod of a controller."""
    owners = [{"kind": "Job", "name": owner}] if owner else []
    metadata = {"ownerReferences": owners, "creationTimestamp": name}
    return fake.manifest("Pod", name, role=role, labels={INDEX: index}, metadata=metadata)


@pytest.mark.parametrize(
    ("role", "rank", "expected"),
    [
        ("node", 0, "0"),
        ("launcher", 0, "launcher"),
        ("worker", 3, "worker-3"),
        ("worker", None, "worker--"),
        ("", None, "-"),
    ],
)
def test_a_rank_is_shown_as_in_local_runs(role: str, rank: int | None, expected: str) -> None:
    """Plain nodes by their number alone; other roles by their name."""
    assert expected == str(RankIdentity(role, rank))


def test_ranks_go_on_from_one_controller_to_the_next(fake: Any) -> None:
    """The partial last worker follows the full ones."""
    objects = [
        fake.manifest("Job", "demo-worker-last", role="worker", spec={"completions": 1}),
        fake.manifest("Job", "demo-worker", role="worker", spec={"completions": 2}),
    ]
    for manifest in objects:
        manifest["spec"]["template"] = {"metadata": {"labels": manifest["metadata"]["labels"]}}
    ranks = PodRanks(objects)
    assert 2 == ranks.identity(pod(fake, "worker", "0", "demo-worker-last")).rank
    assert 1 == ranks.identity(pod(fake, "worker", "1", "demo-worker")).rank


def test_the_leading_pod_is_the_launcher_or_rank_0(fake: Any) -> None:
    """Whose log tells how the training goes."""
    zero, second = pod(fake, "node", "0"), pod(fake, "node", "1")
    launcher = pod(fake, "launcher", "0")
    ranks = PodRanks(())
    assert [zero] == ranks.leading([second, zero])
    assert [launcher] == ranks.leading([pod(fake, "worker", "0"), launcher])


def test_pods_are_chosen_in_order(fake: Any) -> None:
    """By rank and age, and only those that were asked for."""
    pods = [pod(fake, "worker", "10"), pod(fake, "worker", "2", name="b")]
    pods.append(pod(fake, "worker", "2", name="a"))
    ranks = PodRanks(())
    selection = ranks.choose(pods, LineSelection(role="worker"))
    assert ["a", "b", "p"] == [item["metadata"]["name"] for item in selection]
    assert [] == ranks.choose(pods, LineSelection(rank=1))


def test_the_container_that_trains(fake: Any) -> None:
    """Ours by its name, else the first; it has a log once it has started."""
    spec = {"containers": [{"name": "proxy"}, {"name": "trainer"}]}
    assert "trainer" == pod_selection.main_container(fake.manifest("Pod", "p", spec=spec))
    other = fake.manifest("Pod", "p", spec={"containers": [{"name": "x"}]})
    assert "x" == pod_selection.main_container(other)
    other["status"] = {"containerStatuses": [{"name": "x", "state": {"waiting": {}}}]}
    assert not pod_selection.has_started(other)
    other["status"]["containerStatuses"][0]["lastState"] = {"terminated": {}}
    assert pod_selection.has_started(other)
    assert not pod_selection.is_running(other)


def test_pods_of_elastic_jobs_say_their_rank_themselves(fake: Any) -> None:
    """A replaced pod has another id and the same rank; its role is a label of DLRover's or ours."""
    labels = {names.EDL_RANK: "1", names.EDL_TYPE: "worker"}
    manifest = fake.manifest("Pod", "demo-edljob-worker-7", role="worker", labels=labels)
    assert RankIdentity("worker", 1) == PodRanks(()).identity(manifest)
    del manifest["metadata"]["labels"][names.ROLE]
    assert RankIdentity("worker", 1) == PodRanks(()).identity(manifest)


def test_no_parameter_servers_log_leads(fake: Any) -> None:
    """The chief's tells how the training goes, else the first worker's."""
    ps, worker = pod(fake, "ps", "0"), pod(fake, "worker", "0")
    chief = pod(fake, "chief", "0")
    ranks = PodRanks(())
    assert [worker] == ranks.leading([ps, worker, pod(fake, "worker", "1")])
    assert [chief] == ranks.leading([ps, worker, chief])
    assert [ps] == ranks.leading([ps])
