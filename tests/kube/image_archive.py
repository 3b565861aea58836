"""Root folders as one archive of images, in the form that ``docker load`` and containerd read."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.kube.image_programs import run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHUNK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Image:
    """One image of an archive.

    Attributes:
        name: what pods call it.
        layers: its root folders, from the lowest up.
        user: who it runs as, as a number; "" is root.
        command: what it runs when it is not told.
        folder: where it starts.
    """

    name: str
    layers: tuple[Path, ...]
    user: str
    command: Sequence[str]
    folder: str

    def config(self, digests: Sequence[str]) -> dict[str, Any]:
        """The image's configuration; `digests` are its layers', from the lowest up."""
        return {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": self.user,
                "Env": [f"PATH={_PATH}"],
                "Cmd": list(self.command),
                "WorkingDir": self.folder,
            },
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        }


def write(images: Iterable[Image], archive: Path) -> None:
    """Write images into an archive; a layer of several images is there once.

    Args:
        images: what goes in.
        archive: the file.

    Raises:
        BenchError: tar failed.
    """
    packed_layers: dict[Path, str] = {}
    manifest = []
    with tarfile.open(archive, "w") as packed:
        for image in images:
            for root in image.layers:
                if root not in packed_layers:
                    packed_layers[root] = _add_layer(packed, root, archive.with_suffix(".layer"))
            digests = [packed_layers[root] for root in image.layers]
            config = json.dumps(image.config(digests)).encode()
            name = f"{hashlib.sha256(config).hexdigest()}.json"
            _add(packed, name, config)
            layers = [f"{digest}.tar" for digest in digests]
            manifest.append({"Config": name, "RepoTags": [image.name], "Layers": layers})
        _add(packed, "manifest.json", json.dumps(manifest).encode())


def _add_layer(packed: tarfile.TarFile, root: Path, temporary: Path) -> str:
    run(
        *("tar", "--directory", root, "--numeric-owner", "--xattrs", "--sort=name"),
        *("--create", "--file", temporary, "."),
        purpose=f"pack {root.name}",
    )
    digest = hashlib.sha256()
    with temporary.open("rb") as layer:
        while chunk := layer.read(_CHUNK):
            digest.update(chunk)
    packed.add(temporary, f"{digest.hexdigest()}.tar")
    temporary.unlink()
    return digest.hexdigest()


def _add(packed: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    packed.addfile(entry, io.BytesIO(content))
