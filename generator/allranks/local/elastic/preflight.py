"""Sample pods of an elastic job, checked before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import pods
from allranks.elastic.api import job as jobs
from allranks.elastic.members import Member
from allranks.elastic.target import DesiredState
from allranks.errors import InputError
from allranks.local.elastic import objects
from allranks.local.plan.expand import Ownership, PodIdentity, pod_plan
from allranks.local.plan.model import Restart

if TYPE_CHECKING:
    from allranks.elastic.api.job import ElasticJob
    from allranks.k8s.manifest import Manifest
    from allranks.local.plan.model import PodPlan, ReleasePlan


def samples(release: ReleasePlan) -> tuple[PodPlan, ...]:
    """A pod of each role of the elastic job, and its master; () without an elastic job.

    Raises:
        InputError: the job cannot run here, or a pod of it could not be made.
    """
    if release.elastic is None:
        return ()
    job = _read(release)
    if job.master != "own":
        raise InputError(
            "a master of your own needs the API of a cluster",
            path=f"{names.ELASTIC_JOB}/{job.name}",
            hint="leave elastic.auto.master.command empty, or run it on a cluster",
        )
    first = Member(id=0, rank=0)
    examples = [pods.build_pod(job, kind, first, DesiredState()) for kind in job.trainers]
    return tuple(_plan(pod, job) for pod in (*examples, pods.master(job, 0)))


def notes(release: ReleasePlan) -> tuple[str, ...]:
    """Notes on the fields of the elastic job that could not be read."""
    return _read(release).problems if release.elastic is not None else ()


def _read(release: ReleasePlan) -> ElasticJob:
    return jobs.read(objects.complete(release.elastic or {}, release.namespace, "0", 0.0))


def _plan(manifest: Manifest, job: ElasticJob) -> PodPlan:
    name = str(manifest["metadata"]["name"])
    return pod_plan(
        _without_token(manifest),
        Ownership(f"Pod/{name}", job.namespace, Restart.NEVER),
        PodIdentity(name, 0),
    )


def _without_token(manifest: Manifest) -> Manifest:
    """A pod without the token that is drawn when its job starts."""
    containers = [
        {
            **container,
            "env": [
                variable
                for variable in container.get("env") or ()
                if variable["name"] != names.ENV_MASTER_TOKEN
            ],
        }
        for container in manifest["spec"]["containers"]
    ]
    return {**manifest, "spec": {**manifest["spec"], "containers": containers}}
