"""What all unit tests share: each closes the sockets that it opens."""

from __future__ import annotations

import gc
import os
import stat
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES = Path("/dev/fd")


def _sockets() -> set[str]:
    """The sockets of this process, as its file descriptors."""
    sockets = set()
    for file in _FILES.iterdir():
        with suppress(OSError):  # that of the listing is closed
            if stat.S_ISSOCK(os.fstat(int(file.name)).st_mode):
                sockets.add(file.name)
    return sockets


@pytest.fixture(autouse=True, scope="module")
def _closed_sockets() -> Iterator[None]:
    """Fail the file whose tests leave a socket to the garbage collection.

    That comes whenever it likes, mostly in a test of another file, which is then blamed. What a
    server or a thread still uses is no garbage.
    """
    before = _sockets()
    yield
    if _sockets() <= before:
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        gc.collect()
    unclosed = [text for text in (str(warning.message) for warning in caught) if "socket" in text]
    assert [] == unclosed, "a test of this file left them open"
