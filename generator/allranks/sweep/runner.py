"""Run a sweep: ask what to do next, write it down, do it, and wait until something has changed.

The runner knows nothing that is not in the journal or in the releases that are there, so one that
was killed is followed by another that goes on. What it does twice does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from allranks.errors import AllranksError, ForbiddenError, InputError, RunError
from allranks.sweep import actions, naming, records, sampling, taken, written
from allranks.sweep.actions import Observed
from allranks.sweep.decide import decide
from allranks.sweep.interrupts import Interrupts
from allranks.sweep.measuring import Listener
from allranks.sweep.storage import databaseurl, shelf
from allranks.sweep.storage.lines import BegunError
from allranks.sweep.storage.shelf import locate
from allranks.sweep.values.prepare import restore
from allranks.words import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from allranks.sweep.model import SweepSpec, Trial
    from allranks.sweep.state import SweepState
    from allranks.sweep.storage.journals import Journal, Keeper
    from allranks.sweep.trials.ports import Trials
    from allranks.sweep.values.prepare import Prepared

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
Tell = Callable[[str], None]

# The longest time between two looks, in seconds; whoever runs the trials wakes the runner earlier.
PAUSE = 1.0
# So long a cluster may be out of reach before the runner gives up, in seconds.
PATIENCE = 1800.0
_PAUSE_MAX = 30.0


def begin(prepared: Prepared, kept: Keeper, place: Mapping[str, str]) -> Journal:
    """Begin the journal of a new sweep; nothing runs yet.

    Args:
        prepared: the sweep.
        kept: of `locate`.
        place: where its trials run, for whoever goes on with it (``on``, ``namespace``, …).

    Raises:
        InputError: it was begun already, or another process runs it.
        RunError: the journal cannot be written.
    """
    now = time.time()
    head = records.head(prepared.spec, now, prepared.defaults, place, prepared.owner)
    shelf.make_room(kept)
    try:
        journal = kept.create(head)
    except BegunError as error:
        raise taken.begun_already(kept, error.sweep) from error
    shelf.note(kept, place, prepared.owner)
    return journal


def open_sweep(kept: Keeper) -> tuple[Prepared, Journal]:
    """A sweep that was begun before, to go on with; `journal.state.place` says where it runs.

    Args:
        kept: of `locate`.

    Raises:
        InputError: there is none, or another process runs it.
    """
    if not kept.exists():
        raise InputError(
            f"there is no sweep {kept.name!r}",
            hint=f"its journal would be {databaseurl.shown(kept.where)}",
        )
    opened = kept.open()
    if opened.state.spec.name == kept.name:
        shelf.note(kept, opened.state.place, opened.state.owner)
    return restore(opened.state), opened


def resume(journal: Journal, spec: SweepSpec | None = None) -> Prepared:
    """Record that a sweep goes on, perhaps with more trials; `run` follows.

    A sweep that was not at its end goes on in any case; this is for one that was, or that is asked
    for otherwise now.

    Args:
        journal: of `open_sweep`.
        spec: the sweep as it is asked for now, bound; None for as it was.

    Returns:
        The sweep to run.

    Raises:
        InputError: it is another sweep.
    """
    asked = written.resumed(journal.state.spec, journal.state.spec if spec is None else spec)
    journal.take_request()
    journal.append(records.resume(asked, time.time()))
    return restore(journal.state)


def request_stop(kept: Keeper, why: str) -> bool:
    """Ask a sweep to end, from any process; who runs it sees it soon.

    Args:
        kept: of `locate`.
        why: the reason, for a person.

    Returns:
        Whether a process runs it now. Where none does, it is recorded, and `run` carries it out.

    Raises:
        InputError: there is no such sweep.
    """
    return kept.request_stop(why, time.time())


def run(
    prepared: Prepared,
    trials: Trials,
    journal: Journal,
    on_change: OnChange | None = None,
    *,
    tell: Tell | None = None,
    is_relieved: bool = False,
    is_measured: bool = True,
) -> SweepState:
    """Run a sweep to its end.

    The first SIGINT, SIGTERM or SIGHUP ends it in order: its trials are cancelled and their
    releases removed. A second one leaves at once. Neither waits for what trials have said: of those
    that are cancelled no more is read.

    Args:
        prepared: the sweep.
        trials: what its trials run on; closed at the end.
        journal: it is written to; the caller closes it.
        on_change: called at the beginning, and after every turn in which something was recorded.
        tell: hears of what does not go as it should, and is tried again.
        is_relieved: another process goes on when this one ends, so that the first signal leaves all
            trials as they are; helm comes to its end.
        is_measured: read what trials say; not of a sweep that is removed next.

    Returns:
        The state; its outcome is "" where it was left.

    Raises:
        RunError: the journal cannot be written, or the trials cannot be seen any more.
    """
    changed = on_change or (lambda _state: None)
    interrupts = Interrupts(trials.wake, 0 if is_relieved else 1)
    listener = Listener(trials, interrupts) if is_measured else None
    runner = _Runner(prepared, trials, journal, tell or (lambda _text: None), listener)
    with interrupts:
        try:
            if journal.state.trials and not journal.state.outcome:
                journal.append(records.runner(time.time()))
            changed(journal.state)
            while not interrupts.is_leaving:
                if interrupts.count:
                    runner.request(interrupts.why)
                recorded, idle = runner.turn(interrupts)
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
    sweep: str, trials: Trials, namespace: str, find_journal: Callable[[], str] = str
) -> None:
    """Refuse to begin or to go on where another sweep of this name has its releases.

    Args:
        sweep: the name.
        trials: of this sweep.
        namespace: where they are.
        find_journal: asked where there is another one: its journal, as ``--journal`` takes it; ""
            where only those know who have begun it.

    Raises:
        InputError: there is another.
        AllranksError: that cannot be seen.
    """
    others = trials.others()
    if not others:
        return
    whose = ", or ".join(dict.fromkeys(others.values()))
    raise InputError(
        f"in namespace {namespace} are releases of {whose}: {some(list(others))}",
        hint=taken.way_out(sweep, find_journal()),
    )


def clear(trials: Trials) -> tuple[str, ...]:
    """Remove every release of a sweep, and wait until they are gone; their names are returned.

    Raises:
        RunError: they cannot be seen, or do not go.
    """
    found: dict[str, None] = {}
    deadline = time.monotonic() + PATIENCE
    while there := trials.observe():
        found.update(dict.fromkeys(there))
        for name, one in there.items():
            if one.phase != actions.REMOVING:
                trials.remove(name)
        if time.monotonic() > deadline:
            raise RunError(f"{', '.join(there)} cannot be removed")
        trials.wait(PAUSE)
    return tuple(found)


class _Runner:
    """One runner; what it knows besides the journal is made again by the next one."""

    def __init__(
        self,
        prepared: Prepared,
        trials: Trials,
        journal: Journal,
        tell: Tell,
        listener: Listener | None,
    ) -> None:
        self._prepared = prepared
        self._trials = trials
        self._journal = journal
        self._tell = tell
        self._search = sampling.make(journal.state.spec)
        self._listener = listener
        # Trials whose parameters give no job: why, until their end is recorded.
        self._impossible: dict[str, Observed] = {}
        self._trouble_since: float | None = None
        self._pause = PAUSE

    def request(self, why: str) -> None:
        """Record that the sweep is to end."""
        state = self._journal.state
        if not state.outcome and not state.requested:
            self._journal.append(records.request_stop(why, time.time()))

    def turn(self, interrupts: Interrupts) -> tuple[bool, bool]:
        """Look, decide, record and do.

        Args:
            interrupts: nothing is decided any more once a person leaves at once.

        Returns:
            Whether something was recorded, and whether nothing is left to be done.

        Raises:
            RunError: the journal cannot be written, or the trials cannot be seen any more.
        """
        asked = self._journal.take_request()
        if asked:
            self.request(asked)
        observed = self._observe()
        if observed is None:
            return False, False
        state = self._journal.state
        measured = False
        if self._listener is not None:
            observed, found = self._listener.listen(state, observed, self._impossible)
            self._journal.append(*found)
            if interrupts.is_leaving:
                return bool(found), False  # not all was heard: who has ended well may have a value
            measured = bool(found) or self._listener.is_behind
        decided = decide(state, state.spec, observed, time.time())
        recorded = self._carry_out(decided)
        return recorded or measured or bool(asked), not decided and not _under_way(observed)

    # --- looking ----------------------------------------------------------------------------------

    def _observe(self) -> dict[str, Observed] | None:
        """All releases; None where they cannot be seen for now."""
        try:
            there = dict(self._trials.observe())
        except (InputError, ForbiddenError):
            raise
        except AllranksError as error:
            self._endure(error)
            return None
        self._trouble_since, self._pause = None, PAUSE
        return {**there, **self._impossible}

    def _endure(self, error: AllranksError) -> None:
        now = time.monotonic()
        if self._trouble_since is None:
            self._trouble_since = now
            self._tell(f"{error.problem.message}; trying again")
        if now - self._trouble_since > PATIENCE:
            raise error
        self._trials.wait(self._pause)
        self._pause = min(2 * self._pause, _PAUSE_MAX)

    # --- doing ------------------------------------------------------------------------------------

    def _carry_out(self, decided: Iterable[actions.Action]) -> bool:
        """Record all that was decided, then do it; whether something was recorded."""
        state, now = self._journal.state, time.time()
        todo = list(decided)
        lines = [records.of(action, state, now) for action in todo]
        kept = [line for line in lines if line is not None]
        self._journal.append(*kept)
        for action in todo:
            match action:
                case actions.Start(number):
                    self._start(state.trials[number])
                case actions.Stop() | actions.Remove():
                    self._trials.remove(action.name)
                case actions.End(number):
                    self._impossible.pop(state.trials[number].name, None)
                case _:
                    pass
        proposed = [self._propose(one.number) for one in todo if isinstance(one, actions.Propose)]
        return bool(kept) or any(proposed)

    def _start(self, trial: Trial) -> None:
        try:
            values = self._prepared.values(trial)
        except InputError as error:
            why = "; ".join(problem.message for problem in error.problems)
            self._impossible[trial.name] = Observed(actions.FAILED, why, retryable=False)
            return
        self._trials.start(trial, values)

    def _propose(self, number: int) -> bool:
        """Record what the search proposes; whether there was anything to say."""
        state, now = self._journal.state, time.time()
        if number != len(state.trials) or state.exhausted:
            return False
        found = self._search.propose(number, state)
        if found is None:
            self._journal.append(records.exhausted("every combination has been tried", now))
            return True
        name = naming.trial_name(state.spec.name, found, state.by_name)
        self._journal.append(records.trial(number, name, found, now))
        return True


def _under_way(observed: Mapping[str, Observed]) -> bool:
    """Whether something is being made or removed."""
    return any(one.phase in (actions.STARTING, actions.REMOVING) for one in observed.values())
