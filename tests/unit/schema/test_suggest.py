"""The nearest key: what a person meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.schema import suggest
from allranks.schema.engine import engine
from allranks.schema.foreign import ELSEWHERE


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        # another spelling
        ("gpus_per_node", "write gpusPerNode"),
        ("GpusPerNode", "write gpusPerNode"),
        ("torchrun.max-restarts", "write torchrun.maxRestarts"),
        # a slip
        ("gpuPerNode", "write gpusPerNode"),
        ("torchrun.prot", "write torchrun.port"),
        ("comand", "write command"),
        ("resources.perGpu.mem", "write resources.perGpu.memory"),
        # elsewhere
        ("minNodes", "move it to torchrun.elastic.minNodes"),
        ("torchrun.minNodes", "move it to torchrun.elastic.minNodes"),
        ("nodeSelector", "move it to scheduling.nodeSelector"),
        ("backoffLimit", "move it to runPolicy.backoffLimit"),
        ("torchrun.gpus", "move it to gpus"),
        ("maxRestarts", "move it to torchrun.maxRestarts"),
        # as a pod or another tool has it
        ("resources.limits", "write resources.perPod.limits"),
        ("replicas", "write nodes"),
        ("nproc_per_node", "write procsPerNode"),
        ("imagePullPolicy", "write image.pullPolicy"),
        ("volumes", "move it to podTemplate.spec.volumes"),
        ("initContainers", "move it to podTemplate.spec.initContainers"),
        ("podTemplate.tolerations", "move it to scheduling.tolerations"),
        ("restartPolicy", "remove it; a failed pod counts"),
        ("name", "remove it; the release's name"),
        ("spec", "write its fields at the root"),
        # nothing near: what there is
        ("storage.scratch", "use one of checkpoints, datasets, workspace"),
        ("zzzzzzzz", "remove it; the chart's README lists every key"),
    ],
)
def test_the_hint_names_what_was_meant(path: str, hint: str) -> None:
    """Each kind of slip has the hint that ends it."""
    assert suggest.hint(engine("torchrun"), tuple(path.split("."))).startswith(hint)


def test_a_container_s_field_says_how_it_merges() -> None:
    """What belongs to the trainer's container is pointed at the template, with the name."""
    said = suggest.hint(engine("torchrun"), ("volumeMounts",))
    assert "podTemplate.spec.containers, as [{name: trainer, volumeMounts: …}]" in said


@given(st.text(max_size=20), st.sampled_from(["", "torchrun", "storage", "resources"]))
def test_there_is_always_a_hint(key: str, parent: str) -> None:
    """Whatever the key, there is something to do about it."""
    path = (parent, key) if parent else (key,)
    assert suggest.hint(engine("torchrun"), path)


def test_every_foreign_name_leads_to_a_key() -> None:
    """The table of other tools' names points at keys that exist."""
    judge = engine("torchrun")
    for name, target in ELSEWHERE.items():
        for place in target.split(",", 1)[0].split(" or "):
            assert judge.at(tuple(place.split("."))), f"{name} leads to {place}"


@pytest.mark.parametrize(
    ("text", "nearest"), [("Kueue", "kueue"), ("KAI", "kai"), ("volcno", "volcano"), ("x", "")]
)
def test_the_nearest_choice(text: str, nearest: str) -> None:
    """An enumeration's nearest member is found whatever the case; none is made up."""
    assert nearest == suggest.nearest(text, ["none", "kueue", "kai", "volcano", "coscheduling"])
