"""The pretended API server for the tests of this folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from allranks_operator.kube.client import Api, connect
from tests.unit.operator.fakes import FakeServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    """An API server that only pretends, asked directly whatever proxy the machine has."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    fake = FakeServer()
    yield fake
    fake.close()


@pytest.fixture
def api(server: FakeServer, tmp_path: Path) -> Api:
    """A client of it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    return Api(connect(str(path), None, 5.0))
