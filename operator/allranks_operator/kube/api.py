"""One request, its answer as JSON or as one of `allranks_operator.kube.errors`.

Nothing is repeated here: who asks knows best whether the same request still makes sense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from allranks import __version__, names
from allranks.cluster import paths
from allranks.errors import InputError, ToolError
from allranks_operator.kube import bounds, errors, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.cluster.connection import Connection
    from allranks.model.manifest import Manifest

AGENT = f"{names.WATCHER}/{__version__}"
_BAD = 400
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_APPLY = "application/apply-patch+yaml"
FIND_SECONDS = 20.0
_CHUNK = 1 << 16
# Of a page of a list. What is parsed takes some times as much, and a watcher is given 512 MiB.
PAGE_MAX = 16 << 20
# etcd takes no object beyond 1.5 MiB; what is longer is no event of a watch.
_LONGEST_LINE = 16 << 20


class Api:
    """An API server, asked as the watcher."""

    def __init__(self, connection: Connection) -> None:
        """Nothing is sent before the first request."""
        self._connection = connection

    @property
    def where(self) -> str:
        """The server's address, for messages."""
        return self._connection.where

    def page(
        self, path: str, namespace: str, query: Sequence[tuple[str, str]], *, seconds: float
    ) -> Manifest:
        """One page of a list.

        Args:
            path: see `allranks.cluster.paths`.
            namespace: "" is all of them.
            query: selector, limit, place.
            seconds: how long an answer may take.

        Raises:
            ApiError: see `allranks_operator.kube.errors`.
        """
        asked = f"list {paths.spoken(path)}{_inside(namespace)}"
        where = paths.collection(path, namespace)
        data = self._bounded(asked, where, query, seconds)
        try:
            found = orjson.loads(data)
        except ValueError:
            found = _cut(data)
        return self._object(found)

    def get(self, path: str, namespace: str, name: str) -> Manifest:
        """One object.

        Raises:
            ApiError: see `allranks_operator.kube.errors`.
        """
        asked = f"get {paths.spoken(path)} {name}{_inside(namespace)}"
        return self._json(asked, "GET", f"{paths.collection(path, namespace)}/{name}")

    def find(self, path: str, namespace: str, name: str) -> tuple[Manifest, str]:
        """One object, by the right to list: that to get is not needed beside it.

        Returns:
            The object, and the resource version as of which it is there.

        Raises:
            GoneError: it is not there.
            ApiError: see `allranks_operator.kube.errors`.
        """
        query = pairs(fieldSelector=f"metadata.name={name}")
        page = self.page(path, namespace, query, seconds=FIND_SECONDS)
        items: list[Manifest] = page.get("items") or []
        if not items:
            raise errors.GoneError(f"there is no {paths.spoken(path)} {name}{_inside(namespace)}")
        if isinstance(items[0], bounds.Unread):
            raise errors.RefusedError(f"{paths.spoken(path)} {name}: {items[0].why}")
        kind = str(page.get("kind") or "").removesuffix("List")
        found = {"kind": kind, "apiVersion": page.get("apiVersion"), **items[0]}
        return found, str(metadata(page).get("resourceVersion") or "")

    def create(
        self, path: str, namespace: str, body: Manifest, *, metadata_only: bool = False
    ) -> Manifest:
        """Make an object; return it as the server keeps it.

        Args:
            path: see `allranks.cluster.paths`.
            namespace: where.
            body: the object.
            metadata_only: the answer may leave out spec and status: thousands of pods are made.

        Raises:
            ExistsError: something of that name is there.
            ApiError: see `allranks_operator.kube.errors`.
        """
        asked = f"create {paths.spoken(path)}{_inside(namespace)}"
        return self._json(
            asked,
            "POST",
            paths.collection(path, namespace),
            query=[("fieldManager", names.WATCHER)],
            body=body,
            accept=_METADATA if metadata_only else "application/json",
        )

    def apply(
        self, path: str, namespace: str, name: str, body: Manifest, *, part: str = ""
    ) -> Manifest:
        """Make or change an object by server-side apply; return it as the server keeps it.

        A `resourceVersion` in the body is an optimistic lock.

        Args:
            path: see `allranks.cluster.paths`.
            namespace: where.
            name: the object.
            body: all that the watcher wants of it.
            part: a subresource, as `status`.

        Raises:
            ConflictError: it was changed meanwhile.
            ApiError: see `allranks_operator.kube.errors`.
        """
        what = f"{paths.spoken(path)}{f'/{part}' if part else ''} {name}"
        return self._json(
            f"patch {what}{_inside(namespace)}",
            "PATCH",
            "/".join(filter(None, (paths.collection(path, namespace), name, part))),
            query=[("fieldManager", names.WATCHER), ("force", "true")],
            body=body,
            content_type=_APPLY,
        )

    def replace(self, path: str, namespace: str, name: str, body: Manifest) -> Manifest:
        """Write a whole object over the one that was read.

        Raises:
            ConflictError: it was changed meanwhile.
            ApiError: see `allranks_operator.kube.errors`.
        """
        return self._json(
            f"update {paths.spoken(path)} {name}{_inside(namespace)}",
            "PUT",
            f"{paths.collection(path, namespace)}/{name}",
            query=[("fieldManager", names.WATCHER)],
            body=body,
        )

    def delete(
        self, path: str, namespace: str, name: str, *, uid: str, grace: int | None = None
    ) -> None:
        """Delete this very object.

        Args:
            path: see `allranks.cluster.paths`.
            namespace: where.
            name: its name.
            uid: only if it is still this one.
            grace: seconds that its processes get; None is its own.

        Raises:
            GoneError: it is not there.
            ConflictError: another object has its name now.
            ApiError: see `allranks_operator.kube.errors`.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        self._json(
            f"delete {paths.spoken(path)} {name}{_inside(namespace)}",
            "DELETE",
            f"{paths.collection(path, namespace)}/{name}",
            body=body,
            accept=_METADATA,
        )

    def log(self, namespace: str, pod: str, query: Sequence[tuple[str, str]]) -> str:
        """The lines of a pod's log.

        Raises:
            ApiError: see `allranks_operator.kube.errors`.
        """
        where = f"{paths.collection(paths.PODS, namespace)}/{pod}/log"
        data = self._send(f"get pods/log {pod}{_inside(namespace)}", "GET", where, query=query)
        return bytes(data).decode("utf-8", "replace")

    def watch(
        self, path: str, namespace: str, query: Sequence[tuple[str, str]], *, silence: float
    ) -> Watching:
        """Open a watch.

        Args:
            path: see `allranks.cluster.paths`.
            namespace: "" is all of them.
            query: selector, place, how long.
            silence: seconds without a word after which the connection is taken for dead.

        Raises:
            ExpiredError: the server has forgotten the place.
            ApiError: see `allranks_operator.kube.errors`.
        """
        asked = f"watch {paths.spoken(path)}{_inside(namespace)}"
        response = self._answer(
            asked,
            "GET",
            paths.collection(path, namespace),
            query=query,
            seconds=silence,
            streamed=True,
        )
        if response.status >= _BAD:
            body, after = response.read(), response.headers.get("Retry-After", "")
            response.close()
            raise errors.of_answer(asked, response.status, body, after)
        return Watching(asked, response)

    def _json(self, asked: str, method: str, path: str, **how: Any) -> Manifest:
        body = how.pop("body", None)
        if body is not None:
            how["body"] = orjson.dumps(body)
        data = self._send(asked, method, path, **how)
        try:
            found = orjson.loads(data)
        except ValueError:
            found = None
        return self._object(found)

    def _object(self, found: Any) -> Manifest:
        if not isinstance(found, dict):
            raise errors.BusyError(f"{self.where} answered something that is not Kubernetes")
        return found

    def _send(self, asked: str, method: str, path: str, **how: Any) -> bytes:
        response = self._answer(asked, method, path, **how)
        if response.status >= _BAD:
            after = response.headers.get("Retry-After", "")
            raise errors.of_answer(asked, response.status, response.data, after)
        data: bytes = response.data
        return data

    def _bounded(
        self, asked: str, path: str, query: Sequence[tuple[str, str]], seconds: float
    ) -> bytes:
        """A page of a list, of which no more is taken than this process can hold."""
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - with the library, lazily

        response = self._answer(asked, "GET", path, query=query, seconds=seconds, streamed=True)
        parts: list[bytes] = []
        held = 0
        try:
            for chunk in response.stream(_CHUNK, decode_content=True):
                parts.append(chunk)
                held += len(chunk)
                if held > PAGE_MAX:
                    response.close()
                    raise errors.TooLongError(f"{asked}: a page of more than {PAGE_MAX} bytes")
        except (HTTPError, OSError, ValueError) as error:
            response.close()
            raise errors.BusyError(f"cannot {asked}: the connection broke: {error}") from error
        response.release_conn()
        data = b"".join(parts)
        if response.status >= _BAD:
            after = response.headers.get("Retry-After", "")
            raise errors.of_answer(asked, response.status, data, after)
        return data

    def _answer(self, asked: str, method: str, path: str, **how: Any) -> Any:
        try:
            return self._connection.raw(method, path, agent=AGENT, **how)
        except (ToolError, InputError) as error:
            raise errors.BusyError(f"cannot {asked}: {error.problem.message}") from error


class Watching:
    """An open watch; another thread may close it."""

    def __init__(self, asked: str, response: Any) -> None:
        """Take over urllib3's answer."""
        self._asked = asked
        self._response = response

    def __iter__(self) -> Iterator[tuple[str, Manifest]]:
        """Each change as it comes, as (ADDED | MODIFIED | DELETED | BOOKMARK, object).

        It ends where the server ends it, and where it is closed here.

        Raises:
            ExpiredError: the server has forgotten the place.
            BusyError: the connection broke, or was silent for too long.
            ApiError: the server ends it with another error.
        """
        for line in self._lines():
            event = self._event(line)
            if event["type"] == "ERROR":
                status = event["object"]
                code = int(status.get("code") or 0)
                raise errors.of_answer(self._asked, code, orjson.dumps(status))
            yield event["type"], event["object"]

    def _event(self, line: bytes) -> Manifest:
        try:
            found: Manifest = orjson.loads(line)
        except ValueError as error:
            named = outline.event(line)
            if named is None:
                raise errors.BusyError(f"{self._asked}: a line that is no JSON") from error
            # A deletion needs no more than the name.
            kind, found = named[0], bounds.unread(named[1], bounds.TOO_DEEP)
            return {"type": kind, "object": found}
        return found

    def _lines(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError  # noqa: PLC0415 - with the library, lazily

        rest: list[bytes] = []
        held = 0
        try:
            for chunk in self._response.stream(_CHUNK, decode_content=True):
                whole, newline, tail = chunk.rpartition(b"\n")
                if newline:
                    yield from (b"".join(rest) + whole).split(b"\n")
                    rest, held = [], 0
                rest.append(tail)
                held += len(tail)
                if held > _LONGEST_LINE:
                    raise errors.BusyError(f"{self._asked}: a line without an end")
        except (HTTPError, OSError, ValueError) as error:
            # Closed here, urllib3 reads from no file (ValueError); else the connection broke.
            raise errors.BusyError(f"{self._asked}: the connection broke: {error}") from error
        finally:
            self._response.close()

    def close(self) -> None:
        """End it; a thread that reads it sees a BusyError."""
        try:
            self._response.shutdown()
        except (OSError, ValueError, AttributeError):
            self._response.close()


def _cut(data: bytes) -> Manifest | None:
    """A list that no parser takes: its items read one by one, and the bad ones by name."""
    parts = outline.items(data)
    if parts is None:
        return None
    found: list[Manifest] = []
    for text in parts[0]:
        try:
            item = orjson.loads(text)
        except ValueError:
            named = outline.name(text)
            item = None if named is None else bounds.unread(named, bounds.TOO_DEEP)
        if item is not None:
            found.append(item)
    return {"metadata": parts[1], "items": found}


def _inside(namespace: str) -> str:
    return f" in namespace {namespace}" if namespace else ""


def pairs(**parameters: str) -> list[tuple[str, str]]:
    """The parameters of a query that are given."""
    return [(name, value) for name, value in parameters.items() if value]


def metadata(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """An object's metadata."""
    found: Mapping[str, Any] = manifest.get("metadata") or {}
    return found
