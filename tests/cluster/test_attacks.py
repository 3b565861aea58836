"""What somebody who may write ElasticJobs in one namespace can do to everybody's operator."""

from __future__ import annotations

import copy
import random
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.amounts import amount
from tests.kube.api import ApiError
from tests.waiting import until

from . import deep, kinds, watching
from .program import program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .operator_process import Zygote
    from .watching import Lab

pytestmark = pytest.mark.timeout(600)

_ODD: tuple[Any, ...] = (
    *(None, True, -1, 2**53, 1.5, "", "1e999", "../../x", "$(HOME)", "x" * 5_000),
    *("\x1b]0;x\x07\x00", [], [1, "a"], [[]] * 500, {}, {"a": {"b": []}}, {"x" * 300: 1}),
)
# Where in a spec an odd value is put.
_PLACES = (
    *("optimizeMode", "resourceLimits", "envs", "suspend", "unknown", "replicaSpecs"),
    *("replicaSpecs.worker", "replicaSpecs.A b", "replicaSpecs.worker.priority"),
    *("replicaSpecs.worker.template", "replicaSpecs.worker.template.metadata"),
    *("replicaSpecs.worker.template.metadata.labels", "replicaSpecs.worker.template.spec"),
    *(
        f"replicaSpecs.worker.template.spec.{field}"
        for field in (
            *("containers", "initContainers", "volumes", "restartPolicy", "securityContext"),
            *("serviceAccountName", "nodeSelector", "tolerations", "affinity"),
        )
    ),
)
_SMALL = amount(2_000, ci=500)  # 10,000 take a minute on two quiet cores, and many on busy ones
_LARGE, _LARGE_BYTES = 30, 1_300_000  # more than an operator keeps of one namespace


def _odd_jobs() -> Iterator[dict[str, Any]]:
    """Jobs of nobody who trains: an odd value in each place, absurd counts, and size."""
    dice = random.Random(12)  # noqa: S311 - a choice of what is tried
    masters = ("external", "own", "", "x" * 500)
    for place in _PLACES:
        for odd in _ODD:
            specs = {"worker": watching.replicas(dice.choice((None, 1, 2)))}
            spec: dict[str, Any] = copy.deepcopy({"replicaSpecs": specs})
            *way, field = place.split(".")
            inner = spec
            for key in way:
                inner = inner[key]
            inner[field] = odd
            yield _job(dice.choice(masters), spec)
    for count in (10_000, 2**31 - 1, -1):
        broken = {"replicas": count, "template": {"spec": {"containers": [{"name": "A b"}]}}}
        yield _job("external", {"replicaSpecs": {"worker": broken}})
    for number in range(_LARGE):
        yield _job("external", {"x": f"{number}" + "y" * _LARGE_BYTES})


def _job(master: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {"generateName": "odd-", "annotations": {names.MASTER: master}},
        "spec": {"distributionStrategy": "AllreduceStrategy", **spec},
    }


def _create(lab: Lab, jobs: Iterator[dict[str, Any]]) -> tuple[int, int]:
    """Make jobs, several at a time; how many the API server took, and how many it refused."""

    def create(job: dict[str, Any]) -> bool:
        try:
            lab.cluster.api("POST", lab.path(names.ELASTIC_JOBS), job)
        except ApiError as error:
            if error.status not in {HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST}:
                raise
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(create, jobs))
    return answers.count(True), answers.count(False)


def test_what_one_author_writes_keeps_no_other_waiting(
    lab: Lab, elastic_cluster: Cluster, zygote: Zygote, tmp_path: Path
) -> None:
    """Hundreds of odd jobs, and more bytes than an operator keeps of a namespace: others train on.

    Those of another namespace, and one of the same that was there before; also of an operator that
    begins when all of it is there.
    """
    with watching.laboratory(elastic_cluster, zygote, tmp_path) as theirs:
        lab.job("first", specs={"worker": watching.replicas(2)})
        theirs.job("before", specs={"worker": watching.replicas(1)})
        lab.plan("first", 1, worker=2)
        theirs.plan("before", 1, worker=1)
        operator = lab.watch("--namespace", theirs.namespace)
        lab.running("first", 2)
        theirs.running("before", 1)
        accepted, refused = _create(theirs, _odd_jobs())
        assert accepted > refused
        lab.plan("first", 2, worker=3)
        theirs.plan("before", 2, worker=2)
        lab.running("first", 3)
        theirs.running("before", 2)
        events = until(lambda: theirs.events("NotRead"), "an Event on what is not read")
        assert "before" not in {event["involvedObject"]["name"] for event in events}
        operator.kill()
        lab.watch("--namespace", theirs.namespace)
        lab.job("second", specs={"worker": watching.replicas(1)})
        lab.plan("second", 1, worker=1)
        lab.running("second", 1)
        lab.plan("first", 3, worker=1)
        lab.running("first", 1)


def test_many_small_jobs_keep_no_other_waiting(
    lab: Lab, elastic_cluster: Cluster, zygote: Zygote, tmp_path: Path
) -> None:
    """They ask for nothing and are read, one after the other; others train on meanwhile.

    Also those of an operator that begins when all of them are there.
    """
    small = {"replicaSpecs": {"worker": watching.replicas(0)}}
    with watching.laboratory(elastic_cluster, zygote, tmp_path) as theirs:
        lab.job("first", specs={"worker": watching.replicas(2)})
        lab.plan("first", 1, worker=2)
        operator = lab.watch("--namespace", theirs.namespace)
        lab.running("first", 2)
        jobs = (_job("external", small) for _ in range(_SMALL))
        assert (_SMALL, 0) == _create(theirs, jobs)
        lab.plan("first", 2, worker=3)
        lab.running("first", 3)
        operator.kill()
        lab.watch("--namespace", theirs.namespace)
        lab.plan("first", 3, worker=1)
        lab.running("first", 1)


def test_a_job_nested_too_deep_stops_nobody(lab: Lab) -> None:
    """In the list that an operator begins with, and in its watch; it is named by an Event on it."""
    deep.send(lab.cluster, "POST", lab.path(names.ELASTIC_JOBS), deep.job("bad"))
    lab.job("first", specs={"worker": watching.replicas(2)})
    lab.plan("first", 1, worker=2)
    lab.watch()
    lab.running("first", 2)
    events = until(lambda: lab.events("NotRead"), "an Event that names the bad job")
    assert {"bad"} == {event["involvedObject"]["name"] for event in events}
    # The same in a change that the watch tells of, after which it goes on.
    lab.job("second", specs={"worker": watching.replicas(1)})
    lab.plan("second", 1, worker=1)
    lab.running("second", 1)
    patch = f'{{"spec":{{"y":{deep.nested()}}}}}'
    deep.send(lab.cluster, "PATCH", lab.path(names.ELASTIC_JOBS, "second"), patch)
    until(lambda: len(lab.events("NotRead")) > 1, "an Event that names the changed job")
    lab.plan("first", 2, worker=3)
    lab.running("first", 3)
    assert 1 == len(lab.pods("second"))


def test_a_test_that_begins_beside_a_job_nested_too_deep_goes_on(lab: Lab) -> None:
    """The control plane is shared: a worker that comes later reads no other test's objects."""
    deep.send(lab.cluster, "POST", lab.path(names.ELASTIC_JOBS), deep.job("bad"))
    with pytest.raises(RecursionError):
        lab.cluster.items(lab.path(names.ELASTIC_JOBS))
    kinds.add(lab.cluster, kinds.ELASTIC)


def test_a_job_nested_too_deep_hides_no_other(lab: Lab, helm4: Any, tmp_path: Path) -> None:
    """`list` and `top` show the other runs of its namespace, and of all, and name it on stderr."""
    deep.send(lab.cluster, "POST", lab.path(names.ELASTIC_JOBS), deep.job("bad"))
    lab.job("first", specs={"worker": watching.replicas(2)})
    lab.plan("first", 1, worker=2)
    lab.watch()
    lab.running("first", 2)
    allranks = program(lab.cluster, lab.namespace, helm4, tmp_path)
    kind = "elasticjobs.elastic.iml.github.io"
    note = f"{kind} bad in namespace {lab.namespace} is nested too deep to be read; `kubectl -n"
    for words in (("list",), ("list", "-A"), ("top", "--once")):
        output = allranks(*words)
        assert (True, 1) == ("first" in output, output.count(note)), output
    # Data is data: the note is beside it.
    assert ["first"] == [run["name"] for run in allranks.json("list")]
    assert note in allranks("status", "bad", code=1)
    assert "first" in allranks("status", "first")
