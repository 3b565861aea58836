"""A sweep's journal in Secrets: how it is read, and how it is appended to.

Two writers can never both write, whatever clocks and networks do. Each append changes the last
segment, and names the version of it that it was made for; a new writer first puts its own mark on
that segment, so that whatever an older one still sends is refused. A segment is sealed by the same
kind of change before the next one is made, and of two who make the next one the server takes the
first.

What a search proposes and what a trial measures are sent with the next record that something
follows from, or within a turn of the runner: both are made again where they are lost with it.
"""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cluster import paths
from allranks.errors import (
    AllranksError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RejectedError,
    RunError,
)
from allranks.sweep.storage import holding, lines, segments
from allranks.sweep.storage.opened import Closing

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState

# So long the cluster may be out of reach before a write is given up, in seconds.
PATIENCE = 120.0
_PAUSE = 1.0
# Records that nothing follows from until another is written.
_LATER = frozenset({"trial", "m"})


class Reading:
    """A journal as it is read; `refresh` reads what has come since.

    Attributes:
        state: the sweep.
        head: the Secret with the journal's head.
        segment: the last segment; None while there is none.
        index: its number, or that of the next one where it is None.
        unpacked: what was read of it.
    """

    def __init__(self, cluster: Cluster, namespace: str, sweep: str, where: str) -> None:
        """Read the head.

        Raises:
            InputError: there is no such journal, it is of a newer version, or it was changed by
                other hands.
            AllranksError: the cluster does not answer, or forbids it.
        """
        self._cluster = cluster
        self._namespace = namespace
        self._sweep = sweep
        self._where = where
        self.segment: Manifest | None = None
        self.index = 0
        self.unpacked = segments.Unpacker()
        try:
            self.head = self._get(segments.head_name(sweep))
        except NotFoundError as error:
            raise InputError(
                f"there is no journal {where}", hint="check the sweep's name and the namespace"
            ) from error
        self._lines = lines.Reader(where)
        try:
            self._lines.take(segments.unpack_head(self.head).rstrip(b"\n"))
        except ValueError as error:
            raise self._changed("its head", error) from error
        self.state: SweepState = self._lines.begun()

    def refresh(self) -> bool:
        """Take in what was appended since the last call; whether there was anything.

        Raises:
            InputError: it was changed by other hands.
            AllranksError: the cluster does not answer, or forbids it.
        """
        found = False
        while True:
            name = segments.segment_name(self._sweep, self.index)
            try:
                secret = self._get(name)
            except NotFoundError:
                self.segment = None
                return found
            if not segments.belongs(secret, self.head):
                self.segment = None
                return found
            self.segment = secret
            try:
                for line in self.unpacked.take(secret):
                    self._lines.take(line)
                    found = True
            except ValueError as error:
                raise self._changed(name, error) from error
            if not segments.annotation(secret, names.SWEEP_SEALED):
                return found
            self.index += 1
            self.unpacked = segments.Unpacker()

    def _get(self, name: str) -> Manifest:
        return self._cluster.get(paths.SECRETS, name, namespace=self._namespace)

    def _changed(self, name: str, error: Exception) -> InputError:
        return InputError(
            f"the journal cannot be read: {error}",
            hint="it was changed by other hands; begin the sweep anew",
            source=f"{self._where}, {name}",
        )


class SecretJournal(Closing):
    """A journal in Secrets that is open for writing; see `journals.Journal`.

    Attributes:
        where: it, as ``--journal`` takes it.
        state: the sweep, with all records that were appended.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, sweep: str, where: str, *, wait: bool = False
    ) -> None:
        """Have the journal, and read it.

        Args:
            cluster: where it is.
            namespace: its Secrets'.
            sweep: the sweep's name.
            where: for messages.
            wait: for whoever runs the sweep now to end.

        Raises:
            InputError: there is none, another process runs it, or it was changed by other hands.
            AllranksError: the cluster does not answer, or forbids it.
        """
        self.where = where
        self._cluster = cluster
        self._namespace = namespace
        self._sweep = sweep
        self._pending = b""
        self._trouble = ""
        # Unlike that of any other writer, also of one of the same name.
        self._writer = f"{holding.identity()} {secrets.token_hex(4)}"
        reading = Reading(cluster, namespace, sweep, where)
        self._hold = holding.Hold(cluster, namespace, segments.head_name(sweep))
        self._hold.take(wait=wait)
        try:
            self._take_over(reading)
        except BaseException:
            self._hold.let_go()
            raise
        self.state = reading.state

    def append(self, *written: Record) -> None:
        """Take records into the state, and send them; see the module on those that wait.

        Raises:
            RunError: they cannot be written, or another process has taken the sweep over.
            ValueError: a record does not follow from the state; none of them was written.
        """
        if self._trouble:
            raise RunError(self._trouble)
        if not written:
            return
        self._trouble = f"the journal {self.where} cannot be written any more"
        text = b"".join(map(lines.line, written))
        for record in written:
            self.state.apply(record)
        self._trouble = ""
        self._pending += text
        if any(record["t"] not in _LATER for record in written):
            self._flush()

    def take_request(self) -> str:
        """Why the sweep was asked to end since the last call; "" where it was not."""
        self._flush()
        return self._hold.take_request()

    def close(self) -> None:
        """Send what waits, and let the next writer in."""
        try:
            if not self._trouble:
                self._flush()
        finally:
            self._hold.let_go()

    # --- writing ----------------------------------------------------------------------------------

    def _take_over(self, reading: Reading) -> None:
        """Put our mark on the last segment, so that nobody else can change it any more."""
        self._head = reading.head
        while True:
            reading.refresh()
            self._index = reading.index
            if reading.segment is None:
                try:
                    self._begin_segment()
                except ConflictError:
                    continue  # somebody has made it: theirs is read, and taken over
                return
            mark = {"annotations": {names.SWEEP_WRITER: self._writer}}
            self._version = reading.segment["metadata"]["resourceVersion"]
            try:
                self._patch({"metadata": mark})
            except ConflictError:
                continue
            self._size = reading.unpacked.size
            self._packer = segments.Packer(reading.unpacked.streams)
            return

    def _begin_segment(self) -> None:
        if self._index >= segments.MOST:
            raise InputError(
                f"the journal {self.where} is full: it has {segments.MOST} Secrets",
                hint="read its results, and begin another sweep with less to try",
            )
        body = segments.manifest(self._sweep, self._index, self._head, self._writer)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                made = self._cluster.create(paths.SECRETS, body, namespace=self._namespace)
            except ConflictError:
                there = self._get()
                if segments.annotation(there, names.SWEEP_WRITER) == self._writer:
                    made = there  # our own, of which we have not heard
                elif segments.belongs(there, self._head) or time.monotonic() > deadline:
                    raise
                else:
                    time.sleep(_PAUSE)  # of a sweep of this name that is being removed
                    continue
            break
        self._version = made["metadata"]["resourceVersion"]
        self._size = 0
        self._packer = segments.Packer(0)

    def _flush(self) -> None:
        """Send what waits.

        Raises:
            RunError: it cannot be written, or another process has taken the sweep over.
        """
        if self._trouble:
            raise RunError(self._trouble)
        if not self._pending:
            return
        self._trouble = f"the journal {self.where} cannot be written any more"
        text, self._pending = self._pending, b""
        try:
            if self._size >= segments.FULL:
                self._patch({"metadata": {"annotations": {names.SWEEP_SEALED: "true"}}})
                self._index += 1
                self._begin_segment()
            for part in _parts(text):
                self._send(part)
        except ConflictError as error:
            who = self._hold.lost or "another process"
            self._trouble = f"{who} has taken the sweep over"
            raise RunError(
                self._trouble, hint="nothing is lost: that one goes on with it"
            ) from error
        self._trouble = ""

    def _send(self, text: bytes) -> None:
        key, piece = self._packer.pack(text)
        self._patch({"data": {key: b64encode(piece).decode("ascii")}}, key)
        self._size += len(piece)

    def _patch(self, body: Manifest, key: str = "") -> None:
        """Change the segment that was last seen.

        A change of which we have not heard whether it was made is sent again; the server refuses it
        then, and the segment says that it was ours.
        """
        metadata = {**body.get("metadata", {}), "resourceVersion": self._version}
        body = {**body, "metadata": metadata}
        name = segments.segment_name(self._sweep, self._index)
        deadline, again = time.monotonic() + PATIENCE, False
        while True:
            try:
                made = self._cluster.patch(paths.SECRETS, name, body, namespace=self._namespace)
            except ConflictError:
                made = self._get() if again else {}
                if not made or not self._is_made(made, body, key):
                    raise
            except (InputError, ForbiddenError, RejectedError):
                raise
            except AllranksError:
                if time.monotonic() > deadline or self._hold.lost:
                    raise
                again = True
                time.sleep(_PAUSE)
                continue
            self._version = made["metadata"]["resourceVersion"]
            return

    def _is_made(self, there: Manifest, body: Manifest, key: str) -> bool:
        """Whether a change of ours is in a segment, and no other writer's is."""
        marks: dict[str, Any] = body["metadata"].get("annotations") or {}
        return (
            segments.annotation(there, names.SWEEP_WRITER) == self._writer
            and all(segments.annotation(there, name) == text for name, text in marks.items())
            and (not key or key in (there.get("data") or {}))
        )

    def _get(self) -> Manifest:
        name = segments.segment_name(self._sweep, self._index)
        return self._cluster.get(paths.SECRETS, name, namespace=self._namespace)


def _parts(text: bytes) -> list[bytes]:
    """Lines in parts that a segment has room for, however badly they pack."""
    parts = [b""]
    for line in text.splitlines(keepends=True):
        if parts[-1] and len(parts[-1]) + len(line) > segments.PIECE_MAX:
            parts.append(b"")
        parts[-1] += line
    return parts
