"""One real node for the whole tier, and a namespace, a helm and a pair of eyes for each test.

The tests wait more than they compute, so that several workers share the one cluster: it starts with
the first that asks, and ends with the last.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml

from allranks import names
from tests import waiting
from tests.kube import cluster as kube
from tests.kube import image_recipe
from tests.kube.api import ApiError
from tests.kube.errors import BenchError
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kube.cluster import Cluster

CLI = Path(sys.executable).parent / "allranks"
_NOT_FOUND = 404
_RESTRICTED, _BASELINE = "restricted", "baseline"
# Many pods fit on a node of two cores, and none of them takes it for itself.
_SMALL = {"perPod": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "2Gi"}}}


# Each look is a request, and the API server shares the cores with the pods.
until = partial(waiting.until, poll=0.25)


@dataclass(frozen=True, slots=True)
class Lab:
    """A namespace of one test's own, on the real node.

    Attributes:
        cluster: the cluster.
        namespace: the namespace.
        charts: the folder of our charts.
        helm: the helm that installs.
    """

    cluster: Cluster
    namespace: str
    charts: Path
    helm: Any

    def run_helm(self, *words: str | Path, stdin: str = "", check: bool = True) -> Any:
        """Run helm on this cluster and in this namespace."""
        where = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", self.namespace)
        return self.helm.run(*words, *where, stdin=stdin, check=check)

    def install(self, name: str, chart: str = "torchrun", **values: Any) -> None:
        """Install one of our charts; `values` come over small defaults of the trainer's image."""
        self._apply("install", name, chart, values)

    def upgrade(self, name: str, chart: str = "torchrun", **values: Any) -> None:
        """Upgrade a release; all values are given again."""
        self._apply("upgrade", name, chart, values)

    def _apply(self, verb: str, name: str, chart: str, values: Mapping[str, Any]) -> None:
        chart_values = json.dumps(small(values))
        self.run_helm(verb, name, self.charts / chart, "--values", "-", stdin=chart_values)

    def code(self, *files: Path) -> dict[str, Any]:
        """Put files into the pods, each in a folder named as its own, beside each other.

        Returns:
            The values that do so, with a ConfigMap made for them; pods start with the first file.
        """
        data = {path.name: path.read_text(encoding="utf-8") for path in files}
        metadata = {"name": "code"}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        self.cluster.api("POST", self.path("configmaps"), config)
        # File by file: a ConfigMap's volume is made of links, whose targets differ from pod to pod,
        # and mpirun starts its ranks in the folder that a link leads to.
        mounts = [
            {
                "name": "code",
                "mountPath": f"/app/{path.parent.name}/{path.name}",
                "subPath": path.name,
            }
            for path in files
        ]
        spec = {
            "containers": [{"name": "trainer", "volumeMounts": mounts}],
            "volumes": [{"name": "code", "configMap": {"name": "code"}}],
        }
        return {"workingDir": f"/app/{files[0].parent.name}", "podTemplate": {"spec": spec}}

    def example(self, name: str, *files: Path) -> dict[str, Any]:
        """The values of an example with its program in the pods, and others' files beside it."""
        folder = self.charts.parent / "examples" / name
        values = yaml.safe_load((folder / "values.yaml").read_text(encoding="utf-8"))
        del values["image"], values["resources"]
        return {**values, **self.code(*folder.glob("*.py"), *files)}

    def path(self, kind: str, name: str = "") -> str:
        """The address of objects here; `kind` is plural, after its group, as `batch/v1/jobs`."""
        group, _, plural = kind.rpartition("/")
        root = f"/apis/{group}" if group else "/api/v1"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object; None where it is not there."""
        try:
            return self.cluster.api("GET", self.path(kind, name))
        except ApiError as error:
            if error.status == _NOT_FOUND:
                return None
            raise

    def job(self, name: str) -> dict[str, Any]:
        """A Job, which must be there."""
        return self.cluster.api("GET", self.path("batch/v1/jobs", name))

    def patch(self, kind: str, name: str, body: Mapping[str, Any]) -> None:
        """Merge into an object."""
        self.cluster.api("PATCH", self.path(kind, name), body)

    def delete(self, kind: str, name: str, grace: int | None = None) -> None:
        """Delete an object; `grace` is in seconds, None is the object's own."""
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self.cluster.api("DELETE", self.path(kind, name) + query)

    def evict(self, pod: str) -> None:
        """Evict a pod as a drain does."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
        }
        self.cluster.api("POST", self.path("pods", f"{pod}/eviction"), body)

    def pods(self, release: str, role: str = "") -> list[dict[str, Any]]:
        """All pods of a release, or those with a role, the oldest first."""
        query = f"?labelSelector=app.kubernetes.io%2Finstance%3D{release}"
        selector = f"%2Callranks.dev%2Frole%3D{role}" if role else ""
        items = self.cluster.items(self.path("pods") + query + selector)
        return sorted(items, key=lambda pod: pod["metadata"]["creationTimestamp"])

    def pod(self, release: str, rank: int = 0, role: str = "") -> dict[str, Any]:
        """The newest pod of an index that is not on its way out, once it is there."""

        def look() -> dict[str, Any] | None:
            living = [
                pod
                for pod in self.pods(release, role)
                if rank_of(pod) == rank and "deletionTimestamp" not in pod["metadata"]
            ]
            return living[-1] if living else None

        pod: dict[str, Any] = until(look, f"a pod {rank} of {release} {role}")
        return pod

    def log(self, pod: str) -> str:
        """What a pod has written so far; one line that says why there is nothing to read."""
        try:
            # With times, so that a log of JSON lines is not taken for an object.
            answer = self.cluster.api("GET", self.path("pods", f"{pod}/log") + "?timestamps=true")
        except ApiError as error:
            return f"(no log: {error})\n"
        lines = str(answer.get("text", "")).splitlines()
        return "".join(f"{line.partition(' ')[2]}\n" for line in lines)

    def logs(self, release: str) -> str:
        """What all pods of a release have written, for a test's last words."""
        parts = []
        for pod in self.pods(release):
            name, status = pod["metadata"]["name"], pod["status"]
            parts.append(f"--- {name} {json.dumps(status.get('containerStatuses', status))}")
            parts.append(self.log(name))
        return "\n".join(parts)

    def line(
        self,
        release: str,
        text: str,
        rank: int = 0,
        role: str = "",
        seconds: float = PATIENCE,
    ) -> str:
        """Wait for a line with a text in the log of an index's newest pod; returns the line."""

        def look() -> str | None:
            lines = self.log(self.pod(release, rank, role)["metadata"]["name"]).splitlines()
            return next((line for line in lines if text in line), None)

        text_line: str = until(look, lambda: f"{text!r} in the log\n{self.logs(release)}", seconds)
        return text_line

    def finished(self, release: str, part: str = "", seconds: float = PATIENCE) -> dict[str, Any]:
        """Wait for the end of a Job; returns its condition, Complete or Failed.

        Args:
            release: the release.
            part: of an MPI job, `launcher` or `worker`; "" is a release's only Job.
            seconds: how long it may take.
        """
        name = f"{release}-{part}" if part else release

        def look() -> dict[str, Any] | None:
            return next(
                (
                    condition
                    for condition in self.job(name)["status"].get("conditions", [])
                    if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
                ),
                None,
            )

        words = f"the end of {name}"
        condition: dict[str, Any] = until(look, lambda: f"{words}\n{self.logs(release)}", seconds)
        return condition

    def completes(self, release: str, part: str = "", seconds: float = PATIENCE) -> None:
        """Wait for a Job's success; fail the test with all logs where it fails."""
        condition = self.finished(release, part, seconds)
        if condition["type"] != "Complete":
            pytest.fail(f"{release} failed: {condition}\n{self.logs(release)}", pytrace=False)

    def ended(self, release: str, rank: int = 0, role: str = "") -> dict[str, Any]:
        """Wait for the end of a trainer in an index's newest pod; how it ended."""

        def look() -> dict[str, Any] | None:
            statuses = self.pod(release, rank, role)["status"].get("containerStatuses", [])
            states = [container_status["state"].get("terminated") for container_status in statuses]
            return states[0] if states else None

        words = f"the end of pod {rank} of {release} {role}"
        pod: dict[str, Any] = until(look, lambda: f"{words}\n{self.logs(release)}")
        return pod

    def inside(self, pod: str, *command: str) -> str:
        """What a command prints in a pod's trainer."""
        words = ("exec", pod, "--container", "trainer", "--", *command)
        return self.cluster.kubectl(*words, namespace=self.namespace)

    def let_go(self, pod: str, file: str, container: str = "trainer") -> None:
        """Make the file that a container waits for; it may end before this command has."""
        words = ("exec", pod, "--container", container, "--", "touch", file)
        with suppress(BenchError):
            self.cluster.kubectl(*words, namespace=self.namespace)

    def events(self, reason: str) -> list[str]:
        """The messages of all events with a reason."""
        events = self.cluster.items(self.path("events") + f"?fieldSelector=reason%3D{reason}")
        return [event["message"] for event in events]


def small(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values over those of a small job that runs in the trainer's image."""
    repository, tag = image_recipe.TRAINER.rsplit(":", 1)
    return {
        "image": {"repository": repository, "tag": tag},
        "resources": _SMALL,
        **values,
        "env": {"OMP_NUM_THREADS": "1", **values.get("env", {})},
    }


def rank_of(pod: Mapping[str, Any]) -> int:
    """The index of a Job's or a StatefulSet's pod, or the rank of an elastic job's."""
    metadata = pod["metadata"]
    index = metadata.get("annotations", {}).get("batch.kubernetes.io/job-completion-index")
    labels = metadata["labels"]
    return int(index or labels.get("apps.kubernetes.io/pod-index") or labels.get(names.RANK, 0))


class MakeLab(Protocol):
    """Makes namespaces."""

    def __call__(self, level: str = _RESTRICTED, helm: Any = None) -> Lab:
        """A namespace where Pod Security enforces a level; with another helm than helm 4."""


@pytest.fixture(scope="session")
def node_cluster(testrun_uid: str) -> Iterator[Cluster]:
    """A control plane and one real node, shared by all workers of this test run."""
    try:
        with kube.share(f"node-{testrun_uid[:8]}", node=True) as cluster:
            yield cluster
    except BenchError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def make_lab(node_cluster: Cluster, helm4: Any, repo: Path) -> Iterator[MakeLab]:
    """Namespaces that go with the test."""
    labs = []

    def make(level: str = _RESTRICTED, helm: Any = None) -> Lab:
        lab = Lab(node_cluster, f"lab-{secrets.token_hex(3)}", repo / "charts", helm or helm4)
        metadata = {
            "name": lab.namespace,
            "labels": {"pod-security.kubernetes.io/enforce": level},
        }
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        node_cluster.api("POST", "/api/v1/namespaces", body)
        labs.append(lab)
        until(lambda: lab.get("serviceaccounts", "default"), "the namespace's service account")
        return lab

    yield make
    for lab in labs:
        # Pods that run on would take the node from the other tests for their whole grace period.
        node_cluster.api("DELETE", lab.path("pods") + "?gracePeriodSeconds=0")
        node_cluster.api("DELETE", f"/api/v1/namespaces/{lab.namespace}")


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    """A namespace under Pod Security "restricted", and helm 4."""
    return make_lab()


class Allranks(Protocol):
    """The command line, in the test's namespace."""

    def __call__(self, *words: str | Path, code: int = 0, **values: Any) -> str:
        """What it prints, in all; fails the test on another exit code.

        Args:
            words: the command line, without where.
            code: the exit code.
            values: given as the last values file.
        """


@pytest.fixture
def allranks(lab: Lab, helm4: Any, tmp_path: Path) -> Allranks:
    """The command line, in the test's namespace."""
    env = {**os.environ, "ALLRANKS_HELM": str(helm4.path), "ALLRANKS_STATE": str(tmp_path)}
    where = ("--kubeconfig", lab.cluster.kubeconfig, "--namespace", lab.namespace)

    def run(*words: str | Path, code: int = 0, **values: Any) -> str:
        path = tmp_path / "values.yaml"
        path.write_text(json.dumps({"workload": "torchrun", **small(values)}), encoding="utf-8")
        flags = ("-f", path) if values else ()
        end = words.index("--") if "--" in words else len(words)
        command = [CLI, *words[:end], *flags, *where, *words[end:]]
        process = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        output = process.stdout + process.stderr
        assert code == process.returncode, f"{words}\n{output}\n{lab.logs(str(words[1]))}"
        assert "Traceback (most recent call last)" not in process.stderr
        return output

    return run
