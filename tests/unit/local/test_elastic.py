"""An elastic job on one machine: objects, places and the folder, without a process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks import atomic, names
from allranks.elastic.actions import RecordEvent
from allranks.errors import InputError, RunError
from allranks.local.elastic import objects, preflight
from allranks.local.elastic.network import NetworkAddresses, RoleRank, place_of
from allranks.local.elastic.shared_folder import SharedFolder
from allranks.local.host.addresses import Block
from allranks.local.plan.expand import Ownership, PodIdentity, expand, pod_plan
from allranks.local.plan.model import Restart, ServicePlan
from allranks.local.plan.rewrite import Names
from allranks.local.pod import gpus

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Manifests

_BLOCK = Block(4000, 1)


def elastic_job(**spec: Any) -> dict[str, Any]:
    """An ElasticJob of workers."""
    template = {"spec": {"containers": [{"name": "trainer", "command": ["true"]}]}}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {"name": "j"},
        "spec": {"replicaSpecs": {"worker": {"template": template}}, **spec},
    }


# ---------------------------------------------------------------- objects


def test_an_object_has_what_the_api_server_adds() -> None:
    """A uid, a time, a generation; an edit of the spec is a new one, a status is not."""
    new_job = objects.complete(elastic_job(), "lab", "u1", 1.5)
    assert {
        "name": "j",
        "namespace": "lab",
        "uid": "u1",
        "creationTimestamp": "1970-01-01T00:00:01.500Z",
        "generation": 1,
        "resourceVersion": "1",
    } == new_job["metadata"]
    running_job = objects.with_status(new_job, {"phase": "Running"})
    assert ("Running", 1, "2") == _read(running_job)
    edited = objects.with_spec(running_job, suspend=True)
    assert ("Running", 2, "3") == _read(edited)
    assert edited["spec"]["suspend"] is True
    assert ("", 1, "1") == _read(new_job)


def _read(document: dict[str, Any]) -> tuple[str, int, str]:
    metadata = document["metadata"]
    phase = document.get("status", {}).get("phase", "")
    return phase, metadata["generation"], metadata["resourceVersion"]


# ---------------------------------------------------------------- places


def service(name: str, kind: str, rank: int | None, port: int = 2222) -> ServicePlan:
    """A Service on a rank; of a master it names none."""
    selector = {names.EDL_NAME: "j", names.EDL_TYPE: kind}
    if rank is not None:
        selector[names.EDL_RANK] = str(rank)
    return ServicePlan(name, headless=True, selector=selector, ports=(("job", port),))


def test_a_replacement_has_the_address_of_what_it_replaces() -> None:
    """Names are written into processes at their start, so that an address outlives its pod."""
    places = NetworkAddresses(_BLOCK)
    worker = RoleRank("worker", 1)
    first = places.settle("j-worker-1", worker, [])
    other = places.settle("j-worker-0", RoleRank("worker", 0), ["j-worker-1"])
    assert first != other
    assert first == places.settle("j-worker-2", worker, ["j-worker-0"])
    # One that takes over while the other still runs has its own, and keeps it.
    moved = places.settle("j-worker-3", worker, ["j-worker-0", "j-worker-2"])
    assert moved not in {first, other}
    assert moved == places.settle("j-worker-4", worker, ["j-worker-0"])


def test_addresses_come_back_and_end() -> None:
    """An address is given again when its place is another's, and all of them in use is said."""
    places = NetworkAddresses(_BLOCK)
    living = [f"p{rank}" for rank in range(_BLOCK.size)]
    addresses = [
        places.settle(name, RoleRank("worker", rank), living) for rank, name in enumerate(living)
    ]
    assert len(set(addresses)) == _BLOCK.size
    with pytest.raises(RunError, match="no address left"):
        places.settle("one-more", RoleRank("worker", 1000), living)


def test_services_lead_to_places() -> None:
    """A Service's names lead to its rank, before and after a pod has it, with a port of its own."""
    places = NetworkAddresses(_BLOCK)
    places.serve(service("j-ps-0", "ps", 0))
    places.serve(service("j-ps-1", "ps", 1))
    places.serve(service("j-master", names.EDL_MASTER, None, 50001))
    text = "j-ps-0.lab.svc:2222,j-ps-1.lab.svc:2222 j-master:50001 other:1"
    before = places.names(Names({"other": "127.1.1.1"}, {}), "lab").text(text)
    places.settle("j-ps-7", RoleRank("ps", 1), [])
    assert before == places.names(Names({"other": "127.1.1.1"}, {}), "lab").text(text)
    first, second = (address.rpartition(":") for address in before.split()[0].split(","))
    assert places.by_pod["j-ps-7"] == second[0]
    assert first[0] != second[0]
    assert first[2] != second[2]
    assert before.endswith(" 127.1.1.1:1")
    assert ["j-ps-0", "j-ps-1", "j-master"] == list(places.services)
    places.close("j-ps-1")
    assert "j-ps-1.lab.svc:2222" in places.names(Names({}, {}), "lab").text(text)


def test_the_place_of_labels() -> None:
    """A master's Service says no rank, and its pod is of rank 0."""
    assert RoleRank("ps", 3) == place_of({names.EDL_TYPE: "ps", names.EDL_RANK: "3"})
    assert RoleRank(names.EDL_MASTER, 0) == place_of({names.EDL_TYPE: names.EDL_MASTER})


# ---------------------------------------------------------------- the folder


@pytest.fixture
def folder(tmp_path: Path) -> SharedFolder:
    """An empty folder."""
    return SharedFolder(tmp_path / "elastic", "lab", tmp_path / "memory")


def write(folder: SharedFolder, name: str, **spec: Any) -> None:
    """Write a plan as a master does."""
    document = {"kind": "ScalePlan", "metadata": {"name": name}, "spec": spec}
    atomic.write(folder.path / "plans" / f"{name}.json", json.dumps(document))


def test_plans_are_read_once_and_completed(folder: SharedFolder) -> None:
    """A new file is news, the same file is none, and it has a uid from then on."""
    assert not folder.read_plans()
    write(folder, "j-plan-0", ownerJob="j")
    assert folder.read_plans()
    assert not folder.read_plans()
    (plan,) = folder.plans
    metadata = plan["metadata"]
    assert ("j-plan-0", "lab", True) == (
        metadata["name"],
        metadata["namespace"],
        bool(metadata["uid"]),
    )
    folder.set_plan_status("j-plan-0", "another", {"phase": "Failed"})
    assert "status" not in folder.plans[0]
    folder.set_plan_status("j-plan-0", metadata["uid"], {"phase": "Succeeded"})
    assert not folder.read_plans()
    stored = json.loads((folder.path / "plans/j-plan-0.json").read_text())
    assert folder.plans[0] == stored
    assert "Succeeded" == stored["status"]["phase"]


def test_an_edited_plan_keeps_who_it_is(folder: SharedFolder) -> None:
    """A file that is written again changes what the plan asks, not its uid and status."""
    write(folder, "j-plan-0", ownerJob="j")
    folder.read_plans()
    before = folder.plans[0]["metadata"]
    write(folder, "j-plan-0", ownerJob="j", removePods=[])
    assert folder.read_plans()
    assert before == folder.plans[0]["metadata"]
    assert [] == folder.plans[0]["spec"]["removePods"]


@pytest.mark.parametrize("text", ["{", "[]", "7", '"plan"', "\x00"])
def test_a_file_that_is_no_plan_is_left_alone(folder: SharedFolder, text: str) -> None:
    """What somebody writes there by mistake is neither read again and again nor a plan."""
    (folder.path / "plans/odd.json").write_text(text)
    (folder.path / "plans/.hidden.json").write_text("{}")
    (folder.path / "plans/notes.txt").write_text("{}")
    assert (False, False, ()) == (folder.read_plans(), folder.read_plans(), folder.plans)


def test_plans_go(folder: SharedFolder) -> None:
    """The very plan is removed; a file that somebody takes away is gone too."""
    folder.add_plan({"metadata": {"name": "a"}, "spec": {}})
    folder.add_plan({"metadata": {"name": "a"}, "spec": {"ownerJob": "late"}})
    folder.add_plan({"metadata": {"name": "b"}, "spec": {}})
    folder.read_plans()
    by_name = {plan["metadata"]["name"]: plan for plan in folder.plans}
    assert {} == by_name["a"]["spec"]
    folder.drop_plan("a", "another")
    assert 2 == len(folder.plans)
    folder.drop_plan("a", by_name["a"]["metadata"]["uid"])
    assert ["b"] == [plan["metadata"]["name"] for plan in folder.plans]
    (folder.path / "plans/b.json").unlink()
    assert (True, ()) == (folder.read_plans(), folder.plans)


def test_events_and_history(folder: SharedFolder, tmp_path: Path) -> None:
    """What happened is a line each; what the master remembers is there for the next run."""
    folder.tell(RecordEvent("ElasticJob", "j", "u", "Warning", "PlanFailed", "no such type"))
    (line,) = (folder.path / "events.jsonl").read_text().splitlines()
    event = json.loads(line)
    assert ("PlanFailed", "no such type", "Warning") == (
        event["reason"],
        event["message"],
        event["type"],
    )
    folder.remember()
    assert not (tmp_path / "memory").exists()
    (folder.path / "history.json").write_text('{"good": 4}')
    folder.remember()
    again = SharedFolder(tmp_path / "again", "lab", tmp_path / "memory")
    assert '{"good": 4}' == (again.path / "history.json").read_text()


# ---------------------------------------------------------------- before it starts


def test_an_elastic_job_is_a_release() -> None:
    """A release may be an ElasticJob alone; two of them are one too many, and grace is known."""
    release = expand([elastic_job()], name="j", namespace="lab")
    assert (0, (), 30.0) == (len(release.pods), release.leads, release.grace)
    assert release.elastic is not None
    sized = elastic_job()
    worker = sized["spec"]["replicaSpecs"]["worker"]
    worker |= {"replicas": 2, "maxReplicas": 300}
    worker["template"]["spec"]["terminationGracePeriodSeconds"] = 90
    release = expand([sized], name="j", namespace="lab")
    assert (600, 90.0) == (release.size_max, release.grace)
    with pytest.raises(InputError, match="one of its kind at most"):
        expand([elastic_job(), elastic_job()], name="j", namespace="lab")


def test_samples_of_the_pods_to_come() -> None:
    """One of each replica type and the master are there to look at before anything starts."""
    release = expand([elastic_job()], name="j", namespace="lab")
    commands = {
        pod.name: pod.containers[0].manifest["command"] for pod in preflight.samples(release)
    }
    assert {
        "j-edljob-worker-0": ["true"],
        "elasticjob-j-dlrover-master-0": [names.MASTER_PROGRAM],
    } == commands
    assert () == preflight.notes(release)
    odd = expand([elastic_job(distributionStrategy="Sideways")], name="j", namespace="lab")
    assert ("distributionStrategy 'Sideways' is not known here",) == preflight.notes(odd)


def test_the_gpus_that_one_more_pod_gets(manifests: Manifests) -> None:
    """Those that no living pod has; none where there are not enough, or it asks for none."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    template = {"spec": {"containers": [manifests.container(**limits)]}}
    owner = Ownership("Pod/p", "lab", Restart.NEVER)
    pod = pod_plan(template, owner, PodIdentity("p", 0))
    assert gpus.rest(pod, ("0", "1", "2"), ["1"]) == "0,2"
    assert gpus.rest(pod, ("0", "1", "2"), ["0,1"]) == ""
    assert gpus.rest(pod, (), []) is None
    idle = pod_plan({"spec": {"containers": [manifests.container()]}}, owner, PodIdentity("p", 0))
    assert gpus.rest(idle, ("0",), []) == ""
