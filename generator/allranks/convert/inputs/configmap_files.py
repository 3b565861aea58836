"""Files of ConfigMaps that containers mount: what in them was there by the old controller alone.

A script that a container runs of a ConfigMap is read by nobody but the container. Where the input
has the ConfigMap, names of the old controller's pods in it are said, as those of a command are.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import finish
from allranks.convert.pods import containers, in_cluster_access
from allranks.convert.pods.kubeflow_pod_names import ROLES
from allranks.convert.programs import nested_launcher, references, shell_comments
from allranks.convert.verdicts import Outcome
from allranks.k8s import fields as k8s
from allranks.values.merge import overlay

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath

    # The texts of a ConfigMap of the input, by their keys; none where the input has no such map.
    Find = Callable[[str], Mapping[str, str]]

_READS_HOST_NAME = re.compile(
    r"\$\{?HOSTNAME\b|\$\(hostname\b|`hostname\b|[\"']HOSTNAME[\"']|\bgethostname\(", re.ASCII
)


def of(
    pod: Mapping[str, Any], container: Mapping[str, Any], texts_of: Find
) -> Iterator[tuple[int, str, str, str]]:
    """The files that a container has of ConfigMaps of the input.

    Args:
        pod: the spec of its pod.
        container: the container.
        texts_of: the texts of a ConfigMap of the input, by its name.

    Returns:
        Of each: the index of its volumeMount, the ConfigMap, the file's path and its text.
    """
    volumes = {k8s.text(volume, "name"): volume for volume in k8s.items(pod, "volumes")}
    for index, mount in k8s.numbered_items(container, "volumeMounts"):
        volume = volumes.get(k8s.text(mount, "name"), {})
        sources = [k8s.mapping(volume, "configMap")]
        sources += [
            k8s.mapping(source, "configMap") for source in k8s.items(volume, "projected", "sources")
        ]
        folder, only = k8s.text(mount, "mountPath").rstrip("/"), k8s.text(mount, "subPath")
        for source in sources:
            name = k8s.text(source, "name")
            for path, text in _of_source(source, texts_of):
                if only in ("", path):
                    yield index, name, folder if only else f"{folder}/{path}", text


def _of_source(source: Mapping[str, Any], texts_of: Find) -> Iterator[tuple[str, str]]:
    """The files of a ConfigMap below its mount, and their texts."""
    paths = {k8s.text(item, "key"): k8s.text(item, "path") for item in k8s.items(source, "items")}
    for key, text in texts_of(k8s.text(source, "name")).items():
        if path := paths.get(key, "") if paths else key:
            yield path, text


# A manifest that the program submits: what stands in it is of other pods.
_OF_OBJECT = re.compile(
    r"^apiVersion:.*\n(?:.*\n)*?kind:|^kind:.*\n(?:.*\n)*?apiVersion:", re.MULTILINE
)


def checked(conversion: Conversion, source: Mapping[str, Any], texts_of: Find) -> Conversion:
    """A conversion that says which mounted files name what only the old controller had.

    Args:
        conversion: the conversion.
        source: the object that was converted.
        texts_of: the texts of a ConfigMap of the input, by its name.
    """
    job = k8s.text(source, "metadata", "name")
    pod = _pods(source, job)
    role = "" if conversion.values.get("workload") == "torchrun" else f"{ROLES}-"
    same = rf"(?<![\w/.-]){re.escape(job)}-{role}\d+\.{re.escape(job)}(?![\w-])"
    verdicts, notes = list(conversion.verdicts), dict.fromkeys(conversion.notes)
    values = conversion.values
    for mount, file, script in _files(source, texts_of):
        if k8s.at(values, *in_cluster_access.TOKEN) is None and in_cluster_access.asks_api(script):
            values = overlay(values, {"serviceAccount": {"automountToken": True}})
            notes[in_cluster_access.note_of_token(file)] = None
        variable = in_cluster_access.service_variable(script)
        if k8s.at(values, *in_cluster_access.LINKS) is None and variable:
            values = overlay(values, {"podTemplate": {"spec": {"enableServiceLinks": True}}})
            notes[in_cluster_access.note_of_links(file, variable)] = None
        names_any = any(word in script for word in (f"{job}-", "PET_", "HOSTNAME", "hostname"))
        if not names_any or _OF_OBJECT.search(script):
            continue
        text = shell_comments.without(script)
        match = re.search(pod, text) if job else None
        if match is not None and re.search(pod, re.sub(same, "", text)) is None:
            notes[f"{file} names pods of the release {job}: give the release this name"] = None
        elif match is not None:
            why = f"{file} names {match[0]}, a pod of the old controller: read MASTER_ADDR there, "
            why += "or the names that `allranks render` shows"
            verdicts = [
                replace(verdict, outcome=Outcome.NOT_CARRIED, to="", why=why)
                if verdict.keys == (*mount, "mountPath")
                else verdict
                for verdict in verdicts
            ]
        for variable in _unset(conversion, source, text):
            notes[f"{file} reads {variable}, which the old controller set, and nothing here"] = None
        if _READS_HOST_NAME.search(text):
            notes[f"{file} reads the pod's host name, which is another one here"] = None
    if values is not conversion.values:
        values = finish.written(values)
    return replace(conversion, values=values, verdicts=tuple(verdicts), notes=tuple(notes))


def _pods(source: Mapping[str, Any], job: str) -> str:
    """A regular expression for the names of the old controller's pods."""
    key = (k8s.text(source, "apiVersion").partition("/")[0], k8s.text(source, "kind"))
    roles = [ROLES]
    if key[1] == "JobSet":
        names = [k8s.text(item, "name") for item in k8s.items(source, "spec", "replicatedJobs")]
        roles = [rf"{re.escape(name)}-\d+" for name in names]
    elif key == ("batch.volcano.sh", "Job"):
        roles = [re.escape(k8s.text(task, "name")) for task in k8s.items(source, "spec", "tasks")]
    elif key[1] in ("Job", "StatefulSet"):
        roles = []
    middle = rf"(?:{'|'.join(roles)})-" if roles else ""
    return rf"(?<![\w/.-]){re.escape(job)}-{middle}\d+(?![\w-])"


def _unset(conversion: Conversion, source: Mapping[str, Any], text: str) -> list[str]:
    """The variables that the operator of PyTorchJobs sets, a text reads and no process has."""
    if source.get("kind") != "PyTorchJob" or conversion.values.get("workload") != "torchrun":
        return []
    command = k8s.texts(conversion.values.get("command"))
    has_own_launcher = nested_launcher.length(command) > 0
    names = references.mentions((text,), ("PET_*",))
    return [name for name in names if name.startswith("PET_RDZV_") or not has_own_launcher]


def _files(source: Mapping[str, Any], texts_of: Find) -> Iterator[tuple[FieldPath, str, str]]:
    """The mounted files of an object: the volumeMount, what the file is called, and its text."""
    for here, pod, container in containers.of(source):
        for index, config_map, file, text in of(pod, container, texts_of):
            yield (*here, "volumeMounts", index), f"{file} of ConfigMap {config_map}", text
