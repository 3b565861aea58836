"""Jobs of real MPIs on pods made of namespaces."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pytest

from . import implementations
from .pods import Lab, make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


class MakeLab(Protocol):
    """Makes a lab."""

    def __call__(self, family: str = "openmpi4", **options: Any) -> Lab:
        """With an MPI of `implementations.FAMILIES` and options of `Lab`."""


@pytest.fixture
def lab() -> Iterator[MakeLab]:
    """Makes labs; at the test's end nothing of them is left."""
    labs: list[Lab] = []

    def make(family: str = "openmpi4", **options: Any) -> Lab:
        new_lab = Lab(make_folder(), implementations.find(family), **options)
        labs.append(new_lab)
        new_lab.open()
        return new_lab

    try:
        yield make
    finally:
        for used_lab in labs:
            used_lab.close()
            leftovers = [pod.name for pod in used_lab.pods.values() if psutil.pid_exists(pod.pid)]
            shutil.rmtree(used_lab.folder, ignore_errors=True)
            assert leftovers == []
