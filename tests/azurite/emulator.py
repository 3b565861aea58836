"""Azurite: Azure Blob Storage on this machine, in memory and on a port of its own."""

from __future__ import annotations

import http.client
import queue
import re
import subprocess
import threading
import time
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_PROGRAM = Path(__file__).parents[2] / ".tools/azurite/node_modules/.bin/azurite-blob"
_LISTENS = re.compile(r"listens on (http://127\.0\.0\.1:\d+)")
_SECONDS = 60
ACCOUNT = "devstoreaccount1"
# The one key of the emulator, which its documentation prints.
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass
class Azurite:
    """The emulator.

    Attributes:
        endpoint: of its account's blobs.
        requests: each that was answered, as its access log has it.
        line_queue: gets each of them, too.
    """

    endpoint: str
    requests: list[str] = field(default_factory=list)
    line_queue: queue.Queue[str] = field(default_factory=queue.Queue)

    @property
    def connection_string(self) -> str:
        """What AZURE_STORAGE_CONNECTION_STRING is to say."""
        return f"AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.endpoint}"

    def settle(self) -> None:
        """Wait until all that has been answered is in `requests`: its log is read meanwhile."""
        marker = f"marker-{uuid.uuid4().hex}"
        # Nobody is signed in: it is refused, and logged all the same.
        client = http.client.HTTPConnection(urlsplit(self.endpoint).netloc, timeout=_SECONDS)
        with closing(client):
            client.request("GET", f"/{ACCOUNT}/{marker}")
            client.getresponse().read()
        deadline = time.monotonic() + _SECONDS
        while not any(marker in line for line in self.requests):
            assert time.monotonic() < deadline, "the emulator logs no request"
            time.sleep(0.01)

    def forget(self) -> None:
        """Begin anew with what was asked."""
        self.settle()
        self.requests.clear()
        while not self.line_queue.empty():
            self.line_queue.get()

    def puts(self) -> list[str]:
        """The requests that wrote to a blob."""
        self.settle()
        return [line for line in self.requests if '"PUT ' in line and "restype=" not in line]


@contextmanager
def serving(folder: Path, *more: str) -> Iterator[Azurite]:
    """Run the emulator until the block ends.

    Args:
        folder: where it may write.
        more: further arguments.
    """
    assert _PROGRAM.exists(), f"{_PROGRAM} is missing: `make azurite` installs it"
    process = subprocess.Popen(
        [
            *(_PROGRAM, "--inMemoryPersistence", "--disableTelemetry"),
            *("--skipApiVersionCheck", "--blobPort", "0", *more),
        ],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: queue.Queue[str] = queue.Queue()
    emulator = Azurite("")

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if emulator.endpoint:
                emulator.requests.append(line)
                emulator.line_queue.put(line)
            else:
                lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    try:
        while not emulator.endpoint:
            match = _LISTENS.search(lines.get(timeout=_SECONDS))
            if match:
                emulator.endpoint = f"{match[1]}/{ACCOUNT}"
        yield emulator
    finally:
        process.terminate()
        process.wait()
