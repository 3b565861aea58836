"""How many processes a worker has, where a plan gives it other GPUs than its template."""

from __future__ import annotations

import pytest

from allranks.elastic.pods import env
from allranks.elastic.resources import ResourceAmounts


def container(procs: str, gpus: str = "") -> dict[str, object]:
    """A template's container."""
    manifest: dict[str, object] = {"env": [{"name": "PET_NPROC_PER_NODE", "value": procs}]}
    return manifest | {"resources": {"limits": {"nvidia.com/gpu": gpus}}} if gpus else manifest


@pytest.mark.parametrize(
    ("template", "gpus", "procs"),
    [
        (container("8", "8"), 4, "4"),
        (container("1"), 6, "6"),
        (container("2", "8"), 4, "2"),
        (container("8", "8"), None, "8"),
        (container("8", "8"), 0, "8"),
    ],
)
def test_one_for_each_gpu_stays_so(
    template: dict[str, object], gpus: int | None, procs: str
) -> None:
    """A number that is the GPUs' follows them; another one is what somebody wants."""
    result = env.per_gpu(template, ResourceAmounts(gpus=gpus) if gpus is not None else None)
    assert [{"name": "PET_NPROC_PER_NODE", "value": procs}] == result["env"]


def test_a_template_that_says_nothing_is_left_alone() -> None:
    """Its worker has one process, or asks by itself."""
    assert {"name": "main"} == env.per_gpu({"name": "main"}, ResourceAmounts(gpus=4))
