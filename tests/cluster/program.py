"""Our own program as a person calls it, on the shared cluster and in the test's own namespace.

A call that is waited for is forked from a process that has loaded all modules: Python and the
libraries are most of what many calls cost. One that is started is a process from its start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
import threading
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.charts.cli.forking import Zygote
from tests.kube import kwok

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.kube.cluster import Cluster

SCRIPTS = Path(sysconfig.get_path("scripts"))
# Of a test whose outcome our own program and the API server decide: it is the same whichever helm
# installed the release, and the tests beside it have each helm do its part.
helm4_alone = pytest.mark.parametrize("helm", [4], ids=["helm4"], indirect=True)
_SECONDS = 90
_FORKING = threading.Lock()
KINDS = (
    "batch/v1/jobs",
    "apps/v1/statefulsets",
    "v1/services",
    "v1/configmaps",
    "v1/secrets",
    "v1/persistentvolumeclaims",
    "v1/serviceaccounts",
    "v1/pods",
)


@dataclass(frozen=True, slots=True)
class Program:
    """Calls the program.

    Attributes:
        cluster: the cluster.
        namespace: the test's own.
        helm: the helm it is to use.
        home: a folder for values files, and its home.
        kubeconfig: whose rights it has; the administrator's by default.
    """

    cluster: Cluster
    namespace: str
    helm: Path
    home: Path
    kubeconfig: Path | None = None

    def as_guest(self) -> Program:
        """The program as a user who has no rights but those that a test gives."""
        return replace(self, kubeconfig=self.cluster.guest_kubeconfig)

    def __call__(
        self, *words: str | Path, code: int = 0, values: Mapping[str, Any] | None = None
    ) -> str:
        """What it prints, in all; fails the test on another exit code or a traceback.

        Args:
            words: the command line; the namespace is added, but of `sweep`.
            code: the expected exit code.
            values: given as a values file.
        """
        process = self._run(self.line(*words, values=values))
        output = process.stdout + process.stderr
        assert code == process.returncode, f"{words}: {process.returncode}\n{output}"
        assert "Traceback" not in output
        return output

    def json(self, *words: str | Path, **how: Any) -> Any:
        """What it prints as data; notes go elsewhere."""
        process = self._run(self.line(*words, "-o", "json", values=how.get("values")))
        assert how.get("code", 0) == process.returncode, process.stdout + process.stderr
        return json.loads(process.stdout)

    def _run(self, line: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """A call to its end, forked (see `tests/charts/cli/zygote.py`) where no other is so now."""
        if not _FORKING.acquire(blocking=False):
            return subprocess.run(
                line,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
            )
        try:
            process = _zygote().run(line, Path.cwd(), self.environment(), b"", _SECONDS)
        finally:
            _FORKING.release()
        texts = (stream.decode() for stream in (process.stdout, process.stderr))
        return subprocess.CompletedProcess(line, process.returncode, *texts)

    def start(
        self, *words: str | Path, values: Mapping[str, Any] | None = None
    ) -> subprocess.Popen[str]:
        """Start it and go on."""
        return subprocess.Popen(
            self.line(*words, values=values),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self, *words: str | Path, values: Mapping[str, Any] | None = None) -> list[str | Path]:
        """The whole command line."""
        files: list[str | Path] = []
        if values is not None:
            path = self.home / f"values-{len(list(self.home.iterdir()))}.yaml"
            path.write_text(json.dumps(values), encoding="utf-8")
            files = ["-f", path]
        first, *rest = words
        if first == "sweep":  # Most of its commands take no namespace.
            return [SCRIPTS / names.CLI, first, *rest, *files]
        if first == "queue":
            command, *rest = rest
            return [SCRIPTS / names.CLI, first, command, "-n", self.namespace, *files, *rest]
        return [SCRIPTS / names.CLI, first, "-n", self.namespace, *files, *rest]

    def complete(self, words: str) -> list[str]:
        """What a shell is offered for the last of some words, however busy this machine is."""
        env = {
            "_ALLRANKS_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            names.ENV_COMPLETION_SECONDS: "60",
        }
        process = subprocess.run(
            [SCRIPTS / names.CLI],
            env=self.environment() | env,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return process.stdout.split()

    def environment(self) -> dict[str, str]:
        """The environment of a call: this cluster, and nothing else of this machine's."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "KUBECONFIG": str(self.kubeconfig or self.cluster.kubeconfig),
            names.ENV_HELM: str(self.helm),
            names.ENV_STATE: str(self.home / "state"),
        }

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """An object of the namespace: `batch/v1/jobs`."""
        return self.cluster.api("GET", f"{self.root(kind)}/{name}")

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The objects of a kind in the namespace."""
        return self.cluster.items(self.root(kind))

    def objects_of(self, release: str) -> list[str]:
        """What there is of a release, as `kind/name`; what is going already is not named."""
        return [
            f"{kind.rpartition('/')[2]}/{item['metadata']['name']}"
            for kind in KINDS
            for item in self.items(kind)
            if release in _owners(item) and not item["metadata"].get("deletionTimestamp")
        ]

    def root(self, kind: str) -> str:
        """The path of a kind in the namespace."""
        version, _, plural = kind.rpartition("/")
        group = "api" if "/" not in version else "apis"
        return f"/{group}/{version}/namespaces/{self.namespace}/{plural}"


def job(*, ends: str = "", code: int = 0, **values: Any) -> dict[str, Any]:
    """Values of a torchrun job whose fake pods end as they are told.

    Args:
        ends: how long each pod runs, such as `1s`; "" is without an end.
        code: the exit code of each pod.
        values: over the others.
    """
    annotations = {kwok.ENDS_AFTER: ends, kwok.EXIT_CODE: str(code)} if ends else {}
    waits = values.pop("waits_for", "")
    if waits:
        annotations[kwok.WAITS_FOR] = waits
    return {
        "workload": "torchrun",
        "image": {"repository": "my/trainer", "tag": "1"},
        "command": ["python", "train.py"],
        "nodes": 2,
        "security": {"podSecurityContext": {"runAsUser": 1000}},
        "scheduling": {"tolerations": [kwok.TOLERATION]},
        "podTemplate": {"metadata": {"annotations": annotations}},
        "runPolicy": {"backoffLimit": 0},
        **values,
    }


def _owners(item: dict[str, Any]) -> set[str]:
    """The releases that an object may be of: by its label, or by helm's own record."""
    labels = item["metadata"].get("labels") or {}
    return {
        str(labels.get(names.APP_INSTANCE)),
        str(labels.get("name")) if labels.get("owner") == "helm" else "",
    }


@cache
def _zygote() -> Zygote:
    """What the calls of this test worker come from; it ends with the worker."""
    return Zygote()


def program(cluster: Cluster, namespace: str, helm: Any, folder: Path) -> Program:
    """The program for a test; the folder becomes its home."""
    home = folder / "home"
    home.mkdir()
    if not (SCRIPTS / names.CLI).exists():
        pytest.fail(f"{names.CLI} is not installed: run `make setup`", pytrace=False)
    return Program(cluster, namespace, helm.path, home)
