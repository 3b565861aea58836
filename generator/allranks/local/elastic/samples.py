"""The pods that an elastic job may come to have, one of each kind, to look at before it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import job as jobs
from allranks.elastic import pods
from allranks.elastic.target import Member, Target
from allranks.errors import InputError
from allranks.local.elastic import objects
from allranks.local.plan import Restart
from allranks.local.podplan import Identity, Ownership, pod_plan

if TYPE_CHECKING:
    from allranks.elastic.job import ElasticJob
    from allranks.local.plan import PodPlan, Release
    from allranks.model.manifest import Manifest


def samples(release: Release) -> tuple[PodPlan, ...]:
    """A pod of each replica type of a release's elastic job, and its master; none without one.

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
    made = [pods.build(job, kind, first, Target()) for kind in job.trainers]
    return tuple(_plan(one, job) for one in (*made, pods.master(job, 0)))


def notes(release: Release) -> tuple[str, ...]:
    """What of the release's elastic job could not be read, in sentences."""
    return _read(release).problems if release.elastic is not None else ()


def _read(release: Release) -> ElasticJob:
    return jobs.read(objects.completed(release.elastic or {}, release.namespace, "0", 0.0))


def _plan(manifest: Manifest, job: ElasticJob) -> PodPlan:
    name = str(manifest["metadata"]["name"])
    return pod_plan(
        _without_token(manifest),
        Ownership(f"Pod/{name}", job.namespace, Restart.NEVER),
        Identity(name, 0),
    )


def _without_token(manifest: Manifest) -> Manifest:
    """A pod without what is drawn for its job when that starts."""
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
