"""How long to wait: between two looks, before a request is sent again, and at most."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from allranks import retry
from allranks.errors import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from allranks.azure.ports import Arm

# Tests against a fake shorten every wait by this factor.
ENV_PACE = "ALLRANKS_AZURE_PACE"
_UNAUTHORIZED = 401
_LOGINS = 2  # how often a login that is refused is made anew


@dataclass(frozen=True, slots=True)
class Pace:
    """The pace of requests: how long each wait is, and how often something is looked at.

    Attributes:
        poll: seconds between two looks at what goes on.
        looks: how many looks it takes at most until what was made is shown; Azure may answer 404
            for a while.
        conflicts: how many looks at most something else may go on with a resource.
        first: seconds before the first repetition of a request; doubled each time.
        most: seconds before a repetition at most, where Azure does not say how long.
        patience: seconds for which a request is repeated in all.
        scale: the factor by which all waits are shortened, those that Azure asks for too.
    """

    poll: float = 10.0
    looks: int = 12
    conflicts: int = 180
    first: float = 1.0
    most: float = 60.0
    patience: float = 900.0
    scale: float = 1.0

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds * self.scale)


def pace() -> Pace:
    """The pace of this process."""
    return Pace(scale=float(os.environ.get(ENV_PACE) or 1.0))


class _Patient:
    """Sends a request again that Azure puts off."""

    def __init__(self, arm: Arm, waits: Pace, tell: Callable[[str], None]) -> None:
        self._arm = arm
        self._waits = waits
        self._tell = tell

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._arm, name)

        def call(*args: Any, **parameters: Any) -> Any:
            return self._repeat(lambda: method(*args, **parameters))

        return call

    def _repeat(self, request: Callable[[], Any]) -> Any:
        failures = logins = 0
        total = 0.0
        while True:
            try:
                return request()
            except BusyError as error:
                failures += 1
                logins += error.status == _UNAUTHORIZED
                wait = retry.pause(failures, self._waits.first, self._waits.most, error.retry_after)
                total += wait
                if logins > _LOGINS or total > self._waits.patience:
                    raise
                self._tell(f"{error.problem.message}; asked again in {wait:.0f} s")
                self._waits.sleep(wait)


def patient(arm: Arm, waits: Pace, tell: Callable[[str], None]) -> Arm:
    """The same, but that a request which Azure puts off is sent again, as long as it asks.

    Every request of `Arm` may be sent twice, so also one that got no answer is.

    Args:
        arm: Azure Resource Manager.
        waits: how long to wait.
        tell: gets a sentence for each repetition.
    """
    return cast("Arm", _Patient(arm, waits, tell))
