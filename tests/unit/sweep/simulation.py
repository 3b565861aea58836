"""A world in which sweeps run: releases that live, end and can be refused, and a runner to kill.

The runner does what the journal and `decide` ask of it, and nothing else; it can be ended after
each of its steps, also between a record and the effect that follows it.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from allranks.sweep import actions, naming, records
from allranks.sweep.actions import ObservedRelease
from allranks.sweep.decide import decide
from allranks.sweep.metrics import ObjectiveExtractor
from allranks.sweep.model import (
    Choice,
    Objective,
    Parameter,
    Range,
    SweepSpec,
    TrialSpec,
    Values,
)
from allranks.sweep.search import factory, space
from allranks.sweep.state import SweepState, fold
from allranks.sweep.storage import catalog
from allranks.sweep.storage.catalog import backend_of
from allranks.sweep.storage.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from allranks.sweep.records import Record
    from allranks.sweep.search.base import Search


def spec(**changes: Any) -> SweepSpec:
    """A sweep over a grid of twelve."""
    parameters = (
        Parameter("lr", Values((Choice("1e-5", 1e-5), Choice("1e-4", 1e-4), Choice("0.10", 0.1)))),
        Parameter("seed", Range(Decimal(1), Decimal(4), Decimal(1))),
    )
    fields: dict[str, Any] = {
        "name": "s",
        "parameters": parameters,
        "objective": Objective("accuracy"),
        "trial": TrialSpec("torchrun"),
        "trials": 12,
        "parallel": 3,
    }
    return SweepSpec(**{**fields, **changes})


class Memory:
    """A journal that outlives its runner, and forgets what was not written to its end."""

    def __init__(self, head: Record) -> None:
        self.records = [head]
        self.state = fold(self.records)

    def reopen(self) -> None:
        """Read it anew, as a runner does that begins."""
        self.state = fold(self.records)

    def append(self, *new_records: Record) -> None:
        """Write records and take them into the state."""
        self.records.extend(new_records)
        for record in new_records:
            self.state.apply(record)


class Disk(Memory):
    """A journal in a file. Each of its runners dies in the middle of a write."""

    def __init__(self, path: Path, head: Record) -> None:
        self._path = path
        self._file = Journal.create(backend_of(str(path)), head)
        self.records = [head]

    def reopen(self) -> None:
        """Read it anew, behind half a record."""
        self._file.close()
        with self._path.open("ab") as torn:
            torn.write(b'{"t":"end","n":0,"state":"succ')
        self._file = Journal.open(backend_of(str(self._path)))
        self.state = self._file.state

    def append(self, *new_records: Record) -> None:
        """Write records, for good."""
        self.records.extend(new_records)
        self._file.append(*new_records)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


@dataclass
class Release:
    """A release, and what its trial does in the end."""

    ticks: int
    outcome: str
    lines: list[str]
    phase: str = actions.RUNNING
    lines_printed: int = 0
    going: bool = False


@dataclass
class World:
    """All releases.

    Attributes:
        seed: what each trial does follows from it and from the trial's name and attempt.
        failing: of a hundred attempts, how many fail.
        unmeasured: of a hundred attempts, how many say nothing.
        full: of a hundred installs, how many find no room.
        parallel: how many may live at a time.
        slow: removals take a tick.
    """

    seed: int = 0
    failing: int = 0
    unmeasured: int = 0
    full: int = 0
    parallel: int = 3
    slow: bool = False
    now: float = 0.0
    releases: dict[str, Release] = field(default_factory=dict)
    installs: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    most: int = 0

    def chance(self, *parts: object) -> random.Random:
        """Chance that follows from what it is about."""
        return random.Random(f"{self.seed}/{parts}")  # noqa: S311 - no secret

    def install(self, name: str) -> bool:
        """Make a release; whether there was room for it."""
        if name in self.releases:
            return True
        attempt = self.installs[name]
        chance = self.chance(name, attempt, self.now)
        if chance.randrange(100) < self.full:
            return False
        chance = self.chance(name, attempt)
        self.installs[name] += 1
        draw = chance.randrange(100)
        outcome = actions.FAILED if draw < self.failing else actions.SUCCEEDED
        mute = self.failing <= draw < self.failing + self.unmeasured
        steps = chance.randint(1, 4)
        lines = (
            []
            if mute
            else [f"accuracy={quality(name) * s / steps} step={s}" for s in range(1, steps + 1)]
        )
        self.releases[name] = Release(chance.randint(0, 3), outcome, lines)
        self.most = max(self.most, sum(r.phase == actions.RUNNING for r in self.releases.values()))
        assert self.most <= self.parallel
        return True

    def uninstall(self, name: str) -> None:
        """Remove a release, at once or by the next tick."""
        release = self.releases.get(name)
        if release is not None and self.slow:
            release.going = True
        else:
            self.releases.pop(name, None)

    def tick(self) -> None:
        """Time goes by."""
        self.now += 10
        for name, release in list(self.releases.items()):
            if release.going:
                del self.releases[name]
            elif release.phase == actions.RUNNING:
                release.lines_printed = min(len(release.lines), release.lines_printed + 1)
                release.ticks -= 1
                if release.ticks < 0 and (
                    release.lines_printed == len(release.lines) or release.outcome == actions.FAILED
                ):
                    release.phase = release.outcome
                    self.succeeded[name] += release.outcome == actions.SUCCEEDED


def quality(name: str) -> float:
    """How good a trial is in the end: from 0 to 1, by its name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:6], 16) / 16**6


class Runner:
    """Carries out what is decided. `steps` yields after every single thing it does."""

    def __init__(self, journal: Memory, world: World) -> None:
        self.journal = journal
        self.world = world
        self.blocked: dict[str, ObservedRelease] = {}
        self.collectors: dict[tuple[str, int], tuple[ObjectiveExtractor, int]] = {}

    def steps(self) -> Generator[None]:
        """Run to the end of the sweep."""
        self.journal.reopen()
        search = factory.make(self.journal.state.spec)
        yield
        while not self.journal.state.outcome:
            yield from self._collect()
            state = self.journal.state
            decided = decide(state, state.spec, self.observe(), self.world.now)
            assert decided or state.open or self.world.releases
            for action in decided:
                yield from self._carry_out(action, search)
            if not decided or all(self._is_idle(action) for action in decided):
                self.world.tick()
                yield
        yield from self._tidy()

    def _tidy(self) -> Iterator[None]:
        """What is decided after the end."""
        while removals := decide(self.journal.state, self.journal.state.spec, self.observe(), 0.0):
            for action in removals:
                assert isinstance(action, actions.Remove)
                self.world.uninstall(action.name)
                yield
            self.world.tick()

    def observe(self) -> dict[str, ObservedRelease]:
        """Every release, and those that could not be made."""
        observed = {
            name: ObservedRelease(
                actions.REMOVING if release.going else release.phase, "exit code 1"
            )
            for name, release in self.world.releases.items()
        }
        return {**self.blocked, **observed}

    def _is_idle(self, action: actions.Action) -> bool:
        return isinstance(action, actions.Stop | actions.Remove | actions.Start)

    def _collect(self) -> Iterator[None]:
        for trial in self.journal.state.running():
            release = self.world.releases.get(trial.name)
            if release is None:
                continue
            key = (trial.name, trial.attempts)
            metric = self.journal.state.spec.objective.metric
            collector, position = self.collectors.get(
                key, (ObjectiveExtractor(metric, self.journal.state.spec.metrics), 0)
            )
            for line in release.lines[position : release.lines_printed]:
                self.journal.append(
                    *records.measures(trial.number, collector.feed(line, self.world.now))
                )
                yield
            self.collectors[key] = (collector, release.lines_printed)

    def _carry_out(self, action: actions.Action, search: Search) -> Iterator[None]:
        state, now = self.journal.state, self.world.now
        if isinstance(action, actions.Propose):
            self.journal.append(proposed(action.number, state, search, now))
            yield
            return
        record = records.record_of_action(action, state, now)
        if record is not None:
            self.journal.append(record)
            yield
        if isinstance(action, actions.Start):
            self.blocked.pop(action.name, None)
            if not self.world.install(action.name):
                self.blocked[action.name] = ObservedRelease(actions.BLOCKED, "quota", since=now)
            yield
        elif isinstance(action, actions.Stop | actions.Remove):
            self.blocked.pop(action.name, None)
            self.world.uninstall(action.name)
            yield
        elif isinstance(action, actions.RecordEnd):
            self.blocked.pop(state.trials[action.number].name, None)


def write_ended_sweep() -> None:
    """Write the journal of a sweep s on this machine with one trial, which has succeeded."""
    assignment = space.assignment(spec().parameters, 0)
    with Journal.create(catalog.locate("s"), records.head(spec(), 1.0)) as journal:
        journal.append(records.trial(0, "s-0", assignment, 2.0))
        journal.append({"t": "start", "n": 0, "attempt": 1, "at": 3.0})
        end = {"t": "end", "n": 0, "state": "succeeded", "v": 0.5, "why": "", "cpu": 1.5}
        journal.append({**end, "at": 5.0})


def proposed(number: int, state: SweepState, search: Search, now: float) -> Record:
    """The record of what a search says."""
    if number >= state.spec.trials or state.exhausted:
        raise AssertionError("nothing is to be proposed")
    assignment = search.propose(number, state)
    if assignment is None:
        return records.search_end("every combination was tried", now)
    name = naming.trial_name(state.spec.name, assignment, state.names())
    return records.trial(number, name, assignment, now)


def finish(world: World, journal: Memory, kills: list[int] | None = None) -> SweepState:
    """Run a sweep to its end, with runners that are killed after so many steps each."""
    for steps in [*(kills or []), 10**6]:
        runner = Runner(journal, world).steps()
        for step, _ in enumerate(runner, start=1):
            if step >= steps:
                break
        else:
            return fold(journal.records)
        runner.close()
    raise AssertionError("the sweep does not end")
