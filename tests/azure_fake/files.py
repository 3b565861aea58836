"""A fake of Azure Files: as much of its REST API as an upload asks, over HTTP on loopback.

Written after the operations of the SDK (azure.storage.fileshare), whose request builders name each
header and query. There is no emulator of Azure Files: Azurite has blobs, queues and tables.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import urllib.parse
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ACCOUNT = "training"
KEY = base64.b64encode(b"a key that opens nothing").decode()
_GIB = 1024**3


@dataclass
class File:
    """A file of a share.

    Attributes:
        data: what is in it; zeros where nothing was written.
        md5: what was recorded.
        meta: its metadata, by the whole name of the header.
        ranges: what was written, from and to.
    """

    data: bytearray
    md5: str = ""
    meta: dict[str, str] = field(default_factory=dict)
    ranges: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Share:
    """A share.

    Attributes:
        quota: GiB.
        other_bytes: bytes that others have taken.
        files: by their paths.
        folders: their paths.
    """

    quota: int = 100
    other_bytes: int = 0
    files: dict[str, File] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)

    @property
    def used_bytes(self) -> int:
        """Bytes that are taken."""
        return self.other_bytes + sum(len(file.data) for file in self.files.values())


def md5_of(data: bytes | bytearray) -> str:
    """The MD5 of some bytes, as Azure writes it."""
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


Reply = tuple[int, str, dict[str, str], bytes]


class FakeFiles:
    """The service.

    Attributes:
        shares: by their names.
        counts: how often each operation was asked.
        version: the newest version of the API that it knows.
        is_signed: whether the last request was let in by a signature.
        fault: called before each operation with its name and path; what it returns is the answer.
    """

    def __init__(self, shares: dict[str, Share]) -> None:
        self.shares = shares
        self.counts: Counter[str] = Counter()
        self.version = "2026-10-06"
        self.is_signed = False
        self.fault: Callable[[str, str], Reply | None] = lambda _operation, _path: None
        self._lock = threading.RLock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True

    @property
    def endpoint(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def connection_string(self) -> str:
        """What AZURE_STORAGE_CONNECTION_STRING is to say."""
        return f"AccountName={ACCOUNT};AccountKey={KEY};FileEndpoint={self.endpoint}"

    @contextmanager
    def serving(self) -> Iterator[FakeFiles]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Reply:
        """Answer a request: status, Azure's code, headers, body."""
        parts = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        name, _, path = urllib.parse.unquote(parts.path).lstrip("/").partition("/")
        operation = _operation(method, query, headers)
        if "sig" not in query and "authorization" not in headers:
            return _error(403, "AuthenticationFailed", "Server failed to authenticate the request.")
        self.is_signed = "sig" in query
        fault = self.fault(operation, path)
        with self._lock:
            self.counts[operation] += 1
            if fault is not None:
                return fault
            share = self.shares.get(name)
            if share is None:
                return _error(404, "ShareNotFound", "The specified share does not exist.")
            reply: Reply = getattr(self, f"_{operation}")(share, path, query, headers, body)
            return reply

    def _get_share(self, share: Share, *_: Any) -> Reply:
        return 200, "", {"x-ms-share-quota": str(share.quota)}, b""

    def _get_stats(self, share: Share, *_: Any) -> Reply:
        return _xml(
            f"<ShareStats><ShareUsageBytes>{share.used_bytes}</ShareUsageBytes></ShareStats>"
        )

    def _list(self, share: Share, path: str, query: dict[str, str], *_: Any) -> Reply:
        if path and path not in share.folders:
            return _error(404, "ResourceNotFound", "The specified resource does not exist.")
        prefix = f"{path}/" if path else ""
        folders = sorted(_children(prefix, share.folders))
        files = sorted(_children(prefix, share.files))
        entries = [f"<Directory><Name>{escape(name)}</Name></Directory>" for name in folders]
        entries += [
            f"<File><Name>{escape(name)}</Name><Properties><Content-Length>"
            f"{len(share.files[prefix + name].data)}</Content-Length></Properties></File>"
            for name in files
        ]
        start = int(query.get("marker") or 0)
        page, more = entries[start : start + 100], start + 100
        marker = str(more) if more < len(entries) else ""
        return _xml(
            f"<EnumerationResults><Entries>{''.join(page)}</Entries>"
            f"<NextMarker>{marker}</NextMarker></EnumerationResults>"
        )

    def _make_folder(self, share: Share, path: str, *_: Any) -> Reply:
        if not _has_parent(share, path):
            return _error(404, "ParentNotFound", "The specified parent path does not exist.")
        if path in share.folders:
            return _error(409, "ResourceAlreadyExists", "The specified resource already exists.")
        share.folders.add(path)
        return 201, "", {}, b""

    def _create(
        self, share: Share, path: str, _query: Any, headers: dict[str, str], body: bytes
    ) -> Reply:
        if headers["x-ms-version"] > self.version:
            return _error(400, "InvalidHeaderValue", "The value for one of the headers is invalid.")
        if body and headers["x-ms-version"] < "2026-02-06":
            return _error(400, "InvalidHeaderValue", "Content-Length must be zero.")
        if body and md5_of(body) != headers["content-md5"]:
            return _error(400, "Md5Mismatch", "The MD5 value specified did not match.")
        if not _has_parent(share, path):
            return _error(404, "ParentNotFound", "The specified parent path does not exist.")
        size = int(headers["x-ms-content-length"])
        old = len(share.files[path].data) if path in share.files else 0
        if share.used_bytes + size - old > share.quota * _GIB:
            return _error(413, "ShareSizeLimitReached", "The share size limit has been reached.")
        meta = {key: value for key, value in headers.items() if key.startswith("x-ms-meta-")}
        content = bytearray(body or size)
        assert len(content) == size
        share.files[path] = File(content, headers.get("x-ms-content-md5", ""), meta)
        return 201, "", {}, b""

    def _put_range(
        self, share: Share, path: str, _query: Any, headers: dict[str, str], body: bytes
    ) -> Reply:
        if md5_of(body) != headers["content-md5"]:
            return _error(400, "Md5Mismatch", "The MD5 value specified did not match.")
        file = share.files[path]
        first, last = (int(end) for end in headers["x-ms-range"].removeprefix("bytes=").split("-"))
        if last - first + 1 != len(body) or len(body) > 4 * 1024 * 1024 or last >= len(file.data):
            return _error(416, "InvalidRange", "The range specified is invalid.")
        file.data[first : last + 1] = body
        file.ranges.append((first, last))
        return 201, "", {}, b""

    def _list_ranges(self, share: Share, path: str, *_: Any) -> Reply:
        ranges = "".join(
            f"<Range><Start>{first}</Start><End>{last}</End></Range>"
            for first, last in sorted(share.files[path].ranges)
        )
        return _xml(f"<Ranges>{ranges}</Ranges>")

    def _set_properties(
        self, share: Share, path: str, _query: Any, headers: dict[str, str], _body: bytes
    ) -> Reply:
        share.files[path].md5 = headers.get("x-ms-content-md5", "")
        return 200, "", {}, b""

    def _get_file(self, share: Share, path: str, *_: Any) -> Reply:
        file = share.files.get(path)
        if file is None:
            return _error(404, "ResourceNotFound", "The specified resource does not exist.")
        headers = {"content-length": str(len(file.data)), **file.meta}
        if file.md5:
            headers["content-md5"] = file.md5
        return 200, "", headers, b""


def _operation(method: str, query: dict[str, str], headers: dict[str, str]) -> str:
    kind, comp = query.get("restype", ""), query.get("comp", "")
    return {
        ("GET", "share", ""): "get_share",
        ("GET", "share", "stats"): "get_stats",
        ("GET", "directory", "list"): "list",
        ("PUT", "directory", ""): "make_folder",
        ("PUT", "", "range"): "put_range",
        ("GET", "", "rangelist"): "list_ranges",
        ("PUT", "", "properties"): "set_properties",
        ("HEAD", "", ""): "get_file",
        ("PUT", "", ""): "create" if headers.get("x-ms-type") == "file" else "",
    }[method, kind, comp]


def _children(prefix: str, paths: Any) -> list[str]:
    below = (path.removeprefix(prefix) for path in paths if path.startswith(prefix))
    return [name for name in below if "/" not in name]


def _has_parent(share: Share, path: str) -> bool:
    parent = path.rpartition("/")[0]
    return not parent or parent in share.folders


def _xml(text: str) -> Reply:
    return 200, "", {}, f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()


def _error(status: int, code: str, message: str) -> Reply:
    text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    return status, code, {}, f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()


def _handler(fake: FakeFiles) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, code, more, data = fake.answer(self.command, self.path, headers, body)
            self.send_response(status)
            if code:
                self.send_header("x-ms-error-code", code)
            for name, value in more.items():
                self.send_header(name, value)
            if "content-length" not in more:
                self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
            self.wfile.flush()

        do_GET = do_PUT = do_HEAD = _serve

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    return Handler
