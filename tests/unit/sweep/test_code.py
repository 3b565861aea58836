"""The code of a sweep on this machine: kept once, found by its digest, dropped when long unused."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.errors import NotFoundError, RunError
from allranks.sweep import workspace
from allranks.workspace import config_maps

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = f"sha256:{'a1' * 32}"
VALUES = {"workspace": {"snapshot": {"digest": DIGEST}}}


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path / "state"))
    return tmp_path / "state"


def part(digest: str = DIGEST) -> dict[str, Any]:
    """The only part of a snapshot."""
    label = config_maps.label(digest)
    metadata = {
        "name": f"ws-{label}-0",
        "namespace": "lab",
        "labels": {names.WORKSPACE: label},
        "annotations": {names.WORKSPACE_DIGEST: digest},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {}}


def test_what_is_kept_is_found_for_any_namespace(root: Path) -> None:
    """Each trial gets it, and nobody else may read the file."""
    workspace.keep([part()])
    (item,) = workspace.local_parts(VALUES, "other")
    assert ("other", part()["metadata"]["name"]) == (
        item["metadata"]["namespace"],
        item["metadata"]["name"],
    )
    (file,) = (root / "workspaces").iterdir()
    assert 0o600 == file.stat().st_mode & 0o777
    assert [] == workspace.local_parts({}, "lab")


def test_code_that_is_not_kept_is_said() -> None:
    """With how to start the sweep again."""
    with pytest.raises(RunError, match="is no longer kept on this machine") as caught:
        workspace.local_parts(VALUES, "lab")
    assert "--replace" in caught.value.problem.hint


@pytest.mark.parametrize("content", ["", "[", "[1]", "{}", '[{"metadata": null}]'])
def test_a_broken_file_is_as_good_as_none(root: Path, content: str) -> None:
    """It was cut short, or is somebody else's."""
    workspace.keep([part()])
    (file,) = (root / "workspaces").iterdir()
    file.write_text(content, encoding="utf-8")
    assert [] == workspace.stored_parts(DIGEST, "lab")


def test_what_is_long_unused_is_dropped(root: Path) -> None:
    """A month after its last sweep; each use counts anew."""
    other = f"sha256:{'b2' * 32}"
    for digest in (DIGEST, other):
        workspace.keep([part(digest)])
    past = time.time() - 40 * 86_400
    for file in (root / "workspaces").iterdir():
        os.utime(file, (past, past))
    assert workspace.stored_parts(DIGEST, "lab")
    workspace.keep([part(f"sha256:{'c3' * 32}")])
    assert [] == workspace.stored_parts(other, "lab")
    assert workspace.stored_parts(DIGEST, "lab")


class FakeCluster:
    """A namespace that has nothing, and writes down what is sent to it."""

    where = "context fake at nowhere"

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []

    def list(self, resource_path: str, **_: Any) -> list[Any]:
        """Nothing."""
        self.requests.append(("list", resource_path))
        return []

    def get(self, _: str, name: str, **__: Any) -> Any:
        """Nothing."""
        self.requests.append(("get", name))
        raise NotFoundError("no")

    def create(self, _: str, body: Any, **__: Any) -> Any:
        """The same."""
        self.requests.append(("create", body["metadata"]["name"]))
        return body


def test_each_trial_of_a_cluster_finds_its_code() -> None:
    """It is asked for before each, and sent where it went with the last that used it."""
    workspace.keep([part()])
    cluster: Any = FakeCluster()
    code = workspace.ClusterCode(cluster, "lab")
    name = part()["metadata"]["name"]
    for _ in range(2):
        code.send(VALUES)
    assert [("get", name), ("create", name)] * 2 == cluster.requests


def test_a_runner_inside_the_cluster_asks_for_nothing() -> None:
    """Its journal owns the code; its account may not look at it."""
    cluster: Any = FakeCluster()
    code = workspace.ClusterCode(cluster, "lab", is_inside=True)
    code.send(VALUES)
    code.own(VALUES, "s-0")
    code.close()
    assert [] == cluster.requests


def test_trials_without_a_workspace_cost_no_request() -> None:
    """As before there were any."""
    cluster: Any = FakeCluster()
    code = workspace.ClusterCode(cluster, "lab")
    code.send({})
    code.own({}, "demo")
    code.close()
    assert [] == cluster.requests
