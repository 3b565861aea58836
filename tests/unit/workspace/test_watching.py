"""`allranks sync --watch`: what is saved in a folder reaches the pods, once for each change."""

from __future__ import annotations

import io
import os
import signal
import tarfile
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from allranks.cli.main import main
from allranks.workspace.local_sync import LocalRun
from allranks.workspace.sync import Published

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from allranks.workspace.sync import Offer

pytestmark = pytest.mark.timeout(120)
_PATIENCE = 60.0


class _FakePod:
    """A pod that takes whatever it is sent."""

    name = "pod-0"

    def call(self, _words: tuple[str, ...], _data: bytes, _seconds: float) -> bytes:
        """See `SyncPod`."""
        return b'{"problem": ""}'


@dataclass
class _FakeRun:
    """A run of one pod, which keeps what was published.

    Attributes:
        offers: what was published.
        looks: how often it was asked what its pods have, which is once after each change.
    """

    offers: list[Offer] = field(default_factory=list)
    looks: int = 0

    def pods(self) -> dict[str, _FakePod]:
        """See `SyncTarget`."""
        return {"uid": _FakePod()}

    def published(self) -> Published:
        """See `SyncTarget`."""
        self.looks += 1
        if not self.offers:
            return Published(0, "", "")
        last = self.offers[-1]
        return Published(last.generation, last.digest, last.archive.digest)

    def publish(self, offer: Offer) -> None:
        """See `SyncTarget`."""
        self.offers.append(offer)

    def files(self) -> list[dict[str, str]]:
        """The files of each offer."""
        contents = []
        for offer in self.offers:
            with tarfile.open(fileobj=io.BytesIO(offer.archive.data)) as archive:
                files = ((member.name, archive.extractfile(member)) for member in archive)
                contents.append({name: file.read().decode() for name, file in files if file})
        return contents

    def until(self, check: Callable[[], bool]) -> None:
        """Wait for what the command does."""
        deadline = time.monotonic() + _PATIENCE
        while not check():
            assert time.monotonic() < deadline, f"{self.looks} looks, {len(self.offers)} offers"
            time.sleep(0.01)


def _save(path: Path, text: str) -> None:
    """Save a file as editors do: a new one in the place of the old one, and twice."""
    for _ in range(2):
        new = path.with_name(f".{path.name}.new")
        new.write_text(text)
        new.replace(path)


def test_each_change_of_what_goes_is_one_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A burst of saves is one sync; a file that stays out, its rule's first too, is none.

    Ctrl-C ends the command with 130, and nothing more is asked of the run.
    """
    (tmp_path / ".allranksignore").write_text("*.log\n")
    (tmp_path / "train.py").write_text("1")
    run = _FakeRun()
    monkeypatch.setattr(LocalRun, "find", lambda *_: run)
    failures: list[AssertionError] = []

    def edit() -> None:
        try:
            run.until(lambda: run.looks >= 2)  # the folder is watched
            _save(tmp_path / "train.py", "2")
            run.until(lambda: len(run.offers) >= 2)
            for path in (tmp_path / "wandb/run", tmp_path / "x.log"):
                looks = run.looks
                path.parent.mkdir(exist_ok=True)
                path.write_text("stays out")
                run.until(lambda looks=looks: run.looks > looks)  # type: ignore[misc]
            _save(tmp_path / "train.py", "3")
            run.until(lambda: len(run.offers) >= 3)
        except AssertionError as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    editor = threading.Thread(target=edit)
    editor.start()
    words = ["sync", "run", "--on", "local", "--workspace", str(tmp_path)]
    code = main([*words, "--watch"])
    editor.join()

    assert [] == failures
    assert 130 == code
    rules = {".allranksignore": "*.log\n"}
    assert [{"train.py": number, **rules} for number in "123"] == run.files()
    assert "nothing has changed" not in capsys.readouterr().out
