"""What is made of other projects' jobs: the API server takes all of it, as a dry run.

`make dry-run MANIFESTS=FOLDER` judges manifests and batch scripts that you fetched, too.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job as slurm
from allranks.errors import AllranksError
from allranks.service import convert as service
from tests import converted

from .test_dry_run import CHARTS, complaints, level_of, namespaces, objects, pods, rendered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from allranks.convert.verdicts import Conversion
    from allranks.k8s.manifest import Manifest
    from tests.kube.objects import Objects

__all__ = ["namespaces", "objects"]

_SAMPLES = sorted(converted.DATA.glob("*.yaml")) + sorted(converted.DATA.glob("slurm/*.sbatch"))
# Manifests and batch scripts of other people, of which the repository has none.
FOLDER = os.environ.get("MANIFESTS", "")
_OTHERS = sorted(path for path in Path(FOLDER).rglob("*") if path.is_file()) if FOLDER else []
# A sweep that searches has no manifests of its own before it runs.
_SEARCHES = ("search", "goal")


def _jobs(path: Path) -> Iterator[Conversion]:
    data = path.read_bytes()
    if slurm.is_script(data):
        yield slurm.convert(data, path.name)
    else:
        yield from converted.text_as_jobs(data.decode()).conversions


def _is_rendered(values: dict[str, Any]) -> bool:
    sweep = values.get("sweep", {})
    plain = sweep.get("trial", {}).get("workload", "torchrun") == "torchrun"
    return values["workload"] != "sweep" or (plain and not any(key in sweep for key in _SEARCHES))


def _make_classes(objects: Objects, manifests: list[Manifest]) -> None:
    """Make the classes of a cluster's that pods name, without which no pod of them is taken."""
    for pod in pods(manifests):
        for key, api_version, kind, body in (
            ("priorityClassName", "scheduling.k8s.io/v1", "PriorityClass", {"value": 1000}),
            ("runtimeClassName", "node.k8s.io/v1", "RuntimeClass", {"handler": "nvidia"}),
        ):
            name = pod["spec"].get(key)
            if name and not name.startswith("system-"):
                own = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}}
                objects.apply({**own, **body}, "")


def _problems(
    jobs: Iterable[Conversion], helm: Any, objects: Objects, namespaces: dict[str, str], file: Path
) -> list[str]:
    """What the server complains of in the objects of some jobs, whose values go to a file."""
    problems = []
    for conversion in jobs:
        values = conversion.values
        if "workload" not in values or not _is_rendered(values):
            continue
        file.write_text(service.values_file(conversion), encoding="utf-8")
        namespace = namespaces[level_of(values)]
        manifests = rendered(helm, file, namespace, CHARTS / values["workload"])
        _make_classes(objects, manifests)
        problems += complaints(objects, manifests, namespace)
    return problems


@pytest.mark.parametrize("path", _SAMPLES, ids=[path.name for path in _SAMPLES])
def test_the_api_server_takes_what_was_converted(
    helm4: Any, objects: Objects, namespaces: dict[str, str], tmp_path: Path, path: Path
) -> None:
    """Every object of every job is valid, without a warning, where its own values allow it."""
    file = tmp_path / "values.yaml"
    assert [] == _problems(_jobs(path), helm4, objects, namespaces, file)


@pytest.mark.parametrize("path", _OTHERS, ids=[str(path.relative_to(FOLDER)) for path in _OTHERS])
def test_the_api_server_takes_what_others_wrote(
    helm4: Any, objects: Objects, namespaces: dict[str, str], tmp_path: Path, path: Path
) -> None:
    """The same of files that a person has fetched; what is refused says why."""
    try:
        jobs = [*_jobs(path)]
    except AllranksError as error:
        pytest.skip(f"refused: {error}")
    file = tmp_path / "values.yaml"
    assert [] == _problems(jobs, helm4, objects, namespaces, file)
