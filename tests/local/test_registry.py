"""A snapshot in a real registry: pushed once, an image to another client as well, and read back."""

from __future__ import annotations

import json
import re
import tarfile
from typing import TYPE_CHECKING

import pytest

from allranks.errors import RunError
from allranks.workspace import archive as archives
from allranks.workspace import image, registry
from allranks.workspace import snapshot as snapshots
from tests.kube import registry as bench

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kube.registry import Registry

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def there() -> Iterator[Registry]:
    """A registry on this machine."""
    with bench.running() as running:
        yield running


def test_a_workspace_is_pushed_once_and_read_back(
    there: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of its platforms are whole images to another client, with one file in them."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "docker"))
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.py").write_text("print('training')\n", encoding="utf-8")
    snapshot = snapshots.take(code)
    archive = archives.pack(snapshot)
    built = image.build(snapshot, archive)
    name = f"{there.host}/team/code"
    reference = f"{name}@{built.index.digest}"

    with pytest.raises(RunError, match="404"):
        registry.pull(reference)
    assert registry.push(name, built)
    assert not registry.push(name, built)

    assert built.tag == there.crane("ls", name).strip()
    assert built.index.digest == there.crane("digest", f"{name}:{built.tag}").strip()
    for architecture in image.ARCHITECTURES:
        platform = f"--platform=linux/{architecture}"
        there.crane("export", platform, reference, str(tmp_path / architecture))
        with tarfile.open(tmp_path / architecture) as tar:
            (member,) = tar.getmembers()
            file = tar.extractfile(member)
            assert file is not None
            assert ("archive.0", archive.data) == (member.name, file.read())
        config = json.loads(there.crane("config", platform, reference))
        assert architecture == config["architecture"]
        manifest = json.loads(there.crane("manifest", platform, reference))
        assert re.fullmatch(r"sha256:[0-9a-f]{64}", manifest["layers"][0]["digest"])
    assert (archive, snapshot.digest) == registry.pull(reference)
