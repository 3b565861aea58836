"""Show the status of a run as text."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.cli.console import clean, one_line
from allranks.diagnosis import log_lines
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.humanize import list_some, plural, span
from allranks.model import processes
from allranks.model.rank_lines import LogWriters
from allranks.model.status import STOPPED, Phase, PodPhase
from allranks.status import progress
from allranks.status.failures import unfit_nodes, without_advice

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from allranks.cli.console import Console
    from allranks.model.status import ContainerStatus, Failure, NodeFaults, PodStatus, RunStatus

_ROWS = 40
_NODES = 5  # of which faults are told
_CELL = 20  # characters of a progress that is no percent
_LAST_WORDS = 20  # lines of a message
_ONLY_NODE = (
    "this machine is the only node of the run: mend what is named above, or "
    "run without a preflight (torchrun.preflight.level: none)"
)
_KILLED = 137  # 128 + SIGKILL
# The order of pods in a long table.
_FIRST = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED)
_PENDING, _RUNNING = PodPhase.PENDING, PodPhase.RUNNING


def show(console: Console, status: RunStatus, now: float, *, here: bool = False) -> None:
    """Show the run in a line, its pods in a table, and why it failed.

    Args:
        console: where to show it.
        status: the run.
        now: seconds since the epoch.
        here: whether it is a run of this machine, which is its only node.
    """
    console.text(console.pasteable(headline(status, now)))
    for line in _training(status):
        console.text(clean(line))
    if status.pods:
        _pods(console, status, now)
    if status.services:
        console.table(
            ["SERVICE", "POD", "PHASE", "EXIT", "RESTARTS", "TIME"],
            [(pod.role, *_pod_row(pod, now, has_ended=False)) for pod in status.services],
            right=["EXIT", "RESTARTS", "TIME"],
        )
    for remark in status.remarks:
        console.text(clean(console.pasteable(remark)))
    _node_faults(console, status)
    if status.failure is not None and status.phase is not Phase.SUCCEEDED:
        unfit = unfit_nodes(status.failure)
        failure = status.failure
        if unfit and here:  # the launcher's advice needs another node
            failure = replace(failure, message=without_advice(failure.message))
        for line in _failed_first(status, failure):
            console.text(clean(line))
        if unfit and here:
            console.text(_ONLY_NODE)
        elif unfit and not status.unreleased:
            _avoid(console, status, unfit)


def _training(status: RunStatus) -> Iterator[str]:
    """The lines about the training itself: how far it is, a stall, and slow ranks."""
    if status.progress is None:
        return
    report = status.progress
    if status.failure is not None and status.failure.exit_code == _KILLED:
        # The other pods are told to stop because of it.
        report = {key: value for key, value in report.items() if key != "stopping"}
    words = progress_words(report, killed=was_killed(status), finished=status.finished)
    if words:
        yield f"  progress: {'; '.join(words)}"
    if status.finished:
        return
    if status.progress.get("standstill"):
        yield f"  stands still: {status.progress['standstill']}"
    nodes = {pod.name: pod.node for pod in status.pods}
    for sentence in progress.stragglers(status.progress, nodes):
        yield f"  slow: {sentence}"


def _node_faults(console: Console, status: RunStatus) -> None:
    """Show the nodes that have a fault, and how to avoid the first of them."""
    faults = status.node_faults
    for fault in faults[:_NODES]:
        console.text(clean(_node_line(fault)))
    if len(faults) > _NODES:
        console.text(f"… {plural(len(faults) - _NODES, 'more node')}; -o json shows all")
    if faults and not status.unreleased:
        _avoid(console, status, (faults[0].name,))


def _avoid(console: Console, status: RunStatus, nodes: Sequence[str]) -> None:
    """Show the command that keeps a run off nodes.

    It has --recreate, as pods of a Job and of a StatefulSet stay where they are without it. Where
    nothing has to be made anew, as in an ElasticJob, the flag does nothing.
    """
    console.command(shlex.join((names.CLI, "avoid", status.name, *nodes, "--recreate")))


def _node_line(node: NodeFaults) -> str:
    """Return a line on a node: its faults, and the run's pods on it."""
    return f"node {node.name} ({list_some(node.pods)}): {'; '.join(node.faults)}"


def _pods(console: Console, status: RunStatus, now: float) -> None:
    """Show the table of pods: nodes with their ranks, or roles with an index in each."""
    roles = len(status.roles) > 1 or any(pod.role != names.ROLE_NODE for pod in status.pods)
    ranks = not roles and any(pod.ranks is not None for pod in status.pods)
    number = "INDEX" if roles else "NODE"
    console.table(
        [
            *["ROLE"][:roles],
            *[number, *["RANKS"][:ranks], "POD", "PHASE", "EXIT", "RESTARTS", "TIME"],
        ],
        [
            (
                *(pod.role,)[:roles],
                "-" if pod.rank is None else pod.rank,
                *(processes.show(pod.ranks),)[:ranks],
                *_pod_row(pod, now, has_ended=status.finished),
            )
            for pod in _visible_pods(status.pods)
        ],
        right=[number, "RANKS", "EXIT", "RESTARTS", "TIME"],
    )
    if len(status.pods) > _ROWS:
        console.text(f"… {len(status.pods) - _ROWS} more; -o json shows all")


def _failed_first(status: RunStatus, failure: Failure) -> list[str]:
    """Return the lines about the first failure: the pod, the reason, and its last output."""
    role = next((pod.role for pod in status.pods if pod.name == failure.pod), names.ROLE_NODE)
    # A rank is a process; a number beside a role is a pod's.
    who = f"pod {failure.pod}"
    if failure.process is not None:
        who = f"rank {failure.process} ({who})"
    elif failure.rank is not None:
        who = f"{role} {failure.rank} ({who})"
    first = f"failed first: {who}: {failure.reason}, exit code {failure.exit_code}"
    message = [line for line in failure.message.splitlines() if line.strip()][-_LAST_WORDS:]
    log = list(failure.log)
    if _are_its_end(message, log):
        message = []  # who leaves no message leaves the end of its log
    ranks = next((pod.ranks for pod in status.pods if pod.name == failure.pod), None)
    log = list(_unreported_lines(log, message, ranks, failure.process))
    if len(message) == 1:
        first, message = f"{first}: {message[0].strip()}", []
    words = [f"  in words: {meaning}" for meaning in meanings(failure)]
    return [first, *(f"  | {line}" for line in (*message, *log)), *words]


def form(status: RunStatus) -> dict[str, Any]:
    """Return the status for `-o json`: with the meanings of what the failure's last lines have."""
    content = status.as_dict()
    if status.failure is not None:
        content["failure"]["meanings"] = meanings(status.failure)
    return content


def meanings(failure: Failure) -> list[str]:
    """What the errors of NCCL, CUDA, the rendezvous and the kernel in its last lines mean."""
    lines = [*failure.message.splitlines(), *failure.log]
    return [finding.meaning for finding in log_lines.findings([(failure.pod, lines)])]


def _unreported_lines(
    log: Iterable[str], message: Sequence[str], ranks: range | None, rank: int | None
) -> Iterator[str]:
    """Yield the lines of a pod's log that are not in its message, and not of another rank.

    Args:
        log: the last lines.
        message: the lines of the termination message.
        ranks: the ranks of the pod; None if they are unknown.
        rank: the process that failed; None if it is unknown.
    """
    count = 1 if ranks is None else len(ranks)
    writers = LogWriters(count, prefixed=count > 1)
    message_lines = {line.strip() for line in message}
    message_lines |= {
        f"{names.CLI}: {line}" for line in message_lines
    }  # as our launcher says it in the log
    for line in log:
        writer, text = writers.split(line)
        theirs = rank is not None and ranks is not None and writer in ranks and writer != rank
        if not theirs and text.strip() not in message_lines:
            yield line


def _are_its_end(message: Sequence[str], log: Sequence[str]) -> bool:
    """Whether a message is the end of a log, or the log the end of the message."""
    lines = [line.rstrip() for line in log if line.strip()]
    both = list(zip(reversed([line.rstrip() for line in message]), reversed(lines), strict=False))
    # Of many lines the first may have been cut.
    return bool(both) and all(last == other for last, other in (both[:-1] or both))


def exit_code(status: RunStatus) -> int:
    """Return the program's exit code for a run's end: the job's own, never 0 for a failure."""
    if status.phase in {Phase.SUCCEEDED, Phase.SUSPENDED}:
        return EXIT_OK
    return status.exit_code or (status.failure.exit_code if status.failure else 0) or EXIT_FAILED


def headline(status: RunStatus, now: float) -> str:
    """Return the name, the phase, the counts of pods and the reason to wait, in one line."""
    parts = [f"{status.name}  {status.phase}", counts(status)]
    took = duration(status.started_at, status.finished_at, now)
    if took and status.phase is Phase.SUSPENDED:
        parts.append(f"started {took} ago")  # when it was suspended, nothing says
    elif took:
        parts.append(f"{'took' if status.finished else 'for'} {took}")
    if status.exit_code is not None:
        parts.append(f"exit code {status.exit_code}")
    line = ", ".join(part for part in parts if part)
    if status.ending or not status.waiting_for:
        line += _sentence(status)
    if status.waiting_for:
        line += f"\n  waits for {status.waiting_for}"
    if status.finished:
        line += "".join(f"\n  note: {note}" for note in status.notes)
    return clean(line)


def _sentence(status: RunStatus) -> str:
    if not status.message or status.phase is Phase.SUCCEEDED:
        return ""
    return f"\n  {status.reason}: {status.message}" if status.reason else f"\n  {status.message}"


def was_killed(status: RunStatus) -> bool:
    """Whether the run ended with a process that was killed, which can save nothing any more."""
    codes = [container.exit_code for pod in status.pods for container in pod.containers]
    if status.failure is not None:
        codes.append(status.failure.exit_code)
    return status.finished and bool({_KILLED, names.EXIT_NO_RESTART_LEFT}.intersection(codes))


def progress_words(
    report: Mapping[str, Any], *, killed: bool = False, finished: bool = False
) -> list[str]:
    """Return how far the training is, its metrics, and its last checkpoint, in that order.

    Args:
        report: what it said last.
        killed: whether it was killed after that.
        finished: whether it has ended, so that no time is left.
    """
    time_left = "" if finished else progress.time_left(report)
    words = [f"{report['text']}{time_left}"] if report.get("text") else []
    metrics = report.get("metrics") or {}
    if metrics:
        words.append(", ".join(f"{one_line(name)} {value:.4g}" for name, value in metrics.items()))
    saved, stopping, step = report.get("saved"), report.get("stopping"), report.get("step")
    if killed and (saved is None or (isinstance(step, int) and saved < step)):
        words += [] if saved is None else [f"saved at step {saved}"]
        words.append(_killed_words(has_saved=saved is not None, stopping=stopping))
    elif saved is not None:
        # What it has done since is not known: a step is told every ten seconds where none is asked.
        after = " before it was told to stop" if stopping else ", then killed" if killed else ""
        words.append(f"saved at step {saved}{after}")
    elif stopping:
        words.append("told to stop before it had saved")
    return words


def _killed_words(*, has_saved: bool, stopping: Any) -> str:
    """Return the words for a training that was killed before it had saved its last steps."""
    ending = "told to stop, and killed" if stopping else "killed"
    if has_saved:
        return f"{ending} before it had saved again"
    # Who never says that it saves may have done so.
    return f"{ending} before it had {'saved' if stopping else 'reported a save'}"


def progress_cell(run: RunStatus) -> str:
    """Return how far a run is for a column of a table; "" where it is not said."""
    report = run.progress or {}
    percent, eta = report.get("percent"), report.get("eta")
    if percent is None:
        return str(report.get("text") or "")[:_CELL]
    time_left = f" {span(eta)}" if eta and not run.finished else ""
    return f"{percent:g}%{time_left}"


def counts(status: RunStatus) -> str:
    """Return how many pods run and are done, per role if there are several.

    A pod that is missing after the end of its run was stopped with it; a pod that exists may still
    be pending. A terminating pod counts neither as running nor as pending. A pod that was stopped
    because it had nothing left to do does not count as done: the table has its exit code.
    """
    texts = []
    late = Counter(pod.role for pod in status.pods if status.finished and _is_late(pod))
    stopped_pods = Counter(pod.role for pod in status.pods if _is_stopped(pod))
    ending = Counter((pod.role, pod.phase) for pod in status.pods if pod.ending)
    for role in status.roles:
        waiting, running = (ending[role.role, phase] for phase in (_PENDING, _RUNNING))
        running = role.running if status.finished else running
        states = {
            _absent(status): role.pending - late[role.role] - waiting,
            **({"pending": late[role.role]} if late[role.role] else {}),
            "running": role.running - running,
            "ending": running + waiting,
            "done": role.succeeded - stopped_pods[role.role],
            "stopped": stopped_pods[role.role],
            "failed": role.failed,
        }
        text = ", ".join(f"{count} {state}" for state, count in states.items() if count)
        if text:
            texts.append(f"{role.role} {text}" if len(status.roles) > 1 else text)
    return "; ".join(texts)


def _is_late(pod: PodStatus) -> bool:
    """Whether a pod exists, has not started, and is not terminating."""
    waits = pod.phase is PodPhase.PENDING and pod.started_at is not None
    return waits and not pod.ending


def _is_stopped(pod: PodStatus) -> bool:
    """Whether a pod was stopped at the successful end of the run, before it ended by itself."""
    return pod.phase is PodPhase.SUCCEEDED and pod.reason == STOPPED


def _absent(status: RunStatus) -> str:
    """Return the word for pods that do not exist."""
    if status.finished:
        return "gone"
    return "suspended" if status.phase is Phase.SUSPENDED else "pending"


def table(console: Console, runs: Iterable[RunStatus], now: float) -> None:
    """Show a table with one line per run."""
    console.table(
        ["NAME", "NAMESPACE", "WORKLOAD", "PHASE", "PODS", "RESTARTS", "TIME"],
        [
            (
                run.name,
                run.namespace,
                workload(run),
                run.phase,
                (f"{_up(run)}/{sum(r.expected for r in run.roles)}"),
                run.restarts,
                duration(run.started_at, run.finished_at, now) or "-",
            )
            for run in runs
        ],
        right=["RESTARTS", "TIME"],
    )


def workload(run: RunStatus) -> str:
    """Return the workload of a run, marked if it belongs to no release."""
    kind = run.workload or "-"
    return f"{kind} (no release)" if run.unreleased else kind


def _up(run: RunStatus) -> int:
    """Return how many of its pods run or are done, without terminating ones."""
    ending = sum(pod.ending and pod.phase is PodPhase.RUNNING for pod in run.pods)
    return sum(role.running + role.succeeded for role in run.roles) - ending


def duration(start: float | None, end: float | None, now: float) -> str:
    """Return how long something took or has taken so far: "42s", "3m10s", "2h05m", "1d03h"."""
    if start is None:
        return ""
    return length((now if end is None else end) - start)


def length(time: float) -> str:
    """Return seconds in the format of `duration`."""
    return span(time)


class TrainingProgress:
    """Reads the progress of a training from the JSON lines it may print: epoch, or step."""

    def __init__(self) -> None:
        self.text = ""

    def read(self, line: str) -> None:
        """Read one line of a log."""
        if not line.lstrip().startswith("{"):
            return
        try:
            data = json.loads(line)
        except ValueError:
            return
        for field, all_of in (("epoch", "epochs"), ("step", "steps")):
            now, last = data.get(field), data.get(all_of)
            if isinstance(now, int) and isinstance(last, int):
                self.text = f"{field} {now}/{last}"
                return


def _visible_pods(pods: Sequence[PodStatus]) -> Sequence[PodStatus]:
    """Return the pods to show; of many, those that failed or are pending come first."""
    if len(pods) <= _ROWS:
        return pods
    return sorted(pods, key=lambda pod: _FIRST.index(pod.phase))[:_ROWS]


def _pod_row(pod: PodStatus, now: float, *, has_ended: bool) -> tuple[object, ...]:
    phase = pod.reason if pod.reason and pod.reason != "Completed" else str(pod.phase)
    if has_ended and pod.phase is PodPhase.PENDING and not pod.containers:
        phase = "Gone"
    elif has_ended and pod.phase is PodPhase.RUNNING:
        phase = "Ending"  # it is still there, and nothing waits for it
    main = _main(pod)
    code = None if main is None else main.exit_code
    return (
        pod.name or "-",
        phase,
        "-" if code is None else code,
        pod.restarts,
        duration(pod.started_at, pod.finished_at, now) or "-",
    )


def _main(pod: PodStatus) -> ContainerStatus | None:
    """Return the container whose exit code counts for the pod: the failed one, else the last."""
    failures = [container for container in pod.containers if container.exit_code]
    return failures[0] if failures else pod.containers[-1] if pod.containers else None
