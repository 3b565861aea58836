"""Who writes a sweep that several machines can reach: a lease, which who is killed loses.

A lease ends by the database's clock unless its holder goes on renewing it. Whoever looks from the
holder's own machine need not wait for that: it sees that the process is gone.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from allranks.sweep.storage import processes

# How long a lease lasts that is not renewed, and how often it is, in seconds.
SECONDS = 15.0
RENEWED_EVERY = 4.0


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write.

    Attributes:
        holder: a name that no other writer has; "" of a lease that was given back.
        until: when it ends, in seconds since 1970 by the database's clock.
        host: the holder's machine, for a person.
        pid: the holder's process.
        kernel: which running kernel and which process numbers `pid` is of.
        begun: when the process began, in the kernel's ticks: a number may be another's by now.
    """

    holder: str = ""
    until: float = 0.0
    host: str = ""
    pid: int = 0
    kernel: str = ""
    begun: str = ""

    @classmethod
    def mine(cls) -> Lease:
        """A lease for this process, not in force yet."""
        pid = os.getpid()
        return cls(
            uuid.uuid4().hex,
            0.0,
            socket.gethostname(),
            pid,
            processes.kernel(),
            processes.begun(pid),
        )

    @classmethod
    def parse(cls, text: str | None) -> Lease:
        """A lease as `text` wrote it; one that was given back where it cannot be read."""
        try:
            found: dict[str, Any] = json.loads(text or "{}")
            kept = {key: found[key] for key in cls.__slots__ if key in found}
            return cls(**{**kept, "until": float(kept.get("until", 0.0))})
        except (ValueError, TypeError, AttributeError, RecursionError):
            return cls()

    def text(self) -> str:
        """For `parse`."""
        return json.dumps(asdict(self), sort_keys=True)

    def renewed(self, now: float) -> Lease:
        """The lease as it is in force from now on."""
        return replace(self, until=now + SECONDS)

    def is_held(self, now: float) -> bool:
        """Whether somebody holds it.

        Args:
            now: by the database's clock.
        """
        return bool(self.holder) and now < self.until and not self.is_orphan()

    def is_orphan(self) -> bool:
        """Whether its process was one of this machine's, and is gone."""
        return processes.has_ended(self.kernel, self.pid, self.begun)

    def is_near(self) -> bool:
        """Whether its process is one of this machine's, so that it can be seen."""
        return self.kernel == processes.kernel() != ""

    def __str__(self) -> str:
        """Who holds it, for a person."""
        return f"process {self.pid} on {self.host}"
