"""The pretended cluster and API server for the tests of this folder."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def _sibling(name: str) -> ModuleType:
    """A helper module beside this file; the tests are no package."""
    module_name = f"allranks_tests_{name}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(
            module_name, Path(__file__).with_name(f"{name}.py")
        )
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        spec.loader.exec_module(module)
    return sys.modules[module_name]


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The module of the cluster that only pretends."""
    return _sibling("fake_cluster")


@pytest.fixture(scope="session")
def fake_api() -> ModuleType:
    """The module of the API server that only pretends."""
    return _sibling("fake_api")


@pytest.fixture
def api(fake_api: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An API server that only pretends, asked directly whatever proxy the machine has."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    with fake_api.FakeApiServer() as server:
        yield server
