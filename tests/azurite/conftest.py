"""The emulator of all tests, and a container for each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from azure.storage.blob import BlobServiceClient

from allranks.azure.sdk import wire

from .emulator import KEY, Azurite, serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azurite]:
    """One emulator for all tests."""
    with serving(tmp_path_factory.mktemp("azurite")) as emulator:
        yield emulator


@pytest.fixture
def container(azurite: Azurite, request: pytest.FixtureRequest) -> str:
    """A container of the test's own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:60].strip("-")
    with BlobServiceClient(azurite.endpoint, credential=KEY) as client:
        client.create_container(name)
    azurite.forget()
    return name


@pytest.fixture
def environment(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment leads to the emulator."""
    monkeypatch.setenv(wire.ENV_CONNECTION, azurite.connection_string)
