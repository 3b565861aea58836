"""What goes along when a sweep is begun inside the cluster, and what cannot."""

from __future__ import annotations

import random
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from allranks.cluster import paths
from allranks.errors import InputError
from allranks.helm.binary import HelmBinary
from allranks.helm.releases import ReleaseRef
from allranks.sweep import in_cluster, records
from allranks.sweep.model import TrialSpec
from allranks.sweep.spec.prepare import PreparedSweep
from allranks.sweep.storage.secrets import Address, SecretsBackend
from tests.unit.cluster.fake_cluster import FakeCluster
from tests.unit.sweep.simulation import spec

# None of these is asked: what is refused here is refused before anything is.
_HOME = ReleaseRef(HelmBinary(Path("helm"), "4.3.1", 4, supported=True), "s", "research")
_JOB = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "s-1"}}


def _values(chart: Path | str, workload: str = "") -> dict[str, Any]:
    prepared = PreparedSweep(spec(), {}, chart, workload)
    trials = in_cluster.TrialParts((_JOB,), has_status=False)
    head = records.head(spec(), 1.0)
    return in_cluster.values(prepared, head, trials, _HOME)


def test_an_archive_goes_along_as_it_is(tmp_path: Path) -> None:
    """Byte by byte; a chart of ours is in the image, and a reference stays one."""
    archive = tmp_path / "mine-1.0.0.tgz"
    archive.write_bytes(b"packed")
    assert b"packed" == b64decode(_values(archive)["chart"])
    assert "" == _values(Path("charts/torchrun"), "torchrun")["chart"]
    assert "" == _values("oci://hub/mine")["chart"]


def test_a_chart_that_no_release_can_hold_is_refused(tmp_path: Path) -> None:
    """With its size, the bound, and ways out."""
    archive = tmp_path / "big.tgz"
    archive.write_bytes(random.Random(1).randbytes(400 << 10))  # noqa: S311 - no secret
    with pytest.raises(InputError) as excinfo:
        _values(archive)
    message = excinfo.value.problem.message
    assert "have 400 KiB packed, most of it the chart, and 350 KiB fit" in message
    assert "oci://" in excinfo.value.problem.hint


def test_a_name_of_this_machines_repositories_is_refused() -> None:
    """A pod knows no repository by its name."""
    with pytest.raises(InputError, match="a pod does not"):
        _values("hub/mine")


@pytest.mark.parametrize(
    ("served", "enabled", "fixed"),
    [(False, "auto", False), (True, "auto", "auto"), (False, True, True), (False, False, False)],
)
def test_whether_trials_have_a_status_is_settled_at_the_beginning(
    served: bool,
    enabled: bool | str,
    fixed: bool | str,
) -> None:
    """A kind that is installed later would need a right that the runner was not given."""
    cluster = FakeCluster()
    if served:
        group, _, version = paths.TRAINING_RUNS.rpartition("/")[0].rpartition("/")
        cluster.objects[group, version] = {"resources": [{"name": "trainingruns"}]}
    sweep_spec = spec(trial=TrialSpec("torchrun", "", {"status": {"enabled": enabled}, "nodes": 2}))
    defaults = {"status": {"enabled": "auto"}}
    prepared = in_cluster.settle(
        PreparedSweep(sweep_spec, defaults, Path("x"), "torchrun"), cluster
    )
    assert {"status": {"enabled": fixed}, "nodes": 2} == prepared.spec.trial.values


def test_a_foreign_charts_values_are_left_alone() -> None:
    """They may have a `status` of their own."""
    sweep_spec = spec(trial=TrialSpec("", "mine", {"status": {"enabled": "auto"}}))
    prepared = PreparedSweep(sweep_spec, {}, Path("x"), "")
    assert prepared is in_cluster.settle(prepared, FakeCluster())


@pytest.mark.parametrize(
    ("restarts", "phase", "expected"),
    [
        (0, "Running", ""),
        (2, "Running", "the runner's pod s-x1 ended with exit code 2, and is started again"),
        (2, "Failed", ""),
    ],
)
def test_a_runner_that_ends_again_and_again_is_named(
    restarts: int, phase: str, expected: str
) -> None:
    """Most of the time between two starts nothing but its last end says so."""
    kinds = {"app.kubernetes.io/name": "sweep-runner", "app.kubernetes.io/instance": "s"}
    job = {"metadata": {"name": "s-1", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    job["metadata"]["labels"] = kinds
    state = {"terminated": {"exitCode": 2}}
    container = {"name": "sweep", "restartCount": restarts, "state": state}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "s-x1", "labels": {"batch.kubernetes.io/job-name": "s-1"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "sweep"}]},
        "status": {"phase": phase, "containerStatuses": [container]},
    }
    store = SecretsBackend(Address("s", "lab"), "s")
    store.__dict__["cluster"] = FakeCluster(_JOB | job, pod)
    assert in_cluster.RunnerProblem(expected, "s-1") == in_cluster.runner_problem(store)
