"""A PyTorchJob whose master has less in a list than its workers, of which all pods are one."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.convert.documents.context import Context
from allranks.convert.kinds import pytorch
from tests.converted import lost


def with_lists(key: str, **items: list[Any]) -> Any:
    """A job whose master and workers have another list of their pods' spec, converted."""
    containers = [{"name": "pytorch", "image": "x:1", "command": ["a"]}]
    specs = {
        role: {"template": {"spec": {"containers": containers, key: own}}}
        for role, own in items.items()
    }
    return pytorch.convert(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "bert"},
            "spec": {"pytorchReplicaSpecs": specs},
        },
        Context(),
    )


def test_what_the_workers_alone_tolerate_is_said_of_rank_0() -> None:
    """The master loses nothing; it may stand on nodes now that its author kept it from."""
    gpu, spot = ({"key": key, "operator": "Exists"} for key in ("gpu", "spot"))
    note = "rank 0 also tolerates spot, as the workers do"
    for workers, is_noted in ([gpu, spot], True), ([spot, gpu], True), ([gpu], False):
        conversion = with_lists("tolerations", Master=[gpu], Worker=workers)
        assert (set(), is_noted) == (lost(conversion), note in conversion.notes)
    assert set() == lost(with_lists("tolerations", Master=[gpu, spot], Worker=[spot, gpu]))
    every = with_lists("tolerations", Master=[gpu], Worker=[gpu, {"operator": "Exists"}])
    assert "rank 0 also tolerates every taint, as the workers do" in every.notes


def test_what_the_master_alone_tolerates_is_lost() -> None:
    """No pod tolerates it here; what the workers tolerate it does, too."""
    gpu, spot, own = ({"key": key, "operator": "Exists"} for key in ("gpu", "spot", "own"))
    above = "spec.pytorchReplicaSpecs.Master.template.spec.tolerations"
    for place, master in enumerate(([own, gpu], [gpu, own])):
        conversion = with_lists("tolerations", Master=master, Worker=[gpu, spot])
        assert {f"{above}[{place}].key", f"{above}[{place}].operator"} == lost(conversion)
        assert "rank 0 also tolerates spot, as the workers do" in conversion.notes


@pytest.mark.parametrize("place", [0, 1])
def test_what_the_workers_alone_have_in_a_list_is_said_of_the_master(place: int) -> None:
    """Its own items are there, each in its order."""
    own, other = ({"name": "v", "mountPath": path} for path in ("/own", "/other"))
    mounts = [own]
    mounts.insert(place, other)
    containers = [
        [{"name": "pytorch", "image": "x:1", "command": ["a"], "volumeMounts": items}]
        for items in ([own], mounts)
    ]
    conversion = with_lists("containers", Master=containers[0], Worker=containers[1])
    assert set() == lost(conversion)
    assert any(
        note.startswith("the Master's pod has what the other pods alone had, too: ")
        and "volumeMounts (v at /other)" in note
        for note in conversion.notes
    )


def test_an_entry_point_that_is_given_is_the_workers_command() -> None:
    """A master that spells out the entry point of its workers runs what they run."""
    specs = {
        "Master": {"command": ["python", "a.py"], "args": ["--lr=1"]},
        "Worker": {"args": ["--lr=1"]},
    }
    manifest: Any = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                role: {
                    "template": {"spec": {"containers": [{"name": "x", "image": "x:1", **words}]}}
                }
                for role, words in specs.items()
            },
        },
    }
    conversion = pytorch.convert(manifest, Context(entrypoint=("python", "a.py")))
    assert set() == lost(conversion)
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "still works when the run is done" in whys["spec.runPolicy.cleanPodPolicy"]


@pytest.mark.parametrize(
    ("master", "is_lost"), [("time python a.py --lr 1", False), ("time python a.py --lr 2", True)]
)
def test_a_master_that_is_timed_runs_what_the_workers_run(master: str, *, is_lost: bool) -> None:
    """`time` in front of the same words changes nothing that is trained."""
    specs = {"Master": ["bash", "-c", master], "Worker": ["python", "a.py", "--lr", "1"]}
    manifest: Any = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert"},
        "spec": {
            "pytorchReplicaSpecs": {
                role: {
                    "template": {
                        "spec": {"containers": [{"name": "x", "image": "x:1", "command": words}]}
                    }
                }
                for role, words in specs.items()
            }
        },
    }
    assert bool(lost(pytorch.convert(manifest, Context()))) is is_lost
