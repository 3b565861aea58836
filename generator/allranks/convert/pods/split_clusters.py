"""Pods that are some of the tasks of a TensorFlow cluster, whose others are in other objects.

People without a controller for it write a StatefulSet for each role, and the whole cluster into
TF_CONFIG of both. Each would be a run of its own here, told of itself alone: the parameter server
would train as a worker, and the worker would have none. So they are refused.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.pods.podsets import TENSORFLOW, TENSORFLOW_ROLES
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.humanize import plural
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from allranks.convert.pods.podsets import PodSet, Shape
    from allranks.convert.verdicts import FieldPath

_VARIABLE = "TF_CONFIG"
# Its JSON, as a variable has it, or a script between quotes of either kind.
_QUOTE = r"\\?[\"']"
_CLUSTER = re.compile(rf"{_QUOTE}cluster{_QUOTE}\s*:\s*\{{([^{{}}]*)")
_ROLE = re.compile(rf"{_QUOTE}(\w+){_QUOTE}\s*:\s*\[([^\]]*)")
_HOST = re.compile(rf"{_QUOTE}([\w.-]+)(?::\w+)?{_QUOTE}", re.ASCII)
_TASK = re.compile(rf"{_QUOTE}type{_QUOTE}\s*:\s*{_QUOTE}(\w+)")
# The same as options of TensorFlow 1's programs.
_ROLE_OPTION = re.compile(r"(?<![\w-])--(ps|worker)_hosts(?:=|\s+)(\S+)")
_HOST_OF_LIST = re.compile(r"([\w.-]+)(?::\w+)?", re.ASCII)
_TASK_OPTION = re.compile(r"(?<![\w-])--job_name(?:=|\s+)(\w+)")
_OF_THE_POD = ("localhost", "127.0.0.1")


def refuse(shape: Shape) -> None:
    """Refuse pods whose cluster has roles, or more hosts, than there are in their object.

    Args:
        shape: the job that the pods of an object are.

    Raises:
        InputError: part of the cluster is in another object.
    """
    if shape.key != TENSORFLOW:
        return
    sets = [podset for own in shape.roles.values() for podset in own]
    total = sum(podset.replicas for podset in sets)
    for podset in sets:
        for path, text in _texts(podset):
            sign, hosts_by_role, task = _cluster(text)
            if len(sets) > 1:
                missing_roles = set(hosts_by_role) - set(shape.roles)
            else:  # its program alone says its role
                missing_roles = _beside(task, hosts_by_role)
            hosts = {host for hosts in hosts_by_role.values() for host in hosts}
            if missing_roles:
                roles = ", ".join(sorted(role.lower() for role in missing_roles))
                problem = f"its {sign} has roles that are not in this object ({roles})"
            elif len(hosts) > total:
                problem = f"its {sign} has {len(hosts)} hosts, and this object has "
                problem += plural(total, "pod")
            else:
                continue
            raise InputError(
                f"{problem}: it is part of a cluster, and would run by itself here",
                path=dotted(path),
                hint="write all roles of the cluster as one TFJob, and convert that",
            )


def _beside(task: str, hosts_by_role: Mapping[str, Collection[str]]) -> set[str]:
    """The roles of a cluster that are not that of its task, nor in pods of the same names."""
    if not task:
        return set()
    own = set(map(_stem, hosts_by_role.get(task, ())))
    return {
        role
        for role, hosts in hosts_by_role.items()
        if role != task and not set(map(_stem, hosts)) <= own
    }


def _stem(host: str) -> str:
    """The name of a pod without its number: ``train-ps`` of ``train-ps-0.train-ps``."""
    return re.sub(r"-\d+$", "", host.partition(".")[0])


def _cluster(text: str) -> tuple[str, dict[str, set[str]], str]:
    """How a text says a cluster, its hosts by role, and the task; "" for no such task."""
    cluster = _CLUSTER.search(text)
    if cluster is not None:
        sign, task = _VARIABLE, _TASK.search(text)
        pairs = [(name, _HOST.findall(hosts)) for name, hosts in _ROLE.findall(cluster[1])]
    else:
        sign, task = "command", _TASK_OPTION.search(text)
        options = _ROLE_OPTION.findall(text)
        pairs = [(name, _HOST_OF_LIST.findall(hosts)) for name, hosts in options]
    hosts_by_role = {_role(name): set(hosts).difference(_OF_THE_POD) for name, hosts in pairs}
    hosts_by_role = {role: hosts for role, hosts in hosts_by_role.items() if hosts}
    return sign, hosts_by_role, _role(task[1]) if task is not None else ""


def _role(name: str) -> str:
    """A role, whatever a cluster calls it."""
    return TENSORFLOW_ROLES.get(name.lower(), name)


def _texts(podset: PodSet) -> Iterator[tuple[FieldPath, str]]:
    """What may say the cluster of a set's pods: a variable, and what they run."""
    here: FieldPath = (*podset.path, "spec", "containers", podset.index)
    entries = podset.main.get("env")
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if k8s.text(entry, "name") == _VARIABLE:
            yield (*here, "env", index, "value"), k8s.text(entry, "value")
    for key in ("command", "args"):
        yield (*here, key), " ".join(k8s.texts(podset.main.get(key)))
