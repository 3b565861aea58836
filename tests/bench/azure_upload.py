"""How long a data set of many small files takes into blobs, and what of that is ours.

    python -m tests.bench.azure_upload [FILES]

Azurite answers in one process; it is the rest of the time.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from azure.storage.blob import BlobServiceClient

from allranks.azure.sdk import wire
from tests.azurite.emulator import KEY, serving

PROGRAM = Path(sys.executable).parent / "allranks"
_IN_A_FOLDER = 1000
_SIZE = 784  # bytes of an image of MNIST


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
        started = time.monotonic()
        subprocess.run(
            [PROGRAM, "azure", "upload", "data", "blob:bench"],
            cwd=folder,
            env={wire.ENV_CONNECTION: azurite.connection_string},
            check=True,
        )
        wall = time.monotonic() - started
        # Azurite goes on, so this is the upload alone.
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print("| files | seconds | files a second | processor seconds of ours | MiB at most |")
    print("| --- | --- | --- | --- | --- |")
    ours = used.ru_utime + used.ru_stime
    print(
        f"| {count:,} | {wall:.0f} | {count / wall:.0f} | {ours:.0f} | {used.ru_maxrss // 1024} |"
    )


if __name__ == "__main__":
    main()
