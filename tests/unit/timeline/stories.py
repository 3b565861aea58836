"""A run of two pods that waits in a queue, trains, loses a pod, and trains to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks.model.rank_lines import LogWriters
from allranks.status.reduce import reduce
from allranks.timeline import log_marks, of_objects
from tests.unit.status import samples

if TYPE_CHECKING:
    from allranks.timeline.model import Timeline

LENGTH = "{:.0f}s".format


def timed(index: int, start: float, end: float, code: int, suffix: str) -> samples.Manifest:
    """A pod that was placed two seconds after it was made, and ran."""
    creation = start - 5
    state = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": samples.stamp(start),
        "finishedAt": samples.stamp(end),
    }
    pod = samples.pod(
        index,
        "Failed" if code else "Succeeded",
        samples.container({"terminated": state}),
        created=creation,
        suffix=suffix,
    )
    pod["status"]["conditions"] = [samples.condition("PodScheduled", at=creation + 2)]
    return pod


def log(*steps: tuple[float, int]) -> list[str]:
    """Lines as the API server gives them, of the lower of two ranks."""
    lines = [f'{samples.stamp(at)} [0] {{"step": {step}, "loss": 0.5}}' for at, step in steps]
    other = [f'{samples.stamp(at)} [1] {{"step": {step}}}' for at, step in steps]
    return [f"{samples.stamp(0)} importing", *lines, *other]


def trained() -> Timeline:
    """Created at 0; steps from 40 on; a pod fails at 62 and step 3 is done again."""
    job = samples.job(
        conditions=[samples.condition("Complete", at=100)],
        metadata={"creationTimestamp": samples.stamp(0), "labels": {**samples.labels()}},
        status={"startTime": samples.stamp(20), "completionTime": samples.stamp(100)},
    )
    admitted = samples.workload(conditions=[samples.condition("Admitted", at=20)])
    pods = [
        timed(0, 30, 100, 0, "aaaaa"),
        timed(1, 28, 62, 137, "bbbbb"),
        timed(1, 70, 100, 0, "ccccc"),
    ]
    pulled = samples.event("Pulled", "pulled", kind="Pod", name="demo-0-aaaaa", at=29)
    also = samples.event("Pulled", "pulled", kind="Pod", name="demo-1-bbbbb", at=27)
    observation = samples.observe(job, admitted, pods=pods, events=[pulled, also])
    lines = [
        *log((40, 1), (50, 2), (60, 3), (80, 3), (90, 4)),
        f"{samples.stamp(36)} allranks: rendezvous complete",
        f'{samples.stamp(91)} {{"saved": true, "step": 4}}',
    ]
    marks = log_marks.read(lines, LogWriters(2, prefixed=True), "demo-0-aaaaa", stamped=True)
    return of_objects.build(
        observation, reduce(observation), {"demo-0-aaaaa": marks}, frozenset({"demo-0-aaaaa"})
    )
