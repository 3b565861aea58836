"""Suspend, resume and resize a run, so that a later `helm upgrade` agrees.

A patch of ours would leave our name on the field in `managedFields`, and Helm 4, which applies
server-side, would then refuse to change it ever again. So our name is taken off after the patch:
the field belongs to nobody, and the next upgrade sets it as its values say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import cleanup, paths
from allranks.elastic.plans import status as plan_status
from allranks.elastic.scale_request import check, replica_resource_specs
from allranks.errors import InputError, NotFoundError, RejectedError

if TYPE_CHECKING:
    from allranks.cluster.interface import KubeClient
    from allranks.elastic.plans.status import Answer
    from allranks.elastic.scale_request import ScaleRequest
    from allranks.k8s.manifest import Manifest


_DISOWN_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Controllers:
    """The workload objects of a run."""

    jobs: tuple[Manifest, ...]
    stateful_sets: tuple[Manifest, ...]
    elastic_jobs: tuple[Manifest, ...] = ()

    @property
    def objects(self) -> tuple[Manifest, ...]:
        """All of them, each with its kind, which a list of the API server does not repeat."""
        kinds = (
            ("batch/v1", "Job", self.jobs),
            ("apps/v1", "StatefulSet", self.stateful_sets),
            (names.ELASTIC_API_VERSION, names.ELASTIC_JOB, self.elastic_jobs),
        )
        return tuple(
            {**manifest, "apiVersion": version, "kind": kind}
            for version, kind, manifests in kinds
            for manifest in manifests
        )

    @property
    def queue(self) -> str:
        """The Kueue queue that decides when the run resumes; "" where there is none."""
        for manifest in (*self.jobs, *self.stateful_sets, *self.elastic_jobs):
            if queue := (manifest["metadata"].get("labels") or {}).get(names.KUEUE_QUEUE):
                return str(queue)
        return ""


def controllers(cluster: KubeClient, release: str, namespace: str) -> Controllers:
    """The workload objects of a run.

    Raises:
        NotFoundError: there are none.
        ToolError: the cluster does not answer, or forbids it.
    """
    selector = paths.selector(release)
    jobs = cluster.list(paths.JOBS, namespace=namespace, label_selector=selector)
    sets = cluster.list(paths.STATEFUL_SETS, namespace=namespace, label_selector=selector)
    elastic = cleanup.elastic_jobs(cluster, release, namespace)
    if not jobs and not sets and not elastic:
        raise NotFoundError(
            f"there is no run {release!r} in namespace {namespace}",
            hint=f"`{names.CLI} list -n {namespace}` shows what is there",
        )
    return Controllers(tuple(jobs), tuple(sets), tuple(elastic))


def suspend(cluster: KubeClient, namespace: str, controllers: Controllers) -> tuple[str, ...]:
    """Delete the pods of a run and keep the run; return the names of what was changed.

    Raises:
        InputError: it has ended.
        ToolError: the cluster does not answer, or forbids it.
    """
    _refuse_ended(controllers, "suspended")
    changed = []
    for job in controllers.jobs:
        if not has_ended(job) and not job["spec"].get("suspend"):
            _patch(cluster, paths.JOBS, job, namespace, {"spec": {"suspend": True}})
            changed.append(f"Job/{job['metadata']['name']}")
    for job in controllers.elastic_jobs:
        if not has_ended(job) and not job["spec"].get("suspend"):
            # The operator takes the pods away, the master's too, and keeps their count.
            _patch(cluster, paths.ELASTIC_JOBS, job, namespace, {"spec": {"suspend": True}})
            changed.append(f"ElasticJob/{job['metadata']['name']}")
    for stateful_set in controllers.stateful_sets:
        size = int(stateful_set["spec"].get("replicas", 1))
        if size:
            # What it is to be resumed with.
            note = {"metadata": {"annotations": {names.SUSPENDED_REPLICAS: str(size)}}}
            _patch(
                cluster,
                paths.STATEFUL_SETS,
                stateful_set,
                namespace,
                {"spec": {"replicas": 0}, **note},
            )
            changed.append(f"StatefulSet/{stateful_set['metadata']['name']}")
    return tuple(changed)


def resume(
    cluster: KubeClient, namespace: str, controllers: Controllers, sizes: dict[str, int]
) -> tuple[str, ...]:
    """Resume a suspended run; return the names of what was changed.

    Args:
        cluster: the cluster.
        namespace: the run's namespace.
        controllers: its workload objects.
        sizes: pods of each StatefulSet, for one that was suspended from its start.

    Raises:
        InputError: it has ended, or nothing says how many pods a StatefulSet has.
        ToolError: the cluster does not answer, or forbids it.
    """
    _refuse_ended(controllers, "resumed")
    changed = []
    for job in controllers.jobs:
        if not has_ended(job) and job["spec"].get("suspend"):
            _patch(cluster, paths.JOBS, job, namespace, {"spec": {"suspend": False}})
            changed.append(f"Job/{job['metadata']['name']}")
    for job in controllers.elastic_jobs:
        if not has_ended(job) and job["spec"].get("suspend"):
            _patch(cluster, paths.ELASTIC_JOBS, job, namespace, {"spec": {"suspend": False}})
            changed.append(f"ElasticJob/{job['metadata']['name']}")
    for stateful_set in controllers.stateful_sets:
        if not stateful_set["spec"].get("replicas", 1):
            size = _size(stateful_set, sizes)
            note = {"metadata": {"annotations": {names.SUSPENDED_REPLICAS: None}}}
            _patch(
                cluster,
                paths.STATEFUL_SETS,
                stateful_set,
                namespace,
                {"spec": {"replicas": size}, **note},
            )
            changed.append(f"StatefulSet/{stateful_set['metadata']['name']}")
    return tuple(changed)


def needs_sizes(controllers: Controllers) -> bool:
    """Whether `resume` needs the size of a StatefulSet."""
    return any(
        not stateful_set["spec"].get("replicas", 1)
        and names.SUSPENDED_REPLICAS not in (stateful_set["metadata"].get("annotations") or {})
        for stateful_set in controllers.stateful_sets
    )


def resize(cluster: KubeClient, namespace: str, controller: Manifest, size: int) -> None:
    """Change the number of pods of a Job or StatefulSet.

    Raises:
        InputError: the Job cannot change its size, or has ended.
        ToolError: the cluster does not answer, or forbids it.
    """
    name = controller["metadata"]["name"]
    if controller.get("kind") == "StatefulSet":
        _patch(cluster, paths.STATEFUL_SETS, controller, namespace, {"spec": {"replicas": size}})
        return
    if has_ended(controller):
        raise InputError(f"Job {name} has ended", hint="run it again to give it another size")
    body = {"spec": {"completions": size, "parallelism": size}}
    try:
        _patch(cluster, paths.JOBS, controller, namespace, body)
    except RejectedError as error:
        raise InputError(
            f"Kubernetes does not change the size of Job {name}: {error.problem.message}",
            hint=f"`{names.CLI} upgrade NAME --recreate` with the new size in the values",
        ) from error


def has_ended(job: Manifest) -> bool:
    """Whether a Job or ElasticJob has ended; a StatefulSet never does."""
    if job.get("kind") == names.ELASTIC_JOB:
        return (job.get("status") or {}).get("phase") in {"Succeeded", "Failed"}
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") in {"Complete", "Failed"} and condition.get("status") == "True"
        for condition in conditions
    )


def _refuse_ended(controllers: Controllers, action: str) -> None:
    jobs = (*controllers.jobs, *controllers.elastic_jobs)
    if jobs and not controllers.stateful_sets and all(has_ended(job) for job in jobs):
        raise InputError(
            f"the run has ended; it cannot be {action}",
            hint=f"`{names.CLI} delete NAME` removes it, or run it again under another name",
        )


def _size(manifest: Manifest, sizes: dict[str, int]) -> int:
    name = str(manifest["metadata"]["name"])
    replicas = str(
        (manifest["metadata"].get("annotations") or {}).get(names.SUSPENDED_REPLICAS) or ""
    )
    size = int(replicas) if replicas.isdecimal() else sizes.get(name, 0)
    if size < 1:
        raise InputError(
            f"nothing says how many pods StatefulSet {name} has",
            hint=f"`{names.CLI} upgrade NAME -f values.yaml` with runPolicy.suspend false",
        )
    return size


def _patch(
    cluster: KubeClient, resource_path: str, item: Manifest, namespace: str, body: Manifest
) -> None:
    name = str(item["metadata"]["name"])
    after = cluster.patch(
        resource_path, name, body, namespace=namespace, manager=names.FIELD_MANAGER
    )
    for _ in range(_DISOWN_ATTEMPTS):
        operations = _disown(after)
        if not operations:
            return
        try:
            cluster.patch(resource_path, name, operations, namespace=namespace, kind="json")
        except RejectedError:
            # Somebody wrote in between, and the entry stands elsewhere now.
            after = cluster.get(resource_path, name, namespace=namespace)
        else:
            return


def _disown(item: Manifest) -> list[Manifest]:
    """JSON patch operations that remove our field manager where it still stands there."""
    entries = item["metadata"].get("managedFields") or []
    for index, entry in enumerate(entries):
        if entry.get("manager") == names.FIELD_MANAGER and entry.get("operation") == "Update":
            place = f"/metadata/managedFields/{index}"
            return [
                {"op": "test", "path": f"{place}/manager", "value": names.FIELD_MANAGER},
                {"op": "remove", "path": place},
            ]
    return []


def plan(job: Manifest, scale_request: ScaleRequest) -> Manifest:
    """The ScalePlan of a request; the server completes its name."""
    metadata = job["metadata"]
    labels = {
        key: value
        for key, value in (metadata.get("labels") or {}).items()
        if key in {names.APP_NAME, names.APP_INSTANCE, names.APP_PART_OF, names.WORKLOAD}
    }
    owner = {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.ELASTIC_JOB,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": names.ELASTIC_API_VERSION,
        "kind": names.SCALE_PLAN,
        "metadata": {
            "generateName": f"{metadata['name']}-scale-",
            "labels": {**labels, names.EDL_NAME: metadata["name"], names.SCALE_TYPE: "manual"},
            "ownerReferences": [owner],
        },
        "spec": {
            "ownerJob": metadata["name"],
            "replicaResourceSpecs": replica_resource_specs(job, scale_request),
        },
    }


def create_plan(
    cluster: KubeClient, namespace: str, job: Manifest, scale_request: ScaleRequest
) -> str:
    """Create the plan; return its name.

    Raises:
        InputError: the job does not allow it.
        ToolError: the cluster does not answer, or forbids it.
    """
    check(job, scale_request)
    created = cluster.create(paths.SCALE_PLANS, plan(job, scale_request), namespace=namespace)
    return str(created["metadata"]["name"])


def plan_answer(cluster: KubeClient, namespace: str, name: str) -> Answer:
    """The current status of a plan.

    Raises:
        NotFoundError: it was deleted meanwhile.
        ToolError: the cluster does not answer, or forbids it.
    """
    return plan_status.read(cluster.get(paths.SCALE_PLANS, name, namespace=namespace))
