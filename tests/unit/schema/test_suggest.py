"""The nearest key: what a person meant."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.schema import suggest
from allranks.schema.engine import engine
from allranks.schema.foreign import ELSEWHERE, ELSEWHERE_OF, REMARKS, REMARKS_OF


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


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        # fields of an MPIJob
        ("slotsPerWorker", "move it to mpi.slotsPerWorker"),
        ("numWorkers", "write mpi.numWorkers"),
        ("mpi.worker.replicas", "write mpi.numWorkers"),
        ("mpiImplementation", "write mpi.implementation"),
        ("runPolicy.cleanPodPolicy", "move it to mpi.cleanPodPolicy"),
        ("runPolicy.schedulingPolicy", "use queue, scheduling.priorityClassName"),
        ("mpiReplicaSpecs", "use mpi.numWorkers"),
        ("launcherTemplate", "write mpi.launcher.podTemplate"),
        ("mpi.worker.command", "remove it; the chart keeps the workers up"),
        # options of mpirun and horovodrun
        ("mpi.slots", "write mpi.slotsPerWorker"),
        ("mpi.nprocs", "write mpi.np"),
        ("mpi.port", "move it to mpi.ssh.port"),
        ("minNp", "write mpi.elastic.minNodes"),
        # what the other workload calls the same
        ("restartPolicy", "remove it; a failed pod is replaced"),
        ("network.serviceAllPods", "remove it; every pod has a name already"),
        ("mpi.maxRestarts", "remove it"),
    ],
)
def test_the_hint_is_one_for_the_workload(path: str, hint: str) -> None:
    """The same slip in an MPI job's file leads to MPI's own key."""
    assert suggest.hint(engine("mpi"), tuple(path.split("."))).startswith(hint)


def test_a_container_s_field_says_how_it_merges() -> None:
    """What belongs to the trainer's container is pointed at the template, with the name."""
    said = suggest.hint(engine("torchrun"), ("volumeMounts",))
    assert "podTemplate.spec.containers, as [{name: trainer, volumeMounts: …}]" in said


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        # TFJob and ElasticJob
        ("tfReplicaSpecs", "use elastic.roles"),
        ("replicaSpecs", "use elastic.roles"),
        ("distributionStrategy", "write elastic.strategy"),
        ("elastic.distributionStrategy", "write elastic.strategy"),
        ("workers", "write elastic.roles.worker.replicas"),
        ("ps.replicas", "write elastic.roles.ps.replicas"),
        ("elastic.roles.ps.resources.cpu", "write elastic.roles.ps.resources.requests.cpu"),
        ("elastic.auto.master.resources.cpu", "write elastic.auto.master.resources.requests.cpu"),
        ("elastic.roles.ps.resources.requests.gpu", "write elastic.roles.ps.gpusPerPod"),
        ("elastic.roles.ps.count", "write elastic.roles.ps.replicas"),
        ("elastic.roles.ps.script", "write elastic.roles.ps.command"),
        ("elastic.roles.ps.image", "move it to elastic.roles.ps.podTemplate.spec.containers"),
        ("minReplicas", "write elastic.auto.minWorkers"),
        ("resourceLimits", "write elastic.auto.limits"),
        ("enableDynamicWorker", "remove it"),
        ("restartPolicy", "remove it"),
        ("network.serviceAllPods", "remove it; every pod has a name already"),
    ],
)
def test_the_hint_is_one_for_elastic_jobs(path: str, hint: str) -> None:
    """Names of TFJob and ElasticJob lead to the keys that are meant."""
    assert suggest.hint(engine("elastic"), tuple(path.split("."))).startswith(hint)


@given(
    st.text(max_size=20),
    st.sampled_from(["", "own", "storage", "resources"]),
    st.sampled_from(names.WORKLOADS),
)
def test_there_is_always_a_hint(key: str, parent: str, workload: str) -> None:
    """Whatever the key, there is something to do about it."""
    path = (workload if parent == "own" else parent, key) if parent else (key,)
    assert suggest.hint(engine(workload), path)


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_every_foreign_name_leads_to_a_key(workload: str) -> None:
    """The tables of other tools' names point at keys that exist."""
    judge = engine(workload)
    for name, target in (ELSEWHERE | ELSEWHERE_OF[workload]).items():
        for place in target.split(",", 1)[0].split(" or "):
            assert judge.at(tuple(place.split("."))), f"{name} leads to {place}"


def test_a_watchers_keys_have_hints_of_their_own() -> None:
    """Its namespaces are a value; those of a job stand on the command line."""
    found = suggest.hint(engine(names.OPERATOR), ("watch", "namespace"))
    assert "write watch.namespaces" == found


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_no_hint_speaks_of_another_workload(workload: str) -> None:
    """What is said to all, or to one, names keys that the one has."""
    others = "|".join(name for name in names.WORKLOADS if name != workload)
    said = [*(ELSEWHERE | ELSEWHERE_OF[workload]).values(), *REMARKS_OF[workload].values()]
    foreign = re.compile(rf"(?<![\w.])({others})\.")
    assert [] == [text for text in [*said, *REMARKS.values()] if foreign.search(text)]


@pytest.mark.parametrize(
    ("text", "nearest"), [("Kueue", "kueue"), ("KAI", "kai"), ("volcno", "volcano"), ("x", "")]
)
def test_the_nearest_choice(text: str, nearest: str) -> None:
    """An enumeration's nearest member is found whatever the case; none is made up."""
    assert nearest == suggest.nearest(text, ["none", "kueue", "kai", "volcano", "coscheduling"])
