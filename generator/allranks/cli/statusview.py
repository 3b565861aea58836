"""How a run's status looks to a person."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

from allranks import names
from allranks.cli.console import clean
from allranks.errors import EXIT_FAILED, EXIT_OK
from allranks.model import processes
from allranks.model.ranklines import Writers
from allranks.model.status import STOPPED, Phase, PodPhase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from allranks.cli.console import Console
    from allranks.model.status import ContainerStatus, Failure, PodStatus, RunStatus

_ROWS = 40
_LAST_WORDS = 20  # lines of a message
# What a person looks for first in a long table.
_FIRST = (PodPhase.FAILED, PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED)
_MINUTE = 60
_HOUR = 3600
_DAY = 86400


def show(console: Console, status: RunStatus, now: float) -> None:
    """The run in a line, its pods in a table, and why it failed.

    Args:
        console: where to.
        status: the run.
        now: seconds since the epoch.
    """
    console.text(console.pasteable(headline(status, now)))
    if status.pods:
        _pods(console, status, now)
    if status.services:
        console.table(
            ["SERVICE", "POD", "PHASE", "EXIT", "RESTARTS", "TIME"],
            [(pod.role, *_pod_row(pod, now, ended=False)) for pod in status.services],
            right=["EXIT", "RESTARTS", "TIME"],
        )
    for remark in status.remarks:
        console.text(clean(console.pasteable(remark)))
    if status.failure is not None and status.phase is not Phase.SUCCEEDED:
        for line in _failed_first(status, status.failure):
            console.text(clean(line))


def _pods(console: Console, status: RunStatus, now: float) -> None:
    """The table of pods: nodes with their processes' ranks, or roles with a number in each."""
    roles = len(status.roles) > 1 or any(one.role != names.ROLE_NODE for one in status.pods)
    ranks = not roles and any(one.ranks is not None for one in status.pods)
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
                *_pod_row(pod, now, ended=status.finished),
            )
            for pod in _shown(status.pods)
        ],
        right=[number, "RANKS", "EXIT", "RESTARTS", "TIME"],
    )
    if len(status.pods) > _ROWS:
        console.text(f"… {len(status.pods) - _ROWS} more; -o json shows all")


def _failed_first(status: RunStatus, failure: Failure) -> list[str]:
    """Who failed, how, and its last words; no line of them twice."""
    role = next((one.role for one in status.pods if one.name == failure.pod), names.ROLE_NODE)
    who = "" if failure.rank is None else f"{role} {failure.rank}, "
    if failure.process is not None:
        who = f"rank {failure.process}, "
    first = f"failed first: {who}pod {failure.pod}: {failure.reason}, exit code {failure.exit_code}"
    said = [line for line in failure.message.splitlines() if line.strip()][-_LAST_WORDS:]
    log = list(failure.log)
    if _are_its_end(said, log):
        said = []  # who leaves no message leaves the end of its log
    ranks = next((one.ranks for one in status.pods if one.name == failure.pod), None)
    log = list(_untold(log, said, ranks, failure.process))
    if len(said) == 1:
        first, said = f"{first}: {said[0].strip()}", []
    return [first, *(f"  | {line}" for line in (*said, *log))]


def _untold(
    log: Iterable[str], said: Sequence[str], ranks: range | None, rank: int | None
) -> Iterator[str]:
    """The lines of a pod's log that its message has not told, and that no other rank wrote.

    Args:
        log: the last lines.
        said: the message.
        ranks: of the pod's processes; None where they are not known.
        rank: the process that failed; None where that is not known.
    """
    count = 1 if ranks is None else len(ranks)
    writers = Writers(count, prefixed=count > 1)
    known = {line.strip() for line in said}
    known |= {f"{names.CLI}: {line}" for line in known}  # as our launcher says it in the log
    for line in log:
        writer, text = writers.split(line)
        theirs = rank is not None and ranks is not None and writer in ranks and writer != rank
        if not theirs and text.strip() not in known:
            yield line


def _are_its_end(said: Sequence[str], log: Sequence[str]) -> bool:
    """Whether a message is the end of a log, or the log that of the message."""
    lines = [line.rstrip() for line in log if line.strip()]
    both = list(zip(reversed([line.rstrip() for line in said]), reversed(lines), strict=False))
    # Of many lines the first may have been cut.
    return bool(both) and all(one == other for one, other in (both[:-1] or both))


def exit_code(status: RunStatus) -> int:
    """The program's exit code for a run's end: the job's own, never 0 for a failure."""
    if status.phase in {Phase.SUCCEEDED, Phase.SUSPENDED}:
        return EXIT_OK
    return status.exit_code or (status.failure.exit_code if status.failure else 0) or EXIT_FAILED


def headline(status: RunStatus, now: float) -> str:
    """Name, phase, how many pods are where, and what it waits for, in one line."""
    parts = [f"{status.name}  {status.phase}", counts(status)]
    took = duration(status.started_at, status.finished_at, now)
    if took and status.phase is Phase.SUSPENDED:
        parts.append(f"started {took} ago")  # when it was suspended, nothing says
    elif took:
        parts.append(f"{'took' if status.finished else 'for'} {took}")
    if status.exit_code is not None:
        parts.append(f"exit code {status.exit_code}")
    line = ", ".join(part for part in parts if part)
    if status.waiting_for:
        line += f"\n  waits for {status.waiting_for}"
    elif status.message and status.phase is not Phase.SUCCEEDED:
        line += (
            f"\n  {status.reason}: {status.message}" if status.reason else f"\n  {status.message}"
        )
    if status.finished:
        line += "".join(f"\n  note: {note}" for note in status.notes)
    return clean(line)


def counts(status: RunStatus) -> str:
    """How many pods run and are done, per role where there are several.

    A pod that is missing when its run has ended was stopped with it; one that is there is pending
    still. One that was told to end because nothing was left for it to do is not called done: the
    table has its exit code.
    """
    texts = []
    late = Counter(pod.role for pod in status.pods if status.finished and _is_late(pod))
    stopped = Counter(pod.role for pod in status.pods if _is_stopped(pod))
    for role in status.roles:
        states = {
            _absent(status): role.pending - late[role.role],
            **({"pending": late[role.role]} if late[role.role] else {}),
            "ending" if status.finished else "running": role.running,
            "done": role.succeeded - stopped[role.role],
            "stopped": stopped[role.role],
            "failed": role.failed,
        }
        text = ", ".join(f"{count} {state}" for state, count in states.items() if count)
        if text:
            texts.append(f"{role.role} {text}" if len(status.roles) > 1 else text)
    return "; ".join(texts)


def _is_late(pod: PodStatus) -> bool:
    """Whether a pod is there and has not started, and nobody has told it to end."""
    waits = pod.phase is PodPhase.PENDING and pod.started_at is not None
    return waits and pod.reason != "Terminating"


def _is_stopped(pod: PodStatus) -> bool:
    """Whether a pod was stopped at a good end of the run, before it had ended by itself."""
    return pod.phase is PodPhase.SUCCEEDED and pod.reason == STOPPED


def _absent(status: RunStatus) -> str:
    """What pods are that are not there, or not yet."""
    if status.finished:
        return "gone"
    return "suspended" if status.phase is Phase.SUSPENDED else "pending"


def table(console: Console, runs: Iterable[RunStatus], now: float) -> None:
    """One line per run."""
    console.table(
        ["NAME", "NAMESPACE", "WORKLOAD", "PHASE", "PODS", "RESTARTS", "TIME"],
        [
            (
                run.name,
                run.namespace,
                run.workload or "-",
                run.phase,
                (
                    f"{sum(r.running + r.succeeded for r in run.roles)}"
                    f"/{sum(r.expected for r in run.roles)}"
                ),
                run.restarts,
                duration(run.started_at, run.finished_at, now) or "-",
            )
            for run in runs
        ],
        right=["RESTARTS", "TIME"],
    )


def duration(start: float | None, end: float | None, now: float) -> str:
    """How long it took, or how long it has been going on: "42s", "3m10s", "2h05m", "1d03h"."""
    if start is None:
        return ""
    return length((now if end is None else end) - start)


def length(time: float) -> str:
    """A length of time in seconds, as `duration` shows it."""
    seconds = max(0, round(time))
    if seconds < _MINUTE:
        return f"{seconds}s"
    if seconds < _HOUR:
        return f"{seconds // _MINUTE}m{seconds % _MINUTE:02d}s"
    if seconds < _DAY:
        return f"{seconds // _HOUR}h{seconds % _HOUR // _MINUTE:02d}m"
    return f"{seconds // _DAY}d{seconds % _DAY // _HOUR:02d}h"


class TrainingProgress:
    """Reads how far a training is from the JSON lines it may print: epoch and epochs, or step."""

    def __init__(self) -> None:
        self.text = ""

    def read(self, line: str) -> None:
        """Look at one line of a log."""
        if not line.lstrip().startswith("{"):
            return
        try:
            data = json.loads(line)
        except ValueError:
            return
        for one, all_of in (("epoch", "epochs"), ("step", "steps")):
            now, last = data.get(one), data.get(all_of)
            if isinstance(now, int) and isinstance(last, int):
                self.text = f"{one} {now}/{last}"
                return


def _shown(pods: Sequence[PodStatus]) -> Sequence[PodStatus]:
    """As many pods as a person reads; of many, those that failed or wait come first."""
    if len(pods) <= _ROWS:
        return pods
    return sorted(pods, key=lambda pod: _FIRST.index(pod.phase))[:_ROWS]


def _pod_row(pod: PodStatus, now: float, *, ended: bool) -> tuple[object, ...]:
    phase = pod.reason if pod.reason and pod.reason != "Completed" else str(pod.phase)
    if ended and pod.phase is PodPhase.PENDING and not pod.containers:
        phase = "Gone"
    elif ended and pod.phase is PodPhase.RUNNING:
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
    """The container whose exit code speaks for the pod: the one that failed, else the last."""
    ended = [one for one in pod.containers if one.exit_code]
    return ended[0] if ended else pod.containers[-1] if pod.containers else None
