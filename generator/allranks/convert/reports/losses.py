"""What a conversion loses of an object, and values do not have for it either.

Pods that are the same may still not run as they did: a word that names a pod of the old controller
is there, and the pod is not. The conversion of the object says so, and whether a person has mended
it in the values is seen from what these have otherwise than the conversion's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from allranks.convert.reports.pod_facets import OUR_FOLDERS
from allranks.convert.verdict_groups import common_path, grouped
from allranks.convert.verdicts import dotted
from allranks.k8s.fields import at, text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from allranks.convert.verdicts import Conversion, FieldPath, Verdict

_PODS = ("pods", "ranks of a training", "nodes of a training")
# Of words, and what else says that other ranks are started by them.
_WORDS = ("command", "setup")
_OF_RANKS = {*_PODS, "RANK, WORLD_SIZE and MASTER_ADDR"}
# The settings of pods that a field is compared by, where they are not called as it is; one that
# ends with a blank is any that begins so.
_SETTINGS: dict[str, tuple[str, ...]] = {
    "command": _WORDS,
    "args": _WORDS,
    "image": ("image", "image pulled"),
    "imagePullPolicy": ("image pulled",),
    "terminationGracePeriodSeconds": ("grace",),
    "serviceAccountName": ("service account",),
    "serviceAccount": ("service account",),
    "schedulerName": ("scheduler",),
    "volumes": ("mount ",),
    "volumeClaimTemplates": ("mount ",),
    "volumeClaimPolicies": ("mount ",),
    **dict.fromkeys(("replicas", "completions", "parallelism", "numNodes", "numWorkers"), _PODS),
    **dict.fromkeys(("minReplicas", "maxReplicas", "nprocPerNode", "numProcPerNode"), _PODS),
    "slotsPerWorker": (*_PODS, "/etc/mpi/hostfile"),
}
# Fields whose next step is the name of what is compared.
_NAMED = {
    "limits": ("limit", "request"),
    "requests": ("limit", "request"),
    "securityContext": ("security",),
    "labels": ("label",),
    "annotations": ("annotation",),
}
# Lists of which each item is compared by a field of its own.
_ITEMS = {
    "env": ("env", "name"),
    "volumeMounts": ("mount", "mountPath"),
    "initContainers": ("init container", "name"),
    "containers": ("container", "name"),
}
# Annotations of what the pods of a job have for themselves, which their affinity says.
_EXCLUSIVE = "exclusive-topology"
_VALUES_PATH = re.compile(r"[A-Za-z]\w*(?:\.\w+)*")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Loss:
    """A field that a conversion loses.

    Attributes:
        path: the field in its object.
        why: the reason.
        source: its file and line; "" where they are not known.
    """

    path: str
    why: str
    source: str = ""

    def __str__(self) -> str:
        """The loss as a sentence, which is true whatever the values have."""
        place = f"{self.source}: " if self.source else ""
        return f"{place}{self.path}: not carried by convert: {self.why}"

    def as_dict(self) -> dict[str, str]:
        """The JSON form."""
        return {"path": self.path, "why": self.why, "source": self.source}


@dataclass(frozen=True, slots=True)
class Changes:
    """What values have otherwise than those that a conversion makes.

    Attributes:
        values: the values.
        settings: the settings of their pods that are others.
    """

    values: Mapping[str, Any]
    settings: frozenset[str] = frozenset()


def remaining(
    conversion: Conversion, changes: Changes, differences: Collection[str]
) -> Iterator[Loss]:
    """The losses of a conversion that values have, too, and no difference says.

    Args:
        conversion: the object, converted.
        changes: what the values have otherwise.
        differences: the settings in which the pods are not those of the object.
    """
    for own in (conversion, conversion.runtime):
        if own is None:
            continue
        losses = [
            loss
            for loss in own.lost
            if not _is_shown(loss, own.manifest, differences)
            and not _is_mended(loss, own.manifest, conversion.values, changes)
        ]
        for loss in _merged(grouped(losses)):
            yield Loss(loss.path, loss.why, own.where(loss))


def _merged(losses: Iterable[Verdict]) -> list[Verdict]:
    """Losses with neighbours of one reason put into that of the field that all stand in."""
    merged: list[Verdict] = []
    for loss in losses:
        last = merged[-1] if merged else None
        above = common_path(last.keys, loss.keys) if last is not None else ()
        # Items of a list, such as roles and tasks, are each a place to look at.
        steps = loss.keys[len(above) : len(above) + 1]
        is_field = len(above) > 1 and not any(isinstance(step, int) for step in steps)
        if last is not None and is_field and last.why == loss.why:
            merged[-1] = replace(last, path=dotted(above), keys=above)
        else:
            merged.append(loss)
    return merged


def _is_shown(loss: Verdict, manifest: Mapping[str, Any], differences: Collection[str]) -> bool:
    if _OF_RANKS & set(differences) and {"command", "args"} & set(loss.keys):
        return True
    if _is_of_our_folders(loss, manifest):
        return False
    return any(_has(differences, setting) for setting in _settings(loss.keys, manifest))


def _is_of_our_folders(loss: Verdict, manifest: Mapping[str, Any]) -> bool:
    """Whether a loss is a mount that pods of ours have for themselves, and that is not compared."""
    if "volumeMounts" not in loss.keys:
        return False
    mount: Any = manifest
    for key in loss.keys[: loss.keys.index("volumeMounts") + 2]:
        mount = _below(mount, key)
    return text(mount, "mountPath").startswith(OUR_FOLDERS)


def _is_mended(
    loss: Verdict, manifest: Mapping[str, Any], values: Mapping[str, Any], changes: Changes
) -> bool:
    """Whether the values have something else where a loss would be mended."""
    if any(_has(changes.settings, setting) for setting in _settings(loss.keys, manifest)):
        return True
    variables = {name[4:] for name in changes.settings if name.startswith("env ")}
    if variables & set(_NAME.findall(loss.why)):
        return True
    places = [to.split(".") for to in loss.to.split(", ") if _VALUES_PATH.fullmatch(to)]
    return any(at(values, *place) != at(changes.values, *place) for place in places)


def _has(settings: Collection[str], setting: str) -> bool:
    """Whether a setting is among some; what ends with a blank is any that begins so."""
    if setting.endswith(" "):
        return any(own.startswith(setting) for own in settings)
    return setting in settings


def _settings(keys: FieldPath, manifest: Mapping[str, Any]) -> Iterator[str]:
    """The settings by which a field is compared."""
    node: Any = manifest
    for place, key in enumerate(keys):
        node = _below(node, key)
        after = keys[place + 1 : place + 2]
        if not isinstance(key, str):
            continue
        if key in _ITEMS and after:
            word, name = _ITEMS[key]
            item = _below(node, after[0])
            yield f"{word} {text(item, name)}"
        elif key in _NAMED and after:
            yield from (f"{word} {after[0]}" for word in _NAMED[key])
        else:
            yield from _SETTINGS.get(key, (key,))
        if key.endswith(_EXCLUSIVE):
            yield "affinity"


def _below(node: Any, key: str | int) -> Any:
    if isinstance(node, list) and isinstance(key, int):
        return node[key] if key < len(node) else None
    return node.get(key) if isinstance(node, dict) else None
