"""Execute actions: concurrent requests to the API server, each safe to repeat.

Every action has one result. `done`, `there` (it was so already), `foreign` (the name belongs to
somebody else's object: a Service is used as it is, and nothing of theirs is deleted) and `gone`
(the object does not exist any more) are final; after the others the job is reconciled again:

    conflict   another object has the name, or the object has changed: at once
    busy       the server cannot answer now: soon, and with growing delays
    quota      a quota is used up: the remaining pods are not tried; with growing delays
    refused    the server rejects the request: an Event says so, and retries are rare
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
from typing import TYPE_CHECKING, NamedTuple

from allranks import names
from allranks.elastic.actions import (
    CreatePlan,
    CreatePod,
    CreateService,
    DeletePlan,
    DeletePod,
    DeleteService,
    RecordEvent,
    WritePlanStatus,
)
from allranks.elastic.observed_pods import is_owned
from allranks.elastic.pods import is_history_of
from allranks.errors import (
    ApiError,
    BusyError,
    ConflictError,
    ExistsError,
    NotFoundError,
    QuotaError,
    TerminatingError,
)
from allranks_operator import events
from allranks_operator.events import Event, ObjectReference
from allranks_operator.kube import resources
from allranks_operator.kube.client import plain
from allranks_operator.missing_permissions import MissingPermissions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from structlog.typing import FilteringBoundLogger

    from allranks.elastic.actions import Action
    from allranks.elastic.pods.account import Account
    from allranks.k8s.manifest import Manifest
    from allranks_operator.cache.cache import ObjectCache
    from allranks_operator.events import EventRecorder
    from allranks_operator.kube.client import Api
    from allranks_operator.kube.resources import ApiResource
    from allranks_operator.metrics import Metrics

DONE, THERE, FOREIGN, GONE = "done", "there", "foreign", "gone"
CONFLICT, BUSY, QUOTA, REFUSED, SKIPPED = "conflict", "busy", "quota", "refused", "skipped"
_TOKEN_BYTES = 32
# Secrets that are known to exist; beyond this number the API server is asked again.
_TOKEN_SECRETS_MAX = 10_000
# Results that are normal for a program that repeats its requests; they are not logged.
_EXPECTED = frozenset({THERE, GONE, CONFLICT})


class NotLeadingError(Exception):
    """Another operator has the lease; the remaining work is its own."""


class NotOwnedError(Exception):
    """The object to delete does not belong to the job, so it stays."""


class ActionOutcome(NamedTuple):
    """The outcome of one action.

    Attributes:
        action: the action.
        result: see the module.
        error: the API server's refusal; None where there was none.
    """

    action: Action
    result: str
    error: ApiError | None = None


@dataclass(slots=True)
class ActionResults:
    """The outcomes of all actions of one reconciliation.

    Attributes:
        outcomes: one for each action, in no particular order.
    """

    outcomes: list[ActionOutcome] = field(default_factory=list)

    @property
    def counts(self) -> Counter[str]:
        """The number of outcomes by result."""
        return Counter(outcome.result for outcome in self.outcomes)

    def worst(self) -> ActionOutcome | None:
        """The outcome that decides when to retry; None where all succeeded."""
        for result in (QUOTA, REFUSED, BUSY, CONFLICT):
            for outcome in self.outcomes:
                if outcome.result == result:
                    return outcome
        return None

    @property
    def after(self) -> float:
        """The seconds for which the server asks for no more requests."""
        delays = [
            outcome.error.retry_after
            for outcome in self.outcomes
            if isinstance(outcome.error, BusyError)
        ]
        return max(delays, default=0.0)


class ActionExecutor:
    """Executes actions; several threads may use it at once."""

    def __init__(
        self,
        api: Api,
        cache: ObjectCache,
        metrics: Metrics,
        recorder: EventRecorder,
        *,
        log: FilteringBoundLogger,
        concurrency: int,
        may_act: Callable[[], bool],
    ) -> None:
        """Create it; nothing is sent yet.

        Args:
            api: the API server.
            cache: updated with the API server's answers.
            metrics: counts actions and measures them.
            recorder: records Events.
            log: gets a line for each refusal.
            concurrency: the most requests at once.
            may_act: returns whether this operator holds the lease.
        """
        self._api = api
        self._cache = cache
        self._metrics = metrics
        for verb in _VERBS:  # from the start: Prometheus sees no growth in what appears
            metrics.actions.labels(verb, REFUSED)
        self._recorder = recorder
        self._log = log
        self._may_act = may_act
        self.missing_permissions = MissingPermissions(metrics)
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="act")
        # Twice the threads: no thread is idle, and one job's ten thousand pods do not queue up
        # before the single pod of another.
        self._share = 2 * concurrency
        self._token_secrets: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Accept no more actions, and wait for those that have begun."""
        self._pool.shutdown(cancel_futures=True)

    def execute(self, job: Manifest, actions: Iterable[Action]) -> ActionResults:
        """Execute actions of one job, and return when all have ended.

        Args:
            job: the ElasticJob that the actions belong to.
            actions: the actions; order does not matter.
        """
        stop = threading.Event()
        share = threading.Semaphore(self._share)
        futures: list[Future[ActionOutcome]] = []
        for action in actions:
            share.acquire()
            futures.append(self._pool.submit(self._outcome, job, action, stop))
            futures[-1].add_done_callback(lambda _: share.release())
        return ActionResults([future.result() for future in futures])

    def call(
        self, verb: str, namespace: str, request: Callable[[], Manifest | None]
    ) -> Manifest | None:
        """Make one request if this operator may act, and count it.

        Args:
            verb: the action's name in the metrics.
            namespace: the namespace of the request.
            request: makes the request.

        Raises:
            NotLeadingError: another operator has the lease.
            ApiError: see `allranks.errors`.
        """
        if not self._may_act():
            raise NotLeadingError
        start = time.monotonic()
        result = DONE
        try:
            answer = request()
        except ApiError as error:
            result = result_of(error)
            self.missing_permissions.record_refusal(namespace, verb, error)
            if result not in _EXPECTED:
                self._log.warning(
                    "a request was refused", action=verb, result=result, why=error.problem.message
                )
            raise
        else:
            self.missing_permissions.record_success(namespace, verb)
            return answer
        finally:
            self._metrics.action_seconds.labels(verb).observe(time.monotonic() - start)
            self._metrics.actions.labels(verb, result).inc()

    def _outcome(self, job: Manifest, action: Action, stop: threading.Event) -> ActionOutcome:
        making = isinstance(action, CreatePod | CreateService)
        if making and stop.is_set():
            return ActionOutcome(action, SKIPPED)
        try:
            namespace = job["metadata"]["namespace"]
            self.call(_NAMES[type(action)], namespace, lambda: self._send(job, action))
        except NotLeadingError:
            return ActionOutcome(action, SKIPPED)
        except NotOwnedError:
            return ActionOutcome(action, FOREIGN)
        except ExistsError as error:
            return self._existing(job, action, error)
        except ApiError as error:
            result = result_of(error)
            if making and result in {QUOTA, BUSY}:
                stop.set()  # the other pods would be refused as well
            return ActionOutcome(action, result, error)
        return ActionOutcome(action, DONE)

    def _send(self, job: Manifest, action: Action) -> Manifest | None:
        namespace: str = job["metadata"]["namespace"]
        match action:
            case CreatePod():
                if action.secret is not None:
                    self._create_token_secret(namespace, action.secret)
                if action.account is not None and not _make_account(self._api, job, action.account):
                    self._record_event(namespace, _no_history(job, action.account))
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
                self._write_plan_status(namespace, action)
            case RecordEvent():
                self._record_event(namespace, action)
        return None

    def _create(
        self, resource: ApiResource, namespace: str, body: Manifest, *, whole: bool = False
    ) -> None:
        answer = self._api.create(resource.path, namespace, body, metadata_only=not whole)
        # The answer has only the metadata; the rest is as it was sent.
        created = answer if whole else {**body, "metadata": answer["metadata"]}
        self._cache.learn(resource, created)

    def _create_token_secret(self, namespace: str, secret: Manifest) -> None:
        """Create a Secret with a random token, unless it exists."""
        place = namespace, secret["metadata"]["name"]
        if place in self._token_secrets:
            return
        filled = {**secret, "stringData": {names.TOKEN_KEY: secrets.token_hex(_TOKEN_BYTES)}}
        with suppress(ExistsError):
            self._api.create(resources.SECRETS, namespace, filled, metadata_only=True)
        if len(self._token_secrets) >= _TOKEN_SECRETS_MAX:
            self._token_secrets.clear()
        self._token_secrets.add(place)

    def _delete(
        self, resource: ApiResource, job: Manifest, name: str, uid: str, grace: int | None = None
    ) -> None:
        namespace: str = job["metadata"]["namespace"]
        cached = self._cache.get(resource.kind, namespace, name)
        if cached is not None and cached["metadata"].get("uid") != uid:
            cached = None
        # Anybody may write plans; pods and Services are deleted only where the job owns them.
        if not uid or (
            cached is not None
            and resource is not resources.SCALE_PLANS
            and not is_owned(job["metadata"]["uid"], cached["metadata"])
        ):
            raise NotOwnedError
        self._api.delete(resource.path, namespace, name, uid=uid, grace=grace)
        self._cache.deleting(resource, namespace, name, uid, events.stamp())

    def _write_plan_status(self, namespace: str, action: WritePlanStatus) -> None:
        plans = resources.SCALE_PLANS
        body = {
            "apiVersion": plans.api_version,
            "kind": plans.kind,
            "metadata": {"name": action.name, "uid": action.uid},
            "status": plain(action.status),
        }
        answer = self._api.apply(plans.path, namespace, action.name, body, part="status")
        self._cache.learn(plans, answer)
        phase = str(action.status.get("phase") or "")
        if action.status.get("finishTime"):
            self._metrics.plans.labels(phase.lower()).inc()

    def _record_event(self, namespace: str, action: RecordEvent) -> None:
        version = names.ELASTIC_API_VERSION
        about = ObjectReference(version, action.kind, namespace, action.name, action.uid)
        self._recorder.record(Event(about, action.type, action.reason, action.message))

    def _existing(self, job: Manifest, action: Action, error: ApiError) -> ActionOutcome:
        """The outcome where an object of that name exists, the job's own or somebody else's."""
        if not isinstance(action, CreatePod | CreateService):
            return ActionOutcome(action, THERE)
        metadata = action.manifest["metadata"]
        kind = resources.PODS if isinstance(action, CreatePod) else resources.SERVICES
        try:
            existing, at = self._api.find(kind.path, job["metadata"]["namespace"], metadata["name"])
        except ApiError as failed:
            return ActionOutcome(
                action, CONFLICT if isinstance(failed, NotFoundError) else BUSY, failed
            )
        owned = any(owner.get("uid") == job["metadata"]["uid"] for owner in _owners(existing))
        if isinstance(action, CreateService):
            return ActionOutcome(action, THERE if owned else FOREIGN)
        if owned:
            self._cache.learn(resources.PODS, existing, at=at)
            return ActionOutcome(action, THERE)
        if existing["metadata"].get("deletionTimestamp"):
            return ActionOutcome(action, BUSY, error)
        # The next decision sees it in the cache, and takes another name.
        self._cache.learn(resources.PODS, existing, at=at)
        return ActionOutcome(action, CONFLICT, error)


_NAMES: dict[type[Action], str] = {
    CreatePod: "create_pod",
    CreateService: "create_service",
    CreatePlan: "create_plan",
    DeletePod: "delete_pod",
    DeleteService: "delete_service",
    DeletePlan: "delete_plan",
    WritePlanStatus: "write_plan_status",
    RecordEvent: "tell",
}
# What is sent through `call` as well, by the reconcilers.
_VERBS = (*_NAMES.values(), "write_job_status", "create_run", "write_run_status")


def result_of(error: ApiError) -> str:
    """The result of an action that the API server refused."""
    for kind, result in (
        ((NotFoundError, TerminatingError), GONE),
        (ExistsError, THERE),
        (ConflictError, CONFLICT),
        (QuotaError, QUOTA),
        (BusyError, BUSY),
    ):
        if isinstance(error, kind):
            return result
    return REFUSED


def _no_history(job: Manifest, account: Account) -> RecordEvent:
    """The Event for a history whose ConfigMap name belongs to somebody else."""
    metadata = job["metadata"]
    name = account.history["metadata"]["name"]
    message = (
        f"ConfigMap {name} is no history of elastic jobs: the master does not see it, and keeps "
        "nothing for the next job of this name"
    )
    about = names.ELASTIC_JOB, metadata["name"], metadata["uid"]
    return RecordEvent(*about, "Warning", events.NAME_TAKEN, message)


def _owners(manifest: Manifest) -> list[Manifest]:
    owners: list[Manifest] = manifest["metadata"].get("ownerReferences") or []
    return owners


def _make_account(api: Api, job: Manifest, account: Account) -> bool:
    """Create the account and its rights, in an order that can be resumed at any point.

    Existing objects stay as they are. The right to a history is given by name, and the name is the
    job's: so whose the ConfigMap of that name is, is looked at first.

    Args:
        api: the API server.
        job: the ElasticJob.
        account: what is to be made.

    Returns:
        Whether the master may keep a history; not where its name is taken.

    Raises:
        ApiError: see `allranks.errors`.
    """
    namespace: str = job["metadata"]["namespace"]
    keeps = _has_history(api, namespace, job["metadata"]["name"], account.history)
    role = account.role if keeps else account.role_without_history
    for path, manifest in (
        (resources.SERVICE_ACCOUNTS, account.account),
        (resources.ROLES, role),
        (resources.ROLE_BINDINGS, account.binding),
    ):
        with suppress(ExistsError):
            api.create(path, namespace, manifest, metadata_only=True)
    return keeps


def _has_history(api: Api, namespace: str, job: str, history: Manifest) -> bool:
    try:
        api.create(resources.CONFIG_MAPS, namespace, history, metadata_only=True)
    except ExistsError:
        name = history["metadata"]["name"]
        return is_history_of(api.get(resources.CONFIG_MAPS, namespace, name), job)
    return True
