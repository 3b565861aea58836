"""Code that is more than ConfigMaps hold, in real pods: as an image volume, and from a claim."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.kube import registry

from .conftest import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.registry import Registry

    from .conftest import Allranks, Lab

pytestmark = [pytest.mark.timeout(900)]

# More than eight ConfigMaps hold: it cannot be compressed.
_DATA = 9 << 20
_TRAIN = """
import hashlib, os, pathlib, torch.distributed as dist
dist.init_process_group("gloo")
numbers = [None] * dist.get_world_size()
here = hashlib.sha256(pathlib.Path("data.bin").read_bytes()).hexdigest()
dist.all_gather_object(numbers, here)
assert {here} == set(numbers)
if dist.get_rank() == 0:
    print(f"trains {here} in {os.getcwd()}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of code with a large file."""
    folder = tmp_path / "research"
    folder.mkdir()
    (folder / "train.py").write_text(_TRAIN, encoding="utf-8")
    (folder / "data.bin").write_bytes(os.urandom(_DATA))
    return folder


@pytest.fixture
def there(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry that the node pulls from, and that nobody is logged in to."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    with registry.running() as running:
        running.let_in(lab.cluster.run)
        yield running


def _submit(allranks: Allranks, folder: Path, name: str, *options: str) -> str:
    return allranks(
        *("submit", name, "--nodes", "2", "--detach", "--workspace", folder, *options),
        *("--", "python", "train.py"),
        security={"podSecurityContext": {"fsGroup": 1000}},
    )


def test_pods_train_from_an_image_volume(
    lab: Lab, allranks: Allranks, folder: Path, there: Registry, tmp_path: Path
) -> None:
    """Pushed once for two runs, mounted by two restricted pods each, and read back."""
    where = ("--set", f"workspace.registry={there.host}/team/code")
    assert "as an image in" in _submit(allranks, folder, "study", *where)
    assert "in /app" in lab.line("study", "trains")
    lab.completes("study")
    volumes = lab.pods("study")[0]["spec"]["volumes"]
    assert [True] == ["image" in volume for volume in volumes if "archive" in volume["name"]]
    assert "sent before" in _submit(allranks, folder, "again", *where)
    lab.completes("again")
    allranks("show", "study", "--code", tmp_path / "ran")
    assert (folder / "data.bin").read_bytes() == (tmp_path / "ran/data.bin").read_bytes()


def test_pods_train_from_a_claim(
    lab: Lab, allranks: Allranks, folder: Path, tmp_path: Path
) -> None:
    """Filled by a pod that is gone afterwards, once for two runs, and read back by another one."""
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "64Mi"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "code"},
        "spec": spec,
    }
    lab.cluster.api("POST", lab.path("persistentvolumeclaims"), claim)
    where = ("--set", "workspace.claim=code")
    assert "on claim code" in _submit(allranks, folder, "study", *where)
    until(lambda: not _fillers(lab), "the end of the pod that filled the claim")
    assert "in /app" in lab.line("study", "trains")
    lab.completes("study")
    assert "sent before" in _submit(allranks, folder, "again", *where)
    lab.completes("again")
    allranks("show", "study", "--code", tmp_path / "ran")
    assert (folder / "data.bin").read_bytes() == (tmp_path / "ran/data.bin").read_bytes()
    until(lambda: not _fillers(lab), "the end of the pod that read the claim")


def test_a_claim_of_one_node_is_refused(lab: Lab, allranks: Allranks, folder: Path) -> None:
    """For a job of two; nothing is started, and the nearest name is given for a missing one."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "code"},
        "spec": spec,
    }
    lab.cluster.api("POST", lab.path("persistentvolumeclaims"), claim)
    words = ("submit", "study", "--nodes", "2", "--detach", "--workspace", folder)
    values = {"security": {"podSecurityContext": {"fsGroup": 1000}}}
    command = ("--", "python", "train.py")
    answer = allranks(*words, "--set", "workspace.claim=code", *command, code=2, **values)
    assert "claim code is ReadWriteOnce: one node mounts it" in answer
    answer = allranks(*words, "--set", "workspace.claim=coed", *command, code=2, **values)
    assert "did you mean code?" in answer
    assert [] == lab.pods("study")
    assert [] == _fillers(lab)


def _fillers(lab: Lab) -> list[str]:
    """The pods that fill and read claims."""
    names = [pod["metadata"]["name"] for pod in lab.cluster.items(lab.path("pods"))]
    return [name for name in names if name.endswith(("-fill", "-read"))]
