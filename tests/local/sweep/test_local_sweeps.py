"""Sweeps whose trials are real processes of this machine."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError
from allranks.local import runs as local_runs
from allranks.local.state import store
from allranks.sweep import actions, model, runner
from allranks.sweep.trials import local

from ..conftest import until  # noqa: TID252 - the tier's own

if TYPE_CHECKING:
    from allranks.model.status import RunStatus
    from allranks.sweep.trials.base import TrialOutput

    from .stand import Stand

pytestmark = [pytest.mark.local, pytest.mark.timeout(600)]

# Tells each step, better with a higher rate; notes that it began, and that it ended.
_STEPS = """
echo "$ALLRANKS_TRIAL_NAME" >>"$OUT/began"
rate=$2
for step in 1 2 3 4; do
  echo "accuracy=$rate$step step=$step"
  sleep 0.05
done
echo "$ALLRANKS_TRIAL_NAME" >>"$OUT/ended"
"""


def _grid(count: int, **fields: Any) -> dict[str, Any]:
    return {
        "parameters": {"rate": {"range": {"min": 1, "max": count}, "arg": "--rate"}},
        "objective": {"metric": "accuracy"},
        "parallel": 2,
        **fields,
    }


def _nothing_is_left() -> bool:
    return [folder.path.name for folder in store.run_folders()] == []


def test_a_grid_runs_to_its_end(stand: Stand) -> None:
    """Every trial succeeds with its last measure, the best is known, and no run is left."""
    state = stand.run(stand.prepare(stand.values(_STEPS, _grid(4))))
    assert (actions.COMPLETED, 4) == (state.outcome, state.counts[model.SUCCEEDED])
    assert [14.0, 24.0, 34.0, 44.0] == [trial.value for trial in state.trials.values()]
    assert 3 == state.best
    assert all(0 < (trial.cpu_seconds or 0) < 60 for trial in state.trials.values())
    assert [(1, 11.0), (2, 12.0), (3, 13.0), (4, 14.0)] == [
        (measure.step, measure.value) for measure in state.trials[0].measures
    ]
    assert _nothing_is_left()


def test_choices_arrive_as_typed(stand: Stand) -> None:
    """1e-5, 0.10, true, 08 and an empty text reach argv, env and a placeholder as they are."""
    texts = ["1e-5", "0.10", "1e6", "true", "08", "", "a b'$x"]
    script = """
    printf '%s|%s|%s\\n' "$2" "$LR" "$(printf '%s' "$NOTE")" >>"$OUT/seen"
    """
    sweep = _grid(1, objective={"metric": ""}, parallel=4)
    sweep["parameters"] = {"lr": {"values": texts, "arg": "--lr", "env": "LR"}}
    values = stand.values(script, sweep, env={"OUT": str(stand.workdir), "NOTE": "<${sweep.lr}>"})
    text = values.read_text()
    for bare in ("1e-5", "0.10", "1e6", "true"):
        text = text.replace(f"- '{bare}'", f"- {bare}")
    values.write_text(text)
    state = stand.run(stand.prepare(values))
    assert len(texts) == state.counts[model.SUCCEEDED], state.reasons()
    assert sorted(f"{text}|{text}|<{text}>" for text in texts) == sorted(stand.notes("seen"))


def test_a_bad_trial_is_stopped_early(stand: Stand) -> None:
    """Halving ends those that are worse at a rung; their processes are asked to end."""
    script = """
    trap 'echo "$2" >>"$OUT/stopped"; exit 0' TERM
    for step in 1 2 3; do echo "accuracy=$2 step=$step"; sleep 0.05; done
    [ "$2" = 3 ] || { sleep 60 & wait; }
    echo "accuracy=$2 step=4"
    """
    early = {"kind": "successiveHalving", "minSteps": 2, "reductionFactor": 3, "warmupTrials": 0}
    grid = _grid(3, earlyStopping=early, parallel=1)
    grid["parameters"] = {"rate": {"values": [3, 2, 1], "arg": "--rate"}}
    patient = {"backoffLimit": 0, "terminationGracePeriodSeconds": 30}
    state = stand.run(stand.prepare(stand.values(script, grid, runPolicy=patient)))
    assert [model.SUCCEEDED, model.STOPPED, model.STOPPED] == [
        trial.state for trial in state.trials.values()
    ]
    assert "accuracy 2 at step 2 is number 2 of 2, and 1 of them may go on" == (
        state.trials[1].reason
    )
    assert ["2", "1"] == stand.notes("stopped")
    assert all(trial.cpu_seconds for trial in state.trials.values())
    assert _nothing_is_left()


class _Late(local.LocalTrials):
    """Trials that are looked at late: when what they have said is known, they have ended."""

    def read(self, trial: model.Trial) -> TrialOutput:
        """What a trial has said, once its last line is among it and its processes are gone."""
        output = super().read(trial)
        if any("step=2" in line for line in output.lines):
            folder = store.run_folder(trial.name, self._home.namespace)
            until(lambda: not folder.alive(), "the run's end")
        return output


def test_a_trial_that_ends_by_itself_is_not_stopped(stand: Stand) -> None:
    """Worse at its last step, but done before it could be ended: it has succeeded."""
    early = {"kind": "successiveHalving", "minSteps": 2, "reductionFactor": 3, "warmupTrials": 0}
    grid = _grid(2, earlyStopping=early, parallel=1)
    grid["parameters"] = {"rate": {"values": [2, 1], "arg": "--rate"}}
    script = 'for step in 1 2; do echo "accuracy=$2 step=$step"; sleep 0.3; done'
    state = stand.run(stand.prepare(stand.values(script, grid)), _Late)
    assert [(model.SUCCEEDED, 2.0), (model.SUCCEEDED, 1.0)] == [
        (trial.state, trial.value) for trial in state.trials.values()
    ]
    assert "stop" in {record["t"] for record in stand.records()}
    assert _nothing_is_left()


def test_the_goal_ends_the_sweep(stand: Stand) -> None:
    """Once a trial has it, those that run are cancelled and no other begins."""
    script = """
    [ "$2" = 1 ] || { sleep 60 & wait; }
    echo "accuracy=0.99"
    """
    goal = {"metric": "accuracy", "goal": 0.98}
    state = stand.run(stand.prepare(stand.values(script, _grid(50, objective=goal, parallel=3))))
    assert (actions.GOAL, 1) == (state.outcome, state.counts[model.SUCCEEDED])
    assert state.counts[model.CANCELLED] == len(state.trials) - 1
    assert len(state.trials) <= 4
    assert _nothing_is_left()


def test_a_failed_trial_is_tried_again(stand: Stand) -> None:
    """So often as is allowed; each attempt begins anew, and the reason is the trial's own words."""
    script = """
    echo "$2" >>"$OUT/tries"
    echo "accuracy=0.1"
    [ "$(grep -c . "$OUT/tries")" -ge "$NEEDED" ] || { echo "no luck" >&2; exit 7; }
    """
    grid = _grid(1, retries=2)
    for needed, ending, tries in (("3", model.SUCCEEDED, 3), ("99", model.FAILED, 3)):
        (stand.workdir / "tries").unlink(missing_ok=True)
        env = {"OUT": str(stand.workdir), "NEEDED": needed}
        state = stand.run(stand.prepare(stand.values(script, grid, env=env), f"s{needed}"))
        (trial,) = state.trials.values()
        assert (ending, tries) == (trial.state, trial.attempts)
        assert tries == len(stand.notes("tries"))
    assert "exit code 7: no luck" == trial.reason


def test_a_result_may_be_a_termination_message(stand: Stand) -> None:
    """The last value is that of the message; a trial that says nothing is unmeasured."""
    script = """
    [ "$2" = 2 ] && exit 0
    echo "accuracy=0.1 step=1"
    echo '{"accuracy": 0.75, "loss": 2}' >"$MESSAGE"
    """
    env = {"OUT": str(stand.workdir), "MESSAGE": "/dev/termination-log"}
    state = stand.run(stand.prepare(stand.values(script, _grid(2), env=env)))
    assert [0.75, None] == [trial.value for trial in state.trials.values()]
    assert model.UNMEASURED == state.trials[1].state


def test_every_kill_of_the_runner_loses_nothing(stand: Stand) -> None:
    """Killed at any moments, the sweep ends as if it had not been: each trial has run once."""
    chance = random.Random(7)  # noqa: S311 - no secret
    values = stand.values(_STEPS, _grid(12, parallel=3))
    kills = 0
    while True:
        process = stand.process(values)
        try:
            out, err = process.communicate(timeout=0.5 + chance.random() if kills < 8 else 240)
            break
        except TimeoutExpired:
            kills += 1
            process.kill()
            process.communicate()
    assert 0 == process.returncode, err
    assert "completed" in out
    assert kills >= 2
    state = stand.look()
    assert 12 == state.counts[model.SUCCEEDED]
    assert [14.0 + 10 * n if n < 9 else 104.0 + 10 * (n - 9) for n in range(9)] == [
        state.trials[n].value for n in range(9)
    ]
    names = sorted(trial.name for trial in state.trials.values())
    assert names == sorted(stand.notes("began")) == sorted(stand.notes("ended"))
    ends = Counter(record["n"] for record in stand.records() if record["t"] == "end")
    assert {1} == set(ends.values())
    assert _nothing_is_left()


def test_ctrl_c_ends_the_sweep_in_order_and_resume_goes_on(stand: Stand) -> None:
    """The trials that run are cancelled and end; what is resumed runs them, and the rest."""
    script = """
    echo "$2" >>"$OUT/began"
    [ -e "$OUT/go" ] || { sleep 60 & wait; }
    echo "accuracy=$2"
    """
    values = stand.values(script, _grid(3))
    process = stand.process(values)
    until(lambda: len(stand.notes("began")) == 2, "two trials")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=240)
    assert 0 == process.returncode, err
    assert "stopped interrupted by SIGINT" in out
    assert _nothing_is_left()
    assert 2 == stand.look().counts[model.CANCELLED]
    (stand.workdir / "go").touch()
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        prepared = runner.resume(journal)
        state = runner.run(prepared, stand.trials(prepared), journal)
    assert (actions.COMPLETED, 3) == (state.outcome, state.counts[model.SUCCEEDED])


def test_a_second_signal_leaves_at_once(stand: Stand) -> None:
    """No trial is left, however it takes its signals; the next runner begins it once more."""
    script = """
    echo "$2" >>"$OUT/began"
    trap '' TERM
    [ -e "$OUT/go" ] || { while :; do sleep 0.1; done; }
    echo "accuracy=$2"
    """
    policy = {"backoffLimit": 0, "terminationGracePeriodSeconds": 60}
    values = stand.values(script, _grid(2), runPolicy=policy)
    process = stand.process(values)
    until(lambda: len(stand.notes("began")) == 2, "two trials")
    process.send_signal(signal.SIGTERM)
    until(lambda: stand.look().requested, "the request")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=100)
    assert 0 == process.returncode, err
    assert "" == stand.look().outcome
    assert _nothing_is_left()
    (stand.workdir / "go").touch()
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        prepared = runner.resume(journal)
        state = runner.run(prepared, stand.trials(prepared), journal)
    assert (actions.COMPLETED, 2) == (state.outcome, state.counts[model.SUCCEEDED])


def test_a_runner_killed_while_it_ends_trials_loses_none(stand: Stand) -> None:
    """Resumed before the end was reached, a trial that was being ended begins once more."""
    script = """
    trap 'sleep 0.5; exit 0' TERM
    echo "$2" >>"$OUT/began"
    until [ -e "$OUT/go" ]; do sleep 0.1; done
    echo "accuracy=$2"
    """
    values = stand.values(script, _grid(2))
    process = stand.process(values)
    until(lambda: len(stand.notes("began")) == 2, "two trials")
    assert runner.request_stop(runner.locate("s"), "enough")
    until(lambda: all(trial.stopping for trial in stand.look().trials.values()), "the stops")
    process.kill()
    process.communicate()
    (stand.workdir / "go").touch()
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        prepared = runner.resume(journal)
        state = runner.run(prepared, stand.trials(prepared), journal)
    assert (actions.COMPLETED, 2) == (state.outcome, state.counts[model.SUCCEEDED]), state.reasons()
    assert {1} == {trial.attempts for trial in state.trials.values()}


def test_a_trial_ended_for_an_earlier_runner_has_not_failed(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its record tells the end while its supervisor still puts things away."""
    process = stand.process(stand.values('echo "$2" >>"$OUT/began"; sleep 60 & wait', _grid(1)))
    until(lambda: stand.notes("began"), "a trial")
    process.kill()
    process.communicate()
    (folder,) = store.run_folders()
    name = folder.path.name
    local_runs.stop(name, "lab")
    descriptor = folder.lock()  # as its supervisor has it until the last
    stop = local_runs.stop

    def stop_once_it_ends(name: str, namespace: str) -> RunStatus:
        os.close(descriptor)
        return stop(name, namespace)

    monkeypatch.setattr(local_runs, "stop", stop_once_it_ends)
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        trials = stand.trials(prepared)
        assert actions.REMOVING == trials.observe()[name].phase
        phases: set[str] = set()

        def is_gone() -> bool:
            observed = trials.observe()
            phases.update(trial.phase for trial in observed.values())
            return not observed

        until(is_gone, "the trial's run to be removed")
        trials.close()
    assert {actions.REMOVING} >= phases


def test_another_process_stops_a_sweep(stand: Stand) -> None:
    """Who runs it sees the request; where nobody does, it is carried out by the next runner."""
    values = stand.values('echo "$2" >>"$OUT/began"; sleep 60 & wait', _grid(9))
    process = stand.process(values)
    until(lambda: len(stand.notes("began")) == 2, "two trials")
    with pytest.raises(InputError, match="another process runs this sweep"):
        runner.open_sweep(runner.locate("s"))
    assert runner.request_stop(runner.locate("s"), "enough")
    out, err = process.communicate(timeout=240)
    assert "stopped enough" in out, err
    assert _nothing_is_left()


def test_a_sweep_whose_runner_died_is_stopped(stand: Stand) -> None:
    """The request is written down, and the next run only tidies up."""
    values = stand.values('echo "$2" >>"$OUT/began"; sleep 60 & wait', _grid(9))
    process = stand.process(values)
    until(lambda: len(stand.notes("began")) == 2, "two trials")
    process.kill()
    process.communicate()
    assert 2 == len(local_runs.list_runs())
    assert not runner.request_stop(runner.locate("s"), "enough")
    prepared, journal = runner.open_sweep(runner.locate("s"))
    with journal:
        state = runner.run(prepared, stand.trials(prepared), journal)
    assert (actions.REQUESTED, 2) == (state.outcome, state.counts[model.CANCELLED])
    assert _nothing_is_left()


def test_a_trial_that_cannot_start_says_why(stand: Stand) -> None:
    """A program that is missing is no reason to try again; the sweep ends with it."""
    grid = _grid(3, retries=5, maxFailedTrials=1)
    values = stand.values("", grid, command=["no-such-program-here"])
    state = stand.run(stand.prepare(values))
    assert actions.BROKEN == state.outcome
    assert "all for this: exit code 127: " in state.reason
    assert "no-such-program-here" in state.reason
    assert 2 <= state.counts[model.FAILED] <= 3
