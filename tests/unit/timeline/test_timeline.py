"""The timeline of a run: what its objects, events and logs tell, and what nothing tells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from allranks.model.rank_lines import SINGLE_WRITER, LogWriters
from allranks.model.status import Phase, PodPhase, PodStatus, RunStatus
from allranks.status.reduce import reduce
from allranks.timeline import goodput, log_marks, of_local_run, of_objects, otlp, page, rows, text
from allranks.timeline.model import Moment, PodBar, Span, Timeline, TrainingStep
from tests.unit.status import samples
from tests.unit.timeline.stories import LENGTH, trained

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_each_moment_is_told_by_an_object_an_event_or_a_line_of_a_log() -> None:
    """From the creation to the end; a save has its step, a restart its pod and its cause."""
    run = trained()
    assert [
        (0.0, "created", ""),
        (20.0, "admitted", "by Kueue"),
        (27.0, "scheduled", "the last of 2 pods"),
        (29.0, "pulled", "the last of 2 pods"),
        (30.0, "started", "the last of 2 pods"),
        (36.0, "rendezvous", "rendezvous complete"),
        (40.0, "first step", "1"),
        (62.0, "restart", "Error, exit code 137"),
        (91.0, "saved", "step 4"),
        (100.0, "ended", "Succeeded"),
    ] == [(moment.at - samples.START, moment.name, moment.detail) for moment in run.moments]
    assert ["demo-0-aaaaa", "demo-1-bbbbb", "demo-1-ccccc"] == [pod.name for pod in run.pods]
    lost = run.pods[1]
    assert ["scheduling", "preparing", "running"] == [span.name for span in lost.spans]
    assert "Error, exit code 137" == lost.failure


def test_what_nothing_tells_is_left_out() -> None:
    """A run that waits has no moment but its creation; there is no step without a line."""
    observation = samples.observe(samples.job(pods=2), pods=[samples.unscheduled("no room")])
    run = of_objects.build(observation, reduce(observation), {}, frozenset())
    assert ["created", "admitted"] == [moment.name for moment in run.moments]
    (bar,) = run.pods
    assert [("scheduling", None)] == [(span.name, span.end) for span in bar.spans]
    assert None is goodput.of(run).share
    assert ((), ()) == log_marks.read(['{"step": 1}', "{step"], SINGLE_WRITER, "a", stamped=False)


def test_lines_of_progress_tell_of_steps_and_of_each_save_once() -> None:
    """They bear their own time, also in a log whose lines have none, whatever the metrics say."""
    lines = [
        '[0] allranks: progress {"step": 2, "metrics": {"at": 5.0}, "at": 100}',
        '[0] allranks: progress {"step": 3, "saved": 3, "at": 110}',
        '[0] allranks: progress {"step": 4, "saved": 3, "at": 120.5}',
        '[0] allranks: progress {"saved": 5, "step": 5}',
    ]
    marks = log_marks.read(lines, LogWriters(2, prefixed=True), "demo-0", stamped=False)
    assert [(100.0, 2), (110.0, 3), (120.5, 4)] == [(step.at, step.number) for step in marks.steps]
    assert [("saved", 110.0, "step 3")] == [
        (moment.name, moment.at, moment.detail) for moment in marks.moments
    ]


def test_a_preflight_is_told_in_words() -> None:
    """How it ended, and how long it took; of a line that is cut off, what is there."""
    reports = ['{"passed": true, "seconds": 2.5}', '{"passed": false, "seconds": 60}', '{"pas']
    lines = [f"{samples.stamp(7)} allranks: preflight {report}" for report in reports]
    marks = log_marks.read(lines, SINGLE_WRITER, "demo-0", stamped=True)
    assert ["passed in 2.5 s", "failed in 60 s", 'preflight {"pas'] == [
        moment.detail for moment in marks.moments if moment.name == "preflight"
    ]


def test_a_preflight_of_this_machine_bears_its_own_time() -> None:
    """The lines of a local log have none; a time that is no number tells of no moment."""
    reports = ['{"passed": true, "seconds": 2.5, "at": 107}', '{"at": "x", "passed": true}', "7"]
    lines = [f"allranks: preflight {report}" for report in reports]
    lines += ["allranks: rendezvous complete"]
    marks = log_marks.read(lines, SINGLE_WRITER, "demo-0", stamped=False)
    assert [("preflight", 107.0, "passed in 2.5 s")] == [
        (moment.name, moment.at, moment.detail) for moment in marks.moments
    ]


def test_goodput_counts_each_step_once_and_names_what_the_rest_was_lost_to() -> None:
    """Ten seconds for each of two steps, and one of these was done again."""
    spent = goodput.of(trained())
    assert (100.0, 20.0, 0.2) == (spent.seconds, spent.steps, spent.share)
    assert {
        "waiting in the queue": 20.0,
        "waiting for nodes": 7.0,
        "starting pods": 3.0,
        "starting the training": 10.0,
        "restart": 20.0,
        "steps done again": 10.0,
        "after the last step": 10.0,
    } == dict(spent.lost)
    assert spent.seconds == spent.steps + sum(dict(spent.lost).values())
    assert "20.0% of 100s made steps" == next(text.goodput_lines(spent, LENGTH))


def test_a_restart_is_one_cause_in_one_word() -> None:
    """Ranks may end steps after a pod has failed, and go back later; that nobody tells is one."""
    steps = [TrainingStep(at, number) for at, number in ((0.0, 1), (10.0, 2), (13.0, 3), (40.0, 2))]
    moments = (Moment(12.0, "restart", "Error, exit code 1"), Moment(12.5, "restart", "Killed"))
    run = Timeline(
        *("demo", "lab", "torchrun", "uid", "Succeeded"),
        start=0.0,
        end=60.0,
        now=99.0,
        moments=moments,
        steps=(*steps, TrainingStep(50.0, 3), TrainingStep(55.0, 3), TrainingStep(60.0, 1)),
    )
    assert {
        "restart": 35.0,
        "steps done again": 25.0,
    } == dict(goodput.of(run).lost)


def untold(
    *bars: PodBar, moments: Sequence[Moment] = (), end: float | None = 100.0, now: float = 100.0
) -> Timeline:
    """A run that says nothing of its steps: made at 0, its pods all started at 10."""
    return Timeline(
        *("demo", "lab", "torchrun", "uid", "Failed"),
        start=0.0,
        end=end,
        now=now,
        moments=(Moment(0.0, "scheduled"), Moment(10.0, "started"), *moments),
        pods=bars,
    )


def ran(index: int, *times: tuple[float, float | None], role: str = "node") -> PodBar:
    """A pod that ran at some times."""
    spans = [Span("preparing", times[0][0] - 5.0, times[0][0])]
    spans += [Span("running", start, end) for start, end in times]
    return PodBar(f"demo-{role}-{index}", "uid", role, index, "", tuple(spans))


def spent_on(run: Timeline) -> dict[str, float]:
    """What the time of a run was spent on, which is all of it."""
    spent = goodput.of(run)
    assert spent.running is not None
    whole = {"running": spent.running, **dict(spent.lost)}
    assert spent.seconds == sum(whole.values())
    return whole


def test_only_time_in_which_a_pod_ran_may_have_made_steps() -> None:
    """Not that between two attempts, nor that after the last; a pod that overlaps counts once."""
    attempts = [ran(0, (10.0, 12.0)), ran(1, (8.0, 13.0)), ran(0, (50.0, 53.0), (53.0, 54.0))]
    expected = {"starting pods": 10.0, "running": 7.0, "restart": 37.0}
    assert {**expected, "after the last pod": 46.0} == spent_on(untold(*attempts))
    assert {**expected, "since the last pod": 46.0} == spent_on(untold(*attempts, end=None))
    goes_on = untold(*attempts, ran(1, (60.0, None)), end=None)
    assert {"starting pods": 10.0, "running": 47.0, "restart": 43.0} == spent_on(goes_on)


def test_what_a_pod_ran_after_the_end_of_its_run_does_not_count() -> None:
    """Pods of a Job that has failed are told to end, and may take their time."""
    run = untold(ran(0, (10.0, 130.0)), moments=[Moment(125.0, "preflight", "failed in 9 s")])
    assert {"starting pods": 10.0, "running": 0.0, "preflight": 90.0} == spent_on(run)
    assert 90.0 == goodput.of(untold(ran(0, (10.0, 130.0)))).running


def test_a_page_has_what_the_terminal_has_of_goodput() -> None:
    """The most that may have made steps, too, where nothing says when they were made."""
    run = untold(ran(0, (10.0, 40.0)))
    row = "running: at most this made steps"
    printed = list(text.goodput_lines(goodput.of(run), LENGTH))
    assert f"       30s   30.0%  {row}" in printed
    assert f"<td>{row}</td><td class=n>30s</td>" in page.html(run, goodput.of(run), LENGTH)


def test_a_pod_that_makes_no_steps_itself_does_not_count() -> None:
    """Workers of MPI wait for the launcher's next attempt; a master only plans."""
    for own, other in (("launcher", "worker"), ("worker", "master")):
        run = untold(ran(0, (10.0, 30.0), role=own), ran(0, (5.0, 100.0), role=other))
        assert {
            "starting pods": 10.0,
            "running": 20.0,
            "after the last pod": 70.0,
        } == spent_on(run)


def test_no_step_is_made_before_a_preflight_has_passed() -> None:
    """Of an attempt whose preflight failed, none at all; a time on a cluster has whole seconds."""
    attempts = [ran(0, (10.0, 30.0)), ran(1, (10.0, 30.0)), ran(0, (40.0, 80.0))]
    preflights = [Moment(30.5, "preflight", "failed in 20 s")]
    assert {
        "starting pods": 10.0,
        "preflight": 20.0,
        "restart": 10.0,
        "running": 40.0,
        "after the last pod": 20.0,
    } == spent_on(untold(*attempts, moments=preflights))
    preflights += [Moment(45.0, "preflight", "passed in 5 s")]
    spent = spent_on(untold(*attempts, moments=preflights))
    assert (25.0, 35.0) == (spent["preflight"], spent["running"])
    # A launcher that starts over in its container looks again.
    preflights += [Moment(70.0, "preflight", "failed in 5 s")]
    assert spent == spent_on(untold(*attempts, moments=preflights))
    (failed,) = preflights[:1]
    nothing = spent_on(untold(*attempts[:2], moments=[failed]))
    assert 0.0 == nothing["running"]


def test_a_timeline_fits_a_terminal_and_groups_the_pods_of_a_large_run() -> None:
    """The lead and pods that ended badly have rows of their own; each line is short enough."""
    printed = list(text.lines(trained(), 80, LENGTH))
    assert "  +62s      restart     demo-1-bbbbb Error, exit code 137" in printed
    bars = [line for line in printed if line.startswith("node ")]
    assert 3 == len(bars)
    assert "x" in bars[1]
    assert "  +91s      saved       step 4" in printed
    assert all(len(line) <= 80 for line in printed)
    pods = [samples.ready(index) for index in range(500)] + [samples.failed(500, 1)]
    observation = samples.observe(samples.job(pods=501), pods=pods)
    run = of_objects.build(observation, reduce(observation), {}, frozenset({"demo-0-x7k2p"}))
    chosen = rows.choose(run, text.MOST_ROWS)
    assert ["node 0", "node 500", "499 more nodes"] == [row.label for row in chosen]
    assert all(len(line) <= 60 for line in text.lines(run, 60, LENGTH))


def test_spans_have_the_same_ids_each_time_and_form_one_tree() -> None:
    """A run that is sent twice is one trace: its pods are below it, and their states below them."""
    first, again = (otlp.document(trained(), "1") for _ in range(2))
    assert json.dumps(first) == json.dumps(again)
    (scope,) = first["resourceSpans"][0]["scopeSpans"]
    run, *others = scope["spans"]
    ids = {span["spanId"] for span in scope["spans"]}
    assert (32, 16) == (len(run["traceId"]), len(run["spanId"]))
    assert len(scope["spans"]) == len(ids) == 1 + 3 + 9
    assert {run["traceId"]} == {span["traceId"] for span in others}
    assert {span["parentSpanId"] for span in others} <= ids
    assert 10 == len(run["events"])
    lost = next(span for span in others if span["name"] == "pod demo-1-bbbbb")
    assert {"code": 2, "message": "Error, exit code 137"} == lost["status"]


def test_a_run_of_this_machine_is_told_by_its_supervisors_events() -> None:
    """Each start of a container, each end; a step where the line itself says when."""

    def event(pod: str, reason: str, at: float, message: str, kind: str = "Normal") -> dict:
        about = {"kind": "Pod", "name": pod, "uid": f"{pod}-{at < 5}"}
        return {
            "involvedObject": about,
            "type": kind,
            "reason": reason,
            "message": message,
            "eventTime": samples.stamp(at),
        }

    end = "container trainer ended with exit code "
    events = [
        event("demo-0", "Started", 1, "container trainer was started"),
        event("demo-0", "Error", 4, f"{end}3: out of luck", "Warning"),
        event("demo-0", "Started", 6, "container trainer was started"),
        event("demo-0", "Completed", 9, f"{end}0"),
    ]
    status = RunStatus(
        *("demo", "default", Phase.SUCCEEDED),
        started_at=samples.START,
        finished_at=samples.START + 9,
        pods=(PodStatus("demo-0", "node", 0, PodPhase.SUCCEEDED),),
    )
    lines = [f'{{"epoch": 1, "time": {samples.START + 3}}}', '{"epoch": 2}', "other"]
    marks = [log_marks.read(lines, SINGLE_WRITER, "demo-0", stamped=False)]
    run = of_local_run.build(status, events, marks, samples.START + 60)
    assert [
        (0.0, "created"),
        (1.0, "started"),
        (3.0, "first step"),
        (4.0, "restart"),
        (9.0, "ended"),
    ] == [(moment.at - samples.START, moment.name) for moment in run.moments]
    assert ["Error, exit code 3", ""] == [pod.failure for pod in run.pods]
