"""The interface of a cluster, whatever library implements it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from allranks.k8s.manifest import Manifest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from allranks.model.inventory import Inventory

Manifests = list[Manifest]
PatchKind = Literal["merge", "json", "strategic", "apply"]
# verbs, apiGroups, resources, resourceNames: each a list in which "*" means all.
Rules = list[dict[str, Any]]


class Stream(Protocol):
    """The lines of a log; another thread may close it."""

    def __iter__(self) -> Iterator[str]:
        """Each line as it comes."""

    def close(self) -> None:
        """Close the stream."""


class WatchStream(Protocol):
    """The changes of a list; another thread may close it."""

    def __iter__(self) -> Iterator[tuple[str, Manifest]]:
        """Each change as it arrives: its kind and the object."""

    def close(self) -> None:
        """Close the watch."""


class ObjectLister(Protocol):
    """A cluster whose objects can be listed; enough for an observer."""

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
        """All objects of a list; started again where the server has lost its place.

        Args:
            resource_path: group, version and plural: ``apis/batch/v1/jobs``.
            namespace: only there; None or "" is the whole cluster.
            label_selector: only those with these labels.
            field_selector: only those with these fields.
            metadata_only: without their spec and status.
            unread: told of each object that is left out, as it is nested too deep to be read.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError); or, without
                `unread`, an object is nested too deep to be read.
            NotFoundError: the cluster has no such kind of object.
        """


class KubeClient(ObjectLister, Protocol):
    """A cluster that can be read and changed.

    Every method raises InputError where the kubeconfig is at fault, NotFoundError where the object
    is not there, and ToolError where the cluster does not answer or (ForbiddenError) allow it.
    Resources are named by group, version and plural: ``apis/batch/v1/jobs``; see
    `allranks.cluster.paths`.
    """

    @property
    def where(self) -> str:
        """The context and the server's address, for messages."""

    @property
    def namespace(self) -> str:
        """The context's own namespace."""

    def inventory(self, gpu_resource: str) -> Inventory:
        """All nodes with their free resources.

        Args:
            gpu_resource: the extended resource that counts as a GPU.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer, or forbids listing nodes or pods.
        """

    def version(self) -> str:
        """The API server's version.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer.
        """

    def may(self, verb: str, resource: str, *, group: str = "", namespace: str = "") -> bool:
        """Whether the server permits the user an action.

        Args:
            verb: the verb, such as create.
            resource: the resource, in the plural.
            group: its API group; "" is the core group.
            namespace: the namespace; "" is the whole cluster.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer.
        """

    def rules(self, namespace: str) -> Rules | None:
        """The user's permissions in a namespace; None where the server cannot list all of them.

        Raises:
            InputError: the kubeconfig is missing, broken, or has no such context.
            ToolError: the cluster does not answer.
        """

    def get(
        self, resource_path: str, name: str, *, namespace: str = "", metadata_only: bool = False
    ) -> Manifest:
        """An object by its name.

        Args:
            resource_path: group, version and plural.
            name: the object.
            namespace: its namespace.
            metadata_only: without its spec, status and data.

        Raises:
            NotFoundError: it is not there.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

    def watch(
        self, resource_path: str, *, namespace: str, label_selector: str = "", version: str = ""
    ) -> WatchStream:
        """The changes of a list from now on.

        Args:
            resource_path: group, version and plural.
            namespace: the namespace.
            label_selector: only those with these labels.
            version: go on after this resource version; "" begins with what is there, as additions.

        Raises:
            ExpiredError: the server has forgotten the version: begin anew.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

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
    ) -> Stream:
        """The log of a container, line by line.

        Args:
            pod: the pod.
            namespace: its namespace.
            container: its container; "" where it has one only.
            follow: go on until the container ends.
            previous: of the container before its last restart.
            tail: only so many last lines.
            timestamps: begin each line with the time it was written.
            since: only what was written since this time, in RFC 3339.

        Raises:
            NotFoundError: there is no such pod.
            RejectedError: the container has not started yet, or there is none of this name.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

    def create(
        self, resource_path: str, body: Manifest, *, namespace: str = "", dry_run: bool = False
    ) -> Manifest:
        """Create an object; return it as the server stores it.

        Raises:
            RejectedError: the server does not take it.
            RunError: a quota forbids it, or it is there already.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

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
        """Change an object; return it as the server stores it.

        Args:
            resource_path: group, version and plural.
            name: the object.
            body: the patch.
            namespace: its namespace.
            kind: merge, json (a list of operations), strategic (lists by their keys; of
                Kubernetes' own kinds only) or apply (the whole object, server-side).
            manager: in whose name; apply needs one, and takes fields from others.
            dry_run: only ask whether the server would take it.

        Raises:
            NotFoundError: it is not there.
            RejectedError: the server does not take it; the fields are named.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

    def delete(
        self,
        resource_path: str,
        name: str,
        *,
        namespace: str = "",
        foreground: bool = False,
        version: str = "",
    ) -> bool:
        """Delete an object; False where it was gone already.

        Args:
            resource_path: group, version and plural.
            name: the object.
            namespace: its namespace.
            foreground: keep it until all that it owns is gone.
            version: only if it still has this resource version; "" is any.

        Raises:
            ConflictError: it has another resource version.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

    def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        **options: Any,
    ) -> int:
        """Run a program in a container, on this process's terminal; return its exit code.

        Args:
            pod: the pod.
            command: the program and its arguments.
            namespace: the pod's namespace.
            container: its container; "" where it has one only.
            options: see `allranks.cluster.exec.run`.

        Raises:
            NotFoundError: there is no such pod.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
        """

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
        """Run a program in a container that is given data; return its answer.

        Args:
            pod: the pod.
            command: the program and its arguments.
            data: what it reads from its input.
            namespace: the pod's namespace.
            container: its container.
            end: the line that ends its answer.
            seconds: how long it may take in all.

        Raises:
            NotFoundError: there is no such pod.
            ToolError: the cluster does not answer, or forbids it (ForbiddenError).
            RunError: the program cannot be started, or gives no whole answer in time.
        """
