"""What is made of other projects' jobs: the API server takes all of it, as a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job as slurm
from allranks.service import convert as service
from tests import converted

from .test_dry_run import CHARTS, complaints, level_of, namespaces, objects, rendered

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from allranks.convert.verdicts import Conversion
    from tests.kube.objects import Objects

__all__ = ["namespaces", "objects"]

_SAMPLES = sorted(converted.DATA.glob("*.yaml")) + sorted(converted.DATA.glob("slurm/*.sbatch"))
# A sweep that searches has no manifests of its own before it runs.
_SEARCHES = ("search", "goal")


def _jobs(path: Path) -> Iterator[Conversion]:
    if path.suffix == ".sbatch":
        yield slurm.convert(path.read_bytes(), path.name)
    else:
        yield from converted.text_as_jobs(path.read_text(encoding="utf-8")).conversions


def _is_rendered(values: dict[str, Any]) -> bool:
    sweep = values.get("sweep", {})
    plain = sweep.get("trial", {}).get("workload", "torchrun") == "torchrun"
    return values["workload"] != "sweep" or (plain and not any(key in sweep for key in _SEARCHES))


@pytest.mark.parametrize("path", _SAMPLES, ids=[path.name for path in _SAMPLES])
def test_the_api_server_takes_what_was_converted(
    helm4: Any, objects: Objects, namespaces: dict[str, str], tmp_path: Path, path: Path
) -> None:
    """Every object of every job is valid, without a warning, where its own values allow it."""
    problems = []
    for conversion in _jobs(path):
        values = conversion.values
        if "workload" not in values or not _is_rendered(values):
            continue
        file = tmp_path / "values.yaml"
        file.write_text(service.values_file(conversion), encoding="utf-8")
        namespace = namespaces[level_of(values)]
        manifests = rendered(helm4, file, namespace, CHARTS / values["workload"])
        problems += complaints(objects, manifests, namespace)
    assert [] == problems
