"""One look at an ElasticJob: what is known of it, what follows, and doing it.

The write of the job's status is the commit: where it is refused because somebody wrote first,
nothing else is done and the job is looked at again. A status that only counts pods may wait for its
second; one that changes what pods there are to be does not.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from allranks import names
from allranks.elastic.actions import CreatePod, CreateService, Tell
from allranks.elastic.decide import decide
from allranks.elastic.sights import owned
from allranks.elastic.view import JobView
from allranks_operator import act, orphans, reasons
from allranks_operator.kube.applied import plain, same
from allranks_operator.kube.errors import ApiError, BusyError, ConflictError, GoneError
from allranks_operator.kube.resources import ELASTIC_JOBS
from allranks_operator.pace import Backoff, Burst, Pace
from allranks_operator.plansread import PlansRead

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.elastic.actions import Action, Decision, WriteJobStatus
    from allranks.model.manifest import Manifest
    from allranks_operator.act import Actor, Outcome
    from allranks_operator.agenda import Agenda, Turn
    from allranks_operator.kube.api import Api
    from allranks_operator.metrics import Metrics
    from allranks_operator.world.keys import Key
    from allranks_operator.world.world import World

# A commit is not held back for a second, but ten of them are not made in one either; a job and its
# first plan often come together.
_COMMIT_SECONDS, _COMMITS_AT_ONCE = 0.1, 3
# A look that takes long is followed by a rest of so many times its length.
_REST = 2.0
# One that takes so long rests whatever changes: a job of ten thousand pods is not all there is.
_LONG_SECONDS = 0.2
_HELD_SECONDS = 1.0
# The master has an account and an image of its own: what keeps it from being made is no reason to
# leave the others alone, nor theirs to leave it.
_MAKING, _LEADING, _REST_OF = "making pods", "making the master", "the rest"
_TAKEN_SECONDS = 60.0
# (first, most) seconds between two tries.
_TRIES = {
    act.QUOTA: (1.0, 20.0),
    act.REFUSED: (5.0, 300.0),
    act.BUSY: (0.25, 15.0),
    act.CONFLICT: (0.05, 5.0),
}
# What only a change of something else mends.
_REFUSALS = frozenset({act.QUOTA, act.REFUSED})
_AGAIN = "{}; it is tried again from time to time"
_FOREIGN = (
    "Service {} is not this job's, and is used as it stands: pods are found by it only where its "
    "selector and port lead to them"
)


class Jobs:
    """Looks at elastic jobs."""

    def __init__(
        self,
        api: Api,
        world: World,
        agenda: Agenda,
        actor: Actor,
        metrics: Metrics,
        *,
        master_image: str,
        own_accounts: bool = False,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            api: the API server.
            world: what is known.
            agenda: where the next look is asked for.
            actor: carries out what was decided.
            metrics: counts.
            master_image: of our own masters.
            own_accounts: whether they get accounts of their jobs' own.
        """
        self._api = api
        self._world = world
        self._agenda = agenda
        self._actor = actor
        self._metrics = metrics
        self._master_image = master_image
        self._own_accounts = own_accounts
        self._pace = Pace(1.0)
        self._commits = Burst(_COMMIT_SECONDS, _COMMITS_AT_ONCE)
        self._backoff = Backoff()
        self._plans = PlansRead()
        self._taken: dict[tuple[Key, str], float] = {}
        self._generations: dict[Key, int] = {}
        self._refusals: dict[tuple[Key, str], str] = {}

    def look(self, turn: Turn) -> None:
        """Look at a job, and do what follows.

        Raises:
            NotLeadingError: another watcher acts.
        """
        key = turn.key
        parts = self._world.of(key)
        found = parts.get(names.ELASTIC_JOB, ())
        plans = parts.get(names.SCALE_PLAN, ())
        if not found:
            self._forget(key)
            again = orphans.refuse(self._actor, plans)
            if again is not None:
                self._agenda.add(key, after=again)
            return
        wait = self._commits.wait(key)
        if wait:
            self._agenda.hold(key, wait)
            self._agenda.add(key, since=turn.since)
            return
        self._heed_change(key, found[0])
        started = time.monotonic()
        decision = decide(self._view(key, found[0], parts.get("Pod", ()), plans))
        took = time.monotonic() - started
        again = self._carry_out(turn, found[0], decision)
        rest = took * _REST
        if took > _LONG_SECONDS:
            self._agenda.hold(key, rest)
        # While pods are held back, what is left of them is no reason to come back at once.
        least = rest if again is None else max(rest, min(again, _HELD_SECONDS))
        for each, soonest in ((again, rest), (decision.look_again, least)):
            if each is not None:
                self._agenda.add(key, after=max(each, soonest))

    def _heed_change(self, key: Key, job: Manifest) -> None:
        """Leave nothing alone any longer that may have been mended."""
        generation = int(job["metadata"].get("generation") or 0)
        if self._generations.get(key) != generation:
            self._generations[key] = generation
            self._backoff.forget(key)
            self._mended(key)

    def _view(
        self, key: Key, job: Manifest, pods: Sequence[Manifest], plans: Sequence[Manifest]
    ) -> JobView:
        uid = job["metadata"]["uid"]
        services = dict.fromkeys(self._names_taken(key), "")
        for service in self._world.of(key).get("Service", ()):
            metadata = service["metadata"]
            services[metadata["name"]] = metadata["uid"] if owned(uid, metadata) else ""
        return JobView(
            job=job,
            plans=tuple(plans),
            pods=tuple(pods),
            services=services,
            now=time.time(),
            master_image=self._master_image,
            own_accounts=self._own_accounts,
            refused=self._refusals.get((key, _MAKING), ""),
            master_refused=self._refusals.get((key, _LEADING), ""),
            read_plan=self._plans.reader(key),
        )

    def _carry_out(self, turn: Turn, job: Manifest, decision: Decision) -> float | None:
        """Do it; return the seconds after which to look again, None for no reason to."""
        key, commit = turn.key, decision.commit
        postponed: float | None = None
        if commit is not None and not same(commit.status, job.get("status")):
            if not commit.urgent and (wait := self._pace.wait(key)):
                postponed = wait
                # Its age goes on counting.
                self._agenda.add(key, after=wait, since=turn.since)
            else:
                failed = self._commit(turn, job, commit)
                if failed is not None:
                    return failed
        again = self._then(key, job, decision.then)
        return min((one for one in (again, postponed) if one is not None), default=None)

    def _commit(self, turn: Turn, job: Manifest, commit: WriteJobStatus) -> float | None:
        """Write the job's status; return the seconds after which to look again where it failed."""
        key = turn.key
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
            answer = self._actor.timed("write_job_status", key.namespace, write)
        except GoneError:
            return None
        except ConflictError:
            self._read(key, commit.name)
            return self._backoff.failed(key, _REST_OF, *_TRIES[act.CONFLICT])
        except ApiError as error:
            return self._later(key, job, error)
        self._pace.wrote(key)
        self._commits.done(key)
        self._backoff.worked(key, _REST_OF)
        if answer is not None:
            self._world.learn(ELASTIC_JOBS, answer)
        if turn.since is not None:
            self._metrics.reaction_seconds.observe(time.monotonic() - turn.since)
        return None

    def _read(self, key: Key, name: str) -> None:
        """Learn what somebody else has written."""
        try:
            found, at = self._api.find(ELASTIC_JOBS.path, key.namespace, name)
            self._world.learn(ELASTIC_JOBS, found, at=at)
        except ApiError:
            return  # the watch will tell

    def _later(self, key: Key, job: Manifest, error: ApiError) -> float:
        word = act.word_of(error)
        self._say(job, word, error)
        seconds = self._backoff.failed(key, _REST_OF, *_TRIES[word])
        return max(seconds, error.after if isinstance(error, BusyError) else 0.0)

    def _then(self, key: Key, job: Manifest, actions: Sequence[Action]) -> float | None:
        """Carry out what follows; pods that could not be made are left alone for a while."""
        sorts: dict[str, list[Action]] = {_MAKING: [], _LEADING: [], _REST_OF: []}
        for one in actions:
            sorts[_sort(one)].append(one)
        first = sorts[_REST_OF]
        others: list[Action] = []
        waits: list[float] = []
        for sort in (_LEADING, _MAKING):
            making = sorts[sort]
            if not making:
                self._refusals.pop((key, sort), None)
            if held := self._backoff.left(key, sort):
                waits.append(held)
                continue
            # After a refusal one is tried first: the others would be refused alike.
            tried = 1 if self._backoff.failing(key, sort) else len(making)
            first, others = first + making[:tried], others + making[tried:]
        outcomes: list[Outcome] = self._actor.perform(job, first).outcomes if first else []
        refused = {_sort(one.action) for one in outcomes if one.error is not None}
        more = [one for one in others if _sort(one) not in refused]
        if more:
            outcomes += self._actor.perform(job, more).outcomes
        self._note_taken(key, job, outcomes)
        for sort in sorts:
            waits += self._judge(
                key, job, sort, [one for one in outcomes if _sort(one.action) == sort]
            )
        return min(waits, default=None)

    def _judge(self, key: Key, job: Manifest, what: str, outcomes: list[Outcome]) -> list[float]:
        """When to come back for actions of one kind; [] where all went well."""
        if all(one.word == act.SKIPPED for one in outcomes):
            return []  # nothing was learnt of it
        found = act.Round(outcomes)
        worst = found.worst()
        if worst is None or worst.error is None:
            self._refusals.pop((key, what), None)
            if self._backoff.worked(key, what) and what != _REST_OF:
                self._tell(job, "Normal", reasons.PODS_CREATED, "pods are created again")
            return []
        waits = [max(self._backoff.failed(key, what, *_TRIES[worst.word]), found.after)]
        if what == _REST_OF:
            self._say(job, worst.word, worst.error)
        elif worst.word in _REFUSALS and self._note_refusal(key, job, what, worst.error):
            waits.append(0.0)  # the job's status is to say so
        return waits

    def _note_refusal(self, key: Key, job: Manifest, what: str, error: ApiError) -> bool:
        """Tell why pods cannot be made, as Kubernetes' own controllers do; whether it is new."""
        message = f"Error creating: {error.said or error.problem.message}"
        self._tell(job, "Warning", reasons.FAILED_CREATE, message)
        is_new = (key, what) not in self._refusals
        self._refusals[key, what] = message
        return is_new

    def _say(self, job: Manifest, word: str, error: ApiError) -> None:
        if word in _REFUSALS:
            said = error.problem.message.rstrip(".")
            self._tell(job, "Warning", reasons.ACTION_REFUSED, _AGAIN.format(said))

    def _tell(
        self, job: Manifest, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        metadata = job["metadata"]
        tell = Tell(names.ELASTIC_JOB, metadata["name"], metadata["uid"], kind, reason, message)
        self._actor.perform(job, [tell])

    # --- Services of others under a name that the job needs: as good as its own -------------------

    def _note_taken(self, key: Key, job: Manifest, outcomes: Sequence[Outcome]) -> None:
        now = time.monotonic()
        for one in outcomes:
            if not isinstance(one.action, CreateService) or one.word not in {
                act.THERE,
                act.FOREIGN,
            }:
                continue
            name = one.action.manifest["metadata"]["name"]
            self._taken[key, name] = now + _TAKEN_SECONDS
            if one.word == act.FOREIGN:
                self._tell(job, "Warning", reasons.NAME_TAKEN, _FOREIGN.format(name))

    def _names_taken(self, key: Key) -> set[str]:
        now = time.monotonic()
        return {
            name for (owner, name), until in self._taken.items() if owner == key and until > now
        }

    def _mended(self, key: Key) -> None:
        for sort in (_MAKING, _LEADING):
            self._refusals.pop((key, sort), None)

    def _forget(self, key: Key) -> None:
        self._pace.forget(key)
        self._commits.forget(key)
        self._plans.forget(key)
        self._backoff.forget(key)
        self._generations.pop(key, None)
        self._mended(key)
        for one in [one for one in self._taken if one[0] == key]:
            del self._taken[one]


def _sort(action: Action) -> str:
    """Of what sort an action is: each sort is held back by its own refusals alone."""
    if not isinstance(action, CreatePod | CreateService):
        return _REST_OF
    labels = action.manifest["metadata"].get("labels") or {}
    return _LEADING if labels.get(names.EDL_TYPE) == names.EDL_MASTER else _MAKING
