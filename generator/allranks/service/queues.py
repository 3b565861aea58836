"""Read a queue: from a file, or from the cluster that has it."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import InputError
from allranks.k8s.object_names import is_dns_1123_label
from allranks.values import files, queue
from allranks.values import sources as gathering
from allranks.values.sources import STDIN_NAME, defaults

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.cluster.interface import KubeClient
    from allranks.values.queue import Queue
    from allranks.values.sources import Sources
    from allranks.yamlio.document import ValuesDocument


def check_name(name: str, path: str) -> None:
    """Refuse what no queue can be called.

    Args:
        name: the name; it is a release's, too.
        path: the argument or flag that gives it.

    Raises:
        InputError: it is none; the nearest is named.
    """
    if is_dns_1123_label(name, longest=names.HELM_RELEASE_NAME_MAX):
        return
    near = re.sub(r"[^a-z0-9]+", "-", name.lower())[: names.HELM_RELEASE_NAME_MAX].strip("-")
    raise InputError(
        f"{name!r} is no name of a queue: lower-case letters, digits and '-', at most "
        f"{names.HELM_RELEASE_NAME_MAX} of them, with a letter or digit first and last",
        path=path,
        hint=f"call it `{near or 'h100'}`",
    )


def from_file(path: str, name: str = "") -> Queue:
    """The queue of a file: values of `charts/queue`, or its ConfigMap as YAML.

    Args:
        path: the file; ``-`` is standard input.
        name: the queue's name, where the file does not say it; "" is the file's own name without
            its ending.

    Raises:
        InputError: there is no such file, no queue in it, or values that are none of the chart's.
    """
    is_stdin = path.strip() == files.STDIN
    source = STDIN_NAME if is_stdin else path
    stem = "" if is_stdin else PurePath(path).stem
    own = queue.from_file(files.read(path), source, chart_rules, name or stem, _check_values)
    check_name(own.name, "--queue" if name else "--queue-file")
    return own


def _check_values(document: ValuesDocument) -> None:
    # Imported only here: most queues are read from a cluster, where the chart has checked them.
    from allranks.values import charts

    charts.check_document(document, names.QUEUE_CHART)


def is_of_queue(sources: Sources) -> bool:
    """Whether values are those of a queue, and not of a job, which names its workload.

    Args:
        sources: the files and flags; standard input is read already.
    """
    if sources.queue is not None:  # a job's, held to that queue
        return False
    user = gathering.read(sources)[1]
    return not user.get("workload") and queue.has_own_keys(user)


def values_of(sources: Sources, name: str) -> dict[str, Any]:
    """The values of a queue, as helm is given them.

    Args:
        sources: the files and flags.
        name: the queue's name, its release's; "" for none yet.

    Raises:
        InputError: the values or the name are none of `charts/queue`, or the values have another
            name.
    """
    from allranks.values import charts

    if name:
        check_name(name, "NAME")
    values = charts.resolve(sources, names.QUEUE_CHART, {})
    own_name = values.get("name")
    if name and own_name and own_name != name:
        raise InputError(
            f"is {own_name!r}, and the queue is called {name!r} here",
            path="name",
            hint=f"leave it out, or call it `{names.CLI} queue install {own_name}`",
        )
    return values


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
