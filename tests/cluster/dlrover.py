"""DLRover's own master as a process, and an elastic job of fake pods that it drives.

The master is the released one, in an environment of its own (tools/env.py), and talks to the real
API server as whoever holds a kubeconfig. It sees a job's pods through their labels alone, so fake
pods are as good as real ones; a test tells one how to end by its annotations.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.kube import kwok
from tests.kube.api import ApiError
from tests.waiting import until

from . import watching

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kube.cluster import Cluster

_REPO = Path(__file__).parents[2]
_NOT_FOUND = 404
ALLREDUCE, PARAMETER_SERVER = "AllreduceStrategy", "ParameterServerStrategy"
REQUESTS = {"cpu": "50m", "memory": "32Mi"}
# What the master itself waits is up to half a minute, in steps that nobody can set.
PATIENCE = 120.0


def python() -> Path:
    """The Python of the environment that has the master, built where it is not there yet."""
    command = [sys.executable, _REPO / "tools/env.py", "dlrover"]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        pytest.fail("the environment of DLRover's master cannot be made", pytrace=False)
    return Path(process.stdout.strip()) / "bin/python"


def replicas(count: int, requests: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A replica spec of fake pods.

    Args:
        count: how many.
        requests: of each; None is `REQUESTS`, and {} none at all.
    """
    # With autoScale the master of a PS job asks for 16 CPUs in the place of the template's.
    specs = watching.replicas(count, autoScale=False)
    container = specs["template"]["spec"]["containers"][0]
    amounts = REQUESTS if requests is None else requests
    container["resources"] = {"requests": dict(amounts)} if amounts else {}
    return specs


@dataclass(slots=True)
class Master:
    """One process of the released master.

    Attributes:
        cluster: where its job is.
        namespace: the job's.
        job: the job's name.
        folder: for its log.
    """

    cluster: Cluster
    namespace: str
    job: str
    folder: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _starts: int = 0

    def start(self, *, first: bool = False) -> None:
        """Start it, for the first time or again.

        Args:
            first: wait until it is about to ask for its job, which is to be made then: where it is
                slow to start, its first plan comes later than that is waited for.
        """
        program = (python(), "-W", "ignore", "-m", "dlrover.python.master.main")
        self._starts += 1
        about = ("--namespace", self.namespace, "--job_name", self.job)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*program, "--platform", "k8s", *about, "--port", str(free_port())],
                cwd=self.folder,
                # Without KUBERNETES_SERVICE_HOST, with which it would take itself for a pod.
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.folder),
                    "KUBECONFIG": str(self.cluster.kubeconfig),
                    "DLROVER_EVENT_FILE_DIR": str(self.folder / "events"),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        if first:
            until(
                lambda: self.has_logged("Load the kube config file"), "the master's start", PATIENCE
            )

    def kill(self) -> None:
        """End it as a lost node would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ends(self, code: int) -> None:
        """Wait for its own end with a code."""
        process = self._process
        assert process is not None
        until(
            lambda: process.poll() is not None, lambda: f"the master's end\n{self.log()}", PATIENCE
        )
        assert code == process.returncode, self.log()

    def sees(self, *pods: str) -> None:
        """Wait until it knows that these pods run; it misses no other ones later.

        Args:
            pods: the ends of their names: `worker-0`.
        """
        words = [f"{self.job}-edljob-{pod} status change: " for pod in pods]
        until(
            lambda: all(self._runs(word) for word in words),
            lambda: f"{pods}\n{self.log()}",
            PATIENCE,
        )

    def _runs(self, words: str) -> bool:
        text = self._log.read_text(encoding="utf-8", errors="replace")
        return any(words in line and " to Running " in line for line in text.splitlines())

    def log(self) -> str:
        """The last that it has written."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-30:])

    def has_logged(self, text: str) -> bool:
        """Whether it has written a text since its last start."""
        return text in self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.job}-{self._starts}.log"


@dataclass(frozen=True, slots=True)
class Job:
    """An elastic job, and what the cluster has of it.

    Attributes:
        cluster: the cluster.
        namespace: the test's own.
        name: the job's.
    """

    cluster: Cluster
    namespace: str
    name: str

    def create(
        self,
        strategy: str,
        *,
        annotations: Mapping[str, str] | None = None,
        spec: Mapping[str, Any] | None = None,
        **roles: dict[str, Any],
    ) -> None:
        """Make the job; its master is somebody else's, as the tests' are.

        Args:
            strategy: of distribution.
            annotations: added to the one that says so.
            spec: over the rest of its spec.
            roles: replica specs by type.
        """
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.ELASTIC_JOB,
            "metadata": {
                "name": self.name,
                "annotations": {names.MASTER: "external", **(annotations or {})},
            },
            "spec": {
                "distributionStrategy": strategy,
                "optimizeMode": "single-job",
                "replicaSpecs": roles,
                **(spec or {}),
            },
        }
        self.cluster.api("POST", self.path(names.ELASTIC_JOBS), body)

    def plan(self, number: int | str, *, labels: Mapping[str, str], **spec: Any) -> dict[str, Any]:
        """Make a plan of a person; its name ends with `number`."""
        body = {
            "apiVersion": names.ELASTIC_API_VERSION,
            "kind": names.SCALE_PLAN,
            "metadata": {"name": f"{self.name}-scaleplan-{number}", "labels": dict(labels)},
            "spec": {"ownerJob": self.name, **spec},
        }
        return self.cluster.api("POST", self.path(names.SCALE_PLANS), body)

    def path(self, plural: str, name: str = "") -> str:
        """The address of elastic objects here, or of core objects such as pods."""
        elastic = plural in {names.ELASTIC_JOBS, names.SCALE_PLANS}
        root = f"/apis/{names.ELASTIC_API_VERSION}" if elastic else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self) -> dict[str, Any]:
        """The ElasticJob."""
        return self.cluster.api("GET", self.path(names.ELASTIC_JOBS, self.name))

    def phase(self) -> str:
        """The job's phase; "" before its first status."""
        return str(self.get().get("status", {}).get("phase", ""))

    def annotate(self, **annotations: str) -> None:
        """Set annotations of the job; their keys are written with `names`' values."""
        self.patch(names.ELASTIC_JOBS, self.name, {"metadata": {"annotations": annotations}})

    def patch(self, plural: str, name: str, body: Mapping[str, Any]) -> None:
        """Merge into an object."""
        self.cluster.api("PATCH", self.path(plural, name), body)

    def plans(self) -> dict[str, dict[str, Any]]:
        """The plans that are there for this job, by name."""
        plans = self.cluster.items(self.path(names.SCALE_PLANS))
        mine = [plan for plan in plans if plan["spec"].get("ownerJob") == self.name]
        return {plan["metadata"]["name"]: plan for plan in mine}

    def pods(self) -> dict[str, dict[str, Any]]:
        """The job's pods that are not on their way out, by the end of their names: `worker-0`."""
        query = f"?labelSelector={names.EDL_NAME}%3D{self.name}"
        pods = self.cluster.items(self.path("pods") + query)
        prefix = f"{self.name}-edljob-"
        return {
            pod["metadata"]["name"].removeprefix(prefix): pod
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        }

    def alive(self) -> set[str]:
        """The pods that run."""
        return {name for name, pod in self.pods().items() if pod["status"]["phase"] == "Running"}

    def runs(self, *pods: str, seconds: float = 90.0) -> None:
        """Wait until exactly these pods run; others may have ended."""
        expected = set(pods)
        until(
            lambda: expected == self.alive(),
            lambda: f"{sorted(expected)} run (there is {self.phases()}, {self.get()['status']})",
            seconds,
        )

    def phases(self) -> dict[str, str]:
        """The phase of each pod, for a test's last words."""
        return {name: pod["status"]["phase"] for name, pod in self.pods().items()}

    def end(self, pod: str, code: int = 0) -> None:
        """Have a fake pod's container end now."""
        annotations = {kwok.EXIT_CODE: str(code), kwok.ENDS_AFTER: "0s"}
        body = {"metadata": {"annotations": annotations}}
        self.patch("pods", f"{self.name}-edljob-{pod}", body)

    def delete_pod(self, pod: str) -> None:
        """Delete a pod as a person would, without a grace period."""
        self.cluster.api(
            "DELETE", self.path("pods", f"{self.name}-edljob-{pod}") + "?gracePeriodSeconds=0"
        )

    def gone(self, plural: str, name: str) -> bool:
        """Whether an object is not there any more."""
        try:
            self.cluster.api("GET", self.path(plural, name))
        except ApiError as error:
            return error.status == _NOT_FOUND
        return False

    def requests(self, pod: str) -> dict[str, str]:
        """What a pod's container asks for."""
        amounts: dict[str, str] = self.pods()[pod]["spec"]["containers"][0]["resources"]["requests"]
        return amounts

    def label(self, pod: str, key: str) -> str:
        """A label of a pod."""
        return str(self.pods()[pod]["metadata"]["labels"][key])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
