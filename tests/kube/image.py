"""The images of the node tier, unpacked once and shared by every run.

containerd keeps an image as unpacked layers ("snapshots") and a small database of them. Both are
made here once per recipe, under ``.tools/image/<digest>/``, by a containerd of its own. A run takes
them over in no time: it gets copies of the databases, and links to the unpacked layers, which
overlayfs only ever reads. One layer is filled then: the operator's, with this checkout's packages.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube import binaries, image_archive, image_recipe, image_root, node_config, node_place
from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CACHE = binaries.REPO / ".tools/image"
_PATIENCE = 30.0
_LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"


def folder() -> Path:
    """Where the images of this recipe are, or will be."""
    return CACHE / image_recipe.read().digest


def ensure() -> Path:
    """The prepared images, made where they are missing (some minutes, once per recipe).

    Returns:
        A root folder of containerd, not to be written to.

    Raises:
        BenchError: root or a Debian package is missing, or a step failed.
    """
    target = folder()
    if target.is_dir():
        return target
    with _lock():
        if not target.is_dir():
            _make(target)
    return target


def take_over(root: Path) -> None:
    """Give a run's containerd all images.

    Args:
        root: its root folder, which does not exist yet.

    Raises:
        BenchError: see :func:`ensure`.
    """
    prepared = ensure()

    def skip(path: str, names: list[str]) -> list[str]:
        return names if path == str(prepared / _LAYERS) else []

    shutil.copytree(prepared, root, ignore=skip)
    for layer in (prepared / _LAYERS).iterdir():
        mine = root / _LAYERS / layer.name
        if image_root.is_source(layer / "fs"):
            shutil.copytree(layer, mine)
            image_root.add_source(mine / "fs", binaries.REPO)
        else:
            mine.symlink_to(layer)


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(target: Path) -> None:
    sys.stderr.write("making the pods' images (some minutes the first time)\n")
    recipe = image_recipe.read()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=".making-") as name:
        work = Path(name)
        image_archive.write(_layers(recipe, work), work / "images.tar")
        for layer in ("base", "trainer", "bare"):
            shutil.rmtree(work / layer)
        _import(work)
        (work / "node/containerd").rename(target)


def _layers(recipe: image_recipe.Recipe, work: Path) -> Iterator[image_archive.Image]:
    """Make one image after the other; its own layer goes when the next one is asked for."""
    uid, home = str(recipe.uid), f"/home/{recipe.user}"
    base, trainer, bare = work / "base", work / "trainer", work / "bare"
    image_root.make_base(recipe, base)
    image_root.make_bare(bare, base)
    yield image_archive.Image(image_recipe.BARE, (bare,), uid, ["sh"], home)
    # It only has to be there, and the kernel ends it.
    yield image_archive.Image(image_recipe.PAUSE, (bare,), "65535", ["sleep", "inf"], "/")
    image_root.make_trainer(recipe, base, trainer)
    yield image_archive.Image(image_recipe.TRAINER, (base, trainer), uid, ["python3"], home)
    for number, program in enumerate(recipe.programs):
        layer, source = work / f"program-{number}", work / f"source-{number}"
        image_root.make_program(recipe, program, base, layer)
        layers = [base, layer]
        if program.ours:
            image_root.make_source(source)
            layers.append(source)
        yield image_archive.Image(program.image, tuple(layers), uid, list(program.command), home)
        shutil.rmtree(layer)


def _import(work: Path) -> None:
    """Unpack the archive by a containerd that is there for nothing else."""
    programs = binaries.find("containerd").parent
    config = work / "containerd.toml"
    with contextlib.ExitStack() as ending:
        log = ending.enter_context((work / "containerd.log").open("wb"))

        def start(*words: str | Path) -> int:
            bound = ("setpriv", "--pdeathsig", "KILL", "--", *words)
            process = subprocess.Popen(bound, stdout=log, stderr=subprocess.STDOUT)
            ending.callback(process.wait)
            ending.callback(process.kill)
            return process.pid

        folder = work / "node"
        holder = start(*node_place.command(folder))
        _until(lambda: node_place.ready(folder), "the namespaces were not ready", log.name)
        place = node_place.enter(f"image-{os.getpid()}", holder, folder)
        config.write_text(node_config.containerd(folder, programs), encoding="utf-8")
        start(*place.command(programs / "containerd", f"--config={config}"))
        ctr = (programs / "ctr", f"--address={node_config.SOCKET}", "--namespace=k8s.io")
        _until(lambda: _answers(place, *ctr, "version"), "containerd did not answer", log.name)
        place.run(
            *ctr,
            *("images", "import", "--local", "--discard-unpacked-layers"),
            *("--snapshotter=overlayfs", work / "images.tar"),
            purpose="unpack the images",
        )
        # Its garbage collector runs in the background, and is asked to by this.
        place.run(*ctr, "content", "prune", "references", purpose="drop the packed layers")


def _answers(place: node_place.Place, *command: str | Path) -> bool:
    return subprocess.run(place.command(*command), capture_output=True, check=False).returncode == 0


def _until(check: Callable[[], bool], failure: str, log: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not check():
        if time.monotonic() > deadline:
            words = Path(log).read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            raise BenchError("\n".join([f"{failure} within {_PATIENCE:g} s:", *words]))
        time.sleep(0.05)
