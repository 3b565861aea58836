"""The jobs of the bench of faults: one for each way of training, on real pods, and what is in them.

All run tests/bench/fault_training.py, the ways of allranks by its charts and one by a plain Indexed
Job with bare torchrun, as somebody writes it who has only Kubernetes and torch. No restart and no
retry runs out, so that what is measured is how a job goes on, and not how often.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import waiting
from tests.conftest import find_helm
from tests.kube import image_recipe, runs
from tests.kube.api import ApiError
from tests.kube.binaries import REPO
from tests.node.conftest import Lab, rank_of

if TYPE_CHECKING:
    from tests.kube.cluster import Cluster

NODES, MANY, SURVIVORS = 2, 32, 2
EVERY, PACE = 20, 0.1
STALL_SECONDS = 10
RELEASE = "job"
_TRAINING = Path(__file__).with_name("fault_training.py").read_text(encoding="utf-8")
_START_SECONDS, _MANY_SECONDS = 120.0, 300.0
_RESTARTS = 100
# What a rank of torch needs and a rank that takes too much does not get.
_RESOURCES = {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}


class FaultError(Exception):
    """A job does not get to where it can be disturbed."""


until = partial(waiting.until, poll=0.2, failure=FaultError)


@dataclass(frozen=True, slots=True)
class Way:
    """A way of training.

    Attributes:
        title: how the table calls it.
        chart: of ours; "" is a plain Indexed Job.
        values: beside what all have.
        group: how the ranks meet, see fault_training.py.
        victim: the process that faults meet, as it calls itself, and the role and index of its pod.
        lead: role and index of rank 0's pod.
    """

    title: str
    chart: str
    values: dict[str, Any] = field(default_factory=dict)
    group: str = "gloo"
    victim: tuple[str, str, int] = ("1", "node", 1)
    lead: tuple[str, int] = ("node", 0)


_ENDS_STALLS = {
    "backoffLimit": _RESTARTS,
    "stallSeconds": STALL_SECONDS,
    "onStall": "end",
}


def _torchrun(**settings: Any) -> dict[str, Any]:
    return {"runPolicy": _ENDS_STALLS, "torchrun": {"maxRestarts": _RESTARTS, **settings}}


WAYS = {
    "fixed": Way("torchrun, fixed", "torchrun", _torchrun()),
    "elastic": Way(
        "torchrun, elastic",
        "torchrun",
        _torchrun(elastic={"minNodes": 1, "maxNodes": NODES}, rdzvConf={"last_call_timeout": "3"}),
    ),
    "spares": Way("torchrun, a spare", "torchrun", _torchrun(spares=1)),
    "mpi": Way(
        "MPI",
        "mpi",
        {"mpi": {"numWorkers": NODES, "np": NODES}, "runPolicy": _ENDS_STALLS},
        "sockets",
        ("1", "worker", 1),
        ("worker", 0),
    ),
    "servers": Way(
        "elastic, servers",
        "elastic",
        {
            "runPolicy": {"backoffLimit": _RESTARTS},
            "elastic": {
                "framework": "pytorch",
                "roles": {"ps": {"replicas": 1, "resources": _RESOURCES}},
            },
        },
        "servers",
        ("ps", "ps", 0),
        ("worker", 0),
    ),
    "plain": Way("plain Job, bare torchrun", ""),
}


class Job:
    """A job that trains.

    Attributes:
        way: its way.
        lab: its namespace.
    """

    def __init__(self, cluster: Cluster, way: Way, *, many: bool = False) -> None:
        """Start it, and return when all its ranks train."""
        self.way = way
        self._cluster = cluster
        self._id = "f" + secrets.token_hex(2)
        self.lab = Lab(cluster, f"faults-{self._id}", REPO / "charts", find_helm(4))
        self._nodes = MANY if many else NODES
        self._group = "sockets" if many else way.group
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.lab.namespace}}
        cluster.api("POST", "/api/v1/namespaces", body)
        until(lambda: self.lab.get("serviceaccounts", "default"), "the namespace's account", 60)
        try:
            if way.chart:
                self._install()
            else:
                self._apply()
            self._folder = until(self._volume, "the volume", _START_SECONDS)
            size = 1 if self._group == "servers" else self._nodes
            seconds = _MANY_SECONDS if many else _START_SECONDS
            until(lambda: self._trains(size), lambda: f"training\n{self._tails()}", seconds)
            self._uids = self._living()
        except BaseException:
            self.delete()
            raise

    def _env(self) -> dict[str, str]:
        return {
            "BENCH_ID": self._id,
            "GROUP": self._group,
            "FOLDER": "/checkpoints",
            "PACE": str(PACE),
            "EVERY": str(EVERY),
            "OMP_NUM_THREADS": "1",
        }

    def _install(self) -> None:
        values: dict[str, Any] = {
            "script": _TRAINING,
            "env": self._env(),
            "resources": {"perPod": _RESOURCES},
            "storage": {"checkpoints": {"size": "64Mi"}},
            **self.way.values,
        }
        if self.way.chart == "mpi":
            values["mpi"] = {"numWorkers": self._nodes, "np": self._nodes}
        else:
            values["nodes"] = self._nodes
        self.lab.install(RELEASE, self.way.chart, **values)

    def _apply(self) -> None:
        for kind, manifest in _plain(self._nodes, self._env()):
            self._cluster.api("POST", self.lab.path(kind), manifest)

    def _volume(self) -> Path | None:
        claim = self.lab.get("persistentvolumeclaims", f"{RELEASE}-checkpoints")
        name = claim and claim["spec"].get("volumeName")
        if not name:
            return None
        spec = self._cluster.api("GET", f"/api/v1/persistentvolumes/{name}")["spec"]
        return Path(spec["local"]["path"])

    def _trains(self, size: int) -> bool:
        """Whether the newest start is one of all ranks, and has made steps."""
        starts = [index for index, line in enumerate(self.steps()) if "start" in line]
        return bool(starts) and (
            self.steps()[starts[-1]]["size"] == size and len(self.steps()) > starts[-1] + EVERY
        )

    def steps(self) -> list[dict[str, Any]]:
        """What rank 0 has written down, each start and each step."""
        try:
            text = (self._folder / "steps").read_text(encoding="utf-8")
        except (AttributeError, FileNotFoundError):
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def _living(self) -> set[str]:
        pods = self.lab.pods(RELEASE)
        return {
            pod["metadata"]["uid"]
            for pod in pods
            if pod["status"].get("phase") == "Running"
            and "deletionTimestamp" not in pod["metadata"]
        }

    @property
    def is_as_new(self) -> bool:
        """Whether all its pods are the first ones, so that no back-off has begun."""
        return self._living() == self._uids

    def pod(self, role: str, index: int) -> str:
        """The name of a pod that is not on its way out."""
        return next(
            str(pod["metadata"]["name"])
            for pod in reversed(self.lab.pods(RELEASE, role))
            if rank_of(pod) == index and "deletionTimestamp" not in pod["metadata"]
        )

    @property
    def victim(self) -> str:
        """The name of the pod that faults meet: rank 1's, or the server's.

        Where there is a spare, rank 1 is not always in the pod with the index 1.
        """
        _, role, index = self.way.victim
        data = Path(f"/proc/{self.process()}/environ").read_bytes()
        environment = dict(entry.partition(b"=")[::2] for entry in data.split(b"\0"))
        return self.pod(role, int(environment.get(b"JOB_COMPLETION_INDEX", index)))

    @property
    def lead(self) -> str:
        """The name of rank 0's pod."""
        return self.pod(*self.way.lead)

    @property
    def many(self) -> list[str]:
        """The names of all pods with ranks but the first ones."""
        pods = self.lab.pods(RELEASE, self.way.victim[1])
        return [str(pod["metadata"]["name"]) for pod in pods if rank_of(pod) >= SURVIVORS]

    def process(self) -> int:
        """The process of the victim, as this machine counts."""
        name = f"{self._id}-{self.way.victim[0]}\n"
        for path in Path("/proc").glob("[0-9]*/comm"):
            with contextlib.suppress(OSError):
                if path.read_text() == name:
                    return int(path.parent.name)
        raise FaultError(f"no process {name.strip()} is there")

    def ask_to_fill_memory(self) -> None:
        """Let the victim take more memory than it may have."""
        (self._folder / f"oom-{self.way.victim[0]}").touch()

    def link(self) -> tuple[str, ...]:
        """What takes the victim's pod off its network, but for the last word, `down` or `up`."""
        record = runs.read(self._cluster.run.name)
        assert record is not None
        assert record.processes is not None
        holder = record.processes["node"].pid
        children = Path(f"/proc/{holder}/task/{holder}/children").read_text(encoding="ascii")
        node = int(children.split()[0])
        eth0 = _links(self.process(), "show", "eth0")
        number = re.search(r"eth0@if(\d+)", eth0)
        assert number is not None, eth0
        name = re.search(rf"^{number[1]}: ([^@:]+)", _links(node), re.MULTILINE)
        assert name is not None
        return ("nsenter", f"--target={node}", "--net", "--", "ip", "link", "set", name[1])

    def _tails(self) -> str:
        logs = [
            f"--- {pod['metadata']['name']} {pod['status'].get('phase')}\n"
            + "".join(self.lab.log(pod["metadata"]["name"]).splitlines(keepends=True)[-8:])
            for pod in self.lab.pods(RELEASE)[-4:]
        ]
        return "\n".join(logs)

    def delete(self) -> None:
        """Take it away, and return when its pods have left the node."""
        with contextlib.suppress(ApiError):
            for kind in ("batch/v1/jobs", "apps/v1/statefulsets"):
                path = self.lab.path(kind) + "?propagationPolicy=Background"
                self._cluster.api("DELETE", path)
            self._cluster.api("DELETE", self.lab.path("pods") + "?gracePeriodSeconds=0")
            self._cluster.api("DELETE", f"/api/v1/namespaces/{self.lab.namespace}")
        with contextlib.suppress(FaultError):
            until(lambda: not self.lab.pods(RELEASE), "the end of the pods", 60)


def _links(process: int, *words: str) -> str:
    command = ("nsenter", f"--target={process}", "--net", "--", "ip", "-o", "link", *words)
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _plain(nodes: int, env: dict[str, str]) -> list[tuple[str, dict[str, Any]]]:
    """A headless Service, a claim, the code and an Indexed Job, as one writes them by hand."""
    labels = {"app.kubernetes.io/instance": RELEASE, "allranks.dev/role": "node"}
    metadata = {"name": RELEASE}
    claim = {
        "metadata": {"name": f"{RELEASE}-checkpoints"},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    service = {
        "metadata": metadata,
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
    }
    command = [
        *("python3", "-m", "torch.distributed.run", f"--nnodes={nodes}", "--nproc-per-node=1"),
        f"--max-restarts={_RESTARTS}",
        *("--rdzv-backend=c10d", f"--rdzv-endpoint={RELEASE}-0.{RELEASE}:29500"),
        *(f"--rdzv-id={RELEASE}", "/code/train.py"),
    ]
    trainer = {
        "name": "trainer",
        "image": image_recipe.TRAINER,
        "command": command,
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "resources": _RESOURCES,
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            {"name": "checkpoints", "mountPath": "/checkpoints"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "subdomain": RELEASE,
        "securityContext": {"fsGroup": 1000},
        "containers": [trainer],
        "volumes": [
            {"name": "code", "configMap": {"name": RELEASE}},
            {
                "name": "checkpoints",
                "persistentVolumeClaim": {"claimName": f"{RELEASE}-checkpoints"},
            },
        ],
    }
    job = {
        "metadata": {**metadata, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": nodes,
            "parallelism": nodes,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    return [
        ("persistentvolumeclaims", claim),
        ("configmaps", {"metadata": metadata, "data": {"train.py": _TRAINING}}),
        ("services", service),
        ("batch/v1/jobs", job),
    ]
