"""The copy of the cluster: what belongs together, and which of two copies is newer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks_operator.cache.cache import ObjectCache
from allranks_operator.cache.owner_keys import JOB, RUN, Key
from allranks_operator.kube.resources import (
    ELASTIC_JOBS,
    JOBS,
    PODS,
    SCALE_PLANS,
    TRAINING_RUNS,
)

if TYPE_CHECKING:
    from allranks.k8s.manifest import Manifest

RUN_KEY, JOB_KEY = Key(RUN, "lab", "demo"), Key(JOB, "lab", "demo")


class Listener:
    """A world, and the keys that it told of."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.cache = ObjectCache(lambda key, _: self.keys.append(key))

    def new_keys(self) -> set[Key]:
        """The keys since the last call."""
        keys, self.keys = set(self.keys), []
        return keys


def pod(name: str = "a", version: int = 1, uid: str = "", **fields: Any) -> Manifest:
    """A pod of the release and of the elastic job `demo`."""
    owner = {"kind": names.ELASTIC_JOB, "name": "demo", "uid": "j", "controller": True}
    metadata = {
        "name": name,
        "namespace": "lab",
        "uid": uid or f"u-{name}",
        "resourceVersion": str(version),
        "labels": {names.APP_INSTANCE: "demo", names.APP_PART_OF: names.PART_OF},
        "ownerReferences": [owner],
    }
    return {"kind": "Pod", "metadata": metadata, "status": {"phase": "Pending"}, **fields}


def replace_list(world: ObjectCache, *pods: Manifest, at: int = 10) -> None:
    """Give the world a list of pods."""
    world.replace(PODS, "lab", [world.trim(PODS, pod) for pod in pods], str(at))


def names_of(world: ObjectCache, key: Key = RUN_KEY) -> list[str]:
    """The pods of a key."""
    return sorted(manifest["metadata"]["name"] for manifest in world.of(key).get("Pod", ()))


def test_an_object_is_found_by_all_it_belongs_to() -> None:
    """A pod is its release's and its elastic job's; a plan the job's that it names."""
    listener = Listener()
    replace_list(listener.cache, pod())
    assert {RUN_KEY, JOB_KEY} == listener.new_keys()
    plan = {"metadata": {"name": "p", "namespace": "lab"}, "spec": {"ownerJob": "demo"}}
    listener.cache.change(SCALE_PLANS, "lab", "ADDED", {**plan, "kind": names.SCALE_PLAN})
    assert {JOB_KEY} == listener.new_keys()
    assert ["a"] == names_of(listener.cache, JOB_KEY)
    assert {"Pod", names.SCALE_PLAN} == set(listener.cache.of(JOB_KEY))


def test_a_plan_names_its_job_in_any_of_four_ways() -> None:
    """By its field, by a label of today or of old, or by an owner whose kind is in lower case."""
    owner = {"apiVersion": names.ELASTIC_API_VERSION, "kind": "elasticjob", "name": "demo"}
    for metadata, spec in (
        ({}, {"ownerJob": "demo"}),
        ({"labels": {names.EDL_NAME: "demo"}}, {}),
        ({"labels": {names.EDL_NAME_OLD: "demo"}}, {}),
        ({"ownerReferences": [owner]}, {}),
    ):
        listener = Listener()
        plan = {"kind": names.SCALE_PLAN, "metadata": {"name": "p", "namespace": "lab"} | metadata}
        listener.cache.change(SCALE_PLANS, "lab", "ADDED", {**plan, "spec": spec})
        assert {JOB_KEY} == listener.new_keys()


def test_runs_have_their_controllers() -> None:
    """By the label of the release, by the TrainingRun's own field, by an elastic job's name."""
    listener = Listener()
    labels = {names.APP_INSTANCE: "demo"}
    about = {"namespace": "lab", "resourceVersion": "1"}
    job = {"kind": "Job", "metadata": {"name": "demo-launcher", "labels": labels, **about}}
    run = {"kind": "TrainingRun", "metadata": {"name": "x", **about}, "spec": {"release": "demo"}}
    elastic = {"kind": names.ELASTIC_JOB, "metadata": {"name": "demo", **about}}
    for resource, manifest in ((JOBS, job), (TRAINING_RUNS, run), (ELASTIC_JOBS, elastic)):
        listener.cache.change(resource, "lab", "ADDED", manifest)
    assert {"Job", "TrainingRun", names.ELASTIC_JOB} == set(listener.cache.of(RUN_KEY))


def test_what_a_list_lacks_was_deleted() -> None:
    """Its run hears of it, as of a deletion."""
    listener = Listener()
    replace_list(listener.cache, pod("a"), pod("b"))
    listener.new_keys()
    replace_list(listener.cache, pod("b"), at=20)
    assert ["b"] == names_of(listener.cache)
    assert {RUN_KEY, JOB_KEY} == listener.new_keys()


def test_a_list_of_one_namespace_leaves_the_others() -> None:
    """What another list holds is none of its business."""
    listener = Listener()
    other = pod("far")
    other["metadata"]["namespace"] = "away"
    listener.cache.replace(PODS, "away", [listener.cache.trim(PODS, other)], "5")
    replace_list(listener.cache)
    assert 1 == len(listener.cache.by_kind("Pod"))


def test_only_what_matters_is_told() -> None:
    """A change of nothing that is kept wakes nobody; the newer version is kept all the same."""
    listener = Listener()
    replace_list(listener.cache, pod())
    listener.new_keys()
    listener.cache.change(PODS, "lab", "MODIFIED", pod(version=11, spec={"hostNetwork": True}))
    assert set() == listener.new_keys()
    assert "11" == listener.cache.of(RUN_KEY)["Pod"][0]["metadata"]["resourceVersion"]
    listener.cache.change(PODS, "lab", "MODIFIED", pod(version=12, status={"phase": "Running"}))
    assert {RUN_KEY, JOB_KEY} == listener.new_keys()


def test_an_answer_is_known_before_its_event() -> None:
    """What we made is there at once; an older event does not take it back."""
    listener = Listener()
    replace_list(listener.cache)
    listener.cache.learn(PODS, pod(version=15))
    assert ["a"] == names_of(listener.cache)
    replace_list(listener.cache, at=12)
    assert ["a"] == names_of(listener.cache), "the list was read before the pod was made"
    listener.cache.change(PODS, "lab", "MODIFIED", pod(version=14, status={"phase": "Failed"}))
    assert "Pending" == listener.cache.of(RUN_KEY)["Pod"][0]["status"]["phase"]
    replace_list(listener.cache, at=16)
    assert [] == names_of(listener.cache)


def test_an_answer_that_comes_late_raises_no_dead() -> None:
    """A pod was made, seen and deleted before the answer to its creation was read."""
    listener = Listener()
    replace_list(listener.cache)
    listener.cache.change(PODS, "lab", "ADDED", pod(version=15))
    listener.cache.change(PODS, "lab", "DELETED", pod(version=16))
    listener.cache.learn(PODS, pod(version=15))
    assert [] == names_of(listener.cache)


def test_a_deletion_is_of_that_object_alone() -> None:
    """The end of an older pod of the name leaves the newer one."""
    listener = Listener()
    replace_list(listener.cache, pod(uid="new", version=9))
    listener.cache.change(PODS, "lab", "DELETED", pod(uid="old", version=11))
    assert ["a"] == names_of(listener.cache)
    listener.cache.deleting(PODS, "lab", "a", "old", "2026-01-01T00:00:00Z")
    assert "deletionTimestamp" not in listener.cache.of(RUN_KEY)["Pod"][0]["metadata"]
    listener.cache.deleting(PODS, "lab", "a", "new", "2026-01-01T00:00:00Z")
    assert "deletionTimestamp" in listener.cache.of(RUN_KEY)["Pod"][0]["metadata"]


def test_an_object_may_change_what_it_belongs_to() -> None:
    """The label of its release was edited: both releases hear of it."""
    listener = Listener()
    replace_list(listener.cache, pod())
    listener.new_keys()
    moved = pod(version=11)
    moved["metadata"]["labels"] = {names.APP_INSTANCE: "other"}
    listener.cache.change(PODS, "lab", "MODIFIED", moved)
    assert {RUN_KEY, JOB_KEY, Key(RUN, "lab", "other")} == listener.new_keys()
    assert {JOB_KEY, Key(RUN, "lab", "other")} == set(listener.cache.keys())
