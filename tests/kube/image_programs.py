"""Programs that make an image: on this machine, and inside the image's own root."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Debian's package of a program, where its name is another.
_PACKAGES = {"unshare": "util-linux", "ip": "iproute2", "nsenter": "util-linux"}


def run(*command: str | Path, purpose: str) -> str:
    """Run a program to its end.

    Args:
        command: its command line.
        purpose: what it does, for the error.

    Returns:
        What it wrote to standard output.

    Raises:
        BenchError: it is missing or failed.
    """
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise BenchError(
            f"cannot {purpose}: {command[0]} is not installed",
            f"apt-get install {_PACKAGES.get(str(command[0]), command[0])}",
        ) from error
    if process.returncode:
        words = "\n".join((process.stdout + process.stderr).strip().splitlines()[-15:])
        raise BenchError(f"cannot {purpose}: {command[0]} ended with {process.returncode}\n{words}")
    return process.stdout


@dataclass(frozen=True, slots=True)
class Root:
    """The files of one layer, and of the one that it is to lie on.

    Attributes:
        folder: the layer's own files.
        below: the layer under it, which is only read; None for the first.
    """

    folder: Path
    below: Path | None = None

    def inside(self, *command: str, purpose: str, uid: int = 0) -> str:
        """Run a program that sees both layers, in namespaces that end with it; see :func:`run`.

        Args:
            command: its command line.
            purpose: what it does, for the error.
            uid: who runs it; 0 is root.
        """
        user = ("--setuid", str(uid), "--setgid", str(uid)) if uid else ()
        namespaces = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc=/proc")
        if self.below is None:
            root = ("unshare", *namespaces, *user, f"--root={self.folder}", "--wd=/")
            return run(*root, *command, purpose=purpose)
        merged, work = self.folder.with_suffix(".merged"), self.folder.with_suffix(".work")
        for folder in (merged, work):
            folder.mkdir(exist_ok=True)
        options = f"lowerdir={self.below},upperdir={self.folder},workdir={work}"
        mount = f'mount -t overlay -o "{options}" overlay "{merged}" && exec "$@"'
        root = ("unshare", *namespaces, *user, f"--root={merged}", "--wd=/")
        return run(
            "unshare", "--mount", "--", "sh", "-c", mount, "sh", *root, *command, purpose=purpose
        )

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for anyone's files, which is no part of the image.

        It lies at the top, because a folder that both layers have would get this layer's mode.

        Yields:
            Its path here; inside it is the one of the same name in ``/``.
        """
        folder = self.folder / "scratch"
        folder.mkdir()
        folder.chmod(0o777)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
