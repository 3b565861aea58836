"""The reconciler of ElasticJobs: read, decide, execute.

The write of the job's status is the commit: where somebody else wrote first, it is refused, nothing
else is done, and the job is reconciled again. A status that only counts pods may wait for a second;
one that changes the desired pods does not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from allranks import names
from allranks.elastic.actions import CreatePod, CreateService, RecordEvent
from allranks.elastic.api import plan
from allranks.elastic.decide import GRACE_SECONDS, decide, orphan
from allranks.elastic.observed_pods import is_owned
from allranks.elastic.snapshot import JobView
from allranks.errors import ApiError, BusyError, ConflictError, NotFoundError, TerminatingError
from allranks_operator import events, executor
from allranks_operator.executor import ActionResults
from allranks_operator.kube.client import plain, same
from allranks_operator.kube.resources import ELASTIC_JOBS
from allranks_operator.rate_limit import Backoff, RateLimiter, TokenBucket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.elastic.actions import Action, Decision, WriteJobStatus
    from allranks.elastic.api.plan import ScalePlan
    from allranks.k8s.manifest import Manifest
    from allranks_operator.cache.cache import ObjectCache
    from allranks_operator.cache.owner_keys import Key
    from allranks_operator.executor import ActionExecutor, ActionOutcome
    from allranks_operator.kube.client import Api
    from allranks_operator.metrics import Metrics
    from allranks_operator.workqueue import WorkItem, WorkQueue


# A commit is not held back for a second, but ten of them are not made in one either; a job and its
# first plan often come together.
_COMMIT_SECONDS, _COMMITS_AT_ONCE = 0.1, 3
# A long reconciliation is followed by a pause of so many times its length.
_PAUSE_FACTOR = 2.0
# From this length on, even a change does not shorten the pause: other jobs need their turn.
_LONG_SECONDS = 0.2
_HELD_SECONDS = 1.0
# The master has its own account and image, so its refusals do not delay the other pods, nor theirs
# the master.
_MAKING, _LEADING, _OTHER_ACTIONS = "making pods", "making the master", "the rest"
_NAME_CONFLICT_SECONDS = 60.0
# The first and the longest delay between two tries, in seconds.
_TRIES = {
    executor.QUOTA: (1.0, 20.0),
    executor.REFUSED: (5.0, 300.0),
    executor.BUSY: (0.25, 15.0),
    executor.CONFLICT: (0.05, 5.0),
}
# Results that only a change elsewhere can mend.
_REFUSALS = frozenset({executor.QUOTA, executor.REFUSED})
_AGAIN = "{}; it is tried again from time to time"
_FOREIGN = (
    "Service {} is not this job's, and is used as it stands: pods are found by it only where its "
    "selector and port lead to them"
)


class ElasticJobReconciler:
    """Reconciles ElasticJobs."""

    def __init__(
        self,
        api: Api,
        cache: ObjectCache,
        queue: WorkQueue,
        executor: ActionExecutor,
        metrics: Metrics,
        *,
        master_image: str,
        own_accounts: bool = False,
        operator_account: tuple[str, str] = ("", ""),
    ) -> None:
        """Create it; nothing is reconciled yet.

        Args:
            api: the API server.
            cache: the objects of the cluster.
            queue: gets the keys to reconcile again.
            executor: executes actions.
            metrics: the operator's metrics.
            master_image: the image of our own masters.
            own_accounts: whether each job's master gets its own ServiceAccount.
            operator_account: namespace and name of the operator's own account; "" is no account.
        """
        self._api = api
        self._cache = cache
        self._queue = queue
        self._executor = executor
        self._metrics = metrics
        self._master_image = master_image
        self._own_accounts = own_accounts
        self._operator_account = operator_account
        self._rate_limiter = RateLimiter(1.0)
        self._commits = TokenBucket(_COMMIT_SECONDS, _COMMITS_AT_ONCE)
        self._backoff = Backoff()
        self._plans = PlanCache()
        self._name_conflicts: dict[tuple[Key, str], float] = {}
        self._generations: dict[Key, int] = {}
        self._refusals: dict[tuple[Key, str], str] = {}

    def reconcile(self, item: WorkItem) -> None:
        """Reconcile one ElasticJob.

        Raises:
            NotLeadingError: another operator has the lease.
        """
        key = item.key
        parts = self._cache.of(key)
        jobs = parts.get(names.ELASTIC_JOB, ())
        plans = parts.get(names.SCALE_PLAN, ())
        if not jobs:
            self._forget(key)
            again = refuse(self._executor, plans)
            if again is not None:
                self._queue.add(key, after=again)
            return
        wait = self._commits.wait(key)
        if wait:
            self._queue.hold(key, wait)
            self._queue.add(key, since=item.since)
            return
        self._reset_backoff(key, jobs[0])
        start = time.monotonic()
        decision = decide(self._view(key, jobs[0], parts.get("Pod", ()), plans))
        seconds = time.monotonic() - start
        again = self._carry_out(item, jobs[0], decision)
        pause = seconds * _PAUSE_FACTOR
        if seconds > _LONG_SECONDS:
            self._queue.hold(key, pause)
        # While pods are held back, what is left of them is no reason to come back at once.
        least = pause if again is None else max(pause, min(again, _HELD_SECONDS))
        for delay, soonest in ((again, pause), (decision.requeue_after, least)):
            if delay is not None:
                self._queue.add(key, after=max(delay, soonest))

    def _reset_backoff(self, key: Key, job: Manifest) -> None:
        """Drop the back-off of what a change of the job may have mended."""
        generation = int(job["metadata"].get("generation") or 0)
        if self._generations.get(key) != generation:
            self._generations[key] = generation
            self._backoff.forget(key)
            self._forget_refusals(key)

    def _view(
        self, key: Key, job: Manifest, pods: Sequence[Manifest], plans: Sequence[Manifest]
    ) -> JobView:
        uid = job["metadata"]["uid"]
        namespace, account = self._operator_account
        services = dict.fromkeys(self._taken_names(key), "")
        for service in self._cache.of(key).get("Service", ()):
            metadata = service["metadata"]
            services[metadata["name"]] = metadata["uid"] if is_owned(uid, metadata) else ""
        return JobView(
            job=job,
            plans=tuple(plans),
            pods=tuple(pods),
            services=services,
            now=time.time(),
            master_image=self._master_image,
            own_accounts=self._own_accounts,
            operator_account=account if namespace == key.namespace else "",
            refused=self._refusals.get((key, _MAKING), ""),
            master_refused=self._refusals.get((key, _LEADING), ""),
            read_plan=self._plans.reader(key),
        )

    def _carry_out(self, item: WorkItem, job: Manifest, decision: Decision) -> float | None:
        """Execute a decision; return the seconds until the next reconciliation, None for never."""
        key, commit = item.key, decision.commit
        postponed: float | None = None
        if commit is not None and not same(commit.status, job.get("status")):
            if not commit.urgent and (wait := self._rate_limiter.wait(key)):
                postponed = wait
                # Its age goes on counting.
                self._queue.add(key, after=wait, since=item.since)
            else:
                failed = self._commit(item, job, commit)
                if failed is not None:
                    return failed
        again = self._execute_rest(key, job, decision.then)
        return min((delay for delay in (again, postponed) if delay is not None), default=None)

    def _commit(self, item: WorkItem, job: Manifest, commit: WriteJobStatus) -> float | None:
        """Write the job's status; return the seconds until a retry where that failed."""
        key = item.key
        body = {
            "apiVersion": ELASTIC_JOBS.api_version,
            "kind": ELASTIC_JOBS.kind,
            "metadata": {
                "name": commit.name,
                "uid": job["metadata"]["uid"],
                "resourceVersion": commit.resource_version,
            },
            "status": plain(commit.status),
        }

        def write() -> Manifest:
            path = ELASTIC_JOBS.path
            return self._api.apply(path, key.namespace, commit.name, body, part="status")

        try:
            answer = self._executor.call("write_job_status", key.namespace, write)
        except (NotFoundError, TerminatingError):
            return None
        except ConflictError:
            self._read(key, commit.name)
            return self._backoff.record_failure(key, _OTHER_ACTIONS, *_TRIES[executor.CONFLICT])
        except ApiError as error:
            return self._later(key, job, error)
        self._rate_limiter.record(key)
        self._commits.take(key)
        self._backoff.reset(key, _OTHER_ACTIONS)
        if answer is not None:
            self._cache.learn(ELASTIC_JOBS, answer)
        if item.since is not None:
            self._metrics.reaction_seconds.observe(time.monotonic() - item.since)
        return None

    def _read(self, key: Key, name: str) -> None:
        """Read what somebody else has written into the cache."""
        try:
            fresh, at = self._api.find(ELASTIC_JOBS.path, key.namespace, name)
            self._cache.learn(ELASTIC_JOBS, fresh, at=at)
        except ApiError:
            return  # the watch will tell

    def _later(self, key: Key, job: Manifest, error: ApiError) -> float:
        word = executor.result_of(error)
        self._report_refusal(job, word, error)
        seconds = self._backoff.record_failure(key, _OTHER_ACTIONS, *_TRIES[word])
        return max(seconds, error.retry_after if isinstance(error, BusyError) else 0.0)

    def _execute_rest(self, key: Key, job: Manifest, actions: Sequence[Action]) -> float | None:
        """Execute the actions after the commit; refused sorts of actions wait for a while."""
        sorts: dict[str, list[Action]] = {_MAKING: [], _LEADING: [], _OTHER_ACTIONS: []}
        for action in actions:
            sorts[_sort(action)].append(action)
        first = sorts[_OTHER_ACTIONS]
        rest: list[Action] = []
        waits: list[float] = []
        for sort in (_LEADING, _MAKING):
            making = sorts[sort]
            if not making:
                self._refusals.pop((key, sort), None)
            if seconds := self._backoff.remaining(key, sort):
                waits.append(seconds)
                continue
            # After a refusal one is tried first: the others would be refused alike.
            count = 1 if self._backoff.failing(key, sort) else len(making)
            first, rest = first + making[:count], rest + making[count:]
        outcomes: list[ActionOutcome] = self._executor.execute(job, first).outcomes if first else []
        refused_sorts = {_sort(outcome.action) for outcome in outcomes if outcome.error is not None}
        more = [action for action in rest if _sort(action) not in refused_sorts]
        if more:
            outcomes += self._executor.execute(job, more).outcomes
        self._record_name_conflicts(key, job, outcomes)
        for sort in sorts:
            waits += self._delays(
                key, job, sort, [outcome for outcome in outcomes if _sort(outcome.action) == sort]
            )
        return min(waits, default=None)

    def _delays(
        self, key: Key, job: Manifest, sort: str, outcomes: list[ActionOutcome]
    ) -> list[float]:
        """The seconds until a retry of one sort of actions; [] where all succeeded."""
        if all(outcome.result == executor.SKIPPED for outcome in outcomes):
            return []  # nothing was learnt of it
        results = executor.ActionResults(outcomes)
        worst = results.worst()
        if worst is None or worst.error is None:
            self._refusals.pop((key, sort), None)
            if self._backoff.reset(key, sort) and sort != _OTHER_ACTIONS:
                self._tell(job, "Normal", events.PODS_CREATED, "pods are created again")
            return []
        waits = [max(self._backoff.record_failure(key, sort, *_TRIES[worst.result]), results.after)]
        if sort == _OTHER_ACTIONS:
            self._report_refusal(job, worst.result, worst.error)
        elif worst.result in _REFUSALS and self._note_refusal(key, job, sort, worst.error):
            waits.append(0.0)  # the job's status is to say so
        return waits

    def _note_refusal(self, key: Key, job: Manifest, sort: str, error: ApiError) -> bool:
        """Record an Event for pods that cannot be created; return whether it is new."""
        message = f"Error creating: {error.detail or error.problem.message}"
        self._tell(job, "Warning", events.FAILED_CREATE, message)
        is_new = (key, sort) not in self._refusals
        self._refusals[key, sort] = message
        return is_new

    def _report_refusal(self, job: Manifest, word: str, error: ApiError) -> None:
        if word in _REFUSALS:
            message = error.problem.message.rstrip(".")
            self._tell(job, "Warning", events.ACTION_REFUSED, _AGAIN.format(message))

    def _tell(
        self, job: Manifest, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        metadata = job["metadata"]
        tell = RecordEvent(
            names.ELASTIC_JOB, metadata["name"], metadata["uid"], kind, reason, message
        )
        self._executor.execute(job, [tell])

    # --- Services of others under a name that the job needs: as good as its own -------------------

    def _record_name_conflicts(
        self, key: Key, job: Manifest, outcomes: Sequence[ActionOutcome]
    ) -> None:
        now = time.monotonic()
        for outcome in outcomes:
            if not isinstance(outcome.action, CreateService) or outcome.result not in {
                executor.THERE,
                executor.FOREIGN,
            }:
                continue
            name = outcome.action.manifest["metadata"]["name"]
            self._name_conflicts[key, name] = now + _NAME_CONFLICT_SECONDS
            if outcome.result == executor.FOREIGN:
                self._tell(job, "Warning", events.NAME_TAKEN, _FOREIGN.format(name))

    def _taken_names(self, key: Key) -> set[str]:
        now = time.monotonic()
        return {
            name
            for (owner, name), until in self._name_conflicts.items()
            if owner == key and until > now
        }

    def _forget_refusals(self, key: Key) -> None:
        for sort in (_MAKING, _LEADING):
            self._refusals.pop((key, sort), None)

    def _forget(self, key: Key) -> None:
        self._rate_limiter.forget(key)
        self._commits.forget(key)
        self._plans.forget(key)
        self._backoff.forget(key)
        self._generations.pop(key, None)
        self._forget_refusals(key)
        for entry in [entry for entry in self._name_conflicts if entry[0] == key]:
            del self._name_conflicts[entry]


def _sort(action: Action) -> str:
    """The sort of an action; refusals of one sort do not delay the others."""
    if not isinstance(action, CreatePod | CreateService):
        return _OTHER_ACTIONS
    labels = action.manifest["metadata"].get("labels") or {}
    return _LEADING if labels.get(names.EDL_TYPE) == names.EDL_MASTER else _MAKING


_AGAIN_SECONDS = 5.0


def refuse(executor: ActionExecutor, plans: Sequence[Manifest]) -> float | None:
    """Refuse the plans whose job has not appeared in time.

    Args:
        executor: executes the refusals.
        plans: the plans whose job does not exist.

    Returns:
        The seconds until the next check; None where no plan waits.
    """
    now = time.time()
    waits: list[float] = []
    for manifest in plans:
        if "deletionTimestamp" in manifest["metadata"]:
            continue
        decision = orphan(manifest, now)
        if decision.requeue_after is not None:
            # The server's clock may be ahead: nothing waits longer than it should by our own.
            waits.append(min(decision.requeue_after, GRACE_SECONDS))
        results = executor.execute(manifest, decision.then) if decision.then else ActionResults()
        if results.worst() is not None:
            waits.append(_AGAIN_SECONDS)
    return min(waits, default=None)


class PlanCache:
    """The parsed plans of each key, as of its last reconciliation."""

    def __init__(self) -> None:
        """Create an empty cache."""
        self._plans: dict[Key, dict[str, ScalePlan]] = {}

    def reader(self, key: Key) -> Callable[[Manifest], ScalePlan]:
        """A function that parses the plans of a key during one reconciliation."""
        before = self._plans.get(key, {})
        now = self._plans[key] = {}

        def read(manifest: Manifest) -> ScalePlan:
            uid = str(manifest["metadata"].get("uid") or "")
            cached = before.get(uid)
            now[uid] = (
                cached if cached is not None and cached.raw is manifest else plan.read(manifest)
            )
            return now[uid]

        return read

    def forget(self, key: Key) -> None:
        """Drop a key that no longer exists."""
        self._plans.pop(key, None)
