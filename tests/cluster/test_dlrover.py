"""DLRover's released master drives the operator: its plans make, replace and end a job's pods.

One operator serves all these jobs, as it does in a namespace of a team. What the master does that a
reader of plans would not expect has a test of its own here.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import binaries
from tests.waiting import until

from . import dlrover, watching
from .dlrover import ALLREDUCE, PARAMETER_SERVER, PATIENCE, Job, Master
from .stories import Stories, story

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from tests.kube.cluster import Cluster

    from .operator_process import Zygote

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("dlrover")]

_FALLBACK = 75.0  # the operator waits half a minute for a plan before it makes one of its own
AUTO, MANUAL = {names.SCALE_TYPE: "auto"}, {names.SCALE_TYPE: "manual"}


@dataclass(slots=True)
class Stage:
    """Where the stories play.

    Attributes:
        cluster: the cluster.
        namespace: the one that the operator watches.
        folder: for logs.
        masters: those that were started.
    """

    cluster: Cluster
    namespace: str
    folder: Path
    masters: list[Master] = field(default_factory=list)

    @property
    def history(self) -> Path:
        """A line for every change of a plan; a plan may be gone before anyone could look at it."""
        return self.folder / "plans.log"

    def has_event(self, event: str, plan: str) -> bool:
        """Whether there was a change of this type of the plan with this name."""
        return f"{event} {plan}" in self.history.read_text(encoding="utf-8").splitlines()

    def roles(
        self, requests: Mapping[str, str] | None = None, **counts: int
    ) -> dict[str, dict[str, Any]]:
        """Replica specs of fake pods."""
        return {role: dlrover.replicas(count, requests) for role, count in counts.items()}

    def job(self, name: str) -> tuple[Job, Master]:
        """A job that is not made yet, and a master that is not started yet."""
        master = Master(self.cluster, self.namespace, name, self.folder)
        self.masters.append(master)
        return Job(self.cluster, self.namespace, name), master

    def all_reduce(
        self, name: str, *, workers: int, requests: Mapping[str, str] | None = None
    ) -> tuple[Job, Master]:
        """A job of workers alone that all run, and its master."""
        job, master = self.job(name)
        master.start(first=True)
        job.create(ALLREDUCE, **self.roles(requests, worker=workers))
        job.runs(*(f"worker-{number}" for number in range(workers)))
        return job, master

    def parameter_server(self, name: str) -> tuple[Job, Master]:
        """A job of two workers, one of which the master makes a chief, and a server; and it."""
        job, master = self.job(name)
        master.start(first=True)
        job.create(PARAMETER_SERVER, **self.roles(ps=1, worker=2))
        job.runs("chief-0", "ps-0", "worker-0")
        return job, master


@pytest.fixture(scope="module")
def stage(
    elastic_cluster: Cluster, zygote: Zygote, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """A namespace with an operator."""
    folder = tmp_path_factory.mktemp("dlrover")
    with watching.laboratory(elastic_cluster, zygote, folder) as lab:
        lab.watch()
        new_stage = Stage(elastic_cluster, lab.namespace, folder)
        with _noting(new_stage):
            try:
                yield new_stage
            finally:
                for master in new_stage.masters:
                    master.kill()


@contextlib.contextmanager
def _noting(stage: Stage) -> Iterator[None]:
    """Write down what becomes of plans."""
    kind = f"{names.SCALE_PLANS}.{names.ELASTIC_GROUP}"
    line = 'jsonpath={.type} {.object.metadata.name}{"\\n"}'
    watch = ("--watch", "--output-watch-events", "--output", line)
    with stage.history.open("wb") as history:
        process = subprocess.Popen(
            [binaries.find("kubectl"), "get", kind, "--namespace", stage.namespace, *watch],
            env={"KUBECONFIG": str(stage.cluster.kubeconfig), "HOME": str(stage.folder)},
            stdin=subprocess.DEVNULL,
            stdout=history,
        )
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def stories(request: pytest.FixtureRequest, stage: Stage) -> Iterator[Stories]:
    """The selected stories of this module, told beside each other."""
    dlrover.python()
    all_stories = Stories(request.session.items, __name__, stage)
    yield all_stories
    all_stories.close()


def _loses(job: Job, master: Master, pod: str) -> None:
    """Delete a pod that both know to run.

    A pod that goes within its first second is made again by the operator, under its own name; one
    that the master has never seen it does not replace.
    """
    master.sees(pod)
    until(lambda: job.phase() == "Running", lambda: f"the phase Running (it is {job.phase()})")
    job.delete_pod(pod)


def _expect_end(job: Job, phase: str, master: Master, code: int) -> None:
    """The master ends by itself, and the job with it; nothing of it runs on."""
    master.ends(code)
    job.annotate(**{names.MASTER_EXIT_CODE: str(code)})
    until(lambda: job.phase() == phase, lambda: f"the phase {phase} (it is {job.phase()})")
    until(lambda: not job.alive(), lambda: f"the end of its pods ({job.phases()})")
    assert "completionTime" in job.get()["status"]["status"]


@story
def test_an_all_reduce_job_is_driven_to_its_end(stage: Stage) -> None:
    """Plans make the workers and replace the deleted and the failed one; then it has succeeded."""
    job, master = stage.all_reduce("jar", workers=2)
    _loses(job, master, "worker-1")
    job.runs("worker-0", "worker-2")
    assert job.label("worker-2", names.EDL_RANK) == "1"

    job.end("worker-0", 1)
    job.runs("worker-2", "worker-3")
    assert job.label("worker-3", names.EDL_RANK) == "0"
    assert job.phases()["worker-0"] == "Failed"  # its log is there to be read

    job.end("worker-2")
    job.end("worker-3")
    _expect_end(job, "Succeeded", master, 0)
    assert job.get()["status"]["status"]["replicaStatuses"]["worker"]["succeeded"] == 2


@story
def test_what_the_master_needs_of_pods_is_on_each(stage: Stage) -> None:
    """Each pod has the five labels that it reads; a rounded CPU does not replace the template's."""
    job, master = stage.job("jlb")
    master.start(first=True)
    job.create(ALLREDUCE, **stage.roles(worker=2))
    # It goes half a minute after it is done, which may be before the pods are seen to run.
    (plan,) = until(job.plans, "the plan", PATIENCE).values()
    job.runs("worker-0", "worker-1")
    resource = plan["spec"]["replicaResourceSpecs"]["worker"]["resource"]
    assert resource == {"cpu": "0.1", "memory": "32Mi"}
    for rank in ("0", "1"):
        pod = job.pods()[f"worker-{rank}"]
        assert {
            names.EDL_NAME: "jlb",
            names.EDL_TYPE: "worker",
            names.EDL_INDEX: rank,
            names.EDL_RANK: rank,
            names.EDL_RELAUNCHES: "0",
            "app": names.EDL_APP,
        }.items() <= pod["metadata"]["labels"].items()
        assert dlrover.REQUESTS == job.requests(f"worker-{rank}")


@story
def test_a_parameter_server_job_is_driven_to_its_end(stage: Stage) -> None:
    """A chief is made of a worker; worker and PS are replaced; the chief's end is the job's."""
    job, master = stage.parameter_server("jps")
    config = _env(job.pods()["chief-0"])["TF_CONFIG"]
    host = f"jps-edljob-ps-0.{stage.namespace}.svc:2222"
    assert json.loads(config)["cluster"]["ps"] == [host]
    assert json.loads(config)["task"] == {"type": "chief", "index": 0}

    job.end("worker-0", 137)
    job.runs("chief-0", "ps-0", "worker-1")
    _loses(job, master, "ps-0")
    job.runs("chief-0", "ps-1", "worker-1")
    assert job.label("ps-1", names.EDL_RANK) == "0"
    # The name that the others know leads to the pod that has the rank now.
    service = job.cluster.api("GET", job.path("services", "jps-edljob-ps-0"))
    labels = job.pods()["ps-1"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()

    job.end("worker-1")
    job.end("chief-0")
    _expect_end(job, "Succeeded", master, 0)
    assert "ps-1" not in job.pods()  # nobody else would ever end it


@story
def test_empty_plans_change_nothing_and_do_not_stay(stage: Stage) -> None:
    """The plan that a PS job's master writes every minute is taken away; the pods stay the same."""
    job, _ = stage.parameter_server("jem")
    before = {name: pod["metadata"]["uid"] for name, pod in job.pods().items()}
    # The numbers 0 and 1 are of the start; this one comes a minute later.
    until(lambda: stage.has_event("ADDED", "jem-scaleplan-2"), "an empty plan", PATIENCE)
    until(lambda: stage.has_event("DELETED", "jem-scaleplan-2"), "its end")
    assert before == {name: pod["metadata"]["uid"] for name, pod in job.pods().items()}


@story
def test_a_job_that_fails_too_often_has_failed(stage: Stage) -> None:
    """After the third failure the master ends with 1: the job has failed, its pods are ended."""
    job, master = stage.all_reduce("jfa", workers=2)
    for failed, next_one in (("worker-0", "worker-2"), ("worker-2", "worker-3")):
        job.end(failed, 1)
        job.runs("worker-1", next_one)
    job.end("worker-3", 1)
    _expect_end(job, "Failed", master, 1)


@story
def test_a_job_whose_first_plan_was_lost_starts_all_the_same(stage: Stage) -> None:
    """Where the first plan could never be written, the pods are made of the job's own counts."""
    job, master = stage.job("jlo")
    plan = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {"name": "jlo-scaleplan-0", "labels": AUTO},
        "spec": {"ownerJob": "somebody-else", "replicaResourceSpecs": {"worker": {"replicas": 1}}},
    }
    job.cluster.api("POST", job.path(names.SCALE_PLANS), plan)
    job.create(PARAMETER_SERVER, **stage.roles(ps=1, worker=2))
    master.start()
    until(lambda: master.has_logged("already exists"), "the master's giving up", PATIENCE)
    job.runs("chief-0", "ps-0", "worker-0", seconds=_FALLBACK)
    # The master takes them for the ones that it asked for.
    _loses(job, master, "worker-0")
    job.runs("chief-0", "ps-0", "worker-1")


@story
def test_a_lost_race_for_a_name_is_won_by_the_next_try(stage: Stage) -> None:
    """An empty plan that holds the name of the real one is gone before the master gives up."""
    job, master = stage.job("jra")
    master.start(first=True)
    job.plan(0, labels=AUTO, replicaResourceSpecs={}, createPods=[], removePods=[], psHosts=[])
    job.create(ALLREDUCE, **stage.roles(worker=2))
    plans = "ADDED jra-scaleplan-0\n"
    until(lambda: stage.history.read_text().count(plans) == 2, "the master's own plan", PATIENCE)
    job.runs("worker-0", "worker-1")


@story
def test_a_master_that_starts_again_is_heard(stage: Stage) -> None:
    """Its plans begin at 0 again: that name is free, because handled plans do not stay."""
    job, master = stage.all_reduce("jre", workers=2)
    until(lambda: not job.plans(), "the end of the handled plan", PATIENCE)
    master.kill()
    master.start()
    _loses(job, master, "worker-1")
    job.runs("worker-0", "worker-2", seconds=PATIENCE)
    assert not master.has_logged("already exists")
    assert set(job.plans()) == {"jre-scaleplan-0"}

    job.end("worker-0")
    job.end("worker-2")
    _expect_end(job, "Succeeded", master, 0)


@story
def test_an_ended_pod_that_the_master_deletes_is_not_lost(stage: Stage) -> None:
    """It counts as succeeded and is not made again."""
    job, master = stage.all_reduce("jdl", workers=2)
    job.end("worker-0")
    # It does so when it lists the pods, a minute after its start.
    until(lambda: "worker-0" not in job.pods(), "the master's deletion of the ended pod", PATIENCE)
    job.end("worker-1")
    _expect_end(job, "Succeeded", master, 0)
    counts = job.get()["status"]["status"]["replicaStatuses"]["worker"]
    assert counts["succeeded"] == 2
    assert set(job.phases()) <= {"worker-0", "worker-1"}


@story
def test_a_job_without_requests_is_not_lost_from_sight(stage: Stage) -> None:
    """Zeros mean "not set"; each pod has requests all the same, or the master would see none."""
    job, master = stage.all_reduce("jze", workers=2, requests={})
    assert {"cpu", "memory"} <= job.requests("worker-0").keys()
    assert "0" not in job.requests("worker-0").values()
    _loses(job, master, "worker-0")
    job.runs("worker-1", "worker-2")


@story
def test_a_plan_of_a_person_and_a_suspension_are_carried_out(stage: Stage) -> None:
    """The master reads neither; both are carried out, and it goes on replacing pods."""
    job, _ = stage.all_reduce("jma", workers=1)
    replicas = {"worker": {"replicas": 2}}
    job.plan("by-hand", labels={**MANUAL, names.EDL_NAME: "jma"}, replicaResourceSpecs=replicas)
    job.runs("worker-0", "worker-1")
    until(
        lambda: job.plans()["jma-scaleplan-by-hand"].get("status", {}).get("phase") == "Succeeded",
        "the end of the plan",
    )

    job.patch(names.ELASTIC_JOBS, "jma", {"spec": {"suspend": True}})
    job.runs()
    until(lambda: job.phase() == "Suspended", lambda: f"the suspension (it is {job.phase()})")
    job.patch(names.ELASTIC_JOBS, "jma", {"spec": {"suspend": False}})
    until(lambda: len(job.alive()) == 2, lambda: f"two workers again ({job.phases()})")


@story
def test_nothing_of_a_deleted_job_is_left(stage: Stage) -> None:
    """Deleting the ElasticJob takes pods, Services and plans along, also those of the master."""
    job, master = stage.parameter_server("jde")
    master.kill()
    job.cluster.api("DELETE", job.path(names.ELASTIC_JOBS, "jde"))
    until(lambda: not job.pods() and not job.plans(), "the end of pods and plans", PATIENCE)
    until(
        lambda: not _services(job), lambda: f"the end of its Services ({_services(job)})", PATIENCE
    )


def _env(pod: Mapping[str, Any]) -> dict[str, str]:
    env = pod["spec"]["containers"][0].get("env", [])
    return {variable["name"]: variable.get("value", "") for variable in env}


def _services(job: Job) -> list[str]:
    services = job.cluster.items(job.path("services"))
    return [
        name
        for name in (service["metadata"]["name"] for service in services)
        if name.startswith((f"{job.name}-edljob-", f"elasticjob-{job.name}-"))
    ]
