"""The local run of one elastic job: observe, decide and act until it ends.

The decisions are those of the operator in a cluster, made by the same function from the same kind
of data. What differs is that nobody else writes here: a write of the job's status is never refused.
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
from allranks.elastic.pods.metadata import MASTER_PORT
from allranks.elastic.snapshot import JobView
from allranks.errors import AllranksError
from allranks.local.controller import ControllerEnd
from allranks.local.elastic import objects, shared_folder
from allranks.local.elastic.network import NetworkAddresses, place_of
from allranks.local.elastic.shared_folder import SharedFolder
from allranks.local.plan import expand
from allranks.local.plan.expand import Ownership, PodIdentity, pod_plan
from allranks.local.plan.model import BarePlan, ReleasePlan, Restart
from allranks.local.pod import gpus
from allranks.local.pod.runner import PodRun, RunSettings
from allranks.model.status import Phase
from allranks.status.controllers import ControllerOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.elastic.actions import Action
    from allranks.k8s.manifest import Manifest
    from allranks.local.host.addresses import Block
    from allranks.local.plan.model import PodPlan

# How often the folder is looked at: plans come from other processes.
_LOOK_SECONDS = 0.2
# A job that has not settled after so many decisions is looked at again later.
_ROUNDS = 20
_TOKEN_BYTES = 32
_IMAGE = "local"  # no image is used here; a container without one would be refused elsewhere


@dataclass(slots=True)
class _Pod:
    """A pod and its object, as the API server would have it."""

    manifest: Manifest
    run: PodRun
    deleted_at: float | None = None


class ElasticRun:
    """Runs one ElasticJob.

    Args:
        release: what it belongs to.
        context: what all pods of the run share.
        block: the addresses of the run.
        on_start: is told of each pod that is made.
    """

    def __init__(
        self,
        release: ReleasePlan,
        context: RunSettings,
        block: Block,
        on_start: Callable[[PodRun], None],
    ) -> None:
        manifest = release.elastic or {}
        now = time.time()
        memory = shared_folder.memory(context.folder, release.name)
        self._release = release
        self._context = context
        self._started = on_start
        self._node = socket.gethostname()
        self._places = NetworkAddresses(block)
        self._board = SharedFolder(
            context.folder.path / shared_folder.FOLDER, release.namespace, memory
        )
        self._job = objects.complete(manifest, release.namespace, str(uuid.uuid4()), now)
        self._pods: dict[str, _Pod] = {}
        self._decided: object = None
        self._look_at: float | None = None
        self._last_message = ""
        self._secrets: dict[str, dict[str, bytes]] = {}
        self.verdict: ControllerEnd | None = None
        if self._suspended:
            self._board.suspend()

    # ------------------------------------------------------------ what is asked of it

    def step(self, now: float) -> None:
        """Observe, decide and act once."""
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
        """Tell the job to end, before its pods are stopped; its master passes it on."""
        if self.verdict is None:
            self._job = objects.mark_deleted(self._job, now)
            self._board.write(self._job, self._objects())

    @property
    def wake_at(self) -> float | None:
        """The time to call `step` again though nothing happens; None for never."""
        if self.verdict is not None:
            return None
        look_at = time.time() + _LOOK_SECONDS
        return look_at if self._look_at is None else min(look_at, self._look_at)

    @property
    def fingerprint(self) -> tuple[object, ...]:
        """A value that changes whenever the run does."""
        return (tuple(self._pods), self._job["metadata"]["resourceVersion"], self.verdict)

    @property
    def phase(self) -> Phase:
        """The phase in the job's status."""
        phase = (self._job.get("status") or {}).get("phase", "")
        return Phase(phase) if phase in list(Phase) else Phase.PENDING

    @property
    def message(self) -> str:
        """The message of the job: how many pods run, and what happened last."""
        conditions = (self._job.get("status") or {}).get("conditions") or ()
        message = next(
            (condition["message"] for condition in conditions if condition.get("type") == "Ready"),
            "",
        )
        return "; ".join(part for part in (message, self._last_message) if part)

    def current_release(self) -> ReleasePlan:
        """The release, made of the pods that are there."""
        plans = (BarePlan(pod.run.plan.name, (pod.run.plan,)) for pod in self._pods.values())
        return replace(self._release, controllers=tuple(plans))

    # ------------------------------------------------------------ looking

    @property
    def _suspended(self) -> bool:
        return (self._job.get("spec") or {}).get("suspend") is True

    def _heed(self) -> None:
        """Take what others have written."""
        suspended = self._board.suspended
        if suspended != self._suspended:
            self._job = objects.with_spec(self._job, suspend=suspended)
        if self._board.read_plans():
            self._decided = None

    def _forget(self) -> None:
        """Drop the deleted pods that have ended."""
        if self.verdict is None:
            for name, pod in tuple(self._pods.items()):
                if pod.deleted_at is not None and not pod.run.active:
                    del self._pods[name]

    def _is_news(self, now: float) -> bool:
        """Whether anything has changed since the last decision, if only the time."""
        if self.verdict is not None:
            return False
        due = self._look_at is not None and now >= self._look_at
        return due or self._decided != self._current_state()

    def _current_state(self) -> object:
        pods = (
            (name, pod.deleted_at, pod.run.phase, tuple(pod.run.states.values()))
            for name, pod in self._pods.items()
        )
        return (*pods, self._job["metadata"]["resourceVersion"], self._board.plans)

    def _objects(self) -> list[Manifest]:
        return [
            objects.pod(pod.manifest, pod.run, self._node, pod.deleted_at)
            for pod in self._pods.values()
        ]

    # ------------------------------------------------------------ deciding and acting

    def _decide(self, now: float) -> None:
        self._decided = self._current_state()
        view = JobView(
            job=self._job,
            plans=self._board.plans,
            pods=tuple(self._objects()),
            services=self._places.services,
            now=now,
            master_image=_IMAGE,
        )
        decision = decide(view)
        self._look_at = None if decision.requeue_after is None else now + decision.requeue_after
        if decision.commit is not None:
            self._job = objects.with_status(self._job, decision.commit.status)
        # Names lead somewhere before a pod is told of them.
        services = [action for action in decision.then if isinstance(action, actions.CreateService)]
        self._conclude()
        for action in (*services, *(other for other in decision.then if other not in services)):
            self._act(action, now)
        if self.verdict is not None:
            for pod in self._pods.values():
                pod.run.stop(now, done=self.verdict.outcome is ControllerOutcome.COMPLETE)

    def _conclude(self) -> None:
        """End the run where the job's status says that it has ended."""
        if self.phase not in {Phase.SUCCEEDED, Phase.FAILED}:
            return
        well = self.phase is Phase.SUCCEEDED
        conditions = (self._job["status"].get("status") or {}).get("conditions") or ()
        end: Manifest = next(
            (condition for condition in conditions if condition.get("type") == str(self.phase)), {}
        )
        self.verdict = ControllerEnd(
            ControllerOutcome.COMPLETE if well else ControllerOutcome.FAILED,
            str(end.get("reason") or self.phase),
            str(end.get("message") or ""),
        )

    def _act(self, action: Action, now: float) -> None:
        shared = self._board
        if isinstance(action, actions.CreateService):
            self._places.serve(expand.service(action.manifest))
        elif isinstance(action, actions.DeleteService):
            self._places.close(action.name)
        elif isinstance(action, actions.CreatePod):
            if action.secret is not None:
                token = {names.TOKEN_KEY: secrets.token_hex(_TOKEN_BYTES).encode()}
                self._secrets.setdefault(action.secret["metadata"]["name"], token)
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
            self._last_message = action.message
            shared.tell(action)

    def _create(self, manifest: Manifest, now: float) -> None:
        name = str(manifest["metadata"]["name"])
        if name in self._pods:
            return
        labels: Mapping[str, str] = manifest["metadata"]["labels"]
        owner = Ownership(f"Pod/{name}", self._release.namespace, Restart.NEVER)
        try:
            plan = pod_plan(manifest, owner, PodIdentity(name, int(labels[names.EDL_INDEX])))
            living = [key for key, pod in self._pods.items() if pod.run.active]
            self._places.settle(name, place_of(labels), living)
        except AllranksError as error:
            self._last_message = f"{name} cannot be made: {error.problem.message}"
            return
        attempt = int(labels[names.EDL_RELAUNCHES])
        run = PodRun(plan, attempt, self._context_of(plan), created_at=now)
        self._pods[name] = _Pod(manifest, run)
        self._started(run)

    def _context_of(self, plan: PodPlan) -> RunSettings:
        """The context of a new pod: the other pods, and its GPUs."""
        context = self._context
        orders = dict(context.surroundings.orders)
        if plan.labels.get(names.EDL_TYPE) == names.EDL_MASTER:
            port = self._places.port(place_of(plan.labels), MASTER_PORT)
            orders[names.ENV_MASTER_FOLDER] = str(self._board.path)
            orders[names.ENV_MASTER_PORT] = str(port)
        living = [pod.run for pod in self._pods.values() if pod.run.active]
        allocated = [text for run in living for text in run.context.gpus.values()]
        release = context.surroundings.release
        release = replace(release, secrets={**release.secrets, **self._secrets})
        visible = gpus.rest(plan, gpus.present(os.environ), allocated)
        return replace(
            context,
            surroundings=replace(
                context.surroundings,
                release=release,
                addresses=self._places.by_pod,
                orders=orders,
            ),
            names=self._places.names(context.names, self._release.namespace),
            gpus={} if visible is None else {plan.name: visible},
        )

    def _delete(self, action: actions.DeletePod, now: float) -> None:
        pod = self._pods.get(action.name)
        if pod is None or pod.run.uid != action.uid:
            return
        pod.deleted_at = now if pod.deleted_at is None else pod.deleted_at
        is_complete = (
            self.verdict is not None and self.verdict.outcome is ControllerOutcome.COMPLETE
        )
        pod.run.stop(now, at_once=action.grace_seconds == 0, done=is_complete)
