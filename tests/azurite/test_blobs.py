"""`allranks azure upload` into blobs, against Azurite."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from azure.storage.blob import ContainerClient

from allranks.azure.sdk import stores, wire
from allranks.azure.upload import BLOCK, Destination, StorageKind
from allranks.cli.main import main
from allranks.errors import RefusedError
from tests.azure_fake.files import md5_of
from tests.azurite.emulator import ACCOUNT, KEY, Azurite

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRAM = Path(sys.executable).parent / "allranks"
_SECONDS = 60
pytestmark = pytest.mark.usefixtures("environment", "data")


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; the working directory is above it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


@pytest.fixture
def upload(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command: its exit code, its output and its errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["azure", "upload", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def content(azurite: Azurite, container: str) -> dict[str, bytes]:
    """The blobs of a container, as the SDK reads them; each has the MD5 of what is in it."""
    with ContainerClient(azurite.endpoint, container, credential=KEY) as client:
        blobs: dict[str, bytes] = {}
        for blob in client.list_blobs():
            blobs[blob.name] = client.download_blob(blob.name).readall()
            md5 = base64.b64encode(blob.content_settings.content_md5 or b"").decode()
            assert md5 == md5_of(blobs[blob.name]), blob.name
    return blobs


def test_a_folder_arrives_as_it_is(
    azurite: Azurite, container: str, data: Path, upload: Any
) -> None:
    """Whatever characters its names have, and what is there is not sent again."""
    files = {
        "a b+c#d%41?e&f=g.txt": b"1",
        "ä/日本/🦜.bin": os.urandom(1000),
        "train/<x>.txt": b"",
        "train/0/1/2/3": b"deep",
    }
    for name, text in files.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_bytes(text)
    assert upload("data", f"blob:{container}/mnist") == (
        0,
        f"sent 4 files (1005 bytes): blob:{container}/mnist\n",
        "",
    )
    assert content(azurite, container) == {f"mnist/{name}": files[name] for name in files}
    azurite.forget()
    (data / "train/0/1/2/3").write_bytes(b"peed")
    assert upload("data", f"blob:{container}/mnist")[1].startswith("sent 1 file (4 bytes), 3 were")
    assert len(azurite.puts()) == 1


def test_a_large_file_that_was_killed_goes_on_where_it_was(
    azurite: Azurite, container: str, data: Path, upload: Any
) -> None:
    """By kill -9: the blocks that Azure has are not sent again, and the whole arrives."""
    large = os.urandom(12 * BLOCK + 1)
    (data / "large.bin").write_bytes(large)
    (data / "a.txt").write_text("first")
    words = ("azure", "upload", "data", f"blob:{container}", "--parallel", "1")
    for _ in range(10):
        _kill_after_blocks(azurite, subprocess.Popen([PROGRAM, *words], cwd=data.parent), 3)
        blobs = list(content(azurite, container))
        if blobs == ["a.txt"]:
            break
        # This test was held up, and the whole had arrived before the kill.
        with ContainerClient(azurite.endpoint, container, credential=KEY) as client:
            for name in blobs:
                client.delete_blob(name)
        azurite.forget()
    code, out, _ = upload("data", f"blob:{container}", "--parallel", "1")
    assert code == 0
    assert "1 were there already" in out
    ids = [match[1] for line in azurite.puts() if (match := re.search(r"blockid=([^& ]+)", line))]
    # The one that was under way when the process was killed may have been sent twice.
    assert 13 <= len(ids) <= 14
    assert len(set(ids)) == 13
    assert content(azurite, container) == {"a.txt": b"first", "large.bin": large}


def _kill_after_blocks(azurite: Azurite, upload: subprocess.Popen[bytes], count: int) -> None:
    """End an upload by kill -9 when the emulator has answered for some of its blocks."""
    try:
        while count:
            count -= "comp=block&" in azurite.line_queue.get(timeout=_SECONDS)
        upload.send_signal(signal.SIGKILL)
    finally:
        upload.kill()
        upload.wait(_SECONDS)


def test_a_block_that_arrives_otherwise_is_refused(azurite: Azurite, container: str) -> None:
    """Azure holds what it gets against the MD5 that was sent with it."""
    destination = Destination(StorageKind.BLOB, container)
    store = stores.connect(destination, ACCOUNT, cloud="public", way="auto", stop=threading.Event())
    with closing(store), pytest.raises(RefusedError, match="not write x: The MD5 value"):
        store.put("x", b"what arrives", md5_of(b"what was meant"))
    assert not content(azurite, container)


def test_many_small_files_take_little_memory(azurite: Azurite, container: str, data: Path) -> None:
    """Ten times as many take as much: no list of all is kept."""

    def peak(count: int) -> int:
        """KiB that the program had at most while it sent some files."""
        folder = data / f"{count}"
        for number in range(count):
            path = folder / f"{number // 100}/{number}.bin"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x" * 700)
        script = (
            "import resource, subprocess, sys;"
            "subprocess.run(sys.argv[1:], check=True);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        )
        words = [str(PROGRAM), "azure", "upload", str(folder), f"blob:{container}/{count}"]
        process = subprocess.run(
            [sys.executable, "-c", script, *words], check=True, capture_output=True, text=True
        )
        return int(process.stdout.splitlines()[-1])

    few, many = peak(200), peak(2000)
    assert len(azurite.puts()) == 2200
    assert many < few + 8 * 1024


def test_a_container_that_is_not_there_is_named(upload: Any) -> None:
    """With exit code 2."""
    code, _, err = upload("data", "blob:nowhere")
    assert code == 2
    assert f"there is no blob container nowhere in account {ACCOUNT}" in err


def test_a_key_that_is_not_taken_is_not_shown(
    azurite: Azurite, upload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it comes from is said."""
    wrong = base64.b64encode(b"another key").decode()
    monkeypatch.setenv(wire.ENV_CONNECTION, azurite.connection_string.replace(KEY, wrong))
    code, out, err = upload("data", "blob:nowhere")
    assert code == 1
    assert "the key or signature of AZURE_STORAGE_CONNECTION_STRING" in err
    assert wrong not in out + err
