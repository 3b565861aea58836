"""Why no pod runs a sweep that should run inside the cluster, for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths
from allranks.status.fields import condition, holds, items, text

if TYPE_CHECKING:
    from allranks.model.manifest import Manifest
    from allranks.sweep.storage.secretkeeper import SecretKeeper

# A container that has not been tried yet, which is no trouble.
_ON_ITS_WAY = frozenset({"ContainerCreating", "PodInitializing", ""})


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong.

    Attributes:
        why: in words; "" where nothing is.
        job: the runner's newest Job.
        is_final: it starts no pod any more.
    """

    why: str = ""
    job: str = ""
    is_final: bool = False


def trouble(kept: SecretKeeper) -> Trouble:
    """Look at the Job and the pods of a sweep's runner.

    Raises:
        AllranksError: the cluster does not answer, or forbids it.
    """
    jobs = sorted(kept.jobs(), key=lambda job: str(job["metadata"]["creationTimestamp"]))
    if not jobs:
        return Trouble("its runner was uninstalled", is_final=True)
    job = jobs[-1]
    name = str(job["metadata"]["name"])
    states = items(job, "status", "conditions")
    if holds(states, "Failed"):
        return Trouble(text(condition(states, "Failed"), "message") or "it failed", name, True)
    pods = kept.cluster.list(
        paths.PODS, namespace=kept.namespace, label_selector=f"{names.JOB_NAME}={name}"
    )
    found = [why for why in map(_why, pods) if why]
    return Trouble(found[-1] if found else "", name)


def _why(pod: Manifest) -> str:
    name = str(pod["metadata"]["name"])
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    if text(scheduled, "status") == "False":
        return f"the runner's pod {name} waits for a node: {text(scheduled, 'message')}"
    for one in items(pod, "status", "containerStatuses"):
        waiting = (one.get("state") or {}).get("waiting") or {}
        if str(waiting.get("reason") or "") not in _ON_ITS_WAY:
            said = str(waiting.get("message") or "")
            return f"the runner's pod {name} does not start: {waiting['reason']}: {said}".rstrip(
                ": "
            )
    return ""
