"""One look at a run: what there is of a release, its status, and writing it into its TrainingRun.

A release whose chart rendered no TrainingRun is given one, made so that Helm takes it over should
the chart render one later; it goes with the run's first controller. What explains a run that does
not get on is asked for only while it does not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.model.status import FINAL, Phase
from allranks.status import leaving, progress, reduce, trainingrun
from allranks.status.fields import mapping, text
from allranks.status.observation import Observation
from allranks_operator import reasons, runobject
from allranks_operator.kube.applied import plain
from allranks_operator.kube.errors import ApiError, BusyError, GoneError
from allranks_operator.kube.resources import TRAINING_RUNS
from allranks_operator.pace import Backoff, Pace
from allranks_operator.telling import About, Sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.model.manifest import Manifest
    from allranks.model.status import RunStatus
    from allranks_operator.act import Actor
    from allranks_operator.agenda import Agenda, Turn
    from allranks_operator.explain import Explainer
    from allranks_operator.kube.api import Api
    from allranks_operator.logs import Logs
    from allranks_operator.metrics import Metrics
    from allranks_operator.telling import Teller
    from allranks_operator.world.keys import Key
    from allranks_operator.world.world import World

_CONTROLLERS = ("Job", "StatefulSet", names.ELASTIC_JOB)
# A chart's own TrainingRun comes some moments after its Job; ours must not be in its way.
_CHART_SECONDS = 5.0
# A run that has just started is not stuck.
_PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 6.0
_UNKNOWN_SECONDS = 60.0
# Who replaces a Job, or deletes a release, does it in steps; what is between them is no failure.
_REPLACED_SECONDS = 10.0
_ENDS = {
    str(Phase.SUCCEEDED): ("Normal", reasons.RUN_SUCCEEDED),
    str(Phase.FAILED): ("Warning", reasons.RUN_FAILED),
}
_LOG_LINES = 5


@dataclass(slots=True)
class _Memory:
    """What is remembered of a run.

    Attributes:
        first: when it was first looked at, or had a TrainingRun last.
        watched: whether a controller of it was seen.
        gone: since when it has no controller; None where it has.
        stuck: since when it does not get on; None where it does.
        phase: what the metrics count it as; "" before.
        sent: the status that was written last, and what the server made of it.
    """

    first: float
    watched: bool = False
    gone: float | None = None
    stuck: float | None = None
    phase: str = ""
    sent: tuple[Mapping[str, Any], Mapping[str, Any]] | None = field(default=None, repr=False)


class Runs:
    """Looks at runs."""

    def __init__(
        self,
        api: Api,
        world: World,
        agenda: Agenda,
        actor: Actor,
        metrics: Metrics,
        *,
        teller: Teller,
        explainer: Explainer,
        logs: Logs | None,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            api: the API server.
            world: what is known.
            agenda: where the next look is asked for.
            actor: makes requests, if this watcher may.
            metrics: counts.
            teller: says Events.
            explainer: asks for what explains a run.
            logs: reads the end of a failed rank's log; None where it may not.
        """
        self._api = api
        self._world = world
        self._agenda = agenda
        self._actor = actor
        self._metrics = metrics
        self._teller = teller
        self._explainer = explainer
        self._logs = logs
        self._pace = Pace(1.0)
        self._backoff = Backoff()
        self._memory: dict[Key, _Memory] = {}

    def forget_all(self) -> None:
        """Another watcher acts now, and counts the runs."""
        self._memory.clear()
        self._metrics.runs.clear()

    def look(self, turn: Turn) -> None:
        """Look at a run, and write what is new about it.

        Raises:
            NotLeadingError: another watcher acts.
        """
        key = turn.key
        wait = max(self._pace.wait(key), self._backoff.left(key, ""))
        if wait:
            self._agenda.hold(key, wait)
            self._agenda.add(key, since=turn.since)
            return
        parts = self._world.of(key)
        controllers = [one for kind in _CONTROLLERS for one in parts.get(kind, ())]
        run = runobject.choose(parts.get(names.TRAINING_RUN, ()), key.name)
        memory = self._memory.setdefault(key, _Memory(time.monotonic()))
        if run is None and not controllers:
            self._forget(key)
        elif run is None:
            self._make(key, controllers, memory)
        elif "deletionTimestamp" not in run["metadata"]:
            # One that goes before its Job, as in a deletion, is not made again in between.
            memory.first = time.monotonic()
            pods = parts.get("Pod", ())
            self._tell(turn, run, Observation(key.name, key.namespace, tuple(controllers), pods))

    def _make(self, key: Key, controllers: list[Manifest], memory: _Memory) -> None:
        """Give a release a TrainingRun, once its chart has had its time to."""
        if not runobject.is_wanted(controllers):
            return
        left = memory.first + _CHART_SECONDS - time.monotonic()
        if left > 0:
            self._agenda.add(key, after=left)
            return
        body = runobject.make(key.namespace, key.name, controllers)

        def apply() -> Manifest:
            return self._api.apply(TRAINING_RUNS.path, key.namespace, key.name, body)

        answer = self._send(key, "create_run", apply)
        if answer is not None:
            self._world.learn(TRAINING_RUNS, answer)
        elif not self._backoff.failing(key, ""):
            # The cluster does not know the kind: it is not asked at each change of each run.
            # Nor does anything tell when it does: the kinds may come long after the run.
            again = self._backoff.failed(key, "", _UNKNOWN_SECONDS, _UNKNOWN_SECONDS)
            self._agenda.add(key, after=again)

    def _tell(self, turn: Turn, run: Manifest, seen: Observation) -> None:
        key, previous = turn.key, mapping(run, "status")
        memory = self._memory[key]
        status = self._status(key, seen, previous)
        if status is None:
            return
        built = trainingrun.build(
            status,
            previous,
            int(run["metadata"].get("generation") or 0),
            progress.read(seen.pods),
            time.time(),
        )
        found: Manifest = plain(built)
        self._count(memory, text(found, "phase"))
        # What the server left out of a status that it took is not sent again and again.
        if found == previous or memory.sent == (found, previous):
            return
        answer = self._send(key, "write_run_status", lambda: self._write(run, found))
        if answer is None:
            return
        self._pace.wrote(key)
        self._world.learn(TRAINING_RUNS, answer)
        memory.sent = (found, mapping(answer, "status"))
        self._say(run, previous, found, status)
        if turn.since is not None:
            self._metrics.reaction_seconds.observe(time.monotonic() - turn.since)

    def _say(
        self,
        run: Manifest,
        previous: Mapping[str, Any],
        found: Mapping[str, Any],
        status: RunStatus,
    ) -> None:
        """Say the end of a run, once."""
        phase = text(found, "phase")
        if phase == text(previous, "phase") or phase not in _ENDS:
            return
        kind, reason = _ENDS[phase]
        log = status.failure.log if status.failure is not None else ()
        message = "\n".join((text(found, "message"), *log[-_LOG_LINES:]))
        metadata = run["metadata"]
        about = About(
            names.API_VERSION,
            names.TRAINING_RUN,
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
        )
        self._teller.tell(Sentence(about, kind, reason, message))

    def _write(self, run: Manifest, status: Mapping[str, Any]) -> Manifest:
        metadata = run["metadata"]
        body = {
            "apiVersion": TRAINING_RUNS.api_version,
            "kind": TRAINING_RUNS.kind,
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "status": status,
        }
        path, namespace = TRAINING_RUNS.path, metadata["namespace"]
        return self._api.apply(path, namespace, metadata["name"], body, part="status")

    def _status(self, key: Key, seen: Observation, previous: Mapping[str, Any]) -> RunStatus | None:
        """What the run does; None where nothing is to be said of it."""
        memory, now = self._memory[key], time.monotonic()
        memory.watched |= bool(seen.objects)
        seen = replace(seen, now=time.time())
        status = reduce.reduce(seen)
        if leaving.is_going(status, seen.objects, text(previous, "phase")):
            return leaving.going(status)
        if status.phase is Phase.UNKNOWN:
            return self._gone(key, seen, status, previous)
        memory.gone = None
        if status.phase in FINAL:
            memory.stuck = None
            return self._with_log(seen, status)
        if not _is_stuck(status):
            memory.stuck = None
            return status
        memory.stuck = now if memory.stuck is None else memory.stuck
        if now - memory.stuck < _PATIENCE_SECONDS:
            self._agenda.add(key, after=_PATIENCE_SECONDS)
            return status
        return self._explained(key, seen, status)

    def _explained(self, key: Key, seen: Observation, status: RunStatus) -> RunStatus:
        """With what events, queues and claims say of it."""
        self._agenda.add(key, after=_AGAIN_SECONDS)
        objects, events, notes = self._explainer.explain(key.namespace, seen.objects, seen.pods)
        if not (objects or events or notes):
            return status
        more = replace(seen, objects=(*seen.objects, *objects), events=events, notes=notes)
        return reduce.reduce(more)

    def _gone(
        self, key: Key, seen: Observation, status: RunStatus, previous: Mapping[str, Any]
    ) -> RunStatus | None:
        """How a run ended of which nothing is left, as `allranks status` tells it."""
        if text(previous, "phase") in FINAL:
            return None  # how it ended stands there already
        watched = self._memory[key].watched
        new = leaving.is_new(previous) and not watched
        if self._may_return(key):
            return None if new else leaving.awaited(status)
        told = self._explainer.ends(key.namespace)
        if told is None:
            self._agenda.add(key, after=_AGAIN_SECONDS)
            return None
        events, notes = told
        runs = self._world.of(key).get(names.TRAINING_RUN, ())
        more = replace(seen, objects=tuple(runs), events=events, notes=notes)
        return leaving.gone(reduce.reduce(more), watched=watched, new=new)

    def _may_return(self, key: Key) -> bool:
        """Whether another controller may yet come for one that is gone; asks for the look after."""
        memory, now = self._memory[key], time.monotonic()
        memory.gone = now if memory.gone is None else memory.gone
        left = memory.gone + _REPLACED_SECONDS - now
        if left > 0:
            self._agenda.add(key, after=left)
        return left > 0

    def _with_log(self, seen: Observation, status: RunStatus) -> RunStatus:
        """With the last lines of the failed rank's log, where they may be read."""
        if self._logs is None or status.failure is None:
            return status
        lines = self._logs.of(seen)
        return reduce.reduce(seen, lines) if lines else status

    def _send(self, key: Key, what: str, request: Any) -> Manifest | None:
        """Make a request; where it is refused, leave the run alone for a while."""
        try:
            answer: Manifest | None = self._actor.timed(what, key.namespace, request)
        except GoneError:
            return None  # it went meanwhile, or the cluster does not know the kind
        except ApiError as error:
            first = 0.5 if isinstance(error, BusyError) else 5.0
            seconds = self._backoff.failed(key, "", first, 60.0)
            self._agenda.add(key, after=seconds)
            return None
        self._backoff.worked(key, "")
        return answer

    def _count(self, memory: _Memory, phase: str) -> None:
        if phase != memory.phase:
            if memory.phase:
                self._metrics.runs.labels(memory.phase).dec()
            self._metrics.runs.labels(phase).inc()
            memory.phase = phase

    def _forget(self, key: Key) -> None:
        memory = self._memory.pop(key, None)
        if memory is not None and memory.phase:
            self._metrics.runs.labels(memory.phase).dec()
        self._pace.forget(key)
        self._backoff.forget(key)


def _is_stuck(status: RunStatus) -> bool:
    """Whether it waits for something that events may explain."""
    return bool(status.waiting_for) or any(one.running < one.expected for one in status.roles)
