"""What goes wrong around the operator, and what becomes of its jobs: all that the plans asked for.

Each fault is a real one: the process is killed, the lease is stolen, a quota is used up, a second
program writes the same objects. Faults of the control plane itself are in test_operator_outages.py.
"""

from __future__ import annotations

import json
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.amounts import amount
from tests.kube.api import ApiError
from tests.waiting import until

from . import ledger, watching
from .watching import Lab, replicas

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .ledger import Ledger
    from .operator_process import Zygote

pytestmark = pytest.mark.timeout(900)

KILLS, WORLDS, SEED = amount(200, ci=60), 4, 20_260_711
PER_WORLD = KILLS // WORLDS
PLANS = amount(999, ci=249)
_EARLY = 0.3  # of the kills may come before the first action


# ---------------------------------------------------------------- the process is killed


def _plans(dice: random.Random) -> list[tuple[str, dict[str, Any]]]:
    """Five plans over two jobs; the last of each says all its counts."""
    spare = {"name": "b-edljob-worker-90", "id": 90, "type": "worker", "rankIndex": 9}
    return [
        ("a", {"worker": dice.randint(4, 8)}),
        ("b", {"ps": 2, "worker": dice.randint(2, 5), "createPods": [spare]}),
        ("a", {"worker": dice.randint(0, 3)}),
        ("b", {"ps": dice.randint(2, 3), "worker": dice.randint(1, 6)}),
        ("a", {"worker": dice.randint(5, 9)}),
    ]


def _kill_again_and_again(lab: Lab, seed: int) -> dict[str, int]:
    """Make plans, and kill the operator at random instants all the while.

    Returns:
        How many instants were before its first action, and how many after.
    """
    dice = random.Random(seed)  # noqa: S311 - the same instants in every run
    plans = _plans(dice)
    lab.job("a")
    specs = {"worker": replicas(), "ps": replicas()}
    lab.job("b", specs=specs, distributionStrategy="ParameterServerStrategy")
    instants = {"early": 0, "at work": 0}
    for number in range(PER_WORLD):
        if number % (PER_WORLD // len(plans)) == 0:
            job, counts_of_plan = plans[number // (PER_WORLD // len(plans))]
            lab.plan(job, number, **counts_of_plan)
        early = dice.random() < _EARLY
        operator = lab.watch(acts=not early)
        time.sleep(dice.uniform(0.0, 0.3))  # the instant is the point
        operator.kill()
        instants["at work" if operator.log_lines("acting") else "early"] += 1
    lab.watch()
    for job in ("a", "b"):
        counts_of_plan = [counts for name, counts in plans if name == job][-1]
        for kind, count in counts_of_plan.items():
            lab.running(job, count, kind)
    return instants


def test_killed_again_and_again_it_loses_and_repeats_nothing(
    elastic_cluster: Cluster, zygote: Zygote, tmp_path: Path
) -> None:
    """Twenty plans over eight jobs: the pods are those of the plans, and none was made twice."""

    def world(number: int) -> tuple[Lab, Ledger, dict[str, int]]:
        folder = tmp_path / str(number)
        folder.mkdir()
        with (
            watching.laboratory(elastic_cluster, zygote, folder) as lab,
            ledger.note(lab) as ledger_of_world,
        ):
            instants = _kill_again_and_again(lab, SEED + number)
            _all_plans_are_done(lab)
        return lab, ledger_of_world, instants

    with ThreadPoolExecutor(WORLDS) as pool:
        worlds = list(pool.map(world, range(WORLDS)))
    for lab, ledger_of_world, _ in worlds:
        assert [] == ledger_of_world.twice
        # Of a request whose sender was killed the log does not say that it was taken.
        assert 0 < lab.created() <= ledger_of_world.count
    assert KILLS == sum(sum(instants.values()) for _, _, instants in worlds)
    # Most of the kills are to hit it at work, not before.
    assert KILLS // 2 < sum(instants["at work"] for _, _, instants in worlds)


def _all_plans_are_done(lab: Lab) -> None:
    def phases_are_final() -> bool:
        plans = lab.cluster.items(lab.path(names.SCALE_PLANS))
        phases = {(plan.get("status") or {}).get("phase") for plan in plans}
        unapplied = [lab.status(job).get("target", {}).get("applied") for job in ("a", "b")]
        return phases <= {"Succeeded", "Superseded"} and not any(unapplied)

    until(phases_are_final, "the end of every plan")


# ---------------------------------------------------------------- others write, and lead


def test_a_second_writer_is_no_harm(lab: Lab) -> None:
    """Somebody writes the job's status all the time: each commit is over what was read."""
    operator = lab.watch()
    lab.job("j")
    over = threading.Event()

    def write() -> None:
        path = lab.path(names.ELASTIC_JOBS, "j") + "/status"
        for number in range(100_000):
            if over.is_set():
                return
            with suppress(ApiError):
                lab.cluster.api("PATCH", path, {"status": {"somebody": number}})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number, count in enumerate((6, 2, 9)):
            lab.plan("j", number, worker=count)
            lab.running("j", count)
    finally:
        over.set()
        writer.join()
    assert lab.status("j")["somebody"] > 0
    ids = {int(name.rpartition("-")[2]) for name in lab.names("j")}
    assert 9 == len(ids)
    assert lab.created() == max(ids) + 1, "an id was given twice, or left out"
    operator.sound()


# Long enough for a renewal that comes late, of the operator's or of the thief's.
_LEASE = 10


@contextmanager
def _thief(lab: Lab, skew: float) -> Iterator[None]:
    """Another operator takes the lease by force and renews it, with a clock that is wrong."""
    over = threading.Event()
    path = lab.path("leases", names.OPERATOR_MANAGER)

    def hold() -> None:
        while True:
            now = datetime.now(UTC) + timedelta(seconds=skew)
            spec = {
                "holderIdentity": "thief",
                "leaseDurationSeconds": _LEASE,
                "renewTime": now.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            }
            lab.cluster.api("PATCH", path, {"spec": spec})
            if over.wait(0.5):
                return

    thief = threading.Thread(target=hold)
    thief.start()
    try:
        yield
    finally:
        over.set()
        thief.join()


def test_without_the_lease_nothing_is_done(
    elastic_cluster: Cluster, zygote: Zygote, tmp_path: Path
) -> None:
    """It stands by while another renews, and takes over when that stops, by its own clock alone.

    The other's clock may be right, ahead or behind: one operator for each, at the same time.
    """

    def stands_by(skew: float) -> None:
        folder = tmp_path / str(skew)
        folder.mkdir()
        with watching.laboratory(elastic_cluster, zygote, folder) as lab:
            operator = lab.watch("--lease-seconds", str(_LEASE))
            lab.job("j")
            lab.plan("j", 0, worker=2)
            lab.running("j", 2)
            with _thief(lab, skew):
                until(lambda: operator.log_lines("lost the lease; standing by"), "the loss")
                times = len(operator.log_lines("acting"))
                lab.plan("j", 1, worker=4)
                # Longer than the lease: it is renewed, whatever the time in it says.
                time.sleep(_LEASE + 0.5)
                assert ["j-edljob-worker-0", "j-edljob-worker-1"] == lab.names("j")
                assert times == len(operator.log_lines("acting"))
            lab.running("j", 4)

    skews = (0.0, 60.0, -60.0)
    with ThreadPoolExecutor(len(skews)) as pool:
        list(pool.map(stands_by, skews))


# ---------------------------------------------------------------- plans that make no sense


def test_plans_that_make_no_sense_are_refused(
    lab: Lab, elastic_cluster: Cluster, zygote: Zygote, tmp_path: Path
) -> None:
    """For no job, for one of another namespace, with absurd numbers: each says why."""
    with watching.laboratory(elastic_cluster, zygote, tmp_path / "..") as other:
        lab.watch("--namespace", other.namespace)
        far = other.job("far")
        lab.job("j")
        owner = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.ELASTIC_JOB,
            "name": "far",
            "uid": far["metadata"]["uid"],
        }
        lab.plan("nobody", 0, worker=3)
        lab.plan("nobody", 1, worker=3, ownerJob="")
        body = lab.plan("far", 0, worker=3)
        with suppress(ApiError):
            # The garbage collector may be faster: an owner in another namespace is none at all.
            changed = {"metadata": {"ownerReferences": [owner]}}
            lab.cluster.api("PATCH", lab.path(names.SCALE_PLANS, body["metadata"]["name"]), changed)
        for number, count in enumerate((-1, 100_001, 2**53, 2**63 - 1)):
            lab.plan("j", number, worker=count)
            name = f"j-plan-{number}"
            until(lambda name=name: lab.phase_of_plan(name) == "Failed", f"{name}'s refusal")
        lab.plan("j", "sane", worker=2)
        lab.running("j", 2)
        for plan_name in ("nobody-plan-0", "nobody-plan-1"):
            until(lambda name=plan_name: lab.phase_of_plan(name) == "Failed", "the refusal", 45)
        until(lambda: lab.phase_of_plan("far-plan-0") in {"Failed", ""}, "the refusal")
        assert [] == other.names()
        assert [] == lab.names("far")
    reasons = {event["message"].partition(":")[0] for event in lab.events("PlanFailed")}
    assert {"Invalid", "NoSuchJob"} <= reasons


def test_a_plan_as_large_as_the_server_takes(lab: Lab) -> None:
    """5 MiB are refused by the server; a million bytes are read, done, and harm nobody."""
    lab.watch()
    lab.job("j")

    def absent(count: int) -> list[dict[str, Any]]:
        return [{"name": f"j-edljob-worker-{index:09}", "type": "worker"} for index in range(count)]

    with pytest.raises((ApiError, OSError)):
        lab.plan("j", "huge", worker=1, removePods=absent(95_000))
    entries = absent(22_000)
    assert len(json.dumps(entries)) > 1_200_000
    lab.plan("j", 0, worker=2, removePods=entries)
    lab.running("j", 2)
    until(lambda: lab.phase_of_plan("j-plan-0") == "Succeeded", "the large plan's end")
    lab.plan("j", 1, worker=3)
    lab.running("j", 3)


def test_many_plans_at_once(lab: Lab) -> None:
    """The newest counts; the others are done or superseded, and few of them are kept."""
    operator = lab.watch()
    lab.job("j")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: lab.plan("j", number, worker=number % 5), range(PLANS)))
    until(lambda: datetime.now(UTC).timestamp() > _newest(lab) + 1, "another second on the clock")
    lab.plan("j", PLANS, worker=7)
    lab.running("j", 7)
    until(lambda: len(lab.cluster.items(lab.path(names.SCALE_PLANS))) <= 10, "the old plans' end")
    until(lambda: lab.phase_of_plan(f"j-plan-{PLANS}") == "Succeeded", "the newest plan's end")
    operator.sound()


def _newest(lab: Lab) -> float:
    plans = lab.cluster.items(lab.path(names.SCALE_PLANS))
    times = [plan["metadata"]["creationTimestamp"] for plan in plans]
    return max((datetime.fromisoformat(time).timestamp() for time in times), default=0.0)


# ---------------------------------------------------------------- pods that do not go, or come


def test_a_pod_that_does_not_end_holds_up_nobody(lab: Lab) -> None:
    """One stuck Terminating: it is asked once or twice, the others go, and new ones come."""
    # KWOK takes the finalizers of the pods of its nodes away: these get no node.
    spec = replicas()
    spec["template"]["spec"]["nodeSelector"] = {"bench.allranks.dev/nodes": "nowhere"}
    lab.watch()
    lab.job("j", specs={"worker": spec})
    lab.plan("j", 0, worker=3)
    until(lambda: len(lab.names("j")) == 3, "three pods")
    stuck = lab.path("pods", "j-edljob-worker-2")
    lab.cluster.api("PATCH", stuck, {"metadata": {"finalizers": ["bench.allranks.dev/stay"]}})
    lab.plan("j", 1, worker=1)
    until(lambda: lab.names("j") == ["j-edljob-worker-0"], "the end of the others")
    lab.plan("j", 2, worker=4)
    until(lambda: len(lab.names("j")) == 4, "the new ones")
    assert "deletionTimestamp" in lab.cluster.api("GET", stuck)["metadata"]
    times = lab.cluster.audit.times(verb="delete", resource="pods", namespace=lab.namespace)
    assert len(times) < 10
    lab.cluster.api("PATCH", stuck, {"metadata": {"finalizers": None}})
    until(lambda: lab.get("pods", "j-edljob-worker-2") is None, "its end")
    assert 4 == len(lab.names("j"))


def test_a_quota_half_way(lab: Lab) -> None:
    """It says so, does not hammer the server, and goes on when there is room."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "5"}},
    }
    lab.cluster.api("POST", lab.path("resourcequotas"), quota)
    until(
        lambda: (lab.get("resourcequotas", "few") or {}).get("status", {}).get("hard"), "the quota"
    )
    lab.watch()
    lab.job("j")
    lab.plan("j", 0, worker=100)
    lab.running("j", 5)
    event = until(lambda: lab.events("FailedCreate"), "the Event")[0]
    assert "exceeded quota" in event["message"]

    def reason() -> str:
        job = lab.get("elasticjobs", "j") or {}
        reasons = {
            condition["type"]: condition["reason"] for condition in job["status"]["conditions"]
        }
        return str(reasons["Ready"])

    until(lambda: reason() == "QuotaExceeded", "the job to say so")
    refusals = [
        count
        for request, count in lab.cluster.audit.read().items()
        if (request.verb, request.resource, request.namespace) == ("create", "pods", lab.namespace)
        and request.code == 403
    ]
    assert sum(refusals) < 100, "the pods beyond the quota are not all tried"
    lab.cluster.api("PATCH", lab.path("resourcequotas", "few"), {"spec": {"hard": {"pods": "200"}}})
    lab.running("j", 100)
    until(lambda: lab.phase_of_plan("j-plan-0") == "Succeeded", "the plan's end")
    assert lab.events("PodsCreated")
