"""Find the workloads among objects, and the pod templates in them.

Everything else in a stream (Services, custom resources, other groups' Jobs) is no workload: no
pass that is about pods looks at it.
"""

from __future__ import annotations

from allranks import names
from allranks.postrender.edit import Edit, get
from allranks.postrender.frozen import FrozenRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from allranks.postrender.edit import Path

# By group and kind, the path of the pod template; a JobSet has several, and an ElasticJob one for
# each replica type, of which the operator makes the pods.
_TEMPLATE = ("spec", "template")
_KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("", "Pod"): (),
    ("jobset.x-k8s.io", "JobSet"): (),
    (names.ELASTIC_GROUP, names.ELASTIC_JOB): (),
}
KINDS = tuple(kind for _, kind in _KINDS)
# All pods of these start together or not at all, unless less is asked.
GANGS = ("Job", "CronJob", "StatefulSet", "JobSet")

# Groups whose objects every cluster knows; a custom resource is not ours to label.
_BUILT_IN_GROUPS = (
    "",
    "apps",
    "autoscaling",
    "batch",
    "coordination.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
)


class Template(FrozenRecord):
    """One pod template of a workload.

    Attributes:
        path: where it stands; ``metadata`` and ``spec`` of the pods are below it.
        pods: how many pods are made of it; None where the manifest does not say it as a number.
        trains: False for the master of an ElasticJob: it waits in no queue, and runs anywhere.
    """

    path: tuple[str | int, ...] = ()
    pods: int | None = 1
    trains: bool = True

    @property
    def labels(self) -> Path:
        """The path of the pods' labels."""
        return (*self.path, "metadata", "labels")

    @property
    def annotations(self) -> Path:
        """The path of the pods' annotations."""
        return (*self.path, "metadata", "annotations")

    @property
    def spec(self) -> Path:
        """The path of the pods' spec."""
        return (*self.path, "spec")


class Workload:
    """An object that creates pods.

    Attributes:
        edit: the object, to write to.
        kind: Job, CronJob, Deployment, StatefulSet, DaemonSet, ReplicaSet, Pod, JobSet or
            ElasticJob.
        name: its name; "" with ``generateName``.
        templates: its pod templates.
    """

    __slots__ = ("edit", "kind", "name", "templates")

    def __init__(self, edit: Edit, kind: str, templates: tuple[Template, ...]) -> None:
        self.edit = edit
        self.kind = kind
        self.name = name_of(edit.manifest)
        self.templates = templates

    @property
    def pods(self) -> int | None:
        """The number of pods; None where the manifest does not say."""
        total = 0
        for template in self.templates:
            if template.pods is None:
                return None
            total += template.pods
        return total

    @property
    def trainers(self) -> tuple[Template, ...]:
        """The templates of pods that are scheduled together: all but a master's."""
        return tuple(template for template in self.templates if template.trains)

    @property
    def job(self) -> Path:
        """The path of the Job: a CronJob's template, else the object itself."""
        return ("spec", "jobTemplate") if self.kind == "CronJob" else ()


def workload(edit: Edit) -> Workload | None:
    """The workload in a manifest; None where it creates no pods that we know of."""
    manifest = edit.manifest
    kind = manifest.get("kind")
    path = _KINDS.get((group_of(manifest), kind)) if isinstance(kind, str) else None
    if path is None or kind is None:
        return None
    if kind == "JobSet":
        templates = _jobset(manifest)
    elif kind == names.ELASTIC_JOB:
        templates = _elastic_job(manifest)
    elif isinstance(get(manifest, (*path, "spec")), dict):
        templates = (Template(path=path, pods=_pods(manifest, kind)),)
    else:
        templates = ()
    return Workload(edit, kind, templates) if templates else None


def group_of(manifest: dict[str, Any]) -> str:
    """The API group of a manifest; "" is the core group."""
    version = manifest.get("apiVersion")
    return version.rpartition("/")[0] if isinstance(version, str) else "?"


def is_built_in(manifest: dict[str, Any]) -> bool:
    """Whether every cluster knows the kind of the object."""
    return group_of(manifest) in _BUILT_IN_GROUPS


def is_hook(manifest: dict[str, Any]) -> bool:
    """Whether the object is a Helm hook, which is left alone."""
    return get(manifest, ("metadata", "annotations", names.HELM_HOOK)) is not None


def name_of(manifest: dict[str, Any]) -> str:
    """The name of an object; "" where it has none."""
    name = get(manifest, ("metadata", "name"))
    return name if isinstance(name, str) else ""


def _pods(manifest: dict[str, Any], kind: str) -> int | None:
    if kind == "Pod":
        return 1
    if kind == "DaemonSet":
        return None
    if kind in ("Job", "CronJob"):
        return _parallelism(manifest, ("spec", "jobTemplate") if kind == "CronJob" else ())
    return _count(manifest, ("spec", "replicas"))


def _parallelism(node: Any, path: Path) -> int | None:
    """The pods of a Job that run at once: never more than it has completions."""
    parallelism = _count(node, (*path, "spec", "parallelism"))
    if get(node, (*path, "spec", "completions")) is None or parallelism is None:
        return parallelism
    completions = _count(node, (*path, "spec", "completions"))
    return None if completions is None else min(parallelism, completions)


def _count(node: Any, path: Path) -> int | None:
    value = get(node, path)
    if value is None:
        return 1
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _elastic_job(manifest: dict[str, Any]) -> tuple[Template, ...]:
    """The templates of an ElasticJob's replica types; its master decides their sizes."""
    specs = get(manifest, ("spec", "replicaSpecs"))
    return tuple(
        Template(
            path=("spec", "replicaSpecs", role, "template"),
            pods=None,
            trains=role != names.EDL_MASTER,
        )
        for role in (specs if isinstance(specs, dict) else ())
        if isinstance(get(specs, (role, "template", "spec")), dict)
    )


def _jobset(manifest: dict[str, Any]) -> tuple[Template, ...]:
    jobs = get(manifest, ("spec", "replicatedJobs"))
    templates = []
    for index, job in enumerate(jobs if isinstance(jobs, list) else []):
        path = ("spec", "replicatedJobs", index, "template", "spec", "template")
        if isinstance(get(manifest, (*path, "spec")), dict):
            replicas = _count(job, ("replicas",))
            part = _parallelism(job, ("template",))
            pods = None if replicas is None or part is None else replicas * part
            templates.append(Template(path=path, pods=pods))
    return tuple(templates)
