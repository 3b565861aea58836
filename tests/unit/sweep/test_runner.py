"""The runner, with trials that only pretend: what it records, and that it loses nothing."""

from __future__ import annotations

import os
import signal
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import names
from allranks.cli.commands.sweep import options as sweep_options
from allranks.cli.commands.sweep import run as sweep_run
from allranks.errors import ForbiddenError, InputError, RunError
from allranks.sweep import actions, model, records, runner
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.ownership import OwnerMark
from allranks.sweep.reporting import results
from allranks.sweep.spec.prepare import PreparedSweep
from allranks.sweep.storage import catalog
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.file import FileBackend
from allranks.sweep.storage.journal import Journal, read_state
from allranks.sweep.trials.base import TrialOutput

from .simulation import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.sweep.model import Trial

MEASURED = model.Objective("accuracy")


class KilledError(BaseException):
    """The runner is killed here."""


@dataclass
class Run:
    """A pretended release: how many looks it lives, and what it says at each."""

    looks_left: int
    lines: list[str] = field(default_factory=list)
    position: int = 0


@dataclass
class Pretended:
    """Trials in memory; they outlive their runners.

    Attributes:
        life: how many looks a trial lives.
        ends: how a trial ends, by its name and attempt; well by default.
        kill_after: so many calls from now the runner is killed; 0 is never.
        on_observe: called before each look.
    """

    life: int = 2
    ends: Callable[[Trial], str] = lambda _trial: actions.SUCCEEDED
    kill_after: int = 0
    on_observe: Callable[[], None] = lambda: None
    runs: dict[str, Run] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    starts: list[str] = field(default_factory=list)
    most: int = 0
    closed: list[bool] = field(default_factory=list)

    def observe(self) -> Mapping[str, ObservedRelease]:
        """Every release."""
        self._step()
        self.on_observe()
        observed = {}
        for name, run in self.runs.items():
            phase = actions.RUNNING if run.looks_left > 0 else self.results[name]
            observed[name] = ObservedRelease(phase, "exit code 1")
        return observed

    def foreign_releases(self) -> Mapping[str, str]:
        """None."""
        return {}

    def claims(self, _trials: object) -> Mapping[str, str]:
        """None."""
        return {}

    def start(self, trial: Trial, values: Mapping[str, Any]) -> None:
        """Make one."""
        self._step()
        assert trial.name in values["args"]
        if trial.name not in self.runs:
            self.starts.append(trial.name)
            lines = [f"accuracy=0.{trial.number}{step} step={step}" for step in range(1, 4)]
            self.runs[trial.name] = Run(self.life, lines)
            self.results[trial.name] = self.ends(trial)
            self.most = max(self.most, sum(run.looks_left > 0 for run in self.runs.values()))
        self._step()

    def remove(self, name: str) -> None:
        """Remove one."""
        self._step()
        self.runs.pop(name, None)
        self._step()

    def read(self, trial: Trial) -> TrialOutput:
        """One line at a time; all that are left at the end."""
        run = self.runs[trial.name]
        upto = len(run.lines) if run.looks_left <= 0 else min(run.position + 1, len(run.lines))
        lines, run.position = run.lines[run.position : upto], upto
        return TrialOutput(lines, "" if run.looks_left <= 0 else None)

    def wait(self, seconds: float) -> None:
        """Time goes by."""
        assert seconds > 0
        for run in self.runs.values():
            run.looks_left -= 1

    def wake(self) -> None:
        """Nothing waits."""

    def close(self, *, at_once: bool = False) -> None:
        """Remember it."""
        self.closed.append(at_once)

    def reopened(self) -> None:
        """As the next runner finds them: what was read is read again."""
        for run in self.runs.values():
            run.position = 0

    def _step(self) -> None:
        if self.kill_after:
            self.kill_after -= 1
            if self.kill_after == 0:
                raise KilledError


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sweep's journal, in a state folder of the test's own."""
    monkeypatch.setenv(names.ENV_STATE, str(tmp_path))
    return Path(runner.locate("s").where)


def _prepared(**changes: Any) -> PreparedSweep:
    values = {"args": ["${sweep.trial}"]}
    trial = model.TrialSpec(chart="somebody's", values=values)
    fields = {"objective": MEASURED, "trial": trial, **changes}
    return PreparedSweep(spec(**fields), {"args": []}, "somebody's", "")


def _begin(path: Path, prepared: PreparedSweep) -> Journal:
    return runner.begin(prepared, FileBackend(str(path)), {"on": "here"})


def test_a_sweep_runs_to_its_end(path: Path) -> None:
    """All trials start, so many at a time; what they said is recorded before they end."""
    prepared, trials = _prepared(), Pretended()
    counts: list[int] = []
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal, lambda now: counts.append(len(now.trials)))
    assert (actions.COMPLETED, 12) == (state.outcome, state.counts[model.SUCCEEDED])
    assert 3 == trials.most
    assert all(len(trial.measures) == 3 for trial in state.trials.values())
    assert 0.113 == state.trials[11].value
    assert {} == trials.runs
    assert [False] == trials.closed
    assert (0, 12) == (counts[0], counts[-1])
    stored_state = read_state(backend_of(str(path)))
    assert (state.outcome, state.trials) == (stored_state.outcome, stored_state.trials)
    assert {"on": "here"} == stored_state.place


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 25), max_size=12), st.integers(0, 2), st.integers(1, 3))
def test_kills_lose_nothing(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], retries: int, life: int
) -> None:
    """Killed between any two effects, each trial has run as often as it had to, and no more."""
    path = tmp_path_factory.mktemp("sweep") / "journal"
    prepared = _prepared(retries=retries)

    def ends(trial: Trial) -> str:
        return actions.FAILED if trial.number % 4 == 1 else actions.SUCCEEDED

    trials = Pretended(life, ends)
    _begin(path, prepared).close()
    for kill in [*kills, 0]:
        trials.kill_after = kill
        trials.reopened()
        with Journal.open(backend_of(str(path))) as journal:
            try:
                state = runner.run(prepared, trials, journal)
            except KilledError:
                continue
    if not state.outcome:
        pytest.fail("it did not end")
    assert (9, 3) == (state.counts[model.SUCCEEDED], state.counts[model.FAILED])
    for trial in state.trials.values():
        tries = 1 + retries if trial.state == model.FAILED else 1
        assert tries == trials.starts.count(trial.name) == trial.attempts
        assert trial.state == model.FAILED or len(trial.measures) == 3
    assert {} == trials.runs
    assert trials.most <= 3


def test_a_signal_ends_the_sweep_in_order(path: Path) -> None:
    """What runs is cancelled and removed; the signal's name is the reason."""
    prepared, trials = _prepared(), Pretended(life=1000)
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        if len(looks) == 5:
            os.kill(os.getpid(), signal.SIGTERM)

    trials.on_observe = look
    before = signal.getsignal(signal.SIGTERM)
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal)
    assert (actions.REQUESTED, "interrupted by SIGTERM") == (state.outcome, state.reason)
    assert 3 == state.counts[model.CANCELLED]
    assert ({}, [False]) == (trials.runs, trials.closed)
    assert before is signal.getsignal(signal.SIGTERM)


def test_a_second_signal_leaves_at_once(path: Path) -> None:
    """The sweep is not over, and whoever runs the trials is told to let go of them."""
    prepared, trials = _prepared(), Pretended(life=1000)

    def look() -> None:
        if trials.runs:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    trials.on_observe = look
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal)
    assert ("", [True]) == (state.outcome, trials.closed)


def test_a_closed_terminal_asks_for_no_other_end(path: Path) -> None:
    """After Ctrl-C it is no second signal: what runs is still removed in order."""
    prepared, trials = _prepared(), Pretended(life=1000)

    def look() -> None:
        if trials.runs:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGHUP)
            trials.on_observe = lambda: None

    trials.on_observe = look
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal)
    assert (actions.REQUESTED, [False]) == (state.outcome, trials.closed)


def test_any_process_may_ask_for_the_end(path: Path) -> None:
    """Who runs the sweep takes the request; where nobody does, it is recorded at once."""
    prepared, trials = _prepared(), Pretended(life=1000)

    def look() -> None:
        if trials.runs and not journal.state.requested:
            assert runner.request_stop(FileBackend(str(path)), "enough")

    trials.on_observe = look
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal)
    assert (actions.REQUESTED, "enough") == (state.outcome, state.reason)
    prepared, reopened_journal = _reopened()
    with reopened_journal:
        runner.resume(reopened_journal)
    assert not runner.request_stop(FileBackend(str(path)), "again")
    assert "again" == read_state(backend_of(str(path))).requested
    assert not FileBackend(str(path)).is_run()
    with pytest.raises(InputError, match="there is no journal"):
        runner.request_stop(FileBackend(str(path.with_name("other"))), "why")


def test_a_plan_is_of_a_sweep_that_can_begin(path: Path) -> None:
    """A dry run refuses what the run would: a name that is taken, and a file of other contents."""
    backend = catalog.begin("s")
    sweep_run.check_new(backend)
    _begin(path, _prepared()).close()
    with pytest.raises(InputError, match="the sweep s was begun already"):
        sweep_run.check_new(backend)
    sweep_run.check_new(backend, replace_=True)
    path.write_text("mine\n")
    for replace_ in (False, True):
        with pytest.raises(InputError, match="is no sweep's journal"):
            sweep_run.check_new(backend, replace_=replace_)
    path.write_text("")
    sweep_run.check_new(backend)


def _reopened() -> tuple[PreparedSweep, Journal]:
    return runner.open_sweep(runner.locate("s"))


def test_what_is_kept_of_a_sweep_is_its_owner_s_alone(path: Path, tmp_path: Path) -> None:
    """Values may hold passwords; a folder that a person has named stays as they have it."""
    before = os.umask(0o022)
    try:
        runner.begin(_prepared(), runner.locate("s"), {}).close()
        own = tmp_path.with_name(f"{tmp_path.name}-own")
        backend = catalog.locate("two", str(own / "two.jsonl"))
        runner.begin(replace(_prepared(), spec=spec(name="two")), backend, {}).close()
    finally:
        os.umask(before)
    note_folder = tmp_path / "sweeps/two"
    for private in (path, note_folder / "where", own / "two.jsonl"):
        assert 0o600 == stat.S_IMODE(private.stat().st_mode), private
    modes = [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, note_folder, own)]
    assert [0o700, 0o700, 0o755] == modes


def test_a_resumed_sweep_may_have_more_trials(path: Path) -> None:
    """What has ended is not run again; another sweep is refused."""
    prepared, trials = _prepared(trials=5), Pretended()
    with _begin(path, prepared) as journal:
        runner.run(prepared, trials, journal)
    with pytest.raises(InputError, match="begun already") as excinfo:
        runner.begin(prepared, runner.locate("s"), {})
    assert "`allranks sweep resume s` goes on with it" in excinfo.value.problem.hint
    elsewhere = path.with_name("other.jsonl")
    Journal.create(backend_of(str(elsewhere)), records.head(prepared.spec, 1.0)).close()
    with pytest.raises(InputError, match="begun already") as excinfo:
        _begin(elsewhere, prepared)
    assert f"sweep delete s --journal {elsewhere}` removes it" in excinfo.value.problem.hint
    _, journal = _reopened()
    with journal:
        with pytest.raises(InputError, match="with other seed"):
            runner.resume(journal, _prepared(seed=1).spec)
        runner.resume(journal, _prepared(trials=7).spec)
        state = runner.run(_prepared(trials=7), trials, journal)
    assert (actions.COMPLETED, 7) == (state.outcome, state.counts[model.SUCCEEDED])
    assert 7 == len(trials.starts)
    with pytest.raises(InputError, match="there is no sweep 'other'"):
        runner.open_sweep(runner.locate("other"))


def test_a_trial_that_was_ending_is_taken_up_again(path: Path) -> None:
    """A sweep that is resumed before its end was reached runs what it had meant to cancel."""
    prepared, trials = _prepared(trials=3), Pretended(life=1000)

    def look() -> None:
        if trials.runs:
            trials.kill_after = 2  # at the first removal, after it was recorded
            assert runner.request_stop(FileBackend(str(path)), "enough")

    trials.on_observe = look
    with _begin(path, prepared) as journal, pytest.raises(KilledError):
        runner.run(prepared, trials, journal)
    trials = Pretended(runs=trials.runs, results=trials.results, starts=trials.starts)
    trials.reopened()
    _, journal = _reopened()
    with journal:
        assert model.CANCELLED == journal.state.trials[0].stopping
        runner.resume(journal)
        for run in trials.runs.values():
            run.looks_left = 1
        state = runner.run(prepared, trials, journal)
    assert (actions.COMPLETED, 3) == (state.outcome, state.counts[model.SUCCEEDED])
    assert {1} == {trial.attempts for trial in state.trials.values()}


def test_trouble_with_the_cluster_is_endured(path: Path) -> None:
    """It is told once, and the sweep goes on; what will never be allowed ends the runner."""
    prepared, trials = _prepared(trials=2), Pretended()
    troubles: list[Exception] = [RunError("away"), RunError("still away")]

    def look() -> None:
        if trials.runs and troubles:
            raise troubles.pop(0)

    trials.on_observe = look
    messages: list[str] = []
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal, notify=messages.append)
        assert actions.COMPLETED == state.outcome
        assert ["away; trying again"] == messages
        runner.resume(journal, _prepared(trials=3).spec)
        troubles[:] = [ForbiddenError("may not list")]
        with pytest.raises(ForbiddenError, match="may not list"):
            runner.run(_prepared(trials=3), trials, journal)
    assert not troubles


def test_trouble_that_does_not_end_ends_the_runner(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After half an hour, which no test waits for."""
    monkeypatch.setattr(runner, "PATIENCE", -1.0)
    trials = Pretended()

    def look() -> None:
        raise RunError("away")

    trials.on_observe = look
    with _begin(path, _prepared()) as journal, pytest.raises(RunError, match="away"):
        runner.run(_prepared(), trials, journal)


def test_parameters_that_give_no_job_fail_their_trial(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is the layout's own; no attempt more is made, and the others run."""
    values = PreparedSweep.values

    def refuse(self: PreparedSweep, trial: Trial) -> dict[str, Any]:
        if trial.number == 1:
            raise InputError("7 GPUs do not divide by 2")
        return values(self, trial)

    monkeypatch.setattr(PreparedSweep, "values", refuse)
    prepared = _prepared(trials=3, retries=4)
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, Pretended(), journal)
    assert (2, 1) == (state.counts[model.SUCCEEDED], state.counts[model.FAILED])
    failed = state.trials[1]
    assert ("7 GPUs do not divide by 2", 1) == (failed.reason, failed.attempts)


def test_a_search_that_has_nothing_more_ends_the_sweep(path: Path) -> None:
    """It is asked for more trials than there are combinations, and says so."""
    prepared = _prepared(trials=20, search=model.RANDOM)
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, Pretended(), journal)
    assert (actions.COMPLETED, 12) == (state.outcome, len(state.trials))
    assert "every combination has been tried" in state.reason


def test_clearing_removes_all_releases(path: Path) -> None:
    """Of a sweep that keeps them; their names are returned."""
    prepared, trials = _prepared(trials=2, keep="all"), Pretended()
    with _begin(path, prepared) as journal:
        state = runner.run(prepared, trials, journal)
    assert sorted(state.by_name) == sorted(trials.runs)
    assert set(state.by_name) == set(runner.clear(trials))
    assert {} == trials.runs
    assert [runner.locate("s")] == catalog.backends()
    catalog.forget(runner.locate("s"))
    assert [] == catalog.backends()


def test_names_of_sweeps_are_no_paths(path: Path) -> None:
    """A journal elsewhere is named in full."""
    assert path.parent.name == "s"
    for bad in ("", "../x", ".hidden"):
        with pytest.raises(InputError, match="is no name of a sweep"):
            runner.locate(bad)
    assert FileBackend(str(path), "any") == runner.locate("any", str(path))
    blocked = path.parents[2] / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        _begin(blocked / "journal", _prepared())


def test_a_sweep_that_is_kept_elsewhere_is_found_by_its_name(path: Path) -> None:
    """Once it was begun there; its name is free again when it is forgotten."""
    elsewhere = path.parents[2] / "elsewhere" / "j"
    backend = runner.locate("s", str(elsewhere))
    runner.begin(_prepared(), backend, {"on": "here"}).close()
    assert backend == runner.locate("s")
    assert [backend] == catalog.backends()
    assert not path.exists()
    catalog.forget(runner.locate("s"))
    assert not elsewhere.exists()
    assert path == Path(runner.locate("s").where)


def test_a_note_of_a_sweep_that_is_nowhere_any_more_is_forgotten(path: Path) -> None:
    """When a new sweep has taken the name: until then it knows the mark of what may be left."""
    elsewhere = path.parents[2] / "elsewhere" / "j"
    first = replace(_prepared(), owner=OwnerMark("5eed", "jo.laptop"))
    runner.begin(first, runner.locate("s", str(elsewhere)), {"on": "here"}).close()
    assert str(elsewhere) == catalog.begin("s").where
    elsewhere.unlink()
    backend = catalog.begin("s")
    assert str(path) == backend.where
    assert ({"on": "here"}, first.owner) == catalog.ownership(runner.locate("s"))
    assert ({}, None) == catalog.ownership(backend)
    runner.begin(_prepared(), backend, {"on": "here"}).close()
    assert [str(path)] == [backend.where for backend in catalog.backends()]
    assert not (path.parent / "where").exists()


def test_a_command_names_the_journal_where_one_is_needed(path: Path) -> None:
    """As a shell reads it."""
    assert catalog.is_default("s", str(path))
    assert not catalog.is_default("s", "sqlite:////s.db")
    assert "allranks sweep resume s" == results.command("resume", "s", "")
    assert "allranks sweep results s --journal '/a b' --best" == results.command(
        "results", "s", "/a b", "--best"
    )


def test_a_name_stays_that_of_the_sweep_that_has_it(path: Path) -> None:
    """Another one's journal goes on to be named."""
    _begin(path, _prepared()).close()
    other = runner.locate("s", str(path.with_name("other")))
    runner.begin(_prepared(), other, {"on": "here"}).close()
    assert path == Path(runner.locate("s").where)
    catalog.forget(other)
    assert path.exists()
    assert not other.exists()


def test_a_resumed_sweep_has_no_fewer_trials_than_have_begun() -> None:
    """It would have more than all of its trials."""
    spec = _prepared(trials=5).spec
    assert 4 == sweep_options.apply_new_bounds(spec, {"trials": 4}, begun=4).trials
    with pytest.raises(InputError, match="4 trials of the sweep have begun already"):
        sweep_options.apply_new_bounds(spec, {"trials": 2}, begun=4)
