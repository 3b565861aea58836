"""Conditions of a job that are there only where something is to be said: Odd and Mixed.

Neither keeps a job from getting on, so that no phase tells of them, and who waits for a job does
not wait for their end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.pods import templates
from allranks.elastic.reasons import JOB_ODD
from allranks.model.status import PodPhase
from allranks.status.fields import condition, items, mapping, text
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.elastic.job import ElasticJob
    from allranks.model.manifest import Manifest

# A job whose spec cannot be read as a whole; a job whose pods were made from several templates.
_ODD, _MIXED = "Odd", "Mixed"
_SEVERAL_IMAGES = "SeveralImages"
_PROBLEMS_SHOWN, _IMAGES_SHOWN = 8, 4
_ACTIVE = ("", PodPhase.PENDING, PodPhase.RUNNING)
_FIX = f"`{names.CLI} upgrade {{}} --recreate` replaces all of them"
_DELETE = "one that is deleted is made anew of the present template"


def conditions(job: ElasticJob, pods: Sequence[Manifest], stamp: str) -> Iterator[Manifest]:
    """What is to be said.

    Args:
        job: the job.
        pods: those it has, of its trainers.
        stamp: the time of what is new, as `allranks.status.conditions.stamp` writes it.
    """
    if job.problems:
        told = some(job.problems, _PROBLEMS_SHOWN, "; ")
        yield _condition(job, _ODD, JOB_ODD, told, stamp)
    mixed = [f"{kind} pods run {one}" for kind, one in _mixed(pods)]
    if mixed:
        release = job.labels.get(names.APP_INSTANCE)
        told = "; ".join((*mixed, _FIX.format(release) if release else _DELETE))
        yield _condition(job, _MIXED, _SEVERAL_IMAGES, told, stamp)


def _mixed(pods: Iterable[Manifest]) -> Iterator[tuple[str, str]]:
    """The types whose pods have several images, and which; they train together all the same."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in pods:
        metadata, containers = mapping(pod.get("metadata")), items(pod, "spec", "containers")
        ended = text(pod, "status", "phase") not in _ACTIVE
        if containers and not ended and "deletionTimestamp" not in metadata:
            image = text(containers[templates.main_index(containers)], "image")
            found[text(metadata, "labels", names.EDL_TYPE)][image] += 1
    for kind, images in sorted(found.items()):
        if len(images) > 1:
            shown = sorted(images.items())[:_IMAGES_SHOWN]
            yield kind, ", ".join(f"{image} ({count})" for image, count in shown)


def _condition(job: ElasticJob, kind: str, reason: str, message: str, stamp: str) -> Manifest:
    before = condition(items(job.status, "conditions"), kind)
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": job.generation,
        "lastTransitionTime": text(before, "lastTransitionTime") or stamp,
    }
