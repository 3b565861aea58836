"""A namespace with elastic jobs of fake pods, and the real operator at work on it."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from allranks import names
from tests.kube import kwok
from tests.kube.api import ApiError
from tests.waiting import until

from . import operator_process
from .operator_process import PATIENCE, OperatorProcess

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kube.cluster import Cluster

    from .operator_process import Zygote

REPO = Path(__file__).parents[2]
_NOT_FOUND = 404
# KWOK and the scheduler take their time to find an API server again.
LONG = 100.0
_NODES = {"bench.allranks.dev/nodes": "watching"}
_SHAPE = kwok.Shape(gpus=0, cpus=100_000, memory="1000Ti", pods=20_000)
ELASTIC, STATUS = f"/apis/{names.ELASTIC_API_VERSION}", f"/apis/{names.API_VERSION}"
_ROOTS = {
    names.ELASTIC_JOBS: ELASTIC,
    names.SCALE_PLANS: ELASTIC,
    names.TRAINING_RUNS: STATUS,
    "jobs": "/apis/batch/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "roles": "/apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1",
}

# A claim that no volume is bound to.
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    },
}


@dataclass(slots=True)
class Lab:
    """A namespace with elastic jobs, and the operators that work on it.

    Attributes:
        cluster: the cluster; it knows the operator's kinds.
        namespace: the test's own.
        zygote: starts operators.
        folder: for their logs.
    """

    cluster: Cluster
    namespace: str
    zygote: Zygote
    folder: Path
    _operators: list[OperatorProcess] = field(default_factory=list)

    # --- operators --------------------------------------------------------------------------------

    def watch(self, *flags: str, identity: str = "one", acts: bool = True) -> OperatorProcess:
        """Start an operator of this namespace.

        Args:
            flags: added to its command line.
            identity: who it is.
            acts: wait until it acts.
        """
        log = self.folder / f"operator-{len(self._operators)}.log"
        words = ["--namespace", self.namespace, "--lease-namespace", self.namespace]
        words += ["--listen", "127.0.0.1:0", "--identity", identity, *flags]
        operator = OperatorProcess(self.zygote.start(words, log), log)
        self._operators.append(operator)
        return operator.acts() if acts else operator

    def kill(self) -> None:
        """End all operators."""
        for operator in self._operators:
            operator.kill()

    def close(self) -> None:
        """End all operators; fail the test where one of them had a fault."""
        self.kill()
        for operator in self._operators:
            operator.sound()

    # --- objects ----------------------------------------------------------------------------------

    def path(self, plural: str, name: str = "") -> str:
        """The address of objects here."""
        root = _ROOTS.get(plural, "/api/v1")
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, plural: str, name: str) -> dict[str, Any] | None:
        """An object; None where it is not there."""
        try:
            return self.cluster.api("GET", self.path(plural, name))
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return None

    def job(self, name: str, **fields: Any) -> dict[str, Any]:
        """Make an elastic job whose master is somebody else's: the test's own plans.

        Args:
            name: its name.
            fields: `specs` in place of the worker's; `annotations` over the own; over its spec.
        """
        annotations = {names.MASTER: "external", names.RELAUNCH: "watcher"}
        specs = fields.pop("specs", None) or {"worker": replicas()}
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.ELASTIC_JOB,
            "metadata": {"name": name, "annotations": annotations | fields.pop("annotations", {})},
            "spec": {
                "distributionStrategy": "AllreduceStrategy",
                "replicaSpecs": specs,
                **fields,
            },
        }
        return self.cluster.api("POST", self.path(names.ELASTIC_JOBS), body)

    def plan(self, job: str, number: int | str, **spec: Any) -> dict[str, Any]:
        """Make a plan for a job; a word is a replica type and its count, or a field of the spec."""
        counts = {key: spec.pop(key) for key in list(spec) if isinstance(spec[key], int)}
        groups = {key: {"replicas": count} for key, count in counts.items()}
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.SCALE_PLAN,
            "metadata": {"name": f"{job}-plan-{number}", "labels": {names.SCALE_TYPE: "manual"}},
            "spec": {
                "ownerJob": job,
                **({"replicaResourceSpecs": groups} if groups else {}),
                **spec,
            },
        }
        return self.cluster.api("POST", self.path(names.SCALE_PLANS), body)

    def pods(self, job: str = "", kind: str = "") -> list[dict[str, Any]]:
        """The pods of a job that are not on their way out, by name."""
        pods = [
            pod
            for pod in self.cluster.items(self.path("pods"))
            if job in ("", pod["metadata"]["labels"].get(names.EDL_NAME))
            and kind in ("", pod["metadata"]["labels"].get(names.EDL_TYPE))
            and "deletionTimestamp" not in pod["metadata"]
        ]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def names(self, job: str = "", kind: str = "") -> list[str]:
        """The names of those pods."""
        return [pod["metadata"]["name"] for pod in self.pods(job, kind)]

    def running(self, job: str, count: int, kind: str = "", seconds: float = PATIENCE) -> list[str]:
        """Wait until exactly so many pods of a job run; return their names."""

        def enough() -> bool:
            phases = [pod["status"].get("phase") for pod in self.pods(job, kind)]
            return ["Running"] * count == phases

        until(enough, f"{count} running pods of {job} {kind}", seconds)
        return self.names(job, kind)

    def status(self, job: str) -> dict[str, Any]:
        """The status of a job; {} before it has one."""
        return (self.get(names.ELASTIC_JOBS, job) or {}).get("status") or {}

    def phase_of_plan(self, name: str) -> str:
        """The phase of a plan; "" before it has one."""
        return str(((self.get(names.SCALE_PLANS, name) or {}).get("status") or {}).get("phase", ""))

    def run(self, name: str) -> dict[str, Any]:
        """The status of a TrainingRun; {} before it has one."""
        return (self.get(names.TRAINING_RUNS, name) or {}).get("status") or {}

    def events(self, reason: str = "") -> list[dict[str, Any]]:
        """Events here."""
        events = self.cluster.items(self.path("events"))
        return [event for event in events if reason in ("", event["reason"])]

    def created(self, resource: str = "pods") -> int:
        """How many creations the API server has accepted here, since its start."""
        times = self.cluster.audit.times(verb="create", resource=resource, namespace=self.namespace)
        return len(times)


def replicas(count: int | None = None, **fields: Any) -> dict[str, Any]:
    """A replica spec of fake pods.

    Args:
        count: how many; None says none.
        fields: `annotations` of the pods; over the spec.
    """
    annotations: Mapping[str, str] = fields.pop("annotations", {})
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": _NODES,
        "tolerations": [kwok.TOLERATION],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "main",
                "image": "my/trainer:1",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": ["ALL"]},
                },
            }
        ],
    }
    template = {"metadata": {"annotations": dict(annotations)}, "spec": spec}
    counted = {} if count is None else {"replicas": count}
    return {**counted, "restartCount": 3, "template": template, **fields}


def release_job(name: str, *, count: int = 2, **fields: Any) -> dict[str, Any]:
    """A Job of a release, of fake pods, whose chart rendered no TrainingRun.

    Args:
        name: its own, and the release's where `more` names none.
        count: how many pods.
        fields: `release`; `pods`, their annotations; `pod_spec`, over their spec; `labels` and
            `annotations` of the Job.
    """
    labels = {
        names.APP_INSTANCE: fields.pop("release", name),
        names.APP_PART_OF: names.PART_OF,
        names.WORKLOAD: "torchrun",
    }
    template = replicas(annotations=fields.pop("pods", {}))["template"]
    template["metadata"]["labels"] = labels
    template["spec"].update(fields.pop("pod_spec", {}))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels | fields.pop("labels", {}), **fields},
        "spec": {
            "completionMode": "Indexed",
            "completions": count,
            "parallelism": count,
            "backoffLimit": 0,
            "template": template,
        },
    }


def add_nodes(cluster: Cluster) -> None:
    """Make fake nodes for these pods."""
    prefix = f"watching-{secrets.token_hex(3)}"
    kwok.create(cluster.admin, 2, prefix=prefix, shape=_SHAPE, labels=_NODES)


def fixtures(cluster: str, scope: Literal["session", "module"]) -> tuple[Any, Any]:
    """The fixtures ``zygote`` and ``lab`` of a cluster.

    Args:
        cluster: the fixture that makes the cluster.
        scope: of what starts the operators, and of the nodes for their pods, which stay as long as
            the cluster.
    """

    @pytest.fixture(scope=scope, name="zygote")
    def starter(request: pytest.FixtureRequest) -> Iterator[Zygote]:
        """What starts operators."""
        shared = request.getfixturevalue(cluster)
        add_nodes(shared)
        with operator_process.zygote(shared) as new_zygote:
            yield new_zygote

    @pytest.fixture(name="lab")
    def lab(request: pytest.FixtureRequest, zygote: Zygote, tmp_path: Path) -> Iterator[Lab]:
        """A namespace of the test's own, for elastic jobs and operators."""
        with laboratory(request.getfixturevalue(cluster), zygote, tmp_path) as new_lab:
            yield new_lab

    return starter, lab


@contextmanager
def laboratory(cluster: Cluster, starter: Zygote, folder: Path) -> Iterator[Lab]:
    """A namespace of a test's own; it goes with the block, and its operators first."""
    name = f"lab-{secrets.token_hex(4)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.api("POST", "/api/v1/namespaces", body)
    new_lab = Lab(cluster, name, starter, folder)
    accounts = new_lab.path("serviceaccounts")
    until(lambda: cluster.items(accounts), "the namespace's service account")
    try:
        yield new_lab
        new_lab.close()
    finally:
        new_lab.kill()
        cluster.api("DELETE", f"/api/v1/namespaces/{name}")
