"""What is to be done, as data: each action is one request, which may be sent twice."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allranks.azure.desired import (
        DesiredAccount,
        DesiredCluster,
        DesiredGroup,
        DesiredPool,
    )
    from allranks.errors import Problem

    Body = DesiredAccount | DesiredCluster | DesiredGroup | DesiredPool | int | None


class Verb(StrEnum):
    """What an action does."""

    MAKE = "make"
    CHANGE = "change"
    REMOVE = "remove"
    WAIT = "wait"  # another operation on it goes on
    NONE = "exists"


class ResourceKind(StrEnum):
    """The kind of a resource of Azure's."""

    PROVIDER = "resource provider"
    GROUP = "resource group"
    CLUSTER = "AKS cluster"
    POOL = "node pool"
    ACCOUNT = "storage account"
    SOFT_DELETE = "soft delete"
    SHARE = "file share"
    CONTAINER = "blob container"


MARKS = {Verb.MAKE: "+", Verb.CHANGE: "~", Verb.REMOVE: "-", Verb.WAIT: "…", Verb.NONE: " "}


@dataclass(frozen=True, slots=True)
class Action:
    """The change of one resource, a wait for it, or nothing.

    Attributes:
        verb: what.
        kind: what it is.
        name: its name.
        detail: what it is like, or what differs, in words.
        body: what is sent.
        is_ready: whether what it stands in is there, so that it can be done now.
        is_alone: of a change, whether its tags are all that differs.
        failure: why the last operation on it failed; None where it did not.
        takes_data: whether data goes with it for good.
    """

    verb: Verb
    kind: ResourceKind
    name: str
    detail: str = ""
    body: Body = None
    is_ready: bool = True
    is_alone: bool = False
    failure: str | None = None
    takes_data: bool = False

    @property
    def key(self) -> tuple[ResourceKind, str]:
        """The kind and the name of its resource."""
        return self.kind, self.name

    def __str__(self) -> str:
        """The action in a line."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{self.verb} {self.kind} {self.name}{detail}"

    def as_dict(self) -> dict[str, Any]:
        """The action as JSON-ready data."""
        return {
            "action": str(self.verb),
            "kind": str(self.kind),
            "name": self.name,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions for all resources that an azure.yaml names.

    Attributes:
        entries: each thing with what becomes of it, in the order in which it is done.
        refusals: why it cannot be done; nothing is, where there are some.
        notes: what a person should know.
    """

    entries: tuple[Action, ...]
    refusals: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that change something or wait."""
        return tuple(entry for entry in self.entries if entry.verb is not Verb.NONE)

    @property
    def removals(self) -> tuple[Action, ...]:
        """The actions that remove something."""
        return tuple(entry for entry in self.entries if entry.verb is Verb.REMOVE)

    def as_dict(self) -> dict[str, Any]:
        """The plan as JSON-ready data."""
        return {
            "entries": [entry.as_dict() for entry in self.entries],
            "problems": [problem.as_dict() for problem in self.refusals],
            "notes": list(self.notes),
        }
