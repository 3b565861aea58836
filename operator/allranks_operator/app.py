"""The operator as a whole: builds its parts, and runs them from start to end.

    informers -> cache -> work queue -> loop -> reconcilers -> executor -> API server

The holder of the lease acts; the others keep their caches warm. A new holder reads every list again
before its first action, so that it knows what its predecessor did last.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from allranks.errors import ApiError, NotFoundError, RefusedError
from allranks_operator.cache.cache import ObjectCache
from allranks_operator.cache.owner_keys import JOB, RUN, UNREAD
from allranks_operator.diagnostics import Explainer
from allranks_operator.events import EventRecorder
from allranks_operator.executor import ActionExecutor
from allranks_operator.failure_log import FailureLog
from allranks_operator.health_server import HealthServer
from allranks_operator.kube.client import Api, connect
from allranks_operator.kube.informer import InformerTimeouts, Reflector
from allranks_operator.kube.resources import WATCHED
from allranks_operator.leader_election import Election, Terms
from allranks_operator.metrics import Metrics
from allranks_operator.progress_log import ProgressLog
from allranks_operator.reconcilers.elastic_job import ElasticJobReconciler
from allranks_operator.reconcilers.training_run import TrainingRunReconciler
from allranks_operator.reconcilers.unread_objects import UnreadObjects
from allranks_operator.workqueue import Loop, WorkQueue

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from allranks.cluster.connection import Connection
    from allranks_operator.cache.owner_keys import Key
    from allranks_operator.kube.resources import ApiResource
    from allranks_operator.settings import OperatorSettings
    from allranks_operator.workqueue import WorkItem

_ANSWER_SECONDS = 20.0
# A renewal that takes longer comes too late anyway.
_LEASE_SECONDS = 4.0
_POLL = 0.01


class Operator:
    """The operator process."""

    def __init__(self, settings: OperatorSettings, log: FilteringBoundLogger) -> None:
        """Build the parts; nothing is requested before `run`.

        Raises:
            InputError: the kubeconfig is missing or broken.
            OSError: the port for probes is taken.
        """
        connection = self._connection(settings, _ANSWER_SECONDS)
        own = connection.config.namespace
        spaces = ("",) if settings.cluster else settings.namespaces or (own,)
        self._log = log
        self._api = Api(connection)
        self._metrics = Metrics()
        self._queue = WorkQueue()
        self._cache = ObjectCache(self._on_change)
        self._informers = [
            Reflector(
                self._api,
                resource,
                namespace,
                self._cache,
                waits=InformerTimeouts(),
                restarted=lambda of, reason: self._metrics.watch_restarts.labels(
                    of.plural, reason
                ).inc(),
                on_error=self._note_watch_failure,
            )
            for namespace in spaces
            for resource in WATCHED
        ]
        terms = Terms(
            settings.lease_namespace or own,
            settings.lease_name,
            settings.identity,
            settings.lease_seconds,
        )
        self._election = Election(
            Api(self._connection(settings, _LEASE_SECONDS)),
            terms,
            gained=self._on_gained,
            on_lost=self._on_lost,
            on_error=lambda error: self._log_failure("the lease", error),
            resumed=self._on_resumed,
            lacks=self._lacks,
        )
        account = settings.account_namespace or own, settings.account
        self._executor, self._runs, self._jobs, self._unread = self._parts(settings, account)
        self._loop = Loop(self._queue, self._reconcile, log)
        self._server = HealthServer(
            settings.listen,
            health=self._loop.health,
            ready=self._ready,
            metrics=self._metrics_text,
        )
        self._stopping = threading.Event()
        self._spaces = spaces
        # Counts the changes of the lease, so that a late take-over does nothing.
        self._terms = threading.Lock()
        self._term = 0

    @staticmethod
    def _connection(settings: OperatorSettings, seconds: float) -> Connection:
        return connect(settings.kubeconfig or None, settings.context or None, seconds)

    def _parts(
        self, settings: OperatorSettings, account: tuple[str, str]
    ) -> tuple[ActionExecutor, TrainingRunReconciler, ElasticJobReconciler, UnreadObjects]:
        recorder = EventRecorder(
            self._api, settings.identity, lambda error: self._log_failure("an Event", error)
        )
        executor = ActionExecutor(
            self._api,
            self._cache,
            self._metrics,
            recorder,
            log=self._log,
            concurrency=settings.concurrency,
            may_act=lambda: self._election.leading and self._loop.acting,
        )
        shared = (self._api, self._cache, self._queue, executor, self._metrics)
        runs = TrainingRunReconciler(
            *shared,
            recorder=recorder,
            explainer=Explainer(self._api, self._record_result),
            logs=FailureLog(self._api, self._record_result) if settings.pod_logs else None,
            progress_log=ProgressLog(self._api, self._record_result) if settings.pod_logs else None,
        )
        unread = UnreadObjects(self._cache, executor, recorder, self._log)
        jobs = ElasticJobReconciler(
            *shared,
            master_image=settings.master_image,
            own_accounts=settings.master_accounts,
            operator_account=account,
        )
        return executor, runs, jobs, unread

    @property
    def port(self) -> int:
        """The port of /healthz, /readyz and /metrics."""
        return self._server.port

    def run(self) -> None:
        """Run until `stop` is called."""
        scope = ", ".join(self._spaces) if self._spaces != ("",) else "all namespaces"
        self._log.info("started", cluster=self._api.where, namespaces=scope, port=self.port)
        self._server.start()
        for informer in self._informers:
            informer.start()
        threads = [
            threading.Thread(target=run, name=name)
            for name, run in (("loop", self._loop.run), ("lease", self._election.run))
        ]
        for thread in threads:
            thread.start()
        self._stopping.wait()
        self._loop.stop()
        # The lease is released when no action in its name is left.
        threads[0].join()
        self._executor.close()
        self._election.stop()
        threads[1].join()
        for informer in self._informers:
            informer.stop()
        self._server.stop()
        self._log.info("stopped")

    def stop(self) -> None:
        """End the operator; `run` returns when everything has stopped."""
        self._stopping.set()

    # --- callbacks of the parts
    # --------------------------------------------------------------------

    def _on_change(self, key: Key, since: float) -> None:
        if self._loop.acting:
            self._queue.add(key, since=since)

    def _reconcile(self, item: WorkItem) -> None:
        reconcile = {
            RUN: self._runs.reconcile,
            JOB: self._jobs.reconcile,
            UNREAD: self._unread.reconcile,
        }
        reconcile[item.key.kind](item)

    def _on_gained(self) -> None:
        self._log.info("gained the lease; reading all lists anew")
        with self._terms:
            self._term += 1
            term = self._term
        threading.Thread(target=self._take_over, args=(term,), name="take-over").start()

    def _take_over(self, term: int) -> None:
        for informer in self._informers:
            informer.relist()
        while not all(informer.synced for informer in self._informers):
            if self._stopping.is_set() or term != self._term:
                return
            time.sleep(_POLL)
        with self._terms:
            if term != self._term:
                return  # lost again meanwhile
            self._loop.act(now=True)
            self._metrics.leader.set(1)
        self._log.info("acting", keys=self._add_all())

    def _add_all(self) -> int:
        """Queue all keys; return how many there are."""
        keys = self._cache.keys()
        for key in keys:
            self._queue.add(key)
        return len(keys)

    def _on_resumed(self) -> None:
        # What was reconciled meanwhile was left alone, and no event will tell of it again.
        if self._loop.acting:
            self._log.info("renewed the lease late; acting again", keys=self._add_all())

    def _on_lost(self, reason: str) -> None:
        with self._terms:
            self._term += 1
            self._loop.act(now=False)
            self._metrics.leader.set(0)
        self._queue.clear()
        self._runs.forget_all()
        self._executor.missing_permissions.clear()
        self._log.warning("lost the lease; standing by", why=reason)

    def _lacks(self) -> str:
        return self._executor.missing_permissions.describe()

    def _note_watch_failure(self, resource: ApiResource, namespace: str, error: ApiError) -> None:
        missing = isinstance(error, NotFoundError) and resource.extension
        tell = self._log.info if missing else self._log.warning
        tell(
            "a watch failed",
            resource=resource.plural,
            namespace=namespace,
            why=error.problem.message,
        )

    def _record_result(self, namespace: str, action: str, error: ApiError | None) -> None:
        if error is None:
            self._executor.missing_permissions.record_success(namespace, action)
            return
        self._executor.missing_permissions.record_refusal(namespace, action, error)
        if isinstance(error, RefusedError):
            self._log.warning("a request was refused", action=action, why=error.problem.message)

    def _log_failure(self, doing: str, error: ApiError) -> None:
        self._log.warning(f"{doing} failed", why=error.problem.message)

    # --- probes and metrics -----------------------------------------------------------------------

    def _ready(self) -> str:
        for informer in self._informers:
            if not informer.listed:
                detail = f": {informer.problem.problem.message}" if informer.problem else ""
                return f"the list of {informer.resource.plural} has not been read{detail}"
        return ""

    def _metrics_text(self) -> bytes:
        self._metrics.queue_depth.set(self._queue.depth)
        return self._metrics.text()
