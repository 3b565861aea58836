"""Run a sweep: decide what to do next, record it, do it, and wait until something has changed.

The runner has no state besides the journal and the releases that are there, so that the successor
of a killed runner goes on where that one was. Its actions are idempotent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from allranks import retry
from allranks.errors import AllranksError, ForbiddenError, InputError, RunError
from allranks.humanize import list_some
from allranks.sweep import actions, name_conflicts, naming, records, serialize
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.collect import MetricCollector
from allranks.sweep.decide import decide
from allranks.sweep.search import factory
from allranks.sweep.signals import Interrupts
from allranks.sweep.spec.prepare import restore
from allranks.sweep.storage import catalog, database_url
from allranks.sweep.storage import journal as journals
from allranks.sweep.storage.base import BegunError
from allranks.sweep.storage.catalog import locate
from allranks.sweep.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.base import Backend
    from allranks.sweep.trials.base import TrialReleases

__all__ = [
    "begin",
    "clear",
    "locate",
    "open_sweep",
    "refuse_others",
    "request_stop",
    "resume",
    "run",
]

OnChange = Callable[["SweepState"], None]
Notify = Callable[[str], None]

# The longest wait between two steps, in seconds; `TrialReleases` wakes the runner earlier.
PAUSE = 1.0
# How long a cluster may be out of reach before the runner gives up, in seconds.
PATIENCE = 1800.0
_PAUSE_MAX = 30.0


def begin(prepared: PreparedSweep, store: Backend, place: Mapping[str, str]) -> Journal:
    """Create the journal of a new sweep; nothing runs yet.

    Args:
        prepared: the sweep.
        store: of `locate`.
        place: where its trials run, for a later resume (``on``, ``namespace``, …).

    Raises:
        InputError: it was begun already, or another process runs it.
        RunError: the journal cannot be written.
    """
    now = time.time()
    head = records.head(prepared.spec, now, prepared.defaults, place, prepared.owner)
    catalog.make_room(store)
    try:
        opened = Journal.create(store, head)
    except BegunError as error:
        raise name_conflicts.begun_already(store, error.sweep) from error
    catalog.register(store, place, prepared.owner)
    return opened


def open_sweep(store: Backend) -> tuple[PreparedSweep, Journal]:
    """Open an existing sweep for writing; `journal.state.place` says where it runs.

    Args:
        store: of `locate`.

    Raises:
        InputError: there is none, or another process runs it.
    """
    if not store.exists():
        raise InputError(
            f"there is no sweep {store.name!r}",
            hint=f"its journal would be {database_url.show(store.where)}",
        )
    opened = Journal.open(store)
    if opened.state.spec.name == store.name:
        catalog.register(store, opened.state.place, opened.state.owner)
    return restore(opened.state), opened


def resume(journal: Journal, spec: SweepSpec | None = None) -> PreparedSweep:
    """Record that a sweep goes on, perhaps with more trials; `run` follows.

    A sweep that has not ended goes on without this; it is for one that has, or whose settings
    change.

    Args:
        journal: of `open_sweep`.
        spec: the sweep with its new settings, bound; None to leave them as they are.

    Returns:
        The sweep to run.

    Raises:
        InputError: it is another sweep.
    """
    merged = serialize.resumed_spec(
        journal.state.spec, journal.state.spec if spec is None else spec
    )
    journal.take_request()
    journal.append(records.resume(merged, time.time()))
    return restore(journal.state)


def request_stop(store: Backend, reason: str) -> bool:
    """Ask a sweep to end, from any process; its runner sees the request within seconds.

    Args:
        store: of `locate`.
        reason: for a person.

    Returns:
        Whether a process runs it now. If none does, the request is recorded, and `run` carries it
        out.

    Raises:
        InputError: there is no such sweep.
    """
    return journals.request_stop(store, reason, time.time())


def run(
    prepared: PreparedSweep,
    trials: TrialReleases,
    journal: Journal,
    on_change: OnChange | None = None,
    *,
    notify: Notify | None = None,
    is_relieved: bool = False,
    is_measured: bool = True,
) -> SweepState:
    """Run a sweep to its end.

    The first SIGINT, SIGTERM or SIGHUP ends it in order: its trials are cancelled and their
    releases removed. A second one leaves at once. Neither waits for the output of trials that are
    cancelled.

    Args:
        prepared: the sweep.
        trials: its releases; closed at the end.
        journal: the open journal; the caller closes it.
        on_change: called at the beginning, and after every step that recorded something.
        notify: called with a message about each failure that is retried.
        is_relieved: another process goes on when this one ends, so that the first signal leaves all
            trials as they are; helm processes are waited for.
        is_measured: read the output of trials; False for a sweep that is removed next.

    Returns:
        The state; its outcome is "" if the runner left before the end.

    Raises:
        RunError: the journal cannot be written, or the trials cannot be seen any more.
    """
    changed = on_change or (lambda _state: None)
    interrupts = Interrupts(trials.wake, 0 if is_relieved else 1)
    collector = MetricCollector(trials, interrupts) if is_measured else None
    runner = _Runner(prepared, trials, journal, notify or (lambda _text: None), collector)
    with interrupts:
        try:
            if journal.state.trials and not journal.state.outcome:
                journal.append(records.runner(time.time()))
            changed(journal.state)
            while not interrupts.is_leaving:
                if interrupts.count:
                    runner.request(interrupts.reason)
                recorded, idle = runner.step(interrupts)
                if recorded:
                    changed(journal.state)
                elif journal.state.outcome and idle:
                    break
                else:
                    trials.wait(PAUSE)
        finally:
            trials.close(at_once=interrupts.count > 1)
    return journal.state


def refuse_others(
    sweep: str, trials: TrialReleases, namespace: str, find_journal: Callable[[], str] = str
) -> None:
    """Refuse to run a sweep if another one of its name has releases in the namespace.

    Args:
        sweep: the name.
        trials: the releases of this sweep.
        namespace: where they are.
        find_journal: called if there is another sweep; returns its journal, as ``--journal`` takes
            it, or "" if it is unknown here.

    Raises:
        InputError: there is another sweep.
        AllranksError: the releases cannot be listed.
    """
    others = trials.foreign_releases()
    if not others:
        return
    whose = ", or ".join(dict.fromkeys(others.values()))
    raise InputError(
        f"in namespace {namespace} are releases of {whose}: {list_some(list(others))}",
        hint=name_conflicts.way_out(sweep, find_journal()),
    )


def clear(trials: TrialReleases) -> tuple[str, ...]:
    """Remove every release of a sweep, wait until they are gone, and return their names.

    Raises:
        RunError: they cannot be listed, or are still there after `PATIENCE`.
    """
    removed: dict[str, None] = {}
    deadline = time.monotonic() + PATIENCE
    while observed := trials.observe():
        removed.update(dict.fromkeys(observed))
        for name, release in observed.items():
            if release.phase != actions.REMOVING:
                trials.remove(name)
        if time.monotonic() > deadline:
            raise RunError(f"{', '.join(observed)} cannot be removed")
        trials.wait(PAUSE)
    return tuple(removed)


class _Runner:
    """One runner; its successor rebuilds all of its state from the journal and the releases."""

    def __init__(
        self,
        prepared: PreparedSweep,
        trials: TrialReleases,
        journal: Journal,
        notify: Notify,
        collector: MetricCollector | None,
    ) -> None:
        self._prepared = prepared
        self._trials = trials
        self._journal = journal
        self._notify = notify
        self._search = factory.make(journal.state.spec)
        self._collector = collector
        # Failures of trials whose parameters give no valid job, until their end is recorded.
        self._impossible: dict[str, ObservedRelease] = {}
        self._trouble_since: float | None = None
        self._failures = 0

    def request(self, reason: str) -> None:
        """Record that the sweep is to end."""
        state = self._journal.state
        if not state.outcome and not state.requested:
            self._journal.append(records.request_stop(reason, time.time()))

    def step(self, interrupts: Interrupts) -> tuple[bool, bool]:
        """Observe, decide, record and act once.

        Args:
            interrupts: the signals so far; a runner that leaves at once decides nothing more.

        Returns:
            Whether something was recorded, and whether nothing is left to do.

        Raises:
            RunError: the journal cannot be written, or the trials cannot be observed any more.
        """
        request = self._journal.take_request()
        if request:
            self.request(request)
        observed = self._observe()
        if observed is None:
            return False, False
        state = self._journal.state
        measured = False
        if self._collector is not None:
            observed, measures = self._collector.collect(state, observed, self._impossible)
            self._journal.append(*measures)
            if interrupts.is_leaving:
                return bool(
                    measures
                ), False  # output is left: a trial that succeeded may have a value
            measured = bool(measures) or self._collector.is_behind
        decisions = decide(state, state.spec, observed, time.time())
        recorded = self._carry_out(decisions)
        return recorded or measured or bool(request), not decisions and not _under_way(observed)

    # --- observing --------------------------------------------------------------------------------

    def _observe(self) -> dict[str, ObservedRelease] | None:
        """Return all releases; None if they cannot be listed for now."""
        try:
            observed = dict(self._trials.observe())
        except (InputError, ForbiddenError):
            raise
        except AllranksError as error:
            self._wait_for_cluster(error)
            return None
        self._trouble_since, self._failures = None, 0
        return {**observed, **self._impossible}

    def _wait_for_cluster(self, error: AllranksError) -> None:
        now = time.monotonic()
        if self._trouble_since is None:
            self._trouble_since = now
            self._notify(f"{error.problem.message}; trying again")
        if now - self._trouble_since > PATIENCE:
            raise error
        self._failures += 1
        self._trials.wait(retry.delay(self._failures, PAUSE, _PAUSE_MAX))

    # --- acting -----------------------------------------------------------------------------------

    def _carry_out(self, decisions: Iterable[actions.Action]) -> bool:
        """Record the decisions, then carry them out; return whether something was recorded."""
        state, now = self._journal.state, time.time()
        todo = list(decisions)
        entries = [records.record_of_action(action, state, now) for action in todo]
        new = [line for line in entries if line is not None]
        self._journal.append(*new)
        for action in todo:
            match action:
                case actions.Start(number):
                    self._start(state.trials[number])
                case actions.Stop() | actions.Remove():
                    self._trials.remove(action.name)
                case actions.RecordEnd(number):
                    self._impossible.pop(state.trials[number].name, None)
                case _:
                    pass
        proposals = (action for action in todo if isinstance(action, actions.Propose))
        proposed = [self._propose(proposal.number) for proposal in proposals]
        return bool(new) or any(proposed)

    def _start(self, trial: Trial) -> None:
        try:
            values = self._prepared.values(trial)
        except InputError as error:
            reason = "; ".join(problem.message for problem in error.problems)
            self._impossible[trial.name] = ObservedRelease(actions.FAILED, reason, retryable=False)
            return
        self._trials.start(trial, values)

    def _propose(self, number: int) -> bool:
        """Record the search's proposal; return whether something was recorded."""
        state, now = self._journal.state, time.time()
        if number != len(state.trials) or state.exhausted:
            return False
        assignment = self._search.propose(number, state)
        if assignment is None:
            self._journal.append(records.search_end("every combination has been tried", now))
            return True
        name = naming.trial_name(state.spec.name, assignment, state.by_name)
        self._journal.append(records.trial(number, name, assignment, now))
        return True


def _under_way(observed: Mapping[str, ObservedRelease]) -> bool:
    """Whether a release is being installed or removed."""
    return any(trial.phase in (actions.STARTING, actions.REMOVING) for trial in observed.values())
