"""What the templates refuse on their own, for who uses plain Helm, and in which words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.charts.shared import refusals

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Refusal, Render

REFUSED = refusals.refusal_cases("mpi")


@pytest.mark.parametrize("case", REFUSED, ids=refusals.names(REFUSED))
def test_refused_with_path_and_fix(case: dict[str, Any], refusal: Refusal) -> None:
    """Each is refused as "ERROR: path: what; fix"."""
    refusals.check_words(refusal(**case["values"]), case["problem"])


@pytest.mark.parametrize("case", refusals.for_command_line(REFUSED), ids=lambda case: case["name"])
def test_the_command_line_refuses_the_same(case: dict[str, Any]) -> None:
    """What the chart refuses, the command line refuses before Helm runs."""
    refusals.check_command_line("mpi", case["values"])


@pytest.mark.parametrize(
    ("values", "longest"),
    [
        ({}, 52),
        ({"nodes": 100}, 52),
        ({"nodes": 1001}, 51),
        ({"gpus": 12, "gpusPerNode": 8}, 49),
        ({"mpi": {"controller": "StatefulSet"}}, 45),
        ({"gpus": 12, "gpusPerNode": 8, "mpi": {"transport": "exec"}}, 40),
        ({"gpus": 8, "mpi": {"runLauncherAsWorker": True}}, 52),
    ],
)
def test_longest_name(
    values: dict[str, Any], longest: int, render: Render, refusal: Refusal
) -> None:
    """The longest release name renders; one more is refused, before a pod could not be named.

    A Job's pods have host names of at most 63; a StatefulSet's have its name and a hash in a label.
    """
    for name, manifest in render(name="a" * longest, **values).items():
        assert len(manifest["metadata"]["name"]) <= 63
        if manifest["kind"] == "Job":
            last = manifest["spec"]["completions"] - 1
            assert len(f"{manifest['metadata']['name']}-{last}") <= 63, name
        if manifest["kind"] == "StatefulSet":
            assert len(f"{manifest['metadata']['name']}-5f6d8b7c9d") <= 63, name
    length = longest + 1
    message = refusal(name="a" * length, **values)
    assert f"has {length} characters, and pods are named after it; use at most {longest}" in message


def test_more_hosts_than_a_config_map_holds(refusal: Refusal) -> None:
    """The names of all hosts stand in one file, and that has its limit."""
    message = refusal(nodes=30000)
    assert "ERROR: nodes: the names of 30000 hosts take" in message
    assert "use fewer hosts, or shorter names of release and namespace" in message
