"""What there is of a release on a cluster, in few requests.

A look at a run costs as many lists whether it has one pod or ten thousand, and no request about a
single pod. Three lists are always made: Jobs, StatefulSets, pods; and ElasticJobs, where the run is
an elastic one, or nothing of it is there yet. What explains a run that does not get on (its events,
its place in a queue, its claims) is asked for only where it does not.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING

from allranks import names
from allranks.cluster import paths, removal
from allranks.cluster.refusals import namespace_missing
from allranks.errors import ForbiddenError, NotFoundError
from allranks.status.fields import condition, count, holds, items, mapping, text
from allranks.status.observation import Observation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from allranks.cluster.port import Lister, Manifests
    from allranks.model.manifest import Manifest

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


def observe(cluster: Lister, release: str, namespace: str) -> Observation:
    """What there is of one release.

    Args:
        cluster: the cluster.
        release: the release's name.
        namespace: its namespace.

    Raises:
        NotFoundError: there is no such release, or no such namespace.
        ForbiddenError: Jobs, StatefulSets or pods may not be listed.
        ToolError: the cluster does not answer.
    """
    look = _Look(cluster, namespace)
    selector = paths.selector(release)
    controllers = look.controllers(selector)
    pods = look.every(paths.PODS, selector)
    elastic = any(map(_is_elastic, pods))
    if elastic or not (controllers or pods):
        # One that was made by hand has the run's name, and no labels.
        controllers += look.elastic_jobs(f"metadata.name={release}", needed=elastic)
    remains: Manifests = []
    if not controllers and not pods:
        remains = look.remains(release, selector)
        if remains and look.has_sweep_runner(release):
            raise NotFoundError(
                f"{release!r} in namespace {namespace!r} is a sweep inside the cluster, not a run",
                hint=f"`{names.CLI} sweep status {release}` shows how it is doing",
            )
        if not remains:
            raise look.missing(release)
    beside, events = look.beside(controllers, pods, over=bool(remains))
    return Observation(
        release=release,
        namespace=namespace,
        objects=(*controllers, *remains, *beside),
        pods=tuple(pods),
        events=tuple(events),
        now=time.time(),
        notes=tuple(look.notes),
    )


def observe_all(cluster: Lister, namespace: str | None) -> list[Observation]:
    """What there is of every release of ours, by namespace and name.

    Args:
        cluster: the cluster.
        namespace: only there; None is the whole cluster.

    Raises:
        ForbiddenError: Jobs, StatefulSets or pods may not be listed.
        ToolError: the cluster does not answer.
    """
    look = _Look(cluster, namespace)
    controllers = look.controllers(_OURS)
    pods = look.every(paths.PODS, _OURS)
    # A release whose Job has been removed after its end still has its ConfigMap. One that was kept
    # of a run that is gone shows no run.
    maps = look.perhaps(paths.CONFIG_MAPS, _OURS, metadata_only=True)
    remains = [one for one in maps if not removal.is_kept(one)]
    if any(_is_elastic(one) for one in (*pods, *maps)):
        controllers += look.elastic_jobs(needed=any(map(_is_elastic, pods)))
    releases = {_release(one) for one in (*controllers, *pods, *remains)} - {None}
    over = {_release(one) for one in remains} - {_release(one) for one in (*controllers, *pods)}
    beside, events = look.beside(controllers, pods, over=bool(over))
    parts = (_by_release(controllers), _by_release(remains), _by_release(pods))
    now = time.time()
    return [
        Observation(
            release=release,
            namespace=inside,
            objects=(*parts[0][inside, release], *parts[1][inside, release], *_in(inside, beside)),
            pods=tuple(parts[2][inside, release]),
            events=tuple(_in(inside, events)),
            now=now,
            notes=tuple(look.notes),
        )
        for inside, release in sorted(one for one in releases if one is not None)
    ]


def explain(
    cluster: Lister, namespace: str, controllers: Sequence[Manifest], pods: Sequence[Manifest]
) -> tuple[Manifests, Manifests, tuple[str, ...]]:
    """What explains runs that do not get on, for who has their controllers and pods already.

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
    look = _Look(cluster, namespace)
    objects, events = look.beside(controllers, pods, over=False)
    return objects, events, tuple(look.notes)


def ends(cluster: Lister, namespace: str) -> tuple[Manifests, tuple[str, ...]]:
    """The events of Jobs, for who has nothing else left of a run.

    Args:
        cluster: the cluster.
        namespace: the run's namespace.

    Returns:
        Events, and notes, as `Observation` holds them.

    Raises:
        ToolError: the cluster does not answer.
    """
    look = _Look(cluster, namespace)
    return look.perhaps(paths.EVENTS, fields=_ENDS), tuple(look.notes)


class _Look:
    """One look at a cluster, or at a namespace of it; keeps what it was not allowed to see."""

    def __init__(self, cluster: Lister, namespace: str | None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self.notes: list[str] = []

    def every(
        self, path: str, selector: str = "", fields: str = "", *, metadata_only: bool = False
    ) -> Manifests:
        """A list."""
        return self._cluster.list(
            path,
            namespace=self._namespace,
            label_selector=selector,
            field_selector=fields,
            metadata_only=metadata_only,
        )

    def perhaps(
        self, path: str, selector: str = "", fields: str = "", *, metadata_only: bool = False
    ) -> Manifests:
        """A list that a status can do without: where it may not be read, a note says so."""
        try:
            return self.every(path, selector, fields, metadata_only=metadata_only)
        except ForbiddenError as error:
            self.notes.append(_NOT_ALLOWED.format(error.problem.message))
        except NotFoundError:
            pass  # the cluster has no such extension
        return []

    def controllers(self, selector: str) -> Manifests:
        """Jobs and StatefulSets."""
        jobs = _typed(_JOB, self.every(paths.JOBS, selector))
        return jobs + _typed(_SET, self.every(paths.STATEFUL_SETS, selector))

    def elastic_jobs(self, fields: str = "", *, needed: bool) -> Manifests:
        """ElasticJobs; none where the cluster does not know the kind.

        Args:
            fields: a field selector.
            needed: whether there are pods that only they explain.

        Raises:
            ForbiddenError: they are needed and may not be listed.
        """
        try:
            return _typed(_ELASTIC, self.every(paths.ELASTIC_JOBS, fields=fields))
        except NotFoundError:
            return []
        except ForbiddenError:
            if needed:
                raise
            return []

    def remains(self, release: str, selector: str) -> Manifests:
        """What there is of a release besides its pods: Helm's record of it, or its ConfigMap."""
        current = f"owner=helm,name={release},status!=superseded,status!=uninstalled"
        record = _typed(_RECORD, self.perhaps(paths.SECRETS, current, metadata_only=True))
        if record:
            return record
        maps = self.perhaps(paths.CONFIG_MAPS, selector, metadata_only=True)
        return [one for one in maps if not removal.is_kept(one)]

    def has_sweep_runner(self, release: str) -> bool:
        """Whether a release is of what stays with a sweep: a Job that is no run."""
        runner = f"{names.APP_NAME}={names.SWEEP_RUNNER},{names.APP_INSTANCE}={release}"
        return bool(self.perhaps(paths.JOBS, runner, metadata_only=True))

    def missing(self, release: str) -> NotFoundError:
        """Why nothing was found: no such release, or no such namespace."""
        namespace = self._namespace or ""
        try:
            found = self._cluster.list(
                paths.NAMESPACES, field_selector=f"metadata.name={namespace}", metadata_only=True
            )
        except ForbiddenError:
            found = [{}]
        if not found:
            return namespace_missing(namespace)
        return NotFoundError(
            f"there is no run {release!r} in namespace {namespace!r}",
            hint=f"`{names.CLI} list -n {namespace}` shows those there are",
        )

    def beside(
        self, controllers: Sequence[Manifest], pods: Sequence[Manifest], *, over: bool
    ) -> tuple[Manifests, Manifests]:
        """What explains a run that does not get on: objects, and events.

        Args:
            controllers: the Jobs and StatefulSets.
            pods: the pods.
            over: whether there are releases of which nothing is left but events.
        """
        live = [one for one in controllers if not _is_finished(one)]
        running = {_release(one) for one in live}
        mine = [one for one in pods if _release(one) in running]
        objects = self._workloads(live)
        messages = [said for one in mine if (said := _unplaced(one)) is not None]
        if messages:
            objects += self._pod_groups(live)
        if any(_CLAIM in one for one in messages):
            objects += _typed(("v1", _CLAIM), self.perhaps(paths.CLAIMS))
        events: Manifests = []
        if live and _is_stuck(live, mine):
            events += self.perhaps(paths.EVENTS, fields=_TELLING)
        if over:
            events += self.perhaps(paths.EVENTS, fields=_ENDS)
        return objects, events

    def _workloads(self, controllers: Sequence[Manifest]) -> Manifests:
        """Kueue's Workloads of the Jobs that it holds back."""
        held = [
            one for one in controllers if names.KUEUE_QUEUE in mapping(one, "metadata", "labels")
        ]
        uids = sorted(filter(None, (text(one, "metadata", "uid") for one in held)))
        selector = f"{names.KUEUE_JOB_UID} in ({','.join(uids)})" if uids else ""
        for path in _WORKLOADS if uids else ():
            version = path.removeprefix("apis/").rpartition("/")[0]
            try:
                return _typed((version, "Workload"), self.every(path, selector))
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self.notes.append(_NOT_ALLOWED.format(error.problem.message))
                break
        return []

    def _pod_groups(self, controllers: Sequence[Manifest]) -> Manifests:
        """The PodGroups of the gang schedulers that are asked."""
        found: Manifests = []
        for dialect, path in _POD_GROUPS.items():
            asked = f'"dialect":"{dialect}"'
            annotations = (mapping(one, "metadata", "annotations") for one in controllers)
            if any(asked in text(one.get(names.SCHEDULING)) for one in annotations):
                version = path.removeprefix("apis/").rpartition("/")[0]
                found += _typed((version, "PodGroup"), self.perhaps(path))
        return found


def _typed(kind: tuple[str, str], found: Iterable[Manifest]) -> Manifests:
    """The objects of a list, with the type that a list names only once."""
    return [{**one, "apiVersion": kind[0], "kind": kind[1]} for one in found]


def _is_finished(controller: Manifest) -> bool:
    conditions = items(controller, "status", "conditions")
    return any(holds(conditions, one) for one in ("Complete", "Failed", "Succeeded"))


def _is_elastic(one: Manifest) -> bool:
    """Whether a master may decide about it: a pod or a ConfigMap of an elastic release."""
    return text(one, "metadata", "labels", names.WORKLOAD) == "elastic"


def _unplaced(pod: Manifest) -> str | None:
    """Why no node takes a pod; None where one has."""
    scheduled = condition(items(pod, "status", "conditions"), "PodScheduled")
    return text(scheduled, "message") if scheduled.get("status") == "False" else None


def _is_stuck(controllers: Sequence[Manifest], pods: Sequence[Manifest]) -> bool:
    """Whether a pod is missing or does not start, for a reason that only an event may tell."""
    started = sum(text(one, "status", "phase") not in {"", "Pending"} for one in pods)
    if started < len(pods):
        return True
    return started < sum(_size(one) for one in controllers)


def _size(controller: Manifest) -> int:
    spec = mapping(controller, "spec")
    if spec.get("suspend") is True:
        return 0
    if controller["kind"] == names.ELASTIC_JOB:
        counts = mapping(controller, "status", "status", "replicaStatuses").values()
        return 1 + sum(count(one, "initial") for one in counts)
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


def _by_release(found: Iterable[Manifest]) -> defaultdict[tuple[str, str], Manifests]:
    by_release: defaultdict[tuple[str, str], Manifests] = defaultdict(list)
    for one in found:
        release = _release(one)
        if release is not None:
            by_release[release].append(one)
    return by_release


def _in(namespace: str, found: Iterable[Manifest]) -> Manifests:
    return [one for one in found if text(one, "metadata", "namespace") == namespace]
