"""The operator as a user installs it, in the test's own namespace."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from allranks import names
from tests.kube import binaries, image_recipe

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

RUNS = f"{names.API_VERSION}/{names.TRAINING_RUNS}"
JOBS = f"{names.ELASTIC_API_VERSION}/{names.ELASTIC_JOBS}"
PLANS = f"{names.ELASTIC_API_VERSION}/{names.SCALE_PLANS}"
RELEASE = "ops"


def install(lab: Lab, **values: Any) -> None:
    """Install charts/operator, and return when it is ready."""
    repository, tag = image_recipe.OPERATOR.rsplit(":", 1)
    chart_values = {
        "image": {"repository": repository, "tag": tag},
        "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
        **values,
    }
    words = ("install", RELEASE, lab.charts / "operator", "--wait", "--timeout", "90s")
    lab.run_helm(*words, "--values", "-", stdin=json.dumps(chart_values))


def pods(lab: Lab) -> list[str]:
    """The names of the operator's pods."""
    query = "?labelSelector=app.kubernetes.io%2Fcomponent%3Dwatcher"
    return [pod["metadata"]["name"] for pod in lab.cluster.items(lab.path("pods") + query)]


def status(lab: Lab, kind: str, name: str) -> dict[str, Any]:
    """The status of an object; {} where it has none or is not there."""
    content: dict[str, Any] = (lab.get(kind, name) or {}).get("status") or {}
    return content


def reaches(lab: Lab, kind: str, name: str, phase: str, seconds: float) -> dict[str, Any]:
    """Wait for the phase of a TrainingRun or an ElasticJob; returns its status then."""

    def words() -> str:
        logs = "\n".join(lab.log(pod) for pod in pods(lab))
        return f"{name} {phase}: {status(lab, kind, name)}\n{lab.logs(name)}\n{logs[-4000:]}"

    until(lambda: phase == status(lab, kind, name).get("phase"), words, seconds)
    return status(lab, kind, name)


@contextmanager
def phases(lab: Lab, folder: Path) -> Iterator[Path]:
    """Write down every phase of every TrainingRun, a line each: its name and the phase.

    Args:
        lab: the namespace.
        folder: where the file goes.

    Yields:
        The file.
    """
    log = folder / "phases.log"
    line = 'jsonpath={.metadata.name} {.status.phase}{"\\n"}'
    kind, watch = f"{names.TRAINING_RUNS}.{names.DOMAIN}", ("--watch", "--output", line)
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [binaries.find("kubectl"), "get", kind, "--namespace", lab.namespace, *watch],
            env={"KUBECONFIG": str(lab.cluster.kubeconfig), "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=stream,
        )
    try:
        yield log
    finally:
        process.kill()
        process.wait()
