from __future__ import annotations

from typing import Any

import pytest

from allranks.errors import InputError
from allranks.k8s.pod_requests import effective


def container(cpu: str, *, sidecar: bool = False, **fields: Any) -> dict[str, Any]:
    """A container with this CPU request."""
    manifest = {"resources": {"requests": {"cpu": cpu}}, **fields}
    return manifest | ({"restartPolicy": "Always"} if sidecar else {})


@pytest.mark.parametrize(
    ("init", "containers", "expected"),
    [
        ([], ["1", "2"], 3000),
        (["5"], ["1", "2"], 5000),
        (["1", "4", "2"], ["1"], 4000),
        (["2"], ["1", "2"], 3000),
        (["+1"], ["1"], 2000),
        (["+1", "3"], ["1"], 4000),
        (["3", "+1"], ["1"], 3000),
        (["+1", "+1", "1"], ["2"], 4000),
        (["+1", "5", "+2"], ["1"], 6000),
    ],
)
def test_containers_run_together_and_init_containers_in_turn(
    init: list[str], containers: list[str], expected: int
) -> None:
    """Kubernetes' rule, sidecars (marked +) counting from where they start."""
    spec = {
        "initContainers": [container(word.lstrip("+"), sidecar="+" in word) for word in init],
        "containers": [container(word) for word in containers],
    }
    assert {"cpu": expected} == effective(spec)


def test_limits_stand_in_for_missing_requests() -> None:
    """Extended resources are usually given as limits alone."""
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "nvidia.com/gpu": 8}}
    expected = {"cpu": 1000, "nvidia.com/gpu": 8}
    assert expected == effective({"containers": [{"resources": resources}]})


def test_requests_of_the_pod_replace_the_sum_and_overhead_is_added() -> None:
    """Pod-level requests are what the scheduler takes; the runtime's overhead comes on top."""
    spec = {
        "containers": [container("1"), container("1")],
        "resources": {"requests": {"cpu": "5"}},
        "overhead": {"cpu": "250m", "memory": "1Ki"},
    }
    assert effective(spec) == {"cpu": 5250, "memory": 1024}


def test_an_empty_pod_asks_for_nothing() -> None:
    """Missing and null fields are as good as empty ones."""
    assert effective({}) == {}
    assert effective({"containers": [{}, {"resources": None}], "initContainers": None}) == {}


def test_a_quantity_that_is_none_is_named() -> None:
    """The text that is wrong stands in the error."""
    with pytest.raises(InputError, match="'much'"):
        effective({"containers": [container("much")]})
