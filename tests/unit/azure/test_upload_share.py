"""`allranks azure upload` into a file share, against a fake of Azure Files."""

from __future__ import annotations

import email.utils
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.azure.sdk import access, login, stores, wire
from allranks.azure.tree import Extent
from allranks.azure.upload import BLOCK, Destination, Room, StorageKind, UploadProgress
from allranks.cli.commands.azure.upload import _line
from allranks.cli.main import main
from allranks.errors import ForbiddenError
from tests.azure_fake.arm import SUBSCRIPTION, TOKEN, FakeArm
from tests.azure_fake.files import ACCOUNT, KEY, FakeFiles, Reply, Share, md5_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(sys.executable).parent / "allranks"
_GIB = 1024**3
_SECONDS = 60
pytestmark = pytest.mark.usefixtures("data", "fake")
_BUSY: Reply = (503, "ServerBusy", {"retry-after-ms": "1"}, b"")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeFiles]:
    """A share called datasets, which the environment leads to."""
    service = FakeFiles({"datasets": Share()})
    monkeypatch.setenv(wire.ENV_CONNECTION, service.connection_string)
    monkeypatch.setattr(wire, "_FIRST_DELAY", 0.001)
    monkeypatch.setattr(wire, "_MOST_DELAY", 0.002)
    with service.serving():
        yield service


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files, one of them in a folder; the working directory is above it."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    (folder / "train").mkdir(parents=True)
    (folder / "labels.txt").write_text("cat dog")
    (folder / "train/0.bin").write_bytes(bytes(range(256)))
    return folder


@pytest.fixture
def upload(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command: its exit code, its output and its errors."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["azure", "upload", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def content(share: Share) -> dict[str, bytes]:
    """The files of a share, all of which are complete: each has the MD5 of what is in it."""
    for path, file in share.files.items():
        assert file.md5 == md5_of(file.data), path
    return {path: bytes(file.data) for path, file in share.files.items()}


def test_a_folder_arrives_as_it_is(fake: FakeFiles, data: Path, upload: Any) -> None:
    """Files and folders, with the MD5 of each, below the folder that was named."""
    (data / "empty").mkdir()
    (data / "nothing").touch()
    assert upload("data/", "share:datasets/mnist/v1") == (
        0,
        "sent 3 files (263 bytes): share:datasets/mnist/v1\n",
        "",
    )
    share = fake.shares["datasets"]
    assert content(share) == {
        "mnist/v1/labels.txt": b"cat dog",
        "mnist/v1/nothing": b"",
        "mnist/v1/train/0.bin": bytes(range(256)),
    }
    assert share.folders == {"mnist", "mnist/v1", "mnist/v1/train", "mnist/v1/empty"}


@pytest.mark.parametrize(
    ("version", "requests"),
    [("2026-10-06", (2, 0, 0)), ("2025-11-05", (1 + 2, 2, 2))],
    ids=["new", "old"],
)
def test_a_small_file_is_one_request_where_azure_takes_it_so(
    fake: FakeFiles, upload: Any, version: str, requests: tuple[int, ...]
) -> None:
    """A cloud that does not know it yet is asked in the old way, from its first refusal on."""
    fake.version = version
    assert upload("data", "share:datasets", "--parallel", "1")[0] == 0
    assert len(content(fake.shares["datasets"])) == 2
    operations = ("create", "put_range", "set_properties")
    assert requests == tuple(fake.counts[name] for name in operations)


def test_what_is_there_is_not_sent_again(fake: FakeFiles, data: Path, upload: Any) -> None:
    """A file that was changed is, also where it is as long as before."""
    upload("data", "share:datasets")
    fake.counts.clear()
    (data / "labels.txt").write_text("cat cow")
    code, out, _ = upload("data", "share:datasets", "-o", "json")
    assert code == 0
    assert json.loads(out) == {
        "ok": True,
        "destination": "share:datasets",
        "sent": 1,
        "sentBytes": 7,
        "unchanged": 1,
        "leftOut": [],
        "failed": [],
    }
    assert fake.counts["create"] == 1
    assert content(fake.shares["datasets"])["labels.txt"] == b"cat cow"


def test_a_file_goes_into_the_folder_under_its_own_name(
    fake: FakeFiles, data: Path, upload: Any
) -> None:
    """A single file is sent as one of a folder would be."""
    assert upload(str(data / "labels.txt"), "share:datasets/mnist")[0] == 0
    assert content(fake.shares["datasets"]) == {"mnist/labels.txt": b"cat dog"}


def test_links_in_the_folder_are_sent_as_files(fake: FakeFiles, data: Path, upload: Any) -> None:
    """Links to folders in it are left out and named: their files are sent anyway."""
    (data / "again.txt").symlink_to("labels.txt")
    (data / "all").symlink_to("train")
    (data / "train/up").symlink_to("..")
    code, _, err = upload("data", "share:datasets")
    assert code == 0
    assert "left out 2 links to folders" in err
    assert sorted(content(fake.shares["datasets"])) == ["again.txt", "labels.txt", "train/0.bin"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/etc/passwd", "is a link out of the folder"),
        ("../../other", "is a link out of the folder"),
        ("missing", "is a link to nothing"),
    ],
)
def test_links_that_lead_out_are_refused(
    target: str, words: str, fake: FakeFiles, data: Path, upload: Any
) -> None:
    """Before anything is sent: what is elsewhere on this machine is nobody's data set."""
    (data.parent / "other").write_text("secret")
    (data / "train/x").symlink_to(target)
    code, _, err = upload("data", "share:datasets")
    assert code == 2
    assert f"train/x: {words}" in err
    assert not fake.counts


def test_all_that_cannot_be_sent_is_named_at_once(fake: FakeFiles, data: Path, upload: Any) -> None:
    """Names that Azure forbids, names that differ by case alone, and what is no file."""
    (data / "a?").touch()
    (data / "Labels.txt").touch()
    os.mkfifo(data / "pipe")
    code, _, err = upload("data", "share:datasets")
    assert code == 2
    assert "a?: its name has ?" in err
    assert "labels.txt: is Labels.txt to a file share, which knows no case" in err
    assert "pipe: is no file, but a pipe, a socket or a device" in err
    assert "3 problems" in err
    assert not fake.counts


def test_a_file_that_changes_meanwhile_is_named(fake: FakeFiles, data: Path, upload: Any) -> None:
    """With exit code 1, after all others were sent."""

    def change(operation: str, path: str) -> None:
        if operation == "create" and path == "labels.txt":
            (data / "labels.txt").write_text("cat dog bird")

    fake.fault = change
    code, out, err = upload("data", "share:datasets")
    assert code == 1
    assert "labels.txt: was changed while it was sent" in err
    assert "sent 1 file (256 bytes)" in out
    fake.fault = lambda *_: None
    assert upload("data", "share:datasets")[0] == 0
    assert content(fake.shares["datasets"])["labels.txt"] == b"cat dog bird"


def test_a_file_that_goes_meanwhile_is_named(fake: FakeFiles, data: Path, upload: Any) -> None:
    """It was there when the folder was looked at."""

    def remove(operation: str, _: str) -> None:
        if operation == "list":
            (data / "labels.txt").unlink(missing_ok=True)

    fake.fault = remove
    code, _, err = upload("data", "share:datasets")
    assert code == 1
    assert "labels.txt: cannot be read any more: no such file or directory" in err
    assert sorted(content(fake.shares["datasets"])) == ["train/0.bin"]


def test_what_a_share_can_never_take_is_refused(fake: FakeFiles, data: Path, upload: Any) -> None:
    """Before anything is sent, with the quota that it needs."""
    with (data / "big").open("wb") as file:
        file.truncate(3 * _GIB)
    fake.shares["datasets"].quota = 2
    code, _, err = upload("data", "share:datasets")
    assert code == 2
    assert "there are 3.0 GiB to send, and the quota of share datasets is 2 GiB" in err
    assert "raise quotaGiB of the share in azure.yaml to 4 or more" in err
    assert not fake.shares["datasets"].files


def test_a_share_that_is_full_ends_the_upload(fake: FakeFiles, upload: Any) -> None:
    """With its quota, and the way out."""
    fake.shares["datasets"] = Share(quota=1, other_bytes=_GIB - 100)
    code, _, err = upload("data", "share:datasets", "--parallel", "1")
    assert code == 1
    assert "share datasets is full: its quota is 1 GiB, of which 1.0 are taken" in err
    assert "`allranks azure up`" in err
    fake.shares["datasets"].quota = 2
    assert upload("data", "share:datasets")[0] == 0
    assert len(content(fake.shares["datasets"])) == 2


def test_a_server_that_is_busy_is_asked_again(fake: FakeFiles, upload: Any) -> None:
    """Three times for each operation, and nothing is missing."""
    failures: dict[tuple[str, str], int] = {}

    def busy(operation: str, path: str) -> Reply | None:
        failures[operation, path] = failures.get((operation, path), 0) + 1
        return _BUSY if failures[operation, path] < 4 else None

    fake.fault = busy
    assert upload("data", "share:datasets/x")[0] == 0
    assert len(content(fake.shares["datasets"])) == 2


def test_a_server_that_stays_busy_ends_the_upload(fake: FakeFiles, upload: Any) -> None:
    """After some tries, with what to do."""
    fake.fault = lambda operation, _: _BUSY if operation == "create" else None
    code, _, err = upload("data", "share:datasets")
    assert code == 1
    assert "127.0.0.1 does not take the request: ServerBusy" in err
    assert "give the same command again" in err


@pytest.mark.parametrize(("hours", "word"), [(3, "behind"), (-3, "ahead of")])
def test_a_clock_that_is_wrong_is_named(
    fake: FakeFiles, upload: Any, hours: int, word: str
) -> None:
    """A signature is not taken then, and no other key would be."""
    date = email.utils.format_datetime(datetime.now(UTC) + timedelta(hours=hours), usegmt=True)
    fake.fault = lambda *_: (403, "AuthenticationFailed", {"Date": date}, b"")
    code, _, err = upload("data", "share:datasets")
    assert code == 1
    assert f"clock, which is 180 minutes {word} Azure's" in err


def test_a_share_that_is_not_there_is_named(upload: Any) -> None:
    """With exit code 2, and nothing sent."""
    code, _, err = upload("data", "share:data")
    assert code == 2
    assert "there is no file share data in account training" in err


def test_a_right_that_is_missing_is_named(fake: FakeFiles) -> None:
    """By the role that has it; being the owner of the account is not enough."""
    entrance = access.TokenAccess(login.StaticCredential("token"), StorageKind.SHARE)
    destination = Destination(StorageKind.SHARE, "datasets")
    service = wire.Wire(fake.endpoint, entrance, threading.Event())
    with closing(stores.ShareStore(service, destination, ACCOUNT)) as store:
        assert store.check() == Room(100 * _GIB, 0)
        fake.fault = lambda *_: (403, "AuthorizationPermissionMismatch", {}, b"")
        with pytest.raises(ForbiddenError) as refusal:
            store.check()
    problem = refusal.value.problem
    assert "you may not look at share datasets in account training" in problem.message
    assert "'Storage File Data Privileged Contributor'" in problem.hint


def test_a_key_that_is_not_taken_is_told_from_a_right(fake: FakeFiles, upload: Any) -> None:
    """Where it comes from is said, and the key is not shown."""
    fake.fault = lambda *_: (403, "AuthenticationFailed", {}, b"")
    code, out, err = upload("data", "share:datasets")
    assert code == 1
    assert "the key or signature of AZURE_STORAGE_CONNECTION_STRING is not taken" in err
    assert KEY not in out + err


def test_a_connection_string_of_another_account_is_refused(fake: FakeFiles, upload: Any) -> None:
    """Nobody's data goes to an account that was not asked for; no key is shown."""
    code, out, err = upload("data", "share:datasets", "--account", "production")
    assert code == 2
    assert "is of account 'training', and 'production' is asked for" in err
    assert "AccountKey" not in out + err
    assert not fake.counts


def test_a_large_file_is_sent_in_blocks_and_verified(
    fake: FakeFiles, data: Path, upload: Any
) -> None:
    """Each block is held against its MD5, and the whole has its own."""
    large = os.urandom(2 * BLOCK + 5)
    (data / "large.bin").write_bytes(large)
    assert upload("data", "share:datasets")[0] == 0
    assert content(fake.shares["datasets"])["large.bin"] == large
    assert upload("data", "share:datasets")[1].startswith("sent 0 files")


def test_a_large_file_that_changes_between_its_blocks_is_named(
    fake: FakeFiles, data: Path, upload: Any
) -> None:
    """It is not completed, so nobody takes it for whole, and the next upload begins it anew."""
    large = data / "large.bin"
    large.write_bytes(b"a" * (2 * BLOCK + 5))
    before = large.stat()

    def change(operation: str, path: str) -> None:
        if operation == "create" and path == "large.bin":
            large.write_bytes(b"b" * (2 * BLOCK + 5))
            # Not even its time says so.
            os.utime(large, ns=(before.st_atime_ns, before.st_mtime_ns))

    fake.fault = change
    code, _, err = upload("data", "share:datasets")
    assert code == 1
    assert "large.bin: was changed while it was sent" in err
    assert not fake.shares["datasets"].files["large.bin"].md5
    fake.fault = lambda *_: None
    assert upload("data", "share:datasets")[0] == 0
    assert content(fake.shares["datasets"])["large.bin"] == b"b" * (2 * BLOCK + 5)


def test_an_upload_that_was_killed_goes_on_where_it_was(
    fake: FakeFiles, data: Path, upload: Any
) -> None:
    """By kill -9 in a large file: the blocks and files that were written are not sent again."""
    large = os.urandom(4 * BLOCK)
    (data / "large.bin").write_bytes(large)
    reached, gate = threading.Event(), threading.Event()
    names: list[str] = []

    def hold(operation: str, path: str) -> None:
        if operation == "put_range" and path == "large.bin":
            names.append(path)
            if len(names) > 2:
                reached.set()
                gate.wait(_SECONDS)

    fake.fault = hold
    process = subprocess.Popen(
        [PROGRAM, "azure", "upload", "data", "share:datasets", "--parallel", "1"], cwd=data.parent
    )
    try:
        assert reached.wait(_SECONDS)
        process.send_signal(signal.SIGKILL)
        process.wait(_SECONDS)
    finally:
        process.kill()
        fake.fault = lambda *_: None
        gate.set()
    fake.shares["datasets"].files["large.bin"].ranges.sort()
    ranges = [*fake.shares["datasets"].files["large.bin"].ranges][:2]
    fake.shares["datasets"].files["large.bin"].ranges[:] = ranges
    fake.counts.clear()
    code, out, _ = upload("data", "share:datasets")
    assert code == 0
    assert fake.counts["create"] == 1  # train/0.bin, which comes after
    assert fake.counts["put_range"] == 2
    assert "1 were there already" in out
    assert content(fake.shares["datasets"])["large.bin"] == large


def test_ctrl_c_ends_it_with_the_exit_code_of_an_interruption(fake: FakeFiles, data: Path) -> None:
    """130, and without a word of Python's."""
    for number in range(40):
        (data / f"{number}").write_text("x")
    reached, gate = threading.Event(), threading.Event()

    def hold(operation: str, _: str) -> None:
        if operation == "create":
            reached.set()
            gate.wait(_SECONDS)

    fake.fault = hold
    process = subprocess.Popen(
        [PROGRAM, "azure", "upload", "data", "share:datasets", "--parallel", "1"],
        cwd=data.parent,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert reached.wait(_SECONDS)
        process.send_signal(signal.SIGINT)
        gate.set()
        _, err = process.communicate(timeout=_SECONDS)
    finally:
        process.kill()
        gate.set()
    assert process.returncode == 130
    assert "Traceback" not in err


def test_the_key_is_used_where_a_login_has_no_role_on_the_data(
    fake: FakeFiles, data: Path, upload: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an owner has none; who may not read keys either is told of the role."""
    (data.parent / "azure.yaml").write_text(
        f"{{name: demo, subscription: {SUBSCRIPTION}, storage: {{account: {ACCOUNT}}}}}"
    )
    monkeypatch.delenv(wire.ENV_CONNECTION)

    def no_role(_operation: str, _path: str) -> Reply | None:
        return None if fake.is_signed else (403, "AuthorizationPermissionMismatch", {}, b"")

    fake.fault = no_role
    with FakeArm() as arm:
        monkeypatch.setenv(login.ENV_ENDPOINT, arm.url)
        monkeypatch.setenv(login.ENV_TOKEN, TOKEN)
        monkeypatch.setenv(access.ENV_STORAGE, fake.endpoint)
        code, _, err = upload("data", "share:datasets")
        assert code == 1
        assert "'Storage File Data Privileged Contributor'" in err
        arm.keys[ACCOUNT] = KEY
        code, out, err = upload("data", "share:datasets")
    assert code == 0
    assert "its key, which you may read, is used" in err
    assert KEY not in out + err
    assert len(content(fake.shares["datasets"])) == 2


def test_a_folder_of_many_files_is_listed_in_pages(
    fake: FakeFiles, data: Path, upload: Any
) -> None:
    """None that is there is sent again, on whichever page it was."""
    for number in range(250):
        (data / f"train/{number:03}.bin").write_text(f"{number}")
    assert upload("data", "share:datasets")[0] == 0
    fake.counts.clear()
    assert "252 were there already" in upload("data", "share:datasets")[1]
    assert fake.counts["list"] == 1 + 3


def test_a_line_says_how_far_it_is() -> None:
    """By bytes, and with the time that the slower of bytes and files will take."""
    progress = UploadProgress(files=10, size=3 * 1024**2)
    extent = Extent(files=100, size=4 * 1024**2)
    assert _line(progress, extent, 10.0, 120) == (
        "[##################------]  75% 10 of 100 files, 3.0 MiB of 4.0 MiB, 90 s left"
    )
    assert _line(progress, extent, 10.0, 20) == " 75% 10 of 100 files"
    assert " 50% 1 of 2 files" in _line(UploadProgress(files=1), Extent(files=2), 1.0, 120)
