"""What happens to running jobs: lost pods, evictions, a pause, an uninstall. Training goes on."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import rank_of, until

if TYPE_CHECKING:
    from .conftest import Allranks, Lab

pytestmark = [pytest.mark.timeout(900)]

_SCRIPT = Path(__file__).with_name("steps.py").read_text(encoding="utf-8")


def _training(steps: int, pace: float = 0.2, hold: int = 0, **values: Any) -> dict[str, Any]:
    """Values of a job that trains in steps and saves each to a claim of its own.

    Where a step to hold at is given, training is still there however late a pod is taken away.
    """
    env = {"STEPS": steps, "PACE": pace, "HOLD": hold, "CHECKPOINTS": "/checkpoints"}
    return {
        "script": _SCRIPT,
        "env": {name: str(text) for name, text in env.items()},
        "storage": {"checkpoints": {"size": "64Mi"}},
        **values,
    }


def _lines(lab: Lab, release: str) -> list[dict[str, Any]]:
    """What rank 0 of the newest pod has said."""
    log = lab.log(lab.pod(release)["metadata"]["name"])
    return [json.loads(line) for line in log.splitlines() if line.startswith("{")]


def _final(lab: Lab, release: str) -> dict[str, Any]:
    (final,) = [line for line in _lines(lab, release) if "final" in line]
    return final


@pytest.mark.parametrize(("rank", "nodes"), [(0, 3), (2, 4)])
def test_elastic_goes_on_when_a_pod_is_lost(lab: Lab, rank: int, nodes: int) -> None:
    """Of 2 to 4 nodes one is lost in mid-training; the rest go on from the last step saved."""
    elastic = {
        "elastic": {"minNodes": 2, "maxNodes": nodes},
        "rdzvConf": {"last_call_timeout": "3"},
    }
    lab.install("lost", **_training(60, hold=5, torchrun=elastic))
    lab.line("lost", '"step": 5', seconds=120)
    victim = lab.pod("lost", rank)["metadata"]
    lab.delete("pods", victim["name"], grace=0)
    lab.completes("lost", seconds=180)
    lines = _lines(lab, "lost")
    final = _final(lab, "lost")
    assert final["began"] >= 5
    assert final["loss"] < 0.01
    assert {line["world"] for line in lines} <= {2, 3, 4}
    steps = [line["step"] for line in lines if "step" in line]
    assert 60 == steps[-1]
    # At most the step that was under way is trained twice.
    repeated = [again for step, again in itertools.pairwise(steps) if again <= step]
    assert len(repeated) <= 3


def test_an_evicted_pod_burns_no_retry(lab: Lab) -> None:
    """A job that may not retry at all survives the eviction of rank 0's pod, as in a drain.

    No spare takes its place, as it keeps the store where all meet: the others wait for it, the one
    that stands by too, and the job ends well with it.
    """
    policy = {"backoffLimit": 0}
    values = _training(20, hold=5, nodes=2, runPolicy=policy, torchrun={"spares": 1})
    lab.install("drained", **values)
    lab.line("drained", '"step": 5', seconds=120)
    first = lab.pod("drained", 0)["metadata"]
    lab.evict(first["name"])
    until(lambda: lab.pod("drained", 0)["metadata"]["uid"] != first["uid"], "its replacement")
    lab.completes("drained", seconds=180)
    assert _final(lab, "drained")["began"] >= 5
    assert 0 == lab.job("drained")["status"].get("failed", 0)


def test_a_slow_rank_is_named_and_a_spare_takes_the_place_of_its_pod(
    lab: Lab, allranks: Allranks
) -> None:
    """`status` and `top` name it by rank, pod, node and factor; its pod is evicted for that.

    The spare has its place before the pod is made again, and no retry is spent.
    """
    spares = {"spares": 1}
    values = _training(10_000, 0.1, nodes=2, runPolicy={"backoffLimit": 0}, torchrun=spares)
    values["env"]["SLOW"] = "1"
    lab.install("slow", **values)
    lab.line("slow", "standing by: all 2 places are taken", 2, seconds=120)
    pod = lab.pod("slow", 1)
    words = re.compile(
        rf"rank 1 \(pod {pod['metadata']['name']}, node {pod['spec']['nodeName']}\) takes "
        r"\S+ times as long as the others for a step: \S+ s"
    )
    for look in (("status", "slow"), ("top", "--once")):
        until(lambda look=look: words.search(allranks(*look)), lambda: lab.logs("slow"), 120)
    step = _lines(lab, "slow")[-1]["step"]
    lab.evict(pod["metadata"]["name"])
    lab.line("slow", "a place is free: this pod trains now", 2)
    until(lambda: _lines(lab, "slow")[-1]["began"] >= step, lambda: lab.logs("slow"), 120)
    assert 0 == lab.job("slow")["status"].get("failed", 0)


def test_containers_start_again_where_they_are(lab: Lab, allranks: Allranks) -> None:
    """With `restartsInPlace` a rank that is killed costs no pod and no retry.

    All pods stay, each with one restart of its container, and train on from the last step.
    """
    own = {"restartsInPlace": 2, "maxRestarts": 0}
    values = _training(20, hold=5, nodes=2, runPolicy={"backoffLimit": 0}, torchrun=own)
    lab.install("inplace", **values)
    lab.line("inplace", '"step": 5', seconds=120)
    before = {pod["metadata"]["uid"] for pod in lab.pods("inplace")}
    victim = lab.pod("inplace", 1)["metadata"]["name"]
    lab.inside(victim, "sh", "-c", "kill -9 $(pgrep -o -f -- '-u /etc/allranks/script')")
    lab.line("inplace", '"began": 5', seconds=120)
    words = allranks("status", "inplace", "-o", "json")
    assert {1} == {pod["restarts"] for pod in json.loads(words)["pods"]}
    assert before == {pod["metadata"]["uid"] for pod in lab.pods("inplace")}
    lab.completes("inplace", seconds=180)
    after = {pod["metadata"]["uid"] for pod in lab.pods("inplace")}
    assert after <= before  # what still runs as rank 0's pod ends is ended, and goes
    assert 0 == lab.job("inplace")["status"].get("failed", 0)


_GREEDY = """
import os, pathlib
tried = pathlib.Path(os.environ["CHECKPOINTS"]) / "tried"
if not tried.exists():
    tried.touch()
    memory = bytearray(4 << 30)
    for page in range(0, len(memory), 4096):
        memory[page] = 1
print("went on", flush=True)
"""


def test_a_container_without_memory_starts_again_where_it_is(lab: Lab) -> None:
    """The kernel kills all of it, also the launcher, which counts that as it starts again."""
    lab.install(
        "greedy",
        script=_GREEDY,
        env={"CHECKPOINTS": "/checkpoints"},
        storage={"checkpoints": {"size": "64Mi"}},
        resources={"perPod": {"limits": {"memory": "1Gi"}}},
        runPolicy={"backoffLimit": 0},
        torchrun={"restartsInPlace": 1, "maxRestarts": 0},
    )
    lab.completes("greedy", seconds=180)
    (pod,) = lab.pods("greedy")
    (container,) = pod["status"]["containerStatuses"]
    assert 1 == container["restartCount"]
    assert "went on" in lab.log(pod["metadata"]["name"])


# Ends at once when it is told to, and needs no framework.
_LIGHT = {
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "command": ["sh", "-c", "trap 'exit 143' TERM; echo up; sleep 900 & wait"],
                "args": [],
            }
        ]
    }
}


@pytest.mark.parametrize("way", ["evicted", "deleted"])
def test_many_pods_lost_at_once_are_made_again_at_once(lab: Lab, way: str) -> None:
    """Each pod has a back-off of its own: a rack that is lost is back when one pod would be.

    With one back-off for the Job nothing came for ten minutes. Of deleted pods each costs a retry,
    and only its own.
    """
    policy = {"backoffLimit": 0 if way == "evicted" else 1}
    lab.install("rack", nodes=16, podTemplate=_LIGHT, script="pass\n", runPolicy=policy)
    until(lambda: 16 == lab.job("rack")["status"].get("ready"), "16 pods", 300)
    victims = [pod["metadata"]["name"] for pod in lab.pods("rack") if rank_of(pod) < 14]
    for name in victims:
        if way == "evicted":
            lab.evict(name)
        else:
            lab.delete("pods", name)

    def replaced() -> bool:
        pods = [pod for pod in lab.pods("rack") if pod["metadata"]["name"] not in victims]
        return set(range(16)) == {rank_of(pod) for pod in pods}

    until(replaced, lambda: f"all pods again\n{lab.job('rack')['status']}", 60)
    # A failed pod is counted when its successor is there, which takes over how often it failed.
    failed = 0 if way == "evicted" else 14
    until(lambda: failed == lab.job("rack")["status"].get("failed", 0), "the failures' count")


def test_training_goes_on_when_most_nodes_are_lost_at_once(lab: Lab) -> None:
    """Two of three nodes go, rank 0's too; with one retry each they go on from the last step.

    One is evicted and one deleted; each has a back-off of its own.
    """
    policy = {"backoffLimit": 1}
    lab.install("most", **_training(20, hold=5, nodes=3, runPolicy=policy))
    lab.line("most", '"step": 5', seconds=240)
    for rank in range(2):
        name = lab.pod("most", rank)["metadata"]["name"]
        if rank % 2:
            lab.evict(name)
        else:
            lab.delete("pods", name)
    lab.completes("most", seconds=300)
    assert _final(lab, "most")["began"] >= 5


def test_a_job_is_suspended_and_resumed(lab: Lab) -> None:
    """Suspending takes the pods away; resuming trains what is left."""
    values = _training(20, hold=5, nodes=2)
    lab.install("paused", **values)
    lab.line("paused", '"step": 5', seconds=120)
    lab.upgrade("paused", **values, runPolicy={"suspend": True})
    until(lambda: not lab.pods("paused"), lambda: f"no pods\n{lab.logs('paused')}")
    conditions = {
        condition["type"]: condition["status"]
        for condition in lab.job("paused")["status"]["conditions"]
    }
    assert "True" == conditions["Suspended"]
    lab.upgrade("paused", **values, runPolicy={"suspend": False})
    lab.completes("paused", seconds=120)
    assert _final(lab, "paused")["began"] >= 5


def test_checkpoints_outlive_the_release(lab: Lab) -> None:
    """Uninstalling keeps the claim of the checkpoints; the same name installed again goes on."""
    lab.install("kept", **_training(5, nodes=1))
    lab.completes("kept", seconds=90)
    process = lab.run_helm("uninstall", "kept", "--wait")
    assert "kept-checkpoints" in process.stdout + process.stderr
    until(lambda: not lab.pods("kept"), "the pods to go")
    claim = lab.get("persistentvolumeclaims", "kept-checkpoints")
    assert claim is not None
    assert "Bound" == claim["status"]["phase"]
    lab.install("kept", **_training(8, nodes=1))
    lab.completes("kept", seconds=90)
    assert 5 == _final(lab, "kept")["began"]


def test_a_volume_goes_with_a_claim_that_is_not_kept(lab: Lab) -> None:
    """A claim that the values do not keep goes with the release, and its volume with it."""
    checkpoints = {"size": "64Mi", "keep": False}
    lab.install("gone", **_training(2, nodes=1, storage={"checkpoints": checkpoints}))
    lab.completes("gone", seconds=90)
    claim = lab.get("persistentvolumeclaims", "gone-checkpoints")
    assert claim is not None
    volume = f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"
    folder = Path(lab.cluster.api("GET", volume)["spec"]["local"]["path"])
    assert (folder / "state.pt").is_file()
    lab.run_helm("uninstall", "gone", "--wait")
    until(lambda: not folder.exists(), "the volume to go")
