"""Read a queue: from a file, or from the cluster that has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.values import files, queue
from allranks.values.sources import STDIN_NAME, defaults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.interface import KubeClient
    from allranks.values.queue import Queue


def from_file(path: str, name: str = "") -> Queue:
    """The queue of a file: values of `charts/queue`, or its ConfigMap as YAML.

    Args:
        path: the file; ``-`` is standard input.
        name: the queue's name, where the file does not say it.

    Raises:
        InputError: there is no such file, or no queue in it.
    """
    source = STDIN_NAME if path.strip() == files.STDIN else path
    return queue.from_file(files.read(path), source, chart_rules, name)


def chart_rules() -> Mapping[str, Any]:
    """The rules that `charts/queue` has by default."""
    return dict(defaults(names.QUEUE_CHART)[queue.RULES])


def from_cluster(cluster: KubeClient, name: str, namespace: str) -> Queue:
    """The queue of a cluster, with one request.

    Args:
        cluster: the cluster.
        name: the queue.
        namespace: its namespace.

    Raises:
        NotFoundError: there is no such queue; the nearest is named.
        InputError: its ConfigMap cannot be read; the key is named.
        ToolError: the cluster does not answer, or forbids it (ForbiddenError).
    """
    from allranks.cluster import queues

    return queue.from_config_map(queues.get(cluster, name, namespace))
