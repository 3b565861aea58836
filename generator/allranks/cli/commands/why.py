"""`allranks why`: why a run stands still."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from allranks import atomic, names
from allranks.cli import options
from allranks.cli.target import run_argument, target_options
from allranks.errors import EXIT_FAILED
from allranks.humanize import list_some, plural
from allranks.k8s.ranges import write_pairs
from allranks.model.status import PodPhase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from allranks.cli.console import Console
    from allranks.cli.target import Target
    from allranks.diagnosis.pods import Answers, PodSource
    from allranks.diagnosis.report import PodReport
    from allranks.diagnosis.verdict import Diagnosis
    from allranks.model.status import PodStatus, RunStatus

_SECONDS = 3.0  # for a pod to look at its ranks
_LIMIT = 30.0
_LOGS = 16  # pods whose logs are read
_ROWS, _RANKS = 12, 24


@click.command("why", short_help="Say why a run stands still.")
@run_argument
@target_options
@click.option("--stacks", is_flag=True, help="Show the whole stacks; equal ones once.")
@click.option(
    "--save",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Write all that the pods said, and the verdict, into a folder.",
)
@options.timeout_option("How long all pods may take to answer.", _LIMIT)
@options.output_option("text", "json")
@options.pass_console
def why_command(
    console: Console,
    *,
    name: str,
    target: Target,
    stacks: bool,
    save: Path | None,
    timeout: float,
    output: str,
) -> None:
    """Say why run NAME stands still, or that it does not.

    Each pod is asked what its ranks do: their stacks, the collectives that they have entered, what
    the kernel has them wait for. Nothing is stopped, and no program needs a change for it. Of a run
    that is too large for the time, those that stand out are asked first, and then pods from all
    over it; --timeout gives more time.

    \b
    Example:
      allranks why demo
      allranks why demo --stacks --save report
    """
    from allranks.cli.commands.runs import status_of

    cluster_target = target.cluster_target(console)
    status = status_of(name, target, cluster_target)
    source: PodSource
    from allranks.diagnosis.pods import ClusterPods
    from allranks.diagnosis.verdict import NOT_ASKED

    if cluster_target is None:
        from allranks.diagnosis.local_pods import LocalPods

        source = LocalPods(name, target.local_namespace)
    else:
        source = ClusterPods(cluster_target.cluster, cluster_target.namespace)
    diagnosis, answers = examine(console, status, source, timeout)
    if save is not None:
        _save(save, diagnosis, answers)
    if output == "json":
        console.json({"name": status.name, "namespace": status.namespace, **diagnosis.as_dict()})
    else:
        _show(console, diagnosis, stacks=stacks)
        if save is not None:
            console.note(f"what the pods said is in {save}")
    if diagnosis.reason == NOT_ASKED:
        raise SystemExit(EXIT_FAILED)


def examine(
    console: Console, status: RunStatus, source: PodSource, limit: float
) -> tuple[Diagnosis, Answers]:
    """Ask a run's pods, and judge what they say.

    Args:
        console: shows that it goes on.
        status: of the run.
        source: where its pods are.
        limit: how long they may take, in seconds.
    """
    from allranks.diagnosis import log_lines, pods, report, verdict

    running = [pod.name for pod in status.pods if pod.phase is PodPhase.RUNNING]
    if not running:
        return _without_pods(status), pods.Answers({}, {}, {})
    logs = running if len(running) <= _LOGS else running[:1]
    with console.progress(lambda _: f"asking {plural(len(running), 'pod')}"):
        answers = pods.ask(source, _in_turn(status.pods), seconds=_SECONDS, limit=limit, logs=logs)
    nodes = {pod.name: pod.node for pod in status.pods}
    silent = dict(answers.silent)
    reports: list[PodReport] = []
    for pod, text in sorted(answers.texts.items()):
        answer = report.read(pod, nodes.get(pod, ""), text)
        if answer is None:
            silent[pod] = "its answer cannot be read"
        else:
            reports.append(answer)
    findings = log_lines.findings(answers.logs.items())
    homes = _homes(status.pods, silent)
    diagnosis = verdict.diagnose(reports, silent, homes, findings, answers.skipped_pods)
    if diagnosis.reason == verdict.NO_RANKS:
        words = log_lines.last_words(answers.logs.items())
        remarks = [f"{pod} has said last: {sentence}" for pod, sentence in words.items()]
        diagnosis = replace(diagnosis, remarks=(*diagnosis.remarks, *remarks))
    return diagnosis, answers


def _in_turn(statuses: Sequence[PodStatus]) -> list[str]:
    """The pods that run, as they are asked where there is no time for all of them."""
    from allranks.diagnosis.pods import spread

    running = [pod for pod in statuses if pod.phase is PodPhase.RUNNING]
    telling = {pod.name for pod in running if pod.restarts or pod.message or not pod.ready}
    return sorted(spread([pod.name for pod in running]), key=lambda name: name not in telling)


def _without_pods(status: RunStatus) -> Diagnosis:
    from allranks.diagnosis.verdict import Diagnosis, RunState

    reason = f"it waits for {status.waiting_for}" if status.waiting_for else status.message
    words = f"no pod of it runs, it is {status.phase}" + (f": {reason}" if reason else "")
    return Diagnosis(RunState.UNKNOWN, "noPods", words)


def _homes(pods: Sequence[PodStatus], silent: Mapping[str, str]) -> dict[int, tuple[str, str]]:
    """The pod of each rank, and why it has no process there."""
    homes = {}
    for pod in pods:
        reason = silent.get(pod.name) or pod.message or pod.reason
        if not reason:
            running = pod.phase is PodPhase.RUNNING
            reason = "its process has ended" if running else str(pod.phase)
        homes.update(dict.fromkeys(pod.ranks or (), (pod.name, reason)))
    return homes


def _save(folder: Path, diagnosis: Diagnosis, answers: Answers) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    atomic.write(folder / "verdict.json", json.dumps(diagnosis.as_dict(), indent=2))
    for pod, text in answers.texts.items():
        atomic.write(folder / f"{pod}.json", text)
    for pod, lines in answers.logs.items():
        atomic.write(folder / f"{pod}.log", "".join(f"{line}\n" for line in lines))


def _show(console: Console, diagnosis: Diagnosis, *, stacks: bool) -> None:
    console.text(diagnosis.sentence)
    for entry in diagnosis.logs:
        pods = list_some(entry.pods)
        when = ", before the last start of its ranks" if entry.is_earlier else ""
        console.text(f"  in the log of {pods}{when}: {entry.meaning}")
        console.text(f"    {entry.line}")
    for remark in diagnosis.remarks:
        console.text(f"  {remark}")
    if not diagnosis.groups:
        return
    console.text("")
    if stacks:
        for group in diagnosis.groups:
            console.text(f"ranks {_ranks(group.ranks)}: {group.does}")
            for call in group.stack:
                console.text(f"  {call}")
        return
    rows = [(_ranks(group.ranks), group.does, group.where) for group in diagnosis.groups[:_ROWS]]
    console.table(["RANKS", "WHAT THEY DO", "WHERE"], rows, wrap="WHERE")
    more = diagnosis.groups[_ROWS:]
    if more:
        ranks = plural(sum(len(group.ranks) for group in more), "more rank")
        console.note(f"{ranks} elsewhere; `{names.CLI} why NAME -o json` has all")


def _ranks(numbers: Sequence[int]) -> str:
    text = write_pairs((number, number) for number in numbers)
    return text if len(text) <= _RANKS else f"{text[:_RANKS].rpartition(',')[0]},… ({len(numbers)})"
