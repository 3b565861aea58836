"""A sweep on the shared cluster: fake trials that end as a file says, and a runner to kill."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from allranks import names
from allranks.cluster.client import KubeCluster
from allranks.helm.binary import inspect
from allranks.helm.releases import ReleaseRef
from allranks.sweep import runner
from allranks.sweep.spec.prepare import PreparedSweep, SweepFlags, prepare
from allranks.sweep.storage.journal import read_state
from allranks.sweep.trials import cluster as cluster_trials
from allranks.values.sources import Sources
from tests.kube import kwok
from tests.kube.api import ApiError

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.sweep.state import SweepState
    from tests.kube.cluster import Cluster

# Runs a sweep, beginning it where there is none yet.
_RUNNER = """
import sys
from pathlib import Path
from allranks.cluster.client import KubeCluster
from allranks.helm.binary import inspect
from allranks.helm.releases import ReleaseRef
from allranks.sweep import runner
from allranks.sweep.trials import cluster
from allranks.sweep.spec import prepare
from allranks.values.sources import Sources

name, values, over, helm, namespace, kubeconfig = sys.argv[1:]
path = runner.locate(name)
if path.exists():
    prepared, journal = runner.open_sweep(path)
else:
    request = prepare.SweepFlags(name, Sources(files=(values,)), overs=(over,) if over else ())
    prepared = prepare.prepare(request)
    journal = runner.begin(prepared, path, {"on": "cluster"})
home = ReleaseRef(inspect(Path(helm)), name, namespace, kubeconfig)
trials = cluster.ClusterTrials(prepared, KubeCluster(kubeconfig), home)
with journal:
    state = runner.run(prepared, trials, journal, notify=print)
print(state.outcome, state.reason)
"""

# A Job that ends with a code, as the values say.
FOREIGN = """
apiVersion: batch/v1
kind: Job
metadata: {name: {{ .Release.Name }}-it}
spec:
  backoffLimit: 0
  template:
    metadata:
      annotations:
        bench.allranks.dev/ends-after: 0.2s
        bench.allranks.dev/exit-code: {{ .Values.code | quote }}
        rate: {{ .Values.learning.rate | quote }}
    spec:
      restartPolicy: Never
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
      securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: it
          image: any
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
"""


def fake(index: int, *, code: int = 0, ends: str = "0.2s", says: str = "") -> dict[str, Any]:
    """One choice of ``--over``: what becomes of the pod of a fake trial.

    Args:
        index: its argument.
        code: the exit code.
        ends: how long it runs; "" is until `Field.end_pods`.
        says: what it reports.
    """
    annotations = {kwok.EXIT_CODE: str(code)}
    if ends:
        annotations[kwok.ENDS_AFTER] = ends
    if says:
        annotations[kwok.SAYS] = says
    return {
        "args": [str(index)],
        "podTemplate": {"metadata": {"annotations": annotations}},
    }


@dataclass(frozen=True, slots=True)
class Field:
    """Where one test's sweep runs.

    Attributes:
        cluster: the cluster.
        namespace: the test's own.
        helm: the helm to use.
        folder: for files, and the state.
    """

    cluster: Cluster
    namespace: str
    helm: Path
    folder: Path

    def write(self, choices: list[dict[str, Any]], **sweep: Any) -> tuple[Path, str]:
        """A values file of trials of one fake pod each, and the flag that tells their ends."""
        over = self.folder / "ends.yaml"
        over.write_text(yaml.safe_dump(choices))
        values = self.folder / "values.yaml"
        content = {
            "workload": "sweep",
            "image": {"repository": "my/trainer", "tag": "1"},
            "command": ["python", "train.py"],
            "security": {"podSecurityContext": {"runAsUser": 1000}},
            "scheduling": {"tolerations": [kwok.TOLERATION]},
            "runPolicy": {"backoffLimit": 0},
            "sweep": sweep,
        }
        values.write_text(yaml.safe_dump(content))
        return values, f"end={over}"

    def prepare(self, values: Path, over: str, name: str = "s") -> PreparedSweep:
        """The sweep."""
        overs = (over,) if over else ()
        return prepare(SweepFlags(name, Sources(files=(str(values),)), overs=overs))

    def trials(self, prepared: PreparedSweep) -> cluster_trials.ClusterTrials:
        """What its trials run on."""
        kubeconfig = str(self.cluster.kubeconfig)
        home = ReleaseRef(inspect(self.helm), prepared.spec.name, self.namespace, kubeconfig)
        return cluster_trials.ClusterTrials(prepared, KubeCluster(kubeconfig), home)

    def run(self, prepared: PreparedSweep) -> SweepState:
        """Run it to its end, in this process."""
        path = runner.locate(prepared.spec.name)
        with runner.begin(prepared, path, {"on": "cluster"}) as journal:
            return runner.run(prepared, self.trials(prepared), journal)

    def process(self, values: Path, over: str, name: str = "s") -> subprocess.Popen[str]:
        """Run it, or go on with it, in a process of its own."""
        words = [name, values, over, self.helm, self.namespace, self.cluster.kubeconfig]
        return subprocess.Popen(
            [sys.executable, "-c", _RUNNER, *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, names.ENV_STATE: str(self.folder / "state")},
        )

    def look(self, name: str = "s") -> SweepState:
        """The sweep as its journal tells it now."""
        return read_state(runner.locate(name))

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind in the namespace that are not going."""
        version, _, plural = kind.rpartition("/")
        group = "api" if "/" not in version else "apis"
        items = self.cluster.items(f"/{group}/{version}/namespaces/{self.namespace}/{plural}")
        return [item for item in items if not item["metadata"].get("deletionTimestamp")]

    def end_pods(self) -> None:
        """Have the pods end now that were told no time."""
        body = {"metadata": {"annotations": {kwok.ENDS_AFTER: "0s"}}}
        for pod in self.items("v1/pods"):
            path = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}"
            if kwok.ENDS_AFTER not in pod["metadata"].get("annotations", {}):
                with suppress(ApiError):  # gone meanwhile
                    self.cluster.api("PATCH", path, body)

    def releases(self) -> list[str]:
        """The releases that helm knows."""
        records = self.items("v1/secrets")
        return sorted(
            record["metadata"]["labels"]["name"]
            for record in records
            if record["metadata"].get("labels", {}).get("owner") == "helm"
        )
