"""The nearest key: what a person meant."""

from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks import names
from allranks.schema import suggestions
from allranks.schema.aliases import ELSEWHERE, ELSEWHERE_OF, REMARKS, REMARKS_OF
from allranks.schema.validator import engine


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
        ("torchrun.nproc_per_node", "write procsPerNode, at the root"),
        ("torchrun.nnodes", "write nodes, at the root"),
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
    assert suggestions.nearest_fix(engine("torchrun"), tuple(path.split("."))).startswith(hint)


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
    assert suggestions.nearest_fix(engine("mpi"), tuple(path.split("."))).startswith(hint)


def test_a_container_s_field_says_how_it_merges() -> None:
    """What belongs to the trainer's container is pointed at the template, with the name."""
    fix = suggestions.nearest_fix(engine("torchrun"), ("volumeMounts",))
    assert "podTemplate.spec.containers, as [{name: trainer, volumeMounts: …}]" in fix


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
    assert suggestions.nearest_fix(engine("elastic"), tuple(path.split("."))).startswith(hint)


@given(
    st.text(max_size=20),
    st.sampled_from(["", "own", "storage", "resources"]),
    st.sampled_from(names.WORKLOADS),
)
def test_there_is_always_a_hint(key: str, parent: str, workload: str) -> None:
    """Whatever the key, there is something to do about it."""
    path = (workload if parent == "own" else parent, key) if parent else (key,)
    assert suggestions.nearest_fix(engine(workload), path)


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("env.PZ.value", "write the value itself: env.PZ: …"),
        ("env.PZ.valu", "write the value itself: env.PZ: …"),
        ("env.PZ.port", "use valueFrom, the only key here"),
        ("value", "remove it"),
        ("image.value", "use one of digest"),
        ("security.rdma", "use one of"),
        ("torchrun.x", "remove it"),
    ],
)
def test_nothing_is_offered_that_is_not_near(path: str, hint: str) -> None:
    """A key of the same name that means another thing is no fix."""
    assert suggestions.nearest_fix(engine("torchrun"), tuple(path.split("."))).startswith(hint)


def _maps(workload: str) -> list[tuple[str, ...]]:
    """Where a key of a workload's values may stand, some in maps whose keys are made up."""
    judge = engine(workload)
    pending: list[tuple[str, ...]] = [(), ("env", "PZ"), ("nodes",), ("labels",)]
    paths = []
    while pending:
        path = pending.pop()
        paths.append(path)
        pending += [
            (*path, key)
            for key, node in judge.at(path).get("properties", {}).items()
            if "properties" in judge.resolve(node)
        ]
    return sorted(paths)


_LETTERS = st.sampled_from("abcdeghilmnoprstuvxyzGNPR._-0")
_FOREIGN_WORDS = {
    text for tables in (ELSEWHERE, *ELSEWHERE_OF.values()) for text in (*tables, *tables.values())
}


@pytest.mark.parametrize("workload", names.WORKLOADS)
@given(st.data())
def test_what_is_offered_is_near_and_is_there(workload: str, data: st.DataObject) -> None:
    """A key that is to be written is like the one that was; one to move to is called the same."""
    judge = engine(workload)
    parent = data.draw(st.sampled_from(_maps(workload)))
    siblings = set(judge.at(parent).get("properties", {}))
    alike = st.sampled_from(sorted(siblings or {"value"})).flatmap(
        lambda word: st.tuples(st.integers(0, len(word)), st.text(_LETTERS, max_size=2)).map(
            lambda cut: word[: cut[0]] + cut[1] + word[cut[0] + 1 :]
        )
    )
    key = data.draw(st.one_of(st.text(_LETTERS, min_size=1, max_size=12), alike))
    if key in siblings or "." in key or not key:
        return
    offered = re.fullmatch(
        r"(write|move it to) ([\w.-]+)", suggestions.nearest_fix(judge, (*parent, key))
    )
    if not offered or offered[2] in _FOREIGN_WORDS or "podTemplate" in offered[2]:
        return  # the tables have tests of their own
    target = tuple(offered[2].split("."))
    if target[:2] == ("elastic", "roles") and target[-1] in {"gpusPerPod", "replicas"}:
        return  # what other charts call them is known of a role, too
    assert judge.at(target), "it is there"
    folded, word = (re.sub(r"[^a-z0-9]", "", word.lower()) for word in (key, target[-1]))
    if target[:-1] == parent:
        assert folded == word or difflib.SequenceMatcher(None, word, folded).ratio() >= 0.6
    else:
        assert folded == word
        assert "env" not in parent


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_every_foreign_name_leads_to_a_key(workload: str) -> None:
    """The tables of other tools' names point at keys that exist."""
    judge = engine(workload)
    for name, target in (ELSEWHERE | ELSEWHERE_OF[workload]).items():
        for place in target.split(",", 1)[0].split(" or "):
            assert judge.at(tuple(place.split("."))), f"{name} leads to {place}"


def test_an_operators_keys_have_hints_of_their_own() -> None:
    """Its namespaces are a value; those of a job stand on the command line."""
    fix = suggestions.nearest_fix(engine(names.OPERATOR), ("watch", "namespace"))
    assert "write watch.namespaces" == fix


def test_what_is_a_job_s_own_is_said_of_a_queue_s_values() -> None:
    """No like key is offered for it."""
    queue = engine(names.QUEUE_CHART)
    fixes = [suggestions.nearest_fix(queue, ("imposed", key)) for key in ("queueRef", "sweep")]
    assert "remove it; the command line writes it for each job" == fixes[0]
    assert fixes[1].startswith("remove it; a queue gives what all workloads share")


@pytest.mark.parametrize("workload", names.WORKLOADS)
def test_no_hint_speaks_of_another_workload(workload: str) -> None:
    """What is said to all, or to one, names keys that the one has."""
    others = "|".join(name for name in names.WORKLOADS if name != workload)
    texts = [*(ELSEWHERE | ELSEWHERE_OF[workload]).values(), *REMARKS_OF[workload].values()]
    foreign = re.compile(rf"(?<![\w.])({others})\.")
    assert [] == [text for text in [*texts, *REMARKS.values()] if foreign.search(text)]


@pytest.mark.parametrize(
    ("text", "nearest"), [("Kueue", "kueue"), ("KAI", "kai"), ("volcno", "volcano"), ("x", "")]
)
def test_the_nearest_choice(text: str, nearest: str) -> None:
    """An enumeration's nearest member is found whatever the case; none is made up."""
    assert nearest == suggestions.nearest(text, ["none", "kueue", "kai", "volcano", "coscheduling"])


@pytest.mark.parametrize(
    ("workload", "path", "hint"),
    [
        ("torchrun", "storage.checkpoints.pvc", "write storage.checkpoints.existingClaim"),
        ("torchrun", "storage.workspace.storageClass", "write storage.workspace.storageClassName"),
        ("torchrun", "network.timeout", ""),
        ("torchrun", "network.retries", ""),
        ("torchrun", "torchrun.timeout", ""),
        ("torchrun", "scheduling.timeout", ""),
        ("torchrun", "storage.workspace.priority", ""),
        ("mpi", "mpi.ssh.timeout", ""),
        ("mpi", "mpi.launcher.replicas", ""),
        ("mpi", "mpi.worker.replicas", "write mpi.numWorkers"),
        ("elastic", "elastic.roles.ps.requests", ""),
        ("elastic", "elastic.roles.ps.retries", ""),
        ("elastic", "elastic.roles.ps.timeout", ""),
        ("sweep", "sweep.timeout", ""),
        ("sweep", "sweep.trial.values.nproc_per_node", ""),
    ],
)
def test_a_key_of_a_section_does_not_become_one_of_the_job(
    workload: str, path: str, hint: str
) -> None:
    """The name alone is never certain, and no place is named where it means something else."""
    steps = tuple(path.split("."))
    fix = suggestions.nearest_fix(engine(workload), steps)
    key = getattr(fix, "key", ())
    if hint:
        assert fix == hint
    else:
        assert not key or key[: len(steps) - 1] == steps[:-1]
    assert not getattr(fix, "is_safe", False) or path == "mpi.worker.replicas"


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("SIGKILL", ""), ("SIGTERM", ""), ("SIGCNT", "SIGCONT"), ("sigio", "SIGIO")],
)
def test_what_all_choices_begin_with_makes_none_of_them_near(text: str, nearest: str) -> None:
    """A signal that may not be given is not like another because both are signals."""
    signals = ["SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGURG", "SIGCONT", "SIGIO"]
    assert nearest == suggestions.nearest(text, signals)
