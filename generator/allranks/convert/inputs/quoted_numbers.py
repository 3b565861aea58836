"""Texts where Kubernetes takes a whole number: ``replicas: "2"``, which no cluster accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from allranks.convert.inputs import pod_fields
from allranks.convert.verdicts import dotted
from allranks.k8s.fields import digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from allranks.convert.verdicts import FieldPath

# Whole numbers in all the kinds that have them: a port of a probe and a maxUnavailable may be
# a name or a share, and Kubeflow's nprocPerNode is a text.
_NUMBERS = frozenset(
    (
        *("replicas", "minReplicas", "maxReplicas", "maxRestarts", "slotsPerWorker", "numNodes"),
        *("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"),
        *("ttlSecondsAfterFinished", "terminationGracePeriodSeconds", "containerPort", "hostPort"),
        *("parallelTrialCount", "maxTrialCount", "maxFailedTrialCount", "fsGroup", "runAsUser"),
        *("runAsGroup", "minMember", "maxRetry", "defaultMode"),
    )
)


def notes(manifest: Mapping[str, Any], place_of: Callable[[FieldPath], str]) -> Iterator[str]:
    """A sentence for each text that stands where Kubernetes takes a number, and that is one.

    Args:
        manifest: the object.
        place_of: the file of a field, and its line where that is known.
    """
    for path, text in pod_fields.texts(manifest):
        number = digits(text) if path[-1] in _NUMBERS else None
        if number is not None:
            yield (
                f"{dotted(path)}: {json.dumps(text)} is a text, and Kubernetes takes a number: it "
                f"is read as {number} here; write it without quotes ({place_of(path)})"
            )
