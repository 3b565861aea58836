"""Edits of the counts in a job's spec, by hand or by `kubectl scale`, as plans.

The counts that were last applied stand in `status.observedReplicas`. A count that differs becomes a
ScalePlan named after the spec's generation, with the counts in an annotation; once that plan has
been admitted, they are the observed ones. No other plan changes the observed counts. The first
decision takes the counts as they are: the job begins with them.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic.actions import CreatePlan
from allranks.elastic.api.plan import MANUAL
from allranks.elastic.pods import metadata as pod_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.elastic.api.job import ElasticJob
    from allranks.elastic.api.plan import ScalePlan
    from allranks.k8s.manifest import Manifest


def applied_counts(job: ElasticJob, plans: Iterable[ScalePlan]) -> dict[str, int]:
    """Return the counts of the spec that plans have applied.

    Args:
        job: the job.
        plans: the plans that are being admitted now, in order.
    """
    if job.observed is None:
        return job.requested
    counts = {kind: replicas for kind, replicas in job.observed.items() if kind in job.requested}
    for plan in plans:
        if _is_own_edit(job, plan):
            counts |= {
                kind: replicas for kind, replicas in plan.edit.items() if kind in job.requested
            }
    return counts


def plan_for_edit(
    job: ElasticJob, counts: Mapping[str, int], plans: Iterable[ScalePlan]
) -> CreatePlan | None:
    """Return the creation of the plan for an edit; None without an edit, or where its plan exists.

    Args:
        job: the job.
        counts: the result of `applied_counts`.
        plans: the job's plans.
    """
    changed = {
        kind: replicas for kind, replicas in job.requested.items() if counts.get(kind) != replicas
    }
    if not changed:
        return None
    present = {plan.name: plan for plan in plans}
    name = usual = f"{_stem(job)}{job.generation}"
    for number in count(1):
        if name not in present:
            break
        if _is_own_edit(job, present[name]):
            return None
        name = f"{usual}-{number}"  # somebody else's plan is called so
    return CreatePlan(_plan(job, name, changed))


def _stem(job: ElasticJob) -> str:
    return f"{job.name}-edit-"


def _is_own_edit(job: ElasticJob, plan: ScalePlan) -> bool:
    """Whether a plan was created here for an edit; a copy of it has another name."""
    return bool(plan.edit) and plan.owner_uid == job.uid and plan.name.startswith(_stem(job))


def _plan(job: ElasticJob, name: str, changed: Mapping[str, int]) -> Manifest:
    own = {**pod_metadata.common(job), names.SCALE_TYPE: MANUAL}
    plan_annotations = {names.EDIT: json.dumps(changed, separators=(",", ":"), sort_keys=True)}
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {**pod_metadata.metadata(job, name, own), "annotations": plan_annotations},
        "spec": {
            "ownerJob": job.name,
            "replicaResourceSpecs": {
                kind: {"replicas": replicas} for kind, replicas in sorted(changed.items())
            },
        },
    }
