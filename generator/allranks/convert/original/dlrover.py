"""The pods that DLRover's master makes for an ElasticJob as it starts, with its own pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.original import OriginalPod
from allranks.convert.original.templates import main, name_of, replica_specs
from allranks.k8s.fields import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.document import Manifest


def pods(manifest: Manifest) -> list[OriginalPod]:
    """The pods of the training; the master's own is another program here.

    Args:
        manifest: the object.
    """
    name = name_of(manifest)
    variables = [
        {**value, "name": str(key)}
        for key, value in mapping(manifest, "spec", "envs").items()
        if isinstance(value, dict)
    ]
    specs = mapping(manifest, "spec", "replicaSpecs")
    roles = (
        (role, number, _scheduled(_with(template, variables), mapping(specs, role)))
        for role, number, template in replica_specs(manifest, "replicaSpecs")
        if role != names.EDL_MASTER
    )
    return [
        OriginalPod(f"{name}-edljob-{role}-{index}", role, index, template, main(template, "main"))
        for role, number, template in roles
        for index in range(_number(manifest, role, number))
    ]


def _number(manifest: Manifest, role: str, number: int) -> int:
    """How many pods of a role its master makes of the number that the job says.

    With parameter servers a chief without a number is one of the workers, and there are no
    evaluators without one (dlrover/python/master/resource/job.py, adjust_worker_for_estimator).
    """
    specs = mapping(manifest, "spec", "replicaSpecs")
    strategy = text(manifest, "spec", "distributionStrategy")
    if strategy != "ParameterServerStrategy":
        return number
    has_number = mapping(specs, role).get("replicas") is not None
    if role == names.ROLE_EVALUATOR and not has_number:
        return 0
    chief = specs.get(names.ROLE_CHIEF)
    leads = isinstance(chief, dict) and not chief.get("replicas")
    return number - 1 if leads and role == names.ROLE_WORKER and number > 1 else number


def _scheduled(template: dict[str, Any], replica: Mapping[str, Any]) -> dict[str, Any]:
    """A template whose pods wait for the scheduler that a role names besides its template."""
    scheduler = text(replica, "BatchScheduler") or text(replica, "batchScheduler")
    if not scheduler:
        return template
    return {**template, "spec": {**template["spec"], "schedulerName": scheduler}}


def _with(template: dict[str, Any], variables: list[dict[str, Any]]) -> dict[str, Any]:
    """A template whose containers have more variables."""
    containers = [
        {**container, "env": [*items(container, "env"), *variables]}
        for container in items(template, "spec", "containers")
    ]
    return {**template, "spec": {**template["spec"], "containers": containers}}
