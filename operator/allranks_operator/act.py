"""Carrying out what was decided: requests to the API server, many at once, each safe to repeat.

What becomes of an action is one word. `done`, `there` (it was so already), `foreign` (what has the
name is somebody else's: a Service is used as it stands, and nothing of it is deleted) and `gone`
(its object is no more) are ends; the others are reasons to come back:

    conflict   something else has the name or has changed it: look again at once
    busy       the server cannot now: look again soon, and later each time
    quota      a quota is used up: the rest of the pods is not tried, and later again
    refused    the server does not take it: say so, and try again rarely
    skipped    not tried, because of one of these
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.elastic.actions import (
    CreatePlan,
    CreatePod,
    CreateService,
    DeletePlan,
    DeletePod,
    DeleteService,
    Tell,
    WritePlanStatus,
)
from allranks.elastic.sights import owned
from allranks_operator import accounts, reasons
from allranks_operator.kube import resources
from allranks_operator.kube.applied import plain
from allranks_operator.kube.errors import (
    ApiError,
    BusyError,
    ConflictError,
    ExistsError,
    GoneError,
    QuotaError,
)
from allranks_operator.lacking import Lacking
from allranks_operator.telling import About, Sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from structlog.typing import FilteringBoundLogger

    from allranks.elastic.actions import Action
    from allranks.elastic.pods.account import Account
    from allranks.model.manifest import Manifest
    from allranks_operator.kube.api import Api
    from allranks_operator.kube.resources import Resource
    from allranks_operator.metrics import Metrics
    from allranks_operator.telling import Teller
    from allranks_operator.world.world import World

DONE, THERE, FOREIGN, GONE = "done", "there", "foreign", "gone"
CONFLICT, BUSY, QUOTA, REFUSED, SKIPPED = "conflict", "busy", "quota", "refused", "skipped"
_TOKEN_BYTES = 32
# Secrets that are known to be there; beyond, it is asked anew.
_DRAWN_MAX = 10_000
# What a program that repeats itself meets every day.
_EXPECTED = frozenset({THERE, GONE, CONFLICT})


class NotLeadingError(Exception):
    """Another watcher acts now; what is left is its business."""


class NotOwnedError(Exception):
    """What is to be deleted is not the job's own: it stays."""


class Outcome(NamedTuple):
    """What became of one action.

    Attributes:
        action: the action.
        word: see the module.
        error: why, where the API server refused it.
    """

    action: Action
    word: str
    error: ApiError | None = None


@dataclass(slots=True)
class Round:
    """What became of the actions of one look.

    Attributes:
        outcomes: one for each, in no order.
    """

    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def words(self) -> Counter[str]:
        """How many there are of each."""
        return Counter(one.word for one in self.outcomes)

    def worst(self) -> Outcome | None:
        """The one that says most about when to come back; None where all is done."""
        for word in (QUOTA, REFUSED, BUSY, CONFLICT):
            for one in self.outcomes:
                if one.word == word:
                    return one
        return None

    @property
    def after(self) -> float:
        """Seconds for which the server wants to be left alone."""
        found = [one.error.after for one in self.outcomes if isinstance(one.error, BusyError)]
        return max(found, default=0.0)


class Actor:
    """Makes requests; several looks may use it at once."""

    def __init__(
        self,
        api: Api,
        world: World,
        metrics: Metrics,
        teller: Teller,
        *,
        log: FilteringBoundLogger,
        concurrency: int,
        may_act: Callable[[], bool],
    ) -> None:
        """Nothing is sent yet.

        Args:
            api: the API server.
            world: learns what the answers say.
            metrics: counts what is done.
            teller: says Events.
            log: told of what the API server refuses.
            concurrency: requests at once, at most.
            may_act: whether this watcher may act now.
        """
        self._api = api
        self._world = world
        self._metrics = metrics
        self._teller = teller
        self._log = log
        self._may_act = may_act
        self.lacking = Lacking(metrics)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="act")
        # As many again wait for a free thread: none is idle, and no job's ten thousand stand before
        # another's one.
        self._share = 2 * concurrency
        self._drawn: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Take nothing more, and wait for what has begun."""
        self._pool.shutdown(cancel_futures=True)

    def perform(self, job: Manifest, actions: Iterable[Action]) -> Round:
        """Carry out actions of one job, and return when all have ended.

        Args:
            job: the ElasticJob that they are about.
            actions: what to do; in any order.
        """
        stop = threading.Event()
        share = threading.Semaphore(self._share)
        found: list[Future[Outcome]] = []
        for action in actions:
            share.acquire()
            found.append(self._pool.submit(self._one, job, action, stop))
            found[-1].add_done_callback(lambda _: share.release())
        return Round([one.result() for one in found])

    def timed(
        self, what: str, namespace: str, request: Callable[[], Manifest | None]
    ) -> Manifest | None:
        """Make one request, if this watcher may, and count it.

        Args:
            what: what the metrics call it.
            namespace: where.
            request: makes it.

        Raises:
            NotLeadingError: another watcher acts.
            ApiError: see `allranks_operator.kube.errors`.
        """
        if not self._may_act():
            raise NotLeadingError
        started = time.monotonic()
        word = DONE
        try:
            answer = request()
        except ApiError as error:
            word = word_of(error)
            self.lacking.refused(namespace, what, error)
            if word not in _EXPECTED:
                self._log.warning("a request was refused", action=what, result=word, why=str(error))
            raise
        else:
            self.lacking.worked(namespace, what)
            return answer
        finally:
            self._metrics.action_seconds.labels(what).observe(time.monotonic() - started)
            self._metrics.actions.labels(what, word).inc()

    def _one(self, job: Manifest, action: Action, stop: threading.Event) -> Outcome:
        making = isinstance(action, CreatePod | CreateService)
        if making and stop.is_set():
            return Outcome(action, SKIPPED)
        try:
            namespace = job["metadata"]["namespace"]
            self.timed(_NAMES[type(action)], namespace, lambda: self._send(job, action))
        except NotLeadingError:
            return Outcome(action, SKIPPED)
        except NotOwnedError:
            return Outcome(action, FOREIGN)
        except ExistsError as error:
            return self._existing(job, action, error)
        except ApiError as error:
            word = word_of(error)
            if making and word in {QUOTA, BUSY}:
                stop.set()  # the next thousand would be refused as well
            return Outcome(action, word, error)
        return Outcome(action, DONE)

    def _send(self, job: Manifest, action: Action) -> Manifest | None:
        namespace: str = job["metadata"]["namespace"]
        match action:
            case CreatePod():
                if action.secret is not None:
                    self._draw(namespace, action.secret)
                if action.account is not None and not accounts.make(self._api, job, action.account):
                    self._tell(namespace, _no_history(job, action.account))
                self._create(resources.PODS, namespace, action.manifest)
            case CreateService():
                self._create(resources.SERVICES, namespace, action.manifest)
            case CreatePlan():
                self._create(resources.SCALE_PLANS, namespace, action.manifest, whole=True)
            case DeletePod():
                self._delete(resources.PODS, job, action.name, action.uid, action.grace_seconds)
            case DeleteService():
                self._delete(resources.SERVICES, job, action.name, action.uid)
            case DeletePlan():
                self._delete(resources.SCALE_PLANS, job, action.name, action.uid)
            case WritePlanStatus():
                self._plan(namespace, action)
            case Tell():
                self._tell(namespace, action)
        return None

    def _create(
        self, resource: Resource, namespace: str, body: Manifest, *, whole: bool = False
    ) -> None:
        answer = self._api.create(resource.path, namespace, body, metadata_only=not whole)
        # The answer has the metadata, what was sent has the rest.
        found = answer if whole else {**body, "metadata": answer["metadata"]}
        self._world.learn(resource, found)

    def _draw(self, namespace: str, secret: Manifest) -> None:
        """Make a Secret with a token of its own; one that is there is the one that pods have."""
        place = namespace, secret["metadata"]["name"]
        if place in self._drawn:
            return
        drawn = {**secret, "stringData": {names.TOKEN_KEY: secrets.token_hex(_TOKEN_BYTES)}}
        with suppress(ExistsError):
            self._api.create(resources.SECRETS, namespace, drawn, metadata_only=True)
        if len(self._drawn) >= _DRAWN_MAX:
            self._drawn.clear()
        self._drawn.add(place)

    def _delete(
        self, resource: Resource, job: Manifest, name: str, uid: str, grace: int | None = None
    ) -> None:
        namespace: str = job["metadata"]["namespace"]
        known = self._world.get(resource.kind, namespace, name)
        if known is not None and known["metadata"].get("uid") != uid:
            known = None
        # Plans are anybody's to write; a pod and a Service go only where they are the job's own.
        if not uid or (
            known is not None
            and resource is not resources.SCALE_PLANS
            and not owned(job["metadata"]["uid"], known["metadata"])
        ):
            raise NotOwnedError
        self._api.delete(resource.path, namespace, name, uid=uid, grace=grace)
        self._world.deleting(resource, namespace, name, uid, stamp())

    def _plan(self, namespace: str, action: WritePlanStatus) -> None:
        plans = resources.SCALE_PLANS
        body = {
            "apiVersion": plans.api_version,
            "kind": plans.kind,
            "metadata": {"name": action.name, "uid": action.uid},
            "status": plain(action.status),
        }
        answer = self._api.apply(plans.path, namespace, action.name, body, part="status")
        self._world.learn(plans, answer)
        phase = str(action.status.get("phase") or "")
        if action.status.get("finishTime"):
            self._metrics.plans.labels(phase.lower()).inc()

    def _tell(self, namespace: str, action: Tell) -> None:
        version = names.ELASTIC_API_VERSION
        about = About(version, action.kind, namespace, action.name, action.uid)
        self._teller.tell(Sentence(about, action.type, action.reason, action.message))

    def _existing(self, job: Manifest, action: Action, error: ApiError) -> Outcome:
        """Something of that name is there: ours, or somebody else's that stands in the way."""
        if not isinstance(action, CreatePod | CreateService):
            return Outcome(action, THERE)
        metadata = action.manifest["metadata"]
        kind = resources.PODS if isinstance(action, CreatePod) else resources.SERVICES
        try:
            found, at = self._api.find(kind.path, job["metadata"]["namespace"], metadata["name"])
        except ApiError as failed:
            return Outcome(action, CONFLICT if isinstance(failed, GoneError) else BUSY, failed)
        owned = any(one.get("uid") == job["metadata"]["uid"] for one in _owners(found))
        if isinstance(action, CreateService):
            return Outcome(action, THERE if owned else FOREIGN)
        if owned:
            self._world.learn(resources.PODS, found, at=at)
            return Outcome(action, THERE)
        if found["metadata"].get("deletionTimestamp"):
            return Outcome(action, BUSY, error)
        # Who decides is to see it, and takes another name.
        self._world.learn(resources.PODS, found, at=at)
        return Outcome(action, CONFLICT, error)


_NAMES: dict[type[Action], str] = {
    CreatePod: "create_pod",
    CreateService: "create_service",
    CreatePlan: "create_plan",
    DeletePod: "delete_pod",
    DeleteService: "delete_service",
    DeletePlan: "delete_plan",
    WritePlanStatus: "write_plan_status",
    Tell: "tell",
}


def word_of(error: ApiError) -> str:
    """What became of an action that the API server refused."""
    for kind, word in (
        (GoneError, GONE),
        (ExistsError, THERE),
        (ConflictError, CONFLICT),
        (QuotaError, QUOTA),
        (BusyError, BUSY),
    ):
        if isinstance(error, kind):
            return word
    return REFUSED


def _no_history(job: Manifest, account: Account) -> Tell:
    """That the name of a history is another's, which the master is to leave alone."""
    metadata = job["metadata"]
    name = account.history["metadata"]["name"]
    message = (
        f"ConfigMap {name} is no history of elastic jobs: the master does not see it, and keeps "
        "nothing for the next job of this name"
    )
    about = names.ELASTIC_JOB, metadata["name"], metadata["uid"]
    return Tell(*about, "Warning", reasons.NAME_TAKEN, message)


def stamp() -> str:
    """Now, as Kubernetes writes times."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _owners(found: Manifest) -> list[Manifest]:
    owners: list[Manifest] = found["metadata"].get("ownerReferences") or []
    return owners
