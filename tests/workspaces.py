"""Snapshots of workspaces made by hand: archives, their ConfigMaps, and values that name them."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import lzma
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PACK = {"gzip": lambda data: gzip.compress(data, mtime=0), "xz": lzma.compress}


def entry(name: str, **fields: Any) -> tarfile.TarInfo:
    """An entry of an archive: a file, unless its `type` says otherwise."""
    info = tarfile.TarInfo(name)
    info.mode = 0o644
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def folder(name: str) -> tarfile.TarInfo:
    """A folder of an archive."""
    return entry(name, type=tarfile.DIRTYPE, mode=0o755)


def link(name: str, target: str) -> tarfile.TarInfo:
    """A link of an archive."""
    return entry(name, type=tarfile.SYMTYPE, mode=0o777, linkname=target)


def pack(
    files: Mapping[str, str | bytes] | None = None,
    entries: Iterable[tarfile.TarInfo] = (),
    compression: str = "gzip",
) -> bytes:
    """An archive.

    Args:
        files: the contents of files; a path of `*.sh` is executable.
        entries: what else it has, without contents.
        compression: gzip | xz.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info in entries:
            archive.addfile(info)
        for name, text in (files or {}).items():
            data = text if isinstance(text, bytes) else text.encode()
            info = entry(name, size=len(data), mode=0o755 if name.endswith(".sh") else 0o644)
            archive.addfile(info, io.BytesIO(data))
    return _PACK[compression](stream.getvalue())


def sha256(data: bytes) -> str:
    """The digest of bytes, as a snapshot has it."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Sent:
    """A workspace that was sent by ConfigMaps.

    Attributes:
        data: the archive.
        compression: how it is compressed.
        parts: the number of ConfigMaps.
        digest: of the snapshot; that of the archive will do.
    """

    data: bytes
    compression: str = "gzip"
    parts: int = 2

    @property
    def digest(self) -> str:
        """The digest of the snapshot."""
        return sha256(self.data)

    @property
    def names(self) -> list[str]:
        """The names of its ConfigMaps."""
        return [f"ws-{self.digest[7:19]}-{number}" for number in range(self.parts)]

    def pieces(self) -> list[bytes]:
        """The archive in parts."""
        size = len(self.data) // self.parts + 1
        return [self.data[start : start + size] for start in range(0, len(self.data), size)]

    def values(self, **fields: Any) -> dict[str, Any]:
        """The values of a job that has it."""
        snapshot = {
            "digest": self.digest,
            "archiveDigest": self.digest,
            "compression": self.compression,
            "via": "configMap",
            "configMaps": self.names,
        }
        return {"workspace": {"snapshot": snapshot | fields}}

    def manifests(self, namespace: str = "lab") -> list[dict[str, Any]]:
        """Its ConfigMaps."""
        return [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace},
                "immutable": True,
                "binaryData": {f"archive.{number}": base64.b64encode(piece).decode()},
            }
            for number, (name, piece) in enumerate(zip(self.names, self.pieces(), strict=True))
        ]


# Trains until the code that it imports says that it is the last; says which code each rank has.
_TRAIN = """
import os, signal, sys, time, torch, torch.distributed as dist
import code_version
def say(text):
    sys.stdout.write(text + "\\n")
    sys.stdout.flush()
told = torch.zeros(1)
signal.signal(signal.SIGTERM, lambda *_: told.fill_(1))
dist.init_process_group("gloo")
numbers = [None] * dist.get_world_size()
dist.all_gather_object(numbers, code_version.NUMBER)
say(f"rank {dist.get_rank()} of {dist.get_world_size()} trains {sorted(set(numbers))}")
while code_version.NUMBER < LAST:
    anybody = told.clone()
    dist.all_reduce(anybody)
    if anybody:  # all save at the same step, whoever was told first
        say(f"rank {dist.get_rank()} saves code {code_version.NUMBER}")
        break
    time.sleep(0.05)
dist.barrier()
os._exit(0)
"""
_HANDLER = "signal.signal(signal.SIGTERM, lambda *_: told.fill_(1))\n"


def training(last: int, *, saves: bool = True) -> str:
    """A `train.py` that trains until NUMBER of `code_version.py` is the last.

    Its ranks say `rank R of SIZE trains [NUMBERS]`, and `rank R saves code NUMBER` when they are
    told to end.

    Args:
        last: the last number.
        saves: whether ranks that are told to end save and end well.
    """
    script = _TRAIN.replace("LAST", str(last))
    return script if saves else script.replace(_HANDLER, "")
