"""The pretended cluster and API server for the tests of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.cluster import fake_api as _fake_api
from tests.unit.cluster import fake_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@pytest.fixture(scope="session")
def fake() -> ModuleType:
    """The module of the cluster that only pretends."""
    return fake_cluster


@pytest.fixture(scope="session")
def fake_api() -> ModuleType:
    """The module of the API server that only pretends."""
    return _fake_api


@pytest.fixture
def api(fake_api: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An API server that only pretends, asked directly whatever proxy the machine has."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    with fake_api.FakeApiServer() as server:
        yield server
