"""What a TrainJob lays over the pods' templates of its runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from allranks.convert.jobs.rewrite import Rewrite
    from allranks.convert.verdicts import FieldPath, Fields

PATCHES: FieldPath = ("spec", "runtimePatches")
OVERRIDES: FieldPath = ("spec", "podTemplateOverrides")
# What a patch lays over lists of named things, by their names; other lists it replaces.
_NAMED_LISTS = (
    "volumes",
    "initContainers",
    "containers",
    "env",
    "volumeMounts",
    "imagePullSecrets",
)


def patches(fields: Fields) -> Iterator[tuple[FieldPath, set[str]]]:
    """What is laid over the pods' template, and for which replicated jobs."""
    yield from overrides(fields, OVERRIDES)
    for index, _ in fields.items(*PATCHES):
        template: FieldPath = (*PATCHES, index, "trainingRuntimeSpec", "template")
        jobs: FieldPath = (*template, "spec", "replicatedJobs")
        for number, own in fields.items(*jobs):
            yield (*jobs, number, "template", "spec", "template"), {str(own.get("name"))}


def overrides(fields: Fields, path: FieldPath) -> Iterator[tuple[FieldPath, set[str]]]:
    """The overrides of a list, and the replicated jobs that each is for."""
    for index, item in fields.items(*path):
        yield (*path, index), {str(own.get("name")) for own in k8s.items(item, "targetJobs")}


def lay(target: Rewrite, source: FieldPath, to: FieldPath) -> None:
    """Lay the fields of a patch over a template: mappings and named things are merged."""
    for key in ("metadata", "spec"):
        over(target, (*source, key), (*to, key))


def over(target: Rewrite, source: FieldPath, to: FieldPath) -> None:
    """Lay a field over another: mappings and lists of named things are merged.

    Args:
        target: what the TrainJob is written as.
        source: the field.
        to: what it is laid over.
    """
    value = target.fields.get(*source)
    if isinstance(value, dict) and value:
        for key in value:
            over(target, (*source, key), (*to, key))
    elif isinstance(value, list) and to[-1] in _NAMED_LISTS:
        for index, item in target.fields.items(*source):
            over_item(target, (*source, index), to, item)
    elif value is not None:
        target.copy(source, to)


def over_item(target: Rewrite, source: FieldPath, to: FieldPath, item: Mapping[str, Any]) -> None:
    """Lay a named thing over the one of its name in a list, or put it behind the others."""
    items = target.get(to)
    places = [own.get("name") for own in items] if isinstance(items, list) else []
    if item.get("name") in places:
        over(target, source, (*to, places.index(item.get("name"))))
    else:
        target.copy(source, (*to, len(places)))
