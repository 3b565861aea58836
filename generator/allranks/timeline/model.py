"""The timeline of a run: what happened when, and a bar for each pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.humanize import plural
from allranks.model.status import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Moments of a run, in the order in which they come.
CREATED, ADMITTED, SCHEDULED, PULLED = "created", "admitted", "scheduled", "pulled"
STARTED, RENDEZVOUS, PREFLIGHT = "started", "rendezvous", "preflight"
FIRST_STEP, RESTART, SAVED = "first step", "restart", "saved"
FAILED, ENDED = "failed", "ended"
ORDER = (
    *(CREATED, ADMITTED, SCHEDULED, PULLED, STARTED, RENDEZVOUS, PREFLIGHT),
    *(FIRST_STEP, SAVED, FAILED, RESTART, ENDED),
)
# How the detail of a preflight begins that a node did not pass.
PREFLIGHT_FAILED = "failed in"
# Spans of a pod.
SCHEDULING, PREPARING, RUNNING = "scheduling", "preparing", "running"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened.

    Attributes:
        at: when, in seconds since the epoch.
        name: what; see `ORDER`.
        detail: a clause about it; "" for none.
        pod: the pod that it happened to; "" for the run.
    """

    at: float
    name: str
    detail: str = ""
    pod: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "time": timestamp(self.at),
            "name": self.name,
            "detail": self.detail,
            "pod": self.pod,
        }


@dataclass(frozen=True, slots=True)
class Span:
    """A time in one state.

    Attributes:
        name: the state.
        start: when it began.
        end: when it ended; None where it goes on.
        failure: how it ended badly; "" where it did not.
    """

    name: str
    start: float
    end: float | None
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "startTime": timestamp(self.start),
            "endTime": timestamp(self.end),
            "failure": self.failure,
        }


@dataclass(frozen=True, slots=True)
class PodBar:
    """A pod's life; of a pod that was replaced, each attempt is a bar.

    Attributes:
        name: the pod.
        uid: its uid, or what tells it from others where it has none.
        role: its role.
        index: its number in the role; None where it has none.
        node: the node that it is on.
        spans: its states, in order.
        is_lead: whether its log tells of the training: rank 0's, or the launcher's.
    """

    name: str
    uid: str
    role: str
    index: int | None
    node: str
    spans: tuple[Span, ...]
    is_lead: bool = False

    @property
    def start(self) -> float:
        """When its first known state began; 0 where none is."""
        return self.spans[0].start if self.spans else 0.0

    @property
    def failure(self) -> str:
        """How it ended badly last; "" where it did not."""
        return next((span.failure for span in reversed(self.spans) if span.failure), "")

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "uid": self.uid,
            "role": self.role,
            "index": self.index,
            "node": self.node,
            "lead": self.is_lead,
            "spans": [span.as_dict() for span in self.spans],
        }


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """A step that the training told of.

    Attributes:
        at: when it did, which is the end of the step.
        number: which step, or epoch, it is.
        epoch: the epoch that its number is counted in; 0 where it is counted through.
    """

    at: float
    number: float
    epoch: float = 0.0

    @property
    def place(self) -> tuple[float, float]:
        """The epoch and step, which grow as the training goes on."""
        return self.epoch, self.number


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run from its beginning to its end, or to now.

    Attributes:
        name: the run.
        namespace: its namespace.
        workload: its workload.
        uid: of its first controller: what tells two runs of a name apart.
        phase: its phase, in Kubernetes' words.
        start: when it was created.
        end: when it ended; None where it goes on.
        now: when it was looked at.
        moments: what happened, the earliest first.
        pods: a bar for each pod, by role, number and age.
        steps: the steps that it told of, the earliest first.
        notes: sentences about what is not known.
    """

    name: str
    namespace: str
    workload: str
    uid: str
    phase: str
    start: float
    end: float | None
    now: float
    moments: tuple[Moment, ...]
    pods: tuple[PodBar, ...] = ()
    steps: tuple[TrainingStep, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def last(self) -> float:
        """Its end, or now."""
        return max(self.start, self.now if self.end is None else self.end)

    def first(self, name: str) -> float | None:
        """When the first moment of a name was; None where nothing tells it."""
        return next((moment.at for moment in self.moments if moment.name == name), None)

    def as_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "name": self.name,
            "namespace": self.namespace,
            "workload": self.workload,
            "uid": self.uid,
            "phase": self.phase,
            "startTime": timestamp(self.start),
            "endTime": timestamp(self.end),
            "moments": [moment.as_dict() for moment in self.moments],
            "pods": [pod.as_dict() for pod in self.pods],
            "notes": list(self.notes),
        }


def failures(bars: Sequence[PodBar]) -> Iterator[Moment]:
    """Yield the bad ends of pods: a restart, where the pod or one in its place began again.

    Args:
        bars: of all pods.
    """
    last_begin: dict[tuple[str, int | str], float] = {}
    for bar in bars:
        for span in bar.spans:
            key = _place(bar)
            last_begin[key] = max(last_begin.get(key, span.start), span.start)
    for bar in bars:
        for span in bar.spans:
            if span.failure and span.end is not None:
                again = last_begin[_place(bar)] >= span.end
                yield Moment(span.end, RESTART if again else FAILED, span.failure, bar.name)


def _place(bar: PodBar) -> tuple[str, int | str]:
    return bar.role, bar.name if bar.index is None else bar.index


def firsts(bars: Sequence[PodBar]) -> list[PodBar]:
    """Return the first pod of each place in the run."""
    first: dict[tuple[str, int | str], PodBar] = {}
    for bar in bars:
        before = first.get(_place(bar))
        if before is None or bar.start < before.start:
            first[_place(bar)] = bar
    return list(first.values())


def gang(name: str, times: Sequence[float], count: int) -> Iterator[Moment]:
    """Yield when the last of all pods had got so far; nothing where one has not.

    Args:
        name: how far.
        times: when each pod had.
        count: how many pods there are.
    """
    if times and len(times) == count:
        yield Moment(max(times), name, f"the last of {plural(count, 'pod')}" if count > 1 else "")


def in_order(moments: list[Moment]) -> tuple[Moment, ...]:
    """Return moments by time; of one second, in the order in which they come in a run."""
    return tuple(sorted(moments, key=lambda moment: (moment.at, ORDER.index(moment.name))))
