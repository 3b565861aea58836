"""The reconciler of runs: computes a release's status, and writes it into its TrainingRun.

A release without a TrainingRun gets one, which Helm can take over should the chart render one
later; it is deleted with the run's first controller. Objects that explain a stuck run are listed
only while it is stuck.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import ApiError, BusyError, NotFoundError, TerminatingError
from allranks.k8s.fields import mapping, text
from allranks.model.status import FINAL, Phase
from allranks.status import deletion, progress, reduce, training_run
from allranks.status.observation import Observation
from allranks_operator import events as allranks_operator_events
from allranks_operator.events import Event, ObjectReference
from allranks_operator.kube.client import plain
from allranks_operator.kube.resources import TRAINING_RUNS
from allranks_operator.rate_limit import Backoff, RateLimiter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.k8s.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks_operator.cache.cache import ObjectCache
    from allranks_operator.cache.owner_keys import Key
    from allranks_operator.diagnostics import Explainer
    from allranks_operator.events import EventRecorder
    from allranks_operator.executor import ActionExecutor
    from allranks_operator.failure_log import FailureLog
    from allranks_operator.kube.client import Api
    from allranks_operator.metrics import Metrics
    from allranks_operator.progress_log import ProgressLog
    from allranks_operator.workqueue import WorkItem, WorkQueue


_CONTROLLERS = ("Job", "StatefulSet", names.ELASTIC_JOB)
# A chart's own TrainingRun comes some moments after its Job; ours must not be in its way.
_CHART_SECONDS = 5.0
# A run that has just started is not stuck.
_PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 6.0
_UNKNOWN_SECONDS = 60.0
# Who replaces a Job, or deletes a release, does it in steps; what is between them is no failure.
_REPLACED_SECONDS = 10.0
_ENDS = {
    str(Phase.SUCCEEDED): ("Normal", allranks_operator_events.RUN_SUCCEEDED),
    str(Phase.FAILED): ("Warning", allranks_operator_events.RUN_FAILED),
}
_LOG_LINES = 5


@dataclass(slots=True)
class _Memory:
    """The operator's memory of a run.

    Attributes:
        first: when it was first reconciled, or last had a TrainingRun (time.monotonic).
        watched: whether it ever had a controller.
        gone_since: since when it has no controller; None where it has one.
        stuck: since when it does not get on; None where it does.
        phase: its phase in the metrics; "" before the first.
        last_write: the last status written, and the server's version of it.
    """

    first: float
    watched: bool = False
    gone_since: float | None = None
    stuck: float | None = None
    phase: str = ""
    last_write: tuple[Mapping[str, Any], Mapping[str, Any]] | None = field(default=None, repr=False)


class TrainingRunReconciler:
    """Reconciles runs."""

    def __init__(
        self,
        api: Api,
        cache: ObjectCache,
        queue: WorkQueue,
        executor: ActionExecutor,
        metrics: Metrics,
        *,
        recorder: EventRecorder,
        explainer: Explainer,
        logs: FailureLog | None,
        progress_log: ProgressLog | None = None,
    ) -> None:
        """Create it; nothing is reconciled yet.

        Args:
            api: the API server.
            cache: the objects of the cluster.
            queue: gets the keys to reconcile again.
            executor: makes requests, if this operator may.
            metrics: the operator's metrics.
            recorder: writes Events.
            explainer: lists the objects that explain a run.
            logs: reads the end of a failed rank's log; None where it may not.
            progress_log: reads how far a training is; None likewise.
        """
        self._api = api
        self._cache = cache
        self._queue = queue
        self._executor = executor
        self._metrics = metrics
        self._recorder = recorder
        self._explainer = explainer
        self._logs = logs
        self._progress_log = progress_log
        self._rate_limiter = RateLimiter(1.0)
        self._backoff = Backoff()
        self._memory: dict[Key, _Memory] = {}

    def forget_all(self) -> None:
        """Forget all runs: another operator has the lease and counts them."""
        self._memory.clear()
        self._metrics.runs.clear()

    def reconcile(self, item: WorkItem) -> None:
        """Reconcile one run: write its status where it has changed.

        Raises:
            NotLeadingError: another operator has the lease.
        """
        key = item.key
        wait = max(self._rate_limiter.wait(key), self._backoff.remaining(key, ""))
        if wait:
            self._queue.hold(key, wait)
            self._queue.add(key, since=item.since)
            return
        parts = self._cache.of(key)
        controllers = [controller for kind in _CONTROLLERS for controller in parts.get(kind, ())]
        run = choose(parts.get(names.TRAINING_RUN, ()), key.name)
        memory = self._memory.setdefault(key, _Memory(time.monotonic()))
        if run is None and not controllers:
            self._forget(key)
        elif run is None:
            self._make(key, controllers, memory)
        elif "deletionTimestamp" not in run["metadata"]:
            # One that goes before its Job, as in a deletion, is not made again in between.
            memory.first = time.monotonic()
            pods = parts.get("Pod", ())
            self._update(item, run, Observation(key.name, key.namespace, tuple(controllers), pods))

    def _make(self, key: Key, controllers: list[Manifest], memory: _Memory) -> None:
        """Create a release's TrainingRun, after the chart has had time to."""
        if not needs_status(controllers):
            return
        remaining = memory.first + _CHART_SECONDS - time.monotonic()
        if remaining > 0:
            self._queue.add(key, after=remaining)
            return
        body = make(key.namespace, key.name, controllers)

        def apply() -> Manifest:
            return self._api.apply(TRAINING_RUNS.path, key.namespace, key.name, body)

        answer = self._call(key, "create_run", apply)
        if answer is not None:
            self._cache.learn(TRAINING_RUNS, answer)
        elif not self._backoff.failing(key, ""):
            # The cluster does not know the kind: it is not asked at each change of each run.
            # Nor does anything tell when it does: the kinds may come long after the run.
            again = self._backoff.record_failure(key, "", _UNKNOWN_SECONDS, _UNKNOWN_SECONDS)
            self._queue.add(key, after=again)

    def _update(self, item: WorkItem, run: Manifest, observation: Observation) -> None:
        key, previous = item.key, mapping(run, "status")
        memory = self._memory[key]
        status = self._status(key, observation, previous)
        if status is None:
            return
        built = training_run.build(
            status,
            previous,
            int(run["metadata"].get("generation") or 0),
            self._progress(key, observation, status),
            time.time(),
        )
        new_status: Manifest = plain(built)
        self._count(memory, text(new_status, "phase"))
        # What the server left out of a status that it took is not sent again and again.
        if new_status == previous or memory.last_write == (new_status, previous):
            return
        answer = self._call(key, "write_run_status", lambda: self._write(run, new_status))
        if answer is None:
            return
        self._rate_limiter.record(key)
        self._cache.learn(TRAINING_RUNS, answer)
        memory.last_write = (new_status, mapping(answer, "status"))
        self._record_end(run, previous, new_status, status)
        self._record_stall(run, previous, new_status)
        if item.since is not None:
            self._metrics.reaction_seconds.observe(time.monotonic() - item.since)

    def _progress(
        self, key: Key, observation: Observation, status: RunStatus
    ) -> Mapping[str, Any] | None:
        """The progress of the training; None where nothing new tells it."""
        report = progress.read(observation.pods)
        if report is not None or self._progress_log is None:
            return report
        report, again = self._progress_log.of(observation, status)
        if again is not None:
            self._queue.add(key, after=again)
        return report

    def _record_end(
        self,
        run: Manifest,
        previous: Mapping[str, Any],
        new_status: Mapping[str, Any],
        status: RunStatus,
    ) -> None:
        """Record an Event for the end of a run, once."""
        phase = text(new_status, "phase")
        if phase == text(previous, "phase") or phase not in _ENDS:
            return
        kind, reason = _ENDS[phase]
        log = status.failure.log if status.failure is not None else ()
        message = "\n".join((text(new_status, "message"), *log[-_LOG_LINES:]))
        self._recorder.record(Event(_reference(run), kind, reason, message))

    def _record_stall(
        self, run: Manifest, previous: Mapping[str, Any], new_status: Mapping[str, Any]
    ) -> None:
        """Record an Event where the launcher says that the run stands still, and why."""
        words = text(new_status, "progress", "standstill")
        if words and words != text(previous, "progress", "standstill"):
            reason = allranks_operator_events.RUN_STALLED
            self._recorder.record(Event(_reference(run), "Warning", reason, words))

    def _write(self, run: Manifest, status: Mapping[str, Any]) -> Manifest:
        metadata = run["metadata"]
        body = {
            "apiVersion": TRAINING_RUNS.api_version,
            "kind": TRAINING_RUNS.kind,
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "status": status,
        }
        path, namespace = TRAINING_RUNS.path, metadata["namespace"]
        return self._api.apply(path, namespace, metadata["name"], body, part="status")

    def _status(
        self, key: Key, observation: Observation, previous: Mapping[str, Any]
    ) -> RunStatus | None:
        """The status of a run; None where nothing is to be written."""
        memory, now = self._memory[key], time.monotonic()
        memory.watched |= bool(observation.objects)
        observation = replace(observation, now=time.time())
        status = reduce.reduce(observation)
        if deletion.is_going(status, observation.objects, text(previous, "phase")):
            return deletion.deleting(status)
        if status.phase is Phase.UNKNOWN:
            return self._deleted_status(key, observation, status, previous)
        memory.gone_since = None
        if status.phase in FINAL:
            memory.stuck = None
            return self._with_log(observation, status)
        if not _is_stuck(status):
            memory.stuck = None
            return status
        memory.stuck = now if memory.stuck is None else memory.stuck
        if now - memory.stuck < _PATIENCE_SECONDS:
            self._queue.add(key, after=_PATIENCE_SECONDS)
            return status
        return self._with_diagnosis(key, observation, status)

    def _with_diagnosis(self, key: Key, observation: Observation, status: RunStatus) -> RunStatus:
        """The status with what events, queues and claims explain."""
        self._queue.add(key, after=_AGAIN_SECONDS)
        objects, events, notes = self._explainer.explain(
            key.namespace, observation.objects, observation.pods
        )
        if not (objects or events or notes):
            return status
        more = replace(
            observation, objects=(*observation.objects, *objects), events=events, notes=notes
        )
        return reduce.reduce(more)

    def _deleted_status(
        self, key: Key, observation: Observation, status: RunStatus, previous: Mapping[str, Any]
    ) -> RunStatus | None:
        """The end of a run whose objects are all gone, as `allranks status` shows it."""
        if text(previous, "phase") in FINAL:
            return None  # how it ended stands there already
        watched = self._memory[key].watched
        new = deletion.is_new(previous) and not watched
        if self._may_return(key):
            return None if new else deletion.awaited_status(status)
        ends = self._explainer.ends(key.namespace)
        if ends is None:
            self._queue.add(key, after=_AGAIN_SECONDS)
            return None
        events, notes = ends
        runs = self._cache.of(key).get(names.TRAINING_RUN, ())
        more = replace(observation, objects=tuple(runs), events=events, notes=notes)
        return deletion.deleted_status(reduce.reduce(more), watched=watched, new=new)

    def _may_return(self, key: Key) -> bool:
        """Whether a new controller may still replace the deleted one; queues the next check."""
        memory, now = self._memory[key], time.monotonic()
        memory.gone_since = now if memory.gone_since is None else memory.gone_since
        remaining = memory.gone_since + _REPLACED_SECONDS - now
        if remaining > 0:
            self._queue.add(key, after=remaining)
        return remaining > 0

    def _with_log(self, observation: Observation, status: RunStatus) -> RunStatus:
        """The status with the last log lines of the failed rank, where they may be read."""
        if self._logs is None or status.failure is None:
            return status
        lines = self._logs.of(observation)
        return reduce.reduce(observation, lines) if lines else status

    def _call(self, key: Key, verb: str, request: Any) -> Manifest | None:
        """Make a request; a refusal delays the run's next reconciliation."""
        try:
            answer: Manifest | None = self._executor.call(verb, key.namespace, request)
        except (NotFoundError, TerminatingError):
            return None  # it went meanwhile, or the cluster does not know the kind
        except ApiError as error:
            first = 0.5 if isinstance(error, BusyError) else 5.0
            seconds = self._backoff.record_failure(key, "", first, 60.0)
            self._queue.add(key, after=seconds)
            return None
        self._backoff.reset(key, "")
        return answer

    def _count(self, memory: _Memory, phase: str) -> None:
        if phase != memory.phase:
            if memory.phase:
                self._metrics.runs.labels(memory.phase).dec()
            self._metrics.runs.labels(phase).inc()
            memory.phase = phase

    def _forget(self, key: Key) -> None:
        memory = self._memory.pop(key, None)
        if memory is not None and memory.phase:
            self._metrics.runs.labels(memory.phase).dec()
        self._rate_limiter.forget(key)
        self._backoff.forget(key)


def _reference(run: Manifest) -> ObjectReference:
    """Return a TrainingRun as what an Event is about."""
    metadata = run["metadata"]
    return ObjectReference(
        names.API_VERSION,
        names.TRAINING_RUN,
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
    )


def _is_stuck(status: RunStatus) -> bool:
    """Whether the run waits for something that events may explain."""
    return bool(status.waiting_for) or any(role.running < role.expected for role in status.roles)


_HELM = "Helm"
_OFF = "off"


def choose(runs: Sequence[Manifest], release: str) -> Manifest | None:
    """The TrainingRun of a release: the one of its name, else the first of several."""
    ordered = sorted(
        runs, key=lambda run: (run["metadata"]["name"] != release, run["metadata"]["name"])
    )
    return ordered[0] if ordered else None


def needs_status(controllers: Sequence[Manifest]) -> bool:
    """Whether the release has a controller that stays, and none that opts out."""
    staying = [
        controller
        for controller in controllers
        if "deletionTimestamp" not in controller["metadata"]
    ]
    statuses = (
        text(controller, "metadata", "annotations", names.STATUS) for controller in controllers
    )
    return bool(staying) and _OFF not in statuses


def make(namespace: str, release: str, controllers: Sequence[Manifest]) -> Manifest:
    """A TrainingRun for a release whose chart rendered none.

    Args:
        namespace: its namespace.
        release: the release.
        controllers: its Jobs, StatefulSets and ElasticJobs; it goes with the first of them.
    """
    staying = [
        controller
        for controller in controllers
        if "deletionTimestamp" not in controller["metadata"]
    ]
    first = min(
        staying, key=lambda controller: (controller["metadata"]["name"], controller["kind"])
    )
    labels = mapping(first, "metadata", "labels")
    workload = text(labels, names.WORKLOAD) or (
        "elastic" if first["kind"] == names.ELASTIC_JOB else "job"
    )
    own = {
        names.APP_INSTANCE: release,
        names.APP_PART_OF: names.PART_OF,
        names.WORKLOAD: workload,
    }
    metadata: Manifest = {
        "name": release,
        "namespace": namespace,
        "labels": own,
        "ownerReferences": [
            {
                "apiVersion": first["apiVersion"],
                "kind": first["kind"],
                "name": first["metadata"]["name"],
                "uid": first["metadata"]["uid"],
            }
        ],
    }
    annotations = mapping(first, "metadata", "annotations")
    if text(annotations, names.HELM_RELEASE):
        # So Helm takes it for the release's own, should the chart render one some day.
        own[names.APP_MANAGED_BY] = _HELM
        metadata["annotations"] = {
            key: annotations[key] for key in (names.HELM_RELEASE, names.HELM_NAMESPACE)
        }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.TRAINING_RUN,
        "metadata": metadata,
        "spec": {"release": release, "workload": workload},
    }
