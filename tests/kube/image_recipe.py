"""What the images of the node tier are made of, read once from ``recipes/``.

The recipe's digest names the folder that holds what was built: a changed recipe is another folder,
so an old image is never mistaken for the new one, and two checkouts with the same recipe build the
same.
"""

from __future__ import annotations

import fnmatch
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

RECIPES = Path(__file__).parent / "recipes"
# What else of the repository pins what goes into an image.
REQUIREMENTS = Path(__file__).parents[2] / "requirements"

# The names of the images, as values files give them.
TRAINER = "localhost/allranks/trainer:1"
BARE = "localhost/allranks/bare:1"
PAUSE = "localhost/allranks/pause:1"
OPERATOR = "localhost/allranks/operator:1"
DLROVER = "localhost/allranks/dlrover:1"
TENSORFLOW = "localhost/allranks/tensorflow:1"
MXNET = "localhost/allranks/mxnet:1"

_PYTHON_RANGE = re.compile(r";\s*python_full_version (<|>=) '(\d+)\.(\d+)'")


@dataclass(frozen=True, slots=True)
class Recipe:
    """The content of ``recipes/images.yaml`` and of the pins that it names.

    Attributes:
        digest: names everything that the recipe says, 16 hexadecimal digits.
        suite: the Debian release.
        packages: Debian packages, besides the minimal base.
        python: the version of Debian's Python there, "3.11".
        pins: requirements with hashes for the image's Python.
        mpi: folder under /opt/mpi -> requirements with hashes of one MPI.
        programs: the images beside the trainer's.
        user: name of the user that the trainer runs as.
        uid: its number, and its group's.
    """

    digest: str
    suite: str
    packages: tuple[str, ...]
    python: str
    pins: tuple[str, ...]
    mpi: tuple[tuple[str, str], ...]
    programs: tuple[Program, ...]
    user: str
    uid: int


@dataclass(frozen=True, slots=True)
class Program:
    """An image of one program and what it needs, over Debian and its Python.

    Attributes:
        image: its name, as values files give it.
        pins: requirements with hashes for the image's Python.
        ours: whether the checkout's own packages come on top of them.
        command: what runs in a container that names no command.
        drop: files that nobody runs, as patterns under the folder of Python's packages.
        proof: what its Python must be able to import.
    """

    image: str
    pins: tuple[str, ...]
    ours: bool
    command: tuple[str, ...]
    drop: tuple[str, ...]
    proof: str


def read(folder: Path = RECIPES, pinned: Path = REQUIREMENTS) -> Recipe:
    """Read the recipe of a folder, and the requirements of the repository that it names."""
    data: dict[str, Any] = yaml.safe_load((folder / "images.yaml").read_text(encoding="utf-8"))
    programs = data["programs"]
    digest = hashlib.sha256()
    for path in (
        *sorted(folder.iterdir()),
        *(pinned / program["pins"] for program in programs.values()),
    ):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    python, mpi = data["python"], data["mpi"]
    libraries = requirements((folder / python["pins"]).read_text(encoding="utf-8"))
    launchers = requirements((folder / mpi["pins"]).read_text(encoding="utf-8"))
    return Recipe(
        digest=digest.hexdigest()[:16],
        suite=data["debian"]["suite"],
        packages=tuple(data["debian"]["packages"]),
        python=python["version"],
        pins=tuple(
            line
            for name, line in libraries.items()
            if name in python["keep"]
            or not any(fnmatch.fnmatch(name, pattern) for pattern in python["leaveOut"])
        ),
        mpi=tuple((folder, launchers[name]) for folder, name in sorted(mpi["folders"].items())),
        programs=tuple(
            Program(
                image=name,
                pins=_pins(pinned / program["pins"], python["version"]),
                ours=program.get("ours", False),
                command=tuple(program.get("command", ("python3",))),
                drop=tuple(program.get("drop", ())),
                proof=program["proof"],
            )
            for name, program in programs.items()
        ),
        user=data["user"]["name"],
        uid=data["user"]["uid"],
    )


def _pins(path: Path, python: str) -> tuple[str, ...]:
    """The requirements of a file that are meant for a Python.

    pip would ask this of the Python that it runs with, which need not be the image's.
    """
    version = tuple(int(part) for part in python.split("."))
    result = []
    for line in _lines(path.read_text(encoding="utf-8")):
        bound = _PYTHON_RANGE.search(line)
        if bound and (version < (int(bound[2]), int(bound[3]))) != (bound[1] == "<"):
            continue
        result.append(_PYTHON_RANGE.sub("", line))
    return tuple(result)


def requirements(text: str) -> dict[str, str]:
    """The requirements of a file as pip reads them, by name, each with its hashes on one line."""
    return {re.split(r"[=<>!~ ;\[]", line, maxsplit=1)[0]: line for line in _lines(text)}


def _lines(text: str) -> list[str]:
    """The requirements of a file, each with its hashes on one line."""
    joined = re.sub(r"\\\n\s*", "", text)
    lines = [line.strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]
