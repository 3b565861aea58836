"""How long a data set of many small files takes into blobs, and what of that is ours.

    python -m tests.bench.azure_upload [FILES]

Azurite answers in one process; it is the rest of the time. So the same files are sent by a client
that does nothing else than to write requests which were made before, over as many connections: no
program can be faster than that.
"""

from __future__ import annotations

import itertools
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.storage.blob import (
    AccountSasPermissions,
    BlobServiceClient,
    ResourceTypes,
    generate_account_sas,
)

from allranks.azure.sdk import wire
from tests.azurite.emulator import ACCOUNT, KEY, serving

PROGRAM = Path(sys.executable).parent / "allranks"
_IN_A_FOLDER = 1000
_SIZE = 784  # bytes of an image of MNIST
_WARM = 1000  # blobs after which Azurite is as fast as it gets
_PARALLEL = 16  # as `--parallel` of the command is


def _bare(endpoint: str, count: int) -> float:
    """Seconds in which Azurite takes so many blobs from a client that costs nothing.

    Args:
        endpoint: of its account.
        count: how many.
    """
    url = urllib.parse.urlsplit(endpoint)
    end = datetime.now(UTC) + timedelta(hours=2)
    may = AccountSasPermissions(write=True, create=True)
    kinds = ResourceTypes(object=True)
    signature = generate_account_sas(ACCOUNT, KEY, kinds, may, end)
    head = (
        f" HTTP/1.1\r\nHost: {url.netloc}\r\nx-ms-version: {wire.VERSION}\r\n"
        f"x-ms-blob-type: BlockBlob\r\nContent-Length: {_SIZE}\r\n\r\n"
    ).encode() + b"x" * _SIZE
    numbers = itertools.count()

    def send() -> None:
        with socket.create_connection((url.hostname, url.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (number := next(numbers)) < count:
                path = f"{url.path}/bare/{number // _IN_A_FOLDER}/{number}.bin?{signature}"
                connection.sendall(b"PUT " + path.encode() + head)
                answer = b""
                while b"\r\n\r\n" not in answer:
                    answer += connection.recv(4096)
                assert answer.startswith(b"HTTP/1.1 201 "), answer

    threads = [threading.Thread(target=send) for _ in range(_PARALLEL)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - started


def main() -> None:
    """Make the files, send them, and say how long it took."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder), "--silent") as azurite:
        for number in range(count):
            path = Path(folder, "data", f"{number // _IN_A_FOLDER}", f"{number}.bin")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(number.to_bytes(8, "big") * (_SIZE // 8))
        with BlobServiceClient(azurite.endpoint, credential=KEY) as client:
            client.create_container("bench")
            client.create_container("bare")
        _bare(azurite.endpoint, _WARM)
        bare = _bare(azurite.endpoint, count)
        started = time.monotonic()
        subprocess.run(
            [PROGRAM, "azure", "upload", "data", "blob:bench"],
            cwd=folder,
            env={wire.ENV_CONNECTION: azurite.connection_string},
            check=True,
        )
        wall = time.monotonic() - started
        # Azurite goes on, so this is the upload alone.
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    ours = usage.ru_utime + usage.ru_stime
    figures = {
        "files": f"{count:,}",
        "seconds": f"{wall:.0f}",
        "files a second": f"{count / wall:.0f}",
        "of a bare client": f"{count / bare:.0f}",
        "ours / bare": f"{wall / bare:.2f}",
        "processor seconds of ours": f"{ours:.0f}",
        "MiB at most": f"{usage.ru_maxrss // 1024}",
    }
    for row in (figures, ["---"] * len(figures), figures.values()):
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
