"""Kubernetes' back-off of failed pods and containers, shorter because nobody else waits here."""

from __future__ import annotations

from dataclasses import dataclass

from allranks import retry

DEFAULT_SCALE = 0.1

_BASE = 10.0
_JOB_MAX = 600.0
_CONTAINER_MAX = 300.0
# A container that ran this long starts again as if it had never failed.
_CONTAINER_RESET = 600.0


@dataclass(frozen=True, slots=True)
class JobBackoff:
    """Kubernetes' back-off, scaled."""

    scale: float = DEFAULT_SCALE

    def job(self, failures: int) -> float:
        """Seconds from the last failed pod to its replacement, after failures in a row."""
        return retry.delay(failures, _BASE, _JOB_MAX) * self.scale

    def container(self, ends: int) -> float:
        """Seconds from a container's end to its next start, after so many ends in a row."""
        return retry.delay(ends - 1, _BASE, _CONTAINER_MAX) * self.scale

    def forgets(self, ran: float) -> bool:
        """Whether a container ran long enough for its back-off to be reset."""
        return ran >= _CONTAINER_RESET * self.scale
