"""A sweep's journal in Secrets of a cluster: ``secret:NAMESPACE/NAME``.

A context and a kubeconfig may follow, as in a URL: ``secret:research/digits?context=prod``. Then
the sweep is found again whatever the current context is by then.

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
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import parse_qsl, urlencode

from allranks import names
from allranks.cluster import paths
from allranks.errors import (
    AllranksError,
    ConflictError,
    ForbiddenError,
    InputError,
    NotFoundError,
    RejectedError,
)
from allranks.k8s.object_names import is_dns_1123_label
from allranks.sweep.storage import lease, segments
from allranks.sweep.storage.base import Backend, BegunError, LostError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from allranks.cluster.interface import KubeClient
    from allranks.k8s.manifest import Manifest
    from allranks.sweep.records import Record

PREFIX = "secret:"

# So long the cluster may be out of reach before a write is given up, in seconds.
PATIENCE = 120.0
_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a journal in Secrets.

    Attributes:
        sweep: the sweep's name, after which they are named.
        namespace: theirs.
        context: the kubeconfig context; "" is the current one.
        kubeconfig: a file; "" is found as kubectl does.
    """

    sweep: str
    namespace: str
    context: str = ""
    kubeconfig: str = ""

    @classmethod
    def parse(cls, where: str) -> Address:
        """Parse the value of ``--journal``.

        Raises:
            InputError: it is no such address.
        """
        rest, _, query = where.removeprefix(PREFIX).partition("?")
        namespace, slash, sweep = rest.partition("/")
        marks = dict(parse_qsl(query))
        problem = ""
        if not where.startswith(PREFIX) or not slash:
            problem = "it needs a namespace and a name"
        elif wrong := [part for part in (namespace, sweep) if not is_dns_1123_label(part)]:
            problem = f"{wrong[0]!r} is no name there: lower-case letters, digits and -, 63 at most"
        elif marks.keys() - {"context", "kubeconfig"}:
            problem = "only ?context=NAME and kubeconfig=FILE may follow the name"
        if problem:
            raise InputError(
                f"{where!r} is no journal in Secrets: {problem}",
                path="--journal",
                hint=f"write {PREFIX}NAMESPACE/NAME, such as {PREFIX}research/digits",
            )
        return cls(sweep, namespace, **marks)

    def __str__(self) -> str:
        """Return the address as ``--journal`` takes it."""
        marks = {"context": self.context, "kubeconfig": self.kubeconfig}
        query = urlencode({key: text for key, text in marks.items() if text})
        return f"{PREFIX}{self.namespace}/{self.sweep}{'?' if query else ''}{query}"


@dataclass
class SecretsBackend(Backend):
    """A journal in Secrets; see `Backend`.

    Attributes:
        address: where.
        name: the sweep's name.
        waits: `acquire` waits for whoever runs the sweep now to end, in place of refusing.
    """

    address: Address
    name: str = ""
    waits: bool = False
    # What was read so far.
    _reading: _Reading | None = field(default=None, init=False, repr=False, compare=False)
    # While this process holds the Lease: that, and what it appends to.
    _holder: lease.LeaseHolder | None = field(default=None, init=False, repr=False, compare=False)
    _writer: _SecretsWriter | None = field(default=None, init=False, repr=False, compare=False)

    # Nothing follows from them until another is written.
    deferrable: ClassVar[frozenset[str]] = frozenset({"trial", "m"})

    @property
    def where(self) -> str:  # type: ignore[override]
        """The address in full."""
        return str(self.address)

    @property
    def namespace(self) -> str:
        """The namespace of its Secrets."""
        return self.address.namespace

    @cached_property
    def cluster(self) -> KubeClient:
        """The cluster that they are on."""
        from allranks.cluster.client import KubeCluster

        return KubeCluster(self.address.kubeconfig or None, self.address.context or None)

    def exists(self) -> bool:
        """Whether its head exists."""
        try:
            self._get(paths.SECRETS)
        except NotFoundError:
            return False
        return True

    def head(self) -> Manifest:
        """The Secret with its head, without its data: what stays with the sweep has it as owner.

        Raises:
            NotFoundError: there is no such sweep.
            AllranksError: the cluster does not answer, or forbids it.
        """
        metadata = self._get(paths.SECRETS)["metadata"]
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}

    def read_from(self, position: int) -> Generator[tuple[bytes, int]]:
        """Yield the lines of its Secrets; a position is a number of lines."""
        reading = self._reading
        if reading is None or reading.count != position:
            reading = self._reading = _Reading(self.cluster, self.address)
        while True:
            for text in reading.lines():
                if reading.count > position:
                    yield text, reading.count
            if self._holder is None:
                return
            self._writer = _SecretsWriter(self.cluster, self.address, self._holder)
            if self._writer.take_over(reading):
                return

    def create(self, head: Record) -> int:
        """Create the first Secret and the Lease; inside a cluster, the chart creates them."""
        sweep = self.address.sweep
        body = segments.head_manifest(sweep, head)
        try:
            head_secret = self.cluster.create(paths.SECRETS, body, namespace=self.namespace)
        except ConflictError as error:
            raise BegunError(sweep, self.where) from error
        owner = segments.manifest(sweep, 0, head_secret, "")["metadata"]["ownerReferences"]
        metadata = {"name": segments.head_name(sweep), "ownerReferences": owner}
        manifest = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "labels": {names.SWEEP_JOURNAL: sweep}},
        }
        # One of an earlier sweep of this name may not have gone yet.
        self.cluster.delete(paths.LEASES, segments.head_name(sweep), namespace=self.namespace)
        self.cluster.create(paths.LEASES, manifest, namespace=self.namespace)
        self.acquire()
        try:
            return max(position for _, position in self.read_from(0))
        except BaseException:
            self.release()
            raise

    def append(self, data: bytes, position: int) -> int:
        """Send lines; see `Backend.append`."""
        if self._writer is None or self._holder is None:
            raise ValueError("the journal was not acquired and read")
        try:
            self._writer.append(data)
        except ConflictError as error:
            raise LostError(
                f"{self._holder.lost or 'another process'} has taken the sweep over",
                hint="nothing is lost: that one goes on with it",
            ) from error
        return position + data.count(b"\n")

    def acquire(self) -> None:
        """Take the Lease, which is renewed in the background."""
        self._reading = _Reading(self.cluster, self.address)
        holder = lease.LeaseHolder(
            self.cluster, self.namespace, segments.head_name(self.address.sweep)
        )
        holder.acquire(wait=self.waits)
        self._holder = holder

    def release(self) -> None:
        """Give the Lease back."""
        holder, self._holder, self._writer = self._holder, None, None
        if holder is not None:
            holder.release()

    def is_held(self) -> bool:
        """Whether a process holds its Lease."""
        try:
            return bool(lease.holder(self._get(paths.LEASES)))
        except NotFoundError:
            return False

    def is_run(self) -> bool:
        """Whether a process holds its Lease, or a Job that will run it has not ended."""
        return self.is_held() or any(not _has_ended(job) for job in self.jobs())

    def jobs(self) -> list[Manifest]:
        """Return the Jobs of its runner inside the cluster."""
        selector = (
            f"{names.APP_NAME}={names.SWEEP_RUNNER},{names.APP_INSTANCE}={self.address.sweep}"
        )
        return self.cluster.list(paths.JOBS, namespace=self.namespace, label_selector=selector)

    def request(self, reason: str) -> None:
        """Write a request on its Lease; the runner sees it within three seconds."""
        body = {"metadata": {"annotations": {names.SWEEP_STOP: reason}}}
        head = segments.head_name(self.address.sweep)
        try:
            self.cluster.patch(paths.LEASES, head, body, namespace=self.namespace)
        except NotFoundError as error:
            raise _missing(self.where) from error

    def take_request(self) -> str:
        """Return the request on its Lease, as the last renewal has seen it."""
        return "" if self._holder is None else self._holder.take_request()

    def delete(self) -> None:
        """Remove its Secrets, the head last, and the Lease."""
        selector = f"{names.SWEEP_JOURNAL}={self.address.sweep}"
        own_secrets = self.cluster.list(
            paths.SECRETS,
            namespace=self.namespace,
            label_selector=selector,
            metadata_only=True,
        )
        head = segments.head_name(self.address.sweep)
        for secret in own_secrets:
            if secret["metadata"]["name"] != head:
                self._delete(paths.SECRETS, secret["metadata"]["name"])
        self._delete(paths.LEASES, head)
        self._delete(paths.SECRETS, head)

    def _delete(self, resource_path: str, name: str) -> None:
        with suppress(NotFoundError):
            self.cluster.delete(resource_path, name, namespace=self.namespace)

    def _get(self, resource_path: str) -> Manifest:
        head = segments.head_name(self.address.sweep)
        return self.cluster.get(resource_path, head, namespace=self.namespace)


class _Reading:
    """The lines of a journal in Secrets, as far as they were read.

    Attributes:
        count: how many lines.
        head: the Secret with the journal's head.
        segment: the last segment; None while there is none.
        index: its number, or that of the next one where it is None.
        unpacked: what was read of it.
    """

    def __init__(self, cluster: KubeClient, address: Address) -> None:
        """Read the head.

        Raises:
            InputError: there is no such journal.
            AllranksError: the cluster does not answer, or forbids it.
        """
        self.count = 0
        self.segment: Manifest | None = None
        self.index = 0
        self.unpacked = segments.Unpacker()
        self._cluster = cluster
        self._address = address
        try:
            self.head = self._get(segments.head_name(address.sweep))
        except NotFoundError as error:
            raise _missing(str(address)) from error

    def lines(self) -> Iterator[bytes]:
        """Yield what was appended since the last call, and the head by the first one.

        Raises:
            InputError: it was changed by other hands.
            AllranksError: the cluster does not answer, or forbids it.
        """
        if not self.count:
            try:
                text = segments.unpack_head(self.head).rstrip(b"\n")
            except ValueError as error:
                raise self._changed_error("its head", error) from error
            self.count = 1
            yield text
        while self.index < segments.MOST:  # what stands in others, nobody of ours has written
            name = segments.segment_name(self._address.sweep, self.index)
            try:
                secret = self._get(name)
            except NotFoundError:
                break
            if not segments.belongs(secret, self.head):
                break
            self.segment = secret
            try:
                for text in self.unpacked.take(secret):
                    self.count += 1
                    yield text
            except ValueError as error:
                raise self._changed_error(name, error) from error
            if not lease.annotation(secret, names.SWEEP_SEALED):
                return
            self.index += 1
            self.unpacked = segments.Unpacker(self.unpacked.text)
        self.segment = None

    def _get(self, name: str) -> Manifest:
        return self._cluster.get(paths.SECRETS, name, namespace=self._address.namespace)

    def _changed_error(self, name: str, error: Exception) -> InputError:
        return InputError(
            f"the journal cannot be read: {error}",
            hint="it was changed by other hands; start the sweep again",
            source=f"{self._address}, {name}",
        )


class _SecretsWriter:
    """Appends to a journal in Secrets, and to no other segment than its own."""

    def __init__(self, cluster: KubeClient, address: Address, holder: lease.LeaseHolder) -> None:
        """Create it without any request; `take_over` follows.

        Args:
            cluster: where the journal is.
            address: the journal's.
            holder: of its Lease, which this process holds.
        """
        self._cluster = cluster
        self._address = address
        self._holder = holder
        # Unlike that of any other writer, also of one of the same name.
        self._mark = f"{lease.identity()} {secrets.token_hex(4)}"
        self._head: Manifest = {}
        self._index = 0
        self._version = ""
        self._size = 0
        self._packer = segments.Packer(0)

    def take_over(self, reading: _Reading) -> bool:
        """Mark the last segment as ours, so that no earlier writer can change it any more.

        Returns:
            Whether it is ours; else somebody has changed it, and it is to be read again.

        Raises:
            InputError: the journal is full.
            AllranksError: the cluster does not answer, or forbids it.
        """
        self._head, self._index = reading.head, reading.index
        try:
            if reading.segment is None:
                self._begin_segment()
            else:
                self._version = reading.segment["metadata"]["resourceVersion"]
                self._patch({"metadata": {"annotations": {names.SWEEP_WRITER: self._mark}}})
                self._size = reading.unpacked.size
                self._packer = segments.Packer(reading.unpacked.streams)
        except ConflictError:
            return False
        return True

    def append(self, data: bytes) -> None:
        """Send lines, in a new segment where the last one is full.

        Raises:
            ConflictError: another writer has the journal by now.
            AllranksError: it cannot be written, or is full.
        """
        if self._size >= segments.FULL:
            self._patch({"metadata": {"annotations": {names.SWEEP_SEALED: "true"}}})
            self._index += 1
            self._begin_segment()
        for part in _parts(data):
            self._send(part)

    def _begin_segment(self) -> None:
        if self._index >= segments.MOST:
            raise InputError(
                f"the journal {self._address} is full: it has {segments.MOST} Secrets",
                hint="read its results, and begin another sweep with less to try",
            )
        body = segments.manifest(self._address.sweep, self._index, self._head, self._mark)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                segment = self._cluster.create(
                    paths.SECRETS, body, namespace=self._address.namespace
                )
            except ConflictError:
                existing = self._get()
                if lease.annotation(existing, names.SWEEP_WRITER) == self._mark:
                    segment = existing  # our own, of which we have not heard
                elif segments.belongs(existing, self._head) or time.monotonic() > deadline:
                    raise
                else:
                    time.sleep(_PAUSE)  # of a sweep of this name that is being removed
                    continue
            break
        self._version = segment["metadata"]["resourceVersion"]
        self._size = 0
        self._packer = segments.Packer(0)

    def _send(self, text: bytes) -> None:
        key, piece = self._packer.pack(text)
        self._patch({"data": {key: b64encode(piece).decode("ascii")}}, key)
        self._size += len(piece)

    def _patch(self, body: Manifest, key: str = "") -> None:
        """Patch the current segment.

        A patch without an answer is sent again; if it was applied the server refuses the second
        one, and the segment shows that the first was ours.
        """
        metadata = {**body.get("metadata", {}), "resourceVersion": self._version}
        body = {**body, "metadata": metadata}
        name = segments.segment_name(self._address.sweep, self._index)
        deadline, again = time.monotonic() + PATIENCE, False
        while True:
            try:
                segment = self._cluster.patch(
                    paths.SECRETS, name, body, namespace=self._address.namespace
                )
            except ConflictError:
                segment = self._get() if again else {}
                if not segment or not self._is_written(segment, body, key):
                    raise
            except (InputError, ForbiddenError, RejectedError):
                raise
            except AllranksError:
                if time.monotonic() > deadline or self._holder.lost:
                    raise
                again = True
                time.sleep(_PAUSE)
                continue
            self._version = segment["metadata"]["resourceVersion"]
            return

    def _is_written(self, segment: Manifest, body: Manifest, key: str) -> bool:
        """Whether a patch of ours is in a segment, and no other writer's is."""
        marks: dict[str, Any] = body["metadata"].get("annotations") or {}
        return (
            lease.annotation(segment, names.SWEEP_WRITER) == self._mark
            and all(lease.annotation(segment, name) == text for name, text in marks.items())
            and (not key or key in (segment.get("data") or {}))
        )

    def _get(self) -> Manifest:
        name = segments.segment_name(self._address.sweep, self._index)
        return self._cluster.get(paths.SECRETS, name, namespace=self._address.namespace)


def _parts(text: bytes) -> list[bytes]:
    """Split lines into parts that fit a segment, however badly they compress."""
    parts = [b""]
    for line in text.splitlines(keepends=True):
        if parts[-1] and len(parts[-1]) + len(line) > segments.PIECE_MAX:
            parts.append(b"")
        parts[-1] += line
    return parts


def _missing(where: str) -> InputError:
    return InputError(
        f"there is no journal {where}", hint="check the sweep's name and the namespace"
    )


def _has_ended(job: Manifest) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    ends = {"Complete", "Failed"}
    return any(
        condition["type"] in ends and condition["status"] == "True" for condition in conditions
    )
