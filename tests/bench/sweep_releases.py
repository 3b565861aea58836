"""1,000 releases: `helm sweep` beside a shell loop of `helm install`, on a control plane.

Both install the same chart with the same values, one fake pod each, into the same cluster. The loop
is what a person types, one helm after the other. It is measured in two halves, before the sweep
and after it, so that what else the machine does meanwhile counts for both. A trial of the sweep
counts when it is done with: installed, run, seen to end, recorded and removed.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import yaml

from allranks import names
from allranks.helm import binary as helm_binary
from allranks.helm import plugins
from tests.kube import kwok

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.helm.binary import HelmBinary
    from tests.kube.cluster import Cluster

REPO = Path(__file__).parents[2]
CHART = REPO / "charts/torchrun"
# A trial takes 1.5 s from its install to its removal, most of it spent in the Job controller's own
# pauses: with 24 at a time the pods are what a fast machine waits for, and not helm.
TRIALS, LOOP, PARALLEL = 1000, 60, 48
# What the control plane is made of; the time of each is told apart.
_SERVERS = ("kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kwok")
_VALUES = {
    "image": {"repository": "my/trainer", "tag": "1"},
    "command": ["python", "train.py"],
    "security": {"podSecurityContext": {"runAsUser": 1000}},
    "scheduling": {"tolerations": [kwok.TOLERATION]},
    "runPolicy": {"backoffLimit": 0},
    "podTemplate": {"metadata": {"annotations": {kwok.ENDS_AFTER: "0.2s", kwok.EXIT_CODE: "0"}}},
}


@dataclass(frozen=True, slots=True)
class Rates:
    """What one round has found.

    Attributes:
        loop: releases per minute of the shell loop.
        sweep: trials per minute of the sweep.
        cpu: processor milliseconds per trial of the sweep, by program.
    """

    loop: float
    sweep: float
    cpu: Mapping[str, float]


class Releases:
    """A cluster, a helm with our plugin, and a values file."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        """Install the plugin into a folder of our own, and make the nodes.

        Args:
            cluster: with KWOK, and nodes of nobody else.
            folder: for files.
        """
        self._cluster = cluster
        self._values = folder / "values.yaml"
        self._values.write_text(yaml.safe_dump(_VALUES), encoding="utf-8")
        os.environ["HELM_PLUGINS"] = str(folder / "plugins")
        self._helm: HelmBinary = helm_binary.find()
        plugins.install(self._helm, names.SWEEP_PLUGIN)
        self._env = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            names.ENV_STATE: str(folder / "state"),
        }
        shape = kwok.Shape(gpus=0, cpus=100_000, memory="1000Ti", pods=10_000)
        kwok.create(cluster.admin, 4, prefix="sweep", shape=shape)

    def round(self, number: int, trials: int = TRIALS, loop: int = LOOP) -> Rates:
        """Half the loop, the sweep, the other half; in a namespace of its own."""
        space = f"sweep-{number}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
        self._cluster.api("POST", "/api/v1/namespaces", body)
        half = loop // 2
        looped = self._loop(space, range(half))
        before = _server_seconds(self._cluster)
        swept, cpu_seconds = self._sweep(space, f"s{number}", trials)
        after = _server_seconds(self._cluster)
        looped += self._loop(space, range(half, 2 * half))
        self._cluster.api("DELETE", f"/api/v1/namespaces/{space}")
        cpu = {
            "helm and the runner": cpu_seconds,
            **{name: after[name] - before[name] for name in _SERVERS},
        }
        return Rates(
            60 * 2 * half / looped,
            60 * trials / swept,
            {name: 1000 * seconds / trials for name, seconds in cpu.items()},
        )

    def _loop(self, space: str, numbers: range) -> float:
        """Seconds of so many installs, one after the other."""
        line = (
            f"{self._helm.path} install loop-$i {CHART} -n {space} -f {self._values} "
            "--set-string 'args={--seed,'$i'}'"
        )
        script = f"for i in $(seq {numbers.start} {numbers.stop - 1}); do {line} || exit 1; done"
        start = time.monotonic()
        subprocess.run(
            ["/bin/sh", "-c", script], env=self._env, check=True, stdout=subprocess.DEVNULL
        )
        return time.monotonic() - start

    def _sweep(self, space: str, name: str, trials: int) -> tuple[float, float]:
        """Seconds of so many trials, and the processor seconds of all that we start for them."""
        line = shlex.split(
            f"{self._helm.path} sweep {name} {CHART} -n {space} -f {self._values} "
            f"--set-range seed=1..{trials} --parallel {PARALLEL}"
        )
        before, start = _children_seconds(), time.monotonic()
        process = subprocess.run(line, env=self._env, check=False, capture_output=True, text=True)
        elapsed = time.monotonic() - start
        summary = f"{trials} succeeded"
        if process.returncode or summary not in process.stdout:
            raise SystemExit(
                f"the sweep has failed:\n{process.stdout[-2000:]}\n{process.stderr[-2000:]}"
            )
        return elapsed, _children_seconds() - before


def _children_seconds() -> float:
    """Processor seconds of all processes of ours that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _server_seconds(cluster: Cluster) -> dict[str, float]:
    """Processor seconds of the control plane of a run, by program."""
    seconds = dict.fromkeys(_SERVERS, 0.0)
    folder = str(cluster.data)
    for process in psutil.process_iter(["name", "cmdline", "cpu_times"]):
        words = process.info["cmdline"] or ()
        name = Path(words[0]).name if words else ""
        if name in seconds and any(folder in word for word in words):
            seconds[name] += process.info["cpu_times"].user + process.info["cpu_times"].system
    return seconds
