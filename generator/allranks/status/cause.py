"""The cause of a wait, in a form that many pods can share.

A thousand pods mostly wait for the same thing. Each names its cause; those with the same cause are
told in one clause with their number: ``a node for 12 pods: of 5 nodes, …``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Priority(IntEnum):
    """The order of causes: those that need a person before those that need time."""

    QUEUE = 0
    CREATION = 1
    ERROR = 2
    NODE = 3
    GATE = 4
    BACK_OFF = 5
    SCHEDULER = 6
    START = 7
    READINESS = 8
    END = 9


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause for which pods wait.

    Attributes:
        order: its priority among causes.
        reason: one word, Kubernetes' own where it has one.
        need: what is missing, up to the pods: ``a node for``.
        detail: the rest of the clause, after the pods: ``: of 5 nodes, …``.
        alone: whether `need` is the whole clause, because no single pods are concerned.
    """

    order: Priority
    reason: str
    need: str
    detail: str = ""
    alone: bool = False

    def clause(self, pods: str) -> str:
        """Return the clause with the pods put in: ``2 pods``, ``it``."""
        return f"{self.need}{self.detail}" if self.alone else f"{self.need} {pods}{self.detail}"
