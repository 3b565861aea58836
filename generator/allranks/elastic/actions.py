"""The actions that a decision asks for, as data.

`decide` returns these and the operator, the local runtime or a test carries them out. Each one is
safe to repeat: a create collides on its name, a delete names a uid, a status write is refused where
somebody wrote first (the job's) or writes what is there already (a plan's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.pods.account import Account
    from allranks.k8s.manifest import Manifest


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a pod; a pod of that name that exists already counts as success.

    Attributes:
        manifest: the pod.
        secret: a Secret to create first, where it does not exist; its creator draws the token that
            it holds under the key `token`. None for no Secret.
        account: the account of a master's pod, created before it; None for an existing one.
    """

    manifest: Manifest
    secret: Manifest | None = None
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class CreateService:
    """Create a Service; a Service of that name that exists already counts as success."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod.

    Attributes:
        name: its name.
        uid: its uid; another pod of the same name is not deleted.
        grace_seconds: how long it may take to end; None for the pod's own setting.
        reason: a clause for logs and Events.
    """

    name: str
    uid: str
    grace_seconds: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Delete a Service of the job; `uid` makes sure that it is this very one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class WriteJobStatus:
    """Write the status of the ElasticJob: the commit of a decision.

    Attributes:
        name: the job's name.
        resource_version: the version that was read; the write is refused where it has changed.
        status: the whole status.
        urgent: whether it changes the desired state; then the actions wait for it. A write that
            only counts pods may be delayed, and the actions may go before it.
    """

    name: str
    resource_version: str
    status: Mapping[str, Any]
    urgent: bool = True


@dataclass(frozen=True, slots=True)
class WritePlanStatus:
    """Write the status of a ScalePlan; `uid` makes sure that it is this very one."""

    name: str
    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreatePlan:
    """Create a ScalePlan; a plan of that name that exists already counts as success."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Delete a ScalePlan; `uid` makes sure that it is this very one."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Record a Kubernetes Event.

    Attributes:
        kind: of the object it is about: ``ElasticJob`` or ``ScalePlan``.
        name: of that object.
        uid: of that object.
        type: ``Normal`` or ``Warning``.
        reason: one word in CamelCase; all of them stand in `events`.
        message: a sentence.
    """

    kind: str
    name: str
    uid: str
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


Action = (
    CreatePod
    | CreateService
    | DeletePod
    | DeleteService
    | WritePlanStatus
    | CreatePlan
    | DeletePlan
    | RecordEvent
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The commit and the actions that follow from a snapshot of a job.

    Attributes:
        commit: the status to write before anything else; None where the job's status is right. If
            it is refused (a conflict), no action is carried out, and the job is decided on again.
        then: the actions after it, in any order.
        requeue_after: seconds until time alone changes the decision; None for never.
    """

    commit: WriteJobStatus | None = None
    then: tuple[Action, ...] = ()
    requeue_after: float | None = None
