"""Rules that a queue sets for its jobs, as rules between values.

The same stand in the cluster as an admission policy, where `charts/queue` may make one; here they
are told before anything is sent, with the line of the value. A run on this machine is held to none
of them: they are about the cluster.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from allranks.humanize import plural
from allranks.values.rules.base import Finding, ValuesRule, View, path
from allranks.values.rules.command import ROLES, roles
from allranks.values.rules.size import SIZE, RequestedSize, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.values.queue import Queue

# What Pod Security "baseline" lets a container have, and what RDMA needs.
_CAPABILITIES = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"}
    | {"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "IPC_LOCK"}
)
_CONTAINERS = ("containers", "initContainers")
_WORKER = "worker"
_MASTER = "own.auto"
# What `total_gpus` and `total_pods` read.
TOTAL = (*SIZE, *ROLES, "torchrun.spares")
# Which Kubernetes object makes the pods.
_CONTROLLER = ("own.controller", "own.transport")
# Where whole pods may be described: for all, and for single roles.
_TEMPLATES = ("podTemplate", _MASTER, *ROLES)


def rules(queue: Queue) -> tuple[ValuesRule, ...]:
    """The rules of a queue that can be told from values.

    Limits on all jobs of a queue together are enforced in the cluster, by the namespace's quota.
    Here a job is refused that is above them alone.

    Args:
        queue: the queue.
    """
    rows: tuple[tuple[str, str, tuple[str, ...], _Find], ...] = (
        ("workloads", "The workload is one that the queue takes.", ("workload",), _workload),
        (
            "maxGpusPerJob",
            "A job has at most so many GPUs.",
            (*TOTAL, "podTemplate"),
            _gpus,
        ),
        ("maxGpusInAll", "No job has more GPUs than all may have together.", TOTAL, _gpus_in_all),
        ("maxNodesPerJob", "A job has at most so many pods.", TOTAL, _nodes),
        (
            "maxDurationSeconds",
            "A job ends after at most so many seconds.",
            ("runPolicy.activeDeadlineSeconds", *_CONTROLLER, *_TEMPLATES, *SIZE),
            _duration,
        ),
        ("images", "Every image is one that the queue allows.", ("image", *_TEMPLATES), _images),
        (
            "priorityClasses",
            "The priority class is one that the queue allows.",
            ("scheduling.priorityClassName", *_TEMPLATES),
            _priority,
        ),
        ("allowHostPath", "No folder of a node is mounted.", _TEMPLATES, _host_path),
        (
            "allowHostNetwork",
            "No pod is in the network of its node.",
            ("network.hostNetwork", *_TEMPLATES),
            _host_network,
        ),
        (
            "allowPrivileged",
            "No container is privileged.",
            ("security.containerSecurityContext", *_TEMPLATES),
            _privileged,
        ),
    )
    return tuple(
        ValuesRule(f"queue-{key}", doc, reads, partial(find, queue), cluster=True)
        for key, doc, reads, find in rows
    )


def image_allowed(image: str, allowed: Iterable[str]) -> bool:
    """Whether an image is one of those that a queue allows.

    An entry with a "*" is a pattern of the whole reference. One without is the beginning of it, up
    to where a part of a name ends.

    Args:
        image: the reference.
        allowed: the entries; none is no rule.
    """
    entries = tuple(allowed)
    return not entries or any(_entry(entry).fullmatch(image) for entry in entries)


def _entry(entry: str) -> re.Pattern[str]:
    if "*" in entry:
        return re.compile(".*".join(re.escape(part) for part in entry.split("*")), re.DOTALL)
    return re.compile(f"{re.escape(entry)}(?:|/.*|[:@][^/]*)", re.DOTALL)


def _workload(queue: Queue, view: View) -> Iterator[Finding]:
    allowed, workload = queue.rules.workloads, view["workload"]
    if allowed and workload not in allowed:
        hint = f"use one of {_list(allowed)}, or another queue"
        yield _none_of(queue, path("workload"), f"{workload} is none", "workloads", hint)


def _gpus(queue: Queue, view: View) -> Iterator[Finding]:
    limit = queue.rules.max_gpus_per_job
    if not limit:
        return
    for gpus, where in (total_gpus(view), *_gpus_of_plans(view)):
        if gpus > limit:
            yield _more_gpus(queue, where, gpus, limit, "maxGpusPerJob")
            break
    yield from _uncounted(queue, view)


def _gpus_in_all(queue: Queue, view: View) -> Iterator[Finding]:
    limit, (gpus, where) = queue.rules.max_gpus_in_all, total_gpus(view)
    if limit and gpus > limit:
        yield _more_gpus(queue, where, gpus, limit, "maxGpusInAll")


def _more_gpus(queue: Queue, where: ValuesPath, gpus: int, limit: int, key: str) -> Finding:
    about = f"{plural(gpus, 'GPU')} are"
    return _more(queue, where, about, limit, key=key, hint=f"ask for at most {limit}")


def _uncounted(queue: Queue, view: View) -> Iterator[Finding]:
    """GPUs that no number of the values bounds."""
    limit = queue.rules.max_gpus_per_job
    rule = f"{queue.label} allows {plural(limit, 'GPU')} for each job (rules.maxGpusPerJob)"
    if _has_master(view) and total_gpus(view)[0] and not view["own.auto"]["limits"]["gpu"]:
        yield Finding(
            view.path("own.auto", "limits", "gpu"),
            f"is not set, so plans may give the job any number of GPUs, and {rule}",
            f"set it to at most {limit}",
        )
    for where, spec in _specs(view):
        if spec.get("resourceClaims"):
            yield Finding(
                (*where, "resourceClaims"),
                f"devices of a claim are not counted, and {rule}",
                "use gpus",
            )


def _nodes(queue: Queue, view: View) -> Iterator[Finding]:
    limit, pods = queue.rules.max_nodes_per_job, total_pods(view)
    size_key = next((key for key in ("nodes", "gpus") if view[key]), "nodes")
    further = _further_workers(view)
    for nodes, where in (
        (pods, path(size_key)),
        (pods + further, view.path("own.auto", "maxWorkers")),
    ):
        if limit and nodes > limit:
            about, hint = f"{plural(nodes, 'node')} are", f"use at most {plural(limit, 'node')}"
            yield _more(queue, where, about, limit, key="maxNodesPerJob", hint=hint)
            return


def _duration(queue: Queue, view: View) -> Iterator[Finding]:
    limit = queue.rules.max_duration_seconds
    if not limit:
        return
    endless = _endless(view)
    if endless is not None:
        where, hint = endless
        sentence = f"a StatefulSet never ends, and {queue.label} allows {limit} seconds "
        yield Finding(where, f"{sentence}(rules.maxDurationSeconds)", hint)
    if endless is not None and view.workload == "torchrun":
        return  # it has no deadline that could be set
    for where, seconds in _deadlines(view):
        hint = f"set it to at most {limit}"
        if not seconds:
            sentence = (
                f"a job without a time limit may run longer than the {limit} seconds that "
                f"{queue.label} allows (rules.maxDurationSeconds)"
            )
            yield Finding(where, sentence, hint)
        elif not isinstance(seconds, int) or not 0 < seconds <= limit:
            about = f"{seconds} seconds are"
            yield _more(queue, where, about, limit, key="maxDurationSeconds", hint=hint)


def _deadlines(view: View) -> list[tuple[ValuesPath, Any]]:
    """The seconds after which a job ends, with their paths: of an ElasticJob those of its pods."""
    if not _has_master(view):
        dotted = "runPolicy.activeDeadlineSeconds"
        return [(path(dotted), view[dotted])]
    key = "activeDeadlineSeconds"
    of_pods: dict[ValuesPath, Any] = {path("podTemplate.spec.activeDeadlineSeconds"): 0}
    of_pods |= {
        (*where, key): spec[key]
        for where, spec in _specs(view)
        if key in spec and where[:2] != view.path(_MASTER)
    }
    return list(of_pods.items())


def _endless(view: View) -> tuple[ValuesPath, str] | None:
    """The value that makes a StatefulSet of what trains, and how it is changed."""
    controller = view.get("own.controller", "")
    if view.workload == "torchrun" and controller == "StatefulSet":
        return view.path("own.controller"), "set it to Job"
    first = size(view)
    if view.workload != "mpi" or first is None or not first.gpus:
        return None
    if first.nodes <= int(view["own.runLauncherAsWorker"]):
        return None  # it is its launcher alone, which is a Job
    by_exec = view["own.transport"] == "exec"
    if controller == "StatefulSet":
        more = ", and mpi.transport to ssh" if by_exec else ""
        return view.path("own.controller"), f"set it to Job{more}"
    if by_exec and not controller:
        return view.path("own.transport"), "set it to ssh, whose workers are a Job"
    return None


def _images(queue: Queue, view: View) -> Iterator[Finding]:
    allowed = queue.rules.images
    if not allowed:
        return
    images: list[tuple[ValuesPath, str]] = [(path("image.repository"), _reference(view["image"]))]
    images += [
        ((*where, "image"), str(container.get("image") or ""))
        for where, container in _containers(view)
    ]
    for where, spec in _specs(view):
        for index, volume in enumerate(_items(spec, "volumes")):
            source = volume.get("image")
            if isinstance(source, dict):
                place = (*where, "volumes", index, "image", "reference")
                images.append((place, str(source.get("reference") or "")))
    master = (view.get(_MASTER, {}) or {}).get("master") or {}
    images.append((view.path(_MASTER, "master", "image"), str(master.get("image") or "")))
    for place, image in images:
        if image and not image_allowed(image, allowed):
            about = f"{image} is none of the images"
            yield _none_of(queue, place, about, "images", "use an image of one of these")


def _priority(queue: Queue, view: View) -> Iterator[Finding]:
    allowed = queue.rules.priority_classes
    if not allowed:
        return
    classes = [(path("scheduling.priorityClassName"), view["scheduling.priorityClassName"])]
    classes += [
        ((*where, "priorityClassName"), spec.get("priorityClassName"))
        for where, spec in _specs(view)
    ]
    for place, name in classes:
        if name and name not in allowed:
            about, hint = f"{name} is none of the classes", f"use one of {_list(allowed)}"
            yield _none_of(queue, place, about, "priorityClasses", f"{hint}, or leave it out")


def _host_path(queue: Queue, view: View) -> Iterator[Finding]:
    if queue.rules.allow_host_path:
        return
    for where, spec in _specs(view):
        for index, volume in enumerate(_items(spec, "volumes")):
            if volume.get("hostPath"):
                yield Finding(
                    (*where, "volumes", index, "hostPath"),
                    f"is a folder of the node, which {queue.label} does not allow "
                    "(rules.allowHostPath)",
                    "use a claim, such as storage.datasets.existingClaim",
                )


def _host_network(queue: Queue, view: View) -> Iterator[Finding]:
    if queue.rules.allow_host_network:
        return
    settings = [(path("network.hostNetwork"), view["network.hostNetwork"])]
    settings += [((*where, "hostNetwork"), spec.get("hostNetwork")) for where, spec in _specs(view)]
    sentence = f"{queue.label} does not allow the node's own network (rules.allowHostNetwork)"
    yield from (Finding(where, sentence, "leave it out") for where, on in settings if on is True)
    for where, container in _containers(view):
        for index, port in enumerate(_items(container, "ports")):
            if port.get("hostPort"):
                yield Finding(
                    (*where, "ports", index, "hostPort"),
                    f"{queue.label} does not allow ports of the node (rules.allowHostNetwork)",
                    "leave it out",
                )


def _privileged(queue: Queue, view: View) -> Iterator[Finding]:
    if queue.rules.allow_privileged:
        return
    for where, spec in _specs(view):
        for key in ("hostPID", "hostIPC"):
            if spec.get(key) is True:
                yield Finding(
                    (*where, key),
                    f"{queue.label} does not let pods see the processes of their node "
                    "(rules.allowPrivileged)",
                    "leave it out",
                )
    contexts: list[tuple[ValuesPath, Any]] = [
        (path("security.containerSecurityContext"), view["security.containerSecurityContext"])
    ]
    contexts += [
        ((*where, "securityContext"), container.get("securityContext"))
        for where, container in _containers(view)
    ]
    for where, context in contexts:
        if not isinstance(context, dict):
            continue
        if context.get("privileged") is True:
            yield Finding(
                (*where, "privileged"),
                f"{queue.label} allows no container that is privileged (rules.allowPrivileged)",
                "leave it out",
            )
        capabilities = (context.get("capabilities") or {}).get("add") or []
        more = [
            name for name in capabilities if str(name).removeprefix("CAP_") not in _CAPABILITIES
        ]
        if more:
            yield Finding(
                (*where, "capabilities", "add"),
                f"{queue.label} allows no container that adds {_list(map(str, more))} "
                "(rules.allowPrivileged)",
                "leave it out",
            )


def _more(
    queue: Queue, where: ValuesPath, about: str, limit: int, *, key: str, hint: str
) -> Finding:
    """A number that is above a rule's."""
    sentence = f"{about} more than the {limit} that {queue.label} allows (rules.{key})"
    return Finding(where, sentence, hint)


def _none_of(queue: Queue, where: ValuesPath, about: str, key: str, hint: str) -> Finding:
    """The entries that are in no list of a rule."""
    allowed = queue.rules.as_dict()[key]
    return Finding(
        where, f"{about} that {queue.label} allows (rules.{key}): {_list(allowed)}", hint
    )


def _has_master(view: View) -> bool:
    """Whether the job is an ElasticJob, which plans change."""
    return view.workload == "elastic" and view["own.mode"] == "auto"


def _further_workers(view: View) -> int:
    """The workers that plans may add to those that an elastic job starts with, by their most."""
    first = size(view)
    if first is None or not _has_master(view):
        return 0
    return max(0, int(view["own.auto"]["maxWorkers"]) - first.nodes)


def _gpus_of_plans(view: View) -> list[tuple[int, ValuesPath]]:
    """The GPUs that an elastic job may come to have, each with the value that says so."""
    first = size(view)
    if first is None or not _has_master(view):
        return []
    most = total_gpus(view)[0] + _further_workers(view) * first.gpus
    limit = int(view["own.auto"]["limits"]["gpu"])
    return [
        (most, view.path("own.auto", "maxWorkers")),
        (limit, view.path("own.auto", "limits", "gpu")),
    ]


def total_gpus(view: View) -> tuple[int, ValuesPath]:
    """The GPUs of all pods of a job as it starts, and the path of the value they come from.

    Args:
        view: of a rule that declares `TOTAL`.
    """
    first = size(view)
    gpus, where = _gpus_of(view, first), path("gpus" if view["gpus"] else "gpusPerNode")
    if first is not None:
        gpus += _spares(view) * first.gpus
    for name, role in _further_roles(view):
        of_role = int(role.get("replicas") or 0) * int(role.get("gpusPerPod") or 0)
        gpus += of_role
        if of_role and not gpus - of_role:
            where = view.path("own.roles", name, "gpusPerPod")
    return gpus, where


def _gpus_of(view: View, first: RequestedSize | None) -> int:
    if first is None:
        return int(view["gpus"])
    # Of an MPI job the last node may have fewer.
    return int(view["gpus"]) or first.nodes * first.gpus


def total_pods(view: View) -> int:
    """The pods of a job as it starts, of all its roles; 0 where its size contradicts itself.

    Args:
        view: of a rule that declares `TOTAL`.
    """
    first = size(view)
    if first is None:
        return 0
    of_roles = sum(int(role.get("replicas") or 0) for _, role in _further_roles(view))
    return first.nodes + _spares(view) + of_roles


def _spares(view: View) -> int:
    """The pods of a torchrun job that stand by, with the GPUs of the others."""
    return int(view["torchrun.spares"]) if view.workload == "torchrun" else 0


def _further_roles(view: View) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The roles of an elastic job besides its workers, which are its nodes."""
    if view.workload == "elastic":
        yield from ((name, role) for name, role in view["own.roles"].items() if name != _WORKER)


def _specs(view: View) -> Iterator[tuple[ValuesPath, Mapping[str, Any]]]:
    """The pod specs that the values have, each with its path."""
    templates = [(path("podTemplate"), view["podTemplate"])]
    for dotted in roles(view):
        role = view.get(dotted, {}) or {}
        templates.append((view.path(dotted, "podTemplate"), role.get("podTemplate")))
    master = (view.get(_MASTER, {}) or {}).get("master") or {}
    templates.append((view.path(_MASTER, "master", "podTemplate"), master.get("podTemplate")))
    for where, template in templates:
        spec = template.get("spec") if isinstance(template, dict) else None
        if isinstance(spec, dict):
            yield (*where, "spec"), spec


def _containers(view: View) -> Iterator[tuple[ValuesPath, Mapping[str, Any]]]:
    for where, spec in _specs(view):
        for key in _CONTAINERS:
            for index, container in enumerate(_items(spec, key)):
                yield (*where, key, index), container


def _items(node: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings of a list of a raw Kubernetes piece, whatever else is there."""
    value = node.get(key)
    if not isinstance(value, list):
        return []
    return [item if isinstance(item, dict) else {} for item in value]


def _reference(image: Mapping[str, Any]) -> str:
    """An image as the charts write it."""
    repository = str(image["repository"])
    if image["digest"]:
        return f"{repository}@{image['digest']}"
    return f"{repository}:{image['tag']}" if image["tag"] else repository


def _list(texts: Iterable[str]) -> str:
    return ", ".join(texts)


if TYPE_CHECKING:
    _Find = Callable[[Queue, View], Iterator[Finding]]
