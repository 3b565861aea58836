"""The TrainingRun that charts render: where it is, and where it is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from tests.charts.shared.rendered import minimal

if TYPE_CHECKING:
    from pathlib import Path

_API_VERSIONS = ("--api-versions", f"{names.API_VERSION}/{names.TRAINING_RUN}")


@pytest.fixture(params=names.WORKLOADS)
def chart(request: pytest.FixtureRequest, repo: Path) -> Path:
    """Each chart in turn."""
    return repo / "charts" / str(request.param)


def runs(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The TrainingRuns among manifests."""
    return [
        manifest for manifest in manifests if manifest and manifest["kind"] == names.TRAINING_RUN
    ]


def controllers(manifests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What makes pods."""
    return [
        manifest
        for manifest in manifests
        if manifest and manifest["kind"] in {"Job", "StatefulSet"}
    ]


@pytest.mark.parametrize(
    ("enabled", "has_crd", "expected"),
    [
        ("auto", False, 0),
        ("auto", True, 1),
        (True, False, 1),
        (True, True, 1),
        (False, False, 0),
        (False, True, 0),
    ],
)
def test_a_run_is_rendered_where_it_is_wanted(
    *, enabled: bool | str, has_crd: bool, expected: int, chart: Path, template: Any
) -> None:
    """By default where the cluster knows the kind; else as the values say."""
    values = minimal(chart.name) | {"nodes": 2, "status": {"enabled": enabled}}
    manifests = template(chart, *(_API_VERSIONS if has_crd else ()), values=values)
    assert expected == len(runs(manifests))


def test_a_run_says_what_it_is_of(chart: Path, template: Any) -> None:
    """It names the release and the workload, and whether the values ask for a start."""
    values = minimal(chart.name) | {"status": {"enabled": True}, "runPolicy": {"suspend": True}}
    (run,) = runs(template(chart, values=values, name="digits"))
    assert run["metadata"]["name"] == "digits"
    assert {"release": "digits", "workload": chart.name, "suspend": True} == run["spec"]
    assert "status" not in run


def test_no_run_is_told_to_the_operator(chart: Path, template: Any) -> None:
    """Where the values want none, each controller says so, and only there."""
    for enabled in (False, True, "auto"):
        values = minimal(chart.name) | {"nodes": 2, "status": {"enabled": enabled}}
        manifests = template(chart, values=values)
        assert controllers(manifests)
        for controller in controllers(manifests):
            status = controller["metadata"]["annotations"].get(names.STATUS)
            assert ("off" if enabled is False else None) == status


def test_everything_else_is_the_same(chart: Path, template: Any) -> None:
    """A cluster that knows the kind gets the same objects, and the run beside them."""
    own = {"mpi": {"ssh": {"existingSecret": "key"}}} if chart.name == "mpi" else {}
    values = minimal(chart.name) | own
    without, beside = (template(chart, *words, values=values) for words in ((), _API_VERSIONS))
    assert without == [manifest for manifest in beside if manifest not in runs(beside)]
