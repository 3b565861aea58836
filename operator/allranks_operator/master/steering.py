"""The master's hand on the size of its job: the first plan, the policy's decisions, the history.

Decisions are pure (`allranks.elastic.policy`); here they become plans and events. A plan is written
once and has a number that was never used, so a master that is killed in between leaves either no
plan or a whole one, which the next master finds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from allranks.elastic.plan import FINAL
from allranks.elastic.policy import first, history, state
from allranks.elastic.policy.seen import WORKER, Decision
from allranks.elastic.policy.step import step
from allranks.errors import AllranksError
from allranks.status.fields import mapping, number, text
from allranks_operator.master import backend as backends
from allranks_operator.master import planning

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.elastic.job import ElasticJob
    from allranks.elastic.policy.seen import Seen
    from allranks.elastic.policy.state import State
    from allranks.model.manifest import Manifest
    from allranks_operator.master.backend import Backend
    from allranks_operator.master.log import Log
    from allranks_operator.master.options import Options

_KEEP_SECONDS = 30.0
# Where nobody carries out a plan for so long, what is seen of the job counts again.
_UNANSWERED_SECONDS = 120.0
# How much older what is known of the job may be than what is known of its plans.
_STALE_SECONDS = 5.0
_TRIES = 20
_REMEMBERED = 50


class Steering:
    """Makes plans. Not for several threads."""

    def __init__(self, backend: Backend, options: Options, log: Log) -> None:
        """Nothing is asked yet."""
        self._backend, self._options, self._log = backend, options, log
        self._record = history.Record()
        self._kept, self._kept_at = "", 0.0
        self._plan, self._planned_at = "", 0.0
        self._finished_at: float | None = None
        self._told = 0
        self.state: State | None = None
        self.least = 1
        self.begun = 0
        self.decisions: deque[Decision] = deque(maxlen=_REMEMBERED)

    def begin(self, job: ElasticJob, now: float) -> None:
        """Make the first plan, or take over a job that has one.

        Raises:
            AllranksError: the backend does not answer; to be tried again.
        """
        if self._options.history:
            self._kept = self._backend.history()
            self._record = history.read(self._kept)
        plan = first.plan(planning.asked(job, self._record), self._options.policy)
        self.least = plan.least
        waiting = self._unfinished(job)
        if job.target.groups or waiting is not None:
            self._take_over(job, plan, waiting, now)
            return
        told = Decision("FirstPlan", plan.message)
        number_ = planning.next_number(job, self._backend.plans())
        self._create(job, partial(planning.first_plan, job, plan), number_, now)
        self.say(job, told)
        self.state = self._begun(job, plan, plan.groups[WORKER].replicas, plan.fixed, now)

    def look(self, job: ElasticJob, seen: Seen, now: float) -> None:
        """Decide, and do what was decided.

        Raises:
            AllranksError: a plan could not be made; the decision is made again later.
        """
        if self.state is None or job.suspend or job.deleting:
            return
        seen = replace(seen, settled=self._settled(job, now))
        state_, decisions = step(self.state, seen, now)
        changes = [one for one in decisions if one.changes]
        if changes:
            number_ = planning.next_number(job, self._backend.plans())
        for offset, decision in enumerate(changes):
            make = partial(planning.scale_plan, job, decision)
            self._create(job, make, number_ + offset, now)
        # Only now: what could not be planned is decided again.
        self.state = state_
        for decision in decisions:
            self.say(job, decision)
        if now - self._kept_at >= _KEEP_SECONDS:
            self.keep(job, now)

    def say(self, job: ElasticJob, decision: Decision) -> None:
        """Tell of a decision: a line, and an Event. Nothing fails for it."""
        self.decisions.append(decision)
        write = self._log.warning if decision.warning else self._log.info
        write(decision.message, reason=decision.reason)
        self._told += 1
        try:
            self._backend.tell(backends.event(job, decision, self._told, datetime.now(UTC)))
        except AllranksError as error:
            self._log.warning("an Event could not be made", reason=decision.reason, why=str(error))

    def generation(self, job: ElasticJob) -> int:
        """The last generation of this very job that is remembered; 0 for none."""
        return self._record.generation if self._record.uid == job.uid else 0

    def keep(self, job: ElasticJob, now: float, end: str = "") -> None:
        """Keep what was found out, where it is news."""
        if self.state is None or not self._options.history:
            return
        self._kept_at = now
        content = history.write(history.of(self.state, job.uid, self.begun, end))
        if content == self._kept:
            return
        try:
            self._backend.keep(content)
        except AllranksError as error:
            # The job does not need it; the next run of this name begins without.
            self._log.warning("the history could not be kept", why=str(error))
        self._kept = content

    def _take_over(
        self, job: ElasticJob, plan: first.First, waiting: Manifest | None, now: float
    ) -> None:
        """Go on where the master before was."""
        group = job.target.groups.get(WORKER)
        wish, fixed = group.replicas if group else 0, plan.fixed
        if waiting is not None:
            self._plan, self._planned_at = text(waiting, "metadata", "name"), now
            asked = mapping(waiting, "spec", "replicaResourceSpecs", WORKER)
            count = number(asked, "replicas")
            wish = wish if count is None else count
        elif group is not None and group.plan and planning.number(job, group.plan) is None:
            fixed = fixed or "it was set by hand"
        self.state = self._begun(job, plan, wish, fixed, now)
        self._log.info("took over", workers=wish, fixed=fixed)

    def _begun(
        self, job: ElasticJob, plan: first.First, wish: int, fixed: str, now: float
    ) -> State:
        found = state.begin(
            self._options.policy,
            wish=wish,
            least=plan.least,
            most=plan.most,
            now=now,
            fixed=fixed,
        )
        if self._record.uid == job.uid:
            return history.resume(found, self._record)
        memory = {kind: int(size) for kind, size in self._record.memory.items()}
        return replace(found, memory=memory)

    def _unfinished(self, job: ElasticJob) -> Manifest | None:
        """The newest plan of a master of this job that is not carried out yet."""
        found = {
            number_: plan
            for plan in self._backend.plans()
            if (number_ := planning.number(job, text(plan, "metadata", "name"))) is not None
            and text(plan, "status", "phase") not in FINAL
            and _of(plan, job)
        }
        return found[max(found)] if found else None

    def _settled(self, job: ElasticJob, now: float) -> bool:
        """Whether the last plan was carried out."""
        if not self._plan or now - self._planned_at > _UNANSWERED_SECONDS:
            return True
        if self._finished_at is None and self._finished(self._plan):
            self._finished_at = now
        finished = self._finished_at is not None and now - self._finished_at >= _STALE_SECONDS
        taken = self._plan in (job.target.plan, text(job.status, "scalePlan"))
        if taken or finished:
            self._plan = ""
        return not self._plan

    def _finished(self, name: str) -> bool:
        """Whether a plan has come to its end, be it a bad one."""
        return any(
            text(plan, "metadata", "name") == name and text(plan, "status", "phase") in FINAL
            for plan in self._backend.plans()
        )

    def _create(
        self, job: ElasticJob, make: Callable[[int], Manifest], number_: int, now: float
    ) -> None:
        """Make a plan under the first number that is free."""
        for each in range(number_, number_ + _TRIES):
            if self._backend.create_plan(make(each)):
                self._plan, self._planned_at = planning.name(job, each), now
                self._finished_at = None
                return
        raise AllranksError(f"{_TRIES} names of plans from {number_} on are taken")


def _of(plan: Manifest, job: ElasticJob) -> bool:
    """Whether a plan is for this very job, and not for an older one of its name."""
    owners = plan.get("metadata", {}).get("ownerReferences") or []
    return any(owner.get("uid") == job.uid for owner in owners if isinstance(owner, dict))
