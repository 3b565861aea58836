"""Which pods of a run `allranks logs` means."""

from __future__ import annotations

from typing import Any

import pytest

from allranks.cli.logs import chosen_pods
from allranks.errors import InputError
from allranks.model.ranklines import Wanted
from tests.unit.cluster.fake_cluster import FakeCluster

_LABELS = {
    "app.kubernetes.io/instance": "g",
    "app.kubernetes.io/part-of": "allranks",
    "allranks.dev/role": "trial",
    "allranks.dev/workload": "sweep",
}


class _Site:
    """Where a grid of four trials is, two of which have begun."""

    namespace = "lab"

    def __init__(self) -> None:
        grid = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "g", "uid": "1", "labels": _LABELS},
            "spec": {"completions": 4, "parallelism": 2, "completionMode": "Indexed"},
        }
        self.cluster = FakeCluster(grid, *(_pod(index) for index in (0, 1)))


def _pod(index: int) -> dict[str, Any]:
    labels = {**_LABELS, "batch.kubernetes.io/job-completion-index": str(index)}
    owner = {"kind": "Job", "name": "g", "uid": "1", "controller": True}
    metadata = {"name": f"g-{index}-x", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": []}}


@pytest.mark.parametrize("role", ["", "trial"])
def test_a_trial_that_has_not_begun(role: str) -> None:
    """Is not said to be none; one beyond the last is."""
    site: Any = _Site()
    (found,), _ = chosen_pods("g", site, Wanted(node=1, role=role))
    assert "g-1-x" == found["metadata"]["name"]
    with pytest.raises(InputError, match="node 3 of run 'g' has no pod now: it has not begun"):
        chosen_pods("g", site, Wanted(node=3, role=role))
    with pytest.raises(InputError, match=r"has no pod (trial )?node 4") as caught:
        chosen_pods("g", site, Wanted(node=4, role=role))
    assert "its pods are trial-0, trial-1" == caught.value.problem.hint
