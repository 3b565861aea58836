"""What a pod says of its ranks, read from its JSON.

A pod's answer is foreign data: its charts may be of another version. What is not as it should be is
left out, and no answer makes reading fail.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from allranks.k8s.fields import count, items, mapping, number, text
from allranks.k8s.ranges import read_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

_STOPPED = frozenset("tT")
_PROGRAM_IS_BUSY = 0.5  # of a core
_THREAD = re.compile(r"(?:Current thread|Thread) (?:0x(?P<hex>[0-9a-f]+)|(?P<number>\d+))\b")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_SPY_FRAME = re.compile(r"\s+(?P<function>\S.*) \((?P<file>.*):(?P<line>\d+)\)")
# Not of the program: Python's own modules and what was installed.
_FOREIGN = re.compile(r"<frozen |/site-packages/|/dist-packages/|/lib(?:64)?/python3?[.\d]*/")
_DISTRIBUTED = re.compile(r"/torch/distributed/")
_OUR_FILE = "sitecustomize.py"


@lru_cache(maxsize=256)
def _expanded(members: str) -> tuple[int, ...]:
    """The numbers of ranges; all ranks of a run write the same ones."""
    return tuple(number for number, _ in read_pairs(members))


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a process group, or a message between two of its ranks.

    Attributes:
        number: how many there were in the group up to this one.
        name: what it is: ``all_reduce``.
        shapes: of its inputs.
        types: of its inputs.
        done: whether it has ended on this rank.
        began: when this rank entered it, in seconds by its node's clock.
        is_message: whether it is a message between two ranks.
        backend: whose it is: ``nccl``.
        state: ``scheduled`` or ``started``. Who works for a GPU has it begun some time after its
            rank has entered it; NCCL tells the two apart with TORCH_NCCL_ENABLE_TIMING=1 alone.
    """

    number: int
    name: str
    shapes: tuple[tuple[int, ...], ...]
    types: tuple[str, ...]
    done: bool
    began: float
    is_message: bool = False
    backend: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """A process group, as one of its ranks sees it.

    Attributes:
        name: torch's own name of it; ``0`` is the default group.
        members: the ranks in it, as ``0-3,7``; "" where that is not known.
        enqueued: the number of the newest collective that this rank has entered.
        completed: the number of the newest that has ended.
        last: the newest, in their order.
        times: when the newest began: (number, seconds).
    """

    name: str
    members: str = ""
    enqueued: int = 0
    completed: int = 0
    last: tuple[Collective, ...] = ()
    times: tuple[tuple[int, float], ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks in it; () where that is not known."""
        return _expanded(self.members)

    @property
    def pending(self) -> Collective | None:
        """The first collective that this rank has entered, and that has not ended."""
        return next((entry for entry in self.last if not entry.done), None)

    def at(self, collective: int) -> Collective | None:
        """A collective by its number; None where it is not among the newest."""
        matches = (entry for entry in self.last if not entry.is_message)
        return next((entry for entry in matches if entry.number == collective), None)


@dataclass(frozen=True, slots=True)
class Flight:
    """The flight recorder of a rank.

    Attributes:
        groups: its process groups by name.
        problem: why there are none; "" where they are there.
    """

    groups: Mapping[str, Group]
    problem: str = ""

    @property
    def progress(self) -> tuple[tuple[str, int, int], ...]:
        """The figures that change as the rank goes on."""
        return tuple((name, group.enqueued, group.completed) for name, group in self.groups.items())


@dataclass(frozen=True, slots=True)
class Process:
    """A process in a pod.

    Attributes:
        pid: its id in the pod.
        program: its program and script.
        state: the kernel's letter: R, S, D, T, Z; X where it has ended while it was looked at.
        blocked: how many of its threads wait for a disk or a network file system.
        waits: the function of the kernel that its main thread waits in; "" or "0" for none.
        cpu: cores that it used.
        memory: bytes.
        files: descriptors; -1 where that is not known.
        armed: whether it can be asked.
        threads: the stacks of its threads, the main one first.
    """

    pid: int
    program: str
    state: str
    blocked: int
    waits: str
    cpu: float
    memory: int
    files: int
    armed: bool
    threads: tuple[Thread, ...]

    @property
    def is_stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        return self.state in _STOPPED

    @property
    def is_busy(self) -> bool:
        """Whether it computes."""
        return self.cpu >= _PROGRAM_IS_BUSY

    @property
    def main(self) -> Thread | None:
        """Its main thread; None where its stacks are not known."""
        return self.threads[0] if self.threads else None


@dataclass(frozen=True, slots=True)
class Rank:
    """A rank.

    Attributes:
        number: the rank.
        world: how many there are; 0 where nothing says it.
        pod: its pod.
        node: the node of that.
        process: its process.
        children: the processes that it has started.
        flight: its flight recorder now; None where it has not answered.
        before: a moment before.
        has_recorder_thread: whether a thread of it waits to be asked for the recorder.
        time: when it was looked at, by its node's clock.
    """

    number: int
    world: int
    pod: str
    node: str
    process: Process
    children: tuple[Process, ...]
    flight: Flight | None
    before: Flight | None
    has_recorder_thread: bool
    time: float

    @property
    def newest_flight(self) -> Flight | None:
        """The newest recorder that it gave; None for none, or one without groups."""
        flight = self.flight or self.before
        return None if flight is None or flight.problem else flight

    @property
    def is_stuck_in_c(self) -> bool:
        """Whether it holds Python's lock in a call that does not return."""
        return self.has_recorder_thread and not self.process.is_stopped and self.flight is None

    @property
    def has_moved(self) -> bool:
        """Whether it has entered or ended a collective between the two looks."""
        if self.flight is None or self.before is None:
            return False
        return self.flight.progress != self.before.progress


@dataclass(frozen=True, slots=True)
class PodReport:
    """A pod's answer.

    Attributes:
        name: the pod.
        node: its node.
        ranks: its ranks, in order.
        killed: how many processes the kernel has killed for memory in it.
        gpus: its GPUs, each with index, busy, used, total and errors as text.
    """

    name: str
    node: str
    ranks: tuple[Rank, ...]
    killed: int = 0
    gpus: tuple[Mapping[str, str], ...] = ()


def read(name: str, node: str, answer: bytes) -> PodReport | None:
    """A pod's answer; None where it is none.

    Args:
        name: the pod.
        node: its node.
        answer: what it printed.
    """
    try:
        data = json.loads(answer)
    except (ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or not isinstance(data.get("ranks"), list):
        return None
    ranks = [_rank(name, node, item, _float(data.get("time"))) for item in items(data, "ranks")]
    gpus = [{key: str(word) for key, word in gpu.items()} for gpu in items(data, "gpus")]
    ranks.sort(key=lambda rank: rank.number)
    return PodReport(name, node, tuple(ranks), count(data, "memory", "killed"), tuple(gpus))


def _rank(pod: str, node: str, data: Any, time: float) -> Rank:
    return Rank(
        number=count(data, "rank"),
        world=count(data, "world"),
        pod=pod,
        node=node,
        process=_process(data),
        children=tuple(_process(child) for child in items(data, "children")),
        flight=_flight(data.get("flight")),
        before=_flight(data.get("before")),
        has_recorder_thread=data.get("answers") is True,
        time=time,
    )


def _process(data: Any) -> Process:
    threads = parse_stacks(text(data, "stacks") or text(data, "spy"))
    main = number(data, "main")
    return Process(
        pid=count(data, "pid"),
        program=text(data, "program"),
        state=text(data, "state"),
        blocked=count(data, "blocked"),
        waits=text(data, "waits"),
        cpu=_float(data.get("cpu")),
        memory=count(data, "memory"),
        files=-1 if number(data, "files") is None else number(data, "files") or 0,
        armed=data.get("armed") is True,
        threads=tuple(sorted(threads, key=lambda thread: thread.ident != main)),
    )


def _flight(data: Any) -> Flight | None:
    if not isinstance(data, dict):
        return None
    groups = mapping(data, "groups")
    return Flight({name: _group(name, groups[name]) for name in groups}, text(data, "problem"))


def _group(name: str, data: Any) -> Group:
    listed = mapping(data).get("times")
    pairs = [pair for pair in listed if _is_pair(pair)] if isinstance(listed, list) else []
    return Group(
        name=name,
        members=text(data, "ranks"),
        enqueued=count(data, "enqueued"),
        completed=count(data, "completed"),
        last=tuple(_collective(entry) for entry in items(data, "last")),
        times=tuple((pair[0], float(pair[1])) for pair in pairs),
    )


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, list) and len(pair) == len("nt") and isinstance(pair[0], int)


def _collective(data: Mapping[str, Any]) -> Collective:
    shapes, types = data.get("in"), data.get("types")
    backend, _, name = text(data, "name").rpartition(":")
    return Collective(
        number=count(data, "number"),
        name=name,
        shapes=tuple(
            tuple(size for size in shape if isinstance(size, int))
            for shape in (shapes if isinstance(shapes, list) else ())
            if isinstance(shape, list)
        ),
        types=tuple(map(str, types)) if isinstance(types, list) else (),
        done=data.get("done") is True,
        began=_float(data.get("began")),
        is_message=data.get("between") is True,
        backend=backend,
        state=text(data, "state"),
    )


def _float(value: Any) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else 0.0


@dataclass(frozen=True, slots=True)
class Frame:
    """A call.

    Attributes:
        file: the path of its source.
        line: the line in it.
        function: the function.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        """The call as a sentence has it."""
        return f"{self.file.rpartition('/')[2]}:{self.line} in {self.function}"


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a process.

    Attributes:
        ident: its id in Python, or the system's where py-spy has seen it.
        frames: its calls, the innermost first.
    """

    ident: int
    frames: tuple[Frame, ...]

    @property
    def own(self) -> Frame | None:
        """The innermost call of the program's own; None for none."""
        return next((frame for frame in self.frames if not _FOREIGN.search(frame.file)), None)

    @property
    def is_in_collective(self) -> bool:
        """Whether it is in a call of torch.distributed."""
        return any(_DISTRIBUTED.search(frame.file) for frame in self.frames[:4])

    def __str__(self) -> str:
        """Where it is: the innermost call, and the program's own where that is another."""
        if not self.frames:
            return "no Python frame"
        inner, own = self.frames[0], self.own
        return str(inner) if own in {None, inner} else f"{inner}, from {own}"


def parse_stacks(text: str) -> tuple[Thread, ...]:
    """The threads of a dump, without the one that waits to be asked for it.

    Args:
        text: what faulthandler or py-spy wrote; lines of neither are left out.
    """
    threads: list[tuple[int, list[Frame]]] = []
    for line in text.splitlines():
        head = _THREAD.match(line)
        if head is not None:
            threads.append((int(head["hex"], 16) if head["hex"] else int(head["number"]), []))
            continue
        match = _FRAME.fullmatch(line) or _SPY_FRAME.fullmatch(line)
        if match is not None and threads:
            frame = Frame(match["file"], int(match["line"]), match["function"])
            threads[-1][1].append(frame)
    return tuple(
        Thread(ident, tuple(frames))
        for ident, frames in threads
        if not (frames and frames[0].file.endswith(_OUR_FILE) and frames[0].function == "answer")
    )
