"""How our launchers load torch: a fifth of that would go into looking for garbage."""

from __future__ import annotations

import gc
import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.modules import CHARTS, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

# Stands for the library: says whether Python looked for garbage while it was loaded.
_TORCH = "import gc\nwas_enabled = gc.isenabled()\n"


def _launch(_: Path) -> str:
    launch = load(CHARTS / "torchrun/files/launch.py")
    return str(launch.load_torch(SimpleNamespace(follower=None)))


def _agent(folder: Path) -> str:
    agent = load(CHARTS / "elastic/files/elastic_agent.py")
    path = folder / "word"
    with path.open("w") as file:
        agent.agent(os.dup(file.fileno()), [])
    return path.read_text()


def _torch_modules() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "torch"]


# What the agent imports from beside it.
_BESIDE = ("failures", "process_groups", "rank_output")


@pytest.fixture
def no_torch() -> Iterator[None]:
    """A Python that has not loaded torch; afterwards it has what it had before.

    It takes no `monkeypatch`, so that it ends after that of the test: what this put back would else
    stand for torch in the tests that come later.
    """
    before = {
        name: sys.modules[name] for name in (*_torch_modules(), *_BESIDE) if name in sys.modules
    }
    for name in _torch_modules():
        del sys.modules[name]
    for name in _BESIDE:
        sys.modules[name] = load(CHARTS / f"elastic/files/{name}.py")
    yield
    for name in (*_torch_modules(), *_BESIDE):
        del sys.modules[name]
    sys.modules.update(before)
    gc.enable()
    gc.unfreeze()


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("program", [_launch, _agent])
def test_no_garbage_is_looked_for_while_torch_is_loaded(
    program: Callable[[Path], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for again afterwards, also where torch cannot be loaded."""
    distributed = tmp_path / "torch/distributed"
    distributed.mkdir(parents=True)
    for file in (distributed.with_name("__init__.py"), distributed / "__init__.py"):
        file.touch()
    (distributed / "run.py").write_text(_TORCH)
    monkeypatch.syspath_prepend(tmp_path)
    program(tmp_path)
    assert not sys.modules["torch.distributed.run"].was_enabled
    assert gc.isenabled()

    for name in ("torch.distributed", "torch.distributed.run"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "cannot load torch" in program(tmp_path)
    assert gc.isenabled()
