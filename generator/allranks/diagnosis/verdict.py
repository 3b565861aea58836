"""Why a run stands still, or that it does not: one verdict from what all pods say.

The rules go from what is certain to what is likely: a rank that is gone or frozen explains all
that waits for it; then what the flight recorders say; then, where no collective is waited in, what
the ranks do by themselves. A run that has moved between two looks is never called stuck.

It is longer than most: which rule speaks first is decided between all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from allranks.diagnosis import collectives, log_lines
from allranks.diagnosis.collectives import GroupState, GroupWait
from allranks.humanize import list_some, number_of, plural
from allranks.k8s.ranges import write_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from allranks.diagnosis.log_lines import LogFinding
    from allranks.diagnosis.report import Collective, PodReport, Process, Rank

# A wait is no hang before it is longer than this, and than so many times the longest before it.
_PATIENCE_SECONDS, _PATIENCE_FACTOR = 5.0, 3.0
_STILL = 0.05  # cores, below which a rank does nothing
_SHOWN = 3
# The reasons where no pod could be asked, so that nobody knows whether the run stands still, and
# where none of the pods that answer has a rank.
NOT_ASKED = "podsNotAsked"
NO_RANKS = "noRanks"
_DEFAULT_GROUP = "0"
_NCCL, _TIMING = "nccl", "TORCH_NCCL_ENABLE_TIMING"
# Functions of the kernel, by how their names begin, and what a thread that is in them does.
_WAITS = (
    ("futex", "waits for a lock or another thread"),
    ("hrtimer_nanosleep", "sleeps"),
    ("do_nanosleep", "sleeps"),
    ("wait_for_partner", "opens a pipe (fifo) whose other end nobody has opened"),
    ("fifo_open", "opens a pipe (fifo) whose other end nobody has opened"),
    ("anon_pipe_read", "reads from a pipe that nobody writes to"),
    ("pipe_read", "reads from a pipe that nobody writes to"),
    ("pipe_wait", "reads from a pipe that nobody writes to"),
    ("anon_pipe_write", "writes to a pipe that nobody reads"),
    ("pipe_write", "writes to a pipe that nobody reads"),
    ("do_wait", "waits for a process that it started"),
    ("ep_poll", "waits for a connection or another process"),
    ("do_epoll_wait", "waits for a connection or another process"),
    ("poll_schedule_timeout", "waits for a connection or another process"),
    ("do_sys_poll", "waits for a connection or another process"),
    ("do_poll", "waits for a connection or another process"),
    ("do_select", "waits for a connection or another process"),
    ("wait_woken", "waits for data from the network"),
    ("sk_wait_data", "waits for data from the network"),
    ("inet_csk_accept", "waits for somebody to connect"),
    ("rpc_wait", "waits for a network file system"),
    ("nfs", "waits for a network file system"),
    ("folio_wait", "waits for a disk or a network file system"),
    ("io_schedule", "waits for a disk or a network file system"),
    ("fuse", "waits for a network file system"),
    ("request_wait_answer", "waits for a network file system"),
)


class RunState(StrEnum):
    """The state of a run."""

    STEPS = "steps"
    SLOW = "slow"
    STARTING = "starting"
    STALLED = "stalled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BlamedRank:
    """A rank that is to blame, for whoever acts on it.

    Attributes:
        rank: the rank.
        pod: its pod; "" where it has none.
        node: its node.
        where: the call that it is in; "" where that is not known.
    """

    rank: int
    pod: str
    node: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Alike:
    """Ranks that do the same at the same place.

    Attributes:
        ranks: the ranks.
        does: what they do.
        where: the call that their main threads are in.
        stack: the whole of it, the innermost first.
    """

    ranks: tuple[int, ...]
    does: str
    where: str
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict on a run: why it stands still, or that it does not.

    Attributes:
        state: in a word.
        reason: what kind of stall it is; "" for none.
        sentence: in a sentence.
        blamed: the ranks to look at.
        remarks: what else matters, a sentence each.
        groups: what all ranks do.
        logs: known errors in the logs.
    """

    state: RunState
    reason: str
    sentence: str
    blamed: tuple[BlamedRank, ...] = ()
    remarks: tuple[str, ...] = ()
    groups: tuple[Alike, ...] = field(default=(), repr=False)
    logs: tuple[LogFinding, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "state": str(self.state),
            "reason": self.reason,
            "sentence": self.sentence,
            "blamed": [
                {"rank": place.rank, "pod": place.pod, "node": place.node, "where": place.where}
                for place in self.blamed
            ],
            "remarks": list(self.remarks),
            "groups": [
                {
                    "ranks": list(group.ranks),
                    "does": group.does,
                    "where": group.where,
                    "stack": list(group.stack),
                }
                for group in self.groups
            ],
            "logs": [
                {
                    "meaning": entry.meaning,
                    "line": entry.line,
                    "pods": list(entry.pods),
                    "beforeLastStart": entry.is_earlier,
                }
                for entry in self.logs
            ],
        }


@dataclass(frozen=True, slots=True)
class _Finding:
    state: RunState
    reason: str
    sentence: str
    blamed: tuple[BlamedRank, ...] = ()


def diagnose(
    pods: Sequence[PodReport],
    silent: Mapping[str, str],
    homes: Mapping[int, tuple[str, str]],
    logs: Iterable[LogFinding] = (),
    skipped_pods: frozenset[str] = frozenset(),
) -> Diagnosis:
    """The verdict on a run.

    Replica groups count their ranks from 0 in each pod; where one rank answers from several pods,
    each pod is compared by itself.

    Args:
        pods: the answers of its pods.
        silent: the other pods of it, with why they gave none.
        homes: the (pod, why it has no process) of ranks, as far as the run's status tells.
        logs: known errors in its logs.
        skipped_pods: the pods that were not asked; nothing is claimed of their ranks.
    """
    ranks = sorted((rank for pod in pods for rank in pod.ranks), key=lambda rank: rank.number)
    if len({rank.number for rank in ranks}) < len(ranks) and len(pods) > 1:
        return _of_groups(pods, silent, logs)
    unknown = _unknown(ranks, homes, skipped_pods)
    waits = tuple(_without(wait, unknown) for wait in collectives.waits(ranks))
    finding = _find(ranks, waits, silent, homes, unknown)
    return Diagnosis(
        finding.state,
        finding.reason,
        finding.sentence,
        finding.blamed,
        (*_remarks(pods, ranks, silent), *_remark_skipped(pods, silent, skipped_pods)),
        _groups(ranks, waits),
        _logs(finding.state, logs),
    )


_WORST_FIRST = (
    RunState.STALLED,
    RunState.SLOW,
    RunState.UNKNOWN,
    RunState.STARTING,
    RunState.STEPS,
)


def _of_groups(
    pods: Sequence[PodReport], silent: Mapping[str, str], logs: Iterable[LogFinding]
) -> Diagnosis:
    """The verdict on the replica group that stands worst; the other groups go on without it."""
    verdicts = {pod.name: diagnose([pod], {}, {}) for pod in pods}
    name = min(verdicts, key=lambda name: _WORST_FIRST.index(verdicts[name].state))
    remarks = tuple(f"{pod}: {why}" for pod, why in silent.items())
    return replace(
        verdicts[name],
        sentence=f"in the replica group {name}: {verdicts[name].sentence}",
        remarks=(*verdicts[name].remarks, *remarks),
        logs=_logs(verdicts[name].state, logs),
    )


def _logs(state: RunState, logs: Iterable[LogFinding]) -> tuple[LogFinding, ...]:
    return log_lines.of_now(logs) if state in {RunState.STEPS, RunState.SLOW} else tuple(logs)


def _could_not_be_asked(silent: Mapping[str, str]) -> str:
    """The sentence on pods that have said nothing; a reason that many have is told once."""
    by_reason: dict[str, list[str]] = {}
    for pod, why in silent.items():
        by_reason.setdefault(why.replace(pod, "POD"), []).append(pod)
    reasons = [
        f"{list_some(pods)}: {silent[pods[0]] if len(pods) == 1 else why}"
        for why, pods in by_reason.items()
    ]
    return f"{plural(len(silent), 'pod')} could not be asked: {list_some(reasons, _SHOWN, '; ')}"


def _find(
    ranks: Sequence[Rank],
    waits: Sequence[GroupWait],
    silent: Mapping[str, str],
    homes: Mapping[int, tuple[str, str]],
    unknown: frozenset[int],
) -> _Finding:
    if not ranks:
        if silent:
            return _Finding(RunState.UNKNOWN, NOT_ASKED, _could_not_be_asked(silent))
        words = "no rank runs in its pods: none has begun yet, or all have ended"
        return _Finding(RunState.UNKNOWN, NO_RANKS, words)
    by_number = {rank.number: rank for rank in ranks}
    finding = _lost(ranks, waits, homes, unknown) or _frozen(ranks, waits)
    if finding is not None:
        return finding
    if any(rank.has_moved for rank in ranks):
        return _steps(ranks)
    return (
        _waited_for(waits, by_number)
        or _in_a_step(ranks, waits)
        or _behind(waits, by_number)
        or _under_way(waits, by_number)
        or _not_asked(waits)
        or _by_themselves(ranks)
    )


def _unknown(
    ranks: Sequence[Rank], homes: Mapping[int, tuple[str, str]], skipped_pods: frozenset[str]
) -> frozenset[int]:
    """The ranks of pods that were not asked, or that may be in one of them."""
    if not skipped_pods:
        return frozenset()
    there = {rank.number for rank in ranks}
    world = max((rank.world for rank in ranks), default=0)
    return frozenset(
        number
        for number in range(world)
        if number not in there and (number not in homes or homes[number][0] in skipped_pods)
    )


def _without(wait: GroupWait, unknown: frozenset[int]) -> GroupWait:
    """A wait that blames no rank of which nothing is known."""
    absent = tuple(number for number in wait.absent if number not in unknown)
    if (
        wait.kind is GroupState.UNDER_WAY
    ):  # of a group whose ranks are not told, all may not be here
        is_open = bool(unknown) and not wait.group.ranks
    else:
        is_open = bool(wait.absent) and not absent
    return (
        replace(wait, kind=GroupState.NOT_ASKED, absent=())
        if is_open
        else replace(wait, absent=absent)
    )


def _lost(
    ranks: Sequence[Rank],
    waits: Sequence[GroupWait],
    homes: Mapping[int, tuple[str, str]],
    unknown: frozenset[int],
) -> _Finding | None:
    """Ranks without a process, where others wait."""
    world = max(rank.world for rank in ranks)
    there = {rank.number for rank in ranks if rank.process.state not in {"Z", "X"}} | unknown
    absent = [number for number in range(world) if number not in there]
    if not absent or not waits:
        return None
    places = [_lost_place(number, homes) for number in absent]
    waiting = sorted({number for wait in waits for number in wait.waiting})
    words = (
        f"{_ranks(absent)} {number_of(len(absent), 'has', 'have')} no process that answers"
        f"{_at(places[0].pod, homes.get(absent[0], ('', ''))[1])}; "
        f"{_waiting(waiting)} in {_named(waits[0].collective, waits[0])}"
    )
    return _Finding(RunState.STALLED, "lost", words, tuple(places))


def _lost_place(number: int, homes: Mapping[int, tuple[str, str]]) -> BlamedRank:
    return BlamedRank(number, homes.get(number, ("", ""))[0], "")


def _at(pod: str, why: str) -> str:
    if not pod:
        return ""
    return f" (pod {pod}: {why})" if why else f" (pod {pod})"


def _frozen(ranks: Sequence[Rank], waits: Sequence[GroupWait]) -> _Finding | None:
    frozen = [rank for rank in ranks if rank.process.is_stopped]
    if not frozen:
        return None
    first, numbers = frozen[0], [rank.number for rank in frozen]
    waiting = sorted({n for wait in waits for n in wait.waiting} - set(numbers))
    words = (
        f"{_ranks(numbers)}{_home(first)} {number_of(len(numbers), 'is', 'are')} stopped, by "
        f"SIGSTOP or a debugger; `kill -CONT {first.process.pid}` in the pod lets it go on"
    )
    if waiting:
        words += f"; {_waiting(waiting)}"
    return _Finding(RunState.STALLED, "frozen", words, _places(frozen))


def _steps(ranks: Sequence[Rank]) -> _Finding:
    slow = collectives.straggler(ranks)
    if slow is not None:
        rank = next(rank for rank in ranks if rank.number == slow.rank)
        words = (
            f"this run makes steps, and rank {slow.rank}{_home(rank)} is slow: of each "
            f"{_span(slow.period)} between two collectives the others wait {_span(slow.late)} for "
            f"it (the run would be {slow.factor:.1f} times as fast without)"
        )
        return _Finding(RunState.SLOW, "straggler", words, _places([rank]))
    pace = collectives.pace(ranks)
    words = "this run makes steps" + (f" ({pace:.3g} collectives a second)" if pace else "")
    return _Finding(RunState.STEPS, "", words)


def _is_long(wait: GroupWait) -> bool:
    return wait.seconds > max(_PATIENCE_SECONDS, _PATIENCE_FACTOR * wait.usual)


def _waited_for(waits: Sequence[GroupWait], ranks: Mapping[int, Rank]) -> _Finding | None:
    """What the flight recorders say, where a wait is too long, or can never end."""
    for wait in waits:
        if wait.kind is GroupState.MISMATCH or wait.kind is GroupState.SHAPES:
            return _different(wait, ranks)
    absent_waits = [wait for wait in waits if wait.kind in {GroupState.ABSENT, GroupState.MESSAGE}]
    long = [wait for wait in absent_waits if _is_long(wait)]
    if not long:
        return None
    waiting = {number for wait in waits for number in wait.waiting}
    for wait in long:
        roots = [number for number in wait.absent if number not in waiting]
        if roots:
            return _absent(wait, roots, ranks, waiting)
    if any(wait.absent for wait in long):
        return _cycle(long, ranks)
    return None


def _absent(
    wait: GroupWait, roots: Sequence[int], ranks: Mapping[int, Rank], waiting: set[int]
) -> _Finding:
    there = [ranks[number] for number in roots if number in ranks]
    never = "have" if len(roots) > 1 else "has"
    step = (
        f"sent to rank {wait.waiting[0]}"
        if wait.kind is GroupState.MESSAGE
        else f"entered {_named(wait.collective, wait)}"
    )
    words = f"{_ranks(roots)}{_home(there[0]) if there else ''} {never} not {step}"
    if there:
        words += f"; it {_does_at(there[0])}" if len(there) == 1 else f"; {_doing(there)}"
    words += f"; {_have_waited(sorted(waiting), wait)}"
    return _Finding(RunState.STALLED, str(wait.kind), words, _places(there))


def _doing(ranks: Sequence[Rank]) -> str:
    first = ranks[0]
    return f"rank {first.number} {_does_at(first)}"


def _different(wait: GroupWait, ranks: Mapping[int, Rank]) -> _Finding:
    other = wait.other or wait.collective
    odd = [ranks[number] for number in wait.absent]
    rest = ranks[wait.waiting[0]]
    if wait.kind is GroupState.MISMATCH:
        words = (
            f"the ranks are in different collectives: #{wait.collective.number}"
            f"{_of_group(wait)} is {other.name} for {_ranks(wait.absent)}{_home(odd[0])}"
            f"{_from(odd[0])}, and {wait.collective.name} for {_ranks(wait.waiting)}{_from(rest)}"
        )
    else:
        words = (
            f"{_ranks(wait.absent)}{_home(odd[0])} {number_of(len(odd), 'gives', 'give')} "
            f"{_form(other)} to {_named(wait.collective, wait)}{_from(odd[0])}, and "
            f"{_ranks(wait.waiting)} {number_of(len(wait.waiting), 'gives', 'give')} "
            f"{_form(wait.collective)}{_from(rest)}"
        )
    return _Finding(RunState.STALLED, str(wait.kind), words, _places(odd))


def _from(rank: Rank) -> str:
    main = rank.process.main
    own = main.own if main is not None else None
    return f" ({own})" if own is not None else ""


def _form(collective: Collective) -> str:
    parts = [
        f"{kind.lower()}[{', '.join(map(str, shape))}]"
        for kind, shape in zip(collective.types, collective.shapes, strict=False)
    ]
    return list_some(parts, 2) or "nothing"


def _cycle(waits: Sequence[GroupWait], ranks: Mapping[int, Rank]) -> _Finding:
    clauses = [
        f"{_ranks(wait.waiting)} {number_of(len(wait.waiting), 'waits', 'wait')} for "
        f"{_ranks(wait.absent)} in {_named(wait.collective, wait)}{_from(ranks[wait.waiting[0]])}"
        for wait in waits
    ]
    numbers = sorted({number for wait in waits for number in wait.waiting})
    words = f"the ranks wait for each other: {list_some(clauses, _SHOWN, '; ')}"
    return _Finding(RunState.STALLED, "cycle", words, _places([ranks[n] for n in numbers[:_SHOWN]]))


def _in_a_step(ranks: Sequence[Rank], waits: Sequence[GroupWait]) -> _Finding | None:
    """No wait is too long: it is in the middle of a step, or it starts."""
    if not waits or any(_is_long(wait) for wait in waits):
        return None
    wait = max(waits, key=lambda wait: wait.seconds)
    if max(group.completed for group in (wait.group for wait in waits)) == 0:
        words = (
            f"this run is starting: {_have_waited(wait.waiting, wait)} in "
            f"{_named(wait.collective, wait)}, its first collective"
        )
        return _Finding(RunState.STARTING, "", words)
    slow = collectives.straggler(ranks)
    if slow is not None:
        return _steps(ranks)
    words = (
        f"this run is in the middle of a step: {_have_waited(wait.waiting, wait)} in "
        f"{_named(wait.collective, wait)}, and such a wait has taken {_span(wait.usual)} before"
    )
    return _Finding(RunState.STEPS, "", words)


def _behind(waits: Sequence[GroupWait], ranks: Mapping[int, Rank]) -> _Finding | None:
    for wait in waits:
        if wait.kind is GroupState.BEHIND and _is_long(wait):
            there = [ranks[number] for number in wait.absent]
            gpus, does = number_of(len(there), "its GPU", "their GPUs"), _doing(there)
            words = (
                f"{_ranks(wait.absent)}{_home(there[0])} {number_of(len(there), 'has', 'have')} "
                f"given {_named(wait.collective, wait)} to {gpus}, which "
                f"{number_of(len(there), 'is', 'are')} still busy with what came before it; "
                f"{does}; {_have_waited(wait.waiting, wait)}"
            )
            return _Finding(RunState.STALLED, str(wait.kind), words, _places(there))
    return None


def _under_way(waits: Sequence[GroupWait], ranks: Mapping[int, Rank]) -> _Finding | None:
    for wait in waits:
        if wait.kind is GroupState.UNDER_WAY and _is_long(wait):
            words = (
                f"all ranks of the group have entered {_named(wait.collective, wait)}"
                f"{_from(ranks[wait.waiting[0]])}, and {_ranks(wait.waiting)} "
                f"{number_of(len(wait.waiting), 'has', 'have')} been in it for "
                f"{_span(wait.seconds)}: the network between two of them, or a GPU, is stuck"
            )
            if wait.collective.backend == _NCCL and wait.collective.state == "scheduled":
                words += f" ({_TIMING}=1 in `env` tells which)"
            return _Finding(RunState.STALLED, "underWay", words, _places([ranks[wait.waiting[0]]]))
    return None


def _not_asked(waits: Sequence[GroupWait]) -> _Finding | None:
    for wait in waits:
        if wait.kind is GroupState.NOT_ASKED and _is_long(wait):
            words = (
                f"{_have_waited(wait.waiting, wait)} in {_named(wait.collective, wait)}, and the "
                "rank that has not entered it is in a pod that was not asked"
            )
            return _Finding(RunState.STALLED, str(wait.kind), words)
    return None


def _by_themselves(ranks: Sequence[Rank]) -> _Finding:
    """No collective is waited in."""
    importing = [rank for rank in ranks if _imports(rank)]
    if importing:
        words = f"this run is starting: {_ranks([rank.number for rank in importing])} " + (
            number_of(len(importing), "is", "are") + " still importing modules"
        )
        return _Finding(RunState.STARTING, "", words)
    stuck = [rank for rank in ranks if rank.is_stuck_in_c]
    if stuck:
        return _Finding(
            RunState.STALLED,
            "stuckInC",
            f"rank {stuck[0].number}{_home(stuck[0])} {_does_at(stuck[0])}",
            _places(stuck),
        )
    still = [rank for rank in ranks if rank.process.cpu < _STILL]
    if len(still) == len(ranks):
        first = still[0]
        words = f"no rank computes, and none waits in a collective: {_doing([first])}"
        return _Finding(RunState.UNKNOWN, "still", words, _places(still[:_SHOWN]))
    busy = [rank.number for rank in ranks if rank.process.cpu >= _STILL]
    verb = number_of(len(busy), "computes", "compute")
    words = f"no rank waits in a collective; {_ranks(busy)} {verb}"
    if not any(rank.newest_flight for rank in ranks):
        words += ", and there is no flight recorder that says more"
    return _Finding(RunState.UNKNOWN, "computes", words)


def _imports(rank: Rank) -> bool:
    main = rank.process.main
    return main is not None and any("importlib._bootstrap" in frame.file for frame in main.frames)


def does(process: Process, *, is_stuck_in_c: bool = False) -> str:  # noqa: PLR0911 - a table
    """The activity of a process, in words."""
    if process.state in {"Z", "X"}:
        return "has ended"
    if process.is_stopped:
        return "is stopped"
    if is_stuck_in_c:
        return "is in a C call that holds Python's lock and does not return: its Python is blocked"
    if process.blocked:
        return "waits for a disk or a network file system, and cannot be interrupted"
    if process.is_busy:
        return f"computes ({100 * process.cpu:.0f} % of a core)"
    for prefix, words in _WAITS:
        if process.waits.startswith(prefix):
            return words
    return "does nothing" if process.cpu < _STILL else f"computes ({100 * process.cpu:.0f} %)"


def _does_at(rank: Rank) -> str:
    words = does(rank.process, is_stuck_in_c=rank.is_stuck_in_c)
    threads = rank.process.threads
    if not threads:
        return words if rank.process.armed else f"{words} (its stacks are not known)"
    words += f", {threads[0]}"
    others = [thread for thread in threads[1:] if thread.own is not None]
    if others and "lock" in words:
        words += f"; another of its threads is at {others[0]}"
    return words


def _groups(ranks: Sequence[Rank], waits: Sequence[GroupWait]) -> tuple[Alike, ...]:
    """Ranks with the same stack, the fewest first: they are the ones to look at."""
    waiting = {
        number: f"waits in {_named(wait.collective, wait)}"
        for wait in reversed(waits)
        for number in wait.waiting
    }
    alike: dict[tuple[str, str, tuple[str, ...]], list[int]] = {}
    for rank in ranks:
        main = rank.process.main
        words = waiting.get(rank.number) or _general(rank)
        stack = tuple(map(str, main.frames)) if main is not None else ()
        alike.setdefault((words, str(main or ""), stack), []).append(rank.number)
    groups = [Alike(tuple(numbers), *key[:2], key[2]) for key, numbers in alike.items()]
    return tuple(sorted(groups, key=lambda group: (len(group.ranks), group.ranks)))


def _general(rank: Rank) -> str:
    """What a rank does, without numbers of its own, so that ranks are alike."""
    words = does(rank.process, is_stuck_in_c=rank.is_stuck_in_c)
    return words.partition(" (")[0]


def _remarks(
    pods: Sequence[PodReport], ranks: Sequence[Rank], silent: Mapping[str, str]
) -> Iterable[str]:
    if silent and ranks:
        reasons = [f"{pod}: {why}" for pod, why in silent.items()]
        yield f"{plural(len(silent), 'pod')} gave no answer: {list_some(reasons, _SHOWN, '; ')}"
    killed = [pod for pod in pods if pod.killed]
    if killed:
        names = list_some([pod.name for pod in killed], _SHOWN)
        yield f"the kernel has killed processes for lack of memory in {names}"
    unarmed = [rank.number for rank in ranks if not rank.process.armed]
    if unarmed:
        yield (
            f"{_ranks(unarmed)} cannot be asked: runPolicy.diagnose is off, or a Python that is "
            "older than 3.8, or none, was started"
        )
    problems = {rank.flight.problem: rank.number for rank in ranks if rank.flight is not None}
    problems.pop("", None)
    for problem, number in problems.items():
        yield f"rank {number}: {problem}"
    if not problems and ranks and all(rank.newest_flight and not _recorded(rank) for rank in ranks):
        yield (
            "the flight recorder is empty: no collective was started, or "
            "TORCH_FR_BUFFER_SIZE=0 turns it off"
        )
    blocked = [rank.number for rank in ranks if rank.process.blocked]
    if blocked:
        wait = number_of(len(blocked), "waits", "wait")
        yield f"{_ranks(blocked)} {wait} for a disk or a network file system"
    for pod in pods:
        for gpu in pod.gpus:
            if gpu.get("errors", "").isdigit() and int(gpu["errors"]):
                count = plural(int(gpu["errors"]), "memory error")
                yield f"GPU {gpu.get('index')} of {pod.name} has {count} (ECC)"


def _remark_skipped(
    pods: Sequence[PodReport], silent: Mapping[str, str], skipped_pods: frozenset[str]
) -> Iterable[str]:
    if skipped_pods:
        pod_count = len(pods) + len(silent)
        yield (
            f"{pod_count} of {plural(pod_count + len(skipped_pods), 'pod')} were asked before the "
            "time ran out; a longer --timeout leaves time for more"
        )


def _recorded(rank: Rank) -> bool:
    return rank.newest_flight is not None and any(
        group.last for group in rank.newest_flight.groups.values()
    )


def _places(ranks: Iterable[Rank]) -> tuple[BlamedRank, ...]:
    return tuple(
        BlamedRank(rank.number, rank.pod, rank.node, str(rank.process.main or "")) for rank in ranks
    )


def _home(rank: Rank) -> str:
    return f" (pod {rank.pod}, node {rank.node})" if rank.node else f" (pod {rank.pod})"


def _ranks(numbers: Sequence[int]) -> str:
    text = write_pairs((number, number) for number in numbers).replace(",", ", ")
    return f"rank {text}" if len(numbers) == 1 else f"ranks {text}"


def _waiting(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]} waits"
    return f"{plural(len(numbers), 'rank')} wait"


def _have_waited(numbers: Sequence[int], wait: GroupWait) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]} has waited for {_span(wait.seconds)}"
    return f"{plural(len(numbers), 'rank')} have waited for {_span(wait.seconds)}"


def _named(collective: Collective, wait: GroupWait) -> str:
    return f"{collective.name} #{collective.number}{_of_group(wait)}"


def _of_group(wait: GroupWait) -> str:
    if wait.group.name == _DEFAULT_GROUP:
        return ""
    ranks = wait.group.members
    return f" of the group of ranks {ranks}" if ranks else f" of group {wait.group.name}"


def _span(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:  # noqa: PLR2004 - so that no digit is said that means nothing
        return f"{seconds:.1f} s"
    if seconds < 120:  # noqa: PLR2004
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"  # noqa: PLR2004
