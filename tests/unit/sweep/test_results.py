"""Results: their order, the best, and what machines read of them."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allranks.errors import InputError, RunError
from allranks.sweep.model import (
    CANCELLED,
    FAILED,
    MINIMIZE,
    PENDING,
    RUNNING,
    STOPPED,
    UNMEASURED,
    Choice,
    Objective,
    Trial,
)
from allranks.sweep.reporting import report, tables
from allranks.sweep.reporting.results import as_dict, as_json, collect, values_file
from allranks.yamlio.load import load
from tests.unit.sweep.sweeps import digits, spec_of, trial_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def order(*trials: Trial, direction: str = "maximize") -> list[int]:
    """The numbers of trials as results have them."""
    return [trial.number for trial in collect(spec_of("lr", direction=direction), trials).trials]


def test_the_best_comes_first_in_either_direction() -> None:
    """More is better or less is, and of equal trials the first proposed comes first."""
    trials = [trial_of(0, 0.5), trial_of(1, 0.9), trial_of(2, 0.9), trial_of(3, 0.7)]
    assert [1, 2, 3, 0] == order(*trials)
    assert [0, 3, 1, 2] == order(*trials, direction=MINIMIZE)
    assert [1, 2, 3, 0] == order(*reversed(trials))


def test_a_trial_that_was_stopped_is_never_the_best() -> None:
    """Its last value belongs to another step; trials without a value come after those with one."""
    trials = [
        trial_of(0, None, FAILED),
        trial_of(1, None, UNMEASURED),
        trial_of(2, 0.99, STOPPED),
        trial_of(3, 0.7),
        trial_of(4, 0.98, RUNNING),
        trial_of(5, None, PENDING),
        trial_of(6, None, CANCELLED),
    ]
    results = collect(spec_of("lr"), trials)
    assert [3, 2, 4, 1, 0, 5, 6] == [trial.number for trial in results.trials]
    assert results.best is not None
    assert 3 == results.best.number


def test_values_that_are_no_numbers_are_no_result() -> None:
    """A loss that is infinite or not a number is shown, but ranks last and cannot be the best."""
    trials = [trial_of(0, math.nan), trial_of(1, math.inf), trial_of(2, 3.0)]
    results = collect(spec_of("lr", direction=MINIMIZE), trials)
    assert [2, 0, 1] == [trial.number for trial in results.trials]
    document = json.loads(as_json(results))
    assert [3.0, None, None] == [trial["value"] for trial in document["trials"]]
    assert ["3", "nan", "inf"] == [row[2] for row in tables.table(results).rows]
    assert collect(spec_of("lr"), trials[:2]).best is None


def test_the_goal_is_reached_by_the_best_trial() -> None:
    """A value equal to the goal is enough; without a goal there is nothing to reach."""
    trials = [trial_of(0, 0.5), trial_of(1, 0.9)]
    assert collect(spec_of("lr", goal=0.9), trials).goal_reached
    assert not collect(spec_of("lr", goal=0.91), trials).goal_reached
    assert not collect(spec_of("lr"), trials).goal_reached


def test_a_trial_is_found_by_number_or_name() -> None:
    """Both are shown, so both may be typed; what is not there is named with what is."""
    results = collect(spec_of("lr"), [trial_of(0, 0.5), trial_of(11, 0.9)])
    assert 11 == results.find("11").number
    assert 0 == results.find("s-00000000").number
    with pytest.raises(InputError, match="no trial '7': there are 0 to 11"):
        results.find("7")
    with pytest.raises(InputError, match="there are no trials yet"):
        collect(spec_of("lr"), []).find("0")


def test_no_best_trial_says_what_became_of_all() -> None:
    """With the reason that most of them give."""
    trials = [
        trial_of(0, None, FAILED, reason="exit code 1"),
        trial_of(1, None, FAILED, reason="out of memory"),
        trial_of(2, None, UNMEASURED, reason="out of memory"),
    ]
    results = collect(spec_of("lr"), trials)
    with pytest.raises(RunError, match="2 failed, 1 unmeasured; most often: out of memory"):
        results.require_best()
    with pytest.raises(RunError, match="no trial has begun"):
        collect(spec_of("lr"), []).require_best()


def test_json_has_every_trial_with_its_parameters_as_typed() -> None:
    """Numbers would lose how they were written: 1e-5, 0.10 and "08" are text."""
    assignment = {
        "lr": Choice("1e-5", 1e-5),
        "drop": Choice("0.10", 0.1),
        "tag": Choice("08", "08"),
    }
    trials = [
        trial_of(0, 0.5, assignment=assignment, curve=[0.4, 0.5], cpu_seconds=2.5),
        trial_of(1, 0.4),
    ]
    document = json.loads(as_json(collect(spec_of("lr", "drop", "tag", goal=0.4), trials)))
    assert (1, "s", 0, True) == (
        document["version"],
        document["sweep"],
        document["best"],
        document["over"],
    )
    assert {"succeeded": 2} == document["counts"]
    assert document["objective"]["reached"]
    assert (11.0, 2.5) == (document["elapsedSeconds"], document["cpuSeconds"])
    first = document["trials"][0]
    assert {"lr": "1e-5", "drop": "0.10", "tag": "08"} == first["parameters"]
    assert ("2023-11-14T22:13:20+00:00", 10.0) == (first["started"], first["seconds"])
    assert [(1, 0.4), (2, 0.5)] == [
        (measure["step"], measure["value"]) for measure in first["measures"]
    ]


def test_a_sweep_that_has_not_begun_has_results_too() -> None:
    """Empty ones, in every form."""
    results = collect(spec_of("lr"), [])
    assert ([], None, {}) == tuple(as_dict(results)[key] for key in ("trials", "best", "counts"))
    assert 1 == len(tables.as_csv(results).splitlines())
    assert "0 trials" == tables.summary(results)
    assert () == tables.table(results).rows


def harmless(text: str) -> str:
    """A text as the table has it: what a spreadsheet would calculate begins with a quote."""
    if text[:1] not in ("\t", "\r", "\n") and text.lstrip()[:1] not in tuple(
        "=+-@\uff1d\uff0b\uff0d\uff20\u2212"
    ):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


@pytest.mark.attack
@example(name="a\rb", value="\n", reason='","')
@example(name="=1+1", value='=HYPERLINK("http://x","y")', reason="@SUM(A1)")
@example(name="lr", value="-1e-3", reason="-rf")
@example(name="\uff1d1+1", value="  =1+1", reason="\n=1")
@example(name="\u3000\uff20x", value="\uff0b1", reason="\uff0d1")
@given(name=TEXT, value=TEXT, reason=TEXT)
def test_any_text_survives_csv_and_json(name: str, value: str, reason: str) -> None:
    """Quotes, commas and line breaks come out as they went in; no formula is one in a CSV."""
    trial = trial_of(0, 0.25, assignment={name: Choice(value, value)}, reason=reason)
    results = collect(spec_of(name), [trial])
    (head, row) = csv.reader(io.StringIO(tables.as_csv(results), newline=""))
    cells = dict(zip(head, row, strict=True))
    assert len(head) == len(cells)
    cell = cells.get(harmless(f"parameter.{name}"), cells.get(harmless(name)))
    assert harmless(value) == cell
    assert (harmless(reason), "0.25") == (cells["reason"], cells["value"])
    assert {name: value} == json.loads(as_json(results))["trials"][0]["parameters"]


def test_a_parameter_may_be_called_like_a_column() -> None:
    """It is told apart in the heading."""
    trial = trial_of(0, 0.5, assignment={"value": Choice("x", "x"), "lr": Choice("1", 1)})
    head = tables.as_csv(collect(spec_of("value", "lr"), [trial])).splitlines()[0]
    assert head.startswith("trial,name,state,value,parameter.value,lr,step,")


@given(name=TEXT, value=TEXT)
def test_a_values_file_is_the_values_whatever_its_comments_say(name: str, value: str) -> None:
    """A parameter with a line break in it ends no comment."""
    trial = trial_of(7, 0.5, assignment={name: Choice(value, value)})
    values = {"args": ["--lr", value], "nodes": 2}
    text = values_file(collect(spec_of(name), [trial]), trial, values)
    assert values == load(text, "best.yaml").data
    assert text.startswith("# Trial 7 of sweep s (s-00000007): succeeded, accuracy 0.5")
    assert "which trial" not in text


def test_a_values_file_of_one_pod_says_why_it_has_a_parameter() -> None:
    """A person who reads it is told; a line end in a choice is shown as such."""
    assignment = {"lr": Choice("a\nb", "a\nb")}
    trial = trial_of(7, 0.5, assignment=assignment)
    values = {"workload": "sweep", "sweep": {"parameters": {"of": {"values": ["s-7"]}}}}
    text = values_file(collect(spec_of("lr"), [trial]), trial, values)
    assert values == load(text, "best.yaml").data
    assert ["# lr: a\\nb", "# A program in one pod is a sweep of one trial"] == [
        line.partition(",")[0] for line in text.splitlines()[1:3]
    ]


def test_rows_are_what_a_person_reads() -> None:
    """Parameters as typed, times in words, why a trial has no value; with a key for each cell."""
    lr = {"lr": Choice("1e-5", 1e-5)}
    trials = [
        trial_of(0, 0.98765432, assignment=lr, curve=[0.5, 0.9], cpu_seconds=75.0),
        trial_of(1, None, FAILED, assignment={"lr": Choice("0.1", 0.1)}, reason="exit code 1"),
    ]
    table = tables.table(collect(spec_of("lr"), trials))
    assert ["trial", "state", "accuracy", "lr", "steps", "time", "CPU", "note"] == [
        column.title for column in table.columns
    ]
    assert ("0", "succeeded", "0.987654", "1e-5", "2", "10 s", "1 min 15 s", "") == table.rows[0]
    assert ("1", "failed", "—", "0.1", "—", "10 s", "—", "exit code 1") == table.rows[1]
    assert (0, "succeeded", 0.98765432, 1e-5, 2, 10.0, 75.0, None) == table.keys[0]
    assert 1 == len(tables.table(collect(spec_of("lr"), trials), most=1).rows)


def test_what_seeks_no_metric_shows_none() -> None:
    """No column without a heading, no tile of a best, and no direction where there is none."""
    trial = trial_of(0, None, assignment={"lr": Choice("1", 1)})
    results = collect(replace(spec_of("lr"), objective=Objective("")), [trial])
    table = tables.table(results)
    assert ["trial", "state", "lr"] == [column.title for column in table.columns[:3]]
    assert len(table.columns) == len(table.rows[0]) == len(table.keys[0])
    text = values_file(results, trial, {"nodes": 2})
    assert "# Trial 0 of sweep s (s-00000000): succeeded.\n# lr: 1\n" == text[: -len("nodes: 2\n")]
    page = report.html(results)
    assert "best " not in page.partition('<section class="tiles">')[2].partition("</section>")[0]
    assert "data-first" not in page


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.97, "10 s"),
        (59.4, "59 s"),
        (59.9, "1 min"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (3725, "1 h 2 min"),
        (187_000, "2 d 3 h"),
    ],
)
def test_a_duration_is_said_in_two_units(spent: float, text: str) -> None:
    """The largest that fits, and the next one."""
    assert text == tables.duration(spent)


def test_a_summary_counts_the_states() -> None:
    """In the order of a trial's life."""
    expected = "40 trials: 1 running, 9 succeeded, 1 failed, 28 stopped, 1 unmeasured"
    assert expected == tables.summary(digits())
    assert "1 trial: 1 succeeded" == tables.summary(collect(spec_of("lr"), [trial_of(0, 1.0)]))
