"""The images' files, layer by layer, made by debootstrap and pip.

Everything comes from two places that check what they hand out: Debian's archive by its signatures,
and PyPI by the hashes in the recipe. pip runs outside of the image, for the image's Python, so
that the image needs no pip and no network; programs of the image run in namespaces of their own.
Each image is Debian and one layer more: the trainer's torch, or one program and what it needs.
"""

from __future__ import annotations

import os
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube import image_libraries
from tests.kube.errors import BenchError
from tests.kube.image_programs import Root, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.kube.image_recipe import Program, Recipe

# Where this checkout's own packages are in an image.
SOURCE = "opt/allranks"
# Which builds Debian 12 can load (its glibc is 2.36); pip does not derive the older from the newer.
_PLATFORMS = tuple(
    f"manylinux{tag}_x86_64" for tag in ("_2_34", "_2_28", "_2_27", "_2_17", "2014", "_2_5", "1")
)
# Two processes meet and reduce, as any user: what "torch works in this image" means here.
_PROOF = """
import sys, torch, torch.distributed as dist, numpy, sklearn.datasets, mpi4py
store = dist.FileStore(sys.argv[1], 2)
dist.init_process_group("gloo", store=store, rank=int(sys.argv[2]), world_size=2)
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
assert total.item() == 3.0 and not torch.cuda.is_available()
dist.barrier()
"""


def make_base(recipe: Recipe, root: Path) -> None:
    """Make the layer that the others lie on: Debian, its Python and a user.

    Args:
        recipe: what goes in.
        root: an empty or missing folder.

    Raises:
        BenchError: a step failed; the folder is left as it is.
    """
    packages = ",".join(recipe.packages)
    run(
        *("debootstrap", "--force-check-gpg", "--variant=minbase"),
        *(f"--include={packages}", recipe.suite, root),
        purpose=f"install Debian {recipe.suite}",
    )
    add = ("useradd", "--create-home", "--uid", str(recipe.uid), recipe.user)
    Root(root).inside(*add, purpose="add the user")
    for leftover in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man"):
        shutil.rmtree(root / leftover)
        (root / leftover).mkdir()
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()  # an image must not hold a secret, even a worthless one
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")


def make_trainer(recipe: Recipe, base: Path, layer: Path) -> None:
    """Make the trainer's layer and try it; see :func:`make_base`.

    Args:
        recipe: what goes in.
        base: the layer below.
        layer: an empty or missing folder.
    """
    root = Root(layer, base)
    site = _site(recipe, layer)
    _pip(recipe, site, recipe.pins)
    for name, requirement in recipe.mpi:
        _unpack(recipe, layer / "opt/mpi" / name, requirement)
    image_libraries.complete(root, site / "torch/lib")
    _compile(root, site)
    _prove(recipe, root)


def make_program(recipe: Recipe, program: Program, base: Path, layer: Path) -> None:
    """Make the layer of a program and try it; see :func:`make_base`.

    Args:
        recipe: what it is part of.
        program: what goes in.
        base: the layer below.
        layer: an empty or missing folder.
    """
    root = Root(layer, base)
    site = _site(recipe, layer)
    _pip(recipe, site, program.pins)
    for pattern in program.drop:
        for path in site.glob(pattern):
            shutil.rmtree(path)
    if program.ours:
        (site / "allranks.pth").write_text(f"/{SOURCE}\n", encoding="utf-8")
    _compile(root, site)
    home = ("env", "HOME=/scratch", "TMPDIR=/scratch", "python3", "-W", "ignore", "-c")
    with root.scratch():
        purpose = f"import what {program.image} is for"
        root.inside(*home, program.proof, purpose=purpose, uid=recipe.uid)


def make_source(layer: Path) -> None:
    """Make the layer that this checkout's packages are put into; see :func:`add_source`."""
    (layer / SOURCE).mkdir(parents=True)
    (layer / "usr/local/bin").mkdir(parents=True)


def is_source(layer: Path) -> bool:
    """Whether a layer is the one of :func:`make_source`."""
    return (layer / SOURCE).is_dir()


def add_source(layer: Path, repo: Path) -> None:
    """Put this checkout's packages and their programs into a layer.

    They change with every edit, and an image that is built anew for each would be waited for.

    Args:
        layer: a copy of the one of :func:`make_source`.
        repo: the checkout.
    """
    skipped = shutil.ignore_patterns("__pycache__", "_*.tgz")
    for package in ("generator/allranks", "operator/allranks_operator"):
        shutil.copytree(repo / package, layer / SOURCE / Path(package).name, ignore=skipped)
    for data in ("charts", "schemas", "values"):
        shutil.copytree(repo / data, layer / SOURCE / "allranks/_data" / data, ignore=skipped)
    shutil.copy2(_helm(repo), layer / "usr/local/bin/helm")
    scripts = tomllib.loads((repo / "pyproject.toml").read_text(encoding="utf-8"))
    for name, entry in scripts["project"]["scripts"].items():
        module, _, function = entry.partition(":")
        program = layer / "usr/local/bin" / name
        program.write_text(
            f"#!/usr/bin/python3\nimport sys\nfrom {module} import {function}\n"
            f"sys.exit({function}())\n",
            encoding="utf-8",
        )
        program.chmod(0o755)
    for folder, _, files in os.walk(layer):
        Path(folder).chmod(0o755)  # whatever this checkout's own rights are
        for file in files:
            path = Path(folder, file)
            path.chmod(path.stat().st_mode | 0o444)


def _helm(repo: Path) -> Path:
    """The helm that the Containerfile builds, as `make setup-test` has built it here."""
    pins = (repo / "tools/helm4/go.mod").read_text(encoding="utf-8").split()
    path = repo / ".tools/helm" / pins[pins.index("helm.sh/helm/v4") + 1] / "helm"
    if not path.is_file():
        raise BenchError(f"{path} is not there", "make setup-test")
    return path


def make_bare(root: Path, base: Path) -> None:
    """Make the root of an image that has a shell and little else: no Python, no sshd.

    Args:
        root: an empty or missing folder.
        base: Debian's root, which has busybox.
    """
    for folder in ("bin", "etc", "proc", "sys", "dev", "tmp", "home/trainer"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    shutil.copy2(base / "bin/busybox", root / "bin/busybox")
    applets = Root(base).inside("busybox", "--list", purpose="ask busybox what it has")
    for applet in applets.split():
        if applet != "busybox":
            (root / "bin" / applet).symlink_to("busybox")
    for name in ("passwd", "group"):
        shutil.copy2(base / "etc" / name, root / "etc" / name)


def _site(recipe: Recipe, layer: Path) -> Path:
    """Where Debian's Python looks for packages that are not Debian's."""
    return layer / f"usr/local/lib/python{recipe.python}/dist-packages"


def _pip(recipe: Recipe, target: Path, pins: Iterable[str]) -> None:
    """Install packages for the image's Python into a folder."""
    target.parent.mkdir(parents=True, exist_ok=True)
    options = ("--no-compile", "--target", str(target))
    _run_pip(recipe, target.with_suffix(".pins"), pins, "install", *options)
    shutil.rmtree(target / "bin", ignore_errors=True)  # first lines that name this machine's Python


def _unpack(recipe: Recipe, target: Path, pin: str) -> None:
    """Unpack the programs and libraries of a package that brings nothing else.

    ``pip install --target`` drops a package's own ``lib`` folder.
    """
    wheels = target.with_suffix(".wheels")
    wheels.mkdir(parents=True)
    _run_pip(recipe, wheels / "pins", [pin], "download", "--dest", str(wheels))
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            _, data_folder, name = entry.filename.partition(".data/data/")
            if not data_folder or entry.is_dir():
                continue
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(entry))
            path.chmod(0o755 if entry.external_attr >> 16 & 0o111 else 0o644)
    shutil.rmtree(wheels)


def _run_pip(
    recipe: Recipe, requirements: Path, pins: Iterable[str], verb: str, *options: str
) -> None:
    requirements.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    run(
        *(sys.executable, "-m", "pip", verb, "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary=:all:", "--no-cache-dir"),
        *("--implementation", "cp", "--python-version", recipe.python),
        *(word for tag in _PLATFORMS for word in ("--platform", tag)),
        *options,
        *("--requirement", requirements),
        purpose=f"{verb} the Python packages of {requirements.name}",
    )
    requirements.unlink()


def _compile(root: Root, site: Path) -> None:
    """Compile a layer's modules: the user that runs them may not write there."""
    # Packages bring files for newer Pythons too, which do not compile here; the proof tells.
    folder = site.relative_to(root.folder)
    command = f"python3 -m compileall -q -j 2 /{folder} >/dev/null || true"
    root.inside("sh", "-c", command, purpose="compile the image's Python modules")


def _prove(recipe: Recipe, root: Root) -> None:
    both = "python3 {0}/proof.py {0}/store 0 & python3 {0}/proof.py {0}/store 1 && wait $!"
    with root.scratch() as folder:
        (folder / "proof.py").write_text(_PROOF, encoding="utf-8")
        root.inside(
            *("sh", "-c", both.format(f"/{folder.name}")),
            purpose="import torch and reduce over gloo in the image",
            uid=recipe.uid,
        )
