"""The watcher as a whole: its parts, put together, from the start to the end.

    reflectors -> world -> agenda -> loop -> runs, jobs -> act -> API server

Whoever has the lease acts; the other keeps its copy of the cluster warm. Who gains the lease reads
every list anew before the first action, so that what its predecessor did last is known.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from allranks.cluster.connection import Connection
from allranks_operator.act import Actor
from allranks_operator.agenda import Agenda
from allranks_operator.explain import Explainer
from allranks_operator.jobs import Jobs
from allranks_operator.kube.api import Api
from allranks_operator.kube.errors import ApiError, GoneError, RefusedError
from allranks_operator.kube.reflector import Reflector, Waits
from allranks_operator.kube.resources import WATCHED
from allranks_operator.lease import Election, Terms
from allranks_operator.logs import Logs
from allranks_operator.loop import Loop
from allranks_operator.metrics import Metrics
from allranks_operator.runs import Runs
from allranks_operator.serve import Server
from allranks_operator.telling import Teller
from allranks_operator.unread import UnreadObjects
from allranks_operator.world.keys import JOB, RUN, UNREAD
from allranks_operator.world.world import World

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from allranks_operator.agenda import Turn
    from allranks_operator.kube.resources import Resource
    from allranks_operator.settings import Settings
    from allranks_operator.world.keys import Key

_ANSWER_SECONDS = 20.0
# A renewal that takes longer comes too late anyway.
_LEASE_SECONDS = 4.0
_POLL = 0.01


class Watcher:
    """One watcher."""

    def __init__(self, settings: Settings, log: FilteringBoundLogger) -> None:
        """Put the parts together; nothing is asked before `run`.

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
        self._agenda = Agenda()
        self._world = World(self._changed)
        self._reflectors = [
            Reflector(
                self._api,
                resource,
                namespace,
                self._world,
                waits=Waits(),
                restarted=lambda of, why: self._metrics.watch_restarts.labels(of.plural, why).inc(),
                told=self._watch_failed,
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
            gained=self._gained,
            lost=self._lost,
            told=lambda error: self._failed("the lease", error),
            lacks=self._lacks,
        )
        self._actor, self._runs, self._jobs, self._unread = self._parts(settings)
        self._loop = Loop(self._agenda, self._look, log)
        self._server = Server(
            settings.listen,
            health=self._loop.health,
            ready=self._ready,
            metrics=self._measured,
        )
        self._stopping = threading.Event()
        self._spaces = spaces
        # Counts the times the lease came and went, so that a take-over that is late does nothing.
        self._terms = threading.Lock()
        self._term = 0

    @staticmethod
    def _connection(settings: Settings, seconds: float) -> Connection:
        return Connection(settings.kubeconfig or None, settings.context or None, seconds)

    def _parts(self, settings: Settings) -> tuple[Actor, Runs, Jobs, UnreadObjects]:
        teller = Teller(self._api, settings.identity, lambda error: self._failed("an Event", error))
        actor = Actor(
            self._api,
            self._world,
            self._metrics,
            teller,
            log=self._log,
            concurrency=settings.concurrency,
            may_act=lambda: self._election.leading and self._loop.acting,
        )
        shared = (self._api, self._world, self._agenda, actor, self._metrics)
        runs = Runs(
            *shared,
            teller=teller,
            explainer=Explainer(self._api, self._heard),
            logs=Logs(self._api, self._heard) if settings.pod_logs else None,
        )
        unread = UnreadObjects(self._world, actor, teller, self._log)
        jobs = Jobs(
            *shared,
            master_image=settings.master_image,
            own_accounts=settings.master_accounts,
        )
        return actor, runs, jobs, unread

    @property
    def port(self) -> int:
        """Of /healthz, /readyz and /metrics."""
        return self._server.port

    def run(self) -> None:
        """Work until `stop`."""
        where = ", ".join(self._spaces) if self._spaces != ("",) else "all namespaces"
        self._log.info("started", cluster=self._api.where, namespaces=where, port=self.port)
        self._server.start()
        for one in self._reflectors:
            one.start()
        threads = [
            threading.Thread(target=run, name=name)
            for name, run in (("loop", self._loop.run), ("lease", self._election.run))
        ]
        for thread in threads:
            thread.start()
        self._stopping.wait()
        self._loop.stop()
        # The lease is let go when nothing is done any more in its name.
        threads[0].join()
        self._actor.close()
        self._election.stop()
        threads[1].join()
        for one in self._reflectors:
            one.stop()
        self._server.stop()
        self._log.info("stopped")

    def stop(self) -> None:
        """End it; `run` returns when all is put away."""
        self._stopping.set()

    # --- told by the parts ------------------------------------------------------------------------

    def _changed(self, key: Key, since: float) -> None:
        if self._loop.acting:
            self._agenda.add(key, since=since)

    def _look(self, turn: Turn) -> None:
        looks = {RUN: self._runs.look, JOB: self._jobs.look, UNREAD: self._unread.look}
        looks[turn.key.kind](turn)

    def _gained(self) -> None:
        self._log.info("gained the lease; reading all lists anew")
        with self._terms:
            self._term += 1
            term = self._term
        threading.Thread(target=self._take_over, args=(term,), name="take-over").start()

    def _take_over(self, term: int) -> None:
        for one in self._reflectors:
            one.relist()
        while not all(one.synced for one in self._reflectors):
            if self._stopping.is_set() or term != self._term:
                return
            time.sleep(_POLL)
        with self._terms:
            if term != self._term:
                return  # lost again meanwhile
            self._loop.act(now=True)
            self._metrics.leader.set(1)
        keys = self._world.keys()
        self._log.info("acting", keys=len(keys))
        for key in keys:
            self._agenda.add(key)

    def _lost(self, why: str) -> None:
        with self._terms:
            self._term += 1
            self._loop.act(now=False)
            self._metrics.leader.set(0)
        self._agenda.clear()
        self._runs.forget_all()
        self._actor.lacking.clear()
        self._log.warning("lost the lease; standing by", why=why)

    def _lacks(self) -> str:
        return self._actor.lacking.told()

    def _watch_failed(self, resource: Resource, namespace: str, error: ApiError) -> None:
        missing = isinstance(error, GoneError) and resource.extension
        tell = self._log.info if missing else self._log.warning
        tell("a watch failed", resource=resource.plural, namespace=namespace, why=str(error))

    def _heard(self, namespace: str, action: str, error: ApiError | None) -> None:
        if error is None:
            self._actor.lacking.worked(namespace, action)
            return
        self._actor.lacking.refused(namespace, action, error)
        if isinstance(error, RefusedError):
            self._log.warning("a request was refused", action=action, why=str(error))

    def _failed(self, what: str, error: ApiError) -> None:
        self._log.warning(f"{what} failed", why=str(error))

    # --- asked by probes --------------------------------------------------------------------------

    def _ready(self) -> str:
        for one in self._reflectors:
            if not one.listed:
                why = f": {one.problem.problem.message}" if one.problem else ""
                return f"the list of {one.resource.plural} has not been read{why}"
        return ""

    def _measured(self) -> bytes:
        self._metrics.queue_depth.set(self._agenda.waiting)
        return self._metrics.text()
