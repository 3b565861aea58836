"""`queue import`: it writes nothing that `queue install` would refuse."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError, InvalidValues
from allranks.service import torchrun_objects

if TYPE_CHECKING:
    from pathlib import Path


def imported(folder: Path, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    """The values that are made of a TorchrunQueue."""
    path = folder / "queue.yaml"
    about = {"apiVersion": "torchrun.ai/v1alpha1", "kind": "TorchrunQueue"}
    path.write_text(json.dumps({**about, "metadata": {"name": "h100", **metadata}, "spec": spec}))
    (conversion,) = torchrun_objects.queues((str(path),))
    return conversion.values


@pytest.mark.parametrize(
    ("metadata", "spec", "field"),
    [
        ({}, {"image": "hub.example/a b:c"}, "spec.image"),
        ({}, {"serviceAccountName": "x y"}, "spec.serviceAccountName"),
        ({}, {"kaiQueue": {"a": "b"}}, "spec.kaiQueue.a"),
        ({"labels": {"team": "a", "b c": "d"}}, {}, "metadata.labels.b c"),
        ({"labels": "ab"}, {}, "metadata.labels"),
        ({"annotations": [1]}, {}, "metadata.annotations[0]"),
    ],
)
def test_what_the_chart_refuses_is_refused_by_its_field(
    tmp_path: Path, metadata: dict[str, Any], spec: dict[str, Any], field: str
) -> None:
    """With the fix, and the file that has it."""
    with pytest.raises(InvalidValues) as caught:
        imported(tmp_path, metadata, spec)
    problem = next(item for item in caught.value.problems if item.path == field)
    assert "it becomes" in problem.message
    assert problem.hint
    assert str(tmp_path / "queue.yaml") == problem.source


def test_labels_that_the_chart_writes_are_left_behind(tmp_path: Path) -> None:
    """And what kubectl and helm have written; a person's own stay."""
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {
        "labels": {"app.kubernetes.io/name": "x", "helm.sh/chart": "y", "team": "a"},
        "annotations": {applied: "{}"},
    }
    values = imported(tmp_path, metadata, {"image": "hub.example/a"})
    assert ({"team": "a"}, False) == (values["labels"], "annotations" in values)


def test_a_bad_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    """It is the release's."""
    with pytest.raises(InputError, match="no name of a queue"):
        imported(tmp_path, {"name": "H_100"}, {})
