"""What is to be done, as data.

`decide` returns these and the watcher, the local runtime or a test carries them out. Each one is
safe to repeat: a create collides on its name, a delete names a uid, a status write is refused where
somebody wrote first (the job's) or writes what is there already (a plan's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.elastic.pods.account import Account
    from allranks.model.manifest import Manifest


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Make a pod; where one of its name is there already, that is as good.

    Attributes:
        manifest: the pod.
        secret: a Secret that is made first, where it is not there; who makes it draws the token
            that it holds under the key `token`. None for none.
        account: what a master runs as, which is made before its pod; None for what is there.
    """

    manifest: Manifest
    secret: Manifest | None = None
    account: Account | None = None


@dataclass(frozen=True, slots=True)
class CreateService:
    """Make a Service; where one of its name is there already, that is as good."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete a pod.

    Attributes:
        name: its name.
        uid: of the very pod; another one of the name stays.
        grace_seconds: how long it may take to end; None for what the pod itself says.
        why: a clause for logs and Events.
    """

    name: str
    uid: str
    grace_seconds: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class DeleteService:
    """Delete a Service of the job's; `uid` of the very Service."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class WriteJobStatus:
    """Write the status of the ElasticJob: the commit.

    Attributes:
        name: the job's name.
        resource_version: the write is refused where the job has another by now.
        status: the whole status.
        urgent: whether it changes what pods there are to be. Then what follows waits for it. One
            that only counts pods may be put off, and what follows may be done without it.
    """

    name: str
    resource_version: str
    status: Mapping[str, Any]
    urgent: bool = True


@dataclass(frozen=True, slots=True)
class WritePlanStatus:
    """Write the status of a ScalePlan; `uid` of the very plan."""

    name: str
    uid: str
    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CreatePlan:
    """Make a ScalePlan; where one of its name is there already, that is as good."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeletePlan:
    """Delete a ScalePlan; `uid` of the very plan."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Say something in a Kubernetes Event.

    Attributes:
        kind: of the object it is about: ``ElasticJob`` or ``ScalePlan``.
        name: of that object.
        uid: of that object.
        type: ``Normal`` or ``Warning``.
        reason: one word in CamelCase; all of them stand in `reasons`.
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
    | Tell
)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done now.

    Attributes:
        commit: what must be written before anything else; None where the job's status is right.
            Refused (a conflict): nothing of `then` is done, and the job is looked at again.
        then: what to do after it, in any order.
        look_again: seconds until time alone changes something; None for never.
    """

    commit: WriteJobStatus | None = None
    then: tuple[Action, ...] = ()
    look_again: float | None = None
