"""The client of a live cluster: reads and changes its objects.

Lists come in pages, so that one of any size is asked gently and read in little memory. Nothing is
cached and nothing is asked twice: how many requests a command costs can be read off its code.
"""

from __future__ import annotations

import re
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any

from allranks.cluster import outline, paths
from allranks.cluster.connection import JSON, READ_SECONDS, Connection, Lines, Watch
from allranks.cluster.errors import ApiRequest, too_deep
from allranks.cluster.interface import KubeClient
from allranks.errors import BusyError, ExpiredError, NotFoundError, TooDeepError, ToolError
from allranks.k8s.list_json import PodSpecs, without_writers
from allranks.k8s.parts import PartTable, compact, without_collection, without_images
from allranks.layout.inventory_objects import from_objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

    from allranks.cluster.interface import Manifests, PatchKind, Rules
    from allranks.k8s.manifest import Manifest
    from allranks.model.inventory import Inventory


_PAGE = 500
# A look at a run costs the same number of requests up to so many pods.
_PAGE_OF_NAMESPACE = 1000
# A continue token lives about five minutes; a list that outlives two of them will not end well.
_LIST_ATTEMPTS = 2
_LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
# Where the token of the next page stands, as the API server writes a list: before its items.
_HEAD, _CONTINUE = 8192, re.compile(rb'"continue": ?"([^"\\]+)"')
# What a run or a cluster has thousands of, and whose record of writers nobody asks for.
_MANY = frozenset({paths.PODS, paths.EVENTS, paths.NODES})
_COMPACTED: Mapping[str, Callable[[Manifest, PartTable], Manifest]] = {
    "Pod": compact,
    "Event": compact,
    "Node": lambda node, _: without_images(node),
}
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_REVIEWS = "apis/authorization.k8s.io/v1"
# How long the server keeps a watch open; it is opened again where it ended.
_WATCH_SECONDS = 300
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class KubeCluster(KubeClient):
    """The cluster of a kubeconfig; what each method does is said by `KubeClient`."""

    def __init__(
        self,
        kubeconfig: str | None = None,
        context: str | None = None,
        *,
        timeout: float = READ_SECONDS,
    ) -> None:
        """Create it; nothing is read or sent before the first request.

        Args:
            kubeconfig: a file; None finds it as kubectl does.
            context: a context of it; None is the current one.
            timeout: seconds that one answer may take.
        """
        self._connection = Connection(kubeconfig, context, timeout, patience=timeout)

    @property
    def where(self) -> str:
        return self._connection.where

    @property
    def context(self) -> str:
        """The context that is used; "" inside a pod."""
        return self._connection.config.context

    @property
    def namespace(self) -> str:
        return self._connection.config.namespace

    # --- questions about the cluster --------------------------------------------------------------

    def inventory(self, gpu_resource: str) -> Inventory:
        nodes = self.list(paths.NODES)
        pods = self.list(paths.PODS, field_selector=_LIVE_PODS)
        return from_objects(nodes, pods, gpu_resource, source=self.where)

    def version(self) -> str:
        answer = self._connection.request(ApiRequest("get", "version"))
        return str(answer.get("gitVersion") or "unknown")

    def may(self, verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
        attributes = {"verb": verb, "resource": resource, "group": group, "namespace": namespace}
        answer = self._review("SelfSubjectAccessReview", {"resourceAttributes": attributes})
        return bool(answer.get("allowed"))

    def rules(self, namespace: str) -> Rules | None:
        answer = self._review("SelfSubjectRulesReview", {"namespace": namespace})
        return None if answer.get("incomplete") else list(answer.get("resourceRules") or ())

    def _review(self, kind: str, spec: Manifest) -> Manifest:
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        request = ApiRequest("create", f"{_REVIEWS}/{kind.lower()}s")
        answer = self._connection.request(request, body=review)
        return answer.get("status") or {}

    # --- reading objects --------------------------------------------------------------------------

    def list(
        self,
        resource_path: str,
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        unread: Callable[[str], None] | None = None,
    ) -> Manifests:
        request = ApiRequest("list", resource_path, namespace or "")
        query = paths.pairs(labelSelector=label_selector, fieldSelector=field_selector)
        accept = _METADATA_ONLY if metadata_only else JSON
        for _ in range(_LIST_ATTEMPTS):
            try:
                with without_collection():
                    return list(self._pages(request, query, accept, unread))
            except ExpiredError:
                continue
        raise ToolError(
            f"{self.where}: the list of {paths.plural(resource_path)} expired twice while it was "
            "read",
            hint="try again; the API server is very busy",
        )

    def _pages(
        self,
        request: ApiRequest,
        query: Sequence[tuple[str, str]],
        accept: str,
        unread: Callable[[str], None] | None,
    ) -> Iterator[Manifest]:
        def outline_of(text: bytes) -> Manifest | None:
            """The outline of an object that is nested too deep to be read whole."""
            head = outline.head(text)
            if head is None:
                raise too_deep(self.where, request)
            if accept == _METADATA_ONLY:
                return head
            if unread is None:
                error = too_deep(self.where, request)
                raise TooDeepError(
                    f"cannot {request}: {_too_deep(request, head)}", hint=error.problem.hint
                )
            unread(_too_deep(request, head))
            return None

        limit = str(_PAGE_OF_NAMESPACE if request.namespace else _PAGE)

        def read(token: str) -> bytes:
            place = [*query, *paths.pairs(limit=limit, **{"continue": token})]
            return self._connection.read(request, query=place, accept=accept)

        shared = PartTable()
        is_of_pods = request.resource_path == paths.PODS
        specs = PodSpecs(self._connection.codec.loads)
        data = read("")
        while True:
            # The server makes the next page while this one is parsed.
            next_token = _next_token(data)
            ahead = _in_background(partial(read, next_token)) if next_token else None
            if request.resource_path in _MANY:
                data = without_writers(data)
            if is_of_pods:
                data = specs.cut(data)
            page = page_of(self._connection, request, data, outline_of)
            kind = str(page.get("kind") or "").removesuffix("List")
            for item in page.get("items") or ():
                # The server leaves them out of a list, where each is the same.
                item.setdefault("kind", kind)
                item.setdefault("apiVersion", page.get("apiVersion"))
                compacted = _COMPACTED[kind](item, shared) if kind in _COMPACTED else item
                yield specs.whole(compacted) if is_of_pods else compacted
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return
            data = ahead.result() if ahead and token == next_token else read(token)

    def get(
        self, resource_path: str, name: str, *, namespace: str = "", metadata_only: bool = False
    ) -> Manifest:
        request = ApiRequest("get", resource_path, namespace, name)
        return self._connection.request(request, accept=_METADATA if metadata_only else JSON)

    def watch(
        self,
        resource_path: str,
        *,
        namespace: str,
        label_selector: str = "",
        version: str = "",
    ) -> Watch:
        query = paths.pairs(
            watch="1",
            allowWatchBookmarks="true",
            timeoutSeconds=str(_WATCH_SECONDS),
            labelSelector=label_selector,
            resourceVersion=version,
        )
        request = ApiRequest("watch", resource_path, namespace)
        return Watch(self._connection.stream(request, query))

    def logs(
        self,
        pod: str,
        *,
        namespace: str,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail: int | None = None,
        timestamps: bool = False,
        since: str = "",
    ) -> Lines:
        query = paths.pairs(
            container=container,
            follow="true" if follow else "",
            previous="true" if previous else "",
            tailLines="" if tail is None else str(tail),
            timestamps="true" if timestamps else "",
            sinceTime=since,
        )
        request = ApiRequest("get", f"{paths.PODS}/log", namespace, pod)
        return Lines(self._connection.stream(request, query))

    # --- changing objects -------------------------------------------------------------------------

    def create(
        self, resource_path: str, body: Manifest, *, namespace: str = "", dry_run: bool = False
    ) -> Manifest:
        request = ApiRequest("create", resource_path, namespace)
        return self._connection.request(request, query=_dry(dry_run=dry_run), body=body)

    def patch(
        self,
        resource_path: str,
        name: str,
        body: Any,
        *,
        namespace: str = "",
        kind: PatchKind = "merge",
        manager: str = "",
        dry_run: bool = False,
    ) -> Manifest:
        query = [*_dry(dry_run=dry_run), *paths.pairs(fieldManager=manager)]
        if kind == "apply":
            query.append(("force", "true"))
        request = ApiRequest("patch", resource_path, namespace, name)
        return self._connection.request(
            request, query=query, body=body, content_type=_PATCHES[kind]
        )

    def delete(
        self,
        resource_path: str,
        name: str,
        *,
        namespace: str = "",
        foreground: bool = False,
        version: str = "",
    ) -> bool:
        request = ApiRequest("delete", resource_path, namespace, name)
        policy = "Foreground" if foreground else "Background"
        query = paths.pairs(propagationPolicy=policy)
        # Where there is a body, the server reads no query.
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": policy,
            "preconditions": {"resourceVersion": version},
        }
        try:
            self._connection.request(request, query=query, body=body if version else None)
        except NotFoundError:
            return False
        return True

    # --- programs in pods -------------------------------------------------------------------------

    def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        **options: Any,
    ) -> int:
        from allranks.cluster import exec as cluster_exec

        place = cluster_exec.ExecTarget(namespace, pod, container)
        return cluster_exec.run(self._connection, place, command, **options)

    def ask(
        self,
        pod: str,
        command: Sequence[str],
        data: bytes,
        *,
        namespace: str,
        container: str,
        end: bytes,
        seconds: float,
    ) -> bytes:
        from allranks.cluster import exec as cluster_exec

        place = cluster_exec.ExecTarget(namespace, pod, container)
        return cluster_exec.ask(self._connection, place, command, data, end=end, seconds=seconds)


def _next_token(data: bytes) -> str:
    """The token of the next page, from the head of a page; "" where it is not seen there."""
    head, _, _ = data[:_HEAD].partition(b'"items"')
    token = _CONTINUE.search(head)
    return token[1].decode() if token else ""


def _in_background(request: Callable[[], bytes]) -> Future[bytes]:
    """Start a request in a thread that does not outlive the program."""
    from concurrent.futures import Future

    answer: Future[bytes] = Future()

    def run() -> None:
        try:
            answer.set_result(request())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is asked for
            answer.set_exception(error)

    Thread(target=run, daemon=True).start()
    return answer


def page_of(
    connection: Connection,
    request: ApiRequest,
    data: bytes,
    outline_of: Callable[[bytes], Manifest | None],
) -> Manifest:
    """A page of a list, item by item where the parser refuses it as a whole.

    Args:
        connection: where it came from.
        request: what was asked.
        data: the answer.
        outline_of: what stands for an item that is nested too deep; None leaves it out.

    Raises:
        ApiError: it is no list; or what `outline_of` raises.
    """
    try:
        return connection.decode(request, data)
    except (BusyError, TooDeepError):  # a library that has no word of its own for depth: no JSON
        parts = outline.items(data)
        if parts is None:
            raise
    items: list[Manifest] = []
    for text in parts[0]:
        try:
            item = connection.codec.loads(text)
        except (ValueError, RecursionError):
            item = outline_of(text)
        if item is not None:
            items.append(item)
    return {**parts[1], "items": items}


def _too_deep(request: ApiRequest, head: Manifest) -> str:
    """The message about an object that is nested too deep, and how to remove it."""
    kind, name = paths.kubectl_name(request.resource_path), head["metadata"]["name"]
    namespace = head["metadata"].get("namespace")
    scope, flag = (f" in namespace {namespace}", f" -n {namespace}") if namespace else ("", "")
    return (
        f"{kind} {name}{scope} is nested too deep to be read; "
        f"`kubectl{flag} delete {kind} {name}` removes it"
    )


def _dry(*, dry_run: bool) -> list[tuple[str, str]]:
    return paths.pairs(dryRun="All" if dry_run else "")
