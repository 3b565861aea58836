"""What the templates refuse on their own, for who uses plain Helm, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from allranks.errors import InvalidValues
from allranks.helm import errors
from tests.charts.shared import refusals

Refusal = Callable[..., str]

REFUSED = refusals.refusal_cases("torchrun")


@pytest.mark.parametrize("case", REFUSED, ids=refusals.names(REFUSED))
def test_refused_with_path_and_fix(case: dict[str, Any], refusal: Refusal) -> None:
    """Each is refused as "ERROR: path: what; fix"."""
    refusals.check_words(refusal(**case["values"]), case["problem"])


@pytest.mark.parametrize("case", refusals.for_command_line(REFUSED), ids=lambda case: case["name"])
def test_the_command_line_refuses_the_same(case: dict[str, Any]) -> None:
    """What the chart refuses, the command line refuses before Helm runs."""
    refusals.check_command_line("torchrun", case["values"])


def test_all_problems_are_reported_at_once(refusal: Refusal) -> None:
    """A user mends a file in one go, and the command line reads each problem apart."""
    message = refusal(image={"repository": ""}, queue="a", shm={"sizePerGpu": "1Gi"})
    error = errors.parse(message)
    assert isinstance(error, InvalidValues)
    assert {"image.repository", "queue", "shm.sizePerGpu"} == {
        problem.path for problem in error.problems
    }


@pytest.mark.parametrize("name", ["1job", "a.b", "9"])
def test_name_that_is_no_services_is_refused(name: str, refusal: Refusal) -> None:
    """Helm takes release names that a Service does not; the chart says what to write."""
    assert f'ERROR: release name: "{name}" cannot name a Service' in refusal(name=name)


def test_name_that_is_too_long_for_a_statefulset_is_refused(refusal: Refusal) -> None:
    """A StatefulSet adds a hash to its name in a label of 63 characters."""
    message = refusal(name="a" * 53, torchrun={"controller": "StatefulSet"})
    assert "has 53 characters, and pods are named after it; use at most 52" in message


@pytest.mark.parametrize("key", ["script", "setup"])
def test_more_than_a_config_map_holds_is_refused(key: str, refusal: Refusal) -> None:
    """A script above 1 MiB is refused with what to do instead."""
    values = {"command": [], "script": "x"} | {key: "x" * 1_048_576}
    message = refusal(**values)
    assert "ERROR: script: script and setup have 10485" in message
    assert "put the code in the image or on a volume" in message


def test_longest_script_is_taken(render: Any, refusal: Refusal) -> None:
    """What the refusal says to be the most renders, and the ConfigMap stays within 1 MiB."""
    match = re.search(r"and (\d+) is what a ConfigMap holds", refusal(script="x" * 1_048_576))
    assert match is not None
    assert int(match[1]) > 850_000
    data = render(script="x" * int(match[1]))["ConfigMap/demo"]["data"]
    assert sum(len(text.encode()) for text in data.values()) <= 1_048_576
