"""Observe the objects of a release on a cluster, with few requests.

A look at a run costs as many lists whether it has one pod or ten thousand, each in pages of a
thousand objects, and no request about a single pod. Three lists are always made: Jobs,
StatefulSets, pods; and ElasticJobs, where the run is an elastic one, or nothing of it is there yet,
or all runs are looked at. What explains a run that does not get on (its events, its place in a
queue, its claims) is asked for only where it does not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import cleanup, paths
from allranks.cluster.errors import namespace_missing
from allranks.errors import ForbiddenError, NotFoundError
from allranks.k8s.fields import condition, count, holds, items, mapping, text
from allranks.status.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from allranks.cluster.interface import Manifests, ObjectLister
    from allranks.k8s.manifest import Manifest

_OURS = f"{names.APP_PART_OF}={names.PART_OF}"
_ELASTIC = (names.ELASTIC_API_VERSION, names.ELASTIC_JOB)
_JOB, _SET, _RECORD = ("batch/v1", "Job"), ("apps/v1", "StatefulSet"), ("v1", "Secret")
# Kueue serves one or both of these.
_WORKLOADS = ("apis/kueue.x-k8s.io/v1beta1/workloads", "apis/kueue.x-k8s.io/v1beta2/workloads")
_POD_GROUPS = {
    "coscheduling": "apis/scheduling.x-k8s.io/v1alpha1/podgroups",
    "kai": "apis/scheduling.run.ai/v2alpha2/podgroups",
    "volcano": "apis/scheduling.volcano.sh/v1beta1/podgroups",
}
# What pods say of themselves, and what a loop repeats for ever, is not asked for once more.
_TELLING = "type=Warning,reason!=FailedScheduling,reason!=BackOff,reason!=Unhealthy"
_ENDS = "involvedObject.kind=Job"
_CLAIM = "PersistentVolumeClaim"  # in a scheduler's message about one that is not bound
_NOT_ALLOWED = "what holds it back may be missing here: {}"


def observe(cluster: ObjectLister, release: str, namespace: str) -> Observation:
    """The objects of one release.

    Args:
        cluster: the cluster.
        release: the release's name.
        namespace: its namespace.

    Raises:
        NotFoundError: there is no such release, or no such namespace.
        ForbiddenError: Jobs, StatefulSets or pods may not be listed.
        ToolError: the cluster does not answer.
    """
    lookup = _Lookup(cluster, namespace)
    selector = paths.selector(release)
    controllers = lookup.controllers(selector)
    pods = lookup.list(paths.PODS, selector)
    elastic = any(map(_is_elastic, pods))
    if elastic or not (controllers or pods):
        # One that was made by hand has the run's name, and no labels.
        controllers += lookup.elastic_jobs(f"metadata.name={release}", needed=elastic)
    remains: Manifests = []
    if not controllers and not pods:
        remains = lookup.remains(release, selector)
        if remains and lookup.has_sweep_runner(release):
            raise NotFoundError(
                f"{release!r} in namespace {namespace!r} is a sweep inside the cluster, not a run",
                hint=f"`{names.CLI} sweep status {release}` shows how it is doing",
            )
        if not remains:
            raise lookup.missing(release)
    beside, events = lookup.explanations(controllers, pods, over=bool(remains))
    return Observation(
        release=release,
        namespace=namespace,
        objects=(*controllers, *remains, *beside),
        pods=tuple(pods),
        events=tuple(events),
        now=time.time(),
        notes=tuple(lookup.notes),
    )


def observe_all(
    cluster: ObjectLister, namespace: str | None, *, unread: Callable[[str], None] | None = None
) -> list[Observation]:
    """The objects of every release of ours, by namespace and name.

    Args:
        cluster: the cluster.
        namespace: only there; None is the whole cluster.
        unread: told of each object that is left out, as it is nested too deep to be read.

    Raises:
        ForbiddenError: Jobs, StatefulSets or pods may not be listed.
        ToolError: the cluster does not answer.
    """
    lookup = _Lookup(cluster, namespace)
    controllers = lookup.controllers(_OURS)
    pods = lookup.list(paths.PODS, _OURS)
    # A release whose Job has been removed after its end still has its ConfigMap. One that was kept
    # of a run that is gone shows no run.
    maps = lookup.optional(paths.CONFIG_MAPS, _OURS, metadata_only=True)
    remains = [configmap for configmap in maps if not cleanup.outlives_release(configmap)]
    # One that was made by hand has no label of ours, and may have no pods.
    controllers += lookup.elastic_jobs(needed=any(map(_is_elastic, pods)), unread=unread)
    releases = {_release(manifest) for manifest in (*controllers, *pods, *remains)} - {None}
    over = {_release(configmap) for configmap in remains} - {
        _release(manifest) for manifest in (*controllers, *pods)
    }
    beside, events = lookup.explanations(controllers, pods, over=bool(over))
    parts = (_group_by_release(controllers), _group_by_release(remains), _group_by_release(pods))
    now = time.time()
    return [
        Observation(
            release=release,
            namespace=inside,
            objects=(
                *parts[0][inside, release],
                *parts[1][inside, release],
                *_select_namespace(inside, beside),
            ),
            pods=tuple(parts[2][inside, release]),
            events=tuple(_select_namespace(inside, events)),
            now=now,
            notes=tuple(lookup.notes),
        )
        for inside, release in sorted(key for key in releases if key is not None)
    ]


def explain(
    cluster: ObjectLister, namespace: str, controllers: Sequence[Manifest], pods: Sequence[Manifest]
) -> tuple[Manifests, Manifests, tuple[str, ...]]:
    """The objects and events that explain stuck runs, for a caller with controllers and pods.

    Args:
        cluster: the cluster.
        namespace: their namespace.
        controllers: their Jobs and StatefulSets.
        pods: their pods.

    Returns:
        Objects and events, as `Observation` holds them, and its notes.

    Raises:
        ToolError: the cluster does not answer.
    """
    lookup = _Lookup(cluster, namespace)
    objects, events = lookup.explanations(controllers, pods, over=False)
    return objects, events, tuple(lookup.notes)


def workloads(
    cluster: ObjectLister, namespace: str, controllers: Sequence[Manifest]
) -> tuple[Manifests, tuple[str, ...]]:
    """Kueue's Workloads of controllers, of those that have ended too, and notes.

    Args:
        cluster: the cluster.
        namespace: their namespace.
        controllers: Jobs and StatefulSets.

    Raises:
        ToolError: the cluster does not answer.
    """
    lookup = _Lookup(cluster, namespace)
    return lookup.workloads(controllers), tuple(lookup.notes)


def ends(cluster: ObjectLister, namespace: str) -> tuple[Manifests, tuple[str, ...]]:
    """The events of Jobs, for a caller who has nothing else of a run.

    Args:
        cluster: the cluster.
        namespace: the run's namespace.

    Returns:
        Events, and notes, as `Observation` holds them.

    Raises:
        ToolError: the cluster does not answer.
    """
    lookup = _Lookup(cluster, namespace)
    return lookup.optional(paths.EVENTS, fields=_ENDS), tuple(lookup.notes)


class _Lookup:
    """One look at a cluster, or at a namespace of it; keeps what it was not allowed to see."""

    def __init__(self, cluster: ObjectLister, namespace: str | None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self.notes: list[str] = []

    def list(
        self, path: str, selector: str = "", fields: str = "", *, metadata_only: bool = False
    ) -> Manifests:
        """All objects of a list."""
        return self._cluster.list(
            path,
            namespace=self._namespace,
            label_selector=selector,
            field_selector=fields,
            metadata_only=metadata_only,
        )

    def optional(
        self, path: str, selector: str = "", fields: str = "", *, metadata_only: bool = False
    ) -> Manifests:
        """A list that a status can do without; a note says where it may not be read."""
        try:
            return self.list(path, selector, fields, metadata_only=metadata_only)
        except ForbiddenError as error:
            self.notes.append(_NOT_ALLOWED.format(error.problem.message))
        except NotFoundError:
            pass  # the cluster has no such extension
        return []

    def controllers(self, selector: str) -> Manifests:
        """The Jobs and StatefulSets."""
        jobs = _add_types(_JOB, self.list(paths.JOBS, selector))
        return jobs + _add_types(_SET, self.list(paths.STATEFUL_SETS, selector))

    def elastic_jobs(
        self, fields: str = "", *, needed: bool, unread: Callable[[str], None] | None = None
    ) -> Manifests:
        """The ElasticJobs; () where the cluster does not know the kind.

        Args:
            fields: a field selector.
            needed: whether there are pods that only they explain.
            unread: told of each that is left out, as it is nested too deep to be read.

        Raises:
            ForbiddenError: they are needed and may not be listed.
        """
        try:
            jobs = self._cluster.list(
                paths.ELASTIC_JOBS,
                namespace=self._namespace,
                field_selector=fields,
                unread=unread,
            )
            return _add_types(_ELASTIC, jobs)
        except NotFoundError:
            return []
        except ForbiddenError:
            if needed:
                raise
            return []

    def remains(self, release: str, selector: str) -> Manifests:
        """The objects of a release besides its pods: Helm's record, or its ConfigMap."""
        current = f"owner=helm,name={release},status!=superseded,status!=uninstalled"
        record = _add_types(_RECORD, self.optional(paths.SECRETS, current, metadata_only=True))
        if record:
            return record
        maps = self.optional(paths.CONFIG_MAPS, selector, metadata_only=True)
        return [configmap for configmap in maps if not cleanup.outlives_release(configmap)]

    def has_sweep_runner(self, release: str) -> bool:
        """Whether a release has the Job of a sweep's runner, which is no run."""
        runner = f"{names.APP_NAME}={names.SWEEP_RUNNER},{names.APP_INSTANCE}={release}"
        return bool(self.optional(paths.JOBS, runner, metadata_only=True))

    def missing(self, release: str) -> NotFoundError:
        """The error for a release that does not exist, or whose namespace does not."""
        namespace = self._namespace or ""
        try:
            objects = self._cluster.list(
                paths.NAMESPACES, field_selector=f"metadata.name={namespace}", metadata_only=True
            )
        except ForbiddenError:
            objects = [{}]
        if not objects:
            return namespace_missing(namespace)
        return NotFoundError(
            f"there is no run {release!r} in namespace {namespace!r}",
            hint=f"`{names.CLI} list -n {namespace}` shows those there are",
        )

    def explanations(
        self, controllers: Sequence[Manifest], pods: Sequence[Manifest], *, over: bool
    ) -> tuple[Manifests, Manifests]:
        """The objects and events that explain runs that do not get on.

        Args:
            controllers: the Jobs and StatefulSets.
            pods: the pods.
            over: whether there are releases of which nothing is left but events.
        """
        live = [controller for controller in controllers if not _is_finished(controller)]
        running = {_release(controller) for controller in live}
        mine = [pod for pod in pods if _release(pod) in running]
        objects = self.workloads(live)
        messages = [message for pod in mine if (message := _unplaced_reason(pod)) is not None]
        if messages:
            objects += self._pod_groups(live)
        if any(_CLAIM in message for message in messages):
            objects += _add_types(("v1", _CLAIM), self.optional(paths.CLAIMS))
        events: Manifests = []
        if live and _is_stuck(live, mine):
            events += self.optional(paths.EVENTS, fields=_TELLING)
        if over:
            events += self.optional(paths.EVENTS, fields=_ENDS)
        return objects, events

    def workloads(self, controllers: Sequence[Manifest]) -> Manifests:
        """Kueue's Workloads of the Jobs that it holds back."""
        suspended = [
            controller
            for controller in controllers
            if names.KUEUE_QUEUE in mapping(controller, "metadata", "labels")
        ]
        uids = sorted(
            filter(None, (text(controller, "metadata", "uid") for controller in suspended))
        )
        selector = f"{names.KUEUE_JOB_UID} in ({','.join(uids)})" if uids else ""
        for path in _WORKLOADS if uids else ():
            version = path.removeprefix("apis/").rpartition("/")[0]
            try:
                return _add_types((version, "Workload"), self.list(path, selector))
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self.notes.append(_NOT_ALLOWED.format(error.problem.message))
                break
        return []

    def _pod_groups(self, controllers: Sequence[Manifest]) -> Manifests:
        """The PodGroups of the gang schedulers in use."""
        groups: Manifests = []
        for dialect, path in _POD_GROUPS.items():
            marker = f'"dialect":"{dialect}"'
            annotations = (
                mapping(controller, "metadata", "annotations") for controller in controllers
            )
            if any(marker in text(annotation.get(names.SCHEDULING)) for annotation in annotations):
                version = path.removeprefix("apis/").rpartition("/")[0]
                groups += _add_types((version, "PodGroup"), self.optional(path))
        return groups


def _add_types(kind: tuple[str, str], manifests: Iterable[Manifest]) -> Manifests:
    """The objects of a list with their type, which the list names only once."""
    return [{**manifest, "apiVersion": kind[0], "kind": kind[1]} for manifest in manifests]


def _is_finished(controller: Manifest) -> bool:
    conditions = items(controller, "status", "conditions")
    return any(holds(conditions, kind) for kind in ("Complete", "Failed", "Succeeded"))


def _is_elastic(manifest: Manifest) -> bool:
    """Whether an object belongs to an elastic release: a pod or a ConfigMap."""
    return text(manifest, "metadata", "labels", names.WORKLOAD) == "elastic"


def _unplaced_reason(pod: Manifest) -> str | None:
    """The reason that no node takes a pod; None where one has."""
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    return text(scheduled, "message") if scheduled.get("status") == "False" else None


def _is_stuck(controllers: Sequence[Manifest], pods: Sequence[Manifest]) -> bool:
    """Whether a pod is missing or does not start, which only an event may explain."""
    started_count = sum(text(pod, "status", "phase") not in {"", "Pending"} for pod in pods)
    if started_count < len(pods):
        return True
    return started_count < sum(_size(controller) for controller in controllers)


def _size(controller: Manifest) -> int:
    spec = mapping(controller, "spec")
    if spec.get("suspend") is True:
        return 0
    if controller["kind"] == names.ELASTIC_JOB:
        counts = mapping(controller, "status", "status", "replicaStatuses").values()
        return 1 + sum(count(spec, "initial") for spec in counts)
    for field in ("completions", "replicas", "parallelism"):
        size = spec.get(field)
        if isinstance(size, int):
            return size
    return 1


def _release(manifest: Manifest) -> tuple[str, str] | None:
    name = text(manifest, "metadata", "labels", names.APP_INSTANCE)
    if not name and text(manifest, "kind") == names.ELASTIC_JOB:
        name = text(manifest, "metadata", "name")
    return (text(manifest, "metadata", "namespace"), name) if name else None


def _group_by_release(manifests: Iterable[Manifest]) -> defaultdict[tuple[str, str], Manifests]:
    by_release: defaultdict[tuple[str, str], Manifests] = defaultdict(list)
    for manifest in manifests:
        release = _release(manifest)
        if release is not None:
            by_release[release].append(manifest)
    return by_release


def _select_namespace(namespace: str, manifests: Iterable[Manifest]) -> Manifests:
    return [
        manifest for manifest in manifests if text(manifest, "metadata", "namespace") == namespace
    ]
