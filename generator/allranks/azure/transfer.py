"""Sends a folder to a store: many files at once, and no more of them in memory than are under way.

What is there with the same content is not sent again, so a transfer that was stopped goes on when
it is begun anew: a small file is there as a whole or not at all, and of a large one the blocks that
were written are still there.
"""

from __future__ import annotations

import base64
import hashlib
import os
import queue
import threading
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.azure import upload
from allranks.azure.tree import Stamp
from allranks.azure.upload import BLOCK, Content, Listing, UnsentFile
from allranks.errors import (
    AllranksError,
    BusyError,
    ForbiddenError,
    InputError,
    NotFoundError,
    Problem,
    QuotaError,
    RunError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.tree import Folder, UploadFile, UploadSource
    from allranks.azure.upload import Destination, Remote, Room, Store, UploadProgress

# Whatever these are about, it is not about one file: the next would meet the same.
_FATAL = (BusyError, ForbiddenError, NotFoundError, QuotaError)
_FAILURES_MAX = 100
_NONE = Listing({})


class SourceChangedError(RunError):
    """A file was changed while it was sent."""


class Transfer:
    """One upload.

    Args:
        store: where to.
        tree: what.
        destination: the folder in the store.
        progress: is kept up to date.
        workers: how many requests are under way at once.
        stop: ends the transfer when it is set.
    """

    def __init__(
        self,
        store: Store,
        tree: UploadSource,
        destination: Destination,
        progress: UploadProgress,
        *,
        workers: int,
        stop: threading.Event,
    ) -> None:
        self._store, self._tree, self._destination = store, tree, destination
        self._progress, self._stop, self._workers = progress, stop, workers
        self._lock = threading.Lock()
        self._files: queue.Queue[tuple[Folder, UploadFile, Remote | None] | None] = queue.Queue(
            2 * workers
        )
        self._room_for_blocks = threading.BoundedSemaphore(workers)
        self._blocks = ThreadPoolExecutor(workers, thread_name_prefix="block")
        self._fatal: AllranksError | None = None
        self.failures: list[UnsentFile] = []

    def run(self) -> list[UnsentFile]:
        """Send all that is not there.

        Returns:
            The files that were not sent.

        Raises:
            AllranksError: something that is not about one file, such as a share that is full.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            self._give_out()
        except BaseException:
            self._stop.set()
            raise
        finally:
            for _ in threads:
                self._put(None)
            for thread in threads:
                thread.join()
            self._blocks.shutdown(wait=True, cancel_futures=True)
        if self._fatal is not None:
            raise self._fatal
        return self.failures

    def _give_out(self) -> None:
        """Hand each file to a worker, with what is there of it."""
        there = self._prepare()
        for folder in self._tree.folders():
            if self._stop.is_set():
                return
            listing = _NONE
            if folder.path in there:
                there.discard(folder.path)
                listing = self._store.listing(self._name(folder.path))
                there |= {folder.name(name) for name in folder.folders if name in listing.folders}
            elif folder.path:
                self._store.make_folder(self._name(folder.path))
            for entry in folder.files:
                self._put((folder, entry, listing.files.get(entry.name)))
                if self._stop.is_set():
                    return

    def _prepare(self) -> set[str]:
        """Make the folders above, and return the root where it is there."""
        parts = self._destination.folder.split("/") if self._destination.folder else []
        above = ""
        is_there = True
        for part in parts:
            if is_there:
                is_there = part in self._store.listing(above).folders
            above = f"{above}/{part}" if above else part
            if not is_there:
                self._store.make_folder(above)
        return {""} if is_there else set()

    def _name(self, path: str) -> str:
        return "/".join(filter(None, (self._destination.folder, path)))

    def _put(self, item: tuple[Folder, UploadFile, Remote | None] | None) -> None:
        """Wait for a worker; not for long ones where all is to end."""
        while True:
            try:
                self._files.put(item, timeout=0.2)
            except queue.Full:
                if self._stop.is_set() and item is not None:
                    return
            else:
                return

    def _work(self) -> None:
        while (item := self._files.get()) is not None:
            if self._stop.is_set():
                continue
            folder, entry, remote = item
            name = folder.name(entry.name)
            try:
                self._send(name, remote)
            except _FATAL as error:
                self._end(error)
            except StoppedError:
                continue
            except AllranksError as error:
                self._fail(name, error.problem)
            except OSError as error:
                problem = Problem(
                    name, f"cannot be read any more: {(error.strerror or '').lower()}", _AGAIN
                )
                self._fail(name, problem)

    def _end(self, error: AllranksError) -> None:
        with self._lock:
            self._fatal = self._fatal or error
        self._stop.set()

    def _fail(self, name: str, problem: Problem) -> None:
        with self._lock:
            self._progress.files += 1
            self.failures.append(UnsentFile(name, problem))
            too_many = len(self.failures) >= _FAILURES_MAX
        if too_many:
            self._stop.set()

    def _send(self, name: str, remote: Remote | None) -> None:
        descriptor = os.open(self._tree.file(name), os.O_RDONLY | os.O_CLOEXEC)
        try:
            before = Stamp.of(os.fstat(descriptor))
            if before.size <= BLOCK:
                is_sent = self._send_small(name, descriptor, before, remote)
            else:
                is_sent = self._send_large(name, descriptor, before, remote)
            self._check_unchanged(name, descriptor, before)
        finally:
            os.close(descriptor)
        with self._lock:
            self._progress.files += 1
            self._progress.sent += is_sent
            self._progress.unchanged += not is_sent
            if before.size <= BLOCK:
                self._progress.size += before.size
                self._progress.sent_size += before.size * is_sent

    def _send_small(self, name: str, descriptor: int, before: Stamp, remote: Remote | None) -> bool:
        data = _read(descriptor, before.size + 1, 0)
        self._check_unchanged(name, descriptor, before, len(data))
        md5 = _digest(hashlib.md5(data, usedforsecurity=False).digest())
        path = self._name(name)
        if self._is_there(path, remote, before.size, md5):
            return False
        self._store.put(path, data, md5)
        return True

    def _send_large(self, name: str, descriptor: int, before: Stamp, remote: Remote | None) -> bool:
        content = self._content(name, descriptor, before)
        path = self._name(name)
        if self._is_there(path, remote, before.size, content.md5):
            with self._lock:
                self._progress.size += before.size
            return False
        missing = sorted(self._store.missing_blocks(path, content))
        with self._lock:
            self._progress.size += sum(
                _length(content, number)
                for number in set(range(len(content.blocks))).difference(missing)
            )
        under_way: set[Future[None]] = set()
        try:
            for number in missing:
                self._room_for_blocks.acquire()
                future = self._blocks.submit(
                    self._send_block, name, path, descriptor, content, number
                )
                future.add_done_callback(lambda _: self._room_for_blocks.release())
                under_way.add(future)
                done = {future for future in under_way if future.done()}
                under_way -= done
                for future in done:
                    future.result()
                self._check_going()
        finally:
            wait(under_way)
        for future in wait(under_way, return_when=FIRST_EXCEPTION).done:
            future.result()
        self._check_unchanged(name, descriptor, before)
        self._check_going()
        self._store.commit(path, content)
        return True

    def _send_block(
        self, name: str, path: str, descriptor: int, content: Content, number: int
    ) -> None:
        self._check_going()
        length = _length(content, number)
        data = _read(descriptor, length, number * content.block_size)
        md5 = _digest(hashlib.md5(data, usedforsecurity=False).digest())
        if md5 != content.blocks[number]:
            raise _changed(name)
        self._store.put_block(path, content, number, data)
        with self._lock:
            self._progress.size += length
            self._progress.sent_size += length

    def _content(self, name: str, descriptor: int, before: Stamp) -> Content:
        """Read a large file once, to know what is in it."""
        size = upload.block_size(before.size)
        whole = hashlib.md5(usedforsecurity=False)
        blocks: list[str] = []
        total = 0
        for data in _pieces(descriptor, size):
            whole.update(data)
            blocks.append(_digest(hashlib.md5(data, usedforsecurity=False).digest()))
            total += len(data)
            self._check_going()
        self._check_unchanged(name, descriptor, before, total)
        return Content(before.size, _digest(whole.digest()), size, tuple(blocks))

    def _is_there(self, path: str, remote: Remote | None, size: int, md5: str) -> bool:
        if remote is None or remote.size != size:
            return False
        return (remote.md5 or self._store.md5(path)) == md5

    def _check_unchanged(
        self, name: str, descriptor: int, before: Stamp, size: int | None = None
    ) -> None:
        """Raise where a file is no longer what it was when it was opened."""
        try:
            now = Stamp.of(Path(self._tree.file(name)).stat())
        except FileNotFoundError:
            raise _changed(name) from None
        is_same = now == before == Stamp.of(os.fstat(descriptor))
        if not is_same or size not in (None, before.size):
            raise _changed(name)

    def _check_going(self) -> None:
        if self._stop.is_set():
            raise StoppedError("the upload was stopped", hint=_AGAIN)


class StoppedError(RunError):
    """The transfer ends before a file is sent."""


_AGAIN = "give the same command again: what is there is not sent again"


def _changed(name: str) -> SourceChangedError:
    return SourceChangedError(
        "was changed while it was sent, so what is there may be neither the old nor the new",
        path=name,
        hint="let what writes to it end, and give the same command again",
    )


def _digest(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _length(content: Content, number: int) -> int:
    return min(content.block_size, content.size - number * content.block_size)


def _read(descriptor: int, length: int, offset: int) -> bytes:
    """Read so many bytes, or up to the file's end."""
    data = os.pread(descriptor, length, offset)
    if len(data) in (0, length):
        return data
    parts = [data]
    rest = length - len(data)
    while rest and (data := os.pread(descriptor, rest, offset + length - rest)):
        parts.append(data)
        rest -= len(data)
    return b"".join(parts)


def _pieces(descriptor: int, size: int) -> Iterator[bytes]:
    offset = 0
    while data := _read(descriptor, size, offset):
        yield data
        offset += len(data)


def check_room(room: Room | None, tree_size: int, destination: Destination) -> None:
    """Refuse what a share can never take, before anything is sent.

    Args:
        room: of the share; None for what has no bounds.
        tree_size: all bytes of what is to be there.
        destination: the share, for the message.

    Raises:
        InputError: it is larger than the share.
    """
    if room is not None and tree_size > room.quota:
        raise InputError(
            f"there are {tree_size / upload.GIB:,.1f} GiB to send, and the quota of share "
            f"{destination.name} is {room.quota // upload.GIB:,} GiB",
            path=str(destination),
            hint=f"raise quotaGiB of the share in azure.yaml to {-(-tree_size // upload.GIB)} or "
            "more, and give `allranks azure up`",
        )
