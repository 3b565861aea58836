"""A sweep that is kept in Secrets of a cluster: ``secret:NAMESPACE/NAME``.

A context and a kubeconfig may follow, as in a URL: ``secret:research/digits?context=prod``. Then
the sweep is found again whatever the current context is by then.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from allranks import names
from allranks.cluster import paths
from allranks.errors import ConflictError, InputError, NotFoundError
from allranks.sweep.storage import holding, segments
from allranks.sweep.storage.lines import BegunError
from allranks.sweep.storage.opened import record_stop

if TYPE_CHECKING:
    from allranks.cluster.port import Cluster
    from allranks.model.manifest import Manifest
    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.secretjournal import Reading, SecretJournal

PREFIX = "secret:"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where the Secrets are.

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
        """Read what ``--journal`` was given.

        Raises:
            InputError: it is no such address.
        """
        rest, _, query = where.removeprefix(PREFIX).partition("?")
        namespace, slash, sweep = rest.partition("/")
        marks = dict(parse_qsl(query))
        why = ""
        if not where.startswith(PREFIX) or not slash:
            why = "it needs a namespace and a name"
        elif wrong := [one for one in (namespace, sweep) if not _NAME.fullmatch(one)]:
            why = f"{wrong[0]!r} is no name there: lower-case letters, digits and -, 63 at most"
        elif marks.keys() - {"context", "kubeconfig"}:
            why = "only ?context=NAME and kubeconfig=FILE may follow the name"
        if why:
            raise InputError(
                f"{where!r} is no journal in Secrets: {why}",
                path="--journal",
                hint=f"write {PREFIX}NAMESPACE/NAME, such as {PREFIX}research/digits",
            )
        return cls(sweep, namespace, **marks)

    def __str__(self) -> str:
        """What ``--journal`` takes."""
        marks = {"context": self.context, "kubeconfig": self.kubeconfig}
        query = urlencode({key: text for key, text in marks.items() if text})
        return f"{PREFIX}{self.namespace}/{self.sweep}{'?' if query else ''}{query}"


@dataclass(frozen=True)
class SecretKeeper:
    """The place of a journal in Secrets; see `journals.Keeper`.

    Attributes:
        address: where.
        name: the sweep's name.
        waits: opening waits for whoever runs the sweep now to end, in place of refusing.
    """

    address: Address
    name: str = ""
    waits: bool = False

    @property
    def where(self) -> str:
        """The address in full."""
        return str(self.address)

    @property
    def namespace(self) -> str:
        """The namespace of its Secrets."""
        return self.address.namespace

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster that they are on."""
        from allranks.cluster.kube import KubeCluster  # noqa: PLC0415 - only where one is asked

        return KubeCluster(self.address.kubeconfig or None, self.address.context or None)

    def create(self, head: Record) -> SecretJournal:
        """Make the first Secret and the Lease; in a cluster, its chart has made them."""
        sweep = self.address.sweep
        body = segments.head_manifest(sweep, head)
        try:
            made = self.cluster.create(paths.SECRETS, body, namespace=self.namespace)
        except ConflictError as error:
            raise BegunError(sweep, self.where) from error
        owner = segments.manifest(sweep, 0, made, "")["metadata"]["ownerReferences"]
        metadata = {"name": segments.head_name(sweep), "ownerReferences": owner}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {**metadata, "labels": {names.SWEEP_JOURNAL: sweep}},
        }
        # One of an earlier sweep of this name may not have gone yet.
        self.cluster.delete(paths.LEASES, segments.head_name(sweep), namespace=self.namespace)
        self.cluster.create(paths.LEASES, lease, namespace=self.namespace)
        return self.open()

    def open(self) -> SecretJournal:
        """Go on with it."""
        from allranks.sweep.storage.secretjournal import SecretJournal  # noqa: PLC0415 - as above

        return SecretJournal(
            self.cluster, self.namespace, self.address.sweep, self.where, wait=self.waits
        )

    def reading(self) -> Reading:
        """It, to be read again and again.

        Raises:
            InputError: there is none, it is of a newer version, or it was changed by other hands.
            RunError: it cannot be read.
        """
        from allranks.sweep.storage.secretjournal import Reading  # noqa: PLC0415 - as above

        found = Reading(self.cluster, self.namespace, self.address.sweep, self.where)
        found.refresh()
        return found

    def read(self) -> SweepState:
        """Read all of it."""
        return self.reading().state

    def exists(self) -> bool:
        """Whether its head is there."""
        try:
            self._get(paths.SECRETS)
        except NotFoundError:
            return False
        return True

    def is_run(self) -> bool:
        """Whether somebody holds its Lease, or a Job is to run it that has not ended."""
        return self.is_held() or any(not _has_ended(job) for job in self.jobs())

    def is_held(self) -> bool:
        """Whether somebody holds its Lease."""
        try:
            return bool(holding.holder(self._get(paths.LEASES)))
        except NotFoundError:
            return False

    def jobs(self) -> list[Manifest]:
        """The Jobs of its runner, where it runs inside the cluster."""
        selector = (
            f"{names.APP_NAME}={names.SWEEP_RUNNER},{names.APP_INSTANCE}={self.address.sweep}"
        )
        return self.cluster.list(paths.JOBS, namespace=self.namespace, label_selector=selector)

    def request_stop(self, why: str, at: float) -> bool:
        """Leave a request on its Lease; who runs the sweep sees it within three seconds.

        Where nobody does, also where a pod is to run it and has not begun, it is recorded.
        """
        if self.is_held():
            self._ask(why)
            return True
        try:
            opened = SecretKeeper(self.address, self.name).open()
        except InputError:
            if not self.is_held():
                raise
            self._ask(why)  # it was started just now
            return True
        with opened:
            record_stop(opened, why, at)
        return False

    def forget(self) -> None:
        """Remove its Secrets, the head last, and the Lease."""
        selector = f"{names.SWEEP_JOURNAL}={self.address.sweep}"
        found = self.cluster.list(
            paths.SECRETS,
            namespace=self.namespace,
            label_selector=selector,
            metadata_only=True,
        )
        head = segments.head_name(self.address.sweep)
        for one in found:
            if one["metadata"]["name"] != head:
                self._delete(paths.SECRETS, one["metadata"]["name"])
        self._delete(paths.LEASES, head)
        self._delete(paths.SECRETS, head)

    def _delete(self, resource_path: str, name: str) -> None:
        with suppress(NotFoundError):
            self.cluster.delete(resource_path, name, namespace=self.namespace)

    def _ask(self, why: str) -> None:
        body = {"metadata": {"annotations": {names.SWEEP_STOP: why}}}
        head = segments.head_name(self.address.sweep)
        self.cluster.patch(paths.LEASES, head, body, namespace=self.namespace)

    def _get(self, resource_path: str) -> Manifest:
        head = segments.head_name(self.address.sweep)
        return self.cluster.get(resource_path, head, namespace=self.namespace)


def _has_ended(job: Manifest) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or ()
    ends = {"Complete", "Failed"}
    return any(one["type"] in ends and one["status"] == "True" for one in conditions)
