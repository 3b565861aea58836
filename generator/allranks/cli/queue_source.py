"""Where a command reads the queue of -q from: the namespace that its other flags name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from allranks.cli.target import Target, within_patience
from allranks.errors import AllranksError, InputError
from allranks.service import queues
from allranks.values import files

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.client import KubeCluster
    from allranks.values.queue import Queue
    from allranks.values.sources import Sources


@dataclass(frozen=True, slots=True)
class QueueNamespace:
    """A cluster and a namespace of it.

    Attributes:
        namespace: "" is the context's own.
        context: "" is the current one.
        kubeconfig: "" is found as kubectl does.
    """

    namespace: str = ""
    context: str = ""
    kubeconfig: str = ""

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> QueueNamespace:
        """The place that a command's options name, whichever of them it has."""
        target = options.get("target")
        if isinstance(target, Target):
            return cls(target.namespace, target.context, target.kubeconfig)
        return cls(
            "" if _by_default("namespace") else options.get("namespace") or "",
            options.get("context") or "",
            options.get("kubeconfig") or "",
        )

    def cluster(self) -> tuple[KubeCluster, str]:
        """The cluster and the namespace.

        Raises:
            InputError: a kubeconfig is broken, or there is none.
        """
        from allranks.cluster.client import KubeCluster

        cluster = KubeCluster(self.kubeconfig or None, self.context or None)
        return cluster, self.namespace or cluster.namespace


def _by_default(name: str) -> bool:
    """Whether nobody gave an option: a namespace that is a default is not where a queue is."""
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) is ParameterSource.DEFAULT


def read(name: str, path: str, sources: Sources, place: QueueNamespace) -> Queue:
    """The queue that -q and --queue-file name.

    Args:
        name: the queue; "" is the name in its file, or the file's own.
        path: the queue's file; "" is the cluster.
        sources: the other sources of values.
        place: where the queue is, without a file.

    Raises:
        InputError: the flags do not fit, or there is no such queue.
        ToolError: the cluster does not answer, or forbids it.
    """
    if name:
        queues.check_name(name, "--queue")
    if path:
        if path.strip() == files.STDIN and files.STDIN in map(str.strip, sources.files):
            raise InputError("standard input can be read once only", hint="give one - at most")
        queue = queues.from_file(path, name)
        if name and queue.name != name:
            raise InputError(
                f"{path} is of queue {queue.name}, not of {name}",
                path="--queue",
                hint=f"give -q {queue.name}, or leave it out",
            )
        return queue
    from allranks.cluster import kubeconfig

    if not (place.context or place.kubeconfig) and not kubeconfig.has_context():
        raise InputError(
            f"queue {name} is read from a cluster, and no kubeconfig names one",
            path="--queue",
            hint="name a context with --context, or the queue's file with --queue-file",
        )
    cluster, namespace = place.cluster()
    return queues.from_cluster(cluster, name, namespace)


def names_at(options: Mapping[str, Any]) -> list[str]:
    """The names of the queues at the place of a command's options; none if it takes too long."""

    def ask() -> list[str]:
        from allranks.cluster import queues as cluster_queues

        try:
            cluster, namespace = QueueNamespace.of(options).cluster()
            items = cluster_queues.list_all(cluster, namespace)
        except AllranksError:
            return []
        return [cluster_queues.name_of(item) for item in items]

    return within_patience(ask)
