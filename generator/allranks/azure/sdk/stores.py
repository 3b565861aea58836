"""File shares and blob containers, as the REST API of Azure Storage has them; connects to them."""

from __future__ import annotations

import base64
import binascii
import re
import struct
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from allranks.azure import upload
from allranks.azure.sdk import access
from allranks.azure.sdk.keys import account_key
from allranks.azure.sdk.wire import StoreAnswer, Wire, quote
from allranks.azure.upload import Listing, Remote, Room, StorageKind
from allranks.errors import AllranksError, ForbiddenError, NotFoundError, QuotaError, RefusedError

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterable, Iterator

    from allranks.azure.sdk.access import Entrance
    from allranks.azure.settings import Subscription
    from allranks.azure.upload import Content, Destination

_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _CONFLICT = 401, 403, 404, 409
_OK, _GOOD = 200, range(200, 300)
_FULL = re.compile(r"(share|file).*(size|quota|limit).*(limit|exceeded|reached)", re.IGNORECASE)
_SKEW_MINUTES = 5
_FULL_STATUS = frozenset({413, 507})
_TYPE = "application/octet-stream"
# From this version on a file is made with its content, of 4 MiB at most. Clouds of their own may be
# behind: one that does not know it is asked in the old way, which takes three requests.
_CREATES_WITH_CONTENT = "2026-02-06"
_UNKNOWN_VERSION = (400, "InvalidHeaderValue")
# The MD5 of a large file that is being written: of one that is not complete, no MD5 is recorded.
_UNDER_WAY = "x-ms-meta-allranksmd5"
_ROLES = {
    StorageKind.BLOB: "Storage Blob Data Contributor",
    StorageKind.SHARE: "Storage File Data Privileged Contributor",
}


class _Store:
    """The part that both kinds of stores share."""

    def __init__(self, wire: Wire, destination: Destination, account: str) -> None:
        self._wire, self._destination, self._account = wire, destination, account
        self._root = f"/{destination.name}"

    def close(self) -> None:
        """See `Store`."""
        self._wire.close()

    def _path(self, name: str) -> str:
        return f"{self._root}/{quote(name)}" if name else self._root

    def _error(self, action: str, answer: StoreAnswer) -> AllranksError:
        """The error of an answer, with the way out."""
        place, name = self._destination.place, self._destination.name
        about: dict[str, Any] = {"status": answer.status, "reason": answer.code}
        code, detail = answer.code, answer.detail
        role = _ROLES[place]
        if answer.status in (_UNAUTHORIZED, _FORBIDDEN) and self._wire.origin:
            hint = (
                f"the key or signature of {self._wire.origin} is not taken: "
                "`az storage account show-connection-string` prints the one that holds, where the "
                f"account takes keys; or log in without it, with the role {role!r}"
            )
            minutes = round(answer.clock_ahead / 60)
            if abs(minutes) >= _SKEW_MINUTES:
                word = "behind" if minutes > 0 else "ahead of"
                hint = (
                    f"set this machine's clock, which is {abs(minutes)} minutes {word} Azure's: "
                    "what is signed by it holds for an hour"
                )
            return ForbiddenError(
                f"account {self._account} does not let you {action}: {detail}", hint=hint, **about
            )
        if answer.status in (_UNAUTHORIZED, _FORBIDDEN) and not _FULL.search(code):
            return ForbiddenError(
                f"you may not {action} in account {self._account}: {detail}",
                hint=f"ask an owner of the account for the role {role!r} on it (Owner alone does "
                "not give it), which takes minutes to hold; or check the account's firewall",
                **about,
            )
        if code in ("ContainerNotFound", "ShareNotFound"):
            return NotFoundError(
                f"there is no {_KINDS[place]} {name} in account {self._account}",
                hint="check its name; one of azure.yaml's is made by `allranks azure up`",
                **about,
            )
        if answer.status in _FULL_STATUS or _FULL.search(f"{code} {detail}"):
            return self._full(action, answer)
        return RefusedError(f"Azure does not {action}: {detail}", **about)

    def _full(self, action: str, answer: StoreAnswer) -> AllranksError:
        return QuotaError(f"Azure does not {action}: {answer.detail}", status=answer.status)

    def _expect(self, action: str, answer: StoreAnswer) -> StoreAnswer:
        if answer.status not in _GOOD:
            raise self._error(action, answer)
        return answer

    def _pages(self, action: str, path: str, query: str) -> Iterator[ET.Element]:
        marker = ""
        while True:
            more = f"&marker={quote(marker)}" if marker else ""
            answer = self._wire.ask("GET", path, f"{query}{more}")
            if answer.status == _NOT_FOUND and answer.code in (
                "ResourceNotFound",
                "ParentNotFound",
            ):
                return
            page = _xml(self._expect(action, answer))
            yield page
            marker = page.findtext("NextMarker") or ""
            if not marker:
                return


_KINDS = {StorageKind.BLOB: "blob container", StorageKind.SHARE: "file share"}


class BlobStore(_Store):
    """A blob container; see `Store`."""

    def check(self) -> Room | None:
        """Refuse a container that is not there; a container has no bounds."""
        self._expect(
            f"look at container {self._destination.name}",
            self._wire.ask("GET", self._root, "restype=container"),
        )
        return None

    def listing(self, folder: str) -> Listing:
        """The blobs below a prefix, with their MD5."""
        prefix = f"{folder}/" if folder else ""
        query = f"restype=container&comp=list&delimiter=%2F&prefix={quote(prefix)}"
        files: dict[str, Remote] = {}
        folders: set[str] = set()
        for page in self._pages(f"list {folder or 'the container'}", self._root, query):
            for blob in page.iterfind("Blobs/Blob"):
                name = (blob.findtext("Name") or "")[len(prefix) :]
                size = int(blob.findtext("Properties/Content-Length") or 0)
                files[name] = Remote(size, blob.findtext("Properties/Content-MD5") or "")
            for item in page.iterfind("Blobs/BlobPrefix"):
                folders.add((item.findtext("Name") or "")[len(prefix) :].rstrip("/"))
        return Listing(files, frozenset(folders))

    def md5(self, name: str) -> str:  # noqa: ARG002 - a listing has said it already
        """Nothing: a blob whose MD5 was not listed has none."""
        return ""

    def make_folder(self, folder: str) -> None:
        """Nothing: blobs are in no folders."""

    def put(self, name: str, data: bytes, md5: str) -> None:
        """Write a blob, whose MD5 Azure holds against its own."""
        answer = self._wire.ask(
            "PUT",
            self._path(name),
            headers={
                "x-ms-blob-type": "BlockBlob",
                "Content-Type": _TYPE,
                "Content-MD5": md5,
                "x-ms-blob-content-md5": md5,
            },
            body=data,
        )
        self._expect(f"write {name}", answer)

    def missing_blocks(self, name: str, content: Content) -> Iterable[int]:
        """The blocks that are not staged yet; those of another content have other ids."""
        answer = self._wire.ask("GET", self._path(name), "comp=blocklist&blocklisttype=uncommitted")
        staged: set[str] = set()
        if answer.status != _NOT_FOUND:
            page = _xml(self._expect(f"list the blocks of {name}", answer))
            staged = {item.text or "" for item in page.iterfind("UncommittedBlocks/Block/Name")}
        return [
            number
            for number in range(len(content.blocks))
            if _block_id(content, number) not in staged
        ]

    def put_block(self, name: str, content: Content, number: int, data: bytes) -> None:
        """Stage a block."""
        answer = self._wire.ask(
            "PUT",
            self._path(name),
            f"comp=block&blockid={quote(_block_id(content, number)).replace('/', '%2F')}",
            {"Content-MD5": content.blocks[number]},
            data,
        )
        self._expect(f"write a block of {name}", answer)

    def commit(self, name: str, content: Content) -> None:
        """Make the blob of its blocks, with the MD5 of all of it."""
        ids = "".join(
            f"<Latest>{_block_id(content, number)}</Latest>"
            for number in range(len(content.blocks))
        )
        answer = self._wire.ask(
            "PUT",
            self._path(name),
            "comp=blocklist",
            {"x-ms-blob-content-type": _TYPE, "x-ms-blob-content-md5": content.md5},
            f"<?xml version='1.0' encoding='utf-8'?><BlockList>{ids}</BlockList>".encode(),
        )
        self._expect(f"complete {name}", answer)


class ShareStore(_Store):
    """A file share; see `Store`."""

    _is_old = False

    def check(self) -> Room | None:
        """The room in the share, which has to be there."""
        action = f"look at share {self._destination.name}"
        share = self._expect(action, self._wire.ask("GET", self._root, "restype=share"))
        stats = self._expect(action, self._wire.ask("GET", self._root, "restype=share&comp=stats"))
        used_bytes = int(_xml(stats).findtext("ShareUsageBytes") or 0)
        return Room(int(share.headers.get("x-ms-share-quota", 0)) * upload.GIB, used_bytes)

    def listing(self, folder: str) -> Listing:
        """The files of a folder; Azure lists no MD5."""
        files: dict[str, Remote] = {}
        folders: set[str] = set()
        action = f"list {folder or 'the share'}"
        for page in self._pages(action, self._path(folder), "restype=directory&comp=list"):
            for item in page.iterfind("Entries/File"):
                size = int(item.findtext("Properties/Content-Length") or 0)
                files[item.findtext("Name") or ""] = Remote(size)
            folders |= {item.text or "" for item in page.iterfind("Entries/Directory/Name")}
        return Listing(files, frozenset(folders))

    def md5(self, name: str) -> str:
        """The MD5 that was recorded when the file was complete."""
        answer = self._wire.ask("HEAD", self._path(name))
        return answer.headers.get("content-md5", "") if answer.status == _OK else ""

    def make_folder(self, folder: str) -> None:
        """Make a folder."""
        answer = self._wire.ask("PUT", self._path(folder), "restype=directory")
        if answer.status == _CONFLICT and answer.code == "ResourceAlreadyExists":
            return
        self._expect(f"make the folder {folder}", answer)

    def put(self, name: str, data: bytes, md5: str) -> None:
        """Write a file with its MD5, which says that it is complete."""
        if not self._is_old:
            headers = {
                **_creation(len(data)),
                "x-ms-version": _CREATES_WITH_CONTENT,
                "x-ms-content-md5": md5,
                **({"Content-MD5": md5} if data else {}),
            }
            answer = self._wire.ask("PUT", self._path(name), "", headers, data)
            if (answer.status, answer.code) != _UNKNOWN_VERSION:
                self._expect(f"write {name}", answer)
                return
            self._is_old = True
        self._create(name, len(data), {})
        if data:
            self._range(name, data, 0, md5)
        self._complete(name, md5)

    def missing_blocks(self, name: str, content: Content) -> Iterable[int]:
        """The blocks that are not written yet; a file of another content is begun anew."""
        answer = self._wire.ask("HEAD", self._path(name))
        headers = answer.headers
        numbers = range(len(content.blocks))
        if (
            answer.status == _OK
            and headers.get(_UNDER_WAY) == _hexadecimal(content.md5)
            and headers.get("content-length") == str(content.size)
        ):
            ranges = self._wire.ask("GET", self._path(name), "comp=rangelist")
            spans = _ranges(_xml(self._expect(f"list the ranges of {name}", ranges)))
            return [number for number in numbers if not _is_written(content, number, spans)]
        self._create(name, content.size, {_UNDER_WAY: _hexadecimal(content.md5)})
        return list(numbers)

    def put_block(self, name: str, content: Content, number: int, data: bytes) -> None:
        """Write a range."""
        for start in range(0, len(data), upload.BLOCK):
            self._range(
                name, data[start : start + upload.BLOCK], number * content.block_size + start
            )

    def commit(self, name: str, content: Content) -> None:
        """Record the MD5 of all of it, which says that it is complete."""
        self._complete(name, content.md5)

    def _create(self, name: str, size: int, more: dict[str, str]) -> None:
        headers = {**_creation(size), **more}
        self._expect(f"make {name}", self._wire.ask("PUT", self._path(name), "", headers))

    def _range(self, name: str, data: bytes, start: int, md5: str = "") -> None:
        headers = {
            "x-ms-write": "update",
            "x-ms-range": f"bytes={start}-{start + len(data) - 1}",
            "Content-MD5": md5 or _md5(data),
        }
        answer = self._wire.ask("PUT", self._path(name), "comp=range", headers, data)
        self._expect(f"write {name}", answer)

    def _complete(self, name: str, md5: str) -> None:
        headers = {"x-ms-content-md5": md5, "x-ms-content-type": _TYPE}
        answer = self._wire.ask("PUT", self._path(name), "comp=properties", headers)
        self._expect(f"complete {name}", answer)

    def _full(self, action: str, answer: StoreAnswer) -> AllranksError:
        name = self._destination.name
        try:
            room = self.check()
        except AllranksError:
            room = None
        quota = (
            f": its quota is {room.quota // upload.GIB:,} GiB, of which "
            f"{room.used_bytes / upload.GIB:,.1f} are taken"
            if room is not None
            else ""
        )
        return QuotaError(
            f"share {name} is full{quota} ({action})",
            hint="raise quotaGiB of the share in azure.yaml and give `allranks azure up`, or "
            "remove what is not needed; the same command then goes on where this ended",
            status=answer.status,
            reason=answer.code,
        )


def _creation(size: int) -> dict[str, str]:
    """The headers with which a file is made."""
    return {
        "x-ms-type": "file",
        "x-ms-content-length": str(size),
        "x-ms-content-type": _TYPE,
    }


def _md5(data: bytes) -> str:
    import hashlib

    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _xml(answer: StoreAnswer) -> ET.Element:
    try:
        return ET.fromstring(answer.body)  # noqa: S314 - of the server that was asked
    except ET.ParseError as error:
        raise RefusedError(
            f"the store answers what is no XML: {error}",
            hint="something between this machine and Azure answers in its place, such as a proxy",
        ) from error


def _block_id(content: Content, number: int) -> str:
    """The id of a block, which says what is in it: all ids of a blob are of one length."""
    digest = base64.b64decode(content.blocks[number])
    return base64.b64encode(struct.pack(">I", number) + digest).decode()


def _hexadecimal(md5: str) -> str:
    return binascii.hexlify(base64.b64decode(md5)).decode()


def _ranges(page: ET.Element) -> list[tuple[int, int]]:
    """The ranges that are written, from and to, in their order and joined."""
    joined: list[tuple[int, int]] = []
    for item in page.iterfind("Range"):
        start, end = int(item.findtext("Start") or 0), int(item.findtext("End") or -1)
        if joined and joined[-1][1] + 1 >= start:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


def _is_written(content: Content, number: int, written: list[tuple[int, int]]) -> bool:
    start = number * content.block_size
    end = min(start + content.block_size, content.size) - 1
    return any(first <= start and end <= last for first, last in written)


def connect(
    destination: Destination, account: str, *, cloud: str, way: str, stop: threading.Event
) -> BlobStore | ShareStore:
    """The store of a destination, by a login or by a connection string.

    Args:
        destination: which.
        account: the storage account; "" where a connection string names it.
        cloud: which Azure.
        way: how to log in.
        stop: ends all waiting when it is set.

    Raises:
        InputError: there is no way to log in.
    """
    entrance = access.entrance(destination.place, account, cloud=cloud, way=way)
    return _store(destination, entrance, stop)


def connect_by_key(
    destination: Destination,
    account: str,
    *,
    group: str,
    where: Subscription,
    stop: threading.Event,
) -> BlobStore | ShareStore:
    """The store of a destination, by a key that is read from Azure.

    Args:
        destination: which.
        account: the storage account.
        group: its resource group.
        where: whose Azure is asked.
        stop: ends all waiting when it is set.

    Raises:
        ForbiddenError: the role is missing that lets somebody read keys.
    """
    key = account_key(where, group, account)
    entrance = access.key_entrance(destination.place, account, key, cloud=where.cloud)
    return _store(destination, entrance, stop)


def _store(
    destination: Destination, entrance: Entrance, stop: threading.Event
) -> BlobStore | ShareStore:
    wire = Wire(entrance.endpoint, entrance.access, stop)
    kind = BlobStore if destination.place is StorageKind.BLOB else ShareStore
    return kind(wire, destination, entrance.account)
