"""The operator's client: it adds pages of bounded length, watches and orjson to the connection.

Nothing is retried here: the caller knows best whether the same request still makes sense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from allranks import __version__, names
from allranks.cluster import errors, outline, paths
from allranks.cluster.client import page_of
from allranks.cluster.connection import JSON, Connection, JsonCodec
from allranks.cluster.errors import ApiRequest
from allranks.errors import BusyError, NotFoundError, RefusedError
from allranks_operator.kube import bounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.k8s.manifest import Manifest


AGENT = f"{names.OPERATOR_MANAGER}/{__version__}"
# What people read in Events and logs: the address would tell them nothing.
_SERVER = "the API server"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_APPLY = "application/apply-patch+yaml"
_MANAGER = ("fieldManager", names.OPERATOR_MANAGER)
FIND_SECONDS = 20.0
_CHUNK = 1 << 16
# The most bytes of a page. Parsed it takes several times as much, and the operator has 512 MiB.
PAGE_MAX = 16 << 20
# etcd takes no object beyond 1.5 MiB; what is longer is no event of a watch.
_LONGEST_LINE = 16 << 20


def connect(file: str | None, context: str | None, seconds: float) -> Connection:
    """A connection for the operator; see `Connection`."""
    codec = JsonCodec(orjson.loads, orjson.dumps)
    return Connection(file, context, seconds, codec=codec, agent=AGENT, server=_SERVER)


class Api:
    """A client of the API server; every method raises ApiError (see `allranks.errors`)."""

    def __init__(self, connection: Connection) -> None:
        """Create it; nothing is sent before the first request.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
        """
        self._connection = connection
        self.where = connection.where

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
            TooLongError: it is longer than this process can hold.
        """
        request = ApiRequest("list", path, namespace)
        data = self._connection.read(request, query=query, seconds=seconds, most=PAGE_MAX)
        return page_of(self._connection, request, data, _stub)

    def get(self, path: str, namespace: str, name: str) -> Manifest:
        """One object."""
        return self._connection.request(ApiRequest("get", path, namespace, name))

    def find(self, path: str, namespace: str, name: str) -> tuple[Manifest, str]:
        """One object, by the right to list alone: the right to get is not needed.

        Returns:
            The object, and the resource version as of which it is there.

        Raises:
            NotFoundError: it is not there.
        """
        query = paths.pairs(fieldSelector=f"metadata.name={name}")
        page = self.page(path, namespace, query, seconds=FIND_SECONDS)
        items: list[Manifest] = page.get("items") or []
        if not items:
            inside = f" in namespace {namespace}" if namespace else ""
            raise NotFoundError(f"there is no {paths.kubectl_name(path)} {name}{inside}")
        if isinstance(items[0], bounds.UnreadObject):
            raise RefusedError(f"{paths.kubectl_name(path)} {name}: {items[0].reason}")
        kind = str(page.get("kind") or "").removesuffix("List")
        item = {"kind": kind, "apiVersion": page.get("apiVersion"), **items[0]}
        return item, str(metadata(page).get("resourceVersion") or "")

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
        """
        return self._connection.request(
            ApiRequest("create", path, namespace),
            query=[_MANAGER],
            body=body,
            accept=_METADATA if metadata_only else JSON,
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
            body: all that the operator wants of it.
            part: a subresource, as `status`.

        Raises:
            ConflictError: it was changed meanwhile.
        """
        return self._connection.request(
            ApiRequest("patch", f"{path}/{part}" if part else path, namespace, name),
            query=[_MANAGER, ("force", "true")],
            body=body,
            content_type=_APPLY,
        )

    def replace(self, path: str, namespace: str, name: str, body: Manifest) -> Manifest:
        """Write a whole object over the one that was read.

        Raises:
            ConflictError: it was changed meanwhile.
        """
        request = ApiRequest("update", path, namespace, name)
        return self._connection.request(request, query=[_MANAGER], body=body)

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
            NotFoundError: it is not there.
            ConflictError: another object has its name now.
        """
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid},
        }
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        self._connection.request(
            ApiRequest("delete", path, namespace, name), body=body, accept=_METADATA
        )

    def log(self, namespace: str, pod: str, query: Sequence[tuple[str, str]]) -> str:
        """The last lines of a pod's log."""
        request = ApiRequest("get", f"{paths.PODS}/log", namespace, pod)
        return self._connection.read(request, query=query).decode("utf-8", "replace")

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
        """
        request = ApiRequest("watch", path, namespace)
        return Watching(request, self._connection.stream(request, query, silence=silence))


class Watching:
    """An open watch; another thread may close it."""

    def __init__(self, request: ApiRequest, response: Any) -> None:
        """Wrap urllib3's response."""
        self._request = request
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
                raise errors.refusal(_SERVER, self._request, code, orjson.dumps(status))
            yield event["type"], event["object"]

    def _event(self, line: bytes) -> Manifest:
        try:
            manifest: Manifest = orjson.loads(line)
        except ValueError as error:
            event = outline.event(line)
            if event is None:
                raise BusyError(f"{self._request}: a line that is no JSON") from error
            # A deletion needs no more than the name.
            kind, manifest = event[0], bounds.unread(event[1], bounds.TOO_DEEP)
            return {"type": kind, "object": manifest}
        return manifest

    def _lines(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        rest: list[bytes] = []
        length = 0
        try:
            for chunk in self._response.stream(_CHUNK, decode_content=True):
                whole, newline, tail = chunk.rpartition(b"\n")
                if newline:
                    yield from (b"".join(rest) + whole).split(b"\n")
                    rest, length = [], 0
                rest.append(tail)
                length += len(tail)
                if length > _LONGEST_LINE:
                    raise BusyError(f"{self._request}: a line without an end")
        except (HTTPError, OSError, ValueError) as error:
            # Closed here, urllib3 reads from no file (ValueError); else the connection broke.
            raise BusyError(f"{self._request}: the connection broke: {error}") from error
        finally:
            self._response.close()

    def close(self) -> None:
        """Close the watch; the thread that reads it gets a BusyError."""
        try:
            self._response.shutdown()
        except (OSError, ValueError, AttributeError):
            self._response.close()


def _stub(text: bytes) -> Manifest | None:
    """The stand-in for an object of a list that is nested too deep."""
    stub_metadata = outline.name(text)
    return None if stub_metadata is None else bounds.unread(stub_metadata, bounds.TOO_DEEP)


def metadata(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of an object; {} where it has none."""
    fields: Mapping[str, Any] = manifest.get("metadata") or {}
    return fields


_EMPTY: tuple[Any, ...] = ({}, [], None)


def plain(value: Any) -> Any:
    """A status without its empty fields, at any depth."""
    if isinstance(value, dict):
        fields = {key: plain(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if item not in _EMPTY}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def same(first: Any, second: Any) -> bool:
    """Whether two statuses are equal but for empty fields."""
    return bool(plain(first) == plain(second))
