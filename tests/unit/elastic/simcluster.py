"""A cluster in memory that holds one elastic job: API server, kubelet, and an operator to kill.

What is decided is carried out here as an API server would have it: names collide, a uid must match,
a status write with an old resourceVersion is refused, a deleted pod that runs is Terminating until
its kubelet lets it go. `look` is one turn of an operator; `look(acts=3)` one that was killed after
three of its actions, and `look(commits=False)` one that was killed before it wrote anything.

    cluster = SimCluster(job(workers=None))
    cluster.plan("p-0", worker=4)
    cluster.settle()
    assert ["sim-edljob-worker-0", ...] == cluster.pod_names()

Every name that was created is counted, and every pod that was asked to end, so that a test can say
that nothing was made twice and nothing was touched that is not the job's.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.elastic.actions import (
    Action,
    CreatePlan,
    CreatePod,
    CreateService,
    Decision,
    DeletePlan,
    DeletePod,
    DeleteService,
    RecordEvent,
    WriteJobStatus,
    WritePlanStatus,
)
from allranks.elastic.api import job as jobs
from allranks.elastic.decide import decide
from allranks.elastic.snapshot import JobView

if TYPE_CHECKING:
    from allranks.elastic.target import DesiredState

Manifest = dict[str, Any]

START = 1_767_225_600.0
NAMESPACE, NAME, UID = "lab", "sim", "uid-sim"
MASTER = names.EDL_MASTER
_ROUNDS = 60


class ConflictError(Exception):
    """A status write came too late."""


def stamp(seconds: float) -> str:
    """A time as Kubernetes writes it, in seconds since the epoch."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(image: str = "my/trainer:1", **requests: str) -> Manifest:
    """A pod template with one container."""
    amounts = {"cpu": "1", "memory": "1Gi", **requests}
    container = {"name": "main", "image": image, "resources": {"requests": amounts}}
    return {"spec": {"containers": [container]}}


def job(
    specs: Manifest | None = None,
    *,
    master: str = "",
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """An ElasticJob.

    Args:
        specs: replicaSpecs; without them one of workers that says no number. A spec without a
            template gets one.
        master: the annotation of that name; "" for none.
        annotations: others.
        spec: what else its spec says.
    """
    replica_specs = {"worker": {}} if specs is None else specs
    master_annotations = {names.MASTER: master} if master else {}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": stamp(START),
            "annotations": master_annotations | (annotations or {}),
        },
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {
                kind: {"template": template(), **replica_spec} if kind != MASTER else replica_spec
                for kind, replica_spec in replica_specs.items()
            },
            **spec,
        },
    }


def pod_meta(kind: str, ident: int, rank: int | None = None, **fields: Any) -> Manifest:
    """A pod as a plan of DLRover's master names it."""
    place = ident if rank is None else rank
    return {
        "name": f"{NAME}-edljob-{kind}-{ident}",
        "id": ident,
        "type": kind,
        "rankIndex": place,
        "service": f"{NAME}-edljob-{kind}-{place}.{NAMESPACE}.svc:3333",
        "resource": {},
        **fields,
    }


@dataclass
class SimCluster:
    """The cluster.

    Attributes:
        job: the ElasticJob.
        plans: its ScalePlans, by name.
        pods: all pods, by name.
        services: the names of Services.
        others: those of them that somebody else owns.
        now: seconds since the epoch.
        created: how often each pod's name was created.
        deletions: the names of pods that were asked to end by the operator.
        events: everything that was told.
        quota: how many pods there may be; None for no end.
        collisions: creates that found their name taken.
        master_image: what the operator knows for our masters.
        operator_account: the account of the operator itself, where it runs in the job's namespace.
    """

    job: Manifest = field(default_factory=job)
    plans: dict[str, Manifest] = field(default_factory=dict)
    pods: dict[str, Manifest] = field(default_factory=dict)
    services: set[str] = field(default_factory=set)
    others: frozenset[str] = frozenset()
    now: float = START
    created: Counter[str] = field(default_factory=Counter)
    deletions: list[str] = field(default_factory=list)
    events: list[RecordEvent] = field(default_factory=list)
    quota: int | None = None
    collisions: int = 0
    master_image: str = "allranks-master:1"
    operator_account: str = ""
    _serial: itertools.count[int] = field(default_factory=lambda: itertools.count(2))

    # ------------------------------------------------------------ what people and masters do

    def plan(
        self,
        name: str,
        *,
        scale: str = "auto",
        labels: dict[str, str] | None = None,
        spec: Manifest | None = None,
        **replicas: int,
    ) -> str:
        """Make a plan; `replicas` by type, or a whole `spec`. Gives its name back."""
        asks = {kind: {"replicas": count} for kind, count in replicas.items()}
        plan_spec: Manifest = {"ownerJob": NAME, "replicaResourceSpecs": asks, **(spec or {})}
        self.put_plan(
            {
                "metadata": {"name": name, "labels": {names.SCALE_TYPE: scale, **(labels or {})}},
                "spec": plan_spec,
            }
        )
        return name

    def put_plan(self, manifest: Manifest) -> None:
        """Make a plan of a manifest."""
        plan = copy.deepcopy(manifest)
        plan["metadata"] = {
            "namespace": NAMESPACE,
            "uid": f"uid-{plan['metadata']['name']}-{next(self._serial)}",
            "generation": 1,
            "creationTimestamp": stamp(self.now),
            **plan["metadata"],
        }
        self.plans[plan["metadata"]["name"]] = plan

    def edit_plan(self, name: str, **replicas: int) -> None:
        """Apply another spec to a plan that is there."""
        asks = {kind: {"replicas": count} for kind, count in replicas.items()}
        self.plans[name]["spec"]["replicaResourceSpecs"] = asks
        self.plans[name]["metadata"]["generation"] += 1

    def edit(self, **spec: Any) -> None:
        """Change the job's spec; what changes nothing is no edit, as with an API server."""
        after = {**self.job["spec"], **copy.deepcopy(spec)}
        if after == self.job["spec"]:
            return
        self.job["spec"] = after
        self.job["metadata"]["generation"] += 1
        self._bump()

    def scale(self, kind: str = "worker", replicas: int = 0) -> None:
        """What `kubectl scale` and an edit of `replicas` do."""
        specs = copy.deepcopy(self.job["spec"]["replicaSpecs"])
        specs.setdefault(kind, {})["replicas"] = replicas
        self.edit(replicaSpecs=specs)

    def annotate(self, key: str, value: str) -> None:
        """Write an annotation on the job."""
        self.job["metadata"]["annotations"][key] = value
        self._bump()

    def foreign_pod(self, name: str, **labels: str) -> None:
        """A pod that is not the job's, though it may look like it."""
        self.pods[name] = {
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"f-{name}", "labels": labels}
        }

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    # ------------------------------------------------------------ what a kubelet does

    def kubelet(self) -> bool:
        """Start every pending pod and let go of deleted ones; tells whether there were any."""
        before = len(self.pods)
        pending = [
            pod
            for name, pod in self.pods.items()
            if "spec" in pod and self.phase(name) == "Pending"
        ]
        for pod in pending:
            self._run(pod)
        self.pods = {
            name: pod
            for name, pod in self.pods.items()
            if "deletionTimestamp" not in pod["metadata"]
        }
        return bool(pending) or len(self.pods) != before

    def run_pod(self, name: str) -> None:
        """Start one pending pod."""
        self._run(self.pods[name])

    def _run(self, pod: Manifest) -> None:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.now)}
        state = {"running": {"startedAt": stamp(self.now)}}
        pod["spec"].setdefault("nodeName", "node-a")
        pod["status"] = {
            "phase": "Running",
            "startTime": stamp(self.now),
            "conditions": [ready],
            "containerStatuses": [{"name": "main", "ready": True, "state": state}],
        }

    def finish(self, name: str, code: int = 0, reason: str = "", message: str = "") -> None:
        """A pod's container ends, with a termination message where one is given."""
        word = reason or ("Completed" if code == 0 else "Error")
        terminated = {"exitCode": code, "reason": word, "finishedAt": stamp(self.now)}
        terminated |= {"message": message} if message else {}
        self.pods[name]["status"] = {
            "phase": "Succeeded" if code == 0 else "Failed",
            "startTime": stamp(self.now),
            "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
        }

    def delete(self, name: str, *, at_once: bool = False) -> None:
        """Somebody deletes a pod."""
        pod = self.pods[name]
        # A pod that no node has, or that has ended, has nothing to wait for.
        if at_once or self.phase(name) != "Running":
            del self.pods[name]
        else:
            pod["metadata"].setdefault("deletionTimestamp", stamp(self.now + 30))
            pod["metadata"].setdefault("deletionGracePeriodSeconds", 30)

    # ------------------------------------------------------------ the operator

    def view(self) -> JobView:
        """What an operator sees now."""
        return JobView(
            job=copy.deepcopy(self.job),
            plans=tuple(copy.deepcopy(list(self.plans.values()))),
            pods=tuple(copy.deepcopy(list(self.pods.values()))),
            services={
                name: "" if name in self.others else f"uid-{name}" for name in sorted(self.services)
            },
            now=self.now,
            master_image=self.master_image,
            operator_account=self.operator_account,
        )

    def look(
        self, *, commits: bool = True, acts: int | None = None, order: list[int] | None = None
    ) -> Decision:
        """One turn of an operator.

        Args:
            commits: whether it lives to write the job's status.
            acts: after how many actions it is killed; None for never.
            order: in which order it does them, as numbers to sort by; None for as they come.
        """
        decision = decide(self.view())
        if not commits:
            return decision
        if decision.commit is not None:
            self.carry_out(decision.commit)
        then = list(decision.then)
        if order:
            keys = itertools.cycle(order)
            then = [
                action
                for _, action in sorted(((next(keys), action) for action in then), key=_first)
            ]
        for action in then[:acts]:
            self.carry_out(action)
        return decision

    def settle(self, rounds: int = _ROUNDS) -> int:
        """Let operator and kubelet work until nothing is left to do; gives back in how many turns.

        Raises:
            AssertionError: there is no end to it.
        """
        for turn in range(rounds):
            decision = self.look()
            moved = self.kubelet()
            if not moved and decision.commit is None and not decision.then:
                return turn
        raise AssertionError(f"not settled after {rounds} turns: {decision}")

    def carry_out(self, action: Action | WriteJobStatus) -> None:
        """Do one action as the API server would.

        Raises:
            ConflictError: a status write with an old resourceVersion.
        """
        match action:
            case WriteJobStatus():
                if action.resource_version != self.job["metadata"]["resourceVersion"]:
                    raise ConflictError(action.name)
                self.job["status"] = _stored(json.loads(json.dumps(action.status)))
                self._bump()
            case CreatePod():
                self._create(action.manifest)
            case CreateService():
                self.services.add(action.manifest["metadata"]["name"])
            case DeletePod():
                if self._uid(self.pods, action.name) == action.uid:
                    self.deletions.append(action.name)
                    self.delete(action.name)
            case DeleteService():
                assert action.uid == f"uid-{action.name}"
                assert action.name not in self.others
                self.services.discard(action.name)
            case RecordEvent():
                self.events.append(action)
            case _:
                self._plan_action(action)

    def _plan_action(self, action: CreatePlan | WritePlanStatus | DeletePlan) -> None:
        if isinstance(action, CreatePlan):
            if action.manifest["metadata"]["name"] not in self.plans:
                self.put_plan(action.manifest)
        elif self._uid(self.plans, action.name) != action.uid:
            return
        elif isinstance(action, DeletePlan):
            del self.plans[action.name]
        else:
            self.plans[action.name]["status"] = json.loads(json.dumps(action.status))

    def _create(self, manifest: Manifest) -> None:
        pod = json.loads(json.dumps(manifest))
        name = pod["metadata"]["name"]
        if name in self.pods:
            self.collisions += 1
        elif self.quota is None or len(self.pods) < self.quota:
            self.created[name] += 1
            pod["metadata"]["uid"] = f"uid-{name}-{next(self._serial)}"
            pod["metadata"]["creationTimestamp"] = stamp(self.now)
            pod["status"] = {"phase": "Pending"}
            self.pods[name] = pod

    def _uid(self, objects: dict[str, Manifest], name: str) -> str:
        return str(objects[name]["metadata"]["uid"]) if name in objects else ""

    def _bump(self) -> None:
        self.job["metadata"]["resourceVersion"] = str(next(self._serial))

    # ------------------------------------------------------------ what a test asks

    @property
    def target(self) -> DesiredState:
        """The job's target, as it stands in its status."""
        return jobs.read(self.job).target

    def phase(self, name: str) -> str:
        """A pod's phase."""
        return str(self.pods[name].get("status", {}).get("phase", "Pending"))

    def pod_names(self, kind: str = "worker") -> list[str]:
        """The pods of a type that are there and not on their way out, by id."""
        pairs = [
            (int(pod["metadata"]["labels"][names.EDL_INDEX]), name)
            for name, pod in self.pods.items()
            if pod["metadata"]["labels"].get(names.EDL_TYPE) == kind
            and "ownerReferences" in pod["metadata"]
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return [name for _, name in sorted(pairs)]

    def ids(self, kind: str = "worker") -> list[int]:
        """The ids of `pod_names`."""
        return [int(name.rpartition("-")[2]) for name in self.pod_names(kind)]

    def ranks(self, kind: str = "worker") -> list[int]:
        """The ranks of `pod_names`, in the order of their ids."""
        labels = [self.pods[name]["metadata"]["labels"] for name in self.pod_names(kind)]
        return [int(label[names.EDL_RANK]) for label in labels]

    def plan_phases(self) -> dict[str, str]:
        """The phase of each plan that is there."""
        return {
            name: str(plan.get("status", {}).get("phase", "")) for name, plan in self.plans.items()
        }

    def plan_message(self, name: str) -> str:
        """What a plan's status says."""
        return str(self.plans[name]["status"]["message"])

    def event_reasons(self) -> list[str]:
        """The reasons of all Events so far."""
        return [event.reason for event in self.events]


def _stored(value: Any) -> Any:
    """What is left of a status on its way to an API server: nothing that is empty."""
    if isinstance(value, dict):
        fields = {key: _stored(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item not in ({}, [], None)}
    return [_stored(item) for item in value] if isinstance(value, list) else value


def _first(pair: tuple[int, Action]) -> int:
    return pair[0]
