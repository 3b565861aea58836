"""One elastic job: look at it, decide, act, until nothing is left to do.

The decisions are those of the watcher in a cluster, made by the same function from the same kind of
data. What differs is that nobody else writes here: a write of the job's status is never refused.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks import names
from allranks.elastic import actions
from allranks.elastic.decide import decide
from allranks.elastic.pods.naming import MASTER_PORT
from allranks.elastic.view import JobView
from allranks.errors import AllranksError
from allranks.local import gpus, referents
from allranks.local.controller import Verdict
from allranks.local.elastic import board, objects
from allranks.local.elastic.board import Board
from allranks.local.elastic.places import Places, place_of
from allranks.local.plan import BarePlan, Release, Restart
from allranks.local.pod import Context, PodRun
from allranks.local.podplan import Identity, Ownership, pod_plan
from allranks.model.status import Phase
from allranks.status.controllers import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.elastic.actions import Action
    from allranks.local.addresses import Block
    from allranks.local.plan import PodPlan
    from allranks.model.manifest import Manifest

# How often the folder is looked at: plans come from other processes.
_LOOK_SECONDS = 0.2
# A job that has not settled after so many decisions is looked at again later.
_ROUNDS = 20
_TOKEN_BYTES = 32
_IMAGE = "local"  # no image is used here; a container without one would be refused elsewhere


@dataclass(slots=True)
class _Pod:
    """A pod that is there, as the API server would have it."""

    manifest: Manifest
    run: PodRun
    deleted_at: float | None = None


class ElasticRun:
    """Runs one ElasticJob.

    Args:
        release: what it belongs to.
        context: what all pods of the run share.
        block: the addresses of the run.
        started: is told of each pod that is made.
    """

    def __init__(
        self, release: Release, context: Context, block: Block, started: Callable[[PodRun], None]
    ) -> None:
        manifest = release.elastic or {}
        now = time.time()
        memory = board.memory(context.folder, release.name)
        self._release = release
        self._context = context
        self._started = started
        self._node = socket.gethostname()
        self._places = Places(block)
        self._board = Board(context.folder.path / board.FOLDER, release.namespace, memory)
        self._job = objects.completed(manifest, release.namespace, str(uuid.uuid4()), now)
        self._pods: dict[str, _Pod] = {}
        self._decided: object = None
        self._look_at: float | None = None
        self._told = ""
        self._secrets: dict[str, dict[str, bytes]] = {}
        self.verdict: Verdict | None = None
        if self._suspended:
            self._board.suspend()

    # ------------------------------------------------------------ what is asked of it

    def step(self, now: float) -> None:
        """Do what is to be done now."""
        if self.verdict is not None:
            return
        self._heed()
        self._forget()
        for _ in range(_ROUNDS):
            if not self._is_news(now):
                break
            self._decide(now)
            self._forget()
        self._board.write(self._job, self._objects())
        self._board.remember()

    def end(self, now: float) -> None:
        """Say that the job is to end, before its pods are stopped; its master tells it so."""
        if self.verdict is None:
            self._job = objects.deleted(self._job, now)
            self._board.write(self._job, self._objects())

    @property
    def wake_at(self) -> float | None:
        """When to call `step` again though nothing happens; None for never."""
        if self.verdict is not None:
            return None
        look_at = time.time() + _LOOK_SECONDS
        return look_at if self._look_at is None else min(look_at, self._look_at)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """What changes when something has been done."""
        return (tuple(self._pods), self._job["metadata"]["resourceVersion"], self.verdict)

    @property
    def phase(self) -> Phase:
        """The phase that the job says it is in."""
        phase = (self._job.get("status") or {}).get("phase", "")
        return Phase(phase) if phase in list(Phase) else Phase.PENDING

    @property
    def message(self) -> str:
        """What is to be said of it: how many pods run, and what happened last."""
        conditions = (self._job.get("status") or {}).get("conditions") or ()
        said = next((one["message"] for one in conditions if one.get("type") == "Ready"), "")
        return "; ".join(part for part in (said, self._told) if part)

    def shown(self) -> Release:
        """The release, made of the pods that are there."""
        plans = (BarePlan(one.run.plan.name, (one.run.plan,)) for one in self._pods.values())
        return replace(self._release, controllers=tuple(plans))

    # ------------------------------------------------------------ looking

    @property
    def _suspended(self) -> bool:
        return (self._job.get("spec") or {}).get("suspend") is True

    def _heed(self) -> None:
        """Take what others have written."""
        wanted = self._board.suspended
        if wanted != self._suspended:
            self._job = objects.with_spec(self._job, suspend=wanted)
        if self._board.look():
            self._decided = None

    def _forget(self) -> None:
        """A pod that was asked to go and has ended is gone."""
        if self.verdict is None:
            for name, one in tuple(self._pods.items()):
                if one.deleted_at is not None and not one.run.active:
                    del self._pods[name]

    def _is_news(self, now: float) -> bool:
        """Whether something has changed since the last decision, if only the time."""
        if self.verdict is not None:
            return False
        due = self._look_at is not None and now >= self._look_at
        return due or self._decided != self._known()

    def _known(self) -> object:
        pods = (
            (name, one.deleted_at, one.run.phase, tuple(one.run.states.values()))
            for name, one in self._pods.items()
        )
        return (*pods, self._job["metadata"]["resourceVersion"], self._board.plans)

    def _objects(self) -> list[Manifest]:
        return [
            objects.pod(one.manifest, one.run, self._node, one.deleted_at)
            for one in self._pods.values()
        ]

    # ------------------------------------------------------------ deciding and acting

    def _decide(self, now: float) -> None:
        self._decided = self._known()
        view = JobView(
            job=self._job,
            plans=self._board.plans,
            pods=tuple(self._objects()),
            services=self._places.services,
            now=now,
            master_image=_IMAGE,
        )
        decision = decide(view)
        self._look_at = None if decision.look_again is None else now + decision.look_again
        if decision.commit is not None:
            self._job = objects.with_status(self._job, decision.commit.status)
        # Names lead somewhere before a pod is told of them.
        services = [one for one in decision.then if isinstance(one, actions.CreateService)]
        self._conclude()
        for action in (*services, *(one for one in decision.then if one not in services)):
            self._act(action, now)
        if self.verdict is not None:
            for one in self._pods.values():
                one.run.stop(now, done=self.verdict.outcome is Outcome.COMPLETE)

    def _conclude(self) -> None:
        """The job has ended where its status says so."""
        if self.phase not in {Phase.SUCCEEDED, Phase.FAILED}:
            return
        well = self.phase is Phase.SUCCEEDED
        conditions = (self._job["status"].get("status") or {}).get("conditions") or ()
        end: Manifest = next((one for one in conditions if one.get("type") == str(self.phase)), {})
        self.verdict = Verdict(
            Outcome.COMPLETE if well else Outcome.FAILED,
            str(end.get("reason") or self.phase),
            str(end.get("message") or ""),
        )

    def _act(self, action: Action, now: float) -> None:
        shared = self._board
        if isinstance(action, actions.CreateService):
            self._places.serve(referents.service(action.manifest))
        elif isinstance(action, actions.DeleteService):
            self._places.close(action.name)
        elif isinstance(action, actions.CreatePod):
            if action.secret is not None:
                drawn = {names.TOKEN_KEY: secrets.token_hex(_TOKEN_BYTES).encode()}
                self._secrets.setdefault(action.secret["metadata"]["name"], drawn)
            self._create(action.manifest, now)
        elif isinstance(action, actions.DeletePod):
            self._delete(action, now)
        elif isinstance(action, actions.CreatePlan):
            shared.add_plan(action.manifest)
        elif isinstance(action, actions.DeletePlan):
            shared.drop_plan(action.name, action.uid)
        elif isinstance(action, actions.WritePlanStatus):
            shared.set_plan_status(action.name, action.uid, action.status)
        else:
            self._told = action.message
            shared.tell(action)

    def _create(self, manifest: Manifest, now: float) -> None:
        name = str(manifest["metadata"]["name"])
        if name in self._pods:
            return
        labels: Mapping[str, str] = manifest["metadata"]["labels"]
        owner = Ownership(f"Pod/{name}", self._release.namespace, Restart.NEVER)
        try:
            plan = pod_plan(manifest, owner, Identity(name, int(labels[names.EDL_INDEX])))
            living = [key for key, one in self._pods.items() if one.run.active]
            self._places.settle(name, place_of(labels), living)
        except AllranksError as error:
            self._told = f"{name} cannot be made: {error.problem.message}"
            return
        attempt = int(labels[names.EDL_RELAUNCHES])
        run = PodRun(plan, attempt, self._context_of(plan), created_at=now)
        self._pods[name] = _Pod(manifest, run)
        self._started(run)

    def _context_of(self, plan: PodPlan) -> Context:
        """What a new pod is told of the others and what it gets, as things stand."""
        context = self._context
        orders = dict(context.surroundings.orders)
        if plan.labels.get(names.EDL_TYPE) == names.EDL_MASTER:
            port = self._places.port(place_of(plan.labels), MASTER_PORT)
            orders[names.ENV_MASTER_FOLDER] = str(self._board.path)
            orders[names.ENV_MASTER_PORT] = str(port)
        living = [one.run for one in self._pods.values() if one.run.active]
        taken = [text for run in living for text in run.context.gpus.values()]
        release = context.surroundings.release
        release = replace(release, secrets={**release.secrets, **self._secrets})
        seen = gpus.rest(plan, gpus.present(os.environ), taken)
        return replace(
            context,
            surroundings=replace(
                context.surroundings,
                release=release,
                addresses=self._places.by_pod,
                orders=orders,
            ),
            names=self._places.names(context.names, self._release.namespace),
            gpus={} if seen is None else {plan.name: seen},
        )

    def _delete(self, action: actions.DeletePod, now: float) -> None:
        one = self._pods.get(action.name)
        if one is None or one.run.uid != action.uid:
            return
        one.deleted_at = now if one.deleted_at is None else one.deleted_at
        done = self.verdict is not None and self.verdict.outcome is Outcome.COMPLETE
        one.run.stop(now, at_once=action.grace_seconds == 0, done=done)
